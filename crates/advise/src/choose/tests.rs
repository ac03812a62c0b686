use super::*;
use crate::heat::Cell;
use crate::heat::Heat;
use crate::heat::HotPart;
use pagewise_analyze::Pattern;
use pagewise_plan::Action;

const MIB: u64 = 1 << 20;

fn object(name: &str, mib: u64, stall_ms: u64, returns: f64, pattern: Pattern) -> ObjectFacts {
    ObjectFacts {
        name: name.to_owned(),
        bytes: mib * MIB,
        swap_ins: (returns * mib as f64 * 256.0) as u64,
        stall_ns: stall_ms * 1_000_000,
        returns,
        pattern: Some(pattern),
        stride_pages: None,
        swept_rounds: 0.0,
        wanted_rate: None,
        resident_share: Some(0.5),
        stays_once_back_bytes: 0,
        never_left_bytes: 0,
        is_gone: false,
        touched_bytes: 0,
        block_bytes: mib * MIB,
        pieces: 1,
        can_have_rule: true,
        has_other_phases: false,
        has_no_turns: false,
        run_bytes: None,
        pass_bytes: 0,
        is_one_block: true,
        is_laid_out: false,
        seen_written: None,
        left_unseen: false,
        heat: None,
    }
}

fn run(objects: &[ObjectFacts], wall_ms: u64) -> RunFacts {
    RunFacts {
        wall_ns: wall_ms * 1_000_000,
        stall_ns: objects.iter().map(|object| object.stall_ns).sum(),
        waited_ns: objects.iter().map(|object| object.stall_ns).sum(),
        stall_scale: 1.0,
        reclaim_ns: None,
        reclaim_scale: 1.0,
        swap_ins: 0,
        recorded_bytes: None,
        peak_bytes: None,
        burst_bytes: None,
        has_uneven_pauses: false,
        lockable_bytes: None,
        page_bytes: 4096,
        cpus: 2,
        swap_is_memory: true,
    }
}

fn actions(objects: &[ObjectFacts], memory_mib: u64) -> Vec<Action> {
    let choices = choose(
        objects,
        &run(objects, 1000),
        memory_mib * MIB,
        Manner::Careful,
    );
    let kept: u64 = choices.iter().map(|choice| choice.kept_bytes).sum();
    assert!(kept <= lock_budget(memory_mib * MIB), "{choices:?}");
    choices.into_iter().map(|choice| choice.action).collect()
}

#[test]
fn what_is_told_to_be_enough_memory_for_locks_is() {
    for bytes in [
        1,
        4096,
        5 * MIB,
        41 * MIB,
        42 * MIB,
        43 * MIB,
        100 * MIB,
        3 << 30,
    ] {
        let memory = memory_to_lock(bytes);
        assert!(lock_budget(memory) / PAGE * PAGE >= bytes, "{bytes}");
        assert!(
            lock_budget(memory - PAGE) < bytes.next_multiple_of(PAGE),
            "{bytes}"
        );
    }
}

#[test]
fn a_loop_larger_than_memory_is_streamed_with_a_part_kept() {
    let actions = actions(&[object("a", 512, 900, 3.0, Pattern::Loop)], 256);
    let [
        Action::Stream {
            keep_bytes: Some(keep),
            ..
        },
    ] = actions[..]
    else {
        panic!("{actions:?}");
    };
    assert!((150 * MIB..240 * MIB).contains(&keep), "{keep}");
}

#[test]
fn no_more_is_kept_than_the_user_may_lock() {
    let objects = [
        object("hot", 64, 300, 40.0, Pattern::Random),
        object("swept", 512, 600, 4.0, Pattern::Sequential),
    ];
    let mut run = run(&objects, 1000);
    run.lockable_bytes = Some(8 * MIB);
    let choices = choose(&objects, &run, 256 * MIB, Manner::Careful);
    let kept: u64 = choices.iter().map(|choice| choice.kept_bytes).sum();
    assert!(0 < kept && kept <= 8 * MIB, "{choices:?}");
    assert_eq!(choices[0].action, Action::Nothing);
}

