//! Files as damo writes them, made by hand after its format, and files that are wrong in every way we thought of.

use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pagewise_import::ImportError;
use pagewise_import::damo;
use pagewise_import::damo::Summary;
use pagewise_trace::RegionAccess;
use proptest::prelude::*;
use tempfile::TempDir;

/// Two snapshots of process 4242: numbers as damo 3.3 writes them.
const JSON: &str = r#"[
    {
        "kdamond_idx": 0, "context_idx": 0,
        "intervals": {"sample_us": "5000", "aggr_us": "100000", "ops_update_us": "1000000"},
        "scheme_idx": null, "target_id": 4242, "scheme_filters": [],
        "snapshots": [
            {"start_time": "539809434100", "end_time": "539914032967",
             "regions": [
                {"start": "94,827,419,009,024", "end": "94,827,423,150,080",
                 "nr_accesses": {"samples": 0, "percent": null},
                 "age": {"usec": null, "aggr_intervals": null}, "probe_hits": [], "sz_filter_passed": "0"},
                {"start": "94,827,423,150,080", "end": "94,827,427,291,136",
                 "nr_accesses": {"samples": 20, "percent": null},
                 "age": {"usec": "0 ns", "aggr_intervals": "1,003"}, "probe_hits": [], "sz_filter_passed": "0"}
             ],
             "total_bytes": "8282112", "damos_stats": null, "sample_interval_us": null},
            {"start_time": "539914032967", "end_time": "540014032967", "regions": [], "total_bytes": "0"}
        ],
        "data_source": "unknown"
    }
]"#;

const RAW: &str = "\
base_time_absolute: 8 m 59.809 s
data source: unknown

monitoring_start:                0 ns
monitoring_end:            104.599 ms
monitoring_duration:       104.599 ms
target_id: 18446623438842320000
nr_regions: 2
# start_addr     end_addr        length  nr_accesses   age
563ebaa00000-563ebadf3000 (   3.949 MiB)           0    -1
563ebadf3000-563ebb1e6000 (   3.949 MiB)          20     7

monitoring_start:          104.599 ms
monitoring_end:            208.590 ms
monitoring_duration:       103.991 ms
target_id: 18446623438842320000
nr_regions: 1
563ebaa00000-563ebc99e000(  31.617 MiB):        1

";

fn row(end_ns: u64, interval_ns: u64, start: u64, end: u64) -> RegionAccess {
    RegionAccess {
        time_ns: end_ns,
        interval_ns,
        space: 0,
        target: None,
        start,
        bytes: end - start,
        accesses: 0,
        checks: None,
        age: None,
    }
}

fn expected_of_json() -> Vec<RegionAccess> {
    let (middle, end) = (94_827_423_150_080, 94_827_427_291_136);
    let of_interval = |start, end| RegionAccess {
        target: Some(4242),
        checks: Some(20),
        ..row(539_914_032_967, 104_598_867, start, end)
    };
    let hot = RegionAccess {
        accesses: 20,
        age: Some(1_003),
        ..of_interval(middle, end)
    };
    vec![of_interval(94_827_419_009_024, middle), hot]
}

fn file(content: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("damon.data");
    std::fs::write(&path, content).expect("written");
    (folder, path)
}

fn read(content: &[u8]) -> Result<(Vec<RegionAccess>, Summary), ImportError> {
    let (_folder, path) = file(content);
    let mut rows = Vec::new();
    let summary = damo::read(&path, &mut |row| {
        rows.push(row);
        Ok(())
    })?;
    Ok((rows, summary))
}

fn compressed(text: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("compressed");
    encoder.finish().expect("compressed")
}

