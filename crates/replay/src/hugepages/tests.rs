//! From traces to what came of them: traces so small that the answers can be counted.

use std::fs;
use std::path::Path;

use pagewise_simulate::hugepages::HugePolicy;
use pagewise_simulate::hugepages::replay::Look;
use pagewise_trace::Access;
use pagewise_trace::Mapping;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Space;
use pagewise_trace::TraceWriter;

use super::*;
use crate::Unwatched;

const REGION: u64 = 2 << 20;

fn request() -> HugeRequest {
    HugeRequest {
        arms: HugeArm::all(),
        // Each lookup of a base page walks for as long as it works.
        tlb: "l1-4k=0,l1-2m=0,l2=0,walk=10,walk-2m=0,l2-hit=0,work=10"
            .parse()
            .expect("a geometry"),
        settings: Settings::new(HugePolicy::Nothing),
        interval: Duration::from_secs(2),
        memory_bytes: None,
        fragmentation: None,
        duration: None,
        reference_time: Duration::from_millis(100),
        overheads: Vec::new(),
        reading: Options::default(),
    }
}

fn replayed(paths: &[&Path], request: &HugeRequest) -> Result<HugeFindings, String> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    replay_hugepages(&paths, request, &mut Unwatched).map_err(|error| error.to_string())
}

fn of<'a>(findings: &'a HugeFindings, arm: &str) -> &'a ArmFindings {
    let found = findings.arms.iter().find(|one| one.arm.to_string() == arm);
    found.expect("it was asked for")
}

fn loaded(path: &Path, request: &HugeRequest) -> Vec<Look> {
    let mut loaded = Loaded::default();
    loaded
        .add(path, request, &mut Unwatched)
        .expect("it can be read");
    loaded.programs.swap_remove(0).looks().to_vec()
}

fn access(time_s: u64, space: u32, region: u64, accessed_pages: u16) -> Access {
    Access {
        time_ns: (100 + time_s) * 1_000_000_000,
        interval_ns: 1_000_000_000,
        space,
        address: region * REGION,
        resident_pages: 512,
        accessed_pages,
        dirty_pages: 0,
        huge: false,
        swapped_pages: 0,
        resident_map: None,
        accessed_map: None,
    }
}

fn record(dir: &Path, accesses: &[Access]) {
    record_with(dir, accesses, Meta::default());
}

fn record_with(dir: &Path, accesses: &[Access], meta: Meta) {
    let mut writer = TraceWriter::create(dir, meta, Overwrite::Refuse).expect("a folder");
    for row in accesses {
        writer.accesses.push(row.clone()).expect("written");
    }
    let mapping = Mapping {
        space: 1,
        time_ns: 0,
        start: 3 * REGION + 4096,
        end: 3 * REGION + 8192,
        permissions: "r--p".to_owned(),
        offset: 0,
        path: "/usr/lib/libm.so".to_owned(),
    };
    writer.mappings.push(mapping).expect("written");
    for (space, command, end_s) in [(1, "server", None), (2, "client", Some(103_u64))] {
        let space = Space {
            space,
            pid: 4000 + space,
            start_time_ns: 0,
            exec_epoch: 0,
            parent_space: None,
            begin_ns: 100 * 1_000_000_000,
            end_ns: end_s.map(|end| end * 1_000_000_000),
            command: command.to_owned(),
            executable: None,
        };
        writer.spaces.push(space).expect("written");
    }
    writer.close().expect("closed");
}

#[test]
fn processes_of_a_recording_are_programs_and_files_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("pagewise.data");
    let looks = [0, 2, 4].map(|time| [access(time, 1, 1, 100), access(time, 1, 3, 100)]);
    let mut rows = looks.concat();
    rows.insert(2, access(1, 2, 7, 512));
    record(&dir, &rows);
    let request = HugeRequest {
        duration: Some(Duration::from_secs(6)),
        ..request()
    };
    let found = replayed(&[&dir], &request).expect("it has accesses");
    let names: Vec<&str> = found
        .programs
        .iter()
        .map(|program| program.name.rsplit(": ").next().unwrap_or_default())
        .collect();
    assert_eq!(names, ["server 4001", "client 4002"]);
    assert_eq!(found.base_overheads, [Some(0.5), Some(0.5)]);
    let linux = of(&found, "linux");
    let promoted: Vec<u64> = linux
        .course
        .programs
        .iter()
        .map(|one| one.promotions)
        .collect();
    // The server's other region has a page of a library. The client is there from the first second to the third.
    assert_eq!(promoted, [1, 1]);
    let ran: Vec<f64> = linux
        .course
        .programs
        .iter()
        .map(|one| one.recorded_s)
        .collect();
    assert_eq!(ran, [6.0, 2.0]);
}

