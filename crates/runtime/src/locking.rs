//! `mlock`, `madvise` and kin: what the program says about its own memory wins over the plan.

use std::ffi::c_void;

use crate::plan;
use crate::plan::Leaving;

/// A range that the program speaks of is its own from here on, and no lock of ours is left in the way.
fn theirs(address: *const c_void, bytes: usize) {
    plan::leaving(address as usize, bytes, Leaving::Advised);
}

/// A call that locks. What this user may lock, our locks may have used up: then they give way, and it is tried once more.
pub(crate) fn giving_way<R: PartialEq>(failure: R, bytes: usize, lock: impl Fn() -> R) -> R {
    let result = lock();
    // SAFETY: this thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    let is_beyond = matches!(errno, libc::ENOMEM | libc::EAGAIN);
    if result == failure && is_beyond && plan::give_way(bytes) {
        return lock();
    }
    result
}

/// # Safety
/// As mlock(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mlock(address: *const c_void, bytes: usize) -> i32 {
    theirs(address, bytes);
    // SAFETY: the same call as our caller's.
    giving_way(-1, bytes, || unsafe {
        libc::syscall(libc::SYS_mlock, address, bytes) as i32
    })
}

/// # Safety
/// As mlock2(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mlock2(address: *const c_void, bytes: usize, flags: u32) -> i32 {
    theirs(address, bytes);
    // SAFETY: the same call as our caller's.
    giving_way(-1, bytes, || unsafe {
        libc::syscall(libc::SYS_mlock2, address, bytes, libc::c_ulong::from(flags)) as i32
    })
}

/// # Safety
/// As munlock(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn munlock(address: *const c_void, bytes: usize) -> i32 {
    theirs(address, bytes);
    // SAFETY: the same call as our caller's.
    unsafe { libc::syscall(libc::SYS_munlock, address, bytes) as i32 }
}

/// # Safety
/// As mlockall(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mlockall(flags: i32) -> i32 {
    // SAFETY: the same call as our caller's.
    let result = unsafe { libc::syscall(libc::SYS_mlockall, libc::c_long::from(flags)) as i32 };
    // To make room by ending ours would not help: the kernel looks at all memory, not at what is locked (mm/mlock.c).
    if result == 0 {
        plan::locked_all(match flags & libc::MCL_CURRENT {
            0 => Leaving::Advised,
            _ => Leaving::AllTheirs,
        });
    }
    result
}

/// # Safety
/// As munlockall(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn munlockall() -> i32 {
    // SAFETY: the same call as our caller's.
    let result = unsafe { libc::syscall(libc::SYS_munlockall) as i32 };
    if result == 0 {
        plan::locked_all(Leaving::AllTheirs);
    }
    result
}

/// # Safety
/// As madvise(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn madvise(address: *mut c_void, bytes: usize, advice: i32) -> i32 {
    // Of forks, merging, huge pages and dumps: nothing about what shall be in memory.
    if !(libc::MADV_DONTFORK..=libc::MADV_WIPEONFORK + 1).contains(&advice) {
        theirs(address, bytes);
    }
    match advice {
        libc::MADV_NOHUGEPAGE => plan::not_fresh(address as usize, bytes, true),
        libc::MADV_HUGEPAGE => plan::asked_for_huge(address as usize, bytes),
        _ => {}
    }
    // SAFETY: the same call as our caller's.
    unsafe {
        libc::syscall(
            libc::SYS_madvise,
            address,
            bytes,
            libc::c_long::from(advice),
        ) as i32
    }
}

/// # Safety
/// As posix_madvise(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_madvise(address: *mut c_void, bytes: usize, advice: i32) -> i32 {
    // The C library does as little: dropping contents is not what POSIX means (sysdeps/unix/sysv/linux/posix_madvise.c).
    if advice == libc::POSIX_MADV_DONTNEED {
        return 0;
    }
    // It returns the error and leaves errno alone.
    pagewise_interpose::keeping_errno(|| {
        // SAFETY: the same call as our caller's; the advices that are left have the numbers of madvise(2).
        let result = unsafe { madvise(address, bytes, advice) };
        if result == 0 {
            return 0;
        }
        // SAFETY: this thread's own errno.
        unsafe { *libc::__errno_location() }
    })
}
