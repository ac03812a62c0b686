//! Replays of hand-made maps, whose answers can be counted.

use proptest::prelude::*;

use super::super::HugePolicy;
use super::super::Watermarks;
use super::*;

/// Every lookup walks, for 10 cycles; of a huge page for none.
fn tlb() -> Tlb {
    "l1-4k=0,l1-2m=0,l2=0,walk=10,walk-2m=0,l2-hit=0"
        .parse()
        .expect("a geometry")
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// One look from a time on; a region is its resident and accessed base pages. As much work as walks on base pages.
fn steady(from: u64, regions: &[(u16, u16)]) -> Program {
    let uses = (1..).zip(regions);
    let uses = uses.map(|(number, &(resident, accessed))| {
        Use::of_coverage(number << 21, resident, accessed, 0)
    });
    Program::new(
        vec![Look::of_coverage(seconds(from), uses.collect(), 10.0)],
        None,
    )
}

fn setup(policy: HugePolicy, rate: f64, duration: u64) -> Setup {
    Setup {
        settings: Settings {
            promotions_per_second: rate,
            ..Settings::new(policy)
        },
        interval: seconds(30),
        memory_bytes: None,
        fragmentation: None,
        duration: seconds(duration),
    }
}

fn overheads(course: &Course) -> Vec<f64> {
    let samples = course.samples.iter();
    samples.filter_map(Sample::overhead).collect()
}

#[test]
fn the_hot_region_is_promoted_first_and_the_time_saved_is_counted() {
    // Region 3 has 400 of 500 accesses. Work is as long as the walks, so a run on base pages takes twice as long as without.
    let workload = Workload::new(vec![steady(0, &[(512, 50), (512, 50), (512, 400)])], tlb());
    let hot = workload.replay(&setup(HugePolicy::HawkEyeG, 0.5, 8));
    let by_address = workload.replay(&setup(HugePolicy::Linux, 0.5, 8));
    // A promotion at 0, 2 and 4 s. 1000 of 10,000 cycles are walks after the first, or 4500 of 9500.
    let near = |found: Vec<f64>, walks: [f64; 8]| {
        let expected = walks.map(|walks| walks / (5000.0 + walks));
        assert!(
            found
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 1e-9),
            "{found:?} {expected:?}"
        );
    };
    near(
        overheads(&hot),
        [1000.0, 1000.0, 500.0, 500.0, 0.0, 0.0, 0.0, 0.0],
    );
    near(
        overheads(&by_address),
        [4500.0, 4500.0, 4000.0, 4000.0, 0.0, 0.0, 0.0, 0.0],
    );
    assert_eq!((hot.promotions(), by_address.promotions()), (3, 3));
    // 8 s on base pages: 2 x 0.6, 2 x 0.55 and 4 x 0.5 are needed.
    assert!((hot.saved_s() - (8.0 - 4.3)).abs() < 1e-9);
    assert!((hot.speed_up().expect("it ran") - 8.0 / 4.3).abs() < 1e-9);
    assert!((hot.saved_by_promotion_s().expect("some") - 3.7 / 3.0).abs() < 1e-9);
    // 500 of 5000 cycles are more than 5 %.
    assert_eq!(hot.near_huge_from(), Some(seconds(4)));
    let short = workload.replay(&setup(HugePolicy::HawkEyeG, 0.5, 4));
    assert_eq!(short.near_huge_from(), None);
}

#[test]
fn no_promotions_save_nothing_and_need_no_time_to_name() {
    let workload = Workload::new(vec![steady(0, &[(512, 512)])], tlb());
    let course = workload.replay(&setup(HugePolicy::Nothing, 10.0, 5));
    assert_eq!((course.promotions(), course.saved_s()), (0, 0.0));
    assert_eq!(
        (course.overhead(), course.speed_up()),
        (Some(0.5), Some(1.0))
    );
    assert_eq!(
        (course.saved_by_promotion_s(), course.near_huge_from()),
        (None, None)
    );
}