#[test]
fn what_counters_said_while_it_was_recorded_is_gone_by_unless_told_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("pagewise.data");
    let rows = [access(0, 1, 1, 100), access(0, 2, 1, 100)];
    let meta = Meta {
        page_walks: [(1, 0.25)].into(),
        ..Meta::default()
    };
    record_with(&dir, &rows, meta);
    let found = replayed(&[&dir], &request()).expect("it has accesses");
    let shares: Vec<f64> = found.base_overheads.iter().flatten().copied().collect();
    assert!(
        (shares[0] - 0.25).abs() < 1e-6 && (shares[1] - 0.5).abs() < 1e-6,
        "{shares:?}"
    );
    let bases: Vec<Basis> = found.programs.iter().map(|program| program.basis).collect();
    assert_eq!(bases, [Basis::Measured, Basis::Assumed]);
    let told = HugeRequest {
        overheads: vec![0.1],
        ..request()
    };
    let found = replayed(&[&dir], &told).expect("it has accesses");
    assert!((found.base_overheads[0].expect("known") - 0.1).abs() < 1e-6);
    // More than its pages can have on a TLB that holds them all.
    let large = HugeRequest {
        tlb: "l1-4k=4096,walk=10,l2-hit=0,work=10"
            .parse()
            .expect("a geometry"),
        ..request()
    };
    let found = replayed(&[&dir], &large).expect("it has accesses");
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains("25.0 % of cycles")),
        "{:?}",
        found.notes
    );
}

#[test]
fn recordings_without_accesses_or_all_in_huge_pages_say_what_to_type() {
    let folder = tempfile::tempdir().expect("a folder");
    let (empty, huge) = (folder.path().join("empty"), folder.path().join("huge"));
    record(&empty, &[]);
    record(
        &huge,
        &[Access {
            huge: true,
            ..access(1, 1, 1, 512)
        }],
    );
    for (dir, said) in [(&empty, "does not say"), (&huge, "switch huge pages off")] {
        let error = replayed(&[dir], &request()).expect_err("nothing to replay");
        assert!(
            error.contains(said) && error.contains("pagewise record --access"),
            "{error}"
        );
    }
    let mixed = folder.path().join("mixed");
    let in_part = Access {
        huge: true,
        ..access(1, 1, 5, 512)
    };
    record(&mixed, &[access(1, 1, 1, 100), in_part]);
    let found = replayed(&[&mixed], &request()).expect("one is known");
    assert!(found.notes[0].contains("1 of 2 looks"), "{:?}", found.notes);
}

#[test]
fn references_become_coverage_by_the_second_and_lookups_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    // Ten references are a second. Instructions take time, and no translation of data.
    let lines = |text: &str| text.replace(';', "\n");
    let first = " L 200000,8; L 200008,8; S 201000,8;I  400000,4; L 200000,8;";
    let second = " L 600000,8; L 200000,8; L 600000,8;I  400000,4;I  400004,4;";
    let third = lines(&" L 202000,8;".repeat(10));
    fs::write(
        &path,
        lines(&(first.to_owned() + second)).replace(';', "\n") + &third,
    )
    .expect("written");
    let looks = loaded(&path, &request());
    let seen: Vec<String> = looks
        .iter()
        .flat_map(|look| look.regions.iter().map(|one| (look.time, one)))
        .map(|(time, one)| {
            format!(
                "{} s, region {}: {} resident, {} accessed, {} and {} lookups",
                time.as_secs(),
                one.address / REGION,
                one.resident,
                one.accessed,
                one.page_lookups,
                one.region_lookups
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            // Page 0, 1, 0, then 0 again after region 3: four lookups of pages, and two of the region.
            "0 s, region 1: 2 resident, 2 accessed, 4 and 2 lookups",
            "0 s, region 3: 1 resident, 1 accessed, 2 and 2 lookups",
            "1 s, region 1: 3 resident, 1 accessed, 1 and 1 lookups",
            "1 s, region 3: 1 resident, 0 accessed, 0 and 0 lookups",
        ]
    );
    assert!(looks.iter().all(|look| look.work == 10.0));
}

#[test]
fn a_sweep_walks_seldom_and_by_chance_often() {
    let folder = tempfile::tempdir().expect("a folder");
    let (swept, chance) = (folder.path().join("swept"), folder.path().join("chance"));
    let text = |page: &dyn Fn(u64) -> u64| -> String {
        (0..200_000_u64)
            .map(|at| format!("l 0x{:x} 8\n", (page(at) << 12) + (1 << 30)))
            .collect()
    };
    fs::write(&swept, text(&|at| at / 40 % 5000)).expect("written");
    fs::write(&chance, text(&|at| at.wrapping_mul(2_654_435_761) % 5003)).expect("written");
    let request = HugeRequest {
        tlb: Tlb::default(),
        reference_time: Duration::from_micros(10),
        ..request()
    };
    let found = replayed(&[&swept, &chance], &request).expect("they can be read");
    let overheads: Vec<f64> = found.base_overheads.iter().flatten().copied().collect();
    // By hand: 21.2 of 64.3 cycles, where 2500 pages are swept in a second; 28.6 of 31.2, where 5003 are accessed by chance.
    assert!((0.32..0.34).contains(&overheads[0]), "{overheads:?}");
    assert!((0.91..0.93).contains(&overheads[1]), "{overheads:?}");
    assert!(
        found
            .programs
            .iter()
            .all(|one| one.basis == Basis::References)
    );
}

