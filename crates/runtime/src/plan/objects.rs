//! The objects that match a rule and are alive.
//!
//! Blocks of a rule that lie side by side are one object ([`join`]), so that an array of many blocks is one place to sweep, and one
//! to lock. Of such an object is known where it lies, and not where its blocks begin: all memory in it is the rule's, but for less
//! than a page between two blocks, and the block that is released is cut out ([`cut`]).

use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::CALLS;
use pagewise_abi::plan::FRESH;
use pagewise_interpose::Spin;

use super::object::Object;
use super::owners;

/// More at once are left alone.
const MOST_OBJECTS: usize = 512;
/// Of these, pieces of fresh memory: the others are for rules.
const MOST_FRESH: usize = MOST_OBJECTS / 2;

struct Table {
    objects: [Option<Object>; MOST_OBJECTS],
    /// Of these places, only the first so many were ever taken.
    used: usize,
    next_number: usize,
}

static TABLE: Spin<Table> = Spin::new(Table {
    objects: [None; MOST_OBJECTS],
    used: 0,
    next_number: 1,
});
/// Changes whenever an object comes, goes, or is another than it was.
static CHANGES: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Of these, those that the program spoke of itself, which may begin anywhere in a block.
static CALLED: AtomicUsize = AtomicUsize::new(0);
/// The number of the object that a helper works on; 0: of none. Who ends that object waits.
static BUSY: AtomicUsize = AtomicUsize::new(0);

impl Table {
    fn alive(&self) -> impl Iterator<Item = &Object> {
        self.objects[..self.used].iter().flatten()
    }

    fn alive_mut(&mut self) -> impl Iterator<Item = &mut Object> {
        self.objects[..self.used].iter_mut().flatten()
    }

    fn place_of(&self, is_meant: impl Fn(&Object) -> bool) -> Option<usize> {
        let places = self.objects[..self.used].iter();
        let mut places = places.map(|place| place.as_ref());
        places.position(|object| object.is_some_and(&is_meant))
    }

    /// False: no room.
    fn put(&mut self, object: Object) -> bool {
        let Some(free) = self.objects.iter().position(Option::is_none) else {
            return false;
        };
        self.objects[free] = Some(object);
        self.used = self.used.max(free + 1);
        true
    }

    fn new_number(&mut self) -> usize {
        self.next_number += 1;
        self.next_number - 1
    }
}

/// Another number than before: some object came, went or changed since.
pub(super) fn changes() -> usize {
    CHANGES.load(Ordering::Acquire)
}

pub(super) fn note_change() {
    CHANGES.fetch_add(1, Ordering::Release);
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
        table.alive().filter(|object| is_fresh(object)).count()
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
    object.number = table.new_number();
    if !table.put(object) {
        return false;
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    CALLED.fetch_add(usize::from(object.rule == CALLS), Ordering::Relaxed);
    if !object.is_cut() {
        owners::add(object.owner);
    }
    note_change();
    true
}

/// A new object becomes one with those of its rule beside it, if they are locked as it is. `bridge` locks what lies between two
/// that are, whole pages. False: it stays alone.
pub(super) fn join(block: Object, bridge: impl Fn(&mut Object, Range<usize>) -> bool) -> bool {
    if !block.may_be_joined {
        return false;
    }
    let Some(mut table) = TABLE.lock() else {
        return false;
    };
    let (mut joined, mut others) = (block, 0);
    // One below it, and one above.
    while let Some(at) = table.place_of(|object| object.is_like(&joined))
        && let Some(other) = table.objects[at]
    {
        let mut both = joined.with(&other);
        if both.locked > 0 {
            let (lower, upper) = match other.start < joined.start {
                true => (other, joined),
                false => (joined, other),
            };
            if !bridge(&mut both, lower.pages().end..upper.pages().start) {
                break;
            }
        }
        table.objects[at] = None;
        others += 1;
        if !other.is_cut() {
            owners::add_block(other.owner);
            owners::remove(other.owner);
        }
        joined = both;
    }
    if others == 0 {
        return false;
    }
    if joined.number == 0 {
        joined.number = table.new_number();
    }
    if !block.of_heap {
        owners::note_joined(&(joined.start..joined.end()));
        owners::add_block(block.owner);
    }
    table.put(joined);
    COUNT.fetch_sub(others - 1, Ordering::Relaxed);
    note_change();
    true
}

/// What was cut out of a joined object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) rule: usize,
    pub(super) bytes: usize,
    /// Of these, what was locked.
    pub(super) locked: u64,
    /// What the budget did not hold of it.
    pub(super) beyond: u64,
    /// There was no room for what is left behind it, which is left alone.
    pub(super) is_torn: bool,
}

