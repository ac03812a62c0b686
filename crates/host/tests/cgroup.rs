//! Memory cgroups: a fake v2 in a folder, and whatever this machine really has.

mod common;

use common::cgroup_host;
use common::root_or_skip;
use common::unique;
use pagewise_host::CgroupHost;
use pagewise_host::CgroupVersion;
use pagewise_host::Error;
use pagewise_host::LimitKind;
use pagewise_host::MemoryCgroup;
use pagewise_host::Restorer;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

/// A v2 hierarchy of plain files with one cgroup made in it.
struct Fake {
    dir: tempfile::TempDir,
    cgroup: MemoryCgroup,
    restorer: Restorer,
}

impl Fake {
    fn v2() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        for (file, text) in [
            ("cgroup.controllers", "memory"),
            ("cgroup.subtree_control", "memory"),
            ("cgroup.procs", ""),
        ] {
            fs::write(dir.path().join(file), text).expect("a file");
        }
        let path = dir.path().to_owned();
        let host = CgroupHost {
            version: CgroupVersion::V2,
            hybrid: false,
            mount: path.clone(),
            own: path,
        };
        let mut restorer = Restorer::without_keeper();
        let cgroup = MemoryCgroup::create_in(&host, "run", &mut restorer).expect("made");
        Fake {
            dir,
            cgroup,
            restorer,
        }
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.cgroup.path().join(file), text).expect("a file");
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.cgroup.path().join(file)).expect("text")
    }

    /// The kernel's folders go with their files; these must be emptied first.
    fn empty(&self) {
        for entry in fs::read_dir(self.cgroup.path())
            .expect("a folder")
            .flatten()
        {
            fs::remove_file(entry.path()).expect("removed");
        }
    }
}

