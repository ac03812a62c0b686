//! What was seen when somebody looked: which pages were accessed, and where they were.

use crate::kind::kinds;
use crate::table::table;

kinds! {
    /// Where a page was when it was looked at.
    pub enum PageState {
        /// Nowhere: never touched, unmapped, given back, or a page of a file that is not mapped in.
        Absent = "absent",
        /// In memory.
        Resident = "resident",
        /// In memory, as part of a huge page.
        Huge = "huge",
        /// The kernel's shared page of zeros: read, never written.
        Zero = "zero",
        /// Its page-table entry names a place in swap; the page itself may still be in the swap cache.
        Swapped = "swapped",
    }
}

table! {
    /// Memory use of the recorded processes together, about once a second.
    pub struct Sample in "samples" {
        /// When.
        time_ns: u64 => Delta,
        /// Resident memory in bytes.
        rss_bytes: Option<u64> => Delta,
        /// Swapped-out memory in bytes.
        swap_bytes: Option<u64> => Delta,
        /// The memory limit in force, in bytes.
        limit_bytes: Option<u64> => Delta,
    }
}

table! {
    /// How often a region of memory was accessed in an interval, as DAMON estimates it: from imports only.
    pub struct RegionAccess in "region_accesses" {
        /// The interval's end, on the clock of what was imported.
        time_ns: u64 => Delta,
        /// The interval's length.
        interval_ns: u64 => Delta,
        /// What was monitored together, from 0; there is no such [`Space`](super::Space).
        space: u32 => Dictionary,
        /// DAMON's number for it: a process id, an index, or a number of the kernel's.
        target: Option<u64> => Dictionary,
        /// The region's first byte.
        start: u64 => Delta,
        /// Its length in bytes.
        bytes: u64 => Delta,
        /// How many of the interval's checks found it accessed.
        accesses: u32 => Dictionary,
        /// How many checks there were.
        checks: Option<u32> => Dictionary,
        /// For how many intervals it has been accessed about as often.
        age: Option<u32> => Dictionary,
    }
}

table! {
    /// What was accessed of 2 MiB of an address space between the clearing of its accessed bits and a look at them.
    pub struct Access in "accesses" {
        /// When it was looked, the same in all rows of one look.
        time_ns: u64 => Delta,
        /// How long before that the bits had been cleared, in ns.
        interval_ns: u64 => Dictionary,
        /// The address space.
        space: u32 => Dictionary,
        /// The region's first byte, a multiple of 2 MiB.
        address: u64 => Delta,
        /// Base pages in memory.
        resident_pages: u16 => Dictionary,
        /// Of these, those accessed in the interval.
        accessed_pages: u16 => Dictionary,
        /// Of the resident ones, those written since they came into memory.
        dirty_pages: u16 => Dictionary,
        /// Whether one entry of the page table maps it all: its bits then count for 512 pages at once.
        huge: bool => Dictionary,
        /// Base pages in swap.
        swapped_pages: u16 => Dictionary,
        /// Which base pages are in memory: 128 hexadecimal digits, the first digit's lowest bit the first page; `None`
        /// if none or all 512 are.
        resident_map: Option<String> => Dictionary,
        /// Which were accessed, in the same form; `None` if none or all resident ones were.
        accessed_map: Option<String> => Dictionary,
    }
}

table! {
    /// Pages of 2 MiB that a glance between the clearing of accessed bits and the look at them ([`Access`]) was the first to
    /// find accessed.
    pub struct Glance in "glances" {
        /// When it was glanced, the same in all rows of one glance.
        time_ns: u64 => Delta,
        /// How long before that the bits had been cleared, in ns.
        interval_ns: u64 => Dictionary,
        /// The address space.
        space: u32 => Dictionary,
        /// The region's first byte, a multiple of 2 MiB.
        address: u64 => Delta,
        /// How many pages were newly found accessed, one at least.
        pages: u16 => Dictionary,
        /// Which: 128 hexadecimal digits, the first digit's lowest bit the first page; `None` if all 512 were.
        map: Option<String> => Dictionary,
    }
}

