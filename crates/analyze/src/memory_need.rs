//! How much more memory would have avoided swap-ins.

/// The share of the stall that the memory is named for.
pub const AVOIDED_SHARE: f64 = 0.99;

/// Buckets to a doubling of the depth: it is known to about 1.5 %.
const SUB_BUCKET_BITS: u32 = 6;

/// Swap-ins by how much more memory each would have needed not to happen.
#[derive(Clone, Debug, Default)]
pub(crate) struct NeedCurve {
    /// By bucket of pages, sorted.
    buckets: Vec<Bucket>,
    /// Those whose eviction was not seen.
    unknown: Left,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    number: u16,
    swap_ins: u32,
    stall_ns: u64,
}

/// What would be left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Left {
    swap_ins: u64,
    stall_ns: u64,
}

/// A point of the curve from memory to what would be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedPoint {
    /// Memory beyond what there was, in bytes.
    pub extra_bytes: u64,
    /// Swap-ins that would have happened all the same.
    pub swap_ins: u64,
    /// Time they would have taken, ns.
    pub stall_ns: u64,
}

/// How much memory would have avoided a program's swap-ins.
///
/// From the trace alone: see `swapped.rs`. It holds as far as memory is reclaimed in the order of last use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryNeed {
    /// Memory beyond what there was that would have avoided [`AVOIDED_SHARE`] of the stall, in bytes; `None` if most of
    /// it cannot be told.
    pub extra_bytes: Option<u64>,
    /// The limit with that added; `None` also if there was no limit.
    pub limit_bytes: Option<u64>,
    /// Swap-ins whose page was seen to leave memory before.
    pub known_swap_ins: u64,
    /// The others: nothing can be told of them.
    pub unknown_swap_ins: u64,
    /// From no more memory to the most that would have mattered, in steps of the stall.
    pub curve: Vec<NeedPoint>,
}

fn bucket_of(pages: u64) -> u16 {
    let sub_buckets = 1u64 << SUB_BUCKET_BITS;
    if pages < sub_buckets {
        return pages as u16;
    }
    let shift = pages.ilog2() - SUB_BUCKET_BITS;
    (u64::from(shift + 1) * sub_buckets + ((pages >> shift) - sub_buckets)) as u16
}

/// The most pages in a bucket: memory for one of them is memory for all.
fn most_of(bucket: u16) -> u64 {
    let sub_buckets = 1u64 << SUB_BUCKET_BITS;
    let bucket = u64::from(bucket);
    if bucket < sub_buckets {
        return bucket;
    }
    let shift = bucket / sub_buckets - 1;
    ((sub_buckets + bucket % sub_buckets) << shift) + ((1 << shift) - 1)
}

impl NeedCurve {
    /// A swap-in that so many pages more of memory would have avoided.
    pub(crate) fn add(&mut self, pages: Option<u64>, stall_ns: u64) {
        let Some(pages) = pages else {
            self.add_unknown(1, stall_ns);
            return;
        };
        let number = bucket_of(pages);
        if self.buckets.is_empty() {
            self.buckets.reserve_exact(1); // of a million objects most have one
        }
        match self
            .buckets
            .binary_search_by_key(&number, |bucket| bucket.number)
        {
            Ok(at) => {
                let bucket = &mut self.buckets[at];
                bucket.swap_ins = bucket.swap_ins.saturating_add(1);
                bucket.stall_ns = bucket.stall_ns.saturating_add(stall_ns);
            }
            Err(at) => self.buckets.insert(
                at,
                Bucket {
                    number,
                    swap_ins: 1,
                    stall_ns,
                },
            ),
        }
    }

    /// Swap-ins of which nothing can be told.
    pub(crate) fn add_unknown(&mut self, swap_ins: u64, stall_ns: u64) {
        self.unknown.swap_ins += swap_ins;
        self.unknown.stall_ns = self.unknown.stall_ns.saturating_add(stall_ns);
    }

    fn known(&self) -> Left {
        self.buckets
            .iter()
            .fold(Left::default(), |sum, bucket| Left {
                swap_ins: sum.swap_ins + u64::from(bucket.swap_ins),
                stall_ns: sum.stall_ns.saturating_add(bucket.stall_ns),
            })
    }

