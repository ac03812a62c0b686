//! Hints for I/O in force: pages that the calls of a rule brought in go, those of others stay, and whatever descriptors come to
//! mean, the program reads what it would have read.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::common::command::Ended;
use crate::common::command::command;
use crate::common::command::record;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::machine::Machine;
use crate::common::plans::call_in;
use crate::common::plans::write_plan;
use crate::common::programs::compile;
use crate::common::programs::compile_with;
use crate::common::within;
use pagewise_host::open_file::cached_pages;
use pagewise_plan::Action;
use pagewise_plan::Frame;
use pagewise_plan::IoAction;
use pagewise_plan::ModuleFile;
use pagewise_plan::Readahead;
use pagewise_plan::Rule;
use pagewise_plan::SourcePlace;
use pagewise_plan::Target;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const FILE_PAGES: i64 = 24 << 8;
pub(crate) const DROP: IoAction = drop_with(None);

const fn drop_with(readahead: Option<Readahead>) -> IoAction {
    IoAction::Drop {
        readahead,
        again_percent: 0,
    }
}

/// On a disk: what is in memory anyway has no pages to drop.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    static PROGRAM: OnceLock<TempDir> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        compile_with(place.path(), "hints.c", "hints", &["-O1"]);
        place
    });
    fs::copy(program.path().join("hints"), folder.path().join("hints")).expect("copied");
    write_file(&folder.path().join("data"), 2);
    folder
}

pub(crate) fn write_file(path: &Path, letter: u8) {
    fs::write(path, vec![letter; 24 * MIB]).expect("written");
    let file = fs::File::open(path).expect("open");
    file.sync_all().expect("on the disk");
}

/// A rule for each function, with a pattern of files.
pub(crate) fn plan_for(folder: &Path, rules: &[(&str, IoAction, Option<&str>)]) {
    let path = folder.join("hints");
    let file = ModuleFile::read(&path).expect("an ELF file");
    let rules = rules.iter().map(|&(function, action, files)| Rule {
        objects: None,
        name: format!("of {function}"),
        place: SourcePlace::default(),
        target: Target::Io {
            path: vec![call_in(&file, function)],
            files: files.map(str::to_owned),
        },
        action: Action::Io(action),
        why: "a test".to_owned(),
        predicted: None,
    });
    write_plan(&path, rules.collect());
}

fn apply(folder: &Path, kind: &str) -> Ended {
    apply_to(folder, kind, "data")
}

fn apply_to(folder: &Path, kind: &str, data: &str) -> Ended {
    let _ = fs::remove_file(folder.join("outcome.json"));
    let arguments = [
        "apply",
        "plan.toml",
        "--json",
        "outcome.json",
        "--",
        "./hints",
        kind,
        data,
        "other",
    ];
    run(folder, &arguments).expect_code(0)
}

/// What became of the first rule.
fn first(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("outcome.json")).expect("written");
    let outcome: Value = serde_json::from_str(&text).expect("JSON");
    outcome["io"][0].clone()
}

pub(crate) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value}"))
}

/// The numbers that the program printed, without its sum.
pub(crate) fn printed(ended: &Ended) -> Vec<i64> {
    let lines = ended.stdout.lines().filter(|line| !line.starts_with("sum"));
    lines.map(|line| line.parse().expect("a number")).collect()
}

pub(crate) fn sum(ended: &Ended) -> u64 {
    let line = ended
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("sum "));
    line.expect("a sum").parse().expect("a number")
}

#[test]
fn a_scan_leaves_nothing_behind_but_what_was_there() {
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None)]);
    let whole = apply(folder, "whole").expect_told(&["of reads: drop (", "pages gone, 0 stayed"]);
    assert_eq!(printed(&whole), [0]);
    assert_eq!(sum(&whole), 2 * 24 * MIB as u64);
    let rule = first(folder);
    assert_eq!(number(&rule["gone_pages"]), FILE_PAGES);
    assert_eq!((number(&rule["calls"]), number(&rule["files"])), (385, 1));
    assert_eq!(number(&rule["bytes"]), 24 * MIB as i64);
    assert!(rule["withdrawn"].is_null() && rule["errno"].is_null());

    let half = apply(folder, "half");
    let [theirs, before, behind] = printed(&half)[..] else {
        panic!("{}", half.stdout);
    };
    assert_eq!((theirs, before, behind), (1024, 0, 0));
    let others = number(&first(folder)["others_pages"]);
    assert!(
        others > 512,
        "{others}: but for what the kernel itself evicts"
    );
}

#[test]
fn a_scan_goes_on_behind_the_inner_pages_of_a_tree() {
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads_at", DROP, None)]);
    let ended = apply(folder, "tree").expect_told(&["of reads_at: drop ("]);
    assert_eq!(printed(&ended), [0, 512]);
    let rule = first(folder);
    // The leaves' chunks, inner pages, and what was read ahead: an inner page ends nothing.
    let hints = number(&rule["hints"]);
    assert!((5..=60).contains(&hints), "{hints}");
    assert!(number(&rule["gone_pages"]) >= 2048 + 32 + 4);
    assert!(rule["withdrawn"].is_null());
}

