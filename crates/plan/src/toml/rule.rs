//! A rule of a plan, from TOML.

use std::ops::Range;

use super::io_action;
use super::table::Table;
use super::table::Value;
use super::table::meant;
use crate::error::PlanError;
use crate::model::Action;
use crate::model::Frame;
use crate::model::Prediction;
use crate::model::ReadAhead;
use crate::model::Rule;
use crate::model::SourcePlace;
use crate::model::Target;
use crate::site::Site;

const ACTIONS: [&str; 8] = [
    "lock",
    "stream",
    "prefetch",
    "cold",
    "huge",
    "prezero",
    "sequential",
    "nothing",
];
/// Call paths are cut there.
pub(super) const MOST_FRAMES: usize = 256;
/// Of one rule. Each has a place among the rules that are sent to the program.
const MOST_OTHER_PATHS: usize = 16;

pub(super) fn rule(mut table: Table<'_>) -> Result<Rule, PlanError> {
    let name = table
        .need("target", "target = \"arcs (solver.cpp:120)\"")?
        .text()?;
    let place = SourcePlace {
        function: table
            .get("function")
            .map(|value| value.text())
            .transpose()?,
        file: table.get("file").map(|value| value.text()).transpose()?,
        line: table.get("line").map(|value| line(&value)).transpose()?,
    };
    let target = target(&mut table)?;
    let objects = match target {
        Target::Allocation { .. } => table.get("objects"),
        _ => None,
    };
    let objects = objects.map(|value| value.size()).transpose()?;
    let action = match target {
        Target::Io { .. } => io_action::action(&mut table)?,
        Target::Allocation { .. } => action(&mut table)?,
        Target::Global { .. } => action_on_global(&mut table)?,
        Target::Heap { .. } => action_on_heap(&mut table)?,
    };
    let why = table.need("why", "why = \"...\"")?.text()?;
    let predicted = table
        .get("predicted")
        .map(|value| prediction(&value))
        .transpose()?;
    table.finish()?;
    Ok(Rule {
        name,
        place,
        target,
        objects,
        action,
        why,
        predicted,
    })
}

fn line(value: &Value<'_>) -> Result<u32, PlanError> {
    let line = value.size()?;
    u32::try_from(line).map_err(|_| value.error("no file has so many lines", "type: line = 120"))
}

/// A text that names something, and so is not empty and has no zero byte.
pub(super) fn name(value: &Value<'_>) -> Result<String, PlanError> {
    let text = value.text()?;
    if text.is_empty() || text.contains('\0') {
        return Err(value.error(
            format!("{text:?} names nothing"),
            format!("type: {} = \"...\"", value.key),
        ));
    }
    Ok(text)
}

/// The file name of a module.
fn module(value: &Value<'_>) -> Result<String, PlanError> {
    let text = name(value)?;
    match text.rsplit_once('/') {
        Some((_, file)) => Err(value.error(
            format!("{text:?} has folders in it: modules are known by their file names"),
            format!("type: module = {file:?}"),
        )),
        None => Ok(text),
    }
}

pub(super) fn build_id(value: &Value<'_>) -> Result<String, PlanError> {
    let text = value.text()?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.is_empty() || !text.len().is_multiple_of(2) || !text.bytes().all(is_digit) {
        return Err(value.error(
            format!("{text:?} is no build id: pairs of the digits 0 to 9 and a to f"),
            "type what file(1) says of the program as BuildID, or leave it out",
        ));
    }
    Ok(text)
}

fn target(table: &mut Table<'_>) -> Result<Target, PlanError> {
    let kind = table.need("kind", "kind = \"allocation\"")?;
    match kind.text()?.as_str() {
        "allocation" => Ok(Target::Allocation {
            path: path_with_key(table)?,
            others: match table.get("other_paths") {
                Some(value) => other_paths(&value)?,
                None => Vec::new(),
            },
        }),
        "io" => Ok(Target::Io {
            path: path_with_key(table)?,
            files: table
                .get("files")
                .map(|value| io_action::pattern(&value))
                .transpose()?,
        }),
        "global" => Ok(Target::Global {
            module: module(&table.need("module", "module = \"...\"")?)?,
            symbol: name(&table.need("symbol", "symbol = \"...\"")?)?,
            bytes: table.get("bytes").map(|value| value.size()).transpose()?,
            module_offset: table
                .get("module_offset")
                .map(|value| value.number())
                .transpose()?,
        }),
        "heap" => Ok(Target::Heap {
            module: module(
                &table.need("module", "module = \"...\", the file name of the program")?,
            )?,
        }),
        other => Err(kind.error(
            format!("there is no kind {other:?}"),
            "type: kind = \"allocation\", kind = \"global\", kind = \"heap\" or kind = \"io\"",
        )),
    }
}

