//! The files that the processes use, and their open files as taken from them, each time anew: nothing is held open, as a lock
//! by `flock`, or the room of a file without a name, would outlive its descriptor in the process.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::path::PathBuf;

use pagewise_abi::pattern;
use pagewise_abi::plan::PlanView;
use pagewise_collect::io_record::FileSeen;
use pagewise_host::RunningProcess;
use pagewise_host::open_file::FileIdentity;
use pagewise_host::open_file::MeantFile;
use pagewise_host::open_file::open_if_same;
use pagewise_host::open_file::take_descriptor;
use rustix::io::Errno;

use crate::record::mounts::Mounts;

/// What lives in memory anyway, or is made when it is read (include/uapi/linux/magic.h): tmpfs, hugetlbfs, ramfs, proc, sysfs.
const WITHOUT_CACHE: [u64; 5] = [0x0102_1994, 0x9584_58f6, 0x8584_58f6, 0x9fa0, 0x6265_6572];
/// Those that tell the generation of an open file, the same that the kernel's programs see: ext4 and kin, xfs, f2fs, btrfs. What others
/// make of the question, such as servers of FUSE, is not known.
const WITH_GENERATIONS: [u64; 4] = [0xef53, 0x5846_5342, 0xf2f5_2010, 0x9123_683e];
/// Processes whose descriptors are at hand.
const MOST_PROCESSES: usize = 256;
/// Files of overlayfs hand advice on to the file beneath, which alone is as it was told to be (fs/overlayfs/file.c, 6.12).
const OVERLAYFS: u64 = 0x794c_7630;
/// Calls that do not show how their open file was told to read ahead until it is clear that none will.
const MOST_UNSEEN: u8 = 8;

/// Whether the open files of a file show how they were told to read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// None has so far, in as many calls.
    NotYet(u8),
    Yes,
    No,
}

/// A regular file.
pub(super) struct KnownFile {
    pub(super) meant: MeantFile,
    /// As the process sees it.
    path: Option<String>,
    /// It has pages that could be done without.
    pub(super) has_cache: bool,
    /// The kernel tells what is cached of it.
    pub(super) tells_cached: bool,
    shows: Shows,
    /// The rules whose patterns its name matches, a bit each.
    pub(super) accepted_by: u64,
}

/// An open file of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) pid: u32,
    pub(super) descriptor: u32,
}

/// Why an open file could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// The descriptor was closed, or the process has ended.
    Closed,
    /// The descriptor means another file by now.
    Another,
    /// The kernel's reason.
    Refused(Errno),
}

#[derive(Default)]
pub(super) struct Files {
    known: HashMap<u32, KnownFile>,
    /// The number of each file, by identity and generation.
    numbers: HashMap<(FileIdentity, u32), u32>,
    /// Later numbers of files that have one already, and which.
    later: HashMap<u32, u32>,
    mounts: Mounts,
    processes: HashMap<u32, RunningProcess>,
}

impl KnownFile {
    /// Whether it shows in a call how its open file was told to read ahead: else nothing could be given back, nor be left to a
    /// program that says so itself.
    pub(super) fn shows_reading_ahead(&self) -> bool {
        self.shows != Shows::No
    }
}

impl Files {
    pub(super) fn seen(&mut self, file: &FileSeen, pid: Option<u32>, view: &PlanView<'_>) {
        let inside = file.path.as_deref().map(String::from_utf8_lossy);
        let path = self.mounts.place(pid, file.device, inside.as_deref()).path;
        let is_accepted = |index: &usize| match view.pattern(&view.rule(*index)) {
            None => true,
            Some(wanted) => path
                .as_ref()
                .is_some_and(|path| pattern::is_meant(wanted, path.as_bytes())),
        };
        let accepting = (0..view.rules()).filter(is_accepted);
        let identity = FileIdentity {
            device: file.device,
            inode: file.inode,
        };
        let key = (identity, file.generation);
        let first = *self.numbers.entry(key).or_insert(file.file);
        let before = self.known.get(&first);
        let known = KnownFile {
            meant: MeantFile {
                identity,
                generation: Some(file.generation)
                    .filter(|&number| number != 0 && WITH_GENERATIONS.contains(&file.magic)),
            },
            has_cache: !WITHOUT_CACHE.contains(&file.magic),
            tells_cached: before.is_none_or(|known| known.tells_cached),
            shows: match file.magic {
                OVERLAYFS => Shows::No,
                _ => before.map_or(Shows::NotYet(0), |known| known.shows),
            },
            accepted_by: accepting.fold(0, |bits, index| bits | 1 << index),
            path: path.filter(|_| !file.unlinked),
        };
        if first != file.file {
            self.later.insert(file.file, first);
        }
        self.known.insert(first, known);
    }

