//! Appending to a table while recording: an Arrow IPC stream, one record batch per flush.

use std::fs::File;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_ipc::writer::DictionaryTracker;
use arrow_ipc::writer::EncodedData;
use arrow_ipc::writer::IpcDataGenerator;
use arrow_ipc::writer::IpcWriteContext;
use arrow_ipc::writer::IpcWriteOptions;
use arrow_ipc::writer::write_message;
use arrow_schema::ArrowError;
use arrow_schema::SchemaRef;

use crate::error::Result;
use crate::error::TraceError;
use crate::files;
use crate::files::Owner;
use crate::guard::arrow_error;
use crate::journal::Segment;
use crate::memory::Memory;
use crate::table;
use crate::table::Row;

/// Rows per record batch at most: bounds the memory of writer and reader, and is large enough for
/// the cost per batch to vanish.
const BATCH_ROWS: usize = 65_536;

/// Collects the rows of one table and appends them to its stream.
pub struct TableWriter<T: Row> {
    builders: T::Builders,
    waiting: usize,
    rows: u64,
    output: Output,
    written: Vec<Segment>,
    same_schema: bool,
}

/// Where batches go.
enum Output {
    File(Box<Stream>),
    Memory(Memory),
}

impl<T: Row> std::fmt::Debug for TableWriter<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter")
            .field("table", &T::TABLE)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl<T: Row> TableWriter<T> {
    /// Begins an empty table.
    pub(crate) fn create(dir: &Path, owner: Option<Owner>) -> Result<Self> {
        let path = files::stream_path(dir, T::TABLE);
        let file = files::create(&path, owner)?;
        let (stream, segment) = Stream::begin(path, file, table::schema::<T>())?;
        Ok(TableWriter {
            builders: T::Builders::default(),
            waiting: 0,
            rows: 0,
            output: Output::File(Box::new(stream)),
            written: vec![segment],
            same_schema: true,
        })
    }

    /// Begins an empty table that is kept in memory.
    pub(crate) fn in_memory() -> Self {
        TableWriter {
            builders: T::Builders::default(),
            waiting: 0,
            rows: 0,
            output: Output::Memory(Memory::default()),
            written: Vec::new(),
            same_schema: true,
        }
    }

    /// Goes on after `segments`; what follows them in the file is cut off.
    ///
    /// Takes no rows if the stream has not `same_schema` as this version writes.
    pub(crate) fn resume(dir: &Path, segments: &[Segment], same_schema: bool) -> Result<Self> {
        let path = files::stream_path(dir, T::TABLE);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(|source| TraceError::io(&path, source))?;
        let end = segments.last().map_or(0, |last| last.end);
        let stream = Stream::go_on(path, file, table::schema::<T>(), end)?;
        Ok(TableWriter {
            builders: T::Builders::default(),
            waiting: 0,
            rows: segments.iter().map(|segment| segment.rows).sum(),
            output: Output::File(Box::new(stream)),
            written: Vec::new(),
            same_schema,
        })
    }

    /// The folder has a new name.
    pub(crate) fn moved_to(&mut self, dir: &Path) {
        if let Output::File(stream) = &mut self.output {
            stream.path = files::stream_path(dir, T::TABLE);
        }
    }

    /// Adds a row. It is safe from a crash after the next [`flush`](crate::TraceWriter::flush).
    ///
    /// # Errors
    ///
    /// Every 65,536 rows a batch is written, which may fail as any writing may; the rows of that batch
    /// are then lost, and the trace stays readable up to the last flush. A table that another version
    /// of pagewise began with other columns takes no more rows ([`TraceError::Corrupt`]).
    #[inline]
    pub fn push(&mut self, row: T) -> Result<()> {
        if !self.same_schema {
            return Err(self.other_schema());
        }
        row.append(&mut self.builders);
        self.waiting += 1;
        self.rows += 1;
        if self.waiting == BATCH_ROWS {
            self.write_batch()?;
        }
        Ok(())
    }

    #[cold]
    fn other_schema(&self) -> TraceError {
        let detail =
            "another version of pagewise began it with other columns; nothing can be added";
        let path = match &self.output {
            Output::File(stream) => stream.path.clone(),
            Output::Memory(_) => PathBuf::from(T::TABLE),
        };
        TraceError::corrupt(&path, detail)
    }

    /// Rows pushed so far, those of a resumed trace included.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// As [`write_out`](Self::write_out), without what cannot be written.
    pub(crate) fn write_what_fits(&mut self) -> Vec<Segment> {
        let _ = self.write_batch();
        std::mem::take(&mut self.written)
    }

    /// Rows that wait to be written as a batch.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Writes what waits, and hands over what the journal is to hold.
    pub(crate) fn write_out(&mut self) -> Result<Vec<Segment>> {
        self.write_batch()?;
        Ok(std::mem::take(&mut self.written))
    }

    fn write_batch(&mut self) -> Result<()> {
        if self.waiting == 0 {
            return Ok(());
        }
        self.waiting = 0;
        let columns = T::finish(&mut self.builders);
        let batch = RecordBatch::try_new(table::schema::<T>(), columns)
            .map_err(|error| arrow_error(Path::new(T::TABLE), error))?;
        self.put(batch)
    }

    fn put(&mut self, batch: RecordBatch) -> Result<()> {
        match &mut self.output {
            Output::File(stream) => self.written.push(stream.append_batch(&batch)?),
            Output::Memory(memory) => memory.push(T::TABLE, batch),
        }
        Ok(())
    }

    /// Adds the rows of a batch that another table of this version held.
    pub(crate) fn push_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        self.write_batch()?;
        self.rows += batch.num_rows() as u64;
        self.put(batch.clone())
    }

    /// Bytes written to disk.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        match &self.output {
            Output::File(stream) => stream.end,
            Output::Memory(_) => 0,
        }
    }

    pub(crate) fn memory(&self) -> Option<&Memory> {
        match &self.output {
            Output::File(_) => None,
            Output::Memory(memory) => Some(memory),
        }
    }

    pub(crate) fn memory_mut(&mut self) -> Option<&mut Memory> {
        match &mut self.output {
            Output::File(_) => None,
            Output::Memory(memory) => Some(memory),
        }
    }

    /// The batches in memory.
    pub(crate) fn batches(&self) -> Vec<RecordBatch> {
        self.memory().map(Memory::batches).unwrap_or_default()
    }

    /// The rows in memory.
    pub(crate) fn kept_rows(&self) -> Vec<T> {
        self.memory().map(Memory::rows).unwrap_or_default()
    }

    /// Puts other rows in the place of those in memory.
    pub(crate) fn replace_kept(&mut self, rows: Vec<T>) {
        if let Some(memory) = self.memory_mut() {
            memory.replace(T::TABLE, rows);
        }
    }
}

