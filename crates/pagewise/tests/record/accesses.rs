//! `record --access`: what a program of known accesses is seen to use.

use std::collections::BTreeMap;

use crate::common::command::record;
use crate::common::command::record_arguments;
use crate::common::command::report;
use crate::common::command::run;
use crate::common::machine::Machine;
use crate::common::programs::compile;
use pagewise_trace::Access;
use pagewise_trace::Trace;
use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

fn share(report: &Value, name: &str) -> f64 {
    let objects = report["objects"].as_array().expect("objects");
    let object = objects.iter().find(|object| object["name"] == name);
    let object = object.unwrap_or_else(|| panic!("no {name} in {objects:#?}"));
    object["accessed_share"]
        .as_f64()
        .unwrap_or_else(|| panic!("{object:#}"))
}

fn accesses(folder: &TempDir) -> Vec<Access> {
    let trace = Trace::open(&folder.path().join("pagewise.data")).expect("opened");
    let rows = trace.accesses().expect("a table");
    rows.map(|row| row.expect("a row")).collect()
}

#[test]
fn hot_half_and_cold_objects_are_told_apart() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "temperature.c");
    record(folder.path(), "--access=0.3", "./temperature 4").expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    let (hot, half, cold) = (
        share(&report, "hot"),
        share(&report, "half"),
        share(&report, "cold"),
    );
    assert!(hot > 0.95, "{hot}");
    assert!((0.45..0.55).contains(&half), "{half}");
    // The pages at its ends hold the allocator's data too.
    assert!(cold < 0.01, "{cold}");

    let looks = report["working_set"].as_array().expect("a list");
    assert!(!looks.is_empty());
    for look in looks {
        let bytes = |name: &str| look[name].as_u64().expect("a number");
        assert!(bytes("accessed_bytes") <= bytes("resident_bytes"), "{look}");
        assert!(bytes("resident_bytes") >= 24 << 20, "{look}");
        assert!(bytes("interval_ns") >= 300_000_000, "{look}");
    }
    let cost = |name: &str| report["cost"][name].as_f64().expect("a number");
    assert!(cost("access_clear_ns") > 0.0 && cost("access_walk_ns") > 0.0);
    assert_eq!(cost("access_looks"), looks.len() as f64);
    assert!(cost("access_duty") <= 0.005, "{}", report["cost"]);
    assert_eq!(report["losses"]["access_processes"], 0);
}

#[test]
fn with_more_to_spend_looks_are_as_frequent_as_wished_and_glances_come_soon() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "temperature.c");
    let options = "--access=0.1 --access-cost 10";
    record(folder.path(), options, "./temperature 3").expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    let looks = report["working_set"].as_array().expect("a list").len();
    assert!(looks >= 10, "{looks} in 3 s");
    let duty = report["cost"]["access_duty"].as_f64().expect("a number");
    assert!(duty <= 0.1, "{duty}");
    let trace = Trace::open(&folder.path().join("pagewise.data")).expect("opened");
    let glances = trace.glances().expect("a table");
    let soonest = glances.map(|row| row.expect("a row").interval_ns).min();
    // Due after a 256th of 0.1 s; what is cleared takes some time, too.
    assert!(soonest.expect("glances") < 10_000_000, "{soonest:?}");
    let set_ns = trace.meta().set_accessed_ns.expect("measured");
    assert!(set_ns > 0.0, "{set_ns}");
}

#[test]
fn swapped_and_resident_pages_are_those_of_the_program() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "temperature.c");
    let options = "--access=0.1 --memory 16M --swap zram --swap-size 256M";
    record(folder.path(), options, "./temperature 3").expect_code(0);
    machine.assert_restored();
    let mut looks: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for row in accesses(&folder) {
        assert!(row.accessed_pages <= row.resident_pages, "{row:?}");
        assert!(row.dirty_pages <= row.resident_pages, "{row:?}");
        assert!(row.resident_pages + row.swapped_pages > 0, "{row:?}");
        assert_eq!(row.address % (2 << 20), 0, "{row:?}");
        let look = looks.entry(row.time_ns).or_default();
        look.0 += u64::from(row.resident_pages);
        look.1 += u64::from(row.swapped_pages);
    }
    // Of three arrays of 8 MiB at least one is in swap.
    let &(resident, swapped) = looks.values().next_back().expect("a look");
    assert!(resident + swapped >= 3 * (8 << 20) / 4096, "{looks:?}");
    assert!(swapped >= (8 << 20) / 4096 * 9 / 10, "{looks:?}");
}

/// On zram all pages that leave are sent to the device: what tells is looks at pages that came back.
#[test]
fn what_is_written_and_what_is_only_read_is_told_apart_on_zram() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "writers.c");
    let options = "--memory 24M --swap zram --swap-size 256M";
    record(folder.path(), options, "./writers").expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    let objects = report["objects"].as_array().expect("objects");
    let share = |name: &str| {
        let object = objects.iter().find(|object| object["name"] == name);
        let object = object.unwrap_or_else(|| panic!("no {name} in {objects:#?}"));
        object["write_share"]
            .as_f64()
            .unwrap_or_else(|| panic!("{object:#}"))
    };
    assert!(share("read") < 0.05, "{}", share("read"));
    assert!(share("written") > 0.95, "{}", share("written"));
}