#[test]
fn the_hot_one_is_locked_and_the_sweep_beside_it_streamed() {
    let objects = [
        object("hot", 64, 300, 40.0, Pattern::Random),
        object("swept", 512, 600, 4.0, Pattern::Sequential),
    ];
    let actions = actions(&objects, 256);
    assert!(matches!(actions[0], Action::Lock { .. }), "{actions:?}");
    assert!(matches!(actions[1], Action::Stream { .. }), "{actions:?}");
}

#[test]
fn random_access_beyond_memory_is_left_alone() {
    assert_eq!(
        actions(&[object("table", 512, 900, 9.0, Pattern::Random)], 256),
        [Action::Nothing]
    );
}

#[test]
fn of_random_access_beyond_memory_the_hot_part_is_locked() {
    let mut table = object("table", 512, 900, 9.0, Pattern::Random);
    let cell = |out_ns| Cell {
        swap_ins: 1000,
        stall_ns: 10_000_000,
        out_ns,
    };
    let cells = (0..64).map(|at| cell(if at < 16 { 1e8 } else { 1e10 }));
    table.heat = Some(Heat {
        cells: cells.collect(),
        cell_bytes: 8 * MIB,
    });
    let [Action::Lock { ranges, .. }] = &actions(&[table], 256)[..] else {
        panic!("no lock");
    };
    assert_eq!((ranges.len(), &ranges[0]), (1, &(0..128 * MIB)));
}

#[test]
fn who_hardly_waits_needs_no_plan() {
    let objects = [object("a", 512, 9, 3.0, Pattern::Loop)];
    let mut run = run(&objects, 1000);
    assert!(choose(&objects, &run, 256 * MIB, Manner::Careful).is_empty());
    // In less memory it would.
    run.stall_scale = 100.0;
    assert!(!choose(&objects, &run, 64 * MIB, Manner::Careful).is_empty());
}

#[test]
fn of_what_just_fits_together_nothing_is_locked() {
    let used = |name, pattern| ObjectFacts {
        resident_share: Some(0.9),
        ..object(name, 48, 50, 3.0, pattern)
    };
    let mut objects = vec![
        used("a", Pattern::Random),
        used("b", Pattern::Random),
        used("c", Pattern::Loop),
        used("d", Pattern::Random),
    ];
    assert_eq!(actions(&objects, 256), [const { Action::Nothing }; 4]);
    // Who does little but wait has nothing to lose.
    let mut waiting = objects.clone();
    waiting.iter_mut().for_each(|object| object.stall_ns *= 3);
    assert!(matches!(actions(&waiting, 256)[0], Action::Lock { .. }));
    // Beside what does not fit they lose what it wins nothing by.
    objects.push(object("sweep", 1024, 100, 3.0, Pattern::Loop));
    let actions = actions(&objects, 256);
    assert!(matches!(actions[0], Action::Lock { .. }), "{actions:?}");
    assert!(matches!(actions[4], Action::Stream { .. }), "{actions:?}");
}

#[test]
fn in_very_little_memory_nothing_is_done() {
    let objects = [object("a", 32, 900, 20.0, Pattern::Loop)];
    assert_eq!(actions(&objects, 10), [Action::Nothing]);
    assert!(matches!(actions(&objects, 20)[..], [Action::Stream { .. }]));
}

#[test]
fn of_a_sweep_in_wide_steps_a_part_is_kept_and_nothing_read_ahead() {
    let strided = |returns, stride| ObjectFacts {
        stride_pages: Some(stride),
        ..object("matrix", 512, 900, returns, Pattern::Strided)
    };
    let [
        Action::Lock {
            keep_bytes: Some(keep),
            ..
        },
    ] = actions(&[strided(3.0, 16)], 256)[..]
    else {
        panic!("no lock");
    };
    assert!((150 * MIB..240 * MIB).contains(&keep), "{keep}");
    assert_eq!(actions(&[strided(1.0, 16)], 256), [Action::Nothing]);
    let narrow = actions(&[strided(3.0, 2)], 256);
    assert!(matches!(narrow[..], [Action::Stream { .. }]), "{narrow:?}");
}

