//! Objects of several blocks whose parts are the same in another run: one thread makes the blocks one after the other, and all are there
//! together. What is hot of such an object is known again by how much of it was made before, as in one block it is by its offset.
//!
//! The preloaded library counts what a rule's paths make, so that these have to make just that.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;

use pagewise_plan::Target;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::Move;
use pagewise_trace::Release;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;
use pagewise_trace::forked_from;

use crate::facts::ObjectFacts;
use crate::facts::SMALLEST_BLOCK;
use crate::subjects::Subject;
use crate::targets::Targets;

/// An object has so many blocks at most: the preloaded library has to have looked at each of them.
const MOST_BLOCKS: u64 = 4096;

/// A block of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    object: usize,
    /// Bytes of the object that were made before.
    before: u64,
    bytes: u64,
}

/// Where the blocks of objects lie in these.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    /// By address space and first page.
    blocks: HashMap<(u32, u64), Block>,
    /// Whose they are, and the thread that made them.
    makers: HashMap<usize, u32>,
    /// What a forked child has is where its parent has it.
    parents: HashMap<u32, u32>,
    page_bytes: u64,
}

/// A way in which memory ends: in a space, from and to, and when.
type End = (u32, u64, u64, u64);

impl Layouts {
    /// Of subjects with several blocks each; goes through the allocations only if there are such.
    pub(crate) fn read(
        trace: &Trace,
        targets: &Targets,
        (subjects, facts): (&[Subject<'_>], &[ObjectFacts]),
        page_bytes: u64,
    ) -> Result<Self, TraceError> {
        let mut of_stack: HashMap<u32, usize> = HashMap::new();
        let several = (0..subjects.len()).filter(|&at| may_have_layout(&subjects[at], &facts[at]));
        for at in several {
            let objects = subjects[at].objects.iter();
            let stacks = objects.flat_map(|object| targets.stacks_of(&object.identity));
            of_stack.extend(stacks.map(|stack| (stack, at)));
        }
        if of_stack.is_empty() {
            return Ok(Self::default());
        }
        let mut made: BTreeMap<usize, Vec<Allocation>> = BTreeMap::new();
        let mut large: BTreeSet<u32> = BTreeSet::new();
        for allocation in trace.rows::<Allocation>()? {
            let allocation = allocation?;
            let Some(stack) = allocation.stack else {
                continue;
            };
            if allocation.bytes >= SMALLEST_BLOCK {
                large.insert(stack);
            }
            if let Some(&object) = of_stack.get(&stack) {
                made.entry(object).or_default().push(allocation);
            }
        }
        let ends = ends(trace)?;
        let parents = forked_from(trace)?.into_iter();
        let mut layouts = Self {
            page_bytes,
            parents: parents
                .map(|(child, (parent, _))| (child, parent))
                .collect(),
            ..Self::default()
        };
        for (object, mut made) in made {
            made.sort_by_key(|allocation| allocation.time_ns);
            let counts_just_these = |target: &Target| {
                let counts = |stack: &u32| of_stack.get(stack) == Some(&object);
                let mut stacks = large.iter();
                stacks.all(|stack| targets.is_made_by(target, *stack) == counts(stack))
            };
            if is_one_after_the_other(&made, facts[object].bytes)
                && are_together(&made, &ends)
                && subjects[object]
                    .target
                    .as_ref()
                    .is_ok_and(counts_just_these)
            {
                layouts.add(object, &made);
            }
        }
        Ok(layouts)
    }

    fn add(&mut self, object: usize, made: &[Allocation]) {
        let mut before = 0u64;
        for one in made {
            let first = one.address / self.page_bytes.max(1);
            let block = Block {
                object,
                before,
                bytes: one.bytes,
            };
            self.blocks.insert((one.space, first), block);
            before = before.saturating_add(one.bytes);
        }
        if let Some(first) = made.first() {
            self.makers.insert(object, first.tid);
        }
    }

    /// Whether the blocks of this object are among these.
    pub(crate) fn has(&self, object: usize) -> bool {
        self.makers.contains_key(&object)
    }

    /// The thread that made the blocks of this object, if they are among these.
    pub(crate) fn maker(&self, object: usize) -> Option<u32> {
        self.makers.get(&object).copied()
    }

    /// How much of this object was made before the block that this event's page is the nth of, bytes, and how large that block is; `None`: it is
    /// not known.
    pub(crate) fn place(&self, object: usize, event: &Event, page: u64) -> Option<(u64, u64)> {
        let first = (event.address / self.page_bytes.max(1)).checked_sub(page)?;
        let spaces =
            std::iter::successors(Some(event.space), |space| self.parents.get(space).copied());
        let mut blocks = spaces.filter_map(|space| self.blocks.get(&(space, first)));
        let block = blocks.find(|block| block.object == object)?;
        Some((block.before, block.bytes))
    }
}

/// Whatever was given back, moved or resized; all of a block from its first byte on.
fn ends(trace: &Trace) -> Result<Vec<End>, TraceError> {
    let mut ends = Vec::new();
    for one in trace.rows::<Release>()? {
        let one = one?;
        let bytes = one.bytes.unwrap_or(1);
        ends.push((one.space, one.address, bytes, one.time_ns));
    }
    for one in trace.rows::<Move>()? {
        let one = one?;
        // Whenever it is.
        ends.push((one.space, one.old_address, one.old_bytes.max(1), 0));
    }
    Ok(ends)
}

/// Whether these were all there when the last was made, and stay where they are.
fn are_together(made: &[Allocation], ends: &[End]) -> bool {
    let last_ns = made.last().map_or(0, |one| one.time_ns);
    let starts: BTreeSet<(u32, u64)> = made.iter().map(|one| (one.space, one.address)).collect();
    let ends_one = |&(space, from, bytes, at_ns): &End| {
        let range = (space, from)..(space, from.saturating_add(bytes));
        at_ns <= last_ns && starts.range(range).next().is_some()
    };
    let first_ns = made.first().map_or(0, |one| one.time_ns);
    let meanwhile = |end: &&End| end.3 == 0 || end.3 >= first_ns;
    starts.len() == made.len() && !ends.iter().filter(meanwhile).any(ends_one)
}

/// Whether there are several blocks at once, each of which was made once, and the preloaded library looks at them all.
fn may_have_layout(subject: &Subject<'_>, facts: &ObjectFacts) -> bool {
    let most_alive = subject.sum(|object| object.most_alive);
    subject.target.is_ok()
        && facts.can_have_rule
        && !facts.is_one_block
        && !subject.is_heap()
        && (2..=MOST_BLOCKS).contains(&most_alive)
        && subject.sum(|object| object.allocations) == most_alive
}

/// Whether these are all blocks of an object of so many bytes, and one thread has made them.
fn is_one_after_the_other(made: &[Allocation], bytes: u64) -> bool {
    let Some(first) = made.first() else {
        return false;
    };
    let is_alike = |one: &Allocation| {
        (one.space, one.tid) == (first.space, first.tid)
            && one.kind != AllocationKind::Brk
            && one.estimated_bytes.is_none()
            && one.bytes >= SMALLEST_BLOCK
    };
    let sum = made.iter().map(|one| one.bytes);
    made.iter().all(is_alike) && sum.fold(0, u64::saturating_add) == bytes
}

/// The size of cells of about so many bytes, of an object of blocks of so many: several blocks each, or the same part of one.
pub(crate) fn aligned_to_blocks(cell_bytes: u64, block_bytes: u64) -> u64 {
    let (cell, block) = (cell_bytes.max(1), block_bytes.max(1));
    match cell < block {
        true => block.div_ceil(block.div_ceil(cell)),
        false => cell.next_multiple_of(block),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_trace::EventKind;

    const MIB: u64 = 1 << 20;

    /// Allocations of so many MiB, each below the one before, as mappings are.
    fn made(mib: &[u64]) -> Vec<Allocation> {
        let mut address = 0x7000_0000_0000;
        let mut allocation = |(at, mib): (usize, &u64)| {
            address -= mib * MIB;
            Allocation {
                allocation: at as u64,
                space: 1,
                tid: 7,
                time_ns: at as u64,
                address,
                bytes: mib * MIB,
                kind: AllocationKind::Malloc,
                stack: Some(1),
                estimated_bytes: None,
            }
        };
        mib.iter().enumerate().map(&mut allocation).collect()
    }

    #[test]
    fn blocks_come_in_the_order_in_which_they_were_made() {
        let made = made(&[4, 1, 2]);
        let mut layouts = Layouts {
            page_bytes: 4096,
            ..Layouts::default()
        };
        layouts.add(3, &made);
        assert!(layouts.has(3) && !layouts.has(0));
        let place = |address, page| {
            let event = Event {
                kind: EventKind::SwapIn,
                time_ns: 0,
                space: 1,
                tid: None,
                address,
                latency_ns: None,
                stack: None,
            };
            layouts.place(3, &event, page)
        };
        assert_eq!(place(made[0].address + 4096, 1), Some((0, 4 * MIB)));
        assert_eq!(place(made[1].address, 0), Some((4 * MIB, MIB)));
        assert_eq!(
            place(made[2].address + 8192 + 7, 2),
            Some((5 * MIB, 2 * MIB))
        );
        assert_eq!(place(made[2].address + 8192, 1), None, "another's page");
        assert_eq!(place(0, 1), None);
    }

    #[test]
    fn a_forked_child_has_its_parents_blocks_where_they_are() {
        let made = made(&[4, 1]);
        let mut layouts = Layouts {
            page_bytes: 4096,
            parents: HashMap::from([(3, 2), (2, 1)]),
            ..Layouts::default()
        };
        layouts.add(0, &made);
        let place = |space| {
            let event = Event {
                kind: EventKind::SwapIn,
                time_ns: 0,
                space,
                tid: None,
                address: made[1].address,
                latency_ns: None,
                stack: None,
            };
            layouts.place(0, &event, 0)
        };
        assert_eq!([1, 3].map(place), [Some((4 * MIB, MIB)); 2]);
        assert_eq!(place(9), None);
    }

    #[test]
    fn what_is_given_back_or_moved_before_all_are_made_has_no_layout() {
        let made = made(&[4, 1, 2]);
        let at = |at: usize| made[at].address;
        let with = |end: End| are_together(&made, &[end]);
        assert!(are_together(&made, &[]));
        assert!(!with((1, at(0), 1, 1)), "released");
        assert!(!with((1, at(1) - MIB, 2 * MIB, 2)), "unmapped with others");
        assert!(with((1, at(0), 1, 3)), "when all were made");
        assert!(with((2, at(0), 1, 1)), "in another space");
        assert!(with((1, at(0) + MIB, MIB, 1)), "a part of it");
        assert!(!with((1, at(2), 2 * MIB, 0)), "moved");
        let mut again = made.clone();
        again[2].address = at(0);
        assert!(!are_together(&again, &[]), "at the same place");
    }

    #[test]
    fn cells_end_where_blocks_do() {
        assert_eq!(aligned_to_blocks(3 * MIB, 4 * MIB), 2 * MIB);
        assert_eq!(aligned_to_blocks(3 * MIB, MIB / 2), 3 * MIB);
        assert_eq!(aligned_to_blocks(3 * MIB, 2 * MIB), 4 * MIB);
        assert_eq!(
            aligned_to_blocks(3 * MIB, 100 * MIB),
            (100 * MIB).div_ceil(34)
        );
        assert_eq!(aligned_to_blocks(0, 0), 1);
    }

    #[test]
    fn what_may_come_in_another_order_or_again_has_no_layout() {
        let bytes = 7 * MIB;
        let all = made(&[4, 1, 2]);
        assert!(is_one_after_the_other(&all, bytes));
        assert!(!is_one_after_the_other(&all, bytes - MIB), "one came later");
        assert!(!is_one_after_the_other(&[], 0));
        type Change = fn(&mut Allocation);
        let changes: [Change; 4] = [
            |one| one.tid += 1,
            |one| one.space += 1,
            |one| one.estimated_bytes = Some(one.bytes),
            |one| one.kind = AllocationKind::Brk,
        ];
        for change in changes {
            let mut others = all.clone();
            change(&mut others[1]);
            assert!(!is_one_after_the_other(&others, bytes), "{others:?}");
        }
        let mut small = made(&[4, 1]);
        small[1].bytes = SMALLEST_BLOCK - 1;
        assert!(!is_one_after_the_other(
            &small,
            4 * MIB + SMALLEST_BLOCK - 1
        ));
    }
}
