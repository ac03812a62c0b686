//! The parser of `/proc/PID/maps`.
//!
//! Format: Linux `fs/proc/task_mmu.c`, `show_map_vma` (unchanged in shape since 2.6):
//! `start-end perms offset major:minor inode   path`.

use crate::error::{Error, Result};

/// One mapping of a process: a line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address, in the process.
    pub start: u64,
    /// First address after the mapping.
    pub end: u64,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// Shared with others (`s`) rather than private (`p`).
    pub shared: bool,
    /// Offset of `start` in the file, in bytes.
    pub offset: u64,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// Inode of the file; 0 is what the kernel shows for mappings without one.
    pub inode: u64,
    /// The file's path, or a pseudo path such as `[heap]`; `None` for anonymous memory.
    pub path: Option<String>,
    /// Whether the file was unlinked or replaced since it was mapped.
    pub deleted: bool,
}

impl Mapping {
    /// Parses one line.
    ///
    /// # Errors
    /// [`Error::Maps`] with line number 1 if the line has another shape.
    pub fn parse(line: &str) -> Result<Self> {
        Self::parse_fields(line).ok_or_else(|| malformed(1, line))
    }

    fn parse_fields(line: &str) -> Option<Self> {
        let mut rest = line;
        let (start, end) = next_field(&mut rest)?.split_once('-')?;
        let permissions = next_field(&mut rest)?.as_bytes();
        let offset = next_field(&mut rest)?;
        let (major, minor) = next_field(&mut rest)?.split_once(':')?;
        let inode = next_field(&mut rest)?;
        let &[read, write, execute, share] = permissions else {
            return None;
        };
        let (path, deleted) = parse_path(rest.trim_start_matches(' '));
        let mapping = Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            readable: read == b'r',
            writable: write == b'w',
            executable: execute == b'x',
            shared: share == b's',
            offset: u64::from_str_radix(offset, 16).ok()?,
            device: (
                u32::from_str_radix(major, 16).ok()?,
                u32::from_str_radix(minor, 16).ok()?,
            ),
            inode: inode.parse().ok()?,
            path,
            deleted,
        };
        (mapping.start < mapping.end).then_some(mapping)
    }

    /// The path, if it names a file (not `[heap]`, `[vdso]`, `[anon:...]` and the like).
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.path.as_deref().filter(|path| path.starts_with('/'))
    }

    /// Whether the address lies in this mapping.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// Parses the whole text of `/proc/PID/maps`, sorted by address. Blank lines are skipped.
///
/// # Errors
/// [`Error::Maps`] naming the first line that has another shape.
pub fn parse_maps(text: &str) -> Result<Vec<Mapping>> {
    let mut mappings = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| Mapping::parse_fields(line).ok_or_else(|| malformed(index + 1, line)))
        .collect::<Result<Vec<_>>>()?;
    mappings.sort_by_key(|mapping| mapping.start);
    Ok(mappings)
}

fn malformed(line: usize, content: &str) -> Error {
    Error::Maps {
        line,
        content: content.chars().take(120).collect(),
    }
}

/// Takes the next field; the rest keeps the spaces of a path.
fn next_field<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let text = rest.trim_start_matches(' ');
    let end = text.find(' ').unwrap_or(text.len());
    let (field, after) = text.split_at(end);
    *rest = after;
    (!field.is_empty()).then_some(field)
}

fn parse_path(text: &str) -> (Option<String>, bool) {
    const DELETED: &str = " (deleted)";
    let (path, deleted) = match text.strip_suffix(DELETED) {
        Some(path) => (path, true),
        None => (text, false),
    };
    // The kernel escapes only the newline, as octal.
    (
        (!path.is_empty()).then(|| path.replace("\\012", "\n")),
        deleted,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_read() {
        let mapping = Mapping::parse(
            "7f12a4a28000-7f12a4bbd000 r-xp 00028000 fd:01 393457                     /usr/lib/x86_64-linux-gnu/libc.so.6",
        )
        .unwrap();
        assert_eq!(
            mapping.start..mapping.end,
            0x7f12_a4a2_8000..0x7f12_a4bb_d000
        );
        assert!(mapping.readable && mapping.executable && !mapping.writable && !mapping.shared);
        assert_eq!(
            (mapping.offset, mapping.device, mapping.inode),
            (0x28000, (0xfd, 1), 393_457)
        );
        assert_eq!(mapping.file(), Some("/usr/lib/x86_64-linux-gnu/libc.so.6"));
        assert!(!mapping.deleted);
    }

    #[test]
    fn paths_may_be_missing_pseudo_spaced_escaped_or_deleted() {
        let path = |text: &str| {
            let line = format!("1000-2000 rw-p 00000000 00:00 0 {text}");
            let mapping = Mapping::parse(&line).unwrap();
            (mapping.path, mapping.deleted)
        };
        assert_eq!(path(""), (None, false));
        assert_eq!(path("   [heap]"), (Some("[heap]".into()), false));
        assert_eq!(path("  /a b/c d"), (Some("/a b/c d".into()), false));
        assert_eq!(path("  /a\\012b"), (Some("/a\nb".into()), false));
        assert_eq!(path("  /x/y (deleted)"), (Some("/x/y".into()), true));
    }

    #[test]
    fn pseudo_paths_are_no_files() {
        let mapping = Mapping::parse("1000-2000 r-xp 00000000 00:00 0 [vdso]").unwrap();
        assert_eq!(mapping.file(), None);
    }

    #[test]
    fn other_text_is_an_error_that_names_the_line() {
        let text = "1000-2000 r-xp 00000000 00:00 0 [vdso]\nnonsense\n";
        let error = parse_maps(text).unwrap_err().to_string();
        assert!(
            error.contains("line 2") && error.contains("nonsense"),
            "{error}"
        );
        for bad in [
            "",
            "1000-2000",
            "2000-1000 r-xp 0 00:00 0",
            "1000-2000 r-x 0 00:00 0",
            "1000-zzzz r-xp 0 00:00 0",
            "1000-2000 r-xp 0 0000 0",
            "1000-2000 r-xp 0 00:00 -1",
        ] {
            assert!(Mapping::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_own_maps_file_is_read_whole() {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mappings = parse_maps(&text).unwrap();
        assert_eq!(mappings.len(), text.lines().count());
        let here = every_field_is_read as *const () as u64;
        assert!(
            mappings
                .iter()
                .any(|mapping| mapping.executable && mapping.contains(here))
        );
    }
}
