//! Sampled recordings against full ones: each site's share of the swap-ins is the same, to 5 percentage points of the
//! same events.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::command::command;
use crate::common::command::record_arguments;
use crate::common::command::start;
use crate::common::machine::Machine;
use crate::common::programs::compile;
use crate::common::resample::resample;
use crate::common::within;
use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectKind;
use pagewise_analyze::analyze;
use pagewise_trace::StackFrame;
use pagewise_trace::Trace;
use rustix::process::Signal;
use tempfile::tempdir;

/// Percentage points, by the same events.
const MOST_APART: f64 = 5.0;
/// The same between two runs of a program, whose pages fare differently: hot ones now stay in memory, now do not.
const MOST_APART_IN_TWO_RUNS: f64 = 10.0;
/// A full recording: each allocation of a byte or more.
const EVERYTHING: &str = "1";

/// The kernel's reclaim of cgroup v1 gives up now and then, with swap free: that is not what is tested here.
const ATTEMPTS: u32 = 4;
const SEEDS: u64 = 2;

/// What a recording says of the swap-ins in allocated memory: the share of each site, and of nobody, in percent.
struct Shares {
    findings: Findings,
    of: BTreeMap<String, f64>,
}

impl Shares {
    fn read(folder: &Path) -> Self {
        let trace = Trace::open(folder).expect("a trace");
        let mut paths: BTreeMap<u32, Vec<(u16, String)>> = BTreeMap::new();
        for frame in trace.rows::<StackFrame>().expect("stacks") {
            let frame = frame.expect("a row");
            let module = frame.module.unwrap_or_default();
            // Where the preloaded library was when it looked differs from one reason to record to the other.
            if !module.ends_with("libpagewise_runtime.so") {
                let place = format!("{module}+{:x}", frame.module_offset.unwrap_or(0));
                paths
                    .entry(frame.stack)
                    .or_default()
                    .push((frame.depth, place));
            }
        }
        let findings = analyze(&trace).expect("findings");
        // Pages of libraries and stacks fare now so, now so; what is compared is who allocated the others.
        let allocated = |object: &&Object| {
            use ObjectKind::{Allocation, Heap, Unknown};
            matches!(object.identity.kind, Allocation | Heap | Unknown)
        };
        let objects = || findings.objects.iter().filter(allocated);
        let all: u64 = objects().map(|object| object.counts.swap_ins).sum();
        let mut of: BTreeMap<String, f64> = BTreeMap::new();
        for object in objects() {
            let share = 100.0 * object.counts.swap_ins as f64 / all.max(1) as f64;
            *of.entry(key(object, &paths)).or_default() += share;
        }
        Self { findings, of }
    }

