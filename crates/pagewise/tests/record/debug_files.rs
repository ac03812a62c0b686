//! Programs whose debug information is elsewhere, recorded without any pressure: allocations have their names.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::command::command;
use crate::common::command::record_arguments;
use crate::common::command::report;
use crate::common::command::start;
use serde_json::Value;
use tempfile::tempdir;

const SOURCE: &str = "#include <stdlib.h>\nint main(void) {\n    volatile char *grid = malloc(1 << 20);\n    grid[5] = 1;\n    free((void *)grid);\n    return 0;\n}\n";
const OPTIONS: &str = "--sensors allocations --swap none";

fn run(folder: &Path, line: &str) {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a program");
    let status = Command::new(program)
        .args(words)
        .current_dir(folder)
        .status();
    assert!(status.expect(program).success(), "{line}");
}

/// A program without debug information, which is in `grid.debug`.
fn stripped(folder: &Path) {
    fs::write(folder.join("grid.c"), SOURCE).expect("a source");
    run(folder, "gcc -g -O0 -Wl,--build-id -o grid grid.c");
    run(folder, "objcopy --only-keep-debug grid grid.debug");
    run(folder, "strip grid");
}

/// A `debuginfod-find` that says this, put before all others on the search path.
fn fake_client(folder: &Path, script: &str) -> OsString {
    let tool = folder.join("debuginfod-find");
    fs::write(&tool, format!("#!/bin/sh\n{script}\n")).expect("a script");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("executable");
    let mut path = OsString::from(folder);
    path.push(":");
    path.push(std::env::var_os("PATH").expect("a search path"));
    path
}

fn line_of_grid(folder: &Path) -> Option<u64> {
    let report = report(folder);
    let objects = report["objects"].as_array().expect("objects").clone();
    let grid = objects
        .into_iter()
        .find(|object| object["bytes"].as_u64() == Some(1 << 20));
    let grid: Value = grid.expect("an object of 1 MiB");
    assert_eq!(grid["name"].is_null(), grid["line"].is_null(), "{grid}");
    assert!(grid["name"].is_null() || grid["name"] == "grid", "{grid}");
    grid["line"].as_u64()
}

#[test]
fn servers_are_asked_when_the_user_says_so_and_only_then() {
    let folder = tempdir().expect("a folder");
    stripped(folder.path());
    let client = "echo \"$@\" >> asked; [ \"$1 $2\" = \"debuginfo $(cat id)\" ] && echo \"$PWD/grid.debug\" && exit 0; [ \"$1\" = --version ] && exit 0; echo \"Server query failed: No such file or directory\" >&2; exit 1";
    let path = fake_client(folder.path(), client);
    let id = pagewise_attribute::build_id(&folder.path().join("grid")).expect("a build id");
    fs::write(folder.path().join("id"), &id).expect("written");
    for asked in [false, true] {
        let options = if asked {
            format!("{OPTIONS} --debuginfod -f -o pagewise.data")
        } else {
            OPTIONS.to_owned()
        };
        let mut record = command(folder.path(), &record_arguments(&options, "./grid"));
        record
            .env("PATH", &path)
            .env("DEBUGINFOD_URLS", "http://127.0.0.1:1");
        let ended = start(record).end().expect_code(0);
        assert_eq!(line_of_grid(folder.path()), asked.then_some(3), "{ended:?}");
        assert_eq!(folder.path().join("asked").exists(), asked);
        // The C library's, which this server does not have.
        assert_eq!(
            ended.stderr.contains("No such file or directory"),
            asked,
            "{ended:?}"
        );
    }
}

#[test]
fn without_servers_or_client_it_says_what_to_type() {
    let folder = tempdir().expect("a folder");
    let arguments = record_arguments("--debuginfod", "true");
    let mut no_server = command(folder.path(), &arguments);
    no_server.env_remove("DEBUGINFOD_URLS");
    start(no_server)
        .end()
        .expect_refusal(125, &["DEBUGINFOD_URLS="]);
    let mut no_client = command(folder.path(), &arguments);
    no_client
        .env("DEBUGINFOD_URLS", "http://127.0.0.1:1")
        .env("PATH", folder.path());
    start(no_client)
        .end()
        .expect_refusal(125, &["debuginfod-find", "apt-get install debuginfod"]);
}

#[test]
fn separate_split_and_shared_files_are_read() {
    for (steps, what) in [
        (
            "objcopy --add-gnu-debuglink=grid.debug grid",
            ".gnu_debuglink",
        ),
        ("gcc -g -O0 -gsplit-dwarf -o grid grid.c", ".dwo"),
        (
            "gcc -g -O0 -gdwarf-4 -gsplit-dwarf -o grid grid.c; dwp -e grid; rm -f grid-grid.dwo grid.dwo",
            ".dwp",
        ),
    ] {
        let folder = tempdir().expect("a folder");
        stripped(folder.path());
        for line in steps.split(';') {
            run(folder.path(), line);
        }
        let ended = start(command(folder.path(), &record_arguments(OPTIONS, "./grid"))).end();
        let ended = ended.expect_code(0);
        assert_eq!(line_of_grid(folder.path()), Some(3), "{what}: {ended:?}");
    }
}
