//! Patches of calls on files: the patched programs compile with the same flags, print the same, tell the kernel what the plan says, and are
//! not patched again.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use pagewise_annotate::Annotated;
use pagewise_annotate::Source;
use pagewise_annotate::from_plan;
use pagewise_plan::Action;
use pagewise_plan::IoAction;
use pagewise_plan::Readahead;
use pagewise_plan::Rule;
use pagewise_plan::SourcePlace;
use pagewise_plan::Target;
use tempfile::TempDir;

const FLAGS: &[&str] = &["-O2", "-g", "-Wall", "-Wextra", "-Werror"];
/// Not a whole number of pages, and several chunks that are dropped as one.
const BYTES: usize = (9 << 20) + 1234;

fn source(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sources");
    folder.join(name)
}

/// On a disk: what is in memory only has no page cache to be dropped from.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

fn output_of(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} is needed: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a comment of a source wants.
fn action(word: &str) -> Action {
    let sequential = Some(Readahead::Sequential);
    Action::Io(match word {
        "drop" => IoAction::Drop {
            readahead: None,
            again_percent: 0,
        },
        "drop-sequential" => IoAction::Drop {
            readahead: sequential,
            again_percent: 0,
        },
        "random" => IoAction::Readahead(Readahead::Random),
        "sequential" => IoAction::Readahead(Readahead::Sequential),
        "normal" => IoAction::Readahead(Readahead::Normal),
        "burst" => IoAction::WillNeed { burst_bytes: 32768 },
        other => panic!("no hint is called {other}"),
    })
}

fn rule(line: usize, action: Action, files: Option<&str>) -> Rule {
    Rule {
        objects: None,
        name: format!("line {line}"),
        place: SourcePlace {
            function: None,
            file: None,
            line: Some(line as u32),
        },
        target: Target::Io {
            path: Vec::new(),
            files: files.map(str::to_owned),
        },
        action,
        why: "a test".to_owned(),
        predicted: None,
    }
}

/// The lines of a source that bear a mark, and the word behind it.
fn marked<'text>(text: &'text str, mark: &str) -> Vec<(usize, &'text str)> {
    let word = |line: &'text str| {
        let rest = [format!("* {mark}"), format!("/ {mark}")]
            .iter()
            .find_map(|mark| Some(line.split_once(mark.as_str())?.1))?;
        Some(rest.split_whitespace().next().unwrap_or_default())
    };
    let lines = (1..).zip(text.lines()).skip(3);
    lines
        .filter_map(|(at, line)| Some((at, word(line)?)))
        .collect()
}

/// The rules that a source's comments tell, with lines so many further down.
fn rules(text: &str, further: usize) -> Vec<Rule> {
    let hints = marked(text, "hint").into_iter();
    let hints = hints.map(|(line, word)| rule(line + further, action(word), None));
    let refused = marked(text, "refused").into_iter();
    let refused = refused.map(|(line, _)| rule(line + further, action("drop"), None));
    hints.chain(refused).collect()
}

fn annotated(path: &Path, rules: &[Rule]) -> (Source, Annotated) {
    let source = Source::read(path).expect("a source");
    let annotated = from_plan(&source, &rules.iter().collect::<Vec<_>>());
    (source, annotated)
}

/// Patches a copy in the folder. Returns where it is.
fn patched(folder: &Path, name: &str, rules: &[Rule]) -> PathBuf {
    let path = folder.join(name);
    fs::copy(source(name), &path).expect("copied");
    let (source, annotated) = annotated(&path, rules);
    fs::write(folder.join("patch"), annotated.diff(&source, name)).expect("written");
    let apply = ["--fuzz=0", "-s", "-p1", "-i", "patch"];
    output_of(Command::new("patch").args(apply).current_dir(folder));
    path
}

fn build(source: &Path, program: &Path, options: &[&str]) {
    let is_c = source.extension().is_some_and(|extension| extension == "c");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut compile = Command::new(if is_c { "gcc" } else { "g++" });
    compile.args(FLAGS).args(options).arg("-I").arg(include);
    output_of(compile.arg("-o").args([program, source]));
}