const KEEP: IoAction = IoAction::Keep { keep_bytes: None };

#[test]
fn what_is_read_again_stays_until_the_program_has_done_with_it() {
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads_at", KEEP, None)]);
    let ended = apply(folder, "keep").expect_told(&["of reads_at: keep (", "kept "]);
    let [locked, stayed, once, after_own, left, again, closed] = printed(&ended)[..] else {
        panic!("{}", ended.stdout);
    };
    // One part of 256 never is.
    assert!((3584..=4096).contains(&locked), "{locked}");
    // A folio of which a part is locked stays as a whole.
    assert!((locked..=4096).contains(&stayed), "{stayed} of {locked}");
    assert_eq!(once, 0);
    assert_eq!((after_own, left), (0, 0));
    assert_eq!((again, closed), (locked, 0));
    assert_eq!(sum(&ended), 2 * 56 * MIB as u64);
    let rule = first(folder);
    assert_eq!(number(&rule["kept_bytes"]), locked * 4096);
    assert!(rule["withdrawn"].is_null() && rule["errno"].is_null());
}

#[test]
fn what_is_kept_is_no_childs_and_ends_with_the_programs_own_locks() {
    let folder = folder();
    let folder = folder.path();
    let keep_bytes = Some(6 * MIB as u64);
    plan_for(folder, &[("reads_at", IoAction::Keep { keep_bytes }, None)]);
    let ended = apply(folder, "keep-ends");
    let [locked, of_child, status, after] = printed(&ended)[..] else {
        panic!("{}", ended.stdout);
    };
    assert!((1024..=6 << 8).contains(&locked), "{locked}");
    assert_eq!((of_child, status, after), (0, 0, 0));
    // What was cut off is zeros, but the rest of its page.
    let rest = 2 * (3 * MIB + 5) as u64;
    assert_eq!(sum(&ended), 2 * 32 * MIB as u64 + rest);

    let cut = apply(folder, "keep-cut");
    assert_eq!(printed(&cut), [0]);
}

#[test]
fn what_leaves_the_page_cache_and_is_needed_again_is_planned_to_be_kept() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    let options = "--io --sensors none --memory 16M";
    record(folder, options, "./hints keep-short data other").expect_code(0);
    let plan = run(folder, &["plan", "--json", "--min-io", "1M"]).expect_code(0);
    let plan = plan.json();
    assert_eq!(plan["rules"][0]["action"], "keep", "{plan:#}");
    let text = fs::read_to_string(folder.join("plan.toml")).expect("written");
    assert!(text.contains("keep_bytes = 8388608"), "{text}");
    let arguments =
        "apply plan.toml --memory 16M --json outcome.json -- ./hints keep-short data other";
    run(folder, &arguments.split(' ').collect::<Vec<_>>()).expect_code(0);
    let rule = first(folder);
    let kept = number(&rule["kept_bytes"]);
    assert!((4 << 20..=8 << 20).contains(&kept), "{rule:#}");
    assert!(rule["withdrawn"].is_null(), "{rule:#}");
    machine.assert_restored();
}

#[test]
fn what_was_recorded_is_planned_and_put_into_force() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    record(folder, "--io", "./hints whole data other").expect_code(0);
    let plan = run(folder, &["plan", "--json", "--min-io", "1M"]).expect_code(0);
    let plan = plan.json();
    let rules = plan["rules"].as_array().expect("rules");
    let drops: Vec<&Value> = rules
        .iter()
        .filter(|rule| rule["action"] == "drop")
        .collect();
    assert_eq!(drops.len(), 1, "{plan:#}");
    assert_eq!(drops[0]["function"], "reads", "{plan:#}");
    assert!(drops[0]["site"].is_string(), "{plan:#}");
    assert_eq!(printed(&apply(folder, "whole")), [0]);
    let rule = first(folder);
    assert_eq!(number(&rule["gone_pages"]), FILE_PAGES, "{rule:#}");
    assert_eq!(number(&rule["bytes"]), 24 * MIB as i64);
    each_run_reads_the_file_anew(folder);
    // Small contexts are left alone.
    let few = run(folder, &["plan", "-f", "--json"]).expect_code(0).json();
    assert_eq!(few["rules"], serde_json::json!([]), "{few:#}");
    run(folder, &["plan", "-f", "--min-io", "5%"])
        .expect_code(125)
        .expect_told(&["--min-io 5%: give bytes"]);
}

/// Unless what is cached shall be left.
fn each_run_reads_the_file_anew(folder: &Path) {
    let compare = |more: &[&str]| {
        let first = [
            "compare",
            "plan.toml",
            "--memory",
            "64M",
            "--runs",
            "2",
            "--warm-up",
            "0",
            "--json",
        ];
        // It does not evict the file itself.
        let program = ["--", "cat", "data"];
        // Which arm is faster, and so the exit code, is not what is tested.
        let ended = run(folder, &[&first, more, &program].concat());
        let reads = ended.json()["arms"]
            .as_array()
            .expect("arms")
            .iter()
            .flat_map(|arm| arm["read_bytes"].as_array().expect("a list").clone())
            .map(|bytes| number(&bytes))
            .collect::<Vec<i64>>();
        (ended, reads)
    };
    let (ended, reads) = compare(&[]);
    ended.expect_told(&["taken out of the page cache before each run: 1 of 24 MiB"]);
    assert_eq!(reads.len(), 6, "three arms: {reads:?}");
    assert!(
        reads.iter().all(|&bytes| bytes >= 24 * MIB as i64),
        "{reads:?}"
    );
    // The last run, without plan and limit, finds what the one before it has left.
    let (_, reads) = compare(&["--warm"]);
    assert!(reads[5] < 24 * MIB as i64, "{reads:?}");
}

