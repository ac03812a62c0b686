//! What is mapped in a process, with paths that open from here: in a container they mean other files.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use pagewise_attribute::Mapping;
use pagewise_attribute::hold_root;
use pagewise_attribute::parse_maps;
use pagewise_host::process;

/// There is no process of this number: what lies below cannot be opened, which is better than another file.
const NOWHERE: &str = "/proc/0/root";
/// Each costs two descriptors; of further ones, files are not found.
const MOST_NAMESPACES: usize = 128;

/// The mount namespaces of the processes recorded so far.
#[derive(Default)]
pub(crate) struct Mapped {
    ours: Option<u64>,
    others: HashMap<u64, Namespace>,
}

struct Namespace {
    /// What its paths begin with here.
    root: String,
    /// Whether a path is the same file here and there, for those asked so far.
    same: HashMap<String, bool>,
}

impl Mapped {
    /// Empty: the process has gone.
    pub(crate) fn now(&mut self, pid: u32) -> Vec<Mapping> {
        let text = process::maps(pid).unwrap_or_default();
        self.parse(pid, &text)
    }

    /// The same from the text of its `maps`. A process that writes nonsense there has no mappings.
    pub(super) fn parse(&mut self, pid: u32, text: &str) -> Vec<Mapping> {
        let mut mappings = parse_maps(text).unwrap_or_default();
        if let Some(namespace) = self.namespace(pid) {
            for mapping in &mut mappings {
                namespace.adapt(pid, mapping);
            }
        }
        mappings
    }

    /// What the paths of other namespaces begin with here.
    pub(super) fn roots(&self) -> Vec<String> {
        self.others
            .values()
            .map(|other| other.root.clone())
            .collect()
    }

    /// What its paths begin with here, and its number as it knows it itself.
    pub(super) fn root_and_number(&mut self, pid: u32) -> (&str, u32) {
        let inside = process::pid_inside(pid).unwrap_or(pid);
        let root = self.namespace(pid).map_or("", |other| &other.root);
        (root, inside)
    }

    /// `None`: it sees the same files as we do, as far as can be told.
    fn namespace(&mut self, pid: u32) -> Option<&mut Namespace> {
        let ours = self
            .ours
            .or_else(|| process::mount_namespace(std::process::id()))?;
        self.ours = Some(ours);
        let number = process::mount_namespace(pid).filter(|&number| number != ours)?;
        let is_room = self.others.len() < MOST_NAMESPACES;
        let found = self.others.entry(number).or_insert_with(|| {
            let held = is_room.then(|| hold_root(pid).ok()).flatten();
            Namespace {
                root: held.unwrap_or_else(|| NOWHERE.to_owned()),
                same: HashMap::new(),
            }
        });
        Some(found)
    }
}

impl Namespace {
    /// Services have a namespace for the sake of a few folders: most files are the same.
    fn adapt(&mut self, pid: u32, mapping: &mut Mapping) {
        let Some(path) = mapping.file().filter(|_| !mapping.deleted) else {
            return;
        };
        let same = self.same.entry(path.to_owned()).or_insert_with(|| {
            let file = |path: &str| fs::metadata(path).map(|file| (file.dev(), file.ino()));
            let (here, there) = (file(path), file(&format!("/proc/{pid}/root{path}")));
            here.ok().is_some_and(|here| there.ok() == Some(here))
        });
        if !*same {
            mapping.path = Some(format!("{}{path}", self.root));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_our_own_namespace_paths_stay_as_they_are() {
        let (mut mapped, own) = (Mapped::default(), std::process::id());
        let text = process::maps(own).expect("our own");
        assert_eq!(
            mapped.parse(own, &text),
            parse_maps(&text).expect("well formed")
        );
        assert_eq!(mapped.root_and_number(own).0, "");
        assert!(mapped.parse(own, "nonsense").is_empty());
    }

    #[test]
    fn a_file_that_is_another_one_there_is_called_by_its_root() {
        let mut namespace = Namespace {
            root: NOWHERE.to_owned(),
            same: HashMap::from([("/usr/bin/a".to_owned(), false)]),
        };
        let own = std::env::current_exe().expect("a path");
        let own = own.display().to_string();
        let mut adapted = |path: &str| {
            let line = format!("1000-2000 r-xp 00000000 fd:01 7 {path}");
            let mut mapping = Mapping::parse(&line).expect("well formed");
            namespace.adapt(std::process::id(), &mut mapping);
            mapping.path
        };
        assert_eq!(
            adapted("/usr/bin/a").as_deref(),
            Some("/proc/0/root/usr/bin/a")
        );
        assert_eq!(adapted(&own), Some(own.clone()));
        assert_eq!(adapted("[heap]").as_deref(), Some("[heap]"));
        assert_eq!(adapted("/gone (deleted)").as_deref(), Some("/gone"));
    }
}
