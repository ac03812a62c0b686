//! The calls of `pagewise.h` that are inserted.

use pagewise_plan::Action;
use pagewise_plan::Rule;

use crate::binding::Binding;

/// The header that declares them.
pub(crate) const HEADER: &str = "pagewise.h";

/// Names an object to the recorder.
pub(crate) fn name(binding: &Binding<'_>) -> String {
    let name = binding.name.replace('\\', "\\\\").replace('"', "\\\"");
    format!("pagewise_name({}, \"{name}\");", binding.pointer)
}

/// Memory is locked in whole pages.
const PAGE: u64 = 4096;

/// What a rule's action is at the allocation, or why it is nothing there. Where several objects are made there, each keeps its share: a call does
/// not know of the others.
pub(crate) fn of_rule(rule: &Rule, binding: &Binding<'_>) -> Result<Vec<String>, String> {
    let objects = rule.objects.unwrap_or(1).max(1);
    let share = |keep: u64| match objects {
        1 => keep,
        _ => (keep / objects).next_multiple_of(PAGE),
    };
    let action = &rule.action;
    let pointer = &binding.pointer;
    let bytes = || binding.bytes.as_ref().map_err(Clone::clone);
    let part = |from: u64, to: u64| -> Result<String, String> {
        Ok(format!(
            "pagewise_lock_part({pointer}, {}, {from}, {to});",
            bytes()?
        ))
    };
    match action {
        Action::Lock { together: true, .. } => Err(
            "which of its objects are hot is told by the order in which they are made: leave it to pagewise apply"
                .to_owned(),
        ),
        Action::Lock {
            keep_bytes, ranges, ..
        } if ranges.is_empty() => match keep_bytes {
            None => Ok(vec![format!("pagewise_lock({pointer}, {});", bytes()?)]),
            Some(keep) => Ok(vec![part(0, share(*keep))?]),
        },
        Action::Lock {
            keep_bytes, ranges, ..
        } => {
            let mut left = keep_bytes.map_or(u64::MAX, share);
            let mut calls = Vec::new();
            for range in ranges.iter().filter(|range| range.start < range.end) {
                let length = (range.end - range.start).min(left);
                left -= length;
                if length > 0 {
                    calls.push(part(range.start, range.start + length)?);
                }
            }
            Ok(calls)
        }
        Action::Stream { keep_bytes, .. } => {
            let bytes = bytes()?;
            let keep = keep_bytes.map_or_else(|| bytes.clone(), |keep| share(keep).to_string());
            Ok(vec![format!(
                "pagewise_stream({pointer}, {bytes}, {keep});"
            )])
        }
        Action::Prefetch(_) => Ok(vec![format!(
            "pagewise_stream({pointer}, {}, 0);",
            bytes()?
        )]),
        Action::Cold | Action::Huge | Action::Prezero | Action::Sequential | Action::Io(_) => {
            Err(format!(
                "{} has no call for the source: leave it to pagewise apply",
                action.name()
            ))
        }
        Action::Nothing => Ok(Vec::new()),
    }
}