#[test]
fn bloat_is_what_was_not_in_memory_and_goes_when_memory_is_short() {
    // 100 of 512, and 500 of 512, in memory.
    let workload = Workload::new(vec![steady(0, &[(100, 100), (500, 500)])], tlb());
    let ample = workload.replay(&setup(HugePolicy::Linux, 10.0, 5));
    assert_eq!(ample.last_bloat_bytes(), (412 + 12) * PAGE_BYTES);
    let full = workload.replay(&setup(HugePolicy::FreeBsd, 10.0, 5));
    assert_eq!((full.promotions(), full.most_bloat_bytes()), (0, 0));
    let short = Setup {
        // 600 pages of 1100 are used before, 1012 after the first promotion, which is undone.
        memory_bytes: Some(1100 * PAGE_BYTES),
        settings: Settings {
            watermarks: Watermarks {
                high: 0.9,
                low: 0.6,
                adaptive: false,
            },
            ..setup(HugePolicy::Linux, 10.0, 5).settings
        },
        ..setup(HugePolicy::Linux, 10.0, 5)
    };
    let short = workload.replay(&short);
    assert_eq!(short.most_bloat_bytes(), 412 * PAGE_BYTES);
    // What is mostly in memory is no bloat: 12 pages of zeros are not more than 64.
    assert_eq!(
        (short.demotions(), short.last_bloat_bytes()),
        (1, 12 * PAGE_BYTES)
    );
}

#[test]
fn the_aggressive_policy_is_there_at_first_touches_while_memory_is_ample() {
    let regions = [(512, 512), (100, 100), (512, 0)];
    let workload = Workload::new(vec![steady(0, &regions)], tlb());
    // No promotion is needed, and so no rate is in the way; nor is anybody asked what is accessed.
    let ample = workload.replay(&setup(HugePolicy::Aggressive, 0.01, 5));
    assert_eq!(overheads(&ample), [0.0; 5]);
    assert_eq!((ample.promotions(), ample.demotions()), (3, 0));
    assert_eq!(ample.last_bloat_bytes(), 412 * PAGE_BYTES);
    assert_eq!(ample.near_huge_from(), Some(Duration::ZERO));
    // 1124 pages are used, 1536 of 1600 with huge pages: recovery begins a second later, and frees what is zeros.
    let short = Setup {
        memory_bytes: Some(1600 * PAGE_BYTES),
        ..setup(HugePolicy::Aggressive, 0.01, 5)
    };
    let short = workload.replay(&short);
    assert_eq!(short.most_bloat_bytes(), 412 * PAGE_BYTES);
    assert_eq!((short.demotions(), short.last_bloat_bytes()), (1, 0));
    // Short from the beginning: as HawkEye-G, which does nothing while memory is short.
    let full = Setup {
        memory_bytes: Some(1150 * PAGE_BYTES),
        ..setup(HugePolicy::Aggressive, 10.0, 5)
    };
    assert_eq!(workload.replay(&full).promotions(), 0);
}

#[test]
fn programs_come_and_end_and_regions_go() {
    let later = steady(3, &[(512, 512)]);
    let look = |at, regions: &[u64]| {
        let uses = regions
            .iter()
            .map(|number| Use::of_coverage(number << 21, 512, 512, 0));
        Look::of_coverage(seconds(at), uses.collect(), 10.0)
    };
    let ending = Program::new(vec![look(2, &[1]), look(0, &[1, 2])], Some(seconds(4)));
    let course = Workload::new(vec![later, ending], tlb()).replay(&Setup {
        interval: seconds(1),
        ..setup(HugePolicy::Linux, 10.0, 6)
    });
    let huge: Vec<[Option<u64>; 2]> = course
        .samples
        .iter()
        .map(|sample| [0, 1].map(|at| sample.programs[at].map(|state| state.huge_pages)))
        .collect();
    assert_eq!(
        huge,
        [
            // One at once, the other as the rate allows.
            [None, Some(1)],
            [None, Some(2)],
            [None, Some(1)],
            [Some(1), Some(1)],
            [Some(1), None],
            [Some(1), None]
        ]
    );
    let ran: Vec<f64> = course.programs.iter().map(|of| of.recorded_s).collect();
    assert_eq!(ran, [3.0, 4.0]);
}

