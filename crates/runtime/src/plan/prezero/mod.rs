//! Fresh memory in huge pages that are ready before the program touches them: zeroed by a thread beside it.
//!
//! ```text
//!   hooks -> objects: which areas --.
//!   the C library's heap -----------'-> front: where the program is -> room? -> the kernel zeroes a huge page
//! ```
//!
//! The thread calls `madvise` on memory that is the program's: `MADV_POPULATE_WRITE`, which changes nothing that was written;
//! to give back, `MADV_COLD` on one base page, by which the kernel splits a huge page and frees the pages of zeros in it, under
//! its own locks (Linux 6.12); and `MADV_COLLAPSE` should the program come there later. An area does not end meanwhile
//! (`objects::while_alive`), so that none of it is done to what is there next.

mod c_library;
mod front;
mod heap;
mod pressure;

use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::FRESH;
use pagewise_abi::plan::PlanAction;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::ROOM_LASTS_NS;
use pagewise_abi::status::Total;
use pagewise_interpose as interpose;
use pagewise_interpose::Leftover;
use pagewise_interpose::system;

use self::front::Front;
use self::heap::Heap;
use self::pressure::Pressure;
pub(super) use self::pressure::advice;
use super::Hook;
use super::loaded;
use super::loaded::Plan;
use super::object::Object;
use super::object::PAGE;
use super::objects;

const REGION: usize = system::HUGE_PAGES * PAGE;
/// Smaller areas have no huge page in them, or hardly one.
pub(super) const LEAST_BYTES: usize = 2 * REGION;
/// Reservations of more than this part of memory are sparse. (jemalloc's grow with what is in use, by a fifth.)
const RESERVATION_SHARE: u64 = 4;
/// Areas that are looked after at once.
const MOST_AREAS: usize = 64;
/// Between two looks while the program comes on,
const AWAKE_NS: u64 = 100_000;
/// and otherwise, unless there is a new area.
const ASLEEP_NS: u64 = 5_000_000;
/// Without progress for so long, it goes to sleep.
const RESTLESS_NS: u64 = 20_000_000;

const NONE: u32 = 0;
const RUNNING: u32 = 1;
static STATE: AtomicU32 = AtomicU32::new(NONE);
/// Changes with each new area.
static NEWS: AtomicU32 = AtomicU32::new(0);

/// When this library is loaded: what [`may_start_thread`] has to know.
pub(super) fn look_at_allocator() {
    c_library::look();
}

/// Whether the program's allocator is the C library's.
pub(super) fn is_c_librarys_allocator() -> bool {
    c_library::is_allocator()
}

/// When this library is loaded. The thread is started once there is something to look after: most programs are small, and
/// some may have one thread only, as who makes a user namespace.
pub(super) fn begin(plan: &Plan) {
    if plan.view.fresh().is_some() {
        heap::begin();
        heap::watch();
    }
    if !c_library::is_allocator() {
        // Its hooks are not called: there is no later moment at which it surely holds no lock.
        start(plan);
    }
}

/// Starts the thread, once. Only where no allocator's lock is held.
pub(super) fn start(plan: &Plan) {
    if STATE.load(Ordering::Relaxed) == RUNNING || STATE.swap(RUNNING, Ordering::Relaxed) == RUNNING
    {
        return;
    }
    if plan.view.fresh().is_some() {
        heap::grow_in_large_steps(plan.view.sizes().limit_bytes);
    }
    if let Err(errno) = interpose::spawn(run) {
        plan.status.set(Total::ThreadErrno, errno as u64);
    }
}

/// The program locks all its memory: nothing more is made ready.
pub(super) fn leave_heap(plan: &Plan) {
    if plan.view.fresh().is_some() {
        heap::leave();
    }
}

/// Starts the thread for a new area.
pub(super) fn start_for(plan: &Plan, hook: Hook) {
    if STATE.load(Ordering::Relaxed) != RUNNING && may_start_thread(hook) {
        start(plan);
    }
}

/// Whether no allocator's lock can be held, which starting a thread may wait for.
pub(super) fn may_start_thread(hook: Hook) -> bool {
    // The C library's allocator maps memory without the hooks. In a signal handler, it may be what was interrupted.
    hook == Hook::Allocator || c_library::is_allocator() && !system::is_any_signal_blocked()
}

/// A forked child has no such thread.
pub(super) fn forget() {
    STATE.store(NONE, Ordering::Relaxed);
    heap::watch_again();
}

/// There is a new area.
pub(super) fn wake() {
    NEWS.fetch_add(1, Ordering::Relaxed);
    system::wake(&NEWS);
}

/// Whether an allocation that no rule is about is fresh memory to be looked after.
pub(super) fn is_fresh(plan: &Plan, address: usize, bytes: usize, hook: Hook) -> bool {
    plan.view.fresh().is_some()
        && bytes >= LEAST_BYTES
        && is_memory(plan, bytes, hook)
        // The heap is looked after as a whole.
        && !(hook == Hook::Allocator && address < system::heap_end())
}