#[test]
fn what_is_often_written_is_not_dropped_behind_its_sweep_where_swap_is_memory() {
    let written = |share| ObjectFacts {
        seen_written: share,
        ..object("array", 512, 900, 3.0, Pattern::Loop)
    };
    let [
        Action::Lock {
            keep_bytes: Some(keep),
            keep_more: true,
            ..
        },
    ] = actions(&[written(Some(0.9))], 256)[..]
    else {
        panic!("no lock");
    };
    assert_eq!(keep, 208 * MIB, "and more where that saves more");
    // Where it is known that there is nothing else, nobody has to look after the lock.
    let objects = [written(Some(0.9))];
    let alone = RunFacts {
        peak_bytes: Some(520 * MIB),
        ..run(&objects, 1000)
    };
    let beside = RunFacts {
        peak_bytes: Some(540 * MIB),
        ..alone
    };
    let lock = |run| {
        let choices = choose(&objects, run, 256 * MIB, Manner::Careful);
        (choices[0].kept_bytes, choices[0].is_followed())
    };
    assert_eq!(lock(&alone), (224 * MIB, false));
    assert_eq!(lock(&beside), (208 * MIB, true));
    // A table that is mostly there and passed through in the same order is something else, too.
    let table = ObjectFacts {
        resident_share: Some(0.9),
        ..object("table", 20, 5, 1.5, Pattern::UnorderedLoop)
    };
    let objects = [written(Some(0.9)), table];
    let choices = choose(&objects, &beside, 256 * MIB, Manner::Careful);
    assert!(choices[0].is_followed(), "{choices:?}");
    for share in [None, Some(0.0), Some(0.2)] {
        let read = actions(&[written(share)], 256);
        assert!(matches!(read[..], [Action::Stream { .. }]), "{read:?}");
    }
    let objects = [written(Some(0.9))];
    let on_a_disk = RunFacts {
        swap_is_memory: false,
        ..run(&objects, 1000)
    };
    let choices = choose(&objects, &on_a_disk, 256 * MIB, Manner::Careful);
    assert!(matches!(choices[0].action, Action::Stream { .. }));
}

#[test]
fn shared_memory_is_not_dropped_behind_its_sweep() {
    let shared = ObjectFacts {
        left_unseen: true,
        ..object("buffers", 512, 900, 3.0, Pattern::Loop)
    };
    let objects = [shared];
    for swap_is_memory in [true, false] {
        let run = RunFacts {
            swap_is_memory,
            ..run(&objects, 1000)
        };
        let chosen = choose(&objects, &run, 256 * MIB, Manner::Careful);
        assert!(
            matches!(chosen[0].action, Action::Lock { .. }),
            "{chosen:?}"
        );
    }
}

#[test]
fn less_may_be_kept_of_a_sweep() {
    let sweep = object("array", 512, 900, 3.0, Pattern::Loop);
    let written = ObjectFacts {
        seen_written: Some(1.0),
        ..sweep.clone()
    };
    for object in [sweep, written] {
        let objects = [object];
        let run = RunFacts {
            peak_bytes: Some(520 * MIB),
            ..run(&objects, 1000)
        };
        let whole = &choose(&objects, &run, 256 * MIB, Manner::Careful)[0];
        let half = whole.halved().expect("a part is kept");
        assert_eq!(half.kept_bytes, whole.kept_bytes / 2);
        assert_eq!(half.is_followed(), whole.is_followed());
    }
    let once = object("once", 512, 900, 1.0, Pattern::Sequential);
    let objects = [once];
    let ahead = &choose(&objects, &run(&objects, 1000), 256 * MIB, Manner::Careful)[0];
    assert_eq!(ahead.halved(), None);
}

