//! Wire forms shared by the library preloaded into a program and the recorder outside, and the arithmetic ([`worth`],
//! [`bursts`], [`drops`], [`pattern`], [`regret`]) that puts plans into force in either.
//!
//! The library asks for a ring over a socket ([`Hello`]); the recorder answers with a memory file that both map.
//! From then on the library writes records into it without system calls, and the recorder reads them even after
//! the program was killed. Either side may be hostile or dead: every decoder here checks all it reads.
//!
//! ```text
//!   offset 0      magic, version, capacity                 written by the recorder, never again
//!          64     head: bytes reserved, ever               the program's threads
//!          128    tail: bytes read, ever                   the recorder
//!          192    lost: records that found no room         the program's threads
//!          200    lost: calls on files                    the program's threads
//!          256    bytes of stack wanted with an allocation the recorder
//!          4096   the ring: `capacity` bytes, a power of two
//! ```
//!
//! A record starts at a multiple of 8 with its length in bytes (u32, a multiple of 8), its kind (u16) and 16 bits of
//! zero. The length is written last, with release order: a zero length is a record not finished yet. The reader
//! zeroes what it has read. A record never wraps: a [`Kind::Padding`] record fills the end of the ring.

#![no_std]
#![forbid(unsafe_code)]

pub mod bursts;
pub mod drops;
pub mod file_calls;
pub mod guard;
pub mod marks;
pub mod pattern;
pub mod plan;
mod record;
pub mod regret;
pub mod status;
pub mod sweeps;
pub mod worth;

pub use record::Allocation;
pub use record::AllocationKind;
pub use record::FIRST_STACK_BYTES;
pub use record::Kind;
pub use record::Maps;
pub use record::Move;
pub use record::Name;
pub use record::Record;
pub use record::RecordError;
pub use record::Release;
pub use record::STACK_BYTES;
pub use record::decode;

/// First word of a ring: tells it apart from any other file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"PGWSRING");
/// Version of these forms. A library and a recorder of different versions do not talk to each other.
pub const VERSION: u32 = 5;
/// Bytes in front of the ring.
pub const HEADER_BYTES: usize = 4096;
/// Offsets in the header, bytes.
pub const OFFSET_MAGIC: usize = 0;
/// See [`OFFSET_MAGIC`]: u32.
pub const OFFSET_VERSION: usize = 8;
/// See [`OFFSET_MAGIC`]: u64, bytes of the ring.
pub const OFFSET_CAPACITY: usize = 16;
/// See [`OFFSET_MAGIC`]: u64, on a cache line of its own.
pub const OFFSET_HEAD: usize = 64;
/// See [`OFFSET_MAGIC`]: u64, on a cache line of its own.
pub const OFFSET_TAIL: usize = 128;
/// See [`OFFSET_MAGIC`]: u64, on a cache line of its own.
pub const OFFSET_LOST: usize = 192;
/// See [`OFFSET_MAGIC`]: u64, beside [`OFFSET_LOST`]: calls on files that were not told. They are not counted there.
pub const OFFSET_LOST_CALLS: usize = 200;
/// See [`OFFSET_MAGIC`]: u64, bytes; the recorder raises it where call paths turn out longer.
pub const OFFSET_STACK: usize = 256;
/// See [`OFFSET_MAGIC`]: u64, what the reader said last of an error that a thread waits to hear of: its thread in the upper half, a
/// number that goes up, and in the lowest bit whether to go on.
pub const OFFSET_VERDICT: usize = 320;

/// Begins [`Precedence`].
const PRECEDENCE_MAGIC: u64 = MAGIC ^ 1;

/// Names the recorder's socket (an abstract Unix socket, without the leading zero byte) to the library.
pub const SOCKET_VARIABLE: &str = "PAGEWISE_SOCKET";
/// Allocations of at least this many bytes are recorded; set by the recorder.
pub const THRESHOLD_VARIABLE: &str = "PAGEWISE_THRESHOLD";
/// The default of [`THRESHOLD_VARIABLE`], bytes.
pub const DEFAULT_THRESHOLD: usize = 64 << 10;
/// With a threshold below this many bytes the recording is a full one: the program waits for room in the ring rather
/// than lose a record, and every release is told.
pub const FULL_BELOW: usize = 4 << 10;
/// Smaller allocations are sampled, one for each so many bytes allocated; 0: none; followed by [`OR_SPARSER`]: fewer
/// while the program allocates so fast that recording them would show. Set by the recorder.
pub const SAMPLE_VARIABLE: &str = "PAGEWISE_SAMPLE_BYTES";
/// See [`SAMPLE_VARIABLE`].
pub const OR_SPARSER: char = '+';
/// The default of [`SAMPLE_VARIABLE`], bytes.
pub const DEFAULT_SAMPLE_BYTES: u32 = 32 << 10;
/// The most that [`SAMPLE_VARIABLE`] may say, bytes.
pub const LARGEST_SAMPLE_BYTES: u32 = 1 << 30;
/// Where the random numbers of sampling start; the same program makes the same choices unless this differs.
pub const SEED_VARIABLE: &str = "PAGEWISE_SAMPLE_SEED";

/// What the library says first, in one datagram. The answer is one byte with the ring's descriptor attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Process that asks, in its own namespace.
    pub pid: u32,
}

impl Hello {
    /// Length of the message, bytes.
    pub const BYTES: usize = 16;

    /// The message.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..].copy_from_slice(&self.pid.to_le_bytes());
        bytes
    }

    /// `None` if it is not such a message, or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        (bytes[..8] == MAGIC.to_le_bytes() && word(8) == VERSION).then(|| Self { pid: word(12) })
    }
}

/// The name of the threads that read ahead of a program and drop behind it, as the kernel knows it.
pub const READING_AHEAD: &str = "pagewise-ahead";

/// What such a thread says first, in one datagram: that it wants to be scheduled before the program's own threads. Nothing is answered.
/// Who sent it is known by the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precedence;

impl Precedence {
    /// The message.
    pub fn encode(self) -> [u8; Hello::BYTES] {
        let mut bytes = Hello { pid: 0 }.encode();
        bytes[..8].copy_from_slice(&PRECEDENCE_MAGIC.to_le_bytes());
        bytes
    }

    /// `None` if it is not such a message, or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        (bytes == Self.encode()).then_some(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_precedence_is_told_from_who_says_hello() {
        let wanted = Precedence.encode();
        assert_eq!(Precedence::decode(&wanted), Some(Precedence));
        assert_eq!(Hello::decode(&wanted), None);
        for pid in [0, 1] {
            assert_eq!(Precedence::decode(&Hello { pid }.encode()), None);
        }
        assert_eq!(Precedence::decode(&wanted[..15]), None);
    }

    #[test]
    fn hello_survives_the_wire_and_strangers_do_not() {
        let hello = Hello { pid: 4242 };
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        assert_eq!(Hello::decode(&[]), None);
        assert_eq!(Hello::decode(&[0; Hello::BYTES]), None);
        let mut newer = hello.encode();
        newer[8] += 1;
        assert_eq!(Hello::decode(&newer), None);
    }
}
