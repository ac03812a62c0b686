//! Whether reading ahead helps: the pace of a sweep with it against the pace without.

use pagewise_abi::status::Why;

use super::pace::Pace;
use super::sweep::Progress;

/// Pages of a measurement without and with it.
const PAGES_BEFORE: u64 = 2048;
const PAGES_WITH: u64 = 4096;
/// As soon as it begins, whether it is clearly slower is seen by so many,
const PAGES_FIRST: u64 = 2048;
/// after so many times as many as are read ahead: as many as lie unlocked in memory, in about. What was filled last is dirty, and to drop a
/// page of it interrupts the program, once (26 us on a virtual machine).
const LEADS_LEFT_OUT: u64 = 4;
/// What takes so many quarters of what the program needs by itself is slower, and no chance.
const CLEARLY_SLOWER: u64 = 5;
/// Where a reader costs much, it is to take at most so many thirds of what the program needs by itself.
const FASTER_READER: u64 = 2;
/// Measurements in a row that may fall short.
const PATIENCE: u32 = 4;
/// Rest after the first failure, ns: what it was measured by may have been the first pass, in which what is dropped was filled just before and is
/// dirty, as it is only once.
const SHORT_REST_NS: u64 = 200_000_000;
/// Rest after the second, doubled with each, ns.
const FIRST_REST_NS: u64 = 1_000_000_000;
const MOST_DOUBLINGS: u32 = 6;
/// One that is clear counts as so many besides,
const CLEAR_FAILURE: u32 = 2;
/// and one that follows from what a page costs as so many.
const COSTLY_FAILURE: u32 = 5;
/// Rest where what lies ahead has never been touched, ns.
const FILLED_REST_NS: u64 = 20_000_000;
/// Rest where the kernel keeps most of it by itself, doubled each time in a row, ns.
const FITS_REST_NS: u64 = 100_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Resting {
        until_ns: u64,
    },
    Measuring,
    Active,
    /// It was not faster than it once was by itself: is it still so fast if nothing is done at all? To drop what lies behind may cost more than
    /// reading ahead brings: of pages that were written each, other processors have to be told.
    Checking {
        /// With it: ns for [`PAGES_BEFORE`].
        with: u64,
    },
}

pub(super) struct Gain {
    state: State,
    seen: Pace,
    /// Without reading ahead: ns for so many pages.
    before: u64,
    /// The same by itself, where nothing was done; `None`: that was not seen.
    by_itself: Option<u64>,
    /// So many pages are left out of the next measurement: what was done before still has its effect on them.
    left_out: u64,
    short: u32,
    /// It was faster, since it last began.
    is_proven: bool,
    failures: u32,
    /// So often in a row the kernel kept it.
    fits: u32,
}

impl Gain {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Measuring,
            seen: Pace::over(PAGES_BEFORE),
            before: 0,
            by_itself: None,
            left_out: 0,
            short: 0,
            is_proven: false,
            failures: 0,
            fits: 0,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Whether what is done has the effect that it will have from here on: at first, what is dropped was brought in by the program itself.
    pub(super) fn has_effect(&self) -> bool {
        self.is_active() && self.left_out == 0
    }

    /// Nothing is to be read or dropped, to see how fast it is by itself.
    pub(super) fn is_checking(&self) -> bool {
        matches!(self.state, State::Checking { .. })
    }

    /// The sweep got so far while nothing was done; no page: that was not seen.
    pub(super) fn note_by_itself(&mut self, seen: Progress) {
        self.by_itself = (seen.pages > 0).then(|| pace(seen));
    }

    /// Whether a reader that takes so long for each page is too slow to win much, where that was not seen to: what it takes of the program
    /// beside, by interrupts and of the processors' time, is as much.
    pub(super) fn is_outrun(&self, ns_of_page: u64) -> bool {
        let reader = ns_of_page.saturating_mul(PAGES_BEFORE);
        let falls_short = self.short > 0 && !self.is_proven;
        let by_itself = self.by_itself.filter(|_| falls_short);
        by_itself.is_some_and(|pace| reader.saturating_mul(3) > pace.saturating_mul(FASTER_READER))
    }

