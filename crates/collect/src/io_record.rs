//! Records of the programs on input and output (`bpf/io.h`), decoded. Pure, like [`crate::record`].

use crate::CallPath;
use crate::Observation;
use crate::record::PAGE_BYTES;
use crate::record::call_path;

const TO_FILE: u64 = 1 << 58;
const CALL_SHIFT: u32 = 53;
const DIRECT: u64 = 1 << 52;
const FILE_SHIFT: u32 = 32;
const MOST_FILES: u64 = (1 << 20) - 1;
const OFFSET_UNKNOWN: u64 = u64::MAX;
const DESCRIPTOR_SHIFT: u32 = 44;
const MOST_DESCRIPTORS: u32 = (1 << 20) - 1;
const READAHEAD_SHIFT: u32 = 42;
const MISSED_SHIFT: u32 = 21;
const MOST_PAGES: u64 = (1 << 21) - 1;

/// Words of a record.
pub(crate) const CALL_WORDS: usize = 6;
pub(crate) const CACHE_WORDS: usize = 4;

/// A system call that read, wrote or synchronized a regular file, a request of io_uring that did, or a fault on a mapping that had to
/// wait. One that transfers between two files is told twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCall {
    /// When it began, ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Address space.
    pub space: u32,
    /// Thread.
    pub tid: u32,
    /// Which.
    pub call: Call,
    /// From the file to the program or another file, or the other way.
    pub direction: Direction,
    /// The file's number ([`FileSeen::file`]); `None`: nothing could be told of it.
    pub file: Option<u32>,
    /// The open file bypasses the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Where in the file, bytes; `None`: the call has no place, or it is not known.
    pub offset: Option<u64>,
    /// Bytes moved, or the error's number.
    pub result: Result<u64, u16>,
    /// From entering the kernel to leaving it, ns; of a request of io_uring, from its submission until its result is told.
    pub latency_ns: u64,
    /// Bytes of the call's own range that the page cache got in it, in whole pages.
    pub cached_bytes: u64,
    /// Further bytes that it got: read ahead, in whole pages.
    pub ahead_bytes: u64,
    /// By which descriptor of the process; `None`: a number beyond a million.
    pub descriptor: Option<u32>,
    /// How the open file read ahead when the call began; told with [`crate::Options::enforces`] only.
    pub reads_ahead: ReadsAhead,
    /// Who called.
    pub call_path: CallPath,
}

/// See [`FileCall::reads_ahead`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadsAhead {
    /// As the kernel does without advice.
    #[default]
    AsUsual,
    /// Twice as far (`POSIX_FADV_SEQUENTIAL`).
    Twice,
    /// Not at all (`POSIX_FADV_RANDOM`).
    Not,
}

/// What an enforcer wishes to hear of the calls of a path. Of paths that nothing was said about, all is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Calls on files that read ahead otherwise than usual, at once: somebody may have to give that back.
    Nothing = 1,
    /// All of them, once some MiB have come together.
    ByVolume = 2,
    /// All of them, at once.
    AtOnce = 3,
}

/// Which system call; those with vectors and flags (`preadv2`) with the ones they extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the calls are")]
pub enum Call {
    Read,
    Pread,
    Readv,
    Preadv,
    Write,
    Pwrite,
    Writev,
    Pwritev,
    Sendfile,
    Splice,
    CopyFileRange,
    Fsync,
    Fdatasync,
    /// A request of io_uring, with vectors and registered buffers or without.
    UringRead,
    UringWrite,
    UringSync,
    /// A fault on a mapping of the file that had to wait for its page; of that page, and as if read.
    Fault,
}

/// See [`FileCall::direction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It is read.
    FromFile,
    /// It is written, or written back.
    ToFile,
}

/// Pages of a file that came into the page cache or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheChange {
    /// When, ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// What happened.
    pub what: CacheEvent,
    /// The file's number.
    pub file: Option<u32>,
    /// Where in the file, bytes.
    pub offset: u64,
    /// How much, bytes.
    pub bytes: u64,
    /// Who brought them in; `None` for pages that left.
    pub by: Option<Cacher>,
    /// Who asked: the path of the call, or of the fault where no call was under way.
    pub call_path: CallPath,
}

