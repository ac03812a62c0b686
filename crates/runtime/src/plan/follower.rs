//! One object that is swept: its sweep, whether reading ahead helps, and the system calls.

use std::ops::Range;

use pagewise_abi::status::OfRule;
use pagewise_abi::status::Why;
use pagewise_abi::sweeps;
use pagewise_interpose as interpose;
use pagewise_interpose::Fault;
use pagewise_interpose::system;
use pagewise_interpose::system::PageMap;
use pagewise_interpose::system::Place;

use super::calls;
use super::gain::Gain;
use super::growth::Came;
use super::growth::Change;
use super::growth::Growth;
use super::hand;
use super::hand::Cost;
use super::hand::Work;
use super::loaded::Plan;
use super::locks;
use super::object::Object;
use super::object::PAGE;
use super::passed::Passed;
use super::probes::Probes;
use super::quiet;
use super::regret::Drops;
use super::regret::Verdict;
use super::regret::Worth;
use super::sizes::LEAD_CHUNKS;
use super::sizes::Sizes;
use super::sweep::Progress;
use super::sweep::Step;
use super::sweep::Sweep;
use super::trial::Trial;
use super::watch::Watch;

const FIRST_CHUNK: usize = 1 << 20;
/// Where no limit is known.
const LEAD_WITHOUT_LIMIT: usize = 16 << 20;

/// Pages that are looked at to see where a range is.
const LOOKED_AT: usize = 32;
/// Of these, so many may be elsewhere where a whole object is kept by the kernel.
const MOST_ELSEWHERE: usize = 2;
/// Pages that are looked at to see how much of an object is in memory.
const COUNTED: usize = 256;

/// To drop a page that was written takes more than so many times as long as to read one in.
const DROPPED_WRITTEN: u64 = 2;

/// Without faults for so long, nothing is to be begun.
const MOVES_NS: u64 = 1_000_000_000;

/// Without faults for so long, nothing is read in.
const STANDS_STILL_NS: u64 = 5_000_000;

/// Of the program's memory, at some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// Pages that came into it so far.
    pub(super) now: u64,
    /// Pages that there is room for beside what is locked; `None`: unknown.
    pub(super) room: Option<u64>,
}

impl Memory {
    const UNKNOWN: Self = Self { now: 0, room: None };
}

/// Under what conditions something is read or dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Helpers {
    /// How many may read ahead.
    pub(super) active: usize,
    /// Faults are told.
    pub(super) hear: bool,
    /// The helper takes the time of the program's processor: it works only where the hands alone do not keep up.
    pub(super) spare_program: bool,
}

/// A page that came before, and had to come again.
#[derive(Clone, Copy)]
pub(super) struct Comeback {
    pub(super) address: usize,
    /// When it last came, in pages that came.
    pub(super) when: u64,
    /// Pages that it stands for.
    pub(super) weight: u64,
}

pub(super) struct Follower {
    of: Followed,
    rule: usize,
    sweep: Sweep,
    probes: Probes,
    gain: Gain,
    trial: Trial,
    watch: Watch,
    drops: Drops,
    passed: Passed,
    worth: Worth,
    /// `None`: what the rule says is kept, and no more.
    growth: Option<Growth>,
    /// Pages of what is kept that came.
    kept_came: u64,
    sizes: Sizes,
    /// Threads that may read and drop at once, each on a processor that the program leaves.
    readers: u64,
    chunk_is_given: bool,
    lead_is_given: bool,
    /// Else only the lock of its fixed part is looked after: what lies behind and ahead of the sweep is left alone.
    may_read_ahead: bool,
    phase: usize,
    newest_ns: u64,
    /// Of one that grows at its end, as the heap, what was never touched begins there; how fast it is filled says nothing of its sweeps.
    unfilled: usize,
    /// What was never touched of it cannot be told from what is in swap: the page table has neither.
    is_shared: bool,
    /// What lies behind the sweep is dropped, also while its pace without reading ahead is measured: where the program has to make
    /// room itself, reclaim finds nothing but pages just used, and on cgroup v1 gives up. Not while it is seen what happens otherwise
    /// ([`Follower::is_working`]), and not while the object is filled: what is new is dirty, and the program is interrupted for each
    /// such page that another thread takes from it.
    makes_room: bool,
    /// A sweep was seen for which nothing is done yet.
    is_wanted: bool,
}

