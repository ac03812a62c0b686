//! `pagewise simulate` as users call it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

/// A folder with a trace of 5000 accesses to 500 pages, some of them hot, a third of them writes.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let kinds = ["readi", "readd", "write"];
    let line = |index: u64| {
        let page = if index.is_multiple_of(3) {
            index % 40
        } else {
            index * 7919 % 500
        };
        format!("{}\t0x{:x}\t8\n", kinds[(page % 3) as usize], page << 12)
    };
    let text: String = (0..5000).map(line).collect();
    fs::write(folder.path().join("t"), text).unwrap();
    folder
}

fn simulate(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .arg("simulate")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(folder: &Path, arguments: &str) -> Value {
    serde_json::from_str(&stdout(&simulate(folder, &format!("{arguments} --json")))).unwrap()
}

#[test]
fn streams_and_held_traces_and_any_number_of_jobs_say_the_same() {
    let folder = folder();
    // 100 pages are 20 % of the footprint, and need not be known first.
    let arguments = "t --policy lru,clock,s3-fifo,four-area --memory";
    let held = json(folder.path(), &format!("{arguments} 20%,50% --jobs 1"));
    for other in [
        "20%,50% --jobs 3",
        "100p,250p --jobs 1",
        "400K,1000K --jobs 3",
    ] {
        let found = json(folder.path(), &format!("{arguments} {other}"));
        assert_eq!(found["rows"], held["rows"], "{other}");
        assert_eq!(found["trace"], held["trace"], "{other}");
    }
    assert_eq!(held["rows"].as_array().unwrap().len(), 8);
    assert_eq!(held["trace"]["pages"], 500);
}

#[test]
fn times_are_split_and_compared() {
    let folder = folder();
    let document = json(folder.path(), "t --policy clock,belady --memory 10%");
    let rows = document["rows"].as_array().unwrap();
    for row in rows {
        let part = |key: &str| row[key].as_u64().unwrap();
        let parts = [
            "file_read_ns",
            "file_write_ns",
            "swap_read_ns",
            "swap_write_ns",
        ];
        assert_eq!(
            part("io_ns"),
            parts.iter().map(|key| part(key)).sum::<u64>()
        );
        assert_eq!(part("references"), 5000);
    }
    assert_eq!(rows[0]["io_vs_clock"], 1.0);
    assert!(rows[0]["misses_vs_optimum"].as_f64().unwrap() > 1.0);
    assert_eq!(rows[1]["misses_vs_optimum"], 1.0);
    // CLOCK is compared with even where it is not shown.
    let alone = json(folder.path(), "t --policy lru --memory 10%");
    assert!(alone["rows"][0]["io_vs_clock"].is_number());
    assert!(alone["rows"][0]["misses_vs_optimum"].is_null());
}

#[test]
fn a_sweep_varies_what_a_write_to_swap_costs() {
    let folder = folder();
    let document = json(
        folder.path(),
        "t --policy clock,four-area --memory 10% --sweep write/read=1..100",
    );
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 14);
    let clock: Vec<_> = rows.iter().filter(|row| row["policy"] == "clock").collect();
    assert!(
        clock
            .windows(2)
            .all(|pair| pair[0]["misses"] == pair[1]["misses"])
    );
    let write = |row: &Value| row["swap_write_ns"].as_u64().unwrap();
    assert_eq!(write(clock[6]), write(clock[0]) * 100);
}

#[test]
fn csv_has_the_keys_of_the_rows() {
    let folder = folder();
    let text = stdout(&simulate(
        folder.path(),
        "t --policy fifo --memory 10% --csv",
    ));
    let mut lines = text.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("policy,memory_pages,memory_bytes,")
    );
    assert!(lines.next().unwrap().starts_with("fifo,50,204800,,5000,"));
}

#[test]
fn the_table_says_what_was_simulated() {
    let folder = folder();
    let text = stdout(&simulate(folder.path(), "t --memory 10%"));
    assert!(
        text.starts_with("t (memtrace, files by paper): 5,000 references to 500 pages (2.0 MiB)"),
        "{text}"
    );
    assert!(
        text.contains("memory 50 pages (200 KiB, 10% of the footprint)"),
        "{text}"
    );
    assert!(text.contains("vs optimum"), "{text}");
}

#[test]
fn standard_input_is_a_trace() {
    let folder = folder();
    let mut child = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .args(["simulate", "-", "--json", "--policy", "fifo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = fs::read(folder.path().join("t")).unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let output = child.wait_with_output().unwrap();
    let piped: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        piped["rows"],
        json(folder.path(), "t --policy fifo")["rows"]
    );
}

#[test]
fn what_cannot_be_simulated_is_said_in_one_line() {
    let folder = folder();
    fs::write(folder.path().join("empty"), "").unwrap();
    fs::write(folder.path().join("bad"), "1\n2\nx\n3\n").unwrap();
    let cases = [
        ("t --policy clok", "did you mean `clock`?"),
        ("t --memory 0", "zero"),
        ("t --memory 0.1%", "less than one page"),
        ("t --warmup 5000", "none would count"),
        ("t --storage swap=floppy", "no device is called `floppy`"),
        ("empty", "empty holds no references"),
        ("bad --format lirs", "bad, line 3"),
        ("nowhere", "cannot read nowhere"),
        ("t --format lrs", "did you mean `lirs`?"),
    ];
    for (arguments, expected) in cases {
        let output = simulate(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments}");
        let message = stderr(&output);
        assert!(message.contains(expected), "{arguments}: {message}");
        assert_eq!(
            message.trim_end().lines().count(),
            1,
            "{arguments}: {message}"
        );
    }
}

#[test]
fn what_should_be_known_is_told_beside_the_table() {
    let folder = folder();
    fs::write(folder.path().join("bad"), "1\n2\nx\n3\n").unwrap();
    let output = simulate(
        folder.path(),
        "bad --format lirs --skip-bad --memory 3p --policy clock",
    );
    let message = stderr(&output);
    assert!(
        message.contains("left out 1 bad lines; the first: line 3"),
        "{message}"
    );
    assert!(message.contains("holds all 3 pages"), "{message}");
    assert!(output.status.success());
}

#[test]
fn a_page_is_written_once() {
    let folder = folder();
    let arguments = "t --policy clock --memory 10% --html page.html";
    let _ = stdout(&simulate(folder.path(), arguments));
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("pagewise.simulate/1") && page.ends_with("</html>\n"));
    let again = simulate(folder.path(), arguments);
    assert_eq!(again.status.code(), Some(125));
    assert!(stderr(&again).contains("use -f to overwrite it"));
    assert!(
        simulate(folder.path(), &format!("{arguments} -f"))
            .status
            .success()
    );
}

