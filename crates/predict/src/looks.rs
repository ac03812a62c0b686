//! Looks at accessed bits, page by page.

use pagewise_trace::Access;
use pagewise_trace::TraceError;

use crate::history::History;
use crate::history::key;

/// Pages of 2 MiB.
const PAGES: usize = 512;

/// What a look saw of some pages.
pub(crate) struct Look {
    /// When the bits had been cleared, and when it was looked; in own time.
    pub(crate) cleared: u64,
    pub(crate) at: u64,
    /// Pages in memory, and whether each had been accessed.
    pub(crate) pages: Vec<(u32, bool)>,
}

/// The looks of a recording, in order of time; pages of `1 << page_shift` bytes.
pub(crate) fn read(
    rows: impl Iterator<Item = Result<Access, TraceError>>,
    page_shift: u32,
    history: &History,
) -> impl Iterator<Item = Result<Look, TraceError>> {
    rows.map(move |row| {
        let row = row?;
        let cleared = row.time_ns.saturating_sub(row.interval_ns);
        let all = |count: u16| [if count > 0 { u64::MAX } else { 0 }; PAGES / 64];
        let resident = bits(row.resident_map.as_deref()).unwrap_or(all(row.resident_pages));
        let accessed = bits(row.accessed_map.as_deref()).unwrap_or(all(row.accessed_pages));
        let first = key(row.space, row.address >> page_shift);
        let begin = history.keys.partition_point(|&key| key < first);
        let pages = (begin as u32..).zip(&history.keys[begin..]);
        let pages = pages
            .map_while(|(page, key)| Some((page, key - first)).filter(|&(_, at)| at < PAGES as u64))
            .filter(|&(_, at)| is_set(&resident, at))
            .map(|(page, at)| (page, is_set(&accessed, at)));
        Ok(Look {
            cleared: history.clock.own(cleared),
            at: history.clock.own(row.time_ns),
            pages: pages.collect(),
        })
    })
}

type Bits = [u64; PAGES / 64];

fn is_set(bits: &Bits, at: u64) -> bool {
    bits[at as usize / 64] >> (at % 64) & 1 != 0
}

/// Of a map: hexadecimal digits, the first digit's lowest bit the first page.
fn bits(map: Option<&str>) -> Option<Bits> {
    let digits = map?.bytes().map(|digit| (digit as char).to_digit(16));
    let mut bits = [0; PAGES / 64];
    for (at, digit) in digits.take(PAGES / 4).enumerate() {
        bits[at / 16] |= u64::from(digit.unwrap_or(0)) << (at % 16 * 4);
    }
    Some(bits)
}
