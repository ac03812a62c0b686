//! A processor's TLB as the command line names it.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// More entries than any processor has: what is beyond is a slip of the finger.
const MOST_ENTRIES: u32 = 1 << 20;
/// Likewise, cycles.
const MOST_CYCLES: f64 = 1e6;

/// Two levels of TLB, and what lookups cost that they have not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tlb {
    /// Entries of the first level for base pages.
    pub l1_4k: u32,
    /// Entries of the first level for huge pages.
    pub l1_2m: u32,
    /// Entries of the second level, which both share.
    pub l2: u32,
    /// Cycles of a walk to a base page.
    pub walk: f64,
    /// Cycles of a walk to a huge page. It has a step less, and its tables are a 512th of the size, so in a nearer cache.
    pub walk_2m: f64,
    /// Cycles of a lookup that the second level answers.
    pub second_level: f64,
    /// Cycles of other work for each lookup of a page, where it is not known how often pages are accessed.
    pub work: f64,
}

impl Default for Tlb {
    /// The Haswell of HawkEye's paper (ASPLOS 2019, section 4): entries from there. Cycles are assumptions: a walk reads a page
    /// table entry from the third level of cache, and of a huge page from the second; work is that of an access to memory
    /// that no cache has.
    fn default() -> Self {
        Self {
            l1_4k: 64,
            l1_2m: 8,
            l2: 1024,
            walk: 36.0,
            walk_2m: 12.0,
            second_level: 8.0,
            work: 200.0,
        }
    }
}

/// A geometry that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{why}; give what differs from {}", Tlb::default())]
pub struct TlbError {
    why: String,
}

/// As it is typed.
impl fmt::Display for Tlb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            l1_4k,
            l1_2m,
            l2,
            walk,
            walk_2m,
            second_level,
            work,
        } = self;
        write!(
            f,
            "l1-4k={l1_4k},l1-2m={l1_2m},l2={l2},walk={walk},walk-2m={walk_2m},l2-hit={second_level},work={work}"
        )
    }
}

/// What is not named is as by default.
impl FromStr for Tlb {
    type Err = TlbError;

    fn from_str(text: &str) -> Result<Self, TlbError> {
        let mut tlb = Self::default();
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| TlbError {
                why: format!("`{part}` is not of the form key=number"),
            })?;
            match key.trim() {
                "l1-4k" => tlb.l1_4k = entries(key, value)?,
                "l1-2m" => tlb.l1_2m = entries(key, value)?,
                "l2" => tlb.l2 = entries(key, value)?,
                "walk" => tlb.walk = cycles(key, value)?,
                "walk-2m" => tlb.walk_2m = cycles(key, value)?,
                "l2-hit" => tlb.second_level = cycles(key, value)?,
                "work" => tlb.work = cycles(key, value)?,
                _ => {
                    return Err(TlbError {
                        why: format!("a TLB has no `{key}`"),
                    });
                }
            }
        }
        if tlb.work <= 0.0 {
            return Err(TlbError {
                why: "work must be more than 0 cycles".to_owned(),
            });
        }
        Ok(tlb)
    }
}

fn entries(key: &str, value: &str) -> Result<u32, TlbError> {
    let number = value.trim().parse().ok();
    number
        .filter(|entries| *entries <= MOST_ENTRIES)
        .ok_or_else(|| TlbError {
            why: format!("{key}={value}: a number of entries from 0 to {MOST_ENTRIES} is needed"),
        })
}

fn cycles(key: &str, value: &str) -> Result<f64, TlbError> {
    let number = value.trim().parse().ok();
    number
        .filter(|cycles| (0.0..=MOST_CYCLES).contains(cycles))
        .ok_or_else(|| TlbError {
            why: format!("{key}={value}: a number of cycles from 0 to {MOST_CYCLES} is needed"),
        })
}
