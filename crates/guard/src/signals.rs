//! The program's faults come to us first, and go on to its own handlers if it has any: what it installs for SIGSEGV and
//! SIGBUS is kept here and called from ours. These two are never blocked, or a fault would end the program untold.

use std::cell::Cell;
use std::ffi::c_int;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use libc::sigaction as Action;
use libc::siginfo_t;
use libc::sigset_t;
use libc::ucontext_t;
use pagewise_interpose::Symbol;
use pagewise_interpose::keeping_errno;
use pagewise_interpose::process_id;

use crate::careful;
use crate::context::access_bytes;
use crate::context::access_of;
use crate::context::registers_of;
use crate::context::repaired;
use crate::ending;
use crate::lock::Lock;
use crate::masks;
use crate::pages;
use crate::report;
use crate::report::After;
use crate::sandbox;
use crate::wrap::own;

type Sigaction = unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;
type Signal = unsafe extern "C" fn(c_int, usize) -> usize;

// SAFETY: the C library's type for the function of this name.
static SIGACTION: Symbol<Sigaction> = unsafe { Symbol::new(c"sigaction") };

pub(crate) const OURS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// Signals that end a program that has no handler of its own: it is looked at before.
const ENDS: [c_int; 4] = [libc::SIGABRT, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
/// `si_code` of faults without an address: an alignment that an instruction demands, among others.
const SI_KERNEL: c_int = 0x80;
/// `si_code` of an address without memory behind it.
const BUS_ADRERR: c_int = 2;

/// Faults in our handler's own work, one in another, that are looked at.
const DEEPEST: u32 = 4;

/// What the program installed for the two, as far as it did; else the default.
static THEIRS: Lock<[Option<Action>; 2]> = Lock::new([None; 2]);
/// Instruction and address of the last fault: the same again means that nobody cured it.
static LAST: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// Instructions that were rewritten.
pub(crate) static REPAIRED: AtomicU64 = AtomicU64::new(0);
fn index_of(signal: c_int) -> Option<usize> {
    OURS.iter().position(|&ours| ours == signal)
}

/// Installs our handlers in place of the default, or of those the program had already.
pub(crate) fn install() {
    prepare();
    THEIRS.prepare();
    masks::prepare();
    let Some(real) = SIGACTION.look_up() else {
        return;
    };
    for (index, signal) in OURS.into_iter().enumerate() {
        // SAFETY: all zeros is the default action.
        let mut before: Action = unsafe { std::mem::zeroed() };
        // SAFETY: a place for the action before.
        let is_told = unsafe { real(signal, std::ptr::null(), &raw mut before) } == 0;
        if is_told
            && install_ours(real, signal, &before)
            && let Some(mut theirs) = THEIRS.lock()
        {
            theirs[index] = Some(before);
        }
    }
    handle_ends(true);
}

/// Installs our handler as the program's would be: on the same stack, which is the one that its handler is made for, and with
/// interrupted calls that go on or do not. Where it has none, what uses up a stack is told if there is another one. False: the kernel refuses.
fn install_ours(real: Sigaction, signal: c_int, theirs: &Action) -> bool {
    // SAFETY: all zeros is a valid action.
    let mut ours: Action = unsafe { std::mem::zeroed() };
    ours.sa_sigaction = handle as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | flags_like(theirs);
    // SAFETY: a valid action.
    unsafe { real(signal, &raw const ours, std::ptr::null_mut()) == 0 }
}

/// Of the flags of an action those that ours has, too.
fn flags_like(theirs: &Action) -> c_int {
    match theirs.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => libc::SA_ONSTACK | libc::SA_RESTART,
        _ => theirs.sa_flags & (libc::SA_ONSTACK | libc::SA_RESTART),
    }
}

/// Looks at the program before a signal ends it, which the kernel then does as if nobody had been asked.
extern "C" fn handle_end(signal: c_int) {
    ending::at_signal();
    // It comes when this returns.
    end(signal, true);
}

/// What stands for a handler that the program wants: ours for the default action where that is the end.
fn in_place_of(handler: usize, signal: c_int) -> usize {
    match handler {
        libc::SIG_DFL if ENDS.contains(&signal) && !sandbox::is_in() => {
            handle_end as *const () as usize
        }
        _ => handler,
    }
}

