//! A process's regions as characters, 64 to a line: 128 MiB.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pagewise_collect::access::REGION_BYTES;
use pagewise_simulate::hugepages::AccessMap;
use pagewise_simulate::hugepages::Region;

const COLUMNS: u64 = 64;
const ROW: u64 = COLUMNS * REGION_BYTES;

/// What the characters mean.
pub(super) fn legend(tells_accesses: bool) -> &'static str {
    match tells_accesses {
        true => {
            "# huge page, z more than an eighth of it zeros; 0-9 base pages, by tenths of them accessed in the window; . none accessed"
        }
        false => {
            "# huge page, z more than an eighth of it zeros; 0-9 base pages, by tenths of them in memory, . none: which are accessed is not known"
        }
    }
}

/// Lines without any region are left out.
pub(super) fn draw(regions: &BTreeMap<u64, Region>, tells_accesses: bool) -> String {
    let mut rows: BTreeMap<u64, Vec<char>> = BTreeMap::new();
    for (address, region) in regions {
        let row = rows
            .entry(address / ROW)
            .or_insert_with(|| vec![' '; COLUMNS as usize]);
        row[(address % ROW / REGION_BYTES) as usize] = character(region, tells_accesses);
    }
    let mut text = String::new();
    for (row, characters) in rows {
        let line: String = characters.into_iter().collect();
        let _ = writeln!(text, "{:>16x}  {}", row * ROW, line.trim_end());
    }
    text
}

fn character(region: &Region, tells_accesses: bool) -> char {
    const MANY_ZEROS: u16 = 64;
    if region.seen.huge {
        return if region.zero.is_some_and(|zero| zero > MANY_ZEROS) {
            'z'
        } else {
            '#'
        };
    }
    let pages = match tells_accesses {
        true => region.coverage.unwrap_or(0.0),
        false => f64::from(region.seen.resident),
    };
    if pages < 1.0 {
        return '.';
    }
    char::from_digit(AccessMap::bucket_of(pages) as u32, 10).unwrap_or('9')
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
        let drawn = draw(&regions, true);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "         8000000  # z9");
        assert_eq!(lines[1], format!("        40000000  {:>64}", "."));
        assert_eq!(lines.len(), 2);
        // Where accesses are not known, none is drawn.
        let drawn = draw(&regions, false);
        assert_eq!(drawn.lines().next(), Some("         8000000  # z."));
    }
}
