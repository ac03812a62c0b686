//! Calls on files and changes of the page cache, as rows of the trace.

mod sums;
mod told;

use pagewise_abi::file_calls;
use pagewise_collect::CallPath;
use pagewise_collect::io_record::CacheChange;
use pagewise_collect::io_record::CacheEvent;
use pagewise_collect::io_record::Call;
use pagewise_collect::io_record::Direction;
use pagewise_collect::io_record::FileCall;
use pagewise_collect::io_record::FileSeen;
use pagewise_trace as trace;
use pagewise_trace::IoCache;
use pagewise_trace::IoCacheKind;
use pagewise_trace::IoCall;
use pagewise_trace::IoCallKind;
use pagewise_trace::IoDirection;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

use self::sums::Sums;
use self::told::Told;
use super::fault_paths::FaultPaths;
use super::mounts::Mounts;

/// Rows that wait for the numbers of their call paths.
#[derive(Default)]
pub(super) struct FileIo {
    calls: Vec<(IoCall, CallPath)>,
    cache: Vec<Change>,
    mounts: Mounts,
    sums: Option<Sums>,
    /// What the preloaded library tells, where no program in the kernel does.
    pub(super) told: Told,
}

/// A change of the page cache that waits.
struct Change {
    row: IoCache,
    path: CallPath,
    /// A fault on a mapping has brought it in, at that time: other faults are rows of their own.
    by_fault: bool,
}

impl FileIo {
    /// Calls are only summed up from now on.
    pub(super) fn sum(&mut self) {
        self.sums.get_or_insert_default();
    }

    pub(super) fn file(
        &mut self,
        file: FileSeen,
        pid: Option<u32>,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let inside = file.path.as_deref().map(String::from_utf8_lossy);
        let place = self.mounts.place(pid, file.device, inside.as_deref());
        writer.io_files.push(trace::IoFile {
            time_ns: file.time_ns,
            file: file.file,
            space: file.space,
            major: file.device.0,
            minor: file.device.1,
            inode: file.inode,
            generation: file.generation,
            bytes: file.bytes,
            filesystem: filesystem(place.filesystem, file.magic),
            path: place.path,
            unlinked: file.unlinked,
        })
    }

    /// Takes a file that the preloaded library tells of, unless it is known already.
    pub(super) fn told_file(
        &mut self,
        file: &file_calls::File<'_>,
        pid: u32,
        space: u32,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let Some(number) = self.told.file(file.id) else {
            return Ok(());
        };
        let (path, unlinked) = told::path(file);
        let place = self.mounts.place(Some(pid), file.id.device, None);
        writer.io_files.push(trace::IoFile {
            time_ns: file.time_ns,
            file: number,
            space,
            major: file.id.device.0,
            minor: file.id.device.1,
            inode: file.id.inode,
            generation: file.id.generation,
            bytes: file.bytes,
            filesystem: filesystem(place.filesystem, file.magic),
            path,
            unlinked,
        })
    }

    pub(super) fn call(&mut self, call: &FileCall) {
        let direction = match (call.call, call.direction) {
            (Call::Fsync | Call::Fdatasync | Call::UringSync, _) => IoDirection::Sync,
            (Call::Fault, _) => IoDirection::Map,
            (_, Direction::FromFile) => IoDirection::Read,
            (_, Direction::ToFile) => IoDirection::Write,
        };
        let moved = call.result.ok();
        let row = IoCall {
            time_ns: call.time_ns + call.latency_ns,
            space: call.space,
            tid: call.tid,
            call: kind_of(call.call),
            direction,
            file: call.file,
            direct: call.direct,
            offset: call.offset,
            bytes: moved.filter(|_| direction != IoDirection::Sync),
            error: call.result.err().map(u32::from),
            latency_ns: call.latency_ns,
            cached_bytes: Some(call.cached_bytes),
            ahead_bytes: Some(call.ahead_bytes),
            stack: None,
        };
        self.calls.push((row, call.call_path));
    }

    pub(super) fn cache(&mut self, change: &CacheChange) {
        let row = IoCache {
            time_ns: change.time_ns,
            kind: match change.what {
                CacheEvent::Added | CacheEvent::Faulted => IoCacheKind::Added,
                CacheEvent::Evicted => IoCacheKind::Evicted,
                CacheEvent::Dropped => IoCacheKind::Dropped,
            },
            file: change.file,
            offset: change.offset,
            bytes: change.bytes,
            space: change.by.map(|by| by.space),
            tid: change.by.map(|by| by.tid),
            stack: None,
        };
        self.cache.push(Change {
            row,
            path: change.call_path,
            by_fault: change.what == CacheEvent::Faulted,
        });
    }

