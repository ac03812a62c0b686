//! Which process this is: memory that was copied by a fork must not take the child for its parent.

use std::sync::atomic::AtomicPtr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

/// A word that the kernel zeroes in a forked child (MADV_WIPEONFORK, Linux 4.14), and only there: who shares our memory,
/// by a bare `clone` or `vfork`, shares what is in it as well.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
/// Counts forks on the way from the first process to this one, as far as anybody asked.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// What no kernel takes for advice.
const NO_ADVICE: libc::c_int = -1;
/// Where there is no such word: the process that asked last.
static OWNER: AtomicU32 = AtomicU32::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = make_mark;

extern "C" fn make_mark() {
    const PAGE: usize = 4096;
    // SAFETY: a fresh mapping at an address of the kernel's choice; the kernel's own call, as mmap may be interposed.
    let page = unsafe {
        libc::syscall(
            libc::SYS_mmap,
            std::ptr::null_mut::<u8>(),
            PAGE,
            libc::c_long::from(libc::PROT_READ | libc::PROT_WRITE),
            libc::c_long::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
            -1 as libc::c_long,
            0 as libc::c_long,
        )
    };
    if page <= 0 {
        return;
    }
    let page = page as *mut AtomicU32;
    // SAFETY: the page mapped above.
    let takes = |advice| unsafe { libc::madvise(page.cast(), PAGE, advice) } == 0;
    // Emulators (qemu-user) take advice that there is none of, and follow none.
    if !takes(NO_ADVICE) && takes(libc::MADV_WIPEONFORK) {
        // Whoever asked before now was this process.
        // SAFETY: the page is mapped, aligned, and lives for ever.
        unsafe { &*page }.store(1, Ordering::Relaxed);
        if OWNER.load(Ordering::Relaxed) == 0 {
            GENERATION.store(1, Ordering::Relaxed);
        }
        MARK.store(page, Ordering::Release);
    }
}

/// A number that differs in a forked child from its parent's.
pub fn process_generation() -> u32 {
    let mark = MARK.load(Ordering::Acquire);
    // SAFETY: null or the word made above.
    let is_new = match unsafe { mark.as_ref() } {
        Some(mark) => mark.load(Ordering::Relaxed) == 0 && mark.swap(1, Ordering::Relaxed) == 0,
        None => OWNER.swap(process_id(), Ordering::Relaxed) != process_id(),
    };
    if is_new {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    GENERATION.load(Ordering::Relaxed)
}

/// This process's number, asked of the kernel each time: a child of a bare `clone` must not pass for its parent.
pub fn process_id() -> u32 {
    // SAFETY: getpid has no arguments and cannot fail.
    unsafe { libc::getpid() as u32 }
}

/// This thread's number, asked of the kernel each time: threads of a bare `clone` may share thread-local storage.
pub fn thread_id() -> u32 {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_is_another_generation() {
        let before = process_generation();
        assert_eq!(process_generation(), before);
        // SAFETY: the child does nothing but look and end.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let differs = process_generation() != before && process_generation() == before + 1;
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!differs)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(process_generation(), before);
    }
}
