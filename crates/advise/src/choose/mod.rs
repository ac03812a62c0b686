//! What to do about each object, as a function of numbers.
//!
//! - What is used in no order and fits is **locked**: the sweeps beside it no longer push it out.
//! - What is swept again and again and does not fit is **streamed**. The kernel's least-recently-used order then keeps
//!   exactly the pages that come last; a fixed part that is kept saves a share of each round, and the rest is read ahead.
//! - What is swept once is **prefetched**.
//! - What is swept and cannot be read ahead of, as it goes in wide steps or in no order of its addresses (a list that is followed
//!   again and again), or is in many blocks: only the part is kept, by a **lock**.
//! - What is swept and often written, where swap is memory, or shared memory: the same, as to drop written pages costs what reading ahead gains.
//! - What is swept from ever further on: its end is kept, by a **lock**.
//! - What is not used again is left to the kernel, which has it leave as soon (docs/plan.md, Cold).
//! - What is used in no order and does not fit has a hot part that is **locked**, or is left alone: whichever part is kept,
//!   the others miss as often.
//! - What others have more use for is left to them ([`Budget::left_for`]), and so is what the program uses again between bursts of
//!   swap-ins.

mod choice;
#[cfg(test)]
mod tests;
mod words;

use self::choice::lock;
use self::choice::lock_beside;
use self::choice::lock_end;
use self::choice::lock_hot;
use self::choice::lock_part;
use self::choice::lock_part_beside;
use self::choice::lock_swept;
use self::choice::not_ahead;
use self::choice::nothing;
use self::choice::prefetch;
use self::choice::stream_of;
use self::choice::why_nothing;
use crate::facts::ObjectFacts;
use crate::facts::PAGE;
use crate::predict::left_of_streamed;
use crate::run_facts::RunFacts;
use pagewise_report::bytes as bytes_text;

pub(crate) use self::choice::Choice;
pub(crate) use self::choice::Saves;
pub(crate) use self::choice::left_to_the_kernel;
pub(crate) use self::choice::most_used;
pub(crate) use self::words::MoreMemory;
pub(crate) use self::words::words;
pub(crate) use self::words::words_without_rule;

/// An object whose share of the waiting is below this gets no rule.
const LEAST_STALL_SHARE: f64 = 0.01;
/// Below this share of the run, waiting is not worth a plan.
pub(crate) const LEAST_STALLED: f64 = 0.02;
/// Left to the kernel and to what no rule is about: an eighth, at least 6 MiB. The preloaded library leaves as much.
const LEAST_RESERVE: u64 = 6 << 20;
/// In less memory, what is not reserved is too little to keep anything or to read ahead.
const LEAST_MEMORY: u64 = 12 << 20;
/// What a stream needs beside what it keeps: read ahead and not yet dropped. Of more than 48 MiB the preloaded library reads a 32nd ahead, in chunks of
/// a quarter of that at most, and drops what lies two or three of these behind; where that is more than this, there is the reserve besides.
const STREAM_WINDOW: u64 = 16 << 20;
const STREAM_WINDOW_SHARE: u64 = 16;
/// Of a sweep that is only followed, left to what may be beside it.
const FOLLOWED_WINDOW: u64 = 16 << 20;
/// A page that comes back this often on average is used again and again.
pub(crate) const RETURNS: f64 = 1.5;
/// An object of which more is in memory all the time is mostly found there: swap-ins do not tell how often. One that is swept
/// and never found has less, unless it is alone with the memory.
const MOSTLY_RESIDENT: f64 = 0.85;
/// What stays once it is back is there for half of the time at least: else it comes back as the run ends.
const HALF_RESIDENT: f64 = 0.5;
/// What is used again and again and is not mostly in memory does not fit for sure if it is so many times what is left for it.
const CLEARLY: f64 = 1.2;
/// What comes back in a burst, after which the program goes on without waiting, is used again meanwhile. It must stay, with as much of
/// what comes next:
const ROOM_FOR_BURSTS: u64 = 2;
/// and where it is more than this share of memory, a sweep that is dropped behind would lose it.
const SMALL_BURST: u64 = 16;
/// What a pass in wide steps touches stays free of locks, too, and so large a part of that besides: it takes little of each page, and the next
/// takes what lies beside that (down the columns of a matrix, of which 512 lie in a page).
const ROOM_BESIDE_PASS: u64 = 4;
/// What is wanted again so many times as soon once it is out has more use for memory.
const MORE_WANTED: f64 = 2.0;
/// Where swap is memory and so many of its pages are written while they are in memory, a sweep is not dropped behind: for each written page the
/// kernel interrupts the processors on which the program runs before it lets go of it. Of an array of 128 MiB, a page in five or ten of which
/// each sweep writes, reading ahead and a lock of what room there is took as long; of none, reading ahead 0.86 times as long, of three in ten 1.2
/// (docs/results-apply.md).
const OFTEN_WRITTEN: f64 = 0.25;
/// Beside sweeps of which a part is locked, so large a part of memory is little: a lock takes it from nobody.
const LITTLE: u64 = 16;
/// Who waits for so much of the time does not fit, whatever else is known.
const THRASHING: f64 = 0.4;

