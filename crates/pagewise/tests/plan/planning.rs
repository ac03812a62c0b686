//! From a recording to a plan, and what runs with and without it say.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::command::record;
use crate::common::command::run;
use crate::common::install::pagewise;
use crate::common::machine::Machine;
use crate::common::programs::compile;
use pagewise_plan::Action;
use pagewise_plan::Plan;
use tempfile::tempdir;

const LIMIT: &str = "--memory 64M --swap zram --swap-size 512M";

fn plan_of(folder: &Path, program: &str) -> serde_json::Value {
    compile(folder, "twofold.c");
    record(folder, &format!("{LIMIT} -f"), program).expect_code(0);
    run(folder, &["plan", "--json", "-f"]).expect_code(0).json()
}

#[test]
fn a_sweep_is_streamed_and_swaps_less_with_the_same_output() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let plan = plan_of(folder.path(), "./twofold swept 128 3");
    let rule = &plan["rules"][0];
    assert_eq!(plan["schema"], "pagewise.plan/1");
    assert_eq!(rule["action"], "stream", "{plan:#}");
    assert_eq!(rule["write_share"], 0.0, "{plan:#}");
    assert!(
        rule["target"]
            .as_str()
            .is_some_and(|target| target.starts_with("words (twofold.c:")),
        "{plan:#}"
    );
    let (low, high) = (&plan["predicted"]["low"], &plan["predicted"]["high"]);
    assert!(
        low.as_f64() < high.as_f64() && high.as_f64() > Some(1.05),
        "{plan:#}"
    );

    let curve = plan["curve"].as_array().expect("a curve");
    let column = |key: &str| {
        curve
            .iter()
            .map(|point| point[key].as_u64())
            .collect::<Vec<_>>()
    };
    let memory = column("memory_bytes");
    assert_eq!(memory.len(), 10, "{plan:#}");
    assert!(memory.is_sorted() && memory[0] < memory[9], "{plan:#}");
    let swap_ins = column("swap_ins");
    let pages = Some(128 << 8);
    assert!(swap_ins[0] > pages && swap_ins[9] < pages, "{plan:#}");
    assert!(!column("wall_ns").contains(&None), "{plan:#}");
    assert!(plan["storage"]["read_ns"].as_u64() > Some(0), "{plan:#}");
    let written = Plan::read(&folder.path().join("plan.toml")).expect("a plan");
    let written: Vec<Option<u64>> = written
        .curve
        .iter()
        .map(|point| Some(point.memory_bytes))
        .collect();
    assert_eq!(written, memory);
    run(folder.path(), &["plan", "-o", "-", "--json"]).expect_refusal(125, &["-o FILE"]);

    // In as much as it needs it waits for nothing.
    let arguments = "plan --json -o roomy.toml --memory 256M";
    let ended = run(folder.path(), &arguments.split(' ').collect::<Vec<_>>());
    let roomy = ended.expect_code(0).json();
    let words = roomy["words"].as_str().expect("words");
    assert_eq!(roomy["predicted"]["speedup"], 1.0, "{roomy:#}");
    assert!(
        words.starts_with("do nothing: waiting for swap-ins is 0.0 %"),
        "{words}"
    );
    assert!(
        words.contains("(by simulation, from a run with 64 MiB)"),
        "{words}"
    );

    // Who may lock next to nothing is told so, and what would let it.
    let program =
        "setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock prlimit --memlock=1048576:1048576";
    let poor = Command::new("sh")
        .args(["-c", &format!("{program} \"$0\" plan -o poor.toml")])
        .arg(pagewise())
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&poor.stderr);
    assert!(
        said.contains("this user may lock 1.0 MiB") && said.contains("ulimit -l 57344"),
        "{said}"
    );
    let poor = Plan::read(&folder.path().join("poor.toml")).expect("a plan");
    assert_eq!(poor.memory.lock_bytes, Some(1 << 20));

    let arguments = "compare plan.toml --arms mlock --latencies --html page.html --swap zram --swap-size 512M --runs 1 --warm-up 0 --json -- ./twofold swept 128 3";
    let ended = run(folder.path(), &arguments.split(' ').collect::<Vec<_>>());
    machine.assert_restored();
    let compared = ended.json();
    assert_eq!(compared["output_identical"], true, "{compared:#}");
    // How fast it is depends on what else runs; the exit code follows the verdict.
    let slower = compared["verdict"] == "slower";
    assert_eq!(ended.code, Some(i32::from(slower)), "{compared:#}");
    let arms = compared["arms"].as_array().expect("arms");
    let names: Vec<&str> = arms.iter().filter_map(|arm| arm["name"].as_str()).collect();
    assert_eq!(names, ["baseline", "plan", "mlock", "unlimited"]);
    for arm in &arms[..3] {
        let latency = &arm["latency"];
        let order = ["half_ns", "p99_ns", "p999_ns"].map(|key| latency[key].as_u64());
        assert!(order.is_sorted() && order[0] > Some(0), "{compared:#}");
    }
    let page = fs::read_to_string(folder.path().join("page.html")).expect("written");
    assert!(
        names
            .iter()
            .all(|name| page.contains(&format!("<rect class=\"{name}\"")))
    );
    let swap_ins = |arm: usize| -> Vec<u64> {
        let runs = arms[arm]["swap_ins"].as_array().expect("runs");
        runs.iter()
            .map(|run| run.as_u64().expect("known"))
            .collect()
    };
    let least = swap_ins(0).into_iter().min();
    let most = swap_ins(1).into_iter().max();
    assert!(most < least, "{compared:#}");
    assert!(
        swap_ins(3).iter().all(|&pages| pages < 1000),
        "{compared:#}"
    );
    expect_advice_without_the_program(folder.path());
}

