//! `pagewise hugepages` on programs of known memory. Needs root.

#[path = "../common/mod.rs"]
mod common;

mod many;

use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use common::command::Ended;
use common::command::command;
use common::command::run;
use common::command::start;
use common::limited::Limited;
use common::machine::Machine;
use common::programs::compile;
use common::within;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

const REGION: u64 = 2 << 20;
const WITHIN: Duration = Duration::from_secs(10);
/// How often the manager writes its status.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// A program of tests/programs/regions.c, which runs until it is told to end.
struct Regions {
    child: Child,
    /// Its number: of the child, or of what that has started.
    id: u32,
    address: u64,
    said: BufReader<std::process::ChildStdout>,
}

impl Regions {
    fn start(folder: &Path, words: &str) -> Self {
        Self::begin(&mut Command::new(folder.join("regions")), words)
    }

    /// As container runtimes do it: it has numbers of processes, mounts, a network and a host's name of its own.
    fn start_in_container(folder: &Path, words: &str) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["--net", "--uts", "--ipc"]);
        let mut started = Self::begin(command.arg(folder.join("regions")), words);
        let id = started.id;
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let only = children.expect("its children");
        started.id = only.trim().parse().expect("one number");
        started
    }

    fn begin(command: &mut Command, words: &str) -> Self {
        let mut child = command
            .args(words.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("read");
        let address = line.trim().strip_prefix("ready ").expect("it is ready");
        let address = u64::from_str_radix(address, 16).expect("an address");
        Self {
            id: child.id(),
            child,
            address,
            said,
        }
    }

    fn pid(&self) -> String {
        self.id.to_string()
    }

    /// Kilobytes of a line in smaps_rollup.
    fn kilobytes(&self, key: &str) -> u64 {
        let path = format!("/proc/{}/smaps_rollup", self.id);
        let text = std::fs::read_to_string(path).expect("it runs");
        let line = text
            .lines()
            .find(|line| line.starts_with(key))
            .expect("a line");
        let number = line.split_whitespace().nth(1).expect("a number");
        number.parse().expect("a number")
    }

    fn huge_regions(&self) -> u64 {
        self.kilobytes("AnonHugePages") / 2048
    }

    /// Tells it to end; it has checked every byte by then.
    fn assert_unharmed(mut self) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("read");
        assert_eq!(rest.trim(), "bad 0");
        assert!(self.child.wait().expect("waited").success());
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder() -> TempDir {
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "regions.c");
    folder
}

/// The manager with its state in the folder, so that others on this machine are not disturbed.
fn arguments<'text>(options: &'text str, pid: &'text str) -> Vec<&'text str> {
    let mut words = vec![
        "hugepages",
        "--state",
        "state",
        "--interval",
        "200ms",
        "--cpu",
        "100",
        "--rate",
        "1000",
    ];
    words.extend(options.split_whitespace());
    words.extend(["--pid", pid]);
    words
}

fn manage(folder: &TempDir, options: &str, program: &Regions) -> Ended {
    run(folder.path(), &arguments(options, &program.pid())).expect_code(0)
}

const PROMOTE_ALL: &str = "--once --policy linux";
const SPLIT_BLOAT: &str = "--once --policy none --high 0.2 --low 0.1";

fn scan(folder: &TempDir, program: &Regions) -> Value {
    let arguments = [
        "hugepages",
        "scan",
        "--window",
        "50ms",
        "--json",
        "--pid",
        &program.pid(),
    ];
    run(folder.path(), &arguments).expect_code(0).json()
}

/// Regions of the program's memory that are huge pages, counted from its beginning.
fn huge(scan: &Value, program: &Regions) -> Vec<u64> {
    let regions = scan["regions"].as_array().expect("regions");
    let huge = regions.iter().filter(|region| region["huge"] == true);
    huge.map(|region| (region["address"].as_u64().expect("an address") - program.address) / REGION)
        .collect()
}

