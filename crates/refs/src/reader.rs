//! References out of a file, in chunks.

use std::fmt;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use pagewise_simulate::Reference;

use crate::block::Block;
use crate::block::Blocks;
use crate::block::Cut;
use crate::cursor::Expected;
use crate::decode::Decoder;
use crate::decode::Position;
use crate::detect;
use crate::error::RefsError;
use crate::format::Classify;
use crate::format::Format;
use crate::format::Options;
use crate::formats::pagewise::Recording;
use crate::interner::Full;
use crate::interner::Interner;
use crate::runs::Run;
use crate::setup;
use crate::source::Compression;
use crate::source::Progress;
use crate::source::Source;
use crate::source::read_error;

/// References in a chunk, except the last: a quarter of a second-level cache.
const CHUNK: usize = 64 << 10;

/// Something that gives runs.
pub(crate) trait RunSource: Send {
    /// Adds runs to an empty list; `false` at the end.
    fn refill(&mut self, runs: &mut Vec<Run>) -> Result<bool, RefsError>;

    /// Lines or records left out so far, and what was wrong with the first of them.
    fn skipped(&self) -> (u64, Option<String>) {
        (0, None)
    }

    /// What is to be said when all is read.
    fn notice(&self) -> Option<String> {
        None
    }
}

/// A trace being read: references in chunks, pages numbered in order of first appearance.
///
/// Memory is bounded by the number of pages (at most about 35 bytes each), whatever the number of references.
pub struct Reader {
    path: PathBuf,
    format: Format,
    classify: Option<Classify>,
    progress: Progress,
    source: Box<dyn RunSource>,
    runs: Vec<Run>,
    /// The next run, and the next page in it.
    at: (usize, u32),
    interner: Interner,
    chunk: Vec<Reference>,
    references: u64,
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("path", &self.path)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens a trace: a file (`-` is standard input), or the folder of a recording of ours.
    pub fn open(path: &Path, options: &Options) -> Result<Self, RefsError> {
        if path.is_dir() || options.format == Some(Format::Pagewise) {
            let recording = Recording::open(path, options.page_bytes)?;
            return Ok(Self::new(
                path,
                Format::Pagewise,
                Progress::default(),
                Box::new(recording),
            ));
        }
        let mut source = Source::open(path)?;
        if source.head.is_empty() {
            return Err(RefsError::Empty {
                path: path.to_owned(),
                format: "empty file",
                skipped: 0,
            });
        }
        let unreadable = |detail| RefsError::Format {
            path: path.to_owned(),
            detail,
        };
        let format = match options.format {
            Some(format) => format,
            None => detect::detect(&source.head).map_err(unreadable)?,
        };
        if format == Format::Lackey {
            source.look_further(path)?;
        }
        let (cut, decoder) = setup::decoder(format, &source.head, options).map_err(unreadable)?;
        let classify = setup::classification(format, &source.head, options);
        let progress = source.progress.clone();
        let decoding = Decoding {
            path: path.to_owned(),
            cut,
            compression: source.compression,
            blocks: source.blocks(cut),
            decoder,
            block: Block::default(),
            position: Position::default(),
            bytes: 0,
            skip_bad: options.skip_bad,
            skipped: 0,
            first_skipped: None,
        };
        let mut reader = Self::new(path, format, progress, Box::new(decoding));
        reader.classify = classify;
        Ok(reader)
    }

    fn new(path: &Path, format: Format, progress: Progress, source: Box<dyn RunSource>) -> Self {
        Self {
            path: path.to_owned(),
            format,
            classify: None,
            progress,
            source,
            runs: Vec::new(),
            at: (0, 0),
            interner: Interner::new(),
            chunk: Vec::with_capacity(CHUNK),
            references: 0,
        }
    }

    /// The next references; `None` at the end. A trace without any is an error.
    pub fn next_chunk(&mut self) -> Result<Option<&[Reference]>, RefsError> {
        self.chunk.clear();
        while self.chunk.len() < CHUNK {
            if self.at.0 == self.runs.len() {
                self.runs.clear();
                self.at = (0, 0);
                if !self.source.refill(&mut self.runs)? {
                    break;
                }
                self.interner.warm(self.runs.iter().map(|run| run.key));
            }
            self.number()?;
        }
        self.references += self.chunk.len() as u64;
        if self.references == 0 {
            return Err(RefsError::Empty {
                path: self.path.clone(),
                format: self.format.as_str(),
                skipped: self.skipped(),
            });
        }
        Ok((!self.chunk.is_empty()).then_some(&self.chunk))
    }

