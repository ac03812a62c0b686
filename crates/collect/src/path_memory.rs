//! What the programs know of call paths (see `bpf/callpaths.h`): the reader writes it, here.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use crate::CallPath;
use crate::CollectError;
use crate::Observation;
use crate::ring::MappedArray;

const LAYOUT_SETS: usize = 1 << 13;
const LAYOUT_WAYS: usize = 4;
const LAYOUT_WORDS: usize = 2;
const PATH_SETS: usize = 1 << 16;
const PATH_WAYS: usize = 4;
const PATH_WORDS: usize = 2;
const SLOT_POOL: usize = 1 << 20;
const SLOTS_PER_WORD: usize = 4;
const SLOT_OFFSET: u64 = 0x7fff;
const SLOT_IS_RELATIVE: u16 = 0x8000;
const PATH_IS_CUT: u64 = 1 << 62;
const USES_FRAME_POINTER: u16 = 1;
const ENDS_UNREADABLE: u16 = 2;

/// More words than this are not looked at in a fault: such a stack is copied each time.
pub(crate) const MOST_SLOTS: usize = 256;

/// A word of a stack that decided where its unwinding went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Its distance from the stack pointer in bytes, a multiple of 8.
    pub offset: u64,
    /// It holds a frame pointer, which counts by its distance from the stack pointer.
    pub is_frame_pointer: bool,
    /// What it held.
    pub value: u64,
}

/// What the programs are to know: a stack like this one belongs to that path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// The copied stack.
    pub stack: CopiedStack,
    /// All words that decided, in the order in which they were read.
    pub slots: Vec<Slot>,
    /// The frame pointer's value at the fault decided too.
    pub uses_frame_pointer: bool,
    /// The walk needed this word, at so many bytes from the stack pointer, which was not resident: the path is cut
    /// there. Where it is, there is more to learn.
    pub unreadable: Option<u64>,
    /// The path's number.
    pub path: u32,
}

/// Where a stack was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedStack {
    /// The copy's number, which a fault's record refers to.
    pub sequence: u64,
    /// Address space.
    pub space: u32,
    /// The registers of the faulting program.
    pub instruction_pointer: u64,
    /// As above; where the copy begins.
    pub stack_pointer: u64,
    /// As above.
    pub frame_pointer: u64,
    /// As above; 0 where the processor has none.
    pub link_register: u64,
    /// Hash of place and depth.
    pub(crate) key: u64,
    /// Hash of the place, which the hash of the words continues.
    pub(crate) origin: u64,
    /// The path it was recognized as. Such a stack is sent now and then if its path is cut (see
    /// [`Lesson::unreadable`]), and always with [`crate::Options::check_call_paths`].
    pub known: Option<u32>,
    /// Bit n: the nth page was not resident, counted from the one in which the copy begins.
    pub(crate) absent: u64,
}

/// Slots and flags.
type Layout = (Vec<u16>, u16);

/// The tables that programs read, and what was written into them.
pub(crate) struct PathMemory {
    layouts: MappedArray,
    slots: MappedArray,
    paths: MappedArray,
    used_slot_words: usize,
    /// By place in the table: what it holds.
    written: HashMap<usize, (u64, Layout)>,
    /// Which way of a full set is given up next.
    turn: usize,
}

impl PathMemory {
    pub(crate) fn map(
        layouts: BorrowedFd<'_>,
        slots: BorrowedFd<'_>,
        paths: BorrowedFd<'_>,
    ) -> Result<Self, CollectError> {
        Ok(Self {
            layouts: MappedArray::new(layouts, LAYOUT_SETS * LAYOUT_WAYS * LAYOUT_WORDS)?,
            slots: MappedArray::new(slots, SLOT_POOL / SLOTS_PER_WORD)?,
            paths: MappedArray::new(paths, PATH_SETS * PATH_WAYS * PATH_WORDS)?,
            used_slot_words: 0,
            written: HashMap::new(),
            turn: 0,
        })
    }