#[test]
fn what_cannot_be_read_ahead_of_has_the_room_first() {
    let source = object("source", 256, 510, 3.0, Pattern::Loop);
    let target = ObjectFacts {
        seen_written: Some(1.0),
        ..object("target", 256, 490, 3.0, Pattern::Loop)
    };
    let acted = actions(&[source, target.clone()], 256);
    let [ahead, Action::Lock { keep_bytes, .. }] = &acted[..] else {
        panic!("{acted:?}");
    };
    assert_eq!(*keep_bytes, Some(208 * MIB));
    let Action::Stream { keep_bytes, .. } = ahead else {
        panic!("{ahead:?}");
    };
    assert_eq!(*keep_bytes, Some(12 * MIB), "what the other leaves");
    // Alone with one processor nothing is gained by reading ahead.
    let objects = [
        object("source", 256, 510, 3.0, Pattern::Loop),
        target.clone(),
    ];
    let alone = RunFacts {
        cpus: 1,
        ..run(&objects, 1000)
    };
    let choices = choose(&objects, &alone, 256 * MIB, Manner::Careful);
    assert!(choices[0].kept_bytes > choices[1].kept_bytes, "{choices:?}");
    // Nor has it if the other is swept three times as often.
    let often = object("source", 256, 1500, 9.0, Pattern::Loop);
    let acted = actions(&[often, target], 256);
    assert!(matches!(acted[0], Action::Stream { .. }), "{acted:?}");
}

#[test]
fn of_many_rows_no_more_is_promised_than_can_be_kept() {
    let rows = |pattern, mib| ObjectFacts {
        block_bytes: MIB / 8,
        pieces: mib * 8,
        is_one_block: false,
        ..object("rows", mib, 900, 3.0, pattern)
    };
    let [
        Action::Lock {
            keep_bytes: Some(keep),
            ..
        },
    ] = actions(&[rows(Pattern::Loop, 500)], 256)[..]
    else {
        panic!("no lock");
    };
    assert_eq!(keep, 64 * MIB);
    assert_eq!(
        actions(&[rows(Pattern::Random, 128)], 256),
        [Action::Nothing]
    );
    let few = actions(&[rows(Pattern::Random, 60)], 256);
    assert!(matches!(few[..], [Action::Lock { .. }]), "{few:?}");
}

#[test]
fn what_is_mostly_in_memory_keeps_its_memory_beside_a_sweep() {
    // A table that is looked up all the time: it hardly ever leaves, and comes back about once.
    let mut table = object("table", 64, 20, 1.2, Pattern::Once);
    table.resident_share = Some(0.95);
    let sweep = object("sweep", 512, 900, 4.0, Pattern::Loop);
    let objects = [table, sweep];
    let run = run(&objects, 1000);
    for manner in [
        Manner::Careful,
        Manner::UnorderedFirst,
        Manner::DensestFirst,
        Manner::SmallestFirst,
    ] {
        let choices = choose(&objects, &run, 256 * MIB, manner);
        let kept: u64 = choices.iter().map(|choice| choice.kept_bytes).sum();
        assert!(kept <= (224 - 60) * MIB, "{manner:?}: {choices:?}");
        assert!(kept >= 128 * MIB, "{manner:?}: {choices:?}");
    }
}

#[test]
fn what_stays_beside_a_sweep_that_is_read_ahead_of_is_locked_where_there_is_room() {
    let mut table = object("table", 64, 20, 1.2, Pattern::Once);
    table.resident_share = Some(0.95);
    let sweep = object("sweep", 512, 900, 4.0, Pattern::Loop);
    let objects = [table, sweep];
    let locked = |objects: &[ObjectFacts], lockable_mib: Option<u64>| {
        let mut run = run(objects, 1000);
        run.lockable_bytes = lockable_mib.map(|mib| mib * MIB);
        let mut choices = choose(objects, &run, 256 * MIB, Manner::Careful);
        lock_beside_sweeps(&mut choices, objects, &run, 256 * MIB);
        let kept: u64 = choices.iter().map(|choice| choice.kept_bytes).sum();
        assert!(kept <= lock_budget(256 * MIB), "{choices:?}");
        let of_table = choices.iter().find(|choice| choice.object == 0);
        of_table.map(|choice| choice.action.name())
    };
    assert_eq!(locked(&objects, None), Some("lock"));
    assert_eq!(locked(&objects, Some(100)), Some("nothing"), "not allowed");
    // Hardly anything is waited for it, or it is small.
    let mut seldom = objects.clone();
    seldom[0].stall_ns = 5;
    assert_eq!(locked(&seldom, None), Some("lock"));
    seldom[0].bytes = 8 * MIB;
    assert_eq!(locked(&seldom, None), None);
    // It is not there.
    let mut away = objects.clone();
    away[0].resident_share = Some(0.8);
    assert_eq!(locked(&away, None), Some("nothing"));
    away[0].stays_once_back_bytes = 60 * MIB;
    assert_eq!(locked(&away, None), Some("lock"));
    away[0].resident_share = Some(0.4);
    assert_eq!(locked(&away, None), Some("nothing"), "it came late");
    // Nothing is read ahead of, and nothing dropped.
    let mut list = objects;
    list[1].pattern = Some(Pattern::UnorderedLoop);
    assert_eq!(locked(&list, None), Some("nothing"));
}

