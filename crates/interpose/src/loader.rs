//! How often libraries were loaded and unloaded, asked of the dynamic linker without leaving its lock to a child.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

/// Threads of ours that are asking.
static ASKING: AtomicU32 = AtomicU32::new(0);
/// A fork is under way: nobody may begin to ask.
static FORKING: AtomicBool = AtomicBool::new(false);
/// Rounds of waiting, some 10 ms.
const PATIENCE: u32 = 1 << 20;

/// Run when this library is loaded: later, the allocator may be who called us.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = prepare_for_forks;

extern "C" fn prepare_for_forks() {
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
}

/// A number that changes with each load and unload; `None` while the process forks.
///
/// The answer is guarded by a lock of the linker's that fork(2) leaves as it is (glibc's `fork` makes other locks anew,
/// not `_dl_load_write_lock`): had another thread of ours held it at that moment, the child's next question would wait
/// for ever. So forks wait until nobody asks.
pub fn libraries_ever_loaded() -> Option<u64> {
    ASKING.fetch_add(1, Ordering::SeqCst);
    let answer = (!FORKING.load(Ordering::SeqCst)).then(ask);
    ASKING.fetch_sub(1, Ordering::SeqCst);
    answer
}

extern "C" fn before_fork() {
    FORKING.store(true, Ordering::SeqCst);
    // Each asks for some 100 ns. Who forks while it holds the linker's lock itself would wait for ever, hence the end.
    for _ in 0..PATIENCE {
        if ASKING.load(Ordering::SeqCst) == 0 {
            return;
        }
        std::hint::spin_loop();
    }
}

extern "C" fn after_fork() {
    FORKING.store(false, Ordering::SeqCst);
}

extern "C" fn in_child() {
    ASKING.store(0, Ordering::SeqCst);
    FORKING.store(false, Ordering::SeqCst);
}

fn ask() -> u64 {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        size: usize,
        data: *mut libc::c_void,
    ) -> libc::c_int {
        if size >= size_of::<libc::dl_phdr_info>() {
            // SAFETY: the linker passes a valid info of `size` bytes, and our own `data`.
            unsafe { *data.cast::<u64>() = (*info).dlpi_adds.wrapping_add((*info).dlpi_subs) };
        }
        1 // one library is enough: the counts are the same in each
    }
    let mut count = 0u64;
    // SAFETY: the callback matches its type and `count` lives across the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_stays_until_a_library_comes() {
        let before = libraries_ever_loaded();
        assert!(before.is_some_and(|count| count > 0));
        assert_eq!(libraries_ever_loaded(), before);
    }
}