#[test]
fn a_program_with_a_debugger_is_hinted_too() {
    let folder = folder();
    let folder = folder.path();
    compile(folder, "tracer.c");
    plan_for(folder, &[("reads", DROP, None)]);
    let arguments = ["apply", "plan.toml", "--json", "outcome.json", "--"];
    let words = ["./hints", "whole", "data", "other"];
    let mut applied = command(folder, &[&arguments[..], &words].concat());
    applied.env("HINTS_WAIT", "go");
    let applied = start(applied);
    let program = applied.child_named("hints");
    let mut tracer = Command::new(folder.join("tracer"));
    tracer.arg(program.to_string());
    let tracer = start(tracer);
    let raw = program.as_raw_nonzero().get().unsigned_abs();
    let is_traced = || pagewise_host::process::is_traced(raw) == Some(true);
    assert!(within(Duration::from_secs(10), is_traced));
    fs::write(folder.join("go"), "").expect("written");
    assert_eq!(printed(&applied.end().expect_code(0)), [0]);
    tracer.end().expect_code(0);
    let rule = first(folder);
    assert_eq!(number(&rule["gone_pages"]), FILE_PAGES, "{rule:#}");
}

#[test]
fn a_thread_that_is_cancelled_while_it_reads_ends_alone() {
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None)]);
    let ended = apply(folder, "cancelled");
    assert_eq!(printed(&ended), [1]);
    assert_eq!(sum(&ended), 2 * 24 * MIB as u64);
    assert_eq!(number(&first(folder)["gone_pages"]), FILE_PAGES);
}

#[test]
fn files_that_go_or_change_meanwhile_harm_nobody() {
    let whole = 2 * 24 * MIB as u64;
    for (kind, expected_sum, cached) in [
        ("unlinked", whole, vec![0]),
        // The new file of that name keeps its pages.
        ("replaced", whole, vec![FILE_PAGES]),
        ("truncated", 2 * (100 * 65536 + 3 * MIB as u64), vec![0]),
        // What the descriptor means now is another's, and all of it was cached before.
        ("reused", (2 * 40 + 3 * 100) * 65536, vec![FILE_PAGES]),
        ("over", (2 * 40 + 3 * 100) * 65536, vec![FILE_PAGES]),
    ] {
        let folder = folder();
        if cached[0] > 0 {
            write_file(&folder.path().join("other"), 3);
        }
        plan_for(folder.path(), &[("reads", DROP, None)]);
        let ended = apply(folder.path(), kind);
        assert_eq!(sum(&ended), expected_sum, "{kind}");
        assert_eq!(printed(&ended), cached, "{kind}");
    }
}

/// What a program that reads `bytes` of the letter, and nothing but zeros besides, has read.
pub(crate) const fn sum_of(bytes: u64) -> u64 {
    2 * bytes
}

#[test]
fn a_file_that_is_cut_while_it_is_hinted_is_read_as_ever_and_not_hinted_beyond_its_end() {
    let burst_bytes = 64 << 10;
    let random = Some(Readahead::Random);
    // Of three parts of 40 pieces, all of the first is there.
    let first_part = sum_of(40 * 65536);
    for (action, leaves) in [
        (DROP, false),
        (drop_with(random), false),
        (IoAction::DontCache { readahead: None }, true),
        (IoAction::Readahead(Readahead::Sequential), true),
    ] {
        let folder = folder();
        plan_for(folder.path(), &[("reads", action, None)]);
        let ended = apply(folder.path(), "shrinks");
        assert_eq!(sum(&ended), first_part, "{action:?}");
        let rule = first(folder.path());
        let [beyond, behind, left] = printed(&ended)[..] else {
            panic!("{}", ended.stdout);
        };
        assert_eq!((beyond, behind), (0, 0), "{action:?}: {rule:#}");
        assert!(
            leaves || left == 0,
            "{action:?}: {left} pages are left, {rule:#}"
        );
        assert_eq!(number(&rule["bytes"]), 3 * 40 * 65536, "{action:?}");
        assert!(rule["withdrawn"].is_null(), "{action:?}: {rule:#}");
    }
    for action in [
        IoAction::WillNeed { burst_bytes },
        IoAction::Readahead(Readahead::Random),
    ] {
        let folder = folder();
        plan_for(folder.path(), &[("reads_at", action, None)]);
        let ended = apply(folder.path(), "shrinks-at");
        assert_eq!(sum(&ended), sum_of(40 * 4096), "{action:?}");
        assert_eq!(printed(&ended)[..2], [0, 0], "{action:?}");
        assert_eq!(number(&first(folder.path())["refusals"]), 0, "{action:?}");
    }
    let folder = folder();
    plan_for(
        folder.path(),
        &[("reads_at", IoAction::WillNeed { burst_bytes }, None)],
    );
    assert_eq!(printed(&apply(folder.path(), "last-run")), [3, 0, 0]);
    let rule = first(folder.path());
    assert_eq!(number(&rule["asked_pages"]), 3, "{rule:#}");
    // One tells how to read ahead.
    assert_eq!(number(&rule["hints"]), 2, "{rule:#}");
}

