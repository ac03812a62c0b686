use super::*;

const BASE: usize = 0x7000_0000_0000;
const PAGES: usize = 10_000;
const SIZES: Sizes = Sizes {
    chunk: 64 * PAGE,
    lead: 1024 * PAGE,
};

fn sweep() -> Sweep {
    Sweep::new(BASE..BASE + PAGES * PAGE)
}

fn touch(sweep: &mut Sweep, page: usize, time_ns: u64) -> Option<Progress> {
    touch_by(sweep, 1, page, time_ns)
}

fn touch_by(sweep: &mut Sweep, thread: u32, page: usize, time_ns: u64) -> Option<Progress> {
    sweep.note(Fault {
        time_ns,
        address: BASE + page * PAGE + 8,
        thread,
        processor: None,
    })
}

/// What is to be read and dropped until there is nothing more to do, pages.
fn all(sweep: &mut Sweep) -> (Vec<usize>, Vec<usize>) {
    let (mut read, mut dropped) = (Vec::new(), Vec::new());
    while let Some(step) = sweep.next(SIZES) {
        let (list, ranges) = match step {
            Step::Read { ranges, .. } => (&mut read, ranges),
            Step::Drop(ranges) => (&mut dropped, ranges),
        };
        for range in ranges {
            assert_eq!((range.start % PAGE, range.end % PAGE), (0, 0));
            assert!(range.is_empty() || BASE <= range.start && range.end <= BASE + PAGES * PAGE);
            list.extend(range.step_by(PAGE).map(|address| (address - BASE) / PAGE));
        }
    }
    (read, dropped)
}

#[test]
fn what_is_jumped_over_in_what_was_read_ahead_is_told_and_is_no_pace() {
    let mut sweep = sweep();
    (0..200).for_each(|page| {
        touch(&mut sweep, page, page as u64);
    });
    all(&mut sweep);
    let on = touch(&mut sweep, 210, 300);
    assert_eq!(on, Some(Progress { pages: 11, ns: 101 }));
    assert_eq!(sweep.take_passed(), NOTHING);
    // Over two MiB; what was read there was read for nothing.
    assert_eq!(touch(&mut sweep, 210 + 512, 310), None);
    let passed = BASE + 210 * PAGE..BASE + 722 * PAGE;
    assert_eq!(sweep.take_passed(), [passed, BASE..BASE]);
    assert_eq!(sweep.take_passed(), NOTHING);
    let on = touch(&mut sweep, 723, 320);
    assert_eq!(on, Some(Progress { pages: 1, ns: 10 }));
}

#[test]
fn where_the_sweep_was_a_round_ago_takes_none_of_the_room() {
    let read = |pages: &[Range<usize>]| {
        let mut sweep = sweep();
        for (time_ns, page) in pages.iter().cloned().flatten().enumerate() {
            touch(&mut sweep, page, time_ns as u64);
        }
        // What is ahead of the place that was left has been read then.
        let ahead = |cursor: &Cursor| cursor.position / PAGE == 5499;
        while sweep.next(SIZES).is_some() {}
        let mut cursors = sweep.cursors.iter().flatten();
        cursors
            .find(|cursor| ahead(cursor))
            .map(|cursor| cursor.ahead / PAGE)
    };
    let alone = read(&[0..0, 5000..5500]);
    assert!(alone.is_some_and(|pages| pages > 900), "{alone:?}");
    assert_eq!(read(&[1000..2000, 5000..5500]), alone);
    // Side by side they share it.
    let side_by_side: Vec<Range<usize>> = (0..500)
        .flat_map(|at| [1000 + at..1001 + at, 5000 + at..5001 + at])
        .collect();
    assert!(read(&side_by_side) < alone);
}

#[test]
fn downwards_what_is_needed_first_lies_last() {
    let is_down = |pages: &mut dyn Iterator<Item = usize>, grain: usize| {
        let mut sweep = sweep();
        sweep.reshape(BASE..BASE + PAGES * PAGE, grain);
        for (time_ns, page) in pages.enumerate() {
            touch(&mut sweep, page, time_ns as u64);
        }
        loop {
            match sweep.next(SIZES) {
                Some(Step::Read { is_down, .. }) => return is_down,
                Some(Step::Drop(_)) => {}
                None => panic!("nothing is read"),
            }
        }
    };
    assert!(is_down(&mut (4000..5000).rev(), 0));
    assert!(!is_down(&mut (4000..5000), 0));
    // From block to block downwards, and up in each.
    let blocks = (50..100).rev();
    let mut pages = blocks.flat_map(|block| block * 16..(block + 1) * 16);
    assert!(!is_down(&mut pages, 16 * PAGE));
}