#[test]
fn the_hottest_regions_become_huge_pages_wherever_they_lie() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "hot 48 8");
    let dry = manage(&folder, "--once --dry-run", &program);
    let lines: Vec<&str> = dry.stdout.lines().collect();
    assert!(
        lines[0].starts_with("would promote") && lines[0].contains("base pages accessed (bucket "),
        "{dry:#?}"
    );
    assert_eq!(program.huge_regions(), 0, "a dry run changes nothing");

    let ended = manage(
        &folder,
        "--once --max-promotions 4 --prometheus metrics.prom",
        &program,
    );
    let metrics = std::fs::read_to_string(folder.path().join("metrics.prom")).expect("written");
    assert!(
        metrics.contains("pagewise_hugepages_promotions_total 4\n"),
        "{metrics}"
    );
    assert!(ended.stderr.contains("4 promoted, 0 split"), "{ended:#?}");
    let scan = scan(&folder, &program);
    assert_eq!(huge(&scan, &program), [20, 21, 22, 23], "{scan:#}");
    assert_eq!(scan["huge_bytes"], 4 * REGION);
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn a_program_in_a_container_is_managed_from_outside_as_any_other() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start_in_container(folder.path(), "hot 48 8");
    let ended = manage(&folder, "--once --max-promotions 4", &program);
    assert!(ended.stderr.contains("4 promoted, 0 split"), "{ended:#?}");
    let scan = scan(&folder, &program);
    assert_eq!(huge(&scan, &program), [20, 21, 22, 23], "{scan:#}");
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn zeros_in_huge_pages_are_found_and_given_back_and_no_byte_changes() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "sparse 32");
    let ended = manage(&folder, PROMOTE_ALL, &program);
    assert!(ended.stderr.contains("16 promoted"), "{ended:#?}");
    assert_eq!(program.huge_regions(), 16);
    let before = program.kilobytes("Rss");
    let seen = scan(&folder, &program);
    assert_eq!(
        seen["zero_bytes_in_huge"],
        (32_u64 << 20) / 8 * 7,
        "{seen:#}"
    );
    assert_eq!(seen["regions"][0]["zero_pages"], 448);

    let ended = manage(&folder, SPLIT_BLOAT, &program);
    assert!(
        ended.stderr.contains("0 promoted, 16 split, 28 MiB freed"),
        "{ended:#?}"
    );
    assert_eq!(program.huge_regions(), 0);
    let freed = before - program.kilobytes("Rss");
    assert!(freed >= 28 << 10, "{freed} kB");
    let map = run(
        folder.path(),
        &[
            "hugepages",
            "scan",
            "--window",
            "50ms",
            "--pid",
            &program.pid(),
        ],
    );
    let map = map.expect_code(0);
    // None of the 16 regions is accessed; they may lie in two rows.
    let rows = map.stdout.lines().filter(|line| line.starts_with("  "));
    let dots = rows.map(|row| row.matches('.').count()).sum::<usize>();
    assert_eq!(dots, 16, "{map:#?}");
    program.assert_unharmed();
    machine.assert_restored();
}

/// As on a kernel whose BPF programs may not be loaded.
fn without_bpf(folder: &TempDir, arguments: &[&str]) -> Ended {
    let plain = command(folder.path(), arguments);
    let mut words = std::process::Command::new("setpriv");
    words
        .args(["--bounding-set", "-sys_admin,-bpf,-perfmon"])
        .args(["--inh-caps", "-sys_admin,-bpf,-perfmon"])
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(folder.path());
    start(words).end()
}

fn manage_without_bpf(folder: &TempDir, options: &str, program: &Regions) -> Ended {
    without_bpf(folder, &arguments(options, &program.pid()))
}

