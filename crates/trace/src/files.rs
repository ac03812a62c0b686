//! Names of the trace's files, and file operations that leave either the old or the new content.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::fchown;
use std::os::unix::fs::lchown;
use std::path::Path;
use std::path::PathBuf;

use crate::error::Result;
use crate::error::TraceError;
use crate::journal::JOURNAL_FILE;
use crate::meta::META_FILE;
use crate::tables::TABLE_NAMES;

/// The user and group that shall own a trace, for a recorder that runs as root for somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

impl Owner {
    /// Whom files added to an existing folder should belong to; `None`: whoever makes them.
    ///
    /// Root gives them to the folder's owner, anybody else could not give them away.
    pub(crate) fn of_additions_to(dir: &Path) -> Result<Option<Owner>> {
        // The entry of a process in /proc belongs to its effective user.
        let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        let folder = fs::metadata(dir).map_err(|source| TraceError::io(dir, source))?;
        let owner = Owner {
            uid: folder.uid(),
            gid: folder.gid(),
        };
        Ok((is_root && owner.uid != 0).then_some(owner))
    }
}

pub(crate) fn stream_path(dir: &Path, table: &str) -> PathBuf {
    dir.join(format!("{table}.arrows"))
}

pub(crate) fn parquet_path(dir: &Path, table: &str) -> PathBuf {
    dir.join(format!("{table}.parquet"))
}

/// The name a file has until it is complete.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// Creates a file that did not exist.
///
/// A leftover of that name is removed, and nothing is followed: a recorder that runs as root must
/// not be led elsewhere by a symbolic link that the folder's owner planted.
pub(crate) fn create(path: &Path, owner: Option<Owner>) -> Result<File> {
    remove_if_there(path)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|source| TraceError::io(path, source))?;
    if let Some(Owner { uid, gid }) = owner {
        fchown(&file, Some(uid), Some(gid)).map_err(|source| TraceError::io(path, source))?;
    }
    Ok(file)
}

pub(crate) fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(TraceError::io(path, source))
        }
        _ => Ok(()),
    }
}

pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|source| TraceError::io(to, source))
}

/// Replaces a file's content; a reader sees the old or the new, whole.
pub(crate) fn replace(path: &Path, content: &[u8], owner: Option<Owner>) -> Result<()> {
    let new = temporary(path);
    let mut file = create(&new, owner)?;
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .map_err(|source| TraceError::io(path, source))?;
    rename(&new, path)
}

/// Makes the folder's renames and removals last through a power failure.
pub(crate) fn sync_folder(dir: &Path) -> Result<()> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|source| TraceError::io(dir, source))
}

/// Gives a folder and the trace's files in it to somebody, without following links.
pub(crate) fn give_to(dir: &Path, owner: Owner) -> Result<()> {
    let present = all_files(dir).filter(|path| path.symlink_metadata().is_ok());
    for path in present.chain([dir.to_owned()]) {
        lchown(&path, Some(owner.uid), Some(owner.gid))
            .map_err(|source| TraceError::io(&path, source))?;
    }
    Ok(())
}

/// Removes a trace's files and then its folder; a folder that holds anything else stays.
pub(crate) fn remove_trace(dir: &Path) -> Result<()> {
    for path in all_files(dir) {
        remove_if_there(&path)?;
    }
    match fs::remove_dir(dir) {
        Err(source) if source.kind() != io::ErrorKind::DirectoryNotEmpty => {
            Err(TraceError::io(dir, source))
        }
        _ => Ok(()),
    }
}

/// Moves a trace's files into a folder that exists.
pub(crate) fn move_trace(from: &Path, to: &Path) -> Result<()> {
    for path in all_files(from) {
        if let Some(name) = path.file_name()
            && path.symlink_metadata().is_ok()
        {
            rename(&path, &to.join(name))?;
        }
    }
    fs::remove_dir(from).map_err(|source| TraceError::io(from, source))
}

/// Every file a trace may consist of; the meta file comes last, so that a removal that is
/// interrupted leaves something that is still known as a trace.
fn all_files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let dir = dir.to_owned();
    let tables = TABLE_NAMES.iter().flat_map({
        let dir = dir.clone();
        move |table| {
            let parquet = parquet_path(&dir, table);
            [stream_path(&dir, table), temporary(&parquet), parquet]
        }
    });
    let meta = dir.join(META_FILE);
    tables.chain([dir.join(JOURNAL_FILE), temporary(&meta), meta])
}
