//! Whether a sweep needs help at all. Behind one that is helped everything is dropped, so that it would look for ever as if
//! nothing stayed in memory, also when it long since would: when other objects have gone, or the program goes through this
//! one so often that the kernel keeps it. So now and then nothing is done for a while, at most a round: if what the sweep
//! leaves is still there when it comes around, it fits. Mostly it is gone long before, and the trial ends early.

/// Rounds until the first trial; twice as many until each next one while it is needed.
const FIRST_ROUNDS: u64 = 4;
const MOST_ROUNDS: u64 = 1 << 20;
/// Looks in a round.
const LOOKS: u64 = 8;

pub(super) struct Trial {
    /// Pages of a round.
    round: u64,
    rounds: u64,
    /// Pages swept since the last trial, or in this one.
    swept: u64,
    is_on: bool,
    next_look: u64,
}

impl Trial {
    pub(super) fn new(round: u64) -> Self {
        Self {
            round: round.max(LOOKS),
            rounds: FIRST_ROUNDS,
            swept: 0,
            is_on: false,
            next_look: 0,
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

    /// The sweep got on. `Some`: it is time to look whether what it passed so many pages ago, first in this trial, is still in
    /// memory.
    pub(super) fn note(&mut self, pages: u64) -> Option<u64> {
        self.swept += pages;
        if !self.is_on {
            if self.swept >= self.rounds * self.round {
                self.begin();
            }
            return None;
        }
        (self.swept >= self.next_look).then(|| {
            self.next_look = self.swept + self.round / LOOKS;
            self.swept.min(self.round)
        })
    }

    fn begin(&mut self) {
        self.is_on = true;
        self.swept = 0;
        self.next_look = self.round / LOOKS;
        self.rounds = (2 * self.rounds).min(MOST_ROUNDS);
    }

    /// What was seen then. `Some`: the trial is over, and whether the object stays in memory by itself.
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

    /// Sweeps page by page; pages stay for so many others. How many pages were swept without help, and what came out.
    fn sweep(trial: &mut Trial, pages: u64, stay: u64) -> (u64, Vec<bool>) {
        let (mut alone, mut found) = (0, Vec::new());
        for _ in 0..pages {
            alone += u64::from(trial.is_on());
            if let Some(ago) = trial.note(1) {
                found.extend(trial.seen(ago <= stay));
            }
        }
        (alone, found)
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
