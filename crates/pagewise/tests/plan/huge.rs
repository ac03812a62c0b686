//! From a recording with accessed bits to huge pages for objects, in a replay and in force.

use std::fs;
use std::path::Path;

use crate::common::command::record;
use crate::common::command::run;
use crate::common::machine::Machine;
use crate::common::programs::compile;
use serde_json::Value;
use tempfile::tempdir;

const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Huge pages for who asks for them, and then as before.
struct ByMadvise {
    before: String,
}

impl ByMadvise {
    fn set() -> Self {
        let text = fs::read_to_string(ENABLED).expect("a kernel with huge pages");
        let words = text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        let before = words.expect("one is chosen").0.to_owned();
        fs::write(ENABLED, "madvise").expect("chosen by root");
        Self { before }
    }
}

impl Drop for ByMadvise {
    fn drop(&mut self) {
        let _ = fs::write(ENABLED, &self.before);
    }
}

/// The recording tells what first touches cost here. Where they cost far more, there is no rule; what this machine has must not decide what
/// follows, so nothing is known of it then.
fn first_touches_count(folder: &Path) {
    let path = folder.join("pagewise.data/meta.json");
    let mut meta: Value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
    let costs = &mut meta["huge_pages"];
    let median = costs["touch_huge_ns"].as_f64().expect("a number");
    assert!(
        median > 0.0 && costs["touch_huge_p90_ns"].as_f64() >= Some(median),
        "{costs}"
    );
    assert!(costs["cycles_per_ns"].as_f64() > Some(0.5), "{costs}");
    costs["touch_huge_ns"] = 1e9.into();
    costs["touch_huge_p90_ns"] = 2e9.into();
    let running = meta["running_threads"].as_f64().expect("a number");
    assert!(running > 0.01 && running < 1.5, "{running}");
    fs::write(&path, meta.to_string()).expect("written");
    let plan = run(folder, &["plan", "--json"]).expect_code(0).json();
    let dense = rule(&plan, "dense");
    let why = dense["why"].as_str().expect("why");
    assert_eq!(dense["action"], "nothing", "{plan:#}");
    assert!(
        why.contains("not surely faster") && why.contains("first touches of 32"),
        "{why}"
    );
    meta["huge_pages"] = Value::Null;
    fs::write(&path, meta.to_string()).expect("written");
}

fn rule<'a>(plan: &'a Value, name: &str) -> &'a Value {
    let rules = plan["rules"].as_array().expect("rules");
    let of_name = |rule: &&Value| {
        rule["target"]
            .as_str()
            .is_some_and(|target| target.starts_with(name))
    };
    let found = rules.iter().find(of_name);
    found.unwrap_or_else(|| panic!("no {name} in {plan:#}"))
}

#[test]
fn a_dense_object_gets_huge_pages_and_an_idle_one_does_not() {
    let Some(_machine) = Machine::reserve() else {
        return;
    };
    let _mode = ByMadvise::set();
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "dense.c");
    record(folder.path(), "--access=0.3", "./dense 4").expect_code(0);
    first_touches_count(folder.path());

    let plan = run(folder.path(), &["plan", "-f", "--json"])
        .expect_code(0)
        .json();
    let (dense, idle) = (rule(&plan, "dense"), rule(&plan, "idle"));
    assert_eq!(dense["action"], "huge", "{plan:#}");
    let why = dense["why"].as_str().expect("why");
    assert!(
        why.contains("l1-4k=64") && why.contains("accessed within"),
        "{why}"
    );
    let predicted = ["low", "speedup", "high"].map(|key| dense["predicted"][key].as_f64());
    assert!(
        predicted.is_sorted() && predicted[0] >= Some(1.0) && predicted[1] >= Some(1.05),
        "{plan:#}"
    );
    assert_eq!(plan["predicted"], dense["predicted"]);
    assert_eq!(idle["action"], "nothing", "{plan:#}");
    assert!(
        plan["words"]
            .as_str()
            .is_some_and(|words| words.contains("huge pages for dense")),
        "{plan:#}"
    );

    // Without the plan nothing is in huge pages; with it, all whole regions of the one array are.
    let huge = |arguments: &[&str]| -> u64 {
        let ended = run(folder.path(), arguments).expect_code(0);
        ended.stdout.trim().parse().expect("a number")
    };
    fs::write(
        folder.path().join("empty.toml"),
        "schema = \"pagewise.plan/1\"\n[program]\nexecutable = \"dense\"\n[memory]\nbytes = 1073741824\n",
    )
    .expect("written");
    assert_eq!(huge(&["apply", "empty.toml", "--", "./dense", "0"]), 0);
    let with = huge(&["apply", "plan.toml", "--", "./dense", "0"]);
    assert!((56 << 10..=64 << 10).contains(&with), "{with} KiB");

    // A TLB that reaches everything gains nothing, and neither does a machine that is too small.
    for (option, value, said) in [
        ("--tlb", "l1-4k=1000000", "too little to tell from noise"),
        ("--memory", "150M", "memory would be short"),
    ] {
        let plan = run(folder.path(), &["plan", "-f", "--json", option, value]).expect_code(0);
        let plan = plan.json();
        let dense = rule(&plan, "dense");
        assert_eq!(dense["action"], "nothing", "{plan:#}");
        assert!(
            dense["why"].as_str().is_some_and(|why| why.contains(said)),
            "{plan:#}"
        );
    }
    run(folder.path(), &["plan", "-f", "--tlb", "l3=5"]).expect_told(&["no `l3`"]);

    let replayed = run(
        folder.path(),
        &[
            "simulate",
            "--hugepages",
            "--interval",
            "1",
            "--json",
            "pagewise.data",
        ],
    );
    let replayed = replayed.expect_code(0).json();
    let policies = replayed["policies"].as_array().expect("policies");
    let of = |name: &str, key: &str| {
        let policy = policies.iter().find(|policy| policy["policy"] == name);
        policy.expect("it is there")[key]
            .as_f64()
            .expect("a number")
    };
    assert_eq!(of("none", "promotions"), 0.0);
    // The one array is walked through, the other one mostly not: 16,384 and 2,048 pages.
    assert!(of("hawkeye-g", "promotions") >= 10.0, "{replayed:#}");
    assert!(
        of("hawkeye-g", "saved_s") >= of("linux", "saved_s"),
        "{replayed:#}"
    );
    assert_eq!(replayed["programs"][0]["basis"], "assumed");
}
