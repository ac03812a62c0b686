//! What the guard has a hard time with: threads at work while the process ends, sandboxes, handlers, children, arguments that
//! the kernel refuses.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::kill_process;
use serde_json::Value;
use tempfile::tempdir;

use super::cases::Cases;
use crate::common::command::command;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::install::pagewise;
use crate::common::within;

static CASES: Cases = Cases::of("harder", include_str!("../programs/harder.c"));

/// Asserts that nothing is told of a case, and what it says.
fn expect_silence(options: &str, case: &str, says: &str) {
    let (ended, json) = CASES.guard(options, case);
    let ended = ended.expect_code(0);
    assert_eq!(ended.stdout, says, "{ended:#?}");
    assert_eq!(json["summary"]["errors"], 0, "{ended:#?}");
}

/// Asserts that the only error of a case is at its mark, and what it says before.
fn expect_error(case: &str, says: &str) {
    let (ended, json) = CASES.guard("", case);
    let ended = ended.expect_code(1);
    assert_eq!(ended.stdout, says, "{ended:#?}");
    assert_eq!(json["summary"]["errors"], 1, "{ended:#?}");
    assert_eq!(json["errors"][0]["line"], CASES.line_of(case), "{ended:#?}");
}

#[test]
fn threads_at_work_while_the_process_ends_are_no_error() {
    for _ in 0..5 {
        expect_silence("", "exiting", "");
    }
    // Here what is looked at is sure to be gone.
    expect_silence("", "hidden", "");
    expect_silence("--leaks", "hidden", "");
    // Of what they make meanwhile at most that seems leaked which no memory holds yet.
    let (ended, json) = CASES.guard("--leaks", "exiting");
    let errors = json["errors"].as_array().expect("errors");
    assert_eq!(errors[0]["leaked_objects"], 20_000, "{ended:#?}");
    for error in &errors[1..] {
        assert_eq!(error["kind"], "leak", "{ended:#?}");
        assert!(error["leaked_objects"].as_u64() < Some(10), "{ended:#?}");
    }
    assert_eq!(json["summary"]["exit_code"], 0, "{ended:#?}");
}

#[test]
fn damage_seen_at_the_end_is_told_for_each_path_that_made_what_is_damaged() {
    for options in ["", "--keep-going"] {
        let (ended, json) = CASES.guard(options, "damaged");
        let ended = ended.expect_code(1);
        let errors = json["errors"].as_array().expect("errors");
        let offsets: Vec<_> = errors.iter().map(|error| &error["offset"]).collect();
        assert_eq!(offsets, [-1, -2], "{ended:#?}");
        assert_eq!(ended.stdout, "printed\n", "{ended:#?}");
        assert_eq!(json["summary"]["exit_code"], 0, "{ended:#?}");
    }
    fs::write(
        CASES.folder().join("known"),
        "heap-buffer-underflow:damage_one\n",
    )
    .expect("written");
    let (ended, json) = CASES.guard("--suppressions known", "damaged");
    let ended = ended.expect_code(1);
    assert_eq!(json["summary"]["suppressed"], 1, "{ended:#?}");
    assert_eq!(json["errors"][0]["offset"], -2, "{ended:#?}");
}

#[test]
fn a_leak_of_a_parents_is_told_once_whoever_has_it() {
    let (ended, json) = CASES.guard("--leaks", "leaked-before");
    let ended = ended.expect_code(1);
    let errors = json["errors"].as_array().expect("errors");
    let is_its = |error: &&Value| error["leaked_bytes"] == 1234;
    assert_eq!(errors.iter().filter(is_its).count(), 1, "{ended:#?}");
}

#[test]
fn leaks_that_cannot_be_looked_for_are_told_to_be_so() {
    let (ended, _) = CASES.guard("--leaks", "leaked-without-descriptors");
    let told = "leaks could not be looked for";
    ended.expect_code(0).expect_told(&[told]);
}

#[test]
fn before_an_object_aligned_to_more_than_a_page_there_is_a_guard() {
    expect_error("aligned", "aligned\n");
}

