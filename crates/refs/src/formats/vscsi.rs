//! VMware's vscsiStats as CloudPhysics recorded it: one SCSI command a record, in two versions.
//!
//! Version 1 (32 bytes): serial u32, bytes u32, segments u32, command u16, version u16, block u64, time u64. Version 2 (40
//! bytes): command u16, version u16, serial u32, bytes u32, segments u32, block u64, time u64, response time u64. The
//! version is in the upper byte of its field. Blocks are of 512 bytes.

use crate::decode::Decoder;
use crate::decode::Records;
use crate::format::SECTOR_BYTES;
use crate::formats::csv::is_scsi_write;
use crate::runs::Access;
use crate::runs::Run;

const VERSION_1: usize = 32;
const VERSION_2: usize = 40;

/// Bytes of a record, if these are records of vscsi.
pub(crate) fn record_bytes(head: &[u8]) -> Option<usize> {
    let all = |size: usize, version_at: usize, version: u8| {
        let mut records = head.chunks_exact(size).take(100).peekable();
        records.peek().is_some() && records.all(|record| record[version_at + 1] == version)
    };
    if all(VERSION_2, 2, 2) {
        Some(VERSION_2)
    } else if all(VERSION_1, 14, 1) {
        Some(VERSION_1)
    } else {
        None
    }
}

/// A decoder of records of this size, as [`record_bytes`] tells. Without `page_shift` each command accesses one page, its
/// first block.
pub(crate) fn decoder(bytes: usize, page_shift: Option<u32>) -> Box<dyn Decoder> {
    if bytes == VERSION_1 {
        Box::new(Records(
            move |record: &[u8; VERSION_1], runs: &mut Vec<Run>| {
                runs.push(run(
                    u64_at(record, 16),
                    u32_at(record, 4),
                    u16_at(record, 12),
                    page_shift,
                ));
            },
        ))
    } else {
        Box::new(Records(
            move |record: &[u8; VERSION_2], runs: &mut Vec<Run>| {
                runs.push(run(
                    u64_at(record, 16),
                    u32_at(record, 8),
                    u16_at(record, 0),
                    page_shift,
                ));
            },
        ))
    }
}

fn run(block: u64, bytes: u32, command: u16, page_shift: Option<u32>) -> Run {
    let access = Access {
        write: is_scsi_write(u64::from(command)),
        file: true,
    };
    let whole = |shift| {
        let address = block.saturating_mul(SECTOR_BYTES);
        Run::covering(address, u64::from(bytes), shift, access)
    };
    page_shift
        .and_then(whole)
        .unwrap_or(Run::one(block, access))
}

fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(record[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}