/// An object as it was when it began to be followed. If it is locked later, or its locks give way, it is another one: what is swept
/// of it is what is not locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Followed {
    number: usize,
    locked: u64,
}

impl Followed {
    fn of(object: &Object) -> Self {
        Self {
            number: object.number,
            locked: object.locked,
        }
    }
}

/// What is swept of an object: the fixed part is at its start, and raises no faults.
pub(super) fn swept(object: &Object) -> Range<usize> {
    let pages = object.pages();
    (pages.start + object.locked as usize).min(pages.end)..pages.end
}

/// Of some pages, how many are where.
struct Seen {
    all: usize,
    mapped: usize,
    nowhere: usize,
}

/// Looks at so many pages of ranges of so many bytes together; `None`: the kernel does not show them.
fn look_at(
    ranges: impl IntoIterator<Item = Range<usize>>,
    bytes: usize,
    pages: usize,
) -> Option<Seen> {
    let map = PageMap::open()?;
    let step = (bytes / PAGE / pages).max(1);
    let pages = ranges.into_iter().flat_map(|range| range.step_by(PAGE));
    let mut seen = Seen {
        all: 0,
        mapped: 0,
        nowhere: 0,
    };
    for address in pages.step_by(step) {
        let place = map.place(address / PAGE);
        seen.all += 1;
        seen.mapped += usize::from(place == Some(Place::Mapped));
        seen.nowhere += usize::from(place == Some(Place::Nowhere));
    }
    Some(seen)
}

/// Of what was read ahead, pages that the program has not touched, as far as the kernel shows that: whoever touches them comes upon those that are
/// left to tell ([`hand::TOLD_BYTES`]). What had been in memory anyway is mapped.
fn unused(ranges: [Range<usize>; 2]) -> u64 {
    let bytes: usize = ranges.iter().map(ExactSizeIterator::len).sum();
    let Some(map) = PageMap::open() else {
        return 0;
    };
    let step = (bytes / LOOKED_AT).next_multiple_of(hand::TOLD_BYTES);
    let told = |range: Range<usize>| (range.start.next_multiple_of(step)..range.end).step_by(step);
    let (mut all, mut unused) = (0, 0);
    for address in ranges.into_iter().flat_map(told) {
        all += 1;
        unused += u64::from(map.place(address / PAGE) == Some(Place::Swapped));
    }
    (bytes / PAGE) as u64 * unused / u64::max(all, 1)
}

/// Whether more than half of these pages are in memory; unknown is no.
fn are_mostly_mapped(addresses: &[usize]) -> bool {
    let Some(map) = PageMap::open() else {
        return false;
    };
    let is_mapped = |&&address: &&usize| map.place(address / PAGE) == Some(Place::Mapped);
    2 * addresses.iter().filter(is_mapped).count() > addresses.len()
}

