//! Huge page policies: which regions of 2 MiB become huge pages, and which stop being ones. Pure: what was seen goes in
//! ([`Seen`], [`MemoryState`], a time), what to do comes out ([`Action`]); the live manager runs the same code.
//!
//! ```text
//!   Seen -> Process::observe -> coverage, access map -> Policy -> Bounded (nobody starves) -> Rate -> Action::Promote
//!   MemoryState -> Recovery (between two watermarks) -> Action::CountZeros, Action::Demote
//! ```
//!
//! [`replay`] feeds them what was recorded, and says by a model of the TLB ([`Tlb`]) what would have come of it.
//!
//! ```
//! use pagewise_simulate::hugepages::{Action, Controller, HugePolicy, MemoryState, Processes, Seen, Settings};
//! use std::time::Duration;
//!
//! let mut processes = Processes::default();
//! let quiet = Seen { address: 0x20_0000, resident: 512, accessed: 3, ..Seen::default() };
//! let busy = Seen { address: 0x40_0000, resident: 512, accessed: 400, ..Seen::default() };
//! processes.entry(7).observe(&[quiet, busy], Duration::ZERO);
//! let mut controller = Controller::new(&Settings::new(HugePolicy::HawkEyeG));
//! let memory = MemoryState { total_bytes: 1 << 30, available_bytes: 1 << 29, fragmentation: None };
//! controller.memory(&memory);
//! let action = controller.next(&mut processes, Duration::from_secs(1));
//! assert_eq!(action, Some(Action::Promote { process: 7, address: 0x40_0000 }));
//! ```

mod access_map;
mod aggressive;
mod controller;
mod fairness;
mod freebsd;
mod hawkeye_g;
mod hawkeye_pmu;
mod ingens;
mod kind;
mod linux;
mod none;
mod process;
mod rate;
mod recovery;
pub mod replay;
#[cfg(test)]
mod tests;
mod tlb;

use std::time::Duration;

pub use access_map::AccessMap;
pub use access_map::BUCKETS;
pub use controller::Action;
pub use controller::Controller;
pub use controller::Settings;
pub use kind::HugePolicy;
pub use kind::UnknownHugePolicy;
pub use process::Process;
pub use process::Region;
pub use recovery::Watermarks;
pub use tlb::Cycles;
pub use tlb::Lookups;
pub use tlb::Tlb;
pub use tlb::TlbError;

/// Base pages of 4 KiB in a region of 2 MiB.
pub const REGION_PAGES: u16 = 512;
/// Of a region with more base pages in swap none is made a huge page: all of them would be read. khugepaged's default
/// (`max_ptes_swap`, mm/khugepaged.c, 6.12).
pub const MOST_SWAPPED: u16 = 64;

/// What one look at a region of 2 MiB saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// First byte.
    pub address: u64,
    /// Base pages in memory, of 512.
    pub resident: u16,
    /// Of these, accessed since the bits were cleared. Of a huge page all or none: it has one bit.
    pub accessed: u16,
    /// Base pages in swap.
    pub swapped: u16,
    /// It is a huge page.
    pub huge: bool,
}

/// Memory of the machine (or of the cgroup that limits the processes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryState {
    /// All of it, bytes.
    pub total_bytes: u64,
    /// What programs could still get without swapping, bytes.
    pub available_bytes: u64,
    /// Of free memory, the share in pieces too small for a huge page, 0 to 1. `None`: unknown.
    pub fragmentation: Option<f64>,
}

impl MemoryState {
    /// Used share, 0 to 1.
    pub fn used(&self) -> f64 {
        if self.total_bytes == 0 {
            return 1.0;
        }
        1.0 - (self.available_bytes.min(self.total_bytes) as f64 / self.total_bytes as f64)
    }
}

/// A region of one of the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Choice {
    pub(crate) process: u32,
    pub(crate) address: u64,
}

/// The order in which regions become huge pages.
pub(crate) trait Policy: Send {
    /// The next region; the caller takes it out of its process's candidates before it asks again.
    fn next(&mut self, processes: &Processes) -> Option<Choice>;

    /// The first region of this process alone.
    fn best_of(&self, process: &Process) -> Option<u64>;

    /// Memory as it is now.
    fn memory(&mut self, _memory: &MemoryState) {}

    /// Whether first faults bring huge pages, as long as memory is ample.
    fn is_at_first_touch(&self) -> bool {
        false
    }
}

/// The processes that are managed, first come first.
#[derive(Debug, Default)]
pub struct Processes {
    list: Vec<Process>,
}

impl Processes {
    /// The process of that number (any that tells them apart), new if there was none.
    pub fn entry(&mut self, id: u32) -> &mut Process {
        let found = self.list.iter().position(|process| process.id() == id);
        let at = found.unwrap_or_else(|| {
            self.list.push(Process::new(id));
            self.list.len() - 1
        });
        &mut self.list[at]
    }

    /// The process of that number.
    pub fn get(&self, id: u32) -> Option<&Process> {
        self.list.iter().find(|process| process.id() == id)
    }

    /// The same, to change.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Process> {
        self.list.iter_mut().find(|process| process.id() == id)
    }

    /// It has ended.
    pub fn remove(&mut self, id: u32) {
        self.list.retain(|process| process.id() != id);
    }

    /// All of them, first come first.
    pub fn iter(&self) -> impl Iterator<Item = &Process> {
        self.list.iter()
    }

    /// Where a round-robin goes on: the processes after that one, then the others up to it.
    pub(crate) fn after(&self, id: Option<u32>) -> impl Iterator<Item = &Process> {
        let position = id.and_then(|id| self.list.iter().position(|process| process.id() == id));
        let (before, rest) = self.list.split_at(position.map_or(0, |at| at + 1));
        rest.iter().chain(before)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.list.iter_mut()
    }
}

/// For how long a region is left alone that was demoted (or refused) so many times before.
pub(crate) fn back_off(first: Duration, times: u32) -> Duration {
    const LONGEST: Duration = Duration::from_secs(3600);
    first.saturating_mul(1 << times.min(16)).min(LONGEST)
}
