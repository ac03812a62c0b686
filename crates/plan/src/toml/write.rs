//! From a plan to text. The order of keys and rules is the plan's, so that versions of a plan can be compared line by line.

use std::fmt::Write as _;

use crate::SCHEMA;
use crate::model::Action;
use crate::model::Frame;
use crate::model::IoAction;
use crate::model::Plan;
use crate::model::Rule;
use crate::model::Target;

pub(super) fn text(plan: &Plan) -> String {
    let mut out = Text::default();
    out.line("# What pagewise apply does to this program. Keys: docs/plan.md; sizes are bytes.");
    out.text("schema", SCHEMA);
    out.section("[program]");
    out.text("executable", &plan.program.executable);
    out.optional_text("build_id", plan.program.build_id.as_deref());
    out.texts("arguments", &plan.program.arguments);
    out.texts("modules", &plan.program.modules);
    out.section("[memory]");
    out.size("bytes", plan.memory.bytes, "the limit it is made for");
    out.optional_size("peak_bytes", plan.memory.peak_bytes, "the program's need");
    out.optional_size(
        "lock_bytes",
        plan.memory.lock_bytes,
        "all rules together lock no more",
    );
    if let Some(fresh) = plan.memory.fresh {
        out.text("fresh", fresh.name());
    }
    out.optional_size(
        "prezero_rate",
        plan.memory.prezero_rate,
        "made ready in a second, at most",
    );
    if !plan.files.is_empty() {
        out.section("[io]");
        out.line("files = [ # those that the recorded calls read and wrote");
        for file in &plan.files {
            out.line(&format!("    {},", quoted(file)));
        }
        out.line("]");
    }
    for rule in &plan.rules {
        write_rule(&mut out, rule);
    }
    for point in &plan.curve {
        out.section("[[curve]]");
        out.size("memory_bytes", point.memory_bytes, "without the plan");
        out.line(&format!("swap_ins = {}", point.swap_ins));
        out.optional_number("swap_ins_low", point.swap_ins_low);
        out.optional_number("swap_ins_high", point.swap_ins_high);
        if let Some(wall_ns) = point.wall_ns {
            let seconds = wall_ns as f64 / 1e9;
            out.line(&format!("wall_ns = {wall_ns} # {seconds:.3} s"));
        }
    }
    if !plan.headway.is_empty() {
        out.section("[headway]");
        out.line("# user time in ms, and major faults by then, when it was recorded: a run that has had clearly more by then gives up its locks");
        let points = plan.headway.iter();
        let points: Vec<String> = points
            .map(|point| format!("[{}, {}]", point.user_ms, point.major_faults))
            .collect();
        out.line(&format!("points = [{}]", points.join(", ")));
    }
    out.0
}

fn write_rule(out: &mut Text, rule: &Rule) {
    out.section("[[rule]]");
    out.text("target", &rule.name);
    out.optional_text("function", rule.place.function.as_deref());
    out.optional_text("file", rule.place.file.as_deref());
    if let Some(line) = rule.place.line {
        out.line(&format!("line = {line}"));
    }
    match &rule.target {
        Target::Allocation { path, .. } | Target::Io { path, .. } => {
            let is_io = matches!(rule.target, Target::Io { .. });
            out.text("kind", if is_io { "io" } else { "allocation" });
            out.text(
                "site",
                &rule
                    .target
                    .site()
                    .map(|site| site.to_string())
                    .unwrap_or_default(),
            );
            out.line("path = [ # return addresses, innermost first");
            for frame in path {
                out.line(&format!("    {},", frame_text(frame)));
            }
            out.line("]");
            if let Target::Allocation { others, .. } = &rule.target {
                write_others(out, others);
            }
            if let Target::Io { files, .. } = &rule.target {
                out.optional_text("files", files.as_deref());
            }
        }
        Target::Global {
            module,
            symbol,
            bytes,
            module_offset,
        } => {
            out.text("kind", "global");
            out.text("module", module);
            out.text("symbol", symbol);
            out.optional_size("bytes", *bytes, "its size");
            if let Some(offset) = module_offset {
                out.line(&format!("module_offset = {offset:#x}"));
            }
        }
        Target::Heap { module } => {
            out.text("kind", "heap");
            out.text("module", module);
        }
    }
    if let Some(objects) = rule.objects {
        out.line(&format!("objects = {objects}"));
    }
    write_action(out, &rule.action);
    out.text("why", &rule.why);
    if let Some(predicted) = rule.predicted {
        out.line(&format!(
            "predicted = {{ speedup = {:?}, low = {:?}, high = {:?} }}",
            predicted.speedup, predicted.low, predicted.high
        ));
    }
}

