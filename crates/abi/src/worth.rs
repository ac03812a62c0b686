//! Whether a hint is worth giving: it is given and left out in turn, and what calls cost is compared. Arithmetic only, the same
//! in the preloaded library and outside.

/// Windows with the hint, and as many without, until it is decided.
const PAIRS: u32 = 5;
/// Windows with the hint until it is looked at again, at first; twice as many until each next time.
const REST: u32 = 64;
/// Kept if calls take no more of their time, or read no more of the bytes from devices at no more time.
const MOST_TIME: f64 = 0.97;
const MOST_BYTES: f64 = 0.9;
const NO_WORSE: f64 = 1.03;
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
    window: Cost,
    calls: u64,
    /// Windows of the trial that are over.
    windows: u32,
    /// Windows until the next one; 0: it is on.
    rest: u32,
    next_rest: u32,
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
            window: NONE,
            calls: 0,
            windows: 0,
            rest: 0,
            next_rest: REST,
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
        } else {
            self.without.add(window);
        }
        self.windows += 1;
        (self.windows == 2 * PAIRS).then(|| self.decide())
    }

    fn decide(&mut self) -> Verdict {
        let (with_ns, with_bytes) = self.with.per_byte();
        let (without_ns, without_bytes) = self.without.per_byte();
        let ratio = with_ns / without_ns.max(1e-9);
        let is_leaner = with_bytes <= MOST_BYTES * without_bytes && without_bytes > 0.0;
        self.with = Cost::default();
        self.without = Cost::default();
        self.windows = 0;
        self.rest = self.next_rest;
        self.next_rest = self.next_rest.saturating_mul(2);
        Verdict {
            ratio,
            is_worth_it: ratio <= MOST_TIME || is_leaner && ratio <= NO_WORSE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(with_ns: u64, with_bytes: u64) -> Verdict {
        let mut worth = Worth::new(0);
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

    #[test]
    fn what_is_faster_or_reads_less_is_kept_and_what_does_nothing_is_not() {
        assert!(verdict(500, 8192).is_worth_it);
        assert!(verdict(1000, 4096).is_worth_it);
        assert!(!verdict(1000, 8192).is_worth_it);
        assert!(!verdict(1200, 4096).is_worth_it);
        assert!((verdict(500, 8192).ratio - 0.5).abs() < 1e-9);
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
