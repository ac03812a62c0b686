//! userfaultfd(2), as far as it is needed here (`include/uapi/linux/userfaultfd.h`). The compactor's descriptor is in the table
//! of its thread alone, where the program cannot close it; that of `recycle` is in the program's.

use std::ffi::c_int;

use libc::c_long;

use crate::page;

const API: u64 = 0xaa;
const FEATURE_WRITE_PROTECT: u64 = 1 << 0;
const FEATURE_SIGBUS: u64 = 1 << 7;
const FEATURE_THREAD_ID: u64 = 1 << 8;
/// Linux 6.8.
const FEATURE_MOVE: u64 = 1 << 16;
/// `UFFD_USER_MODE_ONLY`: needs no privilege, as no fault of the kernel's own is waited for.
const USER_MODE_ONLY: c_int = 1;
const MISSING: u64 = 1;
const WRITE_PROTECT: u64 = 2;
/// `UFFD_EVENT_PAGEFAULT`.
const PAGE_FAULT: u8 = 0x12;
/// How often a move is tried while mappings change.
const MOST_TRIES: u32 = 4;
/// Faults taken at once.
pub(crate) const MOST_FAULTS: usize = 16;

/// A flag of copies and of moves.
const DONT_WAKE: u64 = 1;

const IOCTL_API: c_long = 0xc018_aa3f;
const IOCTL_REGISTER: c_long = 0xc020_aa00;
const IOCTL_WAKE: c_long = 0x8010_aa02;
const IOCTL_COPY: c_long = 0xc028_aa03;
const IOCTL_ZEROS: c_long = 0xc020_aa04;
const IOCTL_MOVE: c_long = 0xc028_aa05;
const IOCTL_WRITE_PROTECT: c_long = 0xc018_aa06;
/// `USERFAULTFD_IOC_NEW` of `/dev/userfaultfd`.
const IOCTL_NEW: c_long = 0xaa00;

/// A thread waits at a page: it is missing, or was protected when it was written to.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Fault {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    /// Where the page begins.
    pub(crate) page: u64,
    pub(crate) thread: u32,
    reserved_too: u32,
}

impl Fault {
    pub(crate) fn is_missing(&self) -> bool {
        self.event == PAGE_FAULT && self.flags & WRITE_PROTECT == 0
    }
}

/// What a page was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Now,
    /// Something was there.
    Before,
    Failed,
    /// The descriptor is no userfaultfd any more.
    Lost,
    /// This process may not use it any more.
    Refused,
}

impl Given {
    /// Whether the page is there now.
    pub(crate) fn is_there(self) -> bool {
        matches!(self, Self::Now | Self::Before)
    }