/// The error, which must name the file and hold these words.
fn refusal(content: &[u8], words: &[&str]) -> ImportError {
    let error = read(content).expect_err("refused");
    let text = error.to_string();
    assert!(text.contains("damon.data"), "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
    error
}

#[test]
fn json_is_read_plain_and_compressed() {
    let summary = Summary {
        snapshots: 2,
        regions: 2,
        targets: 1,
    };
    for content in [JSON.as_bytes().to_vec(), compressed(JSON)] {
        assert_eq!(read(&content).expect("read"), (expected_of_json(), summary));
    }
}

#[test]
fn the_raw_form_is_read_of_this_and_older_versions() {
    let (rows, summary) = read(RAW.as_bytes()).expect("read");
    let base = 539_809_000_000;
    let of_target = |row| RegionAccess {
        target: Some(18_446_623_438_842_320_000),
        ..row
    };
    let first = row(
        base + 104_599_000,
        104_599_000,
        0x563e_baa0_0000,
        0x563e_badf_3000,
    );
    let second = RegionAccess {
        accesses: 20,
        age: Some(7),
        ..row(
            base + 104_599_000,
            104_599_000,
            0x563e_badf_3000,
            0x563e_bb1e_6000,
        )
    };
    let third = RegionAccess {
        accesses: 1,
        ..row(
            base + 208_590_000,
            103_991_000,
            0x563e_baa0_0000,
            0x563e_bc99_e000,
        )
    };
    assert_eq!(rows, [first, second, third].map(of_target));
    assert_eq!(summary.snapshots, 2);
}

#[test]
fn targets_are_told_apart_and_physical_memory_has_none() {
    let one = JSON.trim().trim_start_matches('[').trim_end_matches(']');
    let other = one.replace("4242", "null");
    let (rows, summary) = read(format!("[{one},{other}]").as_bytes()).expect("read");
    assert_eq!(summary.targets, 2);
    let found: Vec<_> = rows.iter().map(|row| (row.space, row.target)).collect();
    assert_eq!(
        found,
        [(0, Some(4242)), (0, Some(4242)), (1, None), (1, None)]
    );
}

#[test]
fn a_share_counts_as_its_part_of_the_checks() {
    let text = JSON.replace(
        r#"{"samples": 20, "percent": null}"#,
        r#"{"samples": null, "percent": 50}"#,
    );
    assert_eq!(read(text.as_bytes()).expect("read").0[1].accesses, 10);
    let without = text.replace(r#""intervals": {"#, r#""former": {"#);
    refusal(without.as_bytes(), &["snapshot", "neither samples"]);
}

#[test]
fn the_snapshot_that_only_tells_a_time_is_left_out() {
    let fake = r#"{"start_time": "1", "end_time": "2", "regions": [{"start": "0", "end": "0",
        "nr_accesses": {"samples": -1, "percent": null}, "age": {"usec": null, "aggr_intervals": "-1"}}]}"#;
    let text = JSON.replacen("\"snapshots\": [", &format!("\"snapshots\": [{fake},"), 1);
    assert_eq!(read(text.as_bytes()).expect("read").0, expected_of_json());
}

#[test]
fn every_cut_is_noticed() {
    for (content, whole) in [
        (JSON.as_bytes().to_vec(), expected_of_json()),
        (compressed(JSON), expected_of_json()),
    ] {
        for cut in 1..content.len() {
            match read(&content[..cut]) {
                Err(
                    ImportError::Truncated { .. }
                    | ImportError::Format { .. }
                    | ImportError::Invalid { .. },
                ) => {}
                other => panic!("cut at {cut}: {other:?}"),
            }
        }
        assert_eq!(read(&content).expect("read").0, whole);
    }
    assert!(matches!(refusal(b"", &[]), ImportError::Truncated { .. }));
    let in_regions = RAW.find("563ebadf3000-563ebb").expect("there");
    let error = refusal(&RAW.as_bytes()[..in_regions], &["1 of 2 regions"]);
    assert!(matches!(error, ImportError::Truncated { .. }));
    let in_head = RAW.rfind("nr_regions").expect("there");
    refusal(&RAW.as_bytes()[..in_head], &["no nr_regions"]);
}

#[test]
fn files_of_other_formats_are_named() {
    refusal(b"PERFILE2\x68\0\0\0", &["perf.data", "json_compressed"]);
    let script = b"kdamond.0  4452 [000] 82820.952659: damon:damon_aggregated: target_id=1 nr_regions=8 1-2: 0";
    refusal(script, &["perf script"]);
    refusal(b"a,b,c\n", &["none of damo's formats"]);
    refusal(&[0; 4096], &["none of damo's formats"]);
    refusal(b"{\"schema\": 1}", &["list of damo's records"]);
    refusal(b"[1, 2]", &["record of damo's", "line 1"]);
    refusal(&compressed("[{}]"), &["missing field", "snapshots"]);
}

#[test]
fn files_without_regions_are_refused() {
    assert!(matches!(refusal(b"[]", &[]), ImportError::Empty { .. }));
    let none = JSON.replace("\"regions\": [", "\"regions\": [], \"others\": [");
    assert!(matches!(
        refusal(none.as_bytes(), &[]),
        ImportError::Empty { .. }
    ));
    let text = "base_time_absolute: 0 ns\nmonitoring_start: 0 ns\nmonitoring_end: 1 ns\ntarget_id: 1\nnr_regions: 0\n";
    assert!(matches!(
        refusal(text.as_bytes(), &[]),
        ImportError::Empty { .. }
    ));
}

