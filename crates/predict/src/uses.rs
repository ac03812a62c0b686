//! How often pages are used, for who has to choose which of them to keep.

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
    /// Of these, those that were seen, or that a sweep passed over; others are made up.
    pub known: u64,
}

/// Uses of each page, by its number, in memory of so many pages, by those steps that count; `None`: it is in none of these.
pub(crate) fn count(
    steps: &[Step],
    pages: usize,
    memory_pages: usize,
    counts: impl Fn(&Step) -> bool,
) -> Vec<Option<u64>> {
    let still_there = memory_pages / STILL_THERE;
    let mut counted_at: Vec<Option<usize>> = vec![None; pages];
    let mut uses: Vec<Option<u64>> = vec![None; pages];
    let counting = steps.iter().enumerate();
    for (at, step) in counting.filter(|(_, step)| step.gone || counts(step)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_count_once_while_a_page_is_still_there() {
        // Page 0 at each second step, the others by turns.
        let page = |at: u64| {
            if at.is_multiple_of(2) {
                0
            } else {
                1 + at / 2 % 50
            }
        };
        let steps: Vec<Step> = (0..400)
            .map(|at| Step::access(at, page(at) as u32))
            .collect();
        let uses = count(&steps, 60, 100, |_| true);
        assert_eq!(uses[0], Some(33), "each twelfth step, after the first");
        assert_eq!(uses[1], Some(3), "used four times");
        assert_eq!(uses[59], None, "never");
    }

    #[test]
    fn some_steps_may_count_alone() {
        let access = |at: u64| match at.is_multiple_of(2) {
            true => Step::access(at, 0),
            false => Step::made_up(at, 0),
        };
        let steps: Vec<Step> = (0..10).map(access).collect();
        let uses = |counts: fn(&Step) -> bool| count(&steps, 1, 0, counts);
        assert_eq!(uses(|_| true), [Some(9)]);
        assert_eq!(uses(|step| !step.is_made_up()), [Some(4)]);
    }

    #[test]
    fn what_is_made_anew_is_not_used_again() {
        let mut steps = vec![Step::access(0, 0), Step::access(1, 0)];
        steps.insert(1, Step::end(1, 0));
        assert_eq!(count(&steps, 1, 0, |_| true), [Some(0)]);
    }
}