table! {
    /// The same as [`Access`] of some pages only, which stand for all ([`Spots`](crate::Spots)): of 2 MiB, those that were in memory when their bits
    /// were cleared and at the look.
    pub struct SpotLook in "spot_looks" {
        /// When it was looked, the same in all rows of one look.
        time_ns: u64 => Delta,
        /// How long before that the bits had been cleared, in ns.
        interval_ns: u64 => Dictionary,
        /// How long before the look it had been seen which pages are in memory, in ns: some time before their bits were cleared. A page of a spot
        /// that is not among them was not in memory then. `None`: that was not recorded.
        listed_ns: Option<u64> => Dictionary,
        /// The address space.
        space: u32 => Dictionary,
        /// The region's first byte, a multiple of 2 MiB.
        address: u64 => Delta,
        /// For how many pages each of them stands.
        pages_each: u32 => Dictionary,
        /// Which they are: 128 hexadecimal digits, the first digit's lowest bit the first page.
        looked_map: String => Dictionary,
        /// Of these, those accessed in the interval, in the same form; `None`: none.
        accessed_map: Option<String> => Dictionary,
    }
}

table! {
    /// The same as [`Glance`] before a look at some pages only ([`SpotLook`]).
    pub struct SpotGlance in "spot_glances" {
        /// When it was glanced, the same in all rows of one glance.
        time_ns: u64 => Delta,
        /// How long before that the bits had been cleared, in ns.
        interval_ns: u64 => Dictionary,
        /// The address space.
        space: u32 => Dictionary,
        /// The region's first byte, a multiple of 2 MiB.
        address: u64 => Delta,
        /// Which pages were newly found accessed: 128 hexadecimal digits, the first digit's lowest bit the first page.
        map: String => Dictionary,
    }
}

table! {
    /// A page that had come back from swap, looked at again when up to half of what memory holds had come in after it: of some swap-ins, where swap
    /// is memory. There evictions do not tell which pages are written: all that leave are sent to the device.
    pub struct WriteLook in "write_looks" {
        /// When it was looked, to the precision of the surrounding fault.
        time_ns: u64 => Delta,
        /// The address space.
        space: u32 => Dictionary,
        /// The page's virtual address, in bytes.
        address: u64 => Delta,
        /// Whether it had been written since it came in.
        written: bool => Dictionary,
    }
}

table! {
    /// A range of pages whose state had changed since the space's scan before; its first scan tells all that is not
    /// `absent`.
    pub struct Residency in "residency" {
        /// When it was seen: the change happened between the scan before and now.
        time_ns: u64 => Delta,
        /// The address space.
        space: u32 => Dictionary,
        /// The range's first byte.
        address: u64 => Delta,
        /// Its length, a multiple of the page size, in bytes.
        bytes: u64 => Dictionary,
        /// The state that all its pages are in now.
        state: PageState => Dictionary,
        /// Whether they are pages of a file or shared memory; `None`: absent or swapped.
        file: Option<bool> => Dictionary,
        /// Of an absent range, whether all of it still lies in a mapping; `None`: another state, or it was not looked.
        mapped: Option<bool> => Dictionary,
    }
}

table! {
    /// One scan of an address space's page tables.
    pub struct ResidencyScan in "residency_scans" {
        /// When it began.
        time_ns: u64 => Delta,
        /// The address space.
        space: u32 => Dictionary,
        /// When it had ended, by `time_ns`'s clock; pauses included.
        end_ns: u64 => Delta,
        /// How long the scanning itself took, in ns.
        cost_ns: u64 => Delta,
        /// Pages in memory then (`resident`, `huge`), in bytes.
        resident_bytes: u64 => Delta,
        /// Pages in swap then, in bytes.
        swapped_bytes: u64 => Delta,
        /// Of those in memory, pages that are part of a huge page, in bytes; `None` where the kernel does not tell.
        huge_bytes: Option<u64> => Delta,
        /// Whether it looked at the whole address space; if not, the next one goes on from there.
        complete: bool => Dictionary,
    }
}