/// A range is taken out of one of the joined objects, or pieces of the heap, that it is in: its block is released, or it is no longer the rule's. What is
/// left of that before and behind is an object each. Where it was locked, `unlock` ends the locks; until that is done no object
/// begins or ends.
pub(super) fn cut(start: usize, bytes: usize, unlock: impl Fn(Range<usize>)) -> Option<Cut> {
    let end = start.saturating_add(bytes);
    let mut table = TABLE.lock()?;
    let at =
        table.place_of(|object| object.is_cut() && object.start < end && start < object.end())?;
    let whole = table.objects[at].take()?;
    let (from, to) = (start.max(whole.start), end.min(whole.end()));
    let (mut lower, mut upper) = (whole.part(whole.start..from), whole.part(to..whole.end()));
    if let (Some(lower), Some(upper)) = (&mut lower, &mut upper) {
        // The larger one is who it was.
        let smaller = if lower.bytes < upper.bytes {
            lower
        } else {
            upper
        };
        smaller.number = table.new_number();
    }
    let mut beyond = whole.beyond;
    if let Some(rest) = lower.as_mut().or(upper.as_mut()) {
        beyond = beyond.min((to - from) as u64);
        rest.beyond = whole.beyond - beyond;
    }
    let mut gone = whole.pages();
    if let Some(lower) = lower {
        gone.start = lower.pages().end;
        table.put(lower);
    }
    let has_upper = upper.is_some_and(|upper| table.put(upper));
    if let Some(upper) = upper.filter(|_| has_upper) {
        gone.end = upper.pages().start;
    }
    let locked = whole.locked_in(&gone);
    if locked > 0 {
        unlock(gone);
    }
    match usize::from(lower.is_some()) + usize::from(has_upper) {
        0 => _ = COUNT.fetch_sub(1, Ordering::Relaxed),
        left => _ = COUNT.fetch_add(left - 1, Ordering::Relaxed),
    }
    note_change();
    Some(Cut {
        rule: whole.rule,
        bytes: to - from,
        locked: locked as u64,
        beyond,
        is_torn: upper.is_some() && !has_upper,
    })
}

/// The allocation at this address, or one of the pieces that are left of it.
pub(super) fn remove_owned_by(address: usize) -> Option<Object> {
    remove(|object| object.owner == address && !object.is_cut())
}

/// One of those that the program spoke of itself and that begin in this block.
pub(super) fn remove_called_in(address: usize, bytes: usize) -> Option<Object> {
    let block = address..address.saturating_add(bytes);
    remove(|object| object.rule == CALLS && block.contains(&object.start))
}

/// Has the locks of one that has some, and is meant, ended by `unlock`; returns it as it was before. The object lives on without. Until
/// that is done no object ends: its memory could be another's by then, with locks of its own.
pub(super) fn give_up_lock(
    is_meant: impl Fn(&Object) -> bool,
    unlock: impl FnOnce(&Object),
) -> Option<Object> {
    let mut table = TABLE.lock()?;
    let mut alive = table.alive_mut();
    let object = alive.find(|object| object.locked > 0 && is_meant(object))?;
    let before = *object;
    unlock(&before);
    (object.locked, object.lock_rests) = (0, false);
    note_change();
    Some(before)
}

/// Does something to the object of this number, which neither ends nor is another's meanwhile, nor is followed anew therefore. False: it
/// has ended.
pub(super) fn change(number: usize, work: impl FnOnce(&mut Object)) -> bool {
    let Some(mut table) = TABLE.lock() else {
        return false;
    };
    let mut alive = table.alive_mut();
    let object = alive.find(|object| object.number == number);
    object.map(work).is_some()
}

