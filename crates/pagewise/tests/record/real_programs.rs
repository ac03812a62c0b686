//! Programs that nobody here wrote, as their users run them, with less memory than they want.

use std::fs::File;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use crate::common::command::Ended;
use crate::common::command::command;
use crate::common::command::record_arguments;
use crate::common::command::report;
use crate::common::command::run;
use crate::common::command::start;
use crate::common::machine::Machine;
use crate::common::within;
use serde_json::Value;
use tempfile::tempdir;

fn number(report: &Value, key: &str) -> u64 {
    report["summary"][key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key}: {report:#}"))
}

/// What must be true of the recording of any program.
fn assert_sound(report: &Value, least_swap_ins: u64) {
    let swap_ins = number(report, "swap_ins");
    assert!(swap_ins > least_swap_ins, "{swap_ins} swap-ins are no test");
    assert_eq!(report["complete"], true);
    assert_eq!(report["losses"]["events"], 0);
    // The kernel's own count for the program, against what was seen.
    let seen = swap_ins - number(report, "swap_cache_hits")
        + number(report, "file_major_faults")
        + number(report, "faults_without_exception");
    let counted = number(report, "major_faults");
    assert!(
        seen.abs_diff(counted) * 100 <= counted,
        "{seen} seen of {counted}"
    );
    let objects = report["objects"].as_array().expect("objects");
    let of_objects: u64 = objects
        .iter()
        .filter_map(|object| object["swap_ins"].as_u64())
        .sum();
    assert_eq!(
        of_objects, swap_ins,
        "each swap-in is somebody's, be it unknown"
    );
    let paths = report["fault_paths"].as_array().expect("paths");
    let unknown = paths
        .iter()
        .find(|path| path["path"].as_array().is_some_and(Vec::is_empty));
    let unknown = unknown.map_or(0, |path| path["swap_ins"].as_u64().expect("a count"));
    // An unoptimized recorder may not keep up with a program of many paths; what that costs is counted.
    let lost = report["losses"]["call_paths"].as_u64().expect("a count");
    assert!(
        unknown.saturating_sub(lost) * 20 <= swap_ins && unknown * 2 <= swap_ins,
        "{unknown} of {swap_ins} without a call path, {lost} lost"
    );
}

/// Whether some swap-in was taken in a function of that name.
fn waited_in(report: &Value, function: &str) -> bool {
    let paths = report["fault_paths"].as_array().expect("paths");
    let frames = paths
        .iter()
        .flat_map(|path| path["path"].as_array().expect("frames"));
    let names = frames.filter_map(|frame| frame["function"].as_str());
    names.into_iter().any(|name| name.contains(function))
}

/// Runs it to its end. On cgroup v1 the kernel's reclaim may give up with swap still free, mostly while other programs keep
/// all processors busy, and then kills; the recording says so. That is not what these tests are about: once more, then.
fn run_to_its_end(folder: &Path, arguments: &[&str]) -> Ended {
    const ATTEMPTS: usize = 5;
    for _ in 1..ATTEMPTS {
        let ended = run(folder, arguments);
        let gave_up = ended.stderr.contains("reclaim failed with");
        if !gave_up {
            return ended.expect_code(0);
        }
        println!("killed with swap still free: {}", ended.stderr);
    }
    run(folder, arguments).expect_code(0)
}

fn write_lines(path: &Path, bytes: usize) {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut written = 0;
    while written < bytes {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Not formatted: these are millions.
        let mut line = [b' '; 26];
        for (place, byte) in line[..24].iter_mut().enumerate() {
            *byte = b'0' + (random >> (2 * place)) as u8 % 64;
        }
        line[25] = b'\n';
        file.write_all(&line).expect("written");
        written += line.len();
    }
}

#[test]
fn sort_a_large_file() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    write_lines(&folder.path().join("lines"), 120 << 20);
    let options = "--memory 344M --swap zram --swap-size 1200M";
    let program = "sort --parallel=2 -S 408M -o sorted lines";
    run_to_its_end(folder.path(), &record_arguments(options, program));
    machine.assert_restored();
    assert_sound(&report(folder.path()), 1_000);
}

#[test]
fn a_large_dictionary_in_python() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let source = "d = {i: str(i) * 3 for i in range(300000)}\n\
                  print(sum(len(d[i * 7919 % 300000]) for i in range(150000)))\n";
    std::fs::write(folder.path().join("big.py"), source).expect("written");
    let options = "--memory 32M --swap zram --swap-size 512M";
    run_to_its_end(folder.path(), &record_arguments(options, "python3 big.py"));
    machine.assert_restored();
    assert_sound(&report(folder.path()), 1_000);
}

#[test]
fn sqlite_sorts_a_table() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let statements = "PRAGMA temp_store = memory; PRAGMA cache_size = -400000;\n\
        CREATE TABLE t AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 300000)\n\
        SELECT x, (x * 7919) % 300007 AS k, printf('%064d', x) AS payload FROM c;\n\
        CREATE TABLE sorted AS SELECT * FROM t ORDER BY k;\n\
        SELECT count(*), max(k) FROM sorted;\n";
    std::fs::write(folder.path().join("sort.sql"), statements).expect("written");
    let options = "--memory 40M --swap zram --swap-size 1G";
    let mut arguments = record_arguments(options, "sqlite3 :memory:");
    arguments.push(".read sort.sql");
    let ended = run_to_its_end(folder.path(), &arguments);
    assert_eq!(ended.stdout.trim(), "300000|300006");
    machine.assert_restored();
    let report = report(folder.path());
    assert_sound(&report, 1_000);
    assert!(waited_in(&report, "sqlite3"), "{:#}", report["fault_paths"]);
}

#[test]
fn redis_serves_a_benchmark() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let options = "--memory 40M --swap zram --swap-size 512M";
    let program = format!(
        "redis-server --port 0 --unixsocket {} --save",
        socket.display()
    );
    let mut arguments = record_arguments(options, &program);
    arguments.push("");
    let server = start(command(folder.path(), &arguments));
    assert!(within(Duration::from_secs(20), || socket.exists()));
    let client = |program: &str, words: &str| {
        let status = Command::new(program)
            .arg("-s")
            .arg(&socket)
            .args(words.split_whitespace())
            .stdout(Stdio::null())
            .status()
            .unwrap_or_else(|error| panic!("{program} is needed: {error}"));
        assert!(status.success(), "{program} {words}: {status}");
    };
    client(
        "redis-benchmark",
        "-q -n 60000 -r 60000 -d 1000 -c 8 -t set",
    );
    client("redis-benchmark", "-q -n 30000 -r 60000 -c 8 -t get");
    // It closes the connection without an answer.
    let _ = Command::new("redis-cli")
        .arg("-s")
        .arg(&socket)
        .args(["shutdown", "nosave"])
        .output();
    server.end().expect_code(0);
    machine.assert_restored();
    assert_sound(&report(folder.path()), 1_000);
}
