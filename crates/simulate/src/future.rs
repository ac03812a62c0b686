//! What is known of a trace that has been decoded to its end.

use crate::reference::Reference;

/// The next use of a page that is not used again.
pub(crate) const NEVER: u32 = u32::MAX;

/// For each reference the position of the next one to the same page, or [`NEVER`]. At most 2^32 - 1 references.
pub(crate) fn next_uses(trace: &[Reference]) -> Vec<u32> {
    let pages = pages(trace);
    let mut seen = vec![NEVER; pages];
    let mut next = vec![NEVER; trace.len()];
    for (position, reference) in trace.iter().enumerate().rev() {
        let page = reference.page() as usize;
        next[position] = seen[page];
        seen[page] = position as u32;
    }
    next
}

/// One more than the highest page number.
pub(crate) fn pages(trace: &[Reference]) -> usize {
    let highest = trace.iter().map(|reference| reference.page()).max();
    highest.map_or(0, |page| page as usize + 1)
}
