//! The recorder's side of the allocation stream (see the `abi` crate): hands each preloaded process a ring, and
//! reads all rings. The processes may be hostile, killed at any moment, or gone.

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_abi as abi;
use rustix::fs::MemfdFlags;
use rustix::fs::SealFlags;
use rustix::mm::MapFlags;
use rustix::mm::ProtFlags;
use rustix::net::AddressFamily;
use rustix::net::SendAncillaryBuffer;
use rustix::net::SendAncillaryMessage;
use rustix::net::SocketAddrUnix;
use rustix::net::SocketFlags;
use rustix::net::SocketType;

use crate::CollectError;

/// Bytes of a process's ring. Filled in advance, so that the memory is ours and not the program's.
const RING_BYTES: usize = 4 << 20;
const BACKLOG: i32 = 1024;
/// A library that has connected says hello at once; who does not is dropped.
const HELLO_PATIENCE: std::time::Duration = std::time::Duration::from_millis(200);

/// Serves all preloaded processes of one recording.
pub struct AllocationServer {
    listener: OwnedFd,
    socket: String,
    rings: Vec<Ring>,
    /// Filled with memory in advance: a program waits for its ring.
    spare: Option<Ring>,
    malformed: u64,
    refused: u64,
    lost_by_ended: u64,
}