#[test]
fn a_place_that_was_left_long_ago_does_not_say_how_fast_the_sweep_is() {
    let mut sweep = Sweep::new(BASE..BASE + PAGES * PAGE);
    let mut now_ns = 0;
    let mut goes = |sweep: &mut Sweep, from: usize, to: usize| -> u64 {
        let ns = (from..to).filter_map(|page| {
            now_ns += 1000;
            Some(touch(sweep, page, now_ns)?.ns)
        });
        ns.sum()
    };
    goes(&mut sweep, 0, 500);
    // What lies between is in memory.
    goes(&mut sweep, 1000, 1500);
    // A round later it comes to where it was before, over some pages that are in memory.
    goes(&mut sweep, 0, 200);
    let ns = goes(&mut sweep, 520, 3000);
    assert!(ns <= 2_500_000, "{ns}");
}

#[test]
fn places_that_a_thread_sweeps_side_by_side_are_followed_and_their_time_counts_once() {
    for places in [2, 3, 8] {
        let mut sweep = sweep();
        let (part, mut now_ns) = (PAGES / places, 0);
        let mut goes = |pages: Range<usize>| {
            let mut got_on = Progress { pages: 0, ns: 0 };
            for step in pages {
                for place in 0..places {
                    now_ns += 1000;
                    let progress = touch(&mut sweep, place * part + step, now_ns);
                    got_on.pages += progress.map_or(0, |progress| progress.pages);
                    got_on.ns += progress.map_or(0, |progress| progress.ns);
                }
            }
            got_on
        };
        goes(0..100);
        let pages = (300 * places) as u64;
        let ns = 1000 * pages;
        assert_eq!(goes(100..400), Progress { pages, ns }, "{places}");
        let sweeping = sweep.cursors.iter().flatten();
        let sweeping = sweeping.filter(|cursor| sweep.is_sweeping(cursor));
        assert_eq!(sweeping.count(), places);
    }
}

#[test]
fn what_is_swept_again_at_once_stays() {
    // Part after part of 800 pages, each twice, and beside it each time the same 600 pages far away. Of all touches, how many
    // are of pages that were dropped since the touch before, and how many places are swept in the end.
    let missed = |returns: usize| {
        let mut sweep = sweep();
        sweep.may_return(returns);
        let mut is_dropped = vec![false; PAGES];
        let (mut now_ns, mut missed) = (0, 0);
        let parts = (0..5).flat_map(|part| [part * 800; 2]);
        for (start, at) in parts.flat_map(|start| (0..800).map(move |at| (start, at))) {
            for page in [start + at, 8000 + at * 6 / 8] {
                now_ns += 1000;
                touch(&mut sweep, page, now_ns);
                missed += usize::from(std::mem::take(&mut is_dropped[page]));
            }
            if at % 8 == 0 {
                let (_, dropped) = all(&mut sweep);
                dropped.into_iter().for_each(|page| is_dropped[page] = true);
            }
        }
        let places = sweep.cursors.iter().flatten();
        (
            missed,
            places.filter(|place| sweep.is_sweeping(place)).count(),
        )
    };
    // The first time it is not known yet.
    let (few, places) = missed(1024 * PAGE);
    assert!(few < 1500 && places == 2, "{few} of {places} places");
    let (many, places) = missed(0);
    assert!(many > 5 * few && places > 2, "{many} of {places} places");
    // What is further back than what there is room for is another sweep.
    assert_eq!(missed(500 * PAGE), (many, places));
}

#[test]
fn what_stays_of_a_sweep_that_begins_again_is_whole_pages() {
    // A fourth of it is no whole number of them.
    let mut sweep = Sweep::new(BASE..BASE + 9_999 * PAGE);
    sweep.may_return(usize::MAX);
    for (time_ns, page) in (0..4000).chain(1490..1600).enumerate() {
        touch(&mut sweep, page, time_ns as u64);
    }
    let backs = sweep
        .cursors
        .iter()
        .flatten()
        .map(|cursor| cursor.back / PAGE);
    assert_eq!(backs.collect::<Vec<_>>(), [2499]);
    for page in 4000..8000 {
        touch(&mut sweep, page, page as u64);
    }
    let (_, dropped) = all(&mut sweep);
    assert!(!dropped.is_empty());
}

