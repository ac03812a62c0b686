//! System calls about open files and the page cache, as they are: the functions of the C library may be interposed, by us.

use std::ops::Range;

use libc::c_long;

use crate::system;

/// Reads ahead as it finds right.
pub const NORMAL: i32 = libc::POSIX_FADV_NORMAL;
/// Reads twice as far ahead.
pub const SEQUENTIAL: i32 = libc::POSIX_FADV_SEQUENTIAL;
/// Reads nothing ahead.
pub const RANDOM: i32 = libc::POSIX_FADV_RANDOM;
/// Begins to read a range.
pub const WILL_NEED: i32 = libc::POSIX_FADV_WILLNEED;
/// Drops a range from the page cache, what is clean and not in use of it.
pub const DONT_NEED: i32 = libc::POSIX_FADV_DONTNEED;

const PAGE: u64 = 4096;
/// Not in libc yet (Linux 6.5).
const SYS_CACHESTAT: c_long = 451;
/// Pages that are looked at by one `mincore`.
const LOOKED_AT: usize = 512;

fn result(value: c_long) -> Result<c_long, i32> {
    if value >= 0 {
        return Ok(value);
    }
    // SAFETY: this thread's own errno.
    Err(unsafe { *libc::__errno_location() })
}

/// `posix_fadvise` with one of this module's advices.
///
/// # Errors
/// The errno.
pub fn advise(file: i32, range: Range<u64>, advice: i32) -> Result<(), i32> {
    // SAFETY: numbers only.
    result(unsafe {
        libc::syscall(
            libc::SYS_fadvise64,
            c_long::from(file),
            range.start,
            range.end.saturating_sub(range.start),
            c_long::from(advice),
        )
    })
    .map(drop)
}

/// Begins to write a range back, without waiting for it.
///
/// # Errors
/// The errno.
pub fn write_back(file: i32, range: Range<u64>) -> Result<(), i32> {
    // SAFETY: numbers only.
    result(unsafe {
        libc::syscall(
            libc::SYS_sync_file_range,
            c_long::from(file),
            range.start,
            range.end.saturating_sub(range.start),
            c_long::from(libc::SYNC_FILE_RANGE_WRITE),
        )
    })
    .map(drop)
}

/// Pages of a range that are in the page cache, by `cachestat`, or, before Linux 6.5 and on overlayfs, by `mincore`. Of a file that this
/// user neither owns nor may write the kernel does not tell: an error from the former, all of them from the latter.
///
/// # Errors
/// The errno.
pub fn cached_pages(file: i32, range: Range<u64>) -> Result<u64, i32> {
    match counts(file, &range) {
        Ok([cached, ..]) => Ok(cached),
        Err(libc::ENOSYS) => by_mapping(file, range),
        Err(errno) => Err(errno),
    }
}

/// Of these, pages that are not on the disk yet: changed, or just being written. Only `cachestat` tells.
///
/// # Errors
/// The errno; `ENOSYS` before Linux 6.5 and on overlayfs.
pub fn unclean_pages(file: i32, range: Range<u64>) -> Result<u64, i32> {
    counts(file, &range).map(|[_, dirty, written, ..]| dirty + written)
}

/// What `cachestat` tells: cached, dirty, being written, evicted, recently evicted. On overlayfs it always tells of nothing: pages belong
/// to the file beneath (fs/overlayfs/file.c, 6.12), which a mapping leads to and `cachestat` does not.
fn counts(file: i32, range: &Range<u64>) -> Result<[u64; 5], i32> {
    let request = [range.start, range.end.saturating_sub(range.start)];
    let mut counts = [0u64; 5];
    // SAFETY: structures as in include/uapi/linux/mman.h.
    let told = result(unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            c_long::from(file),
            request.as_ptr(),
            counts.as_mut_ptr(),
            0 as c_long,
        )
    });
    told?;
    if counts[0] == 0 && file_system(file) == Some(libc::OVERLAYFS_SUPER_MAGIC) {
        return Err(libc::ENOSYS);
    }
    Ok(counts)
}

