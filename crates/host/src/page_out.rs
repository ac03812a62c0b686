//! Who else pages memory out on this machine, whatever limits say: DAMON, by a scheme with the action `pageout` (mm/damon/sysfs-schemes.c) or
//! by its module `damon_reclaim` (mm/damon/reclaim.c). What was evicted by it looks like an eviction for want of memory.

use std::collections::HashSet;
use std::path::Path;
use std::path::PathBuf;

use crate::files;

/// A thread of the kernel that pages out, or might.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOut {
    /// The thread's name, as `ps` shows it, or the module's.
    pub by: String,
    /// What it is known to do.
    pub does: Does,
    /// What root can type to end it; `None`: not known.
    pub stop: Option<String>,
}

/// What such a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Pages out what was hardly used for so many microseconds; `None`: how long is not known.
    PagesOut(Option<u64>),
    /// Nobody says: only root may look, or another part of the kernel started it.
    Unknown,
}

impl PageOut {
    /// What it does, in words.
    pub fn words(&self) -> String {
        match self.does {
            Does::PagesOut(Some(us)) => {
                let seconds = us as f64 / 1e6;
                format!(
                    "DAMON ({}) pages out what was hardly used for {seconds} s",
                    self.by
                )
            }
            Does::PagesOut(None) => {
                format!("DAMON ({}) pages out what was hardly used", self.by)
            }
            Does::Unknown => format!(
                "DAMON ({}) runs; whether it pages memory out is not known",
                self.by
            ),
        }
    }
}

/// All of them; empty: there is none.
pub fn page_out() -> Vec<PageOut> {
    look(Path::new("/sys"), Path::new("/proc"))
}

fn look(sys: &Path, proc: &Path) -> Vec<PageOut> {
    let threads = threads(proc);
    let mut explained = HashSet::new();
    let mut found = Vec::new();
    for folder in numbered(&sys.join("kernel/mm/damon/admin/kdamonds")) {
        found.extend(of_sysfs(&folder, &threads, &mut explained));
    }
    for module in ["damon_reclaim", "damon_lru_sort"] {
        let of_module = of_module(sys, module, &mut explained);
        // The other one only moves pages within lists.
        found.extend(of_module.filter(|_| module == "damon_reclaim"));
    }
    // It only looks, and does not tell its thread.
    let looking = is_on(&sys.join("module/damon_stat/parameters/enabled"));
    let others = threads
        .into_iter()
        .filter(|(pid, _)| !explained.contains(pid));
    found.extend(others.skip(usize::from(looking)).map(|(_, by)| PageOut {
        by,
        does: Does::Unknown,
        stop: None,
    }));
    found
}

/// A kdamond that somebody set up by files.
fn of_sysfs(
    folder: &Path,
    threads: &[(u64, String)],
    explained: &mut HashSet<u64>,
) -> Option<PageOut> {
    let state = folder.join("state");
    if files::read_optional(&state)? != "on" {
        return None;
    }
    let pid = files::read_number(&folder.join("pid"))?;
    explained.insert(pid);
    let contexts = numbered(&folder.join("contexts"));
    let shortest = contexts.iter().flat_map(|context| ages(context)).min()?;
    let thread = threads.iter().find(|(of, _)| *of == pid);
    Some(PageOut {
        by: thread.map_or_else(|| format!("pid {pid}"), |(_, name)| name.clone()),
        does: Does::PagesOut(shortest),
        stop: Some(format!("echo off >{}", state.display())),
    })
}

/// Of each scheme of a context that pages out: how long memory must not have been used, us. Ages are told in intervals.
fn ages(context: &Path) -> Vec<Option<u64>> {
    let interval = files::read_number(&context.join("monitoring_attrs/intervals/aggr_us"));
    let schemes = numbered(&context.join("schemes")).into_iter();
    let pages_out = schemes.filter(|scheme| {
        files::read_optional(&scheme.join("action")).is_some_and(|action| action == "pageout")
    });
    pages_out
        .map(|scheme| {
            let intervals = files::read_number(&scheme.join("access_pattern/age/min"))?;
            intervals.checked_mul(interval?)
        })
        .collect()
}

fn of_module(sys: &Path, module: &str, explained: &mut HashSet<u64>) -> Option<PageOut> {
    let parameters = sys.join("module").join(module).join("parameters");
    let enabled = parameters.join("enabled");
    if !is_on(&enabled) {
        return None;
    }
    explained.extend(files::read_number(&parameters.join("kdamond_pid")));
    Some(PageOut {
        by: module.to_owned(),
        does: Does::PagesOut(files::read_number(&parameters.join("min_age"))),
        stop: Some(format!("echo N >{}", enabled.display())),
    })
}

