//! What to call allocations of which no line of source is known: by the code that makes them.
//!
//! The innermost frame that is no allocator's comes first (`libgrid.so+0x4f10`), then the first function outwards that has a
//! name, then the program's own code: `libgrid.so+0x4f10 < grid_open < solver+0x2210`. If that is still what another call
//! path is called, too, the callers are told in which the two differ. `<` is "called by", maybe through others.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::frame_paths::FramePaths;
use crate::identity::bare;
use crate::object::ObjectFrame;

/// So many callers at most tell paths apart; a longer name is not read.
const MOST_CALLERS: usize = 3;

/// By call path, what its allocations are called. Those whose frames have neither function nor module are left out.
pub(crate) fn code_places(
    trace: &Trace,
    stacks: &HashSet<u32, RandomState>,
) -> Result<HashMap<u32, String>, TraceError> {
    if stacks.is_empty() {
        return Ok(HashMap::new());
    }
    let frames = FramePaths::read(trace, stacks)?;
    let paths: BTreeMap<u32, Vec<Part>> = frames
        .stacks()
        .map(|stack| (stack, parts(&frames.frames(frames.numbers(stack)))))
        .filter(|(_, parts)| !parts.is_empty())
        .collect();
    Ok(told_apart(&paths))
}

/// A frame as a name shows it.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Code {
    Function(String),
    /// Module and offset in it.
    Offset(String, u64),
}

#[derive(Debug)]
struct Part {
    code: Code,
    /// Module and offset, also of a function.
    place: Option<String>,
    is_own: bool,
}

fn parts(frames: &[Arc<ObjectFrame>]) -> Vec<Part> {
    let part = |frame: &Arc<ObjectFrame>| {
        Some(Part {
            code: Code::of(frame)?,
            place: place(frame).map(|(module, offset)| format!("{module}+{offset:#x}")),
            is_own: !frame.is_library(),
        })
    };
    let makes = frames.iter().filter(|frame| !frame.is_allocator());
    let parts: Vec<Part> = makes.filter_map(part).collect();
    // If all are an allocator's, they are better than nothing.
    match parts.is_empty() {
        true => frames.iter().filter_map(part).take(1).collect(),
        false => parts,
    }
}

impl Code {
    fn of(frame: &ObjectFrame) -> Option<Self> {
        if let Some(function) = &frame.function {
            return Some(Self::Function(bare(function).to_owned()));
        }
        let (module, offset) = place(frame)?;
        Some(Self::Offset(module, offset))
    }
}

fn place(frame: &ObjectFrame) -> Option<(String, u64)> {
    let module = frame.module.as_deref()?;
    let module = module.rsplit('/').next().unwrap_or(module);
    Some((module.to_owned(), frame.module_offset?))
}

/// Gives each path a name, and those that would be called the same the callers in which they differ.
fn told_apart(paths: &BTreeMap<u32, Vec<Part>>) -> HashMap<u32, String> {
    let shown = paths.iter().map(|(&stack, parts)| (stack, telling(parts)));
    let mut shown: BTreeMap<u32, BTreeSet<usize>> = shown.collect();
    let mut called: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (&stack, indices) in &shown {
        let name = name(&paths[&stack], indices);
        called.entry(name).or_default().push(stack);
    }
    let mut groups: Vec<Vec<u32>> = called.into_values().collect();
    for _ in 0..MOST_CALLERS {
        let mut next = Vec::new();
        for group in groups.into_iter().filter(|group| group.len() > 1) {
            next.extend(divide(&group, paths, &mut shown));
        }
        groups = next;
    }
    let named = shown
        .iter()
        .map(|(stack, indices)| (*stack, name(&paths[stack], indices)));
    named.collect()
}

/// Shows of each path in a group the first caller in which not all are the same; gives the groups in which it is.
fn divide(
    group: &[u32],
    paths: &BTreeMap<u32, Vec<Part>>,
    shown: &mut BTreeMap<u32, BTreeSet<usize>>,
) -> Vec<Vec<u32>> {
    let code = |stack: u32, depth: usize| paths[&stack].get(depth).map(|part| &part.code);
    let deepest = group
        .iter()
        .map(|stack| paths[stack].len())
        .max()
        .unwrap_or(0);
    let differ = |depth: &usize| {
        group
            .iter()
            .any(|&stack| code(stack, *depth) != code(group[0], *depth))
    };
    let Some(depth) = (0..deepest).find(differ) else {
        return Vec::new();
    };
    let mut classes: HashMap<Option<&Code>, Vec<u32>> = HashMap::new();
    for &stack in group {
        classes.entry(code(stack, depth)).or_default().push(stack);
        if depth < paths[&stack].len() {
            shown.entry(stack).or_default().insert(depth);
        }
    }
    classes.into_values().collect()
}

