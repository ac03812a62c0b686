//! Whether a sweep needs help at all. Behind one that is helped everything is dropped, so that it would look for ever as if
//! nothing stayed in memory, also when it long since would: when other objects have gone, or the program goes through this
//! one so often that the kernel keeps it. So now and then nothing is done for a while, at most a round: if the pages that came
//! first are still there when it comes around, it fits. Mostly they are gone long before, and the trial ends early. What lies
//! between them says nothing: a sweep that leaves pages out has never had these in memory.

/// Rounds until the first trial; twice as many until each next one while it is needed.
const FIRST_ROUNDS: u64 = 4;
const MOST_ROUNDS: u64 = 1 << 20;
/// Looks in a round.
const LOOKS: u64 = 8;
/// Pages that are looked at, of those that came first,
const MARKS: usize = 32;
/// in such a part of the way to the first look.
const MARKED: u64 = 4;

pub(super) struct Trial {
    /// Pages of a round.
    round: u64,
    rounds: u64,
    /// Pages swept since the last trial, or in this one.
    swept: u64,
    is_on: bool,
    next_look: u64,
    /// Addresses of pages that had to come, in this trial.
    marks: [usize; MARKS],
    marked: usize,
}

impl Trial {
    pub(super) fn new(round: u64) -> Self {
        Self {
            round: round.max(LOOKS),
            rounds: FIRST_ROUNDS,
            swept: 0,
            is_on: false,
            next_look: 0,
            marks: [0; MARKS],
            marked: 0,
        }
    }

    /// A round is of so many pages from here on.
    pub(super) fn set_round(&mut self, round: u64) {
        self.round = round.max(LOOKS);
    }

    /// Nothing is to be read ahead or dropped.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The sweep got on by so many pages, to one that had to come. True: it is time to look whether the marks are still in memory.
    pub(super) fn note(&mut self, address: usize, pages: u64) -> bool {
        self.swept += pages;
        if !self.is_on {
            if self.swept >= self.rounds * self.round {
                self.begin();
            }
            return false;
        }
        self.mark(address);
        let is_due = self.swept >= self.next_look;
        if is_due {
            self.next_look = self.swept + self.round / LOOKS;
        }
        is_due
    }

    /// Marks are spread over the first part of the way; there is one at least.
    fn mark(&mut self, address: usize) {
        let way = self.round / LOOKS / MARKED;
        let is_its_turn = self.swept * MARKS as u64 >= self.marked as u64 * way;
        if self.marked == 0 || (self.marked < MARKS && self.swept <= way && is_its_turn) {
            self.marks[self.marked] = address;
            self.marked += 1;
        }
    }

    /// Pages that had to come at the beginning of this trial.
    pub(super) fn marks(&self) -> &[usize] {
        &self.marks[..self.marked]
    }

    fn begin(&mut self) {
        self.is_on = true;
        self.swept = 0;
        self.next_look = self.round / LOOKS;
        self.rounds = (2 * self.rounds).min(MOST_ROUNDS);
        self.marked = 0;
    }

    /// What was seen of the marks then. `Some`: the trial is over, and whether the object stays in memory by itself.
    pub(super) fn seen(&mut self, is_in_memory: bool) -> Option<bool> {
        let is_round = self.swept + self.round / LOOKS > self.round;
        if is_in_memory && !is_round {
            return None;
        }
        self.is_on = false;
        self.swept = 0;
        if is_in_memory {
            // Helping it did harm: should it seem to need help again, that must not go on for long.
            self.rounds = FIRST_ROUNDS;
        }
        Some(is_in_memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sweeps one page in so many; pages stay for so many others. How many pages were swept without help, and what came out.
    fn strided(trial: &mut Trial, pages: u64, stay: u64, stride: u64) -> (u64, Vec<bool>) {
        let (mut alone, mut found) = (0, Vec::new());
        for page in (0..pages).step_by(stride as usize) {
            alone += if trial.is_on() { stride } else { 0 };
            if trial.note(page as usize, stride) {
                let marks = trial.marks();
                assert!(
                    marks
                        .iter()
                        .all(|&mark| (mark as u64).is_multiple_of(stride))
                );
                let there = marks.iter().filter(|&&mark| mark as u64 + stay >= page);
                let is_there = 2 * there.count() > marks.len();
                found.extend(trial.seen(is_there));
            }
        }
        (alone, found)
    }

    fn sweep(trial: &mut Trial, pages: u64, stay: u64) -> (u64, Vec<bool>) {
        strided(trial, pages, stay, 1)
    }

    #[test]
    fn of_a_sweep_that_leaves_pages_out_only_those_that_came_are_looked_at() {
        let mut trial = Trial::new(1000);
        assert_eq!(strided(&mut trial, 5000, 1000, 5).1, [true]);
        let mut trial = Trial::new(1000);
        assert_eq!(strided(&mut trial, 5000, 200, 5).1, [false]);
    }

    #[test]
    fn what_does_not_fit_is_tried_seldom_and_shortly() {
        let mut trial = Trial::new(1000);
        let (alone, found) = sweep(&mut trial, 32_000, 200);
        assert_eq!(found, [false; 3], "after 4, 8 and 16 rounds");
        assert!(alone <= 3 * 250, "{alone}");
    }

    #[test]
    fn what_nearly_fits_is_not_taken_for_what_does() {
        let mut trial = Trial::new(1000);
        assert_eq!(sweep(&mut trial, 6000, 800).1, [false]);
    }

    #[test]
    fn what_fits_is_left_alone() {
        let mut trial = Trial::new(1000);
        let (_, found) = sweep(&mut trial, 5000, 1000);
        assert_eq!(found, [true]);
    }

    #[test]
    fn what_fitted_is_tried_again_soon() {
        let mut trial = Trial::new(1000);
        assert_eq!(sweep(&mut trial, 13_000, 1000).1, [true; 2]);
    }

    #[test]
    fn a_short_sweep_is_never_left_alone() {
        let mut trial = Trial::new(1000);
        assert_eq!(sweep(&mut trial, 3999, 0), (0, vec![]));
    }
}
