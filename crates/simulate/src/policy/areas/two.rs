//! Two areas: pages read and pages written; among the written, how often counts as well as how recently.
//! H. Lee, H. Bahn, K. G. Shin, Page replacement for write references in NAND flash based virtual memory systems, Journal
//! of Computing Science and Engineering 8(3), 2014.

use super::Areas;
use super::Division;
use crate::reference::Reference;
use crate::storage::Storage;

/// Rounds a page of the write area can earn.
const PATIENCE: u8 = 3;

/// Read area 0, write area 1.
pub(crate) struct ByDirection;

impl Division for ByDirection {
    #[inline]
    fn area(&self, reference: Reference) -> usize {
        usize::from(reference.is_write())
    }

    fn patience(&self, area: usize) -> u8 {
        [0, PATIENCE][area]
    }
}

/// The policy of the paper, which has one device: the costs are those of swap. 18 bytes a page.
pub(crate) fn two_areas(frames: u32, storage: &Storage) -> Areas<ByDirection, 2> {
    let costs = [storage.swap.read_ns, storage.swap.write_ns];
    Areas::new(ByDirection, frames, costs)
}
