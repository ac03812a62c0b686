//! Properties that hold whatever the policy.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// Processes with regions of given coverage, each wholly in memory. Looked at in the order given: the last one enters last.
pub(super) fn processes(map: &[(&str, &[(u64, u16)])]) -> Processes {
    let mut processes = Processes::default();
    for (id, (_, regions)) in map.iter().enumerate() {
        let seen: Vec<Seen> = regions
            .iter()
            .map(|&(number, accessed)| seen(number, accessed))
            .collect();
        processes.entry(id as u32).observe(&seen, Duration::ZERO);
    }
    processes
}

fn seen(number: u64, accessed: u16) -> Seen {
    Seen {
        address: number << 21,
        resident: REGION_PAGES,
        accessed,
        ..Seen::default()
    }
}

/// The regions in the order in which the policy promotes them, as the paper writes them.
pub(super) fn order(
    policy: &mut dyn Policy,
    processes: &mut Processes,
    map: &[(&str, &[(u64, u16)])],
) -> String {
    let mut names = Vec::new();
    while let Some(Choice { process, address }) = policy.next(processes) {
        processes.entry(process).take(address);
        names.push(format!("{}{}", map[process as usize].0, address >> 21));
    }
    names.join(",")
}

fn ample() -> MemoryState {
    MemoryState {
        total_bytes: 100,
        available_bytes: 50,
        fragmentation: Some(0.1),
    }
}

/// Up to five processes with regions of any coverage and residency.
fn any_processes() -> impl Strategy<Value = Vec<Vec<(u16, u16)>>> {
    prop::collection::vec(
        prop::collection::vec((0_u16..=512, 0_u16..=512), 0..40),
        1..6,
    )
}

fn build(all: &[Vec<(u16, u16)>]) -> Processes {
    let mut processes = Processes::default();
    for (id, regions) in all.iter().enumerate() {
        let seen: Vec<Seen> = (1..)
            .zip(regions)
            .map(|(number, &(resident, accessed))| Seen {
                resident,
                ..seen(number, accessed.min(resident))
            })
            .collect();
        processes.entry(id as u32).observe(&seen, Duration::ZERO);
        processes
            .entry(id as u32)
            .set_overhead(Some(0.05 * id as f64));
    }
    processes
}

fn any_policy() -> impl Strategy<Value = HugePolicy> {
    prop::sample::select(HugePolicy::ALL.to_vec())
}

proptest! {
    #[test]
    fn the_rate_is_never_exceeded(policy in any_policy(), all in any_processes(), rate in 1_u32..50) {
        let mut processes = build(&all);
        let settings = Settings { promotions_per_second: rate.into(), ..Settings::new(policy) };
        let mut controller = Controller::new(&settings);
        controller.memory(&ample());
        let mut times = Vec::new();
        for step in 0..40 {
            let now = Duration::from_millis(step * 100);
            while controller.next(&mut processes, now).is_some() {
                times.push(now);
            }
        }
        for (begin, first) in times.iter().enumerate() {
            let within = times[begin..].iter().filter(|time| **time < *first + Duration::from_secs(1));
            prop_assert!(within.count() <= 2 * rate as usize, "{times:?}");
        }
        let most = 1.0 + 3.9 * f64::from(rate);
        prop_assert!(times.len() as f64 <= most, "{} at {rate} a second", times.len());
    }

    #[test]
    fn each_region_is_chosen_once_and_only_candidates_are(policy in any_policy(), all in any_processes()) {
        let mut processes = build(&all);
        let candidates: Vec<BTreeSet<u64>> = processes.iter().map(|process| process.candidates().clone()).collect();
        let mut bounded = fairness::Bounded::new(policy.build(&Settings::new(policy)), 7, 9);
        bounded.memory(&ample());
        let mut chosen = BTreeSet::new();
        while let Some(choice) = bounded.take_next(&mut processes) {
            prop_assert!(candidates[choice.process as usize].contains(&choice.address));
            prop_assert!(chosen.insert(choice), "{choice:?} twice");
        }
        if policy == HugePolicy::Linux {
            prop_assert_eq!(chosen.len(), candidates.iter().map(BTreeSet::len).sum::<usize>());
        }
    }

    #[test]
    fn nobody_waits_longer_than_the_bound_and_the_others_that_waited(
        policy in any_policy(), all in any_processes(), most in 1_u32..20,
    ) {
        let mut processes = build(&all);
        let kind = policy.build(&Settings::new(policy));
        let mut bounded = fairness::Bounded::new(policy.build(&Settings::new(policy)), most, u32::MAX);
        let mut waits: BTreeMap<u32, u32> = BTreeMap::new();
        loop {
            let waiting: Vec<u32> = processes.iter()
                .filter(|process| kind.best_of(process).is_some())
                .map(Process::id)
                .collect();
            let Some(choice) = bounded.take_next(&mut processes) else { break };
            for id in waiting {
                let wait = waits.entry(id).or_default();
                *wait = if id == choice.process { 0 } else { *wait + 1 };
                let others = all.len() as u32;
                prop_assert!(*wait <= most.max(4 * others) + others, "{id} waits for {wait}");
            }
        }
    }

    #[test]
    fn no_cgroup_waits_longer_than_the_bound_and_the_other_cgroups(
        policy in any_policy(), all in any_processes(), most in 1_u32..20, of in prop::collection::vec(0_u32..3, 16),
    ) {
        let mut processes = build(&all);
        let group = |id: u32| of[id as usize % of.len()];
        processes.iter_mut().for_each(|process| process.set_group(Some(group(process.id()))));
        let kind = policy.build(&Settings::new(policy));
        let mut bounded = fairness::Bounded::new(policy.build(&Settings::new(policy)), u32::MAX, most);
        let mut waits: BTreeMap<u32, u32> = BTreeMap::new();
        loop {
            let waiting: BTreeSet<u32> = processes.iter()
                .filter(|process| kind.best_of(process).is_some())
                .map(|process| group(process.id()))
                .collect();
            let Some(choice) = bounded.take_next(&mut processes) else { break };
            for one in waiting {
                let wait = waits.entry(one).or_default();
                *wait = if one == group(choice.process) { 0 } else { *wait + 1 };
                prop_assert!(*wait <= most.max(4 * 3) + 3, "cgroup {one} waits for {wait}");
            }
        }
    }

    #[test]
    fn hawkeye_never_takes_a_colder_bucket_while_a_hotter_one_is_left(all in any_processes()) {
        let mut processes = build(&all);
        let mut policy = hawkeye_g::HawkEyeG::default();
        let mut last = BUCKETS;
        while let Some(Choice { process, address }) = policy.next(&processes) {
            let coverage = processes.entry(process).regions()[&address].coverage.expect("was seen");
            let bucket = AccessMap::bucket_of(coverage);
            prop_assert!(bucket <= last, "{bucket} after {last}");
            last = bucket;
            processes.entry(process).take(address);
        }
    }
}

