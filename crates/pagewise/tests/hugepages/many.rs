//! The manager where there is much: of processes, of their groups, and of files in its folder.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::PROMOTE_ALL;
use super::Regions;
use super::WITHIN;
use super::arguments;
use super::folder;
use super::manage;
use crate::common::command::command;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::limited::Limited;
use crate::common::machine::Machine;
use crate::common::within;
use rustix::process::Signal;

/// `None`: nothing is written there.
fn status(folder: &Path) -> Option<Value> {
    let words = ["hugepages", "status", "--state", "state", "--json"];
    let told = run(folder, &words);
    (told.code == Some(0)).then(|| told.json())
}

#[test]
fn of_hundreds_of_processes_the_largest_are_managed_and_the_others_counted() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "many 6 260");
    let manager = start(command(
        folder.path(),
        &arguments("--dry-run", &program.pid()),
    ));
    // With the one that has started them.
    let all_are_known = || {
        status(folder.path()).is_some_and(|status| {
            let managed = status["processes"].as_array().map_or(0, Vec::len);
            managed == 256 && status["processes_left_out"] == 261 - 256
        })
    };
    assert!(
        within(WITHIN, all_are_known),
        "{:#?}",
        status(folder.path())
    );
    manager.signal(Signal::INT);
    manager.end().expect_code(0);
    program.assert_unharmed();
    machine.assert_restored();
}

/// A file system of a few pages, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(place: PathBuf) -> Self {
        fs::create_dir(&place).expect("a folder");
        let words = ["-t", "tmpfs", "-o", "size=64k", "none"];
        let mounted = Command::new("mount").args(words).arg(&place).status();
        assert!(mounted.expect("it runs").success());
        Self(place)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_manager_whose_status_cannot_be_written_goes_on_and_writes_again_later() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "hot 8");
    let disk = SmallDisk::mount(folder.path().join("state"));
    let manager = start(command(folder.path(), &arguments("", &program.pid())));
    let looks = || {
        let status = status(folder.path());
        status.and_then(|status| status["processes"][0]["looks"].as_u64())
    };
    assert!(within(WITHIN, || looks() > Some(0)));
    let filler = disk.0.join("filler");
    fs::write(&filler, [1; 128 << 10]).expect_err("it is full");
    std::thread::sleep(3 * crate::HOUSEKEEPING);
    let before = looks();
    assert!(before.is_some(), "the last one is there");
    std::thread::sleep(2 * crate::HOUSEKEEPING);
    assert_eq!(looks(), before, "nothing can be written");
    fs::remove_file(&filler).expect("removed");
    assert!(within(WITHIN, || looks() > before));
    manager.signal(Signal::INT);
    let ended = manager.end().expect_code(0);
    let told = ended.stderr.matches("the manager goes on").count();
    assert_eq!(told, 1, "{ended:#?}");
    drop(disk);
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn of_all_processes_those_are_taken_back_from_whose_group_is_short_of_memory() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let tight = Regions::start(folder.path(), "sparse 32");
    let ample = Regions::start(folder.path(), "sparse 32");
    {
        let mut limited = Limited::create("tight");
        let processes = limited.cgroup.path().join("cgroup.procs");
        fs::write(processes, tight.pid()).expect("moved");
        for program in [&tight, &ample] {
            manage(&folder, PROMOTE_ALL, program);
            assert_eq!(program.huge_regions(), 16);
        }
        // What it had before is charged elsewhere, its huge pages are charged here.
        let usage = limited.cgroup.usage().expect("known");
        assert!(usage >= 32 << 20, "{usage}");
        limited.limit(usage / 10 * 11);
        let mut words = arguments("--policy none --all", "");
        words.truncate(words.len() - 2);
        let manager = start(command(folder.path(), &words));
        assert!(within(WITHIN, || tight.huge_regions() == 0));
        assert_eq!(ample.huge_regions(), 16);
        manager.signal(Signal::INT);
        manager.end().expect_code(0);
        limited.unlimit();
        tight.assert_unharmed();
    }
    ample.assert_unharmed();
    machine.assert_restored();
}
