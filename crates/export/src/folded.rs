//! Collapsed stacks: `outermost;...;innermost;object COUNT`, a line for each call path and object.

use std::io::Write;

use pagewise_trace::Trace;

use crate::call_paths::CallPaths;
use crate::error::ExportError;
use crate::events::Events;
use crate::format::CallPathOf;
use crate::format::Weight;
use crate::tally::Tally;
use crate::tally::weighed;

/// The innermost frame is the object: the flame graph ends in variables. Lines that would count nothing are left out.
pub(crate) fn write(
    trace: &Trace,
    events: &Events,
    tally: &Tally,
    weight: Weight,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let paths = CallPaths::read(trace)?;
    for (key, sums) in &tally.sums {
        let count = weighed(sums, weight);
        if count == 0 {
            continue;
        }
        let mut line = line_of(&paths, key.stack);
        if line.is_empty() && tally.call_path_of == CallPathOf::Fault {
            push_frame(&mut line, "(no call path)");
        }
        push_frame(&mut line, &events.identity(key.object).to_string());
        writeln!(out, "{line} {count}")?;
    }
    Ok(())
}

/// The frames of a call path, outermost first; empty: none is known.
pub(crate) fn line_of(paths: &CallPaths, stack: Option<u32>) -> String {
    let mut line = String::new();
    for level in paths.levels(stack).iter().rev() {
        for function in level.functions.iter().rev() {
            push_frame(&mut line, &level.name_of(function));
        }
    }
    line
}

/// Adds a frame. The format has no escapes: what separates frames and lines is replaced.
pub(crate) fn push_frame(line: &mut String, name: &str) {
    if !line.is_empty() {
        line.push(';');
    }
    line.extend(name.chars().map(|character| match character {
        ';' => ':',
        control if control.is_control() => ' ',
        other => other,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_its_frame_or_line() {
        let mut line = String::new();
        push_frame(&mut line, "main");
        push_frame(&mut line, "f<[u8; 4]>\n9");
        assert_eq!(line, "main;f<[u8: 4]> 9");
    }
}