/// How much all rules together may lock in so much memory, bytes.
pub fn lock_budget(memory_bytes: u64) -> u64 {
    memory_bytes
        .saturating_sub((memory_bytes / 8).max(LEAST_RESERVE))
        .max(1)
}

/// How little memory lets all rules together lock so much, bytes. Of whole pages, as limits and budgets are.
pub fn memory_to_lock(bytes: u64) -> u64 {
    let pages = bytes.div_ceil(PAGE);
    let with_share = pages.saturating_mul(8).div_ceil(7).saturating_mul(PAGE);
    with_share.max(pages.saturating_mul(PAGE).saturating_add(LEAST_RESERVE))
}

/// How room is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// What is used in no order first, and nothing that may do harm by what swap-ins tell alone.
    Careful,
    /// The same, whatever it may do to others: to be proven otherwise.
    UnorderedFirst,
    /// The same, and of what is used in no order and does not fit a part: what is swept beside it, whose pages mostly leave before they come again,
    /// has less use for that memory. Likewise to be proven.
    PartsOfUnordered,
    /// Most stall per byte first, swept or not, but what is read ahead of counts less, likewise.
    DensestFirst,
    /// The smallest first, likewise: what mostly fits misses far more often than it did, once its memory is taken.
    SmallestFirst,
}

impl Manner {
    /// In what order rooms are given out, whatever is swept; `None`: what is not comes first.
    fn order(
        self,
        objects: &[ObjectFacts],
        chosen: &[usize],
        budget: &Budget,
    ) -> Option<Vec<usize>> {
        match self {
            Self::Careful | Self::UnorderedFirst | Self::PartsOfUnordered => None,
            Self::DensestFirst => Some(by_worth_of_room(objects, chosen, budget)),
            Self::SmallestFirst => {
                let mut sorted = chosen.to_vec();
                sorted.sort_by_key(|&at| objects[at].bytes);
                Some(sorted)
            }
        }
    }
}

/// Whether the program waits enough for a plan to be worth anything.
pub(crate) fn is_any_worth_it(run: &RunFacts) -> bool {
    run.stalled_share() >= LEAST_STALLED
}

/// Whether so much is waited for an object that something should be done about it.
pub(crate) fn is_costly(object: &ObjectFacts, run: &RunFacts) -> bool {
    is_stall_costly(object.stall_ns, run)
}

/// The same of so much waiting.
pub(crate) fn is_stall_costly(stall_ns: u64, run: &RunFacts) -> bool {
    is_any_worth_it(run)
        && stall_ns > 0
        && stall_ns as f64 >= LEAST_STALL_SHARE * run.stall_ns as f64
}

/// Whether anything can be kept in so much memory, beside what is left to the kernel.
pub(crate) fn is_room_to_keep(memory_bytes: u64) -> bool {
    memory_bytes >= LEAST_MEMORY
}

