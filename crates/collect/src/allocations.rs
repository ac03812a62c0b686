//! The recorder's side of the allocation stream (see the `abi` crate): hands each preloaded process a ring, and
//! reads all rings. The processes may be hostile, killed at any moment, or gone.

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::time::Duration;

use pagewise_abi as abi;
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::AddressFamily;
use rustix::net::SendAncillaryBuffer;
use rustix::net::SendAncillaryMessage;
use rustix::net::SocketAddrUnix;
use rustix::net::SocketFlags;
use rustix::net::SocketType;
use rustix::process::Pid;

use crate::CollectError;
use crate::allocation_ring::Ring;

/// Bytes of a process's ring.
const RING_BYTES: usize = 8 << 20;
/// While this many processes have one, further rings are small: a program may have thousands of processes.
const LARGE_RINGS: usize = 16;
/// Bytes of a small ring.
const SMALL_RING_BYTES: usize = 256 << 10;
/// More processes at once get none: 1 GiB of rings is enough.
const MOST_RINGS: usize = 4096;
const BACKLOG: i32 = 1024;
/// A library that has connected says hello at once; who does not is dropped.
const HELLO_PATIENCE: Duration = Duration::from_millis(200);
/// Without any descriptor, before who asks is looked at again.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(10);

/// Serves all preloaded processes of one recording.
pub struct AllocationServer {
    listener: OwnedFd,
    socket: String,
    rings: Vec<Ring>,
    /// Made in advance: a program waits for its ring.
    spare: Option<Ring>,
    are_filled: bool,
    /// Given up for a moment to accept a connection that is to be refused, where there may be no more files.
    reserve: Option<OwnedFd>,
    served: u64,
    malformed: u64,
    refused: u64,
    unserved: u64,
    lost_by_ended: u64,
    calls_lost_by_ended: u64,
}

impl AllocationServer {
    /// Starts to listen, under a name of its own. Rings are filled with memory in advance, so that it is ours and not the
    /// program's.
    ///
    /// # Errors
    /// If the kernel refuses a socket.
    pub fn start() -> Result<Self, CollectError> {
        Self::with_rings(true)
    }

    /// As [`AllocationServer::start`], for programs that tell of little and are to begin soon: their rings take memory as it
    /// is written to.
    ///
    /// # Errors
    /// If the kernel refuses a socket.
    pub fn start_for_few() -> Result<Self, CollectError> {
        Self::with_rings(false)
    }

