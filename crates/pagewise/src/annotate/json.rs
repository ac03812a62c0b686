//! The JSON document `pagewise.annotate/1` (`docs/annotate.md`).

use serde::Serialize;

use super::Patched;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    allocations: Vec<Allocation<'a>>,
    file_calls: Vec<FileCall<'a>>,
    refusals: Vec<Refusal<'a>>,
    diff: String,
}

#[derive(Serialize)]
struct Allocation<'a> {
    file: &'a str,
    line: usize,
    function: Option<&'a str>,
    variable: Option<&'a str>,
    by: &'a str,
    bytes: Option<&'a str>,
    calls: &'a [String],
    already: bool,
}

#[derive(Serialize)]
struct FileCall<'a> {
    file: &'a str,
    line: usize,
    function: Option<&'a str>,
    by: &'a str,
    on: &'a str,
    call: &'a str,
    already: bool,
}

#[derive(Serialize)]
struct Refusal<'a> {
    file: &'a str,
    line: Option<usize>,
    why: &'a str,
}

pub(super) fn render(patched: &[Patched], diff: &[u8]) -> serde_json::Result<String> {
    let allocations = patched.iter().flat_map(|one| {
        one.annotated.found.iter().map(|found| Allocation {
            file: &one.name,
            line: found.line,
            function: found.function.as_deref(),
            variable: found.variable.as_deref(),
            by: &found.by,
            bytes: found.bytes.as_deref(),
            calls: &found.calls,
            already: found.already,
        })
    });
    let file_calls = patched.iter().flat_map(|one| {
        one.annotated.found_calls.iter().map(|found| FileCall {
            file: &one.name,
            line: found.line,
            function: found.function.as_deref(),
            by: &found.by,
            on: &found.file,
            call: &found.call,
            already: found.already,
        })
    });
    let refusals = patched.iter().flat_map(|one| {
        one.annotated.refusals.iter().map(|refusal| Refusal {
            file: &one.name,
            line: refusal.line,
            why: &refusal.why,
        })
    });
    let document = Document {
        schema: "pagewise.annotate/1",
        allocations: allocations.collect(),
        file_calls: file_calls.collect(),
        refusals: refusals.collect(),
        diff: String::from_utf8_lossy(diff).into_owned(),
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
