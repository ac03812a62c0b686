//! Hints for I/O from outside, on processes that run already: the same as from inside, and what only happens there.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use super::hints::DROP;
use super::hints::FILE_PAGES;
use super::hints::HARMFUL;
use super::hints::MIB;
use super::hints::Overlay;
use super::hints::UserSpace;
use super::hints::allow_open_files;
use super::hints::folder;
use super::hints::number;
use super::hints::plan_for;
use super::hints::printed;
use super::hints::sum;
use super::hints::sum_of;
use super::hints::write_file;
use crate::common::command::Ended;
use crate::common::command::Running;
use crate::common::command::command;
use crate::common::command::record;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::limited::Limited;
use crate::common::machine::Machine;
use crate::common::programs::compile;
use crate::common::programs::compile_go;
use crate::common::programs::compile_java;
use crate::common::programs::compile_with;
use crate::common::within;
use pagewise_host::family;
use pagewise_host::open_file;
use pagewise_host::process;
use pagewise_plan::IoAction;
use pagewise_plan::Readahead;
use rustix::fs::Advice;
use rustix::process::Signal;
use serde_json::Value;

/// `./hints KIND FILE OTHER`, which begins once the file `go` is there.
fn waiting(folder: &Path, words: &[&str]) -> Running {
    start(that_waits(folder, words))
}

fn that_waits(folder: &Path, words: &[&str]) -> Command {
    let mut program = Command::new(folder.join("hints"));
    program
        .args(words)
        .current_dir(folder)
        .env("HINTS_WAIT", "go");
    program
}

fn pid(program: &Running) -> String {
    program.pid().to_string()
}

fn enforcing(folder: &Path, pids: &[String]) -> Command {
    let pids = pids.join(",");
    let arguments = [
        "apply",
        "plan.toml",
        "--json",
        "outcome.json",
        "--pid",
        &pids,
    ];
    command(folder, &arguments)
}

/// The same by root without the capability to trace any process.
fn without_tracing(command: &Command) -> Command {
    let mut limited = Command::new("setpriv");
    limited.args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.current_dir(command.get_current_dir().expect("a folder"));
    for (name, value) in command.get_envs() {
        value.map(|value| limited.env(name, value));
    }
    limited
}

/// `pagewise apply plan.toml --pid ...`, in force.
struct Enforcer {
    child: Child,
    lines: Vec<String>,
    rest: BufReader<std::process::ChildStderr>,
}

impl Enforcer {
    fn start(folder: &Path, pids: &[String]) -> Self {
        Self::started_by(enforcing(folder, pids))
    }

    fn started_by(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut rest = BufReader::new(child.stderr.take().expect("piped"));
        let mut first = String::new();
        rest.read_line(&mut first).expect("read");
        assert!(first.contains("rules in force on"), "{first}");
        Self {
            child,
            lines: vec![first],
            rest,
        }
    }

    /// Waits for its end: what it said.
    fn end(mut self) -> Vec<String> {
        let ended = within(Duration::from_secs(30), || {
            self.child.try_wait().expect("waited").is_some()
        });
        assert!(ended, "it goes on");
        self.lines
            .extend(self.rest.lines().map(|line| line.expect("read")));
        let code = self.child.wait().expect("waited").code();
        assert_eq!(code, Some(0), "{:#?}", self.lines);
        assert!(!self.lines.iter().any(|line| line.contains("panicked")));
        self.lines
    }

    /// Processor time that it has used.
    fn processor_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("it runs");
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let fields = fields.split_whitespace().skip(11).take(2);
        fields
            .map(|ticks| ticks.parse::<u64>().expect("a number"))
            .sum()
    }

    fn interrupt(self) -> Vec<String> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, Signal::INT).expect("sent");
        self.end()
    }
}

fn outcome(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("outcome.json")).expect("written");
    serde_json::from_str(&text).expect("JSON")
}

