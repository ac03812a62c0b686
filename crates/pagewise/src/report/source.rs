//! `pagewise report --source`: finds the source files, and what speaks against their being what was compiled.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use pagewise_analyze::Findings;
use pagewise_attribute::build_id;
use pagewise_report::source;
use pagewise_report::source::SourceFile;
use pagewise_report::source::SourceText;
use pagewise_report::text;
use pagewise_report::text::Style;
use pagewise_trace::Meta;

use crate::failure::Failure;

/// No source that people wrote is larger.
const LARGEST: u64 = 16 << 20;

/// `wanted`: a file or function; empty: where it waited most.
pub(super) fn render(findings: &Findings, wanted: &str, style: Style) -> Result<String, Failure> {
    let files = source::files(findings);
    if files.is_empty() {
        return Err(Failure::new(
            "no source line is known where it waited: compile the program with -g and record it again (with the sensor \
             call-paths)",
        ));
    }
    let names = names(&files);
    let wanted = (!wanted.is_empty()).then_some(wanted);
    let selected = source::select(findings, wanted);
    if selected.is_empty() {
        let asked = wanted.map_or("nothing waited".to_owned(), |name| {
            format!("it waited in no file or function {name:?}")
        });
        return Err(Failure::new(format!("{asked}; it did in {names}")));
    }
    let with_text: Vec<(SourceFile, SourceText)> = selected
        .into_iter()
        .map(|file| {
            let text = read(&file, &findings.meta);
            (file, text)
        })
        .collect();
    let mut shown = text::render_headline(findings, style);
    shown.push_str(&source::render(&with_text, findings, style));
    Ok(shown)
}

/// Some of the files, for a message.
fn names(files: &[SourceFile]) -> String {
    const MOST: usize = 5;
    let name = |file: &SourceFile| format!("{:?}", file.file);
    let mut names: Vec<String> = files.iter().take(MOST).map(name).collect();
    if files.len() > MOST {
        names.push(format!("{} more", files.len() - MOST));
    }
    names.join(", ")
}

fn read(file: &SourceFile, meta: &Meta) -> SourceText {
    let Some(path) = find(&file.file, &meta.working_directory) else {
        return SourceText::Missing {
            why: format!(
                "there is no {}, nor its like in or above the folder of the recording or this one",
                file.file
            ),
        };
    };
    match read_text(&path) {
        Ok(text) => SourceText::Found {
            doubts: doubts(&path, &file.modules, meta),
            path: path.display().to_string(),
            text,
        },
        Err(why) => SourceText::Missing { why },
    }
}

/// The file itself, or where the recorded program or we are, one that ends like it: sources move between machines.
fn find(file: &str, recorded_in: &str) -> Option<PathBuf> {
    let path = Path::new(file);
    if path.is_file() {
        return Some(path.to_owned());
    }
    let parts: Vec<_> = path.iter().filter(|part| *part != "/").collect();
    let folders = [PathBuf::new(), PathBuf::from(recorded_in)];
    (0..parts.len())
        .map(|from| parts[from..].iter().collect::<PathBuf>())
        .flat_map(|end| folders.clone().map(|folder| folder.join(&end)))
        .find(|candidate| candidate.is_file())
}

fn read_text(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes > LARGEST {
        return Err(format!(
            "{} is no source, it has {bytes} bytes",
            path.display()
        ));
    }
    let text = fs::read(path).map_err(failed)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn doubts(path: &Path, modules: &BTreeSet<String>, meta: &Meta) -> Vec<String> {
    let changed = modified_ns(path);
    let recorded = meta.clock.start_realtime_ns;
    let mut doubts = Vec::new();
    if changed
        .zip(recorded)
        .is_some_and(|(changed, recorded)| changed > recorded)
    {
        doubts.push("It was changed after the recording: its lines may be others.".to_owned());
    }
    for module in modules {
        let built = modified_ns(Path::new(module));
        let recorded_id = meta.build_ids.get(module);
        if !Path::new(module).exists() {
            doubts.push(format!(
                "{module} is gone: nothing tells which source it was built from."
            ));
        } else if recorded_id.is_some() && recorded_id != build_id(Path::new(module)).as_ref() {
            doubts.push(format!(
                "{module} has been rebuilt since the recording (its build id differs): lines are those of the old one."
            ));
        } else if doubts.is_empty()
            && changed
                .zip(built)
                .is_some_and(|(changed, built)| changed > built)
        {
            doubts.push(format!(
                "It is newer than {module}: its lines may be others."
            ));
        }
    }
    doubts
}

fn modified_ns(path: &Path) -> Option<u64> {
    let modified: SystemTime = fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

#[cfg(test)]
mod tests;