fn is_on(path: &Path) -> bool {
    files::read_optional(path).is_some_and(|state| state == "Y")
}

/// The folders named by a number, in order.
fn numbered(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u64>().ok();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| Some((number(&entry.path())?, entry.path())))
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Threads of the kernel that belong to DAMON, with their names; everybody may see them.
fn threads(proc: &Path) -> Vec<(u64, String)> {
    /// The parent of all threads of the kernel.
    const KTHREADD: &str = "2";
    let of = |folder: PathBuf| {
        let name = files::read_optional(&folder.join("comm"))?;
        let pid: u64 = folder.file_name()?.to_str()?.parse().ok()?;
        let stat = files::read_optional(&folder.join("stat")).filter(|_| is_damon(&name))?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)? == KTHREADD;
        parent.then_some((pid, name))
    };
    numbered(proc).into_iter().filter_map(of).collect()
}

fn is_damon(name: &str) -> bool {
    name.starts_with("kdamond")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, format!("{text}\n")).expect("written");
    }

    fn put_thread(root: &Path, pid: u64, name: &str, parent: u64) {
        put(root, &format!("proc/{pid}/comm"), name);
        let stat = format!("{pid} ({name}) S {parent} 0 0");
        put(root, &format!("proc/{pid}/stat"), &stat);
    }

    fn put_scheme(root: &Path, kdamond: u32, pid: u64, action: &str) {
        let folder = format!("sys/kernel/mm/damon/admin/kdamonds/{kdamond}");
        put(root, &format!("{folder}/state"), "on");
        put(root, &format!("{folder}/pid"), &pid.to_string());
        let context = format!("{folder}/contexts/0");
        let interval = format!("{context}/monitoring_attrs/intervals/aggr_us");
        put(root, &interval, "5000000");
        put(root, &format!("{context}/schemes/0/action"), action);
        put(
            root,
            &format!("{context}/schemes/0/access_pattern/age/min"),
            "12",
        );
    }

    fn words(root: &Path) -> Vec<String> {
        let found = look(&root.join("sys"), &root.join("proc"));
        found.iter().map(PageOut::words).collect()
    }

    #[test]
    fn a_scheme_that_pages_out_is_told_with_its_age_and_how_to_end_it() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        assert_eq!(words(root), [""; 0], "a kernel without DAMON");
        put_thread(root, 77, "kdamond.0", 2);
        put_thread(root, 900, "kdamond.9", 1);
        put_scheme(root, 0, 77, "pageout");
        let expected = "DAMON (kdamond.0) pages out what was hardly used for 60 s";
        assert_eq!(words(root), [expected]);
        let found = look(&root.join("sys"), &root.join("proc"));
        let stop = found[0].stop.as_deref().expect("known");
        assert!(stop.starts_with("echo off >") && stop.ends_with("kdamonds/0/state"));
        put(root, "sys/kernel/mm/damon/admin/kdamonds/0/state", "off");
        fs::remove_dir_all(root.join("proc/77")).expect("ended");
        assert_eq!(words(root), [""; 0], "it is off");
    }

    #[test]
    fn what_only_looks_or_moves_pages_within_lists_is_not_told() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        put_thread(root, 77, "kdamond.0", 2);
        put_scheme(root, 0, 77, "stat");
        put_thread(root, 78, "kdamond.1", 2);
        put(root, "sys/module/damon_lru_sort/parameters/enabled", "Y");
        put(
            root,
            "sys/module/damon_lru_sort/parameters/kdamond_pid",
            "78",
        );
        put_thread(root, 79, "kdamond.2", 2);
        put(root, "sys/module/damon_stat/parameters/enabled", "Y");
        assert_eq!(words(root), [""; 0]);
    }

    #[test]
    fn the_module_is_told_and_what_may_not_be_looked_at_is_unknown() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        put_thread(root, 80, "kdamond.0", 2);
        let unknown = "DAMON (kdamond.0) runs; whether it pages memory out is not known";
        assert_eq!(words(root), [unknown]);
        let parameters = "sys/module/damon_reclaim/parameters";
        put(root, &format!("{parameters}/enabled"), "Y");
        put(root, &format!("{parameters}/kdamond_pid"), "80");
        put(root, &format!("{parameters}/min_age"), "120000000");
        let expected = "DAMON (damon_reclaim) pages out what was hardly used for 120 s";
        assert_eq!(words(root), [expected]);
    }
}
