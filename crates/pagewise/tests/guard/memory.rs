//! `pagewise guard --memory`: programs whose objects take more memory than they may read what they wrote, and are told of the
//! same errors.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use crate::common::command::Ended;
use crate::common::command::run;
use crate::common::programs::compile_with;
use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

const SOURCE: &str = include_str!("../programs/compacted.c");

fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempdir().expect("a folder");
            compile_with(
                folder.path(),
                "compacted.c",
                "compacted",
                &["-O0", "-w", "-pthread"],
            );
            folder
        })
        .path()
}

fn line_of(case: &str) -> u64 {
    let mark = format!("BUG {case} */");
    let line = SOURCE.lines().position(|line| line.ends_with(&mark));
    line.expect("the mark is there") as u64 + 1
}

fn guard(options: &str, program: &str) -> (Ended, Value) {
    let name = format!("of {options} {program}.json").replace([' ', '/'], "_");
    let mut arguments = vec!["guard", "--as-root", "--json", &name];
    arguments.extend(options.split_whitespace());
    arguments.push("--");
    arguments.extend(program.split_whitespace());
    let ended = run(folder(), &arguments);
    let text = fs::read_to_string(folder().join(&name)).unwrap_or_else(|_| panic!("{ended:#?}"));
    (ended, serde_json::from_str(&text).expect("JSON"))
}

fn processes(json: &Value) -> &[Value] {
    let processes = json["summary"]["processes"].as_array();
    processes.expect("processes")
}

/// Runs a case that is right, and returns its own process's numbers and how it was told.
fn right(options: &str, case: &str) -> (Ended, Value) {
    let (ended, json) = guard(options, &format!("./compacted {case}"));
    let ended = ended.expect_code(0);
    assert_eq!(ended.stdout, "right\n", "{ended:#?}");
    assert_eq!(json["summary"]["errors"], 0, "{ended:#?}");
    let most = |process: &&Value| process["compaction"]["compactions"].as_u64();
    let process = processes(&json).iter().max_by_key(most);
    (ended, process.expect("a process").clone())
}

#[test]
fn objects_hold_what_was_written_whatever_was_compacted_meanwhile() {
    for (options, case) in [
        ("--memory 1M --both-sides", "model"),
        ("--memory 1M", "threads"),
        ("--memory 1M", "calls"),
        ("--memory 1M", "closed"),
    ] {
        let (ended, process) = right(options, case);
        let compaction = &process["compaction"];
        assert_eq!(compaction["state"], "on", "{case}: {ended:#?}");
        for key in ["compactions", "restores", "store_bytes"] {
            assert!(compaction[key].as_u64() > Some(100), "{case}: {process:#}");
        }
        ended.expect_told(&["compacted ", "restored ", "of store"]);
    }
}

#[test]
fn who_gives_a_compacted_object_back_while_another_touches_it_leaves_a_guard() {
    for _ in 0..3 {
        let (_, process) = right("--memory 1M", "race");
        let compactions = process["compaction"]["compactions"].as_u64();
        assert!(compactions > Some(1000), "{process:#}");
    }
}

#[test]
fn forked_children_have_the_objects_too() {
    for case in ["forks", "forks-beside-makers", "poor-child"] {
        let (ended, process) = right("--memory 1M", case);
        assert_eq!(process["compaction"]["state"], "on", "{ended:#?}");
    }
}

#[test]
fn what_is_alive_at_the_end_is_told_by_size() {
    let (ended, process) = right("--memory 1M --leaks", "chain");
    let compaction = &process["compaction"];
    let number = |key: &str| compaction[key].as_u64().expect("a number");
    let sizes = compaction["sizes"].as_array().expect("a list");
    let sum: u64 = sizes.iter().filter_map(Value::as_u64).sum();
    // 3000 of 16 bytes, of which 256 pages may be there at once.
    assert!((2700..3100).contains(&number("objects")), "{process:#}");
    assert_eq!(sum, number("objects"));
    assert!(sizes[4].as_u64() > Some(2700), "{process:#}");
    assert!(number("bytes") >= 16 * 2700);
    assert!(number("resident_bytes") <= 1 << 20, "{process:#}");
    ended.expect_told(&["up to 16 B: ", "of store"]);
}

