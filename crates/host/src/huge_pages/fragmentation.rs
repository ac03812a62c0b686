//! How much of the free memory is in pieces too small for a huge page.

use crate::files;
use std::path::Path;

/// 2^9 base pages are a huge page.
const HUGE_ORDER: u32 = 9;

/// Share of the free memory in blocks smaller than a huge page, 0 to 1, by `/proc/buddyinfo`: the "unusable free space
/// index" that Ingens takes for fragmentation. `None`: unknown.
pub fn fragmentation() -> Option<f64> {
    unusable(&files::read_optional(Path::new("/proc/buddyinfo"))?)
}

fn unusable(text: &str) -> Option<f64> {
    let (mut free, mut small) = (0_u64, 0_u64);
    for line in text.lines() {
        // `Node 0, zone   Normal   12  3 ...`: blocks of 2^0, 2^1, ... base pages.
        let counts = line.split_ascii_whitespace().skip(4);
        for (order, count) in (0_u32..).zip(counts) {
            let pages = count.parse::<u64>().ok()?.checked_shl(order)?;
            free += pages;
            small += if order < HUGE_ORDER { pages } else { 0 };
        }
    }
    (free > 0).then(|| small as f64 / free as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_over_all_free_ones() {
        let text = "Node 0, zone      DMA      0      0      0      0      0      0      0      0      0      1      0\n\
                    Node 0, zone   Normal    512      0      0      0      0      0      0      0      2      0      0\n";
        assert_eq!(unusable(text), Some(1024.0 / 1536.0));
        assert_eq!(unusable("Node 0, zone Normal 0 0\n"), None);
        assert_eq!(unusable("Node 0, zone Normal x\n"), None);
        assert_eq!(unusable(""), None);
    }
}
