//! `pagewise annotate`: a patch that puts names, or a plan's calls and hints, into C and C++ sources.

mod json;
mod places;

use std::collections::HashSet;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pagewise_annotate::Annotated;
use pagewise_annotate::Refusal;
use pagewise_annotate::Source;
use pagewise_annotate::SourceError;
use pagewise_annotate::without_source;
use pagewise_plan::Action;
use pagewise_plan::Plan;
use pagewise_plan::Rule;
use pagewise_plan::Target as PlanTarget;

use crate::failure::Failure;
use crate::output::print;
use crate::output::tell;
use crate::target::Contents;
use crate::target::Target;

use self::places::Places;

/// Something was refused: the rest is in the patch.
const REFUSED: u8 = 1;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AnnotateArguments {
    /// Name each allocation to the recorder, in place of a plan's calls: all files are sources then
    #[arg(long)]
    hints: bool,
    /// The patch to write, or - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Overwrite it
    #[arg(short, long)]
    force: bool,
    /// Print what was found and refused, and the patch, as JSON (schema pagewise.annotate/1)
    #[arg(long)]
    json: bool,
    /// Take a folder off the paths of source files, in the plan and in the patch; may be given several times
    #[arg(long, value_name = "FOLDER")]
    strip_prefix: Vec<PathBuf>,
    /// Where the plan's relative paths of source files begin [default: the current folder]
    #[arg(long, value_name = "FOLDER", conflicts_with = "hints")]
    source_root: Option<PathBuf>,
    /// The plan, and the sources to patch [default: those that the plan names]
    #[arg(required = true, value_name = "PLAN|SOURCE")]
    files: Vec<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  pagewise annotate --hints solver.c grid.c > hints.patch
  pagewise annotate plan.toml -o plan.patch
  patch -p1 < plan.patch

Exit codes: 0 if all is in the patch; 1 if something was refused, and the rest is in the patch; 125 if pagewise fails.";

/// A source, what it is called in the patch, and what became of it.
struct Patched {
    name: String,
    diff: Vec<u8>,
    annotated: Annotated,
}

pub(crate) fn run(arguments: &AnnotateArguments) -> Result<ExitCode, Failure> {
    let places = Places {
        strip: &arguments.strip_prefix,
        root: arguments.source_root.as_deref(),
    };
    let patched = match (arguments.hints, &arguments.files[..]) {
        (true, sources) => hints(&places, sources)?,
        (false, [plan, sources @ ..]) => planned(&places, plan, sources)?,
        (false, []) => Vec::new(), // clap asks for one
    };
    let diff: Vec<u8> = patched.iter().flat_map(|one| one.diff.clone()).collect();
    write(arguments, &diff)?;
    if arguments.json {
        let text = json::render(&patched, &diff);
        print(&text.map_err(|error| Failure::new(format!("cannot render JSON: {error}")))?)?;
    }
    Ok(conclude(&patched))
}

fn hints(places: &Places<'_>, paths: &[PathBuf]) -> Result<Vec<Patched>, Failure> {
    let patch = |path: &PathBuf| patch(places, path, pagewise_annotate::hints);
    distinct(paths).iter().map(patch).collect()
}

/// Each file once, by whatever names it is called: two patches for one do not fit.
fn distinct(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    let is_new = |path: &&PathBuf| seen.insert(file_of(path));
    paths.iter().filter(is_new).cloned().collect()
}

fn file_of(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn planned(places: &Places<'_>, plan: &Path, sources: &[PathBuf]) -> Result<Vec<Patched>, Failure> {
    if Source::is_named_so(plan) {
        return Err(Failure::new(format!(
            "{} is a source: for names without a plan type: pagewise annotate --hints {}",
            plan.display(),
            plan.display()
        )));
    }
    let plan = Plan::read(plan)?;
    let sources = &distinct(sources)[..];
    let mut of_files: Vec<(PathBuf, Vec<&Rule>)> = Vec::new();
    let mut patched = Vec::new();
    let mut elsewhere = 0;
    // What is read by the same line, and shall be left alone, is in the way of others' hints.
    let is_meant = |rule: &&Rule| {
        rule.action != Action::Nothing || matches!(rule.target, PlanTarget::Io { .. })
    };
    for rule in plan.rules.iter().filter(is_meant) {
        let Some(file) = &rule.place.file else {
            if rule.action != Action::Nothing {
                patched.push(refused(&rule.name, without_source(rule)));
            }
            continue;
        };
        match places.source_of(file, sources) {
            None => elsewhere += usize::from(rule.action != Action::Nothing),
            Some(path) => match of_files
                .iter_mut()
                .find(|(known, _)| file_of(known) == file_of(&path))
            {
                Some((_, rules)) => rules.push(rule),
                None => of_files.push((path, vec![rule])),
            },
        }
    }
    let unrelated = unrelated(places, &plan, sources)?;
    if elsewhere > 0 {
        tell!("pagewise: rules for other sources than those named: {elsewhere}");
    }
    for (path, rules) in of_files {
        let from_plan = |source: &Source| pagewise_annotate::from_plan(source, &rules);
        let acts = rules.iter().any(|rule| rule.action != Action::Nothing);
        if !acts {
            continue;
        }
        let one = match sources.is_empty() && !path.exists() {
            true => refused(
                &path.display().to_string(),
                "there is no such file: name the sources, or where they are with --source-root"
                    .to_owned(),
            ),
            false => patch(places, &path, from_plan)?,
        };
        patched.push(one);
    }
    let is_any = patched
        .iter()
        .map(|one| &one.annotated)
        .any(|annotated| !annotated.found.is_empty() || !annotated.found_calls.is_empty());
    for source in unrelated {
        let why = why_unrelated(&plan);
        match is_any {
            true => tell!("pagewise: {}: {why}", source.display()),
            false => patched.push(refused(&source.display().to_string(), why)),
        }
    }
    Ok(patched)
}

/// Those of the sources that no rule is about, all of which can be read.
fn unrelated<'a>(
    places: &Places<'_>,
    plan: &Plan,
    sources: &'a [PathBuf],
) -> Result<Vec<&'a PathBuf>, Failure> {
    let files = plan
        .rules
        .iter()
        .filter_map(|rule| rule.place.file.as_deref());
    let related: HashSet<PathBuf> = files
        .filter_map(|file| places.source_of(file, sources))
        .collect();
    let unrelated: Vec<&PathBuf> = sources
        .iter()
        .filter(|source| !related.contains(*source))
        .collect();
    for source in &unrelated {
        // That it is generated, say, matters only where it would be patched.
        if let Err(error @ (SourceError::Read { .. } | SourceError::Language(_))) =
            Source::read(source)
        {
            return Err(Failure::new(error.to_string()));
        }
    }
    Ok(unrelated)
}

