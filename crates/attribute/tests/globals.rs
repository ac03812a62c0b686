//! Static storage of real programs against the `global:` comments in their sources.

mod common;

use common::{build, folder, share_debug_information, source};
use pagewise_attribute::{Global, display_file, globals};
use std::collections::BTreeMap;

const MINIMUM: u64 = 4096;

/// Names and lines the comments of a source expect: `global: x`, or `global-clang: x` where the
/// line is that compiler's.
fn expected(compiler: &str, file: &str) -> BTreeMap<String, u32> {
    let own = if compiler.contains("clang") {
        " global-clang: "
    } else {
        " global-gcc: "
    };
    let text = std::fs::read_to_string(source(file)).unwrap();
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let (_, name) = line.split_once(" global: ").or(line.split_once(own))?;
            Some((
                name.trim_end_matches("*/").trim().to_owned(),
                index as u32 + 1,
            ))
        })
        .collect()
}

fn found(compiler: &str, options: &str, file: &str) -> Vec<Global> {
    let folder = folder();
    let program = build(folder.path(), compiler, options, &source(file));
    globals(&program, MINIMUM).unwrap()
}

fn check(compiler: &str, options: &str, file: &str) {
    let globals = found(compiler, options, file);
    let lines: BTreeMap<String, u32> = globals
        .iter()
        .map(|global| (global.name.clone(), global.line.unwrap_or(0)))
        .collect();
    assert_eq!(lines, expected(compiler, file), "{compiler} {options}");
    for global in &globals {
        assert!(global.bytes >= MINIMUM);
        assert_eq!(
            global.file.as_deref().map(display_file),
            Some(file),
            "{}",
            global.name
        );
    }
    assert!(globals.is_sorted_by_key(|global| global.svma));
}

#[test]
fn of_cpp() {
    for options in [
        "-O0 -g -std=c++17",
        "-O2 -g -std=c++17",
        "-O2 -gdwarf-4 -std=c++17",
    ] {
        check("g++", options, "globals.cpp");
    }
    check("clang++", "-O2 -g -std=c++17", "globals.cpp");
}

#[test]
fn of_c() {
    for options in ["-O0 -g", "-O2 -g", "-O1 -gdwarf-4"] {
        check("gcc", options, "globals.c");
    }
    check("clang", "-O0 -g", "globals.c");
    check("clang", "-O0 -gdwarf-5", "globals.c");
}

#[test]
fn of_fortran() {
    for options in ["-O0 -g", "-O1 -gdwarf-4"] {
        check("gfortran", options, "names.f90");
    }
}

#[test]
fn with_debug_information_that_dwz_shares() {
    for options in ["-O2 -gdwarf-4 -std=c++17", "-O2 -g -std=c++17"] {
        let folder = folder();
        let program = build(folder.path(), "g++", options, &source("globals.cpp"));
        let before = globals(&program, MINIMUM).unwrap();
        share_debug_information(&program);
        assert_eq!(globals(&program, MINIMUM).unwrap(), before, "{options}");
    }
}

#[test]
fn with_split_debug_information() {
    check("g++", "-O2 -g -gsplit-dwarf -std=c++17", "globals.cpp");
    check("gcc", "-O0 -gdwarf-4 -gsplit-dwarf", "globals.c");
    check("clang", "-O0 -gdwarf-5 -gsplit-dwarf", "globals.c");
}

#[test]
fn without_debug_information_names_come_from_symbols() {
    let globals = found("g++", "-O0 -std=c++17", "globals.cpp");
    let names: Vec<&str> = globals.iter().map(|global| global.name.as_str()).collect();
    for name in [
        "matrix",
        "counters",
        "ns::buffer",
        "Cache::entries",
        "pool::items",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(!names.contains(&"per_thread") && !names.contains(&"constants"));
    assert!(
        globals
            .iter()
            .all(|global| global.file.is_none() && global.line.is_none())
    );
}

#[test]
fn stripped_programs_keep_exported_names_only() {
    let globals = found("gcc", "-O0 -s -rdynamic", "globals.c");
    let names: Vec<&str> = globals.iter().map(|global| global.name.as_str()).collect();
    assert_eq!(names, ["cells"]);
}

#[test]
fn the_size_chooses() {
    let folder = folder();
    let program = build(
        folder.path(),
        "g++",
        "-g -std=c++17",
        &source("globals.cpp"),
    );
    let has_small = |minimum| {
        globals(&program, minimum)
            .unwrap()
            .iter()
            .any(|global| global.name == "small")
    };
    assert!(has_small(16) && !has_small(17));
    assert!(globals(&program, u64::MAX).unwrap().is_empty());
}

#[test]
fn rust_statics_are_named_by_path() {
    let folder = folder();
    let file = folder.path().join("statics.rs");
    let text = "use std::sync::atomic::{AtomicU8, Ordering};\nstatic TABLE: [AtomicU8; 9000] = [const { AtomicU8::new(0) }; 9000];\nfn main() {\n    TABLE[std::env::args().count()].store(1, Ordering::Relaxed);\n}\n";
    std::fs::write(&file, text).unwrap();
    let program = build(folder.path(), "rustc", "--edition=2024 -g", &file);
    let globals = globals(&program, 9000).unwrap();
    let table = globals
        .iter()
        .find(|global| global.name == "statics::TABLE");
    let table = table.unwrap_or_else(|| panic!("{globals:?}"));
    assert_eq!((table.bytes, table.line), (9000, Some(2)));
}

#[test]
fn a_missing_module_is_an_error_that_names_it() {
    let error = globals(std::path::Path::new("/nonexistent/x.so"), 1).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/x.so"));
}