#[test]
fn a_file_that_is_cut_at_any_moment_harms_nobody() {
    let burst_bytes = 64 << 10;
    let random = Some(Readahead::Random);
    let actions = [
        DROP,
        drop_with(random),
        IoAction::DontCache { readahead: None },
        IoAction::WillNeed { burst_bytes },
        IoAction::Readahead(Readahead::Sequential),
    ];
    for action in actions {
        let folder = folder();
        let functions = ["reads", "reads_at", "writes_at"];
        plan_for(folder.path(), &functions.map(|name| (name, action, None)));
        assert_eq!(printed(&apply(folder.path(), "races")), [1], "{action:?}");
        let rule = first(folder.path());
        let calls = 20 * 24 * 16;
        assert_eq!(number(&rule["calls"]), calls, "{action:?}: {rule:#}");
        assert!(
            rule["errno"].is_null() || rule["action"] == "dontcache",
            "{action:?}: {rule:#}"
        );
    }
}

#[test]
fn who_shares_a_descriptor_does_not_end_the_run_of_the_other() {
    // What is read ahead may still be on its way at the end.
    let drop = drop_with(Some(Readahead::Random));
    for kind in ["threads", "two-rules"] {
        let folder = folder();
        let folder = folder.path();
        plan_for(folder, &[("reads_at", drop, None), ("reads", drop, None)]);
        assert_eq!(printed(&apply(folder, kind)), [0], "{kind}");
        let rule = first(folder);
        assert_eq!(number(&rule["stayed_pages"]), 0, "{rule:#}");
        // One for each 2 MiB of either, and how the kernel reads ahead.
        let hints = number(&rule["hints"]);
        assert!((4..=12).contains(&hints), "{kind}: {rule:#}");
    }
}

#[test]
fn what_has_no_page_cache_gets_no_hint() {
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None), ("writes", DROP, None)]);
    let in_memory = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let in_memory = in_memory.path().join("data");
    write_file(&in_memory, 2);
    let in_memory = in_memory.display().to_string();
    for (kind, data) in [
        ("pipe", "data"),
        ("socket", "data"),
        ("direct", "data"),
        ("whole", in_memory.as_str()),
    ] {
        let ended = apply_to(folder, kind, data).expect_told(&["where hints mean nothing"]);
        let rule = first(folder);
        assert_eq!(number(&rule["hints"]), 0, "{kind}");
        assert_eq!(number(&rule["refusals"]), 0, "{kind}");
        assert_eq!(number(&rule["hintless_files"]), 1, "{kind}");
        assert!(number(&rule["bytes"]) >= 65536, "{kind}");
        assert!(
            kind != "whole" || printed(&ended) == [FILE_PAGES],
            "it lives there"
        );
    }
}

#[test]
fn a_descriptor_that_meant_no_file_is_noticed_when_it_means_one() {
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None)]);
    for kind in ["pclose", "freopen"] {
        assert_eq!(printed(&apply(folder, kind)), [0, 0], "{kind}");
    }
    // Behind the hooks' backs: only now and then is it looked at.
    let raw = printed(&apply(folder, "raw-close"));
    assert_eq!(raw[0], 0);
    assert!((1..=1024).contains(&raw[1]), "{raw:?}");
}

/// An overlay over a folder, as containers have them. Unmounted when dropped.
pub(crate) struct Overlay {
    _machine: Machine,
    beneath: TempDir,
    layers: TempDir,
}

