//! From what was found of I/O contexts to rules about them. What a context is, and what would help it, is decided where it is
//! analyzed (`pagewise_analyze::file_io`, which has all thresholds); here it becomes something that can be put into force.

use std::collections::BTreeSet;
use std::sync::Arc;

use pagewise_analyze::ObjectFrame;
use pagewise_analyze::file_io::Advice;
use pagewise_analyze::file_io::Class;
use pagewise_analyze::file_io::FileIo;
use pagewise_analyze::file_io::IoContext;
use pagewise_analyze::file_io::Reuse;
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

use crate::contexts::Libraries;
use crate::contexts::context_paths_by;
use crate::rivals::Fit;
use crate::rivals::fit;
use crate::rivals::keep_what_has_no_room;
use crate::rivals::parties;
use crate::targets::is_c_library;

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
pub(crate) fn io_advice(
    trace: &Trace,
    io: &FileIo,
    libraries: Libraries,
) -> Result<IoAdvice, TraceError> {
    let mut advice = IoAdvice {
        files: files(io),
        ..IoAdvice::default()
    };
    let told = context_paths_by(trace, io, libraries)?;
    let mut parties = parties(io, &told);
    let again: Vec<u64> = io.contexts.iter().map(|one| again_bytes(io, one)).collect();
    let meta = trace.meta();
    let memory_bytes = meta.limit.bytes.or(meta.host.memory_bytes);
    keep_what_has_no_room(&mut parties, &again, memory_bytes);
    let parties = parties;
    for (at, context) in io.contexts.iter().enumerate() {
        let Some(action) = &parties[at].action else {
            continue;
        };
        let place = place(context);
        let name = name(context, &place);
        let others = parties.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.flat_map(|(_, party)| party.paths.iter().copied());
        let mut harmed = BTreeSet::new();
        for path in paths_of_rules(&parties[at].paths, others) {
            let (action, files) = match fit(&parties, at, path, action) {
                Fit::All(action) => (action, None),
                Fit::Files(action, pattern) => (action, Some(pattern)),
                Fit::Harms(other) => {
                    harmed.insert(other);
                    (Action::Nothing, None)
                }
            };
            let target = Target::Io {
                path: path.to_vec(),
                files,
            };
            let mut why = why(context);
            if is_untried(&action, io) {
                why.push_str(UNTRIED);
            }
            if action == Action::Nothing && was_cached_before(context) {
                why.push_str(CACHED_BEFORE);
            }
            advice.add((&name, &place), target, action, why);
        }
        if *action != Action::Nothing {
            let harmed = harmed.into_iter().map(|other| &io.contexts[other]);
            advice
                .unnamed
                .extend(harmed.map(|other| (name.clone(), harms(action, other))));
            let unknown = told[at].iter().filter_map(|path| path.path.as_ref().err());
            let unknown = unknown.map(|why| (name.clone(), why.clone()));
            advice.unnamed.extend(unknown);
        }
    }
    Ok(advice)
}

/// How much of a context's files is read more than once, by anybody.
fn again_bytes(io: &FileIo, context: &IoContext) -> u64 {
    let files = context.files.iter();
    let files = files.filter_map(|&(file, _)| io.files.get(file));
    files.filter_map(|file| file.read_again_bytes).sum()
}

/// Why nothing is done that would be right for some of the calls of a path.
fn harms(action: &Action, other: &IoContext) -> String {
    let other_name = name(other, &place(other));
    let classes = other.class();
    let classes = classes.map_or(String::new(), |classes| {
        format!(" ({})", classes.to_lowercase())
    });
    format!(
        "other calls by the same call path{classes}, which {} {} as {other_name}, cannot be told from it and would have {} as well",
        match other.does {
            Use::Write => "wrote",
            _ => "read",
        },
        pagewise_report::bytes(other.bytes),
        action.name()
    )
}

