//! A table that is kept in memory while recording, as record batches of which the oldest can be let go.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;

use crate::table;
use crate::table::Codec;

/// Tables whose rows say what is there from then on: they are needed for what happens later, however old they are.
const LASTING: &[&str] = &[
    "allocations",
    "releases",
    "moves",
    "mappings",
    "residency",
    "given_names",
    "io_files",
];

/// The batches of one table, oldest first.
#[derive(Default)]
pub(crate) struct Memory {
    batches: VecDeque<Kept>,
    bytes: u64,
}

struct Kept {
    batch: RecordBatch,
    bytes: u64,
    /// The time of its last row, in tables whose rows tell of a moment.
    until_ns: Option<u64>,
}

impl Memory {
    pub(crate) fn push(&mut self, table: &str, batch: RecordBatch) {
        let bytes = batch.get_array_memory_size() as u64;
        let until_ns = (!LASTING.contains(&table))
            .then(|| last_time(&batch))
            .flatten();
        self.bytes += bytes;
        self.batches.push_back(Kept {
            batch,
            bytes,
            until_ns,
        });
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the oldest batch ends, if it may be let go.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.batches.front()?.until_ns
    }

    /// Lets the oldest batch go.
    pub(crate) fn forget_oldest(&mut self) {
        if let Some(kept) = self.batches.pop_front() {
            self.bytes -= kept.bytes;
        }
    }

    /// Shares the batches, without copying them.
    pub(crate) fn batches(&self) -> Vec<RecordBatch> {
        self.batches.iter().map(|kept| kept.batch.clone()).collect()
    }

    pub(crate) fn rows<T: Codec>(&self) -> Vec<T> {
        let mut rows = Vec::new();
        for kept in &self.batches {
            // These batches are our own: they have the columns of this version.
            if let Ok(columns) = T::view(&kept.batch) {
                rows.extend((0..kept.batch.num_rows()).map(|row| T::get(&columns, row)));
            }
        }
        rows
    }

    /// Puts other rows in the place of all.
    pub(crate) fn replace<T: Codec>(&mut self, table: &str, rows: Vec<T>) {
        *self = Self::default();
        let mut builders = T::Builders::default();
        rows.into_iter().for_each(|row| row.append(&mut builders));
        if let Ok(batch) = RecordBatch::try_new(table::schema::<T>(), T::finish(&mut builders))
            && batch.num_rows() > 0
        {
            self.push(table, batch);
        }
    }
}

/// `None`: the table has no times.
fn last_time(batch: &RecordBatch) -> Option<u64> {
    let times = batch
        .column_by_name("time_ns")?
        .as_primitive_opt::<UInt64Type>()?;
    (!times.is_empty()).then(|| times.value(times.len() - 1))
}
