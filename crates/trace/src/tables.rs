//! The tables of a trace.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`; addresses and sizes are bytes. A field of type
//! `Option` is a nullable column, and `None` always means unknown or not applicable.

use crate::kind::kinds;
use crate::table::table;

/// Calls a macro with `field: RowType,` for every table, in the order of their files' writing.
macro_rules! with_all_tables {
    ($callback:ident) => {
        $callback! {
            events: Event,
            spaces: Space,
            allocations: Allocation,
            releases: Release,
            moves: Move,
            mappings: Mapping,
            stacks: StackFrame,
            frames: Frame,
            sites: Site,
            globals: Global,
            samples: Sample,
            region_accesses: RegionAccess,
            stalls: Stall,
            pressure: Pressure,
            accesses: Access,
            glances: Glance,
            residency: Residency,
            residency_scans: ResidencyScan,
            thread_faults: ThreadFaults,
            event_counts: EventCount,
            stall_counts: StallCount,
            given_names: GivenName,
            io_calls: IoCall,
            io_files: IoFile,
            io_cache: IoCache,
            io_sums: IoSum,
        }
    };
}
pub(crate) use with_all_tables;

macro_rules! table_names {
    ($( $field:ident: $row:ident, )*) => {
        /// The names of all tables; each is the stem of a file in the trace's folder.
        pub const TABLE_NAMES: &[&str] = &[$( stringify!($field) ),*];
    };
}
with_all_tables!(table_names);

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
    /// What made an allocation.
    pub enum AllocationKind {
        /// `malloc`, or C++ `new`.
        Malloc = "malloc",
        /// `calloc`.
        Calloc = "calloc",
        /// `realloc` or `reallocarray`: the block it returned.
        Realloc = "realloc",
        /// `posix_memalign`, `aligned_alloc` and their kin.
        Aligned = "aligned",
        /// An anonymous `mmap`.
        Mmap = "mmap",
        /// The heap's end moved up by `sbrk` or `brk`.
        Brk = "brk",
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

kinds! {
    /// A system call that reads, writes or synchronizes a file; calls with vectors or flags count as those they extend
    /// (`preadv2` as `preadv`).
    pub enum IoCallKind {
        /// `read`.
        Read = "read",
        /// `pread64`.
        Pread = "pread",
        /// `readv`.
        Readv = "readv",
        /// `preadv` and `preadv2`.
        Preadv = "preadv",
        /// `write`.
        Write = "write",
        /// `pwrite64`.
        Pwrite = "pwrite",
        /// `writev`.
        Writev = "writev",
        /// `pwritev` and `pwritev2`.
        Pwritev = "pwritev",
        /// `sendfile`.
        Sendfile = "sendfile",
        /// `splice`.
        Splice = "splice",
        /// `copy_file_range`.
        CopyFileRange = "copy_file_range",
        /// `fsync`.
        Fsync = "fsync",
        /// `fdatasync`.
        Fdatasync = "fdatasync",
    }
}

kinds! {
    /// What a call did to its file.
    pub enum IoDirection {
        /// It read it.
        Read = "read",
        /// It wrote it.
        Write = "write",
        /// It had it written back to its device.
        Sync = "sync",
    }
}

kinds! {
    /// What happened to pages of a file in the page cache.
    pub enum IoCacheKind {
        /// They came in.
        Added = "added",
        /// They left as memory was short.
        Evicted = "evicted",
        /// They left as somebody wanted it: truncated, removed, `POSIX_FADV_DONTNEED`.
        Dropped = "dropped",
    }
}

table! {
    /// Something that happened to one page.
    pub struct Event in "events" {
        /// When, in ns of `CLOCK_MONOTONIC`; for a fault its end.
        time_ns: u64 => Delta,
        /// The address space ([`Space::space`]).
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
        /// The call path that touched the page ([`StackFrame::stack`]); `None` where nobody did or it was not taken.
        stack: Option<u32> => Dictionary,
    }
}

table! {
    /// An address space: one process between two `exec`s.
    ///
    /// A space may be pushed twice, when it begins and when it ends; the last row counts, and only
    /// that one is kept at close.
    pub struct Space in "spaces" {
        /// The space's number, which the other tables refer to.
        space: u32 => Dictionary,
        /// The process's id.
        pid: u32 => Dictionary,
        /// The process's start in ns since boot, which with `pid` names it uniquely.
        start_time_ns: u64 => Dictionary,
        /// How many times the process had called `exec` since it was first seen.
        exec_epoch: u32 => Dictionary,
        /// The space it was forked from, if that was recorded.
        parent_space: Option<u32> => Dictionary,
        /// When recording of it began.
        begin_ns: u64 => Delta,
        /// When it ended; `None` if it outlived the recording.
        end_ns: Option<u64> => Delta,
        /// The process's name (`comm`: at most 15 bytes).
        command: String => Dictionary,
        /// The path of its executable.
        executable: Option<String> => Dictionary,
    }
    key space
}

table! {
    /// One object: a heap allocation or an anonymous mapping.
    pub struct Allocation in "allocations" {
        /// The object's number, unique in the trace.
        allocation: u64 => Delta,
        /// The address space it lives in.
        space: u32 => Dictionary,
        /// The allocating thread's id.
        tid: u32 => Dictionary,
        /// When it was made.
        time_ns: u64 => Delta,
        /// Its first byte.
        address: u64 => Delta,
        /// Its size as asked for, in bytes.
        bytes: u64 => Dictionary,
        /// What made it.
        kind: AllocationKind => Dictionary,
        /// The call path that made it ([`StackFrame::stack`]); `None` if it was not taken.
        stack: Option<u32> => Dictionary,
        /// If it was sampled: bytes allocated that it stands for, itself included ([`crate::estimated_bytes`]); `None`:
        /// every allocation of its size is recorded.
        estimated_bytes: Option<u64> => Dictionary,
    }
}

table! {
    /// The end of an object, or of a part of the address space.
    pub struct Release in "releases" {
        /// The address space.
        space: u32 => Dictionary,
        /// When.
        time_ns: u64 => Delta,
        /// The first byte released.
        address: u64 => Delta,
        /// The length of an unmapped range; `None`: the whole allocation that starts at `address`.
        bytes: Option<u64> => Dictionary,
    }
}

table! {
    /// A range that `mremap` moved or resized.
    pub struct Move in "moves" {
        /// The address space.
        space: u32 => Dictionary,
        /// When.
        time_ns: u64 => Delta,
        /// Where the range began before.
        old_address: u64 => Delta,
        /// Its length before, in bytes.
        old_bytes: u64 => Dictionary,
        /// Where it begins now.
        new_address: u64 => Delta,
        /// Its length now, in bytes.
        new_bytes: u64 => Dictionary,
    }
}

table! {
    /// A mapping of a file, the heap or a stack, as in `/proc/PID/maps`.
    pub struct Mapping in "mappings" {
        /// The address space.
        space: u32 => Dictionary,
        /// When it was made or first seen.
        time_ns: u64 => Delta,
        /// Its first byte.
        start: u64 => Delta,
        /// The byte after its last.
        end: u64 => Delta,
        /// Four characters, for example `rw-p`.
        permissions: String => Dictionary,
        /// Where in the file it begins, in bytes.
        offset: u64 => Dictionary,
        /// The file's path, or a name in brackets such as `[heap]`.
        path: String => Dictionary,
    }
}

table! {
    /// One frame of a call path, as addresses.
    pub struct StackFrame in "stacks" {
        /// The call path's number.
        stack: u32 => Delta,
        /// 0 is the innermost frame.
        depth: u16 => Dictionary,
        /// The return address as found; at depth 0 the instruction pointer.
        address: u64 => Dictionary,
        /// The path of the module that holds it.
        module: Option<String> => Dictionary,
        /// Its virtual address as the module's file states it (unrelocated).
        module_offset: Option<u64> => Dictionary,
        /// Whether the call path goes on beyond what was taken; the same in all its rows.
        truncated: bool => Dictionary,
    }
}

table! {
    /// A part of [`StackFrame`], for those that go through millions and need no text.
    pub struct FrameOffset in "stacks" {
        /// The call path's number.
        stack: u32 => Delta,
        /// 0 is the innermost frame.
        depth: u16 => Dictionary,
        /// As in [`StackFrame`].
        module_offset: Option<u64> => Dictionary,
    }
}

table! {
    /// One frame of a call path, as names; inlining makes several of one [`StackFrame`].
    pub struct Frame in "frames" {
        /// The call path's number.
        stack: u32 => Delta,
        /// The depth of the [`StackFrame`] it comes from.
        depth: u16 => Dictionary,
        /// 0 is the innermost inlined function of that depth.
        inline_index: u16 => Dictionary,
        /// The function's name, demangled.
        function: Option<String> => Dictionary,
        /// The source file.
        file: Option<String> => Dictionary,
        /// The line in it, from 1.
        line: Option<u32> => Dictionary,
        /// The path of the module.
        module: Option<String> => Dictionary,
        /// Whether the function was inlined into the next frame.
        inlined: bool => Dictionary,
    }
}

table! {
    /// What the objects made by one call path are called.
    pub struct Site in "sites" {
        /// The call path ([`StackFrame::stack`]).
        stack: u32 => Delta,
        /// The variable the allocation is assigned to.
        name: Option<String> => Dictionary,
        /// The source file of the allocation.
        file: Option<String> => Dictionary,
        /// The line in it, from 1.
        line: Option<u32> => Dictionary,
        /// The function that allocates.
        function: Option<String> => Dictionary,
        /// The variable's type, as a declaration has it.
        type_name: Option<String> => Dictionary,
    }
}

table! {
    /// A global or static variable of a loaded module (`.data` or `.bss`).
    pub struct Global in "globals" {
        /// The address space.
        space: u32 => Dictionary,
        /// Its first byte as loaded.
        start: u64 => Delta,
        /// Its size in bytes.
        bytes: u64 => Dictionary,
        /// Its name, demangled.
        name: String => Dictionary,
        /// The source file that defines it.
        file: Option<String> => Dictionary,
        /// The line in it, from 1.
        line: Option<u32> => Dictionary,
        /// The path of the module.
        module: String => Dictionary,
        /// Its type, as a declaration has it.
        type_name: Option<String> => Dictionary,
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
        /// What was monitored together, from 0; there is no such [`Space`].
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
    /// How long the kernel itself says that was waited for memory, since the recording's begin; about once a second.
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

table! {
    /// What the program itself says that an allocation is called (`pagewise_name` of `pagewise.h`).
    pub struct GivenName in "given_names" {
        /// When.
        time_ns: u64 => Delta,
        /// The address space.
        space: u32 => Dictionary,
        /// An address in the allocation.
        address: u64 => Delta,
        /// Its name from its beginning on; of several the last counts.
        name: String => Dictionary,
    }
}

table! {
    /// One system call on one regular file; a transfer between two files has a row for each.
    pub struct IoCall in "io_calls" {
        /// When it ended.
        time_ns: u64 => Delta,
        /// The address space.
        space: u32 => Dictionary,
        /// The thread's id.
        tid: u32 => Dictionary,
        /// Which call.
        call: IoCallKind => Dictionary,
        /// What it did to this file.
        direction: IoDirection => Dictionary,
        /// The file ([`IoFile::file`]); `None`: nothing could be told of it.
        file: Option<u32> => Dictionary,
        /// Whether it bypassed the page cache (the file is open with `O_DIRECT`).
        direct: bool => Dictionary,
        /// Where in the file, in bytes; `None`: everywhere (a sync), or not known.
        offset: Option<u64> => Delta,
        /// Bytes read or written; `None`: it failed, or is a sync.
        bytes: Option<u64> => Dictionary,
        /// The error's number (`errno`); `None`: it succeeded.
        error: Option<u32> => Dictionary,
        /// How long it was in the kernel, in ns.
        latency_ns: u64 => Delta,
        /// Of its own range, what was not in the page cache and came in while it ran, in whole pages, in bytes.
        cached_bytes: u64 => Dictionary,
        /// What else came into the page cache while it ran: read ahead, in bytes.
        ahead_bytes: u64 => Dictionary,
        /// The call path ([`StackFrame::stack`]); `None` if it was not taken.
        stack: Option<u32> => Dictionary,
    }
}

table! {
    /// A file that was read, written or mapped. A file that was long unused may have several numbers: device, inode and
    /// generation are then the same.
    pub struct IoFile in "io_files" {
        /// When it was first seen.
        time_ns: u64 => Delta,
        /// The file's number, which the other tables refer to.
        file: u32 => Delta,
        /// The address space that used it first.
        space: u32 => Dictionary,
        /// The device's major number.
        major: u32 => Dictionary,
        /// The device's minor number.
        minor: u32 => Dictionary,
        /// The inode on that device.
        inode: u64 => Delta,
        /// Tells files apart that had the same inode in turn.
        generation: u32 => Dictionary,
        /// Its size when it was first seen, in bytes.
        bytes: u64 => Delta,
        /// The kind of file system, for example `ext4`, or its magic number in hexadecimal digits.
        filesystem: String => Dictionary,
        /// Its path as the program sees it; `None`: it could not be found.
        path: Option<String> => Dictionary,
        /// Whether it had no name any more.
        unlinked: bool => Dictionary,
    }
}

table! {
    /// Pages of a file that came into the page cache or left it. Those that came in are rows of recorded programs only; those
    /// that left may have been pushed out by anyone.
    pub struct IoCache in "io_cache" {
        /// When.
        time_ns: u64 => Delta,
        /// What happened.
        kind: IoCacheKind => Dictionary,
        /// The file ([`IoFile::file`]); `None`: nothing could be told of it.
        file: Option<u32> => Dictionary,
        /// Where in the file, in bytes.
        offset: u64 => Delta,
        /// How much, in bytes.
        bytes: u64 => Dictionary,
        /// The address space that brought them in; `None`: they left.
        space: Option<u32> => Dictionary,
        /// The thread that brought them in; `None`: they left.
        tid: Option<u32> => Dictionary,
        /// The call path of the call under way, or of the fault on a mapping; `None`: they left, or it was not taken.
        stack: Option<u32> => Dictionary,
    }
}

table! {
    /// Calls on files, summed up: in the place of single calls where only sums were wanted, or once a recording has reached
    /// its size.
    pub struct IoSum in "io_sums" {
        /// When the interval began.
        time_ns: u64 => Delta,
        /// How long it was, from there to its last call, in ns.
        interval_ns: u64 => Dictionary,
        /// The call path ([`StackFrame::stack`]); `None` if it was not taken.
        stack: Option<u32> => Dictionary,
        /// The file ([`IoFile::file`]); `None`: nothing could be told of it.
        file: Option<u32> => Dictionary,
        /// What they did to the file.
        direction: IoDirection => Dictionary,
        /// Whether they bypassed the page cache.
        direct: bool => Dictionary,
        /// Each took at least 2 to this power and less than twice that, in ns; 0: less than 2 ns.
        latency_octave: u32 => Dictionary,
        /// How many calls.
        calls: u64 => Delta,
        /// Of these, those that failed.
        failed: u64 => Delta,
        /// Of these, those that began where the one before of the same thread, path and file had ended.
        continued: u64 => Delta,
        /// Bytes read or written.
        bytes: u64 => Delta,
        /// Latencies together, in ns.
        latency_ns: u64 => Delta,
        /// As in [`IoCall`], together.
        cached_bytes: u64 => Delta,
        /// As in [`IoCall`], together.
        ahead_bytes: u64 => Delta,
    }
}