fn write_others(out: &mut Text, others: &[Vec<Frame>]) {
    if others.is_empty() {
        return;
    }
    out.line("other_paths = [ # that make it, too");
    for path in others {
        let frames: Vec<String> = path.iter().map(frame_text).collect();
        out.line(&format!("    [{}],", frames.join(", ")));
    }
    out.line("]");
}

fn write_action(out: &mut Text, action: &Action) {
    let (keep, ahead) = match action {
        Action::Lock { keep_bytes, .. } => (*keep_bytes, None),
        Action::Stream {
            keep_bytes, ahead, ..
        } => (*keep_bytes, Some(ahead)),
        Action::Prefetch(ahead) => (None, Some(ahead)),
        Action::Cold
        | Action::Huge
        | Action::Prezero
        | Action::Sequential
        | Action::Io(_)
        | Action::Nothing => (None, None),
    };
    out.text("action", action.name());
    if let Action::Io(action) = action {
        write_io(out, *action);
    }
    out.optional_size("keep_bytes", keep, "kept in memory");
    if let Action::Stream {
        keep_more: true, ..
    }
    | Action::Lock {
        keep_more: true, ..
    } = action
    {
        out.line("keep_more = true # where that saves more swap-ins than it costs");
    }
    if let Some(ahead) = ahead {
        out.optional_size("chunk_bytes", ahead.chunk_bytes, "read in at a time");
        out.optional_size("lead_bytes", ahead.lead_bytes, "read in ahead of the sweep");
    }
    if let Action::Lock { ranges, .. } = action
        && !ranges.is_empty()
    {
        let pairs: Vec<String> = ranges
            .iter()
            .map(|range| format!("[{}, {}]", range.start, range.end))
            .collect();
        out.line(&format!(
            "ranges = [{}] # the hot parts of it",
            pairs.join(", ")
        ));
        if action.is_together() {
            out.line("together = true # of all its objects, in the order in which they are made");
        }
    }
}

fn write_io(out: &mut Text, action: IoAction) {
    match action {
        IoAction::WillNeed { burst_bytes } => {
            out.line(&format!("burst_bytes = {burst_bytes} # length of a run"));
        }
        IoAction::Drop {
            readahead,
            again_percent,
        } => {
            out.optional_text("readahead", readahead.map(|mode| mode.name()));
            if again_percent > 0 {
                out.line(&format!(
                    "again_percent = {again_percent} # of it was used again while still cached"
                ));
            }
        }
        IoAction::DontCache { readahead } => {
            out.optional_text("readahead", readahead.map(|mode| mode.name()));
        }
        IoAction::Keep { keep_bytes } => {
            out.optional_size("keep_bytes", keep_bytes, "kept in the page cache");
        }
        IoAction::Readahead(_) => {}
    }
}

fn frame_text(frame: &Frame) -> String {
    let mut text = format!("{{ module = {}", quoted(&frame.module));
    if let Some(build_id) = &frame.build_id {
        let _ = write!(text, ", build_id = {}", quoted(build_id));
    }
    if let Some((function, offset)) = &frame.function {
        let _ = write!(
            text,
            ", function = {}, function_offset = {offset:#x}",
            quoted(function)
        );
    }
    let _ = write!(text, ", module_offset = {:#x} }}", frame.module_offset);
    text
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn section(&mut self, name: &str) {
        self.line("");
        self.line(name);
    }

    fn text(&mut self, key: &str, text: &str) {
        self.line(&format!("{key} = {}", quoted(text)));
    }

    /// Nothing of none.
    fn texts(&mut self, key: &str, texts: &[String]) {
        if !texts.is_empty() {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            self.line(&format!("{key} = [{}]", texts.join(", ")));
        }
    }

    fn optional_text(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    fn size(&mut self, key: &str, bytes: u64, meaning: &str) {
        let mebibytes = bytes as f64 / f64::from(1 << 20);
        self.line(&format!("{key} = {bytes} # {mebibytes:.1} MiB: {meaning}"));
    }

    fn optional_number(&mut self, key: &str, number: Option<u64>) {
        if let Some(number) = number {
            self.line(&format!("{key} = {number}"));
        }
    }

    fn optional_size(&mut self, key: &str, bytes: Option<u64>, meaning: &str) {
        if let Some(bytes) = bytes {
            self.size(key, bytes, meaning);
        }
    }
}