/// Runs these to their ends under one enforcer.
fn enforce(folder: &Path, kinds: &[&[&str]]) -> Vec<Ended> {
    let programs: Vec<Running> = kinds.iter().map(|words| waiting(folder, words)).collect();
    let pids: Vec<String> = programs.iter().map(pid).collect();
    let enforcer = Enforcer::start(folder, &pids);
    fs::write(folder.join("go"), "").expect("written");
    let ended = programs.into_iter().map(Running::end);
    let ended = ended.map(|ended| ended.expect_code(0)).collect();
    enforcer.end();
    fs::remove_file(folder.join("go")).expect("removed");
    ended
}

/// The same, again until at least so many pages went by the first rule: a program of a few milliseconds may have ended before an
/// enforcer without a processor has seen it.
fn enforce_in_time(folder: &Path, kinds: &[&[&str]], least: i64) -> (Vec<Ended>, Value) {
    const PATIENCE: Duration = Duration::from_secs(20);
    let began = Instant::now();
    loop {
        let ended = enforce(folder, kinds);
        let told = outcome(folder);
        if number(&told["io"][0]["gone_pages"]) >= least || began.elapsed() > PATIENCE {
            return (ended, told);
        }
    }
}

#[test]
fn a_scan_leaves_nothing_behind_but_what_was_there() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None)]);
    let whole = &enforce(folder, &[&["whole", "data", "other"]])[0];
    assert_eq!((sum(whole), printed(whole)), (2 * 24 * MIB as u64, vec![0]));
    let told = outcome(folder);
    let rule = &told["io"][0];
    assert_eq!(number(&rule["gone_pages"]), FILE_PAGES, "{told:#}");
    assert_eq!(
        (number(&rule["calls"]), number(&rule["files"])),
        (385, 1),
        "{told:#}"
    );
    assert_eq!(number(&rule["bytes"]), 24 * MIB as i64);
    assert!(
        rule["withdrawn"].is_null() && rule["errno"].is_null(),
        "{told:#}"
    );
    assert!(
        told["exit_code"].is_null() && told["processes"] == 1,
        "{told:#}"
    );
    for lost in ["lost_calls", "lost_files", "lost_processes"] {
        assert_eq!(told["outside"][lost], 0, "{told:#}");
    }

    let half = &enforce(folder, &[&["half", "data", "other"]])[0];
    assert_eq!(printed(half), [1024, 0, 0], "what was there stays");
    let others = number(&outcome(folder)["io"][0]["others_pages"]);
    assert!(
        others > 512,
        "{others}: but for what the kernel itself evicts"
    );
}

#[test]
fn what_is_read_ahead_for_one_is_not_dropped_at_the_end_of_another() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None), ("reads_some", DROP, None)]);
    write_file(&folder.join("other"), 2);
    let ended = enforce(
        folder,
        &[
            &["ends-beside", "data", "none"],
            &["asks-nothing", "other", "none"],
        ],
    );
    // Pages of the first 16 MiB in memory: what was read in four pieces of 16 pages and ahead, and a while later.
    for ended in &ended {
        let pages = printed(ended);
        assert!(pages[0] > 64 && pages[1] >= pages[0], "{pages:?}");
    }
    let told = outcome(folder);
    assert!(number(&told["io"][0]["gone_pages"]) > 0, "{told:#}");
}

#[test]
fn files_of_overlayfs_are_dropped_too() {
    let Some(overlay) = Overlay::mount() else {
        return;
    };
    let folder = overlay.path();
    plan_for(&folder, &[("reads", DROP, None)]);
    enforce(&folder, &[&["whole", "data", "other"]]);
    let told = outcome(&folder);
    assert_eq!(number(&told["io"][0]["gone_pages"]), FILE_PAGES, "{told:#}");
    assert_eq!(overlay.pages_beneath("data"), 0);
}

