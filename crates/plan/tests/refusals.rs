//! Each mistake is told with file, line, key and what to type.

use std::path::Path;

use pagewise_plan::Plan;

const GOOD: &str = r#"schema = "pagewise.plan/1"

[program]
executable = "/usr/bin/solver"

[memory]
bytes = 1000000
lock_bytes = 500000

[[rule]]
target = "arcs"
kind = "allocation"
site = "SITE"
path = [{ module = "solver", function = "main", function_offset = 0x1b2, module_offset = 0x41b2 }]
action = "lock"
why = "hot"

[[rule]]
target = "table"
kind = "global"
module = "solver"
symbol = "table"
action = "stream"
why = "swept"
"#;

fn good() -> String {
    let site = "cb8fd3dd44a0a9d2";
    GOOD.replace("SITE", site)
}

/// What is said of the good plan with one thing changed.
fn said(from: &str, to: &str) -> String {
    let good = good();
    assert!(good.contains(from), "{from}");
    let error = Plan::parse(&good.replacen(from, to, 1), Path::new("plan.toml"));
    error.expect_err(to).to_string()
}

#[test]
fn the_good_plan_is_read() {
    let plan = Plan::parse(&good(), Path::new("plan.toml")).expect("it is good");
    assert_eq!(plan.rules.len(), 2);
    assert_eq!(plan.memory.lock_bytes, Some(500_000));
    assert_eq!(plan.rules[1].target.site(), None);
}