impl Overlay {
    /// `None`: it is not permitted without root; that is told. A kernel without overlayfs fails the test.
    pub(crate) fn mount() -> Option<Self> {
        let machine = Machine::reserve()?;
        let mounted = Self {
            _machine: machine,
            beneath: folder(),
            layers: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"),
        };
        let layer = |name: &str| mounted.layers.path().join(name).display().to_string();
        for name in ["upper", "work", "merged"] {
            fs::create_dir(layer(name)).expect("a folder");
        }
        let beneath = mounted.beneath.path().display();
        let (upper, work) = (layer("upper"), layer("work"));
        let options = format!("lowerdir={beneath},upperdir={upper},workdir={work}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "overlay", "overlay", "-o", &options]);
        let status = mount.arg(layer("merged")).status().expect("it runs");
        assert!(status.success(), "{options}");
        Some(mounted)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.layers.path().join("merged")
    }

    /// Pages in the page cache of the file that is read, which is a copy once it was opened to be written to.
    pub(crate) fn pages_beneath(&self, name: &str) -> u64 {
        let copy = self.layers.path().join("upper").join(name);
        let file = fs::File::open(copy).or_else(|_| fs::File::open(self.beneath.path().join(name)));
        cached_pages(file.expect("open"), 0..24 << 20).expect("told")
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn files_of_overlayfs_are_dropped_too() {
    let Some(overlay) = Overlay::mount() else {
        return;
    };
    let folder = overlay.path();
    plan_for(&folder, &[("reads", DROP, None)]);
    apply(&folder, "whole").expect_told(&["pages gone, 0 stayed"]);
    assert_eq!(number(&first(&folder)["gone_pages"]), FILE_PAGES);
    assert_eq!(overlay.pages_beneath("data"), 0);
}

#[test]
fn of_what_cannot_be_looked_at_on_overlayfs_nothing_is_dropped_and_that_is_told() {
    let Some(overlay) = Overlay::mount() else {
        return;
    };
    let folder = overlay.path();
    plan_for(&folder, &[("writes", DROP, None)]);
    apply(&folder, "write-only").expect_told(&["or not permitted, where hints mean nothing"]);
    let rule = first(&folder);
    let told = ["hintless_files", "refusals", "errno", "gone_pages"];
    let told = told.map(|key| number(&rule[key]));
    let denied = 13;
    assert_eq!(told, [1, 1, denied, 0], "{rule:#}");
}

/// A file system in user space (FUSE) over a folder. Unmounted when dropped.
pub(crate) struct UserSpace {
    beneath: TempDir,
    place: TempDir,
}

impl UserSpace {
    /// `None`: this kernel has none, or it is not permitted; that is told.
    pub(crate) fn mount() -> Option<Self> {
        if fs::File::open("/dev/fuse").is_err() {
            println!("skipped: /dev/fuse cannot be opened here");
            return None;
        }
        let mounted = Self {
            beneath: folder(),
            place: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"),
        };
        let folders = [mounted.beneath.path(), mounted.place.path()];
        let status = Command::new("bindfs").args(folders).status();
        assert!(
            status.expect("scripts/setup --tests installs it").success(),
            "{folders:?}"
        );
        Some(mounted)
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }
}

impl Drop for UserSpace {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn files_of_fuse_are_dropped_too() {
    let Some(mounted) = UserSpace::mount() else {
        return;
    };
    let folder = mounted.path();
    plan_for(folder, &[("reads", DROP, None)]);
    let whole = apply(folder, "whole").expect_told(&["pages gone, 0 stayed"]);
    assert_eq!(sum(&whole), 2 * 24 * MIB as u64);
    assert_eq!(number(&first(folder)["gone_pages"]), FILE_PAGES);
}

#[test]
fn reading_ahead_is_given_back_where_others_use_the_descriptor() {
    let folder = folder();
    let folder = folder.path();
    let random = IoAction::Readahead(Readahead::Random);
    plan_for(folder, &[("reads_at", random, None)]);
    assert_eq!(printed(&apply(folder, "given-back")), [1, 1, 1]);
    assert_eq!(number(&first(folder)["hints"]), 2);
    assert_eq!(printed(&apply(folder, "shared")), [1]);
    assert_eq!(printed(&apply(folder, "forks")), [1, 1]);
    assert_eq!(printed(&apply(folder, "stays-open")), [1, 1, 1, 1]);
    assert_eq!(printed(&apply(folder, "starts")), [1]);
}

#[test]
fn patterns_choose_files_and_the_programs_own_advice_wins() {
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, Some("*.log"))]);
    assert_eq!(printed(&apply(folder, "whole")), [FILE_PAGES]);
    let rule = first(folder);
    assert_eq!(rule["unmatched"], "nothing was read or written there");
    assert_eq!(rule["files_pattern"], "*.log");
    plan_for(folder, &[("reads", DROP, Some("d?ta"))]);
    assert_eq!(printed(&apply(folder, "whole")), [0]);
    let once =
        apply(folder, "once").expect_told(&["left to the program, which advises them itself"]);
    assert_eq!(printed(&once), [1]);
    let rule = first(folder);
    assert_eq!(
        (number(&rule["hints"]), number(&rule["hintless_files"])),
        (0, 0),
        "{rule:#}"
    );
    // To ask for what comes next is no word about the file.
    assert_eq!(printed(&apply(folder, "asks")), [0]);
    assert_eq!(number(&first(folder)["taken_over"]), 0);
}

#[test]
fn who_says_how_to_read_ahead_has_said_nothing_of_what_is_used_again() {
    let folder = folder();
    let folder = folder.path();
    let random = Some(Readahead::Random);
    for (readahead, taken_over) in [(None, 0), (random, 1)] {
        plan_for(folder, &[("reads", drop_with(readahead), None)]);
        assert_eq!(printed(&apply(folder, "own")), [0]);
        let rule = first(folder);
        assert_eq!(number(&rule["gone_pages"]), FILE_PAGES, "{rule:#}");
        assert_eq!(number(&rule["taken_over"]), taken_over, "{rule:#}");
    }
    let burst_bytes = 64 << 10;
    for action in [
        IoAction::Readahead(Readahead::Random),
        IoAction::WillNeed { burst_bytes },
    ] {
        plan_for(folder, &[("reads_at", action, None)]);
        assert_eq!(printed(&apply(folder, "advised")), [1]);
        let rule = first(folder);
        assert_eq!(number(&rule["hints"]), 0, "{rule:#}");
        assert_eq!(number(&rule["taken_over"]), 1, "{rule:#}");
    }
}

#[test]
fn reading_ahead_that_is_of_no_use_beside_dropping_ends_and_dropping_goes_on() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    // The worst that can be told to who reads in order.
    let readahead = Some(Readahead::Random);
    plan_for(folder, &[("reads", drop_with(readahead), None)]);
    // With less memory than it would take to keep what is read again.
    let arguments = "apply plan.toml --memory 40M --json outcome.json -- ./hints again data other";
    let again = run(folder, &arguments.split(' ').collect::<Vec<_>>())
        .expect_code(0)
        .expect_told(&["reads ahead as usual again: the calls"]);
    assert_eq!(printed(&again), [0]);
    let rule = first(folder);
    assert!(rule["readahead_withdrawn"].is_string(), "{rule:#}");
    assert!(rule["withdrawn"].is_null(), "{rule:#}");
    // A page that something holds at that moment stays.
    let gone = number(&rule["gone_pages"]);
    assert!(
        (60 * (FILE_PAGES - 1)..=60 * FILE_PAGES).contains(&gone),
        "{rule:#}"
    );
}

