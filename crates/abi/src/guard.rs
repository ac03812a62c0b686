//! What the guard (the preloaded allocator of `pagewise guard`) tells its launcher, and what the launcher tells it.
//!
//! Both records are words of 64 bits behind the record's header. [`Fault`]: [`FAULT_WORDS`] words, then the frames of its
//! three call paths, then the bytes near the address. [`Summary`]: [`SUMMARY_WORDS`] words.

use crate::record::RecordError;

/// Names the launcher's socket to the guard, as [`crate::SOCKET_VARIABLE`] does the recorder's to the runtime.
pub const SOCKET_VARIABLE: &str = "PAGEWISE_GUARD_SOCKET";
/// Options, separated by commas: [`OPTION_KEEP_GOING`], [`OPTION_ASK`], [`OPTION_LEAKS`], [`OPTION_MPROTECT`], [`OPTION_BEGIN`],
/// [`OPTION_OVERLAP`], [`OPTION_STOP`], [`OPTION_CORE`]; with a number [`OPTION_FILL`], [`OPTION_ALIGN`], [`OPTION_MEMORY`], [`OPTION_SAMPLE`], [`OPTION_MIN`], [`OPTION_MAX`].
pub const OPTIONS_VARIABLE: &str = "PAGEWISE_GUARD_OPTIONS";
/// Stop at an error until somebody continues the program.
pub const OPTION_STOP: &str = "stop";
/// Leave cores, as large as may be.
pub const OPTION_CORE: &str = "core";
/// Objects of `malloc` and `new` are full of this byte, a number, when they are made.
pub const OPTION_FILL: &str = "fill=";
/// Go on after an error.
pub const OPTION_KEEP_GOING: &str = "keep-going";
/// Ask the launcher after each error whether to go on: some are suppressed.
pub const OPTION_ASK: &str = "ask";
/// Look for leaks at the end of each process.
pub const OPTION_LEAKS: &str = "leaks";
/// Guards by `mprotect`, where the kernel's own would do, too.
pub const OPTION_MPROTECT: &str = "mprotect";
/// Objects begin at a guard instead of ending at one.
pub const OPTION_BEGIN: &str = "begin";
/// Overlapping arguments of `memcpy` and kin are errors.
pub const OPTION_OVERLAP: &str = "overlap";
/// One object in so many is guarded.
pub const OPTION_SAMPLE: &str = "sample=";
/// Smaller objects are not guarded, bytes.
pub const OPTION_MIN: &str = "min=";
/// Larger objects are not guarded, bytes.
pub const OPTION_MAX: &str = "max=";
/// Pages of objects may take so many bytes of memory; then those that were not used lately are compacted.
pub const OPTION_MEMORY: &str = "memory=";
/// Objects are aligned to this many bytes and no more.
pub const OPTION_ALIGN: &str = "align=";

/// Most frames of a call path.
pub const MOST_FRAMES: usize = 32;
/// Most bytes near an address that are told.
pub const MOST_NEAR: usize = 128;
/// Longest name of a function of the C library that is told, bytes.
pub const NAME_BYTES: usize = 16;
/// Words of a [`Fault`] before its frames.
pub const FAULT_WORDS: usize = 13;
/// Words of a [`Summary`].
pub const SUMMARY_WORDS: usize = 22 + 2 * HISTOGRAM;
/// Classes of sizes of live objects: up to 2^0, 2^1, ... 2^15 bytes, and beyond.
pub const HISTOGRAM: usize = 17;

const HEADER: usize = 8;

/// A byte on the wire that stands for one of a few things.
macro_rules! byte_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $value:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$item_doc])* $item = $value),+ }

        impl $name {
            /// `None`: no such thing.
            pub fn from_wire(byte: u8) -> Option<Self> {
                match byte { $($value => Some(Self::$item),)+ _ => None }
            }
        }
    };
}

byte_enum! {
    /// What went wrong.
    FaultKind {
        /// An access behind an object's end.
        Overflow = 1,
        /// An access before an object's begin.
        Underflow = 2,
        /// An access to an object that was given back.
        UseAfterFree = 3,
        /// An object was given back twice.
        DoubleFree = 4,
        /// Something that is no object, or not its begin, was given back.
        InvalidFree = 5,
        /// Made by one family of functions, given back by another's.
        Mismatch = 6,
        /// Nothing points to an object at the end of its process.
        Leak = 7,
        /// An access to an address where nothing is, far from any object, that ends the program.
        Wild = 8,
        /// Source and destination of a copy overlap where they must not.
        Overlap = 9,
    }
}