#[test]
fn each_mistake_names_its_line_and_key_and_what_to_type() {
    let first = "action = \"lock\"";
    for (from, to, expected) in [
        (
            "plan/1",
            "plan/2",
            "plan.toml:1: schema: \"pagewise.plan/2\" is newer than this pagewise",
        ),
        (
            "plan/1",
            "trace/1",
            "plan.toml:1: schema: \"pagewise.trace/1\" is no plan's; type: schema = ",
        ),
        (
            "[program]",
            "[programme]",
            "plan.toml:3: programme: there is no such key; did you mean program? It is missing; type: [program]",
        ),
        (
            "bytes = 1000000",
            "bites = 1000000",
            "plan.toml:7: memory.bites: there is no such key; did you mean bytes? It is missing; type: bytes = ",
        ),
        (
            first,
            "action = \"frobnicate\"",
            "rule.action: there is no action \"frobnicate\"; type one of lock, stream",
        ),
        (
            "target = \"arcs\"",
            "target = \"arcs\"\nline = 0",
            "rule.line: must be more than 0; leave it out, or type: line = 120",
        ),
        (
            "target = \"arcs\"",
            "target = \"arcs\"\nline = -1",
            "rule.line: -1 is negative; type: line = 120",
        ),
        (
            "module_offset = 0x41b2",
            "module_offset = true",
            "is true or false, not a whole number; type: module_offset = 0x41b2",
        ),
        (
            first,
            "actoin = \"lock\"",
            "plan.toml:15: rule.actoin: there is no such key; did you mean action? It is missing",
        ),
        (
            first,
            "ranges = [[0, 4096]]",
            "plan.toml:10: rule.action: is missing; type: action = ",
        ),
        ("executable =", "binary =", "program.executable: is missing"),
        (
            first,
            "action = \"lok\"",
            "plan.toml:15: rule.action: there is no action \"lok\"; did you mean lock? There are: lock, stream",
        ),
        (
            first,
            "action = 3",
            "plan.toml:15: rule.action: is a whole number, not a text; type: action = \"...\"",
        ),
        (
            first,
            "action = \"lock\"\nkep_bytes = 3",
            "plan.toml:16: rule.kep_bytes: there is no such key; did you mean keep_bytes?",
        ),
        (
            first,
            "other_paths = []\naction = \"lock\"",
            "plan.toml:15: rule.other_paths: 0 paths; give 1 to 16, or remove it",
        ),
        (
            first,
            "other_paths = [[]]\naction = \"lock\"",
            "rule.other_paths: 0 frames; give 1 to 256, innermost first",
        ),
        (
            first,
            "other_paths = [[{ module = \"a\", module_offset = 3 }]]\naction = \"lock\"",
            "neither function nor build_id",
        ),
        (
            first,
            "action = \"lock\"\nzebra = 3",
            "plan.toml:16: rule.zebra: there is no such key; remove it; there are: target,",
        ),
        (
            first,
            "action = \"lock\"\nkeep_bytes = -1",
            "plan.toml:16: rule.keep_bytes: -1 is negative; type: keep_bytes = 1048576",
        ),
        (
            first,
            "action = \"lock\"\nkeep_bytes = 0",
            "rule.keep_bytes: must be more than 0; leave it out, or type: keep_bytes = 1048576",
        ),
        (
            first,
            "action = \"cold\"\nkeep_bytes = 1",
            "rule.keep_bytes: means nothing with action = \"cold\"; remove it",
        ),
        (
            first,
            "action = \"lock\"\nobjects = 0",
            "rule.objects: must be more than 0; leave it out, or type: objects = 4",
        ),
        (
            first,
            "action = \"lock\"\nkeep_more = true",
            "rule.keep_more: means nothing without keep_bytes; remove it",
        ),
        (
            first,
            "action = \"lock\"\nkeep_bytes = 1\nkeep_more = true\nranges = [[0, 9]]",
            "rule.keep_more: means nothing with ranges; remove it",
        ),
        (
            first,
            "action = \"lock\"\ntogether = true",
            "rule.together: means nothing without ranges; remove it",
        ),
        (
            first,
            "action = \"lock\"\nranges = [[0, 9]]\ntogether = 1",
            "rule.together: is a whole number, not true or false; type: together = true",
        ),
        (
            first,
            "action = \"stream\"\ntogether = true",
            "rule.together: means nothing without ranges; remove it",
        ),
        (
            first,
            "action = \"cold\"\nkeep_more = true",
            "rule.keep_more: means nothing with action = \"cold\"; remove it",
        ),
        (
            first,
            "action = \"stream\"\nkeep_more = true",
            "rule.keep_more: means nothing without keep_bytes; remove it",
        ),
        (
            first,
            "action = \"stream\"\nkeep_bytes = 1\nkeep_more = 1",
            "rule.keep_more: is a whole number, not true or false; type: keep_more = true",
        ),
        (
            first,
            "action = \"lock\"\nchunk_bytes = 1",
            "rule.chunk_bytes: means nothing with action = \"lock\"",
        ),
        (
            first,
            "action = \"lock\"\nranges = [[0, 9], [8, 12]]",
            "rule.ranges: ranges ascend and do not overlap",
        ),
        (
            first,
            "action = \"lock\"\nranges = [[4, 4]]",
            "rule.ranges: the range ends before it begins",
        ),
        (
            first,
            "action = \"lock\"\nranges = [[0, -4]]",
            "rule.ranges: -4 is negative",
        ),
        (
            first,
            "action = \"lock\"\nranges = [4]",
            "rule.ranges: is a whole number, not a list",
        ),
        (
            first,
            "action = \"lock\"\npredicted = { speedup = 2, low = 3, high = 4 }",
            "rule.predicted: the speed-up lies outside",
        ),
        (
            first,
            "action = \"lock\"\npredicted = { speedup = nan, low = 3, high = 4 }",
            "rule.predicted.speedup: is no ratio",
        ),
        (
            "lock_bytes = 500000",
            "lock_bytes = -5",
            "plan.toml:8: memory.lock_bytes: -5 is negative",
        ),
        (
            "lock_bytes = 500000",
            "lock_bytes = 1000000",
            "memory.lock_bytes: locking all of the 1000000 bytes",
        ),
        (
            "lock_bytes = 500000",
            "lock_bytes = 99999999999999999999",
            "memory.lock_bytes: is too large",
        ),
        (
            "lock_bytes = 500000",
            "prezero_rate = 104857599",
            "memory.prezero_rate: 104857599 bytes a second are less than one huge page each time that there is a look; type: prezero_rate = 104857600",
        ),
        (
            "cb8fd3dd44a0a9d2",
            "0123456789abcdef",
            "plan.toml:13: rule.site: \"0123456789abcdef\" is not the key of the path below; type: site = \"cb8fd3dd44a0a9d2\"",
        ),
        (
            "function = \"main\", ",
            "",
            "rule.path: function and function_offset belong together",
        ),
        (
            "function = \"main\", function_offset = 0x1b2, ",
            "",
            "rule.path: neither function nor build_id",
        ),
        (
            "module = \"solver\", function",
            "module = \"/bin/solver\", function",
            "rule.path.module: \"/bin/solver\" has folders in it",
        ),
        (
            "kind = \"global\"",
            "kind = \"stack\"",
            "rule.kind: there is no kind \"stack\"",
        ),
        (
            "symbol = \"table\"",
            "symbol = \"\"",
            "rule.symbol: \"\" names nothing",
        ),
        ("why = \"hot\"", "why = \"hot", "plan.toml:16: TOML: "),
    ] {
        let said = said(from, to);
        assert!(said.contains(expected), "{said}\n wanted: {expected}");
        assert!(!said.contains('\n'), "one line: {said}");
    }
}

#[test]
fn of_the_heap_no_part_is_hot_and_what_it_is_backed_by_is_no_rule() {
    let heap = |rest: &str| {
        let at = GOOD.find("[[rule]]").expect("there");
        let rule = "[[rule]]\ntarget = \"heap\"\nkind = \"heap\"\nwhy = \"swept\"\n";
        Plan::parse(
            &format!("{}{rule}{rest}", &GOOD[..at]),
            Path::new("plan.toml"),
        )
    };
    let module = "module = \"solver\"\n";
    let good = heap(&format!("{module}action = \"stream\"\n")).expect("it is good");
    assert_eq!(good.rules[0].target.site(), None);
    for (rest, expected) in [
        (
            "action = \"lock\"\n".to_owned(),
            "plan.toml:10: rule.module: is missing; type: module = ",
        ),
        (
            format!("{module}action = \"lock\"\nranges = [[0, 4096]]\n"),
            "plan.toml:16: rule.ranges: mean nothing of the heap; remove them",
        ),
        (
            format!("{module}action = \"huge\"\n"),
            "rule.action: huge is not for the heap; type: fresh = \"huge\" under [memory]",
        ),
    ] {
        let said = heap(&rest).expect_err(&rest).to_string();
        assert!(said.contains(expected), "{said}\n wanted: {expected}");
    }
}

