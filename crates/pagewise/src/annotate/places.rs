//! Which file a plan means, and what a patch calls it.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use crate::failure::Failure;

pub(super) struct Places<'a> {
    /// Folders that are taken off paths.
    pub(super) strip: &'a [PathBuf],
    /// Where relative paths of a plan begin.
    pub(super) root: Option<&'a Path>,
}

impl Places<'_> {
    /// The source for a file of the plan, `None`: none of those named.
    pub(super) fn source_of(&self, file: &str, sources: &[PathBuf]) -> Option<PathBuf> {
        let file = Path::new(file);
        if sources.is_empty() {
            let rest = self.stripped(file);
            return Some(match (rest.is_relative(), self.root) {
                (true, Some(root)) => root.join(rest),
                _ => rest.to_owned(),
            });
        }
        let same_name = |source: &&PathBuf| source.file_name() == file.file_name();
        let named: Vec<&PathBuf> = sources.iter().filter(same_name).collect();
        let is_meant = |source: &&&PathBuf| {
            let whole = fs::canonicalize(source).unwrap_or_else(|_| source.to_path_buf());
            let rest = file.strip_prefix(".").unwrap_or(file);
            whole.ends_with(rest) || file.ends_with(source)
        };
        let meant = named.iter().find(is_meant).copied();
        let only = || (named.len() == 1).then(|| named[0]);
        meant.or_else(only).cloned()
    }

    fn stripped<'path>(&self, path: &'path Path) -> &'path Path {
        let rests = self
            .strip
            .iter()
            .filter_map(|prefix| path.strip_prefix(prefix).ok());
        rests
            .min_by_key(|rest| rest.as_os_str().len())
            .unwrap_or(path)
    }

    /// From the folder that the patch is applied in: the current one, or else the root folder.
    pub(super) fn name_of(&self, path: &Path) -> Result<String, Failure> {
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let here = std::env::current_dir().and_then(fs::canonicalize);
        let stripped = self.stripped(&whole);
        let name = match here {
            _ if stripped != whole => stripped,
            Ok(here) => whole.strip_prefix(&here).unwrap_or(&whole),
            Err(_) => &whole,
        };
        let name = name.to_str().map(|name| name.trim_start_matches('/'));
        let can_be_told = |name: &&str| !name.contains(['\n', '\t', '\r', '"', '\\']);
        name.filter(can_be_told).map(str::to_owned).ok_or_else(|| {
            Failure::new(format!(
                "{}: a patch cannot tell this name: rename the file, or its folder",
                path.display()
            ))
        })
    }
}
