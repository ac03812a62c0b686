//! Calls on files, and what they did to the page cache.

use crate::kind::kinds;
use crate::table::table;

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
        /// A request of io_uring that reads, with vectors and registered buffers or without.
        UringRead = "io_uring read",
        /// The same that writes.
        UringWrite = "io_uring write",
        /// The same that synchronizes.
        UringSync = "io_uring fsync",
        /// No call: a fault on a mapping that had to wait for its page.
        Fault = "fault",
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
        /// It touched a mapping of it.
        Map = "map",
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
    /// One system call on one regular file, or a request of io_uring; a transfer between two files has a row for each. Also a fault on a
    /// mapping that had to wait: of its page.
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
        /// How long it was in the kernel, in ns; of a request of io_uring from its submission until its result is told.
        latency_ns: u64 => Delta,
        /// Of its own range, what was not in the page cache and came in while it ran, in whole pages, in bytes; `None`: the page
        /// cache was not seen.
        cached_bytes: Option<u64> => Dictionary,
        /// What else came into the page cache while it ran: read ahead, in bytes; `None`: it was not seen.
        ahead_bytes: Option<u64> => Dictionary,
        /// The call path ([`StackFrame::stack`](super::StackFrame::stack)); `None` if it was not taken.
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
        /// The call path ([`StackFrame::stack`](super::StackFrame::stack)); `None` if it was not taken.
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
        /// Of these, those that began where the one before of the same thread and path, or the last one of any other, had ended in the same file.
        continued: u64 => Delta,
        /// Bytes read or written.
        bytes: u64 => Delta,
        /// Latencies together, in ns.
        latency_ns: u64 => Delta,
        /// As in [`IoCall`], together.
        cached_bytes: Option<u64> => Delta,
        /// As in [`IoCall`], together.
        ahead_bytes: Option<u64> => Delta,
    }
}