impl Follower {
    pub(super) fn new(plan: &Plan, object: &Object) -> Self {
        let rule = plan.view.rule(object.rule);
        let region = swept(object);
        let whole = |bytes: u64| (bytes as usize / PAGE * PAGE).max(PAGE);
        let lead = match (rule.lead_bytes, plan.view.sizes().limit_bytes) {
            (0, 0) => LEAD_WITHOUT_LIMIT,
            (0, limit) => whole((locks::reserve(limit) / 2).min(sweeps::longest_lead(limit))),
            (given, _) => whole(given),
        };
        let chunk = match rule.chunk_bytes {
            0 => FIRST_CHUNK.min(lead / LEAD_CHUNKS / PAGE * PAGE).max(PAGE),
            given => whole(given).min(lead),
        };
        let mut sweep = Sweep::new(region.clone());
        sweep.reshape(region.clone(), object.grain);
        sweep.may_return(lead);
        let pages = |bytes: u64| bytes / PAGE as u64;
        let mut worth = Worth::new(pages(object.locked), pages(region.len() as u64));
        if object.lock_rests {
            worth.let_rest();
        }
        Self {
            of: Followed::of(object),
            rule: object.rule,
            sweep,
            trial: Trial::new((region.len() / PAGE) as u64),
            watch: Watch::new((region.len() / PAGE) as u64),
            drops: Drops::new(&region),
            passed: Passed::default(),
            worth,
            // Of one whose locks were given up no more is kept.
            growth: (rule.keeps_more > 0 && rule.keep_bytes > 0 && object.locked > 0)
                .then_some(Growth::new()),
            kept_came: 0,
            unfilled: region.end,
            is_shared: object.is_shared,
            probes: Probes::new(region),
            gain: Gain::new(),
            sizes: Sizes { chunk, lead },
            readers: hand::wanted().max(1) as u64,
            chunk_is_given: rule.chunk_bytes > 0,
            lead_is_given: rule.lead_bytes > 0,
            may_read_ahead: object.streamed || plan.reads_ahead(object.rule),
            phase: calls::phase(),
            newest_ns: 0,
            makes_room: false,
            is_wanted: false,
        }
    }

    /// Whether it follows this object, as it is now.
    pub(super) fn is_of(&self, object: &Object) -> bool {
        self.of == Followed::of(object)
    }

    /// Goes on with the object as it is now: blocks may have come or gone. Whether any did.
    pub(super) fn keep_up(&mut self, object: &Object) -> bool {
        let region = swept(object);
        if region == *self.region() {
            return false;
        }
        self.trial.set_round((region.len() / PAGE) as u64);
        self.watch.set_object((region.len() / PAGE) as u64);
        self.worth.set_round((region.len() / PAGE) as u64);
        self.drops = Drops::new(&region);
        self.probes = Probes::new(region.clone());
        self.unfilled = self.unfilled.min(self.region().end).max(region.start);
        self.sweep.reshape(region, object.grain);
        true
    }

    pub(super) fn region(&self) -> &Range<usize> {
        self.sweep.region()
    }

    /// A page was touched that had to be brought in or mapped.
    pub(super) fn note(&mut self, plan: &Plan, fault: Fault, memory: Memory) {
        if self.phase != calls::phase() {
            // What did not help before may help now.
            self.phase = calls::phase();
            self.gain = Gain::new();
        }
        self.newest_ns = self.newest_ns.max(fault.time_ns);
        let page = fault.address..fault.address + 1;
        self.miss(plan, [page, 0..0], memory, fault.time_ns);
        let progress = self.sweep.note(fault);
        self.note_passed(plan, progress, fault.time_ns);
        if fault.address >= self.unfilled {
            self.unfilled = fault.address / PAGE * PAGE + PAGE;
            return;
        }
        let Some(progress) = progress else {
            return;
        };
        if let Some(growth) = &mut self.growth {
            growth.note_swept(progress.pages, self.makes_room);
        }
        if self.worth.note_swept(progress.pages, memory.now) {
            locks::resume(plan, self.of.number);
        }
        if !self.sweep.is_any() || !self.may_read_ahead {
            return;
        }
        if self.gain.rests_at(fault.time_ns) {
            return;
        }
        if !self.makes_room {
            self.watch(plan, progress, fault.time_ns);
            return;
        }
        self.try_without(plan, progress.pages, fault);
        if self.trial.is_on() || !self.makes_room {
            return;
        }
        if !self.gain.has_effect() && !self.is_shared {
            // From zram, a page that the program brings in is there no more, and has to be written again when it is dropped
            // (mm/memory.c, do_swap_page, 6.18): of what is read ahead, only what the program writes.
            hand::forget_cost(self.rule);
        } else if self.is_outrun() {
            self.makes_room = false;
            self.gain.rest_long(fault.time_ns);
            self.stopped(plan, Why::NoGain);
            return;
        }
        let lead_pages = (self.sizes.lead / PAGE) as u64;
        match self.gain.note(progress, fault.time_ns, lead_pages) {
            // It is filled for the first time: there is nothing to read in yet.
            Some(None) if self.is_untouched_ahead() => self.gain.begin_again(),
            Some(None) => plan.status.add_to_rule(self.rule, OfRule::Started, 1),
            Some(Some(why)) => {
                self.makes_room = false;
                self.stopped(plan, why);
            }
            None => {}
        }
    }