/// Whether a mapping is there to be filled. A reservation that memory could hardly hold is a sparse array.
fn is_memory(plan: &Plan, bytes: usize, hook: Hook) -> bool {
    match hook {
        Hook::Allocator | Hook::Mapping => true,
        Hook::Reservation => {
            let limit = match plan.view.sizes().limit_bytes {
                0 => u64::MAX,
                limit => limit,
            };
            let memory = system::memory_bytes().map_or(0, |all| all.min(limit));
            bytes as u64 <= memory / RESERVATION_SHARE
        }
        Hook::SharedMemory | Hook::SpecialMapping => false,
    }
}

fn run() {
    if let Some(plan) = loaded::plan() {
        Helper::new(plan).run();
    }
}

/// Where the first huge page begins that a range has room for,
fn first_region(range: &Range<usize>) -> usize {
    range.start.next_multiple_of(REGION)
}

/// and for how many it has.
fn regions(range: &Range<usize>) -> usize {
    range.end.saturating_sub(first_region(range)) / REGION
}

/// An object, or the heap.
struct Area {
    range: Range<usize>,
    rule: usize,
    /// 0: the heap.
    number: usize,
    front: Front,
    /// Regions that were given back: they hold the kernel's page of zeros.
    returned: Range<usize>,
    huge: Huge,
}

/// Which of the regions made ready last became huge pages: of base pages, nothing can be given back.
#[derive(Clone, Copy, Default)]
struct Huge(u64);

impl Huge {
    /// More than are ahead at once.
    const REGIONS: usize = u64::BITS as usize;

    fn note(&mut self, region: usize, is_huge: bool) {
        let bit = region % Self::REGIONS;
        self.0 = self.0 & !(1 << bit) | u64::from(is_huge) << bit;
    }

    fn is(self, region: usize) -> bool {
        self.0 >> (region % Self::REGIONS) & 1 == 1
    }
}

impl Area {
    fn new(range: Range<usize>, rule: usize, number: usize) -> Self {
        Self {
            range,
            rule,
            number,
            front: Front::new(),
            returned: 0..0,
            huge: Huge::default(),
        }
    }

    fn first(&self) -> usize {
        first_region(&self.range)
    }

    fn regions(&self) -> usize {
        regions(&self.range)
    }

    fn address(&self, region: usize) -> usize {
        self.first() + region * REGION
    }

    /// Does something to the area, unless it has ended.
    fn while_alive(&self, work: impl FnOnce()) -> bool {
        if self.number != 0 {
            return objects::while_alive(self.number, work);
        }
        let is_alive = system::heap_end() >= self.range.end;
        if is_alive {
            work();
        }
        is_alive
    }

    /// Makes one region ready. False: there is nothing to do.
    fn work(&mut self, plan: &Plan, now_ns: u64) -> bool {
        let (first, returned) = (self.first(), self.returned.clone());
        let has_memory = |region: usize| {
            !returned.contains(&region)
                && system::has_memory(first + region * REGION) != Some(false)
        };
        let Some(region) = self.front.next(self.regions(), now_ns, has_memory) else {
            if self.front.is_moving(now_ns, u64::MAX) {
                self.returned = 0..0;
            }
            return false;
        };
        if !plan.take_room(now_ns) {
            plan.status.add(Total::WithoutRoom, 1);
            self.front.stop();
            return false;
        }
        let advice = if returned.contains(&region) {
            system::COLLAPSE
        } else {
            system::POPULATE
        };
        let address = self.address(region);
        let faults = system::thread_faults();
        let mut is_ready = false;
        let is_alive = self.while_alive(|| match system::advise(address, REGION, advice) {
            Ok(()) => {
                is_ready = true;
                plan.status
                    .add_to_rule(self.rule, OfRule::Readied, REGION as u64);
            }
            Err(errno) => plan.status.refused(self.rule, errno),
        });
        // Base pages are a fault each.
        let is_huge = advice == system::COLLAPSE || system::thread_faults() - faults == 1;
        self.huge.note(region, is_ready && is_huge);
        if !is_alive {
            self.front.stop();
        }
        is_alive
    }

    /// Gives back what the program did not come to.
    fn give_back(&mut self, plan: &Plan, now_ns: u64, frees_zeros: bool) {
        if !frees_zeros {
            return;
        }
        let in_need = plan.is_short(now_ns);
        let vain = self.front.given_up(self.regions(), now_ns, in_need);
        for region in vain.clone() {
            let address = self.address(region);
            self.while_alive(|| {
                if self.huge.is(region)
                    && system::has_memory(address) == Some(true)
                    && system::begins_with_zeros(address) == Some(true)
                    && system::advise(address, PAGE, system::COLD).is_ok()
                {
                    plan.status
                        .add_to_rule(self.rule, OfRule::Returned, REGION as u64);
                }
            });
        }
        if !vain.is_empty() {
            self.returned = vain;
        }
    }
}