    /// Of an error.
    fn because(why: c_int) -> Self {
        match why {
            libc::EEXIST => Self::Before,
            libc::EBADF | libc::ENOTTY => Self::Lost,
            libc::EPERM | libc::EACCES | libc::ENOSYS => Self::Refused,
            _ => Self::Failed,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Userfault(pub(crate) c_long);

fn errno() -> c_int {
    // SAFETY: this thread's own errno, which callers keep for the program.
    unsafe { *libc::__errno_location() }
}

impl Userfault {
    /// One whose faults are also the kernel's own, which takes a privilege. The error is errno.
    pub(crate) fn new() -> Result<Self, c_int> {
        let flags = c_long::from(libc::O_CLOEXEC | libc::O_NONBLOCK);
        // SAFETY: no pointers.
        let mut file = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if file < 0 {
            let why = errno();
            file = Self::from_device(flags).ok_or(why)?;
        }
        Self(file).asks_for(FEATURE_WRITE_PROTECT | FEATURE_THREAD_ID)
    }

    /// One that moves pages, and for which a touch of a missing page is SIGBUS. The error is errno.
    pub(crate) fn that_moves() -> Result<Self, c_int> {
        let flags = c_long::from(libc::O_CLOEXEC | USER_MODE_ONLY);
        // SAFETY: no pointers.
        match unsafe { libc::syscall(libc::SYS_userfaultfd, flags) } {
            ..0 => Err(errno()),
            file => Self(file).asks_for(FEATURE_SIGBUS | FEATURE_MOVE),
        }
    }

    /// It is closed where the kernel has not got these.
    fn asks_for(self, features: u64) -> Result<Self, c_int> {
        if self.ioctl(IOCTL_API, &mut [API, features, 0]) {
            return Ok(self);
        }
        let why = errno();
        self.close();
        Err(why)
    }

    /// Whether the number is a userfaultfd's: the program may have closed it, and opened something else.
    pub(crate) fn is_one(&self) -> bool {
        // Of no bytes: EINVAL, where others know no such request. Where all are refused it is taken to be one.
        let told = match self.ioctl(IOCTL_WAKE, &mut [0, 0]) {
            true => 0,
            false => errno(),
        };
        told == libc::EINVAL || Given::because(told) == Given::Refused
    }

    pub(crate) fn close(self) {
        // SAFETY: callers do not use it any more.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }

    /// Who may open the device needs no privilege.
    fn from_device(flags: c_long) -> Option<c_long> {
        // SAFETY: the path is a C string; the descriptor is closed once.
        let file = unsafe {
            let device = libc::syscall(
                libc::SYS_openat,
                c_long::from(libc::AT_FDCWD),
                c"/dev/userfaultfd".as_ptr(),
                c_long::from(libc::O_RDWR | libc::O_CLOEXEC),
            );
            if device < 0 {
                return None;
            }
            let file = libc::syscall(libc::SYS_ioctl, device, IOCTL_NEW, flags);
            libc::syscall(libc::SYS_close, device);
            file
        };
        (file >= 0).then_some(file)
    }

    fn ioctl<const WORDS: usize>(&self, request: c_long, argument: &mut [u64; WORDS]) -> bool {
        // SAFETY: the kernel's structure for this request is that many words; what is done to pages is up to our callers.
        unsafe { libc::syscall(libc::SYS_ioctl, self.0, request, argument.as_mut_ptr()) == 0 }
    }

    /// From now on, missing pages there are ours; and writes, where `protects`, to pages that are protected.
    pub(crate) fn register(&self, start: usize, bytes: usize, protects: bool) -> bool {
        let modes = if protects {
            MISSING | WRITE_PROTECT
        } else {
            MISSING
        };
        self.ioctl(IOCTL_REGISTER, &mut [start as u64, bytes as u64, modes, 0])
    }

    /// Moves a page's memory to a place that has none, and no guard; where it was, it is missing then.
    pub(crate) fn carry(&self, from: usize, to: usize) -> Given {
        let mut tries = 0;
        loop {
            let bytes = page::bytes() as u64;
            if self.ioctl(
                IOCTL_MOVE,
                &mut [to as u64, from as u64, bytes, DONT_WAKE, 0],
            ) {
                return Given::Now;
            }
            tries += 1;
            match errno() {
                // Mappings changed meanwhile.
                libc::EAGAIN if tries < MOST_TRIES => {}
                // Among others: the page is a forked process's, too, or a device is at it.
                why => return Given::because(why),
            }
        }
    }

    /// Writers wait, or no longer. Missing pages and guards stay so.
    pub(crate) fn protect(&self, start: usize, bytes: usize, is_protected: bool) -> bool {
        let mut range = [start as u64, bytes as u64, is_protected.into()];
        self.ioctl(IOCTL_WRITE_PROTECT, &mut range)
    }

    /// Who waits there looks again.
    pub(crate) fn wake(&self, start: usize, bytes: usize) -> bool {
        self.ioctl(IOCTL_WAKE, &mut [start as u64, bytes as u64])
    }

    /// Gives a missing page contents, all at once; who waits for it does so still. A guard there would be overwritten.
    pub(crate) fn give(&self, page: usize, contents: *const u8) -> Given {
        let mut copy = [
            page as u64,
            contents as u64,
            page::bytes() as u64,
            DONT_WAKE,
            0,
        ];
        loop {
            if self.ioctl(IOCTL_COPY, &mut copy) {
                return Given::Now;
            }
            match errno() {
                // Mappings changed meanwhile.
                libc::EAGAIN => copy[4] = 0,
                why => return Given::because(why),
            }
        }
    }

    /// Gives a missing page zeros, without memory until it is written to.
    pub(crate) fn give_zeros(&self, page: usize) -> Given {
        match self.ioctl(IOCTL_ZEROS, &mut [page as u64, page::bytes() as u64, 0, 0]) {
            true => Given::Now,
            false => Given::because(errno()),
        }
    }

    /// Waits for faults, for at most so long. Returns how many there are.
    pub(crate) fn wait(&self, faults: &mut [Fault; MOST_FAULTS], most_ms: Option<c_int>) -> usize {
        match self.poll(most_ms) {
            true => self.read(faults),
            false => 0,
        }
    }

    /// Whether there is a fault, at once or within so long.
    fn poll(&self, most_ms: Option<c_int>) -> bool {
        let mut poll = libc::pollfd {
            fd: self.0 as c_int,
            events: libc::POLLIN,
            revents: 0,
        };
        let time = most_ms.map(|most_ms| libc::timespec {
            tv_sec: 0,
            tv_nsec: c_long::from(most_ms) * 1_000_000,
        });
        // SAFETY: one entry, a valid time or none, no mask.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_ppoll,
                &raw mut poll,
                1 as c_long,
                time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
                0 as c_long,
            )
        };
        ready > 0
    }

    /// Faults that are there already.
    pub(crate) fn read(&self, faults: &mut [Fault; MOST_FAULTS]) -> usize {
        // SAFETY: the buffer is that long; any bytes are a fault.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_read,
                self.0,
                faults.as_mut_ptr(),
                size_of_val(faults),
            )
        };
        usize::try_from(bytes).unwrap_or(0) / size_of::<Fault>()
    }
}

const _: () = assert!(size_of::<Fault>() == 32);
