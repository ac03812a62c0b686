//! The records of the allocation stream, encoded and decoded byte by byte: no pointers, no alignment to keep.

/// Kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Fills the end of the ring.
    Padding = 1,
    /// [`Allocation`].
    Allocation = 2,
    /// [`Release`].
    Release = 3,
    /// [`Move`].
    Move = 4,
    /// [`Maps`].
    Maps = 5,
    /// [`Name`].
    Name = 6,
    /// [`crate::guard::Fault`].
    GuardFault = crate::guard::FAULT_KIND,
    /// [`crate::guard::Summary`].
    GuardSummary = crate::guard::SUMMARY_KIND,
    /// [`crate::file_calls::CallPath`].
    CallPath = crate::file_calls::PATH_KIND,
    /// [`crate::file_calls::File`].
    File = crate::file_calls::FILE_KIND,
    /// [`crate::file_calls::FileCall`].
    FileCall = crate::file_calls::CALL_KIND,
}

/// Who made an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AllocationKind {
    /// `malloc`, and through it C++ `new`.
    Malloc = 1,
    /// `calloc`.
    Calloc = 2,
    /// `realloc`, `reallocarray`.
    Realloc = 3,
    /// `memalign`, `posix_memalign`, `aligned_alloc`, `valloc`, `pvalloc`.
    Aligned = 4,
    /// An `mmap` of no disk's file, or `shmat`.
    Mmap = 5,
    /// `sbrk` or `brk`, called by the program itself.
    Brk = 6,
}

impl AllocationKind {
    fn from_wire(value: u8) -> Option<Self> {
        [
            Self::Malloc,
            Self::Calloc,
            Self::Realloc,
            Self::Aligned,
            Self::Mmap,
            Self::Brk,
        ]
        .into_iter()
        .find(|&kind| kind as u8 == value)
    }
}

/// Most bytes of stack that travel with an allocation.
pub const STACK_BYTES: usize = 32 << 10;
/// Bytes of stack that travel with an allocation until the recorder asks for more: most call paths need less.
pub const FIRST_STACK_BYTES: usize = 4 << 10;

/// Memory was handed to the program. Times in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation<'ring> {
    /// When it had been made.
    pub time_ns: u64,
    /// Where.
    pub address: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Thread.
    pub tid: u32,
    /// By what call.
    pub kind: AllocationKind,
    /// 0: every such allocation is recorded. Else it was sampled: chosen with probability
    /// `1 - exp(-bytes / sample_bytes)`, and stands for others.
    pub sample_bytes: u32,
    /// Registers inside the library: instruction, stack and frame pointer.
    pub registers: [u64; 3],
    /// The stack from the stack pointer upwards, at most [`STACK_BYTES`].
    pub stack: &'ring [u8],
}

/// Memory is about to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// When, ns.
    pub time_ns: u64,
    /// Where.
    pub address: u64,
    /// 0: the allocation that starts there; else so many bytes from there (`munmap`).
    pub bytes: u64,
}

/// `mremap` moved or resized a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// When, ns.
    pub time_ns: u64,
    /// Where it was.
    pub old_address: u64,
    /// Its old length, bytes.
    pub old_bytes: u64,
    /// Where it is.
    pub new_address: u64,
    /// Its new length, bytes.
    pub new_bytes: u64,
}

/// A piece of the process's list of mappings, in the text form of `/proc/self/maps`: at start-up, and again before
/// the first allocation after a library was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maps<'ring> {
    /// When it was read, ns.
    pub time_ns: u64,
    /// The first piece of a new list.
    pub first: bool,
    /// The last piece of it.
    pub last: bool,
    /// The piece; lines may be cut between pieces.
    pub text: &'ring [u8],
}

/// The program says what an allocation is called (`pagewise_name` of `pagewise.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'ring> {
    /// When, ns.
    pub time_ns: u64,
    /// Somewhere in the allocation.
    pub address: u64,
    /// The name, as the program has it.
    pub text: &'ring [u8],
}

