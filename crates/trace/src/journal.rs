//! The journal: which bytes of which stream have been written whole.
//!
//! A batch counts once its journal line is there. A flush writes the batches of all tables first
//! and then their lines in one write, so that a reader never sees one table ahead of another, and
//! need not guess where a stream was cut. One line per batch, for example
//!
//! ```text
//! events 312 2621456 65536 9f3a21bc 0badf00d
//! ```
//!
//! holds the table, the first byte, the byte after the last, the number of rows, the CRC-32 of those
//! bytes, and the CRC-32 of the line up to the space before it. A line takes back all earlier
//! ones of its table that reach beyond its first byte: so a writer that goes on with a damaged
//! stream says where it starts again. Reading stops at the first line that is not whole.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::fs::OpenOptions;
use std::fs::TryLockError;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use crate::error::Result;
use crate::error::TraceError;
use crate::files;
use crate::files::Owner;

pub(crate) const JOURNAL_FILE: &str = "journal";

/// One range of a stream that was written whole: its schema, or one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) rows: u64,
    pub(crate) crc32: u32,
}

/// The segments of each table, contiguous from byte 0.
pub(crate) type Segments = BTreeMap<String, Vec<Segment>>;

/// The journal of a recording, held by the one process that may write it.
pub(crate) struct Journal {
    path: PathBuf,
    // Also carries the lock, which ends with the process however it ends.
    file: File,
    end: u64,
    pending: String,
}

impl Journal {
    /// Begins an empty journal.
    pub(crate) fn create(dir: &Path, owner: Option<Owner>) -> Result<Journal> {
        let path = dir.join(JOURNAL_FILE);
        let file = files::create(&path, owner)?;
        lock(&file, dir)?;
        Ok(Journal {
            path,
            file,
            end: 0,
            pending: String::new(),
        })
    }

    /// The folder has a new name.
    pub(crate) fn moved_to(&mut self, dir: &Path) {
        self.path = dir.join(JOURNAL_FILE);
    }

    /// Goes on with the journal of a recorder that died.
    pub(crate) fn resume(dir: &Path) -> Result<(Journal, Segments)> {
        let path = dir.join(JOURNAL_FILE);
        let file = open(&path, true).map_err(|source| TraceError::io(&path, source))?;
        lock(&file, dir)?;
        let text = read_all(&file).map_err(|source| TraceError::io(&path, source))?;
        let (segments, end) = parse(&text);
        file.set_len(end)
            .map_err(|source| TraceError::io(&path, source))?;
        let journal = Journal {
            path,
            file,
            end,
            pending: String::new(),
        };
        Ok((journal, segments))
    }

    /// Adds a line for the next commit.
    pub(crate) fn add(&mut self, table: &str, segment: Segment) {
        self.pending.push_str(&line(table, segment));
    }

    /// Makes all added segments count.
    pub(crate) fn commit(&mut self) -> Result<()> {
        // At a position, not appended: what a failed write left behind is overwritten.
        self.file
            .write_all_at(self.pending.as_bytes(), self.end)
            .map_err(|source| TraceError::io(&self.path, source))?;
        self.end += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// Reads what has been committed; the flag says whether a recorder is still at it.
pub(crate) fn read(dir: &Path) -> Result<(Segments, bool)> {
    let path = dir.join(JOURNAL_FILE);
    let file = match open(&path, false) {
        Ok(file) => file,
        // Killed between writing the meta file and beginning the journal.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
        Err(source) => return Err(TraceError::io(&path, source)),
    };
    let in_progress = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    let text = read_all(&file).map_err(|source| TraceError::io(&path, source))?;
    Ok((parse(&text).0, in_progress))
}

/// Fails if a live recorder holds the trace.
pub(crate) fn check_unused(dir: &Path) -> Result<()> {
    match open(&dir.join(JOURNAL_FILE), false) {
        Ok(file) => lock(&file, dir),
        Err(_) => Ok(()),
    }
}

fn open(path: &Path, write: bool) -> io::Result<File> {
    // Not through a link: see `files::create`.
    OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

fn lock(file: &File, dir: &Path) -> Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(TraceError::InUse {
            path: dir.to_owned(),
        }),
        // A file system without locks: go on without the protection.
        Err(TryLockError::Error(_)) | Ok(()) => Ok(()),
    }
}

fn read_all(mut file: &File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    io::Read::read_to_end(&mut file, &mut text)?;
    Ok(text)
}

fn line(table: &str, segment: Segment) -> String {
    let Segment {
        start,
        end,
        rows,
        crc32,
    } = segment;
    let mut line = format!("{table} {start} {end} {rows} {crc32:08x}");
    let check = crc32fast::hash(line.as_bytes());
    // Writing to a string cannot fail.
    let _ = writeln!(line, " {check:08x}");
    line
}

/// The segments of the leading whole lines, and where those lines end.
fn parse(text: &[u8]) -> (Segments, u64) {
    let mut segments = Segments::new();
    let mut end = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let Some((table, segment)) = parse_line(line) else {
            break;
        };
        let of_table = segments.entry(table.to_owned()).or_default();
        while of_table.last().is_some_and(|last| last.end > segment.start) {
            of_table.pop();
        }
        let expected_start = of_table.last().map_or(0, |last| last.end);
        if segment.start != expected_start {
            break;
        }
        of_table.push(segment);
        end += line.len() as u64;
    }
    (segments, end)
}

fn parse_line(line: &[u8]) -> Option<(&str, Segment)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (content, check) = line.rsplit_once(' ')?;
    if u32::from_str_radix(check, 16).ok()? != crc32fast::hash(content.as_bytes()) {
        return None;
    }
    let mut words = content.split(' ');
    let table = words.next()?;
    let segment = Segment {
        start: words.next()?.parse().ok()?,
        end: words.next()?.parse().ok()?,
        rows: words.next()?.parse().ok()?,
        crc32: u32::from_str_radix(words.next()?, 16).ok()?,
    };
    (segment.start <= segment.end && words.next().is_none()).then_some((table, segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(start: u64, end: u64) -> Segment {
        Segment {
            start,
            end,
            rows: 7,
            crc32: 0xabcd,
        }
    }

    #[test]
    fn any_cut_or_changed_byte_yields_a_prefix() {
        let all = [segment(0, 10), segment(10, 30), segment(30, 31)];
        let text: String = all.iter().map(|&s| line("events", s)).collect();
        let text = text.into_bytes();
        assert_eq!(parse(&text).0["events"], all);
        for cut in 0..text.len() {
            let (found, end) = parse(&text[..cut]);
            let found = found.get("events").cloned().unwrap_or_default();
            assert_eq!(found, all[..found.len()]);
            assert!(end <= cut as u64);
        }
        for position in 0..text.len() {
            let mut damaged = text.clone();
            damaged[position] ^= 0x15;
            let (found, _) = parse(&damaged);
            let found = found.get("events").cloned().unwrap_or_default();
            assert_eq!(found, all[..found.len()]);
            assert!(found.len() < all.len());
        }
    }

    #[test]
    fn a_later_line_takes_back_what_lies_beyond_its_start() {
        let lines = [
            segment(0, 10),
            segment(10, 30),
            segment(10, 10),
            segment(10, 20),
        ];
        let text: String = lines.iter().map(|&s| line("events", s)).collect();
        let (found, _) = parse(text.as_bytes());
        assert_eq!(
            found["events"],
            [segment(0, 10), segment(10, 10), segment(10, 20)]
        );
    }
}