#[test]
fn without_bpf_a_scan_tells_what_is_in_memory_and_that_accesses_are_not_known() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "sparse 32");
    let pid = program.pid();
    let words = ["hugepages", "scan", "--html", "map.html", "--pid", &pid];
    let map = without_bpf(&folder, &words);
    if map.stderr.contains("PAGEMAP_SCAN") {
        map.expect_code(125);
        return program.assert_unharmed();
    }
    let map = map.expect_code(0).expect_told(&["not known"]);
    assert!(
        map.stdout.contains("which are accessed is not known"),
        "{map:#?}"
    );
    let page = std::fs::read_to_string(folder.path().join("map.html")).expect("written");
    assert!(page.contains("\"window_s\":null") || page.contains("\"window_s\": null"));
    let told = without_bpf(&folder, &["hugepages", "scan", "--json", "--pid", &pid]);
    let told = told.expect_code(0).json();
    assert!(
        told["window_s"].is_null() && told["coverage_buckets"].is_null(),
        "{told:#}"
    );
    let regions = told["regions"].as_array().expect("regions");
    let ours = regions.iter().filter(|region| {
        let address = region["address"].as_u64().expect("an address");
        (program.address..program.address + 16 * REGION).contains(&address)
    });
    let ours: Vec<&Value> = ours.collect();
    assert_eq!(ours.len(), 16, "{told:#}");
    for region in ours {
        assert_eq!(region["resident_pages"], 512, "{region}");
        assert!(region["accessed_pages"].is_null(), "{region}");
    }
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn without_bpf_there_are_the_policies_that_do_not_go_by_accesses() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "sparse 32");
    let refused = manage_without_bpf(&folder, "--once", &program);
    let refused = refused.expect_code(125);
    if refused.stderr.contains("PAGEMAP_SCAN") {
        // Before Linux 6.7 there is nothing in its place: all policies are refused, and nothing is touched.
        manage_without_bpf(&folder, PROMOTE_ALL, &program)
            .expect_code(125)
            .expect_told(&["PAGEMAP_SCAN"]);
        assert_eq!(program.huge_regions(), 0);
        return program.assert_unharmed();
    }
    refused.expect_told(&["BPF", "linux, freebsd and none"]);
    let ended = manage_without_bpf(&folder, PROMOTE_ALL, &program).expect_code(0);
    assert!(ended.stderr.contains("16 promoted"), "{ended:#?}");
    assert_eq!(program.huge_regions(), 16);
    let ended = manage_without_bpf(&folder, SPLIT_BLOAT, &program).expect_code(0);
    assert!(
        ended.stderr.contains("0 promoted, 16 split, 28 MiB freed"),
        "{ended:#?}"
    );
    assert_eq!(program.huge_regions(), 0);
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn what_holds_little_but_zeros_is_kept_while_memory_is_ample() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "sparse 8");
    manage(&folder, PROMOTE_ALL, &program);
    let ended = manage(
        &folder,
        "--once --policy none --high 99.9 --low 99.8",
        &program,
    );
    assert!(ended.stderr.contains("0 promoted, 0 split"), "{ended:#?}");
    let ended = manage(&folder, &format!("{SPLIT_BLOAT} --zeros 448"), &program);
    assert!(
        ended.stderr.contains("0 split"),
        "448 zeros are not more than 448: {ended:#?}"
    );
    assert_eq!(program.huge_regions(), 4);
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn zeros_in_huge_pages_are_told_while_memory_is_ample_and_left_there() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "sparse 8");
    manage(&folder, PROMOTE_ALL, &program);
    let pid = program.pid();
    let options = "--policy none --high 99.9 --low 99.8";
    let manager = start(command(folder.path(), &arguments(options, &pid)));
    let status = || {
        let words = ["hugepages", "status", "--state", "state", "--json"];
        let ended = run(folder.path(), &words);
        (ended.code == Some(0)).then(|| ended.json()["processes"][0].clone())
    };
    let all = 4 * REGION;
    let told = within(WITHIN, || {
        status().is_some_and(|process| process["zeros_counted_in_bytes"] == all)
    });
    let process = status().expect("it runs");
    assert!(told, "{process:#}");
    assert_eq!(process["zero_bytes_in_huge"], all / 8 * 7);
    manager.signal(Signal::INT);
    let ended = manager.end().expect_code(0);
    assert!(ended.stderr.contains("0 split"), "{ended:#?}");
    assert_eq!(program.huge_regions(), 4);
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn huge_pages_that_a_child_has_too_or_a_pipe_holds_stay_and_that_is_told() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    // The child has a try of its own.
    for (mode, tries) in [("twins 8", 8), ("gripped 8", 4)] {
        let program = Regions::start(folder.path(), mode);
        assert_eq!(program.huge_regions(), 4, "{mode}");
        let ended = manage(&folder, SPLIT_BLOAT, &program);
        let told =
            format!("0 split, 0 MiB freed, {tries} refused (not split (shared or pinned) {tries})");
        assert!(ended.stderr.contains(&told), "{mode}: {ended:#?}");
        assert_eq!(program.huge_regions(), 4, "{mode}");
        program.assert_unharmed();
    }
    machine.assert_restored();
}

/// As khugepaged does, whatever it was split for.
#[test]
fn what_others_make_huge_again_after_a_split_is_counted_and_left_alone_for_a_while() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "huge 32");
    let options = "--policy none --high 0.2 --low 0.1";
    let manager = start(command(folder.path(), &arguments(options, &program.pid())));
    assert!(within(WITHIN, || program.huge_regions() == 0));
    let pid = rustix::process::Pid::from_raw(program.child.id() as i32).expect("a pid");
    let held = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
    let held = held.expect("it runs");
    for region in 0..16 {
        let address = program.address + region * REGION;
        let collapsed = || pagewise_host::huge_pages::collapse(held.as_fd(), address).is_ok();
        assert!(within(WITHIN, collapsed), "{region}");
    }
    let status = || {
        let status = ["hugepages", "status", "--json", "--state", "state"];
        run(folder.path(), &status).expect_code(0).json()
    };
    let is_told = within(WITHIN, || status()["processes"][0]["undone"] == 16);
    assert!(is_told, "{:#}", status());
    // Several looks later, too.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(program.huge_regions(), 16);
    let table = run(folder.path(), &["hugepages", "status", "--state", "state"]);
    table.expect_code(0);
    manager.signal(Signal::INT);
    let ended = manager.end().expect_code(0);
    assert!(ended.stderr.contains("16 split"), "{ended:#?}");
    program.assert_unharmed();
    machine.assert_restored();
}

