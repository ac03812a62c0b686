//! Another process's open files, and what the page cache holds of them: hints from outside.
//!
//! A descriptor that was taken means the very open file that the process has, until it is dropped here. So what belongs to the
//! open file (how far is read ahead) can be changed for the process, and a lock by `flock` outlives its descriptor there: take
//! it, act, drop it.

use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::Advice;
use rustix::fs::Mode;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::PidfdGetfdFlags;

use crate::running::RunningProcess;

/// Not in libc yet (Linux 6.5).
const SYS_CACHESTAT: libc::c_long = 451;
/// Not in libc: `_IOR('v', 1, long)` (include/uapi/linux/fs.h).
const FS_IOC_GETVERSION: libc::Ioctl = 0x8008_7601_u32 as libc::Ioctl;
/// Pages that are looked at by one `mincore`.
const MAPPED_PAGES: u64 = 4096;

/// Which file is open: no other one has the same while it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Major and minor number of the file system's device.
    pub device: (u32, u32),
    /// Number on that device.
    pub inode: u64,
}

impl FileIdentity {
    /// Of an open file.
    ///
    /// # Errors
    /// The errno of `fstat`.
    pub fn of(file: impl AsFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(file)?;
        Ok(Self {
            device: (
                rustix::fs::major(stat.st_dev),
                rustix::fs::minor(stat.st_dev),
            ),
            inode: stat.st_ino,
        })
    }
}

/// Which file is meant. Another one may come to have its number once it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeantFile {
    /// Its device and number.
    pub identity: FileIdentity,
    /// Its generation, by which the file system tells it from others that had its number in turn. `None`: it tells none, or none by
    /// `FS_IOC_GETVERSION`.
    pub generation: Option<u32>,
}

impl MeantFile {
    /// Whether it is this open one.
    ///
    /// # Errors
    /// The errno of `fstat`.
    pub fn is(&self, file: impl AsFd) -> Result<bool, Errno> {
        if FileIdentity::of(&file)? != self.identity {
            return Ok(false);
        }
        let Some(meant) = self.generation else {
            return Ok(true);
        };
        Ok(generation(&file).is_none_or(|found| found == meant))
    }
}

/// The generation of an open file; `None`: its file system does not tell.
fn generation(file: impl AsFd) -> Option<u32> {
    // The file systems write an `int`, whatever the number of the request says of a `long`.
    let mut found = [0u32; 2];
    // SAFETY: a place for either.
    let status = unsafe {
        libc::ioctl(
            file.as_fd().as_raw_fd(),
            FS_IOC_GETVERSION,
            found.as_mut_ptr(),
        )
    };
    (status == 0).then_some(found[0])
}

/// The open file behind a descriptor of another process (`pidfd_getfd`, Linux 5.6).
///
/// # Errors
/// `BADF`: it has none of this number; `SRCH`: it has ended; `PERM`: it may not be looked into; `NOSYS`: the kernel is older.
pub fn take_descriptor(process: BorrowedFd<'_>, number: u32) -> Result<OwnedFd, Errno> {
    let number = i32::try_from(number).map_err(|_| Errno::BADF)?;
    rustix::process::pidfd_getfd(process, number, PidfdGetfdFlags::empty())
}