/// A file whose every part differs.
fn data(folder: &Path) -> PathBuf {
    let path = folder.join("data");
    let bytes: Vec<u8> = (0..BYTES as u64)
        .map(|at| match at % 61 {
            60 => b'\n',
            _ => b'a' + (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as u8,
        })
        .collect();
    fs::write(&path, bytes).expect("written");
    path
}

fn patches_are_right(name: &str, options: &[&[&str]]) {
    let text = fs::read_to_string(source(name)).expect("a source");
    let (_, found) = annotated(&source(name), &rules(&text, 0));
    let lines: Vec<usize> = marked(&text, "hint")
        .iter()
        .map(|(line, _)| *line)
        .collect();
    // A call is told by the line that it begins on.
    let is_at = |(found, line): (&pagewise_annotate::FoundCall, &usize)| {
        (found.line..=found.line + 1).contains(line)
    };
    assert_eq!(
        found.found_calls.len(),
        lines.len(),
        "{:#?}",
        found.refusals
    );
    assert!(
        found.found_calls.iter().zip(&lines).all(is_at),
        "{lines:?} {:#?}",
        found.found_calls
    );
    let refused: Vec<usize> = found
        .refusals
        .iter()
        .filter_map(|refusal| refusal.line)
        .collect();
    let expected: Vec<usize> = marked(&text, "refused")
        .iter()
        .map(|(line, _)| *line)
        .collect();
    assert_eq!(refused, expected, "{:#?}", found.refusals);

    let folder = folder();
    let folder = folder.path();
    let data = data(folder);
    let after = patched(folder, name, &rules(&text, 0));
    for options in options {
        let mut printed = Vec::new();
        for (version, source) in [("before", &source(name)), ("after", &after)] {
            let program = folder.join(version);
            build(source, &program, options);
            printed.push(output_of(
                Command::new(program).arg(&data).arg(folder.join("written")),
            ));
        }
        assert_eq!(printed[0], printed[1], "{options:?}");
    }
    // The header is one line more.
    let again = rules(&text, 1);
    let (source, again) = annotated(&after, &again);
    assert_eq!(String::from_utf8_lossy(&again.diff(&source, name)), "");
    assert!(
        again.found_calls.iter().all(|found| found.already),
        "{:#?}",
        again.found_calls
    );
}

#[test]
fn calls_of_c_have_hints() {
    let gnu: &[&str] = &["-std=gnu11"];
    let c11: &[&str] = &["-std=c11"];
    let small: &[&str] = &["-std=gnu17", "-D_FILE_OFFSET_BITS=64", "-O0"];
    patches_are_right("files.c", &[gnu, c11, small]);
}

#[test]
fn calls_of_cpp_have_hints() {
    patches_are_right("files.cpp", &[&["-std=c++17"], &["-std=c++11", "-O0"]]);
}

#[test]
fn what_is_dropped_by_the_patch_is_not_in_the_page_cache() {
    let folder = folder();
    let folder = folder.path();
    let data = data(folder);
    let text = fs::read_to_string(source("files.cpp")).expect("a source");
    // The only call that reads all of the file; others read its begin.
    let all: Vec<Rule> = rules(&text, 0)
        .into_iter()
        .filter(|rule| rule.action == action("drop"))
        .collect();
    let cached = folder.join("cached");
    build(&source("cached.c"), &cached, &[]);
    let after = patched(folder, "files.cpp", &all);
    let percent = |source: &Path| -> usize {
        let program = folder.join("program");
        build(source, &program, &[]);
        output_of(Command::new(&cached).arg("evict").arg(&data));
        output_of(Command::new(&program).arg(&data).arg("none"));
        let left = output_of(Command::new(&cached).arg("count").arg(&data));
        left.trim().parse().expect("a number")
    };
    let (without, with) = (percent(&source("files.cpp")), percent(&after));
    // Two of nine MiB are begun before by a call without a hint, so that chunk is not the calls' own.
    assert!(
        without > 90 && with < 40,
        "{with} % and {without} % are left"
    );
}

#[test]
fn what_a_source_cannot_tell_apart_is_refused() {
    let path = source("files.c");
    let text = fs::read_to_string(&path).expect("a source");
    let (line, _) = marked(&text, "hint")[0];
    let refusal = |rules: &[Rule]| {
        let (_, annotated) = annotated(&path, rules);
        assert_eq!(annotated.found_calls, [], "{:#?}", annotated.refusals);
        annotated.refusals[0].why.clone()
    };
    let both = [
        rule(line, action("drop"), None),
        rule(line, Action::Nothing, None),
    ];
    assert!(refusal(&both).contains("which only pagewise apply tells apart"));
    let of_logs = [rule(line, action("drop"), Some("*.log"))];
    assert!(refusal(&of_logs).contains("files called *.log only"));
    let dontcache = Action::Io(IoAction::DontCache { readahead: None });
    assert!(refusal(&[rule(line, dontcache, None)]).contains("leave it to pagewise apply"));
}