    /// The fewest pages more that would have left at most this share of the known stall (of the swap-ins, where none
    /// waited), and what is left then.
    fn leaving(&self, share: f64) -> (u64, Left) {
        let mut left = self.known();
        let weight = |left: Left| match self.known().stall_ns {
            0 => left.swap_ins,
            _ => left.stall_ns,
        };
        let most = weight(left) as f64 * share;
        let mut pages = 0;
        for bucket in &self.buckets {
            if weight(left) as f64 <= most {
                break;
            }
            pages = most_of(bucket.number);
            left.swap_ins -= u64::from(bucket.swap_ins);
            left.stall_ns = left.stall_ns.saturating_sub(bucket.stall_ns);
        }
        (pages, left)
    }

    /// Memory that would have avoided [`AVOIDED_SHARE`] of the stall, in bytes; `None` if most of it cannot be told.
    pub(crate) fn extra_bytes(&self, page_bytes: u64) -> Option<u64> {
        let known = self.known();
        let told = known.swap_ins > 0
            && known.swap_ins >= self.unknown.swap_ins
            && known.stall_ns >= self.unknown.stall_ns;
        told.then(|| {
            self.leaving(1.0 - AVOIDED_SHARE)
                .0
                .saturating_mul(page_bytes)
        })
    }

    /// All that can be said of the program.
    pub(crate) fn need(&self, page_bytes: u64, limit_bytes: Option<u64>) -> MemoryNeed {
        const LEFT: [f64; 14] = [
            1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0,
        ];
        let known = self.known();
        let extra_bytes = self.extra_bytes(page_bytes);
        let mut curve: Vec<NeedPoint> = Vec::new();
        if known.swap_ins > 0 {
            curve.extend(LEFT.map(|share| {
                let (pages, left) = self.leaving(share);
                NeedPoint {
                    extra_bytes: pages.saturating_mul(page_bytes),
                    swap_ins: left.swap_ins + self.unknown.swap_ins,
                    stall_ns: left.stall_ns.saturating_add(self.unknown.stall_ns),
                }
            }));
            curve.dedup();
        }
        MemoryNeed {
            extra_bytes,
            limit_bytes: limit_bytes
                .zip(extra_bytes)
                .map(|(limit, extra)| limit.saturating_add(extra)),
            known_swap_ins: known.swap_ins,
            unknown_swap_ins: self.unknown.swap_ins,
            curve,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_put_there() {
        for pages in (0..5000).chain([1 << 20, (1 << 30) + 12_345, u64::from(u32::MAX)]) {
            let most = most_of(bucket_of(pages));
            assert!(
                most >= pages && most as f64 <= pages as f64 * 1.016,
                "{pages} in {most}"
            );
        }
    }

    #[test]
    fn the_need_is_what_avoids_the_stall() {
        let mut curve = NeedCurve::default();
        for _ in 0..990 {
            curve.add(Some(40), 1000);
        }
        for _ in 0..10 {
            curve.add(Some(5000), 1000);
        }
        let need = curve.need(4096, Some(1 << 20));
        assert_eq!(need.extra_bytes, Some(40 * 4096));
        assert_eq!(need.limit_bytes, Some((1 << 20) + 40 * 4096));
        assert_eq!((need.known_swap_ins, need.unknown_swap_ins), (1000, 0));
        let first = need.curve.first().expect("a curve");
        assert_eq!(
            (first.extra_bytes, first.swap_ins, first.stall_ns),
            (0, 1000, 1_000_000)
        );
        let last = need.curve.last().expect("a curve");
        assert_eq!((last.swap_ins, last.stall_ns), (0, 0));
        assert!(
            need.curve
                .is_sorted_by(|a, b| a.extra_bytes <= b.extra_bytes && a.swap_ins >= b.swap_ins)
        );
    }

    #[test]
    fn without_latencies_swap_ins_count() {
        let mut curve = NeedCurve::default();
        curve.add(Some(7), 0);
        assert_eq!(curve.extra_bytes(4096), Some(7 * 4096));
    }

    #[test]
    fn what_nobody_saw_leave_is_unknown() {
        let mut curve = NeedCurve::default();
        assert_eq!(curve.need(4096, None), MemoryNeed::default());
        curve.add(Some(10), 1000);
        curve.add_unknown(2, 100);
        assert_eq!(curve.extra_bytes(4096), None, "two of three are unknown");
        let need = curve.need(4096, Some(1 << 20));
        assert_eq!((need.limit_bytes, need.unknown_swap_ins), (None, 2));
        assert_eq!(need.curve.last().map(|point| point.swap_ins), Some(2));
    }
}