    fn with_rings(are_filled: bool) -> Result<Self, CollectError> {
        let socket = format!("pagewise-{}-{:x}", std::process::id(), unguessable()?);
        let system = |source: Errno| CollectError::System {
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
            spare: Ring::new(RING_BYTES, are_filled),
            are_filled,
            reserve: reserve(),
            served: 0,
            malformed: 0,
            refused: 0,
            unserved: 0,
            lost_by_ended: 0,
            calls_lost_by_ended: 0,
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

    /// Hands every finished record, with the process it came from, to `sink`, and then answers who asks for a ring: so
    /// before a new process's first record is read, its caller has had a round to hear of that process otherwise.
    pub fn drain(&mut self, mut sink: impl FnMut(u32, abi::Record<'_>)) {
        // Of many, some are of processes whose end nobody told us: what is left there is read below, for the last time.
        let ended = self.ended();
        for ring in &mut self.rings {
            self.malformed += ring.drain(&mut sink);
        }
        for pid in ended {
            self.forget(pid);
        }
        self.answer_all();
    }

    fn answer_all(&mut self) {
        loop {
            match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(connection) => self.serve(&connection),
                Err(Errno::MFILE | Errno::NFILE) if self.refuse_one() => {}
                Err(_) => break,
            }
        }
        if self.spare.is_none() {
            self.spare = self.new_ring();
        }
    }

    fn serve(&mut self, connection: &OwnedFd) {
        let Some(ring) = self.spare.take().or_else(|| self.new_ring()) else {
            self.unserved += 1;
            return;
        };
        match answer(connection, ring) {
            Some(ring) => {
                self.served += 1;
                self.rings.push(ring);
            }
            None => self.refused += 1,
        }
    }

    /// Refuses a process for which there is no descriptor: it would wait, and we be woken for it without end. False: there
    /// is nobody left, or not even the descriptor that is kept for this.
    fn refuse_one(&mut self) -> bool {
        let had_reserve = self.reserve.take().is_some();
        let accepted = rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC);
        let is_refused = accepted.is_ok();
        self.unserved += u64::from(is_refused);
        drop(accepted);
        self.reserve = reserve();
        if !is_refused && !had_reserve {
            // Others have taken it; who looks after several things must not be kept busy by this one.
            std::thread::sleep(NO_DESCRIPTOR_PAUSE);
        }
        is_refused
    }

    /// Processes that have ended, asked for when there are more rings than are handed out freely.
    fn ended(&self) -> Vec<u32> {
        if self.rings.len() < LARGE_RINGS {
            return Vec::new();
        }
        let is_gone = |pid: u32| {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
        };
        let pids = self.rings.iter().map(|ring| ring.pid);
        pids.filter(|&pid| is_gone(pid)).collect()
    }

    /// `None`: there are too many, or there is no memory.
    fn new_ring(&self) -> Option<Ring> {
        match self.rings.len() {
            0..LARGE_RINGS => Ring::new(RING_BYTES, self.are_filled),
            LARGE_RINGS..MOST_RINGS => Ring::new(SMALL_RING_BYTES, self.are_filled),
            _ => None,
        }
    }

    /// Call paths of this process went on beyond the stacks it sent: longer ones from now on.
    pub fn lengthen_stacks(&self, pid: u32) {
        for ring in self.rings.iter().filter(|ring| ring.pid == pid) {
            ring.lengthen_stacks();
        }
    }

    /// A thread of this process waits to hear whether it may go on after what it told.
    pub fn judge(&self, pid: u32, thread: u32, goes_on: bool) {
        for ring in self.rings.iter().filter(|ring| ring.pid == pid) {
            ring.judge(thread, goes_on);
        }
    }

    /// A process has ended and its records were drained: gives its ring's memory back. `pid` may have had several
    /// rings, one for each program it ran.
    pub fn forget(&mut self, pid: u32) {
        let (lost, calls) = (&mut self.lost_by_ended, &mut self.calls_lost_by_ended);
        self.rings.retain(|ring| {
            let ended = ring.pid == pid;
            if ended {
                *lost += ring.lost();
                *calls += ring.lost_calls();
            }
            !ended
        });
    }

    /// Rings handed out so far, one for each program that a process ran.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Records that found their ring full.
    pub fn lost(&self) -> u64 {
        self.lost_by_ended + self.rings.iter().map(Ring::lost).sum::<u64>()
    }

    /// Calls on files that were not told, mostly as they found their ring full.
    pub fn lost_calls(&self) -> u64 {
        self.calls_lost_by_ended + self.rings.iter().map(Ring::lost_calls).sum::<u64>()
    }

    /// Processes that asked for a ring and got none: there were too many, or no memory or descriptors left for it.
    pub fn unserved(&self) -> u64 {
        self.unserved
    }

    /// Records that made no sense, and connections by strangers.
    pub fn malformed(&self) -> u64 {
        self.malformed + self.refused
    }
}

/// A descriptor of anything.
fn reserve() -> Option<OwnedFd> {
    let flags = EventfdFlags::CLOEXEC;
    rustix::event::eventfd(0, flags).ok()
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
    let memory = ring.take_file()?;
    let file = [memory.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&file));
    let flags = rustix::net::SendFlags::NOSIGNAL;
    rustix::net::sendmsg(connection, &[IoSlice::new(&[1])], &mut control, flags).ok()?;
    Some(ring)
}
