//! Objects of several blocks whose parts are the same in another run: one thread makes the blocks one after the other, and all are there
//! together. What is hot of such an object is known again by how much of it was made before, as in one block it is by its offset.

use std::collections::HashMap;
use std::collections::HashSet;

use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::Move;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

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
    /// Whose they are.
    objects: HashSet<usize>,
    page_bytes: u64,
}

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
        let mut made: HashMap<usize, Vec<Allocation>> = HashMap::new();
        for allocation in trace.rows::<Allocation>()? {
            let allocation = allocation?;
            let object = allocation.stack.and_then(|stack| of_stack.get(&stack));
            if let Some(&object) = object {
                made.entry(object).or_default().push(allocation);
            }
        }
        let mut moved = HashSet::new();
        for one in trace.rows::<Move>()? {
            let one = one?;
            moved.insert((one.space, one.old_address));
        }
        let is_moved = |one: &Allocation| moved.contains(&(one.space, one.address));
        let mut layouts = Self {
            page_bytes,
            ..Self::default()
        };
        for (object, mut made) in made {
            made.sort_by_key(|allocation| allocation.time_ns);
            if is_one_after_the_other(&made, facts[object].bytes) && !made.iter().any(is_moved) {
                layouts.add(object, &made);
            }
        }
        Ok(layouts)
    }

    fn add(&mut self, object: usize, made: &[Allocation]) {
        let mut before = 0;
        for one in made {
            let first = one.address / self.page_bytes.max(1);
            let block = Block {
                object,
                before,
                bytes: one.bytes,
            };
            self.blocks.insert((one.space, first), block);
            before += one.bytes;
        }
        self.objects.insert(object);
    }

    /// Whether the blocks of this object are among these.
    pub(crate) fn has(&self, object: usize) -> bool {
        self.objects.contains(&object)
    }

    /// How much of this object was made before the block that this event's page is the nth of, bytes, and how large that block is; `None`: it is
    /// not known.
    pub(crate) fn place(&self, object: usize, event: &Event, page: u64) -> Option<(u64, u64)> {
        let first = (event.address / self.page_bytes.max(1)).checked_sub(page)?;
        let block = self.blocks.get(&(event.space, first));
        let block = block.filter(|block| block.object == object)?;
        Some((block.before, block.bytes))
    }
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
    made.iter().all(is_alike) && made.iter().map(|one| one.bytes).sum::<u64>() == bytes
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
