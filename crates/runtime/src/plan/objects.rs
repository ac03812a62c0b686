//! The objects that match a rule and are alive.

use std::ops::Range;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::CALLS;
use pagewise_abi::plan::FRESH;
use pagewise_interpose::Spin;

pub(super) const PAGE: usize = 4096;
/// More at once are left alone.
const MOST_OBJECTS: usize = 512;
/// Of these, pieces of fresh memory: the others are for rules.
const MOST_FRESH: usize = MOST_OBJECTS / 2;
const FILTER: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    pub(super) start: usize,
    pub(super) bytes: usize,
    /// Where the allocation starts that it is a piece of: by that it is released.
    pub(super) owner: usize,
    pub(super) rule: usize,
    /// Bytes that count against the budget.
    pub(super) locked: u64,
    /// Bytes that would be locked if the budget held them.
    pub(super) beyond: u64,
    /// Tells it from an earlier one at the same place.
    pub(super) number: usize,
    /// The program says that it is swept, whatever the rule does.
    pub(super) streamed: bool,
    /// What the program says is to be kept of it, bytes.
    pub(super) keep: usize,
    /// The helper has nothing more to do to it.
    pub(super) is_done: bool,
    /// When it is to be locked, ns, if that is still to be done; 0: it is not.
    pub(super) due_ns: u64,
}

struct Table {
    objects: [Option<Object>; MOST_OBJECTS],
    next_number: usize,
}

static TABLE: Spin<Table> = Spin::new(Table {
    objects: [None; MOST_OBJECTS],
    next_number: 1,
});
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Of these, those that the program spoke of itself, which may begin anywhere in a block.
static CALLED: AtomicUsize = AtomicUsize::new(0);
/// The number of the object that a helper works on; 0: of none. Who ends that object waits.
static BUSY: AtomicUsize = AtomicUsize::new(0);
/// How many objects are released by addresses of this hash: 0 answers nearly every release.
static OWNERS: [AtomicU8; FILTER] = [const { AtomicU8::new(0) }; FILTER];

impl Object {
    pub(super) fn new(start: usize, bytes: usize, rule: usize) -> Self {
        Self {
            start,
            bytes,
            owner: start,
            rule,
            locked: 0,
            beyond: 0,
            number: 0,
            streamed: false,
            keep: 0,
            is_done: false,
            due_ns: 0,
        }
    }

    /// The whole pages in it: those at its ends may be others' too.
    pub(super) fn pages(&self) -> Range<usize> {
        let start = self.start.next_multiple_of(PAGE);
        start..(self.start.saturating_add(self.bytes) / PAGE * PAGE).max(start)
    }
}

fn place(address: usize) -> &'static AtomicU8 {
    let hash = (address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &OWNERS[(hash >> 52) as usize]
}

#[inline(always)]
pub(super) fn may_be_owned_by(address: usize) -> bool {
    place(address).load(Ordering::Relaxed) != 0
}

#[inline(always)]
pub(super) fn is_any() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

#[inline(always)]
pub(super) fn is_any_called() -> bool {
    CALLED.load(Ordering::Relaxed) != 0
}

/// Whether there is room for a piece of fresh memory. One that is done makes room.
fn has_room_for_fresh() -> bool {
    let is_fresh = |object: &Object| object.rule == FRESH;
    let count = TABLE.lock().map_or(MOST_FRESH, |table| {
        let objects = table.objects.iter().flatten();
        objects.filter(|object| is_fresh(object)).count()
    });
    count < MOST_FRESH || remove(|object| is_fresh(object) && object.is_done).is_some()
}

/// False: no room.
pub(super) fn insert(mut object: Object) -> bool {
    if object.rule == FRESH && !has_room_for_fresh() {
        return false;
    }
    let Some(mut table) = TABLE.lock() else {
        return false;
    };
    let Some(free) = table.objects.iter().position(Option::is_none) else {
        return false;
    };
    object.number = table.next_number;
    table.next_number += 1;
    table.objects[free] = Some(object);
    COUNT.fetch_add(1, Ordering::Relaxed);
    CALLED.fetch_add(usize::from(object.rule == CALLS), Ordering::Relaxed);
    // At most 512 of them, but a counter holds 255: then it stays.
    let _ = place(object.owner).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
        count.checked_add(1)
    });
    true
}