    /// From now on such a stack is recognized. A path through too many words is not learnt.
    pub(crate) fn teach(&mut self, lesson: &Lesson) {
        let unreadable = lesson.unreadable.map(|offset| Slot {
            offset,
            is_frame_pointer: false,
            value: 0,
        });
        let slots: Vec<Slot> = lesson.slots.iter().copied().chain(unreadable).collect();
        let Some(slots) = encode(&slots) else {
            return;
        };
        let mut flags = 0;
        if lesson.uses_frame_pointer {
            flags |= USES_FRAME_POINTER;
        }
        if lesson.unreadable.is_some() {
            flags |= ENDS_UNREADABLE;
        }
        let hash = hash_of(lesson);
        if hash == 0 {
            return;
        }
        // 0 is for unknown.
        let mut value = u64::from(lesson.path) + 1;
        if lesson.unreadable.is_some() {
            value |= PATH_IS_CUT;
        }
        self.write_path(hash, value);
        self.write_layout(lesson.stack.key, (slots, flags));
    }

    /// Nothing is known any more: code was unmapped, and its addresses may come to mean something else.
    pub(crate) fn forget(&mut self) {
        for &place in self.written.keys() {
            self.layouts.atomics()[place * LAYOUT_WORDS].store(0, Ordering::Release);
        }
        for entry in self.paths.atomics().chunks_exact(PATH_WORDS) {
            if entry[0].load(Ordering::Relaxed) != 0 {
                entry[0].store(0, Ordering::Release);
            }
        }
        self.written.clear();
        self.used_slot_words = 0;
    }

    fn write_path(&mut self, hash: u64, value: u64) {
        let set = (hash as usize & (PATH_SETS - 1)) * PATH_WAYS;
        let table = self.paths.atomics();
        let key = |way: usize| table[(set + way) * PATH_WORDS].load(Ordering::Relaxed);
        let way = (0..PATH_WAYS)
            .find(|&way| key(way) == hash)
            .or_else(|| (0..PATH_WAYS).find(|&way| key(way) == 0));
        let way = way.unwrap_or_else(|| {
            self.turn = self.turn.wrapping_add(1);
            self.turn % PATH_WAYS
        });
        let entry = &table[(set + way) * PATH_WORDS..][..PATH_WORDS];
        entry[0].store(0, Ordering::Release);
        entry[1].store(value, Ordering::Release);
        entry[0].store(hash, Ordering::Release);
    }

    fn write_layout(&mut self, key: u64, layout: Layout) {
        let set = (key as usize & (LAYOUT_SETS - 1)) * LAYOUT_WAYS;
        let mut ways = set..set + LAYOUT_WAYS;
        let known = |place: &usize| {
            let written = self.written.get(place);
            written.is_some_and(|(of, what)| *of == key && *what == layout)
        };
        if ways.clone().any(|place| known(&place)) {
            return;
        }
        let words = layout.0.len().div_ceil(SLOTS_PER_WORD);
        if self.used_slot_words + words > self.slots.atomics().len() {
            self.forget();
        }
        let place = ways
            .find(|place| !self.written.contains_key(place))
            .unwrap_or_else(|| {
                self.turn = self.turn.wrapping_add(1);
                set + self.turn % LAYOUT_WAYS
            });
        let entry = &self.layouts.atomics()[place * LAYOUT_WORDS..][..LAYOUT_WORDS];
        entry[0].store(0, Ordering::Release);
        let first = self.used_slot_words;
        for (index, slots) in layout.0.chunks(SLOTS_PER_WORD).enumerate() {
            let packed = slots
                .iter()
                .rev()
                .fold(0, |word: u64, &slot| word << 16 | u64::from(slot));
            self.slots.atomics()[first + index].store(packed, Ordering::Release);
        }
        self.used_slot_words += words;
        let first = (first * SLOTS_PER_WORD) as u64;
        let (count, flags) = (layout.0.len() as u64, u64::from(layout.1));
        entry[1].store(first | count << 32 | flags << 48, Ordering::Release);
        entry[0].store(key, Ordering::Release);
        self.written.insert(place, (key, layout));
    }
}

/// `None`: too many words, or one too far up.
fn encode(slots: &[Slot]) -> Option<Vec<u16>> {
    if slots.len() > MOST_SLOTS {
        return None;
    }
    let encoded = slots.iter().map(|slot| {
        let words = slot.offset / 8;
        let flag = if slot.is_frame_pointer {
            SLOT_IS_RELATIVE
        } else {
            0
        };
        (slot.offset.is_multiple_of(8) && words <= SLOT_OFFSET).then_some(words as u16 | flag)
    });
    encoded.collect()
}