    /// It did not help, and is not tried for a while.
    pub(super) fn is_resting(&self) -> bool {
        matches!(self.state, State::Resting { .. })
    }

    /// As [`Gain::is_resting`]; the rest may be over by now.
    pub(super) fn rests_at(&self, now_ns: u64) -> bool {
        matches!(self.state, State::Resting { until_ns } if now_ns < until_ns)
    }

    /// A sweep got on, of which so many pages may have been read ahead. `Some`: reading ahead begins (`None` inside), or stops for that reason.
    pub(super) fn note(
        &mut self,
        progress: Progress,
        now_ns: u64,
        lead_pages: u64,
    ) -> Option<Option<Why>> {
        if let State::Resting { until_ns } = self.state {
            if now_ns < until_ns {
                return None;
            }
            self.measure_again(State::Measuring);
        }
        if self.left_out > 0 {
            self.left_out = self.left_out.saturating_sub(progress.pages);
            return None;
        }
        self.seen.add(progress);
        if self.seen.pages() < self.wanted() {
            return None;
        }
        let pace = pace(self.seen.steady());
        match self.state {
            State::Checking { with } if pace <= with => {
                if self.failures > 0 && is_clearly_slower(with, pace) {
                    self.failures += CLEAR_FAILURE;
                }
                self.rest(now_ns);
                return Some(Some(Why::NoGain));
            }
            State::Measuring => {
                self.before = pace;
                self.begin(lead_pages);
                return Some(None);
            }
            // The machine, or the sweep, has become slower meanwhile.
            State::Checking { .. } => {
                (self.before, self.by_itself) = (pace, Some(pace));
                self.begin(lead_pages);
                return Some(None);
            }
            _ => {}
        }
        let without = self
            .by_itself
            .map_or(self.before, |pace| pace.min(self.before));
        if pace < without {
            (self.short, self.is_proven) = (0, true);
        } else if !self.is_proven && is_clearly_slower(pace, without) {
            self.short = PATIENCE;
        } else {
            self.short += 1;
        }
        if self.short < PATIENCE {
            self.seen = Pace::over(self.wanted());
            return None;
        }
        self.measure_again(State::Checking { with: pace });
        self.left_out = lead_pages;
        None
    }

    /// Pages of a measurement.
    fn wanted(&self) -> u64 {
        match self.state {
            State::Measuring => PAGES_BEFORE,
            State::Active if !self.is_proven => PAGES_FIRST,
            _ => PAGES_WITH,
        }
    }

    /// The first measurement with it would begin before it has an effect.
    fn begin(&mut self, lead_pages: u64) {
        self.measure_again(State::Active);
        self.left_out = LEADS_LEFT_OUT * lead_pages;
    }

    /// It cannot be told yet: measured again.
    pub(super) fn begin_again(&mut self) {
        self.measure_again(State::Measuring);
    }

    /// It is not needed as long as the kernel keeps what is swept: then hardly any fault asks again.
    pub(super) fn rest_while_it_fits(&mut self, now_ns: u64) {
        let rest = FITS_REST_NS << self.fits.min(MOST_DOUBLINGS);
        self.fits += 1;
        self.measure_again(State::Resting {
            until_ns: now_ns + rest,
        });
    }

    /// The kernel does not keep it, as was seen without reading ahead.
    pub(super) fn does_not_fit(&mut self) {
        self.fits = 0;
    }

    /// There is nothing to read in yet.
    pub(super) fn rest_while_filled(&mut self, now_ns: u64) {
        self.measure_again(State::Resting {
            until_ns: now_ns + FILLED_REST_NS,
        });
    }