#[test]
fn dropping_what_is_read_again_at_once_ends() {
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None)]);
    let told = apply(folder, "twice").expect_told(&["withdrawn: what it dropped was read again"]);
    assert_eq!(printed(&told), [FILE_PAGES]);
    let rule = first(folder);
    let (gone, missed) = (number(&rule["gone_pages"]), number(&rule["missed_pages"]));
    // In the second round once 16 MiB have come back.
    assert!(
        (FILE_PAGES + 4096..2 * FILE_PAGES).contains(&gone),
        "{rule:#}"
    );
    assert!((4096..=5120).contains(&missed), "{rule:#}");
}

#[test]
fn dropping_what_stays_ends() {
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None)]);
    let told =
        apply(folder, "mapped-too").expect_told(&["withdrawn: the pages stayed in the page cache"]);
    assert_eq!(printed(&told), [FILE_PAGES]);
    let rule = first(folder);
    let (gone, stayed) = (number(&rule["gone_pages"]), number(&rule["stayed_pages"]));
    // Eight chunks of 2 MiB in vain.
    assert!(gone < 256 && (4096..=4608).contains(&stayed), "{rule:#}");
}

/// What makes each of the runs of `evicted-bursts` cost more: nothing is read ahead of them, or far too much.
pub(crate) const HARMFUL: [IoAction; 2] = [
    IoAction::Readahead(Readahead::Random),
    IoAction::WillNeed {
        burst_bytes: 16 << 20,
    },
];

#[test]
fn hints_that_make_calls_slower_end() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    for action in HARMFUL {
        plan_for(folder, &[("reads_at", action, None)]);
        let told = apply(folder, "evicted-bursts").expect_told(&["withdrawn: the calls"]);
        assert_eq!(sum(&told), 2 * 400 * 16 * 4096, "{action:?}");
        let rule = first(folder);
        let calls = number(&rule["calls"]);
        let hints = number(&rule["hints"]);
        assert!(
            calls == 400 * 16 && (1..calls / 16).contains(&hints),
            "{action:?}: {rule:#}"
        );
    }
}

/// More call paths than can be known again: each through a function that is made at run time.
#[test]
fn a_flood_of_generated_code_is_followed_and_unharmed() {
    const PATHS: i64 = 20_000;
    let folder = folder();
    let folder = folder.path();
    compile(folder, "flood.c");
    fs::write(folder.join("one"), [1]).expect("written");
    let path = folder.join("flood");
    let file = ModuleFile::read(&path).expect("an ELF file");
    let rule = |name: &str, callers: Vec<Frame>| Rule {
        objects: None,
        name: name.to_owned(),
        place: SourcePlace::default(),
        target: Target::Io {
            path: callers,
            files: None,
        },
        action: Action::Io(DROP),
        why: "a test".to_owned(),
        predicted: None,
    };
    let reads = call_in(&file, "reads");
    let through_main = vec![reads.clone(), call_in(&file, "main")];
    write_plan(
        &path,
        vec![
            rule("reads", vec![reads]),
            rule("reads of main", through_main),
        ],
    );
    let paths = PATHS.to_string();
    let arguments = [
        "apply",
        "plan.toml",
        "--json",
        "outcome.json",
        "--",
        "./flood",
        &paths,
        "one",
    ];
    let ended = run(folder, &arguments).expect_code(0);
    assert_eq!(ended.stdout, format!("{PATHS}\n"), "it is unharmed");
    assert_eq!(number(&first(folder)["calls"]), PATHS);
}

#[test]
fn streams_writers_and_forked_children_are_hinted_too() {
    let folder = folder();
    let folder = folder.path();
    plan_for(
        folder,
        &[
            ("reads_stream", DROP, None),
            ("writes", DROP, None),
            ("reads", DROP, None),
        ],
    );
    let stream = apply(folder, "stream");
    assert_eq!(
        (sum(&stream), printed(&stream)),
        (2 * 24 * MIB as u64, vec![0])
    );
    apply(folder, "forked");
    assert_eq!(printed(&apply(folder, "written")), [0]);
}

