//! The files that a plan names, taken out of the page cache: else a run would find there what the one before has read.

use std::fs;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use pagewise_host::open_file;
use rustix::fs::Advice;
use rustix::fs::OFlags;

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evicted {
    pub(super) files: usize,
    /// Their sizes.
    pub(super) bytes: u64,
    /// Files that are not there any more, or may not be read.
    pub(super) missing: usize,
}

/// What others have mapped stays.
pub(super) fn evict(files: &[String]) -> Evicted {
    let mut evicted = Evicted::default();
    for path in files {
        match evict_one(Path::new(path)) {
            Some(bytes) => {
                evicted.files += 1;
                evicted.bytes += bytes;
            }
            None => evicted.missing += 1,
        }
    }
    evicted
}

fn evict_one(path: &Path) -> Option<u64> {
    // To open something else, a device, may have effects.
    let data = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let file = File::options()
        .read(true)
        .custom_flags(nonblocking)
        .open(path)
        .ok()?;
    // Pages that were written stay until they are on the disk.
    file.sync_data().ok()?;
    open_file::advise(&file, 0..0, Advice::DontNeed).ok()?;
    Some(data.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn what_was_written_is_no_longer_cached_and_what_is_no_file_is_missing() {
        // Not in a temporary folder, which may be in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, vec![1; 1 << 20]).expect("written");
        let file = File::open(&path).expect("opened");
        match open_file::cached_pages(&file, 0..1 << 20) {
            Err(Errno::NOSYS) => return, // Linux before 6.5 cannot tell
            cached => assert_eq!(cached, Ok(256)),
        }
        let name = |path: &Path| path.to_str().expect("text").to_owned();
        let files = [
            name(&path),
            name(&folder.path().join("none")),
            name(folder.path()),
            "/dev/null".to_owned(),
        ];
        let expected = Evicted {
            files: 1,
            bytes: 1 << 20,
            missing: 3,
        };
        assert_eq!(evict(&files), expected);
        assert_eq!(open_file::cached_pages(&file, 0..1 << 20), Ok(0));
    }
}
