//! Locks that are made later, by a thread beside the program: of large blocks that were copied to another place as they grew. Such
//! a block may move again at once. To lock a page that is in memory takes about 0.25 us, and to end that as much: done at each
//! move, that would be a program's own time again and again.
//!
//! The thread ends when there is nothing to do for a while: a program that has another thread, be it asleep, was seen to take a sixth
//! longer where its pages are written out.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use pagewise_abi::status::Total;
use pagewise_interpose as interpose;
use pagewise_interpose::Leftover;
use pagewise_interpose::system;

use super::Hook;
use super::loaded;
use super::loaded::Plan;
use super::locks;
use super::object::Object;
use super::objects;
use super::objects::Due;
use super::prezero;

/// Smaller objects are locked where they are made: that is not worth a thread.
const LEAST_BYTES: usize = 1 << 20;
/// An object is locked when it has not moved for so long,
const REST_NS: u64 = 20_000_000;
/// and so much more for each MiB: the locks of a MiB take about 0.12 ms, their end included.
const REST_NS_OF_MIB: u64 = 2_000_000;
/// The thread looks so often whether it is the last,
const ASLEEP_NS: u64 = 100_000_000;
/// and ends after so long without work.
const IDLE_NS: u64 = 500_000_000;

const NONE: u32 = 0;
const RUNNING: u32 = 1;
const CANNOT: u32 = 2;
static STATE: AtomicU32 = AtomicU32::new(NONE);
/// Changes with each object that is due some time.
static NEWS: AtomicU32 = AtomicU32::new(0);

/// Puts an object's locks off, which then is to be made known by [`wake`]. False: nobody would make them later.
pub(super) fn put_off(plan: &Plan, object: &mut Object, hook: Hook) -> bool {
    let is_large = object.bytes >= LEAST_BYTES;
    if !is_large || !is_running(plan, hook) {
        return false;
    }
    object.due_ns = interpose::now_ns() + rest_ns(object.bytes);
    true
}

fn rest_ns(bytes: usize) -> u64 {
    REST_NS + (bytes as u64 >> 20) * REST_NS_OF_MIB
}

/// Starts the thread if need be, where that may be done.
fn is_running(plan: &Plan, hook: Hook) -> bool {
    match STATE.load(Ordering::SeqCst) {
        RUNNING => return true,
        CANNOT => return false,
        _ if !prezero::may_start_thread(hook) => return false,
        _ => {}
    }
    if STATE.swap(RUNNING, Ordering::SeqCst) == NONE
        && let Err(errno) = interpose::spawn(run)
    {
        plan.status.set(Total::ThreadErrno, errno as u64);
        STATE.store(CANNOT, Ordering::Relaxed);
        return false;
    }
    true
}

/// An object whose locks were put off is among those that are alive.
pub(super) fn wake(plan: &Plan, hook: Hook) {
    // The thread may have ended since it was asked for.
    if is_running(plan, hook) {
        NEWS.fetch_add(1, Ordering::Relaxed);
        system::wake(&NEWS);
    } else {
        while objects::work_on_due(u64::MAX, |object| lock(plan, object)) == Due::Now {}
    }
}

/// A forked child has no such thread.
pub(super) fn forget() {
    STATE.store(NONE, Ordering::Relaxed);
}

fn run() {
    let Some(plan) = loaded::plan() else {
        return;
    };
    let mut leftover = Leftover::default();
    let (mut spent_ns, mut busy_ns) = (0, interpose::now_ns());
    loop {
        let news = NEWS.load(Ordering::Relaxed);
        let now_ns = interpose::now_ns();
        let due = objects::work_on_due(now_ns, |object| lock(plan, object));
        if due != Due::Never {
            busy_ns = now_ns;
        }
        let pause_ns = match due {
            Due::Now => continue,
            Due::At(due_ns) => due_ns.saturating_sub(now_ns).min(ASLEEP_NS),
            Due::Never => ASLEEP_NS,
        };
        let now_spent_ns = system::thread_time_ns();
        plan.status.add(Total::ThreadNs, now_spent_ns - spent_ns);
        spent_ns = now_spent_ns;
        let is_idle = now_ns.saturating_sub(busy_ns) > IDLE_NS;
        if leftover.is_all(now_ns) || is_idle && may_end() {
            return;
        }
        system::wait(&NEWS, news, pause_ns);
    }
}

/// Whether nobody counts on this thread. Who does after that starts another.
fn may_end() -> bool {
    STATE.store(NONE, Ordering::SeqCst);
    // What came before that.
    let is_any = objects::count(|object| object.due_ns > 0) > 0;
    !is_any || STATE.swap(RUNNING, Ordering::SeqCst) == RUNNING
}

fn lock(plan: &Plan, object: &mut Object) {
    if locks::lock_piece(plan, object, usize::MAX) {
        object.due_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_rests_longer_before_it_is_locked() {
        assert_eq!(rest_ns(1 << 20), 22_000_000);
        assert_eq!(rest_ns(1 << 30), 2_068_000_000);
    }
}
