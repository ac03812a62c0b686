use super::*;

fn runs(count: u64, calls: u64, call_bytes: u64, long_bytes: u64) -> Runs {
    let mut runs = Runs {
        count,
        calls,
        bytes: calls * call_bytes,
        long_bytes: Some(long_bytes),
        ..Runs::default()
    };
    (0..count).for_each(|_| runs.sizes.add(calls * call_bytes / count));
    runs
}

fn classes(runs: &Runs, again: f64) -> Vec<Class> {
    let reuse = Reuse {
        bytes: 1000,
        again_bytes: (again * 1000.0) as u64,
        again_cached_bytes: Some(0),
    };
    Thresholds::default().classes(&Evidence {
        calls: runs.calls,
        runs,
        reuse: Some(reuse),
        writes: false,
    })
}

#[test]
fn a_scan_is_sequential_and_not_needed() {
    let scan = runs(1, 1000, 128 << 10, 1000 * (128 << 10));
    assert_eq!(classes(&scan, 0.0), [Class::Sequential, Class::DontNeed]);
}

#[test]
fn single_calls_anywhere_are_random_and_may_be_needed() {
    let server = runs(1000, 1000, 4096, 0);
    assert_eq!(classes(&server, 0.9), [Class::Random, Class::WillNeed]);
    assert_eq!(classes(&server, 0.3), [Class::Random]);
}

#[test]
fn many_short_runs_are_bursts_however_many_calls_each_has() {
    assert_eq!(classes(&runs(100, 300, 4096, 0), 0.3), [Class::Burst]);
    let of_eight = runs(100, 800, 4096, 800 * 4096);
    assert_eq!(classes(&of_eight, 0.3), [Class::Burst]);
}

#[test]
fn both_together_are_mixed() {
    let both = runs(10, 100, 1 << 20, 50 << 20);
    assert_eq!(classes(&both, 0.3), [Class::Mixed]);
}

#[test]
fn few_calls_tell_nothing_but_a_whole_file_does() {
    let mut few = runs(2, 2, 4096, 0);
    assert_eq!(classes(&few, 0.3), []);
    few.whole_file_bytes = few.bytes;
    assert_eq!(classes(&few, 0.3), [Class::Sequential]);
}

#[test]
fn advice_needs_bytes_and_a_reason() {
    let advice = |classes: &[Class], bytes, wasted: Option<f64>| {
        Thresholds::default().advice(classes, &means(bytes, 16 << 10, wasted, 0))
    };
    let scan = [Class::Sequential, Class::DontNeed];
    assert_eq!(advice(&scan, 200 << 20, None), Advice::DropBehind);
    let few = Advice::Nothing(WhyNothing::FewBytes);
    assert_eq!(advice(&scan, 1 << 20, None), few);
    let nothing = Advice::Nothing(WhyNothing::NoUse);
    assert_eq!(advice(&[Class::Random], 200 << 20, Some(0.0)), nothing);
    assert_eq!(
        advice(&[Class::Random], 200 << 20, Some(0.5)),
        Advice::Random
    );
    let burst = advice(&[Class::Burst], 200 << 20, Some(0.5));
    assert_eq!(burst, Advice::RandomWithBursts(65_536));
}

/// The pages of a database's table, scanned twice.
#[test]
fn small_calls_in_order_are_not_kept_but_dropped_as_others() {
    let bytes = 200 << 20;
    let advice = |classes: &[Class], call_bytes| {
        Thresholds {
            memory_bytes: Some(1 << 30),
            ..Thresholds::default()
        }
        .advice(classes, &means(bytes, call_bytes, None, 0))
    };
    let (scan, again) = (Class::Sequential, Class::WillNeed);
    assert_eq!(advice(&[scan, again], 4096), Advice::Keep);
    assert_eq!(advice(&[scan, again], 64 << 10), Advice::KeepResident);
    assert_eq!(advice(&[Class::Random, again], 4096), Advice::KeepResident);
    let scanner = [scan, Class::DontNeed];
    assert_eq!(advice(&scanner, 4096), Advice::DropBehind);
}

fn means(bytes: u64, call_bytes: u64, wasted: Option<f64>, again_cached_bytes: u64) -> Means {
    Means {
        writes: false,
        buffered_bytes: bytes,
        call_bytes,
        burst_bytes: Some(65_536),
        ahead_bytes: Some(1000),
        unused_ahead_bytes: wasted.map(|share| (share * 1000.0) as u64),
        missed_bytes: Some(0),
        latency_ns: 0,
        reuse: Some(Reuse {
            bytes,
            again_bytes: bytes,
            again_cached_bytes: Some(again_cached_bytes),
        }),
    }
}

#[test]
fn more_is_read_ahead_only_where_calls_wait_for_what_was_not() {
    let bytes = 200 << 20;
    let advice = |missed_bytes, latency_ns, wasted| {
        let means = Means {
            missed_bytes,
            latency_ns,
            ..means(bytes, 1 << 20, wasted, 0)
        };
        Thresholds::default().advice(&[Class::Sequential], &means)
    };
    let nothing = Advice::Nothing(WhyNothing::NoUse);
    let all = Some(bytes);
    assert_eq!(advice(all, bytes, Some(0.0)), Advice::Sequential);
    let waits = Means {
        missed_bytes: all,
        latency_ns: bytes,
        ..means(bytes, 1 << 20, Some(0.0), 0)
    };
    let once = Thresholds::default().advice(&[Class::Sequential, Class::DontNeed], &waits);
    assert_eq!(once, Advice::SequentialDropBehind);
    // A scan whose window is 8 MiB: it waits for a disk that is busy already.
    let few = Some(bytes / 100);
    assert_eq!(advice(few, bytes, Some(0.0)), nothing);
    assert_eq!(advice(all, bytes / 10, Some(0.0)), nothing, "nobody waits");
    assert_eq!(advice(all, bytes, Some(0.5)), nothing, "it is in vain");
    assert_eq!(advice(None, bytes, None), nothing, "nothing is known");
}