impl AllocationServer {
    /// Starts to listen, under a name of its own.
    ///
    /// # Errors
    /// If the kernel refuses a socket.
    pub fn start() -> Result<Self, CollectError> {
        let socket = format!("pagewise-{}-{:x}", std::process::id(), unguessable()?);
        let system = |source: rustix::io::Errno| CollectError::System {
            action: "listening for preloaded programs".to_owned(),
            source: source.into(),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .map_err(system)?;
        let address = SocketAddrUnix::new_abstract_name(socket.as_bytes()).map_err(system)?;
        rustix::net::bind(&listener, &address).map_err(system)?;
        rustix::net::listen(&listener, BACKLOG).map_err(system)?;
        Ok(Self {
            listener,
            socket,
            rings: Vec::new(),
            spare: Ring::new(),
            malformed: 0,
            refused: 0,
            lost_by_ended: 0,
        })
    }

    /// What the program's environment must say in [`abi::SOCKET_VARIABLE`].
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// Becomes readable when a process asks for a ring: answer it soon ([`AllocationServer::drain`]), it waits.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers who asks, and hands every finished record, with the process it came from, to `sink`.
    pub fn drain(&mut self, mut sink: impl FnMut(u32, abi::Record<'_>)) {
        while let Ok(connection) = rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
            let ring = self.spare.take().or_else(Ring::new);
            match ring.and_then(|ring| answer(&connection, ring)) {
                Some(ring) => self.rings.push(ring),
                None => self.refused += 1,
            }
        }
        if self.spare.is_none() {
            self.spare = Ring::new();
        }
        for ring in &mut self.rings {
            self.malformed += ring.drain(&mut sink);
        }
    }

    /// A process has ended and its records were drained: gives its ring's memory back. `pid` may have had several
    /// rings, one for each program it ran.
    pub fn forget(&mut self, pid: u32) {
        let lost = &mut self.lost_by_ended;
        self.rings.retain(|ring| {
            let ended = ring.pid == pid;
            if ended {
                *lost += ring.lost();
            }
            !ended
        });
    }

    /// Records that found their ring full.
    pub fn lost(&self) -> u64 {
        self.lost_by_ended + self.rings.iter().map(Ring::lost).sum::<u64>()
    }

    /// Records that made no sense, and connections by strangers.
    pub fn malformed(&self) -> u64 {
        self.malformed + self.refused
    }
}

/// So that another user's program cannot guess the socket and fill our memory.
fn unguessable() -> Result<u64, CollectError> {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(
        |source| CollectError::System {
            action: "getting random bytes".to_owned(),
            source: source.into(),
        },
    )?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Gives a process that says hello its ring.
fn answer(connection: &OwnedFd, mut ring: Ring) -> Option<Ring> {
    let timeout = Some(HELLO_PATIENCE);
    rustix::net::sockopt::set_socket_timeout(
        connection,
        rustix::net::sockopt::Timeout::Recv,
        timeout,
    )
    .ok()?;
    let mut hello = [0u8; abi::Hello::BYTES];
    let (_, bytes) =
        rustix::net::recv(connection, &mut hello, rustix::net::RecvFlags::empty()).ok()?;
    abi::Hello::decode(hello.get(..bytes)?)?;
    // The kernel's word for who it is, in our own pid namespace.
    let peer = rustix::net::sockopt::socket_peercred(connection).ok()?;
    ring.pid = peer.pid.as_raw_nonzero().get() as u32;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let file = [ring.file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&file));
    let flags = rustix::net::SendFlags::NOSIGNAL;
    rustix::net::sendmsg(connection, &[IoSlice::new(&[1])], &mut control, flags).ok()?;
    Some(ring)
}

/// One process's ring, mapped here too.
struct Ring {
    pid: u32,
    file: OwnedFd,
    start: NonNull<AtomicU64>,
    scratch: Vec<u8>,
    broken: bool,
}

const WORDS: usize = (abi::HEADER_BYTES + RING_BYTES) / 8;

impl Ring {
    fn new() -> Option<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("pagewise-ring", flags).ok()?;
        rustix::fs::ftruncate(&file, (WORDS * 8) as u64).ok()?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .ok()?;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                WORDS * 8,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                &file,
                0,
            )
        }
        .ok()?;
        let ring = Self {
            pid: 0, // nobody's yet
            file,
            start: NonNull::new(start.cast())?,
            scratch: Vec::new(),
            broken: false,
        };
        ring.word(abi::OFFSET_MAGIC)
            .store(abi::MAGIC, Ordering::Relaxed);
        ring.word(abi::OFFSET_VERSION)
            .store(abi::VERSION.into(), Ordering::Relaxed);
        ring.word(abi::OFFSET_CAPACITY)
            .store(RING_BYTES as u64, Ordering::Release);
        Some(ring)
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is WORDS long and lives as long as self; the file is sealed, so no process can
        // shorten it under us; both sides access it as atomics or, the writer, bytes it has reserved.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), WORDS) }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.words()[offset / 8]
    }

    fn lost(&self) -> u64 {
        self.word(abi::OFFSET_LOST).load(Ordering::Relaxed)
    }

    /// Reads all finished records. Returns 1 if the ring's contents made no sense: it is then left alone for good.
    fn drain(&mut self, sink: &mut impl FnMut(u32, abi::Record<'_>)) -> u64 {
        if self.broken {
            return 0;
        }
        let mut tail = self.word(abi::OFFSET_TAIL).load(Ordering::Relaxed);
        let head = self.word(abi::OFFSET_HEAD).load(Ordering::Acquire);
        while tail != head {
            let at = tail as usize & (RING_BYTES - 1);
            let first = (abi::HEADER_BYTES + at) / 8;
            // Pairs with the writer's store of the length; 0: not finished yet.
            let bytes = self.words()[first].load(Ordering::Acquire) as u32 as usize;
            if bytes == 0 {
                break;
            }
            let sane = bytes.is_multiple_of(8)
                && at + bytes <= RING_BYTES
                && bytes as u64 <= head.wrapping_sub(tail);
            if !sane || !self.take(first, bytes, sink) {
                self.broken = true;
                return 1;
            }
            tail = tail.wrapping_add(bytes as u64);
            // Only now may the bytes, all zero again, be reserved anew.
            self.word(abi::OFFSET_TAIL).store(tail, Ordering::Release);
        }
        0
    }

    /// Copies a record out, zeroes its place, and decodes the copy: its writer cannot change it any more.
    fn take(
        &mut self,
        first: usize,
        bytes: usize,
        sink: &mut impl FnMut(u32, abi::Record<'_>),
    ) -> bool {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        for word in &self.words()[first..first + bytes / 8] {
            scratch.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            word.store(0, Ordering::Relaxed);
        }
        let decoded = abi::decode(&scratch);
        let sensible = decoded.is_ok();
        match decoded {
            Ok(abi::Record::Padding) | Err(_) => {}
            Ok(record) => sink(self.pid, record),
        }
        self.scratch = scratch;
        sensible
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `new`; no reference outlives self.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), WORDS * 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring_with(head: u64, words: &[(usize, u64)]) -> Ring {
        let ring = Ring::new().expect("a ring");
        for &(index, value) in words {
            ring.words()[abi::HEADER_BYTES / 8 + index].store(value, Ordering::Relaxed);
        }
        ring.word(abi::OFFSET_HEAD).store(head, Ordering::Release);
        ring
    }

    fn drain(ring: &mut Ring) -> (u64, usize) {
        let mut records = 0;
        let broken = ring.drain(&mut |_, _| records += 1);
        (broken, records)
    }

    #[test]
    fn an_unfinished_record_waits() {
        let mut ring = ring_with(32, &[]);
        assert_eq!(drain(&mut ring), (0, 0));
        let release = u64::from(abi::Kind::Release as u16) << 32;
        ring.words()[abi::HEADER_BYTES / 8].store(release | 32, Ordering::Release);
        assert_eq!(drain(&mut ring), (0, 1));
        assert_eq!(
            ring.words()[abi::HEADER_BYTES / 8].load(Ordering::Relaxed),
            0,
            "zeroed for the next writer"
        );
    }

    #[test]
    fn a_lying_process_breaks_only_its_own_ring() {
        for lie in [7, 8 << 20, 4096, u64::from(u32::MAX) & !7] {
            let mut ring = ring_with(64, &[(0, lie)]);
            assert_eq!(drain(&mut ring), (1, 0), "length {lie}");
            assert_eq!(drain(&mut ring), (0, 0), "left alone afterwards");
        }
        let unknown_kind = 99u64 << 32 | 8;
        assert_eq!(drain(&mut ring_with(64, &[(0, unknown_kind)])), (1, 0));
        let mut wild_head = ring_with(
            u64::MAX,
            &[(0, u64::from(abi::Kind::Padding as u16) << 32 | 8)],
        );
        assert_eq!(drain(&mut wild_head).1, 0);
    }
}
