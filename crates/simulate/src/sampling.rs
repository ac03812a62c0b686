//! Spatial sampling: all accesses to some of the pages stand for all accesses to all pages, in a memory as much smaller.
//! C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, Efficient MRC construction with SHARDS, FAST 2015 (fixed rate,
//! adjusted); for policies without stack distances the small simulations of C. A. Waldspurger, T. Saemundsson, I. Ahmad,
//! N. Park, Cache modeling and optimization using miniature simulations, USENIX ATC 2017.

use crate::outcome::Outcome;
use crate::reference::Reference;

/// Chooses pages by a hash of their number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Pages whose hash lies below are chosen.
    threshold: u64,
    /// The share of the pages that is.
    rate: f64,
}

impl Sampler {
    /// Chooses about this share of the pages; from 1 on all, never fewer than one in 2^32.
    pub fn new(rate: f64) -> Sampler {
        let all = 2f64.powi(32);
        let threshold = (rate * all).clamp(1.0, all) as u64;
        Sampler {
            threshold,
            rate: threshold as f64 / all,
        }
    }

    /// The same once it is known how many pages it has chosen of how many: what is scaled is off by less then.
    pub fn measured(self, chosen: u32, pages: u32) -> Sampler {
        let rate = f64::from(chosen) / f64::from(pages);
        let is_share = rate > 0.0 && rate <= 1.0;
        Sampler {
            rate: if is_share { rate } else { self.rate },
            ..self
        }
    }

    /// The share of pages it chooses.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// How many pages each that is chosen stands for, about.
    pub fn pages_each(&self) -> u32 {
        (1.0 / self.rate).round() as u32
    }

    /// Whether this page is chosen.
    #[inline]
    pub fn chooses(&self, page: u32) -> bool {
        u64::from(hash(page)) < self.threshold
    }

    /// Appends the chosen references to `chosen`.
    pub fn select(&self, references: &[Reference], chosen: &mut Vec<Reference>) {
        chosen.extend(
            references
                .iter()
                .filter(|reference| self.chooses(reference.page())),
        );
    }

    /// The small memory that stands for `frames`.
    pub fn frames(&self, frames: u32) -> u32 {
        ((f64::from(frames) * self.rate()).round() as u32).max(1)
    }

    /// The number of chosen references among which something happens that happens once in `period` of all; at least 1.
    pub fn period(&self, period: u64) -> u64 {
        ((period as f64 * self.rate()).round() as u64).max(1)
    }

    /// What `sampled` stands for, given how many references there were in all. References missing from the sample, or
    /// too many in it, are those of a few pages used very often: they are counted as hits (SHARDS-adj, section 4.1).
    pub fn scale(&self, sampled: &Outcome, references: u64) -> Outcome {
        let scaled = |count: u64| (count as f64 / self.rate()).round() as u64;
        Outcome {
            references,
            file_misses: scaled(sampled.file_misses),
            anonymous_misses: scaled(sampled.anonymous_misses),
            first_touches: scaled(sampled.first_touches),
            evictions: scaled(sampled.evictions),
            file_reads: scaled(sampled.file_reads),
            file_writes: scaled(sampled.file_writes),
            swap_reads: scaled(sampled.swap_reads),
            swap_writes: scaled(sampled.swap_writes),
        }
    }
}

/// The finalizer of MurmurHash3 (A. Appleby, public domain): every bit of the number decides every bit of the result.
#[inline]
pub(crate) fn hash(page: u32) -> u32 {
    let mut hash = page ^ page >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}