/// By what the paths of a context are known: by what all begin with, as there is one for each depth of a recursion, unless another context's does, too.
fn paths_of_rules<'a>(
    paths: &[&'a [Frame]],
    mut others: impl Iterator<Item = &'a [Frame]>,
) -> Vec<&'a [Frame]> {
    let Some((first, rest)) = paths.split_first() else {
        return Vec::new();
    };
    let common = rest.iter().fold(*first, |common, path| {
        let pairs = common.iter().zip(*path);
        &common[..pairs.take_while(|(one, other)| one == other).count()]
    });
    match common.is_empty() || others.any(|other| other.starts_with(common)) {
        true => paths.to_vec(),
        false => vec![common],
    }
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
    /// Leaves at most so many rules, those of most bytes: first those that do nothing go, unless they keep a shorter path's rule from what they are
    /// about. A rule without room for all that say something else about some of its calls has none itself: it would be about those, too.
    pub(crate) fn fit_into(&mut self, room: usize) {
        if self.rules.len() <= room {
            return;
        }
        let all = std::mem::take(&mut self.rules);
        let acting = |rule: &&Rule| rule.action != Action::Nothing;
        for rule in all.iter().filter(acting) {
            let is_new = |other: &&Rule| other.is_exception_to(rule) && !self.rules.contains(other);
            let exceptions: Vec<Rule> = all.iter().filter(is_new).cloned().collect();
            if !self.rules.contains(rule) && self.rules.len() + exceptions.len() < room {
                self.rules.extend(exceptions);
                self.rules.push(rule.clone());
            }
        }
        let without = |rule: &&Rule| !self.rules.contains(rule);
        let mut names: Vec<(String, usize)> = Vec::new();
        for rule in all.iter().filter(acting).filter(without) {
            match names.iter_mut().find(|(name, _)| *name == rule.name) {
                Some((_, paths)) => *paths += 1,
                None => names.push((rule.name.clone(), 1)),
            }
        }
        let most = pagewise_plan::MOST_RULES;
        self.unnamed.extend(names.into_iter().map(|(name, paths)| {
            let why =
                format!("a plan has at most {most} rules, and {paths} of its call paths move less than those that have one");
            (name, why)
        }));
    }

    /// Contexts of which all that is the program's own is the same, and that want the same, are one rule.
    fn add(
        &mut self,
        (name, place): (&str, &SourcePlace),
        target: Target,
        action: Action,
        why: String,
    ) {
        let rule = Rule {
            objects: None,
            name: name.to_owned(),
            place: place.clone(),
            target,
            action,
            why,
            predicted: None,
        };
        let mut rules = self.rules.iter_mut();
        match rules.find(|other| other.target == rule.target) {
            // What is left alone suffers nothing by it, or it would not be done.
            Some(other) if other.action == Action::Nothing => *other = rule,
            Some(_) => {}
            None => self.rules.push(rule),
        }
    }
}

/// Most of it is asked for by io_uring: neither from inside nor from outside such requests are seen when a rule could do something for them.
pub(crate) fn is_out_of_reach(context: &IoContext) -> bool {
    context.requested_bytes > 0 && context.requested_bytes >= context.bytes / 2
}

const OUT_OF_REACH: &str = "by io_uring, whose requests no rule reaches";