fn path_with_key(table: &mut Table<'_>) -> Result<Vec<Frame>, PlanError> {
    let site = table.need("site", "site = \"...\", which pagewise plan writes")?;
    let path = path(&table.need("path", "path = [...], which pagewise plan writes")?)?;
    let expected = Site::of(&path);
    if site.text()?.parse() != Ok(expected) {
        return Err(site.error(
            format!("{:?} is not the key of the path below", site.text()?),
            format!("type: site = \"{expected}\""),
        ));
    }
    Ok(path)
}

fn other_paths(value: &Value<'_>) -> Result<Vec<Vec<Frame>>, PlanError> {
    let paths = value.list()?;
    if paths.is_empty() || paths.len() > MOST_OTHER_PATHS {
        return Err(value.error(
            format!("{} paths", paths.len()),
            format!("give 1 to {MOST_OTHER_PATHS}, or remove it"),
        ));
    }
    paths.iter().map(path).collect()
}

fn path(value: &Value<'_>) -> Result<Vec<Frame>, PlanError> {
    let frames = value.list()?;
    if frames.is_empty() || frames.len() > MOST_FRAMES {
        return Err(value.error(
            format!("{} frames", frames.len()),
            format!("give 1 to {MOST_FRAMES}, innermost first"),
        ));
    }
    frames.iter().map(frame).collect()
}

fn frame(value: &Value<'_>) -> Result<Frame, PlanError> {
    let mut table = value.table()?;
    let module = module(&table.need("module", "module = \"...\"")?)?;
    let build_id = table
        .get("build_id")
        .map(|value| build_id(&value))
        .transpose()?;
    let function = table
        .get("function")
        .map(|value| name(&value))
        .transpose()?;
    let offset = table
        .get("function_offset")
        .map(|value| value.number())
        .transpose()?;
    let module_offset = table
        .need("module_offset", "module_offset = 0x41b2")?
        .number()?;
    table.finish()?;
    let function = match (function, offset) {
        (Some(function), Some(offset)) => Some((function, offset)),
        (None, None) if build_id.is_some() => None,
        (None, None) => {
            return Err(value.error(
                "neither function nor build_id: it cannot be told whether another build is meant",
                "type: function = \"...\", function_offset = 0x1b2",
            ));
        }
        _ => {
            return Err(value.error(
                "function and function_offset belong together",
                "type: function = \"...\", function_offset = 0x1b2",
            ));
        }
    };
    Ok(Frame {
        module,
        build_id,
        function,
        module_offset,
    })
}

/// A variable is one object.
fn action_on_global(table: &mut Table<'_>) -> Result<Action, PlanError> {
    let key = table.get("together");
    match key {
        Some(key) => Err(key.error("means nothing of a variable", "remove it")),
        None => action(table),
    }
}

/// The heap grows and is used anew: that a part of it is hot in one run says nothing of another, and what it is backed by is said by
/// `memory.fresh`.
fn action_on_heap(table: &mut Table<'_>) -> Result<Action, PlanError> {
    let of_heap = action(table)?;
    if let Some(ranges) = table.get("ranges") {
        return Err(ranges.error("mean nothing of the heap", "remove them"));
    }
    match of_heap {
        Action::Huge | Action::Prezero => Err(table.error(
            &table.key("action"),
            format!("{} is not for the heap", of_heap.name()),
            format!("type: fresh = \"{}\" under [memory]", of_heap.name()),
        )),
        _ => Ok(of_heap),
    }
}