byte_enum! {
    /// What kind of access it was.
    Access {
        /// None: the call itself is wrong.
        None = 0,
        /// A read.
        Read = 1,
        /// A write.
        Write = 2,
        /// Some time before: a write, seen by what it left.
        EarlierWrite = 3,
    }
}

byte_enum! {
    /// Functions that belong together: what one makes, another of the same family gives back.
    Family {
        /// `malloc` and kin, `free`.
        Malloc = 0,
        /// `new`, `delete`.
        New = 1,
        /// `new[]`, `delete[]`.
        NewArray = 2,
    }
}

byte_enum! {
    /// What became of compaction in a process.
    #[derive(Default)]
    Compaction {
        /// No limit was asked for.
        #[default]
        NotWanted = 0,
        /// The limit was not exceeded.
        NotNeeded = 1,
        /// Objects were compacted.
        Done = 2,
        /// The system refused what it takes.
        Refused = 3,
    }
}

/// The object that is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// Whether it had been given back.
    pub is_freed: bool,
    /// Who made it.
    pub family: Family,
}

/// One thing that went wrong, but for its call paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Process.
    pub pid: u32,
    /// Thread that did it.
    pub tid: u32,
    /// What.
    pub kind: FaultKind,
    /// How.
    pub access: Access,
    /// Bytes accessed.
    pub access_bytes: Option<u32>,
    /// Where.
    pub address: u64,
    /// The object concerned; `None`: none is near.
    pub object: Option<Object>,
    /// Of a mismatch: who gave it back.
    pub given_to: Family,
    /// The first frame is the address of the instruction itself; else all are return addresses.
    pub first_frame_is_exact: bool,
    /// Threads that made the object and gave it back; 0: unknown.
    pub threads: [u32; 2],
    /// Leaks: objects of the same call path, and their bytes together.
    pub leaked: [u64; 2],
    /// The function of the C library whose arguments are wrong; zeros: none.
    pub function: [u8; NAME_BYTES],
    /// Where the bytes that were there begin.
    pub near_address: u64,
}

/// Return addresses, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames<'ring>(&'ring [u8]);

impl Frames<'_> {
    /// The addresses.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.chunks_exact(8).map(|word| {
            word.iter()
                .rev()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        })
    }
}

/// A [`Fault`] with its call paths, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRecord<'ring> {
    /// What went wrong.
    pub fault: Fault,
    /// Of the access or the call, of the allocation, of the release; empty: unknown.
    pub paths: [Frames<'ring>; 3],
    /// Bytes near the address, from [`Fault::near_address`] on.
    pub near: &'ring [u8],
}

/// What a process's guard did, told when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Process.
    pub pid: u32,
    /// Guard regions are the kernel's own (`MADV_GUARD_INSTALL`); else `mprotect`.
    pub has_guard_regions: bool,
    /// Objects made, ever.
    pub allocations: u64,
    /// Objects that had no guard: the address space or the number of mappings did not suffice.
    pub unguarded: u64,
    /// Most objects alive at once, as far as counted.
    pub peak_objects: u64,
    /// Their most bytes.
    pub peak_bytes: u64,
    /// Objects alive at the end.
    pub live_objects: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bytes of bookkeeping: of slots and of call paths.
    pub own_bytes: u64,
    /// Aligned moves that were rewritten as unaligned ones.
    pub repaired: u64,
    /// Call paths that could not be followed to their end.
    pub cut_paths: u64,
    /// Call paths of allocations that were walked.
    pub paths: u64,
    /// Objects that were to have no guard: by sampling or by size.
    pub left_out: u64,
    /// Objects that took the place of one given back before it had waited long enough: no other addresses were left.
    pub reused_early: u64,
    /// Live objects by size, see [`HISTOGRAM`].
    pub sizes: [u64; HISTOGRAM],
    /// What became of compaction.
    pub compaction: Compaction,
    /// errno of what was refused; 0: nothing was.
    pub compaction_errno: u32,
    /// Objects that are in the store at the end.
    pub compacted_objects: u64,
    /// Their own bytes.
    pub compacted_bytes: u64,
    /// Bytes of memory that the store takes.
    pub store_bytes: u64,
    /// How often an object went to the store.
    pub compactions: u64,
    /// How often one came back because it was touched.
    pub restores: u64,
    /// Bytes of the pages of objects of up to 16 pages that are not in the store; counted only with a limit.
    pub resident_bytes: u64,
    /// Those in the store by size.
    pub compacted_sizes: [u64; HISTOGRAM],
}