/// Opens a file by its path if it is the one that is meant, without any effect on another.
///
/// # Errors
/// `STALE`: another file has that path; else the errno.
pub fn open_if_same(path: &Path, meant: MeantFile) -> Result<OwnedFd, Errno> {
    // Of any kind of file, this opens nothing yet.
    let place = rustix::fs::open(
        path,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    if FileIdentity::of(&place)? != meant.identity {
        return Err(Errno::STALE);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOATIME | OFlags::CLOEXEC;
    let link = format!("/proc/self/fd/{}", place.as_raw_fd());
    let file = rustix::fs::open(&*link, flags, Mode::empty())?;
    // Only an open file tells its generation.
    match meant.is(&file)? {
        true => Ok(file),
        false => Err(Errno::STALE),
    }
}

/// Advice on a whole open file, or, if it is not empty, on a range of bytes.
///
/// # Errors
/// The errno of `posix_fadvise`.
pub fn advise(file: impl AsFd, range: Range<u64>, advice: Advice) -> Result<(), Errno> {
    let bytes = NonZeroU64::new(range.end.saturating_sub(range.start));
    rustix::fs::fadvise(file, range.start, bytes, advice)
}

/// Lets an open file of a process read ahead as usual again, if process (number, and start in ns since boot) and file are still those
/// that are meant. Whatever comes of it, it was the least that could be told.
pub fn read_as_usual((pid, start_ns): (u32, u64), descriptor: u32, meant: FileIdentity) {
    if let Ok(process) = RunningProcess::find(pid)
        && process.start_ns() == start_ns
        && let Ok(open) = take_descriptor(process.pidfd(), descriptor)
        && FileIdentity::of(&open) == Ok(meant)
    {
        let _ = advise(&open, 0..0, Advice::Normal);
    }
}

/// How long a file is now, bytes.
///
/// # Errors
/// The errno of `fstat`.
pub fn length(file: impl AsFd) -> Result<u64, Errno> {
    Ok(u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0))
}

/// Begins to write a range back, without waiting for it.
///
/// # Errors
/// The errno of `sync_file_range`.
pub fn write_back(file: impl AsFd, range: Range<u64>) -> Result<(), Errno> {
    let signed = |offset: u64| i64::try_from(offset).unwrap_or(i64::MAX);
    let bytes = range.end.saturating_sub(range.start);
    // SAFETY: numbers only, and a descriptor that is open as long as it is borrowed.
    let status = unsafe {
        libc::sync_file_range(
            file.as_fd().as_raw_fd(),
            signed(range.start),
            signed(bytes),
            libc::SYNC_FILE_RANGE_WRITE,
        )
    };
    errno_unless(status == 0)
}

/// Pages of a range that are in the page cache (`cachestat`, Linux 6.5; on overlayfs `mincore`).
///
/// # Errors
/// `NOSYS`: the kernel is older; `PERM`: this user neither owns the file nor may write it.
pub fn cached_pages(file: impl AsFd, range: Range<u64>) -> Result<u64, Errno> {
    let [cached, ..] = counts(&file, range.clone())?;
    // There pages belong to the file beneath, which a mapping leads to and `cachestat` does not (fs/overlayfs/file.c, 6.12).
    if cached == 0 && rustix::fs::fstatfs(&file)?.f_type == libc::OVERLAYFS_SUPER_MAGIC {
        return by_mapping(file, range);
    }
    Ok(cached)
}

fn by_mapping(file: impl AsFd, range: Range<u64>) -> Result<u64, Errno> {
    let page = crate::page_bytes();
    let (start, end) = (range.start / page * page, range.end.min(length(&file)?));
    let (mut cached, mut at) = (0, start);
    while at < end {
        let pages = (end - at).div_ceil(page).min(MAPPED_PAGES);
        let bytes = (pages * page) as usize;
        // SAFETY: a fresh mapping that nobody reads, undone below.
        let mapped = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                rustix::mm::ProtFlags::READ,
                rustix::mm::MapFlags::SHARED,
                &file,
                at,
            )
        }?;
        let mut there = vec![0u8; pages as usize];
        // SAFETY: the mapping just made, and a byte for each of its pages.
        let told = unsafe { libc::mincore(mapped, bytes, there.as_mut_ptr()) };
        let told = errno_unless(told == 0);
        // SAFETY: our own mapping.
        unsafe { rustix::mm::munmap(mapped, bytes) }?;
        told?;
        cached += there.iter().filter(|&&byte| byte & 1 == 1).count() as u64;
        at += pages * page;
    }
    Ok(cached)
}

/// Pages that are not on the disk yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnTheWay {
    /// Changed since they were written last.
    pub changed: u64,
    /// Just being written.
    pub under_way: u64,
}

