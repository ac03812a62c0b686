//! What a plan would do to the whole program, by simulation: what one object gets, others lose.
//!
//! The string of references that crate `predict` makes of a recording says of pages in memory how often they are used, which
//! swap-ins do not. Locked pages leave the string and the memory, streamed ones the string, with some memory to be read ahead
//! in; these come in once a round, of which only the recording knows how long it takes. What swaps then, against what
//! swaps without a plan, is the plan's worth.
//!
//! Sweeps over what was all in memory are in neither ([`crate::unseen`]): they count against plans that drop behind them, or leave
//! too little memory for what is swept.

use std::collections::HashMap;
use std::collections::HashSet;

use pagewise_analyze::Attribution;
use pagewise_analyze::Identity;
use pagewise_analyze::SmallBlocks;
use pagewise_plan::Action;
use pagewise_predict::Clock;
use pagewise_predict::Model;
use pagewise_predict::PageUses;
use pagewise_predict::Treated;
use pagewise_predict::Treatment;
use pagewise_trace::SharedMemory;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::blocks::Block;
use crate::blocks::Blocks;
use crate::blocks::Noted;
use crate::choose::Choice;
use crate::choose::RETURNS;
use crate::facts::ObjectFacts;
use crate::layouts::Layouts;
use crate::most_used::Place;
use crate::most_used::Uses;
use crate::own_time;
use crate::passed_over::PassedOver;
use crate::pauses::Pauses;
use crate::run_facts::RunFacts;
use crate::subjects::Subject;
use crate::unseen;
use crate::unseen::Moment;
use crate::unseen::Swept;
use crate::worst;
use crate::worst::Turns;

/// Of the memory, what locks are tried with, too: how much there is beside what the program has is known about only. A lock of 87 MiB was to leave
/// 0.83 of the swap-ins, in 3 % less memory 0.93 and in 10 % less 1.7, and saved nothing; one of 75 MiB 0.85, 0.83 and 0.88, and made the program 1.15 times as fast.
const LESS_ROOM: f64 = 0.94;

/// A memory size, and swap-ins in it without a plan.
#[derive(Clone, Copy)]
struct Room {
    memory_bytes: u64,
    nothing: u64,
}

/// Judges plans for one memory size.
pub(crate) struct Judge<'a> {
    model: &'a Model,
    objects: &'a [ObjectFacts],
    run: &'a RunFacts,
    room: Room,
    less_room: Room,
    blocks: Blocks,
    /// Of each object, rounds that raised no faults as all of it was in memory, at most.
    unseen_rounds: Vec<f64>,
    /// Of each object, whether all that came back of it was for one thread.
    is_of_one_thread: Vec<bool>,
    /// How often pages are used.
    uses: Vec<PageUses>,
    /// Of each object, how often and when it is gone through.
    turns: Vec<Turns>,
    pauses: Pauses,
    passed_over: PassedOver,
}