/// Of every other one a page is gone: what is left of it is no huge page any more, nor can become one.
#[test]
fn huge_pages_that_were_moved_and_punched_give_back_zeros_and_are_unharmed() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "remade 16");
    assert_eq!(program.huge_regions(), 4);
    let seen = scan(&folder, &program);
    assert_eq!(huge(&seen, &program), [1, 3, 5, 7], "{seen:#}");
    let ended = manage(&folder, PROMOTE_ALL, &program);
    assert!(ended.stderr.contains("0 promoted"), "{ended:#?}");
    let ended = manage(&folder, SPLIT_BLOAT, &program);
    assert!(ended.stderr.contains("4 split, 7 MiB freed"), "{ended:#?}");
    assert_eq!(program.huge_regions(), 0);
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn shared_locked_and_moved_memory_is_unharmed() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    // Of the moved one, every other region has a hole: it is no candidate.
    for (mode, told) in [
        // Each page would be copied.
        (
            "shared 8",
            "0 promoted, 0 split, 0 MiB freed, 8 refused (shared with another process 8)",
        ),
        ("locked 8", "4 promoted"),
        ("moved 16", "4 promoted"),
    ] {
        let program = Regions::start(folder.path(), mode);
        let ended = manage(&folder, PROMOTE_ALL, &program);
        assert!(ended.stderr.contains(told), "{mode}: {ended:#?}");
        manage(&folder, SPLIT_BLOAT, &program);
        if mode.starts_with("locked") {
            assert_eq!(program.huge_regions(), 4, "the kernel does not split them");
        }
        program.assert_unharmed();
    }
    machine.assert_restored();
}

#[test]
fn pinned_watched_and_interleaved_memory_is_unharmed() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    for (mode, huge_before, promoted, huge_in_the_end) in [
        // The kernel refuses them, as a page that something else holds may not move.
        ("pinned 8", 0, 0, 0),
        // They are left as they are, both ways.
        ("watched 8", 4, 0, 4),
        ("guarded 8", 4, 0, 4),
        ("interleaved 8", 0, 4, 0),
    ] {
        let program = Regions::start(folder.path(), mode);
        assert_eq!(program.huge_regions(), huge_before, "{mode}");
        let ended = manage(&folder, PROMOTE_ALL, &program);
        let told = format!(" {promoted} promoted");
        assert!(ended.stderr.contains(&told), "{mode}: {ended:#?}");
        let ended = manage(&folder, SPLIT_BLOAT, &program);
        assert_eq!(
            program.huge_regions(),
            huge_in_the_end,
            "{mode}: {ended:#?}"
        );
        program.assert_unharmed();
    }
    machine.assert_restored();
}

#[test]
fn a_limit_that_leaves_no_room_is_told_and_nobody_is_killed() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "sparse 16");
    {
        // What it has stays with the group it had; what is made of it would be charged to this one.
        let mut limited = Limited::create("full");
        let processes = limited.cgroup.path().join("cgroup.procs");
        std::fs::write(processes, program.pid()).expect("moved");
        limited.limit(1 << 20);
        let ended = manage(&folder, PROMOTE_ALL, &program);
        let told = "8 refused (limit of its cgroup reached 8)";
        assert!(ended.stderr.contains(told), "{ended:#?}");
        assert_eq!(program.huge_regions(), 0);
        limited.unlimit();
        let ended = manage(&folder, PROMOTE_ALL, &program);
        assert!(ended.stderr.contains("8 promoted"), "{ended:#?}");
        program.assert_unharmed();
    }
    machine.assert_restored();
}

#[test]
fn memory_is_short_where_the_limit_around_the_program_is_nearly_full() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    {
        // Its files are in the page cache then, and charged elsewhere: what can be dropped is no use of memory.
        let python = Command::new("python3").args(["-c", "import time"]).status();
        assert!(python.expect("it runs").success());
        let mut limited = Limited::create("short");
        let holder = "import time; memory = bytearray(32 << 20); time.sleep(60)";
        let pid = limited.start(folder.path(), &["python3", "-c", holder]);
        let usage = || limited.cgroup.usage().expect("known");
        assert!(within(WITHIN, || usage() > 32 << 20));
        let pid = pid.as_raw_nonzero().to_string();
        let look = || run(folder.path(), &arguments("--once --dry-run", &pid)).expect_code(0);
        let ended = look();
        assert!(!ended.stderr.contains("memory is short"), "{ended:#?}");
        let most = usage() / 10 * 11;
        limited.limit(most);
        let ended = look();
        assert!(ended.stderr.contains("memory is short"), "{ended:#?}");
    }
    machine.assert_restored();
}