/// Of a recording whose program is there no more: what to do, and what would help meanwhile.
fn expect_advice_without_the_program(folder: &Path) {
    fs::remove_file(folder.join("twofold")).expect("removed");
    let gone = run(folder, &["plan", "-o", "gone.toml"]).expect_code(0);
    let said = &gone.stdout;
    assert!(
        said.contains("do nothing: what would help cannot be known again in another run, see below. Add memory:"),
        "{said}"
    );
    assert!(
        said.contains("twofold cannot be read") && said.contains("put it back as it was recorded"),
        "{said}"
    );
}

/// Shared memory of any kind is an object with a call path, whose swap-ins are known, and which a plan is about.
#[test]
fn shared_memory_is_locked_where_swap_is_memory() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "common_memory.c");
    for kind in ["memfd", "system-v", "anonymous"] {
        let program = format!("./common_memory {kind} 96 3");
        record(folder.path(), &format!("{LIMIT} -f"), &program).expect_code(0);
        let ended = run(folder.path(), &["plan", "--json", "-f"]);
        let plan = ended.expect_code(0).json();
        let rule = &plan["rules"][0];
        assert_eq!(rule["action"], "lock", "{kind}: {plan:#}");
        let target = rule["target"].as_str().expect("a name");
        assert!(target.starts_with("buffers (common_memory.c:"), "{target}");
        // Nothing fits: each round brings all of it back.
        let swap_ins = plan["curve"][0]["swap_ins"].as_u64().expect("a count");
        assert!(swap_ins > 2 * (96 << 8), "{kind}: {plan:#}");
        let arguments = format!(
            "compare plan.toml --swap zram --swap-size 512M --runs 1 --warm-up 0 --no-unlimited --json -- {program}"
        );
        let ended = run(folder.path(), &arguments.split(' ').collect::<Vec<_>>());
        let compared = ended.json();
        assert_eq!(compared["output_identical"], true, "{compared:#}");
        assert!(
            compared.to_string().contains("1 of 1 rules matched"),
            "{kind}: {compared:#}"
        );
    }
    machine.assert_restored();
}

/// Of eight pages that are read from a file together, seven are found in the swap cache: their faults count, too.
#[test]
fn shared_memory_is_locked_where_swap_is_a_file() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "common_memory.c");
    let options = "--memory 48M --swap file --swap-size 512M -f";
    record(folder.path(), options, "./common_memory anonymous 96 3").expect_code(0);
    let report = run(folder.path(), &["report", "--json"])
        .expect_code(0)
        .json();
    let object = &report["objects"][0];
    let count = |key: &str| object[key].as_u64().expect("a count");
    let pages = 3 * (96 << 8);
    assert!(count("swap_ins") > pages * 9 / 10, "{object:#}");
    assert!(count("swap_cache_hits") > pages / 2, "{object:#}");
    let plan = run(folder.path(), &["plan", "--json", "-f"])
        .expect_code(0)
        .json();
    assert_eq!(plan["rules"][0]["action"], "lock", "{plan:#}");
    machine.assert_restored();
}

/// What children share is in memory once, and needs it once.
#[test]
fn shared_memory_of_children_is_simulated_once() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "common_memory.c");
    // Less than one of them goes through.
    let options = "--memory 40M --swap zram --swap-size 512M -f";
    record(folder.path(), options, "./common_memory children 96 4").expect_code(0);
    let plan = run(folder.path(), &["plan", "--json", "-f"])
        .expect_code(0)
        .json();
    let curve = plan["curve"].as_array().expect("points");
    let most = curve.last().expect("a point");
    let bytes = most["memory_bytes"].as_u64().expect("a size");
    assert!(((96 << 20)..(120 << 20)).contains(&bytes), "{plan:#}");
    assert_eq!(most["swap_ins"], 0, "{plan:#}");
    assert_eq!(plan["rules"][0]["action"], "lock", "{plan:#}");
    machine.assert_restored();
}