fn by_mapping(file: i32, range: Range<u64>) -> Result<u64, i32> {
    let start = range.start / PAGE * PAGE;
    let pages = facts(file)
        .map_or(0, |facts| range.end.min(facts.bytes).saturating_sub(start))
        .div_ceil(PAGE);
    let (mut cached, mut at) = (0, start);
    let mut left = pages as usize;
    while left > 0 {
        let now = left.min(LOOKED_AT);
        let length = now * PAGE as usize;
        // SAFETY: a fresh mapping that nobody reads, undone below.
        let mapped = result(unsafe {
            libc::syscall(
                libc::SYS_mmap,
                0 as c_long,
                length,
                c_long::from(libc::PROT_READ),
                c_long::from(libc::MAP_SHARED),
                c_long::from(file),
                at,
            )
        })?;
        let mut there = [0u8; LOOKED_AT];
        // SAFETY: the mapping just made, and a byte for each of its pages.
        let told = result(unsafe {
            let told = libc::syscall(libc::SYS_mincore, mapped, length, there.as_mut_ptr());
            libc::syscall(libc::SYS_munmap, mapped, length);
            told
        });
        told?;
        cached += there[..now].iter().filter(|&&byte| byte & 1 == 1).count() as u64;
        at += length as u64;
        left -= now;
    }
    Ok(cached)
}

/// Which file is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its device and inode: no other file has both while it is open.
    pub identity: (u64, u64),
    /// As [`Identity::generation`].
    pub generation: u32,
    /// Its length.
    pub bytes: u64,
    /// Neither folder, pipe, socket nor device.
    pub is_regular: bool,
}

/// What `statx` says of a descriptor; `None`: nothing is open there.
pub fn facts(file: i32) -> Option<FileFacts> {
    let stat = statx(file)?;
    let device = libc::makedev(stat.stx_dev_major, stat.stx_dev_minor);
    Some(FileFacts {
        identity: (device, stat.stx_ino),
        generation: generation(&stat),
        bytes: stat.stx_size,
        is_regular: is_regular(&stat),
    })
}

/// An open file, as it can be told to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The device's number, its major part first.
    pub device: (u32, u32),
    /// The inode on that device.
    pub inode: u64,
    /// A number by the time when it was made, so that the next file of this inode has another, unless it was made within the same few ms. Of
    /// file systems that do not tell the time, that of all files is the same.
    pub generation: u32,
    /// Its length.
    pub bytes: u64,
    /// No folder has it any more.
    pub is_unlinked: bool,
}