/// The handler that the program knows of.
fn as_wanted(handler: usize) -> usize {
    match handler {
        _ if is_handle_end(handler) => libc::SIG_DFL,
        _ => handler,
    }
}

fn is_handle_end(handler: usize) -> bool {
    handler == handle_end as *const () as usize
}

/// Installs that handler where the default action is, or the default where that handler is: in a sandbox, which may forbid the
/// system calls of the handler.
pub(crate) fn handle_ends(are_handled: bool) {
    // The first process of a namespace is not ended by these.
    let Some(real) = SIGACTION.known().filter(|_| process_id() != 1) else {
        return;
    };
    // SAFETY: all zeros is the default action.
    let (mut action, mut now): (Action, Action) = unsafe { std::mem::zeroed() };
    if are_handled {
        action.sa_sigaction = handle_end as *const () as usize;
        // Not on a stack of the program's for signals, which may be too small.
        action.sa_flags = libc::SA_RESTART;
    }
    for signal in ENDS {
        // SAFETY: valid actions.
        unsafe {
            let told = real(signal, std::ptr::null(), &raw mut now) == 0;
            let is_default = now.sa_sigaction == libc::SIG_DFL;
            if told && (is_default && are_handled || is_handle_end(now.sa_sigaction)) {
                real(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
}

/// Run by `fork` in the process that forks.
pub(crate) fn before_fork() {
    THEIRS.hold_for_fork();
}

/// Run by `fork` on both sides.
pub(crate) fn after_fork() {
    THEIRS.release_after_fork();
}

fn set_default(signal: c_int) {
    // SAFETY: all zeros is the default action.
    let default: Action = unsafe { std::mem::zeroed() };
    if let Some(real) = SIGACTION.known() {
        // SAFETY: a valid action.
        unsafe { real(signal, &raw const default, std::ptr::null_mut()) };
    }
}

/// Ends the program as `abort` would that no handler can stop.
pub(crate) fn abort() -> ! {
    set_default(libc::SIGABRT);
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is initialized before it is used; the signal goes to this thread.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGABRT);
        masks::change(libc::SIG_UNBLOCK, &*set.as_ptr());
        libc::raise(libc::SIGABRT);
        libc::syscall(libc::SYS_exit_group, 134 as libc::c_long);
    }
    unreachable!("the process has ended")
}

/// Stops the program where it erred, until somebody continues it.
pub(crate) fn stop() {
    // SAFETY: to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) };
}

thread_local! {
    /// Handlers of ours that this thread is in: a fault in one may be cured, one fault after another may not.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Notes that this thread is in a handler of ours, or no longer. Returns how many it is in.
fn enter(is_in: bool) -> u32 {
    let change = |depth: &Cell<u32>| {
        depth.set(match is_in {
            true => depth.get() + 1,
            false => depth.get().saturating_sub(1),
        });
        depth.get()
    };
    DEPTH.try_with(change).unwrap_or(1)
}

unsafe extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: our own arguments.
    if unsafe { careful::leave(info, context.cast()) } {
        return;
    }
    if enter(true) > DEEPEST {
        // On a stack that is too small for us, among others.
        return end(signal, false);
    }
    // SAFETY: our own arguments.
    unsafe { look_at(signal, info, context) };
    enter(false);
}

/// A frame of its own: where there is no room for it, [`handle`] is to have had its turn.
///
/// # Safety
/// The arguments must be those of a handler.
#[inline(never)]
unsafe fn look_at(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    keeping_errno(|| {
        // SAFETY: the kernel passes valid information.
        let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
        let context = context.cast::<ucontext_t>();
        // SAFETY: the kernel passes the interrupted thread's context.
        let (registers, access) = unsafe { (registers_of(&*context), access_of(&*context)) };
        // SAFETY: as above.
        let is_repaired = code == SI_KERNEL && unsafe { repaired(&*context) };
        REPAIRED.fetch_add(u64::from(is_repaired), Ordering::Relaxed);
        let was_sent = code <= 0;
        let place = [registers.instruction, address];
        let is_same = !was_sent && (0..2).all(|at| LAST[at].load(Ordering::Relaxed) == place[at]);
        let is_missing = signal == libc::SIGBUS && code == BUS_ADRERR;
        if is_repaired || is_missing && pages::cure_missing(address) {
            return;
        }
        if !was_sent && !is_same {
            let stopped = report::Stopped {
                // The processor does not say it where it is no address at all.
                address: if code == SI_KERNEL { 0 } else { address },
                access,
                access_bytes: access_bytes(registers.instruction),
                registers,
            };
            let after = match code {
                SI_KERNEL => None,
                _ => report::fault(&stopped),
            };
            if after == Some(After::GoOn) && pages::let_pass(address) {
                return;
            }
            let is_ours = after.is_some();
            if is_ours || !has_handler(signal) {
                if !is_ours {
                    report::wild(&stopped);
                }
                LAST[0].store(place[0], Ordering::Relaxed);
                LAST[1].store(place[1], Ordering::Relaxed);
                ending::summarize();
            }
        }
        // SAFETY: the kernel's own arguments.
        unsafe { pass_on(signal, info, context.cast(), is_same, was_sent) };
    });
}

/// Whether the program has a handler of its own for one of the two.
fn has_handler(signal: c_int) -> bool {
    let action = index_of(signal).and_then(|index| THEIRS.lock()?[index]);
    action.is_some_and(|theirs| !matches!(theirs.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN))
}

/// To the program's handler; without one, or where it has not helped, the program ends as it would without us.
///
/// # Safety
/// The arguments must be those of a handler.
unsafe fn pass_on(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
    is_same: bool,
    was_sent: bool,
) {
    let theirs = index_of(signal).and_then(|index| {
        let mut all = THEIRS.lock()?;
        let theirs = all[index]?;
        if theirs.sa_flags & libc::SA_RESETHAND != 0 {
            all[index] = None;
        }
        Some(theirs)
    });
    let action = theirs.map_or(libc::SIG_DFL, |theirs| theirs.sa_sigaction);
    match (action, theirs) {
        (libc::SIG_IGN, _) if was_sent => {}
        (libc::SIG_DFL | libc::SIG_IGN, _) | (_, None) => end(signal, was_sent),
        (_, Some(_)) if is_same => end(signal, was_sent),
        (handler, Some(theirs)) => {
            if theirs.sa_flags & libc::SA_NODEFER == 0 {
                block(signal, &theirs.sa_mask);
            }
            // It may never return. Where a report was interrupted, nobody is to come back to it.
            enter(false);
            let was_reporting = report::leave();
            // SAFETY: the program installed it for this signal, in one of the two forms.
            unsafe {
                if theirs.sa_flags & libc::SA_SIGINFO != 0 {
                    type Long = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
                    std::mem::transmute::<usize, Long>(handler)(signal, info, context);
                } else {
                    type Short = unsafe extern "C" fn(c_int);
                    std::mem::transmute::<usize, Short>(handler)(signal);
                }
            }
            enter(true);
            if was_reporting {
                end(signal, was_sent);
            }
        }
    }
}

/// What the kernel would have blocked while their handler runs; it ends with ours.
fn block(signal: c_int, mask: &sigset_t) {
    let mut set = *mask;
    // SAFETY: a valid set.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    masks::change(libc::SIG_BLOCK, &set);
}

/// The instruction is run again without a handler, and the program ends of it; what was sent is sent again.
fn end(signal: c_int, was_sent: bool) {
    set_default(signal);
    if was_sent {
        // SAFETY: to this thread.
        unsafe { libc::raise(signal) };
    }
}

/// # Safety
/// As sigaction(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const Action,
    before: *mut Action,
) -> c_int {
    // What a child by `vfork` changes before it runs another program is its own, though this memory is its parent's.
    let is_ours = || SIGACTION.known().is_some() && ending::is_of_this_process();
    let Some(index) = index_of(signal).filter(|_| is_ours()) else {
        let Some(real) = SIGACTION.look_up() else {
            return -1;
        };
        // SAFETY: null or valid, by our caller.
        let mut changed = unsafe { action.as_ref() }.copied();
        let action = changed.as_mut().map_or(std::ptr::null(), |changed| {
            changed.sa_mask = masks::allowed(&changed.sa_mask);
            changed.sa_sigaction = in_place_of(changed.sa_sigaction, signal);
            if is_handle_end(changed.sa_sigaction) {
                changed.sa_flags = libc::SA_RESTART;
            }
            std::ptr::from_ref(changed)
        });
        // SAFETY: the same call as our caller's, but for the two signals in its mask; a handler of ours is not told.
        return unsafe {
            let status = real(signal, action, before);
            if status == 0 && !before.is_null() && is_handle_end((*before).sa_sigaction) {
                *before = std::mem::zeroed();
            }
            status
        };
    };
    // What is the program's is looked at without the lock: it may be an object in the store, and the compactor may wait for others.
    // SAFETY: null or valid, by our caller.
    let wanted = unsafe { action.as_ref() }.copied();
    let Some(mut theirs) = THEIRS.lock() else {
        return -1;
    };
    let was = theirs[index];
    if let (Some(action), Some(real)) = (wanted, SIGACTION.known()) {
        theirs[index] = wanted;
        if was.as_ref().map(flags_like) != Some(flags_like(&action)) {
            install_ours(real, signal, &action);
        }
    }
    drop(theirs);
    if !before.is_null() {
        // SAFETY: valid, by our caller; all zeros is the default action.
        unsafe { *before = was.unwrap_or_else(|| std::mem::zeroed()) };
    }
    0
}

/// Keeps a handler for one of the two, and returns the one before.
fn replace(number: c_int, handler: usize, flags: c_int) -> usize {
    // SAFETY: all zeros is a valid action.
    let (mut action, mut before): (Action, Action) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: two valid actions.
    let status = unsafe { sigaction(number, &raw const action, &raw mut before) };
    match status {
        0 => before.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

/// The functions that are older than `sigaction`, each with what its handlers are like.
macro_rules! older {
    ($($name:ident: $flags:expr),+ $(,)?) => {$(
        /// # Safety
        /// As the C library's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(number: c_int, handler: usize) -> usize {
            if index_of(number).is_some() {
                return replace(number, handler, $flags);
            }
            let handler = in_place_of(handler, number);
            let real = real::$name.look_up();
            // SAFETY: the same call as our caller's.
            as_wanted(real.map_or(libc::SIG_ERR, |real| unsafe { real(number, handler) }))
        }
    )+
        own! { $(fn $name(c_int, usize) -> usize;)+ }
    };
}

/// Once, and not blocked meanwhile: the plain `signal` of programs that ask for nothing but the standard.
const ONCE: c_int = libc::SA_RESETHAND | libc::SA_NODEFER;

older! {
    signal: libc::SA_RESTART,
    bsd_signal: libc::SA_RESTART,
    ssignal: libc::SA_RESTART,
    sysv_signal: ONCE,
    __sysv_signal: ONCE,
}

/// `SIG_HOLD`, which the libc crate does not have: the signal is to be blocked.
const HOLD: usize = 2;

/// # Safety
/// As sigset(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigset(number: c_int, handler: usize) -> usize {
    // SAFETY: the C library's type for the function of this name.
    static REAL: Symbol<Signal> = unsafe { Symbol::new(c"sigset") };
    match index_of(number) {
        // These are never blocked.
        Some(index) if handler == HOLD => THEIRS
            .lock()
            .and_then(|theirs| theirs[index])
            .map_or(libc::SIG_DFL, |theirs| theirs.sa_sigaction),
        Some(_) => replace(number, handler, 0),
        None => {
            let handler = in_place_of(handler, number);
            // SAFETY: the same call as our caller's.
            as_wanted(
                REAL.look_up()
                    .map_or(libc::SIG_ERR, |real| unsafe { real(number, handler) }),
            )
        }
    }
}

/// # Safety
/// As sigignore(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigignore(number: c_int) -> c_int {
    // SAFETY: all zeros is a valid action.
    let mut action: Action = unsafe { std::mem::zeroed() };
    action.sa_sigaction = libc::SIG_IGN;
    // SAFETY: a valid action.
    unsafe { sigaction(number, &raw const action, std::ptr::null_mut()) }
}
