//! The objects that are swept, each with its follower, and what came into memory: what is done for one may do harm elsewhere.

use pagewise_abi::status::Total;
use pagewise_interpose::Fault;
use pagewise_interpose::system;
use pagewise_interpose::system::PageMap;

use super::elsewhere::Elsewhere;
use super::follower;
use super::follower::Comeback;
use super::follower::Follower;
use super::follower::Helpers;
use super::follower::Memory;
use super::loaded::Plan;
use super::locks;
use super::object::Object;
use super::object::PAGE;
use super::objects;
use super::quiet::Quiet;
use super::quiet::Turn;
use super::regret::Arrivals;
use super::sweep::Step;

/// Objects that are followed at once, at most.
const MOST_FOLLOWED: usize = 64;

pub(super) struct Followers {
    places: [Option<Follower>; MOST_FOLLOWED],
    /// Of these, only the first so many are taken: each is large, and all are asked of each fault.
    used: usize,
    arrivals: Arrivals,
    elsewhere: Elsewhere,
    quiet: Quiet<MOST_FOLLOWED>,
    /// Pages that there is room for beside what is locked and in use elsewhere; `None`: unknown.
    room: Option<u64>,
    /// The objects were those that are followed when they had changed so often.
    changes: Option<usize>,
}

impl Followers {
    /// In memory of its own, for which the stack of a thread has no room. Once in a process.
    pub(super) fn map(plan: &Plan) -> Option<&'static mut Self> {
        let followers = system::map(size_of::<Self>())? as *mut Self;
        for index in 0..MOST_FOLLOWED {
            // SAFETY: within the mapping, which is aligned to pages.
            unsafe { (&raw mut (*followers).places[index]).write(None) };
        }
        // SAFETY: as before.
        unsafe {
            (&raw mut (*followers).elsewhere).write(Elsewhere::NEW);
            (&raw mut (*followers).quiet).write(Quiet::NEW);
            (&raw mut (*followers).room).write(None);
            (&raw mut (*followers).used).write(0);
            (&raw mut (*followers).changes).write(None);
        }
        // SAFETY: all is initialized, the arrivals by the kernel: they are numbers, all 0. The mapping is never unmapped, and nobody else
        // has it.
        let followers = unsafe { &mut *followers };
        let memory = locks::memory_bytes(plan).unwrap_or(0) as usize;
        followers.arrivals.begin(memory);
        Some(followers)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// How many may read ahead.
    pub(super) fn active(&self) -> usize {
        self.all().filter(|follower| follower.is_active()).count()
    }

    /// Whether there may be something to read or to drop soon.
    pub(super) fn is_any_working(&self) -> bool {
        self.all().any(Follower::is_working)
    }

    /// Whether there may be something to begin with.
    pub(super) fn is_any_wanted(&self) -> bool {
        self.all().any(Follower::is_wanted)
    }

    /// Followers for objects that have come, none for those that have gone.
    pub(super) fn keep_up(&mut self, plan: &Plan) {
        let changes = objects::changes();
        if self.changes.replace(changes) == Some(changes) {
            return;
        }
        let mut alive = [Object::new(0, 0, 0); MOST_FOLLOWED];
        let is_swept = |object: &Object| {
            let is_meant = object.streamed || plan.follows(object.rule);
            is_meant && !follower::swept(object).is_empty()
        };
        let count = objects::list(&mut alive, is_swept);
        if count == MOST_FOLLOWED {
            let beyond = objects::count(is_swept).saturating_sub(count) as u64;
            plan.status.at_least(Total::UnfollowedSweeps, beyond);
        }
        let alive = &alive[..count];
        let mut is_other = false;
        for place in self.places.iter_mut() {
            let Some(follower) = place else {
                continue;
            };
            match alive.iter().find(|object| follower.is_of(object)) {
                Some(object) => is_other |= follower.keep_up(object),
                None => {
                    *place = None;
                    is_other = true;
                }
            }
        }
        for object in alive {
            let mut known = self.places.iter().flatten();
            if known.any(|follower| follower.is_of(object)) {
                continue;
            }
            if let Some(free) = self.places.iter_mut().find(|place| place.is_none()) {
                *free = Some(Follower::new(plan, object));
                is_other = true;
            }
        }
        let last = self.places.iter().rposition(Option::is_some);
        self.used = last.map_or(0, |last| last + 1);
        if is_other {
            self.end_quiet();
        }
    }