#[test]
fn processes_that_come_and_go_do_no_harm() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "temperature.c");
    let script =
        "./temperature 2 & ./temperature 2 & for i in $(seq 300); do /bin/true; done; wait";
    let mut arguments = record_arguments("--access=0.01", "sh -c");
    arguments.push(script);
    let ended = run(folder.path(), &arguments).expect_code(0);
    machine.assert_restored();
    assert!(!ended.stderr.contains("no longer recorded"), "{ended:?}");
    let spaces: std::collections::BTreeSet<u32> =
        accesses(&folder).iter().map(|row| row.space).collect();
    assert!(spaces.len() >= 2, "both of them: {spaces:?}");
    assert_eq!(report(folder.path())["sensors"]["access"], "on");
}

#[test]
fn accesses_are_off_unless_asked_for_and_need_faults() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let options = "--access --sensors allocations";
    record(folder.path(), options, "true").expect_refusal(125, &["--access", "faults"]);
    record(folder.path(), "", "true").expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    assert_eq!(report["sensors"]["access"], "off");
    assert_eq!(report["working_set"], serde_json::json!([]));
    assert!(report["cost"].get("access_duty").is_none());
}

/// By default some pages are looked at, and most of the program is left alone.
#[test]
fn spots_stand_for_all_pages_and_cost_little() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "temperature.c");
    record(folder.path(), "", "./temperature 3").expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    let wall_ns = report["summary"]["wall_ns"].as_f64().expect("a number");
    if report["sensors"]["spots"] != "on" {
        assert!(pagewise_host::cold::folios_may_be_large(), "{report:#}");
        return;
    }
    let duty = report["cost"]["spots_duty"].as_f64().expect("a number");
    // And what they may take at once at the begin.
    assert!(duty <= 0.01 + 25e6 / wall_ns, "{duty}");
    // What tells of all pages says nothing of some.
    assert_eq!(report["working_set"], serde_json::json!([]));
    let trace = Trace::open(&folder.path().join("pagewise.data")).expect("opened");
    let looks: Vec<_> = trace.spot_looks().expect("a table").collect();
    assert!(looks.len() > 10, "{}", looks.len());
    let mut last = 0;
    let (mut looked, mut accessed) = (0, 0);
    for look in looks {
        let look = look.expect("a row");
        let spots = pagewise_trace::Spots::one_in(look.pages_each.into());
        let chosen = set_of(&look.looked_map);
        let allowed = spots.in_region(look.address);
        assert!(
            chosen
                .iter()
                .zip(allowed)
                .all(|(page, spot)| page & !spot == 0)
        );
        assert!(look.pages_each >= last, "a share never grows: {look:?}");
        last = look.pages_each;
        // It is listed what is there before it is cleared.
        let listed_ns = look.listed_ns.expect("recorded");
        assert!(listed_ns >= look.interval_ns, "{look:?}");
        let seen = look.accessed_map.as_deref().map_or([0; 8], set_of);
        assert!(
            seen.iter()
                .zip(chosen)
                .all(|(seen, page)| seen & !page == 0)
        );
        looked += count(&chosen);
        accessed += count(&seen);
    }
    // Of three arrays one is hot, one half so, and one cold.
    let share = f64::from(accessed) / f64::from(looked);
    assert!((0.35..0.7).contains(&share), "{share}");
}

#[test]
fn spots_are_of_faults_and_not_of_what_looks_at_all() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let alone = "--sensors spots,residency";
    record(folder.path(), alone, "true").expect_refusal(125, &["spots", "faults"]);
    record(folder.path(), "--sensors faults", "true").expect_code(0);
    assert_eq!(report(folder.path())["sensors"]["spots"], "off");
    record(folder.path(), "-f --access", "true").expect_code(0);
    let told = report(folder.path());
    let state = told["sensors"]["spots"].as_str().expect("a state");
    assert!(state.contains("--access"), "{state}");
    machine.assert_restored();
}

/// What stays in memory leaves no mark in swap-ins: with less of it the program would swap all the time, as only looks tell.
#[test]
fn by_spots_it_is_known_how_much_what_stays_in_memory_is_used() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile(folder.path(), "settled.c");
    let at_a_third = |sensors: &str| {
        let limits = "-f --memory 60% --measure-peak --swap zram --swap-size 512M";
        record(folder.path(), &format!("{limits} {sensors}"), "./settled").expect_code(0);
        let asked = ["report", "--json", "--what-if", "memory=30%"];
        let told: Value = serde_json::from_str(&run(folder.path(), &asked).expect_code(0).stdout)
            .expect("a report");
        (told["what_if"]["asked"][0].clone(), told)
    };
    let (asked, report) = at_a_third("");
    machine.assert_restored();
    let recorded = report["summary"]["swap_ins"].as_u64().expect("a number");
    let swap_ins = asked["swap_ins"].as_u64().expect("a number");
    let (unseen, _) = at_a_third("--sensors faults,residency");
    assert_eq!(unseen["swap_ins_high"], Value::Null, "{unseen}");
    if report["sensors"]["spots"] != "on" {
        assert!(pagewise_host::cold::folios_may_be_large(), "{report:#}");
        return;
    }
    assert!(
        swap_ins > 20 * recorded,
        "{asked}, where {recorded} were recorded"
    );
    assert!(asked["swap_ins_high"].as_u64() >= Some(swap_ins), "{asked}");
}

/// Of 128 hexadecimal digits.
fn set_of(map: &str) -> [u64; 8] {
    let mut set = [0; 8];
    for (at, digit) in map.chars().enumerate() {
        let digit = digit.to_digit(16).expect("a digit");
        set[at / 16] |= u64::from(digit) << (at % 16 * 4);
    }
    set
}

fn count(set: &[u64; 8]) -> u32 {
    set.iter().map(|word| word.count_ones()).sum()
}