/// Any of the two.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time is read from a ring, and nothing here allocates"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardRecord<'ring> {
    /// Something went wrong.
    Fault(FaultRecord<'ring>),
    /// A process ends.
    Summary(Summary),
}

pub(crate) const FAULT_KIND: u16 = 7;
pub(crate) const SUMMARY_KIND: u16 = 8;

struct Words<'bytes> {
    bytes: &'bytes mut [u8],
    at: usize,
}

impl Words<'_> {
    fn new(bytes: &mut [u8], kind: u16) -> Words<'_> {
        bytes[4..6].copy_from_slice(&kind.to_le_bytes());
        bytes[6..8].fill(0);
        Words { bytes, at: HEADER }
    }

    fn put(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    fn raw(&mut self, value: &[u8]) {
        self.bytes[self.at..self.at + value.len()].copy_from_slice(value);
        self.at += value.len();
    }
}

impl Fault {
    /// Bytes of the record with so many frames and bytes.
    pub fn wire_bytes(paths: &[&[u64]; 3], near: &[u8]) -> usize {
        let frames: usize = paths.iter().map(|path| path.len().min(MOST_FRAMES)).sum();
        let near = near.len().min(MOST_NEAR);
        (HEADER + 8 * (FAULT_WORDS + frames) + near).next_multiple_of(8)
    }

    /// Writes all but the length into `bytes`, [`Fault::wire_bytes`] long.
    pub fn encode(&self, bytes: &mut [u8], paths: &[&[u64]; 3], near: &[u8]) {
        let near = &near[..near.len().min(MOST_NEAR)];
        let mut words = Words::new(bytes, FAULT_KIND);
        words.put(pair(self.pid, self.tid));
        let object = self.object.unwrap_or(Object {
            address: 0,
            bytes: 0,
            is_freed: false,
            family: Family::Malloc,
        });
        words.raw(&[
            self.kind as u8,
            self.access as u8,
            u8::from(self.object.is_some()),
            u8::from(object.is_freed),
            object.family as u8,
            self.given_to as u8,
            u8::from(self.first_frame_is_exact),
            u8::from(self.access_bytes.is_some()),
        ]);
        words.put(self.access_bytes.unwrap_or(0).into());
        words.put(self.address);
        words.put(object.address);
        words.put(object.bytes);
        words.put(pair(self.threads[0], self.threads[1]));
        for leaked in self.leaked {
            words.put(leaked);
        }
        words.raw(&self.function);
        let length = |index: usize| paths[index].len().min(MOST_FRAMES) as u64;
        let near_bytes = near.len() as u64;
        words.put(length(0) | length(1) << 8 | length(2) << 16 | near_bytes << 24);
        words.put(self.near_address);
        debug_assert_eq!(words.at, HEADER + 8 * FAULT_WORDS);
        for path in paths {
            for &frame in path.iter().take(MOST_FRAMES) {
                words.put(frame);
            }
        }
        words.raw(near);
    }
}

impl Summary {
    /// Bytes of the record.
    pub const WIRE_BYTES: usize = HEADER + 8 * SUMMARY_WORDS;

