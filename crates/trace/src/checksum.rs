//! Checksums of closed tables, block by block, checked on the first read of each block.
//!
//! Neither Parquet footers nor page headers have checksums of their own, and their decoder trusts
//! the sizes it finds there.

use std::fs::File;
use std::io;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;
use parquet::file::reader::Length;

use crate::error::Result;
use crate::error::TraceError;
use crate::meta::Checksums;

/// 1 MiB: a trace of 10^8 events then has some 800 checksums, 6 KB of text.
const BLOCK_BYTES: u64 = 1 << 20;
/// A block is in memory as a whole.
const MOST_BLOCK_BYTES: u64 = 64 << 20;
/// What a decoder may ask for at once: a footer or a page. A file may claim more where it has holes.
const MOST_BYTES_AT_ONCE: usize = 256 << 20;

/// Passes bytes on and sums them up.
pub(crate) struct SummingWriter<W> {
    inner: W,
    bytes: u64,
    hasher: crc32fast::Hasher,
    crc32: String,
}

impl<W: Write> SummingWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        SummingWriter {
            inner,
            bytes: 0,
            hasher: crc32fast::Hasher::new(),
            crc32: String::new(),
        }
    }

    pub(crate) fn finish(mut self) -> (W, Checksums) {
        if !self.bytes.is_multiple_of(BLOCK_BYTES) {
            self.end_block();
        }
        let sums = Checksums {
            bytes: self.bytes,
            block_bytes: BLOCK_BYTES,
            crc32: self.crc32,
        };
        (self.inner, sums)
    }

    fn sum_up(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = BLOCK_BYTES - self.bytes % BLOCK_BYTES;
            let (now, later) = bytes.split_at(bytes.len().min(room as usize));
            self.hasher.update(now);
            self.bytes += now.len() as u64;
            if self.bytes.is_multiple_of(BLOCK_BYTES) {
                self.end_block();
            }
            bytes = later;
        }
    }

    fn end_block(&mut self) {
        let hasher = std::mem::take(&mut self.hasher);
        self.crc32.push_str(&format!("{:08x}", hasher.finalize()));
    }
}

