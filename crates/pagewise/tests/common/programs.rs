//! Small programs to record, compiled from sources in this repository.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tempfile::tempdir;

/// A folder with a program of tests/programs.
pub(crate) fn folder_with(source: &str) -> TempDir {
    let folder = tempdir().expect("a folder");
    compile(folder.path(), source);
    folder
}

/// Compiles a source file of tests/programs, with debug information, to an executable of its name in the folder.
pub(crate) fn compile(folder: &Path, source: &str) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let output = folder.join(Path::new(source).file_stem().expect("a name"));
    compile_file(&output, &sources.join(source), &[]);
}

/// The same with further options for the compiler, to a file of this name.
pub(crate) fn compile_with(folder: &Path, source: &str, output: &str, options: &[&str]) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    compile_file(&folder.join(output), &sources.join(source), options);
}

/// The yardstick: a program that knows its own faults.
pub(crate) fn compile_pattern(folder: &Path) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    compile_file(&folder.join("pattern"), &examples.join("pattern.c"), &[]);
}

/// Compiles a program of `examples` to an executable of its name in the folder.
pub(crate) fn compile_example(folder: &Path, source: &str) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let output = folder.join(Path::new(source).file_stem().expect("a name"));
    compile_file(&output, &examples.join(source), &["-D_GNU_SOURCE"]);
}

fn compile_file(path: &Path, source: &Path, options: &[&str]) {
    let compiler = match source.extension() {
        Some(extension) if extension == "cpp" => "g++",
        _ => "gcc",
    };
    let output = Command::new(compiler)
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(path)
        .arg(source)
        .args(options)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} is needed: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Compiles a Go program of tests/programs into the folder, by a compiler of the distribution, or as go.dev installs it.
pub(crate) fn compile_go(folder: &Path, source: &str, name: &str) {
    let installed = Path::new("/usr/local/go/bin/go");
    let go = match installed.is_file() {
        true => installed,
        false => Path::new("go"),
    };
    let built = Command::new(go)
        .args(["build", "-o"])
        .arg(folder.join(name))
        .arg(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/programs")
                .join(source),
        )
        .env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"))
        .envs([
            ("GOTOOLCHAIN", "local"),
            ("GO111MODULE", "off"),
            ("CGO_ENABLED", "0"),
        ])
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("go is needed, see scripts/setup --tests: {error}"));
    assert!(built.status.success(), "{built:?}");
}

/// Compiles a Java program of tests/programs into the folder.
pub(crate) fn compile_java(folder: &Path, source: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    let built = Command::new("javac")
        .args(["-d", "."])
        .arg(path)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("javac is needed, see scripts/setup --tests: {error}"));
    assert!(built.status.success(), "{built:?}");
}
