//! A thread of ours in the program: made without allocating on our side, deaf to its signals.

use std::ffi::CStr;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use crate::loader;
use crate::processors;
use crate::processors::Processors;
use crate::system;

/// Enough for what runs there.
const STACK_BYTES: usize = 256 << 10;
/// The program may have left by `pthread_exit`; looked for so often.
const LOOK_EVERY_NS: u64 = 100_000_000;

/// Threads of ours in this process.
static OURS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn begin(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` passed a function of this type.
    let body = unsafe { std::mem::transmute::<*mut c_void, fn()>(argument) };
    // What it calls is not the program's.
    let entered = crate::Entered::enter();
    // Sleeps of some 10 us are meant so.
    // SAFETY: sets a number of this thread's.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000 as libc::c_ulong) };
    name_thread(c"pagewise");
    body();
    drop(entered);
    OURS.fetch_sub(1, Ordering::Relaxed);
    // The last thread of a process runs its exit handlers: the program's, which may wait for signals.
    // SAFETY: an empty set is valid; this thread's mask is its own.
    unsafe {
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
    std::ptr::null_mut()
}

/// Starts a thread that is never waited for. All signals are blocked in it. The C library allocates its stack and table:
/// not to be called where the program's allocator may hold its locks.
///
/// # Errors
/// The errno.
pub fn spawn(body: fn()) -> Result<(), i32> {
    begin_on(None, body)
}

/// As [`spawn`], of a thread that may run on the caller's processor only, until it is held to others.
///
/// # Errors
/// The errno.
pub fn spawn_here(body: fn()) -> Result<(), i32> {
    begin_on(processors::here().and_then(Processors::one), body)
}

fn begin_on(processors: Option<Processors>, body: fn()) -> Result<(), i32> {
    let allowed = processors.and_then(|_| Processors::of(0));
    let mut attributes = MaybeUninit::uninit();
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let mut thread = 0;
    OURS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: each is initialized before it is used, and the attributes are destroyed once. The new thread inherits the
    // mask, the caller has its own back.
    let errno = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        // It inherits that, too. The C library's attribute would be too late: the thread would begin elsewhere, and then move.
        if let (Some(processors), Some(_)) = (processors, allowed) {
            processors.hold(0);
        }
        let errno = libc::pthread_create(
            &raw mut thread,
            attributes.as_ptr(),
            begin,
            body as *mut c_void,
        );
        if let Some(allowed) = allowed {
            allowed.hold(0);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        errno
    };
    if errno == 0 {
        return Ok(());
    }
    OURS.fetch_sub(1, Ordering::Relaxed);
    Err(errno)
}

/// Gives the calling thread a name of at most 15 bytes.
pub fn name_thread(name: &CStr) {
    // SAFETY: the name is a C string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// In a forked child: its parent's threads are not here.
pub fn forget_threads() {
    loader::begin_in_child();
    OURS.store(0, Ordering::Relaxed);
}

/// Looks now and then whether the program is over but for threads of ours. Its first thread may end before the process does
/// (`pthread_exit`), which then lives as long as any other: ours must not be that.
#[derive(Debug, Default)]
pub struct Leftover {
    looked_ns: u64,
}

impl Leftover {
    /// Whether the thread that asks shall end.
    pub fn is_all(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.looked_ns) < LOOK_EVERY_NS {
            return false;
        }
        self.looked_ns = now_ns;
        let most = OURS.load(Ordering::Relaxed) + 1;
        system::has_first_thread_ended() && system::threads().is_some_and(|now| now <= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn it_runs_beside_and_counts_as_ours() {
        static RAN: AtomicBool = AtomicBool::new(false);
        spawn(|| RAN.store(crate::Entered::enter().is_none(), Ordering::Release)).expect("begun");
        while !RAN.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_that_begins_here_is_held_here_and_the_caller_is_not() {
        static SEEN: AtomicUsize = AtomicUsize::new(usize::MAX);
        const UNKNOWN: usize = usize::MAX - 1;
        let before = Processors::of(0).expect("the kernel says so").count();
        spawn_here(|| {
            let own = Processors::of(0).map_or(UNKNOWN, |own| own.count());
            SEEN.store(own, Ordering::Release);
        })
        .expect("begun");
        assert_eq!(Processors::of(0).map(|own| own.count()), Some(before));
        while SEEN.load(Ordering::Acquire) == usize::MAX {
            std::thread::yield_now();
        }
        assert_eq!(SEEN.load(Ordering::Acquire), 1);
    }
}
