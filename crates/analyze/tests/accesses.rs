//! Accessed shares, the working set, and waiting: from traces written for the purpose.

use pagewise_analyze::Findings;
use pagewise_analyze::PsiScope;
use pagewise_analyze::WorkingSet;
use pagewise_analyze::analyze;
use pagewise_trace::Access;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Pressure;
use pagewise_trace::RunDelay;
use pagewise_trace::Site;
use pagewise_trace::Stall;
use pagewise_trace::StallKind;
use pagewise_trace::Swap;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;
use pagewise_trace::WriteLook;

const PAGE: u64 = 4096;
const REGION: u64 = 2 << 20;
const BASE: u64 = 0x7f00_0000_0000;

/// What is found in a trace with two objects side by side: `first` has the first 100 pages of a region and half of the
/// next page, `second` the rest of it and one more region.
fn findings(meta: Meta, fill: impl FnOnce(&mut TraceWriter)) -> Findings {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("trace");
    let mut writer = TraceWriter::create(&dir, meta, Overwrite::Refuse).expect("created");
    let half = 100 * PAGE + PAGE / 2;
    for (stack, name, address, bytes) in [
        (0, "first", BASE, half),
        (1, "second", BASE + half, 2 * REGION - half),
    ] {
        let site = Site {
            stack,
            name: Some(name.to_owned()),
            file: None,
            line: None,
            function: None,
            type_name: None,
        };
        writer.sites.push(site).expect("pushed");
        let allocation = Allocation {
            estimated_bytes: None,
            allocation: u64::from(stack) + 1,
            space: 1,
            tid: 1,
            time_ns: 5,
            address,
            bytes,
            kind: AllocationKind::Mmap,
            stack: Some(stack),
        };
        writer.allocations.push(allocation).expect("pushed");
    }
    fill(&mut writer);
    writer.close().expect("closed");
    analyze(&Trace::open(&dir).expect("opened")).expect("analyzed")
}

fn access(time_ns: u64, region: u64, resident_pages: u16, accessed_pages: u16) -> Access {
    Access {
        time_ns,
        interval_ns: 10,
        space: 1,
        address: BASE + region * REGION,
        resident_pages,
        accessed_pages,
        dirty_pages: 0,
        huge: false,
        swapped_pages: 0,
        resident_map: None,
        accessed_map: None,
    }
}

fn share(findings: &Findings, name: &str) -> Option<f64> {
    let mut objects = findings.objects.iter();
    let object = objects.find(|object| object.identity.name.as_deref() == Some(name));
    object.expect("an object").accessed_share
}

#[test]
fn accessed_pages_are_given_to_the_object_they_are_of() {
    let findings = findings(Meta::default(), |writer| {
        // All in memory; the first 50 pages were accessed: 12 digits, and the two lower bits of the next.
        let map = format!("{}3{}", "f".repeat(12), "0".repeat(115));
        let row = Access {
            accessed_map: Some(map),
            ..access(20, 0, 512, 50)
        };
        writer.accesses.push(row).expect("pushed");
        writer
            .accesses
            .push(access(20, 1, 512, 512))
            .expect("pushed");
    });
    // The page that both share is given to the one that holds its first byte.
    assert_eq!(share(&findings, "first"), Some(50.0 / 101.0));
    assert_eq!(share(&findings, "second"), Some(512.0 / (411.0 + 512.0)));
    let expected = WorkingSet {
        time_ns: 20,
        interval_ns: 10,
        accessed_bytes: 562 * PAGE,
        resident_bytes: 1024 * PAGE,
    };
    assert_eq!(findings.working_set, [expected]);
}

#[test]
fn looks_at_pages_that_came_back_are_given_to_their_object() {
    let meta = Meta {
        sensors: [("faults".to_owned(), "on".to_owned())].into(),
        swap: Swap {
            kind: Some("zram".to_owned()),
            ..Swap::default()
        },
        ..Meta::default()
    };
    let findings = findings(meta, |writer| {
        // Of the 32 pages from the first object's 90th on, the last 21 are the second's. The one that both share counts as the first's.
        for page in 0..32 {
            let look = WriteLook {
                time_ns: 20,
                space: 1,
                address: BASE + (90 + page) * PAGE,
                written: page % 4 == 0,
            };
            writer.write_looks.push(look).expect("pushed");
        }
    });
    let counts = |name: &str| {
        let mut objects = findings.objects.iter();
        let object = objects.find(|object| object.identity.name.as_deref() == Some(name));
        object.expect("an object").counts
    };
    let (first, second) = (counts("first"), counts("second"));
    assert_eq!((first.write_looks, first.found_written), (11, 3));
    assert_eq!((second.write_looks, second.found_written), (21, 5));
    assert_eq!(findings.write_share(&first), None, "too few");
    assert_eq!(findings.write_share(&second), Some(5.0 / 21.0));
}

