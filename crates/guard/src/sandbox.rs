//! Programs that forbid themselves system calls (seccomp(2)): a filter that knows nothing of us may end the program at one that no other
//! allocator makes. From then on we make only those that others make, too: `mmap`, `mprotect`, `madvise`, `munmap`.

use std::ffi::c_int;
use std::ffi::c_ulong;
use std::ffi::c_void;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use pagewise_interpose::Symbol;
use pagewise_interpose::be_silent;
use pagewise_interpose::begins_sandbox;
use pagewise_interpose::process_id;

use crate::cancel;
use crate::careful;
use crate::heap;
use crate::paths;
use crate::recycle;
use crate::report;
use crate::signals;

type Prctl = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;
type SeccompLoad = unsafe extern "C" fn(*mut c_void) -> c_int;

// SAFETY: the C library's type for the function of this name, but that it takes as many arguments as the option has.
static PRCTL: Symbol<Prctl> = unsafe { Symbol::new(c"prctl") };
// SAFETY: libseccomp's type for the function of this name.
static SECCOMP_LOAD: Symbol<SeccompLoad> = unsafe { Symbol::new(c"seccomp_load") };

static IS_IN: AtomicBool = AtomicBool::new(false);
/// The number of the process that went in.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether this process has, or is about to have, a filter of its own making.
#[inline(always)]
pub(crate) fn is_in() -> bool {
    IS_IN.load(Ordering::Relaxed)
}

/// This process's number; in a sandbox, of which a child is in, too, that of the process that went in.
pub(crate) fn process() -> u32 {
    match is_in() {
        true => PROCESS.load(Ordering::Relaxed),
        false => process_id(),
    }
}

/// Does what may be the begin of a sandbox; prepared, as it is too late afterwards. Where that `is_refused` there is none, but for
/// pages, which change hands no more.
pub(crate) fn enter<T>(begin: impl FnOnce() -> T, is_refused: impl FnOnce(&T) -> bool) -> T {
    PROCESS.store(process_id(), Ordering::Relaxed);
    let was_in = IS_IN.swap(true, Ordering::Relaxed);
    if !was_in {
        cancel::hold_off(prepare);
    }
    be_silent(Some(careful::read));
    let begun = begin();
    if !was_in && is_refused(&begun) {
        IS_IN.store(false, Ordering::Relaxed);
        be_silent(None);
        signals::handle_ends(true);
    }
    begun
}

/// What would be asked for later.
fn prepare() {
    paths::this_thread();
    signals::handle_ends(false);
    heap::make_ready();
    report::prepare_for_sandbox();
    recycle::give_up();
    heap::settle();
}

/// # Safety
/// As prctl(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    let Some(real) = PRCTL.look_up() else {
        return -1;
    };
    // SAFETY: the same call as our caller's; registers that it did not set are passed on as they are.
    let call = || unsafe { real(option, second, third, fourth, fifth) };
    if !begins_sandbox(option, second, third) {
        return call();
    }
    enter(call, |&status| status != 0)
}

/// # Safety
/// As seccomp_load(3) of libseccomp, whose own system call is not seen here.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn seccomp_load(filter: *mut c_void) -> c_int {
    let Some(real) = SECCOMP_LOAD.look_up() else {
        return -libc::ENOSYS;
    };
    // SAFETY: the same call as our caller's.
    enter(|| unsafe { real(filter) }, |&status| status != 0)
}
