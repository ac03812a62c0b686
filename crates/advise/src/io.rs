//! From what was found of I/O contexts to rules about them. What a context is, and what would help it, is decided where it is
//! analyzed (`pagewise_analyze::file_io`, which has all thresholds); here it becomes something that can be put into force.

use pagewise_analyze::ObjectFrame;
use pagewise_analyze::file_io::Advice;
use pagewise_analyze::file_io::Class;
use pagewise_analyze::file_io::FileIo;
use pagewise_analyze::file_io::IoContext;
use pagewise_analyze::file_io::Use;
use pagewise_analyze::file_io::WhyNothing;
use pagewise_plan::Action;
use pagewise_plan::Frame;
use pagewise_plan::IoAction;
use pagewise_plan::Readahead;
use pagewise_plan::Rule;
use pagewise_plan::SourcePlace;
use pagewise_plan::Target;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::contexts::context_paths;

/// Rules for the contexts of a recording that move enough bytes to matter, those of most bytes first; and of the contexts that
/// would have one, those that cannot be known again, with why.
#[derive(Clone, Debug, Default)]
pub(crate) struct IoAdvice {
    /// At most one a call path.
    pub rules: Vec<Rule>,
    /// Name and reason.
    pub unnamed: Vec<(String, String)>,
    /// For [`pagewise_plan::Plan::files`].
    pub files: Vec<String>,
}

/// A file of which less was moved makes no difference, wherever it is.
const LEAST_OF_FILE: u64 = 1 << 20;
/// A plan names no more files.
const MOST_FILES: usize = 1000;

/// What is advised for input and output.
///
/// # Errors
/// If the trace cannot be read.
pub(crate) fn io_advice(trace: &Trace, io: &FileIo) -> Result<IoAdvice, TraceError> {
    let mut advice = IoAdvice {
        files: files(io),
        ..IoAdvice::default()
    };
    for (context, paths) in io.contexts.iter().zip(context_paths(trace, io)?) {
        let Some(action) = action(context.does, context.advice) else {
            continue;
        };
        let place = place(context);
        let name = name(context, &place);
        for path in paths {
            match path.path {
                Ok(path) => advice.add(context, (&name, &place), path, &action),
                Err(why) if action != Action::Nothing => advice.unnamed.push((name.clone(), why)),
                Err(_) => {}
            }
        }
    }
    Ok(advice)
}

/// Those of most bytes that can be found again.
fn files(io: &FileIo) -> Vec<String> {
    let moved = io.files.iter().filter(|file| {
        !file.unlinked && file.read_bytes.saturating_add(file.written_bytes) >= LEAST_OF_FILE
    });
    moved
        .filter_map(|file| file.path.clone())
        .take(MOST_FILES)
        .collect()
}

impl IoAdvice {
    /// Contexts of which all that is the program's own is the same are one rule: that of most bytes.
    fn add(
        &mut self,
        context: &IoContext,
        (name, place): (&str, &SourcePlace),
        path: Vec<Frame>,
        action: &Action,
    ) {
        let target = Target::Io { path, files: None };
        if self.rules.iter().any(|rule| rule.target == target) {
            return;
        }
        self.rules.push(Rule {
            name: name.to_owned(),
            place: place.clone(),
            target,
            action: action.clone(),
            why: why(context),
            predicted: None,
        });
    }
}

/// `None`: it is not worth a rule.
fn action(does: Use, advice: Advice) -> Option<Action> {
    if !matches!(does, Use::Read | Use::Write) {
        return None;
    }
    let drop = |readahead| Action::Io(IoAction::Drop { readahead });
    Some(match advice {
        Advice::SequentialDropBehind => drop(Some(Readahead::Sequential)),
        Advice::RandomDropBehind => drop(Some(Readahead::Random)),
        Advice::Sequential => Action::Io(IoAction::Readahead(Readahead::Sequential)),
        Advice::Random => Action::Io(IoAction::Readahead(Readahead::Random)),
        Advice::RandomWithBursts(burst_bytes) => Action::Io(IoAction::WillNeed { burst_bytes }),
        Advice::DropBehind | Advice::DropWritten => drop(None),
        // The others' pages go, so that these stay.
        Advice::Keep | Advice::Nothing(WhyNothing::NoUse) => Action::Nothing,
        Advice::Nothing(_) => return None,
    })
}

/// Where in the program's own code the calls are; of libraries only, the innermost place.
fn place(context: &IoContext) -> SourcePlace {
    let frame = own_frame(context);
    SourcePlace {
        function: frame.and_then(|frame| frame.function.clone()),
        file: frame.and_then(|frame| frame.file.clone()),
        line: frame.and_then(|frame| frame.line),
    }
}

