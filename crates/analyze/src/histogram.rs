//! Latencies in logarithmic buckets: quantiles to about 1 % from a few kilobytes, however many events.

const SUB_BUCKET_BITS: u32 = 6;
const SUB_BUCKETS: u64 = 1 << SUB_BUCKET_BITS;

/// Counts of values, ns.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

/// Values below 64 have a bucket each, then 64 buckets to an octave.
fn bucket_of(value: u64) -> usize {
    if value < SUB_BUCKETS {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BUCKET_BITS;
    (u64::from(shift + 1) * SUB_BUCKETS + ((value >> shift) - SUB_BUCKETS)) as usize
}

/// The middle of a bucket.
fn value_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB_BUCKETS {
        return bucket;
    }
    let shift = bucket / SUB_BUCKETS - 1;
    let low = (SUB_BUCKETS + bucket % SUB_BUCKETS) << shift;
    low + (1u64 << shift) / 2
}

impl Histogram {
    /// Counts one value.
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Counts a value so many times.
    pub fn add_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let bucket = bucket_of(value);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += times;
        self.count += times;
        self.max = self.max.max(value);
    }

    /// Counts all that another has counted.
    pub fn add_all(&mut self, other: &Self) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value, exactly; `None` if there is none.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The value that a share `at` (0 to 1) of all values do not exceed, to about 1 %.
    pub fn quantile(&self, at: f64) -> Option<u64> {
        let wanted = ((self.count as f64 * at).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Some(value_of(bucket).min(self.max));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_percent() {
        let mut histogram = Histogram::default();
        for value in 1..=100_000u64 {
            histogram.add(value * 17);
        }
        for at in [0.01, 0.5, 0.9, 0.99] {
            let exact = 1_700_000.0 * at;
            let found = histogram.quantile(at).expect("not empty") as f64;
            assert!(
                (found - exact).abs() / exact < 0.01,
                "{at}: {found} for {exact}"
            );
        }
        assert_eq!(histogram.max(), Some(1_700_000));
    }

    #[test]
    fn nothing_has_no_quantiles() {
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::default().max(), None);
    }

    #[test]
    fn every_value_falls_into_a_bucket_near_it() {
        for value in [0, 1, 63, 64, 65, 127, 128, 1000, u64::MAX / 2] {
            let back = value_of(bucket_of(value));
            assert!(
                back.abs_diff(value) <= value / 64,
                "{value} came back as {back}"
            );
        }
    }
}
