//! How long pages waited for their first access after their bits had been cleared, as far as glances tell; and what that says: that they are
//! accessed at random, or once a round.

use std::collections::BTreeMap;

/// By how much likelier, as a natural logarithm, a rate must be than none to be believed, and rounds than accesses at random.
pub(crate) const SURE: f64 = 3.0;
/// Of pages that are gone through in rounds, so many come at some other time.
const ASTRAY: f64 = 0.05;
/// Lengths of a round that are tried.
const LENGTHS: usize = 128;
/// Times count as equal that differ by less than this part of a doubling.
const NEAR: f64 = 32.0;
/// Where all come within a round, at most so many come later.
const MOST_LATER: f64 = 0.1;

/// How long some pages waited for their first access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// So long at least, ns: they were not accessed at the glance before,
    pub(crate) from: f64,
    /// and so long at most: they were at the next.
    pub(crate) to: f64,
    /// How many pages did.
    pub(crate) pages: f64,
}

/// Waits of many pages, those of about the same times together.
#[derive(Default)]
pub(crate) struct Waits(Vec<Wait>);

impl Waits {
    /// So many pages waited from so long to so long, ns.
    pub(crate) fn add(&mut self, (from, to): (f64, f64), pages: f64) {
        // Glances of many looks are about as far from the clearing as each other.
        let about = |time: f64| match time {
            ..1.0 => 0.0,
            _ => ((time.log2() * NEAR).round() / NEAR).exp2(),
        };
        let (from, to) = (about(from), about(to));
        let is_same = |wait: &&mut Wait| (wait.from, wait.to) == (from, to);
        match self.0.iter_mut().find(is_same) {
            Some(wait) => wait.pages += pages,
            None => self.0.push(Wait { from, to, pages }),
        }
    }

    /// So many times as many pages.
    pub(crate) fn times(&self, times: f64) -> Self {
        let more = |wait: &Wait| Wait {
            pages: wait.pages * times,
            ..*wait
        };
        Self(self.0.iter().map(more).collect())
    }

    /// All times together.
    pub(crate) fn sum(&self) -> f64 {
        let waits = self.0.iter();
        waits
            .map(|wait| wait.pages * (wait.from + wait.to) / 2.0)
            .sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Wait> {
        self.0.iter()
    }

    /// How many came within the octave in which most did: glances of many looks are not at quite the same times.
    pub(crate) fn most_at_a_time(&self) -> f64 {
        let mut octaves: BTreeMap<i32, f64> = BTreeMap::new();
        for wait in &self.0 {
            let octave = wait.to.max(1.0).log2().round() as i32;
            *octaves.entry(octave).or_default() += wait.pages;
        }
        octaves.into_values().fold(0.0, f64::max)
    }

    /// Whether all may have come within a round of this length, but for a few.
    pub(crate) fn fit(&self, length: f64) -> bool {
        let all: f64 = self.0.iter().map(|wait| wait.pages).sum();
        let later = self.0.iter().filter(|wait| wait.from >= length);
        later.map(|wait| wait.pages).sum::<f64>() <= all * MOST_LATER
    }

    /// The rate of the exponentially distributed waits of which only those up to the look are seen that makes these likeliest, per ns, and
    /// the logarithm of how likely they are. The rate is 0 if waits that are evenly spread are nearly as likely.
    pub(crate) fn rate(&self, interval: f64) -> (f64, f64) {
        if self.0.is_empty() {
            return (0.0, 0.0);
        }
        // ln(exp(-x) - exp(-y)), given that it is at most the interval.
        let likelihood = |rate: f64| -> f64 {
            let below = |x: f64| (-(-x).exp_m1()).ln();
            let of = |wait: &Wait| {
                let length = (wait.to - wait.from).max(1.0);
                wait.pages * (below(rate * length) - rate * wait.from - below(rate * interval))
            };
            self.0.iter().map(of).sum()
        };
        // By logarithms: from evenly spread to all at the first of a thousand parts.
        let (evenly, most) = (1e-3 / interval, 1e4 / interval);
        let (mut low, mut high) = (evenly.ln(), most.ln());
        // To a thousandth.
        for _ in 0..24 {
            let third = (high - low) / 3.0;
            match likelihood((low + third).exp()) < likelihood((high - third).exp()) {
                true => low += third,
                false => high -= third,
            }
        }
        let rate = low.exp();
        match likelihood(rate) > likelihood(evenly) + SURE {
            true => (rate, likelihood(rate)),
            false => (0.0, likelihood(evenly)),
        }
    }

    /// Pages that are accessed once a round, in whatever order, wait for no longer than one takes, and for any time up to that alike: the
    /// length of a round that makes their waits likeliest, ns, and the logarithm of how likely they are. `None`: all came before the
    /// first glance, so that it may be any shorter time.
    pub(crate) fn round(&self, interval: f64) -> Option<(f64, f64)> {
        let ends = self.0.iter().filter(|wait| wait.from == 0.0);
        let soonest = ends.map(|wait| wait.to).min_by(f64::total_cmp)?;
        if self.0.iter().all(|wait| wait.from == 0.0) {
            return None;
        }
        let ratio = (interval / soonest).max(1.0).powf(1.0 / LENGTHS as f64);
        let lengths = (0..=LENGTHS).map(|step| (soonest * ratio.powi(step as i32)).max(1.0));
        lengths
            .map(|length| (length, self.likelihood_of_round(length, interval)))
            .max_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// The logarithm of how likely these waits are where a round takes so long, ns.
    pub(crate) fn likelihood_of_round(&self, length: f64, interval: f64) -> f64 {
        let of = |wait: &Wait| {
            let within = (wait.to.min(length) - wait.from).max(0.0) / length;
            let astray = (wait.to - wait.from).max(1.0) / interval;
            wait.pages * ((1.0 - ASTRAY) * within + ASTRAY * astray).ln()
        };
        self.0.iter().map(of).sum()
    }
}