#[test]
fn curves_agree_with_simulations() {
    let folder = folder();
    let document = json(
        folder.path(),
        "t --policy lru,s3-fifo,belady --memory 25%,100% --curve",
    );
    for (curve, policy) in document["curves"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["lru", "s3-fifo", "belady"])
    {
        assert_eq!(
            (&curve["policy"], &curve["sampling_rate"]),
            (&policy.into(), &1.0.into())
        );
        for row in document["rows"].as_array().unwrap() {
            let here = |point: &&Value| point["memory_pages"] == row["memory_pages"];
            let point = curve["points"]
                .as_array()
                .unwrap()
                .iter()
                .find(here)
                .unwrap();
            if row["policy"] == policy {
                assert_eq!(point["miss_ratio"], row["miss_ratio"]);
                assert_eq!(point["io_ns"], row["io_ns"]);
            }
        }
    }
}

/// A folder with 300,000 accesses to 30,000 blocks, low ones far more often, none much more often than all others.
fn long_trace() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut state = 1_u64;
    let mut below = |end: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % end
    };
    let line = |_| {
        let most = 1 + below(30_000);
        format!("{}\n", 1 + below(most))
    };
    let text: String = (0..300_000).map(line).collect();
    fs::write(folder.path().join("t"), text).unwrap();
    folder
}

fn rows(folder: &Path, arguments: &str) -> Vec<Value> {
    let document = json(folder, &format!("t {arguments}"));
    document["rows"].as_array().unwrap().clone()
}

#[test]
fn a_sample_stands_for_all_pages_within_its_error() {
    let folder = long_trace();
    for warmup in ["", " --warmup 100000"] {
        let arguments = format!("--policy lru,clock,arc,belady --memory 5%,20%,50%{warmup}");
        let exact = rows(folder.path(), &arguments);
        let sampled = rows(folder.path(), &format!("{arguments} --sample 10%"));
        assert_eq!((exact.len(), sampled.len()), (12, 12));
        for (exact, sampled) in exact.iter().zip(&sampled) {
            for same in ["policy", "memory_pages", "memory_bytes", "references"] {
                assert_eq!(exact[same], sampled[same]);
            }
            let number = |row: &Value, key: &str| row[key].as_f64().unwrap();
            let error = number(sampled, "miss_ratio_error");
            assert!(exact["miss_ratio_error"].is_null());
            assert!(error > 0.0 && error < 0.04, "{sampled}");
            let off = (number(exact, "miss_ratio") - number(sampled, "miss_ratio")).abs();
            assert!(
                off < 3.0 * error,
                "off by {off}, not {error}: {exact} {sampled}"
            );
            let (few, many) = (number(exact, "io_ns"), number(sampled, "io_ns"));
            assert!((few / many - 1.0).abs() < 0.1, "{exact} {sampled}");
        }
        // The same with sizes in pages, for which the footprint need not be known.
        let pages = |row: &Value| format!("{}p", row["memory_pages"]);
        let sizes = [pages(&exact[0]), pages(&exact[4]), pages(&exact[8])].join(",");
        let arguments = format!("--policy lru,clock,arc --memory {sizes}{warmup}");
        let in_pages = rows(folder.path(), &format!("{arguments} --sample 0.1"));
        assert_eq!(in_pages.len(), 9);
        for row in &in_pages {
            let held = sampled.iter().find(|other| {
                other["policy"] == row["policy"] && other["memory_pages"] == row["memory_pages"]
            });
            assert_eq!(row["misses"], held.unwrap()["misses"]);
        }
    }
}

#[test]
fn a_sample_of_nothing_or_of_a_curve_is_refused_and_a_small_one_is_told() {
    let folder = folder();
    for wrong in ["0", "-1%", "2", "NaN", "many"] {
        let output = simulate(folder.path(), &format!("t --sample {wrong}"));
        let error = stderr(&output);
        assert!(!output.status.success(), "{wrong}");
        assert!(
            error.contains("above 0 and at most 1, like 1% or 0.01"),
            "{error}"
        );
    }
    let output = simulate(folder.path(), "t --sample 1% --curve");
    assert!(!output.status.success());
    let output = simulate(folder.path(), "t --sample 10% --memory 20%");
    assert!(stderr(&output).contains("of a memory of 20%"), "{output:?}");
    assert!(
        stdout(&output).contains("simulated: 10% of the pages"),
        "{output:?}"
    );
}