/// Nobody follows each node of a list: the heap in which they lie is swept.
#[test]
fn a_list_of_small_blocks_is_streamed_as_the_heap() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let plan = plan_of(folder.path(), "./twofold listed 128 4");
    let rule = &plan["rules"][0];
    assert_eq!(rule["action"], "stream", "{plan:#}");
    let target = rule["target"].as_str().expect("words");
    assert!(target.starts_with("the heap: node (twofold.c:"), "{plan:#}");
    assert_eq!(rule["site"], serde_json::Value::Null, "{plan:#}");
    let arguments = "compare plan.toml --swap zram --swap-size 512M --runs 1 --warm-up 0 --json -- ./twofold listed 128 4";
    let ended = run(folder.path(), &arguments.split(' ').collect::<Vec<_>>());
    machine.assert_restored();
    let compared = ended.json();
    assert_eq!(compared["output_identical"], true, "{compared:#}");
    let swap_ins = |arm: usize| compared["arms"][arm]["swap_ins"][0].as_u64();
    assert!(swap_ins(1) < swap_ins(0), "{compared:#}");

    // So it is where a thread makes them, in heaps of its own.
    let plan = plan_of(folder.path(), "./twofold listed-aside 128 4");
    let rule = &plan["rules"][0];
    assert_eq!(rule["action"], "stream", "{plan:#}");
    let target = rule["target"].as_str().expect("words");
    assert!(target.starts_with("the heap: node (twofold.c:"), "{plan:#}");
    machine.assert_restored();
}

/// What one line makes that is inlined in two places has one rule, with two call paths.
#[test]
fn what_is_made_in_two_places_by_one_line_has_one_rule() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "two_places.c");
    record(folder.path(), &format!("{LIMIT} -f"), "./two_places 128 4").expect_code(0);
    let plan = run(folder.path(), &["plan", "--json", "-f"])
        .expect_code(0)
        .json();
    assert_eq!(plan["rules"].as_array().map(Vec::len), Some(1), "{plan:#}");
    assert_eq!(plan["rules"][0]["action"], "stream", "{plan:#}");
    let text = fs::read_to_string(folder.path().join("plan.toml")).expect("a plan");
    assert!(text.contains("other_paths = ["), "{text}");
    let arguments =
        "apply plan.toml --swap zram --swap-size 512M --json applied.json -- ./two_places 128 4";
    run(folder.path(), &arguments.split(' ').collect::<Vec<_>>()).expect_code(0);
    let applied = fs::read_to_string(folder.path().join("applied.json")).expect("written");
    let applied: serde_json::Value = serde_json::from_str(&applied).expect("JSON");
    assert_eq!(
        applied["rules"].as_array().map(Vec::len),
        Some(1),
        "{applied:#}"
    );
    assert_eq!(applied["rules"][0]["objects"], 2, "{applied:#}");
    machine.assert_restored();
}

/// On zram, to drop written pages behind a sweep costs what it gains.
#[test]
fn of_a_sweep_that_writes_a_part_is_locked_and_nothing_read_ahead() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let plan = plan_of(folder.path(), "./twofold written 128 3");
    machine.assert_restored();
    let rule = &plan["rules"][0];
    assert_eq!(rule["action"], "lock", "{plan:#}");
    assert!(rule["write_share"].as_f64() > Some(0.9), "{plan:#}");
    assert!(rule["keep_bytes"].as_u64() > Some(30 << 20), "{plan:#}");
    let why = rule["why"].as_str().expect("words");
    assert!(why.contains("many of its pages are written"), "{why}");
}

/// The C library places each of these rows, mappings of their own, below the one before.
#[test]
fn an_array_of_many_rows_is_streamed() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "planned.c");
    record(folder.path(), LIMIT, "./planned blocks 128").expect_code(0);
    let plan = run(folder.path(), &["plan", "--json"])
        .expect_code(0)
        .json();
    assert_eq!(plan["rules"][0]["action"], "stream", "{plan:#}");

    let arguments = "apply plan.toml --json out.json --memory 64M --swap zram --swap-size 512M -- ./planned blocks 128";
    let ended = run(folder.path(), &arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(ended.expect_code(0).stdout, "ok\n");
    machine.assert_restored();
    let outcome = fs::read_to_string(folder.path().join("out.json")).expect("written");
    let outcome: serde_json::Value = serde_json::from_str(&outcome).expect("JSON");
    let read = outcome["rules"][0]["read_ahead_pages"].as_u64();
    assert!(read > Some(4096), "{outcome:#}");
    assert_eq!(outcome["unfollowed_sweeps"], 0, "{outcome:#}");
}

