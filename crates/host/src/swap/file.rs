//! A swap file: without holes, seen by nobody before it is complete, and never in place of another.

use super::SwapKind;
use super::control;
use super::header;
use super::header::Layout;
use crate::error::Error;
use crate::error::Result;
use crate::journal::UndoAction;
use crate::restorer::Restorer;
use rustix::fs::AtFlags;
use rustix::fs::FallocateFlags;
use rustix::fs::IFlags;
use rustix::fs::Mode;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

const DEFAULT_FOLDER: &str = "/var/tmp";
/// include/uapi/linux/magic.h.
const BTRFS_MAGIC: i64 = 0x9123_683e;

/// Makes the file and switches it on.
pub(super) fn set_up(
    path: Option<&Path>,
    layout: &Layout,
    restorer: &mut Restorer,
) -> Result<SwapKind> {
    let path = match path {
        Some(path) => absolute(path)?,
        None => default_path()?,
    };
    if path.symlink_metadata().is_ok() {
        return Err(Error::SwapFileExists { path });
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    require_space(folder, layout.total_bytes())?;
    let (file, visible) = create(folder, &path)?;
    if visible {
        let promised = UndoAction::remove_file(&path).and_then(|action| restorer.push(action));
        let _ = promised.inspect_err(|_| drop(fs::remove_file(&path)))?;
    }
    fill(&file, folder, &path, layout)?;
    if !visible {
        give_name(&file, &path, restorer)?;
    }
    control::swap_on(&path, restorer)?;
    Ok(SwapKind::File { path })
}

/// Without symbolic links in its folder, as `/proc/swaps` shows it.
fn absolute(path: &Path) -> Result<PathBuf> {
    let no_name = || Error::Argument {
        text: path.display().to_string(),
        why: "it names no file",
    };
    let name = path.file_name().ok_or_else(no_name)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = folder
        .canonicalize()
        .map_err(|e| Error::file("find", folder, e))?;
    Ok(folder.join(name))
}

fn default_path() -> Result<PathBuf> {
    let random = header::random_uuid()?
        .map(|byte| format!("{byte:02x}"))
        .concat();
    absolute(&Path::new(DEFAULT_FOLDER).join(format!("pagewise-swap-{random}")))
}

fn require_space(folder: &Path, needed: u64) -> Result<()> {
    let free = rustix::fs::statvfs(folder).map_err(|e| Error::file("inspect", folder, e))?;
    let available = free.f_bavail.saturating_mul(free.f_frsize);
    if available < needed {
        return Err(Error::NoSpace {
            directory: folder.to_owned(),
            needed,
            available,
        });
    }
    Ok(())
}

/// A file without a name yet, so that a kill on the way leaves nothing; with its name (`true`) where
/// the file system has no such files.
fn create(folder: &Path, path: &Path) -> Result<(File, bool)> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags | OFlags::TMPFILE, mode) {
        Ok(file) => return Ok((File::from(file), false)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        Err(error) => return Err(Error::file("create a file in", folder, error)),
    }
    let exclusive = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    match rustix::fs::open(path, flags | exclusive, mode) {
        Ok(file) => Ok((File::from(file), true)),
        Err(Errno::EXIST) => Err(Error::SwapFileExists {
            path: path.to_owned(),
        }),
        Err(error) => Err(Error::file("create", path, error)),
    }
}

/// Allocates every block and writes the header.
fn fill(file: &File, folder: &Path, path: &Path, layout: &Layout) -> Result<()> {
    let needed = layout.total_bytes();
    forbid_copy_on_write(file, path)?;
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, needed) {
        Ok(()) => {}
        Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
            let free =
                rustix::fs::statvfs(folder).map_err(|e| Error::file("inspect", folder, e))?;
            let available = free.f_bavail.saturating_mul(free.f_frsize);
            return Err(Error::NoSpace {
                directory: folder.to_owned(),
                needed,
                available,
            });
        }
        Err(error) => return Err(Error::file("allocate the blocks of", path, error)),
    }
    file.write_all_at(&layout.header(header::random_uuid()?), 0)
        .and_then(|()| file.sync_all())
        .map_err(|source| Error::file("write", path, source))
}

/// btrfs takes swap files only without copy-on-write, which can be said only while they are empty.
fn forbid_copy_on_write(file: &File, path: &Path) -> Result<()> {
    let kind = rustix::fs::fstatfs(file).map_err(|e| Error::file("inspect", path, e))?;
    #[allow(
        clippy::unnecessary_cast,
        reason = "the width differs between architectures"
    )]
    if kind.f_type as i64 != BTRFS_MAGIC {
        return Ok(());
    }
    rustix::fs::ioctl_getflags(file)
        .and_then(|flags| rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW))
        .map_err(|e| Error::file("switch off copy-on-write of", path, e))
}

/// Links the file to its name, which fails if something has that name by now.
fn give_name(file: &File, path: &Path, restorer: &mut Restorer) -> Result<()> {
    let data = file
        .metadata()
        .map_err(|e| Error::file("inspect", path, e))?;
    let (device, inode) = (data.dev(), data.ino());
    let _ = restorer.push(UndoAction::RemoveFile {
        path: path.to_owned(),
        device,
        inode,
    })?;
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    let (cwd, follow) = (rustix::fs::CWD, AtFlags::SYMLINK_FOLLOW);
    rustix::fs::linkat(cwd, unnamed.as_str(), cwd, path, follow).map_err(|error| match error {
        Errno::EXIST => Error::SwapFileExists {
            path: path.to_owned(),
        },
        error => Error::file("create", path, io::Error::from(error)),
    })
}
