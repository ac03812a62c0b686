//! Files as they come: plain or compressed, recognized by their first bytes.

use std::fs::File;
use std::io;
use std::io::Cursor;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::mpsc::SyncSender;
use std::sync::mpsc::channel;
use std::sync::mpsc::sync_channel;
use std::thread;

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use crate::block::Block;
use crate::block::Blocks;
use crate::block::Cut;
use crate::block::Cutter;
use crate::error::RefsError;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    Xz,
}

impl Compression {
    fn of(first: &[u8]) -> Self {
        match first {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A frame that decoders skip, as pzstd and seekable archives begin.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "uncompressed",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
        }
    }
}

/// How far a file has been read.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Progress {
    /// Bytes of the file read so far, compressed as they are.
    pub fn read_bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The file's length in bytes; `None` if it is a pipe.
    pub fn total_bytes(&self) -> Option<u64> {
        self.total
    }
}

struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

type Stream = Box<dyn Read + Send>;

/// An open file, of which the beginning is known.
pub(crate) struct Source {
    pub(crate) compression: Compression,
    pub(crate) progress: Progress,
    /// The first bytes, decompressed.
    pub(crate) head: Vec<u8>,
    rest: Stream,
}

/// Enough to see the format.
const HEAD_BYTES: u64 = 64 << 10;
/// Enough to see whether a log of memory accesses holds system calls: the loader's first comes after 0.4 MB.
const LONG_HEAD_BYTES: u64 = 2 << 20;

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, RefsError> {
        let failed = |source| RefsError::Read {
            path: path.to_owned(),
            source,
        };
        let (file, total): (Stream, _) = if path == Path::new("-") {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(path).map_err(failed)?;
            let meta = file.metadata().map_err(failed)?;
            (Box::new(file), meta.is_file().then_some(meta.len()))
        };
        let progress = Progress {
            read: Arc::default(),
            total,
        };
        let mut counted = Counted {
            inner: file,
            read: Arc::clone(&progress.read),
        };
        let mut magic = Vec::new();
        (&mut counted)
            .take(6)
            .read_to_end(&mut magic)
            .map_err(failed)?;
        let compression = Compression::of(&magic);
        let whole: Stream = Box::new(Cursor::new(magic).chain(counted));
        let rest = decompressed(whole, compression).map_err(failed)?;
        let mut source = Self {
            compression,
            progress,
            head: Vec::new(),
            rest,
        };
        source.lengthen_head(path, HEAD_BYTES)?;
        Ok(source)
    }

    /// Knows more of the beginning.
    pub(crate) fn look_further(&mut self, path: &Path) -> Result<(), RefsError> {
        self.lengthen_head(path, LONG_HEAD_BYTES)
    }

    fn lengthen_head(&mut self, path: &Path, to: u64) -> Result<(), RefsError> {
        let more = to.saturating_sub(self.head.len() as u64);
        self.head.reserve_exact(more as usize);
        let read = (&mut self.rest).take(more).read_to_end(&mut self.head);
        read.map_err(|source| read_error(path, self.compression, self.head.len() as u64, source))?;
        Ok(())
    }

    /// Its blocks; of a compressed file they are made by a thread of their own.
    pub(crate) fn blocks(self, cut: Cut) -> Box<dyn Blocks> {
        let cutter = Cutter::new(Cursor::new(self.head).chain(self.rest), cut);
        match self.compression {
            Compression::None => Box::new(cutter),
            _ => Box::new(Ahead::start(cutter)),
        }
    }
}

fn decompressed(stream: Stream, compression: Compression) -> io::Result<Stream> {
    Ok(match compression {
        Compression::None => stream,
        Compression::Gzip => Box::new(MultiGzDecoder::new(stream)),
        Compression::Zstd => Box::new(zstd::Decoder::new(stream)?),
        Compression::Xz => Box::new(XzReader::new(io::BufReader::new(stream), true)),
    })
}

/// What a failed read means.
pub(crate) fn read_error(
    path: &Path,
    compression: Compression,
    bytes: u64,
    source: io::Error,
) -> RefsError {
    let path = path.to_owned();
    if compression == Compression::None || source.raw_os_error().is_some() {
        return RefsError::Read { path, source };
    }
    RefsError::Compressed {
        path,
        compression: compression.name(),
        bytes,
        source,
    }
}

/// Blocks made ahead by another thread, which ends when this is dropped.
struct Ahead {
    filled: Receiver<io::Result<Block>>,
    emptied: Sender<Block>,
}

/// Blocks that wait to be parsed.
const BLOCKS_AHEAD: usize = 2;

impl Ahead {
    fn start(cutter: impl Blocks + 'static) -> Self {
        let (filled_sender, filled) = sync_channel(BLOCKS_AHEAD);
        let (emptied, emptied_receiver) = channel();
        thread::spawn(move || make_blocks(cutter, &filled_sender, &emptied_receiver));
        Self { filled, emptied }
    }
}

fn make_blocks(
    mut cutter: impl Blocks,
    filled: &SyncSender<io::Result<Block>>,
    emptied: &Receiver<Block>,
) {
    loop {
        let mut block = emptied.try_recv().unwrap_or_default();
        let result = match cutter.next(&mut block) {
            Ok(true) => Ok(block),
            Ok(false) => return,
            Err(error) => Err(error),
        };
        let failed = result.is_err();
        // Nobody listens any more if the reader was dropped.
        if filled.send(result).is_err() || failed {
            return;
        }
    }
}

impl Blocks for Ahead {
    fn next(&mut self, block: &mut Block) -> io::Result<bool> {
        match self.filled.recv() {
            Ok(Ok(next)) => {
                // The thread may have ended: then nobody needs it.
                let _ = self.emptied.send(std::mem::replace(block, next));
                Ok(true)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }
}