/// A rule for each object that costs enough, those of most stall first.
pub(crate) fn choose(
    objects: &[ObjectFacts],
    run: &RunFacts,
    memory_bytes: u64,
    manner: Manner,
) -> Vec<Choice> {
    if !is_any_worth_it(run) {
        return Vec::new();
    }
    let is_chosen = |object: &ObjectFacts| object.can_have_rule && is_costly(object, run);
    let chosen: Vec<usize> = (0..objects.len())
        .filter(|&at| is_chosen(&objects[at]))
        .collect();
    if !is_room_to_keep(memory_bytes) {
        let why = "in so little memory there is no room to keep anything or to read ahead";
        return chosen.into_iter().map(|at| nothing(at, why)).collect();
    }
    let others = bytes_of_others(objects, &chosen, run);
    let burst_bytes = run.burst_bytes.unwrap_or(0);
    let mut budget = Budget {
        free: lock_budget(memory_bytes)
            .saturating_sub(others.min(memory_bytes / 2))
            .min(memory_bytes.saturating_sub(ROOM_FOR_BURSTS * burst_bytes))
            .min(left_beside_passes(objects, memory_bytes)),
        may_be_dropped_behind: burst_bytes <= memory_bytes / SMALL_BURST,
        swap_is_memory: run.swap_is_memory,
        left_of_streamed: left_of_streamed(run),
        has_others: bytes_beside_sweeps(objects, &chosen, run)
            .is_none_or(|bytes| bytes > memory_bytes / LITTLE),
        lockable: run.lockable_bytes.unwrap_or(u64::MAX),
        stream_window: STREAM_WINDOW.min(memory_bytes / STREAM_WINDOW_SHARE),
        without_lock: (0..objects.len()).collect(),
        unlocked: memory_bytes,
        may_harm: manner != Manner::Careful || run.stalled_share() >= THRASHING,
    };
    let is_kept = |at: usize| is_kept_by_the_kernel(&objects[at], memory_bytes);
    let swept: Vec<usize> = chosen
        .iter()
        .copied()
        .filter(|&at| objects[at].is_swept() && (manner != Manner::Careful || !is_kept(at)))
        .collect();
    let mut choices: Vec<Option<Choice>> = vec![None; objects.len()];
    let unordered = |at: &usize| !objects[*at].is_swept();
    let unordered: Vec<usize> = chosen.iter().copied().filter(unordered).collect();
    let order = manner.order(objects, &chosen, &budget);
    if let Some(order) = &order {
        for &at in order {
            match objects[at].is_swept() {
                true => stream(objects, &[at], &mut budget, &mut choices),
                false => lock_what_fits(objects, &[at], &mut budget, &mut choices),
            }
        }
    } else {
        lock_what_fits(objects, &unordered, &mut budget, &mut choices);
    }
    lock_hot_parts(objects, &unordered, &mut budget, &mut choices);
    if manner == Manner::PartsOfUnordered && !swept.is_empty() {
        lock_parts(objects, &unordered, &mut budget, &mut choices);
    }
    if order.is_none() {
        stream(objects, &swept, &mut budget, &mut choices);
    }
    for &at in &chosen {
        choices[at].get_or_insert_with(|| match budget.why_not_ahead(&objects[at]) {
            Some(not) if objects[at].is_swept() && !is_kept(at) => {
                nothing(at, &not_ahead(&not.why))
            }
            _ => nothing(at, &why_nothing(&objects[at])),
        });
    }
    choices.into_iter().flatten().collect()
}

/// What may be locked beside what passes in wide steps touch, bytes.
pub(crate) fn left_beside_passes(objects: &[ObjectFacts], memory_bytes: u64) -> u64 {
    let pass_bytes: u64 = objects.iter().map(|object| object.pass_bytes).sum();
    memory_bytes.saturating_sub(pass_bytes + pass_bytes / ROOM_BESIDE_PASS)
}

/// What the program has beside the sweeps that it waits for, also what never left memory. What is swept and hardly waited for is in use.
fn bytes_beside_sweeps(objects: &[ObjectFacts], chosen: &[usize], run: &RunFacts) -> Option<u64> {
    let swept = chosen.iter().map(|&at| &objects[at]);
    let swept = swept.filter(|object| object.is_swept());
    let swept: u64 = swept.map(|object| object.bytes).sum();
    Some(run.peak_bytes?.saturating_sub(swept))
}

/// What those have that get no rule: others that are in memory although it is short are in use.
fn bytes_of_others(objects: &[ObjectFacts], chosen: &[usize], run: &RunFacts) -> u64 {
    let others = || (0..objects.len()).filter(|at| !chosen.contains(at));
    let seen: u64 = others()
        .filter(|&at| bytes_that_stay(&objects[at]) == 0)
        .map(|at| objects[at].resident_bytes())
        .sum();
    // What was never looked at, as its blocks are small, has what the others leave, if it is used again and again.
    let is_in_use = |object: &ObjectFacts| {
        object.resident_share.is_none() && object.returns >= RETURNS && bytes_that_stay(object) == 0
    };
    let never_seen = others().filter(|&at| is_in_use(&objects[at]));
    let never_seen: u64 = never_seen.map(|at| objects[at].touched_bytes).sum();
    let all_seen: u64 = objects.iter().map(ObjectFacts::resident_bytes).sum();
    let left = run.recorded_bytes.unwrap_or(0).saturating_sub(all_seen);
    seen + never_seen.min(left)
}

