//! Masks of signals, without the two whose faults are ours: blocked, such a fault would end the program untold.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use libc::sigset_t;
use pagewise_interpose::Symbol;

use crate::signals::OURS;

type Mask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

// SAFETY: the C library's type for the function of this name.
static SIGPROCMASK: Symbol<Mask> = unsafe { Symbol::new(c"sigprocmask") };
// SAFETY: as above.
static PTHREAD_SIGMASK: Symbol<Mask> = unsafe { Symbol::new(c"pthread_sigmask") };

/// Looks all functions up, and ends a block that was there before.
pub(crate) fn prepare() {
    SIGPROCMASK.look_up();
    PTHREAD_SIGMASK.look_up();
    waits::prepare();
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is initialized before it is used.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in OURS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        change(libc::SIG_UNBLOCK, &*set.as_ptr());
    }
}

/// A set without the two that are never blocked.
pub(crate) fn allowed(set: &sigset_t) -> sigset_t {
    let mut set = *set;
    for signal in OURS {
        // SAFETY: a valid set.
        unsafe { libc::sigdelset(&raw mut set, signal) };
    }
    set
}

/// Changes this thread's mask as asked for, also in the two.
pub(crate) fn change(how: c_int, set: &sigset_t) {
    if let Some(real) = PTHREAD_SIGMASK.known() {
        // SAFETY: a valid set.
        unsafe { real(how, set, std::ptr::null_mut()) };
    }
}

/// A set without the two that are never blocked; `None`: nothing is asked for.
///
/// # Safety
/// `set` must be null or valid.
unsafe fn without_ours(how: c_int, set: *const sigset_t) -> Option<sigset_t> {
    // SAFETY: by our caller.
    let set = unsafe { set.as_ref() }?;
    Some(match how {
        libc::SIG_UNBLOCK => *set,
        _ => allowed(set),
    })
}

/// # Safety
/// As sigprocmask(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigprocmask(
    how: c_int,
    set: *const sigset_t,
    before: *mut sigset_t,
) -> c_int {
    // SAFETY: the same call as our caller's, but for the two signals.
    unsafe {
        let changed = without_ours(how, set);
        let set = changed
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        SIGPROCMASK
            .look_up()
            .map_or(-1, |real| real(how, set, before))
    }
}

/// # Safety
/// As pthread_sigmask(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    before: *mut sigset_t,
) -> c_int {
    // SAFETY: the same call as our caller's, but for the two signals.
    unsafe {
        let changed = without_ours(how, set);
        let set = changed
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        PTHREAD_SIGMASK
            .look_up()
            .map_or(libc::ENOSYS, |real| real(how, set, before))
    }
}

/// # Safety
/// As sighold(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sighold(signal: c_int) -> c_int {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is initialized before it is used.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        match libc::sigaddset(set.as_mut_ptr(), signal) {
            0 => sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()),
            _ => -1,
        }
    }
}

/// Functions that take a set for as long as they wait, or for a thread to be.
pub mod waits {
    use libc::c_int;
    use libc::epoll_event;
    use libc::fd_set;
    use libc::nfds_t;
    use libc::pollfd;
    use libc::pthread_attr_t;
    use libc::sigset_t;
    use libc::size_t;
    use libc::timespec;
    use pagewise_interpose::Symbol;
    use pagewise_interpose::capture;

    use super::allowed;
    use crate::buffers::bytes_of;
    use crate::buffers::check_sets;
    use crate::wrap::check;

    /// Functions whose last argument is a set.
    macro_rules! with_mask {
        ($(fn $name:ident($($argument:ident: $type:ty),*) = $failed:expr, $check:block)+) => {
            $(
                /// # Safety
                /// As the C library's function of this name.
                #[cfg_attr(not(test), unsafe(no_mangle))]
                pub unsafe extern "C" fn $name($($argument: $type,)* mask: *const sigset_t) -> c_int {
                    $check
                    let Some(real) = real::$name.look_up() else {
                        return $failed;
                    };
                    // SAFETY: null or valid, by our caller.
                    let changed = unsafe { mask.as_ref() }.map(allowed);
                    let mask = changed.as_ref().map_or(mask, std::ptr::from_ref);
                    // SAFETY: the same call as our caller's, but for the two signals.
                    unsafe { real($($argument,)* mask) }
                }
            )+

            $crate::wrap::own! { $(fn $name($($type,)* *const sigset_t) -> c_int;)+ }
        };
    }

    with_mask! {
        fn sigsuspend() = -1, {}
        fn ppoll(polls: *mut pollfd, count: nfds_t, time: *const timespec) = -1, {
            check!("ppoll", polls, (count as usize).saturating_mul(size_of::<pollfd>()), Write);
        }
        fn pselect(count: c_int, reads: *mut fd_set, writes: *mut fd_set, others: *mut fd_set, time: *const timespec) = -1, {
            check_sets("pselect", count, [reads, writes, others], capture());
        }
        fn epoll_pwait(epoll: c_int, events: *mut epoll_event, most: c_int, milliseconds: c_int) = -1, {
            check!("epoll_pwait", events, bytes_of::<epoll_event>(most), Write);
        }
        fn epoll_pwait2(epoll: c_int, events: *mut epoll_event, most: c_int, time: *const timespec) = -1, {
            check!("epoll_pwait2", events, bytes_of::<epoll_event>(most), Write);
        }
        fn pthread_attr_setsigmask_np(attributes: *mut pthread_attr_t) = libc::ENOSYS, {}
    }

    type PpollChk = unsafe extern "C" fn(
        *mut pollfd,
        nfds_t,
        *const timespec,
        *const sigset_t,
        size_t,
    ) -> c_int;

    // SAFETY: the C library's type for the function of this name.
    static PPOLL_CHK: Symbol<PpollChk> = unsafe { Symbol::new(c"__ppoll_chk") };

    /// As `ppoll` of programs that are compiled with checks.
    ///
    /// # Safety
    /// As ppoll(2); `room` is that of the list, bytes.
    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn __ppoll_chk(
        polls: *mut pollfd,
        count: nfds_t,
        time: *const timespec,
        mask: *const sigset_t,
        room: size_t,
    ) -> c_int {
        check!(
            "ppoll",
            polls,
            (count as usize).saturating_mul(size_of::<pollfd>()),
            Write
        );
        let Some(real) = PPOLL_CHK.look_up() else {
            return -1;
        };
        // SAFETY: null or valid, by our caller.
        let changed = unsafe { mask.as_ref() }.map(allowed);
        let mask = changed.as_ref().map_or(mask, std::ptr::from_ref);
        // SAFETY: the same call as our caller's, but for the two signals.
        unsafe { real(polls, count, time, mask, room) }
    }
}