impl<'a> Judge<'a> {
    /// `objects`: those of the subjects, in their order.
    pub(crate) fn new(
        trace: &Trace,
        (subjects, layouts): (&[Subject<'_>], &Layouts),
        (objects, run): (&'a [ObjectFacts], &'a RunFacts),
        model: &'a Model,
        memory_bytes: u64,
    ) -> Result<Self, TraceError> {
        let Found {
            blocks,
            moments,
            is_of_one_thread,
            passed_over,
        } = Found::read(trace, (subjects, layouts), objects, memory_bytes)?;
        let clock = own_time::clock(trace, &moments)?;
        let end_ns = trace.meta().end_monotonic_ns.unwrap_or(0);
        let unseen_rounds = unseen_rounds((&clock, &moments), end_ns, (objects, run));
        let pauses = Pauses::read(trace, (&clock, &moments), memory_bytes / run.page_bytes)?;
        let room = |memory_bytes| Room {
            memory_bytes,
            nothing: model.treated(memory_bytes, |_, _| Treatment::Free).swap_ins,
        };
        let uses = model.uses(memory_bytes);
        let spans = worst::spans(&moments, objects.len());
        let turns = mean_known_uses(&uses, &blocks, objects.len())
            .into_iter()
            .zip(spans)
            .map(|(uses, span)| Turns { uses, span })
            .collect();
        Ok(Self {
            model,
            objects,
            run,
            room: room(memory_bytes),
            less_room: room((LESS_ROOM * memory_bytes as f64) as u64),
            blocks,
            unseen_rounds,
            is_of_one_thread,
            uses,
            turns,
            pauses,
            passed_over,
        })
    }

    /// Whether what would be read ahead of this object's sweeps is passed over, too much of it.
    pub(crate) fn is_passed_over(&self, object: usize) -> bool {
        self.is_of_one_thread[object] && self.passed_over.is_much(object)
    }

    /// How often the program's memory is used; `may_be_kept`: of each object.
    pub(crate) fn uses(&self, may_be_kept: &[bool]) -> Uses {
        let pages = self.uses.iter().map(|page| {
            let block = self.blocks.at(page.space, page.address);
            let may_be = |object: usize| may_be_kept[object] && self.sees_uses(object);
            let block = block.filter(|block| may_be(block.object));
            let place = block.map(|block| Place {
                object: block.object,
                offset: block.before + (page.address - block.start),
            });
            (place, page.uses)
        });
        let page_bytes = self.model.pages_each() * self.run.page_bytes as f64;
        Uses::new(pages, page_bytes, self.objects)
    }

    /// Whether it is seen how often its pages are used. Of several threads it is not: who finds its part in memory may go through it several times within a
    /// time slice, while others wait.
    fn sees_uses(&self, object: usize) -> bool {
        self.is_of_one_thread[object]
    }

    /// The share of the swap-ins that are of objects for which several threads wait, and which stay as they are but for a part at most: how often their pages
    /// are used is not seen.
    pub(crate) fn share_of_threads(&self, choices: &[Choice]) -> f64 {
        let is_settled = |at: usize| {
            choices
                .iter()
                .any(|one| one.object == at && one.acts() && one.is_whole())
        };
        let of = |is_meant: &dyn Fn(usize) -> bool| -> u64 {
            let objects = self.objects.iter().enumerate();
            let meant = objects.filter(|(at, _)| is_meant(*at));
            meant.map(|(_, object)| object.swap_ins).sum()
        };
        let of_threads = of(&|at| !self.sees_uses(at) && !is_settled(at));
        of_threads as f64 / of(&|_| true).max(1) as f64
    }

    /// What may be missed in pauses of which nothing is known, besides, as a share of the swap-ins without a plan.
    pub(crate) fn most_missed_in_pauses(&self, locks: &[Choice]) -> f64 {
        let acting = locks.iter().filter(|lock| lock.acts());
        let kept: u64 = acting
            .map(|lock| lock.kept_bytes / self.run.page_bytes)
            .sum();
        let uses = self.pauses.most_missed(kept, |object, page| {
            let lock = locks.iter().find(|choice| choice.object == object);
            lock.is_some_and(|lock| self.is_kept(lock, page * self.run.page_bytes))
        });
        uses / self.room.nothing.max(1) as f64
    }

    /// Whether a page so far into its object is locked; where that is not known, so far into its block.
    fn is_kept(&self, lock: &Choice, offset: u64) -> bool {
        let is_locked = treatment(lock, offset, 0) == Treatment::Locked;
        is_locked && (lock.is_whole() || self.objects[lock.object].has_parts())
    }

    /// Swap-ins of the program with the plan, as a share of those without; of what is read ahead, so large a part counts.
    pub(crate) fn share_left(&self, choices: &[Choice], left_of_streamed: f64) -> f64 {
        self.share_left_in(&self.room, choices, left_of_streamed)
    }

    /// The same of locks if there is somewhat less memory, without a plan, too.
    pub(crate) fn share_left_in_less_room(&self, locks: &[Choice]) -> f64 {
        self.share_left_in(&self.less_room, locks, 1.0)
    }

    fn share_left_in(&self, room: &Room, choices: &[Choice], left_of_streamed: f64) -> f64 {
        // Where nothing swaps, nothing can be won.
        if room.nothing == 0 {
            return 1.0;
        }
        let streamed: f64 = choices.iter().map(|choice| self.streamed(choice)).sum();
        let displaced = displaced_bytes(
            choices,
            self.objects,
            &self.unseen_rounds,
            // With less, what fits just so would not without a plan either.
            self.room.memory_bytes,
        );
        let displaced = displaced / self.run.page_bytes as f64;
        let free = self.treated(choices, room.memory_bytes).swap_ins as f64;
        (free + left_of_streamed * streamed + displaced) / room.nothing as f64
    }

    /// Pages read in ahead: all that is not kept, in each round.
    fn streamed(&self, choice: &Choice) -> f64 {
        let object = &self.objects[choice.object];
        let unseen = self.unseen_rounds[choice.object];
        let rounds = match choice.action {
            Action::Prefetch(_) if object.returns < RETURNS => 1.0 + unseen,
            // Of those that begin ever later, what is kept is done with by then: all is missed ([`displaced_bytes`]).
            _ if choice.is_read_ahead() && object.begins_ever_later() => object.rounds(),
            _ if choice.is_read_ahead() => object.rounds() + unseen,
            _ => return 0.0,
        };
        let pages = object.bytes.saturating_sub(choice.kept_bytes) / self.run.page_bytes;
        (rounds * pages as f64).max(self.uses_of_streamed(choice))
    }

    /// How often pages that are dropped behind a sweep are used after the first time, also such as the kernel keeps: of blocks some of which are gone
    /// through more often than others. Of others it goes by their rounds, as accesses that are made up at random are too many for a sweep.
    fn uses_of_streamed(&self, choice: &Choice) -> f64 {
        if !self.objects[choice.object].is_laid_out {
            return 0.0;
        }
        let uses = self.uses.iter().filter_map(|page| {
            let block = self.blocks.at(page.space, page.address)?;
            let offset = page.address - block.start;
            let is_streamed = block.object == choice.object
                && is_dropped(treatment(choice, offset, block.before));
            is_streamed.then_some(page.uses)
        });
        uses.sum::<u64>() as f64 * self.model.pages_each()
    }

    /// The objects of these choices that are read ahead of in vain: what is dropped behind their sweeps is wanted again so soon that it would have stayed,
    /// so that the preloaded library leaves them alone.
    pub(crate) fn left_alone(&self, choices: &[Choice]) -> Vec<usize> {
        if !choices.iter().any(Choice::is_read_ahead) {
            return Vec::new();
        }
        let treated = self.treated(choices, self.room.memory_bytes);
        treated
            .left_alone
            .into_iter()
            .map(|at| at as usize)
            .collect()
    }

    /// Swap-ins with these locks at worst, as a share of those without a plan ([`worst::share_left`]).
    pub(crate) fn most_left_by_turns(&self, locks: &[Choice]) -> Option<f64> {
        worst::share_left(locks, (self.objects, self.run), &self.turns)
    }

    /// What is left of the program's swap-ins, but for those of what is read ahead.
    fn treated(&self, choices: &[Choice], memory_bytes: u64) -> Treated {
        let of_object: HashMap<usize, &Choice> = choices
            .iter()
            .map(|choice| (choice.object, choice))
            .collect();
        self.model.treated(memory_bytes, |space, address| {
            let Some(block) = self.blocks.at(space, address) else {
                return Treatment::Free;
            };
            match of_object.get(&block.object) {
                Some(choice) => treatment(choice, address - block.start, block.before),
                None => Treatment::Free,
            }
        })
    }
}

/// Of each of so many objects, how often its pages are known to be used on average, of those that are.
fn mean_known_uses(uses: &[PageUses], blocks: &Blocks, objects: usize) -> Vec<f64> {
    let mut of_objects = vec![(0, 0); objects];
    for page in uses {
        if let Some(block) = blocks.at(page.space, page.address) {
            let (pages, uses) = &mut of_objects[block.object];
            *pages += u64::from(page.known > 0);
            *uses += page.known;
        }
    }
    let mean = |(pages, uses): (u64, u64)| uses as f64 / pages.max(1) as f64;
    of_objects.into_iter().map(mean).collect()
}

/// Whether these, who waited for an object, are one thread: of several blocks the one that made them. Others that go through a block each may all find
/// theirs in memory but for one.
fn is_of_one(threads: &HashSet<u32>, maker: Option<u32>) -> bool {
    let is_maker = |thread: &u32| maker.is_none_or(|maker| maker == *thread);
    threads.len() <= 1 && threads.iter().all(is_maker)
}

/// What would be missed, in all rounds, by sweeps which found all of their object in memory, as locks take that now.
fn displaced_bytes(
    choices: &[Choice],
    objects: &[ObjectFacts],
    unseen_rounds: &[f64],
    memory_bytes: u64,
) -> f64 {
    let kept: u64 = choices.iter().map(|choice| choice.kept_bytes).sum();
    let room = memory_bytes.saturating_sub(kept);
    let missed = |(at, rounds): (usize, &f64)| {
        let choice = choices.iter().find(|choice| choice.object == at);
        let own = choice.map_or(0, |choice| choice.kept_bytes);
        let rest = objects[at].bytes.saturating_sub(own);
        match choice.is_some_and(Choice::is_read_ahead) {
            // What is read ahead counts by what is not kept: but for a start that later rounds leave out.
            true if objects[at].begins_ever_later() => rounds * objects[at].bytes as f64,
            false if kept > own && rest > room => rounds * rest as f64,
            _ => 0.0,
        }
    };
    unseen_rounds.iter().enumerate().map(missed).sum()
}

fn is_dropped(treatment: Treatment) -> bool {
    matches!(treatment, Treatment::Streamed(_))
}

/// Of a page so far into its block, of whose object so many bytes lie before it.
fn treatment(choice: &Choice, offset: u64, before: u64) -> Treatment {
    let is_kept =
        |keep: &Option<u64>| keep.is_some_and(|keep| before.saturating_add(offset) < keep);
    match &choice.action {
        Action::Lock {
            keep_bytes,
            ranges,
            together,
            ..
        } => {
            let place = if *together { before + offset } else { offset };
            let in_ranges = ranges.is_empty() || ranges.iter().any(|range| range.contains(&place));
            match in_ranges && (keep_bytes.is_none() || is_kept(keep_bytes)) {
                true => Treatment::Locked,
                false => Treatment::Free,
            }
        }
        Action::Stream { keep_bytes, .. } if is_kept(keep_bytes) => Treatment::Locked,
        Action::Stream { .. } | Action::Prefetch(_) => Treatment::Streamed(choice.object as u32),
        _ => Treatment::Free,
    }
}

/// What a recording tells of objects that can have a rule.
struct Found {
    blocks: Blocks,
    /// What left and came back, in order of time.
    moments: Vec<Moment>,
    is_of_one_thread: Vec<bool>,
    passed_over: PassedOver,
}

impl Found {
    fn read(
        trace: &Trace,
        (subjects, layouts): (&[Subject<'_>], &Layouts),
        objects: &[ObjectFacts],
        memory_bytes: u64,
    ) -> Result<Self, TraceError> {
        let with_rule = objects
            .iter()
            .enumerate()
            .filter(|(_, facts)| facts.can_have_rule);
        let wanted: HashMap<&Identity, usize> = with_rule
            .flat_map(|(at, _)| {
                let of_subject = subjects[at].objects.iter();
                of_subject.map(move |object| (&object.identity, at))
            })
            .collect();
        let small_blocks = match subjects.iter().any(Subject::is_heap) {
            true => SmallBlocks::OneHeap,
            false => SmallBlocks::BySite,
        };
        let mut attribution = Attribution::read_with(trace, small_blocks)?;
        let shared = SharedMemory::read(trace)?;
        let page_bytes = attribution.page_bytes();
        let mut known: Vec<Option<usize>> = Vec::new();
        let mut noted = Noted::new(page_bytes);
        let mut threads: Vec<HashSet<u32>> = vec![HashSet::new(); objects.len()];
        let mut moments = Vec::new();
        let mut passed_over = PassedOver::new(
            objects.iter().map(|facts| !facts.is_one_block),
            memory_bytes,
            page_bytes,
        );
        for event in trace.events()? {
            let event = event?;
            let located = attribution.locate(&event);
            while known.len() <= located.object {
                let identity = attribution.identity(known.len());
                known.push(wanted.get(identity).copied());
            }
            let of = known[located.object].zip(located.page);
            let place = of.and_then(|(object, page)| layouts.place(object, &event, page));
            let before = place.map_or(0, |(before, _)| before);
            let of_object = known[located.object].map(|object| {
                let page = located.page.unwrap_or(0);
                (object, page + before / page_bytes)
            });
            moments.push(Moment::of(&event, of_object));
            let Some((object, page)) = of else {
                continue;
            };
            passed_over.note(object, event.address, event.kind);
            if objects[object].is_laid_out && place.is_none() {
                continue;
            }
            if let Some(tid) = event.tid.filter(|_| event.latency_ns.is_some()) {
                threads[object].insert(tid);
            }
            let address = event.address / page_bytes * page_bytes;
            let Some(start) = address.checked_sub(page * page_bytes) else {
                continue;
            };
            let home = shared.home(event.space, event.address);
            let block = Block {
                space: home,
                start,
                object,
                bytes: match objects[object].is_one_block {
                    true => objects[object].bytes,
                    false => place.map_or(0, |(_, bytes)| bytes),
                },
                before,
            };
            noted.note(block, page);
        }
        let is_heap = |object: usize| subjects[object].is_heap();
        // One block that is made again elsewhere is the same one, and of those with a layout it is known what lies before.
        let blocks = noted.into_blocks(is_heap, |object| objects[object].has_parts());
        // Recordings hold them nearly in order.
        moments.sort_by_key(Moment::time_ns);
        Ok(Self {
            blocks,
            moments,
            is_of_one_thread: (0..objects.len())
                .map(|object| is_of_one(&threads[object], layouts.maker(object)))
                .collect(),
            passed_over,
        })
    }
}

/// Of each object, how many rounds of sweeps raised no faults, at most.
fn unseen_rounds(
    (clock, moments): (&Clock, &[Moment]),
    end_ns: u64,
    (objects, run): (&[ObjectFacts], &RunFacts),
) -> Vec<f64> {
    let swept = objects.iter().map(|facts| Swept {
        pages: facts.bytes / run.page_bytes,
        shrinks: facts.begins_ever_later(),
        left_unseen: facts.left_unseen,
    });
    let rounds = unseen::rounds(moments, clock, end_ns, swept);
    // What is in no order is simulated.
    let of_sweeps = rounds.into_iter().zip(objects);
    let of_sweeps = of_sweeps.map(|(rounds, facts)| if facts.is_swept() { rounds } else { 0.0 });
    of_sweeps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::facts_of;
    use crate::heat::Cell;
    use crate::heat::Heat;
    use crate::subjects::tests::object;
    use pagewise_plan::ReadAhead;

    #[test]
    fn rounds_in_memory_count_against_what_takes_that_memory() {
        const MIB: u64 = 1 << 20;
        let objects = ["phase", "other"].map(|name| facts_of(&[object(name, 96 * MIB, 0)]));
        let choice = |object, action, kept_bytes| Choice {
            object,
            action,
            why: String::new(),
            kept_bytes,
            saves: None,
        };
        let lock = |object, mib| {
            let action = Action::Lock {
                keep_bytes: None,
                keep_more: false,
                ranges: Vec::new(),
                together: false,
            };
            choice(object, action, mib * MIB)
        };
        let displaced = |choices: &[Choice]| {
            displaced_bytes(choices, &objects, &[5.0, 0.0], 116 * MIB) / MIB as f64
        };
        assert_eq!(displaced(&[]), 0.0);
        assert_eq!(displaced(&[lock(1, 20)]), 0.0);
        assert_eq!(displaced(&[lock(1, 96)]), 5.0 * 96.0);
        // What it has itself nobody takes from it.
        assert_eq!(displaced(&[lock(0, 96)]), 0.0);
        let ahead = choice(0, Action::Prefetch(ReadAhead::default()), 0);
        assert_eq!(
            displaced(&[ahead, lock(1, 96)]),
            0.0,
            "counted as read ahead"
        );
        // Unless its sweeps begin ever later: those that raised no faults leave out what is kept.
        let mut shrinking = objects.clone();
        let cell = |swap_ins| Cell {
            swap_ins,
            ..Cell::default()
        };
        shrinking[0].heat = Some(Heat {
            cells: [100, 200, 300, 300, 300, 300, 300, 300].map(cell).to_vec(),
            cell_bytes: 12 * MIB,
        });
        let ahead = choice(0, Action::Prefetch(ReadAhead::default()), 0);
        let missed = displaced_bytes(&[ahead], &shrinking, &[5.0, 0.0], 116 * MIB);
        assert_eq!(missed / MIB as f64, 5.0 * 96.0);
    }

    #[test]
    fn pages_are_treated_as_rules_say() {
        let choice = |action| Choice {
            object: 3,
            action,
            why: String::new(),
            kept_bytes: 0,
            saves: None,
        };
        let stream = choice(Action::Stream {
            keep_bytes: Some(8192),
            keep_more: false,
            ahead: ReadAhead::default(),
        });
        assert_eq!(treatment(&stream, 4096, 0), Treatment::Locked);
        assert_eq!(treatment(&stream, 8192, 0), Treatment::Streamed(3));
        let hot = choice(Action::Lock {
            keep_bytes: None,
            keep_more: false,
            ranges: vec![4096..8192, 16384..20480],
            together: false,
        });
        assert_eq!(treatment(&hot, 0, 0), Treatment::Free);
        assert_eq!(treatment(&hot, 4096, 0), Treatment::Locked);
        let part = choice(Action::Lock {
            keep_bytes: Some(4096),
            keep_more: false,
            ranges: Vec::new(),
            together: false,
        });
        assert_eq!(treatment(&part, 0, 0), Treatment::Locked);
        assert_eq!(treatment(&part, 4096, 0), Treatment::Free);
        assert_eq!(treatment(&choice(Action::Nothing), 0, 0), Treatment::Free);
        assert_eq!(treatment(&stream, 0, 4096), Treatment::Locked);
        assert_eq!(
            treatment(&stream, 0, 8192),
            Treatment::Streamed(3),
            "of another block"
        );
        let together = choice(Action::Lock {
            keep_bytes: None,
            keep_more: false,
            ranges: vec![4096..8192, 16384..20480],
            together: true,
        });
        let kept = [0, 4096, 8192, 12288].map(|before| treatment(&together, 4096, before));
        let expected = [
            Treatment::Locked,
            Treatment::Free,
            Treatment::Free,
            Treatment::Locked,
        ];
        assert_eq!(kept, expected);
    }
}