/// Locks what is mostly in memory beside sweeps that are followed, where there is room: it has its memory already, but raises no faults, so that
/// the library would take all of memory for the sweep's own ([`crate::best`]).
pub(crate) fn lock_beside_sweeps(
    choices: &mut Vec<Choice>,
    objects: &[ObjectFacts],
    run: &RunFacts,
    memory_bytes: u64,
) {
    if !choices.iter().any(Choice::is_followed) {
        return;
    }
    for (at, object) in objects.iter().enumerate() {
        let own = choices.iter().position(|choice| choice.object == at);
        let is_free = match own {
            Some(own) => !choices[own].acts(),
            // What is hardly waited for at all has no choice yet.
            None => object.can_have_rule && object.bytes > memory_bytes / LITTLE,
        };
        if is_free
            && 2 * bytes_that_stay(object) > object.bytes
            && object.bytes
                <= left_beside(choices, objects, run, memory_bytes, at).min(object.lockable_bytes())
        {
            let lock = lock_beside(at, object);
            match own {
                Some(own) => choices[own] = lock,
                None => choices.push(lock),
            }
        }
    }
}

/// How much of an object may be locked beside what is chosen and what stays of the others, bytes.
fn left_beside(
    choices: &[Choice],
    objects: &[ObjectFacts],
    run: &RunFacts,
    memory_bytes: u64,
    at: usize,
) -> u64 {
    let kept: u64 = choices.iter().map(|choice| choice.kept_bytes).sum();
    let is_locked = |of: usize| {
        let mut choices = choices.iter();
        choices.any(|choice| choice.object == of && choice.kept_bytes > 0)
    };
    let others = (0..objects.len()).filter(|&of| of != at && !is_locked(of));
    let stays: u64 = others.map(|of| bytes_that_stay(&objects[of])).sum();
    let left = lock_budget(memory_bytes).saturating_sub(kept + stays);
    left.min(run.lockable_bytes.unwrap_or(u64::MAX).saturating_sub(kept))
}

/// What may still be locked, and what is not.
struct Budget {
    /// Not locked, but for what is left to the kernel and to what no rule is about.
    free: u64,
    /// What the user may lock.
    lockable: u64,
    /// Sweeps do not come by the same pages again before long.
    may_be_dropped_behind: bool,
    /// What is read ahead is work, then, as what is written to swap is.
    swap_is_memory: bool,
    /// The part of the waiting for a page that is left where it is read ahead.
    left_of_streamed: f64,
    /// There is more than sweeps, as far as is known: in other parts of the run it may need what is locked.
    has_others: bool,
    /// What is left free for a sweep that is read ahead of, bytes.
    stream_window: u64,
    /// Objects of which nothing is locked.
    without_lock: Vec<usize>,
    unlocked: u64,
    /// Whatever others lose by it, it is worth a try.
    may_harm: bool,
}

/// Why a sweep is not read ahead of.
struct NotAhead {
    why: String,
    /// It could be, and it is to be seen what the lock of its fixed part is worth. That costs some 8 % of the time.
    is_followed: bool,
}

impl NotAhead {
    fn never(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            is_followed: false,
        }
    }
}

impl Budget {
    /// How much may be locked of an object: not what others have more use for.
    fn left_for(&self, at: usize, objects: &[ObjectFacts]) -> u64 {
        let others = self.without_lock.iter().filter(|&&other| other != at);
        let in_use: u64 = others
            .map(|&other| bytes_in_use(&objects[other], &objects[at]))
            .sum();
        self.free.saturating_sub(in_use).min(self.lockable)
    }

    /// Why a sweep over an object cannot be read ahead of; `None`: it can.
    fn why_not_ahead(&self, object: &ObjectFacts) -> Option<NotAhead> {
        if !self.may_be_dropped_behind {
            return Some(NotAhead::never(
                "the program goes on for long between bursts of swap-ins, and uses what came back again meanwhile",
            ));
        }
        if let Some(why) = object.why_not_ahead() {
            return Some(NotAhead::never(why));
        }
        if let Some(run) = object.short_runs(self.stream_window) {
            return Some(NotAhead::never(format!(
                "its sweeps go on for {} only, and are somewhere else then",
                bytes_text(run)
            )));
        }
        let often = |share| share >= OFTEN_WRITTEN;
        let is_written = self.swap_is_memory && object.seen_written.is_some_and(often);
        let what = match (object.left_unseen, is_written) {
            (true, _) => {
                "nobody saw it leave, so it may be shared memory, of which each page is written anew then"
            }
            (false, true) => "many of its pages are written while they are in memory",
            (false, false) => return None,
        };
        Some(NotAhead {
            why: format!("{what}: to drop these behind the sweep takes longer than is gained"),
            is_followed: self.has_others,
        })
    }

