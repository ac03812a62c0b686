//! Processes, their objects, and what has a name or a place in the source.

use crate::kind::kinds;
use crate::table::table;

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