#[test]
fn coverage_is_a_moving_average_of_six_old_to_four_new() {
    let mut processes = Processes::default();
    let process = processes.entry(1);
    for accessed in [100, 200, 0] {
        process.observe(&[seen(1, accessed)], Duration::ZERO);
    }
    let coverage = process.regions()[&(1 << 21)].coverage.expect("was seen");
    assert!((coverage - 0.6 * 140.0).abs() < 1e-9, "{coverage}");
    assert!((process.translations() - coverage).abs() < 1e-9);
}

#[test]
fn what_was_demoted_is_left_alone_longer_each_time() {
    let mut processes = Processes::default();
    let process = processes.entry(1);
    let address = 1 << 21;
    let huge = Seen {
        huge: true,
        ..seen(1, 512)
    };
    for (round, pause) in [(0, 120), (1, 240)] {
        let start = Duration::from_secs(round * 10_000);
        process.observe(&[huge], start);
        process.demoted(address, 100, start);
        process.observe(&[seen(1, 512)], start + Duration::from_secs(pause - 1));
        assert!(process.candidates().is_empty());
        process.observe(&[seen(1, 512)], start + Duration::from_secs(pause));
        assert!(process.candidates().contains(&address));
        process.take(address);
        process.promoted(address);
    }
    assert_eq!(process.regions()[&address].undone, 0, "we did it ourselves");
    process.demoted(address, 1, Duration::ZERO);
    process.observe(&[huge], Duration::from_secs(1));
    assert_eq!(process.regions()[&address].undone, 1, "someone else did");
}

#[test]
fn nothing_is_promoted_while_memory_is_short() {
    let mut processes = processes(&[("A", &[(1, 500)])]);
    let mut controller = Controller::new(&Settings::new(HugePolicy::HawkEyeG));
    controller.memory(&MemoryState {
        available_bytes: 10,
        ..ample()
    });
    assert_eq!(
        controller.next(&mut processes, Duration::from_secs(1)),
        None
    );
    assert!(controller.is_recovering());
    controller.memory(&ample());
    assert!(
        controller
            .next(&mut processes, Duration::from_secs(2))
            .is_some()
    );
}