#[test]
fn who_cannot_reach_the_launcher_says_so_where_it_errs() {
    let script = "PAGEWISE_GUARD_SOCKET=nobody exec ./harder aligned";
    let ended = run(CASES.folder(), &["guard", "--", "sh", "-c", script]).expect_code(139);
    ended.expect_told(&["nobody to tell it to"]);
}

#[test]
fn objects_leave_the_program_some_of_a_limit_of_data() {
    let script = CASES.folder().join("data.sh");
    fs::write(&script, "ulimit -d 400000\nexec ./harder limited-data\n").expect("written");
    let ended = run(CASES.folder(), &["guard", "--", "sh", "data.sh"]).expect_code(0);
    assert_eq!(ended.stdout, "some left\n", "{ended:#?}");
}

#[test]
fn objects_without_a_guard_are_not_touched_and_any_number_is_made() {
    expect_silence("--max 4K", "sparse", "sparse\n");
    expect_silence("--mprotect", "too-many", "made\n");
}

#[test]
fn aligned_moves_are_repaired_in_sandboxes_too() {
    expect_error("sandboxed-vector", "moved\n");
    let (_, json) = CASES.guard("", "sandboxed-vector");
    assert_eq!(json["errors"][0]["access_bytes"], 1);
    let is_repaired = u64::from(cfg!(target_arch = "x86_64"));
    let process = &json["summary"]["processes"][0];
    assert_eq!(process["repaired_instructions"], is_repaired);
}

#[test]
fn sandboxes_that_begin_by_a_number_are_sandboxes() {
    if cfg!(target_arch = "x86_64") {
        for case in ["sandboxed-by-number", "sandboxed-by-number-of-prctl"] {
            let (ended, json) = CASES.guard("", case);
            let ended = ended.expect_code(1);
            assert_eq!(ended.stdout, "done\n", "{ended:#?}");
            let line = CASES.line_of("sandboxed-by-number");
            assert_eq!(json["errors"][0]["line"], line, "{ended:#?}");
        }
    }
    expect_silence("", "probed-by-number", "2 1\n");
}

#[test]
fn who_only_asks_for_a_sandbox_is_in_none() {
    expect_silence("", "unprobed", "1\n");
    expect_silence("", "probed", "2\n");
}

#[test]
fn what_the_kernel_refuses_it_refuses() {
    expect_silence("", "refused", "6\n");
}

#[test]
fn handlers_installed_by_older_functions_are_called_from_ours() {
    expect_error("other-signals", "3\n");
}

#[test]
fn threads_made_in_a_sandbox_allocate_contend_and_err() {
    if cfg!(target_arch = "x86_64") {
        expect_error("sandboxed-threads", "done\n");
    }
}

#[test]
fn what_a_parent_did_is_told_once_and_no_end_of_its_children() {
    let (ended, json) = CASES.guard("", "inherited");
    let ended = ended.expect_code(1);
    assert_eq!(ended.stdout, "fine\nfine\nfine\n", "{ended:#?}");
    assert_eq!(json["summary"]["errors"], 1, "{ended:#?}");
}

