//! Whether a hint is worth giving: it is given and left out in turn, and what calls cost is compared. Arithmetic only, the same
//! in the preloaded library and outside.

/// Windows with the hint, and as many without, until it is decided.
const PAIRS: u32 = 5;
/// So many are enough where far less is read with the hint: bytes are not noisy as times are, and each window without it costs.
const FEW_PAIRS: u32 = 2;
/// Windows with the hint until it is looked at again, at first; so many times as many until each next time.
const REST: u32 = 64;
const LONGER: u32 = 2;
const LONGER_IF_LEAN: u32 = 4;
/// It is of use if calls take no more of their time, or read no more of the bytes from devices at no more time.
const MOST_TIME: f64 = 0.97;
const MOST_BYTES: f64 = 0.9;
const NO_WORSE: f64 = 1.03;
/// It goes at once if calls take so much of their time in each pair; else once it has been of no use so often in a row, where a trial in
/// which they were slower counts as several: what it spares may come only when the cache has filled.
const MUCH_WORSE: f64 = 1.3;
const MOST_IN_VAIN: u32 = 8;
const SLOWER_COUNTS: u32 = 4;
/// Of single pairs, at least so many in a hundred must have been slower: a device that stood still for a moment is no harm of the hint's.
const SLOWER_PAIRS: u32 = 80;
const LEAN_BYTES: f64 = 0.7;
/// A window has at least so many calls, and bytes.
const CALLS: u64 = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    ns: u64,
    device_bytes: u64,
    bytes: u64,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.device_bytes += other.device_bytes;
        self.bytes += other.bytes;
    }

    fn per_byte(self) -> (f64, f64) {
        let bytes = self.bytes.max(1) as f64;
        (self.ns as f64 / bytes, self.device_bytes as f64 / bytes)
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Time with the hint by time without it.
    pub ratio: f64,
    /// The hint is to stay.
    pub is_worth_it: bool,
}

/// The trial of one rule.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    /// Bytes of a window, at least.
    window_bytes: u64,
    with: Cost,
    without: Cost,
    /// The last window with the hint, and pairs of which that took longer.
    last_with: Cost,
    slower_pairs: u32,
    window: Cost,
    calls: u64,
    /// Windows of the trial that are over.
    windows: u32,
    /// Windows until the next one; 0: it is on.
    rest: u32,
    next_rest: u32,
    /// Trials in a row that showed no use.
    in_vain: u32,
}

impl Worth {
    /// A trial whose windows have at least so many bytes.
    pub const fn new(window_bytes: u64) -> Self {
        const NONE: Cost = Cost {
            ns: 0,
            device_bytes: 0,
            bytes: 0,
        };
        Self {
            window_bytes,
            with: NONE,
            without: NONE,
            last_with: NONE,
            slower_pairs: 0,
            window: NONE,
            calls: 0,
            windows: 0,
            rest: 0,
            next_rest: REST,
            in_vain: 0,
        }
    }

    /// Whether the next call shall have the hint.
    pub fn gives(&self) -> bool {
        self.rest > 0 || self.windows.is_multiple_of(2)
    }

    /// Whether calls are to be measured.
    pub fn measures(&self) -> bool {
        self.rest == 0
    }

    /// A call is over: it took so long, had so many bytes read from devices, and moved so many. `Some`: the trial has come to its end.
    pub fn note(&mut self, ns: u64, device_bytes: u64, bytes: u64) -> Option<Verdict> {
        self.calls += 1;
        self.window.add(Cost {
            ns,
            device_bytes,
            bytes,
        });
        if self.calls < CALLS || self.window.bytes < self.window_bytes {
            return None;
        }
        let window = core::mem::take(&mut self.window);
        self.calls = 0;
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        if self.gives() {
            self.with.add(window);
            self.last_with = window;
        } else {
            self.slower_pairs += u32::from(self.last_with.per_byte().0 > window.per_byte().0);
            self.without.add(window);
        }
        self.windows += 1;
        let is_over = match self.windows {
            few if few == 2 * FEW_PAIRS => self.is_lean(),
            windows => windows == 2 * PAIRS,
        };
        is_over.then(|| self.decide())
    }

    /// Time and bytes from devices with the hint, by those without it. Where nothing was read without it, nothing is spared.
    fn ratios(&self) -> (f64, f64) {
        let (with, without) = (self.with.per_byte(), self.without.per_byte());
        let bytes = match self.without.device_bytes {
            0 => 1.0,
            _ => with.1 / without.1,
        };
        (with.0 / without.0.max(1e-9), bytes)
    }

    /// Far less is read with it.
    fn is_lean(&self) -> bool {
        let (time, bytes) = self.ratios();
        bytes <= LEAN_BYTES && time <= NO_WORSE
    }