#[test]
fn pointers_inside_compacted_objects_count_and_lost_ones_are_leaks() {
    let (ended, json) = guard("--memory 1M --leaks", "./compacted broken-chain");
    ended.expect_code(1);
    let errors = json["errors"].as_array().expect("errors");
    assert_eq!(errors.len(), 1, "{json:#}");
    assert_eq!(errors[0]["kind"], "leak");
    // Those behind the cut, but for addresses that are left on the stack.
    let leaked = errors[0]["leaked_objects"].as_u64();
    assert!((Some(2980)..Some(2990)).contains(&leaked), "{leaked:?}");
}

#[test]
fn errors_around_compacted_objects_are_found() {
    for (case, kind) in [
        ("tail", "heap-buffer-overflow"),
        ("freed", "heap-use-after-free"),
    ] {
        let (ended, json) = guard("--memory 1M", &format!("./compacted {case}"));
        ended.expect_code(1);
        let errors = json["errors"].as_array().expect("errors");
        assert_eq!(errors.len(), 1, "{case}: {json:#}");
        assert_eq!(errors[0]["kind"], kind);
        assert_eq!(errors[0]["line"], line_of(case));
        let compacted = |process: &Value| process["compaction"]["state"] == "on";
        assert!(processes(&json).iter().any(compacted), "{json:#}");
    }
}

#[test]
fn without_the_privilege_programs_run_uncompacted_and_that_is_told() {
    let setting = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
    let is_free = setting.is_ok_and(|value| value.trim() == "1");
    let (ended, process) = right("--memory 1M", "unprivileged");
    if is_free {
        assert_eq!(process["compaction"]["state"], "on", "{ended:#?}");
        return;
    }
    assert_eq!(process["compaction"]["state"], "refused", "{ended:#?}");
    assert_eq!(process["compaction"]["errno"], libc_eperm());
    assert_eq!(process["compaction"]["compactions"], 0);
    ended.expect_told(&["without compaction", "sysctl vm.unprivileged_userfaultfd=1"]);
}

/// As `<errno.h>` has it.
fn libc_eperm() -> i32 {
    rustix::io::Errno::PERM.raw_os_error()
}

#[test]
fn what_does_not_apply_is_told_or_refused() {
    let (ended, json) = guard("--memory 1G", "./compacted closed");
    ended.expect_code(0).expect_told(&["was not exceeded"]);
    let compaction = &processes(&json)[0]["compaction"];
    assert_eq!(compaction["state"], "not-needed");
    let (_, json) = guard("", "./compacted closed");
    assert_eq!(processes(&json)[0]["compaction"], Value::Null);
    let (ended, json) = guard("--memory 1M --mprotect", "./compacted closed");
    ended.expect_code(0).expect_told(&["needs guard regions"]);
    assert_eq!(processes(&json)[0]["compaction"]["state"], "refused");
    for wrong in ["64K", "50%", "much"] {
        run(folder(), &["guard", "--memory", wrong, "--", "true"])
            .expect_refusal(125, &["at least 1M"]);
    }
}

#[test]
fn programs_of_every_day_run_as_always() {
    let lines: String = (0..3000).rev().map(|line| format!("{line:04}\n")).collect();
    fs::write(folder().join("lines.txt"), lines).expect("written");
    fs::write(
        folder().join("names.py"),
        "d = {str(i): [i] for i in range(20000)}\nprint(sum(d[str(i)][0] for i in range(20000)))\n",
    )
    .expect("written");
    let names = "names=(); for i in $(seq 900); do names[i]=name$i; done; echo ${names[7]} $(echo ${#names[*]})";
    fs::write(folder().join("names.sh"), names).expect("written");
    let mut compactions = 0;
    for (program, says) in [
        ("ls /", "usr"),
        ("sort lines.txt", "0000\n0001\n"),
        ("bash names.sh", "name7 900\n"),
        ("gzip -c lines.txt", "\u{1f}"),
        ("python3 names.py", "199990000\n"),
    ] {
        let (ended, json) = guard("--memory 1M", program);
        let ended = ended.expect_code(0);
        assert!(ended.stdout.contains(says), "{ended:#?}");
        assert_eq!(json["summary"]["errors"], 0, "{ended:#?}");
        let counted = processes(&json).iter();
        compactions += counted
            .filter_map(|process| process["compaction"]["compactions"].as_u64())
            .sum::<u64>();
    }
    assert!(compactions > 1000, "{compactions}");
}
