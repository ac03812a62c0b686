//! What a plan does with pages, and what that leaves to the kernel.

use crate::pace::Use;
use crate::strings::Step;

/// What is done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The kernel does with it what it likes.
    Free,
    /// It is kept in memory as soon as it has come in.
    Locked,
    /// It is read in ahead of its turn and dropped behind it: by which stream.
    Streamed(u32),
}

/// What is left with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Treated {
    /// Swap-ins of free pages.
    pub swap_ins: u64,
    /// Streams that the preloaded library will leave alone: by far too soon what it would drop behind them is wanted again.
    pub left_alone: Vec<u32>,
}

/// The accesses that a plan leaves to the kernel, and how many pages it locks meanwhile: memory that is locked is not there before it is first accessed.
pub(crate) fn uses_beside_locks<'a>(
    steps: &'a [Step],
    of_pages: &'a [Treatment],
) -> impl Iterator<Item = Use<'a>> {
    let mut exists = vec![false; of_pages.len()];
    steps.iter().filter_map(move |step| {
        let page = step.page as usize;
        match of_pages[page] {
            Treatment::Free => Some(Use::Free(step)),
            Treatment::Locked if exists[page] == step.gone => {
                exists[page] = !step.gone;
                Some(if step.gone {
                    Use::Unlocked
                } else {
                    Use::Locked
                })
            }
            Treatment::Streamed(_) => Some(Use::Streamed(step)),
            Treatment::Locked => None,
        }
    })
}

/// The most pages that are locked at once.
pub(crate) fn most_at_once<'a>(uses: impl Iterator<Item = Use<'a>>) -> u64 {
    let (mut locked, mut most) = (0, 0);
    for one in uses {
        match one {
            Use::Free(_) | Use::Streamed(_) => {}
            Use::Locked => locked += 1,
            Use::Unlocked => locked -= 1,
        }
        most = most.max(locked);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_pages_count_while_they_exist() {
        let step = |at, page, gone| {
            let mut step = Step::access(at, page);
            step.gone = gone;
            step
        };
        let steps = [
            step(0, 0, false),
            step(1, 0, false),
            step(2, 0, true),
            step(3, 1, false),
            step(4, 2, false),
        ];
        let locked = [Treatment::Locked, Treatment::Locked, Treatment::Free];
        assert_eq!(most_at_once(uses_beside_locks(&steps, &locked)), 1);
    }
}
