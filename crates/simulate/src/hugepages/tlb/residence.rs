//! How long a translation stays in a cache of translations, and how many lookups therefore miss.

use std::collections::BTreeMap;

/// Rates that differ by less than a 32nd of an octave are one.
const STEPS_OF_OCTAVE: f64 = 32.0;
/// Halvings of the interval in which the time is sought: as exact as a double is.
const HALVINGS: u32 = 60;

/// Pages by how often they are looked up.
#[derive(Debug, Default)]
pub(super) struct Rates {
    /// By the rate's logarithm: pages, and lookups of all of them.
    groups: BTreeMap<i64, (f64, f64)>,
}

/// Lookups that the first level has not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missed {
    /// And the second has.
    pub(super) first_only: f64,
    /// Nor the second.
    pub(super) both: f64,
}

impl Rates {
    pub(super) fn add(&mut self, pages: f64, lookups: f64) {
        if pages <= 0.0 {
            return;
        }
        let key = ((lookups / pages).log2() * STEPS_OF_OCTAVE).round() as i64;
        let group = self.groups.entry(key).or_default();
        *group = (group.0 + pages, group.1 + lookups);
    }

    fn pages(&self) -> f64 {
        self.groups.values().map(|(pages, _)| pages).sum()
    }

    /// How many of the pages are in a cache in which a translation stays for so long.
    fn held(&self, time: f64) -> f64 {
        let groups = self.groups.values();
        groups
            .map(|(pages, lookups)| pages * -(-lookups / pages * time).exp_m1())
            .sum()
    }

    /// With translations that stay for so long in the first level, and in the second.
    pub(super) fn missed(&self, first: f64, second: f64) -> Missed {
        let longer = first.max(second);
        let mut missed = Missed::default();
        for (pages, lookups) in self.groups.values() {
            let absent = |time: f64| (-lookups / pages * time).exp();
            missed.both += lookups * absent(longer);
            missed.first_only += lookups * (absent(first) - absent(longer));
        }
        missed
    }
}

/// How long a translation stays in a cache of so many entries that all of these share; infinite if all fit.
pub(super) fn time(all: &[&Rates], entries: f64) -> f64 {
    if entries <= 0.0 {
        return 0.0;
    }
    if all.iter().map(|rates| rates.pages()).sum::<f64>() <= entries {
        return f64::INFINITY;
    }
    let held = |time: f64| all.iter().map(|rates| rates.held(time)).sum::<f64>();
    let (mut least, mut most) = (0.0, 1.0);
    // Ends where the doubling does: then hardly a page is looked up at all.
    while held(most) < entries && most < f64::MAX / 4.0 {
        least = most;
        most *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = least + (most - least) / 2.0;
        if held(middle) < entries {
            least = middle;
        } else {
            most = middle;
        }
    }
    least
}