fn action(table: &mut Table<'_>) -> Result<Action, PlanError> {
    let value = table.need("action", "action = \"lock\"")?;
    let name = value.text()?;
    let keeps = matches!(name.as_str(), "lock" | "stream");
    let reads = matches!(name.as_str(), "stream" | "prefetch");
    let keep_bytes = size_of(table, "keep_bytes", keeps, &name)?;
    let keep_more = match table.get("keep_more") {
        None => false,
        Some(value) if keeps && keep_bytes.is_none() => {
            return Err(value.error("means nothing without keep_bytes", "remove it"));
        }
        Some(value) if name == "lock" && table.get("ranges").is_some() => {
            return Err(value.error("means nothing with ranges", "remove it"));
        }
        Some(value) if keeps || !ACTIONS.contains(&name.as_str()) => value.truth()?,
        Some(value) => return Err(not_of(&value, &name)),
    };
    let ahead = ReadAhead {
        chunk_bytes: size_of(table, "chunk_bytes", reads, &name)?,
        lead_bytes: size_of(table, "lead_bytes", reads, &name)?,
    };
    let hot = match table.get("ranges") {
        None => Vec::new(),
        Some(value) if name == "lock" => ranges(&value)?,
        Some(value) => return Err(not_of(&value, &name)),
    };
    let together = match table.get("together") {
        None => false,
        Some(value) if hot.is_empty() => {
            return Err(value.error("means nothing without ranges", "remove it"));
        }
        Some(value) => value.truth()?,
    };
    match name.as_str() {
        "lock" => Ok(Action::Lock {
            keep_bytes,
            keep_more,
            ranges: hot,
            together,
        }),
        "stream" => Ok(Action::Stream {
            keep_bytes,
            keep_more,
            ahead,
        }),
        "prefetch" => Ok(Action::Prefetch(ahead)),
        "cold" => Ok(Action::Cold),
        "huge" => Ok(Action::Huge),
        "prezero" => Ok(Action::Prezero),
        "sequential" => Ok(Action::Sequential),
        "nothing" => Ok(Action::Nothing),
        _ => Err(value.error(
            format!("there is no action {name:?}"),
            match meant(&name, &ACTIONS) {
                Some(word) => format!("did you mean {word}? There are: {}", ACTIONS.join(", ")),
                None => format!("type one of {}", ACTIONS.join(", ")),
            },
        )),
    }
}

pub(super) fn not_of(value: &Value<'_>, action: &str) -> PlanError {
    value.error(
        format!("means nothing with action = {action:?}"),
        "remove it",
    )
}

fn size_of(
    table: &mut Table<'_>,
    key: &'static str,
    is_meant: bool,
    action: &str,
) -> Result<Option<u64>, PlanError> {
    match table.get(key) {
        Some(value) if !is_meant && ACTIONS.contains(&action) => Err(not_of(&value, action)),
        Some(value) => value.size().map(Some),
        None => Ok(None),
    }
}

fn ranges(value: &Value<'_>) -> Result<Vec<Range<u64>>, PlanError> {
    let example = "type: ranges = [[0, 1048576], [2097152, 3145728]]";
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for pair in value.list()? {
        let ends = pair.list()?;
        let [start, end] = ends.as_slice() else {
            return Err(pair.error("a range has a start and an end", example));
        };
        let range = start.number()?..end.number()?;
        if range.is_empty() {
            return Err(pair.error("the range ends before it begins", example));
        }
        if ranges.last().is_some_and(|before| before.end > range.start) {
            return Err(pair.error("ranges ascend and do not overlap", example));
        }
        ranges.push(range);
    }
    if ranges.is_empty() {
        return Err(value.error("names no range", "remove it: then the start is kept"));
    }
    Ok(ranges)
}

fn prediction(value: &Value<'_>) -> Result<Prediction, PlanError> {
    let example = "predicted = { speedup = 2.1, low = 1.7, high = 2.4 }";
    let mut table = value.table()?;
    let prediction = Prediction {
        speedup: table.need("speedup", example)?.ratio()?,
        low: table.need("low", example)?.ratio()?,
        high: table.need("high", example)?.ratio()?,
    };
    table.finish()?;
    if prediction.low > prediction.speedup || prediction.speedup > prediction.high {
        return Err(value.error(
            "the speed-up lies outside of its interval",
            format!("type: {example}"),
        ));
    }
    Ok(prediction)
}