    /// The largest difference of a site's shares, in percentage points, with the site.
    fn farthest<'a>(&'a self, other: &'a Self) -> (f64, &'a str) {
        let sites = self.of.keys().chain(other.of.keys());
        let share = |shares: &Self, site: &str| shares.of.get(site).copied().unwrap_or(0.0);
        sites
            .map(|site| {
                (
                    (share(self, site) - share(other, site)).abs(),
                    site.as_str(),
                )
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .expect("sites")
    }

    fn assert_sound(&self) {
        let losses = &self.findings.meta.losses;
        // The paths of faults are not what is compared, and those of a tree are many to learn at once.
        let matters = |(what, count): (&String, &u64)| what != "call_paths" && *count > 0;
        assert!(!losses.iter().any(matters), "{losses:?}");
        let sum: u64 = self
            .findings
            .objects
            .iter()
            .map(|object| object.counts.swap_ins)
            .sum();
        assert_eq!(sum, self.findings.totals.swap_ins);
        assert!(sum > 5000, "only {sum} swap-ins");
    }

    fn unattributed(&self) -> f64 {
        let totals = &self.findings.totals;
        100.0 * self.findings.unattributed_swap_ins as f64 / totals.swap_ins as f64
    }
}

/// The same for the same site of two recordings: a line, or else a call path.
fn key(object: &Object, paths: &BTreeMap<u32, Vec<(u16, String)>>) -> String {
    let identity = &object.identity;
    match (
        identity.line,
        identity.stack.and_then(|stack| paths.get(&stack)),
    ) {
        (Some(line), _) => format!("{:?} line {line}", identity.name),
        (None, Some(path)) => {
            let places: Vec<&str> = path.iter().map(|(_, place)| place.as_str()).collect();
            places.join(" ")
        }
        (None, None) => format!("{:?} {:?}", identity.kind, identity.name),
    }
}

/// Records the program. `work` is done while it runs, and says whether it could be.
fn record(
    folder: &Path,
    (output, threshold): (&str, Option<&str>),
    options: &str,
    program: &str,
    work: &impl Fn(&Path) -> bool,
) -> Shares {
    let options = format!("--swap zram --swap-size 512M -f -o {output} {options}");
    for _ in 0..ATTEMPTS {
        let mut command = command(folder, &record_arguments(&options, program));
        command.env_remove("PAGEWISE_THRESHOLD");
        if let Some(threshold) = threshold {
            command.env("PAGEWISE_THRESHOLD", threshold);
        }
        let running = start(command);
        let done = work(folder);
        if !done {
            running.signal_group(Signal::KILL);
        }
        let ended = running.end();
        if ended.code == Some(128 + 9) && ended.stderr.contains("reclaim failed") {
            continue;
        }
        assert!(done, "{ended:#?}");
        ended.expect_code(0);
        let shares = Shares::read(&folder.join(output));
        shares.assert_sound();
        return shares;
    }
    panic!("{program} was killed {ATTEMPTS} times");
}

/// Records the program in full and by sampling, and compares: the two recordings, in which its pages may have fared
/// differently, and the full one with those of itself of which only a sample is left.
fn compare(
    folder: &Path,
    options: &str,
    program: &str,
    work: impl Fn(&Path) -> bool,
) -> (Shares, Shares) {
    let full = record(folder, ("full", Some(EVERYTHING)), options, program, &work);
    let sampled = record(folder, ("sampled", None), options, program, &work);
    assert!(!full.findings.objects.iter().any(|object| object.sampled));
    assert!(sampled.findings.estimated_swap_ins > 0);
    compare_with_samples_of_itself(folder, &full);
    let (apart, site) = full.farthest(&sampled);
    println!(
        "{apart:.2} apart at {site}; unattributed {:.2} and {:.2}",
        full.unattributed(),
        sampled.unattributed()
    );
    assert!(
        apart <= MOST_APART_IN_TWO_RUNS,
        "{apart:.2} apart at {site}:\n{:#?}\n{:#?}",
        full.of,
        sampled.of
    );
    (full, sampled)
}

/// The same events, attributed by chance samples of the full recording's allocations.
fn compare_with_samples_of_itself(folder: &Path, full: &Shares) {
    for seed in 0..SEEDS {
        let output = folder.join(format!("resampled{seed}"));
        resample(&folder.join("full"), &output, seed);
        let shares = Shares::read(&output);
        let (apart, site) = full.farthest(&shares);
        println!("seed {seed}: {apart:.2} apart at {site}");
        assert!(
            apart <= MOST_APART,
            "{apart:.2} apart at {site} by seed {seed}"
        );
    }
}

#[test]
fn cpp_nodes_have_the_shares_of_a_full_recording() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "nodes.cpp");
    let (_, sampled) = compare(folder.path(), "--memory 16M", "./nodes 50000 50000", |_| {
        true
    });
    machine.assert_restored();
    // Operator new is passed over: nodes are where the program made them.
    for site in ["tree", "names[]"] {
        let found = sampled
            .of
            .keys()
            .any(|key| key.contains(&format!("{site:?}")));
        assert!(found, "no {site} in {:#?}", sampled.of);
    }
    assert!(sampled.unattributed() < 5.0, "{}", sampled.unattributed());
}

#[test]
fn a_python_dictionary_has_the_shares_of_a_full_recording() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/dictionary.py");
    // The interpreter itself: a wrapper script would be recorded too.
    let output = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .expect("python3 is needed");
    let python = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let program = format!("{python} -S {} 30000 80000", script.display());
    compare(folder.path(), "--memory 18M", &program, |_| true);
    machine.assert_restored();
}

/// Has Redis do something, on its socket in the folder.
fn redis(folder: &Path, words: &[&str]) -> bool {
    let output = Command::new("redis-cli")
        .arg("-s")
        .arg(folder.join("socket"))
        .args(words)
        .output()
        .expect("redis-cli is needed: scripts/setup --tests");
    let said = String::from_utf8_lossy(&output.stdout);
    output.status.success() && !said.starts_with("ERR") && !said.contains("Could not connect")
}

#[test]
fn redis_has_the_shares_of_a_full_recording() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    // Debian's redis-tools has the server, too, under a name that makes it a checker of files.
    std::os::unix::fs::symlink(
        "/usr/bin/redis-check-rdb",
        folder.path().join("redis-server"),
    )
    .expect("a link");
    let program =
        "./redis-server --port 0 --appendonly no --unixsocket ./socket --enable-debug-command yes";
    const VISITS: &str = "for i = 1, 15000 do redis.call('get', 'key:' .. math.random(0, 11999)) end \
                          for i = 1, 2000 do redis.call('hset', 'hash:' .. i, 'field', i) end";
    compare(folder.path(), "--memory 16M", program, |folder| {
        let done = within(Duration::from_secs(20), || redis(folder, &["ping"]))
            && redis(folder, &["debug", "populate", "12000", "key", "1600"])
            && redis(folder, &["eval", VISITS, "0"]);
        // It closes the connection, which its client calls a failure.
        redis(folder, &["shutdown", "nosave"]);
        done
    });
    machine.assert_restored();
}