/// Nothing shows how such files read ahead: it stays as it is.
#[test]
fn how_files_of_overlayfs_read_ahead_is_left_alone() {
    let Some(overlay) = Overlay::mount() else {
        return;
    };
    let folder = overlay.path();
    let random = IoAction::Readahead(Readahead::Random);
    plan_for(&folder, &[("reads_at", random, None)]);
    enforce(&folder, &[&["left-alone", "data", "other"]]);
    let ahead = overlay.pages_beneath("data");
    assert!(ahead > 2, "{ahead}");
    let told = outcome(&folder);
    let rule = &told["io"][0];
    assert_eq!(number(&rule["hints"]), 0, "{told:#}");
    assert_eq!(
        (number(&rule["files"]), number(&rule["hintless_files"])),
        (0, 1),
        "{told:#}"
    );
    // What is asked for ahead is of use there, too; how the file reads ahead is not changed beside.
    let burst_bytes = 64 << 10;
    plan_for(
        &folder,
        &[("reads_at", IoAction::WillNeed { burst_bytes }, None)],
    );
    enforce(&folder, &[&["left-alone", "data", "other"]]);
    let told = outcome(&folder);
    let rule = &told["io"][0];
    assert!(number(&rule["asked_pages"]) > 0, "{told:#}");
    let pages_of_a_hint = 15;
    assert_eq!(
        number(&rule["asked_pages"]),
        pages_of_a_hint * number(&rule["hints"]),
        "{told:#}"
    );
}

#[test]
fn a_process_with_a_debugger_is_hinted_too() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    compile(folder, "tracer.c");
    plan_for(folder, &[("reads", DROP, None)]);
    let program = waiting(folder, &["whole", "data", "other"]);
    let mut tracer = Command::new(folder.join("tracer"));
    tracer.arg(pid(&program));
    let tracer = start(tracer);
    let raw = program.pid().as_raw_nonzero().get().unsigned_abs();
    let is_traced = || pagewise_host::process::is_traced(raw) == Some(true);
    assert!(within(Duration::from_secs(10), is_traced));
    let enforcer = Enforcer::start(folder, &[pid(&program)]);
    fs::write(folder.join("go"), "").expect("written");
    assert_eq!(printed(&program.end().expect_code(0)), [0]);
    enforcer.end();
    tracer.end().expect_code(0);
    let told = outcome(folder);
    assert_eq!(number(&told["io"][0]["gone_pages"]), FILE_PAGES, "{told:#}");
}

#[test]
fn files_of_fuse_are_dropped_too() {
    let Some(mounted) = UserSpace::mount() else {
        return;
    };
    let folder = mounted.path();
    plan_for(folder, &[("reads", DROP, None)]);
    let (ended, told) = enforce_in_time(folder, &[&["whole", "data", "other"]], FILE_PAGES / 2);
    assert_eq!(sum(&ended[0]), 2 * 24 * MIB as u64);
    let gone = number(&told["io"][0]["gone_pages"]);
    // Its own rule: when a file is opened anew, FUSE forgets what it had of it.
    assert!((FILE_PAGES / 2..=FILE_PAGES).contains(&gone), "{told:#}");
}

#[test]
fn files_that_go_or_change_meanwhile_harm_nobody() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None), ("writes", DROP, None)]);
    let kinds = [
        "unlinked",
        "replaced",
        "truncated",
        "reused",
        "over",
        "forked",
        "written",
    ];
    let data: Vec<String> = kinds.iter().map(|kind| format!("{kind}.data")).collect();
    let other: Vec<String> = kinds.iter().map(|kind| format!("{kind}.other")).collect();
    let mut words = Vec::new();
    for ((kind, data), other) in kinds.iter().zip(&data).zip(&other) {
        write_file(&folder.join(data), 2);
        write_file(&folder.join(other), 3);
        words.push([*kind, data.as_str(), other.as_str()]);
    }
    let words: Vec<&[&str]> = words.iter().map(|words| &words[..]).collect();
    let ended = enforce(folder, &words);
    let whole = 2 * 24 * MIB as u64;
    for (ended, (expected_sum, cached)) in ended.iter().zip([
        (whole, vec![0]),
        // The new file of that name keeps its pages.
        (whole, vec![FILE_PAGES]),
        (2 * (100 * 65536 + 3 * MIB as u64), vec![0]),
        // What the descriptor means now is another's, and all of it was cached before.
        ((2 * 40 + 3 * 100) * 65536, vec![FILE_PAGES]),
        ((2 * 40 + 3 * 100) * 65536, vec![FILE_PAGES]),
    ]) {
        assert_eq!((sum(ended), printed(ended)), (expected_sum, cached));
    }
    assert_eq!(
        printed(&ended[6]),
        [0],
        "what was written is dropped, later"
    );
    assert!(number(&outcome(folder)["processes"]) >= 8, "the child, too");
}