    /// What its pages cost the threads, if the sweep writes, on zram: for each page that is dropped the program's own processor is
    /// interrupted then, before it is compressed. What is only read is dropped in less time than it is read in.
    fn cost_of_written(&self) -> Option<Cost> {
        let cost = hand::cost_of_page(self.rule)?;
        (cost.dropped > DROPPED_WRITTEN * cost.read).then_some(cost)
    }

    /// Whether the threads cannot be much faster than the program therefore. Shared memory has no place in swap while it is in memory
    /// (mm/shmem.c, shmem_swapin_folio, 6.18): all of it is written whenever it is dropped.
    fn is_outrun(&self) -> bool {
        self.cost_of_written().is_some_and(|cost| {
            self.is_shared
                || self
                    .gain
                    .is_outrun((cost.read + cost.dropped) / self.readers)
        })
    }

    /// Pages are wanted, of which some may have been dropped too soon.
    fn miss(&mut self, plan: &Plan, ranges: [Range<usize>; 2], memory: Memory, now_ns: u64) {
        let Some(room) = memory.room else {
            return;
        };
        for address in ranges.into_iter().flat_map(|range| range.step_by(PAGE)) {
            self.drops.note_wanted(address, memory.now, room);
        }
        if self.makes_room && self.drops.is_harm() {
            self.makes_room = false;
            self.gain.rest(now_ns);
            self.drops = Drops::new(self.sweep.region());
            self.stopped(plan, Why::Missed);
        }
    }

    /// The sweep got on, or over what was read ahead of it.
    fn note_passed(&mut self, plan: &Plan, progress: Option<Progress>, now_ns: u64) {
        let ranges = self.sweep.take_passed();
        if !self.reads_ahead() {
            return;
        }
        self.passed
            .note_used(progress.map_or(0, |progress| progress.pages));
        if ranges[0].is_empty() {
            return;
        }
        self.passed.note_over(unused(ranges));
        if self.passed.is_most() {
            self.passed = Passed::default();
            self.makes_room = false;
            self.gain.rest(now_ns);
            self.stopped(plan, Why::PassedOver);
        }
    }

    /// A page elsewhere came back that last came then: the locks of this object may be to blame.
    pub(super) fn note_comeback(&mut self, plan: &Plan, came: Comeback, memory: Memory) {
        let Some(room) = memory.room else {
            return;
        };
        let verdict = match self.kept_part().contains(&came.address) {
            true => self.worth.note_lost(came.weight),
            false => self
                .worth
                .note_comeback(came.when, memory.now, room, came.weight),
        };
        if verdict != Verdict::Stays
            && let Some(change) = self.growth.as_mut().and_then(Growth::end)
        {
            self.keep(plan, change);
            return;
        }
        match verdict {
            Verdict::Stays => {}
            Verdict::Rests => {
                self.worth.let_rest();
                locks::let_rest(plan, self.of.number);
            }
            Verdict::GivenUp => locks::give_up(plan, self.of.number),
        }
    }

    /// Whether it is tried out how it is to keep more.
    pub(super) fn is_growing(&self) -> bool {
        self.growth.as_ref().is_some_and(Growth::is_trying)
    }

