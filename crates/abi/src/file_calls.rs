//! What the preloaded library tells of calls on files, where nobody else can: a [`File`] and a [`CallPath`] once, as a rule, and then a
//! short [`FileCall`] each time.

use crate::record::Fields;
use crate::record::Kind;
use crate::record::RECORD_HEADER;
use crate::record::RecordError;
use crate::record::STACK_BYTES;
use crate::record::half_at;
use crate::record::padded;
use crate::record::word_at;

pub(crate) const PATH_KIND: u16 = 9;
pub(crate) const FILE_KIND: u16 = 10;
pub(crate) const CALL_KIND: u16 = 11;

/// In the environment: calls on files are to be told. Set by the recorder.
pub const VARIABLE: &str = "PAGEWISE_FILE_CALLS";

/// The call path that a token stands for from now on, as its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPath<'ring> {
    /// When it was walked, ns.
    pub time_ns: u64,
    /// Its token, which is the same for the same return addresses.
    pub token: u64,
    /// Registers inside the library: instruction, stack and frame pointer.
    pub registers: [u64; 3],
    /// The token tells so many frames, the library's own included: what lies further out may differ. 0: it tells all of them.
    pub frames: u32,
    /// The stack from the stack pointer upwards, at most [`STACK_BYTES`].
    pub stack: &'ring [u8],
}

/// What tells a file from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The device's number, its major part first.
    pub device: (u32, u32),
    /// The inode on that device.
    pub inode: u64,
    /// Tells files apart that have had the same inode in turn, by when they were made; 0: not known.
    pub generation: u32,
}

/// A file, before the first call on it that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File<'ring> {
    /// When, ns.
    pub time_ns: u64,
    /// Which.
    pub id: FileId,
    /// Its size then, bytes.
    pub bytes: u64,
    /// The magic number of its file system; 0: not known.
    pub magic: u64,
    /// Whether it had no name any more.
    pub unlinked: bool,
    /// Its path as the process sees it; empty: not known.
    pub path: &'ring [u8],
}

impl File<'_> {
    /// Longer paths are not told, bytes.
    pub const LONGEST_PATH: usize = 4096;
}

/// Which call; those with vectors and flags (`preadv2`) with the ones they extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "named as the calls are")]
pub enum CallKind {
    Read = 1,
    Pread = 2,
    Readv = 3,
    Preadv = 4,
    Write = 5,
    Pwrite = 6,
    Writev = 7,
    Pwritev = 8,
    Fsync = 9,
    Fdatasync = 10,
}

impl CallKind {
    fn from_wire(value: u32) -> Option<Self> {
        [
            Self::Read,
            Self::Pread,
            Self::Readv,
            Self::Preadv,
            Self::Write,
            Self::Pwrite,
            Self::Writev,
            Self::Pwritev,
            Self::Fsync,
            Self::Fdatasync,
        ]
        .into_iter()
        .find(|&kind| u32::from(kind as u8) == value)
    }
}

/// A call on a regular file is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCall {
    /// When it began, ns.
    pub time_ns: u64,
    /// How long it took, ns.
    pub latency_ns: u64,
    /// Who called: the token of a [`CallPath`]; 0: not known.
    pub token: u64,
    /// Thread.
    pub tid: u32,
    /// Which call.
    pub kind: CallKind,
    /// The file is open with `O_DIRECT`.
    pub direct: bool,
    /// Which file.
    pub file: FileId,
    /// Where in the file, bytes; `None`: the call has no place, or it is not known.
    pub offset: Option<u64>,
    /// Bytes moved, or the error's number.
    pub result: Result<u64, u16>,
}

/// Any of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfFiles<'ring> {
    /// See [`CallPath`].
    Path(CallPath<'ring>),
    /// See [`File`].
    File(File<'ring>),
    /// See [`FileCall`].
    Call(FileCall),
}

impl OfFiles<'_> {
    /// When it was, ns.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Path(path) => path.time_ns,
            Self::File(file) => file.time_ns,
            Self::Call(call) => call.time_ns,
        }
    }
}

const PATH_FIXED: usize = RECORD_HEADER + 8 * 6;
const FILE_FIXED: usize = RECORD_HEADER + 8 * 7;
const CALL_BYTES: usize = RECORD_HEADER + 8 * 9;
/// No file is so long: where a call has no place.
const NOWHERE: u64 = u64::MAX;
const DIRECT: u32 = 1 << 16;
const FAILED: u32 = 1 << 17;
const UNLINKED: u32 = 1;