/// The allocation at this address, or one of the pieces that are left of it.
pub(super) fn remove_owned_by(address: usize) -> Option<Object> {
    remove(|object| object.owner == address)
}

/// One of those that the program spoke of itself and that begin in this block.
pub(super) fn remove_called_in(address: usize, bytes: usize) -> Option<Object> {
    let block = address..address.saturating_add(bytes);
    remove(|object| object.rule == CALLS && block.contains(&object.start))
}

/// Has the locks of one that has some ended, by `unlock`; returns it as it was before. The object lives on without. Until
/// that is done no object ends: its memory could be another's by then, with locks of its own.
pub(super) fn give_up_lock(unlock: impl FnOnce(&Object)) -> Option<Object> {
    let mut table = TABLE.lock()?;
    let mut objects = table.objects.iter_mut().flatten();
    let object = objects.find(|object| object.locked > 0)?;
    let before = *object;
    unlock(&before);
    object.locked = 0;
    Some(before)
}

/// One of those that have a byte in this range.
pub(super) fn remove_overlapping(start: usize, bytes: usize) -> Option<Object> {
    let end = start.saturating_add(bytes);
    remove(|object| object.start < end && start < object.start + object.bytes)
}

pub(super) fn remove(is_meant: impl Fn(&Object) -> bool) -> Option<Object> {
    remove_after(is_meant, |_| ())
}

/// The same, after something was done to it: to memory that was given back already and may be another's. Whoever that is ends
/// this object first, and so waits.
pub(super) fn remove_after(
    is_meant: impl Fn(&Object) -> bool,
    work: impl FnOnce(&Object),
) -> Option<Object> {
    let mut table = TABLE.lock()?;
    let slot = table
        .objects
        .iter_mut()
        .find(|slot| slot.as_ref().is_some_and(&is_meant))?;
    work(slot.as_ref()?);
    let object = slot.take()?;
    drop(table);
    while BUSY.load(Ordering::Acquire) == object.number {
        std::thread::yield_now();
    }
    COUNT.fetch_sub(1, Ordering::Relaxed);
    CALLED.fetch_sub(usize::from(object.rule == CALLS), Ordering::Relaxed);
    let _ = place(object.owner).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
        (count != u8::MAX).then(|| count.saturating_sub(1))
    });
    Some(object)
}

/// Copies those that are alive, as far as there is room, and returns how many.
pub(super) fn list(places: &mut [Object], is_meant: impl Fn(&Object) -> bool) -> usize {
    let Some(table) = TABLE.lock() else {
        return 0;
    };
    let alive = table
        .objects
        .iter()
        .flatten()
        .filter(|object| is_meant(object));
    places
        .iter_mut()
        .zip(alive)
        .map(|(place, object)| *place = *object)
        .count()
}

/// How many are alive.
pub(super) fn count(is_meant: impl Fn(&Object) -> bool) -> usize {
    TABLE.lock().map_or(0, |table| {
        let alive = table.objects.iter().flatten();
        alive.filter(|object| is_meant(object)).count()
    })
}

/// The one of this number, if it is alive.
pub(super) fn find(number: usize) -> Option<Object> {
    let table = TABLE.lock()?;
    let mut alive = table.objects.iter().flatten();
    alive.find(|object| object.number == number).copied()
}

/// The one that is released by this address, as it is; from here on it is not due any more.
pub(super) fn suspend(address: usize) -> Option<Object> {
    let mut table = TABLE.lock()?;
    let mut alive = table.objects.iter_mut().flatten();
    let object = alive.find(|object| object.owner == address)?;
    let before = *object;
    object.due_ns = 0;
    Some(before)
}

/// How many have a byte in this range.
pub(super) fn overlapping(start: usize, bytes: usize) -> usize {
    let end = start.saturating_add(bytes);
    count(|object| object.start < end && start < object.start + object.bytes)
}

/// What [`work_on_due`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Something was done to one.
    Now,
    /// The first is due then, ns.
    At(u64),
    /// None is.
    Never,
}

/// Does something, for a millisecond at most, to one that is due. No object ends meanwhile.
pub(super) fn work_on_due(now_ns: u64, work: impl FnOnce(&mut Object)) -> Due {
    let Some(mut table) = TABLE.lock() else {
        return Due::Never;
    };
    let waiting = table.objects.iter_mut().flatten();
    let first = waiting
        .filter(|object| object.due_ns > 0)
        .min_by_key(|object| object.due_ns);
    match first {
        Some(object) if object.due_ns <= now_ns => {
            work(object);
            Due::Now
        }
        Some(object) => Due::At(object.due_ns),
        None => Due::Never,
    }
}