#[test]
fn a_sweep_is_read_ahead_of_and_dropped_behind() {
    let mut sweep = sweep();
    for page in 0..2000 {
        touch(&mut sweep, page, page as u64);
        assert_eq!(sweep.is_any(), page >= 32);
    }
    let (read, dropped) = all(&mut sweep);
    let ahead: Vec<usize> = (1999 + 1 + 32..1999 + 1 + 32 + 15 * 64).collect();
    assert_eq!(read, ahead);
    assert_eq!(dropped, (1999 - 17 * 64..1999 - 64).collect::<Vec<_>>());
    assert_eq!(all(&mut sweep), (vec![], vec![]));
    // If the program gets ahead of that, it brings pages in itself.
    let is_read_ahead = |page: usize| sweep.is_read_ahead(BASE + page * PAGE);
    assert!(is_read_ahead(2031) && is_read_ahead(2991));
    assert!(!is_read_ahead(2992) && !is_read_ahead(1990) && !is_read_ahead(PAGES));
    // The next chunk is due when one has been used.
    (2000..2064).for_each(|page| {
        touch(&mut sweep, page, page as u64);
    });
    let (read, dropped) = all(&mut sweep);
    assert_eq!(
        read,
        (ahead.len() + 2032..ahead.len() + 2096).collect::<Vec<_>>()
    );
    assert_eq!(dropped, (1935..1999).collect::<Vec<_>>());
}

#[test]
fn what_is_read_ahead_is_short_until_half_of_it_is_there() {
    let mut sweep = sweep();
    assert!(!sweep.is_short(SIZES, 0), "nothing is swept");
    for page in 0..2000 {
        touch(&mut sweep, page, page as u64);
    }
    let mut pages = 0;
    while let Some(step) = sweep.next(SIZES) {
        if let Step::Read { ranges, .. } = step {
            assert_eq!(
                sweep.is_short(SIZES, 0),
                pages + 64 + 32 < SIZES.lead / PAGE / 2
            );
            pages += ranges.iter().map(|range| range.len() / PAGE).sum::<usize>();
        }
    }
    assert!(!sweep.is_short(SIZES, 0) && pages > 500);
    for page in 2000..2600 {
        touch(&mut sweep, page, page as u64);
    }
    assert!(sweep.is_short(SIZES, 0));
}

#[test]
fn nothing_is_dropped_behind_a_place_that_was_left() {
    let mut sweep = sweep();
    for (time_ns, page) in (5000..6000).chain(0..2000).enumerate() {
        touch(&mut sweep, page, time_ns as u64);
    }
    sweep.begin(SIZES);
    let (_, dropped) = all(&mut sweep);
    assert!(!dropped.is_empty() && dropped.iter().all(|&page| page < 2000));
}

#[test]
fn it_goes_over_the_end_and_backwards_too() {
    let mut there = sweep();
    (9000..10_000).for_each(|page| {
        touch(&mut there, page, page as u64);
    });
    let (read, _) = all(&mut there);
    assert_eq!(read.first(), Some(&32), "{read:?}");
    assert!(
        touch(&mut there, 0, 20_000).is_none(),
        "the seam is no progress"
    );
    assert!(touch(&mut there, 1, 20_001).is_some());

    let mut back = sweep();
    (5000..7000).rev().for_each(|page| {
        touch(&mut back, page, 9000 - page as u64);
    });
    let (read, dropped) = all(&mut back);
    let (most, least) = (read.iter().max(), read.iter().min());
    assert_eq!(
        (most, least),
        (Some(&(4999 - 32)), Some(&(4999 - 32 - 15 * 64 + 1)))
    );
    assert_eq!(
        (dropped.iter().max(), dropped.iter().min()),
        (Some(&(5000 + 17 * 64)), Some(&(5000 + 65)))
    );
}

