//! Where huge pages are, and how much of each 2 MiB was in use where there are none: from looks at accessed bits.

use std::collections::BTreeMap;

use pagewise_trace::Access;
use pagewise_trace::Space;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// Bytes of a region.
pub const REGION_BYTES: u64 = 2 << 20;
/// Base pages of a bucket, and how many buckets there are (HawkEye, ASPLOS 2019: the access map).
const BUCKET_PAGES: f64 = 50.0;
const BUCKETS: usize = 10;

/// The regions of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Its process id; `None`: not known.
    pub pid: Option<u32>,
    /// Its name; empty: not known.
    pub command: String,
    /// All that were seen with pages in memory or in swap, by address; files and shared memory too.
    pub regions: Vec<RegionCoverage>,
}

/// 2 MiB of an address space, as it was seen last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionCoverage {
    /// Its first byte.
    pub address: u64,
    /// Base pages in memory.
    pub resident_pages: u16,
    /// Base pages in swap.
    pub swapped_pages: u16,
    /// One entry of the page table maps all of it.
    pub is_huge: bool,
    /// Base pages accessed within a look, the mean of all looks that found base pages, each weighted by its interval. `None`: all
    /// found a huge page, which has one bit for all of it.
    pub accessed_pages: Option<f64>,
}

/// Regions of base pages of which about as many are accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoverageBucket {
    /// How many.
    pub regions: u64,
    /// What of them is in memory.
    pub resident_bytes: u64,
}

impl Coverage {
    /// Of all regions, what is in memory, bytes.
    pub fn resident_bytes(&self, page_bytes: u64) -> u64 {
        let pages = self.regions.iter();
        let pages: u64 = pages.map(|region| u64::from(region.resident_pages)).sum();
        pages * page_bytes
    }

    /// Of it, in huge pages.
    pub fn huge_bytes(&self) -> u64 {
        let huge = self.regions.iter().filter(|region| region.is_huge);
        huge.count() as u64 * REGION_BYTES
    }

    /// Regions of base pages by how many of them are accessed: 0 to 49, 50 to 99, and so on; the last has 450 to 512.
    pub fn buckets(&self, page_bytes: u64) -> [CoverageBucket; BUCKETS] {
        let mut buckets = [CoverageBucket::default(); BUCKETS];
        for region in self.regions.iter().filter(|region| !region.is_huge) {
            let accessed = region.accessed_pages.unwrap_or(0.0);
            let bucket = &mut buckets[((accessed / BUCKET_PAGES) as usize).min(BUCKETS - 1)];
            bucket.regions += 1;
            bucket.resident_bytes += u64::from(region.resident_pages) * page_bytes;
        }
        buckets
    }
}

/// Sums over the looks.
#[derive(Debug, Default)]
pub(crate) struct CoverageSums(BTreeMap<u32, BTreeMap<u64, Sum>>);

#[derive(Debug)]
struct Sum {
    last: RegionCoverage,
    /// Pages times ns, and ns, of looks that found base pages.
    accessed: u128,
    looked_ns: u128,
}

impl CoverageSums {
    pub(crate) fn add(&mut self, row: &Access) {
        let last = RegionCoverage {
            address: row.address,
            resident_pages: row.resident_pages,
            swapped_pages: row.swapped_pages,
            is_huge: row.huge,
            accessed_pages: None,
        };
        let regions = self.0.entry(row.space).or_default();
        let sum = regions.entry(row.address).or_insert(Sum {
            last,
            accessed: 0,
            looked_ns: 0,
        });
        sum.last = last;
        if !row.huge {
            let time = u128::from(row.interval_ns.max(1));
            sum.accessed += time * u128::from(row.accessed_pages);
            sum.looked_ns += time;
        }
    }

    /// By process, most regions first.
    pub(crate) fn finish(self, trace: &Trace) -> Result<Vec<Coverage>, TraceError> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        // Of several rows of a space the last counts.
        let spaces = trace.spaces()?.into_iter();
        let known: BTreeMap<u32, Space> = spaces.map(|space| (space.space, space)).collect();
        let coverage = self.0.into_iter().map(|(space, regions)| {
            let known = known.get(&space);
            Coverage {
                pid: known.map(|space| space.pid),
                command: known.map_or_else(String::new, |space| space.command.clone()),
                regions: regions.into_values().map(Sum::finish).collect(),
            }
        });
        let mut coverage: Vec<Coverage> = coverage.collect();
        coverage.sort_by_key(|process| std::cmp::Reverse(process.regions.len()));
        Ok(coverage)
    }
}

impl Sum {
    fn finish(self) -> RegionCoverage {
        let mean = self.accessed as f64 / self.looked_ns as f64;
        RegionCoverage {
            accessed_pages: (self.looked_ns > 0).then_some(mean),
            ..self.last
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(time_ns: u64, interval_ns: u64, accessed_pages: u16, huge: bool) -> Access {
        Access {
            time_ns,
            interval_ns,
            space: 1,
            address: 4 << 20,
            resident_pages: 512,
            accessed_pages,
            dirty_pages: 0,
            huge,
            swapped_pages: 0,
            resident_map: None,
            accessed_map: None,
        }
    }

    fn region(looks: &[Access]) -> RegionCoverage {
        let mut sums = CoverageSums::default();
        looks.iter().for_each(|row| sums.add(row));
        let (_, mut regions) = sums.0.pop_first().expect("a space");
        regions.pop_first().expect("a region").1.finish()
    }

    #[test]
    fn what_is_accessed_is_the_mean_over_time_of_looks_at_base_pages() {
        let seen = region(&[look(1, 100, 500, false), look(2, 300, 100, false)]);
        assert_eq!((seen.accessed_pages, seen.is_huge), (Some(200.0), false));
        let became_huge = region(&[look(1, 100, 500, false), look(2, 100, 512, true)]);
        assert_eq!(
            (became_huge.accessed_pages, became_huge.is_huge),
            (Some(500.0), true)
        );
        assert_eq!(region(&[look(1, 100, 512, true)]).accessed_pages, None);
    }

    #[test]
    fn buckets_hold_regions_of_base_pages_only() {
        let seen = |accessed: f64, is_huge| RegionCoverage {
            address: 0,
            resident_pages: 256,
            swapped_pages: 0,
            is_huge,
            accessed_pages: Some(accessed),
        };
        let process = Coverage {
            regions: [49.9, 50.0, 449.0, 450.0, 512.0]
                .map(|accessed| seen(accessed, false))
                .into_iter()
                .chain([seen(512.0, true)])
                .collect(),
            ..Coverage::default()
        };
        let buckets = process.buckets(4096);
        let regions = buckets.map(|bucket| bucket.regions);
        assert_eq!(regions, [1, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(buckets[9].resident_bytes, 2 << 20);
        assert_eq!(
            (process.resident_bytes(4096), process.huge_bytes()),
            (6 << 20, 2 << 20)
        );
    }
}