    fn take(&mut self, at: usize, bytes: u64) {
        self.without_lock.retain(|&other| other != at);
        self.free = self.free.saturating_sub(bytes);
        self.lockable -= bytes;
        self.unlocked -= bytes;
    }
}

/// What an object has more use for than one that is to be locked. How often pages are accessed while they are in memory leaves no trace
/// in swap-ins, so that no gain of the other's is known to make up for it. Of two that are swept, pages are wanted by turns: how long they are out
/// says when their turn is, and how often it comes is known.
fn bytes_in_use(object: &ObjectFacts, locked: &ObjectFacts) -> u64 {
    let are_swept = object.is_swept() && locked.is_swept();
    let rates = object.wanted_rate.zip(locked.wanted_rate);
    let rates = rates.filter(|_| !are_swept);
    match rates.is_some_and(|(rate, of_locked)| rate >= MORE_WANTED * of_locked) {
        true => object.bytes,
        false => bytes_that_stay(object),
    }
}

/// What an object has of memory that is short, if it is mostly there: the kernel keeps what is used. In no order, it also is what came back once
/// and stayed: by how long it was out before, a table that is looked up all the time was in memory for 84 to 94 % of the time.
fn bytes_that_stay(object: &ObjectFacts) -> u64 {
    match object.resident_share {
        _ if object.is_gone => 0,
        Some(share) if share > MOSTLY_RESIDENT => object.resident_bytes(),
        Some(_) if !object.is_swept() => {
            let stays = object.stays_once_back_bytes;
            let is_there = object.resident_bytes() as f64 >= HALF_RESIDENT * stays as f64;
            if is_there { stays } else { 0 }
        }
        Some(_) => 0,
        None => object.never_left_bytes,
    }
}

/// Of what is used again and again in no order, as much as fits, most stall per byte first.
fn lock_what_fits(
    objects: &[ObjectFacts],
    unordered: &[usize],
    budget: &mut Budget,
    choices: &mut [Option<Choice>],
) {
    for at in by_density(objects, unordered) {
        let object = &objects[at];
        if object.returns >= RETURNS
            && object.bytes <= budget.left_for(at, objects).min(object.lockable_bytes())
            && is_thrashing_beside(objects, at, budget)
        {
            budget.take(at, object.bytes);
            choices[at] = Some(lock(at, object));
        }
    }
}

/// Of the others of them, the hot parts.
fn lock_hot_parts(
    objects: &[ObjectFacts],
    unordered: &[usize],
    budget: &mut Budget,
    choices: &mut [Option<Choice>],
) {
    for at in by_density(objects, unordered) {
        let may_be = choices[at].is_none() && objects[at].may_have_hot_part();
        let heat = objects[at].heat.as_ref().filter(|_| may_be);
        let most = budget
            .left_for(at, objects)
            .min(objects[at].lockable_bytes());
        if let Some(hot) = heat.and_then(|heat| heat.hot_part(most)) {
            budget.take(at, hot.bytes);
            choices[at] = Some(lock_hot(at, &objects[at], hot, budget.swap_is_memory));
        }
    }
}

/// Of the others still, a part.
fn lock_parts(
    objects: &[ObjectFacts],
    unordered: &[usize],
    budget: &mut Budget,
    choices: &mut [Option<Choice>],
) {
    for at in by_density(objects, unordered) {
        let object = &objects[at];
        let keep = budget.left_for(at, objects).min(object.lockable_bytes());
        let is_open = choices[at].is_none() && object.returns >= RETURNS && !object.has_no_turns;
        if is_open && keep > 0 && keep < object.bytes {
            budget.take(at, keep);
            choices[at] = Some(lock_part_beside(at, object, keep));
        }
    }
}

