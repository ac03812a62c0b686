//! What address translation costs: a model of two levels of TLB, and of the walks behind them.
//!
//! Accesses are taken to come independently of each other, each page at a rate of its own. Of a cache of `C` entries that
//! drops what was used least recently, a page that is looked up at rate `r` is then found with probability `1 - exp(-r * T)`,
//! where `T`, how long an entry stays, follows from `sum (1 - exp(-r * T)) = C` (Che, Tung, Wang, IEEE JSAC 2002). Entries
//! are taken to be free to lie anywhere: associativity is left out.

mod geometry;
mod residence;
#[cfg(test)]
mod tests;

pub use geometry::Tlb;
pub use geometry::TlbError;

use residence::Rates;

/// Pages of one size that are looked up equally often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lookups {
    /// Pages.
    pub pages: f64,
    /// Lookups of all of them together, in the time that is looked at.
    pub lookups: f64,
    /// Whether they are huge pages.
    pub huge: bool,
}

/// Cycles in the time that is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cycles {
    /// That translation has no part in.
    pub work: f64,
    /// Lookups that the first level has not and the second has.
    pub second_level: f64,
    /// Page walks.
    pub walks: f64,
}

impl Cycles {
    /// All of them.
    pub fn total(&self) -> f64 {
        self.work + self.second_level + self.walks
    }

    /// Page-walk cycles over cycles, 0 to 1: what counters of the processor call the overhead of translation.
    pub fn overhead(&self) -> f64 {
        if self.walks > 0.0 {
            self.walks / self.total()
        } else {
            0.0
        }
    }

    /// How many times as long it takes as without any translation; 1 at least.
    pub fn slow_down(&self) -> f64 {
        if self.work > 0.0 {
            self.total() / self.work
        } else {
            1.0
        }
    }
}

impl Tlb {
    /// What these lookups cost beside so many cycles of work.
    pub fn cost(&self, lookups: &[Lookups], work: f64) -> Cycles {
        let (mut base, mut huge) = (Rates::default(), Rates::default());
        for group in lookups.iter().filter(|group| group.lookups > 0.0) {
            let rates = if group.huge { &mut huge } else { &mut base };
            rates.add(group.pages, group.lookups);
        }
        let stay = residence::time(&[&base, &huge], f64::from(self.l2));
        let base = base.missed(residence::time(&[&base], f64::from(self.l1_4k)), stay);
        let huge = huge.missed(residence::time(&[&huge], f64::from(self.l1_2m)), stay);
        Cycles {
            work,
            second_level: self.second_level * (base.first_only + huge.first_only),
            walks: self.walk * base.both + self.walk_2m * huge.both,
        }
    }
}