#[test]
fn files_that_are_cut_while_they_are_hinted_are_read_as_ever_and_not_hinted_beyond_their_ends() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    // What one reads again and again is not to be dropped in the end: that is no matter of the other's.
    let rules = [
        ("reads", DROP, Some("data")),
        ("reads", DROP, Some("other")),
    ];
    plan_for(folder, &rules);
    write_file(&folder.join("other"), 2);
    let ended = enforce(
        folder,
        &[&["shrinks", "data", "none"], &["races", "other", "none"]],
    );
    assert_eq!(sum(&ended[0]), sum_of(40 * 65536));
    let [beyond, behind, left] = printed(&ended[0])[..] else {
        panic!("{}", ended[0].stdout);
    };
    assert_eq!((beyond, behind), (0, 0));
    // All that is left is what the last cut has left, if that was used.
    assert!(left <= 256, "{left}");
    assert_eq!(printed(&ended[1]), [1]);
    let told = outcome(folder);
    for rule in [&told["io"][0], &told["io"][1]] {
        assert_eq!(number(&rule["refusals"]), 0, "{told:#}");
    }
    assert!(told["io"][0]["withdrawn"].is_null(), "{told:#}");

    let burst_bytes = 64 << 10;
    write_file(&folder.join("data"), 2);
    plan_for(
        folder,
        &[("reads_at", IoAction::WillNeed { burst_bytes }, None)],
    );
    let ended = enforce(folder, &[&["last-run", "data", "none"]]);
    assert_eq!(printed(&ended[0])[1..], [0, 0]);
    let told = outcome(folder);
    let asked = number(&told["io"][0]["asked_pages"]);
    assert!(asked <= 3, "{told:#}");
}

#[test]
fn what_a_short_writer_leaves_goes_when_it_is_on_the_disk() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("writes", DROP, None)]);
    let (_, told) = enforce_in_time(folder, &[&["short", "written", "other"]], 9 << 8);
    assert_eq!(number(&told["io"][0]["gone_pages"]), 9 << 8, "{told:#}");
}

#[test]
fn reading_ahead_is_told_given_back_and_left_to_a_program_that_says_itself() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    let random = IoAction::Readahead(Readahead::Random);
    plan_for(
        folder,
        &[
            ("reads_at", random, None),
            ("reads", random, Some("advised")),
        ],
    );
    for name in ["advised", "twofold"] {
        write_file(&folder.join(name), 2);
    }
    let told = waiting(folder, &["told", "data", "ended"]);
    let advised = waiting(folder, &["advised", "advised", "other"]);
    let twofold = waiting(folder, &["told-by-another", "twofold", "other"]);
    let all = [pid(&told), pid(&advised), pid(&twofold)];
    let enforcer = Enforcer::start(folder, &all);
    fs::write(folder.join("go"), "").expect("written");
    assert_eq!(printed(&advised.end().expect_code(0)), [1]);
    assert_eq!(printed(&twofold.end().expect_code(0)), [1]);
    let ready = folder.join("ready");
    assert!(within(Duration::from_secs(20), || ready.exists()));
    let said = enforcer.interrupt();
    assert!(
        said.iter()
            .any(|line| line.contains("plan in force: 2 of 2 rules matched")),
        "{said:#?}"
    );
    // Whatever was told is taken back, and the program goes on.
    fs::write(folder.join("ended"), "").expect("written");
    assert_eq!(printed(&told.end().expect_code(0)), [1, 1, 1, 1]);
    let told = outcome(folder);
    assert!(number(&told["io"][0]["hints"]) >= 2, "{told:#}");
    assert_eq!(number(&told["io"][1]["taken_over"]), 1, "{told:#}");
    assert_eq!(number(&told["io"][1]["hints"]), 0, "{told:#}");
}

