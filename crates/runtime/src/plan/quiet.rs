//! When the program's faults need not be heard. To tell of each costs about a microsecond, a twelfth of what a page costs that comes back
//! from zram, which is lost where nothing is read ahead and only locks are looked after. Pure.
//!
//! As soon as nothing came of what was heard, only a short burst of faults is heard now and then: enough to see that still as many of
//! them are where they were. For a while, longer each time; then all are heard again, as what came back in between is not known.
//!
//! Time is counted in pages that came into memory.

/// All are heard until so many times as many came as memory holds,
const MEMORIES: u64 = 2;
/// (where that takes longer, it counts as so many times as many),
const MOST_MEMORIES: u64 = 8;
/// and of each sweep that stands for a lock, so many rounds.
pub(super) const ROUNDS: u64 = 2;
/// Then few are, for so many times as long as that took; twice as long each time, at most so many times.
const FIRST_TIMES: u64 = 2;
const MOST_TIMES: u64 = 8;
/// So many windows make up that time.
const WINDOWS: u64 = 2;
/// Of a sweep that had at least one of so many faults,
const LEAST_SHARE: u64 = 16;
/// more than one in so many must be left.
const FEWER: u128 = 2;
/// Of so many faults at least it can be told.
const LEAST_HEARD: u64 = 256;

/// What was heard: how many faults, and how many of them were in each of some places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard<const PLACES: usize> {
    all: u64,
    of: [u64; PLACES],
}

impl<const PLACES: usize> Heard<PLACES> {
    const NOTHING: Self = Self {
        all: 0,
        of: [0; PLACES],
    };

    fn add(&mut self, place: Option<usize>) {
        self.all += 1;
        if let Some(of) = place.and_then(|place| self.of.get_mut(place)) {
            *of += 1;
        }
    }

    /// Whether some place that had its part before has much less of it now.
    fn lacks(&self, before: &Self) -> bool {
        let mut places = self.of.iter().zip(before.of);
        places.any(|(&now, then)| {
            let had_part = then * LEAST_SHARE >= before.all;
            let parts = [(now, before.all), (then, self.all)];
            let [now, then] = parts.map(|(of, all)| u128::from(of) * u128::from(all));
            had_part && then > 0 && now * FEWER < then
        })
    }
}

/// How much is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State<const PLACES: usize> {
    All,
    Bursts {
        /// When this began,
        since: u64,
        /// and a window of it.
        window: u64,
        /// All faults were heard for so long before that,
        length: u64,
        /// and were these.
        before: Heard<PLACES>,
    },
}

/// How much is heard, of sweeps at so many places.
pub(super) struct Quiet<const PLACES: usize> {
    state: State<PLACES>,
    /// All are heard since then, or since something last happened.
    since: u64,
    heard: Heard<PLACES>,
    /// So many times as long only bursts will be heard.
    times: u64,
}

/// What is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Bursts are enough from here on.
    Begins,
    /// All faults are to be heard from here on.
    Ends,
}

impl<const PLACES: usize> Quiet<PLACES> {
    pub(super) const NEW: Self = Self {
        state: State::All,
        since: 0,
        heard: Heard::NOTHING,
        times: FIRST_TIMES,
    };

    /// A fault was heard, of the sweep at this place or of none.
    pub(super) fn hear(&mut self, place: Option<usize>) {
        self.heard.add(place);
    }

    /// Faults in that place, of those that were heard since something last happened.
    pub(super) fn heard_of(&self, place: usize) -> u64 {
        self.heard.of.get(place).copied().unwrap_or(0)
    }

    /// Only bursts are heard.
    pub(super) fn is_on(&self) -> bool {
        self.state != State::All
    }

    /// Something happens for which all faults are needed.
    pub(super) fn is_disturbed(&mut self, now: u64) -> Option<Turn> {
        self.times = FIRST_TIMES;
        self.hear_all(now)
    }