    /// Writes all but the length.
    pub fn encode(&self, bytes: &mut [u8]) {
        let mut words = Words::new(bytes, SUMMARY_KIND);
        for value in [
            u64::from(self.pid),
            u64::from(self.has_guard_regions),
            self.allocations,
            self.unguarded,
            self.peak_objects,
            self.peak_bytes,
            self.live_objects,
            self.live_bytes,
            self.own_bytes,
            self.repaired,
            self.cut_paths,
            self.paths,
            self.left_out,
            self.compaction as u64,
            u64::from(self.compaction_errno),
            self.compacted_objects,
            self.compacted_bytes,
            self.store_bytes,
            self.compactions,
            self.restores,
            self.resident_bytes,
            self.reused_early,
        ] {
            words.put(value);
        }
        for size in self.sizes.iter().chain(&self.compacted_sizes) {
            words.put(*size);
        }
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn word(bytes: &[u8], index: usize) -> Result<u64, RecordError> {
    let at = HEADER + index * 8;
    let word = bytes.get(at..at + 8).ok_or(RecordError::Length)?;
    Ok(u64::from_le_bytes(
        word.try_into().map_err(|_| RecordError::Length)?,
    ))
}

/// Decodes a whole record of one of the two kinds.
pub(crate) fn decode(bytes: &[u8], kind: u16) -> Result<GuardRecord<'_>, RecordError> {
    match kind {
        FAULT_KIND => decode_fault(bytes).map(GuardRecord::Fault),
        SUMMARY_KIND => decode_summary(bytes).map(GuardRecord::Summary),
        _ => Err(RecordError::Content),
    }
}

fn decode_fault(bytes: &[u8]) -> Result<FaultRecord<'_>, RecordError> {
    let field = |index: usize| word(bytes, index);
    let flags = field(1)?.to_le_bytes();
    let family = |at: usize| Family::from_wire(flags[at]).ok_or(RecordError::Content);
    let object = Object {
        address: field(4)?,
        bytes: field(5)?,
        is_freed: flags[3] != 0,
        family: family(4)?,
    };
    let mut function = [0; NAME_BYTES];
    function[..8].copy_from_slice(&field(9)?.to_le_bytes());
    function[8..].copy_from_slice(&field(10)?.to_le_bytes());
    let lengths = field(11)?.to_le_bytes();
    let mut at = HEADER + 8 * FAULT_WORDS;
    let mut take = |length: usize| {
        let part = bytes.get(at..at + length).ok_or(RecordError::Length);
        at += length;
        part
    };
    let mut path = |index: usize| match usize::from(lengths[index]) {
        frames @ 0..=MOST_FRAMES => Ok(Frames(take(8 * frames)?)),
        _ => Err(RecordError::Content),
    };
    let paths = [path(0)?, path(1)?, path(2)?];
    let near = usize::from(lengths[3]);
    if near > MOST_NEAR {
        return Err(RecordError::Content);
    }
    let near = take(near)?;
    Ok(FaultRecord {
        fault: Fault {
            pid: field(0)? as u32,
            tid: (field(0)? >> 32) as u32,
            kind: FaultKind::from_wire(flags[0]).ok_or(RecordError::Content)?,
            access: Access::from_wire(flags[1]).ok_or(RecordError::Content)?,
            access_bytes: (flags[7] != 0).then_some(field(2)? as u32),
            address: field(3)?,
            object: (flags[2] != 0).then_some(object),
            given_to: family(5)?,
            first_frame_is_exact: flags[6] != 0,
            threads: [field(6)? as u32, (field(6)? >> 32) as u32],
            leaked: [field(7)?, field(8)?],
            function,
            near_address: field(12)?,
        },
        paths,
        near,
    })
}

fn decode_summary(bytes: &[u8]) -> Result<Summary, RecordError> {
    let field = |index: usize| word(bytes, index);
    let (mut sizes, mut compacted_sizes) = ([0; HISTOGRAM], [0; HISTOGRAM]);
    let all = sizes.iter_mut().chain(&mut compacted_sizes);
    for (index, size) in all.enumerate() {
        *size = field(22 + index)?;
    }
    let compaction = u8::try_from(field(13)?)
        .ok()
        .and_then(Compaction::from_wire)
        .ok_or(RecordError::Content)?;
    Ok(Summary {
        pid: field(0)? as u32,
        has_guard_regions: field(1)? != 0,
        allocations: field(2)?,
        unguarded: field(3)?,
        peak_objects: field(4)?,
        peak_bytes: field(5)?,
        live_objects: field(6)?,
        live_bytes: field(7)?,
        own_bytes: field(8)?,
        repaired: field(9)?,
        cut_paths: field(10)?,
        paths: field(11)?,
        left_out: field(12)?,
        reused_early: field(21)?,
        sizes,
        compaction,
        compaction_errno: field(14)? as u32,
        compacted_objects: field(15)?,
        compacted_bytes: field(16)?,
        store_bytes: field(17)?,
        compactions: field(18)?,
        restores: field(19)?,
        resident_bytes: field(20)?,
        compacted_sizes,
    })
}

#[cfg(test)]
mod tests;