/// A small array is gone through four times for each time of a large one: three of these raise no faults.
#[test]
fn the_smallest_may_be_kept_before_what_swaps_more() {
    let small = object("small", 48, 130, 5.0, Pattern::Loop);
    let large = object("large", 144, 400, 5.0, Pattern::Loop);
    let objects = [large, small];
    let run = run(&objects, 640);
    let kept = |manner| {
        let mut choices = choose(&objects, &run, 145 * MIB, manner);
        choices.sort_by_key(|choice| choice.object);
        [0, 1].map(|at| choices[at].kept_bytes / MIB)
    };
    assert_eq!(kept(Manner::DensestFirst), [117, 6]);
    assert_eq!(kept(Manner::SmallestFirst), [69, 48]);
}

#[test]
fn what_is_wanted_again_sooner_has_memory_before_a_sweep() {
    // It leaves now and then, and is back at once.
    let mut table = object("table", 64, 20, 1.2, Pattern::Once);
    let mut sweep = object("sweep", 512, 900, 4.0, Pattern::Loop);
    (table.wanted_rate, sweep.wanted_rate) = (Some(1e-6), Some(1e-9));
    let kept = |table: &ObjectFacts| {
        let objects = [table.clone(), sweep.clone()];
        let choices = choose(&objects, &run(&objects, 1000), 256 * MIB, Manner::Careful);
        choices.iter().map(|choice| choice.kept_bytes).sum::<u64>() / MIB
    };
    assert_eq!(kept(&table), 224 - 64 - 16);
    table.wanted_rate = Some(1e-9);
    assert_eq!(kept(&table), 224 - 16);
}

#[test]
fn of_two_sweeps_none_is_wanted_sooner_for_being_out_for_less_time() {
    let large = object("large", 144, 900, 5.0, Pattern::Loop);
    let small = object("small", 48, 290, 5.0, Pattern::Loop);
    let kept = |of_large| {
        let rates = [of_large, 1e-9];
        let objects: Vec<ObjectFacts> = [&large, &small]
            .into_iter()
            .zip(rates)
            .map(|(object, rate)| ObjectFacts {
                wanted_rate: Some(rate),
                ..object.clone()
            })
            .collect();
        let run = run(&objects, 1300);
        let choices = choose(&objects, &run, 145 * MIB, Manner::SmallestFirst);
        let of_small = choices.iter().find(|choice| choice.object == 1);
        of_small.map(|choice| choice.kept_bytes / MIB)
    };
    assert_eq!([kept(1e-9), kept(3e-9)], [Some(48); 2]);
}

#[test]
fn what_came_back_before_a_pause_stays() {
    let objects = [object("matrix", 512, 900, 4.0, Pattern::Loop)];
    let mut run = run(&objects, 1000);
    let mut choice = |burst_mib| {
        run.burst_bytes = Some(burst_mib * MIB);
        let choices = choose(&objects, &run, 256 * MIB, Manner::UnorderedFirst);
        choices[0].clone()
    };
    // A block is worked on for a while: it is left behind only then.
    let small = choice(4);
    assert!(matches!(small.action, Action::Stream { .. }), "{small:?}");
    let column = choice(32);
    assert!(matches!(column.action, Action::Lock { .. }), "{column:?}");
    assert_eq!(column.kept_bytes, (256 - 2 * 32) * MIB);
    let all = choice(200);
    assert_eq!(all.action, Action::Nothing);
    assert!(all.why.contains("between bursts"), "{all:?}");
}