fn own_frame(context: &IoContext) -> Option<&ObjectFrame> {
    let frames = &context.frames;
    let own = frames.iter().position(|frame| !frame.is_library());
    let has_name = |frame: &ObjectFrame| frame.function.is_some() || frame.module.is_some();
    match own {
        // Of generated code without names, what it has called.
        Some(own) if own > 0 && !has_name(&frames[own]) => frames.get(own - 1),
        Some(own) => frames.get(own),
        None => frames.first(),
    }
    .map(AsRef::as_ref)
}

/// For people.
fn name(context: &IoContext, place: &SourcePlace) -> String {
    match own_frame(context) {
        Some(frame) if place.function.is_none() => address(frame),
        _ => name_of(place),
    }
}

/// Of code without a name: `db_bench+0x61ee6`.
fn address(frame: &ObjectFrame) -> String {
    match (frame.module.as_deref(), frame.module_offset) {
        (Some(module), Some(offset)) => {
            let module = module.rsplit('/').next().unwrap_or(module);
            format!("{module}+{offset:#x}")
        }
        _ => name_of(&SourcePlace::default()),
    }
}

fn name_of(place: &SourcePlace) -> String {
    let function = place.function.as_deref().unwrap_or("(unknown function)");
    match (place.file.as_deref(), place.line) {
        (Some(file), Some(line)) => {
            let file = file.rsplit('/').next().unwrap_or(file);
            format!("{function} ({file}:{line})")
        }
        _ => function.to_owned(),
    }
}

fn why(context: &IoContext) -> String {
    let moved = format!(
        "{} {} in {} calls",
        match context.does {
            Use::Write => "wrote",
            _ => "read",
        },
        pagewise_report::bytes(context.bytes),
        pagewise_report::count(context.calls)
    );
    let runs = context.runs.mean_calls();
    let runs = runs.map(|calls| format!("{calls:.1} in a row"));
    let again = context.reuse.and_then(|reuse| reuse.again_share());
    let again = again.map(|share| format!("{:.0} % used again", 100.0 * share));
    let cached = context.reuse.and_then(|reuse| reuse.again_cached_share());
    let cached = cached.filter(|_| again.is_some());
    let cached = cached.map(|share| format!("{:.0} % while still cached", 100.0 * share));
    let classes: Vec<&str> = context.classes.iter().copied().map(Class::name).collect();
    let parts = [Some(moved), runs, again, cached].into_iter().flatten();
    let evidence = parts.collect::<Vec<_>>().join(", ");
    match classes.is_empty() {
        true => evidence,
        false => format!("{}: {evidence}", classes.join(" ").to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_becomes_what_can_be_put_into_force() {
        let of_read = |advice| action(Use::Read, advice).map(|action| action.name());
        for (advice, expected) in [
            (Advice::SequentialDropBehind, Some("drop")),
            (Advice::RandomDropBehind, Some("drop")),
            (Advice::Sequential, Some("sequential")),
            (Advice::Random, Some("random")),
            (Advice::RandomWithBursts(65536), Some("willneed")),
            (Advice::DropBehind, Some("drop")),
            (Advice::Keep, Some("nothing")),
            (Advice::Nothing(WhyNothing::NoUse), Some("nothing")),
            (Advice::Nothing(WhyNothing::FewBytes), None),
            (Advice::Nothing(WhyNothing::Direct), None),
            (Advice::Nothing(WhyNothing::InMemory), None),
        ] {
            assert_eq!(of_read(advice), expected, "{advice:?}");
        }
        let drops = Action::Io(IoAction::Drop { readahead: None });
        assert_eq!(action(Use::Write, Advice::DropWritten), Some(drops));
        assert_eq!(action(Use::Map, Advice::Sequential), None);
        assert_eq!(action(Use::Sync, Advice::DropBehind), None);
    }

    #[test]
    fn a_place_is_named_by_what_is_known_of_it() {
        let mut place = SourcePlace {
            function: Some("scan".to_owned()),
            file: Some("/src/scan.c".to_owned()),
            line: Some(71),
        };
        assert_eq!(name_of(&place), "scan (scan.c:71)");
        place.line = None;
        assert_eq!(name_of(&place), "scan");
        place.function = None;
        assert_eq!(name_of(&place), "(unknown function)");
        let frame = ObjectFrame {
            module: Some("/usr/bin/db_bench".to_owned()),
            module_offset: Some(0x61ee6),
            ..ObjectFrame::default()
        };
        assert_eq!(address(&frame), "db_bench+0x61ee6");
        assert_eq!(address(&ObjectFrame::default()), "(unknown function)");
    }
}
