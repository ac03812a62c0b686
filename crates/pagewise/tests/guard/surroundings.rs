//! `pagewise guard` in bad surroundings: without memory, descriptors or the root that was there, on stacks that are used up, with
//! children of all kinds, beside another allocator, and with its own memory written over.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::cases::Cases;
use crate::common::command::command;
use crate::common::command::run;
use crate::common::command::start;

static CASES: Cases = Cases::of("surroundings", include_str!("../programs/surroundings.c"));
/// How a shell names the end by SIGSEGV.
const SEGMENTATION_FAULT: i32 = 139;

/// Asserts that nothing is told of a case, and what it says.
fn expect_silence(case: &str, says: &str) -> Value {
    let (ended, json) = CASES.guard("", case);
    let ended = ended.expect_code(0);
    assert_eq!(ended.stdout, says, "{ended:#?}");
    assert_eq!(json["summary"]["errors"], 0, "{ended:#?}");
    json
}

/// Asserts that the only error of a case is at its mark, with file and line, and what it says before.
fn expect_error(case: &str, says: &str) {
    let (ended, json) = CASES.guard("", case);
    let ended = ended.expect_code(1);
    assert_eq!(ended.stdout, says, "{ended:#?}");
    assert_eq!(json["summary"]["errors"], 1, "{ended:#?}");
    assert_eq!(json["errors"][0]["line"], CASES.line_of(case), "{ended:#?}");
}

/// Objects of all processes for which there was no guard.
fn unguarded(json: &Value) -> u64 {
    let processes = json["summary"]["processes"].as_array().expect("processes");
    let counts = processes
        .iter()
        .filter_map(|process| process["unguarded"].as_u64());
    counts.sum()
}

#[test]
fn who_finds_no_memory_is_told_so_as_by_any_allocator() {
    expect_silence("out-of-memory", "told\n");
}

#[test]
fn a_limit_of_addresses_that_comes_later_leaves_objects_their_guards() {
    let json = expect_silence("good-limited-later", "made\n");
    assert_eq!(unguarded(&json), 0, "{json:#}");
    expect_error("limited-later", "made\n");
}

/// Where all programs get huge pages, the first touch of each table would cost 2 MiB.
#[test]
fn own_tables_take_no_huge_pages() {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        println!("skipped: this kernel has no huge pages to give");
        return;
    }
    let ended = run(CASES.folder(), &["guard", "--", "cat", "/proc/self/smaps"]);
    let ended = ended.expect_code(0);
    let tables = ended.stdout.split("VmFlags:").collect::<Vec<_>>();
    let kib = |mapping: &str| -> Option<u64> {
        let mut lines = mapping.lines();
        let size = lines.find_map(|line| line.strip_prefix("Size:"))?;
        size.trim().strip_suffix(" kB")?.trim().parse().ok()
    };
    let refuses = |flags: &str| {
        let mut flags = flags.lines().next().unwrap_or("").split_whitespace();
        flags.any(|flag| flag == "nh")
    };
    let small: u64 = tables
        .windows(2)
        .filter(|pair| pair[0].contains(" rw-p ") && refuses(pair[1]))
        .filter_map(|pair| kib(pair[0]))
        .sum();
    assert!(small > 8 << 10, "{small} KiB: {ended:#?}");
}

#[test]
fn where_the_process_cannot_read_its_mappings_errors_have_their_lines() {
    expect_silence("good-no-descriptors", "");
    expect_error("no-descriptors", "");
    if !rustix::process::geteuid().is_root() {
        println!("skipped: another root needs root");
        return;
    }
    for case in ["chrooted", "chrooted-child"] {
        for folder_of_case in ["empty", "empty-of-child"] {
            let _ = fs::remove_dir(CASES.folder().join(folder_of_case));
        }
        expect_error(case, "");
    }
}

/// Whether a program can have mounts of its own; says so if not.
fn may_mount() -> bool {
    let own = Command::new("unshare").args(["-m", "true"]).status();
    let may = own.is_ok_and(|status| status.success());
    if !may {
        println!("skipped: no mounts of its own here");
    }
    may
}

