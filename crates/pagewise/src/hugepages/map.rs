//! A process's regions as characters, 64 to a line: 128 MiB.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pagewise_collect::access::REGION_BYTES;
use pagewise_simulate::hugepages::AccessMap;
use pagewise_simulate::hugepages::Region;

const COLUMNS: u64 = 64;
const ROW: u64 = COLUMNS * REGION_BYTES;

/// What the characters mean.
pub(super) const LEGEND: &str = "# huge page, z more than an eighth of it zeros; 0-9 base pages, by tenths of them accessed in the window; . none accessed";

/// Lines without any region are left out.
pub(super) fn draw(regions: &BTreeMap<u64, Region>) -> String {
    let mut rows: BTreeMap<u64, Vec<char>> = BTreeMap::new();
    for (address, region) in regions {
        let row = rows
            .entry(address / ROW)
            .or_insert_with(|| vec![' '; COLUMNS as usize]);
        row[(address % ROW / REGION_BYTES) as usize] = character(region);
    }
    let mut text = String::new();
    for (row, characters) in rows {
        let line: String = characters.into_iter().collect();
        let _ = writeln!(text, "{:>16x}  {}", row * ROW, line.trim_end());
    }
    text
}

fn character(region: &Region) -> char {
    const MANY_ZEROS: u16 = 64;
    if region.seen.huge {
        return if region.zero.is_some_and(|zero| zero > MANY_ZEROS) {
            'z'
        } else {
            '#'
        };
    }
    match region.coverage {
        Some(coverage) if coverage >= 1.0 => {
            char::from_digit(AccessMap::bucket_of(coverage) as u32, 10).unwrap_or('9')
        }
        _ => '.',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_region_has_its_place() {
        let region = |huge: bool, coverage: f64, zero: Option<u16>| {
            let mut region = Region::default();
            region.seen.huge = huge;
            region.coverage = Some(coverage);
            region.zero = zero;
            region
        };
        let regions = BTreeMap::from([
            (ROW, region(true, 0.0, Some(64))),
            (ROW + 2 * REGION_BYTES, region(true, 0.0, Some(65))),
            (ROW + 3 * REGION_BYTES, region(false, 512.0, None)),
            (9 * ROW - REGION_BYTES, region(false, 0.0, None)),
        ]);
        let drawn = draw(&regions);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "         8000000  # z9");
        assert_eq!(lines[1], format!("        40000000  {:>64}", "."));
        assert_eq!(lines.len(), 2);
    }
}
