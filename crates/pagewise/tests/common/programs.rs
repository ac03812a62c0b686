//! Small programs to record, compiled from sources in this repository.

use std::path::Path;
use std::process::Command;

/// Compiles a source file of tests/programs, with debug information, to an executable of its name in the folder.
pub(crate) fn compile(folder: &Path, source: &str) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    compile_file(folder, &sources.join(source));
}

/// The yardstick: a program that knows its own faults.
pub(crate) fn compile_pattern(folder: &Path) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    compile_file(folder, &examples.join("pattern.c"));
}

fn compile_file(folder: &Path, source: &Path) {
    let compiler = match source.extension() {
        Some(extension) if extension == "cpp" => "g++",
        _ => "gcc",
    };
    let output = Command::new(compiler)
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(folder.join(source.file_stem().expect("a name")))
        .arg(source)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} is needed: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