#[test]
fn no_write_is_lost_while_regions_collapse_and_split() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let writers = Regions::start(folder.path(), "writers 16");
    let storm = Regions::start(folder.path(), "storm 8");
    let both = format!("{},{}", writers.pid(), storm.pid());
    let mut promoted = 0;
    for _ in 0..3 {
        for options in [PROMOTE_ALL, SPLIT_BLOAT] {
            let ended = run(folder.path(), &arguments(options, &both)).expect_code(0);
            promoted += u64::from(!ended.stderr.contains(" 0 promoted"));
        }
    }
    assert!(promoted > 0);
    writers.assert_unharmed();
    storm.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn a_manager_tells_how_it_is_refuses_a_second_and_ends_cleanly() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "hot 16");
    let pid = program.pid();
    let manager = start(command(
        folder.path(),
        &arguments("--prometheus metrics.prom", &pid),
    ));
    assert!(
        within(WITHIN, || program.huge_regions() == 8),
        "{}",
        program.huge_regions()
    );

    let second = run(folder.path(), &arguments("", &pid));
    second.expect_refusal(125, &["runs already", "hugepages status"]);
    let elsewhere = ["hugepages", "--state", "other", "--pid", &pid];
    let third = run(folder.path(), &elsewhere);
    third.expect_refusal(125, &[&pid, "another huge page manager"]);
    let ask = |words: &[&str]| {
        let mut arguments = vec!["hugepages", "status", "--state", "state"];
        arguments.extend(words);
        run(folder.path(), &arguments)
    };
    let told = within(WITHIN, || ask(&["--json"]).json()["promoted"] == 8);
    let status = ask(&["--json"]).expect_code(0).json();
    assert!(told, "{status:#}");
    assert_eq!(status["schema"], "pagewise.hugepages/1");
    assert_eq!(status["processes"][0]["huge_bytes"], 8 * REGION);
    assert_eq!(status["processes"][0]["comm"], "regions");
    assert!(status["cpu_percent"].as_f64().expect("a number") > 0.0);
    let table = ask(&[]).expect_code(0).stdout;
    assert!(
        table.contains("100 %") && table.contains("hawkeye-g"),
        "{table}"
    );
    let metrics = std::fs::read_to_string(folder.path().join("metrics.prom")).expect("written");
    let of = format!("pid=\"{pid}\",comm=\"regions\"");
    for line in [
        "pagewise_hugepages_promotions_total 8\n".to_owned(),
        format!("pagewise_hugepages_process_regions{{{of},least_pages=\"0\"}} 0\n"),
        format!("pagewise_hugepages_process_class_huge_bytes{{{of},class="),
    ] {
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }

    manager.signal(Signal::INT);
    let ended = manager.end().expect_code(0);
    assert!(ended.stderr.contains("8 promoted"), "{ended:#?}");
    ask(&[]).expect_refusal(125, &["no huge page manager runs"]);
    assert!(!folder.path().join("metrics.prom").exists());

    // One that is killed leaves its status behind: nobody takes it for one of now, and the next one starts.
    let killed = start(command(folder.path(), &arguments("", &pid)));
    assert!(within(WITHIN, || ask(&["--json"]).code == Some(0)));
    killed.signal(Signal::KILL);
    killed.end();
    assert!(folder.path().join("state/hugepages.json").exists());
    ask(&[]).expect_refusal(125, &["no huge page manager runs"]);
    manage(&folder, "--once", &program);
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn a_status_that_is_watched_is_told_again_and_again_and_ends_with_the_manager() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "hot 16");
    let manager = start(command(folder.path(), &arguments("", &program.pid())));
    let status = ["hugepages", "status", "--state", "state"];
    assert!(within(WITHIN, || run(folder.path(), &status).code == Some(0)));
    let watch = || {
        let words = [&status[..], &["--json", "--watch", "100ms"]].concat();
        start(command(folder.path(), &words))
    };
    let (first, second) = (watch(), watch());
    std::thread::sleep(Duration::from_secs(2));
    // Who looks on may stop that,
    first.signal(Signal::INT);
    let seen = first.end().expect_code(0);
    let times = seen.stdout.matches("pagewise.hugepages/1").count();
    assert!((2..=25).contains(&times), "{times}: {seen:#?}");
    // or there is no manager any more.
    manager.signal(Signal::INT);
    manager.end().expect_code(0);
    second
        .end()
        .expect_refusal(125, &["no huge page manager runs"]);
    program.assert_unharmed();
}

/// Bytes of memory that the machine has.
fn memory_of_machine() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("read");
    let line = text.lines().next().expect("a line");
    let kilobytes = line.split_whitespace().nth(1).expect("MemTotal");
    kilobytes.parse::<u64>().expect("a number") << 10
}