#[test]
fn slots_that_are_handed_out_again_early_are_told() {
    let script = CASES.folder().join("little.sh");
    fs::write(&script, "ulimit -v 400000\nexec ./harder reused\n").expect("written");
    let name = "reused.json";
    let arguments = ["guard", "--json", name, "--", "sh", "little.sh"];
    let ended = run(CASES.folder(), &arguments).expect_code(0);
    let text = fs::read_to_string(CASES.folder().join(name)).expect("written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let processes = json["summary"]["processes"].as_array().expect("processes");
    let counts = processes
        .iter()
        .filter_map(|process| process["reused_early"].as_u64());
    assert!(counts.sum::<u64>() > 10_000, "{ended:#?}");
    ended.expect_told(&["given back shortly before", "ulimit -v"]);
    let (_, json) = CASES.guard("", "reused");
    assert_eq!(json["summary"]["processes"][0]["reused_early"], 0);
}

#[test]
fn new_objects_are_full_of_what_is_asked_for() {
    expect_silence("--fill 0xaa", "filled", "1 1 1 1\n1 1 1 1\n");
    expect_silence("", "filled", "0 1 0 0\n0 1 0 0\n");
    run(CASES.folder(), &["guard", "--fill", "256", "--", "true"]).expect_refusal(125, &["a byte"]);
}

#[test]
fn a_program_stops_where_it_erred_until_it_is_continued() {
    let _ = fs::remove_file(CASES.folder().join("pid"));
    let running = start(command(
        CASES.folder(),
        &["guard", "--stop", "--", "./harder", "stopped"],
    ));
    let mut stopped = None;
    let is_stopped = within(Duration::from_secs(60), || {
        let pid = fs::read_to_string(CASES.folder().join("pid")).unwrap_or_default();
        let status = fs::read_to_string(format!("/proc/{}/status", pid.trim()));
        let is_stopped = status.is_ok_and(|status| status.contains("State:\tT"));
        stopped = is_stopped.then(|| pid.trim().parse().ok()).flatten();
        stopped.is_some()
    });
    assert!(is_stopped);
    let pid = stopped.and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::CONT).expect("sent");
    let ended = running.end().expect_code(1);
    let line = format!("harder.c:{}", CASES.line_of("stopped"));
    ended.expect_told(&["heap-buffer-overflow", &line]);
}

#[test]
fn cores_are_as_large_as_they_may_be_if_that_is_wanted() {
    for (option, is_wanted) in [("--core", true), ("--keep-going", false)] {
        let told =
            format!("ulimit -Sc 0; exec \"$0\" guard {option} -- sh -c 'ulimit -Sc; ulimit -Hc'");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &told])
            .arg(pagewise())
            .current_dir(CASES.folder());
        let ended = start(shell).end().expect_code(0);
        let limits: Vec<&str> = ended.stdout.lines().collect();
        let expected = if is_wanted { limits[1] } else { "0" };
        assert_eq!(limits[0], expected, "{ended:#?}");
    }
}

/// Why no core would be left in the folder where the program runs; `None`: it would.
fn no_core_because() -> Option<&'static str> {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let is_here = !pattern.trim().is_empty() && !pattern.contains(['/', '|', '%']);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Core);
    if !is_here {
        Some("kernel.core_pattern leads elsewhere")
    } else if limit.maximum == Some(0) {
        Some("there is no core, by its hard limit")
    } else {
        Command::new("gdb")
            .arg("--version")
            .output()
            .err()
            .map(|_| "there is no gdb")
    }
}

#[test]
fn a_debugger_finds_in_a_core_where_the_program_erred() {
    if let Some(why) = no_core_because() {
        println!("skipped: {why}");
        return;
    }
    let folder = tempdir().expect("a folder");
    let program = CASES.folder().join("harder");
    let program = program.to_str().expect("a path");
    let ended = run(
        folder.path(),
        &["guard", "--core", "--", program, "aligned"],
    );
    ended.expect_code(1);
    let mut files = fs::read_dir(folder.path()).expect("a folder");
    let core = files.find_map(|file| {
        let file = file.expect("a file");
        file.file_name()
            .to_str()?
            .starts_with("core")
            .then(|| file.path())
    });
    let core = core.expect("a core");
    let seen = Command::new("gdb")
        .args([
            "-nx",
            "-batch",
            "-ex",
            "set debuginfod enabled off",
            "-ex",
            "bt",
        ])
        .args([Path::new(program), core.as_path()])
        .output()
        .expect("it runs");
    let seen = String::from_utf8_lossy(&seen.stdout);
    let place = format!("harder.c:{}", CASES.line_of("aligned"));
    let mut frames = seen.lines().filter(|line| line.starts_with("#0 "));
    assert!(frames.any(|frame| frame.contains(&place)), "{seen}");
    assert!(seen.contains("SIGSEGV"), "{seen}");
}