/// The program is told that the system promises no more memory than it has, and that 64 MiB are left. The system itself does not
/// change, for all that run beside this.
#[test]
fn where_memory_is_promised_strictly_half_of_what_is_left_is_for_objects() {
    let without = expect_silence("many", "made\n");
    assert_eq!(unguarded(&without), 0, "{without:#}");
    if !may_mount() {
        return;
    }
    let told = "CommitLimit: 3000000 kB\nCommitted_AS: 2934464 kB\n";
    fs::write(CASES.folder().join("two"), "2\n").expect("written");
    fs::write(CASES.folder().join("promised"), told).expect("written");
    let script = "mount --bind two /proc/sys/vm/overcommit_memory && mount --bind promised /proc/meminfo \
                  && exec ./surroundings many";
    let name = "promised.json";
    let arguments = [
        "guard", "--json", name, "--", "unshare", "-m", "sh", "-c", script,
    ];
    let ended = run(CASES.folder(), &arguments).expect_code(0);
    assert_eq!(ended.stdout, "made\n", "{ended:#?}");
    let text = fs::read_to_string(CASES.folder().join(name)).expect("written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let left_over = unguarded(&json);
    assert!((5000..9000).contains(&left_over), "{left_over}: {ended:#?}");
}

#[test]
fn without_proc_the_program_is_known_by_the_path_that_it_was_run_by() {
    if !may_mount() {
        return;
    }
    let script = "umount -l /proc && exec ./surroundings in-spawned";
    let name = "without-proc.json";
    let arguments = [
        "guard", "--json", name, "--", "unshare", "-m", "sh", "-c", script,
    ];
    let ended = run(CASES.folder(), &arguments).expect_code(1);
    let text = fs::read_to_string(CASES.folder().join(name)).expect("written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        json["errors"][0]["line"],
        CASES.line_of("spawned"),
        "{ended:#?}"
    );
}

/// Compiles a library of this name into the folder.
fn compile_library(name: &str, source: &str) {
    let file = CASES.folder().join(format!("{name}.c"));
    fs::write(&file, source).expect("written");
    let compiled = Command::new("gcc")
        .args(["-O0", "-g", "-shared", "-fPIC", "-w", "-o"])
        .arg(CASES.folder().join(format!("{name}.so")))
        .arg(&file)
        .status();
    assert!(compiled.expect("gcc is needed").success());
}

#[test]
fn libraries_that_are_loaded_in_a_sandbox_are_known() {
    let source = "#include <stdlib.h>\nvolatile char sink;\nvoid err(void)\n{\n\
                  char *object = malloc(24);\nfree(object);\nsink = object[5];\n}\n";
    compile_library("liblate", source);
    let (ended, json) = CASES.guard("", "loaded-in-sandbox");
    let ended = ended.expect_code(1);
    assert_eq!(json["errors"][0]["line"], 7, "{ended:#?}");
    ended.expect_told(&["heap-use-after-free", "liblate.c:7"]);
}

/// How a case ends by itself, as a shell says it.
fn alone(case: &str) -> (i32, String) {
    let mut program = Command::new(CASES.folder().join("surroundings"));
    let output = program.arg(case).current_dir(CASES.folder()).output();
    let output = output.expect("it runs");
    let signal = output.status.signal().map(|signal| 128 + signal);
    let code = output.status.code().or(signal).expect("an end");
    (code, String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn stacks_that_are_used_up_end_as_they_do_without_the_guard() {
    for (case, code) in [
        ("good-overflow-on-alternate", 0),
        ("overflow-in-thread", 0),
        ("overflow-on-own", SEGMENTATION_FAULT),
        ("overflow-on-only", SEGMENTATION_FAULT),
    ] {
        let (ended, json) = CASES.guard("", case);
        let ended = ended.expect_code(code);
        assert_eq!(alone(case), (code, ended.stdout.clone()), "{case}");
        assert_eq!(json["summary"]["errors"], 0, "{case}: {ended:#?}");
    }
    let said = "alternate\n".repeat(3) + "survived\nalternate\n";
    expect_error("overflow-on-alternate", &said);
}

#[test]
fn a_stack_that_is_used_up_is_told_where_there_is_another_and_no_handler() {
    let (ended, json) = CASES.guard("", "overflow-without-handler");
    let ended = ended.expect_code(1);
    let error = &json["errors"][0];
    assert_eq!(error["kind"], "invalid-access", "{ended:#?}");
    let frames = error["stacks"]["access"].as_array().expect("a call path");
    let recursions = frames.iter().filter(|frame| frame["function"] == "recurse");
    assert!(recursions.count() > 10, "{ended:#?}");
    assert_eq!(json["summary"]["exit_code"], SEGMENTATION_FAULT);
}

#[test]
fn handlers_run_on_the_stack_that_they_ask_for() {
    expect_silence("good-handler-on-own", "own\nover\n");
    expect_error("handler-on-own", "own\nown\nover\n");
}

#[test]
fn calls_that_a_signal_interrupts_go_on_if_the_handler_asks_for_that() {
    expect_silence("restarted", "restarted\n");
}

#[test]
fn children_of_all_kinds_leave_the_parents_objects_their_guards() {
    let json = expect_silence("good-vforked", "done\n");
    assert_eq!(unguarded(&json), 0, "{json:#}");
    expect_error("vforked", "done\n");
    expect_silence("good-vforked-failing", "7\n");
    let (ended, json) = CASES.guard("", "vforked-failing");
    let ended = ended.expect_code(1);
    assert_eq!(json["errors"][0]["offset"], -1, "{ended:#?}");
    expect_silence("good-spawned", "fine\n");
    let (ended, json) = CASES.guard("", "spawned");
    let ended = ended.expect_code(1);
    assert_eq!(ended.stdout, "ended\n", "{ended:#?}");
    assert_eq!(
        json["errors"][0]["line"],
        CASES.line_of("spawned"),
        "{ended:#?}"
    );
    assert_eq!(json["summary"]["exit_code"], 0, "the parent's own");
}

#[test]
fn threads_are_cancelled_in_functions_that_the_guard_stands_before() {
    expect_silence("good-cancelled", "50 cancelled\n");
    expect_error("cancelled", "50 cancelled\n");
}

#[test]
fn threads_that_are_to_be_cancelled_tell_of_their_errors_first() {
    expect_error("cancelled-while-erring", "");
    let (ended, json) = CASES.guard("--keep-going", "cancelled-while-erring");
    let ended = ended.expect_code(1);
    assert_eq!(ended.stdout, "cancelled\n", "{ended:#?}");
    let errors = json["errors"].as_array().expect("errors");
    let lines: Vec<_> = errors.iter().map(|error| &error["line"]).collect();
    let expected =
        ["cancelled-while-erring", "after-one-was-cancelled"].map(|case| CASES.line_of(case));
    assert_eq!(lines, expected, "{ended:#?}");
}

#[test]
fn a_fault_of_the_reporters_own_ends_the_program_and_does_not_loop() {
    let (ended, _) = CASES.guard("", "without-ring");
    let ended = ended.expect_code(SEGMENTATION_FAULT);
    assert_eq!(ended.stdout, "gone\n", "{ended:#?}");
}

#[test]
fn whatever_is_written_over_the_bookkeeping_comes_to_an_end() {
    for options in ["", "--keep-going", "--leaks --keep-going"] {
        let (ended, _) = CASES.guard(options, "overwritten");
        assert!(ended.code.is_some_and(|code| code != 0), "{ended:#?}");
        assert_eq!(ended.stdout, "overwritten\n", "{ended:#?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:#?}");
    }
}

#[test]
fn another_preloaded_allocator_is_told_and_comes_behind() {
    compile_library(
        "libother",
        "void *__libc_malloc(unsigned long);\nvoid __libc_free(void *);\n\
         void *malloc(unsigned long bytes) { return __libc_malloc(bytes); }\n\
         void free(void *object) { __libc_free(object); }\n",
    );
    compile_library("libplain", "int some_function(void) { return 1; }\n");
    let with = |preloaded: &str| {
        let arguments = ["guard", "--", "./surroundings", "in-spawned"];
        let mut command = command(CASES.folder(), &arguments);
        command.env("LD_PRELOAD", preloaded);
        let ended = start(command).end().expect_code(1);
        assert_eq!(ended.stdout, "", "{ended:#?}");
        ended.expect_told(&["heap-use-after-free"])
    };
    let told = ["libother.so", "an allocator", "not used"];
    let here = |name: &str| CASES.folder().join(name).display().to_string();
    let both = format!("{}:{}", here("libplain.so"), here("libother.so"));
    with(&both).expect_told(&told);
    let ended = with(&here("libplain.so"));
    assert!(!ended.stderr.contains("an allocator"), "{ended:#?}");
}

#[test]
fn a_set_user_id_program_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: to give a program away needs root");
        return;
    }
    let program = CASES.folder().join("of-another");
    fs::copy(CASES.folder().join("surroundings"), &program).expect("copied");
    std::os::unix::fs::chown(&program, Some(65_534), None).expect("given away");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("set");
    run(
        CASES.folder(),
        &["guard", "--", "./of-another", "in-spawned"],
    )
    .expect_refusal(125, &["cannot be guarded", "set-user-id program"]);
}