#[test]
fn of_a_list_that_is_followed_again_and_again_a_part_is_kept() {
    let list = object("list", 512, 900, 5.0, Pattern::UnorderedLoop);
    let choices = choose(
        std::slice::from_ref(&list),
        &run(std::slice::from_ref(&list), 1000),
        256 * MIB,
        Manner::Careful,
    );
    let Action::Lock {
        keep_bytes: Some(keep),
        ..
    } = choices[0].action
    else {
        panic!("no lock: {choices:?}");
    };
    assert_eq!(
        keep,
        224 * MIB,
        "nothing is read ahead, which would need room"
    );
    assert!(choices[0].why.contains("no order"), "{choices:?}");
    let random = object("table", 512, 900, 5.0, Pattern::Random);
    assert_eq!(actions(&[random], 256), [Action::Nothing]);
}

#[test]
fn beside_a_sweep_a_part_of_a_table_may_be_worth_its_memory() {
    let table = object("table", 300, 500, 5.0, Pattern::Random);
    let sweep = object("sweep", 512, 400, 5.0, Pattern::Loop);
    let of = |objects: &[ObjectFacts], manner| {
        let choices = choose(objects, &run(objects, 1000), 256 * MIB, manner);
        choices.iter().find(|choice| choice.object == 0).cloned()
    };
    let both = [table.clone(), sweep];
    let part = of(&both, Manner::PartsOfUnordered).expect("a choice");
    assert!(part.acts() && part.kept_bytes == 224 * MIB, "{part:?}");
    for (objects, manner) in [
        (&both[..], Manner::UnorderedFirst),
        (&both[..1], Manner::PartsOfUnordered),
    ] {
        let alone = of(objects, manner).expect("a choice");
        assert!(!alone.acts(), "{alone:?}");
    }
}

#[test]
fn sweeps_that_soon_go_on_elsewhere_are_not_read_ahead_of() {
    let swept = |run_mib: u64, pieces| {
        let array = ObjectFacts {
            run_bytes: Some(run_mib * MIB),
            pieces,
            ..object("array", 512, 900, 5.0, Pattern::Loop)
        };
        actions(&[array], 256)[0].clone()
    };
    // 16 MiB are left free for what is read ahead.
    assert!(matches!(swept(4, 1), Action::Lock { .. }));
    assert!(matches!(swept(64, 1), Action::Stream { .. }));
    // To the end of each of 64 pieces.
    assert!(matches!(swept(4, 64), Action::Stream { .. }));
}

#[test]
fn passes_by_pages_of_their_own_have_no_part_that_is_worth_a_lock() {
    let table = |has_no_turns| ObjectFacts {
        stride_pages: Some(7),
        has_other_phases: true,
        has_no_turns,
        ..object("table", 512, 900, 5.0, Pattern::Strided)
    };
    assert!(matches!(
        actions(&[table(false)], 256)[0],
        Action::Lock { .. }
    ));
    assert_eq!(actions(&[table(true)], 256), [Action::Nothing]);
}

#[test]
fn many_threads_that_wait_a_little_each_are_not_thrashing() {
    let objects = [object("a", 512, 960, 3.0, Pattern::Loop)];
    let mut run = run(&objects, 1000);
    run.waited_ns = 15_000_000;
    assert!(choose(&objects, &run, 256 * MIB, Manner::Careful).is_empty());
    assert!(!is_costly(&objects[0], &run));
    run.waited_ns = 100_000_000;
    assert!(is_costly(&objects[0], &run));
}

#[test]
fn what_is_swept_once_is_only_read_ahead() {
    let actions = actions(&[object("a", 512, 900, 1.0, Pattern::Sequential)], 256);
    assert!(matches!(actions[..], [Action::Prefetch(_)]), "{actions:?}");
}