/// Which regular file is open; `None`: something else, or nothing.
pub fn identity(file: i32) -> Option<Identity> {
    let stat = statx(file).filter(is_regular)?;
    Some(Identity {
        device: (stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        generation: generation(&stat),
        bytes: stat.stx_size,
        is_unlinked: stat.stx_nlink == 0,
    })
}

fn statx(file: i32) -> Option<libc::statx> {
    let mut stat = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: an empty path, and a valid place for the answer.
    let told = unsafe {
        libc::syscall(
            libc::SYS_statx,
            c_long::from(file),
            c"".as_ptr(),
            c_long::from(libc::AT_EMPTY_PATH),
            libc::STATX_BASIC_STATS | libc::STATX_BTIME,
            stat.as_mut_ptr(),
        )
    };
    // SAFETY: zeroed, which is a valid statx, or filled in.
    let stat = unsafe { stat.assume_init() };
    (told == 0).then_some(stat)
}

fn is_regular(stat: &libc::statx) -> bool {
    u32::from(stat.stx_mode) & libc::S_IFMT == libc::S_IFREG
}

fn generation(stat: &libc::statx) -> u32 {
    let made = stat.stx_btime;
    let made_ns = (made.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(made.tv_nsec.into());
    (made_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// The flags of an open file; `None`: nothing is open.
pub fn flags(file: i32) -> Option<i32> {
    // SAFETY: numbers only.
    let flags = unsafe {
        libc::syscall(
            libc::SYS_fcntl,
            c_long::from(file),
            c_long::from(libc::F_GETFL),
        )
    };
    i32::try_from(flags).ok().filter(|&flags| flags >= 0)
}

/// Whether a file is read and written by the page cache, and could be left out of it: not so with `O_DIRECT`, and of what
/// lives in memory anyway.
pub fn has_cache_to_spare(file: i32) -> bool {
    let in_memory = [
        libc::TMPFS_MAGIC,
        libc::HUGETLBFS_MAGIC,
        libc::PROC_SUPER_MAGIC,
        libc::SYSFS_MAGIC,
    ];
    flags(file).is_some_and(|flags| flags & libc::O_DIRECT == 0)
        && file_system(file).is_some_and(|kind| !in_memory.contains(&kind))
}

/// The magic number of the file system; `None`: it cannot be told.
pub fn file_system(file: i32) -> Option<libc::c_long> {
    let mut system = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: a valid place for the answer.
    let told = unsafe { libc::syscall(libc::SYS_fstatfs, c_long::from(file), system.as_mut_ptr()) };
    // SAFETY: zeroed, which is a valid statfs, or filled in.
    let kind = unsafe { system.assume_init() }.f_type;
    (told == 0).then_some(kind)
}

/// Where the next `read` begins; `None`: the descriptor has no position.
pub fn position(file: i32) -> Option<u64> {
    // SAFETY: numbers only.
    let at = unsafe {
        libc::syscall(
            libc::SYS_lseek,
            c_long::from(file),
            0 as c_long,
            c_long::from(libc::SEEK_CUR),
        )
    };
    u64::try_from(at).ok()
}

/// The path that a descriptor was opened by, as the kernel knows it now; of an unlinked file with ` (deleted)` behind it.
pub fn path(file: i32, buffer: &mut [u8]) -> Option<&[u8]> {
    const PREFIX: &[u8] = b"/proc/self/fd/";
    let mut link = [0u8; 32];
    link[..PREFIX.len()].copy_from_slice(PREFIX);
    let mut digits = [0u8; 10];
    let (mut rest, mut count) = (file.unsigned_abs(), 0);
    while rest > 0 || count == 0 {
        digits[count] = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
    }
    for (place, digit) in link[PREFIX.len()..]
        .iter_mut()
        .zip(digits[..count].iter().rev())
    {
        *place = *digit;
    }
    // SAFETY: the link is a C string (zeros follow), the buffer valid for its length.
    let length = unsafe {
        libc::syscall(
            libc::SYS_readlinkat,
            c_long::from(libc::AT_FDCWD),
            link.as_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
        )
    };
    buffer.get(..usize::try_from(length).ok()?)
}

/// Lets a range of a file, whole pages, stay in the page cache, until [`let_go`]: it is mapped for reading and locked, each page from when it is [held](hold).
/// Not in forked children. Where it is mapped.
///
/// # Errors
/// The errno; nothing is mapped then.
pub fn keep(file: i32, range: Range<u64>) -> Result<usize, i32> {
    let bytes = (range.end - range.start) as usize;
    // SAFETY: a new mapping, which nobody touches but the kernel.
    let start = result(unsafe {
        libc::syscall(
            libc::SYS_mmap,
            0 as c_long,
            bytes,
            c_long::from(libc::PROT_READ),
            c_long::from(libc::MAP_SHARED),
            c_long::from(file),
            range.start,
        )
    })? as usize;
    if let Err(errno) = system::lock_on_fault(start, bytes) {
        let_go(start, bytes);
        return Err(errno);
    }
    // SAFETY: as above. A child would have it without the lock; what comes of it is no matter.
    unsafe {
        libc::syscall(
            libc::SYS_madvise,
            start,
            bytes,
            c_long::from(libc::MADV_DONTFORK),
        )
    };
    Ok(start)
}

/// Holds pages of what [`keep`] has mapped: these, which are read if they are not cached, and those around them that are.
///
/// # Errors
/// The errno: where the file was cut off meanwhile.
pub fn hold(start: usize, bytes: usize) -> Result<(), i32> {
    match system::advise(start, bytes, system::POPULATE_TO_READ) {
        // Before Linux 5.14.
        Err(libc::EINVAL) => system::lock_now(start, bytes),
        result => result,
    }
}

/// Ends what [`keep`] has mapped there.
pub fn let_go(start: usize, bytes: usize) {
    // SAFETY: made by `keep`, and touched by nobody.
    unsafe { libc::syscall(libc::SYS_munmap, start, bytes) };
}

/// Bytes that this thread had to read from devices so far.
pub fn device_bytes() -> u64 {
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a valid place for the answer.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_inblock.unsigned_abs() * 512
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn pages_are_counted_and_dropped_by_both_ways_of_looking() {
        // On a disk: the folder of temporary files may be memory.
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let place = std::path::Path::new(path).with_file_name("page_cache.test");
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&place)
            .expect("a file");
        std::fs::remove_file(&place).expect("unlinked");
        file.write_all(&vec![1; 3 << 20]).expect("written");
        file.sync_all().expect("on the disk");
        let (number, all) = (file.as_raw_fd(), 0..4 << 20);
        assert_eq!(by_mapping(number, all.clone()), Ok(768));
        assert_eq!(cached_pages(number, all.clone()), Ok(768));
        assert_eq!(advise(number, 0..2 << 20, DONT_NEED), Ok(()));
        assert_eq!(by_mapping(number, all.clone()), Ok(256));
        assert_eq!(cached_pages(number, all), Ok(256));
        let facts = facts(number).expect("open");
        assert!(facts.is_regular && facts.bytes == 3 << 20);
        assert!(has_cache_to_spare(number));
        assert_eq!(position(number), Some(3 << 20));
        let mut buffer = [0; 4096];
        let path = super::path(number, &mut buffer).expect("a path");
        assert!(path.ends_with(b"page_cache.test (deleted)"));
    }

    #[test]
    fn a_file_is_known_again_and_the_next_of_its_inode_is_another() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let place = std::path::Path::new(path).with_file_name("identity.test");
        let make = || {
            let file = std::fs::File::create_new(&place).expect("a file");
            std::fs::remove_file(&place).expect("unlinked");
            let identity = identity(file.as_raw_fd()).expect("a regular file");
            assert_eq!(super::identity(file.as_raw_fd()), Some(identity));
            assert!(identity.is_unlinked);
            let facts = facts(file.as_raw_fd()).expect("open");
            assert_eq!(facts.generation, identity.generation);
            assert_eq!(facts.identity.1, identity.inode);
            identity
        };
        let first = make();
        // The clock by which file systems tell the time ticks every few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let second = make();
        assert_eq!(first.device, second.device);
        // Where the file system tells when a file was made.
        if first.generation != 0 {
            let known = |identity: Identity| (identity.inode, identity.generation);
            assert_ne!(known(first), known(second));
        }
        let flags = super::flags(std::io::stdin().as_raw_fd());
        assert!(flags.is_none_or(|flags| flags & libc::O_DIRECT == 0));
    }

    #[test]
    fn what_is_no_file_is_told() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let pipe = reader.as_raw_fd();
        assert!(!facts(pipe).expect("open").is_regular);
        assert_eq!(position(pipe), None);
        assert_eq!(advise(pipe, 0..4096, DONT_NEED), Err(libc::ESPIPE));
        assert_eq!(facts(-1), None);
        assert_eq!(
            (identity(-1), identity(pipe), flags(-1)),
            (None, None, None)
        );
        assert!(!has_cache_to_spare(-1));
    }
}
