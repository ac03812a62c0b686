//! Faults are told with the call path that took them: completely, exactly, and with names.

use std::fs;
use std::path::Path;

use crate::common::command::record;
use crate::common::command::report;
use crate::common::machine::Machine;
use crate::common::paths::swap_ins_of;
use crate::common::programs::compile;
use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

/// A recording of a program of ours, with every recognized stack unwound too.
struct Checked {
    folder: TempDir,
    report: Value,
    stdout: String,
}

/// Fewer comparisons prove nothing.
const LEAST_CHECKED: u64 = 30;
/// Copies for comparison give way to those to be learnt: where other work keeps the recorder busy, none may be made.
const ATTEMPTS: usize = 4;

/// `None`: needs root.
fn checked(source: &str, memory: &str) -> Option<Checked> {
    let machine = Machine::reserve()?;
    let folder = tempdir().expect("a folder");
    compile(folder.path(), source);
    let (program, _) = source.split_once('.').expect("a name with an ending");
    let options = format!("--memory {memory} --swap zram --swap-size 512M --check-call-paths");
    let mut run = recorded(folder, &options, program);
    for _ in 1..ATTEMPTS {
        if run.total("call_paths_checked") > LEAST_CHECKED {
            break;
        }
        run = recorded(run.folder, &format!("{options} -f"), program);
    }
    machine.assert_restored();
    Some(run)
}

fn recorded(folder: TempDir, options: &str, program: &str) -> Checked {
    let ended = record(folder.path(), options, &format!("./{program}")).expect_code(0);
    Checked {
        report: report(folder.path()),
        folder,
        stdout: ended.stdout,
    }
}

impl Checked {
    fn total(&self, name: &str) -> u64 {
        let meta = fs::read(self.folder.path().join("pagewise.data/meta.json")).expect("written");
        let meta: Value = serde_json::from_slice(&meta).expect("JSON");
        meta["totals"][name].as_u64().unwrap_or(0)
    }

    /// Every path that was recognized is what unwinding says, and nearly every fault has one.
    fn assert_exact(&self) {
        let all = self.report["summary"]["swap_ins"]
            .as_u64()
            .expect("a count");
        assert!(all > 10_000, "{all} swap-ins are no test");
        let checked = self.total("call_paths_checked");
        assert!(checked > LEAST_CHECKED, "{checked} of {all} are no test");
        assert_eq!(self.total("call_paths_different"), 0);
        // An unoptimized recorder may not keep up at first; what that costs is counted.
        let known = self.swap_ins(|path| !path.is_empty());
        let lost = self.report["losses"]["call_paths"]
            .as_u64()
            .expect("a count");
        assert!(known > 1_000, "{known} of {all} are no test");
        assert!(
            (known + lost) as f64 > 0.99 * all as f64,
            "{known} and {lost} of {all}"
        );
    }

    /// Swap-ins of paths, innermost function first.
    fn swap_ins(&self, wanted: impl Fn(&[&str]) -> bool) -> u64 {
        swap_ins_of(&self.report, wanted)
    }
}

#[test]
fn threads_that_recurse_with_frames_of_varying_size() {
    let Some(run) = checked("recursion.cpp", "40M") else {
        return;
    };
    run.assert_exact();
    let all = run.report["summary"]["swap_ins"].as_u64().expect("a count");
    let whole = run.swap_ins(|path| {
        let inner = path.first().copied().unwrap_or("");
        (inner.starts_with("sum") || inner.starts_with("build"))
            && path.iter().any(|name| name.starts_with("walk"))
            && path.last().is_some_and(|name| name.contains("clone"))
    });
    // What remains is the C library at work, and the start and the end.
    let known = run.swap_ins(|path| !path.is_empty());
    assert!(
        whole as f64 > 0.9 * known as f64,
        "{whole} of {known} of {all}"
    );
    // The deepest walk has sixteen levels.
    let levels = |path: &[&str]| path.iter().filter(|name| name.starts_with("sum")).count();
    assert_eq!(run.swap_ins(|path| levels(path) > 16), 0);
    assert!(run.swap_ins(|path| levels(path) > 8) > 0);
}

#[test]
fn code_made_at_run_time_has_the_name_its_maker_gave() {
    let Some(run) = checked("generated.c", "24M") else {
        return;
    };
    let map = run.stdout.trim();
    assert!(Path::new(map).exists(), "{map}");
    fs::remove_file(map).expect("ours");
    run.assert_exact();
    let all = run.report["summary"]["swap_ins"].as_u64().expect("a count");
    let named =
        run.swap_ins(|path| path.first() == Some(&"made_at_run_time") && path.contains(&"main"));
    let known = run.swap_ins(|path| !path.is_empty());
    assert!(
        named as f64 > 0.6 * known as f64,
        "{named} of {known} of {all}"
    );
}