/// `None`: it is not worth a rule.
pub(crate) fn action(does: Use, advice: Advice) -> Option<Action> {
    if !matches!(does, Use::Read | Use::Write) {
        return None;
    }
    let drop = |readahead| {
        Action::Io(IoAction::Drop {
            readahead,
            again_percent: 0,
        })
    };
    Some(match advice {
        Advice::SequentialDropBehind => drop(Some(Readahead::Sequential)),
        Advice::RandomDropBehind => drop(Some(Readahead::Random)),
        Advice::Sequential => Action::Io(IoAction::Readahead(Readahead::Sequential)),
        Advice::Random => Action::Io(IoAction::Readahead(Readahead::Random)),
        Advice::RandomWithBursts(burst_bytes) => Action::Io(IoAction::WillNeed { burst_bytes }),
        Advice::DropBehind | Advice::DropWritten => drop(None),
        Advice::KeepResident => Action::Io(IoAction::Keep { keep_bytes: None }),
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

const UNTRIED: &str =
    "; memory was not short when it was recorded: record it with the limit that the plan is for";

/// Whether it drops although nothing had to leave the page cache: whether others' pages stay for it nobody has seen.
fn is_untried(action: &Action, io: &FileIo) -> bool {
    let is_drop = matches!(
        action,
        Action::Io(IoAction::Drop { .. } | IoAction::DontCache { .. })
    );
    is_drop && io.evicted_bytes == Some(0)
}

const CACHED_BEFORE: &str = "; its files were in the page cache before it was recorded, so that what the kernel reads ahead in vain was not seen: record it \
     after echo 1 | sudo tee /proc/sys/vm/drop_caches";

/// Of what was read for the first time, so small a share was brought in meanwhile, at most: the rest was there.
const BROUGHT_IN_SHARE: f64 = 0.01;

/// Whether it read from the page cache what nobody had brought in while it was recorded: then there is no telling what reading ahead
/// does for it.
fn was_cached_before(context: &IoContext) -> bool {
    let brought_in = context.missed_bytes.zip(context.ahead_bytes);
    let brought_in = brought_in.map(|(missed, ahead)| missed.saturating_add(ahead));
    context.does == Use::Read && !is_out_of_reach(context) && was_there(brought_in, context.reuse)
}

fn was_there(brought_in_bytes: Option<u64>, reuse: Option<Reuse>) -> bool {
    brought_in_bytes
        .zip(reuse)
        .is_some_and(|(brought_in, reuse)| {
            let first = reuse.bytes.saturating_sub(reuse.again_bytes) as f64;
            (brought_in as f64) < first * BROUGHT_IN_SHARE
        })
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
    let unhooked = unhooked_call(context);
    let unhooked = unhooked.map(|call| {
        format!("by {call}, which is seen from outside only: sudo pagewise apply PLAN --pid PID")
    });
    let requested = is_out_of_reach(context).then(|| OUT_OF_REACH.to_owned());
    let parts = [Some(moved), runs, again, cached, unhooked, requested];
    let evidence: Vec<String> = parts.into_iter().flatten().collect();
    let evidence = evidence.join(", ");
    match classes.is_empty() {
        true => evidence,
        false => format!("{}: {evidence}", classes.join(" ").to_lowercase()),
    }
}

/// Functions of the C library that read and write files by themselves, without a call that the preloaded library sees.
const UNHOOKED: &[&str] = &[
    "copy_file_range",
    "fclose",
    "fflush",
    "fgetc",
    "fprintf",
    "fprintf_chk",
    "fputc",
    "fputs",
    "fscanf",
    "fwrite",
    "getc",
    "isoc99_fscanf",
    "isoc23_fscanf",
    "putc",
    "puts",
    "sendfile",
    "sendfile64",
    "splice",
    "uflow",
    "overflow",
    "vfprintf",
    "vfprintf_chk",
    "vfscanf",
];

/// What the program calls, if the preloaded library does not see that.
fn unhooked_call(context: &IoContext) -> Option<&'static str> {
    let in_c_library = |frame: &&Arc<ObjectFrame>| {
        let module = frame.module.as_deref();
        module.is_some_and(is_c_library)
    };
    let called = context.frames.iter().take_while(in_c_library).last()?;
    unhooked(called.function.as_deref()?)
}

fn unhooked(function: &str) -> Option<&'static str> {
    let mut plain = function.split('@').next().unwrap_or(function);
    // Inside, the C library has other names for them: `__GI__IO_fwrite`.
    let marks = ["__GI_", "_IO_new_", "_IO_", "__"];
    while let Some(rest) = marks.iter().find_map(|mark| plain.strip_prefix(mark)) {
        plain = rest;
    }
    let plain = plain.strip_suffix("_unlocked").unwrap_or(plain);
    UNHOOKED.iter().copied().find(|name| *name == plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(offsets: &[u64]) -> Vec<Frame> {
        let frame = |&module_offset: &u64| Frame {
            module: "program".to_owned(),
            build_id: None,
            function: None,
            module_offset,
        };
        offsets.iter().map(frame).collect()
    }

    #[test]
    fn a_recursion_has_one_rule() {
        let depths: Vec<Vec<Frame>> = (0..100)
            .map(|depth| path(&[&[15, 20][..], &vec![20; depth], &[5]].concat()))
            .collect();
        let depths: Vec<&[Frame]> = depths.iter().map(Vec::as_slice).collect();
        let elsewhere = path(&[15, 30, 5]);
        let rules = paths_of_rules(&depths, [elsewhere.as_slice()].into_iter());
        assert_eq!(rules, [path(&[15, 20])]);
        let another = path(&[15, 20, 30, 5]);
        let rules = paths_of_rules(&depths, [another.as_slice()].into_iter());
        assert_eq!(rules.len(), 100, "the other's calls are no business of it");
        let only = path(&[1, 2]);
        let rules = paths_of_rules(&[&only], [only.as_slice()].into_iter());
        assert_eq!(rules, [only.as_slice()]);
    }

    fn rule(name: &str, offsets: &[u64], action: Action) -> Rule {
        Rule {
            objects: None,
            name: name.to_owned(),
            place: SourcePlace::default(),
            target: Target::Io {
                path: path(offsets),
                files: None,
            },
            action,
            why: String::new(),
            predicted: None,
        }
    }

    #[test]
    fn rules_that_have_no_room_are_told() {
        let drops = || {
            Action::Io(IoAction::Drop {
                readahead: None,
                again_percent: 0,
            })
        };
        let rules = [
            rule("idle", &[9], Action::Nothing),
            rule("walk", &[1], drops()),
            rule("but not here", &[1, 7], Action::Nothing),
            rule("scan", &[2], drops()),
            rule("scan", &[3], drops()),
        ];
        let mut advice = IoAdvice {
            rules: rules.to_vec(),
            ..IoAdvice::default()
        };
        advice.fit_into(5);
        assert_eq!(advice.rules.len(), 5);
        advice.fit_into(2);
        let names: Vec<&str> = advice.rules.iter().map(|rule| &*rule.name).collect();
        assert_eq!(names, ["but not here", "walk"]);
        let [(name, why)] = &advice.unnamed[..] else {
            panic!("{:?}", advice.unnamed);
        };
        assert!(
            name == "scan" && why.contains("2 of its call paths"),
            "{why}"
        );
    }

    #[test]
    fn a_rule_does_not_take_over_calls_of_another_that_has_no_room() {
        let drops = || {
            Action::Io(IoAction::Drop {
                readahead: None,
                again_percent: 0,
            })
        };
        let random = || Action::Io(IoAction::Readahead(Readahead::Random));
        let rules = [
            rule("walk", &[1], drops()),
            rule("scan", &[2], drops()),
            rule("but not here", &[1, 7], Action::Nothing),
            rule("look up", &[1, 8], random()),
            rule("idle", &[9], Action::Nothing),
            rule("also", &[1, 9], drops()),
        ];
        let fitted = |room| {
            let mut advice = IoAdvice {
                rules: rules.to_vec(),
                ..IoAdvice::default()
            };
            advice.fit_into(room);
            let names = |told: Vec<&str>| told.join(", ");
            let kept = advice.rules.iter().map(|rule| rule.name.as_str());
            let without = advice.unnamed.iter().map(|(name, _)| name.as_str());
            (names(kept.collect()), names(without.collect()))
        };
        let told = |kept: &str, without: &str| (kept.to_owned(), without.to_owned());
        assert_eq!(fitted(0), told("", "walk, scan, look up, also"));
        assert_eq!(fitted(1), told("scan", "walk, look up, also"));
        assert_eq!(fitted(2), told("scan, look up", "walk, also"));
        assert_eq!(fitted(3), told("but not here, look up, walk", "scan, also"));
        assert_eq!(
            fitted(5),
            told("but not here, look up, walk, scan, also", "")
        );
    }

    #[test]
    fn that_nothing_was_evicted_is_told_of_what_is_dropped() {
        let drops = Action::Io(IoAction::Drop {
            readahead: None,
            again_percent: 0,
        });
        let of = |evicted_bytes| FileIo {
            evicted_bytes,
            ..FileIo::default()
        };
        assert!(is_untried(&drops, &of(Some(0))));
        assert!(!is_untried(&drops, &of(Some(4096))) && !is_untried(&drops, &of(None)));
        assert!(!is_untried(&Action::Nothing, &of(Some(0))));
    }

    #[test]
    fn what_was_cached_before_tells_nothing_of_reading_ahead() {
        let of = |again_bytes| {
            Some(Reuse {
                bytes: 200 << 20,
                again_bytes,
                again_cached_bytes: Some(again_bytes),
            })
        };
        assert!(was_there(Some(0), of(0)) && was_there(Some(1 << 20), of(40 << 20)));
        assert!(!was_there(Some(150 << 20), of(0)), "brought in meanwhile");
        assert!(!was_there(Some(0), of(200 << 20)), "nothing was new to it");
        assert!(!was_there(None, of(0)) && !was_there(Some(0), None));
    }

    #[test]
    fn what_no_hook_sees_is_told() {
        for (function, expected) in [
            ("fwrite", Some("fwrite")),
            ("__GI__IO_fwrite", Some("fwrite")),
            ("_IO_new_fclose", Some("fclose")),
            ("__fprintf_chk", Some("fprintf_chk")),
            ("sendfile64@@GLIBC_2.3", Some("sendfile64")),
            ("fread", None),
            ("__write", None),
        ] {
            assert_eq!(unhooked(function), expected, "{function}");
        }
    }

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
            (Advice::KeepResident, Some("keep")),
            (Advice::Nothing(WhyNothing::NoUse), Some("nothing")),
            (Advice::Nothing(WhyNothing::FewBytes), None),
            (Advice::Nothing(WhyNothing::Direct), None),
            (Advice::Nothing(WhyNothing::InMemory), None),
        ] {
            assert_eq!(of_read(advice), expected, "{advice:?}");
        }
        let drops = Action::Io(IoAction::Drop {
            readahead: None,
            again_percent: 0,
        });
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