/// One of those that have a byte in this range; joined ones are [`cut`].
pub(super) fn remove_overlapping(start: usize, bytes: usize) -> Option<Object> {
    let end = start.saturating_add(bytes);
    remove(|object| object.start < end && start < object.end() && !object.is_cut())
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
    let at = table.place_of(is_meant)?;
    work(table.objects[at].as_ref()?);
    let object = table.objects[at].take()?;
    note_change();
    drop(table);
    while BUSY.load(Ordering::Acquire) == object.number {
        std::thread::yield_now();
    }
    COUNT.fetch_sub(1, Ordering::Relaxed);
    CALLED.fetch_sub(usize::from(object.rule == CALLS), Ordering::Relaxed);
    if !object.is_cut() {
        owners::remove(object.owner);
    }
    Some(object)
}

/// Copies those that are alive, the largest if there is no room for all, and returns how many.
pub(super) fn list(places: &mut [Object], is_meant: impl Fn(&Object) -> bool) -> usize {
    let Some(table) = TABLE.lock() else {
        return 0;
    };
    let mut count = 0;
    for object in table.alive().filter(|object| is_meant(object)) {
        if let Some(free) = places.get_mut(count) {
            *free = *object;
            count += 1;
        } else if let Some(smallest) = places.iter_mut().min_by_key(|place| place.bytes)
            && smallest.bytes < object.bytes
        {
            *smallest = *object;
        }
    }
    count
}

/// How many are alive.
pub(super) fn count(is_meant: impl Fn(&Object) -> bool) -> usize {
    TABLE.lock().map_or(0, |table| {
        table.alive().filter(|object| is_meant(object)).count()
    })
}

/// Whether a range is within an object of a rule, and nothing of it is locked.
pub(super) fn is_swept(rule: usize, range: &Range<usize>) -> bool {
    let is_within = |object: &Object| {
        let pages = object.pages();
        object.rule == rule
            && pages.start + object.locked as usize <= range.start
            && range.end <= pages.end
    };
    count(is_within) > 0
}

/// The one of this number, if it is alive.
pub(super) fn find(number: usize) -> Option<Object> {
    let table = TABLE.lock()?;
    let mut alive = table.alive();
    alive.find(|object| object.number == number).copied()
}

/// The one that is released by this address, as it is; from here on it is not due any more, nor joined with others.
pub(super) fn suspend(address: usize) -> Option<Object> {
    let mut table = TABLE.lock()?;
    let is_meant = |object: &&mut Object| object.owner == address && !object.is_cut();
    let object = table.alive_mut().find(is_meant)?;
    let before = *object;
    object.due_ns = 0;
    object.may_be_joined = false;
    Some(before)
}

/// The range of the first of those that have a byte in this range.
pub(super) fn first_in(start: usize, end: usize) -> Option<Range<usize>> {
    let table = TABLE.lock()?;
    let alive = table.alive();
    let there = alive.filter(|object| object.start < end && start < object.end());
    let first = there.min_by_key(|object| object.start)?;
    Some(first.start..first.end())
}

/// How many have a byte in this range.
pub(super) fn overlapping(start: usize, bytes: usize) -> usize {
    let end = start.saturating_add(bytes);
    count(|object| object.start < end && start < object.end())
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
    let waiting = table.alive_mut().filter(|object| object.due_ns > 0);
    match waiting.min_by_key(|object| object.due_ns) {
        Some(object) if object.due_ns <= now_ns => {
            work(object);
            note_change();
            Due::Now
        }
        Some(object) => Due::At(object.due_ns),
        None => Due::Never,
    }
}

/// How much of a range is locked, bytes.
pub(super) fn locked_in(pages: &Range<usize>) -> u64 {
    TABLE.lock().map_or(0, |table| {
        let locked = table.alive().map(|object| object.locked_in(pages) as u64);
        locked.sum()
    })
}

/// The oldest of those that came after the one of this number: to go through them without a place for all.
pub(super) fn next_after(number: usize, is_meant: impl Fn(&Object) -> bool) -> Option<Object> {
    let table = TABLE.lock()?;
    let is_later = |object: &&Object| object.number > number && is_meant(object);
    let later = table.alive().filter(is_later);
    later.min_by_key(|object| object.number).copied()
}

/// The helper has nothing more to do to an object.
pub(super) fn retire(number: usize) {
    change(number, |object| object.is_done = true);
}

