//! Calls on files as the preloaded library tells of them: of the page cache it knows nothing.

use std::collections::HashMap;
use std::path::Path;

use pagewise_abi::file_calls::CallKind;
use pagewise_abi::file_calls::File;
use pagewise_abi::file_calls::FileCall;
use pagewise_abi::file_calls::FileId;
use pagewise_trace::IoCall;
use pagewise_trace::IoCallKind;
use pagewise_trace::IoDirection;

/// More than programs have; one that makes up ever new ones loses them all now and then.
const MOST: usize = 1 << 20;
/// What the kernel puts behind the path of a file that has lost its name.
const DELETED: &str = " (deleted)";

/// What was told once, and is referred to since.
#[derive(Default)]
pub(in crate::record) struct Told {
    files: HashMap<FileId, u32>,
    numbered_files: u32,
    /// By address space and token; `None`: it could not be unwound.
    paths: HashMap<(u32, u64), Option<u32>>,
    /// Calls that wait to be written.
    pub(super) calls: Vec<IoCall>,
    /// Calls whose path was not told, or could not be unwound.
    pub(in crate::record) without_path: u64,
}

impl Told {
    /// The number of a file that is new.
    pub(super) fn file(&mut self, id: FileId) -> Option<u32> {
        if self.files.contains_key(&id) {
            return None;
        }
        if self.files.len() >= MOST {
            self.files.clear();
        }
        self.numbered_files += 1;
        self.files.insert(id, self.numbered_files);
        Some(self.numbered_files)
    }

    /// Which path a token stands for in an address space.
    pub(in crate::record) fn path(&mut self, token: (u32, u64), number: Option<u32>) {
        if self.paths.len() >= MOST {
            self.paths.clear();
        }
        let known = self.paths.entry(token).or_insert(number);
        *known = number.or(*known);
    }

    pub(in crate::record) fn call(&mut self, call: &FileCall, space: u32) {
        let (kind, direction) = what(call.kind);
        let stack = self.paths.get(&(space, call.token)).copied().flatten();
        self.without_path += u64::from(stack.is_none());
        self.calls.push(IoCall {
            time_ns: call.time_ns.saturating_add(call.latency_ns),
            space,
            tid: call.tid,
            call: kind,
            direction,
            file: self.files.get(&call.file).copied(),
            direct: call.direct,
            offset: call.offset,
            bytes: call.result.ok().filter(|_| direction != IoDirection::Sync),
            error: call.result.err().map(u32::from),
            latency_ns: call.latency_ns,
            cached_bytes: None,
            ahead_bytes: None,
            stack,
        });
    }
}

fn what(kind: CallKind) -> (IoCallKind, IoDirection) {
    use IoDirection::Read;
    use IoDirection::Sync;
    use IoDirection::Write;
    match kind {
        CallKind::Read => (IoCallKind::Read, Read),
        CallKind::Pread => (IoCallKind::Pread, Read),
        CallKind::Readv => (IoCallKind::Readv, Read),
        CallKind::Preadv => (IoCallKind::Preadv, Read),
        CallKind::Write => (IoCallKind::Write, Write),
        CallKind::Pwrite => (IoCallKind::Pwrite, Write),
        CallKind::Writev => (IoCallKind::Writev, Write),
        CallKind::Pwritev => (IoCallKind::Pwritev, Write),
        CallKind::Fsync => (IoCallKind::Fsync, Sync),
        CallKind::Fdatasync => (IoCallKind::Fdatasync, Sync),
    }
}

/// A file's path, and whether it has lost that name.
pub(super) fn path(file: &File<'_>) -> (Option<String>, bool) {
    let path = String::from_utf8_lossy(file.path).into_owned();
    if !path.starts_with('/') {
        return (None, file.unlinked);
    }
    match path.strip_suffix(DELETED) {
        // A name may end like that.
        Some(name) if file.unlinked || !Path::new(&path).exists() => (Some(name.to_owned()), true),
        _ => (Some(path), file.unlinked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: FileId = FileId {
        device: (8, 1),
        inode: 4,
        generation: 0,
    };

    fn call(token: u64, result: Result<u64, u16>) -> FileCall {
        FileCall {
            time_ns: 100,
            latency_ns: 20,
            token,
            tid: 5,
            kind: CallKind::Pread,
            direct: false,
            file: ID,
            offset: Some(4096),
            result,
        }
    }

    #[test]
    fn a_call_has_its_file_and_path_and_knows_nothing_of_the_page_cache() {
        let mut told = Told::default();
        assert_eq!(told.file(ID), Some(1));
        assert_eq!(told.file(ID), None, "known");
        told.path((1, 7), Some(3));
        told.call(&call(7, Ok(512)), 1);
        let row = told.calls.pop().expect("a row");
        assert_eq!((row.file, row.stack, row.time_ns), (Some(1), Some(3), 120));
        assert_eq!((row.bytes, row.error), (Some(512), None));
        assert_eq!((row.cached_bytes, row.ahead_bytes), (None, None));
        told.call(&call(7, Err(14)), 1);
        let row = told.calls.pop().expect("a row");
        assert_eq!((row.bytes, row.error), (None, Some(14)));
        assert_eq!(told.without_path, 0);
    }

    #[test]
    fn a_token_means_what_it_means_in_its_process_alone() {
        let mut told = Told::default();
        told.path((1, 7), Some(3));
        told.path((1, 8), None);
        for (space, token) in [(2, 7), (1, 8), (1, 9)] {
            told.call(&call(token, Ok(1)), space);
        }
        assert!(told.calls.iter().all(|row| row.stack.is_none()));
        assert_eq!(told.without_path, 3);
        told.path((1, 8), Some(4));
        told.path((1, 8), None);
        told.call(&call(8, Ok(1)), 1);
        assert_eq!(told.calls.last().and_then(|row| row.stack), Some(4));
    }

    #[test]
    fn a_file_without_a_name_is_called_as_it_was() {
        let told = |path: &str, unlinked| {
            super::path(&File {
                time_ns: 0,
                id: ID,
                bytes: 0,
                magic: 0,
                unlinked,
                path: path.as_bytes(),
            })
        };
        let named = |path: &str, unlinked| (Some(path.to_owned()), unlinked);
        assert_eq!(told("/data/x", false), named("/data/x", false));
        let gone = "/memfd:cache (deleted)";
        assert_eq!(told(gone, true), named("/memfd:cache", true));
        assert_eq!(told("/no/such (deleted)", false), named("/no/such", true));
        assert_eq!(told("", false), (None, false));
        let folder = tempfile::tempdir().expect("a folder");
        let odd = folder.path().join("x (deleted)");
        std::fs::write(&odd, "").expect("written");
        let odd = odd.to_str().expect("text");
        assert_eq!(told(odd, false), named(odd, false));
    }
}
