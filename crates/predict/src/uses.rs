//! How often pages are used, for who has to choose which of them to keep.

use crate::curve::Model;
use crate::strings::Step;

/// Uses of a page that follow each other before so large a part of memory was used are one: whoever has just come in is still there.
const STILL_THERE: usize = 10;

/// How often a page is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageUses {
    /// The number of its address space.
    pub space: u32,
    /// Its first byte.
    pub address: u64,
    /// Uses after the first, each of which would be a swap-in if memory held next to nothing else.
    pub uses: u64,
}

/// Uses of each page, by its number, in memory of so many pages; `None`: it is in none of the steps.
pub(crate) fn count(steps: &[Step], pages: usize, memory_pages: usize) -> Vec<Option<u64>> {
    let still_there = memory_pages / STILL_THERE;
    let mut counted_at: Vec<Option<usize>> = vec![None; pages];
    let mut uses: Vec<Option<u64>> = vec![None; pages];
    for (at, step) in steps.iter().enumerate() {
        let page = step.page as usize;
        if step.gone {
            counted_at[page] = None;
            continue;
        }
        let uses = uses[page].get_or_insert(0);
        match counted_at[page] {
            Some(before) if at - before <= still_there => continue,
            Some(_) => *uses += 1,
            None => {}
        }
        counted_at[page] = Some(at);
    }
    uses
}

impl Model {
    /// How often pages are used by the best guess, as far as it matters with so much memory, bytes: of some pages that stand for
    /// all ([`Model::pages_each`]).
    pub fn uses(&self, memory_bytes: u64) -> Vec<PageUses> {
        self.counted(memory_bytes, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_count_once_while_a_page_is_still_there() {
        // Page 0 at each second step, the others by turns.
        let steps: Vec<Step> = (0..400)
            .map(|at| {
                Step::access(
                    at,
                    if at % 2 == 0 {
                        0
                    } else {
                        1 + (at / 2 % 50) as u32
                    },
                )
            })
            .collect();
        let uses = count(&steps, 60, 100);
        assert_eq!(uses[0], Some(400 / 12 - 1 + 1));
        assert_eq!(uses[1], Some(3), "used four times");
        assert_eq!(uses[59], None, "never");
    }

    #[test]
    fn what_is_made_anew_is_not_used_again() {
        let mut steps = vec![Step::access(0, 0), Step::access(1, 0)];
        steps.insert(1, Step::end(1, 0));
        assert_eq!(count(&steps, 1, 0), [Some(0)]);
    }
}