/// Does something to an object that is alive, and until that is done stays so. False: it has ended. By one thread only, and
/// for a few milliseconds at most.
pub(super) fn while_alive(number: usize, work: impl FnOnce()) -> bool {
    let is_alive = TABLE.lock().is_some_and(|table| {
        let is_alive = table.alive().any(|object| object.number == number);
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
    owners::forget();
    note_change();
}

/// In a forked child: a range is something else from here on, or the program's own, also where an object's parent keeps it.
pub(super) fn end_kept_by_parent(start: usize, bytes: usize) {
    let end = start.saturating_add(bytes);
    if let Some(mut table) = TABLE.lock() {
        let is_meant = |object: &&mut Object| {
            object.start - object.kept_by_parent < end && start < object.start
        };
        let ended = table.alive_mut().filter(is_meant);
        ended.for_each(|object| object.kept_by_parent = 0);
    }
}

/// In a forked child whose parent has ended, and its locks with it.
pub(super) fn take_back_from_parent() {
    if let Some(mut table) = TABLE.lock() {
        let kept = table.alive_mut().filter(|object| object.kept_by_parent > 0);
        kept.for_each(Object::take_back);
    }
    note_change();
}

/// In a forked child: of its parent's objects, those that are meant are looked after here, too, but for what the parent keeps in memory by
/// locks, which a child does not inherit (mlock(2)). How many are left. None is if another thread of the parent's was at work on them: what
/// it left is no table.
pub(super) fn keep_in_child(is_meant: impl Fn(&Object) -> bool) -> usize {
    let Some(mut table) = TABLE.try_lock() else {
        forget();
        return 0;
    };
    let mut kept = 0;
    for place in &mut table.objects {
        let Some(object) = place.take() else {
            continue;
        };
        *place = is_meant(&object).then(|| object.in_child()).flatten();
        kept += usize::from(place.is_some());
        if place.is_none() && !object.is_cut() {
            owners::remove(object.owner);
        }
    }
    drop(table);
    BUSY.store(0, Ordering::Relaxed);
    COUNT.store(kept, Ordering::Relaxed);
    CALLED.store(0, Ordering::Relaxed);
    note_change();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::object::PAGE;
    use std::sync::Mutex;
    use std::sync::MutexGuard;
    use std::sync::PoisonError;

    /// Held by tests about whatever object has locks, or is due.
    static ANY_OBJECT: Mutex<()> = Mutex::new(());

    fn about_any_object() -> MutexGuard<'static, ()> {
        ANY_OBJECT.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn objects_are_found_by_start_and_by_overlap() {
        let base = 0x7000_0000_0000;
        assert!(insert(Object::new(base + 16, 100_000, 1)));
        assert!(insert(Object::new(base + 200_000, 70_000, 2)));
        assert!(owners::may_own(base + 16) && is_any());
        assert!(remove_owned_by(base).is_none());
        assert!(remove_overlapping(base + 100_016, 99_984).is_none());
        assert_eq!(
            remove_overlapping(base + 100_015, 1).map(|object| object.rule),
            Some(1)
        );
        assert!(!owners::may_own(base + 16));
        assert_eq!(
            remove_owned_by(base + 200_000).map(|object| object.rule),
            Some(2)
        );
    }

    #[test]
    fn pieces_of_the_heap_are_one_and_what_is_another_s_is_cut_out() {
        let _alone = about_any_object();
        let (base, bytes) = (0x7380_0000_0000, 1 << 20);
        let piece = |at: usize, locked| Object {
            may_be_joined: true,
            of_heap: true,
            locked,
            ..Object::new(base + at * bytes, bytes, 7)
        };
        assert!(insert(piece(0, 0)) && join(piece(1, 0), |_, _| false));
        assert!(!owners::may_own(base) && !owners::may_be_block(base));
        let whole = remove(|object| object.start == base).expect("it is one");
        assert_eq!((whole.bytes, whole.is_joined()), (2 * bytes, false));
        assert_eq!(first_in(base, base + bytes), None);
        // Locked from its start on: what is left is locked as far as it was.
        let locked = bytes as u64 + 8 * PAGE as u64;
        let whole = Object { locked, ..whole };
        assert!(insert(whole));
        let found = cut(base + 4 * PAGE, bytes, |_| ()).expect("it is there");
        assert_eq!((found.locked, found.is_torn), (bytes as u64, false));
        assert!(cut(base + 4 * PAGE, bytes, |_| ()).is_none());
        let left = || remove(|object| object.rule == 7).map(|left| (left.start, left.locked));
        let expected = [
            (base, 4 * PAGE as u64),
            (base + bytes + 4 * PAGE, 4 * PAGE as u64),
        ];
        let mut both = [left().expect("below"), left().expect("above")];
        both.sort_unstable();
        assert_eq!(both, expected);
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
        let _alone = about_any_object();
        let base = 0x7500_0000_0000;
        let locked = Object {
            locked: 4096,
            ..Object::new(base, 100_000, 6)
        };
        assert!(insert(locked) && insert(Object::new(base + 200_000, 100_000, 6)));
        let is_ours = |object: &Object| object.rule == 6;
        let mut unlocked = 0;
        assert!(give_up_lock(|object| object.rule == 7, |_| unreachable!("another's")).is_none());
        let given = give_up_lock(is_ours, |object| unlocked += object.locked);
        assert_eq!(
            (given.map(|object| object.locked), unlocked),
            (Some(4096), 4096)
        );
        assert!(give_up_lock(is_ours, |_| unreachable!("none has locks")).is_none());
        assert_eq!(count(is_ours), 2);
        let first = next_after(0, is_ours).expect("the first");
        let second = next_after(first.number, is_ours).expect("the second");
        assert_eq!((first.start, second.start), (base, base + 200_000));
        assert!(next_after(second.number, is_ours).is_none());
        assert!(remove(is_ours).is_some() && remove(is_ours).is_some());
    }

    const JOINED_RULE: usize = 9;

    /// A block of so many bytes.
    fn block(start: usize, bytes: usize) -> Object {
        Object {
            may_be_joined: true,
            ..Object::new(start, bytes, JOINED_RULE)
        }
    }

    fn begin(block: Object) {
        assert!(join(block, |_, _| unreachable!("nothing is locked")) || insert(block));
    }

    /// Where the objects of the tests of joining lie within so many bytes, in order.
    fn extents(base: usize) -> Vec<(usize, usize)> {
        let mut places = [Object::new(0, 0, 0); 16];
        let is_here = |object: &Object| (base..base + (1 << 30)).contains(&object.start);
        let found = list(&mut places, is_here);
        let mut all: Vec<_> = places[..found]
            .iter()
            .map(|object| (object.start - base, object.end() - base))
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn neighbours_of_a_rule_are_one_object_and_a_block_is_cut_out_of_it() {
        let base = 0x7600_0000_0000;
        // As the C library places them: 16 bytes are its own.
        let bytes = 16 * PAGE;
        let at = |index: usize| base + 16 + index * (bytes + 16);
        for index in [5, 3, 4, 0, 1, 2] {
            begin(block(at(index), bytes));
        }
        let end = |index: usize| at(index) - base + bytes;
        assert_eq!(extents(base), [(16, end(5))]);
        for index in 0..6 {
            assert!(owners::may_own(at(index)) && owners::may_be_block(at(index)));
        }
        assert!(remove_owned_by(at(0)).is_none() && suspend(at(0)).is_none());
        assert!(remove_overlapping(base, bytes).is_none());

        let unlock = |_| unreachable!("nothing is locked");
        let middle = cut(at(2) - 16, bytes + 16, unlock).expect("it is one of them");
        assert_eq!(
            (middle.rule, middle.bytes, middle.locked),
            (JOINED_RULE, bytes + 16, 0)
        );
        owners::remove_block(at(2));
        assert!(!owners::may_own(at(2)));
        assert_eq!(extents(base), [(16, end(1)), (end(2), end(5))]);
        assert!(cut(at(2), bytes, unlock).is_none());

        begin(block(at(2), bytes));
        assert_eq!(extents(base), [(16, end(5))]);
        assert!(cut(base, 1 << 30, unlock).is_some() && extents(base).is_empty());
    }

    #[test]
    fn what_is_to_be_swept_is_looked_up_again() {
        let base = 0x7a00_0000_0000;
        begin(block(base, 16 * PAGE));
        begin(block(base + 16 * PAGE, 16 * PAGE));
        let range = base + 8 * PAGE..base + 24 * PAGE;
        assert!(is_swept(JOINED_RULE, &range) && !is_swept(JOINED_RULE + 1, &range));
        assert!(cut(base + 20 * PAGE, PAGE, |_| ()).is_some());
        assert!(!is_swept(JOINED_RULE, &range));
        assert!(is_swept(JOINED_RULE, &(base..base + 20 * PAGE)));
        while cut(base, 32 * PAGE, |_| ()).is_some() {}
    }

    #[test]
    fn what_is_not_beside_or_of_another_rule_stays_alone() {
        let _alone = about_any_object();
        let base = 0x7700_0000_0000;
        begin(block(base, 16 * PAGE));
        begin(block(base + 17 * PAGE, 16 * PAGE));
        begin(Object {
            rule: JOINED_RULE + 1,
            ..block(base + 33 * PAGE, PAGE)
        });
        begin(Object {
            locked: PAGE as u64,
            ..block(base + 16 * PAGE, PAGE / 2)
        });
        begin(Object {
            due_ns: 1,
            ..block(base + 34 * PAGE, PAGE)
        });
        assert_eq!(extents(base).len(), 5, "{:x?}", extents(base));
        while remove(|object| (base..base + (1 << 30)).contains(&object.start)).is_some() {}
    }

    #[test]
    fn the_larger_part_of_a_joined_object_is_who_it_was() {
        let base = 0x7800_0000_0000;
        for index in 0..10 {
            begin(block(base + index * PAGE * 4, 4 * PAGE));
        }
        let is_first = |object: &Object| object.start == base;
        let mut found = [block(0, 0); 1];
        assert_eq!(list(&mut found, is_first), 1);
        let number = found[0].number;
        let unlock = |_| unreachable!("nothing is locked");
        let before = changes();
        assert!(cut(base + 8 * PAGE, 4 * PAGE, unlock).is_some());
        assert_ne!(changes(), before);
        assert_eq!(
            find(number).map(|object| object.start),
            Some(base + 12 * PAGE)
        );
        assert!(cut(base + 36 * PAGE, 4 * PAGE, unlock).is_some());
        assert_eq!(
            find(number).map(|object| object.end()),
            Some(base + 36 * PAGE)
        );
        assert!(cut(base, 40 * PAGE, unlock).is_some() && cut(base, 40 * PAGE, unlock).is_some());
        assert!(extents(base).is_empty());
    }

    #[test]
    fn locked_neighbours_are_joined_with_what_lies_between_and_cut_out_with_it() {
        let _alone = about_any_object();
        use std::cell::Cell;
        let base = 0x7900_0000_0000;
        let bytes = 16 * PAGE;
        let locked = |index: usize| {
            let block = block(base + 16 + index * (bytes + 16), bytes);
            Object {
                locked: block.pages().len() as u64,
                ..block
            }
        };
        let bridged = Cell::new(0);
        let bridge = |joined: &mut Object, between: Range<usize>| {
            joined.locked += between.len() as u64;
            bridged.set(bridged.get() + between.len());
            true
        };
        assert!(insert(locked(0)));
        assert!(!join(locked(1), |_, _| false), "it may not be locked");
        for index in [2, 1] {
            assert!(join(locked(index), bridge) || insert(locked(index)));
        }
        // Each page but those at the ends; of 48 that are in them all but a part is, two lie between.
        assert_eq!((extents(base).len(), bridged.get()), (1, 2 * PAGE));
        let unlocked = Cell::new(0);
        let unlock = |pages: Range<usize>| unlocked.set(pages.len());
        let middle = locked(1);
        let gone = cut(middle.start, middle.bytes, unlock).expect("it is there");
        assert_eq!(
            (gone.locked as usize, unlocked.get()),
            (17 * PAGE, 17 * PAGE)
        );
        assert!(cut(base, 1 << 30, |_| ()).is_some() && cut(base, 1 << 30, |_| ()).is_some());
        assert!(extents(base).is_empty());
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
        assert!(owners::may_own(base + 16));
        assert!(remove_owned_by(base + 200_000).is_none());
        assert!(remove_owned_by(base + 16).is_some() && remove_owned_by(base + 16).is_some());
        assert!(remove_owned_by(base + 16).is_none() && !owners::may_own(base + 16));
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
        let _alone = about_any_object();
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