/// Why a source that was named is not patched, and which would be.
fn why_unrelated(plan: &Plan) -> String {
    let mut files: Vec<&str> = plan
        .acting_rules()
        .filter_map(|rule| rule.place.file.as_deref())
        .collect();
    files.sort_unstable();
    files.dedup();
    match files.is_empty() {
        true => "no rule of the plan is about it, nor about any other source: apply the plan to the program in place of a \
                 patch"
            .to_owned(),
        false => format!(
            "no rule of the plan is about it: name one of those that the plan names: {}",
            files.join(", ")
        ),
    }
}

fn refused(name: &str, why: String) -> Patched {
    Patched {
        name: name.to_owned(),
        diff: Vec::new(),
        annotated: Annotated::refused(why),
    }
}

/// A file that cannot be read is the user's slip, one that should not be patched is refused.
fn patch(
    places: &Places<'_>,
    path: &Path,
    annotate: impl FnOnce(&Source) -> Annotated,
) -> Result<Patched, Failure> {
    let source = match Source::read(path) {
        Ok(source) => source,
        Err(error @ (SourceError::Read { .. } | SourceError::Language(_))) => {
            return Err(Failure::new(error.to_string()));
        }
        Err(error) => {
            let refusal = Refusal {
                line: error.line(),
                why: error.to_string(),
            };
            let mut one = refused(&path.display().to_string(), String::new());
            one.annotated.refusals = vec![refusal];
            return Ok(one);
        }
    };
    let name = places.name_of(path)?;
    let annotated = annotate(&source);
    Ok(Patched {
        diff: annotated.diff(&source, &name),
        name: path.display().to_string(),
        annotated,
    })
}

fn write(arguments: &AnnotateArguments, diff: &[u8]) -> Result<(), Failure> {
    let to_stdout = arguments.output.as_os_str() == "-";
    if diff.is_empty() || to_stdout && arguments.json {
        return Ok(());
    }
    let same = |path: &PathBuf| {
        let real = std::fs::canonicalize(path);
        real.is_ok_and(|real| std::fs::canonicalize(&arguments.output).is_ok_and(|out| out == real))
    };
    if arguments.files.iter().any(same) {
        return Err(Failure::new(format!(
            "{} is what is read: name another file with -o",
            arguments.output.display()
        )));
    }
    let contents = Contents {
        name: "patch".to_owned(),
        is_text: true,
        option: "-o",
    };
    let target = Target::choose(&arguments.output, &contents, arguments.force)?;
    target.write("-o", |out| out.write_all(diff))
}

/// Tells what was refused, and how much was not.
fn conclude(patched: &[Patched]) -> ExitCode {
    let (mut placed, mut already, mut refused) = (0, 0, 0);
    let (mut hinted, mut calls) = (0, 0);
    for one in patched {
        for refusal in &one.annotated.refusals {
            refused += 1;
            match refusal.line {
                Some(line) => tell!("pagewise: {}:{line}: {}", one.name, refusal.why),
                None => tell!("pagewise: {}: {}", one.name, refusal.why),
            }
        }
        let with_calls = one
            .annotated
            .found
            .iter()
            .filter(|found| !found.calls.is_empty());
        for found in with_calls {
            match found.already {
                true => already += 1,
                false => placed += 1,
            }
        }
        for found in &one.annotated.found_calls {
            calls += 1;
            match found.already {
                true => already += 1,
                false => hinted += 1,
            }
        }
    }
    let hinted = match calls {
        0 => String::new(),
        _ => format!(", calls that read or write: {hinted}"),
    };
    let there = match already {
        0 => String::new(),
        _ => format!(", patched already: {already}"),
    };
    tell!("pagewise: allocations patched: {placed}{hinted}{there}, refused: {refused}");
    match refused {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(REFUSED),
    }
}
