//! What lies where in one address space, at one moment.

use std::collections::VecDeque;

use pagewise_trace::Trace;

use crate::address_map::AddressMap;
use crate::address_map::Range;
use crate::heap_page::Blocks;
use crate::heap_page::Surroundings;
use crate::thread_heaps;
use crate::thread_heaps::ThreadHeaps;

/// How far the `brk` heap may have grown since its mapping was last listed: nothing else is mapped that near.
const HEAP_REACH: u64 = 64 << 30;

/// Samples lie one mean distance apart or, among blocks with much space between, a few: hardly ever this many.
const REACH_IN_SAMPLES: u64 = 16;
const LEAST_REACH: u64 = 64 << 10;

/// Freed blocks to remember: `realloc` still copies from one while other threads free theirs.
const MOST_FREED: usize = 8;

/// What lies where, by how well it is known: an allocation says more than the mapping it is in.
#[derive(Clone, Default)]
pub(crate) struct Layers {
    /// Of allocators.
    pub(crate) blocks: Blocks,
    /// Of the program; an allocator's own hold blocks.
    pub(crate) mmaps: AddressMap,
    pub(crate) globals: AddressMap,
    pub(crate) mappings: AddressMap,
    /// Blocks freed last, the latest at the end.
    pub(crate) freed: VecDeque<Range>,
    pub(crate) heap_start: Option<u64>,
    /// Only where the heap is one object. They are among the mappings.
    pub(crate) thread_heaps: ThreadHeaps,
}

/// What a change has ended.
#[derive(Default)]
pub(crate) struct Gone {
    pub(crate) mmaps: Vec<Range>,
    pub(crate) blocks: Vec<Range>,
    pub(crate) samples: Vec<Range>,
}

impl Gone {
    pub(crate) fn first(&self) -> Option<&Range> {
        let all = self.mmaps.iter().chain(&self.blocks).chain(&self.samples);
        all.into_iter().next()
    }
}

impl Layers {
    /// `free`: only an allocator's block begins there.
    pub(crate) fn free(&mut self, address: u64) -> Gone {
        let blocks: Vec<Range> = self.blocks.exact.take(address).into_iter().collect();
        if self.freed.len() + blocks.len() > MOST_FREED {
            self.freed.pop_front();
        }
        self.freed.extend(&blocks);
        let sample = blocks.is_empty().then(|| self.blocks.samples.take(address));
        Gone {
            blocks,
            samples: sample.flatten().into_iter().collect(),
            ..Gone::default()
        }
    }

    /// `munmap`: whatever lies there is gone.
    pub(crate) fn unmap(&mut self, address: u64, bytes: u64) -> Gone {
        let end = address.saturating_add(bytes);
        Gone {
            mmaps: self.mmaps.remove(address, end),
            blocks: self.blocks.exact.remove(address, end),
            samples: self.blocks.samples.remove(address, end),
        }
    }

    /// What the page belongs to, blocks aside.
    pub(crate) fn known_mapping(&self, address: u64, page_bytes: u64) -> Option<&Range> {
        [&self.mmaps, &self.globals, &self.mappings]
            .into_iter()
            .find_map(|map| map.find(address, page_bytes))
    }

    pub(crate) fn is_in_heap(&self, address: u64) -> bool {
        self.heap_start
            .is_some_and(|start| address.wrapping_sub(start) < HEAP_REACH)
    }

    /// Whether nobody told of anything in the place of the thread's heap that this address would be in.
    pub(crate) fn may_be_thread_heap(&self, address: u64) -> bool {
        let start = thread_heaps::start_of(address);
        let end = start.saturating_add(thread_heaps::HEAP_BYTES);
        [&self.mmaps, &self.globals, &self.mappings]
            .into_iter()
            .all(|map| map.overlapping(start, end).next().is_none())
    }

    /// Up to where addresses may be the heap's; 0: there is none.
    pub(crate) fn end_of_heap(&self) -> u64 {
        self.heap_start
            .map_or(0, |start| start.saturating_add(HEAP_REACH))
    }

    /// Where samples may speak for a page: in the heap, in a mapping that an allocator uses, and in mappings that
    /// nobody told us of, as those of the C library's arenas.
    pub(crate) fn surroundings(&self, start: u64, page_bytes: u64, reach: u64) -> Surroundings {
        let mean_bytes = (reach / REACH_IN_SAMPLES) as f64;
        let nowhere = Surroundings {
            start,
            end: start,
            reach: 0,
            mean_bytes,
        };
        if let Some(mmap) = self.mmaps.find(start, page_bytes) {
            let used = self.blocks.has_samples(mmap.start, mmap.end);
            return Surroundings {
                start: mmap.start,
                end: mmap.end,
                reach: if used { reach } else { 0 },
                mean_bytes,
            };
        }
        if self.is_in_heap(start) {
            return Surroundings {
                start: self.heap_start.unwrap_or(0),
                end: u64::MAX,
                reach,
                mean_bytes,
            };
        }
        match self.known_mapping(start, page_bytes) {
            Some(_) => nowhere,
            None => Surroundings {
                start: 0,
                end: u64::MAX,
                reach,
                mean_bytes,
            },
        }
    }
}

/// How far samples speak for their surroundings, in bytes.
pub(crate) fn reach(trace: &Trace) -> u64 {
    let sampling = trace.meta().sampling;
    let sample_bytes = sampling.sparsest_sample_bytes.or(sampling.sample_bytes);
    sample_bytes
        .unwrap_or(0)
        .saturating_mul(REACH_IN_SAMPLES)
        .max(LEAST_REACH)
}