#[test]
fn longer_intervals_weigh_more_and_absent_pages_nothing() {
    let findings = findings(Meta::default(), |writer| {
        // Only the first four pages are in memory.
        let few = Some(format!("f{}", "0".repeat(127)));
        for (time_ns, interval_ns, accessed_pages) in [(20, 10, 0), (50, 30, 4)] {
            let row = Access {
                interval_ns,
                resident_map: few.clone(),
                ..access(time_ns, 0, 4, accessed_pages)
            };
            writer.accesses.push(row).expect("pushed");
        }
    });
    assert_eq!(share(&findings, "first"), Some(0.75));
    assert_eq!(share(&findings, "second"), None, "it was never in memory");
    assert_eq!(findings.working_set.len(), 2);
}

#[test]
fn maps_that_make_no_sense_tell_nothing_about_objects() {
    let findings = findings(Meta::default(), |writer| {
        for map in ["", "zz", "f"] {
            let row = Access {
                accessed_map: Some(map.to_owned()),
                ..access(20, 0, 512, 50)
            };
            writer.accesses.push(row).expect("pushed");
        }
        // An address near the end of all addresses.
        let row = Access {
            address: !(REGION - 1),
            ..access(20, 0, 512, 512)
        };
        writer.accesses.push(row).expect("pushed");
    });
    assert_eq!(
        (share(&findings, "first"), share(&findings, "second")),
        (None, None)
    );
    assert_eq!(
        findings.working_set[0].accessed_bytes,
        (3 * 50 + 512) * PAGE
    );
}

fn stall(writer: &mut TraceWriter, duration_ns: u64, in_fault: bool) {
    let stall = Stall {
        time_ns: 30,
        space: 1,
        tid: 1,
        kind: StallKind::DirectReclaim,
        duration_ns,
        in_fault,
    };
    writer.stalls.push(stall).expect("pushed");
}

fn pressure(time_ns: u64, own: Option<u64>) -> Pressure {
    Pressure {
        time_ns,
        psi_some_ns: own,
        psi_full_ns: None,
        machine_psi_some_ns: Some(time_ns * 2),
        machine_psi_full_ns: Some(time_ns),
        delay_swapin_ns: Some(7),
        delay_freepages_ns: None,
        delay_thrashing_ns: None,
        delay_blkio_ns: None,
    }
}

#[test]
fn reclaim_inside_faults_is_not_counted_twice() {
    let mut meta = Meta::default();
    meta.sensors.insert("stalls".to_owned(), "on".to_owned());
    let waits = findings(meta, |writer| {
        stall(writer, 5, false);
        stall(writer, 20, true);
        stall(writer, 300, false);
        for row in [pressure(50, None), pressure(90, None)] {
            writer.pressure.push(row).expect("pushed");
        }
    })
    .waits;
    assert_eq!(waits.reclaims, Some(3));
    assert_eq!(waits.run_delay_ns, None);
    assert_eq!(
        (waits.reclaim_stall_ns, waits.reclaim_in_fault_ns),
        (Some(305), Some(20))
    );
    assert_eq!(waits.psi_scope, Some(PsiScope::Machine));
    assert_eq!(
        (waits.psi_some_ns, waits.psi_full_ns),
        (Some(180), Some(90))
    );
    assert_eq!(
        (waits.delay_swapin_ns, waits.delay_blkio_ns),
        (Some(7), None)
    );
}

#[test]
fn the_programs_own_pressure_comes_first_and_unknown_is_unknown() {
    let waits = findings(Meta::default(), |writer| {
        for duration_ns in [4_000_000, 100_000] {
            let delay = RunDelay {
                time_ns: 30,
                space: 1,
                tid: 1,
                duration_ns,
            };
            writer.run_delays.push(delay).expect("pushed");
        }
        writer
            .pressure
            .push(pressure(50, Some(11)))
            .expect("pushed");
    })
    .waits;
    assert_eq!(waits.run_delay_ns, Some(4_100_000));
    assert_eq!(waits.psi_scope, Some(PsiScope::Cgroup));
    assert_eq!((waits.psi_some_ns, waits.psi_full_ns), (Some(11), None));
    assert_eq!(
        (waits.reclaims, waits.reclaim_stall_ns),
        (None, None),
        "an older trace"
    );
    assert_eq!(findings(Meta::default(), |_| {}).waits, Default::default());
}