#[test]
fn what_a_pass_in_wide_steps_touches_stays_free_of_locks() {
    let of_pass = |mib: u64| {
        let strided = ObjectFacts {
            has_other_phases: true,
            pass_bytes: mib * MIB,
            ..object("a", 512, 900, 6.0, Pattern::Strided)
        };
        match actions(&[strided], 256)[..] {
            [
                Action::Lock {
                    keep_bytes: Some(keep),
                    ..
                },
            ] => keep / MIB,
            ref other => panic!("{other:?}"),
        }
    };
    assert_eq!(of_pass(100), 256 - 125);
    assert!(of_pass(0) > 200);
}

#[test]
fn of_a_triangle_whose_start_is_seldom_used_the_end_is_kept() {
    let of_cells = |first: u64, step: u64| {
        let cells = (0..64).map(|cell| Cell {
            swap_ins: first + step * cell,
            ..Cell::default()
        });
        let heat = Heat {
            cells: cells.collect(),
            cell_bytes: 8 * MIB,
        };
        ObjectFacts {
            heat: Some(heat),
            ..object("a", 512, 900, 6.0, Pattern::Loop)
        }
    };
    let even = actions(&[of_cells(1000, 0)], 256);
    assert!(matches!(even[..], [Action::Stream { .. }]), "{even:?}");
    let [Action::Lock { ranges, .. }] = &actions(&[of_cells(100, 100)], 256)[..] else {
        panic!("no lock");
    };
    assert_eq!((ranges.len(), &ranges[0]), (1, &(304 * MIB..512 * MIB)));
    // Of what is not read ahead of, that only its beginning comes back more seldom is enough.
    let written = |cells: &[u64]| {
        let cell = |&swap_ins: &u64| Cell {
            swap_ins,
            ..Cell::default()
        };
        let heat = Heat {
            cells: cells.iter().map(cell).collect(),
            cell_bytes: 64 * MIB,
        };
        ObjectFacts {
            heat: Some(heat),
            seen_written: Some(1.0),
            ..object("a", 512, 900, 3.0, Pattern::Loop)
        }
    };
    let later = written(&[100, 400, 400, 400, 400, 400, 400, 400]);
    let [Action::Lock { ranges, .. }] = &actions(&[later], 256)[..] else {
        panic!("no lock");
    };
    assert_eq!(ranges[0].end, 512 * MIB);
    // What is read ahead of keeps its start, unless each sweep begins further on for sure.
    let read = |cells: Vec<u64>| {
        let mut heat = written(&cells).heat.expect("cells");
        heat.cell_bytes = 16 * MIB;
        ObjectFacts {
            heat: Some(heat),
            ..object("a", 512, 900, 3.0, Pattern::Loop)
        }
    };
    let begins = |first: [u64; 4]| {
        let cells = first.into_iter().chain([400; 28]).collect();
        actions(&[read(cells)], 500)
    };
    assert!(matches!(
        begins([50, 120, 190, 260])[..],
        [Action::Lock { .. }]
    ));
    // A start that the kernel kept for a while, of few sweeps, is as graded; but its end is as the middle.
    let cells = |end: u64| {
        let middle = [50, 120, 190, 260].into_iter().chain([400; 24]);
        actions(&[read(middle.chain([end; 4]).collect())], 500)
    };
    let kept = cells(360);
    assert!(matches!(kept[..], [Action::Stream { .. }]), "{kept:?}");
    assert!(matches!(cells(420)[..], [Action::Lock { .. }]));
    for kept_or_hot in [[20, 390, 400, 400], [200, 200, 200, 200], [20, 20, 20, 20]] {
        let action = begins(kept_or_hot);
        assert!(matches!(action[..], [Action::Stream { .. }]), "{action:?}");
    }
    let even = actions(&[written(&[400; 8])], 256);
    assert!(
        matches!(&even[..], [Action::Lock { ranges, .. }] if ranges.is_empty()),
        "{even:?}"
    );
}

#[test]
fn what_nothing_is_left_for_is_read_ahead_and_keeps_nothing() {
    let objects = [
        object("first", 512, 900, 9.0, Pattern::Loop),
        object("second", 512, 300, 9.0, Pattern::Loop),
    ];
    let mut run = run(&objects, 1000);
    // A page: of that nothing can be kept beside what is read ahead.
    run.lockable_bytes = Some(0);
    let choices = choose(&objects, &run, 256 * MIB, Manner::Careful);
    for choice in choices {
        assert!(matches!(choice.action, Action::Prefetch(_)), "{choice:?}");
        assert_eq!(choice.kept_bytes, 0);
        assert!(choice.why.contains("it is read ahead"), "{choice:?}");
    }
}