    /// Nothing does, at that time; so many pages fit into memory, and `is_enough`: of each sweep enough was heard.
    pub(super) fn step(&mut self, now: u64, memory: u64, is_enough: bool) -> Option<Turn> {
        match &mut self.state {
            State::All => {
                let length = now.saturating_sub(self.since);
                if !is_enough || length < MEMORIES * memory {
                    return None;
                }
                let before = std::mem::replace(&mut self.heard, Heard::NOTHING);
                self.state = State::Bursts {
                    since: now,
                    window: now,
                    length: length.min(MOST_MEMORIES * memory),
                    before,
                };
                Some(Turn::Begins)
            }
            State::Bursts {
                since,
                window,
                length,
                before,
            } => {
                let is_over = now.saturating_sub(*since) >= self.times * *length;
                let windows = now.saturating_sub(*window) * WINDOWS / (*length).max(1);
                if windows >= 1 && self.heard.all >= LEAST_HEARD {
                    if self.heard.lacks(before) {
                        return self.is_disturbed(now);
                    }
                    *window = now;
                    self.heard = Heard::NOTHING;
                }
                if is_over {
                    self.times = (2 * self.times).min(MOST_TIMES);
                    return self.hear_all(now);
                }
                None
            }
        }
    }

    fn hear_all(&mut self, now: u64) -> Option<Turn> {
        let was_on = self.is_on();
        self.state = State::All;
        self.since = now;
        self.heard = Heard::NOTHING;
        was_on.then_some(Turn::Ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 1000;

    /// Faults, of which these many in a hundred are of the sweep at the first place, until there is a turn; of bursts every fourth hundred is heard.
    /// How many there were.
    fn until_turn(quiet: &mut Quiet<2>, now: &mut u64, of_sweep: u64, turn: Turn) -> u64 {
        let began = *now;
        for fault in 0..1_000_000 {
            *now += 1;
            if !quiet.is_on() || fault / 100 % 4 == 0 {
                // Some 38 % of the numbers lie between two that follow: spread, and the same each time.
                let is_of_sweep = fault * 61 % 100 < of_sweep;
                quiet.hear(is_of_sweep.then_some(0));
            }
            if let Some(seen) = quiet.step(*now, MEMORY, true) {
                assert_eq!(seen, turn);
                return *now - began;
            }
        }
        panic!("nothing changes");
    }

    #[test]
    fn as_long_as_all_goes_on_less_and_less_is_heard() {
        let (mut quiet, mut now) = (Quiet::NEW, 0);
        let lengths = [2, 4, 8, 8].map(|_| {
            assert_eq!(until_turn(&mut quiet, &mut now, 50, Turn::Begins), 2000);
            until_turn(&mut quiet, &mut now, 50, Turn::Ends)
        });
        assert_eq!(lengths, [4000, 8000, 16_000, 16_000]);
    }

    #[test]
    fn a_sweep_that_gets_slower_is_heard_of() {
        let (mut quiet, mut now) = (Quiet::NEW, 0);
        for _ in 0..3 {
            until_turn(&mut quiet, &mut now, 50, Turn::Begins);
            until_turn(&mut quiet, &mut now, 50, Turn::Ends);
        }
        until_turn(&mut quiet, &mut now, 50, Turn::Begins);
        assert_eq!(until_turn(&mut quiet, &mut now, 10, Turn::Ends), 1000);
        // From then on it is watched as closely as in the beginning.
        until_turn(&mut quiet, &mut now, 10, Turn::Begins);
        assert_eq!(until_turn(&mut quiet, &mut now, 10, Turn::Ends), 4000);
    }

    #[test]
    fn a_sweep_that_had_no_part_cannot_lose_it() {
        let (mut quiet, mut now) = (Quiet::NEW, 0);
        until_turn(&mut quiet, &mut now, 5, Turn::Begins);
        assert_eq!(until_turn(&mut quiet, &mut now, 0, Turn::Ends), 4000);
    }

    #[test]
    fn what_happens_is_heard_and_what_is_not_enough_is_not() {
        let (mut quiet, mut now) = (Quiet::<2>::NEW, 0);
        assert_eq!(quiet.step(10_000, MEMORY, false), None);
        assert_eq!(quiet.is_disturbed(10_000), None);
        assert_eq!(quiet.step(11_000, MEMORY, true), None);
        assert_eq!(quiet.step(12_000, MEMORY, true), Some(Turn::Begins));
        assert_eq!(quiet.is_disturbed(12_001), Some(Turn::Ends));
        until_turn(&mut quiet, &mut now, 50, Turn::Begins);
        assert!(quiet.is_on() && quiet.heard_of(0) == 0);
    }
}