impl<W: Write> Write for SummingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum_up(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A file whose blocks are checked before their first use. Clones share everything.
#[derive(Clone)]
pub(crate) struct CheckedFile(Arc<Inner>);

struct Inner {
    path: PathBuf,
    file: File,
    length: u64,
    block_bytes: u64,
    /// The blocks not found right yet, by number; empty if the trace has no checksums.
    unchecked: Mutex<Vec<Option<u32>>>,
    /// The first failure: the Parquet library would hand on its text only.
    failure: Mutex<Option<TraceError>>,
}

impl CheckedFile {
    /// Opens a file; without `sums` its bytes are taken as they are.
    pub(crate) fn open(path: &Path, sums: Option<&Checksums>) -> Result<Self> {
        let io_error = |source| TraceError::io(path, source);
        let file = File::open(path).map_err(io_error)?;
        let length = file.metadata().map_err(io_error)?.len();
        if length == 0 {
            return Err(TraceError::Empty {
                path: path.to_owned(),
            });
        }
        let (block_bytes, crc32) = match sums {
            Some(sums) => (sums.block_bytes, parse(path, sums, length)?),
            None => (BLOCK_BYTES, Vec::new()),
        };
        Ok(CheckedFile(Arc::new(Inner {
            path: path.to_owned(),
            file,
            length,
            block_bytes,
            unchecked: Mutex::new(crc32.into_iter().map(Some).collect()),
            failure: Mutex::new(None),
        })))
    }

    /// The failure that ended the last operation, if it was one of reading.
    pub(crate) fn take_failure(&self) -> Option<TraceError> {
        let mut failure = self
            .0
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }
}

/// The checksum of each block, after comparing lengths.
fn parse(path: &Path, sums: &Checksums, length: u64) -> Result<Vec<u32>> {
    if length < sums.bytes {
        let detail = format!("it has {length} of {} bytes", sums.bytes);
        return Err(TraceError::truncated(path, detail));
    }
    if length > sums.bytes {
        let detail = format!("it has {length} bytes instead of {}", sums.bytes);
        return Err(TraceError::corrupt(path, detail));
    }
    let unusable = || TraceError::corrupt(path, "its checksums in meta.json are unusable");
    if sums.block_bytes == 0 || sums.block_bytes > MOST_BLOCK_BYTES {
        return Err(unusable());
    }
    let blocks: Option<Vec<u32>> = sums
        .crc32
        .as_bytes()
        .chunks(8)
        .map(|digits| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
        .collect();
    blocks
        .filter(|blocks| blocks.len() as u64 == length.div_ceil(sums.block_bytes))
        .ok_or_else(unusable)
}

impl Inner {
    /// Fills `buffer` from `start`, which must lie within the file.
    fn read(&self, start: u64, buffer: &mut [u8]) -> Result<()> {
        let end = start
            .checked_add(buffer.len() as u64)
            .filter(|&end| end <= self.length)
            .ok_or_else(|| {
                TraceError::corrupt(&self.path, format!("it refers beyond byte {}", self.length))
            })?;
        self.check(start, end)?;
        self.read_at(start, buffer)
    }

    fn check(&self, start: u64, end: u64) -> Result<()> {
        let mut unchecked = self
            .unchecked
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if unchecked.is_empty() || start == end {
            return Ok(());
        }
        for number in start / self.block_bytes..=(end - 1) / self.block_bytes {
            let block = &mut unchecked[number as usize];
            if let Some(crc32) = *block {
                self.check_block(number, crc32)?;
                *block = None;
            }
        }
        Ok(())
    }

    fn check_block(&self, number: u64, crc32: u32) -> Result<()> {
        let start = number * self.block_bytes;
        let end = self.length.min(start.saturating_add(self.block_bytes));
        let mut block = vec![0; (end - start) as usize];
        self.read_at(start, &mut block)?;
        if crc32fast::hash(&block) == crc32 {
            return Ok(());
        }
        let detail = format!("the checksum of bytes {start} to {end} is wrong");
        Err(TraceError::corrupt(&self.path, detail))
    }

    fn read_at(&self, start: u64, buffer: &mut [u8]) -> Result<()> {
        match self.file.read_exact_at(buffer, start) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(
                TraceError::truncated(&self.path, "it shrank while being read"),
            ),
            result => result.map_err(|source| TraceError::io(&self.path, source)),
        }
    }

    /// Keeps the failure for [`CheckedFile::take_failure`] and gives what the reader is told.
    fn fail(&self, error: TraceError) -> io::Error {
        let text = error.to_string();
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        io::Error::other(text)
    }
}

impl Length for CheckedFile {
    fn len(&self) -> u64 {
        self.0.length
    }
}

impl ChunkReader for CheckedFile {
    type T = BufReader<CheckedRead>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(BufReader::new(CheckedRead {
            file: self.clone(),
            position: start,
        }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        if length > MOST_BYTES_AT_ONCE {
            return Err(ParquetError::General(format!(
                "a part of it claims {length} bytes"
            )));
        }
        // Bounds the allocation; `read` refuses what is too long.
        let mut bytes = vec![0; length.min(self.0.length as usize + 1)];
        match self.0.read(start, &mut bytes) {
            Ok(()) => Ok(bytes.into()),
            Err(error) => Err(ParquetError::External(self.0.fail(error).into())),
        }
    }
}

/// Reads on from a position; independent of all other readers.
pub(crate) struct CheckedRead {
    file: CheckedFile,
    position: u64,
}

impl Read for CheckedRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let file = &self.file.0;
        let left = file.length.saturating_sub(self.position);
        let length = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(0);
        }
        file.read(self.position, &mut buffer[..length])
            .map_err(|error| file.fail(error))?;
        self.position += length as u64;
        Ok(length)
    }
}