    /// A page had to come.
    pub(super) fn note_coming(&mut self, address: usize) {
        self.kept_came += u64::from(self.kept_part().contains(&address));
    }

    /// Keeps more of the object, or less, if it is time for that; so many pages came in all.
    pub(super) fn grow(&mut self, plan: &Plan, came: u64) {
        let round = (self.region().len() / PAGE) as u64;
        let came = Came {
            all: came,
            kept: self.kept_came,
            at_ns: self.newest_ns,
        };
        // Before its first fault there is no time to reckon from.
        let Some(growth) = self.growth.as_mut().filter(|_| self.newest_ns > 0) else {
            return;
        };
        let was_trying = growth.is_trying();
        let change = growth.next(round, came, || locks::left(plan) / PAGE as u64);
        let is_over = was_trying && !growth.is_trying();
        if is_over && self.cost_of_written().is_none() {
            // What did not help before may help now: less is swept.
            self.gain = Gain::new();
        }
        if let Some(change) = change {
            self.keep(plan, change);
        }
    }

    fn keep(&mut self, plan: &Plan, change: Change) {
        let (number, bytes) = (self.of.number, |pages: u64| pages as usize * PAGE);
        let object = match change {
            Change::More(pages) => locks::keep_more(plan, number, bytes(pages)),
            Change::Less(pages) => locks::keep_less(plan, number, bytes(pages)),
        };
        // One that has ended is followed no more.
        let Some(object) = object else {
            return;
        };
        if let (Change::More(_), Some(growth)) = (change, &mut self.growth) {
            growth.got(object.locked.saturating_sub(self.of.locked) / PAGE as u64);
        }
        self.of = Followed::of(&object);
        self.worth.set_locked(object.locked / PAGE as u64);
        self.keep_up(&object);
    }

    /// What is locked of the object, or would be.
    fn kept_part(&self) -> Range<usize> {
        let end = self.region().start;
        end.saturating_sub(self.of.locked as usize)..end
    }

    /// Nothing is done yet: does the program wait for what it sweeps? Few faults alone do not say no: one that needs a page here
    /// and there waits for each of them, and what lies ahead is not in memory.
    fn watch(&mut self, plan: &Plan, progress: Progress, now_ns: u64) {
        // How many pages raise faults is unknown then.
        if self.sweep.is_coarse() {
            self.is_wanted = true;
            return;
        }
        let lead = self.sizes.lead;
        match self.watch.note(progress) {
            Some(true) if self.is_in_memory(lead / 4, lead) => self.rest(plan, now_ns),
            Some(_) => self.is_wanted = true,
            None => {}
        }
    }

    /// Begins if that is needed. Once all faults so far are known: of an older position it would look as if what lies ahead had
    /// been there before the program touched it.
    fn begin_if_needed(&mut self, plan: &Plan) {
        let lead = self.sizes.lead;
        if self.is_untouched_ahead() {
            self.gain.rest_while_filled(self.newest_ns);
        } else if self.is_in_memory(lead / 4, lead) && self.is_kept() {
            self.rest(plan, self.newest_ns);
        } else {
            self.makes_room = true;
            self.gain.note_by_itself(self.watch.pace());
            self.sweep.begin(self.sizes);
        }
    }

    fn try_without(&mut self, plan: &Plan, pages: u64, fault: Fault) {
        if !self.trial.note(fault.address, pages) {
            return;
        }
        let is_there = are_mostly_mapped(self.trial.marks());
        match self.trial.seen(is_there) {
            Some(true) => self.rest(plan, fault.time_ns),
            Some(false) => {
                self.gain.does_not_fit();
                self.sweep.begin(self.sizes);
            }
            None => {}
        }
    }

    /// The kernel keeps it.
    fn rest(&mut self, plan: &Plan, now_ns: u64) {
        self.makes_room = false;
        self.gain.rest_while_it_fits(now_ns);
        self.stopped(plan, Why::Fits);
    }