#[test]
fn what_was_told_is_taken_back_when_the_enforcer_is_killed() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    let random = IoAction::Readahead(Readahead::Random);
    plan_for(folder, &[("reads_at", random, None)]);
    let told = waiting(folder, &["told", "data", "ended"]);
    let mut enforcer = Enforcer::start(folder, &[pid(&told)]);
    let [keeper] = family::descendants(enforcer.child.id())[..] else {
        panic!("only the keeper");
    };
    fs::write(folder.join("go"), "").expect("written");
    let ready = folder.join("ready");
    assert!(within(Duration::from_secs(20), || ready.exists()));
    enforcer.child.kill().expect("killed");
    enforcer.child.wait().expect("ended");
    let has_ended = || process::stat(keeper).is_none_or(|stat| matches!(stat.state, 'Z' | 'X'));
    assert!(within(Duration::from_secs(20), has_ended));
    fs::write(folder.join("ended"), "").expect("written");
    assert_eq!(printed(&told.end().expect_code(0)), [1, 1, 1, 1]);
}

#[test]
fn what_a_child_s_use_has_made_of_an_open_file_ends_with_us_and_not_with_the_child() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    let random = IoAction::Readahead(Readahead::Random);
    plan_for(folder, &[("reads_at", random, None)]);
    let worker = waiting(folder, &["worker", "data", "ended"]);
    let enforcer = Enforcer::start(folder, &[pid(&worker)]);
    fs::write(folder.join("go"), "").expect("written");
    let ready = folder.join("ready");
    assert!(within(Duration::from_secs(20), || ready.exists()));
    // The end of the child is told of a little later than its parent knows.
    std::thread::sleep(Duration::from_millis(600));
    enforcer.interrupt();
    fs::write(folder.join("ended"), "").expect("written");
    assert_eq!(printed(&worker.end().expect_code(0)), [1, 1]);
}

#[test]
fn what_has_no_page_cache_gets_no_hint_and_ten_thousand_files_are_followed() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    let in_memory = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let in_memory = in_memory.path().join("data");
    write_file(&in_memory, 2);
    plan_for(folder, &[("reads", DROP, None)]);
    let in_memory = in_memory.display().to_string();
    write_file(&folder.join("direct"), 2);
    allow_open_files(11_000);
    let ended = enforce(
        folder,
        &[
            &["direct", "direct", "other"],
            &["pipe", "data", "other"],
            &["whole", &in_memory, "other"],
            &["many", "data", "other"],
            &["socket", "data", "other"],
        ],
    );
    assert_eq!(printed(&ended[2]), [FILE_PAGES], "it lives there");
    assert_eq!(printed(&ended[3]), [10_000]);
    let told = outcome(folder);
    let rule = &told["io"][0];
    assert_eq!(number(&rule["hintless_files"]), 2, "{told:#}");
    assert_eq!(number(&rule["refusals"]), 0, "{told:#}");
    assert!(number(&rule["calls"]) >= 10_000, "{told:#}");
}

#[test]
fn what_reads_pipes_and_sockets_only_is_told_to_be_none_of_ours() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None)]);
    enforce(
        folder,
        &[&["pipe", "data", "other"], &["socket", "data", "other"]],
    );
    let told = outcome(folder);
    let why = told["io"][0]["unmatched"].as_str().expect("a reason");
    assert!(why.contains("pipes, sockets"), "{why}");
}

#[test]
fn open_files_that_are_refused_in_the_middle_are_counted_and_the_program_goes_on() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None)]);
    // Who could do more than us would be none of ours from the beginning.
    let program = that_waits(folder, &["shuts-itself", "data", "other"]);
    let program = start(without_tracing(&program));
    let enforcer = Enforcer::started_by(without_tracing(&enforcing(folder, &[pid(&program)])));
    fs::write(folder.join("go"), "").expect("written");
    assert_eq!(sum(&program.end().expect_code(0)), 2 * 24 * MIB as u64);
    let said = enforcer.end();
    let told = outcome(folder);
    let rule = &told["io"][0];
    assert!(number(&rule["gone_pages"]) > 0, "before: {told:#}");
    assert!(number(&rule["refusals"]) > 0, "{told:#}");
    assert_eq!(number(&rule["errno"]), 1, "{told:#}");
    assert!(
        said.iter().any(|line| line.contains("refused")),
        "{said:#?}"
    );
}