/// `mix` of callpaths.h.
fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 29
}

/// `hash_words` of callpaths.h.
fn hash_of(lesson: &Lesson) -> u64 {
    let stack = &lesson.stack;
    let mut hash = stack.origin;
    if lesson.uses_frame_pointer {
        hash = mix(hash, stack.frame_pointer.wrapping_sub(stack.stack_pointer));
    }
    for slot in &lesson.slots {
        let word = if slot.is_frame_pointer {
            slot.value.wrapping_sub(stack.stack_pointer)
        } else {
            slot.value
        };
        hash = mix(hash, word);
    }
    match lesson.unreadable {
        Some(_) => mix(hash, lesson.slots.len() as u64),
        None => hash,
    }
}

impl CopiedStack {
    /// Address ranges inside the copy that were not resident: their bytes mean nothing.
    pub fn absent(&self) -> Vec<Range<u64>> {
        let first = (self.stack_pointer & !(COPY_STRIDE - 1)) & !(PAGE_BYTES - 1);
        (0..64)
            .filter(|page| self.absent >> page & 1 != 0)
            .map(|page| first + page * PAGE_BYTES..first + (page + 1) * PAGE_BYTES)
            .collect()
    }

    /// What is further above the stack pointer than this, in bytes, is never copied.
    pub const LONGEST: u64 = (64 << 10) - COPY_STRIDE;
}

/// Which copies records have referred to, and which of these were handed on. Each processor numbers its own, ascending.
#[derive(Default)]
pub(crate) struct Referred {
    /// By processor: the last one that a record named, and the last one handed on.
    last: HashMap<u64, (u64, u64)>,
}

impl Referred {
    pub(crate) fn note(&mut self, observation: &Observation) {
        if let CallPath::Copied(sequence) = observation.call_path() {
            let (named, _) = self.of(sequence);
            *named = (*named).max(sequence);
        }
    }