impl Plan {
    /// Whether the launcher has looked lately.
    fn is_watched(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.status.total(Total::RoomSeen)) < ROOM_LASTS_NS
    }

    /// Takes room for a huge page; false: there is none, or nobody looks.
    fn take_room(&self, now_ns: u64) -> bool {
        self.is_watched(now_ns) && self.status.take(Total::Room, REGION as u64)
    }

    /// Whether the launcher says that memory is short.
    pub(super) fn is_short(&self, now_ns: u64) -> bool {
        self.is_watched(now_ns) && self.status.total(Total::Short) != 0
    }
}

struct Helper {
    plan: &'static Plan,
    heap: Option<Heap>,
    heap_area: Area,
    areas: [Option<Area>; MOST_AREAS],
    moved_ns: u64,
    spent_ns: u64,
    frees_zeros: bool,
    pressure: Pressure,
    leftover: Leftover,
}

impl Helper {
    fn new(plan: &'static Plan) -> Self {
        let frees_zeros = system::frees_zeros_on_split();
        Self {
            plan,
            heap: plan.view.fresh().is_some().then(Heap::new),
            heap_area: Area::new(0..0, FRESH, 0),
            areas: [const { None }; MOST_AREAS],
            moved_ns: 0,
            spent_ns: 0,
            frees_zeros,
            pressure: Pressure::new(frees_zeros),
            leftover: Leftover::default(),
        }
    }

    fn run(mut self) {
        loop {
            let news = NEWS.load(Ordering::Relaxed);
            let now_ns = interpose::now_ns();
            self.look_at_heap();
            if self.plan.view.fresh().is_some() {
                let heap = &self.heap_area.range;
                self.pressure.look(self.plan, heap, now_ns);
            }
            self.retire_areas();
            self.look_at_objects();
            if self.work(now_ns) {
                self.moved_ns = now_ns;
                continue;
            }
            let spent_ns = system::thread_time_ns();
            let status = &self.plan.status;
            status.add(Total::ThreadNs, spent_ns - self.spent_ns);
            self.spent_ns = spent_ns;
            if self.leftover.is_all(now_ns) {
                return;
            }
            let is_restless = now_ns.saturating_sub(self.moved_ns) < RESTLESS_NS;
            system::wait(&NEWS, news, if is_restless { AWAKE_NS } else { ASLEEP_NS });
        }
    }

    /// One region of each area that wants one. False: none does.
    fn work(&mut self, now_ns: u64) -> bool {
        let (plan, frees_zeros) = (self.plan, self.frees_zeros);
        let heap = (plan.view.fresh() == Some(PlanAction::Prezero)).then_some(&mut self.heap_area);
        let mut worked = false;
        for area in heap.into_iter().chain(self.areas.iter_mut().flatten()) {
            if area.work(plan, now_ns) {
                worked = true;
            } else {
                area.give_back(plan, now_ns, frees_zeros);
            }
        }
        worked
    }

    fn look_at_heap(&mut self) {
        if heap::is_left() {
            (self.heap, self.heap_area) = (None, Area::new(0..0, FRESH, 0));
        }
        if let Some(heap) = &mut self.heap {
            self.heap_area.range = heap.look(advice(self.pressure.is_short()));
        }
    }

    /// The program has gone through these to their ends.
    fn retire_areas(&mut self) {
        for place in &mut self.areas {
            if let Some(area) = place.take_if(|area| area.front.is_through(area.regions())) {
                objects::retire(area.number);
            }
        }
    }

    /// Areas for objects that have come, none for those that have gone.
    fn look_at_objects(&mut self) {
        let mut alive = [Object::new(0, 0, 0); MOST_AREAS];
        let is_meant = |object: &Object| !object.is_done && self.plan.prezeroes(object.rule);
        let count = objects::list(&mut alive, is_meant);
        let alive = &alive[..count];
        for place in &mut self.areas {
            let is_alive = |area: &Area| alive.iter().any(|object| object.number == area.number);
            if place.as_ref().is_some_and(|area| !is_alive(area)) {
                *place = None;
            }
        }
        for object in alive {
            let mut known = self.areas.iter().flatten();
            if known.any(|area| area.number == object.number) {
                continue;
            }
            if let Some(free) = self.areas.iter_mut().find(|place| place.is_none()) {
                *free = Some(Area::new(object.pages(), object.rule, object.number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_told_from_others_ahead() {
        let mut huge = Huge::default();
        (100..132).for_each(|region| huge.note(region, region % 3 == 0));
        assert!((100..132).all(|region| huge.is(region) == (region % 3 == 0)));
        // It was collapsed, or came as base pages, the next time.
        huge.note(102, false);
        huge.note(103, true);
        assert!(!huge.is(102) && huge.is(103) && huge.is(105));
    }
}
