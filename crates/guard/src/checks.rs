//! The bytes on an object's pages that are not its own: filled when it is made, looked at when it is given back and at the
//! end. What changed there was written before or behind it.

use crate::careful;
use crate::page;
use crate::placement::Placed;
use crate::plain;

/// As in the paper that this part goes back to.
const PADDING: u8 = 0xaa;
const WORD: usize = size_of::<u64>();
/// Bytes that are looked at together where they may go away.
const PIECE: usize = 1024;

/// Fills what lies around an object on its pages, which are accessible.
pub(crate) fn fill(placed: &Placed) {
    let first = placed.first_page();
    // SAFETY: both ranges are on the object's pages and hold nothing of the object's.
    unsafe {
        plain::fill(first as *mut u8, PADDING, placed.start - first);
        let end = placed.end();
        plain::fill(end as *mut u8, PADDING, placed.guard - end);
    }
}

/// Of an object about to be made on a page full of padding: zeros.
pub(crate) fn clear(placed: &Placed) {
    // SAFETY: the object's own bytes, which nobody has seen yet.
    unsafe { plain::fill(placed.start as *mut u8, 0, placed.bytes) };
}

/// An object that is given back: what it held is gone, and its page is full of padding.
pub(crate) fn fill_object(placed: &Placed) {
    // SAFETY: the object's own bytes, of which nobody is to make use any more.
    unsafe { plain::fill(placed.start as *mut u8, PADDING, placed.bytes) };
}

/// Fills a whole page, of which an object may take a part then.
pub(crate) fn fill_page(page: *mut u8) {
    // SAFETY: callers pass a page to write to.
    unsafe { plain::fill(page, PADDING, page::bytes()) };
}

/// Fills a part of a page.
pub(crate) fn fill_again(page: *mut u8, offset: usize, bytes: usize) {
    // SAFETY: callers pass a page to write to, and a part of it.
    unsafe { plain::fill(page.add(offset), PADDING, bytes) };
}

/// Bytes that the processor fetches at a time, and how many such lines are asked for in one step.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
#[cfg(target_arch = "x86_64")]
const LINES: usize = 8;

/// Asks for an object's first page to be in the processor's caches soon: up to the object, and a few lines of it.
pub(crate) fn fetch(placed: &Placed) {
    #[cfg(target_arch = "x86_64")]
    for step in (placed.first_page()..placed.start).step_by(LINE * LINES) {
        use std::arch::x86_64::_MM_HINT_T0;
        for line in 0..LINES {
            let at = (step + line * LINE) as *const i8;
            // SAFETY: reads nothing that the program could tell, whatever the address.
            unsafe { std::arch::x86_64::_mm_prefetch::<_MM_HINT_T0>(at) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = placed;
}

/// The byte nearest to the object that something wrote over, if any did.
pub(crate) fn damage(placed: &Placed) -> Option<usize> {
    let end = placed.end();
    // SAFETY: these bytes are on the object's pages, which are accessible until it is given back, by our caller.
    let (before, behind) = unsafe {
        let first = placed.first_page();
        (
            std::slice::from_raw_parts(first as *const u8, placed.start - first),
            std::slice::from_raw_parts(end as *const u8, placed.guard - end),
        )
    };
    let is_other = |byte: &u8| *byte != PADDING;
    if let Some(at) = behind.iter().position(is_other) {
        return Some(end + at);
    }
    if is_all_padding(before) {
        return None;
    }
    let at = before.iter().rposition(is_other)?;
    Some(placed.first_page() + at)
}

/// As [`damage`], of an object that another thread may give back meanwhile: what can no longer be read is none.
pub(crate) fn damage_if_there(placed: &Placed) -> Option<usize> {
    let (mut before, mut behind) = (None, None);
    visit_others(placed.first_page(), placed.start, &mut |at| {
        before = Some(at)
    });
    visit_others(placed.end(), placed.guard, &mut |at| {
        behind.get_or_insert(at);
    });
    behind.or(before)
}

/// Visits the bytes from `from` to `to` that are no padding, as far as they can be read.
fn visit_others(from: usize, to: usize, visit: &mut dyn FnMut(usize)) {
    let mut piece = [PADDING; PIECE];
    for start in (from..to).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min(to - start)];
        let bytes = careful::read(piece, start);
        if !is_all_padding(&piece[..bytes]) {
            let others = piece[..bytes].iter().enumerate();
            others
                .filter(|(_, byte)| **byte != PADDING)
                .for_each(|(at, _)| visit(start + at));
        }
    }
}

/// There may be a page of it with each small object: where the processor has wide registers, by these.
fn is_all_padding(bytes: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has them.
        return unsafe { are_wide_words_padding(bytes) };
    }
    are_words_padding(bytes)
}

/// As [`are_words_padding`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn are_wide_words_padding(bytes: &[u8]) -> bool {
    are_words_padding(bytes)
}

#[inline(always)]
fn are_words_padding(bytes: &[u8]) -> bool {
    let words = bytes.chunks_exact(WORD);
    let rest = words.remainder();
    let different = words.fold(0u64, |different, word| {
        let word = <[u8; WORD]>::try_from(word).unwrap_or_default();
        different | u64::from_ne_bytes(word) ^ u64::from_ne_bytes([PADDING; WORD])
    });
    different == 0 && rest.iter().all(|&byte| byte == PADDING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_changed_byte_around_an_object_is_seen_and_none_inside() {
        let page = page::bytes();
        let mut memory = vec![0u8; 3 * page];
        let guard = page::floor(memory.as_ptr() as usize + 2 * page);
        let placed = Placed::before(guard, 21, 8);
        let base = memory.as_ptr() as usize;
        fill(&placed);
        assert_eq!(damage(&placed), None);
        for address in placed.first_page()..guard {
            let at = address - base;
            let before = memory[at];
            memory[at] = before.wrapping_add(1);
            let is_inside = (placed.start..placed.end()).contains(&address);
            let expected = (!is_inside).then_some(address);
            assert_eq!(damage(&placed), expected, "{address:x}");
            assert_eq!(damage_if_there(&placed), expected, "{address:x}");
            let around = &memory[placed.first_page() - base..placed.start - base];
            assert_eq!(are_words_padding(around), address >= placed.start);
            memory[at] = before;
        }
    }
}
