//! Which pages that came back from swap are looked at again, and when (`bpf/write_looks.h`).

use crate::record::PAGE_BYTES;

/// Pages that wait for their looks, at most (`bpf/record.h`).
pub(crate) const MOST_LOOKS_WAITING: u64 = 4096;
const FEWEST_WAITING: u64 = 16;
/// More than one in so many would cost more than it tells. An odd number: programs go on by powers of two.
const LEAST_EVERY: u64 = 13;
/// From a page's coming in to its last look so large a part of memory comes in.
const PART_OF_MEMORY: u64 = 2;

/// Of each page in so many that come back, the last look when so many others have been noted after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looks {
    pub(crate) every: u32,
    pub(crate) waiting: u32,
}

impl Looks {
    pub(crate) const NONE: Self = Self {
        every: 0,
        waiting: 1,
    };

    /// Where the programs may have so much memory.
    pub(crate) fn within(memory_bytes: u64) -> Self {
        if !ENTRIES_TELL_WRITES {
            return Self::NONE;
        }
        let pages = memory_bytes / PAGE_BYTES / PART_OF_MEMORY;
        let waiting = (pages / LEAST_EVERY).clamp(FEWEST_WAITING, MOST_LOOKS_WAITING);
        let waiting = 1 << waiting.ilog2();
        let every = (pages / waiting).max(LEAST_EVERY) | 1;
        Self {
            every: u32::try_from(every).unwrap_or(u32::MAX),
            waiting: waiting as u32,
        }
    }
}

/// On arm64 a page that is only read comes in as written: a writable entry was dirty before Linux 6.18 (`pte_mkwrite_novma`,
/// arch/arm64/include/asm/pgtable.h), and `do_swap_page` has made those of reads writable since 6.11.
const ENTRIES_TELL_WRITES: bool = cfg!(target_arch = "x86_64");

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_last_look_comes_after_about_half_of_memory() {
        for mebibytes in [1, 8, 20, 72, 300, 1024, 8 << 10, 64 << 10, 2 << 20] {
            let bytes = mebibytes << 20;
            let looks = Looks::within(bytes);
            assert!(looks.waiting.is_power_of_two(), "{looks:?}");
            assert!(u64::from(looks.waiting) <= MOST_LOOKS_WAITING, "{looks:?}");
            assert!(!looks.every.is_multiple_of(2), "{looks:?}");
            let after = u64::from(looks.every) * u64::from(looks.waiting) * PAGE_BYTES;
            let part = after as f64 / bytes as f64;
            // Of very little memory no fewer than 16 wait.
            assert!(
                (0.4..0.6).contains(&part) || mebibytes < 8,
                "{mebibytes}: {part}"
            );
        }
    }
}
