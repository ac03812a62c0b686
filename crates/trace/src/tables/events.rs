//! What happened to pages, and how long was waited for memory.

use crate::kind::kinds;
use crate::table::table;

kinds! {
    /// What happened to a page.
    pub enum EventKind {
        /// A fault that found a swap entry and read the page (a major fault).
        SwapIn = "swap_in",
        /// A fault that found a swap entry whose page was in the swap cache (a minor fault).
        SwapCacheHit = "swap_cache_hit",
        /// The page left memory.
        Eviction = "eviction",
        /// The page was sent to the swap device.
        PageWritten = "page_written",
        /// The page was kept without I/O because it is all zero.
        ZeroFilled = "zero_filled",
    }
}

kinds! {
    /// Why a thread waited for memory other than in a swap-in fault.
    pub enum StallKind {
        /// It reclaimed memory because the machine was short of it.
        DirectReclaim = "direct_reclaim",
        /// It reclaimed memory because its memory cgroup was at a limit.
        MemcgReclaim = "memcg_reclaim",
    }
}

table! {
    /// Something that happened to one page.
    pub struct Event in "events" {
        /// When, in ns of `CLOCK_MONOTONIC`; for a fault its end.
        time_ns: u64 => Delta,
        /// The address space ([`Space::space`](super::Space::space)).
        space: u32 => Dictionary,
        /// The faulting thread's id; evictions and writes have none.
        tid: Option<u32> => Dictionary,
        /// What happened.
        kind: EventKind => Dictionary,
        /// The page's virtual address, in bytes.
        address: u64 => Delta,
        /// How long the fault took, or the write from submission to completion, in ns; `None` where nothing waited or it
        /// was not measured.
        latency_ns: Option<u64> => Delta,
        /// The call path that touched the page ([`StackFrame::stack`](super::StackFrame::stack)); `None` where nobody did or it was not taken.
        stack: Option<u32> => Dictionary,
    }
}

table! {
    /// A thread that waited for memory in another way than a swap-in fault.
    pub struct Stall in "stalls" {
        /// When it ended.
        time_ns: u64 => Delta,
        /// The address space.
        space: u32 => Dictionary,
        /// The thread's id.
        tid: u32 => Dictionary,
        /// Why it waited.
        kind: StallKind => Dictionary,
        /// How long, in ns.
        duration_ns: u64 => Delta,
        /// Whether it happened inside a swap-in fault, whose latency then holds it.
        in_fault: bool => Dictionary,
    }
}

table! {
    /// A thread that was ready to run while others had the processors: for so long since its last swap-in fault.
    pub struct RunDelay in "run_delays" {
        /// When its next swap-in fault began.
        time_ns: u64 => Delta,
        /// The address space.
        space: u32 => Dictionary,
        /// The thread's id.
        tid: u32 => Dictionary,
        /// How long in all since the fault before, in ns; 100 us at least.
        duration_ns: u64 => Delta,
    }
}

table! {
    /// How long the kernel itself says that was waited for memory since the begin of what was observed and is kept; about once a second.
    pub struct Pressure in "pressure" {
        /// When.
        time_ns: u64 => Delta,
        /// PSI of the program's own cgroup: time in which some task waited for memory, in ns.
        psi_some_ns: Option<u64> => Delta,
        /// The same, but all its tasks that could have run waited.
        psi_full_ns: Option<u64> => Delta,
        /// PSI of the whole machine: time in which some task waited for memory, in ns.
        machine_psi_some_ns: Option<u64> => Delta,
        /// The same, but all tasks that could have run waited.
        machine_psi_full_ns: Option<u64> => Delta,
        /// Delay accounting of the recorded threads: reading from swap devices, in ns, summed over threads.
        delay_swapin_ns: Option<u64> => Delta,
        /// The same: reclaiming memory.
        delay_freepages_ns: Option<u64> => Delta,
        /// The same: waiting for pages that had been evicted a short time before.
        delay_thrashing_ns: Option<u64> => Delta,
        /// The same: waiting for block devices.
        delay_blkio_ns: Option<u64> => Delta,
    }
}

table! {
    /// A thread's faults so far, as the kernel counts them; only where that has changed.
    pub struct ThreadFaults in "thread_faults" {
        /// When it was read.
        time_ns: u64 => Delta,
        /// The address space.
        space: u32 => Dictionary,
        /// The thread's id.
        tid: u32 => Dictionary,
        /// Major faults since the thread began.
        major_faults: u64 => Delta,
        /// Minor faults since the thread began.
        minor_faults: u64 => Delta,
    }
}

table! {
    /// How far a process has got by its own work, and how often it had to wait for a page by then; only where that has changed.
    pub struct Headway in "headway" {
        /// When it was read.
        time_ns: u64 => Delta,
        /// The address space.
        space: u32 => Dictionary,
        /// Time in user mode since the process began, of all its threads, in ns, as exact as the kernel's tick.
        user_ns: u64 => Delta,
        /// Major faults since the process began.
        major_faults: u64 => Delta,
    }
}

table! {
    /// How many events of a kind one region had in an interval: in the place of single events, once a recording has
    /// reached its size.
    pub struct EventCount in "event_counts" {
        /// When the interval began.
        time_ns: u64 => Delta,
        /// How long it was, in ns.
        interval_ns: u64 => Dictionary,
        /// The address space.
        space: u32 => Dictionary,
        /// What happened.
        kind: EventKind => Dictionary,
        /// The first page it happened to.
        address: u64 => Delta,
        /// From there to the end of the last page it happened to, in bytes: 2 MiB at most.
        bytes: u64 => Dictionary,
        /// How often.
        events: u64 => Delta,
        /// The latencies together, in ns; `None` where none was known.
        latency_ns: Option<u64> => Delta,
    }
}

table! {
    /// Stalls of a kind in an interval: in the place of single stalls, once a recording has reached its size.
    pub struct StallCount in "stall_counts" {
        /// When the interval began.
        time_ns: u64 => Delta,
        /// How long it was, in ns.
        interval_ns: u64 => Dictionary,
        /// The address space.
        space: u32 => Dictionary,
        /// Why its threads waited.
        kind: StallKind => Dictionary,
        /// Whether inside swap-in faults, whose latencies then hold them.
        in_fault: bool => Dictionary,
        /// How often.
        stalls: u64 => Delta,
        /// How long together, in ns.
        duration_ns: u64 => Delta,
    }
}