/// What the program names apart is made by the same calls: a plan with a rule for each would be refused.
#[test]
fn what_cannot_be_told_apart_has_one_rule() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "named.c");
    record(folder.path(), LIMIT, "./named").expect_code(0);
    let plan = run(folder.path(), &["plan", "--json"])
        .expect_code(0)
        .json();
    let rules = plan["rules"].as_array().expect("rules");
    let is_named = |rule: &&serde_json::Value| {
        let target = rule["target"].as_str().unwrap_or_default();
        ["prices", "quantities"]
            .iter()
            .all(|name| target.contains(name))
    };
    let of_both: Vec<_> = rules.iter().filter(is_named).collect();
    assert_eq!(of_both.len(), 1, "{plan:#}");
    let why = of_both[0]["why"].as_str().expect("why");
    assert!(why.contains("2 objects"), "{why}");
    Plan::read(&folder.path().join("plan.toml")).expect("a plan");
}

#[test]
fn random_access_gets_no_plan_but_the_memory_that_would_help() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let plan = plan_of(folder.path(), "./twofold random 128 3");
    let words = plan["words"].as_str().expect("words");
    assert!(
        words.starts_with("do nothing") && words.contains("MiB more"),
        "{plan:#}"
    );
    assert_eq!(plan["predicted"]["speedup"], 1.0);
    let text = fs::read_to_string(folder.path().join("plan.toml")).expect("written");
    assert!(
        !text.contains("\"stream\"") && !text.contains("\"lock\""),
        "{text}"
    );
}

#[test]
fn the_hot_part_of_what_does_not_fit_is_locked() {
    expect_hot_part("hot", false);
}

#[test]
fn the_hot_blocks_of_what_does_not_fit_are_locked() {
    expect_hot_part("hot-pieces", true);
}

/// The third eighth of 128 MiB is locked, in one block or as some of many.
fn expect_hot_part(kind: &str, in_pieces: bool) {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    // Beside other work the program waits for a smaller part of its time, at times for too small a one; the longer it runs the better
    // the kernel knows what is hot, and in half a second too little is seen of what stays in memory.
    let mut plan = plan_of(folder.path(), &format!("./twofold {kind} 128 4"));
    for rounds in [4, 2] {
        if plan["rules"][0]["action"] == "nothing" {
            plan = plan_of(folder.path(), &format!("./twofold {kind} 128 {rounds}"));
        }
    }
    let rule = &plan["rules"][0];
    let in_all_memory = plan["curve"].as_array().and_then(|curve| curve.last());
    let seconds = in_all_memory
        .and_then(|point| point["wall_ns"].as_f64())
        .expect("a time")
        / 1e9;
    if seconds > 1.0 && rule["action"] == "nothing" {
        // A machine on which all else takes ten times as long as usual: waiting for swap is a small part of it, and no plan is right.
        let why = rule["why"].as_str().expect("why");
        assert!(why.contains("too little to tell from noise"), "{plan:#}");
        return;
    }
    assert_eq!(rule["action"], "lock", "{plan:#}");
    let text = fs::read_to_string(folder.path().join("plan.toml")).expect("written");
    let read = Plan::read(&folder.path().join("plan.toml")).expect("a plan");
    let Action::Lock {
        ranges, together, ..
    } = &read.rules[0].action
    else {
        panic!("{text}");
    };
    assert_eq!(*together, in_pieces, "{text}");
    // The third eighth of 128 MiB, but for cells at its ends, or that chance left out or, of the 112 MiB beside it, took in.
    let within = |at: u64| at.clamp(32 << 20, 48 << 20);
    let right: u64 = ranges
        .iter()
        .map(|range| within(range.end) - within(range.start))
        .sum();
    let all: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    assert!(right > 12 << 20 && all - right < 12 << 20, "{text}");
}

#[test]
fn what_cannot_be_planned_or_compared_is_told() {
    let folder = tempdir().expect("a folder");
    record(folder.path(), "--sensors allocations", "true").expect_code(0);
    run(folder.path(), &["plan"]).expect_refusal(125, &["no swap-ins", "pagewise record"]);
    assert!(!folder.path().join("plan.toml").exists());
    run(folder.path(), &["plan", "elsewhere"]).expect_refusal(125, &["elsewhere"]);
    run(folder.path(), &["compare", "plan.toml", "--", "true"]).expect_refusal(125, &["plan.toml"]);
    fs::write(
        folder.path().join("plan.toml"),
        "schema = \"pagewise.plan/9\"\n",
    )
    .expect("written");
    run(folder.path(), &["compare", "plan.toml", "--", "true"])
        .expect_refusal(125, &["plan.toml", "pagewise.plan/9"]);
}