#[test]
fn adaptive_watermarks_go_down_when_memory_fills_fast() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "hot 16");
    let options = "--adaptive --high 98 --low 90";
    let manager = start(command(folder.path(), &arguments(options, &program.pid())));
    let high = || {
        let status = ["hugepages", "status", "--json", "--state", "state"];
        let status = run(folder.path(), &status);
        (status.code == Some(0)).then(|| status.json()["high_percent"].as_f64().expect("a number"))
    };
    assert!(
        within(WITHIN, || high().is_some_and(|high| high > 97.8)),
        "{:?}",
        high()
    );
    // A twentieth of all memory; of two looks, one sees half of the rise.
    let mebibytes = (memory_of_machine() / 20) >> 20;
    let grown = Regions::start(folder.path(), &format!("sparse {mebibytes}"));
    assert!(
        within(WITHIN, || high().is_some_and(|high| high < 97.5)),
        "{:?}",
        high()
    );
    grown.assert_unharmed();
    manager.signal(Signal::INT);
    manager.end().expect_code(0);
    program.assert_unharmed();
    machine.assert_restored();
}

/// Settings that come with Pagewise, from the root of the repository.
fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../etc")
        .join(name);
    std::fs::read_to_string(path).expect("it is there")
}

#[test]
fn the_service_that_is_shipped_starts_with_the_settings_that_are() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let unit = shipped("pagewise-hugepages.service");
    let command = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let command = command.expect("it starts something");
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let [.., "--config", settings] = words[..] else {
        panic!("{command}");
    };
    let name = Path::new(settings).file_name().expect("a file");
    let text = shipped(name.to_str().expect("text"));
    std::fs::write(folder.path().join(name), text).expect("written");
    let mut words: Vec<&str> = words[..words.len() - 1].to_vec();
    words.extend([
        name.to_str().expect("text"),
        "--dry-run",
        "--once",
        "--state",
        "state",
    ]);
    run(folder.path(), &words)
        .expect_code(0)
        .expect_told(&["nothing changed"]);
    // Its own folder for what it keeps, which the unit makes.
    assert!(unit.contains("RuntimeDirectory=pagewise"), "{unit}");
}

#[test]
fn nobody_clears_accessed_bits_while_another_one_looks_at_them() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "hot 4");
    let pid = program.pid();
    let watched = std::fs::File::open(format!("/proc/{pid}/pagemap")).expect("opened");
    watched.try_lock().expect("a look that lasts");

    let refused = run(folder.path(), &["hugepages", "scan", "--pid", &pid]);
    refused.expect_refusal(125, &[&pid, "another one looks at its accesses"]);
    let manager = start(command(folder.path(), &arguments("", &pid)));
    let status = || {
        let words = ["hugepages", "status", "--state", "state", "--json"];
        run(folder.path(), &words)
    };
    let waits = || {
        let status = status();
        status.code == Some(0)
            && status.json()["processes"][0]["left_alone"]
                .as_str()
                .is_some_and(|why| why.contains("another one looks"))
    };
    assert!(within(WITHIN, waits), "{:#?}", status());
    assert_eq!(program.huge_regions(), 0);
    let words = [
        "record",
        "--access",
        "--pid",
        &pid,
        "--duration",
        "6",
        "-o",
        "watched",
    ];
    let recorded = run(folder.path(), &words);
    assert!(
        recorded.stderr.contains("accesses of process"),
        "{recorded:#?}"
    );

    drop(watched);
    assert!(within(WITHIN, || program.huge_regions() > 0));
    manager.signal(Signal::INT);
    manager.end().expect_code(0);
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn a_service_manages_a_cgroup_by_its_file_and_the_next_one_takes_up_where_it_ended() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "hot 16");
    {
        let limited = Limited::create("service");
        let processes = limited.cgroup.path().join("cgroup.procs");
        std::fs::write(processes, program.pid()).expect("moved");
        let cgroup = limited.cgroup.path().display();
        let options = format!(
            "cgroup = \"{cgroup}\"\nstate = \"state\"\ninterval = \"200ms\"\ncpu = 100\nrate = 1000\n"
        );
        std::fs::write(folder.path().join("service.toml"), options).expect("written");
        let service = ["hugepages", "--config", "service.toml"];
        let told = |key: &str| {
            let status = ["hugepages", "status", "--json", "--state", "state"];
            let status = run(folder.path(), &status);
            (status.code == Some(0)).then(|| status.json()["processes"][0][key].clone())
        };
        let first = start(command(folder.path(), &service));
        assert!(within(WITHIN, || program.huge_regions() == 8));
        first.signal(Signal::TERM);
        let ended = first.end().expect_code(0);
        assert!(ended.stderr.contains("8 promoted"), "{ended:#?}");

        let second = start(command(folder.path(), &service));
        let knows = || told("huge_bytes") == Some((8 * REGION).into());
        assert!(within(WITHIN, knows), "{:?}", told("huge_bytes"));
        assert_eq!(told("promoted"), Some(0.into()));
        second.signal(Signal::TERM);
        second.end().expect_code(0);
        program.assert_unharmed();
    }
    machine.assert_restored();
}