/// Any record.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time is read from a ring, and nothing here allocates"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'ring> {
    /// See [`Kind::Padding`].
    Padding,
    /// See [`Allocation`].
    Allocation(Allocation<'ring>),
    /// See [`Release`].
    Release(Release),
    /// See [`Move`].
    Move(Move),
    /// See [`Maps`].
    Maps(Maps<'ring>),
    /// See [`Name`].
    Name(Name<'ring>),
    /// See [`crate::guard`]. Only `pagewise guard` gets these.
    Guard(crate::guard::GuardRecord<'ring>),
    /// See [`crate::file_calls`].
    OfFiles(crate::file_calls::OfFiles<'ring>),
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The length is no multiple of 8, or too short or too long for its kind.
    Length,
    /// No such kind, or a field outside its range.
    Content,
}

pub(crate) const RECORD_HEADER: usize = 8;
const ALLOCATION_FIXED: usize = RECORD_HEADER + 8 * 6 + 16;
const RELEASE_BYTES: usize = RECORD_HEADER + 8 * 3;
const MOVE_BYTES: usize = RECORD_HEADER + 8 * 5;
const MAPS_FIXED: usize = RECORD_HEADER + 16;
const NAME_FIXED: usize = RECORD_HEADER + 8 * 3;

/// Length of a record that carries `extra` bytes behind a fixed part.
pub(crate) const fn padded(fixed: usize, extra: usize) -> usize {
    (fixed + extra).next_multiple_of(8)
}

/// Writes fields one after the other behind the record's header.
pub(crate) struct Fields<'bytes> {
    bytes: &'bytes mut [u8],
    at: usize,
}

impl Fields<'_> {
    pub(crate) fn new(bytes: &mut [u8], kind: Kind) -> Fields<'_> {
        bytes[4..6].copy_from_slice(&(kind as u16).to_le_bytes());
        bytes[6..8].fill(0);
        Fields {
            bytes,
            at: RECORD_HEADER,
        }
    }

    pub(crate) fn word(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    pub(crate) fn half(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    pub(crate) fn raw(&mut self, value: &[u8]) {
        self.bytes[self.at..self.at + value.len()].copy_from_slice(value);
        self.at += value.len();
    }
}

impl Allocation<'_> {
    /// Bytes of the record for so much stack.
    pub const fn wire_bytes(stack: usize) -> usize {
        padded(ALLOCATION_FIXED, stack)
    }

    /// Writes all but the length into `bytes`, [`Allocation::wire_bytes`] long. The stack (`self.stack` is not looked
    /// at) is copied by `copy` to its place straight from where it is; `copy` returns how many bytes there were.
    pub fn encode_with(&self, bytes: &mut [u8], copy: impl FnOnce(&mut [u8]) -> usize) {
        let room = bytes.len() - ALLOCATION_FIXED;
        let stack_bytes = copy(&mut bytes[ALLOCATION_FIXED..]).min(room);
        let mut fields = Fields::new(bytes, Kind::Allocation);
        for value in [self.time_ns, self.address, self.bytes] {
            fields.word(value);
        }
        for value in self.registers {
            fields.word(value);
        }
        fields.half(self.tid);
        fields.half(stack_bytes as u32);
        fields.half(u32::from(self.kind as u8));
        fields.half(self.sample_bytes);
    }
}

impl Release {
    /// Bytes of the record.
    pub const WIRE_BYTES: usize = RELEASE_BYTES;

    /// Writes all but the length.
    pub fn encode(&self, bytes: &mut [u8]) {
        let mut fields = Fields::new(bytes, Kind::Release);
        for value in [self.time_ns, self.address, self.bytes] {
            fields.word(value);
        }
    }
}

impl Move {
    /// Bytes of the record.
    pub const WIRE_BYTES: usize = MOVE_BYTES;

    /// Writes all but the length.
    pub fn encode(&self, bytes: &mut [u8]) {
        let mut fields = Fields::new(bytes, Kind::Move);
        for value in [
            self.time_ns,
            self.old_address,
            self.old_bytes,
            self.new_address,
            self.new_bytes,
        ] {
            fields.word(value);
        }
    }
}

impl Maps<'_> {
    /// Most bytes of text in one piece.
    pub const PIECE_BYTES: usize = 4096;

    /// Bytes of the record for so much text.
    pub const fn wire_bytes(text: usize) -> usize {
        padded(MAPS_FIXED, text)
    }

    /// Writes all but the length.
    pub fn encode(&self, bytes: &mut [u8]) {
        let mut fields = Fields::new(bytes, Kind::Maps);
        fields.word(self.time_ns);
        fields.half(self.text.len() as u32);
        fields.half(u32::from(self.first) | u32::from(self.last) << 1);
        fields.raw(self.text);
    }
}

impl Name<'_> {
    /// Longer names are cut, bytes.
    pub const LONGEST: usize = 256;

    /// Bytes of the record for so much text.
    pub const fn wire_bytes(text: usize) -> usize {
        padded(NAME_FIXED, text)
    }

    /// Writes all but the length.
    pub fn encode(&self, bytes: &mut [u8]) {
        let mut fields = Fields::new(bytes, Kind::Name);
        for value in [self.time_ns, self.address, self.text.len() as u64] {
            fields.word(value);
        }
        fields.raw(self.text);
    }
}

