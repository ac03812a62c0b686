//! Fresh memory in huge pages from inside a program, at its first touch or ready before: `hugepages --launch`, and plans that
//! say so.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::common::command::Ended;
use crate::common::command::run;
use crate::common::machine::Machine;
use crate::common::plans::call_in;
use crate::common::plans::write_plan;
use crate::common::programs::compile_with;
use crate::common::programs::folder_with;
use pagewise_plan::Action;
use pagewise_plan::ModuleFile;
use pagewise_plan::Rule;
use pagewise_plan::SourcePlace;
use pagewise_plan::Target;
use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;
use tempfile::tempdir_in;

const REGION: u64 = 2 << 20;
const MIB: u64 = 1 << 20;

fn folder() -> TempDir {
    folder_with("fresh.c")
}

fn launch(folder: &Path, options: &str, program: &str) -> Ended {
    let mut words = vec!["hugepages", "--launch", "--json", "outcome.json"];
    words.extend(options.split_whitespace());
    words.push("--");
    words.extend(program.split_whitespace());
    run(folder, &words)
}

/// What became of fresh memory, and how many page faults the program raised while it touched that.
fn outcome(folder: &Path, ended: &Ended) -> (Value, u64) {
    let text = fs::read_to_string(folder.join("outcome.json")).expect("written");
    let mut outcome: Value = serde_json::from_str(&text).expect("JSON");
    let faults = ended.stdout.trim().strip_prefix("ok ").expect("it is ok");
    (outcome["fresh"].take(), faults.parse().expect("a number"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Launched with `--prezero`: what was made ready, what of it was given back, and faults.
fn prezeroed(program: &str) -> (u64, u64, u64) {
    let folder = folder();
    let ended = launch(folder.path(), "--prezero", program).expect_code(0);
    let (fresh, faults) = outcome(folder.path(), &ended);
    assert_eq!(fresh["action"], "prezero");
    let number = |key: &str| number(&fresh[key]);
    (number("prezeroed_bytes"), number("returned_bytes"), faults)
}

#[test]
fn memory_is_ready_before_it_is_touched_in_order() {
    for mode in ["map", "block", "heap", "reserved"] {
        let (ready, _, faults) = prezeroed(&format!("./fresh {mode} 128"));
        // On a busy machine the program does most of it. With base pages there would be 32,768 faults.
        assert!(ready >= 8 * MIB, "{mode}: {ready}");
        assert!(ready <= 128 * MIB + 64 * MIB, "{mode}: {ready}");
        assert!(faults < 16384, "{mode}: {faults}");
    }
}

#[test]
fn no_more_is_made_ready_in_a_second_than_was_said() {
    let folder = folder();
    let begin = Instant::now();
    let ended = launch(
        folder.path(),
        "--prezero --prezero-rate 100M",
        "./fresh map 512",
    );
    let (fresh, _) = outcome(folder.path(), &ended.expect_code(0));
    // What is not taken at a look is not saved up for the next.
    let most = begin.elapsed().as_secs() + 1;
    let ready = number(&fresh["prezeroed_bytes"]);
    assert!((REGION..most * 100 * MIB).contains(&ready), "{ready}");
    let little = launch(
        folder.path(),
        "--prezero --prezero-rate 99M",
        "./fresh map 4",
    );
    little.expect_refusal(125, &["99M", "a size such as 100M"]);
}

#[test]
fn huge_pages_come_with_the_first_touch() {
    let folder = folder();
    for mode in ["map", "block", "heap", "reserved"] {
        let without_before = faults_without_a_huge_page();
        let ended = launch(folder.path(), "", &format!("./fresh {mode} 64")).expect_code(0);
        let (fresh, faults) = outcome(folder.path(), &ended);
        let without = faults_without_a_huge_page() - without_before;
        assert_eq!(fresh["action"], "huge");
        assert_eq!(number(&fresh["prezeroed_bytes"]), 0);
        // Each region one, and some at its ends; the heap is advised a little after it has grown. Where free memory is in
        // pieces, the kernel has no huge page for some regions.
        assert!(faults < 8192 + 512 * without, "{mode}: {faults}, {without}");
    }
}

/// How often a fault wanted a huge page and got none, on the whole machine.
fn faults_without_a_huge_page() -> u64 {
    let counters = std::fs::read_to_string("/proc/vmstat").expect("read");
    let of_name = |line: &str| line.strip_prefix("thp_fault_fallback ")?.parse().ok();
    counters.lines().find_map(of_name).expect("a counter")
}

#[test]
fn what_a_program_does_to_its_memory_does_no_harm() {
    let (ready, _, _) = prezeroed("./fresh sparse 256");
    assert_eq!(ready, 0, "nobody goes through it");
    let (ready, _, faults) = prezeroed("./fresh vast 32");
    assert_eq!(ready, 0, "memory could not hold it");
    assert!(faults >= 8192, "{faults}");
    let (ready, _, _) = prezeroed("./fresh cut 64");
    assert!(ready > 0);
    prezeroed("./fresh forks 64");
    prezeroed("./fresh races 64");
    prezeroed("./fresh holes 64");
    prezeroed("./fresh locks 24");
    let (ready, _, faults) = prezeroed("./fresh refuses 32");
    assert!(ready == 0 && faults > 4096, "{ready} {faults}");
}

#[test]
fn a_program_ends_with_its_last_thread_and_has_no_other_while_it_is_small() {
    let (ready, _, _) = prezeroed("./fresh leaves 32");
    assert!(ready > 0);
    prezeroed("./fresh alone 0");
    let folder = folder();
    launch(folder.path(), "", "./fresh alone 0").expect_code(0);
}

#[test]
fn what_was_ready_in_vain_is_given_back_and_ready_again_later() {
    let (ready, returned, _) = prezeroed("./fresh stops 128");
    assert!(
        returned >= REGION && returned < ready,
        "{returned} of {ready}"
    );
}

/// A plan that says this of fresh memory. On a disk: a file in memory is no page cache that can be dropped.
fn folder_with_plan(fresh: &str) -> TempDir {
    let folder = tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    compile_with(folder.path(), "fresh.c", "fresh", &[]);
    let path = folder.path().join("fresh");
    write_plan(&path, Vec::new());
    let plan = folder.path().join("plan.toml");
    let text = fs::read_to_string(&plan).expect("written");
    let with = text.replacen("[memory]\n", &format!("[memory]\nfresh = \"{fresh}\"\n"), 1);
    fs::write(&plan, with).expect("written");
    folder
}

#[test]
fn while_memory_is_short_it_comes_in_base_pages_and_zeros_are_taken_back() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with_plan("huge");
    let without_before = faults_without_a_huge_page();
    let options =
        "apply plan.toml --memory 170M --swap none --json outcome.json -- ./fresh presses 64";
    let words: Vec<&str> = options.split_whitespace().collect();
    let ended = run(folder.path(), &words).expect_code(0);
    let (fresh, faults) = outcome(folder.path(), &ended);
    assert_eq!(number(&fresh["shortages"]), 1, "{fresh}");
    ended.expect_told(&["while memory was short (1 times)"]);
    let without = faults_without_a_huge_page() - without_before;
    // Of 16 huge pages with a written page each; where free memory is in pieces, the kernel had none for some.
    let recovered = number(&fresh["recovered_bytes"]);
    assert!(
        recovered + without * REGION >= 14 * REGION || !frees_zeros(),
        "{recovered} {without}"
    );
    assert!(recovered <= 16 * REGION, "{recovered}");
    // Afterwards, there are huge pages again.
    assert!(faults < 2048 + 512 * without, "{faults}, {without}");
    machine.assert_restored();
}

/// Whether this kernel frees the zeros of a huge page that is split.
fn frees_zeros() -> bool {
    Path::new("/sys/kernel/mm/transparent_hugepage/shrink_underused").exists()
}

#[test]
fn near_its_limit_a_program_gets_nothing_ahead() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = folder_with_plan("prezero");
    let limited = |limit: &str, program: &str| {
        let options = format!(
            "apply plan.toml --memory {limit} --swap none --json outcome.json -- {program}"
        );
        let words: Vec<&str> = options.split_whitespace().collect();
        let ended = run(folder.path(), &words).expect_code(0);
        let (fresh, _) = outcome(folder.path(), &ended);
        (number(&fresh["prezeroed_bytes"]), ended)
    };
    let (ready, _) = limited("80M", "./fresh map 64");
    // Beyond 70 MiB, of which the C library and the file cache take some, nothing is.
    assert!(ready < 64 * MIB, "{ready}");
    let (ready, ended) = limited("11M", "./fresh stops 8");
    assert_eq!(ready, 0);
    ended.expect_told(&["there was no room"]);
    // Page cache that fills the limit is room.
    let (ready, _) = limited("160M", "./fresh caches 64");
    assert!(ready > 0);
    drop(machine);
}

#[test]
fn an_object_alone_is_made_ready_by_its_rule() {
    let folder = tempdir().expect("a folder");
    compile_with(folder.path(), "planned.c", "planned", &[]);
    let path = folder.path().join("planned");
    let file = ModuleFile::read(&path).expect("an ELF file");
    let rule = Rule {
        objects: None,
        name: "of make".to_owned(),
        place: SourcePlace::default(),
        target: Target::allocation(vec![call_in(&file, "make")]),
        action: Action::Prezero,
        why: "a test".to_owned(),
        predicted: None,
    };
    write_plan(&path, vec![rule]);
    let words = [
        "apply",
        "plan.toml",
        "--json",
        "outcome.json",
        "--",
        "./planned",
        "plain",
    ];
    run(folder.path(), &words).expect_code(0);
    let text = fs::read_to_string(folder.path().join("outcome.json")).expect("written");
    let outcome: Value = serde_json::from_str(&text).expect("JSON");
    let rule = &outcome["rules"][0];
    assert_eq!(rule["action"], "prezero");
    assert_eq!(number(&rule["objects"]), 1);
    assert!(number(&rule["advised_bytes"]) > 7 * MIB, "{rule}");
    assert_eq!(outcome["fresh"], Value::Null);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempdir().expect("a folder");
    for (words, said) in [
        ("hugepages --launch", "CMD"),
        ("hugepages --prezero --all", "--launch"),
        ("hugepages --launch --all -- true", "cannot be used with"),
        ("hugepages --launch --rate 3 -- true", "cannot be used with"),
        ("hugepages --once -- true", "--launch"),
    ] {
        let words: Vec<&str> = words.split_whitespace().collect();
        run(folder.path(), &words).expect_refusal(125, &[said]);
    }
    launch(folder.path(), "", "./no-such-program").expect_refusal(127, &["no-such-program"]);
    let text = "schema = \"pagewise.plan/1\"\n[program]\nexecutable = \"/bin/true\"\n[memory]\nbytes = 1000000\nfresh = \"small\"\n";
    fs::write(folder.path().join("plan.toml"), text).expect("written");
    run(folder.path(), &["apply", "plan.toml", "--", "true"])
        .expect_refusal(125, &["plan.toml:6: memory.fresh", "fresh = \"prezero\""]);
}
