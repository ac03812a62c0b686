//! Source lines with the time that the program waited at each.
//!
//! A fault is charged to one line: of its call path, to the innermost frame of the program's own code that has a line.

mod text;

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use pagewise_analyze::FaultPath;
use pagewise_analyze::Findings;
use pagewise_analyze::ObjectFrame;

pub use text::render;

use crate::text::own_frames;
use crate::text::short_name;

/// A source file in which the program waited.
#[derive(Clone, Debug, Default)]
pub struct SourceFile {
    /// Its path, as the debug information has it.
    pub file: String,
    /// The modules its code is in.
    pub modules: BTreeSet<String>,
    /// Time spent waiting in it, ns.
    pub stall_ns: u64,
    /// Its lines, from 1.
    pub lines: BTreeMap<u32, Line>,
}

/// What happened at a line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Time spent in swap-in faults, ns.
    pub stall_ns: u64,
    /// Their number.
    pub swap_ins: u64,
    /// The functions it was in: of a template or an inlined one several.
    pub functions: BTreeSet<String>,
    /// Objects made here, by index.
    pub made: Vec<usize>,
}

/// A file's text, or why there is none.
#[derive(Clone, Debug)]
pub enum SourceText {
    /// It was found.
    Found {
        /// Where.
        path: String,
        /// What is in it.
        text: String,
        /// What speaks against its being what was compiled.
        doubts: Vec<String>,
    },
    /// It was not.
    Missing {
        /// Why.
        why: String,
    },
}

/// All files in which the program waited, most stall first.
pub fn files(findings: &Findings) -> Vec<SourceFile> {
    let mut files: BTreeMap<&str, SourceFile> = BTreeMap::new();
    for path in &findings.fault_paths {
        if let Some((frame, file, number)) = charged(path) {
            let source = files.entry(file).or_default();
            source.stall_ns += path.stall_ns;
            source.modules.extend(frame.module.clone());
            let line = source.lines.entry(number).or_default();
            line.stall_ns += path.stall_ns;
            line.swap_ins += path.swap_ins;
            line.functions.extend(frame.function.clone());
        }
    }
    for (index, object) in findings.objects.iter().enumerate() {
        let identity = &object.identity;
        let place = identity.file.as_deref().zip(identity.line);
        if let Some((file, number)) = place.filter(|_| object.counts.stall_ns > 0) {
            let source = files.entry(file).or_default();
            source.lines.entry(number).or_default().made.push(index);
        }
    }
    let mut files: Vec<SourceFile> = files
        .into_iter()
        .map(|(file, source)| SourceFile {
            file: file.to_owned(),
            ..source
        })
        .collect();
    files.sort_by_key(|source| std::cmp::Reverse(source.stall_ns));
    files
}

/// The line that a path's faults are charged to.
fn charged(path: &FaultPath) -> Option<(&ObjectFrame, &str, u32)> {
    let with_line =
        |frame: &'_ &ObjectFrame| frame.file.is_some() && frame.line.is_some_and(|line| line > 0);
    let own = own_frames(&path.frames).find(with_line);
    let frame = own.or_else(|| path.frames.iter().map(AsRef::as_ref).find(with_line))?;
    Some((frame, frame.file.as_deref()?, frame.line?))
}

/// Of all files, those of this name or the lines of a function of this name; without a name those of the most stall.
pub fn select(findings: &Findings, wanted: Option<&str>) -> Vec<SourceFile> {
    let files = files(findings);
    let Some(wanted) = wanted else {
        return leading(files, findings);
    };
    let named = |source: &SourceFile| {
        let rest = source.file.strip_suffix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/') || wanted.starts_with('/'))
    };
    if files.iter().any(named) {
        return files.into_iter().filter(named).collect();
    }
    let is_it = |function: &String| function == wanted || short_name(function) == wanted;
    files
        .into_iter()
        .filter_map(|mut source| {
            source
                .lines
                .retain(|_, line| line.functions.iter().any(is_it));
            source.stall_ns = source.lines.values().map(|line| line.stall_ns).sum();
            (!source.lines.is_empty()).then_some(source)
        })
        .collect()
}

/// The files that nine tenths of the stall are in, at most three, and of these the lines that matter.
fn leading(files: Vec<SourceFile>, findings: &Findings) -> Vec<SourceFile> {
    const MOST_FILES: usize = 3;
    const ENOUGH: f64 = 0.9;
    const LEAST_OF_A_LINE: f64 = 0.01;
    let all: u64 = files.iter().map(|source| source.stall_ns).sum();
    let mut shown = 0;
    let mut leading: Vec<SourceFile> = Vec::new();
    for mut source in files.into_iter().take(MOST_FILES) {
        if source.stall_ns == 0 || shown as f64 >= ENOUGH * all as f64 {
            break;
        }
        shown += source.stall_ns;
        let least = (all as f64 * LEAST_OF_A_LINE) as u64;
        for line in source.lines.values_mut() {
            let made = |&object: &usize| findings.objects[object].counts.stall_ns >= least;
            line.made.retain(made);
        }
        source
            .lines
            .retain(|_, line| line.stall_ns >= least.max(1) || !line.made.is_empty());
        leading.push(source);
    }
    leading
}