/// See [`CacheChange::what`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheEvent {
    /// They came in.
    Added,
    /// They came in by a fault on a mapping; all that it brought in have the time of its begin.
    Faulted,
    /// They left as memory was short.
    Evicted,
    /// They left as somebody wanted it: truncated, removed, `POSIX_FADV_DONTNEED`.
    Dropped,
}

/// Who brought pages in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cacher {
    /// Address space.
    pub space: u32,
    /// Thread.
    pub tid: u32,
}

/// A file, told of before the first record that refers to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSeen {
    /// When, ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Its number. The same file may get another one when it has not been used for long.
    pub file: u32,
    /// The address space that used it.
    pub space: u32,
    /// Device of its file system.
    pub device: (u32, u32),
    /// Inode on it.
    pub inode: u64,
    /// Tells files apart that had the same inode in turn.
    pub generation: u32,
    /// Its size then.
    pub bytes: u64,
    /// The file system's magic number (`statfs`).
    pub magic: u64,
    /// It had no name any more.
    pub unlinked: bool,
    /// Its path from the root of its file system, without that root; `None`: it has none, or too long a one.
    pub path: Option<Vec<u8>>,
}

/// Decodes a record of kind KIND_IO.
pub(crate) fn decode_call(words: &[u64], space: u32, time_ns: u64) -> Option<FileCall> {
    let &[first, _, third, path, offset, pages] = words.get(..CALL_WORDS)? else {
        return None;
    };
    let result = first as u32 as i32;
    let error = u16::try_from(-i64::from(result)).unwrap_or(0);
    Some(FileCall {
        time_ns,
        space,
        tid: (third & 0xff_ffff) as u32,
        call: call(first >> CALL_SHIFT & 31)?,
        direction: if first & TO_FILE != 0 {
            Direction::ToFile
        } else {
            Direction::FromFile
        },
        file: file(first),
        direct: first & DIRECT != 0,
        offset: (offset != OFFSET_UNKNOWN).then_some(offset),
        result: u64::try_from(result).map_err(|_| error),
        latency_ns: third >> 24,
        cached_bytes: (pages >> MISSED_SHIFT & MOST_PAGES) * PAGE_BYTES,
        ahead_bytes: (pages & MOST_PAGES) * PAGE_BYTES,
        descriptor: u32::try_from(pages >> DESCRIPTOR_SHIFT)
            .ok()
            .filter(|&descriptor| descriptor < MOST_DESCRIPTORS),
        reads_ahead: match pages >> READAHEAD_SHIFT & 3 {
            1 => ReadsAhead::Twice,
            2 => ReadsAhead::Not,
            _ => ReadsAhead::AsUsual,
        },
        call_path: call_path(path),
    })
}

fn file(word: u64) -> Option<u32> {
    let number = (word >> FILE_SHIFT & MOST_FILES) as u32;
    (number > 0).then_some(number)
}

/// The numbers of `bpf/record.h`.
fn call(number: u64) -> Option<Call> {
    use Call::*;
    const ALL: [Call; 17] = [
        Read,
        Pread,
        Readv,
        Preadv,
        Write,
        Pwrite,
        Writev,
        Pwritev,
        Sendfile,
        Splice,
        CopyFileRange,
        Fsync,
        Fdatasync,
        UringRead,
        UringWrite,
        UringSync,
        Fault,
    ];
    ALL.get(usize::try_from(number).ok()?.checked_sub(1)?)
        .copied()
}

/// Decodes a record of kind KIND_CACHE.
pub(crate) fn decode_cache(words: &[u64], space: u32, time_ns: u64) -> Option<CacheChange> {
    let &[first, _, third, path] = words.get(..CACHE_WORDS)? else {
        return None;
    };
    let what = match first >> CALL_SHIFT & 31 {
        0 => CacheEvent::Added,
        1 => CacheEvent::Evicted,
        2 => CacheEvent::Dropped,
        3 => CacheEvent::Faulted,
        _ => return None,
    };
    Some(CacheChange {
        time_ns,
        what,
        file: file(first),
        offset: (third >> 24) * PAGE_BYTES,
        bytes: (first & u64::from(u32::MAX)) * PAGE_BYTES,
        by: matches!(what, CacheEvent::Added | CacheEvent::Faulted).then_some(Cacher {
            space,
            tid: (third & 0xff_ffff) as u32,
        }),
        call_path: call_path(path),
    })
}