/// The oldest of those that came after the one of this number: to go through them without a place for all.
pub(super) fn next_after(number: usize, is_meant: impl Fn(&Object) -> bool) -> Option<Object> {
    let table = TABLE.lock()?;
    let alive = table.objects.iter().flatten();
    let later = alive.filter(|object| object.number > number && is_meant(object));
    later.min_by_key(|object| object.number).copied()
}

/// The helper has nothing more to do to an object.
pub(super) fn retire(number: usize) {
    if let Some(mut table) = TABLE.lock()
        && let mut objects = table.objects.iter_mut().flatten()
        && let Some(object) = objects.find(|object| object.number == number)
    {
        object.is_done = true;
    }
}

/// Does something to an object that is alive, and until that is done stays so. False: it has ended. By one thread only, and
/// for a few milliseconds at most.
pub(super) fn while_alive(number: usize, work: impl FnOnce()) -> bool {
    let is_alive = TABLE.lock().is_some_and(|table| {
        let mut objects = table.objects.iter().flatten();
        let is_alive = objects.any(|object| object.number == number);
        if is_alive {
            BUSY.store(number, Ordering::Release);
        }
        is_alive
    });
    if is_alive {
        work();
        BUSY.store(0, Ordering::Release);
    }
    is_alive
}

/// In a forked child: its parent's objects are not looked after here.
pub(super) fn forget() {
    TABLE.break_open();
    if let Some(mut table) = TABLE.lock() {
        table.objects = [None; MOST_OBJECTS];
    }
    BUSY.store(0, Ordering::Relaxed);
    COUNT.store(0, Ordering::Relaxed);
    CALLED.store(0, Ordering::Relaxed);
    for counter in &OWNERS {
        counter.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_by_start_and_by_overlap() {
        let base = 0x7000_0000_0000;
        assert!(insert(Object::new(base + 16, 100_000, 1)));
        assert!(insert(Object::new(base + 200_000, 70_000, 2)));
        assert!(may_be_owned_by(base + 16) && is_any());
        assert!(remove_owned_by(base).is_none());
        assert!(remove_overlapping(base + 100_016, 99_984).is_none());
        assert_eq!(
            remove_overlapping(base + 100_015, 1).map(|object| object.rule),
            Some(1)
        );
        assert!(!may_be_owned_by(base + 16));
        assert_eq!(
            remove_owned_by(base + 200_000).map(|object| object.rule),
            Some(2)
        );
    }

    #[test]
    fn fresh_memory_leaves_room_for_rules_and_what_is_done_for_more() {
        let base = 0x7300_0000_0000;
        let new = |index: usize, rule| Object::new(base + index * 100_000, 100_000, rule);
        for index in 0..MOST_FRESH {
            assert!(insert(new(index, FRESH)));
        }
        let more = new(MOST_FRESH, FRESH);
        assert!(!insert(more));
        assert!(insert(new(MOST_FRESH + 1, 5)));
        let mut found = [more; 1];
        let is_first = |object: &Object| object.start == base;
        assert_eq!(list(&mut found, is_first), 1);
        retire(found[0].number);
        assert!(insert(more) && !insert(more));
        assert_eq!(list(&mut found, is_first), 0);
        let is_ours = |object: &Object| (base..base + (1 << 30)).contains(&object.start);
        let all = std::iter::from_fn(|| remove(is_ours));
        assert_eq!(all.count(), MOST_FRESH + 1);
    }

    #[test]
    fn what_the_program_spoke_of_goes_with_the_block_it_is_in() {
        let base = 0x7400_0000_0000;
        assert!(insert(Object::new(base + 50_000, 10_000, CALLS)));
        assert!(insert(Object::new(base + 70_000, 10_000, 3)));
        assert!(is_any_called());
        assert!(remove_called_in(base, 50_000).is_none());
        assert!(remove_called_in(base, 50_001).is_some());
        assert!(remove_called_in(base, 100_000).is_none(), "of a rule");
        assert!(remove_owned_by(base + 70_000).is_some());
    }

    #[test]
    fn locks_are_given_up_once_and_objects_gone_through_by_age() {
        let base = 0x7500_0000_0000;
        let locked = Object {
            locked: 4096,
            ..Object::new(base, 100_000, 6)
        };
        assert!(insert(locked) && insert(Object::new(base + 200_000, 100_000, 6)));
        let is_ours = |object: &Object| object.rule == 6;
        let mut unlocked = 0;
        let given = give_up_lock(|object| unlocked += object.locked);
        assert_eq!(
            (given.map(|object| object.locked), unlocked),
            (Some(4096), 4096)
        );
        assert!(give_up_lock(|_| unreachable!("none has locks")).is_none());
        assert_eq!(count(is_ours), 2);
        let first = next_after(0, is_ours).expect("the first");
        let second = next_after(first.number, is_ours).expect("the second");
        assert_eq!((first.start, second.start), (base, base + 200_000));
        assert!(next_after(second.number, is_ours).is_none());
        assert!(remove(is_ours).is_some() && remove(is_ours).is_some());
    }

    #[test]
    fn pieces_are_released_by_their_owner() {
        let base = 0x7200_0000_0000;
        let piece = |start| Object {
            owner: base + 16,
            ..Object::new(start, 100_000, 4)
        };
        // The piece at the start is gone already.
        assert!(insert(piece(base + 200_000)) && insert(piece(base + 400_000)));
        assert!(may_be_owned_by(base + 16));
        assert!(remove_owned_by(base + 200_000).is_none());
        assert!(remove_owned_by(base + 16).is_some() && remove_owned_by(base + 16).is_some());
        assert!(remove_owned_by(base + 16).is_none() && !may_be_owned_by(base + 16));
    }

    #[test]
    fn an_object_does_not_end_while_it_is_worked_on() {
        use std::sync::atomic::AtomicBool;
        static WORKING: AtomicBool = AtomicBool::new(false);
        let base = 0x7100_0000_0000;
        assert!(insert(Object::new(base, 100_000, 3)));
        let mut found = [Object::new(0, 0, 0); 1];
        assert_eq!(list(&mut found, |object| object.start == base), 1);
        let number = found[0].number;
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                while_alive(number, || {
                    WORKING.store(true, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    WORKING.store(false, Ordering::SeqCst);
                })
            });
            while !WORKING.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            assert!(remove_owned_by(base).is_some());
            assert!(!WORKING.load(Ordering::SeqCst));
            assert!(worker.join().expect("it ends"));
        });
        assert!(!while_alive(number, || ()));
    }

    #[test]
    fn what_is_due_is_worked_on_in_its_turn() {
        let base = 0x7400_0000_0000;
        let due = |at: usize, due_ns| Object {
            due_ns,
            ..Object::new(base + at * 200_000, 100_000, 7)
        };
        assert!(insert(due(0, 300)) && insert(due(1, 200)) && insert(due(2, 0)));
        assert_eq!(work_on_due(199, |_| unreachable!("not yet")), Due::At(200));
        let mut seen = 0;
        let work = |object: &mut Object| {
            seen = object.start;
            (object.due_ns, object.locked) = (0, 4096);
        };
        assert_eq!(work_on_due(250, work), Due::Now);
        assert_eq!(seen, base + 200_000);
        assert_eq!(suspend(seen).map(|object| object.locked), Some(4096));
        assert_eq!(overlapping(base, 300_000), 2);
        assert_eq!(work_on_due(250, |_| unreachable!("not yet")), Due::At(300));
        let mut told = 0;
        let removed = remove_after(|object| object.start == seen, |object| told = object.locked);
        assert_eq!((removed.map(|object| object.rule), told), (Some(7), 4096));
        assert_eq!(suspend(base).map(|object| object.due_ns), Some(300));
        assert_eq!(
            work_on_due(900, |_| unreachable!("none is due")),
            Due::Never
        );
        for _ in 0..2 {
            assert!(remove(|object| object.rule == 7).is_some());
        }
    }

    #[test]
    fn only_whole_pages_are_touched() {
        assert_eq!(
            Object::new(PAGE + 16, 3 * PAGE, 0).pages(),
            2 * PAGE..4 * PAGE
        );
        assert!(Object::new(PAGE + 16, 100, 0).pages().is_empty());
    }
}
