//! Memory that others may have, too, and that goes to swap: files of tmpfs (`memfd_create`, `shm_open`), and System V's.

use std::ffi::c_int;
use std::ffi::c_void;

use pagewise_abi::AllocationKind;
use pagewise_interpose::Registers;
use pagewise_interpose::Spin;
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

/// What is attached, as address and length: `shmdt` says no more than where it begins.
static ATTACHED: Spin<[(usize, usize); MOST_ATTACHED]> = Spin::new([(0, 0); MOST_ATTACHED]);

/// Whether memory of so many bytes is worth asking whose it is, and may be.
fn matters(bytes: usize) -> bool {
    (is_large(bytes) || plan::wants(bytes)) && !sandbox::is_in()
}

/// Whether a shared mapping of so many bytes of this file is such memory. Only of large ones it is asked.
pub(crate) fn is_shared_memory(file: c_int, bytes: usize, flags: c_int) -> bool {
    if flags & libc::MAP_TYPE == libc::MAP_PRIVATE || !matters(bytes) {
        return false;
    }
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

fn note(place: (usize, usize), by: (usize, usize)) -> bool {
    let Some(mut attached) = ATTACHED.lock() else {
        return false;
    };
    let free = attached.iter_mut().find(|known| **known == place);
    free.map(|known| *known = by).is_some()
}

fn attached_at(address: usize) -> Option<usize> {
    let attached = ATTACHED.lock()?;
    let mut known = attached.iter();
    known.find(|(start, _)| *start == address).map(|it| it.1)
}

/// It is there.
fn begin(address: usize, bytes: usize, registers: Registers) {
    // What may have been attached there before has made room (SHM_REMAP).
    if let Some(before) = attached_at(address) {
        note((address, before), (0, 0));
    }
    if !note((0, 0), (address, bytes)) {
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
    if let Some(bytes) = attached_at(start).filter(|&bytes| bytes > 0 && start != 0) {
        if is_large(bytes) {
            releasing(start, bytes);
        }
        plan::leaving(start, bytes, Leaving::Unmapped);
        note((start, bytes), (0, 0));
    }
    // SAFETY: the same call as our caller's.
    unsafe { libc::syscall(libc::SYS_shmdt, address) as c_int }
}
