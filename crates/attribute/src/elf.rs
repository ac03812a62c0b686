//! What an ELF file says about where it is loaded, and which file it is.

use crate::error::{Error, Result};
use crate::roots::reachable;
use object::read::ReadCache;
use object::{Object, ObjectSegment, SegmentFlags, elf};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A loadable segment (`PT_LOAD`); all sizes and addresses in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address stated in the file (SVMA).
    pub svma: u64,
    /// Size in memory; larger than `file_size` where `.bss` follows.
    pub memory_size: u64,
    /// Offset in the file.
    pub file_offset: u64,
    /// Size in the file.
    pub file_size: u64,
    /// Holds code.
    pub executable: bool,
    /// Holds data that may be written.
    pub writable: bool,
}

/// The loadable segments and the build id of an ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfImage {
    /// Segments in the order of the program headers.
    pub segments: Vec<Segment>,
    /// The GNU build id (`NT_GNU_BUILD_ID`), if the linker wrote one.
    pub build_id: Option<Vec<u8>>,
}

/// The smallest page size the loader aligns to; a larger one only aligns more coarsely.
const PAGE: u64 = 4096;

impl ElfImage {
    /// Reads an ELF file's headers (not its contents).
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be opened, [`Error::Elf`] if it is no ELF file.
    pub fn read(path: &Path) -> Result<Self> {
        let cache = open(path)?;
        let file = parse(path, &cache)?;
        let segments = file
            .segments()
            .map(|segment| {
                let (file_offset, file_size) = segment.file_range();
                let flags = match segment.flags() {
                    SegmentFlags::Elf { p_flags, .. } => p_flags.0,
                    _ => 0,
                };
                Segment {
                    svma: segment.address(),
                    memory_size: segment.size(),
                    file_offset,
                    file_size,
                    executable: flags & elf::PF_X.0 != 0,
                    writable: flags & elf::PF_W.0 != 0,
                }
            })
            .collect();
        // An unreadable note only costs the build id.
        let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
        Ok(Self { segments, build_id })
    }

    /// The difference between an address in the process and the same address as stated in the
    /// file, for a mapping that begins at `start` and shows the file from `offset`.
    ///
    /// `None` if no segment is mapped from there. The executable segment is preferred where two
    /// segments share a page of the file.
    #[must_use]
    pub fn bias(&self, start: u64, offset: u64, executable: bool) -> Option<u64> {
        let covers = |segment: &&Segment| {
            let first = segment.file_offset & !(PAGE - 1);
            (first..segment.file_offset.saturating_add(segment.file_size.max(1))).contains(&offset)
        };
        let segment = self
            .segments
            .iter()
            .filter(covers)
            .max_by_key(|segment| segment.executable == executable)?;
        let svma = segment
            .svma
            .wrapping_add(offset.wrapping_sub(segment.file_offset));
        Some(start.wrapping_sub(svma))
    }

    /// The first address after the last segment, as stated in the file, `.bss` included.
    #[must_use]
    pub fn end(&self) -> u64 {
        let ends = self
            .segments
            .iter()
            .map(|s| s.svma.saturating_add(s.memory_size));
        ends.max().unwrap_or(0)
    }
}

/// Opens a file for reading on demand: only the parts asked for are read.
pub(crate) fn open(path: &Path) -> Result<ReadCache<File>> {
    let read_error = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(reachable(path)).map_err(read_error)?;
    // A fifo or a device would block or never end.
    if !file.metadata().map_err(read_error)?.is_file() {
        return Err(read_error(std::io::ErrorKind::InvalidInput.into()));
    }
    Ok(ReadCache::new(file))
}

/// Parses the headers of an opened file.
pub(crate) fn parse<'cache>(
    path: &Path,
    cache: &'cache ReadCache<File>,
) -> Result<object::File<'cache, &'cache ReadCache<File>>> {
    object::File::parse(cache).map_err(|source| Error::Elf {
        path: path.to_owned(),
        source,
    })
}

/// Tells whether a path still names the file that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl FileStamp {
    /// The stamp of the file now at `path`, or `None` if there is none.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(reachable(path)).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }

    /// Time of the last modification: seconds and nanoseconds since the epoch.
    pub(crate) fn modified(&self) -> (i64, i64) {
        self.modified
    }
}

/// Headers of ELF files, each read once for all processes while the file stays the same.
#[derive(Debug, Default)]
pub struct ElfCache {
    images: HashMap<PathBuf, (FileStamp, Option<Arc<ElfImage>>)>,
}

impl ElfCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The headers of the ELF file at `path`; `None` if it is missing or no ELF file, as most
    /// mapped files are.
    pub fn get(&mut self, path: &Path) -> Option<Arc<ElfImage>> {
        let stamp = FileStamp::of(path)?;
        if let Some((known, image)) = self.images.get(path)
            && *known == stamp
        {
            return image.clone();
        }
        let image = ElfImage::read(path).ok().map(Arc::new);
        self.images.insert(path.to_owned(), (stamp, image.clone()));
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> ElfImage {
        let segment = |svma, file_offset, file_size, memory_size, executable| Segment {
            svma,
            memory_size,
            file_offset,
            file_size,
            executable,
            writable: !executable,
        };
        ElfImage {
            segments: vec![
                segment(0x0, 0x0, 0x600, 0x600, false),
                segment(0x1600, 0x600, 0x300, 0x300, true),
                segment(0x3dd0, 0x2dd0, 0x250, 0x4000, false),
            ],
            build_id: None,
        }
    }

    #[test]
    fn the_bias_follows_the_segment_that_is_mapped() {
        let image = image();
        assert_eq!(image.bias(0x5000_0000, 0, false), Some(0x5000_0000));
        // The code shares the first page of the file with the headers.
        assert_eq!(image.bias(0x5000_1000, 0, true), Some(0x5000_0000));
        assert_eq!(image.bias(0x5000_3000, 0x2000, false), Some(0x5000_0000));
        assert_eq!(image.bias(0x5000_9000, 0x9000, false), None);
    }

    #[test]
    fn the_end_includes_bss() {
        assert_eq!(image().end(), 0x3dd0 + 0x4000);
    }

    #[test]
    fn a_text_file_is_no_elf_file_and_a_missing_one_is_named() {
        let text = ElfImage::read(Path::new("/proc/self/maps")).unwrap_err();
        assert!(
            matches!(text, Error::Elf { .. } | Error::Read { .. }),
            "{text}"
        );
        let missing = ElfImage::read(Path::new("/nonexistent/module.so")).unwrap_err();
        assert!(
            missing.to_string().contains("/nonexistent/module.so"),
            "{missing}"
        );
        assert!(ElfImage::read(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn the_own_executable_has_code_and_is_read_once() {
        let path = std::env::current_exe().unwrap();
        let mut cache = ElfCache::new();
        let first = cache.get(&path).unwrap();
        assert!(first.segments.iter().any(|segment| segment.executable));
        assert!(Arc::ptr_eq(&first, &cache.get(&path).unwrap()));
    }
}