    pub(crate) fn handed_on(&mut self, observation: &Observation) {
        if let Observation::Stack { stack, .. } = observation {
            let (_, handed_on) = self.of(stack.sequence);
            *handed_on = (*handed_on).max(stack.sequence);
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.last
            .values()
            .all(|(named, handed_on)| handed_on >= named)
    }

    fn of(&mut self, sequence: u64) -> (&mut u64, &mut u64) {
        let (named, handed_on) = self.last.entry(sequence >> 48).or_default();
        (named, handed_on)
    }
}

/// Bytes of `struct stack_copy` before the stack itself.
const COPY_HEAD: usize = 80;
const COPY_STRIDE: u64 = 256;
const PAGE_BYTES: u64 = 4096;

/// Decodes `struct stack_copy`; `None` if it is too short.
pub(crate) fn decode_copy(bytes: &[u8]) -> Option<(CopiedStack, Vec<u8>)> {
    let word = |index: usize| {
        let bytes = bytes.get(index * 8..index * 8 + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let [s0, s1, s2, s3, l0, l1, l2, l3] = word(8)?.to_ne_bytes();
    let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
    let stack = CopiedStack {
        sequence: word(0)?,
        instruction_pointer: word(1)?,
        stack_pointer: word(2)?,
        frame_pointer: word(3)?,
        link_register: word(4)?,
        key: word(5)?,
        origin: word(6)?,
        known: word(7)?.checked_sub(1).map(|path| path as u32),
        space: u32::from_ne_bytes([s0, s1, s2, s3]),
        absent: word(9)?,
    };
    // It begins at a multiple of the stride, below the stack pointer.
    let below = (stack.stack_pointer % COPY_STRIDE) as usize;
    let copied = bytes.get(COPY_HEAD..COPY_HEAD + length)?;
    Some((stack, copied.get(below..).unwrap_or_default().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_words_with_a_flag() {
        let slot = |offset, is_frame_pointer| Slot {
            offset,
            is_frame_pointer,
            value: 0,
        };
        assert_eq!(
            encode(&[slot(0, false), slot(24, true)]),
            Some(vec![0, 3 | SLOT_IS_RELATIVE])
        );
        assert_eq!(encode(&[slot(12, false)]), None);
        assert_eq!(encode(&[slot(8 * 0x8000, false)]), None);
        assert_eq!(encode(&[slot(8, false); MOST_SLOTS + 1]), None);
    }

    #[test]
    fn a_frame_pointer_counts_by_its_distance() {
        let lesson = |base: u64, value: u64| Lesson {
            stack: CopiedStack {
                stack_pointer: base,
                frame_pointer: base + 64,
                ..CopiedStack::default()
            },
            slots: vec![
                Slot {
                    offset: 8,
                    is_frame_pointer: true,
                    value: base + 128,
                },
                Slot {
                    offset: 16,
                    is_frame_pointer: false,
                    value,
                },
            ],
            uses_frame_pointer: true,
            unreadable: None,
            path: 1,
        };
        assert_eq!(hash_of(&lesson(0x7000, 5)), hash_of(&lesson(0x9000, 5)));
        assert_ne!(hash_of(&lesson(0x7000, 5)), hash_of(&lesson(0x7000, 6)));
    }

    #[test]
    fn copies_that_records_named_are_waited_for_by_processor() {
        let fault = |sequence| Observation::SwapIn {
            time_ns: 0,
            space: 1,
            tid: 1,
            address: 0,
            latency_ns: None,
            major: true,
            call_path: CallPath::Copied(sequence),
        };
        let copy = |sequence| Observation::Stack {
            stack: CopiedStack {
                sequence,
                ..CopiedStack::default()
            },
            bytes: Vec::new(),
        };
        let (first, second) = (1 << 63, 1 << 63 | 1 << 48);
        let mut referred = Referred::default();
        assert!(referred.is_settled());
        referred.note(&fault(first + 3));
        referred.note(&fault(second + 1));
        referred.handed_on(&copy(first + 7));
        assert!(!referred.is_settled(), "the other processor's is missing");
        referred.handed_on(&copy(second));
        assert!(!referred.is_settled());
        referred.handed_on(&copy(second + 1));
        assert!(referred.is_settled());
    }

    #[test]
    fn a_short_copy_is_refused() {
        let mut bytes = vec![0u8; COPY_HEAD + 16];
        bytes[68..72].copy_from_slice(&16u32.to_ne_bytes());
        bytes[64..68].copy_from_slice(&7u32.to_ne_bytes());
        let (stack, copied) = decode_copy(&bytes).expect("whole");
        assert_eq!((stack.space, copied.len()), (7, 16));
        bytes[16..24].copy_from_slice(&(0x7000u64 + 8).to_ne_bytes());
        let (_, copied) = decode_copy(&bytes).expect("whole");
        assert_eq!(copied.len(), 8);
        assert_eq!(stack.absent(), []);
        bytes[72] = 0b10;
        let (stack, _) = decode_copy(&bytes).expect("whole");
        assert_eq!(stack.absent(), vec![0x8000u64..0x9000]);
        assert_eq!(decode_copy(&bytes[..COPY_HEAD + 8]), None);
        assert_eq!(decode_copy(&[]), None);
    }

    /// record.h is the other half of this contract.
    #[test]
    fn the_header_has_the_same_numbers() {
        let header = include_str!("bpf/record.h");
        for line in [
            "#define LAYOUT_SETS (1 << 13)",
            "#define LAYOUT_WAYS 4",
            "#define PATH_SETS (1 << 16)",
            "#define PATH_WAYS 4",
            "#define SLOT_POOL (1 << 20)",
            "#define MOST_SLOTS 256",
            "#define SLOT_OFFSET 0x7fff",
            "#define PATH_IS_CUT (1ULL << 62)",
            "#define COPY_STRIDE 256",
            "#define LONGEST_COPY (64 << 10)",
            "#define LAYOUT_USES_FRAME_POINTER 1 ",
            "#define LAYOUT_ENDS_UNREADABLE 2 ",
        ] {
            assert!(header.contains(line), "{line}");
        }
        assert_eq!(CopiedStack::LONGEST + COPY_STRIDE, 64 << 10);
    }
}
