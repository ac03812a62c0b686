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
}