/// The stream's file, and the state of its encoding.
struct Stream {
    path: PathBuf,
    file: File,
    end: u64,
    encoder: IpcDataGenerator,
    dictionaries: DictionaryTracker,
    options: IpcWriteOptions,
    context: IpcWriteContext,
    messages: Vec<u8>,
}

impl Stream {
    /// A stream that begins with its schema.
    fn begin(path: PathBuf, file: File, schema: SchemaRef) -> Result<(Stream, Segment)> {
        let (mut stream, head) = Stream::new(path, file, schema);
        write_message(&mut stream.messages, head, &stream.options)
            .map_err(|error| arrow_error(&stream.path, error))?;
        let segment = stream.append(0)?;
        Ok((stream, segment))
    }

    /// A stream that has its schema, and goes on at `end`: what follows is cut off.
    fn go_on(path: PathBuf, file: File, schema: SchemaRef, end: u64) -> Result<Stream> {
        file.set_len(end)
            .map_err(|source| TraceError::io(&path, source))?;
        let (mut stream, _) = Stream::new(path, file, schema);
        stream.end = end;
        Ok(stream)
    }

    fn new(path: PathBuf, file: File, schema: SchemaRef) -> (Stream, EncodedData) {
        let encoder = IpcDataGenerator::default();
        let mut dictionaries = DictionaryTracker::new(false);
        let options = IpcWriteOptions::default();
        // Also numbers the dictionaries, so it is needed for a stream that has its schema, too.
        let head =
            encoder.schema_to_bytes_with_dictionary_tracker(&schema, &mut dictionaries, &options);
        let stream = Stream {
            path,
            file,
            end: 0,
            encoder,
            dictionaries,
            options,
            context: IpcWriteContext::default(),
            messages: Vec::new(),
        };
        (stream, head)
    }

    fn append_batch(&mut self, batch: &RecordBatch) -> Result<Segment> {
        self.encode(batch)
            .map_err(|error| arrow_error(&self.path, error))?;
        self.append(batch.num_rows() as u64)
    }

    fn encode(&mut self, batch: &RecordBatch) -> std::result::Result<(), ArrowError> {
        self.messages.clear();
        let (dictionaries, batch) = self.encoder.encode(
            batch,
            &mut self.dictionaries,
            &self.options,
            &mut self.context,
        )?;
        for message in dictionaries.into_iter().chain([batch]) {
            write_message(&mut self.messages, message, &self.options)?;
        }
        Ok(())
    }

    /// Appends the encoded messages, as one segment of the journal.
    fn append(&mut self, rows: u64) -> Result<Segment> {
        // At a position, not appended: what a failed write left behind is overwritten.
        if let Err(source) = self.file.write_all_at(&self.messages, self.end) {
            // What room it took is the other tables'.
            let _ = self.file.set_len(self.end);
            return Err(TraceError::io(&self.path, source));
        }
        let start = self.end;
        self.end += self.messages.len() as u64;
        Ok(Segment {
            start,
            end: self.end,
            rows,
            crc32: crc32fast::hash(&self.messages),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Sample;

    #[test]
    fn a_full_disk_is_told_apart() {
        let path = PathBuf::from("/dev/full");
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let Err(error) = Stream::begin(path, file, table::schema::<Sample>()) else {
            panic!("wrote to a full disk");
        };
        assert!(matches!(error, TraceError::DiskFull { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains("no space left to write /dev/full")
        );
    }
}