#[test]
fn nobody_reads_ahead_for_what_writes() {
    let advice = |class| {
        let means = Means {
            writes: true,
            ..means(200 << 20, 1 << 20, None, 0)
        };
        Thresholds::default().advice(&[Class::Sequential, class], &means)
    };
    assert_eq!(advice(Class::WriteOnce), Advice::DropWritten);
    assert_eq!(advice(Class::Mixed), Advice::Nothing(WhyNothing::NoUse));
}

#[test]
fn in_the_memory_that_was_recorded_what_had_left_it_does_not_count() {
    let reuse = Reuse {
        bytes: 1000,
        again_bytes: 900,
        again_cached_bytes: Some(5),
    };
    let runs = runs(1, 1000, 1 << 20, 1000 << 20);
    let evidence = Evidence {
        calls: 1000,
        runs: &runs,
        reuse: Some(reuse),
        writes: false,
    };
    let of_recorded = |recorded, asked| {
        let mut meta = Meta::default();
        meta.limit.bytes = recorded;
        let thresholds = Thresholds {
            memory_bytes: asked,
            ..Thresholds::default()
        };
        thresholds.for_memory_of(&meta).classes(&evidence)[1]
    };
    assert_eq!(of_recorded(Some(64 << 20), None), Class::DontNeed);
    assert_eq!(of_recorded(Some(64 << 20), Some(32 << 20)), Class::DontNeed);
    assert_eq!(of_recorded(Some(64 << 20), Some(65 << 20)), Class::WillNeed);
    assert_eq!(of_recorded(None, None), Class::WillNeed, "nothing is known");
}

#[test]
fn what_is_read_ahead_in_vain_may_pay_for_what_is_dropped() {
    let thresholds = Thresholds {
        memory_bytes: Some(64 << 20),
        ..Thresholds::default()
    };
    let classes = [Class::Sequential, Class::WillNeed];
    let advice = |call, wasted, again| {
        thresholds.advice(&classes, &means(200 << 20, call, Some(wasted), again))
    };
    assert_eq!(advice(1 << 20, 0.5, 499), Advice::RandomDropBehind);
    assert_eq!(
        advice(1 << 20, 0.5, 500),
        Advice::KeepResident,
        "no fewer bytes"
    );
    assert_eq!(
        advice(16 << 10, 0.5, 0),
        Advice::KeepResident,
        "small calls need it"
    );
    assert_eq!(advice(1 << 20, 0.4, 399), Advice::DropBehind);
    assert_eq!(
        advice(1 << 20, 0.4, 400),
        Advice::KeepResident,
        "no fewer bytes"
    );
}

#[test]
fn what_is_needed_again_is_told_to_read_nothing_ahead_in_vain_too() {
    let advice = |class, wasted| {
        let means = means(200 << 20, 4096, Some(wasted), 0);
        Thresholds::default().advice(&[class, Class::WillNeed], &means)
    };
    assert_eq!(advice(Class::Random, 0.5), Advice::Random);
    assert_eq!(advice(Class::Burst, 0.5), Advice::RandomWithBursts(65_536));
    assert_eq!(advice(Class::Random, 0.05), Advice::Keep);
    assert_eq!(advice(Class::Sequential, 0.5), Advice::Keep);
}

#[test]
fn what_is_read_again_is_kept_by_force_only_if_it_leaves() {
    let classes = [Class::Random, Class::WillNeed];
    let advice = |memory_bytes, again_cached_bytes| {
        let thresholds = Thresholds {
            memory_bytes,
            ..Thresholds::default()
        };
        let mut means = means(200 << 20, 4096, Some(0.0), 0);
        if let Some(reuse) = &mut means.reuse {
            reuse.again_cached_bytes = again_cached_bytes;
        }
        thresholds.advice(&classes, &means)
    };
    let memory = Some(64 << 20);
    assert_eq!(advice(memory, Some(161 << 20)), Advice::Keep);
    assert_eq!(advice(memory, Some(159 << 20)), Advice::KeepResident);
    assert_eq!(advice(memory, None), Advice::Keep, "it was not seen");
    assert_eq!(advice(None, Some(0)), Advice::Keep, "in other memory");
}

#[test]
fn short_runs_anywhere_are_not_worth_dropping() {
    let advice = |class, run_bytes| {
        let means = Means {
            burst_bytes: Some(run_bytes),
            ..means(200 << 20, 4096, Some(0.0), 0)
        };
        Thresholds::default().advice(&[class, Class::DontNeed], &means)
    };
    let nothing = Advice::Nothing(WhyNothing::NoUse);
    assert_eq!(advice(Class::Random, 4096), nothing);
    assert_eq!(advice(Class::Burst, 32 << 10), nothing);
    assert_eq!(advice(Class::Random, 1 << 20), Advice::DropBehind);
    assert_eq!(advice(Class::Mixed, 4096), Advice::DropBehind);
}
