//! Memory that others may have, too, and that goes to swap: files of tmpfs (`memfd_create`, `shm_open`), and System V's.

use std::ffi::c_int;
use std::ffi::c_void;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::AllocationKind;
use pagewise_interpose::Registers;
use pagewise_interpose::capture;

use crate::plan;
use crate::plan::Hook;
use crate::plan::Leaving;
use crate::sandbox;
use crate::settings::is_large;
use crate::stream::Made;
use crate::stream::allocated;
use crate::stream::releasing;

/// `TMPFS_MAGIC` (linux/magic.h).
const TMPFS: libc::c_long = 0x0102_1994;
const PAGE: usize = 4096;
/// More of System V's at once are not followed.
const MOST_ATTACHED: usize = 64;

/// What is attached: `shmdt` says no more than where it begins. Without a lock, which a forked child might find taken.
static ATTACHED: [Attached; MOST_ATTACHED] = [const { Attached::nothing() }; MOST_ATTACHED];

struct Attached {
    /// 0: the place is free.
    start: AtomicUsize,
    bytes: AtomicUsize,
}

impl Attached {
    const fn nothing() -> Self {
        Self {
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    fn at(start: usize) -> Option<&'static Self> {
        let mut places = ATTACHED.iter();
        places.find(|place| place.start.load(Ordering::Acquire) == start)
    }

    /// False: there is no place for it.
    fn note(start: usize, bytes: usize) -> bool {
        let take = |place: &&Self| {
            let free = (Ordering::AcqRel, Ordering::Relaxed);
            place
                .start
                .compare_exchange(0, start, free.0, free.1)
                .is_ok()
        };
        let known = Self::at(start).or_else(|| ATTACHED.iter().find(take));
        known
            .map(|place| place.bytes.store(bytes, Ordering::Release))
            .is_some()
    }

    /// How much was attached there, and is not any more.
    fn forget(start: usize) -> Option<usize> {
        let place = Self::at(start).filter(|_| start != 0)?;
        let bytes = place.bytes.swap(0, Ordering::AcqRel);
        place.start.store(0, Ordering::Release);
        Some(bytes)
    }
}

/// Whether memory of so many bytes is worth asking whose it is, and may be.
fn matters(bytes: usize) -> bool {
    (is_large(bytes) || plan::wants(bytes)) && !sandbox::is_in()
}

/// Whether a shared mapping of so many bytes of this file is such memory. Only of large ones it is asked.
pub(crate) fn is_shared_memory(file: c_int, bytes: usize, flags: c_int) -> bool {
    flags & libc::MAP_TYPE != libc::MAP_PRIVATE && matters(bytes) && is_of_tmpfs(file)
}

fn is_of_tmpfs(file: c_int) -> bool {
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a valid place for the answer.
    let told = unsafe { libc::syscall(libc::SYS_fstatfs, file, &raw mut about) };
    told == 0 && about.f_type == TMPFS
}

/// The size of a piece of System V's shared memory, in whole pages; 0: unknown.
fn segment_bytes(id: c_int) -> usize {
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut about: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: a valid place for the answer.
    let told = unsafe { libc::syscall(libc::SYS_shmctl, id, libc::IPC_STAT, &raw mut about) };
    match told {
        0 => about.shm_segsz.next_multiple_of(PAGE),
        _ => 0,
    }
}

/// It is there.
fn begin(address: usize, bytes: usize, registers: Registers) {
    if !Attached::note(address, bytes) {
        return;
    }
    if is_large(bytes) {
        let made = Made {
            address,
            bytes,
            kind: AllocationKind::Mmap,
            registers,
        };
        allocated(made, 0);
    }
    if plan::wants(bytes) {
        plan::allocated(address, bytes, Hook::SharedMemory, None);
    }
}

/// # Safety
/// As shmat(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    let registers = capture();
    let bytes = match sandbox::is_in() {
        true => 0,
        false => segment_bytes(id),
    };
    if flags & libc::SHM_REMAP != 0 {
        plan::leaving(address as usize, bytes, Leaving::Unmapped);
    }
    // SAFETY: the same call as our caller's.
    let result = unsafe { libc::syscall(libc::SYS_shmat, id, address, flags) as *mut c_void };
    if result != libc::MAP_FAILED && matters(bytes) {
        begin(result as usize, bytes, registers);
    }
    result
}

/// # Safety
/// As shmdt(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
    let start = address as usize;
    if let Some(bytes) = Attached::forget(start) {
        if is_large(bytes) {
            releasing(start, bytes);
        }
        plan::leaving(start, bytes, Leaving::Unmapped);
    }
    // SAFETY: the same call as our caller's.
    unsafe { libc::syscall(libc::SYS_shmdt, address) as c_int }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_files_are_told_from_others() {
        // SAFETY: names are C strings; what is opened here is closed below.
        let files = unsafe {
            [
                libc::memfd_create(c"buffers".as_ptr(), libc::MFD_CLOEXEC),
                libc::open(
                    c"/proc/self/status".as_ptr(),
                    libc::O_RDONLY | libc::O_CLOEXEC,
                ),
            ]
        };
        assert_eq!(files.map(is_of_tmpfs), [true, false]);
        assert!(!is_of_tmpfs(-1));
        for file in files {
            // SAFETY: opened above, closed once.
            unsafe { libc::close(file) };
        }
    }

    #[test]
    fn the_size_of_a_segment_is_asked_of_the_kernel() {
        // SAFETY: no memory is touched; the segment is removed below.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 5 * PAGE + 1, 0o600 | libc::IPC_CREAT) };
        assert_eq!(segment_bytes(id), 6 * PAGE);
        // SAFETY: made above, removed once.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        assert_eq!(segment_bytes(id), 0);
    }

    #[test]
    fn what_is_attached_is_known_until_it_is_not() {
        let place = 0x7a00_0000_0000;
        assert_eq!(Attached::forget(place), None);
        assert!(Attached::note(place, 3 * PAGE));
        // Something else in its place (SHM_REMAP).
        assert!(Attached::note(place, 5 * PAGE));
        assert_eq!(Attached::forget(place), Some(5 * PAGE));
        assert_eq!(Attached::forget(place), None);
        assert_eq!(Attached::forget(0), None);
        let places = (1..).map(|number| place + number * PAGE);
        let taken: Vec<usize> = places
            .take_while(|&place| Attached::note(place, PAGE))
            .collect();
        assert_eq!(taken.len(), MOST_ATTACHED);
        assert!(
            taken
                .into_iter()
                .all(|place| Attached::forget(place) == Some(PAGE))
        );
    }
}