/// Whether beside an object there are others that miss whatever memory is left for them. A lock takes memory from the others: if
/// these just fit, they no longer do, and miss far more often than before. That their pages are used while they are in memory
/// leaves no trace in swap-ins, so that it must be shown that they do not fit: by their sizes, or as the program does little but
/// wait.
fn is_thrashing_beside(objects: &[ObjectFacts], at: usize, budget: &Budget) -> bool {
    if budget.may_harm {
        return true;
    }
    let rest = budget.unlocked.saturating_sub(objects[at].bytes);
    let others = (0..objects.len()).filter(|&other| other != at);
    let misses = |object: &ObjectFacts| {
        // All of it, not some pages.
        object.returns >= RETURNS
            && object.swap_ins * PAGE >= object.bytes
            && object
                .resident_share
                .is_none_or(|share| share <= MOSTLY_RESIDENT)
    };
    let bytes: u64 = others
        .filter(|&other| misses(&objects[other]))
        .map(|other| objects[other].bytes)
        .sum();
    bytes as f64 >= CLEARLY * rest as f64
}

/// A sweep of which most is found in memory: to drop what lies behind it would do harm.
fn is_kept_by_the_kernel(object: &ObjectFacts, memory_bytes: u64) -> bool {
    object.bytes < memory_bytes / 2
        && object
            .resident_share
            .is_some_and(|share| share > MOSTLY_RESIDENT)
}

/// Most stall per byte first.
fn by_density(objects: &[ObjectFacts], chosen: &[usize]) -> Vec<usize> {
    by_worth(chosen, |at| density(&objects[at]))
}

fn density(object: &ObjectFacts) -> f64 {
    object.stall_ns as f64 / object.bytes.max(1) as f64
}

/// The same, but what can be read ahead of is waited for less where it is not kept.
fn by_worth_of_room(objects: &[ObjectFacts], chosen: &[usize], budget: &Budget) -> Vec<usize> {
    by_worth(chosen, |at| {
        let object = &objects[at];
        let is_read_ahead = object.is_swept() && budget.why_not_ahead(object).is_none();
        match is_read_ahead {
            true => budget.left_of_streamed * density(object),
            false => density(object),
        }
    })
}

fn by_worth(chosen: &[usize], worth: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut sorted = chosen.to_vec();
    sorted.sort_by(|&a, &b| worth(b).total_cmp(&worth(a)));
    sorted
}

/// Whether of so many bytes that may be kept of a sweep its end is the better part: where its sweeps begin ever later (a triangle of a matrix, of
/// which less is left each time), the start comes back more seldom than the rest. So it may also seem where the kernel kept the start for a while;
/// then either part is as good, but only of one that keeps its start the rest is read ahead.
fn is_kept_at_its_end(object: &ObjectFacts, keep: u64, is_read_ahead: bool) -> bool {
    match is_read_ahead {
        true => object.surely_begins_ever_later(),
        false => object.begins_ever_later() || object.starts_seldom(keep),
    }
}

/// Shares what is left among the swept objects: a byte kept saves a page per round wherever it is, so those of most
/// stall per byte get theirs first. What can be read ahead of waits for less where it is not kept.
fn stream(
    objects: &[ObjectFacts],
    swept: &[usize],
    budget: &mut Budget,
    choices: &mut [Option<Choice>],
) {
    for at in by_worth_of_room(objects, swept, budget) {
        let object = &objects[at];
        let again = object.returns >= RETURNS;
        let left = budget.left_for(at, objects);
        choices[at] = if again && object.bytes <= left.min(object.lockable_bytes()) {
            is_thrashing_beside(objects, at, budget).then(|| {
                budget.take(at, object.bytes);
                lock_swept(at, object)
            })
        } else if again {
            let why_not_ahead = budget.why_not_ahead(object);
            let window = match &why_not_ahead {
                None => budget.stream_window.min(left / 4),
                // What is followed finds out itself whether it can keep more.
                Some(not) if not.is_followed => FOLLOWED_WINDOW.min(left / 4),
                Some(_) => 0,
            };
            let keep = (left - window).min(object.lockable_bytes());
            budget.take(at, keep);
            let is_read_ahead = why_not_ahead.is_none();
            match why_not_ahead {
                _ if is_kept_at_its_end(object, keep, is_read_ahead) => {
                    (keep > 0).then(|| lock_end(at, object, keep))
                }
                None => Some(stream_of(at, object, keep)),
                Some(not) => (keep > 0).then(|| lock_part(at, object, keep, &not)),
            }
        } else {
            let can_be = budget.why_not_ahead(object).is_none();
            can_be.then(|| prefetch(at))
        };
    }
}