#[test]
fn small_regions_are_followed_within_their_bounds() {
    for pages in [8, 40, 64, 100] {
        let mut sweep = Sweep::new(BASE..BASE + pages * PAGE);
        let mut read = 0;
        for at in 0..20 * pages {
            touch(&mut sweep, at % pages, at as u64);
            while let Some(step) = sweep.next(SIZES) {
                let (Step::Read { ranges, .. } | Step::Drop(ranges)) = &step;
                for range in ranges.iter().filter(|range| !range.is_empty()) {
                    assert!(BASE <= range.start && range.end <= BASE + pages * PAGE);
                }
                read += usize::from(matches!(step, Step::Read { .. }));
            }
            for cursor in sweep.cursors.iter().flatten() {
                assert!(cursor.ahead + cursor.behind <= pages * PAGE, "of {pages}");
            }
        }
        assert!(read > 0, "of {pages}");
    }
}

/// An array of blocks of so many pages, each below the one before, swept from the first to the last.
fn sweep_down(sweep: &mut Sweep, block: usize, blocks: Range<usize>) {
    for index in blocks {
        let start = PAGES - (index + 1) * block;
        for page in start..start + block {
            touch(sweep, page, ((index + 1) * block + page - start) as u64);
        }
    }
}

#[test]
fn blocks_that_lie_one_below_the_other_are_swept_in_their_order() {
    for block in [16, 20, 32, 128] {
        let mut sweep = sweep();
        sweep.reshape(BASE..BASE + PAGES * PAGE, block * PAGE);
        let swept = 2560 / block;
        sweep_down(&mut sweep, block, 0..swept);
        assert!(sweep.is_any(), "{block}");
        let (read, dropped) = all(&mut sweep);
        let lowest = PAGES - swept * block;
        assert!(read.iter().all(|&page| page < lowest), "{block}: {read:?}");
        assert!(read.contains(&(lowest - 100)), "{block}: {read:?}");
        let in_use = lowest..lowest + block;
        assert!(!dropped.is_empty() && !dropped.iter().any(|page| in_use.contains(page)));
    }
}

#[test]
fn blocks_that_lie_one_above_the_other_are_swept_in_their_order() {
    let mut sweep = sweep();
    sweep.reshape(BASE..BASE + PAGES * PAGE, 16 * PAGE);
    (0..2000).for_each(|page| {
        touch(&mut sweep, page, page as u64);
    });
    let (read, dropped) = all(&mut sweep);
    assert!(read.contains(&2100) && read.iter().all(|&page| page > 1999));
    assert!(!dropped.is_empty() && dropped.iter().all(|&page| page < 1999));
}

#[test]
fn the_pace_down_blocks_is_that_of_all_their_pages() {
    let mut sweep = sweep();
    sweep.reshape(BASE..BASE + PAGES * PAGE, 16 * PAGE);
    let mut sum = Progress { pages: 0, ns: 0 };
    for index in 0..20 {
        let start = PAGES - (index + 1) * 16;
        for page in start..start + 16 {
            let time_ns = (index * 16 + page - start) as u64 * 1000;
            if let Some(progress) = touch(&mut sweep, page, time_ns) {
                sum.pages += progress.pages;
                sum.ns += progress.ns;
            }
        }
    }
    assert_eq!(sum.ns, sum.pages * 1000);
    assert!(sum.pages >= 18 * 16, "{sum:?}");
}

#[test]
fn a_sweep_goes_on_in_a_region_that_has_grown_or_shrunk() {
    let mut sweep = sweep();
    (0..2000).for_each(|page| {
        touch(&mut sweep, page, page as u64);
    });
    sweep.reshape(BASE - 100 * PAGE..BASE + (PAGES + 50) * PAGE, 0);
    assert!(sweep.is_any());
    assert_eq!(
        touch(&mut sweep, 2000, 2000),
        Some(Progress { pages: 1, ns: 1 })
    );
    sweep.reshape(BASE + 1000 * PAGE..BASE + 4000 * PAGE, 0);
    assert!(sweep.is_any() && touch(&mut sweep, 2001, 2001).is_some());
    while let Some(Step::Read { ranges, .. } | Step::Drop(ranges)) = sweep.next(SIZES) {
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            assert!(range.start >= BASE + 1000 * PAGE && range.end <= BASE + 4000 * PAGE);
        }
    }
    sweep.reshape(BASE..BASE + 1000 * PAGE, 0);
    assert!(!sweep.is_any(), "where it was is no more");
}