pub(crate) fn word_at(bytes: &[u8], at: usize) -> Result<u64, RecordError> {
    let bytes = bytes.get(at..at + 8).ok_or(RecordError::Length)?;
    Ok(u64::from_le_bytes(
        bytes.try_into().map_err(|_| RecordError::Length)?,
    ))
}

pub(crate) fn half_at(bytes: &[u8], at: usize) -> Result<u32, RecordError> {
    let bytes = bytes.get(at..at + 4).ok_or(RecordError::Length)?;
    Ok(u32::from_le_bytes(
        bytes.try_into().map_err(|_| RecordError::Length)?,
    ))
}

/// Decodes one whole record, its first 8 bytes included.
///
/// # Errors
/// If the bytes are no record: they come from a process that may write anything there.
pub fn decode(bytes: &[u8]) -> Result<Record<'_>, RecordError> {
    let field = |index: usize| word_at(bytes, RECORD_HEADER + index * 8);
    let kind = half_at(bytes, 4)?;
    match kind {
        1 => Ok(Record::Padding),
        2 => decode_allocation(bytes).map(Record::Allocation),
        3 => Ok(Record::Release(Release {
            time_ns: field(0)?,
            address: field(1)?,
            bytes: field(2)?,
        })),
        4 => Ok(Record::Move(Move {
            time_ns: field(0)?,
            old_address: field(1)?,
            old_bytes: field(2)?,
            new_address: field(3)?,
            new_bytes: field(4)?,
        })),
        5 => decode_maps(bytes).map(Record::Maps),
        6 => Ok(Record::Name(Name {
            time_ns: field(0)?,
            address: field(1)?,
            text: decode_name(bytes, field(2)?)?,
        })),
        7 | 8 => crate::guard::decode(bytes, kind as u16).map(Record::Guard),
        9..=11 => crate::file_calls::decode(bytes, kind as u16).map(Record::OfFiles),
        _ => Err(RecordError::Content),
    }
}

fn decode_allocation(bytes: &[u8]) -> Result<Allocation<'_>, RecordError> {
    let field = |index: usize| word_at(bytes, RECORD_HEADER + index * 8);
    let small = RECORD_HEADER + 8 * 6;
    let stack_bytes = half_at(bytes, small + 4)? as usize;
    if stack_bytes > STACK_BYTES {
        return Err(RecordError::Content);
    }
    let kind = u8::try_from(half_at(bytes, small + 8)?)
        .ok()
        .and_then(AllocationKind::from_wire);
    Ok(Allocation {
        time_ns: field(0)?,
        address: field(1)?,
        bytes: field(2)?,
        registers: [field(3)?, field(4)?, field(5)?],
        tid: half_at(bytes, small)?,
        kind: kind.ok_or(RecordError::Content)?,
        sample_bytes: half_at(bytes, small + 12)?,
        stack: bytes
            .get(ALLOCATION_FIXED..ALLOCATION_FIXED + stack_bytes)
            .ok_or(RecordError::Length)?,
    })
}

