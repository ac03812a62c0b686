//! Which allocations to record where not all are: each byte allocated is a sample point with the same small
//! probability, whatever came before, so that an allocation of `n` bytes is chosen with probability
//! `1 - exp(-n / mean)` and no pattern of sizes can hide from it or be favoured by it.
//!
//! The distance to the next sample point is exponentially distributed and drawn in advance, so that an allocation that
//! is not chosen costs a subtraction and a comparison.

use std::cell::Cell;

/// One thread's distance to the next sample point.
pub struct Sampler {
    /// Bytes up to the next sample point; negative: it was reached, or none was drawn yet.
    left: Cell<i64>,
    /// State of the random numbers; 0: not seeded.
    state: Cell<u64>,
    /// The mean that this distance was drawn with, bytes.
    mean: Cell<u32>,
}

impl Sampler {
    /// Its first allocation asks for a seed.
    pub const fn new() -> Self {
        Self {
            left: Cell::new(0),
            state: Cell::new(0),
            mean: Cell::new(0),
        }
    }

    /// Goes on by so many bytes. True: ask [`Sampler::choose`].
    #[inline(always)]
    pub fn pass(&self, bytes: usize) -> bool {
        let left = self.left.get() - bytes as i64;
        self.left.set(left);
        left < 0
    }

    /// Whether it is seeded.
    pub fn is_seeded(&self) -> bool {
        self.state.get() != 0
    }

    /// Starts the random numbers, and draws the first distance from where the allocation at hand, just passed, began.
    /// `mean` 0: nothing is ever chosen.
    pub fn seed(&self, seed: u64, mean: u32, bytes: usize) {
        self.state.set(scramble(seed) | 1);
        self.left.set(self.distance(mean));
        self.pass(bytes);
    }

    /// Forgets seed and distance; the next allocation asks for a seed. As chance has no memory, this may happen at any
    /// time: a forked child does it, so as not to choose what its siblings choose.
    pub fn reset(&self) {
        self.left.set(0);
        self.state.set(0);
    }

    /// If the allocation that was passed last is chosen, the mean by which it was; draws the next distance, from behind
    /// it, by `next_mean`. As the mean changes only there, each choice has the probability of one mean.
    pub fn choose(&self, next_mean: u32) -> Option<u32> {
        if self.left.get() >= 0 {
            return None;
        }
        let mean = self.mean.get();
        self.left.set(self.distance(next_mean));
        (mean > 0).then_some(mean)
    }

    /// Whole bytes before the next sample point.
    fn distance(&self, mean: u32) -> i64 {
        self.mean.set(mean);
        if mean == 0 {
            return i64::MAX;
        }
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        // In (0, 1], of 53 random bits.
        let uniform = ((scramble(state) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (-natural_logarithm(uniform) * f64::from(mean)) as i64
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new()
    }
}

/// The output function of SplitMix64: neighbours become strangers.
fn scramble(state: u64) -> u64 {
    let state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ state >> 31
}

/// For positive normal numbers, to 1e-11. Our own, as the C library's would bind every program to libm.
fn natural_logarithm(value: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let mantissa = f64::from_bits(bits & MANTISSA | 1023 << 52); // in [1, 2)
    // ln m = 2 artanh((m - 1) / (m + 1)), a series in powers of at most 1/3.
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let (mut sum, mut power) = (0.0, ratio);
    for odd in 0..11 {
        sum += power / f64::from(2 * odd + 1);
        power *= square;
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_right() {
        for value in [
            1.0,
            0.999_999,
            0.75,
            0.5,
            0.1,
            1e-5,
            1.0 / (1u64 << 53) as f64,
        ] {
            let error = natural_logarithm(value) - f64::ln(value);
            assert!(error.abs() < 1e-10, "{error} at {value}");
        }
    }

    /// How many of `count` allocations of so many bytes are chosen.
    fn chosen(seed: u64, mean: u32, bytes: usize, count: u32) -> u32 {
        let sampler = Sampler::new();
        let mut chosen = 0;
        for _ in 0..count {
            if sampler.pass(bytes) {
                if !sampler.is_seeded() {
                    sampler.seed(seed, mean, bytes);
                }
                chosen += u32::from(sampler.choose(mean).is_some());
            }
        }
        chosen
    }

    #[test]
    fn each_size_is_chosen_as_often_as_its_probability_says() {
        for bytes in [1, 16, 1000, 4096, 60_000] {
            let probability = 1.0 - (-(bytes as f64) / 4096.0).exp();
            let count = 200_000.0;
            let expected = probability * count;
            // Independent choices: the spread is known. Four of its standard deviations.
            let most = 4.0 * (count * probability * (1.0 - probability)).sqrt() + 1.0;
            let found = f64::from(chosen(7, 4096, bytes, count as u32));
            assert!((found - expected).abs() < most, "{found}, not {expected}");
        }
    }

    #[test]
    fn each_choice_tells_the_mean_it_was_made_by() {
        let sampler = Sampler::new();
        sampler.seed(3, 4096, 0);
        let until_chosen = |next| {
            loop {
                if sampler.pass(100)
                    && let Some(mean) = sampler.choose(next)
                {
                    return mean;
                }
            }
        };
        assert_eq!(until_chosen(8192), 4096);
        assert_eq!(until_chosen(8192), 8192);
        assert_eq!(until_chosen(4096), 8192);
        assert_eq!(until_chosen(4096), 4096);
    }

    #[test]
    fn a_seed_repeats_itself_and_zero_chooses_none() {
        assert_eq!(chosen(1, 4096, 100, 100_000), chosen(1, 4096, 100, 100_000));
        assert_ne!(chosen(1, 4096, 100, 100_000), chosen(2, 4096, 100, 100_000));
        assert_eq!(chosen(1, 0, 100, 100_000), 0);
    }

    #[test]
    fn after_a_reset_it_asks_for_a_seed() {
        let sampler = Sampler::new();
        sampler.seed(1, 4096, 0);
        assert!(sampler.is_seeded());
        sampler.reset();
        assert!(!sampler.is_seeded() && sampler.pass(1));
    }
}
