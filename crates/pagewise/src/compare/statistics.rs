//! How sure a ratio of medians is: by resampling the rounds it was measured in, or if they are too few, by their range.

use std::fmt;

/// A ratio of run times, and where it may lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// What the ratio was measured in.
    pub(super) rounds: usize,
}

impl Ratio {
    /// Whether `low` and `high` are a 95 % interval, and not the range of too few rounds for one.
    pub(super) fn is_resampled(&self) -> bool {
        self.rounds >= FEWEST_TO_RESAMPLE
    }

    /// How far from 1 it must be to mean something: so much where a range is all that is known.
    pub(super) fn margin(&self, of_range: f64) -> f64 {
        match self.is_resampled() {
            true => 0.0,
            false => of_range,
        }
    }
}

/// How sure it is, in words.
impl fmt::Display for Ratio {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, high, .. } = self;
        match self.rounds {
            1 => write!(into, "one round, which says nothing of chance"),
            _ if self.is_resampled() => write!(into, "95 % interval {low:.2} to {high:.2}"),
            few => write!(into, "{low:.2} to {high:.2} in {few} rounds"),
        }
    }
}

/// From that many rounds on, all of them fall on the same side of the true median in less than 5 % of all cases (2 of
/// 2^6); with fewer there is no 95 % interval, and resampling them would feign one.
const FEWEST_TO_RESAMPLE: usize = 6;
const RESAMPLES: usize = 10_000;
/// Any number: the same runs give the same interval.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The middle one, or the mean of the two in the middle. `None` of nothing.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The median of `over` divided by that of `under`, which were measured in the same rounds, one after the other: what
/// disturbed a round disturbed both. `low` and `high` are the percentile bootstrap's 95 % interval (B. Efron, An
/// Introduction to the Bootstrap, 1993, chapter 13), or of less than six rounds, the least and greatest ratio of a round.
/// `None` without a round, or with a time of zero.
pub(super) fn ratio_of_medians(over: &[f64], under: &[f64]) -> Option<Ratio> {
    let rounds = over.len().min(under.len());
    let (over, under) = (&over[..rounds], &under[..rounds]);
    let value = divide(over, under)?;
    let mut ratio = Ratio {
        value,
        low: value,
        high: value,
        rounds,
    };
    (ratio.low, ratio.high) = match ratio.is_resampled() {
        true => bootstrap(over, under)?,
        false => range(value, over, under)?,
    };
    Some(ratio)
}

fn divide(over: &[f64], under: &[f64]) -> Option<f64> {
    let under = median(under).filter(|&under| under > 0.0)?;
    Some(median(over)? / under)
}

/// Of the single rounds' ratios, and of the medians' ratio, which may lie outside of them.
fn range(value: f64, over: &[f64], under: &[f64]) -> Option<(f64, f64)> {
    let single = over.iter().zip(under);
    single.map(|(over, under)| over / under).try_fold(
        (value, value),
        |(low, high): (f64, f64), ratio| {
            ratio.is_finite().then(|| (low.min(ratio), high.max(ratio)))
        },
    )
}

fn bootstrap(over: &[f64], under: &[f64]) -> Option<(f64, f64)> {
    let rounds = over.len();
    let mut random = Random(SEED);
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let chosen: Vec<usize> = (0..rounds).map(|_| random.below(rounds)).collect();
            let of = |runs: &[f64]| chosen.iter().map(|&round| runs[round]).collect::<Vec<_>>();
            divide(&of(over), &of(under))
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = ratios.len().saturating_sub(1);
        ratios.get((share * last as f64).round() as usize).copied()
    };
    Some((at(0.025)?, at(0.975)?))
}

/// The geometric mean. `None` of nothing, or with a value that has no logarithm.
pub(super) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let fits = !values.is_empty() && values.iter().all(|&value| value > 0.0);
    fits.then(|| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// SplitMix64 (G. Steele et al., OOPSLA 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn equal_rounds_leave_no_doubt() {
        let ratio = ratio_of_medians(&[4.0; 5], &[2.0; 5]).expect("a ratio");
        assert_eq!((ratio.value, ratio.low, ratio.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn few_rounds_are_told_by_their_range() {
        let ratio = ratio_of_medians(&[2.0, 4.0, 3.0], &[1.0, 1.0, 2.0]).expect("a ratio");
        assert_eq!((ratio.value, ratio.low, ratio.high), (3.0, 1.5, 4.0));
        assert_eq!(ratio.to_string(), "1.50 to 4.00 in 3 rounds");
        let one = ratio_of_medians(&[2.0], &[1.0]).expect("a ratio");
        assert!(one.to_string().starts_with("one round"), "{one}");
        let six = ratio_of_medians(&[2.0; 6], &[1.0; 6]).expect("a ratio");
        assert_eq!(six.to_string(), "95 % interval 2.00 to 2.00");
    }

    #[test]
    fn noise_widens_the_interval_around_the_ratio() {
        let calm = ratio_of_medians(
            &[10.0, 10.1, 9.9, 10.0, 10.2, 9.8],
            &[5.0, 5.1, 4.9, 5.0, 5.0, 5.1],
        );
        let noisy = ratio_of_medians(
            &[10.0, 16.0, 7.0, 11.0, 9.0, 12.0],
            &[5.0, 8.0, 3.0, 4.0, 6.0, 5.0],
        );
        let (calm, noisy) = (calm.expect("a ratio"), noisy.expect("a ratio"));
        for ratio in [calm, noisy] {
            assert!(
                ratio.low <= ratio.value && ratio.value <= ratio.high,
                "{ratio:?}"
            );
        }
        assert!(noisy.high - noisy.low > 5.0 * (calm.high - calm.low));
    }

    /// In how many of many experiments the interval holds the truth: a percentile bootstrap of nine rounds misses more
    /// often than its 5 %, but not wildly.
    #[test]
    fn the_interval_mostly_holds_the_truth() {
        let mut random = Random(7);
        let mut uniform = || 0.8 + 0.4 * random.below(1 << 30) as f64 / f64::from(1 << 30);
        let held = (0..40).filter(|_| {
            let over: Vec<f64> = (0..9).map(|_| 2.0 * uniform()).collect();
            let under: Vec<f64> = (0..9).map(|_| uniform()).collect();
            ratio_of_medians(&over, &under)
                .is_some_and(|ratio| ratio.low <= 2.0 && 2.0 <= ratio.high)
        });
        let held = held.count();
        assert!((33..=40).contains(&held), "{held} of 40");
    }

    #[test]
    fn nothing_measured_gives_no_ratio() {
        assert_eq!(ratio_of_medians(&[], &[]), None);
        assert_eq!(ratio_of_medians(&[1.0], &[0.0]), None);
    }

    #[test]
    fn geometric_means() {
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        let mean = geometric_mean(&[1.0, 4.0]).expect("a mean");
        assert!((mean - 2.0).abs() < 1e-12);
    }
}
