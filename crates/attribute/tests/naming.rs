//! Names of the allocations of real programs, built by real compilers, against the `name:`
//! comments in their sources.

mod common;

use common::{Limits, build, folder, record, source};
use pagewise_attribute::{InTurn, Namer, Symbolizer, display_file, name_in_turn};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// What the comments of a source expect, by line: `name: x`, or `name-clang: x` where only that
/// compiler gives this line. `a|b`: the column may tell which.
struct Expectations {
    lines: Vec<String>,
    names: BTreeMap<usize, String>,
}

impl Expectations {
    fn read(file: &str, compiler: &str) -> Self {
        let text = fs::read_to_string(source(file)).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let name = |line: &str| {
            let every = line.split_once(" name: ");
            let clang = line
                .split_once(" name-clang: ")
                .filter(|_| compiler.contains("clang"));
            let (_, name) = every.or(clang)?;
            Some(name.trim_end_matches("*/").trim().to_owned())
        };
        let named = lines.iter().enumerate();
        let names = named
            .filter_map(|(at, line)| Some((at + 1, name(line)?)))
            .collect();
        Self { lines, names }
    }

    /// The expected name on a line, or on the first line of the statement it goes on with.
    fn at(&self, line: u32) -> Option<(usize, &str)> {
        let mut line = line as usize;
        loop {
            if let Some(name) = self.names.get(&line) {
                return Some((line, name));
            }
            line = line.checked_sub(1)?;
            let code = self.lines.get(line.checked_sub(1)?)?;
            let code = code.split("//").next()?.split("/*").next()?.trim_end();
            if code.ends_with([';', '{', '}']) || code.is_empty() {
                return None;
            }
        }
    }
}

/// Names every allocation of a program; each must be as its line says, and each line be seen.
fn check(sources: &[&str], compiler: &str, options: &str) {
    let folder = folder();
    let program = build(folder.path(), compiler, options, &source(sources[0]));
    let recording = record(folder.path(), &program, &Limits::default());
    let expected: BTreeMap<&str, Expectations> = sources
        .iter()
        .map(|&file| (file, Expectations::read(file, compiler)))
        .collect();
    let (mut namer, mut symbolizer) = (Namer::new(), Symbolizer::new());
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for allocation in &recording.allocations {
        let frames = recording.frames(&allocation.path, &mut symbolizer);
        let site = namer.name(&frames);
        // What runs before `main` (the C++ library's reserve) is not the program's.
        let file = site.file.as_deref().map(display_file).unwrap_or_default();
        let Some((&file, expectations)) = expected.get_key_value(file) else {
            continue;
        };
        let name = site.name.as_deref().unwrap_or("-");
        let line = site.line.unwrap_or(0);
        match expectations.at(line) {
            Some((at, value)) if value == name || value.split('|').any(|one| one == name) => {
                seen.insert((file, at));
            }
            found => wrong.push(format!(
                "{file}:{line} is called {name}, expected {:?}\n{}",
                found.map(|(_, value)| value),
                describe(&frames)
            )),
        }
    }
    let all = expected
        .iter()
        .flat_map(|(&file, e)| e.names.keys().map(move |&line| (file, line)));
    let missed: Vec<_> = all.filter(|key| !seen.contains(key)).collect();
    assert!(
        wrong.is_empty() && missed.is_empty(),
        "{compiler} {options}: {} wrong, never seen: {missed:?}\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn describe(frames: &[pagewise_attribute::Frame]) -> String {
    let mut text = String::new();
    for frame in frames.iter().take(14) {
        text += &format!(
            "    {}{} {}:{}:{}\n",
            frame.function.as_deref().unwrap_or("?"),
            if frame.inlined { " (inlined)" } else { "" },
            frame.file.as_deref().map_or("?", display_file),
            frame.line.unwrap_or(0),
            frame.column.unwrap_or(0),
        );
    }
    text
}

const C: &[&str] = &["names.c"];
const CPP: &[&str] = &["names.cpp", "names_library.h"];
const FORTRAN: &[&str] = &["names.f90"];
const RUST: &[&str] = &["names.rs"];

#[test]
fn c_without_optimization() {
    check(C, "gcc", "-O0 -g");
}

#[test]
fn c_with_optimization() {
    check(C, "gcc", "-O2 -g");
    check(C, "gcc", "-O3 -g -flto");
}

#[test]
fn c_by_clang() {
    check(C, "clang", "-O0 -g");
    check(C, "clang", "-O2 -g");
}

#[test]
fn c_without_frame_pointers_and_position() {
    check(C, "gcc", "-O2 -g -fomit-frame-pointer -no-pie");
}

#[test]
fn cpp_without_optimization() {
    check(CPP, "g++", "-O0 -g -std=c++17");
}

#[test]
fn cpp_with_optimization() {
    check(CPP, "g++", "-O2 -g -std=c++17");
    check(CPP, "g++", "-Og -g1 -std=c++20");
}

#[test]
fn cpp_by_clang() {
    check(CPP, "clang++", "-O0 -g -std=c++17");
    check(CPP, "clang++", "-O2 -g -std=c++17");
}

#[test]
fn cpp_with_split_debug_information() {
    check(CPP, "g++", "-O2 -g -gsplit-dwarf -std=c++17");
    check(CPP, "g++", "-O2 -gdwarf-4 -gsplit-dwarf -std=c++17");
}

#[test]
fn rust_without_optimization() {
    check(RUST, "rustc", "--edition=2024 -g");
}

#[test]
fn rust_with_optimization() {
    check(RUST, "rustc", "--edition=2024 -g -O");
    check(
        RUST,
        "rustc",
        "--edition=2024 -C debuginfo=1 -C opt-level=3 -C symbol-mangling-version=v0",
    );
}

#[test]
fn fortran() {
    for options in ["-O0 -g", "-O2 -g"] {
        check(FORTRAN, "gfortran", options);
    }
}

/// All calls of a statement have one column: its end.
#[test]
fn fortran_variables_of_one_statement_are_told_apart_by_the_order_of_their_calls() {
    for options in ["-O0 -g", "-O1 -g -fcheck=all", "-O2 -g", "-O3 -g"] {
        let folder = folder();
        let program = build(folder.path(), "gfortran", options, &source("in_turn.f90"));
        let recording = record(folder.path(), &program, &Limits::default());
        let (mut namer, mut symbolizer) = (Namer::new(), Symbolizer::new());
        let (mut bytes, mut sites) = (Vec::new(), Vec::new());
        for allocation in &recording.allocations {
            let frames = recording.frames(&allocation.path, &mut symbolizer);
            let site = namer.name(&frames);
            if let Some(site) = InTurn::of(&site, &frames) {
                bytes.push(allocation.bytes);
                sites.push(site);
            }
        }
        name_in_turn(&mut sites);
        let names = sites.iter().map(|one| one.site.name.as_deref().unwrap());
        let found: BTreeSet<(&str, u64)> = names.zip(bytes).collect();
        let expected = [
            ("a", 160_000),
            ("b", 320_000),
            ("c", 480_000),
            ("grid%first", 800_000),
            ("grid%second", 2_400_000),
            ("kinds", 400_000),
        ];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{options}");
    }
}
