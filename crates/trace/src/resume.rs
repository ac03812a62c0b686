//! Taking over a recording whose recorder died.

use std::path::Path;

use crate::error::Result;
use crate::error::TraceError;
use crate::files::Owner;
use crate::journal::Journal;
use crate::journal::Segment;
use crate::journal::Segments;
use crate::meta::Meta;
use crate::meta::Recovered;
use crate::snapshot::Forgotten;
use crate::stream_read;
use crate::stream_read::StreamBatches;
use crate::stream_read::Whole;
use crate::stream_write::TableWriter;
use crate::table;
use crate::table::Row;
use crate::trace::Trace;
use crate::writer::Log;
use crate::writer::Tables;
use crate::writer::TraceWriter;

/// Closes a trace whose recorder died: what was flushed becomes Parquet files.
///
/// Does nothing to a closed trace. Returns what was lost: nothing for a trace that was closed in the
/// first place.
///
/// # Errors
///
/// Those of [`TraceWriter::resume`] and [`TraceWriter::close`].
pub fn recover(dir: &Path) -> Result<Recovered> {
    let meta = match TraceWriter::resume(dir)? {
        Some(writer) => writer.close()?,
        None => Trace::open(dir)?.into_meta(),
    };
    Ok(meta.recovered.unwrap_or_default())
}

/// Takes over the journal.
pub(crate) fn begin(dir: &Path, meta: Meta) -> Result<(Log, ResumedTables)> {
    let owner = Owner::of_additions_to(dir)?;
    let (journal, segments) = match Journal::resume(dir) {
        Ok(resumed) => resumed,
        Err(TraceError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            (Journal::create(dir, owner)?, Segments::new())
        }
        Err(error) => return Err(error),
    };
    let log = Log {
        dir: dir.to_owned(),
        owner,
        meta,
        journal: Some(journal),
        segments: Segments::new(),
        aside: None,
        forgotten: Forgotten::default(),
    };
    let tables = ResumedTables {
        journalled: segments,
        recovered: Recovered::default(),
    };
    Ok((log, tables))
}

/// The tables as the dead recorder left them.
pub(crate) struct ResumedTables {
    journalled: Segments,
    recovered: Recovered,
}

impl ResumedTables {
    pub(crate) fn into_recovered(self) -> Recovered {
        self.recovered
    }
}

impl Tables for ResumedTables {
    fn table<T: Row>(&mut self, log: &mut Log) -> Result<TableWriter<T>> {
        let journalled = self.journalled.remove(T::TABLE).unwrap_or_default();
        let whole = stream_read::by_checksum(&log.dir, T::TABLE, &journalled)?;
        self.recovered.drop_bytes(T::TABLE, whole.dropped_bytes);
        if whole.rows() == 0 {
            // Nothing to keep, and the schema may be another version's or damaged.
            go_on_at(log, T::TABLE, 0)?;
            return TableWriter::create(&log.dir, log.owner);
        }
        let same_schema = has_schema_of::<T>(&log.dir, &whole)?;
        go_on_at(log, T::TABLE, whole.end())?;
        let writer = TableWriter::resume(&log.dir, &whole.segments, same_schema)?;
        log.segments.insert(T::TABLE.to_owned(), whole.segments);
        Ok(writer)
    }
}

fn has_schema_of<T: Row>(dir: &Path, whole: &Whole) -> Result<bool> {
    let stream = StreamBatches::open(dir, T::TABLE, whole.segments.clone())?;
    Ok(stream
        .schema()?
        .is_some_and(|found| found == table::schema::<T>()))
}

/// Takes back the journal's lines about what is behind `end`, before those bytes change.
fn go_on_at(log: &mut Log, table: &str, end: u64) -> Result<()> {
    let nothing = Segment {
        start: end,
        end,
        rows: 0,
        crc32: crc32fast::hash(&[]),
    };
    match &mut log.journal {
        Some(journal) => {
            journal.add(table, nothing);
            journal.commit()
        }
        None => Ok(()),
    }
}