#[test]
fn only_whole_pages_are_read_and_dropped() {
    let mut sweep = Sweep::new(BASE..BASE + 1003 * PAGE);
    (0..500).for_each(|page| {
        touch(&mut sweep, page, page as u64);
    });
    sweep.begin(SIZES);
    sweep.reshape(BASE..BASE + 999 * PAGE, 0);
    while let Some(Step::Read { ranges, .. } | Step::Drop(ranges)) = sweep.next(SIZES) {
        for range in ranges {
            assert_eq!((range.start % PAGE, range.end % PAGE), (0, 0));
        }
    }
}

#[test]
fn random_faults_in_blocks_are_no_sweep() {
    for block in [16, 128, 1024] {
        let mut sweep = sweep();
        sweep.reshape(BASE..BASE + PAGES * PAGE, block * PAGE);
        let mut random = 1u64;
        for time_ns in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            touch(&mut sweep, (random >> 33) as usize % PAGES, time_ns);
            assert!(!sweep.is_any(), "{block}: at {time_ns}");
        }
    }
}

#[test]
fn random_faults_are_no_sweep() {
    let mut sweep = sweep();
    let mut random = 1u64;
    for time_ns in 0..20_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        touch(&mut sweep, (random >> 33) as usize % PAGES, time_ns);
        assert!(!sweep.is_any());
    }
}

#[test]
fn threads_that_share_an_object_are_followed_each() {
    let mut sweep = sweep();
    for page in 0..500 {
        for thread in 0..4 {
            let time_ns = (page * 4 + thread) as u64;
            touch_by(&mut sweep, thread as u32, thread * 2500 + page, time_ns);
        }
    }
    let (read, _) = all(&mut sweep);
    for thread in 0..4 {
        assert!(read.contains(&(thread * 2500 + 600)), "{thread}");
    }
    assert!(read.len() <= SIZES.lead / PAGE);
}

#[test]
fn many_threads_are_followed_each_and_share_the_lead() {
    for threads in [8, 32] {
        let part = PAGES / threads;
        let mut sweep = sweep();
        // As they are told of: thread by thread, some faults at a time.
        for round in 0..10 {
            for thread in 0..threads {
                for page in round * 10..round * 10 + 10 {
                    let time_ns = (round * 1000 + page) as u64;
                    touch_by(&mut sweep, thread as u32, thread * part + page, time_ns);
                }
            }
        }
        assert!(sweep.is_any());
        let (read, _) = all(&mut sweep);
        for thread in 0..threads {
            let ahead = thread * part + 100..thread * part + 100 + SIZES.lead / PAGE / threads;
            assert!(
                read.iter().any(|page| ahead.contains(page)),
                "{thread} of {threads}: {read:?}"
            );
        }
        assert!(read.len() <= SIZES.lead / PAGE);
    }
}

#[test]
fn random_faults_of_many_threads_are_no_sweep() {
    let mut sweep = sweep();
    let mut random = 1u64;
    for time_ns in 0..20_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let page = (random >> 33) as usize % PAGES;
        touch_by(&mut sweep, (time_ns % 16) as u32, page, time_ns);
        assert!(!sweep.is_any(), "at {time_ns}");
    }
}

#[test]
fn a_sweep_that_threads_take_turns_in_is_one() {
    let mut sweep = sweep();
    for page in 0..500 {
        touch_by(&mut sweep, (page / 10 % 8) as u32, page, page as u64);
    }
    let (read, _) = all(&mut sweep);
    assert!(read.contains(&600), "{read:?}");
}

#[test]
fn what_is_touched_again_behind_is_not_dropped() {
    let mut sweep = sweep();
    for page in 0..2000 {
        touch(&mut sweep, page, page as u64);
        if page > 30 {
            touch(&mut sweep, page - 30, page as u64);
        }
    }
    let (_, dropped) = all(&mut sweep);
    assert_eq!(dropped.last(), Some(&(1999 - 64 - 30 - 1)));
}

#[test]
fn addresses_elsewhere_are_nobodys() {
    let mut sweep = sweep();
    assert!(
        sweep
            .note(Fault {
                time_ns: 1,
                address: BASE - 1,
                thread: 1,
                processor: None,
            })
            .is_none()
    );
    assert!(touch(&mut sweep, PAGES, 1).is_none());
    assert!(sweep.next(SIZES).is_none());
}