/// Of these, pages that are not on the disk yet.
///
/// # Errors
/// As of [`cached_pages`].
pub fn on_the_way(file: impl AsFd, range: Range<u64>) -> Result<OnTheWay, Errno> {
    counts(file, range).map(|[_, changed, under_way, ..]| OnTheWay { changed, under_way })
}

fn counts(file: impl AsFd, range: Range<u64>) -> Result<[u64; 5], Errno> {
    let request = [range.start, range.end.saturating_sub(range.start)];
    let mut counts = [0u64; 5];
    // SAFETY: structures as in include/uapi/linux/mman.h; only `counts` is written.
    let status = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_fd().as_raw_fd(),
            request.as_ptr(),
            counts.as_mut_ptr(),
            0,
        )
    };
    errno_unless(status == 0).map(|()| counts)
}

fn errno_unless(is_done: bool) -> Result<(), Errno> {
    if is_done {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::PidfdFlags;
    use std::fs::File;
    use std::io::Write;

    fn own() -> OwnedFd {
        rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())
            .expect("our own")
    }

    #[test]
    fn a_descriptor_that_was_taken_is_the_same_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let file = File::create(&path).expect("made");
        let number = file.as_raw_fd().unsigned_abs();
        let taken = take_descriptor(own().as_fd(), number).expect("taken");
        let identity = FileIdentity::of(&file).expect("open");
        assert_eq!(FileIdentity::of(&taken), Ok(identity));
        let meant = MeantFile {
            identity,
            generation: None,
        };
        assert!(open_if_same(&path, meant).is_ok());
        std::fs::rename(&path, folder.path().join("away")).expect("moved");
        assert_eq!(open_if_same(&path, meant).err(), Some(Errno::NOENT));
        std::fs::write(&path, "another").expect("made");
        assert_eq!(open_if_same(&path, meant).err(), Some(Errno::STALE));
        assert_eq!(
            take_descriptor(own().as_fd(), 1 << 19).err(),
            Some(Errno::BADF)
        );
    }

    #[test]
    fn a_later_file_of_the_same_number_is_another_one() {
        // On a disk: memory has no generations.
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("generation.test");
        let file = File::create(&path).expect("made");
        let Some(found) = generation(&file) else {
            println!("skipped: the file system tells no generations");
            std::fs::remove_file(&path).expect("removed");
            return;
        };
        let identity = FileIdentity::of(&file).expect("open");
        let meant = |generation| MeantFile {
            identity,
            generation,
        };
        for same in [None, Some(found)] {
            assert_eq!(meant(same).is(&file), Ok(true));
            assert!(open_if_same(&path, meant(same)).is_ok());
        }
        let later = meant(Some(found.wrapping_add(1)));
        assert_eq!(later.is(&file), Ok(false));
        assert_eq!(open_if_same(&path, later).err(), Some(Errno::STALE));
        std::fs::remove_file(&path).expect("removed");
        let (pipe, _writer) = std::io::pipe().expect("a pipe");
        assert_eq!(generation(&pipe), None);
    }

    #[test]
    fn pages_are_counted_written_back_and_dropped() {
        // On a disk: the folder of temporary files may be memory.
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
        file.write_all(&vec![1; 1 << 20]).expect("written");
        assert_eq!(cached_pages(&file, 0..1 << 20), Ok(256));
        let waiting = on_the_way(&file, 0..1 << 20).expect("told");
        assert_eq!(waiting.changed + waiting.under_way, 256);
        assert_eq!(write_back(&file, 0..1 << 20), Ok(()));
        file.sync_all().expect("on the disk");
        assert_eq!(on_the_way(&file, 0..1 << 20), Ok(OnTheWay::default()));
        assert_eq!(advise(&file, 0..1 << 20, Advice::DontNeed), Ok(()));
        assert_eq!(cached_pages(&file, 0..1 << 20), Ok(0));
    }
}