#[test]
fn what_the_disk_has_not_taken_yet_does_not_withdraw_a_hint() {
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("writes", DROP, None)]);
    let tells = printed(&apply(folder, "files")) == [1];
    let rule = first(folder);
    let (stayed, unwritten) = (
        number(&rule["stayed_pages"]),
        number(&rule["unwritten_pages"]),
    );
    // Before Linux 6.5 nobody can tell.
    if tells {
        assert!(unwritten > 4096 && stayed == 0, "{rule:#}");
        assert!(rule["withdrawn"].is_null(), "{rule:#}");
    } else {
        assert_eq!(unwritten, 0, "{rule:#}");
    }
}

/// So that a program that the test starts may have so many files open. Its own soft limit is left to it.
pub(crate) fn allow_open_files(wanted: u64) {
    use rustix::process::Resource::Nofile;
    let mut limit = rustix::process::getrlimit(Nofile);
    if limit.maximum.is_some_and(|most| most < wanted) {
        limit.maximum = Some(wanted);
        rustix::process::setrlimit(Nofile, limit)
            .expect("ten thousand open files need root, or ulimit -Hn 11000");
    }
}

#[test]
fn ten_thousand_open_files_are_followed() {
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None)]);
    allow_open_files(11_000);
    assert_eq!(printed(&apply(folder, "many")), [10_000]);
    assert_eq!(number(&first(folder)["files"]), 10_000);
}

#[test]
fn nothing_is_cached_where_the_kernel_can_do_without() {
    let folder = folder();
    let folder = folder.path();
    plan_for(
        folder,
        &[("reads", IoAction::DontCache { readahead: None }, None)],
    );
    let ended = apply(folder, "whole");
    assert_eq!(sum(&ended), 2 * 24 * MIB as u64);
    let rule = first(folder);
    // Linux 6.14; else it says so, and reads as ever.
    if number(&rule["refusals"]) == 0 {
        assert!(printed(&ended)[0] < FILE_PAGES / 4, "{}", ended.stdout);
    } else {
        assert_eq!(number(&rule["refusals"]), 1);
        assert_eq!(number(&rule["hintless_files"]), 1);
    }
}

#[test]
fn calls_on_several_buffers_leave_nothing_either() {
    let folder = folder();
    let folder = folder.path();
    let without_cache = IoAction::DontCache { readahead: None };
    plan_for(folder, &[("reads_halves", without_cache, None)]);
    let ended = apply(folder, "halves");
    assert_eq!(sum(&ended), 2 * 24 * MIB as u64);
    let rule = first(folder);
    // Linux 6.14; else it says so.
    if number(&rule["refusals"]) == 0 {
        assert!(printed(&ended)[0] < FILE_PAGES / 4, "{}", ended.stdout);
        assert!(
            number(&rule["gone_pages"]) > 0,
            "it was looked at: {rule:#}"
        );
    } else {
        assert_eq!(number(&rule["hintless_files"]), 1, "{rule:#}");
    }
}

#[test]
fn what_is_read_after_the_position_was_moved_is_dropped_where_it_is() {
    let folder = folder();
    let folder = folder.path();
    let readahead = Some(Readahead::Random);
    plan_for(folder, &[("reads", drop_with(readahead), None)]);
    assert_eq!(printed(&apply(folder, "seeks")), [0]);
    assert_eq!(number(&first(folder)["gone_pages"]), 2 * 16);
}

#[test]
fn a_file_of_another_user_is_left_alone_and_ones_own_is_dropped() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    let nobody = Some(65534);
    std::os::unix::fs::chown(folder, nobody, nobody).expect("given");
    write_file(&folder.join("other"), 3);
    std::os::unix::fs::chown(folder.join("other"), nobody, nobody).expect("given");
    plan_for(folder, &[("reads", DROP, None)]);
    let arguments = "apply plan.toml --json outcome.json -- ./hints foreign data other";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let mut command = command(folder, &arguments);
    command.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
    command.env("SUDO_USER", "nobody");
    let told = start(command)
        .end()
        .expect_code(0)
        .expect_told(&["or not permitted, where hints mean nothing"]);
    assert_eq!(printed(&told), [0]);
    let rule = first(folder);
    assert_eq!(number(&rule["gone_pages"]), FILE_PAGES, "{rule:#}");
    assert_eq!(
        (number(&rule["files"]), number(&rule["hintless_files"])),
        (1, 1),
        "{rule:#}"
    );
    assert_eq!(
        (number(&rule["refusals"]), &rule["errno"]),
        (1, &Value::from(1)),
        "{rule:#}"
    );
    assert!(rule["withdrawn"].is_null(), "{rule:#}");
}