#[test]
fn static_programs_are_recorded_planned_and_enforced() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    compile_with(folder, "hints.c", "hints", &["-O1", "-static"]);
    record(folder, "--io", "./hints whole data other").expect_code(0);
    run(folder, &["plan", "--min-io", "1M"]).expect_code(0);
    assert_eq!(
        printed(&enforce(folder, &[&["whole", "data", "other"]])[0]),
        [0]
    );
    let told = outcome(folder);
    let rules = told["io"].as_array().expect("rules");
    let gone = rules.iter().map(|rule| number(&rule["gone_pages"])).max();
    assert_eq!(gone, Some(FILE_PAGES), "{told:#}");
}

#[test]
fn go_programs_are_recorded_planned_and_enforced() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    compile_go(folder, "scan.go", "scan");
    record(folder, "--io", "./scan data").expect_code(0);
    let plan = run(folder, &["plan", "--min-io", "1M", "--json"]);
    let plan = plan.expect_code(0).json();
    let target = plan["rules"][0]["target"].as_str().expect("a rule");
    assert!(target.starts_with("main.scan (scan.go:"), "{plan:#}");

    // What is cached already would be left alone.
    let file = fs::File::open(folder.join("data")).expect("open");
    open_file::advise(&file, 0..0, Advice::DontNeed).expect("dropped");
    let mut program = Command::new(folder.join("scan"));
    program.args(["data", "go"]).current_dir(folder);
    let program = start(program);
    let enforcer = Enforcer::start(folder, &[pid(&program)]);
    fs::write(folder.join("go"), "").expect("written");
    program.end().expect_code(0);
    enforcer.end();
    let told = outcome(folder);
    assert_eq!(number(&told["io"][0]["gone_pages"]), FILE_PAGES, "{told:#}");
    assert_eq!(
        open_file::cached_pages(&file, 0..24 << 20),
        Ok(0),
        "{told:#}"
    );
}

/// Its code lies elsewhere each time: its calls are known by the library functions that it calls.
#[test]
fn java_programs_are_recorded_planned_and_enforced() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    compile_java(folder, "Scan.java");
    record(folder, "--io", "java -cp . Scan data").expect_code(0);
    let plan = run(folder, &["plan", "--min-io", "1M", "--json"]);
    let plan = plan.expect_code(0).json();
    assert_eq!(plan["rules"][0]["target"], "readBytes", "{plan:#}");

    let file = fs::File::open(folder.join("data")).expect("open");
    open_file::advise(&file, 0..0, Advice::DontNeed).expect("dropped");
    let mut program = Command::new("java");
    program
        .args(["-cp", ".", "Scan", "data", "go"])
        .current_dir(folder);
    let program = start(program);
    // Only what is there already is looked at for rules.
    let maps = format!("/proc/{}/maps", pid(&program));
    let has_library = || fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("libjava.so"));
    assert!(within(Duration::from_secs(30), has_library));
    let enforcer = Enforcer::start(folder, &[pid(&program)]);
    fs::write(folder.join("go"), "").expect("written");
    program.end().expect_code(0);
    enforcer.end();
    let told = outcome(folder);
    let gone = number(&told["io"][0]["gone_pages"]);
    // The first calls of a path may come before it is known.
    assert!(gone > FILE_PAGES * 9 / 10, "{told:#}");
}

