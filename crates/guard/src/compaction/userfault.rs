//! userfaultfd(2), as far as it is needed here (`include/uapi/linux/userfaultfd.h`). Its descriptor is in the table of the
//! compactor's thread alone, where the program cannot close it.

use std::ffi::c_int;

use libc::c_long;

use crate::page;

const API: u64 = 0xaa;
const FEATURE_WRITE_PROTECT: u64 = 1 << 0;
const FEATURE_THREAD_ID: u64 = 1 << 8;
const MISSING: u64 = 1;
const WRITE_PROTECT: u64 = 2;
/// `UFFD_EVENT_PAGEFAULT`.
const PAGE_FAULT: u8 = 0x12;
/// Faults taken at once.
pub(super) const MOST_FAULTS: usize = 16;

const IOCTL_API: c_long = 0xc018_aa3f;
const IOCTL_REGISTER: c_long = 0xc020_aa00;
const IOCTL_WAKE: c_long = 0x8010_aa02;
const IOCTL_COPY: c_long = 0xc028_aa03;
const IOCTL_WRITE_PROTECT: c_long = 0xc018_aa06;
/// `USERFAULTFD_IOC_NEW` of `/dev/userfaultfd`.
const IOCTL_NEW: c_long = 0xaa00;

/// A thread waits at a page: it is missing, or was protected when it was written to.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Fault {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    /// Where the page begins.
    pub(super) page: u64,
    pub(super) thread: u32,
    reserved_too: u32,
}

impl Fault {
    pub(super) fn is_missing(&self) -> bool {
        self.event == PAGE_FAULT && self.flags & WRITE_PROTECT == 0
    }
}

/// What a page was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Now,
    /// Something was there.
    Before,
    Failed,
}

pub(super) struct Userfault(c_long);

fn errno() -> c_int {
    // SAFETY: the compactor's own errno.
    unsafe { *libc::__errno_location() }
}

impl Userfault {
    /// One whose faults are also the kernel's own, which takes a privilege. The error is errno.
    pub(super) fn new() -> Result<Self, c_int> {
        let flags = c_long::from(libc::O_CLOEXEC);
        // SAFETY: no pointers.
        let mut file = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if file < 0 {
            let why = errno();
            file = Self::from_device(flags).ok_or(why)?;
        }
        let this = Self(file);
        let mut api = [API, FEATURE_WRITE_PROTECT | FEATURE_THREAD_ID, 0];
        match this.ioctl(IOCTL_API, &mut api) {
            true => Ok(this),
            false => Err(errno()),
        }
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

    /// From now on, missing pages there are ours.
    pub(super) fn register(&self, start: usize, bytes: usize) -> bool {
        let mut range = [start as u64, bytes as u64, MISSING | WRITE_PROTECT, 0];
        self.ioctl(IOCTL_REGISTER, &mut range)
    }

    /// Writers wait, or no longer. Missing pages and guards stay so.
    pub(super) fn protect(&self, start: usize, bytes: usize, is_protected: bool) -> bool {
        let mut range = [start as u64, bytes as u64, is_protected.into()];
        self.ioctl(IOCTL_WRITE_PROTECT, &mut range)
    }

    /// Who waits there looks again.
    pub(super) fn wake(&self, start: usize, bytes: usize) -> bool {
        self.ioctl(IOCTL_WAKE, &mut [start as u64, bytes as u64])
    }

    /// Gives a missing page contents, all at once, and wakes who waits for it. A guard there would be overwritten.
    pub(super) fn give(&self, page: usize, contents: *const u8) -> Given {
        let mut copy = [page as u64, contents as u64, page::bytes() as u64, 0, 0];
        loop {
            if self.ioctl(IOCTL_COPY, &mut copy) {
                return Given::Now;
            }
            match errno() {
                libc::EEXIST => {
                    self.wake(page, page::bytes());
                    return Given::Before;
                }
                // Mappings changed meanwhile.
                libc::EAGAIN => copy[4] = 0,
                _ => return Given::Failed,
            }
        }
    }

    /// Waits for faults, for at most so long. Returns how many there are.
    pub(super) fn wait(&self, faults: &mut [Fault; MOST_FAULTS], most_ms: Option<c_int>) -> usize {
        let Some(most_ms) = most_ms else {
            return self.read(faults);
        };
        // Whose reads would wait cannot be polled: that returns at once (`userfaultfd_poll`, fs/userfaultfd.c).
        self.set_waits(false);
        let count = match self.poll(most_ms) {
            true => self.read(faults),
            false => 0,
        };
        self.set_waits(true);
        count
    }

    /// Whether a read waits where there is no fault.
    fn set_waits(&self, waits: bool) {
        let flags = if waits { 0 } else { libc::O_NONBLOCK };
        // SAFETY: a descriptor of ours, no pointers.
        unsafe {
            libc::syscall(
                libc::SYS_fcntl,
                self.0,
                c_long::from(libc::F_SETFL),
                c_long::from(flags),
            )
        };
    }

    /// Whether there is a fault, at once or within so long.
    fn poll(&self, most_ms: c_int) -> bool {
        let mut poll = libc::pollfd {
            fd: self.0 as c_int,
            events: libc::POLLIN,
            revents: 0,
        };
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: c_long::from(most_ms) * 1_000_000,
        };
        // SAFETY: one entry, a valid time, no mask.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_ppoll,
                &raw mut poll,
                1 as c_long,
                &raw const time,
                0 as c_long,
            )
        };
        ready > 0
    }

    fn read(&self, faults: &mut [Fault; MOST_FAULTS]) -> usize {
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