impl CallPath<'_> {
    /// Bytes of the record for so much stack.
    pub const fn wire_bytes(stack: usize) -> usize {
        padded(PATH_FIXED, stack)
    }

    /// Writes all but the length into `bytes`, [`CallPath::wire_bytes`] long. The stack (`self.stack` is not looked at) is copied by
    /// `copy` to its place straight from where it is; `copy` returns how many bytes there were.
    pub fn encode_with(&self, bytes: &mut [u8], copy: impl FnOnce(&mut [u8]) -> usize) {
        let room = bytes.len() - PATH_FIXED;
        let stack_bytes = copy(&mut bytes[PATH_FIXED..]).min(room);
        let mut fields = Fields::new(bytes, Kind::CallPath);
        fields.word(self.time_ns);
        fields.word(self.token);
        for value in self.registers {
            fields.word(value);
        }
        fields.half(self.frames);
        fields.half(stack_bytes as u32);
    }
}

impl FileId {
    fn encode(&self, fields: &mut Fields<'_>) {
        fields.word(self.inode);
        fields.half(self.device.0);
        fields.half(self.device.1);
        fields.half(self.generation);
    }

    /// From the byte where it begins.
    fn decode(bytes: &[u8], at: usize) -> Result<Self, RecordError> {
        Ok(Self {
            inode: word_at(bytes, at)?,
            device: (half_at(bytes, at + 8)?, half_at(bytes, at + 12)?),
            generation: half_at(bytes, at + 16)?,
        })
    }
}

impl File<'_> {
    /// Bytes of the record for a path that long.
    pub const fn wire_bytes(path: usize) -> usize {
        padded(FILE_FIXED, path)
    }

    /// Writes all but the length.
    pub fn encode(&self, bytes: &mut [u8]) {
        let mut fields = Fields::new(bytes, Kind::File);
        fields.word(self.time_ns);
        self.id.encode(&mut fields);
        fields.half(if self.unlinked { UNLINKED } else { 0 });
        fields.word(self.bytes);
        fields.word(self.magic);
        fields.word(self.path.len() as u64);
        fields.raw(self.path);
    }
}

impl FileCall {
    /// Bytes of the record.
    pub const WIRE_BYTES: usize = CALL_BYTES;

    /// Writes all but the length.
    pub fn encode(&self, bytes: &mut [u8]) {
        let mut fields = Fields::new(bytes, Kind::FileCall);
        fields.word(self.time_ns);
        fields.word(self.latency_ns);
        fields.word(self.token);
        self.file.encode(&mut fields);
        let direct = if self.direct { DIRECT } else { 0 };
        let failed = if self.result.is_err() { FAILED } else { 0 };
        fields.half(u32::from(self.kind as u8) | direct | failed);
        fields.word(self.offset.unwrap_or(NOWHERE));
        fields.word(self.result.unwrap_or_else(u64::from));
        fields.word(self.tid.into());
    }
}

pub(crate) fn decode(bytes: &[u8], kind: u16) -> Result<OfFiles<'_>, RecordError> {
    match kind {
        PATH_KIND => decode_path(bytes).map(OfFiles::Path),
        FILE_KIND => decode_file(bytes).map(OfFiles::File),
        CALL_KIND => decode_call(bytes).map(OfFiles::Call),
        _ => Err(RecordError::Content),
    }
}

fn decode_path(bytes: &[u8]) -> Result<CallPath<'_>, RecordError> {
    let field = |index: usize| word_at(bytes, RECORD_HEADER + index * 8);
    let stack_bytes = half_at(bytes, RECORD_HEADER + 44)? as usize;
    if stack_bytes > STACK_BYTES {
        return Err(RecordError::Content);
    }
    Ok(CallPath {
        time_ns: field(0)?,
        token: field(1)?,
        registers: [field(2)?, field(3)?, field(4)?],
        frames: half_at(bytes, RECORD_HEADER + 40)?,
        stack: bytes
            .get(PATH_FIXED..PATH_FIXED + stack_bytes)
            .ok_or(RecordError::Length)?,
    })
}

fn decode_file(bytes: &[u8]) -> Result<File<'_>, RecordError> {
    let field = |index: usize| word_at(bytes, RECORD_HEADER + index * 8);
    let length = usize::try_from(field(6)?)
        .ok()
        .filter(|&length| length <= File::LONGEST_PATH)
        .ok_or(RecordError::Content)?;
    Ok(File {
        time_ns: field(0)?,
        id: FileId::decode(bytes, RECORD_HEADER + 8)?,
        unlinked: half_at(bytes, RECORD_HEADER + 28)? & UNLINKED != 0,
        bytes: field(4)?,
        magic: field(5)?,
        path: bytes
            .get(FILE_FIXED..FILE_FIXED + length)
            .ok_or(RecordError::Length)?,
    })
}