#[test]
fn what_fits_is_kept_whole() {
    let objects = [
        object("small", 32, 100, 5.0, Pattern::Loop),
        object("large", 512, 800, 5.0, Pattern::Loop),
    ];
    let actions = actions(&objects, 256);
    assert!(matches!(actions[0], Action::Lock { .. }), "{actions:?}");
    assert!(matches!(actions[1], Action::Stream { .. }), "{actions:?}");
}

#[test]
fn how_much_memory_to_add_is_told_by_the_curve_if_there_is_one() {
    let objects = [object("a", 512, 500, 1.0, Pattern::Random)];
    let run = run(&objects, 1000);
    let said = |more| words(&[], &objects, &run, || more);
    let by_curve = said(Some(MoreMemory::ByCurve {
        bytes: 64 << 20,
        enough: 576 << 20,
    }));
    assert!(
        by_curve.contains("with 64 MiB more, 576 MiB in all, less than 1 %"),
        "{by_curve}"
    );
    let by_recency = said(Some(MoreMemory::ByRecency(32 << 20)));
    assert!(by_recency.contains("32 MiB more would have avoided"));
    assert!(said(None).contains("is not known"));
    assert!(said(None).contains("no placement would help"));
}

/// As in a program whose memory is neither allocated by a library nor a variable (Go).
#[test]
fn that_nothing_can_be_named_is_no_placement_in_vain() {
    let unnamed = ObjectFacts {
        can_have_rule: false,
        ..object("(no recorded object)", 512, 400, 1.0, Pattern::Random)
    };
    let objects = [unnamed, object("a", 512, 100, 1.0, Pattern::Random)];
    let run = run(&objects, 1000);
    let said = words(&[], &objects, &run, || None);
    assert!(
        said.contains("80 % of the waiting is for memory that no rule can be about"),
        "{said}"
    );
}

/// A tree of small blocks, of which no rule can be made, and which is never looked at.
#[test]
fn what_was_never_looked_at_has_what_the_others_leave() {
    let tree = ObjectFacts {
        can_have_rule: false,
        resident_share: None,
        touched_bytes: 64 * MIB,
        ..object("tree", 40, 50, 2.0, Pattern::Random)
    };
    let array = ObjectFacts {
        resident_share: Some(0.6),
        ..object("array", 128, 400, 10.0, Pattern::Loop)
    };
    let objects = [array, tree];
    let kept = |recorded_mib: Option<u64>| {
        let run = RunFacts {
            recorded_bytes: recorded_mib.map(|mib| mib * MIB),
            ..run(&objects, 1000)
        };
        let choices = choose(&objects, &run, 144 * MIB, Manner::Careful);
        assert!(
            matches!(choices[0].action, Action::Stream { .. }),
            "{choices:?}"
        );
        choices[0].kept_bytes / MIB
    };
    // 144 less an eighth, less what is read ahead, and less the tree:
    assert_eq!(kept(None), 126 - 9);
    assert_eq!(kept(Some(1000)), 126 - 64 - 9);
    // of which no more can be in memory than the array leaves.
    assert_eq!(kept(Some(100)), 126 - 24 - 9);
}

#[test]
fn what_never_came_back_is_told_in_words() {
    let objects = [object("starts", 16, 500, 3.0, Pattern::Random)];
    let hot = |times| HotPart {
        ranges: std::iter::once(0..8 * MIB).collect(),
        bytes: 8 * MIB,
        stall_ns: 1000,
        saved_ns: 1000,
        times,
    };
    let why = |times| lock_hot(0, &objects[0], hot(times), true).why;
    assert!(why(3.0).contains("3 times as often"), "{}", why(3.0));
    assert!(
        !why(f64::INFINITY).contains("inf"),
        "{}",
        why(f64::INFINITY)
    );
}
