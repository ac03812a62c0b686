//! Programs that do unusual things: what can be recorded of them is, what cannot is told in one line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::command::Ended;
use crate::common::command::assert_nothing_lost;
use crate::common::command::command;
use crate::common::command::record;
use crate::common::command::report;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::machine::Machine;
use crate::common::programs::compile;
use crate::common::programs::compile_with;
use crate::common::programs::folder_with;
use serde_json::Value;
use tempfile::tempdir;

/// Without a limit, and without sensors that need root.
const ALLOCATIONS: &str = "--sensors allocations";

/// Its number of allocations, an estimate where they are sampled.
fn allocations(report: &Value, name: &str) -> u64 {
    let objects = report["objects"].as_array().expect("objects");
    let named = objects.iter().filter(|object| object["name"] == name);
    named
        .map(|object| object["allocations"].as_u64().expect("a count"))
        .sum()
}

/// Records a kind of the odd program in which `work` is done so often, and checks that all of it was seen.
fn assert_recorded(options: &str, kind: &str, times: u64) {
    let folder = folder_with("odd.c");
    record(folder.path(), options, &format!("./odd {kind}")).expect_code(0);
    let report = report(folder.path());
    assert_nothing_lost(&report);
    assert_eq!(report["sensors"]["allocations"], "on");
    assert_eq!(allocations(&report, "kept"), times, "{kind}");
    assert_eq!(allocations(&report, "early"), 1, "{kind}");
    let smalls = allocations(&report, "smalls[]") as f64;
    let expected = 1000.0 * times as f64;
    // One sample stands for 164: six in each round, with their spread, of which five suffice.
    let spread = 5.0 * (expected * 164.0).sqrt();
    assert!(
        (smalls - expected).abs() < spread,
        "{kind}: {smalls} for {expected}"
    );
}

#[test]
fn a_thousand_children_are_recorded_each_with_a_ring_of_its_own() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    assert_recorded("", "forks 1000", 1000);
    machine.assert_restored();
}

/// Records a program of which a process sweeps its memory three times under a limit that holds two thirds of it.
fn assert_swept(kind: &str) {
    const PAGES: u64 = 48 << 8;
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("family.c");
    let options = "--memory 32M --swap zram --swap-size 512M";
    record(folder.path(), options, &format!("./family {kind}")).expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    assert_nothing_lost(&report);
    let objects = report["objects"].as_array().expect("objects");
    let memory = objects.iter().find(|object| object["name"] == "memory");
    let memory = memory.unwrap_or_else(|| panic!("{:#}", report["summary"]));
    for what in ["swap_ins", "evictions"] {
        let count = memory[what].as_u64().expect("a count");
        assert!(count > 2 * PAGES, "{count} {what} of {PAGES} pages");
    }
}

#[test]
fn pages_among_thousands_of_mappings_have_their_owner() {
    assert_swept("split");
}

#[test]
fn a_process_after_more_than_65535_others_is_recorded() {
    assert_swept("many 66000");
}

#[test]
fn a_process_goes_on_in_the_memory_of_one_that_has_ended() {
    assert_swept("orphan");
}

#[test]
fn faults_of_threads_with_like_numbers_are_told_apart() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with("family.c");
    let options = "--memory 32M --swap zram --swap-size 512M";
    let ended = record(folder.path(), options, "./family apart 2").expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    assert_nothing_lost(&report);
    let summary = &report["summary"];
    let count = |name: &str| summary[name].as_u64().expect("a count");
    let own: u64 = ended.stdout.trim().parse().expect("its major faults");
    // On zram no page is in the swap cache but for a moment.
    assert!(count("swap_cache_hits") < 16, "{summary:#}");
    assert!(count("file_major_faults") < 64, "{summary:#}");
    assert!(count("swap_ins") + 64 > own, "{own}, {summary:#}");
}

#[test]
fn children_are_recorded_without_root_too() {
    assert_recorded(ALLOCATIONS, "forks 60", 60);
}

/// The one that comes second waits for the ring that the other asks for.
#[test]
fn threads_that_allocate_for_the_first_time_at_once_are_all_recorded() {
    assert_recorded(ALLOCATIONS, "at-once 60", 120);
}

#[test]
fn two_hundred_threads_are_recorded() {
    assert_recorded(ALLOCATIONS, "threads 200", 200);
}

#[test]
fn a_program_that_closes_all_descriptors_is_recorded() {
    assert_recorded(ALLOCATIONS, "closes", 1);
}

#[test]
fn children_of_a_bare_clone_are_recorded() {
    assert_recorded(ALLOCATIONS, "clone", 2);
    assert_recorded(ALLOCATIONS, "clone-vm", 2);
}

#[test]
fn a_child_forked_while_threads_allocate_does_not_hang() {
    let folder = folder_with("odd.c");
    let program = "./odd fork-among-threads 50";
    record(folder.path(), ALLOCATIONS, program).expect_code(0);
    assert!(allocations(&report(folder.path()), "kept") > 0);
}

#[test]
fn memory_by_sbrk_is_the_heaps() {
    let folder = folder_with("odd.c");
    record(folder.path(), ALLOCATIONS, "./odd sbrk").expect_code(0);
    assert_nothing_lost(&report(folder.path()));
}

