//! The public traces, if they are there: `PAGEWISE_TRACES`, or `../shared/data/traces` beside the workspace.

use std::path::Path;
use std::path::PathBuf;

use pagewise_refs::Options;
use pagewise_refs::Reader;

/// Name, format, references, distinct pages, writes.
const TRACES: &[(&str, &str, u64, u32, usize)] = &[
    ("loop.trace.gz", "lirs", 505_500, 1_011, 0),
    ("2_pools.trace.gz", "lirs", 100_000, 9_939, 0),
    ("gli.trace.gz", "lirs", 6_015, 2_529, 0),
    ("sprite.trace.gz", "lirs", 133_996, 7_075, 0),
    ("gzip.trace.gz", "address", 481_044, 39_856, 160_603),
    ("mcf.trace.gz", "address", 727_230, 1_442, 721_258),
    ("OLTP.lis.zst", "arc", 914_145, 186_880, 0),
    ("cloudPhysicsIO.csv.gz", "csv", 113_872, 48_974, 66_898),
];

/// `None`, and said so, if they are not there and nobody said they were.
fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("PAGEWISE_TRACES").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/traces");
    let folder = named.clone().unwrap_or(beside);
    if folder.is_dir() {
        return Some(folder);
    }
    let missing = format!("no public traces in {}", folder.display());
    assert!(named.is_none(), "{missing}");
    println!("skipped: {missing}: name their folder in PAGEWISE_TRACES");
    None
}

#[test]
fn references_and_pages_are_those_of_the_published_counts() {
    let Some(folder) = folder() else {
        return;
    };
    for (name, format, references, pages, writes) in TRACES {
        let mut reader = Reader::open(&folder.join(name), &Options::default()).unwrap();
        let all = reader.read_all().unwrap();
        let written = all.iter().filter(|reference| reference.is_write()).count();
        let found = (
            reader.format().as_str(),
            all.len() as u64,
            reader.pages(),
            written,
        );
        assert_eq!(found, (*format, *references, *pages, *writes), "{name}");
    }
}