    fn decide(&mut self) -> Verdict {
        let (ratio, bytes) = self.ratios();
        let is_leaner = bytes <= MOST_BYTES;
        let longer = match self.is_lean() {
            true => LONGER_IF_LEAN,
            false => LONGER,
        };
        let pairs = self.windows / 2;
        let is_slower = ratio > NO_WORSE && self.slower_pairs * 100 >= pairs * SLOWER_PAIRS;
        let is_always_slower = self.slower_pairs == pairs;
        self.slower_pairs = 0;
        self.with = Cost::default();
        self.without = Cost::default();
        self.windows = 0;
        if ratio <= MOST_TIME || is_leaner && ratio <= NO_WORSE {
            self.in_vain = 0;
        } else {
            self.in_vain += if is_slower { SLOWER_COUNTS } else { 1 };
        }
        // What may do harm is looked at again at once.
        if !is_slower {
            self.rest = self.next_rest;
            self.next_rest = self.next_rest.saturating_mul(longer);
        }
        Verdict {
            ratio,
            is_worth_it: self.in_vain < MOST_IN_VAIN && !(is_always_slower && ratio > MUCH_WORSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict of a trial, in which calls without the hint take 1000 ns and read 8192 bytes.
    fn verdict(worth: &mut Worth, with_ns: u64, with_bytes: u64) -> Verdict {
        loop {
            let (ns, device) = if worth.gives() {
                (with_ns, with_bytes)
            } else {
                (1000, 8192)
            };
            if let Some(verdict) = worth.note(ns, device, 4096) {
                return verdict;
            }
        }
    }

    /// After how many trials it is withdrawn; `None`: not within ten.
    fn withdrawn_after(with_ns: u64, with_bytes: u64) -> Option<usize> {
        let mut worth = Worth::new(0);
        (1..=10).find(|_| !verdict(&mut worth, with_ns, with_bytes).is_worth_it)
    }

    #[test]
    fn what_is_faster_or_reads_less_is_kept_and_what_does_nothing_is_not() {
        assert_eq!(withdrawn_after(500, 8192), None);
        assert_eq!(withdrawn_after(1000, 4096), None);
        assert_eq!(withdrawn_after(1000, 8192), Some(8));
        assert_eq!(withdrawn_after(1200, 4096), Some(2));
        assert_eq!(withdrawn_after(1400, 4096), Some(1));
        let ratio = verdict(&mut Worth::new(0), 500, 8192).ratio;
        assert!((ratio - 0.5).abs() < 1e-9);
    }

    #[test]
    fn where_far_less_is_read_that_is_seen_sooner() {
        let calls = |device_bytes| {
            let mut worth = Worth::new(0);
            let mut note =
                || worth.note(1000, if worth.gives() { device_bytes } else { 8192 }, 4096);
            (1..).find(|_| note().is_some())
        };
        assert_eq!(calls(8192), Some(2 * 5 * 64));
        assert_eq!(calls(4096), Some(2 * 2 * 64));
        let mut cached = Worth::new(0);
        let calls = (1..).find(|_| cached.note(1000, 0, 4096).is_some());
        assert_eq!(calls, Some(2 * 5 * 64), "nothing is read either way");
    }

    #[test]
    fn a_device_that_stands_still_for_a_moment_is_no_harm() {
        let mut worth = Worth::new(0);
        let mut calls = 0;
        let verdict = loop {
            calls += 1;
            // In one window with the hint.
            let ns = if calls < 64 { 100_000 } else { 1000 };
            if let Some(verdict) = worth.note(ns, 8192, 4096) {
                break verdict;
            }
        };
        assert!(verdict.ratio > 10.0 && verdict.is_worth_it, "{verdict:?}");
    }

    #[test]
    fn what_comes_to_be_of_use_later_is_kept() {
        let mut worth = Worth::new(0);
        for _ in 0..7 {
            assert!(verdict(&mut worth, 1000, 8192).is_worth_it);
        }
        assert!(verdict(&mut worth, 1000, 4096).is_worth_it);
        // And is of none again as often.
        for _ in 0..7 {
            assert!(verdict(&mut worth, 1000, 8192).is_worth_it);
        }
        assert!(!verdict(&mut worth, 1000, 8192).is_worth_it);
    }

    #[test]
    fn a_hint_that_was_found_good_is_given_nearly_always() {
        let mut worth = Worth::new(0);
        let mut given = 0;
        for _ in 0..10_000 {
            given += u32::from(worth.gives());
            worth.note(if worth.gives() { 500 } else { 1000 }, 0, 4096);
        }
        assert!(given > 9_300, "{given}");
    }

    #[test]
    fn a_window_is_as_long_as_is_asked_for() {
        let mut worth = Worth::new(1 << 20);
        for _ in 0..255 {
            assert!(worth.gives());
            worth.note(1, 0, 4096);
        }
        worth.note(1, 0, 4096);
        assert!(!worth.gives() && worth.measures());
    }
}
