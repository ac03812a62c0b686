//! Lets the compactor lie low: where nothing runs on a processor but threads of the lowest class (`SCHED_IDLE`), it counts as idle, and who
//! is woken there goes on there and then (`select_idle_sibling` and `sched_idle_cpu`, kernel/sched/fair.c, Linux 5.6 on). When it waits for
//! the next page, the compactor need not even be woken: it has been ready to run since.
//!
//! Any other thread of that processor would keep it from running, perhaps for a second. So while it lies low a watcher looks every
//! 4 ms whether it has got on, and has it come first again if not.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use libc::c_int;
use libc::c_long;
use pagewise_interpose::system::wait;
use pagewise_interpose::system::wake;
use pagewise_interpose::thread_id;

use super::thread;

const TICK_NS: u64 = 4_000_000;
/// After so many ticks without anybody served, the watcher sleeps until the compactor lies low again.
const MOST_QUIET_TICKS: u32 = 8;
const LONG_NS: u64 = 3_600_000_000_000;

static MEMORY: thread::Memory = thread::Memory::new();
/// 1 while the compactor lies low.
static IS_LOW: AtomicU32 = AtomicU32::new(0);
/// How often it lay low to wake somebody.
static SERVED: AtomicU32 = AtomicU32::new(0);
/// How often it had to be raised.
static RAISED: AtomicU32 = AtomicU32::new(0);
/// 1 while the watcher waits for it to lie low.
static SLEEPS: AtomicU32 = AtomicU32::new(0);
static COMPACTOR: AtomicU32 = AtomicU32::new(0);
/// What nobody changes.
static NEVER: AtomicU32 = AtomicU32::new(0);

/// Starts the watcher of this thread, which comes first. False: it may not lie low.
pub(super) fn begin() -> bool {
    COMPACTOR.store(thread_id(), Ordering::Relaxed);
    IS_LOW.store(0, Ordering::Relaxed);
    // Who must not come first again would be lost.
    set_class(0, libc::SCHED_IDLE) && come_first(0) && thread::spawn(&MEMORY, watch).is_ok()
}

/// Whom the compactor wakes goes on at once on this processor if nobody else is there.
pub(super) fn lie_low() {
    SERVED.fetch_add(1, Ordering::Relaxed);
    if is_low() {
        return;
    }
    set_class(0, libc::SCHED_IDLE);
    IS_LOW.store(1, Ordering::SeqCst);
    if SLEEPS.load(Ordering::SeqCst) != 0 {
        wake(&IS_LOW);
    }
}

pub(super) fn is_low() -> bool {
    IS_LOW.load(Ordering::Relaxed) != 0
}

/// No other thread of the program runs here before the compactor waits again.
pub(super) fn stand_up() {
    if is_low() {
        come_first(0);
        IS_LOW.store(0, Ordering::SeqCst);
    }
}

/// How often the compactor had to be raised.
pub(super) fn raised() -> u32 {
    RAISED.load(Ordering::Relaxed)
}

extern "C" fn watch() {
    come_first(0);
    loop {
        SLEEPS.store(1, Ordering::SeqCst);
        while IS_LOW.load(Ordering::SeqCst) == 0 {
            wait(&IS_LOW, 0, LONG_NS);
        }
        SLEEPS.store(0, Ordering::SeqCst);
        let mut quiet = 0;
        while quiet < MOST_QUIET_TICKS {
            let before = SERVED.load(Ordering::Relaxed);
            wait(&NEVER, 0, TICK_NS);
            let has_served = SERVED.load(Ordering::Relaxed) != before;
            quiet = if has_served { 0 } else { quiet + 1 };
            if !has_served && is_low() && come_first(COMPACTOR.load(Ordering::Relaxed)) {
                RAISED.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Has a thread run before all that are scheduled in the usual way; 0 is this one. False: it may not.
pub(super) fn come_first(thread: u32) -> bool {
    set_class(thread, libc::SCHED_FIFO)
}

fn set_class(thread: u32, class: c_int) -> bool {
    let parameter = libc::sched_param {
        // The lowest.
        sched_priority: c_int::from(class == libc::SCHED_FIFO),
    };
    // SAFETY: a valid parameter.
    let status = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            c_long::from(thread),
            c_long::from(class | libc::SCHED_RESET_ON_FORK),
            &raw const parameter,
        )
    };
    status == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;
    use std::time::Instant;

    #[test]
    fn who_lies_low_on_a_busy_processor_is_raised() {
        static IS_OVER: AtomicBool = AtomicBool::new(false);
        super::super::schedule::stay_on(0);
        let compactor = std::thread::spawn(|| {
            if !come_first(0) || !begin() {
                eprintln!("not tried: this user may not have a thread come first");
                return;
            }
            let before = raised();
            lie_low();
            assert!(is_low());
            let begun = Instant::now();
            while raised() == before && begun.elapsed() < Duration::from_secs(60) {
                std::hint::spin_loop();
            }
            assert_ne!(raised(), before, "nobody came");
            stand_up();
            assert!(!is_low());
        });
        let busy = std::thread::spawn(|| {
            while !IS_OVER.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let outcome = compactor.join();
        IS_OVER.store(true, Ordering::Relaxed);
        busy.join().expect("joined");
        outcome.expect("raised");
    }
}
