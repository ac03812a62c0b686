//! Whether what is read ahead is used: a program may go through an array of blocks and leave most of them out, as who looks at every fourth column
//! of a table. It gets on fast from one block that it wants to the next, while more is read for it than it would read itself. Pure.

/// So many pages at least were passed over,
const LEAST_PASSED: u64 = 4096;
/// and what was seen is halved when there are so many, as programs change.
const MOST_SEEN: u64 = 16 * LEAST_PASSED;

/// Of what was read ahead, how many pages were used and how many were not.
#[derive(Default)]
pub(super) struct Passed {
    used: u64,
    over: u64,
}

impl Passed {
    /// The sweep got on by so many pages.
    pub(super) fn note_used(&mut self, pages: u64) {
        self.used += pages;
        self.forget_some();
    }

    /// It jumped over so many that had been read ahead.
    pub(super) fn note_over(&mut self, pages: u64) {
        self.over += pages;
        self.forget_some();
    }

    fn forget_some(&mut self) {
        if self.used + self.over > MOST_SEEN {
            self.used /= 2;
            self.over /= 2;
        }
    }

    /// More was passed over than used.
    pub(super) fn is_most(&self) -> bool {
        self.over >= LEAST_PASSED && self.over > self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of so many pages, between which so many are left out, until that is most; how many were gone through.
    fn blocks(used: u64, over: u64) -> Option<u64> {
        let mut passed = Passed::default();
        (1..=1000).find(|_| {
            (0..used).for_each(|_| passed.note_used(1));
            passed.note_over(over);
            passed.is_most()
        })
    }

    #[test]
    fn who_leaves_most_out_is_not_helped() {
        assert_eq!(blocks(360, 1080), Some(4));
        assert_eq!(blocks(360, 370), Some(12));
        assert_eq!(blocks(360, 350), None);
        assert_eq!(blocks(10_000, 2000), None);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut passed = Passed::default();
        passed.note_used(1 << 30);
        (0..100).for_each(|_| passed.note_over(4096));
        assert!(passed.is_most());
    }
}