#[test]
fn tables_are_read_and_replayed_beside_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coverage.csv");
    let text = "time_s,address,resident,accessed,process\n\
                0,0x200000,100,100,sparse\n\
                0,4194304,512,512,dense\n\
                0,0x600000,512,10,dense\n";
    fs::write(&path, text).expect("written");
    let request = HugeRequest {
        duration: Some(Duration::from_secs(4)),
        ..request()
    };
    let found = replayed(&[&path], &request).expect("a table");
    let names: Vec<&str> = found.programs.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["sparse", "dense"]);
    let promoted = |arm: &str| of(&found, arm).course.promotions();
    assert_eq!(
        ["none", "linux", "ingens-90", "ingens-50", "freebsd"].map(promoted),
        [0, 3, 2, 2, 2]
    );
    assert_eq!(of(&found, "linux").course.last_bloat_bytes(), 412 * 4096);
    // The first second's promotion, and the hot region: one at once, the others a second later.
    let hot_first = &of(&found, "hawkeye-g").course.samples[0].programs;
    let huge: Vec<u64> = hot_first
        .iter()
        .flatten()
        .map(|one| one.huge_pages)
        .collect();
    assert_eq!(huge, [0, 1]);
}

#[test]
fn tables_that_make_no_sense_are_refused_with_their_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coverage.csv");
    for (lines, said) in [
        ("", "no lines after the header"),
        ("0,0x200000,512,512\n0,0x200001,1,1", "line 3"),
        ("0,0x200000,513,1", "512"),
        ("0,0x200000,5,6", "no more can be accessed"),
        ("-1,0x200000,5,5", "no time"),
        ("nan,0x200000,5,5", "no time"),
        ("0,0x200000,5,x", "line 2"),
        ("0,0x200000,5,5\n0,0x200000,5,5", "there twice"),
    ] {
        fs::write(
            &path,
            format!("time_s,address,resident,accessed\n{lines}\n"),
        )
        .expect("written");
        let error = replayed(&[&path], &request()).expect_err(lines);
        assert!(
            error.contains(said) && error.contains("coverage.csv"),
            "{error}"
        );
    }
}

#[test]
fn measured_overheads_replace_what_is_assumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coverage.csv");
    fs::write(
        &path,
        "time_s,address,resident,accessed\n0,0x200000,512,512\n",
    )
    .expect("written");
    let measured = HugeRequest {
        overheads: vec![0.2],
        ..request()
    };
    let found = replayed(&[&path], &measured).expect("a table");
    let overhead = found.base_overheads[0].expect("it runs");
    assert!((overhead - 0.2).abs() < 1e-9, "{overhead}");
    assert_eq!(found.programs[0].basis, Basis::Measured);
    // All in a huge page: nothing walks any more.
    let saved = of(&found, "linux").course.speed_up().expect("it runs");
    assert!((saved - 1.25).abs() < 1e-9, "{saved}");
    let error = replayed(&[&path, &path], &measured).expect_err("one value for two");
    assert!(error.contains("1 values for 2 traces"), "{error}");
    let fits = HugeRequest {
        tlb: Tlb::default(),
        ..measured
    };
    let error = replayed(&[&path], &fits).expect_err("512 pages fit into a TLB of 1024");
    assert!(error.contains("too few pages"), "{error}");
}

#[test]
fn blocks_have_no_addresses() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("blocks.lis");
    fs::write(&path, "1 2 0 0\n1 2 0 1\n").expect("written");
    let error = replayed(&[&path], &request()).expect_err("blocks");
    assert!(
        error.contains("no addresses") && error.contains("record --access"),
        "{error}"
    );
}

#[test]
fn json_and_csv_tell_what_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coverage.csv");
    fs::write(
        &path,
        "time_s,address,resident,accessed\n0,0x200000,512,512\n",
    )
    .expect("written");
    let request = HugeRequest {
        arms: vec!["linux".parse().expect("a policy")],
        duration: Some(Duration::from_secs(9)),
        ..request()
    };
    let found = replayed(&[&path], &request).expect("a table");
    let document: serde_json::Value =
        serde_json::from_str(&found.to_json(true).expect("rendered")).expect("JSON");
    assert_eq!(document["schema"], "pagewise.simulate-hugepages/1");
    let policy = &document["policies"][0];
    let times: Vec<f64> = policy["samples"]
        .as_array()
        .expect("samples")
        .iter()
        .filter_map(|sample| sample["time_s"].as_f64())
        .collect();
    assert_eq!(times, [0.0, 8.0]);
    assert_eq!(policy["near_huge_from_s"], 0.0);
    let rows = found.to_csv().expect("rendered");
    assert_eq!(rows.lines().count(), 3);
    assert!(
        rows.starts_with("policy,time_s,program,overhead,slow_down,huge_pages,bloat_bytes\n"),
        "{rows}"
    );
}