#[test]
fn every_new_has_the_line_that_asked() {
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "news.cpp");
    compile_with(
        folder.path(),
        "loaded.c",
        "libloaded.so",
        &["-shared", "-fPIC"],
    );
    record(folder.path(), ALLOCATIONS, "./news ./libloaded.so").expect_code(0);
    let report = report(folder.path());
    for name in ["plain", "nothrow", "aligned", "shared", "loaded"] {
        assert_eq!(
            allocations(&report, name),
            1,
            "{name} in {:#}",
            report["objects"]
        );
    }
}

#[test]
fn a_stripped_program_is_recorded_without_lines() {
    let folder = folder_with("odd.c");
    let program = folder.path().join("odd");
    assert!(
        Command::new("strip")
            .arg(program)
            .status()
            .expect("strip")
            .success()
    );
    record(folder.path(), ALLOCATIONS, "./odd plain").expect_code(0);
    let report = report(folder.path());
    assert_nothing_lost(&report);
    assert_eq!(report["sensors"]["allocations"], "on");
    let objects = report["objects"].as_array().expect("objects");
    assert!(objects.len() >= 3, "{objects:#?}");
    let lineless = |object: &&Value| object["line"].is_null() && !object["site"].is_null();
    assert_eq!(objects.iter().filter(lineless).count(), objects.len());
}

/// Records a program that cannot be preloaded: JSON and text say why.
fn assert_told(folder: &Path, program: &str, why: &str) -> Ended {
    let ended = record(folder, ALLOCATIONS, program);
    let state = format!("missing ({why}");
    let report = report(folder);
    let told = report["sensors"]["allocations"].as_str().expect("a state");
    assert!(told.starts_with(&state), "{told}");
    let text = run(folder, &["report"]).expect_code(0).stdout;
    let line = format!("allocations: {state}");
    assert!(text.lines().any(|found| found.starts_with(&line)), "{text}");
    ended
}

#[test]
fn a_static_program_is_told_so() {
    let folder = tempdir().expect("a folder");
    compile_with(folder.path(), "odd.c", "odd", &["-static"]);
    assert_told(folder.path(), "./odd plain", "static program").expect_code(0);
    compile_with(folder.path(), "odd.c", "odd", &["-static-pie"]);
    assert_told(folder.path(), "./odd plain", "static program").expect_code(0);
}

#[test]
fn a_static_child_is_told_with_its_name() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile_with(folder.path(), "odd.c", "odd", &["-static"]);
    let arguments = ["record", "--", "sh", "-c", "./odd slow; exit 0"];
    run(folder.path(), &arguments).expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    let told = report["sensors"]["allocations"].as_str().expect("a state");
    assert!(
        told.contains("/odd") && told.contains("static program"),
        "{told}"
    );
}

#[test]
fn a_set_user_id_program_is_told_so() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let folder = folder_with("odd.c");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), open).expect("set");
    let program = folder.path().join("odd");
    std::os::unix::fs::chown(&program, Some(65_534), None).expect("given away");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("set");
    assert_told(folder.path(), "./odd plain", "set-user-id program").expect_code(0);
}

#[test]
fn a_32_bit_program_is_told_so() {
    let folder = tempdir().expect("a folder");
    // exit(0), by hand: there may be no 32-bit C library to link to.
    let code = [0x31, 0xdb, 0x31, 0xc0, 0x40, 0xcd, 0x80];
    let mut elf = vec![0u8; 84];
    elf[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 1, 1, 1]);
    let base = 0x0804_8000_u32;
    let halves = [(16, 2u16), (18, 3), (40, 52), (42, 32), (44, 1)];
    let words = [
        (20, 1),
        (24, base + 84),
        (28, 52),
        (52, 1),
        (60, base),
        (64, base),
        (68, 91),
        (72, 91),
        (76, 5),
        (80, 4096u32),
    ];
    for (at, value) in halves {
        elf[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    for (at, value) in words {
        elf[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    elf.extend(code);
    let program = folder.path().join("old");
    fs::write(&program, elf).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
    // A kernel without 32-bit programs refuses it, and there is nothing to tell.
    if record(folder.path(), ALLOCATIONS, "./old").code == Some(126) {
        println!("this kernel runs no 32-bit programs");
        return;
    }
    assert_told(folder.path(), "./old", "32-bit program").expect_code(0);
}

#[test]
fn rates_that_make_no_sense_are_refused() {
    let folder = tempdir().expect("a folder");
    for rate in ["0", "50%", "2G", "-1", "many"] {
        let options = format!("--sample-bytes={rate}");
        let ended = record(folder.path(), &options, "true").expect_code(125);
        assert!(ended.stderr.contains("--sample-bytes"), "{ended:#?}");
    }
    let off = "--sensors allocations --sample-bytes off";
    record(folder.path(), off, "true").expect_code(0);
    assert!(report(folder.path())["sampling"]["sample_bytes"].is_null());
}

#[test]
fn nonsense_in_the_environment_leaves_the_defaults() {
    let folder = folder_with("odd.c");
    let arguments = ["record", "--sensors", "allocations", "--", "./odd", "plain"];
    let mut command = command(folder.path(), &arguments);
    command
        .env("PAGEWISE_THRESHOLD", "many")
        .env("PAGEWISE_SAMPLE_SEED", "-");
    start(command).end().expect_code(0);
    let report = report(folder.path());
    assert_eq!(report["sampling"]["threshold_bytes"], 64 << 10);
    assert_eq!(allocations(&report, "kept"), 1);
}
