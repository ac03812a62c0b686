//! Whether reading ahead helps: the pace of a sweep with it against the pace without.

use pagewise_abi::status::Why;

use super::sweep::Progress;

/// Pages of a measurement without and with it.
const PAGES_BEFORE: u64 = 2048;
const PAGES_WITH: u64 = 4096;
/// Measurements in a row that may fall short.
const PATIENCE: u32 = 4;
/// Rest after the first failure, doubled with each, ns.
const FIRST_REST_NS: u64 = 1_000_000_000;
const MOST_DOUBLINGS: u32 = 6;
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
    /// It was not faster than it once was without: is it still so fast without?
    Checking {
        /// With it: ns for [`PAGES_BEFORE`].
        with: u64,
    },
}

pub(super) struct Gain {
    state: State,
    seen: Progress,
    /// Without reading ahead: ns for so many pages.
    before: u64,
    /// The first measurement with it begins before it has an effect.
    skips: bool,
    short: u32,
    failures: u32,
    /// So often in a row the kernel kept it.
    fits: u32,
}

impl Gain {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Measuring,
            seen: Progress { pages: 0, ns: 0 },
            before: 0,
            skips: false,
            short: 0,
            failures: 0,
            fits: 0,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// It did not help, and is not tried for a while.
    pub(super) fn is_resting(&self) -> bool {
        matches!(self.state, State::Resting { .. })
    }

    /// As [`Gain::is_resting`]; the rest may be over by now.
    pub(super) fn rests_at(&self, now_ns: u64) -> bool {
        matches!(self.state, State::Resting { until_ns } if now_ns < until_ns)
    }

    /// A sweep got on. `Some`: reading ahead begins (`None` inside), or stops for that reason.
    pub(super) fn note(&mut self, progress: Progress, now_ns: u64) -> Option<Option<Why>> {
        if let State::Resting { until_ns } = self.state {
            if now_ns < until_ns {
                return None;
            }
            self.measure_again(State::Measuring);
        }
        self.seen.pages += progress.pages;
        self.seen.ns += progress.ns;
        let wanted = match self.state {
            State::Measuring => PAGES_BEFORE,
            _ => PAGES_WITH,
        };
        if self.seen.pages < wanted {
            return None;
        }
        let pace = self.seen.ns * PAGES_BEFORE / self.seen.pages;
        match self.state {
            State::Checking { with } if pace <= with => {
                self.rest(now_ns);
                return Some(Some(Why::NoGain));
            }
            // The machine, or the sweep, has become slower meanwhile.
            State::Measuring | State::Checking { .. } => {
                self.before = pace;
                self.measure_again(State::Active);
                self.skips = true;
                return Some(None);
            }
            _ => {}
        }
        self.seen = Progress { pages: 0, ns: 0 };
        if std::mem::take(&mut self.skips) {
            return None;
        }
        if pace < self.before {
            self.short = 0;
            return None;
        }
        self.short += 1;
        if self.short == PATIENCE {
            self.measure_again(State::Checking { with: pace });
        }
        None
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
        let rest = FIRST_REST_NS << self.failures.min(MOST_DOUBLINGS);
        self.failures += 1;
        self.measure_again(State::Resting {
            until_ns: now_ns + rest,
        });
    }

    fn measure_again(&mut self, state: State) {
        self.state = state;
        self.seen = Progress { pages: 0, ns: 0 };
        self.short = 0;
    }
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
                gain.note(progress, *now_ns)
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
        feed(&mut gain, 4096, 2000, &mut now);
        assert_eq!(feed(&mut gain, 4 * 4096, 9000, &mut now), []);
        // Without it, it would be even slower.
        assert!(!gain.is_active());
        assert_eq!(feed(&mut gain, 4096, 15_000, &mut now), [None]);
        assert!(gain.is_active());
        assert_eq!(feed(&mut gain, 100_000, 9000, &mut now), []);
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