    /// Only bursts of the program's faults need be heard.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet.is_on()
    }

    /// Something happens for which all faults are needed.
    pub(super) fn end_quiet(&mut self) {
        let turn = self.quiet.is_disturbed(self.arrivals.now());
        self.turn_quiet(turn);
    }

    fn turn_quiet(&mut self, turn: Option<Turn>) {
        if turn == Some(Turn::Ends) {
            let memory = self.memory();
            self.all_mut()
                .for_each(|follower| follower.hear_again(memory));
        }
    }

    /// Looks whether all faults need be heard from here on.
    pub(super) fn look_for_quiet(&mut self, plan: &Plan, now_ns: u64) {
        let Some(memory) = locks::memory_bytes(plan) else {
            return;
        };
        if self.all().any(|follower| follower.needs_faults(now_ns)) {
            self.end_quiet();
            return;
        }
        let mut places = self.places[..self.used].iter().enumerate();
        let is_enough = places.all(|(index, place)| {
            let heard = self.quiet.heard_of(index);
            let follower = place.as_ref();
            follower.is_none_or(|follower| follower.has_heard_enough(heard))
        });
        let now = self.arrivals.now();
        let turn = self.quiet.step(now, memory / PAGE as u64, is_enough);
        self.turn_quiet(turn);
    }

    /// While only bursts are heard: so many pages came that nothing was told of.
    pub(super) fn pass(&mut self, pages: u64) {
        self.arrivals.pass(pages);
    }

    /// A fault of such a burst.
    pub(super) fn hear_burst(&mut self, fault: Fault) {
        let of = self.place_of(fault);
        self.quiet.hear(of);
        if let Some(follower) = of.and_then(|index| self.places[index].as_mut()) {
            follower.hear_burst(fault);
        }
    }

    /// The follower that sweeps there.
    fn place_of(&self, fault: Fault) -> Option<usize> {
        self.places[..self.used].iter().position(|place| {
            let follower = place.as_ref();
            follower.is_some_and(|follower| follower.region().contains(&fault.address))
        })
    }

    fn all(&self) -> impl Iterator<Item = &Follower> {
        self.places[..self.used].iter().flatten()
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Follower> {
        self.places[..self.used].iter_mut().flatten()
    }

    /// Looks how much room there is now.
    pub(super) fn look_at_room(&mut self, plan: &Plan) {
        let room = locks::room(plan).map(|bytes| bytes / PAGE as u64);
        self.room = room.map(|pages| self.elsewhere.left(pages));
    }

    /// Before something is dropped behind a sweep: looks what is in memory elsewhere.
    fn look_elsewhere(&mut self, plan: &Plan) {
        let pages = |bytes: u64| bytes / PAGE as u64;
        let now = self.arrivals.now();
        let Some(memory) = locks::memory_bytes(plan).map(pages) else {
            return;
        };
        if !self.elsewhere.is_due(now, memory) {
            return;
        }
        let Some(all) = system::own_resident_pages() else {
            return;
        };
        let swept = self.all().map(Follower::pages_in_memory);
        let here = swept.sum::<u64>() + pages(locks::taken(plan));
        let now = self.arrivals.now();
        self.elsewhere
            .note(now, all.saturating_sub(here), pages(memory));
    }

    fn memory(&self) -> Memory {
        Memory {
            now: self.arrivals.now(),
            room: self.room,
        }
    }

    /// The program touched a page that had to be brought in or mapped.
    pub(super) fn hear_of(&mut self, plan: &Plan, fault: Fault) {
        let memory = self.memory();
        let of = self.place_of(fault);
        self.quiet.hear(of);
        if let Some(follower) = of.and_then(|index| self.places[index].as_mut()) {
            // What was read ahead came then. If the program gets ahead, it brings pages in itself.
            let came_ahead = follower.has_read_ahead(fault.address);
            follower.note(plan, fault, memory);
            if came_ahead {
                return;
            }
        }
        for follower in self.all_mut() {
            follower.note_coming(fault.address);
        }
        if let Some(when) = self.arrivals.note(fault.address) {
            let came = Comeback {
                address: fault.address,
                when,
                weight: self.arrivals.weight(),
            };
            self.blame_locks(plan, came, of);
        }
    }

    /// The program had to wait for a page that had come before, of the object that this follower follows, or of none. Locks elsewhere may
    /// be to blame for it.
    fn blame_locks(&mut self, plan: &Plan, came: Comeback, of: Option<usize>) {
        let memory = self.memory();
        let places = self.places[..self.used].iter_mut();
        for (index, place) in places.enumerate() {
            if let Some(follower) = place
                && Some(index) != of
            {
                follower.note_comeback(plan, came, memory);
            }
        }
    }

    /// Where faults are not told: looks for pages that have come. A look costs some 100 us: in rounds, as long as it sees something. The time
    /// of the newest; `None`: there is none.
    pub(super) fn look_at_pages(&mut self, plan: &Plan) -> Option<u64> {
        let map = PageMap::open()?;
        let followers = self.all_mut();
        let seen = followers.filter_map(|follower| follower.look(plan, &map));
        seen.last()
    }

    /// Keeps more of what is swept, of one object after the other: else it could not be told which does harm.
    fn grow(&mut self, plan: &Plan) {
        let (growing, came) = (self.all().any(Follower::is_growing), self.arrivals.now());
        for follower in self.all_mut() {
            if !growing || follower.is_growing() {
                follower.grow(plan, came);
            }
            if !growing && follower.is_growing() {
                return;
            }
        }
    }

    /// Does what is due. Whether anything was.
    pub(super) fn act(&mut self, plan: &Plan, helpers: Helpers) -> bool {
        let mut worked = false;
        if helpers.active > 0 {
            self.elsewhere.note_dropping(self.arrivals.now());
        } else if helpers.hear && self.is_any_wanted() {
            self.look_elsewhere(plan);
            self.look_at_room(plan);
        }
        if helpers.hear {
            self.grow(plan);
        }
        for index in 0..self.used {
            let memory = self.memory();
            let Some(follower) = &mut self.places[index] else {
                continue;
            };
            let step = follower.act(plan, helpers, memory);
            worked |= step.is_some();
            if let Some(Step::Read { ranges, .. }) = step {
                // Nobody waits for them: that is no reason to blame a lock.
                for address in ranges.into_iter().flat_map(|range| range.step_by(PAGE)) {
                    self.arrivals.note(address);
                }
            }
        }
        worked
    }
}