    /// It is not needed, or does harm: it is tried again after a while, ever longer.
    pub(super) fn rest(&mut self, now_ns: u64) {
        let rest = match self.failures.checked_sub(1) {
            None => SHORT_REST_NS,
            Some(more) => FIRST_REST_NS << more.min(MOST_DOUBLINGS),
        };
        self.failures += 1;
        self.measure_again(State::Resting {
            until_ns: now_ns + rest,
        });
    }

    /// What a page costs the threads says that it cannot help: that does not change soon.
    pub(super) fn rest_long(&mut self, now_ns: u64) {
        self.failures = self.failures.max(COSTLY_FAILURE);
        self.rest(now_ns);
    }

    fn measure_again(&mut self, state: State) {
        self.state = state;
        (self.short, self.left_out) = (0, 0);
        self.is_proven = false;
        self.seen = Pace::over(self.wanted());
    }
}

/// Whether one of two paces is slower than the other for sure.
fn is_clearly_slower(ns: u64, than_ns: u64) -> bool {
    ns > than_ns.saturating_mul(CLEARLY_SLOWER) / 4
}

/// ns for [`PAGES_BEFORE`] pages.
fn pace(seen: Progress) -> u64 {
    seen.ns * PAGES_BEFORE / seen.pages.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds pages at a pace and returns what was decided.
    fn feed(gain: &mut Gain, pages: u64, ns_a_page: u64, now_ns: &mut u64) -> Vec<Option<Why>> {
        (0..pages)
            .filter_map(|_| {
                *now_ns += ns_a_page;
                let progress = Progress {
                    pages: 1,
                    ns: ns_a_page,
                };
                gain.note(progress, *now_ns, 0)
            })
            .collect()
    }

    #[test]
    fn it_goes_on_while_it_is_faster() {
        let (mut gain, mut now) = (Gain::new(), 0);
        assert_eq!(feed(&mut gain, 2048, 4000, &mut now), [None]);
        assert!(gain.is_active());
        assert_eq!(feed(&mut gain, 100_000, 2000, &mut now), []);
        // A disturbance is no reason to stop.
        assert_eq!(feed(&mut gain, 5000, 9000, &mut now), []);
        assert_eq!(feed(&mut gain, 100_000, 2000, &mut now), []);
        assert!(gain.is_active());
    }

    #[test]
    fn a_machine_that_has_become_slower_is_no_reason_to_stop() {
        let (mut gain, mut now) = (Gain::new(), 0);
        assert_eq!(feed(&mut gain, 2048, 4000, &mut now), [None]);
        feed(&mut gain, 2048 + 4096, 2000, &mut now);
        assert_eq!(feed(&mut gain, 4 * 4096, 9000, &mut now), []);
        // Without it, it would be even slower.
        assert!(!gain.is_active());
        assert_eq!(feed(&mut gain, 4096, 15_000, &mut now), [None]);
        assert!(gain.is_active());
        assert_eq!(feed(&mut gain, 100_000, 9000, &mut now), []);
    }

    #[test]
    fn a_wait_while_it_is_seen_how_fast_it_is_by_itself_is_no_reason_to_go_on() {
        let (mut gain, mut now) = (Gain::new(), 0);
        assert_eq!(feed(&mut gain, 2048, 4000, &mut now), [None]);
        assert_eq!(feed(&mut gain, 2048, 6000, &mut now), []);
        assert!(gain.is_checking());
        assert_eq!(feed(&mut gain, 1000, 4000, &mut now), []);
        assert_eq!(feed(&mut gain, 1, 100_000_000, &mut now), []);
        assert_eq!(feed(&mut gain, 3095, 4000, &mut now), [Some(Why::NoGain)]);
    }

    #[test]
    fn what_is_slower_than_by_itself_stops() {
        let (mut gain, mut now) = (Gain::new(), 0);
        gain.note_by_itself(Progress {
            pages: 1024,
            ns: 1024 * 3000,
        });
        // Dropping alone makes it slower, and what reading ahead wins is not as much.
        assert_eq!(feed(&mut gain, 2048, 5000, &mut now), [None]);
        assert_eq!(feed(&mut gain, 4 * 2048, 3500, &mut now), []);
        assert!(gain.is_checking() && !gain.is_active());
        assert_eq!(feed(&mut gain, 4096, 3000, &mut now), [Some(Why::NoGain)]);
        assert!(gain.is_resting());
    }

    #[test]
    fn what_is_clearly_slower_stops_soon_and_when_it_is_again_for_long() {
        let (mut gain, mut now) = (Gain::new(), 0);
        gain.note_by_itself(Progress {
            pages: 1024,
            ns: 1024 * 3000,
        });
        let mut is_left_alone = || {
            assert_eq!(feed(&mut gain, 2048, 5000, &mut now), [None]);
            assert_eq!(feed(&mut gain, 2048, 6000, &mut now), []);
            assert!(gain.is_checking());
            assert_eq!(feed(&mut gain, 4096, 3000, &mut now), [Some(Why::NoGain)]);
            let rested = (1..).find(|tenths| !gain.rests_at(now + tenths * 100_000_000));
            now += 100_000_000 * rested.expect("not for ever");
            rested
        };
        assert_eq!(is_left_alone(), Some(2), "it may have been dirty");
        assert_eq!(is_left_alone(), Some(40));
        assert_eq!(is_left_alone(), Some(320));
    }

    #[test]
    fn a_reader_that_is_too_slow_is_known_and_left_alone_for_long() {
        let begun = |with_ns| {
            let (mut gain, mut now) = (Gain::new(), 0);
            gain.note_by_itself(Progress {
                pages: 1024,
                ns: 1024 * 13_000,
            });
            feed(&mut gain, 2048, 9000, &mut now);
            assert!(!gain.is_outrun(9000), "what it brings is not known yet");
            feed(&mut gain, 2048, with_ns, &mut now);
            gain
        };
        assert!(!begun(8000).is_outrun(9000), "it was seen to be faster");
        let mut gain = begun(10_000);
        assert!(gain.is_outrun(9000));
        assert!(!gain.is_outrun(8000));
        gain.rest_long(0);
        assert!(gain.rests_at(15_900_000_000) && !gain.rests_at(16_100_000_000));
    }

    #[test]
    fn what_was_read_ahead_says_nothing_of_how_fast_it_is_by_itself() {
        let (mut gain, mut now) = (Gain::new(), 0);
        feed(&mut gain, 5 * 2048, 4000, &mut now);
        assert!(gain.is_checking());
        gain.measure_again(State::Checking { with: 4000 * 2048 });
        gain.left_out = 5000;
        assert_eq!(feed(&mut gain, 5000, 1000, &mut now), []);
        assert_eq!(feed(&mut gain, 4096, 6000, &mut now), [None]);
        assert!(gain.is_active());
    }

    #[test]
    fn what_fits_again_and_again_is_looked_at_ever_more_seldom() {
        let mut gain = Gain::new();
        gain.rest_while_it_fits(0);
        assert!(gain.rests_at(99_999_999) && !gain.rests_at(100_000_000));
        gain.rest_while_it_fits(0);
        assert!(gain.rests_at(199_999_999) && !gain.rests_at(200_000_000));
        gain.does_not_fit();
        gain.rest_while_it_fits(0);
        assert!(!gain.rests_at(100_000_000));
    }

    #[test]
    fn it_stops_when_it_does_not_help_and_tries_again_ever_later() {
        let (mut gain, mut now) = (Gain::new(), 0);
        assert_eq!(feed(&mut gain, 2048, 4000, &mut now), [None]);
        assert_eq!(
            feed(&mut gain, 6 * 4096, 4000, &mut now),
            [Some(Why::NoGain)]
        );
        assert!(!gain.is_active());
        let tries = feed(&mut gain, 10_000_000, 4000, &mut now);
        let begun = tries.iter().filter(|why| why.is_none()).count();
        assert!((3..=6).contains(&begun), "{begun} times in 40 s");
    }
}
