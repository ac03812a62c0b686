//! Reading a table that is still (or was left) an Arrow IPC stream, segment by segment.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::vec::IntoIter;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::SchemaRef;

use crate::error::Result;
use crate::error::TraceError;
use crate::files;
use crate::guard::arrow_error;
use crate::guard::guard;
use crate::journal::Segment;

/// A batch is in memory as a whole: 65,536 rows with 8 KiB each, which no table comes near. A damaged journal may ask
/// for more, of a file with holes in it.
const MOST_SEGMENT_BYTES: u64 = 512 << 20;

/// The batches of a stream, as far as the journal vouches for them.
pub(crate) struct StreamBatches {
    path: PathBuf,
    file: File,
    segments: IntoIter<Segment>,
    decoder: StreamDecoder,
}

impl StreamBatches {
    pub(crate) fn open(dir: &Path, table: &str, segments: Vec<Segment>) -> Result<Self> {
        let path = files::stream_path(dir, table);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(|source| TraceError::io(&path, source))?;
        Ok(StreamBatches {
            path,
            file,
            segments: segments.into_iter(),
            decoder: StreamDecoder::new(),
        })
    }

    /// Rows in the segments not yet read, as the journal counts them.
    pub(crate) fn rows_left(&self) -> u64 {
        let left = self.segments.as_slice().iter();
        left.fold(0, |sum, segment| sum.saturating_add(segment.rows))
    }

    /// The next batch; after an error there is none.
    pub(crate) fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            let segment = self.segments.next()?;
            match self.decode(segment) {
                Ok(None) => {}
                Ok(Some(batch)) => return Some(Ok(batch)),
                Err(error) => {
                    // After damage nothing more is trusted.
                    self.segments = Vec::new().into_iter();
                    return Some(Err(error));
                }
            }
        }
    }

    /// The schema found at the stream's begin, if there is one.
    pub(crate) fn schema(mut self) -> Result<Option<SchemaRef>> {
        while self.decoder.schema().is_none() {
            let Some(segment) = self.segments.next() else {
                return Ok(None);
            };
            self.decode(segment)?;
        }
        Ok(self.decoder.schema())
    }

    fn decode(&mut self, segment: Segment) -> Result<Option<RecordBatch>> {
        let mut bytes = Buffer::from_vec(self.read(segment)?);
        let (path, decoder) = (&self.path, &mut self.decoder);
        let batch = guard(path, || {
            decoder
                .decode(&mut bytes)
                .map_err(|error| arrow_error(path, error))
        })?;
        let rows = batch.as_ref().map_or(0, RecordBatch::num_rows);
        if !bytes.is_empty() || rows as u64 != segment.rows {
            let detail = format!(
                "bytes {} to {} are not the batch that the journal names",
                segment.start, segment.end
            );
            return Err(TraceError::corrupt(path, detail));
        }
        Ok(batch)
    }

    fn read(&self, segment: Segment) -> Result<Vec<u8>> {
        let Segment { start, end, .. } = segment;
        let length = self.file.metadata().map(|meta| meta.len());
        let length = length.map_err(|source| TraceError::io(&self.path, source))?;
        // Before allocating as much as a damaged journal may ask for.
        if end > length {
            let detail = format!("it ends at byte {length} within a batch that reaches to {end}");
            return Err(TraceError::truncated(&self.path, detail));
        }
        if end - start > MOST_SEGMENT_BYTES {
            let detail = format!("bytes {start} to {end} are too many for one batch");
            return Err(TraceError::corrupt(&self.path, detail));
        }
        let mut bytes = vec![0; (end - start) as usize];
        match self.file.read_exact_at(&mut bytes, start) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(TraceError::truncated(
                    &self.path,
                    "it shrank while being read",
                ));
            }
            Err(source) => return Err(TraceError::io(&self.path, source)),
            Ok(()) => {}
        }
        if crc32fast::hash(&bytes) != segment.crc32 {
            let detail = format!("the checksum of bytes {start} to {end} is wrong");
            return Err(TraceError::corrupt(&self.path, detail));
        }
        Ok(bytes)
    }
}

/// What of a table's segments its file still holds.
pub(crate) struct Whole {
    /// The leading segments that are there.
    pub(crate) segments: Vec<Segment>,
    /// Bytes that follow them: found in the file, or known from the journal to have been written.
    pub(crate) dropped_bytes: u64,
}

impl Whole {
    pub(crate) fn end(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.end)
    }

    pub(crate) fn rows(&self) -> u64 {
        let rows = self.segments.iter();
        rows.fold(0, |sum, segment| sum.saturating_add(segment.rows))
    }
}

/// Finds the segments that the stream's file is long enough for, without reading them.
pub(crate) fn by_length(dir: &Path, table: &str, journalled: &[Segment]) -> Result<Whole> {
    let path = files::stream_path(dir, table);
    let length = match path.symlink_metadata() {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(source) => return Err(TraceError::io(&path, source)),
    };
    let within = |segment: &&Segment| segment.end <= length;
    let segments: Vec<Segment> = journalled.iter().take_while(within).copied().collect();
    Ok(whole(segments, journalled, length))
}

/// Finds the segments whose bytes are right, reading them all.
pub(crate) fn by_checksum(dir: &Path, table: &str, journalled: &[Segment]) -> Result<Whole> {
    let Whole {
        mut segments,
        dropped_bytes,
    } = by_length(dir, table, journalled)?;
    let length = segments.last().map_or(0, |last| last.end) + dropped_bytes;
    if !segments.is_empty() {
        let stream = StreamBatches::open(dir, table, Vec::new())?;
        for (index, segment) in segments.iter().enumerate() {
            match stream.read(*segment) {
                Ok(_) => {}
                Err(TraceError::Corrupt { .. } | TraceError::Truncated { .. }) => {
                    segments.truncate(index);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(whole(segments, journalled, length))
}

fn whole(segments: Vec<Segment>, journalled: &[Segment], length: u64) -> Whole {
    let written = journalled.last().map_or(0, |last| last.end).max(length);
    let used = segments.last().map_or(0, |last| last.end);
    Whole {
        segments,
        dropped_bytes: written - used,
    }
}