    /// The one number of a file: which pages are ours is known by that, and a page that leaves is told by any of them.
    pub(super) fn number(&self, told: u32) -> u32 {
        self.later.get(&told).copied().unwrap_or(told)
    }

    pub(super) fn get(&self, file: u32) -> Option<&KnownFile> {
        self.known.get(&file)
    }

    /// The kernel does not tell what is cached of it: nothing of it can be dropped.
    pub(super) fn tells_nothing(&mut self, file: u32) {
        if let Some(known) = self.known.get_mut(&file) {
            known.tells_cached = false;
        }
    }

    /// An open file of it reads ahead as it was told to.
    pub(super) fn shown(&mut self, file: u32) {
        if let Some(known) = self.known.get_mut(&file) {
            known.shows = Shows::Yes;
        }
    }

    /// A call that began after its open file was told how to read ahead does not show it. It may have been opened anew; but where none
    /// ever does, nothing shows it. True: that is so by now.
    pub(super) fn is_never_shown(&mut self, file: u32) -> bool {
        let Some(known) = self.known.get_mut(&file) else {
            return false;
        };
        known.shows = match known.shows {
            Shows::NotYet(MOST_UNSEEN) => Shows::No,
            Shows::NotYet(times) => Shows::NotYet(times + 1),
            other => other,
        };
        known.shows == Shows::No
    }

    /// The open file itself, to change how it reads ahead.
    pub(super) fn take(&mut self, place: Place, meant: MeantFile) -> Result<OwnedFd, Missed> {
        let process = self.process(place.pid).ok_or(Missed::Closed)?;
        let taken = take_descriptor(process.pidfd(), place.descriptor);
        let taken = taken.map_err(|errno| match errno {
            Errno::BADF | Errno::SRCH => Missed::Closed,
            errno => Missed::Refused(errno),
        })?;
        match meant.is(&taken) {
            Ok(true) => Ok(taken),
            Ok(false) => Err(Missed::Another),
            Err(errno) => Err(Missed::Refused(errno)),
        }
    }

    /// Any open file of it, to see to its pages: that of the process or, where that is closed, one of our own.
    pub(super) fn open(&mut self, place: Place, file: u32) -> Result<OwnedFd, Missed> {
        let meant = self.known.get(&file).ok_or(Missed::Closed)?.meant;
        let taken = self.take(place, meant);
        if !matches!(taken, Err(Missed::Closed | Missed::Another)) {
            return taken;
        }
        let Some(path) = self.known.get(&file).and_then(|known| known.path.as_ref()) else {
            return taken;
        };
        let there = PathBuf::from(format!("/proc/{}/root{path}", place.pid));
        let opened = open_if_same(&there, meant);
        let opened = opened.or_else(|_| open_if_same(Path::new(path), meant));
        opened.or(taken)
    }

    /// When a process started, ns since boot; `None`: it has ended.
    pub(super) fn start_ns(&mut self, pid: u32) -> Option<u64> {
        self.process(pid).map(RunningProcess::start_ns)
    }

    fn process(&mut self, pid: u32) -> Option<&RunningProcess> {
        if !self.processes.contains_key(&pid) {
            if self.processes.len() >= MOST_PROCESSES {
                self.processes.clear();
            }
            let found = RunningProcess::find(pid).ok()?;
            self.processes.insert(pid, found);
        }
        self.processes.get(&pid)
    }

    /// It has ended, or runs another program: its number may come to mean another.
    pub(super) fn forget_process(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_abi::plan as wire;

    fn seen(file: u32, inode: u64, generation: u32) -> FileSeen {
        FileSeen {
            time_ns: 1,
            file,
            space: 1,
            device: (8, 1),
            inode,
            generation,
            bytes: 1,
            magic: 0xef53,
            unlinked: true,
            path: None,
        }
    }

    #[test]
    fn a_file_that_two_processors_have_numbered_is_one() {
        let mut bytes = Vec::new();
        let parts = wire::PlanParts {
            sizes: wire::PlanSizes {
                limit_bytes: 0,
                lock_bytes: 0,
                fresh: 0,
            },
            modules: &[],
            frames: &[],
            ranges: &[],
            rules: &[],
            patterns: &[],
            headway: &[],
        };
        parts.encode(|piece| bytes.extend_from_slice(piece));
        let view = PlanView::decode(&bytes).expect("well formed");
        let mut files = Files::default();
        for file in [seen(1, 5, 7), seen(2, 5, 7), seen(3, 5, 8), seen(4, 6, 7)] {
            files.seen(&file, None, &view);
        }
        let numbers = [1, 2, 3, 4, 9].map(|told| files.number(told));
        assert_eq!(numbers, [1, 1, 3, 4, 9], "the third is a later file");
        assert!(files.get(files.number(2)).is_some());
    }
}
