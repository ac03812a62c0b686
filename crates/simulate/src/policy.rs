//! Replacement policies: which page leaves memory when another must come in.

use crate::memory::Memory;
use crate::reference::Reference;

pub(crate) mod arc;
pub(crate) mod areas;
pub(crate) mod belady;
pub(crate) mod cflru;
pub(crate) mod clock;
pub(crate) mod clock_pro;
pub(crate) mod fair_rent;
pub(crate) mod fifo;
pub(crate) mod linux;
pub(crate) mod lirs;
pub(crate) mod lru;
pub(crate) mod lru_wsr;
pub(crate) mod mglru;
pub(crate) mod s3_fifo;
pub(crate) mod sieve;
pub(crate) mod two_q;
pub(crate) mod w_tinylfu;

/// A replacement policy. The engine decides hit or miss and keeps the dirty state; the policy keeps the order.
pub(crate) trait Policy: Send {
    /// Makes room for pages numbered below `pages` in arrays indexed by page.
    fn grow(&mut self, pages: usize);

    /// A page in memory was referenced.
    fn hit(&mut self, reference: Reference, memory: &mut Memory);

    /// A page not in memory was referenced: it must be in memory afterwards ([`Memory::admit`]), and no more pages than
    /// there are frames ([`Memory::evict`]).
    fn miss(&mut self, reference: Reference, memory: &mut Memory);

    /// The program gave a page back: the policy forgets it. Returns whether it can.
    fn forget(&mut self, _page: u32, _memory: &mut Memory) -> bool {
        false
    }

    /// There are as many frames now as `memory` says, and no more pages may be in it. Returns whether the policy can do that.
    fn fit(&mut self, _memory: &mut Memory) -> bool {
        false
    }

    /// The kernel brings its statistics up to date ([`Counters::Flushed`](crate::Counters)).
    fn flush_counters(&mut self) {}
}