#[test]
fn a_process_that_ends_meanwhile_ends_the_manager_and_nothing_else() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    for killed_after in [0, 700] {
        let mut program = Regions::start(folder.path(), "hot 64");
        let manager = start(command(
            folder.path(),
            &arguments("--policy linux", &program.pid()),
        ));
        std::thread::sleep(Duration::from_millis(killed_after));
        program.child.kill().expect("killed");
        program.child.wait().expect("waited");
        let ended = manager.end();
        // Before it was found it is a mistake of the user's; later it is the end of the work.
        if ended.code != Some(0) {
            // Between its end and our waiting for it, it is a zombie.
            let is_zombie = ended.stderr.contains("zombie");
            let why = if is_zombie {
                "it has ended"
            } else {
                "no such process"
            };
            ended.expect_refusal(125, &[why]);
        }
    }
    machine.assert_restored();
}

#[test]
fn a_process_may_end_while_its_regions_are_made_huge_or_split() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    const REGIONS: u64 = 512;
    for (words, options, of_all) in [
        ("sparse 1024", "--policy linux --rate 100", 0),
        ("huge 1024", "--policy none --high 0.2 --low 0.1", REGIONS),
    ] {
        let mut program = Regions::start(folder.path(), words);
        assert_eq!(program.huge_regions(), of_all, "{words}");
        let pid = program.pid();
        let mut arguments = vec!["hugepages", "--state", "state", "--pid", &pid];
        arguments.extend("--interval 200ms --cpu 100".split_whitespace());
        arguments.extend(options.split_whitespace());
        let manager = start(command(folder.path(), &arguments));
        let has_begun = || program.huge_regions() != of_all;
        assert!(within(WITHIN, has_begun), "{words}");
        let huge = program.huge_regions();
        program.child.kill().expect("killed");
        program.child.wait().expect("waited");
        assert!((1..REGIONS).contains(&huge), "{words}: {huge}");
        manager.end().expect_code(0);
    }
    machine.assert_restored();
}

/// Starts a program as the process of that number, which must be free: the kernel hands out the number after the last one, unless
/// another process starts at that moment.
fn start_as(folder: &Path, pid: u32, words: &str) -> Option<Regions> {
    (0..50).find_map(|_| {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).expect("root may");
        let program = Regions::start(folder, words);
        (program.child.id() == pid).then_some(program)
    })
}