fn decode_maps(bytes: &[u8]) -> Result<Maps<'_>, RecordError> {
    let length = half_at(bytes, RECORD_HEADER + 8)? as usize;
    let flags = half_at(bytes, RECORD_HEADER + 12)?;
    if length > Maps::PIECE_BYTES || flags > 3 {
        return Err(RecordError::Content);
    }
    Ok(Maps {
        time_ns: word_at(bytes, RECORD_HEADER)?,
        first: flags & 1 != 0,
        last: flags & 2 != 0,
        text: bytes
            .get(MAPS_FIXED..MAPS_FIXED + length)
            .ok_or(RecordError::Length)?,
    })
}

fn decode_name(bytes: &[u8], length: u64) -> Result<&[u8], RecordError> {
    let length = usize::try_from(length)
        .ok()
        .filter(|&length| length <= Name::LONGEST)
        .ok_or(RecordError::Content)?;
    bytes
        .get(NAME_FIXED..NAME_FIXED + length)
        .ok_or(RecordError::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_survives_the_wire() {
        let stack = [7u8; 100];
        let allocation = Allocation {
            time_ns: 1,
            address: 2,
            bytes: 3,
            tid: 4,
            kind: AllocationKind::Realloc,
            sample_bytes: 65_536,
            registers: [5, 6, 7],
            stack: &stack,
        };
        let mut bytes = [0; 512];
        let length = Allocation::wire_bytes(stack.len());
        allocation.encode_with(&mut bytes[..length], |place| {
            place[..stack.len()].copy_from_slice(&stack);
            stack.len()
        });
        assert_eq!(decode(&bytes[..length]), Ok(Record::Allocation(allocation)));

        let release = Release {
            time_ns: 9,
            address: 10,
            bytes: 11,
        };
        release.encode(&mut bytes);
        assert_eq!(
            decode(&bytes[..Release::WIRE_BYTES]),
            Ok(Record::Release(release))
        );

        let moved = Move {
            time_ns: 1,
            old_address: 2,
            old_bytes: 3,
            new_address: 4,
            new_bytes: 5,
        };
        moved.encode(&mut bytes);
        assert_eq!(decode(&bytes[..Move::WIRE_BYTES]), Ok(Record::Move(moved)));

        let maps = Maps {
            time_ns: 1,
            first: true,
            last: false,
            text: b"7f00-7f01 r-xp",
        };
        maps.encode(&mut bytes);
        assert_eq!(
            decode(&bytes[..Maps::wire_bytes(14)]),
            Ok(Record::Maps(maps))
        );

        let name = Name {
            time_ns: 1,
            address: 2,
            text: b"grid",
        };
        name.encode(&mut bytes);
        assert_eq!(
            decode(&bytes[..Name::wire_bytes(4)]),
            Ok(Record::Name(name))
        );
    }

    #[test]
    fn hostile_bytes_are_refused_not_believed() {
        assert_eq!(decode(&[]), Err(RecordError::Length));
        assert_eq!(decode(&[0; 8]), Err(RecordError::Content));
        let mut bytes = [0u8; 128];
        bytes[4] = Kind::Allocation as u8;
        bytes[RECORD_HEADER + 52..RECORD_HEADER + 56].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode(&bytes), Err(RecordError::Content));
        bytes[4] = Kind::Maps as u8;
        bytes[RECORD_HEADER + 8..RECORD_HEADER + 12].copy_from_slice(&4000u32.to_le_bytes());
        bytes[RECORD_HEADER + 12..RECORD_HEADER + 16].fill(0);
        assert_eq!(decode(&bytes), Err(RecordError::Length));
        bytes[4] = Kind::Name as u8;
        for (length, error) in [(200, RecordError::Length), (257, RecordError::Content)] {
            bytes[RECORD_HEADER + 16..RECORD_HEADER + 24]
                .copy_from_slice(&u64::to_le_bytes(length));
            assert_eq!(decode(&bytes), Err(error));
        }
    }

    /// A cheap stand-in for a fuzzer that runs on every change: random bytes never panic.
    #[test]
    fn random_bytes_never_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = [0u8; 256];
        for round in 0..20_000 {
            for chunk in bytes.chunks_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                chunk.copy_from_slice(&state.to_le_bytes());
            }
            bytes[4..8].copy_from_slice(&u32::to_le_bytes(round % 13));
            let length = (state as usize >> 8) % bytes.len();
            let _ = decode(&bytes[..length]);
        }
    }
}
