//! How sparse samples are: as the recorder says, and sparser while the program allocates so fast that recording them
//! would show.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_abi as abi;

use crate::settings;

/// A recorded allocation costs about 2.5 us: 0.6 % of so long.
const NS_A_SAMPLE: u64 = 400_000;
/// The pace is looked at once in so many samples.
const WINDOW: u32 = 256;

static PACE: Pace = Pace::new();

/// The mean distance of samples to draw with now, bytes; 0: none is wanted.
pub(crate) fn mean() -> u32 {
    PACE.mean()
}

/// A sample was recorded.
pub(crate) fn sampled(now_ns: u64) {
    if settings::samples_adapt() {
        PACE.sampled(now_ns, settings::sample_bytes());
    }
}

/// Of all threads.
struct Pace {
    /// Bytes; 0: as the recorder says.
    mean: AtomicU32,
    samples: AtomicU32,
    window_began_ns: AtomicU64,
}

impl Pace {
    const fn new() -> Self {
        Self {
            mean: AtomicU32::new(0),
            samples: AtomicU32::new(0),
            window_began_ns: AtomicU64::new(0),
        }
    }

    fn mean(&self) -> u32 {
        match self.mean.load(Ordering::Relaxed) {
            0 => settings::sample_bytes(),
            mean => mean,
        }
    }

    fn sampled(&self, now_ns: u64, least: u32) {
        let count = self.samples.fetch_add(1, Ordering::Relaxed);
        if !count.is_multiple_of(WINDOW) {
            return;
        }
        let began = self.window_began_ns.swap(now_ns, Ordering::Relaxed);
        if began == 0 {
            return;
        }
        let mean = self.mean.load(Ordering::Relaxed).max(least);
        let ns_a_sample = now_ns.saturating_sub(began) / u64::from(WINDOW);
        let next = if ns_a_sample < NS_A_SAMPLE {
            mean.saturating_mul(2).min(abi::LARGEST_SAMPLE_BYTES)
        } else if ns_a_sample > 4 * NS_A_SAMPLE {
            (mean / 2).max(least)
        } else {
            mean
        };
        self.mean.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u32 = 32 << 10;

    /// The mean after so many windows of samples at this distance in time.
    fn after(pace: &Pace, begin_ns: &mut u64, windows: u32, ns_a_sample: u64) -> u32 {
        for _ in 0..windows * WINDOW {
            *begin_ns += ns_a_sample;
            pace.sampled(*begin_ns, LEAST);
        }
        pace.mean.load(Ordering::Relaxed)
    }

    #[test]
    fn who_allocates_fast_is_sampled_sparsely_and_back() {
        let (pace, mut now) = (Pace::new(), 1);
        assert_eq!(after(&pace, &mut now, 3, 100_000), 4 * LEAST);
        // The last of the fast windows ends with the first slow sample.
        assert_eq!(after(&pace, &mut now, 10, 500_000), 8 * LEAST);
        assert_eq!(after(&pace, &mut now, 20, 5_000_000), LEAST);
        assert_eq!(after(&pace, &mut now, 100, 1), abi::LARGEST_SAMPLE_BYTES);
    }
}