#[test]
fn what_the_kernel_refuses_it_refuses_under_a_rule_too() {
    let folder = folder();
    let folder = folder.path();
    let without_cache = IoAction::DontCache { readahead: None };
    plan_for(
        folder,
        &[
            ("writes_at", without_cache, None),
            ("reads_at", without_cache, None),
        ],
    );
    let page = 4096;
    assert_eq!(
        printed(&apply(folder, "nowhere")),
        [-1, -1, 0, 2, -1, page],
        "nothing is written or read, and the descriptor stays where it is"
    );
    let rule = first(folder);
    let unsupported = "the kernel or the file system does not have it";
    assert!(
        rule["withdrawn"].is_null() || rule["withdrawn"] == unsupported,
        "{rule:#}"
    );
    assert_eq!(number(&rule["bytes"]), page);
}

#[test]
fn a_run_of_calls_on_several_buffers_is_asked_for_once() {
    let folder = folder();
    let folder = folder.path();
    let run = IoAction::WillNeed {
        burst_bytes: 64 << 10,
    };
    plan_for(folder, &[("reads_vector", run, None)]);
    apply(folder, "vectors");
    let rule = first(folder);
    assert_eq!(number(&rule["calls"]), 32);
    assert_eq!(number(&rule["asked_pages"]), 2 * 16, "{rule:#}");
    // Nor more often because two threads are at it.
    plan_for(folder, &[("reads_at", run, None)]);
    apply(folder, "bursts");
    let rule = first(folder);
    assert_eq!(number(&rule["calls"]), 32);
    assert_eq!(number(&rule["asked_pages"]), 2 * 16, "{rule:#}");
}

#[test]
fn rules_about_io_are_checked_as_the_others_are() {
    let folder = folder();
    let folder = folder.path();
    plan_for(
        folder,
        &[(
            "reads",
            IoAction::WillNeed { burst_bytes: 65536 },
            Some("d*"),
        )],
    );
    let good = fs::read_to_string(folder.join("plan.toml")).expect("read");
    for (from, to, words) in [
        (
            "\"willneed\"",
            "\"wilneed\"",
            "there is no action \"wilneed\" for I/O",
        ),
        (
            "burst_bytes = 65536",
            "burst_bytes = 0",
            "must be more than 0; type: burst_bytes = ",
        ),
        (
            "burst_bytes = 65536",
            "burst_bytes = 65536\nkeep_bytes = 65536",
            "means nothing with action = \"willneed\"",
        ),
        (
            "\"willneed\"\nburst_bytes = 65536",
            "\"keep\"\nkeep_bytes = -1",
            "keep_bytes",
        ),
        (
            "burst_bytes = 65536",
            "burst_bytes = 65536\nlead_bytes = 65536",
            "there is no such key",
        ),
        ("burst_bytes = 65536", "", "must know how long they are"),
        (
            "\"willneed\"",
            "\"drop\"",
            "means nothing with action = \"drop\"",
        ),
        (
            "burst_bytes = 65536",
            "burst_bytes = 65536\nreadahead = \"random\"",
            "means nothing with",
        ),
        ("files = \"d*\"", "files = \"\"", "names nothing"),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(folder.join("plan.toml"), good.replacen(from, to, 1)).expect("written");
        let arguments = [
            "apply",
            "plan.toml",
            "--",
            "./hints",
            "pipe",
            "data",
            "other",
        ];
        run(folder, &arguments).expect_refusal(125, &["plan.toml:", words]);
    }
}

#[test]
fn the_victims_latency_is_compared_and_one_that_tells_none_is_refused() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None)]);
    let compare = |victim: &str| {
        let mut arguments: Vec<&str> =
            "compare plan.toml --memory 64M --runs 1 --warm-up 0 --no-unlimited --json"
                .split(' ')
                .collect();
        arguments.extend([
            "--victim", victim, "--", "./hints", "whole", "data", "other",
        ]);
        run(folder, &arguments)
    };
    fs::write(
        folder.join("victim"),
        "trap 'echo p50_us=2 p99_ms=3; exit' TERM\necho ready\nwhile :; do sleep 0.01; done\n",
    )
    .expect("written");
    let told = compare("sh ./victim").json();
    for arm in 0..2 {
        let victim = &told["arms"][arm]["victim"][0];
        assert_eq!(number(&victim["half_ns"]), 2000, "{told}");
        assert_eq!(number(&victim["p99_ns"]), 3_000_000);
        assert!(victim["p999_ns"].is_null());
    }
    // Whatever the shell makes of it, and however much it says.
    fs::write(
        folder.join("chatty"),
        "trap 'yes chatter | head -n 20000; printf \"\\377\\n\"; echo still $SAID, ; exit' TERM\n\
         echo p99_us=1\nwhile :; do sleep 0.01; done\n",
    )
    .expect("written");
    for command in [
        "cd . && SAID=p99_us=9 sh ./chatty",
        "SAID=p99_us=9 sh ./chatty | cat",
    ] {
        let told = compare(command).json();
        let victim = &told["arms"][0]["victim"][0];
        assert_eq!(number(&victim["p99_ns"]), 9000, "{command}: {told}");
    }
    let silent = compare("sh -c 'echo ready; exec sleep 100'");
    assert_eq!(silent.code, Some(125));
    silent.expect_told(&["it told no latencies", "p99_us=NUMBER"]);
    machine.assert_restored();
}