fn decode_call(bytes: &[u8]) -> Result<FileCall, RecordError> {
    let field = |index: usize| word_at(bytes, RECORD_HEADER + index * 8);
    let what = half_at(bytes, RECORD_HEADER + 44)?;
    let kind = CallKind::from_wire(what & !(DIRECT | FAILED)).ok_or(RecordError::Content)?;
    let (offset, value) = (field(6)?, field(7)?);
    let result = if what & FAILED == 0 {
        Ok(value)
    } else {
        Err(u16::try_from(value).map_err(|_| RecordError::Content)?)
    };
    Ok(FileCall {
        time_ns: field(0)?,
        latency_ns: field(1)?,
        token: field(2)?,
        tid: u32::try_from(field(8)?).map_err(|_| RecordError::Content)?,
        kind,
        direct: what & DIRECT != 0,
        file: FileId::decode(bytes, RECORD_HEADER + 24)?,
        offset: (offset != NOWHERE).then_some(offset),
        result,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;
    use crate::decode;

    const ID: FileId = FileId {
        device: (8, 3),
        inode: 1 << 40,
        generation: 7,
    };

    #[test]
    fn paths_and_files_survive_the_wire() {
        let stack = [9u8; 77];
        let path = CallPath {
            time_ns: 1,
            token: 2,
            registers: [3, 4, 5],
            frames: 6,
            stack: &stack,
        };
        let mut bytes = [0; 512];
        let length = CallPath::wire_bytes(stack.len());
        path.encode_with(&mut bytes[..length], |place| {
            place[..stack.len()].copy_from_slice(&stack);
            stack.len()
        });
        let decoded = decode(&bytes[..length]);
        assert_eq!(decoded, Ok(Record::OfFiles(OfFiles::Path(path))));

        for unlinked in [false, true] {
            let file = File {
                time_ns: 1,
                id: ID,
                bytes: 1 << 33,
                magic: 0xef53,
                unlinked,
                path: b"/srv/data",
            };
            file.encode(&mut bytes);
            let decoded = decode(&bytes[..File::wire_bytes(9)]);
            assert_eq!(decoded, Ok(Record::OfFiles(OfFiles::File(file))));
        }
    }

    #[test]
    fn calls_survive_the_wire_with_or_without_place_and_error() {
        let mut bytes = [0; FileCall::WIRE_BYTES];
        for (kind, offset, result) in [
            (CallKind::Read, Some(0), Ok(0)),
            (CallKind::Pwritev, Some(1 << 62), Ok(u64::MAX >> 1)),
            (CallKind::Fdatasync, None, Ok(0)),
            (CallKind::Pread, Some(4096), Err(14)),
        ] {
            for direct in [false, true] {
                let call = FileCall {
                    time_ns: 1,
                    latency_ns: 2,
                    token: u64::MAX,
                    tid: 3,
                    kind,
                    direct,
                    file: ID,
                    offset,
                    result,
                };
                call.encode(&mut bytes);
                let decoded = decode(&bytes);
                assert_eq!(decoded, Ok(Record::OfFiles(OfFiles::Call(call))));
            }
        }
    }

    #[test]
    fn hostile_bytes_are_refused() {
        let mut bytes = [0u8; FileCall::WIRE_BYTES];
        let whole = bytes.len();
        bytes[4] = CALL_KIND as u8;
        assert_eq!(decode(&bytes), Err(RecordError::Content), "no such call");
        bytes[RECORD_HEADER + 44] = CallKind::Read as u8;
        assert!(decode(&bytes).is_ok());
        assert_eq!(decode(&bytes[..whole - 8]), Err(RecordError::Length));
        bytes[RECORD_HEADER + 46] = (FAILED >> 16) as u8;
        bytes[RECORD_HEADER + 58] = 1;
        assert_eq!(decode(&bytes), Err(RecordError::Content), "no such error");
        bytes.fill(0);
        bytes[4] = FILE_KIND as u8;
        for (length, error) in [(100u64, RecordError::Length), (4097, RecordError::Content)] {
            bytes[RECORD_HEADER + 48..RECORD_HEADER + 56].copy_from_slice(&length.to_le_bytes());
            assert_eq!(decode(&bytes), Err(error));
        }
        bytes[4] = PATH_KIND as u8;
        for (length, error) in [
            (100u32, RecordError::Length),
            (STACK_BYTES as u32 + 1, RecordError::Content),
        ] {
            bytes[RECORD_HEADER + 44..RECORD_HEADER + 48].copy_from_slice(&length.to_le_bytes());
            assert_eq!(decode(&bytes), Err(error));
        }
    }
}
