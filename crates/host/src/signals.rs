//! What signals do to this process: what it inherited decides what a program inherits from it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

/// Whether this process ignores a signal now: under `nohup` or as a shell's job in the background it is begun so.
pub fn is_ignored(signal: i32) -> bool {
    action(signal) == Some(libc::SIG_IGN)
}

/// Whether SIGPIPE was ignored when this process was begun, as systemd begins its services. The standard library ignores
/// it in each process, so that later there is no telling.
pub(crate) fn pipe_was_ignored() -> bool {
    PIPE_WAS_IGNORED.load(Ordering::Relaxed)
}

/// What the signal does; `None`: there is no such signal.
pub(crate) fn action(signal: i32) -> Option<libc::sighandler_t> {
    // SAFETY: zeros are a valid `sigaction`; a null second argument only asks.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `now` is ours to fill.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    (asked == 0).then_some(now.sa_sigaction)
}

static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls what is in this section before `main`, and `look_at_pipe` needs nothing of the standard library
// that is set up there.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_PIPE: extern "C" fn() = look_at_pipe;

extern "C" fn look_at_pipe() {
    PIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
}