/// The table of call paths holds 65,534.
#[test]
fn rules_are_found_when_the_table_of_call_paths_is_full() {
    const PATHS: u64 = 70_000;
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    compile(folder, "flood.c");
    plan_for(folder, &[("reads", DROP, None)]);
    fs::write(folder.join("one"), [1]).expect("written");
    let mut flood = Command::new("./flood");
    flood
        .args([&PATHS.to_string(), "one", "go"])
        .current_dir(folder);
    let flood = start(flood);
    let mut scan = Command::new("./hints");
    scan.args(["whole", "data", "other"])
        .current_dir(folder)
        .env("HINTS_WAIT", "go on");
    let scan = start(scan);
    let enforcer = Enforcer::start(folder, &[pid(&flood), pid(&scan)]);
    fs::write(folder.join("go"), "").expect("written");
    let flooded = flood.end().expect_code(0);
    assert_eq!(flooded.stdout, format!("{PATHS}\n"), "it is unharmed");
    // It has much to unwind first.
    let mut spent = None;
    let is_idle = || {
        std::thread::sleep(Duration::from_millis(300));
        let now = enforcer.processor_ticks();
        spent.replace(now) == Some(now)
    };
    assert!(within(Duration::from_secs(60), is_idle), "it never rests");
    fs::write(folder.join("go on"), "").expect("written");
    let scanned = scan.end().expect_code(0);
    let said = enforcer.end();
    assert_eq!(sum(&scanned), 2 * 24 * MIB as u64);
    let gone = number(&outcome(folder)["io"][0]["gone_pages"]);
    assert!(gone > FILE_PAGES * 9 / 10, "{said:#?}: {gone}");
}

#[test]
fn all_processes_of_a_cgroup_are_hinted() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    write_file(&folder.join("second"), 2);
    plan_for(folder, &[("reads", DROP, None)]);
    let mut limited = Limited::create("hinted");
    let name = limited.cgroup.path().file_name().expect("a name");
    let name = name.to_str().expect("text").to_owned();
    // One is there already, and one comes.
    limited.run(folder, "env HINTS_WAIT=go ./hints whole data other");
    let arguments = ["apply", "plan.toml", "--json", "outcome.json", "--cgroup"];
    let enforcer = Enforcer::started_by(command(
        folder,
        &[&arguments[..], &[name.as_str()]].concat(),
    ));
    limited.run(folder, "env HINTS_WAIT=go ./hints whole second other");
    // It is looked for now and then who has come.
    std::thread::sleep(Duration::from_secs(2));
    fs::write(folder.join("go"), "").expect("written");
    let said = enforcer.end();
    limited.end();
    machine.assert_restored();
    let told = outcome(folder);
    let gone = number(&told["io"][0]["gone_pages"]);
    assert!(gone > 2 * FILE_PAGES * 9 / 10, "{told:#} {said:#?}");
}

#[test]
fn hints_that_do_nothing_or_harm_are_withdrawn() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let [random, willneed] = HARMFUL;
    for (function, action, kind, why) in [
        ("reads", DROP, "twice", "what it dropped was read again"),
        (
            "reads",
            DROP,
            "mapped-too",
            "the pages stayed in the page cache",
        ),
        (
            "reads_at",
            random,
            "evicted-bursts",
            "the calls were no faster",
        ),
        (
            "reads_at",
            willneed,
            "evicted-bursts",
            "the calls were no faster",
        ),
    ] {
        let folder = folder();
        let folder = folder.path();
        plan_for(folder, &[(function, action, None)]);
        let program = waiting(folder, &[kind, "data", "other"]);
        let enforcer = Enforcer::start(folder, &[pid(&program)]);
        fs::write(folder.join("go"), "").expect("written");
        program.end().expect_code(0);
        let said = enforcer.end();
        let rule = &outcome(folder)["io"][0];
        let withdrawn = rule["withdrawn"].as_str().unwrap_or_default();
        assert!(withdrawn.starts_with(why), "{kind}: {rule:#} {said:#?}");
    }
}