#[test]
fn who_is_short_alone_takes_turns_with_the_others() {
    let huge = |number| Seen {
        huge: true,
        ..seen(number, 512)
    };
    let mut processes = Processes::default();
    let short: Vec<Seen> = (1..100).map(huge).collect();
    let ample_there: Vec<Seen> = (1..100).map(|number| seen(number, 512)).collect();
    processes.entry(1).observe(&short, Duration::ZERO);
    processes.entry(1).set_short(true);
    processes.entry(2).observe(&ample_there, Duration::ZERO);
    let mut controller = Controller::new(&Settings {
        promotions_per_second: 1000.0,
        ..Settings::new(HugePolicy::HawkEyeG)
    });
    controller.memory(&ample());
    let mut kinds = String::new();
    for step in 1..=8 {
        let now = Duration::from_secs(step);
        match controller.next(&mut processes, now).expect("something") {
            Action::CountZeros { address, .. } => {
                processes.entry(1).counted(address, 0, now);
                kinds.push('?');
            }
            Action::Promote { process: 2, .. } => kinds.push('+'),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(kinds, "?+?+?+?+");
}

#[test]
fn what_was_split_and_is_gone_is_left_alone_when_it_comes_back() {
    let mut processes = Processes::default();
    let process = processes.entry(1);
    let huge = Seen {
        huge: true,
        ..seen(1, 512)
    };
    let address = huge.address;
    process.observe(&[huge], Duration::ZERO);
    process.demoted(address, 512, Duration::ZERO);
    process.observe(&[], Duration::from_secs(30));
    assert!(process.regions().is_empty());
    process.observe(&[seen(1, 1)], Duration::from_secs(60));
    assert!(process.candidates().is_empty());
    process.observe(&[seen(1, 1)], Duration::from_secs(120));
    assert_eq!(process.candidates().len(), 1);
    // The second time it is twice as long, also after it was gone for a while.
    process.observe(&[], Duration::from_secs(150));
    process.observe(&[huge], Duration::from_secs(180));
    process.demoted(address, 512, Duration::from_secs(180));
    process.observe(&[seen(1, 1)], Duration::from_secs(180 + 239));
    assert!(process.candidates().is_empty());
}

#[test]
fn where_a_split_frees_nothing_nothing_is_split() {
    let huge = Seen {
        huge: true,
        ..seen(1, 512)
    };
    for (splits_free_zeros, acts) in [(true, true), (false, false)] {
        let mut processes = Processes::default();
        processes.entry(1).observe(&[huge], Duration::ZERO);
        let mut controller = Controller::new(&Settings {
            splits_free_zeros,
            ..Settings::new(HugePolicy::HawkEyeG)
        });
        controller.memory(&MemoryState {
            available_bytes: 10,
            ..ample()
        });
        assert!(controller.is_recovering());
        let action = controller.next(&mut processes, Duration::from_secs(1));
        assert_eq!(action.is_some(), acts);
    }
}

#[test]
fn nothing_of_a_process_that_is_left_alone_is_a_candidate_until_the_next_look() {
    let mut processes = Processes::default();
    let process = processes.entry(1);
    process.observe(&[seen(1, 512)], Duration::ZERO);
    process.leave_alone(true);
    assert!(process.candidates().is_empty() && process.is_left_alone());
    process.leave_alone(false);
    process.observe(&[seen(1, 512)], Duration::ZERO);
    assert_eq!(process.candidates().len(), 1);
}

#[test]
fn the_policy_still_decides_among_more_processes_than_the_bound() {
    let mut processes = Processes::default();
    // One hot process beside a hundred cold ones.
    for id in 0..101 {
        let accessed = if id == 0 { 512 } else { 60 };
        let regions: Vec<Seen> = (1..200).map(|number| seen(number, accessed)).collect();
        processes.entry(id).observe(&regions, Duration::ZERO);
    }
    let mut bounded = fairness::Bounded::new(Box::new(hawkeye_g::HawkEyeG::default()), 63, 63);
    let chosen: Vec<u32> = (0..199)
        .filter_map(|_| Some(bounded.take_next(&mut processes)?.process))
        .collect();
    assert!(chosen.iter().all(|process| *process == 0), "{chosen:?}");
}

#[test]
fn regions_with_much_in_swap_and_those_that_are_gone_are_no_candidates() {
    let mut processes = Processes::default();
    let process = processes.entry(1);
    let swapped = |number, swapped| Seen {
        swapped,
        resident: 400,
        ..seen(number, 300)
    };
    process.observe(
        &[
            swapped(1, MOST_SWAPPED),
            swapped(2, MOST_SWAPPED + 1),
            seen(3, 300),
        ],
        Duration::ZERO,
    );
    assert_eq!(
        process
            .candidates()
            .iter()
            .map(|address| address >> 21)
            .collect::<Vec<_>>(),
        [1, 3]
    );
    process.observe(&[seen(3, 300)], Duration::ZERO);
    assert_eq!(process.map().counts().iter().sum::<usize>(), 1);
}

#[test]
fn names_are_those_of_the_command_line() {
    for policy in HugePolicy::ALL {
        assert_eq!(policy.as_str().parse(), Ok(policy));
    }
    let error = "hawkey".parse::<HugePolicy>().expect_err("no such policy");
    assert_eq!(error.nearest, HugePolicy::HawkEyeG);
}
