//! Waits that the kernel counts, of a trace whose begin was forgotten.

use arrow_array::RecordBatch;

use crate::memory::Memory;
use crate::table::Row;
use crate::tables::Pressure;

/// Counts on from the first row that is kept, so that the last one tells of no more time than the other tables. From a
/// single row nothing is known.
pub(crate) fn since_first(mut rows: Vec<Pressure>) -> Vec<RecordBatch> {
    if let Some(first) = rows.first().cloned() {
        let is_only = rows.len() == 1;
        for row in &mut rows {
            for (count, first) in counts(row).into_iter().zip(counts(&mut first.clone())) {
                let both = count.zip(*first).filter(|_| !is_only);
                *count = both.and_then(|(count, first)| count.checked_sub(first));
            }
        }
    }
    let mut memory = Memory::default();
    memory.replace(Pressure::TABLE, rows);
    memory.batches()
}

fn counts(row: &mut Pressure) -> [&mut Option<u64>; 8] {
    [
        &mut row.psi_some_ns,
        &mut row.psi_full_ns,
        &mut row.machine_psi_some_ns,
        &mut row.machine_psi_full_ns,
        &mut row.delay_swapin_ns,
        &mut row.delay_freepages_ns,
        &mut row.delay_thrashing_ns,
        &mut row.delay_blkio_ns,
    ]
}