#[test]
fn who_has_the_number_of_a_process_that_was_managed_is_left_alone() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let mut program = Regions::start(folder.path(), "hot 8");
    let pid = program.child.id();
    let options = "--policy linux --duration 8s";
    let manager = start(command(folder.path(), &arguments(options, &program.pid())));
    assert!(
        within(WITHIN, || program.huge_regions() > 0),
        "it is managed"
    );
    program.child.kill().expect("killed");
    program.child.wait().expect("waited");
    let newcomer = start_as(folder.path(), pid, "hot 8").expect("the number is free");
    manager.end().expect_code(0);
    assert_eq!(newcomer.huge_regions(), 0);
    newcomer.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn a_program_that_is_still_small_is_waited_for() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    // A shell of little memory: what it will start may have more.
    let mut shell = Command::new("sh")
        .args(["-c", "read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let pid = shell.id().to_string();
    let once = run(folder.path(), &arguments("--once", &pid)).expect_code(0);
    assert!(once.stderr.contains("nothing was looked at"), "{once:#?}");
    let manager = start(command(folder.path(), &arguments("", &pid)));
    let status = ["hugepages", "status", "--json", "--state", "state"];
    let begun = Instant::now();
    let runs = loop {
        let told = run(folder.path(), &status);
        if told.code == Some(0) || begun.elapsed() > Duration::from_secs(30) {
            break told.expect_code(0).json();
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(runs["processes"].as_array().map(Vec::len), Some(0));
    shell.kill().expect("killed");
    shell.wait().expect("waited");
    manager.end().expect_code(0);
    machine.assert_restored();
}

#[test]
fn the_usual_share_of_a_processor_is_enough_and_is_kept() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "hot 64");
    let pid = program.pid();
    let options = ["hugepages", "--state", "state", "--pid", &pid];
    let options = [&options[..], &["--once", "--rate", "1000"]].concat();
    let ended = run(folder.path(), &options).expect_code(0);
    assert!(program.huge_regions() > 0, "{ended:#?}");
    let used = ended.stderr.split("used ").nth(1).expect("told");
    let used: f64 = used
        .split(' ')
        .next()
        .expect("a number")
        .parse()
        .expect("a number");
    assert!(used <= 3.5, "{ended:#?}");
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn who_switched_huge_pages_off_is_left_alone() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "forbidden 8");
    let ended = manage(&folder, "--once --dry-run", &program);
    assert_eq!(ended.stdout, "");
    let ended = manage(&folder, "--once", &program);
    assert!(ended.stderr.contains("0 promoted"), "{ended:#?}");
    let map = run(
        folder.path(),
        &[
            "hugepages",
            "scan",
            "--window",
            "50ms",
            "--pid",
            &program.pid(),
        ],
    );
    map.expect_code(0)
        .stdout
        .find("PR_SET_THP_DISABLE")
        .expect("said why");
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn a_dry_run_of_all_works_on_any_machine() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "hot 16");
    let arguments = [
        "hugepages",
        "--state",
        "state",
        "--dry-run",
        "--once",
        "--all",
        "--interval",
        "200ms",
    ];
    let ended = run(folder.path(), &arguments).expect_code(0);
    assert!(
        ended
            .stdout
            .contains(&format!("would promote {} regions", program.pid())),
        "{ended:#?}"
    );
    assert!(ended.stderr.contains("nothing changed"), "{ended:#?}");
    assert_eq!(program.huge_regions(), 0);
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn mistakes_are_told_in_one_line() {
    let folder = tempdir().expect("a folder");
    let refused = |words: &str, say: &[&str]| {
        let mut arguments = vec!["hugepages"];
        arguments.extend(words.split_whitespace());
        run(folder.path(), &arguments).expect_refusal(125, say);
    };
    refused("--state s", &["which processes", "--pid", "--all"]);
    refused(
        "--state s --pid 4194305",
        &["process 4194305 cannot be managed", "no such process"],
    );
    refused("--pid 1 --policy hawkey", &["did you mean `hawkeye-g`"]);
    refused(
        "--state s --pid 1 --policy aggressive",
        &["first faults", "hugepages --launch -- CMD"],
    );
    refused(
        "--all --state s --low 90 --high 80",
        &["--low 90", "--high 80"],
    );
    refused("--all --rate 0", &["promotions a second"]);
    refused("--all --zeros 512", &["512"]);
    refused("--state s --cgroup no-such-group", &["names no cgroup"]);
    refused("status --state s", &["no huge page manager runs"]);
    if !Path::new("/sys/bus/event_source/devices/cpu").exists() {
        refused(
            "--all --state s --policy hawkeye-pmu",
            &["counters of page walks: ", "hawkeye-g"],
        );
    }
}

#[test]
fn capabilities_are_enough_to_promote_what_is_used() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "hot 16");
    let plain = command(folder.path(), &arguments("", &program.pid()));
    let capabilities = "+bpf,+perfmon,+sys_ptrace,+sys_nice,+dac_override";
    let mut words = std::process::Command::new("setpriv");
    words
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(["--inh-caps", capabilities, "--ambient-caps", capabilities])
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(folder.path());
    let manager = start(words);
    let is_done = within(WITHIN, || program.huge_regions() == 8);
    manager.signal(Signal::INT);
    let ended = manager.end();
    assert!(is_done, "{ended:#?}");
    ended.expect_code(0);
    program.assert_unharmed();
    machine.assert_restored();
}

#[test]
fn what_the_manager_can_do_here_is_told_by_check() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let item = |ended: Ended| {
        let told = ended.expect_code(0).json();
        let items = told["items"].as_array().expect("items").clone();
        let mut of = items.into_iter().filter(|item| item["name"] == "hugepages");
        of.next().expect("an item")
    };
    let with = item(run(folder.path(), &["check", "--json"]));
    let detail = with["detail"].as_str().expect("text");
    assert!(with["works"] == detail.starts_with("promotion"), "{with:#}");
    let without = item(without_bpf(&folder, &["check", "--json"]));
    let detail = without["detail"].as_str().expect("text");
    let says_what_is_left =
        detail.contains("linux, freebsd and none") || detail.contains("PAGEMAP_SCAN");
    assert!(
        says_what_is_left && detail.contains("missing: bpf"),
        "{without:#}"
    );
    assert_eq!(without["works"], false, "{without:#}");
}

#[test]
fn other_users_processes_are_refused_in_words() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder();
    let program = Regions::start(folder.path(), "hot 4");
    let state = folder.path().join("theirs");
    let pid = program.pid();
    let mut as_nobody = command(
        folder.path(),
        &[
            "hugepages",
            "--once",
            "--state",
            state.to_str().expect("text"),
            "--pid",
            &pid,
        ],
    );
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    std::fs::create_dir(&state).expect("a folder");
    for open in [folder.path(), &state] {
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o777)).expect("opened");
    }
    as_nobody.uid(65534).gid(65534);
    start(as_nobody)
        .end()
        .expect_refusal(125, &["another user", "sudo"]);
    program.assert_unharmed();
    machine.assert_restored();
}
