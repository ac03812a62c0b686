//! A trace that is kept in memory, and what is written of it when asked for.

use std::path::Path;
use std::path::PathBuf;

use arrow_array::RecordBatch;

use crate::compact::Lasting;
use crate::error::Result;
use crate::files::Owner;
use crate::journal::Segments;
use crate::memory::Memory;
use crate::meta::Meta;
use crate::pressure::since_first;
use crate::stream_write::TableWriter;
use crate::table::Row;
use crate::tables::*;
use crate::writer::Log;
use crate::writer::Overwrite;
use crate::writer::Tables;
use crate::writer::TraceWriter;

/// Lasting tables smaller than this are not worth going through.
const SMALL: u64 = 1 << 20;

struct InMemory;

impl Tables for InMemory {
    fn table<T: Row>(&mut self, _log: &mut Log) -> Result<TableWriter<T>> {
        Ok(TableWriter::in_memory())
    }
}

/// How much of a trace in memory was let go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forgotten {
    /// The time of the last row that was.
    until_ns: Option<u64>,
    /// Bytes of the lasting tables after they were gone through last.
    lasting_bytes: u64,
}

macro_rules! snapshots {
    ($( $field:ident: $row:ident, )*) => {
        /// What a trace in memory held at one moment. Sharing it costs no copy, so that it can be written elsewhere
        /// while the recording goes on.
        #[derive(Clone, Debug)]
        pub struct Snapshot {
            /// The meta data to write.
            pub meta: Meta,
            $( $field: Vec<RecordBatch>, )*
        }

        impl Snapshot {
            /// Writes it as a trace that is not closed yet.
            ///
            /// # Errors
            ///
            /// Those of [`TraceWriter::create`].
            pub fn write(
                self,
                dir: &Path,
                overwrite: Overwrite,
                owner: Option<Owner>,
            ) -> Result<TraceWriter> {
                let mut writer = TraceWriter::prepare(dir, self.meta, overwrite)?;
                if let Some(owner) = owner {
                    writer.set_owner(owner)?;
                }
                $( for batch in &self.$field {
                    writer.$field.push_batch(batch)?;
                } )*
                writer.flush()?;
                writer.settle()?;
                Ok(writer)
            }
        }

        impl TraceWriter {
            /// What is in memory now.
            ///
            /// # Errors
            ///
            /// None of a trace in memory; of one on disk, those of a [`flush`](TraceWriter::flush).
            pub fn snapshot(&mut self) -> Result<Snapshot> {
                self.flush()?;
                let mut snapshot = Snapshot {
                    meta: self.meta().clone(),
                    $( $field: self.$field.batches(), )*
                };
                if self.forgotten_until_ns().is_some() {
                    snapshot.pressure = since_first(self.pressure.kept_rows());
                }
                Ok(snapshot)
            }

            fn memory_bytes(&self) -> u64 {
                let mut bytes = 0;
                $( bytes += self.$field.memory().map_or(0, Memory::bytes); )*
                bytes
            }

            /// Lets the oldest batch of all tables go if it ends before that; `None`: there is none.
            fn forget_oldest(&mut self, before_ns: u64) -> Option<u64> {
                let mut oldest = None;
                $( if let Some(until_ns) = self.$field.memory().and_then(Memory::oldest) {
                    oldest = Some(oldest.map_or(until_ns, |other: u64| other.min(until_ns)));
                } )*
                let oldest = oldest.filter(|&until_ns| until_ns < before_ns)?;
                $( if let Some(memory) = self.$field.memory_mut()
                    && memory.oldest() == Some(oldest)
                {
                    memory.forget_oldest();
                } )*
                Some(oldest)
            }
        }
    };
}
with_all_tables!(snapshots);

impl TraceWriter {
    /// Begins a trace that is kept in memory: [`forget`](TraceWriter::forget) bounds it,
    /// [`snapshot`](TraceWriter::snapshot) takes what is there. It cannot be closed, and nothing of it survives this
    /// process.
    ///
    /// # Errors
    ///
    /// None so far.
    pub fn in_memory(meta: Meta) -> Result<TraceWriter> {
        let log = Log {
            dir: PathBuf::new(),
            owner: None,
            meta,
            journal: None,
            segments: Segments::new(),
            aside: None,
            forgotten: Forgotten::default(),
        };
        TraceWriter::with_tables(log, &mut InMemory)
    }

    /// Forgets what happened before `before_ns` (on `CLOCK_MONOTONIC`), and then the oldest until the rest takes no more
    /// than `max_bytes`. Batches go whole. What still tells of the present (live allocations, mappings, processes)
    /// stays, also beyond `max_bytes`.
    ///
    /// # Errors
    ///
    /// None of a trace in memory.
    pub fn forget(&mut self, before_ns: u64, max_bytes: u64) -> Result<()> {
        self.flush()?;
        while let Some(until_ns) = self.forget_oldest(before_ns) {
            self.note_forgotten(until_ns);
        }
        // Else events would go to make room for what nobody needs.
        self.forget_lasting();
        while self.memory_bytes() > max_bytes {
            let Some(until_ns) = self.forget_oldest(u64::MAX) else {
                break;
            };
            self.note_forgotten(until_ns);
        }
        self.forget_lasting();
        Ok(())
    }

    /// Until when everything was let go; `None`: nothing was.
    pub fn forgotten_until_ns(&self) -> Option<u64> {
        self.log.forgotten.until_ns
    }

    fn note_forgotten(&mut self, until_ns: u64) {
        let forgotten = &mut self.log.forgotten.until_ns;
        *forgotten = Some(forgotten.map_or(until_ns, |other| other.max(until_ns)));
    }

    fn lasting_bytes(&self) -> u64 {
        let tables = [
            self.spaces.memory(),
            self.allocations.memory(),
            self.releases.memory(),
            self.moves.memory(),
            self.mappings.memory(),
            self.residency.memory(),
            self.given_names.memory(),
        ];
        tables.into_iter().flatten().map(Memory::bytes).sum()
    }

    /// Once the lasting tables have doubled: each row is then looked at twice on average.
    fn forget_lasting(&mut self) {
        let Some(before_ns) = self.log.forgotten.until_ns else {
            return;
        };
        if self.lasting_bytes() < SMALL.max(self.log.forgotten.lasting_bytes * 2) {
            return;
        }
        let mut lasting = Lasting {
            spaces: self.spaces.kept_rows(),
            allocations: self.allocations.kept_rows(),
            releases: self.releases.kept_rows(),
            moves: self.moves.kept_rows(),
            mappings: self.mappings.kept_rows(),
            residency: self.residency.kept_rows(),
            given_names: self.given_names.kept_rows(),
        };
        lasting.forget(before_ns);
        self.spaces.replace_kept(lasting.spaces);
        self.allocations.replace_kept(lasting.allocations);
        self.releases.replace_kept(lasting.releases);
        self.moves.replace_kept(lasting.moves);
        self.mappings.replace_kept(lasting.mappings);
        self.residency.replace_kept(lasting.residency);
        self.given_names.replace_kept(lasting.given_names);
        self.log.forgotten.lasting_bytes = self.lasting_bytes();
    }
}