/// Bytes of `struct file_notice`.
const FILE_HEAD: usize = 56;
const UNLINKED: u32 = 1;
const PATH_CUT: u32 = 2;

/// Decodes `struct file_notice` and the names behind it; `None` if it is too short.
pub(crate) fn decode_file(bytes: &[u8]) -> Option<FileSeen> {
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (device, flags, words) = (half(40)?, half(48)?, half(52)? as usize);
    let names = bytes.get(FILE_HEAD..FILE_HEAD + words * 8)?;
    Some(FileSeen {
        time_ns: word(0)?,
        inode: word(8)?,
        bytes: word(16)?,
        magic: word(24)?,
        file: half(32)?,
        space: half(36)?,
        device: (device >> 20, device & 0xf_ffff),
        generation: half(44)?,
        unlinked: flags & UNLINKED != 0,
        path: path(names).filter(|path| flags & PATH_CUT == 0 && !path.is_empty()),
    })
}

/// Decodes `struct handover`; `None` if it is too short.
pub(crate) fn decode_handover(bytes: &[u8]) -> Option<Observation> {
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    Some(Observation::Handover {
        token: word(0)?,
        call_path: call_path(word(8)?),
    })
}

/// Names come innermost first, each behind its length and padded to words.
fn path(mut names: &[u8]) -> Option<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = names.split_first_chunk::<8>() {
        let length = usize::try_from(u64::from_ne_bytes(*length)).ok()?;
        parts.push(rest.get(..length)?);
        names = rest.get(length.next_multiple_of(8)..)?;
    }
    let mut path = Vec::new();
    for part in parts.iter().rev() {
        path.push(b'/');
        path.extend_from_slice(part);
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::decode;

    #[test]
    fn a_call_keeps_file_place_result_and_latency() {
        let words = [
            5 << 60 | 1 << 59 | 2 << CALL_SHIFT | 7 << FILE_SHIFT | 4096,
            3 << 48 | 100,
            900 << 24 | 4242,
            12,
            8192,
            9 << DESCRIPTOR_SHIFT | 2 << READAHEAD_SHIFT | 1 << MISSED_SHIFT | 31,
        ];
        let expected = FileCall {
            time_ns: 1100,
            space: 3,
            tid: 4242,
            call: Call::Pread,
            direction: Direction::FromFile,
            file: Some(7),
            direct: false,
            offset: Some(8192),
            result: Ok(4096),
            latency_ns: 900,
            cached_bytes: 4096,
            ahead_bytes: 31 * 4096,
            descriptor: Some(9),
            reads_ahead: ReadsAhead::Not,
            call_path: CallPath::Known(11),
        };
        assert_eq!(
            decode(&words, 1000),
            Some((Observation::FileCall(expected), CALL_WORDS))
        );
        assert_eq!(decode(&words[..5], 1000), None, "cut");
    }

    #[test]
    fn an_error_is_no_size_and_an_unknown_place_is_none() {
        let eio = u64::from((-5i32) as u32);
        let words = [
            5 << 60 | TO_FILE | DIRECT | 12 << CALL_SHIFT | eio,
            0,
            0,
            0,
            OFFSET_UNKNOWN,
            0,
        ];
        let call = decode_call(&words, 0, 0).expect("whole");
        assert_eq!((call.result, call.offset), (Err(5), None));
        assert_eq!(
            (call.call, call.file, call.direct),
            (Call::Fsync, None, true)
        );
        assert_eq!(call.direction, Direction::ToFile);
        let unknown = [5 << 60 | 20 << CALL_SHIFT, 0, 0, 0, 0, 0];
        assert_eq!(decode_call(&unknown, 0, 0), None);
    }

    #[test]
    fn pages_that_leave_belong_to_nobody() {
        let words = [
            6 << 60 | 1 << CALL_SHIFT | 9 << FILE_SHIFT | 16,
            50,
            3 << 24,
            0,
        ];
        let expected = CacheChange {
            time_ns: 50,
            what: CacheEvent::Evicted,
            file: Some(9),
            offset: 3 * 4096,
            bytes: 16 * 4096,
            by: None,
            call_path: CallPath::Unknown,
        };
        assert_eq!(
            decode(&words, 0),
            Some((Observation::Cache(expected), CACHE_WORDS))
        );
    }

    #[test]
    fn a_path_is_put_together_from_its_names() {
        let mut bytes = vec![0; FILE_HEAD];
        bytes[32..36].copy_from_slice(&5u32.to_ne_bytes());
        bytes[40..44].copy_from_slice(&(8u32 << 20 | 1).to_ne_bytes());
        for name in ["a_long_name.txt", "folder"] {
            bytes.extend((name.len() as u64).to_ne_bytes());
            bytes.extend(name.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(8), 0xff);
        }
        let words = ((bytes.len() - FILE_HEAD) / 8) as u32;
        bytes[52..56].copy_from_slice(&words.to_ne_bytes());
        let file = decode_file(&bytes).expect("whole");
        assert_eq!(file.path.as_deref(), Some(&b"/folder/a_long_name.txt"[..]));
        assert_eq!((file.file, file.device, file.unlinked), (5, (8, 1), false));
        bytes[48] = (UNLINKED | PATH_CUT) as u8;
        let cut = decode_file(&bytes).expect("whole");
        assert_eq!((cut.path, cut.unlinked), (None, true));
        assert_eq!(decode_file(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn work_that_was_handed_over_is_known_by_its_token() {
        let handed_over = 1 << 61 | 0x1234;
        let words = [5 << 60 | 1 << 59 | 1 << CALL_SHIFT, 0, 0, handed_over, 0, 0];
        let call = decode_call(&words, 0, 0).expect("whole");
        assert_eq!(call.call_path, CallPath::HandedOver(0x1234));
        let mut bytes = 0x1234u64.to_ne_bytes().to_vec();
        assert_eq!(decode_handover(&bytes), None, "cut");
        bytes.extend(8u64.to_ne_bytes());
        assert_eq!(
            decode_handover(&bytes),
            Some(Observation::Handover {
                token: 0x1234,
                call_path: CallPath::Known(7),
            })
        );
    }

    /// record.h is the other half of this contract.
    #[test]
    fn the_header_has_the_same_numbers() {
        let header = include_str!("bpf/record.h");
        for line in [
            "#define IO_READ 1",
            "#define IO_PWRITEV 8",
            "#define IO_COPY 11",
            "#define IO_FDATASYNC 13",
            "#define IO_URING_READ 14",
            "#define IO_FAULT 17",
            "#define IO_TO_FILE (1ULL << 58)",
            "#define IO_CALL_SHIFT 53",
            "#define IO_DIRECT (1ULL << 52)",
            "#define IO_FILE_SHIFT 32",
            "#define MOST_FILES ((1U << 20) - 1)",
            "#define IO_DESCRIPTOR_SHIFT 44",
            "#define IO_MOST_DESCRIPTORS ((1 << 20) - 1)",
            "#define IO_READAHEAD_SHIFT 42",
            "#define IO_MISSED_SHIFT 21",
            "#define IO_MOST_PAGES ((1 << 21) - 1)",
            "#define READS_AHEAD_TWICE 1",
            "#define READS_NOTHING_AHEAD 2",
            "#define MOST_WISHES (1 << 16)",
            "#define WISH_NOTHING 1",
            "#define WISH_BY_VOLUME 2",
            "#define WISH_AT_ONCE 3",
            "#define CACHE_EVICTED 1",
            "#define CACHE_DROPPED 2",
            "#define CACHE_FAULTED 3",
            "#define FILE_UNLINKED 1",
            "#define PATH_IS_HANDED_OVER (1ULL << 61)",
            "#define MARK_OPTION 0x50677773",
            "#define MARK_HANDED_OVER 1",
            "#define MARK_ON_BEHALF 2",
            "#define TOKEN_BITS (PATH_IS_HANDED_OVER - 1)",
            "#define FILE_PATH_CUT 2",
        ] {
            assert!(
                header.lines().any(|of_header| of_header.starts_with(line)),
                "{line}"
            );
        }
    }
}