#[test]
fn buffers_that_are_too_short_are_told_of_each_call() {
    let expected = [
        "preadv",
        "pwritev",
        "preadv2",
        "pwritev2",
        "recvmmsg",
        "sendmmsg",
        "recvmsg",
        "sendmsg",
        "recvfrom",
        "sendto",
        "accept",
        "getsockopt",
        "setsockopt",
        "fread",
        "fwrite",
        "getdents64",
        "getxattr",
        "poll",
        "epoll_wait",
        "ppoll",
        "epoll_pwait",
        "setxattr",
        "listxattr",
        "getgroups",
        "getentropy",
        "msgrcv",
        "mq_receive",
        "readlink",
        "recvfrom",
        "pread",
        "select",
        "pselect",
        "ppoll",
        "bind",
        "connect",
        "pipe",
        "socketpair",
        "epoll_ctl",
        "stat",
        "fstat",
        "open",
        "openat",
        "fopen",
        "access",
        "unlink",
        "rename",
        "mkdir",
        "chdir",
        "stpncpy",
        "stpcpy",
    ];
    expect_calls("buffers", &expected);
    expect_silence("", "good-buffers", "sent\n");
}

#[test]
fn buffers_of_calls_by_number_are_looked_at_too() {
    let expected = [
        "read",
        "pread",
        "write",
        "pwrite",
        "readv",
        "writev",
        "preadv2",
        "recvfrom",
        "sendto",
        "recvmsg",
        "sendmmsg",
        "getrandom",
        "getdents64",
        "getcwd",
        "readlinkat",
        "getxattr",
        "getsockname",
        "getsockopt",
        "setsockopt",
        "connect",
        "getgroups",
        "ppoll",
        "pselect",
        "epoll_pwait",
        "recvfrom",
        "sendto",
        "bind",
        "pipe2",
        "socketpair",
        "epoll_ctl",
        "fstatat",
        "fstat",
        "msgrcv",
        "mq_timedreceive",
        "openat",
        "chdir",
    ];
    expect_calls("numbered", &expected);
    expect_silence("", "good-numbered", "10\n");
}

/// Asserts which calls of a case have wrong arguments, each in its own line.
fn expect_calls(case: &str, expected: &[&str]) {
    let (ended, json) = CASES.guard("--keep-going", case);
    let ended = ended.expect_code(1);
    let errors = json["errors"].as_array().expect("errors");
    let calls: Vec<_> = errors
        .iter()
        .filter_map(|error| error["call"].as_str())
        .collect();
    assert_eq!(calls, expected, "{ended:#?}");
    // Some calls do what they are told of, which is seen again later.
    for error in errors {
        if let Some(call) = error["call"].as_str() {
            let line = error["line"].as_u64().expect("a line") as usize;
            let text = CASES.source().lines().nth(line - 1).expect("it is there");
            assert!(text.contains(call), "{call}: {text}");
        }
    }
}

#[test]
fn programs_ended_by_signals_are_looked_at_and_summed_up() {
    for case in ["terminated", "aborted", "quick"] {
        let (ended, json) = CASES.guard("--keep-going", case);
        let ended = ended.expect_code(1);
        assert_eq!(json["summary"]["errors"], 1, "{ended:#?}");
        assert_eq!(json["errors"][0]["offset"], -1, "{ended:#?}");
        if case == "terminated" {
            assert_eq!(ended.stdout, "1\n", "{ended:#?}");
            assert_eq!(json["summary"]["exit_code"], 143, "{ended:#?}");
        }
    }
    let (ended, json) = CASES.guard("", "terminated-well");
    let ended = ended.expect_code(143);
    let process = &json["summary"]["processes"][0];
    assert!(process["allocations"].as_u64() > Some(0), "{ended:#?}");
}

#[test]
fn copies_of_strings_onto_themselves_are_told_too() {
    let (ended, json) = CASES.guard("--overlap --keep-going", "onto-themselves");
    let ended = ended.expect_code(1);
    let errors = json["errors"].as_array().expect("errors");
    let calls: Vec<_> = errors.iter().map(|error| &error["call"]).collect();
    let expected = ["strcpy", "stpcpy", "mempcpy", "wmemcpy", "wmempcpy"];
    assert_eq!(calls, expected, "{ended:#?}");
    expect_silence("", "onto-themselves", "");
}
