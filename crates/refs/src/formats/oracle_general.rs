//! libCacheSim's `oracleGeneral`: records of time (u32), object (u64), size (u32) and next access (i64), packed.
//!
//! Objects are pages of files, read; their sizes are not looked at.

use crate::runs::FILE_READ;
use crate::runs::Run;

pub(crate) const RECORD_BYTES: usize = 24;

pub(crate) fn decode(record: &[u8; RECORD_BYTES], runs: &mut Vec<Run>) {
    runs.push(Run::one(object(record), FILE_READ));
}

#[inline]
fn object(record: &[u8; RECORD_BYTES]) -> u64 {
    u64::from_le_bytes(record[4..12].try_into().expect("eight bytes"))
}

/// Whether these bytes can hardly be anything else: times do not go back, and the next access is later or never.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    let (records, _) = head.as_chunks::<RECORD_BYTES>();
    let mut last_time = 0;
    records.iter().take(1000).zip(1..).all(|(record, index)| {
        let time = u32::from_le_bytes(record[..4].try_into().expect("four bytes"));
        let next = i64::from_le_bytes(record[16..].try_into().expect("eight bytes"));
        let in_order = time >= last_time;
        last_time = time;
        in_order && (next == -1 || next >= index)
    }) && !records.is_empty()
}
