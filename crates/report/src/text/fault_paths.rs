//! The part of the report in a terminal that says where in the code the waiting was.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use pagewise_analyze::FaultPath;
use pagewise_analyze::Findings;
use unicode_width::UnicodeWidthStr;

use super::Style;
use super::clean::take_width;
use crate::units::percent;

/// Fault paths to list.
const FAULT_PATHS: usize = 5;
/// Callers to name of each; with library frames more.
const CALLERS: usize = 3;
const CALLERS_WITH_LIBRARIES: usize = 12;

/// The call paths that waited longest.
pub(crate) fn fault_paths(text: &mut String, findings: &Findings, style: Style) {
    let all: u64 = findings.fault_paths.iter().map(|path| path.stall_ns).sum();
    if all == 0 {
        return;
    }
    let _ = writeln!(text, "\n{}", style.bold("Where it waited"));
    for group in grouped(&findings.fault_paths, style)
        .iter()
        .take(FAULT_PATHS)
    {
        let share = format!("{:>6}", percent(group.stall_ns, all));
        let room = style.width.saturating_sub(share.len() + 2);
        let _ = writeln!(text, "{share}  {}", shortened(&group.line, room));
    }
}

/// Call paths that read the same: a recursive function's differ only in depth.
#[derive(Default)]
pub(crate) struct PathGroup {
    pub(crate) line: String,
    pub(crate) stall_ns: u64,
    pub(crate) swap_ins: u64,
    /// Indices of its paths, most stall first.
    pub(crate) members: Vec<usize>,
}

/// All paths by how they read, most stall first.
pub(crate) fn grouped(paths: &[FaultPath], style: Style) -> Vec<PathGroup> {
    let mut groups: BTreeMap<String, PathGroup> = BTreeMap::new();
    for (index, path) in paths.iter().enumerate() {
        let group = groups.entry(path_line(path, style)).or_default();
        group.stall_ns = group.stall_ns.saturating_add(path.stall_ns);
        group.swap_ins += path.swap_ins;
        group.members.push(index);
    }
    let named = |(line, group)| PathGroup { line, ..group };
    let mut groups: Vec<PathGroup> = groups.into_iter().map(named).collect();
    groups.sort_by_key(|group| Reverse((group.stall_ns, group.swap_ins)));
    groups
}

/// The place that touched the page, and who called it.
pub(crate) fn path_line(path: &FaultPath, style: Style) -> String {
    let mut frames = style.frames_of(&path.frames);
    let Some(innermost) = frames.next() else {
        return "(call path unknown)".to_owned();
    };
    let most = match style.library_frames {
        true => CALLERS_WITH_LIBRARIES,
        false => CALLERS,
    };
    let mut line = style.frame(innermost);
    let (mut last, mut name, mut callers) = (innermost, style.function(innermost), 0);
    for frame in frames {
        // Recursion: mostly it is the very same place.
        if std::ptr::eq(frame, last) {
            continue;
        }
        let caller = style.function(frame);
        last = frame;
        if caller == name {
            continue;
        }
        if callers == most {
            line.push_str(" < ...");
            break;
        }
        callers += 1;
        line = line + " < " + &caller;
        name = caller;
    }
    line
}

/// Its beginning, as far as it fits.
pub(crate) fn shortened(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let kept = take_width(line.chars(), width.saturating_sub(3));
    format!("{kept}...")
}