/// The frames that say most.
fn telling(parts: &[Part]) -> BTreeSet<usize> {
    let named = parts
        .iter()
        .position(|part| matches!(part.code, Code::Function(_)));
    let own = parts.iter().position(|part| part.is_own);
    [Some(0), named, own].into_iter().flatten().collect()
}

/// The frames at these depths, innermost first, which has symbol and offset; of a module that was just named, the offset only.
fn name(parts: &[Part], shown: &BTreeSet<usize>) -> String {
    let mut last = None;
    let texts = shown.iter().map(|&depth| match &parts[depth].code {
        Code::Function(function) => {
            last = None;
            match &parts[depth].place {
                Some(place) if depth == 0 => format!("{function} ({place})"),
                _ => function.clone(),
            }
        }
        Code::Offset(module, offset) if last.replace(module) == Some(module) => {
            format!("+{offset:#x}")
        }
        Code::Offset(module, offset) => format!("{module}+{offset:#x}"),
    });
    let texts: Vec<String> = texts.collect();
    texts.join(" < ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(module: &str, offset: u64, function: Option<&str>) -> ObjectFrame {
        ObjectFrame {
            function: function.map(str::to_owned),
            module: Some(module.to_owned()),
            module_offset: Some(offset),
            ..ObjectFrame::default()
        }
    }

    fn names(paths: &[&[ObjectFrame]]) -> Vec<String> {
        let shared = |frames: &[ObjectFrame]| -> Vec<Arc<ObjectFrame>> {
            frames.iter().cloned().map(Arc::new).collect()
        };
        let numbered = (0..).zip(paths.iter().map(|frames| parts(&shared(frames))));
        let names = told_apart(&numbered.collect());
        (0..paths.len() as u32)
            .map(|stack| names[&stack].clone())
            .collect()
    }

    #[test]
    fn one_frame_is_enough_where_no_other_path_is_called_the_same() {
        let makes = frame("/opt/solver", 0x10, None);
        let found = names(&[
            &[makes.clone(), frame("/opt/solver", 0x99, None)],
            &[frame("/opt/solver", 0x20, None)],
        ]);
        assert_eq!(found, ["solver+0x10", "solver+0x20"]);
    }

    #[test]
    fn equal_places_are_told_apart_by_their_callers() {
        let makes = frame("/opt/solver", 0x10, None);
        let common = frame("/opt/solver", 0x20, None);
        let found = names(&[
            &[
                makes.clone(),
                common.clone(),
                frame("/opt/solver", 0x30, None),
            ],
            &[
                makes.clone(),
                common.clone(),
                frame("/opt/solver", 0x40, None),
            ],
            &[makes, common],
        ]);
        let expected = ["solver+0x10 < +0x30", "solver+0x10 < +0x40", "solver+0x10"];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_library_is_named_with_who_called_it_and_an_allocator_is_not() {
        let found = names(&[&[
            frame("/usr/lib/libx264.so.164", 0x1, Some("x264_malloc")),
            frame("/usr/lib/libx264.so.164", 0x2, None),
            frame(
                "/usr/lib/libx264.so.164",
                0x3,
                Some("x264_encoder_open_164"),
            ),
            frame("/usr/bin/x264", 0x4, None),
            frame("/usr/bin/x264", 0x5, None),
        ]]);
        assert_eq!(
            found,
            ["libx264.so.164+0x2 < x264_encoder_open_164 < x264+0x4"]
        );
    }

    #[test]
    fn of_nothing_but_an_allocator_its_first_frame_is_told() {
        let found = names(&[&[frame("/usr/lib/libc.so.6", 0x1, Some("malloc"))]]);
        assert_eq!(found, ["malloc (libc.so.6+0x1)"]);
    }
}