#[test]
fn a_program_that_is_killed_while_hints_are_in_force_is_told_with_what_was_done() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    plan_for(folder, &[("reads", DROP, None)]);
    let words = ["for-ever", "data", "other"];
    let evict = || {
        let file = fs::File::open(folder.join("data")).expect("open");
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("evicted");
    };
    // From outside.
    evict();
    let program = waiting(folder, &words);
    let enforcer = Enforcer::start(folder, &[pid(&program)]);
    fs::write(folder.join("go"), "").expect("written");
    std::thread::sleep(Duration::from_secs(1));
    program.signal(Signal::KILL);
    let said = enforcer.end();
    assert_eq!(program.end().code, None);
    assert!(
        number(&outcome(folder)["io"][0]["gone_pages"]) > 0,
        "{said:#?}"
    );
    // From inside.
    evict();
    let arguments = [
        "apply",
        "plan.toml",
        "--json",
        "outcome.json",
        "--",
        "./hints",
    ];
    let arguments: Vec<&str> = arguments.into_iter().chain(words).collect();
    let applied = start(command(folder, &arguments));
    let child = applied.child_named("hints");
    std::thread::sleep(Duration::from_secs(1));
    rustix::process::kill_process(child, Signal::KILL).expect("sent");
    let ended = applied.end();
    assert_eq!(ended.code, Some(137), "{ended:#?}");
    assert!(
        number(&outcome(folder)["io"][0]["gone_pages"]) > 0,
        "{ended:#?}"
    );
}

#[test]
fn what_cannot_be_enforced_is_refused_or_told() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    let apply = |more: &[&str]| {
        let arguments: Vec<&str> = ["apply", "plan.toml"].iter().chain(more).copied().collect();
        run(folder, &arguments)
    };
    let program = waiting(folder, &["for-ever", "data", "other"]);
    let of_program = pid(&program);
    let of_program = of_program.as_str();
    plan_for(folder, &[]);
    apply(&["--pid", of_program]).expect_refusal(125, &["no rule about I/O", "apply PLAN -- CMD"]);
    plan_for(
        folder,
        &[
            ("reads", IoAction::DontCache { readahead: None }, None),
            ("writes", DROP, None),
        ],
    );
    apply(&["--pid", "999999999"]).expect_refusal(125, &["999999999", "no such process"]);
    apply(&["--pid", of_program, "--memory", "64M"])
        .expect_refusal(125, &["--memory is for a program that is started"]);
    let mut stranger = Command::new("setpriv");
    let words = ["--reuid", "65534", "--clear-groups", "sleep", "60"];
    let mut stranger = stranger.args(words).spawn().expect("setpriv");
    let pagewise = command(
        folder,
        &["apply", "plan.toml", "--pid", &stranger.id().to_string()],
    );
    assert!(within(Duration::from_secs(5), || {
        fs::read_to_string(format!("/proc/{}/comm", stranger.id()))
            .is_ok_and(|name| name == "sleep\n")
    }));
    let refused = start(without_tracing(&pagewise)).end();
    stranger.kill().expect("killed");
    stranger.wait().expect("waited");
    assert_eq!(refused.code, Some(125));
    assert!(
        refused
            .stderr
            .contains("does not let its open files be taken (pidfd_getfd"),
        "{refused:#?}"
    );

    // 438: pidfd_getfd.
    compile(folder, "without.c");
    for (errno, words) in [("1", "right to trace"), ("38", "Linux 5.6")] {
        let mut limited = Command::new(folder.join("without"));
        limited.args(["438", errno]).arg(pagewise.get_program());
        limited
            .args(["apply", "plan.toml", "--pid", of_program])
            .current_dir(folder);
        start(limited)
            .end()
            .expect_refusal(125, &[of_program, words]);
    }

    let enforcer = Enforcer::start(folder, &[of_program.to_owned()]);
    let second = ["apply", "plan.toml", "--pid", of_program];
    run(folder, &second).expect_refusal(125, &[of_program, "has a plan in force already"]);
    fs::write(folder.join("go"), "").expect("written");
    std::thread::sleep(Duration::from_millis(100));
    // In the middle of it all.
    program.signal(Signal::KILL);
    let said = enforcer.end();
    assert_eq!(program.end().code, None);
    assert!(
        said.iter()
            .any(|line| line.contains("of reads: rule unmatched: dontcache is a flag")),
        "{said:#?}"
    );
    assert!(
        said.iter()
            .any(|line| line.contains("plan in force: 0 of 2 rules matched")),
        "{said:#?}"
    );
}
