//! What of a replay is told to those that want to know more than what lies where.

use crate::address_map::Range;

/// An object's range begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) time_ns: u64,
    pub(crate) space: u32,
    /// Ranges of one layer do not overlap.
    pub(crate) layer: usize,
    pub(crate) range: Range,
    pub(crate) begins: bool,
}

/// Pages that a program gave back to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GivenBack {
    pub(crate) space: u32,
    /// Page numbers.
    pub(crate) first_page: u64,
    pub(crate) end_page: u64,
}

/// How many layers there are, and the places of each in [`Life::layer`], best known first. Samples have none: of what
/// they stand for, nobody knows where it lies.
pub(crate) const LAYERS: usize = 4;
pub(super) const BLOCKS: usize = 0;
pub(super) const MMAPS: usize = 1;
pub(super) const GLOBALS: usize = 2;
pub(super) const MAPPINGS: usize = 3;

/// Notes what it was asked to.
#[derive(Default)]
pub(super) struct Witness {
    /// When which range was alive.
    pub(super) lives: Option<Vec<Life>>,
    /// What was given back since it was last asked for.
    pub(super) given_back: Option<Vec<GivenBack>>,
}

impl Witness {
    /// `at`: time and space.
    pub(super) fn note(&mut self, at: (u64, u32), layer: usize, ranges: &[Range], begins: bool) {
        if let Some(lives) = &mut self.lives {
            lives.extend(ranges.iter().map(|&range| Life {
                time_ns: at.0,
                space: at.1,
                layer,
                range,
                begins,
            }));
        }
    }

    pub(super) fn give_back(&mut self, space: u32, addresses: (u64, u64), page_bytes: u64) {
        if let Some(given_back) = &mut self.given_back {
            given_back.push(GivenBack {
                space,
                first_page: addresses.0.div_ceil(page_bytes),
                end_page: addresses.1 / page_bytes,
            });
        }
    }

    /// Of freed blocks, those that the C library had mapped for themselves (malloc/malloc.c of glibc 2.36: a header of 16
    /// bytes at the start of a page) go back to the kernel at once.
    pub(super) fn give_back_mapped(&mut self, space: u32, blocks: &[Range], page_bytes: u64) {
        const HEADER: u64 = 16;
        const SMALLEST: u64 = 128 << 10;
        for block in blocks {
            let mapped = block.start % page_bytes == HEADER;
            if mapped && block.end - block.start >= SMALLEST {
                let end = block.end.next_multiple_of(page_bytes);
                self.give_back(space, (block.start - HEADER, end), page_bytes);
            }
        }
    }
}