    /// Numbers the pages of runs until these are used up or the chunk is full.
    fn number(&mut self) -> Result<(), RefsError> {
        let full = |_: Full| RefsError::TooManyPages {
            path: self.path.clone(),
        };
        let mut room = CHUNK - self.chunk.len();
        while let Some(run) = self.runs.get(self.at.0)
            && room > 0
        {
            let pages = (run.pages - self.at.1).min(room.min(CHUNK) as u32);
            for page in self.at.1..self.at.1 + pages {
                let key = run.key.wrapping_add(u64::from(page));
                let number = self.interner.number(key).map_err(full)?;
                if let Some(reference) = Reference::new(number, run.access.write, run.access.file) {
                    self.chunk.push(reference);
                }
            }
            room -= pages as usize;
            self.at.1 += pages;
            if self.at.1 == run.pages {
                self.at = (self.at.0 + 1, 0);
            }
        }
        Ok(())
    }

    /// All references that are left: four bytes each.
    pub fn read_all(&mut self) -> Result<Vec<Reference>, RefsError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next_chunk()? {
            all.extend_from_slice(chunk);
        }
        Ok(all)
    }

    /// The format it is read as.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How files are told from anonymous memory; `None` where the format leaves no choice.
    pub fn classify(&self) -> Option<Classify> {
        self.classify
    }

    /// Distinct pages seen so far.
    pub fn pages(&self) -> u32 {
        self.interner.len()
    }

    /// What this page was called in the trace: its address by the page size where the trace has addresses and nothing
    /// tells files ([`Classify::Paper`]), else a number that is of no use outside. `None`: there is no such page yet.
    pub fn page_key(&self, page: u32) -> Option<u64> {
        self.interner.key(page)
    }

    /// References given so far.
    pub fn references(&self) -> u64 {
        self.references
    }

    /// Lines or records left out so far ([`Options::skip_bad`]).
    pub fn skipped(&self) -> u64 {
        self.source.skipped().0
    }

    /// What was wrong with the first line left out.
    pub fn first_skipped(&self) -> Option<String> {
        self.source.skipped().1
    }

    /// What a user should know about how the trace was read; to be asked at its end.
    pub fn notice(&self) -> Option<String> {
        self.source.notice()
    }

    /// How far the file has been read. May be kept and asked while references are read.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }
}

/// A file of lines or records being decoded.
struct Decoding {
    path: PathBuf,
    cut: Cut,
    compression: Compression,
    blocks: Box<dyn Blocks>,
    decoder: Box<dyn Decoder>,
    block: Block,
    position: Position,
    /// Decompressed bytes of the blocks so far.
    bytes: u64,
    skip_bad: bool,
    skipped: u64,
    first_skipped: Option<String>,
}

impl RunSource for Decoding {
    fn refill(&mut self, runs: &mut Vec<Run>) -> Result<bool, RefsError> {
        while runs.is_empty() {
            if self.position.at >= self.block.len() && !self.next_block()? {
                return Ok(false);
            }
            let decoded = (self.decoder).decode(&self.block, &mut self.position, runs);
            if let Err(expected) = decoded {
                self.bad_line(expected)?;
            }
        }
        Ok(true)
    }

    fn skipped(&self) -> (u64, Option<String>) {
        (self.skipped, self.first_skipped.clone())
    }

    fn notice(&self) -> Option<String> {
        self.decoder.notice()
    }
}

impl Decoding {
    fn next_block(&mut self) -> Result<bool, RefsError> {
        self.position.at = 0;
        let next = self.blocks.next(&mut self.block);
        let failed =
            |source: io::Error| read_error(&self.path, self.compression, self.bytes, source);
        if !next.map_err(failed)? {
            self.block = Block::default();
            return Ok(false);
        }
        self.bytes += self.block.len() as u64;
        if self.block.left_over > 0 {
            self.part_record()?;
        }
        Ok(true)
    }

    fn part_record(&mut self) -> Result<(), RefsError> {
        let record_bytes = match self.cut {
            Cut::Records(bytes) => bytes,
            Cut::Lines => return Ok(()),
        };
        let error = RefsError::PartRecord {
            path: self.path.clone(),
            bytes: self.block.left_over,
            record_bytes,
        };
        self.skip_or_fail(error)
    }

    /// Goes on to the next line, or fails.
    fn bad_line(&mut self, expected: Expected) -> Result<(), RefsError> {
        let rest = &self.block.padded()[self.position.at..self.block.len()];
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len() - 1);
        let text = detect::beginning(&rest[..length]);
        self.position.at += length + 1;
        self.position.lines += 1;
        self.skip_or_fail(RefsError::Line {
            path: self.path.clone(),
            line: self.position.lines,
            detail: expected,
            text,
        })
    }

    fn skip_or_fail(&mut self, error: RefsError) -> Result<(), RefsError> {
        if !self.skip_bad {
            return Err(error);
        }
        self.skipped += 1;
        if self.first_skipped.is_none() {
            self.first_skipped = Some(match error {
                RefsError::Line {
                    line, detail, text, ..
                } => format!("line {line}: {detail}: `{text}`"),
                other => other.to_string(),
            });
        }
        Ok(())
    }
}