    /// Whether most of what lies so far ahead of the sweep is in memory; unknown is no.
    fn is_in_memory(&self, from: usize, bytes: usize) -> bool {
        let seen = self.look_ahead(from, bytes);
        seen.is_some_and(|seen| 2 * seen.mapped > seen.all)
    }

    /// Whether nearly all of the object is. A part may be because it was filled before memory was short, while the rest is not.
    fn is_kept(&self) -> bool {
        let region = self.region().clone();
        let bytes = region.len();
        let seen = look_at([region], bytes, LOOKED_AT);
        seen.is_some_and(|seen| seen.mapped + MOST_ELSEWHERE >= seen.all)
    }

    /// Of what is swept, as far as the kernel shows that.
    pub(super) fn pages_in_memory(&self) -> u64 {
        let region = self.region().clone();
        let pages = (region.len() / PAGE) as u64;
        let seen = look_at([region.clone()], region.len(), COUNTED);
        seen.map_or(0, |seen| {
            pages * seen.mapped as u64 / seen.all.max(1) as u64
        })
    }

    /// A sweep was seen for which nothing is done yet.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Whether most of what is ahead has never been touched; unknown is no.
    fn is_untouched_ahead(&self) -> bool {
        let lead = self.sizes.lead;
        let look = || self.look_ahead(lead / 4, lead);
        let seen = (!self.is_shared).then(look).flatten();
        seen.is_some_and(|seen| 2 * seen.nowhere > seen.all)
    }

    /// Looks at what lies so far ahead of what is swept; `None`: the kernel does not show it.
    fn look_ahead(&self, from: usize, bytes: usize) -> Option<Seen> {
        let ranges = self.sweep.ahead(from, bytes).flatten();
        look_at(ranges, bytes, LOOKED_AT)
    }

    /// Where faults are not told: looks for pages that have come. The time of the newest.
    pub(super) fn look(&mut self, plan: &Plan, map: &PageMap) -> Option<u64> {
        // Which other pages came is unknown then.
        let memory = Memory::UNKNOWN;
        let mut probes = std::mem::replace(&mut self.probes, Probes::new(0..0));
        let mut newest_ns = None;
        self.sweep.be_coarse();
        probes.look(map, &mut |fault| {
            newest_ns = Some(fault.time_ns);
            self.note(plan, fault, memory);
        });
        self.probes = probes;
        newest_ns
    }

    fn stopped(&self, plan: &Plan, why: Why) {
        plan.status.add_to_rule(self.rule, OfRule::Stopped, 1);
        plan.status.set_of_rule(self.rule, OfRule::Why, why as u64);
    }

    /// Whether anything is to be decided soon for which all faults must be heard.
    pub(super) fn needs_faults(&self, now_ns: u64) -> bool {
        let is_moving = now_ns.saturating_sub(self.newest_ns) < MOVES_NS;
        let is_another_phase = self.phase != calls::phase();
        let may_begin = is_another_phase || !self.gain.rests_at(now_ns);
        let may_grow = self.growth.as_ref().is_some_and(|it| !it.is_settled());
        let is_asking = self.is_wanted || self.worth.is_resting();
        self.may_read_ahead && is_moving && may_begin || may_grow || is_asking || self.is_working()
    }

    /// A fault of its sweep, of a burst.
    pub(super) fn hear_burst(&mut self, fault: Fault) {
        self.newest_ns = self.newest_ns.max(fault.time_ns);
    }

    /// Whether enough was heard to know what the lock of its fixed part is worth, where so many faults of the sweep were.
    pub(super) fn has_heard_enough(&self, faults: u64) -> bool {
        let round = (self.region().len() / PAGE) as u64;
        // Of one that stands still nothing more can be heard; what its lock costs elsewhere is.
        let nothing_to_hear = self.of.locked == 0 || faults == 0;
        nothing_to_hear || self.worth.rounds() >= quiet::ROUNDS || faults >= quiet::ROUNDS * round
    }