    /// Writes what waits, in order of time. All copied stacks that it refers to have been unwound.
    pub(super) fn write(
        &mut self,
        paths: &mut FaultPaths,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        // Pages come before their call has ended; only then is its stack not needed any more.
        for change in &mut self.cache {
            change.row.stack = paths.number(change.path, true);
        }
        self.cache.sort_by_key(|change| change.row.time_ns);
        let mut cache = self.cache.drain(..).peekable();
        while let Some(mut change) = cache.next() {
            while let Some(next) = cache.next_if(|next| continues(&change, next)) {
                change.row.bytes += next.row.bytes;
            }
            // Sums need no pages.
            if self.sums.is_none() {
                writer.io_cache.push(change.row)?;
            }
        }
        for (row, path) in &mut self.calls {
            row.stack = paths.number(*path, may_be_needed_again(row));
        }
        let mut calls: Vec<IoCall> = self.calls.drain(..).map(|(row, _)| row).collect();
        calls.append(&mut self.told.calls);
        calls.sort_by_key(|row| row.time_ns);
        for row in calls {
            match &mut self.sums {
                Some(sums) => sums.add(&row, writer)?,
                None => writer.io_calls.push(row)?,
            }
        }
        Ok(())
    }

    /// At the end: writes what is still being summed up.
    pub(super) fn finish(&mut self, writer: &mut TraceWriter) -> Result<(), TraceError> {
        self.sums.as_mut().map_or(Ok(()), |sums| sums.write(writer))
    }
}

/// Whether pages follow those of the row before in all that a row tells.
fn continues(change: &Change, next: &Change) -> bool {
    let is_same_fault = !change.by_fault || change.row.time_ns == next.row.time_ns;
    let is_alike = change.by_fault == next.by_fault && is_same_fault;
    let (row, next) = (&change.row, &next.row);
    is_alike
        && (row.kind, row.file, row.space, row.tid, row.stack)
            == (next.kind, next.file, next.space, next.tid, next.stack)
        && row.offset + row.bytes == next.offset
}

/// Whether another row may refer to the same copy of a stack.
fn may_be_needed_again(row: &IoCall) -> bool {
    match row.call {
        // All that one io_uring_enter submits.
        IoCallKind::UringRead | IoCallKind::UringWrite | IoCallKind::UringSync => true,
        call => row.direction == IoDirection::Read && is_transfer(call),
    }
}

/// Whether it may be told of twice, as it reads one file and writes another.
fn is_transfer(call: IoCallKind) -> bool {
    use IoCallKind::{CopyFileRange, Sendfile, Splice};
    matches!(call, Sendfile | Splice | CopyFileRange)
}

fn kind_of(call: Call) -> IoCallKind {
    match call {
        Call::Read => IoCallKind::Read,
        Call::Pread => IoCallKind::Pread,
        Call::Readv => IoCallKind::Readv,
        Call::Preadv => IoCallKind::Preadv,
        Call::Write => IoCallKind::Write,
        Call::Pwrite => IoCallKind::Pwrite,
        Call::Writev => IoCallKind::Writev,
        Call::Pwritev => IoCallKind::Pwritev,
        Call::Sendfile => IoCallKind::Sendfile,
        Call::Splice => IoCallKind::Splice,
        Call::CopyFileRange => IoCallKind::CopyFileRange,
        Call::Fsync => IoCallKind::Fsync,
        Call::Fdatasync => IoCallKind::Fdatasync,
        Call::UringRead => IoCallKind::UringRead,
        Call::UringWrite => IoCallKind::UringWrite,
        Call::UringSync => IoCallKind::UringSync,
        Call::Fault => IoCallKind::Fault,
    }
}

fn filesystem(mounted: Option<String>, magic: u64) -> String {
    let known = mounted.or_else(|| name_of(magic).map(str::to_owned));
    known.unwrap_or_else(|| format!("{magic:#x}"))
}

/// File systems that are mounted nowhere, or whose files have another device than their mount, by their magic numbers (include/uapi/linux/magic.h).
fn name_of(magic: u64) -> Option<&'static str> {
    match magic {
        0x0102_1994 => Some("tmpfs"),
        0x9584_58f6 => Some("hugetlbfs"),
        0x9123_683e => Some("btrfs"),
        0x794c_7630 => Some("overlay"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_a_row_share_one() {
        let change = |offset, tid, time_ns| IoCache {
            time_ns,
            kind: IoCacheKind::Added,
            file: Some(1),
            offset,
            bytes: 4096,
            space: Some(1),
            tid: Some(tid),
            stack: None,
        };
        let row = |offset, tid, time_ns, by_fault| Change {
            row: change(offset, tid, time_ns),
            path: CallPath::Unknown,
            by_fault,
        };
        let first = row(0, 7, 5, false);
        assert!(continues(&first, &row(4096, 7, 6, false)));
        assert!(!continues(&first, &row(8192, 7, 6, false)), "a hole");
        assert!(
            !continues(&first, &row(4096, 8, 6, false)),
            "another thread"
        );
        let faulted = row(0, 7, 5, true);
        assert!(continues(&faulted, &row(4096, 7, 5, true)));
        assert!(
            !continues(&faulted, &row(4096, 7, 6, true)),
            "another fault"
        );
    }
}
