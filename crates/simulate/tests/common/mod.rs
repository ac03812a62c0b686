//! The public traces of the golden rows.

use std::path::PathBuf;

use pagewise_refs::Options;
use pagewise_refs::Reader;
use pagewise_simulate::Reference;

/// The folder of the public traces: `PAGEWISE_TRACES`, or `../shared/data/traces` beside the workspace; `None`, and said
/// so, if they are not there and nobody said they were.
pub(crate) fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("PAGEWISE_TRACES").map(PathBuf::from);
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/traces");
    let folder = named.clone().unwrap_or_else(|| PathBuf::from(beside));
    if folder.is_dir() {
        return Some(folder);
    }
    let missing = format!("no public traces in {}", folder.display());
    assert!(named.is_none(), "{missing}");
    println!("skipped: {missing}: name their folder in PAGEWISE_TRACES");
    None
}

/// The trace that the golden rows call `name`.
pub(crate) fn trace(name: &str) -> Option<Vec<Reference>> {
    let (kind, file) = name.split_once('_').unwrap_or(("csv", name));
    let path = folder()?.join(match kind {
        "arc" => format!("{file}.lis.zst"),
        "csv" => format!("{file}.csv.gz"),
        _ => format!("{file}.trace.gz"),
    });
    let mut reader = Reader::open(&path, &Options::default()).expect("a trace");
    Some(reader.read_all().expect("references"))
}
