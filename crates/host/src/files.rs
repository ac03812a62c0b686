//! Reading and writing the small files of the kernel, with the path in every error.

use crate::error::Error;
use crate::error::Result;
use std::ffi::OsString;
use std::fs;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::path::PathBuf;

/// Contents without the final newline.
pub(crate) fn read(path: &Path) -> Result<String> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
        Err(source) => Err(Error::file("read", path, source)),
    }
}

/// Contents without the final newline; `None` when there is no such file or it may not be read.
pub(crate) fn read_optional(path: &Path) -> Option<String> {
    read(path).ok()
}

/// One number; `None` when there is no such file or no number in it (as `max`).
pub(crate) fn read_number(path: &Path) -> Option<u64> {
    read_optional(path)?.trim().parse().ok()
}

/// One number of a file that must have one.
pub(crate) fn require_number(path: &Path) -> Result<u64> {
    let text = read(path)?;
    text.trim().parse().map_err(|_| Error::Form {
        path: path.to_owned(),
        expected: "one number",
    })
}

/// Bytes in a line `key:  number kB`, as /proc has them.
pub(crate) fn bytes_of(key: &str, text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Writes to a file that exists, in one write, as the kernel's settings want it.
pub(crate) fn write(path: &Path, contents: &str) -> Result<()> {
    let mut open = OpenOptions::new();
    // Kernel settings ignore truncation; a plain file (a fake cgroup in a test) needs it.
    open.write(true).truncate(true);
    open.open(path)
        .and_then(|mut file| file.write_all(contents.as_bytes()))
        .map_err(|source| Error::file("write", path, source))
}

/// As [`write()`], and no error when the file does not exist.
pub(crate) fn write_if_present(path: &Path, contents: &str) -> Result<()> {
    match write(path, contents) {
        Err(Error::File { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Whether this process may write there (asks the kernel, so read-only mounts count too).
pub(crate) fn writable(path: &Path) -> bool {
    let access = rustix::fs::Access::WRITE_OK;
    rustix::fs::accessat(rustix::fs::CWD, path, access, rustix::fs::AtFlags::EACCESS).is_ok()
}

/// The chosen word of a setting that lists its choices, `always [madvise] never`; a setting of one
/// value is returned whole.
pub(crate) fn chosen(setting: &str) -> &str {
    let inside = setting
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(setting.trim(), |(word, _)| word)
}

/// Undoes the octal escapes (`\\040` for a space) of paths in `/proc/swaps` and `mountinfo`.
pub(crate) fn unescape(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| first == b'\\');
        let code = digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_escapes_of_paths() {
        assert_eq!(unescape("/a\\040b\\134"), PathBuf::from("/a b\\"));
        assert_eq!(unescape("/plain\\9"), PathBuf::from("/plain\\9"));
    }

    #[test]
    fn the_chosen_word_is_the_one_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("[lzo-rle] lzo lz4 "), "lzo-rle");
        assert_eq!(chosen("511\n"), "511");
    }

    #[test]
    fn a_missing_file_is_no_error_only_where_that_is_said() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("none");
        assert!(write(&path, "1").is_err());
        assert!(write_if_present(&path, "1").is_ok());
        assert!(!path.exists(), "nothing may be created");
        assert_eq!(read_number(&path), None);
    }
}
