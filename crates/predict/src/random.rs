//! Numbers at random, the same each time.

/// xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// Below 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        bits as f64 / (1u64 << 53) as f64
    }

    /// Of mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Of this rate, given that it is below `most`; where the rate is next to nothing, evenly spread.
    pub(crate) fn exponential_below(&mut self, rate: f64, most: f64) -> f64 {
        let uniform = self.uniform();
        let mass = -(-rate * most).exp_m1();
        match mass > 1e-9 {
            true => (-(-uniform * mass).ln_1p() / rate).min(most),
            false => uniform * most,
        }
    }

    /// For how much longer something goes on that has gone on for `past`, seen at a moment that is nothing special, given that
    /// it is at most `most`. It is longer than x times its past with a probability of 1 / (1 + x) (J. R. Gott III:
    /// Implications of the Copernican principle for our future prospects, Nature 363, 1993).
    pub(crate) fn remainder(&mut self, past: f64, most: f64) -> f64 {
        let past = past.max(1.0);
        let share = self.uniform() * most / (past + most);
        (past * share / (1.0 - share)).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_ends_soon_and_what_is_old_at_any_time() {
        let mut random = Random::new(3);
        let mut median = |past, most| {
            let mut drawn: Vec<f64> = (0..9999).map(|_| random.remainder(past, most)).collect();
            drawn.sort_by(f64::total_cmp);
            assert!(drawn[0] >= 0.0 && drawn[9998] <= most);
            drawn[4999]
        };
        // Half of all go on for as long as they have.
        assert!((median(100.0, 1e9) - 100.0).abs() < 5.0);
        assert!((median(1e9, 100.0) - 50.0).abs() < 2.0);
        assert!(median(0.0, 1000.0) < 40.0);
        assert_eq!(median(10.0, 0.0), 0.0);
    }
}
