//! Stacks of real programs, copied while they ran, against the functions known to be on them.

mod common;

use common::{Limits, build, folder, record, source};
use pagewise_attribute::Symbolizer;
use pagewise_attribute::unwind::{CallPath, WalkEnd};

/// The program's own functions on a path, innermost first.
fn functions(recording: &common::Recording, path: &CallPath) -> Vec<String> {
    let mut symbolizer = Symbolizer::new();
    let frames = recording.frames(path, &mut symbolizer);
    let own = frames.into_iter().filter(|frame| {
        frame
            .module
            .as_deref()
            .is_some_and(|module| module.ends_with("/program"))
    });
    own.filter_map(|frame| frame.function).collect()
}

/// Functions on the path of the allocation of `bytes`, and how its walk ended.
fn walk(options: &str, bytes: u64, limits: &Limits) -> (Vec<String>, CallPath) {
    let folder = folder();
    let program = build(folder.path(), "gcc", options, &source("stacks.c"));
    let recording = record(folder.path(), &program, limits);
    let found = recording
        .allocations
        .iter()
        .find(|allocation| allocation.bytes == bytes);
    let path = found.expect("the program allocates that much").path.clone();
    (functions(&recording, &path), path)
}

/// Sizes that `stacks.c` allocates, by how it gets there.
const NESTED: u64 = 100_001;
const RECURSIVE: u64 = 100_002;
const VARIABLE: u64 = 100_003;
const THREAD: u64 = 100_004;
const CALLBACK: u64 = 100_005;
const GENERATED: u64 = 100_006;
const LAST_CALL: u64 = 100_007;
const SIGNAL: u64 = 100_008;

/// With and without frame pointers, at a fixed and at any address.
const BUILDS: [&str; 3] = [
    "-O0 -g -pthread",
    "-O2 -g -pthread -fomit-frame-pointer -fno-optimize-sibling-calls",
    "-O2 -g -pthread -no-pie -fno-omit-frame-pointer -fno-optimize-sibling-calls",
];

/// Requires a complete path of exactly these functions of the program.
fn expect(bytes: u64, expected: &[&str]) {
    for options in BUILDS {
        let (functions, path) = walk(options, bytes, &Limits::default());
        assert_eq!(path.end, WalkEnd::Outermost, "{options}: {functions:?}");
        assert_eq!(functions, expected, "{options}");
        assert!(!path.is_truncated());
    }
}

#[test]
fn nested_calls() {
    expect(
        NESTED,
        &["allocate", "third", "second", "first", "main", "_start"],
    );
}

#[test]
fn frames_of_variable_size() {
    expect(VARIABLE, &["allocate", "variable", "main", "_start"]);
}

#[test]
fn threads_end_where_they_were_made() {
    expect(THREAD, &["allocate", "thread"]);
}

#[test]
fn callbacks_from_a_library() {
    expect(CALLBACK, &["allocate", "compare", "main", "_start"]);
}

#[test]
fn calls_that_never_return() {
    expect(
        LAST_CALL,
        &["allocate", "finish", "last_call", "main", "_start"],
    );
}

#[test]
fn signal_handlers() {
    expect(SIGNAL, &["allocate", "on_signal", "main", "_start"]);
}

#[test]
fn recursion() {
    for options in BUILDS {
        let (functions, path) = walk(options, RECURSIVE, &Limits::default());
        assert_eq!(path.end, WalkEnd::Outermost);
        let descents = functions
            .iter()
            .filter(|function| *function == "descend")
            .count();
        assert_eq!(descents, 51, "{options}");
    }
}

#[test]
fn a_copy_that_is_too_short_is_told() {
    let limits = Limits {
        stack: 1024,
        ..Limits::default()
    };
    for options in BUILDS {
        let (functions, path) = walk(options, RECURSIVE, &limits);
        assert_eq!(path.end, WalkEnd::CopyTooShort, "{options}: {functions:?}");
        assert!(path.is_truncated());
        // What the copy holds is there.
        assert_eq!(functions[..2], ["allocate", "descend"]);
        assert!(functions.len() < 20 && functions[1..].iter().all(|f| f == "descend"));
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn code_made_at_run_time_ends_the_walk() {
    for options in BUILDS {
        let (functions, path) = walk(options, GENERATED, &Limits::default());
        assert_eq!(path.end, WalkEnd::UnknownCode, "{options}: {functions:?}");
        assert_eq!(functions, ["allocate"], "{options}");
    }
}