#[test]
fn impossible_numbers_say_where() {
    for (from, to, words) in [
        (
            "94,827,427,291,136",
            "94,827,423,150,080",
            &["snapshot 1", "ends where it begins"][..],
        ),
        (
            "94,827,423,150,080\", \"end",
            "94,827,423,150,000\", \"end",
            &["snapshot 1", "overlaps"],
        ),
        (
            "94,827,427,291,136",
            "99999999999999999999999",
            &["a region's end", "too large"],
        ),
        ("94,827,427,291,136", "-5", &["a region's end", "negative"]),
        ("94,827,427,291,136", "1.5", &["no integer"]),
        (
            "\"samples\": 20",
            "\"samples\": 4294967296",
            &["accesses", "too large"],
        ),
        (
            "\"samples\": 20",
            "\"samples\": -3",
            &["accesses", "negative"],
        ),
        ("\"samples\": 20", "\"samples\": {}", &["line"]),
        ("1,003", "99,999,999,999", &["age", "too large"]),
        (
            "539914032967\",\n",
            "1\",\n",
            &["snapshot 1", "before it begins"],
        ),
        ("539809434100", "soon", &["start_time", "soon"]),
        ("4242", "-1", &["target_id", "negative"]),
        ("4242", "1e400", &["line"]),
    ] {
        let text = JSON.replacen(from, to, 1);
        assert_ne!(text, JSON, "{from}");
        refusal(text.as_bytes(), words);
    }
}

#[test]
fn impossible_lines_say_which() {
    for (from, to, words) in [
        (
            "nr_regions: 2",
            "nr_regions: 3",
            &["line 13", "2 of 3 regions"][..],
        ),
        (
            "nr_regions: 2",
            "nr_regions: 1",
            &["line 11", "one too many"],
        ),
        ("nr_regions: 2", "nr_regions: 99999999", &["too many"]),
        (
            "nr_regions: 2",
            "nr_regions: two",
            &["line 8", "nr_regions"],
        ),
        (
            "          20     7",
            "          20     7     9",
            &["line 11", "more than"],
        ),
        ("          20     7", "", &["line 11", "no accesses"]),
        (
            "563ebadf3000-563ebb1e6000",
            "563ebadf3000-fffffffffffffffff",
            &["no address"],
        ),
        (
            "563ebadf3000-563ebb1e6000",
            "563ebadf3000-563ebadf3000",
            &["ends where it begins"],
        ),
        (
            "563ebadf3000-563ebb1e6000",
            "563ebadf2000-563ebb1e6000",
            &["overlaps"],
        ),
        (
            "target_id: 18446623438842320000\n",
            "",
            &["target_id is missing"],
        ),
        ("8 m 59.809 s", "9999999999999 d", &["line 1", "no time"]),
        (
            "8 m 59.809 s",
            "18446744073709551615",
            &["line 5", "too late"],
        ),
        (
            "data source",
            "the source",
            &["line 2", "nothing that damo writes"],
        ),
    ] {
        let text = RAW.replacen(from, to, 1);
        assert_ne!(text, RAW, "{from}");
        refusal(text.as_bytes(), words);
    }
    let mut endless = RAW.as_bytes().to_vec();
    endless.extend([b'7'; 100_000]);
    refusal(&endless, &["longer than damo's"]);
    let mut binary = RAW.as_bytes().to_vec();
    binary.extend([0xff, 0xfe, b'\n']);
    refusal(&binary, &["no text"]);
}

#[test]
fn a_small_file_cannot_fill_memory() {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(b"[{\"target_id\": 1, \"x\": \"")
        .expect("written");
    for _ in 0..80 {
        encoder.write_all(&[b'a'; 1 << 20]).expect("written");
    }
    let bomb = encoder.finish().expect("compressed");
    assert!(bomb.len() < 1 << 20);
    refusal(&bomb, &["64 MiB and no snapshot"]);
    let deep = format!("[{{\"target_id\": {}", "[".repeat(100_000));
    refusal(deep.as_bytes(), &["recursion"]);
}

#[test]
fn what_is_no_file_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("none");
    for path in [folder.path(), &missing] {
        let error = damo::read(path, &mut |_| Ok(())).expect_err("refused");
        assert!(
            matches!(&error, ImportError::Read { path: named, .. } if named == path),
            "{error}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Rows that come out are right in themselves, whatever was changed.
    #[test]
    fn changed_files_never_panic(raw in any::<bool>(), at in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut content = if raw { RAW } else { JSON }.as_bytes().to_vec();
        let at = at.index(content.len());
        content[at] = to;
        content.truncate(cut.index(content.len() * 3).max(1));
        if let Ok((rows, summary)) = read(&content) {
            prop_assert_eq!(rows.len() as u64, summary.regions);
            prop_assert!(rows.iter().all(|row| row.bytes > 0));
        }
    }

    #[test]
    fn any_bytes_after_any_head_never_panic(head in prop::sample::select(vec!["[", "base_time_absolute:", "x\u{1}", ""]), tail in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut content = head.as_bytes().to_vec();
        content.extend(tail);
        let _ = read(&content);
    }
}