#[test]
fn two_rules_for_one_object_are_refused() {
    let twice = good() + &good()[good().rfind("[[rule]]").expect("there")..];
    let error = Plan::parse(&twice, Path::new("plan.toml")).expect_err("twice");
    let said = error.to_string();
    assert!(
        said.contains("rule 2 is about the same object; remove one"),
        "{said}"
    );
    assert!(said.starts_with("plan.toml:25: rule:"), "{said}");
}

#[test]
fn files_that_are_none_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("plan.toml");
    let said = |path: &Path| Plan::read(path).expect_err("refused").to_string();
    assert!(said(&missing).contains("make one of a recording: pagewise plan -o "));
    let recording = folder.path().join("a recording");
    std::fs::create_dir(&recording).expect("made");
    assert!(said(&recording).contains("it is a folder; name a file"));
    std::fs::write(recording.join("meta.json"), "{}").expect("written");
    assert!(
        said(&recording)
            .contains("it is a recording; make a plan of it: pagewise plan -o plan.toml '")
    );
    std::fs::write(&missing, vec![b'#'; (16 << 20) + 1]).expect("written");
    assert!(said(&missing).contains("more than a plan may"));
    std::fs::write(&missing, [0xff, 0xfe]).expect("written");
    assert!(said(&missing).contains("it is no text; name a file"));
    // Nobody will ever write into it.
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    assert!(said(&pipe).starts_with("cannot read the plan"));
}

#[test]
fn the_documents_example_is_read() {
    let document = include_str!("../../../docs/plan.md");
    let example = document.split("```toml\n").nth(1).expect("an example");
    let example = example.split("```").next().expect("its end");
    let plan = Plan::parse(example, Path::new("docs/plan.md")).expect("it is read");
    assert_eq!(
        (plan.rules.len(), plan.curve.len(), plan.headway.len()),
        (2, 1, 3)
    );
}

#[test]
fn a_curve_may_know_no_times_and_swap_nothing() {
    let point = |keys: &str| {
        let text = format!(
            "{}\n[[curve]]\nmemory_bytes = 4096\nswap_ins = 0\n{keys}",
            good()
        );
        Plan::parse(&text, Path::new("plan.toml")).map(|plan| plan.curve[0])
    };
    let unknown = point("").expect("it is read");
    assert_eq!((unknown.wall_ns, unknown.swap_ins_low), (None, None));
    let known = point("wall_ns = 0\nswap_ins_low = 0\nswap_ins_high = 7\n").expect("it is read");
    assert_eq!((known.wall_ns, known.swap_ins_high), (Some(0), Some(7)));
    let error = point("wall_ns = -1").expect_err("refused").to_string();
    assert!(error.contains("wall_ns"), "{error}");
}

#[test]
fn headway_is_pairs_that_ascend() {
    let with = |points: &str| {
        let text = format!("{}\n[headway]\n{points}\n", good());
        Plan::parse(&text, Path::new("plan.toml"))
    };
    let plan = with("points = [[10, 0], [10, 5], [20, 5]]").expect("it is read");
    assert_eq!(plan.headway[1].major_faults, 5);
    assert!(with("points = []").expect("it is read").headway.is_empty());
    let many = vec!["[1, 1]"; 1001].join(", ");
    let wrong = [
        ("points = [[10, 5], [20, 4]]", "ascend"),
        ("points = [[10, 5], [9, 6]]", "ascend"),
        ("points = [[10]]", "[[10, 0], [20, 1500]]"),
        ("points = [[10, -1]]", "points"),
        ("points = 7", "points"),
        ("point = []", "points"),
        ("points = []\nmore = 1", "more"),
        (&format!("points = [{many}]"), "1000"),
    ];
    for (text, word) in wrong {
        let error = with(text).expect_err(text).to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn headings_are_told_as_they_are_typed() {
    let said = |text: &str| {
        let error = Plan::parse(text, Path::new("plan.toml"));
        error.expect_err(text).to_string()
    };
    let memory = said("schema = \"pagewise.plan/1\"\nmemory = 1\n[program]\nexecutable = \"x\"");
    assert!(memory.ends_with("not a table; type: [memory]"), "{memory}");
    let rule = format!(
        "{}\n[rule]\n",
        good().split("[[rule]]").next().unwrap_or_default()
    );
    let rule = said(&rule);
    assert!(
        rule.ends_with("not a list; type: [[rule]] above each of them"),
        "{rule}"
    );
    let json = said("{ \"schema\": \"pagewise.plan/1\" }");
    assert!(json.contains("this is JSON, and a plan is TOML"), "{json}");
}