#[test]
fn a_program_is_looked_at_when_it_begins_and_then_each_interval() {
    let uses = |numbers: &[u64]| {
        let uses = numbers.iter();
        uses.map(|number| Use::of_coverage(number << 21, 512, 512, 0))
            .collect()
    };
    let looks = vec![
        Look::of_coverage(seconds(2), uses(&[1]), 10.0),
        Look::of_coverage(seconds(4), uses(&[1, 2]), 10.0),
    ];
    let course = Workload::new(vec![Program::new(looks, None)], tlb()).replay(&Setup {
        interval: seconds(5),
        ..setup(HugePolicy::Linux, 10.0, 9)
    });
    let huge: Vec<u64> = course
        .samples
        .iter()
        .filter_map(|sample| Some(sample.programs[0]?.huge_pages))
        .collect();
    // From 2 s on; what is there since 4 s is seen at 7 s.
    assert_eq!(huge, [1, 1, 1, 1, 1, 2, 2]);
}

#[test]
fn by_counters_the_burdened_program_goes_first_where_coverage_is_alike() {
    let regions = [(512, 512); 4];
    let (light, heavy) = (steady(0, &regions), steady(0, &regions));
    let mut programs = vec![light, heavy];
    for (program, measured) in programs.iter_mut().zip([0.03, 0.30]) {
        assert!(program.calibrate(&tlb(), seconds(4), measured));
        let overhead = program.base_overhead(&tlb(), seconds(4)).expect("it runs");
        assert!((overhead - measured).abs() < 1e-9, "{overhead}");
    }
    let workload = Workload::new(programs, tlb());
    let huge = |policy| {
        let course = workload.replay(&setup(policy, 1.0, 4));
        let last = course.samples.last().expect("four").programs.clone();
        [0, 1].map(|at| last[at].expect("it runs").huge_pages)
    };
    assert_eq!(huge(HugePolicy::HawkEyeG), [2, 2]);
    assert_eq!(huge(HugePolicy::HawkEyePmu), [0, 4]);
}

#[test]
fn what_a_manager_leaves_alone_costs_but_is_never_promoted() {
    let mut file = Use::of_coverage(2 << 21, 512, 100, 0);
    file.left_alone = true;
    let uses = vec![Use::of_coverage(1 << 21, 512, 100, 0), file];
    let program = Program::new(vec![Look::of_coverage(seconds(0), uses, 10.0)], None);
    let course = Workload::new(vec![program], tlb()).replay(&setup(HugePolicy::Linux, 10.0, 5));
    assert_eq!(course.promotions(), 1);
    assert_eq!(overheads(&course)[4], 1000.0 / 3000.0);
    assert_eq!(course.near_huge_from(), Some(seconds(0)));
}

#[test]
fn an_overhead_that_cannot_be_is_refused() {
    let fits: Tlb = "l1-4k=4096".parse().expect("a geometry");
    let mut program = steady(0, &[(512, 512)]);
    assert!(!program.calibrate(&fits, seconds(1), 0.1));
    assert_eq!(program.base_overhead(&fits, Duration::ZERO), None);
}

proptest! {
    #[test]
    fn no_policy_beats_all_huge_or_loses_to_none_and_the_rate_holds(
        policy in prop::sample::select(HugePolicy::ALL.to_vec()),
        programs in prop::collection::vec(
            prop::collection::vec((0_u16..=512, 0_u16..=512), 1..30), 1..4),
        rate in 1_u32..20,
    ) {
        let programs: Vec<Program> = programs.iter()
            .map(|regions| {
                let regions: Vec<(u16, u16)> = regions.iter()
                    .map(|&(resident, accessed)| (resident, accessed.min(resident)))
                    .collect();
                steady(0, &regions)
            })
            .collect();
        let course = Workload::new(programs, tlb()).replay(&setup(policy, rate.into(), 6));
        let is_bounded = !policy.needs_first_touch();
        prop_assert!(!is_bounded || course.promotions() <= 1 + 5 * u64::from(rate), "{}", course.promotions());
        for state in course.samples.iter().flat_map(|sample| sample.programs.iter().flatten()) {
            prop_assert!(state.slow_down <= state.slow_down_of_base * (1.0 + 1e-9), "{state:?}");
            prop_assert!(state.slow_down >= state.slow_down_of_huge * (1.0 - 1e-9), "{state:?}");
        }
        prop_assert!(course.saved_s() >= -1e-9);
    }
}