    /// All faults are heard again, after a while in which they were not.
    pub(super) fn hear_again(&mut self, memory: Memory) {
        self.worth.hear_again(memory.now);
        if let Some(growth) = &mut self.growth {
            growth.hear_again();
        }
    }

    /// Whether it may read ahead: memory for that is shared with the others that may.
    pub(super) fn is_active(&self) -> bool {
        self.makes_room
    }

    /// Whether it may read or drop something now: not to see what happens otherwise.
    pub(super) fn is_working(&self) -> bool {
        let does_nothing = self.gain.is_resting() || self.gain.is_checking() || self.trial.is_on();
        self.makes_room && !does_nothing
    }

    /// Whether it reads ahead now, and does not only make room.
    pub(super) fn reads_ahead(&self) -> bool {
        self.makes_room && self.gain.is_active() && !self.trial.is_on()
    }

    /// Whether this page was read ahead, or is about to be.
    pub(super) fn has_read_ahead(&self, address: usize) -> bool {
        self.reads_ahead() && self.sweep.is_read_ahead(address)
    }

    /// What it may read ahead beside others. A lead that the plan gives is its own.
    fn shared_sizes(&self, active: usize) -> Sizes {
        match self.lead_is_given {
            true => self.sizes,
            false => self.sizes.shared(active),
        }
    }

    /// Does the next thing that is due, if any, and says what that was.
    pub(super) fn act(&mut self, plan: &Plan, helpers: Helpers, memory: Memory) -> Option<Step> {
        if std::mem::take(&mut self.is_wanted) && !self.is_growing() {
            self.begin_if_needed(plan);
        }
        if !self.is_working() {
            return None;
        }
        // A program that stands still may wait for memory: it must not be taken from it (on cgroup v1, that ends in its being
        // killed).
        let now_ns = interpose::now_ns();
        if now_ns.saturating_sub(self.newest_ns) > STANDS_STILL_NS {
            return None;
        }
        let sizes = self.shared_sizes(helpers.active);
        let may_leave_it = helpers.spare_program && self.gain.is_active() && hand::is_busy();
        if may_leave_it && !self.sweep.is_short(sizes, hand::reads()) {
            return None;
        }
        let step = match self.gain.is_active() {
            true => self.sweep.next(sizes),
            false => self.sweep.next_drop(self.sizes),
        };
        let step = step?;
        let (ranges, advice, counts, is_down) = match step.clone() {
            Step::Read { ranges, is_down } => {
                self.miss(plan, ranges.clone(), memory, now_ns);
                if !self.makes_room {
                    return None;
                }
                (ranges, system::WILL_NEED, OfRule::ReadAhead, is_down)
            }
            Step::Drop(ranges) => {
                for range in &ranges {
                    self.drops.note_dropped(range, memory.now);
                }
                (ranges, system::PAGE_OUT, OfRule::Dropped, false)
            }
        };
        let work = Work {
            rule: self.rule,
            ranges,
            advice,
            // Where the page map is looked at in place of faults, what is mapped is where the sweep was.
            maps: advice == system::WILL_NEED && helpers.hear,
            counts,
            is_down,
        };
        hand::wake();
        if let Some(work) = hand::give(work) {
            let began_ns = interpose::now_ns();
            work.perform(plan);
            if advice == system::WILL_NEED {
                self.fit_chunk(interpose::now_ns().saturating_sub(began_ns));
            }
        }
        Some(step)
    }

    fn fit_chunk(&mut self, took_ns: u64) {
        if self.chunk_is_given {
            return;
        }
        self.sizes = self.sizes.fitted(took_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_is_locked_later_is_followed_anew() {
        let mut object = Object::new(0x7000_0000_0000, 1 << 20, 0);
        let before = Followed::of(&object);
        assert_eq!(before, Followed::of(&object));
        object.locked = 512 << 10;
        assert_ne!(before, Followed::of(&object));
    }
}