#[test]
fn v2_limits_and_counters_are_in_their_files() {
    let mut fake = Fake::v2();
    for (file, text) in [
        ("memory.max", "max\n"),
        ("memory.high", "max\n"),
        ("memory.current", "5000\n"),
        ("memory.peak", "7000\n"),
        ("memory.swap.current", "4096\n"),
        ("memory.events", "low 0\nhigh 3\nmax 4\noom 2\noom_kill 1\n"),
        ("memory.stat", "anon 4096\nfile 904\n"),
    ] {
        fake.write(file, text);
    }
    let cgroup = &fake.cgroup;
    assert_eq!(
        cgroup.set_limit(1 << 20, LimitKind::High).expect("set"),
        1 << 20
    );
    assert_eq!(
        (
            fake.read("memory.high").as_str(),
            fake.read("memory.max").as_str()
        ),
        ("1048576", "max")
    );
    assert_eq!(
        cgroup.set_limit(2 << 20, LimitKind::Max).expect("set"),
        2 << 20
    );
    assert_eq!(
        (
            fake.read("memory.high").as_str(),
            fake.read("memory.max").as_str()
        ),
        ("max", "2097152")
    );
    let counters = cgroup.counters();
    assert_eq!(counters.usage_bytes, Some(5000));
    assert_eq!(counters.peak_bytes, Some(7000));
    assert_eq!(counters.swap_bytes, Some(4096));
    assert_eq!(
        (counters.oom_kills, counters.limit_hits),
        (Some(1), Some(7))
    );
    assert_eq!(counters.stat.get("anon"), Some(&4096));
    assert_eq!(counters.pressure, None);

    let error = cgroup
        .set_limit(4096, LimitKind::Max)
        .expect_err("below usage");
    assert!(
        matches!(
            error,
            Error::LimitBelowUsage {
                usage: 5000,
                limit: 4096,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(
        fake.read("memory.max"),
        "2097152",
        "nothing may be killed for it"
    );

    fake.empty();
    assert!(fake.restorer.undo_all().is_empty());
    assert!(!fake.cgroup.path().exists());
}

#[test]
fn v2_swap_limit_is_the_smallest_around() {
    let fake = Fake::v2();
    assert_eq!(fake.cgroup.swap_limit(), None);
    fake.write("memory.swap.max", "max");
    fs::write(fake.dir.path().join("memory.swap.max"), "0\n").expect("a file");
    assert_eq!(fake.cgroup.swap_limit(), Some(0));
    fake.empty();
}

#[test]
fn unknown_counters_are_none() {
    let fake = Fake::v2();
    let counters = fake.cgroup.counters();
    assert_eq!((counters.usage_bytes, counters.peak_bytes), (None, None));
    assert_eq!((counters.oom_kills, counters.swap_bytes), (None, None));
}

#[test]
fn names_are_single_folders_and_new() {
    let mut fake = Fake::v2();
    let path = fake.dir.path().to_owned();
    let host = CgroupHost {
        version: CgroupVersion::V2,
        hybrid: false,
        mount: path.clone(),
        own: path,
    };
    for name in ["", "..", "a/b", "a b", "."] {
        let error = MemoryCgroup::create_in(&host, name, &mut fake.restorer).expect_err(name);
        assert!(matches!(error, Error::CgroupName { .. }), "{error:?}");
    }
    assert!(MemoryCgroup::create_in(&host, "run", &mut fake.restorer).is_err());
    assert!(fake.cgroup.path().exists(), "the older one stays");
}

/// A cgroup of this machine.
fn real(test: &str, restorer: &mut Restorer) -> Option<(CgroupHost, MemoryCgroup)> {
    let host = if root_or_skip(test) {
        cgroup_host(test)?
    } else {
        return None;
    };
    let cgroup = MemoryCgroup::create_in(&host, &unique("cg"), restorer).expect("made");
    Some((host, cgroup))
}

/// Nothing of it may be swapped, whatever swap this machine has.
fn forbid_swap(cgroup: &MemoryCgroup) {
    let (file, value) = match cgroup.version() {
        CgroupVersion::V1 => ("memory.swappiness", "0"),
        CgroupVersion::V2 => ("memory.swap.max", "0"),
    };
    fs::write(cgroup.path().join(file), value).expect("written");
}

/// A shell that, told to go on, runs the script.
fn shell(script: &str) -> Child {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("read go; {script}"))
        .stdin(Stdio::piped());
    command.stdout(Stdio::null()).spawn().expect("a shell")
}

fn tell(child: &mut Child) {
    use std::io::Write;
    child
        .stdin
        .as_mut()
        .expect("a pipe")
        .write_all(b"go\n")
        .expect("written");
}

fn in_cgroup(pid: u32, cgroup: &Path) -> bool {
    let procs = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    procs.lines().any(|line| line == pid.to_string())
}

#[test]
fn a_real_cgroup_takes_a_limit_and_gives_its_processes_back() {
    let mut restorer = Restorer::without_keeper();
    let test = "a_real_cgroup_takes_a_limit_and_gives_its_processes_back";
    let Some((host, cgroup)) = real(test, &mut restorer) else {
        return;
    };
    let page = pagewise_host::page_bytes();
    for kind in [LimitKind::High, LimitKind::Max] {
        let taken = cgroup.set_limit((64 << 20) + 100, kind).expect("set");
        assert_eq!(taken, (64 << 20) / page * page, "rounded down to pages");
    }
    let mut child = shell("sleep 60");
    cgroup.add(child.id()).expect("added");
    assert_eq!(cgroup.processes(), [child.id()]);
    assert!(cgroup.usage().is_some() && cgroup.swap_usage().is_some());
    assert_eq!(cgroup.oom_kills(), Some(0));
    assert!(cgroup.id().expect("an id") > 1);

    assert!(restorer.undo_all().is_empty());
    assert!(!cgroup.path().exists());
    assert!(in_cgroup(child.id(), &host.own), "it goes on where we are");
    cgroup.remove().expect("a second time does nothing");
    child.kill().expect("killed");
    child.wait().expect("waited");
}

#[test]
fn a_real_limit_below_use_is_refused() {
    let mut restorer = Restorer::without_keeper();
    let Some((_, cgroup)) = real("a_real_limit_below_use_is_refused", &mut restorer) else {
        return;
    };
    forbid_swap(&cgroup);
    // Files in memory stay charged to the cgroup, and go nowhere without swap.
    let Ok(shm) = tempfile::tempdir_in("/dev/shm") else {
        println!("a_real_limit_below_use_is_refused: skipped: no /dev/shm");
        return;
    };
    let file = shm.path().join("held");
    let mut child = shell(&format!(
        "head -c 24000000 /dev/zero > '{}'",
        file.display()
    ));
    cgroup.add(child.id()).expect("added");
    tell(&mut child);
    assert!(child.wait().expect("waited").success());
    assert!(cgroup.usage() > Some(20 << 20));
    let error = cgroup
        .set_limit(4 << 20, LimitKind::Max)
        .expect_err("below use");
    assert!(
        matches!(
            error,
            Error::LimitBelowUsage {
                limit: 4_194_304,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(cgroup.oom_kills(), Some(0));
}

#[test]
fn kills_for_want_of_memory_are_counted() {
    let mut restorer = Restorer::without_keeper();
    let Some((_, cgroup)) = real("kills_for_want_of_memory_are_counted", &mut restorer) else {
        return;
    };
    forbid_swap(&cgroup);
    cgroup.set_limit(8 << 20, LimitKind::Max).expect("set");
    let mut child = shell("x=$(head -c 100000000 /dev/zero | tr '\\0' x)");
    cgroup.add(child.id()).expect("added");
    tell(&mut child);
    let status = child.wait().expect("waited");
    assert_eq!(
        status.signal(),
        Some(9),
        "{status:?} {:?}",
        cgroup.counters()
    );
    assert!(
        cgroup.oom_kills() >= Some(1),
        "of the three some may go first"
    );
    assert!(cgroup.counters().limit_hits > Some(0));
}
