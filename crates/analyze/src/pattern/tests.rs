//! Synthetic sequences whose pattern is known.

use super::*;
use crate::visits::Visits;
use pagewise_trace::EventKind;
use pagewise_trace::WriteLook;

/// Swap-ins of an object, 1 ms apart.
#[derive(Default)]
struct Program {
    watch: PatternWatch,
    visits: Visits,
    counts: Counts,
    time_ns: u64,
}

impl Program {
    fn touch(&mut self, thread: u32, page: u64) {
        self.time_ns += 1_000_000;
        let (ordinal, time_ns) = (self.watch.ordinal(), self.time_ns);
        let before = self.visits.visit(0, page, ordinal, time_ns);
        self.watch.swap_in(PageIn {
            thread,
            page,
            time_ns,
            stall_ns: 100,
            before,
        });
    }

    /// One of its pages leaves, and is sent if it was written.
    fn evict(&mut self, written: bool) {
        for kind in [EventKind::PageWritten, EventKind::Eviction] {
            if written || kind == EventKind::Eviction {
                let event = Event {
                    time_ns: self.time_ns,
                    space: 0,
                    tid: None,
                    kind,
                    address: 0,
                    latency_ns: None,
                    stack: None,
                };
                self.counts.add(&event);
                self.watch.other(&event);
            }
        }
    }

    fn touch_all(mut self, pages: impl IntoIterator<Item = u64>) -> Self {
        pages.into_iter().for_each(|page| self.touch(1, page));
        self
    }

    fn phases(&self, readahead: u64) -> Vec<Phase> {
        self.watch.phases(readahead, &self.counts)
    }

    fn facts(&self, readahead: u64) -> Option<PatternFacts> {
        leading(&self.phases(readahead)).and_then(|phase| phase.facts)
    }

    fn patterns(&self) -> Vec<Option<Pattern>> {
        let phases = self.phases(1);
        let name = |phase: &Phase| phase.facts.map(|facts| facts.pattern);
        phases.iter().map(name).collect()
    }
}

fn pattern_of(pages: impl IntoIterator<Item = u64>) -> Option<Pattern> {
    let facts = Program::default().touch_all(pages).facts(1);
    facts.map(|facts| facts.pattern)
}

fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

fn scrambled(count: u64, pages: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |step| mixed(step) % pages)
}

/// Swept, then looked up: each phase has its pages, and its writes.
#[test]
fn each_phase_tells_of_its_own_pages_and_writes() {
    let mut program = Program::default();
    for (page, is_swept) in (0..4)
        .flat_map(|_| 0..1000)
        .map(|page| (page, true))
        .chain(scrambled(6000, 300).map(|page| (page, false)))
    {
        program.touch(1, page);
        program.evict(is_swept || page % 4 == 0);
    }
    let phases = program.phases(1);
    assert_eq!(phases.len(), 2, "{phases:#?}");
    let near = |found: u64, right: u64| {
        assert!(
            found.abs_diff(right) <= right / 20,
            "{found} is not {right}"
        )
    };
    near(phases[0].distinct_pages, 1000);
    near(phases[1].distinct_pages, 300);
    let share = |phase: &Phase| phase.others.write_share(false).expect("evictions");
    assert!(share(&phases[0]) > 0.97, "{phases:#?}");
    assert!((share(&phases[1]) - 0.25).abs() < 0.05, "{phases:#?}");
    let all: Counts = phases.iter().map(|phase| &phase.others).sum();
    assert_eq!(all, program.counts, "no swap-ins were counted there");

    // Looks come afterwards, each of its time; what is counted only, after all that.
    let (begin_ns, end_ns) = (phases[0].begin_ns, phases[1].end_ns);
    for time_ns in (begin_ns..=end_ns).step_by(10_000_000) {
        let look = WriteLook {
            time_ns,
            space: 0,
            address: 0,
            written: time_ns < phases[1].begin_ns,
        };
        program.counts.add_look(&look);
        program.watch.look(&look);
    }
    let share = Share {
        object: 0,
        kind: EventKind::Eviction,
        events: 5000,
        latency_ns: 0,
    };
    program.counts.add_share(&share);
    program.watch.counted(&share);
    let counted = program.phases(1);
    let written = |phase: &Phase| phase.others.write_share(true).expect("looks");
    assert!(written(&counted[0]) > 0.97, "{counted:#?}");
    assert!(written(&counted[1]) < 0.03, "{counted:#?}");
    assert_eq!(
        counted[1].others.evictions,
        phases[1].others.evictions + 5000
    );
    assert_eq!(counted[0].others.evictions, phases[0].others.evictions);
}

#[test]
fn the_plain_cases() {
    assert_eq!(pattern_of(0..10), None);
    assert_eq!(pattern_of(0..1000), Some(Pattern::Sequential));
    assert_eq!(pattern_of((0..1000).rev()), Some(Pattern::Sequential));
    assert_eq!(
        pattern_of((0..4).flat_map(|_| 0..1000)),
        Some(Pattern::Loop)
    );
    assert_eq!(
        pattern_of((0..1000).map(|page| page * 7)),
        Some(Pattern::Strided)
    );
    assert_eq!(pattern_of((0..1000).flat_map(|_| 0..4)), Some(Pattern::Hot));
    assert_eq!(pattern_of(scrambled(20_000, 4096)), Some(Pattern::Random));
    assert_eq!(pattern_of(scrambled(1000, 1 << 40)), Some(Pattern::Once));
}

#[test]
fn a_loop_tells_how_long_a_round_is() {
    let program = Program::default().touch_all((0..5).flat_map(|_| 0..3000));
    let facts = program.facts(1).expect("a pattern");
    assert_eq!(facts.pattern, Pattern::Loop);
    assert_eq!(facts.reuse_pages, Some(3000));
    let round_ns = facts.reuse_ns.expect("pages came back");
    assert!(round_ns.abs_diff(3_000_000_000) < 1_000_000, "{facts:?}");
    assert!(facts.agreement > 0.99, "{facts:?}");
    assert_eq!(facts.steps, 14_999);
    assert_eq!(program.phases(1).len(), 1, "the first round is the loop's");
}

/// Each page once, in an order that has nothing to do with their places.
fn shuffled(pages: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..pages).collect();
    order.sort_by_key(|&page| mixed(page));
    order
}

#[test]
fn a_list_that_is_followed_again_and_again_is_a_loop_in_no_order() {
    let round = shuffled(3000);
    let program = Program::default().touch_all((0..5).flat_map(|_| round.clone()));
    let facts = program.facts(1).expect("a pattern");
    assert_eq!(facts.pattern, Pattern::UnorderedLoop);
    assert_eq!(facts.reuse_pages, Some(3000));
    assert!(facts.agreement > 0.99, "{facts:?}");
    // Now and then a page was in memory still.
    let with_hits = (0..12u64).flat_map(|round_number| {
        let missed = |page: &u64| !mixed(page + 7919 * round_number).is_multiple_of(4);
        round.iter().copied().filter(missed).collect::<Vec<_>>()
    });
    assert_eq!(pattern_of(with_hits), Some(Pattern::UnorderedLoop));
}

#[test]
fn a_ring_that_is_written_at_one_place_and_read_at_another_is_a_loop_of_two_places() {
    for (behind, round) in [(1500, 3000), (2000, 6000), (2700, 6000)] {
        let both = (0..6 * 3000u64).flat_map(|word| {
            let read = word.checked_sub(behind);
            std::iter::once(word).chain(read).map(|word| word % 3000)
        });
        let facts = Program::default().touch_all(both).facts(1);
        let facts = facts.expect("a pattern");
        assert_eq!(facts.pattern, Pattern::Loop, "{behind}");
        let reuse = facts.reuse_pages.expect("they come back");
        assert!(reuse.abs_diff(round) < round / 10, "{behind}: {reuse}");
    }
}

#[test]
fn what_is_passed_by_twice_a_round_in_no_order_is_a_loop_in_no_order() {
    let round = shuffled(3000);
    let both = (0..6 * 3000usize).flat_map(|step| {
        let behind = step.checked_sub(1000);
        std::iter::once(step).chain(behind)
    });
    let program = Program::default().touch_all(both.map(|step| round[step % 3000]));
    let facts = program.facts(1).expect("a pattern");
    assert_eq!(facts.pattern, Pattern::UnorderedLoop);
    let reuse = facts.reuse_pages.expect("they come back");
    assert!(reuse.abs_diff(6000) < 600, "{reuse}");
}

/// One page of each of so many parts in turn, upwards, in each but one of so many rounds of the parts.
fn side_by_side(places: u64, missed_one_in: u64) -> impl Iterator<Item = u64> {
    let part = (8192 / places).max(500);
    let pages = (0..4).flat_map(move |round| {
        let steps =
            (0..part).flat_map(move |page| (0..places).map(move |place| place * part + page));
        steps.map(move |page| (round, page))
    });
    let missed =
        move |&(round, page): &(u64, u64)| mixed(page + 7919 * round).is_multiple_of(missed_one_in);
    pages
        .filter(move |both| !missed(both))
        .map(|(_, page)| page)
}

#[test]
fn places_that_are_swept_side_by_side_are_a_sweep() {
    for places in [2, 3, 6, 8, 12, 24] {
        // Now and then a page is in memory still.
        for missed in [1 << 40, 10, 3] {
            let pattern = pattern_of(side_by_side(places, missed));
            assert_eq!(pattern, Some(Pattern::Loop), "{places} {missed}");
        }
    }
    assert_eq!(
        pattern_of(side_by_side(40, 1 << 40)),
        Some(Pattern::Strided),
        "of more, the first is forgotten before it goes on"
    );
}

#[test]
fn what_is_at_random_in_little_memory_is_near_a_place_and_yet_no_sweep() {
    for pages in [280, 350, 512] {
        let pattern = pattern_of(scrambled(4000, pages));
        assert_eq!(pattern, Some(Pattern::Random), "{pages}");
    }
}

#[test]
fn accesses_at_random_in_a_memory_of_any_size_are_no_loop() {
    const PAGES: u64 = 2048;
    for memory in [200, 500, 1000, 1500, 1900] {
        let mut cached: std::collections::VecDeque<u64> = (0..memory).collect();
        let mut misses = Vec::new();
        for page in scrambled(400_000, PAGES) {
            match cached.iter().position(|&other| other == page) {
                Some(at) => {
                    cached.remove(at);
                }
                None => {
                    cached.pop_front();
                    misses.push(page);
                }
            }
            cached.push_back(page);
        }
        assert_eq!(pattern_of(misses), Some(Pattern::Random), "{memory}");
    }
}

#[test]
fn a_stride_is_told_in_pages() {
    // Down the columns of a matrix of 40 rows, each 25 pages long.
    let columns = (0..25u64).flat_map(|column| (0..40).map(move |row| row * 25 + column));
    let facts = Program::default()
        .touch_all(columns)
        .facts(1)
        .expect("a pattern");
    assert_eq!(
        (facts.pattern, facts.stride_pages),
        (Pattern::Strided, Some(25))
    );
    assert!(facts.agreement > 0.9, "{facts:?}");
    assert_eq!(facts.reuse_pages, None, "no page came back twice");
}

#[test]
fn noise_does_not_hide_a_pattern_but_shows_in_how_sure_it_is() {
    let noisy = |one_in: u64| {
        (0..4000u64).map(move |step| {
            let page = step % 1000;
            if mixed(step).is_multiple_of(one_in) {
                mixed(step + 77) % 1000
            } else {
                page
            }
        })
    };
    let facts = Program::default()
        .touch_all(noisy(12))
        .facts(1)
        .expect("a pattern");
    assert_eq!(facts.pattern, Pattern::Loop);
    assert!((0.65..0.95).contains(&facts.agreement), "{facts:?}");
    let reuse = facts.reuse_pages.expect("pages came back");
    assert!(reuse.abs_diff(1000) < 50, "{facts:?}");
    assert_eq!(pattern_of(noisy(2)), Some(Pattern::Random));
}

#[test]
fn readahead_leaves_a_sweep_a_sweep() {
    let program = Program::default().touch_all((0..1000).map(|step| step * 8));
    let name = |readahead| program.facts(readahead).map(|facts| facts.pattern);
    assert_eq!(name(8), Some(Pattern::Sequential));
    assert_eq!(name(1), Some(Pattern::Strided));
    // Now seven, now eight pages further.
    assert_eq!(
        pattern_of((0..1000).map(|step| step * 7 + step % 2)),
        Some(Pattern::Sequential)
    );
}

#[test]
fn threads_side_by_side_are_no_disorder() {
    let mut program = Program::default();
    for page in 0..1000 {
        for thread in 0..4 {
            program.touch(thread, u64::from(thread) * 1000 + page);
        }
    }
    assert_eq!(program.patterns(), [Some(Pattern::Sequential)]);
}

#[test]
fn more_threads_than_are_remembered_do_no_harm() {
    let mut program = Program::default();
    for page in 0..100 {
        for thread in 0..300 {
            program.touch(thread, u64::from(thread) * 1000 + page);
        }
    }
    // Nobody's last step is remembered: there are no steps, and no page came twice.
    let facts = program.facts(1).expect("enough swap-ins");
    assert_eq!((facts.pattern, facts.steps), (Pattern::Once, 0));
}

#[test]
fn phases_are_told_apart() {
    let program = Program::default()
        .touch_all(0..4000)
        .touch_all(scrambled(6000, 4000))
        .touch_all((0..10).flat_map(|_| (0..400).map(|step| step * 10)));
    assert_eq!(
        program.patterns(),
        [
            Some(Pattern::Sequential),
            Some(Pattern::Random),
            Some(Pattern::Strided)
        ]
    );
    let phases = program.phases(1);
    assert!(phases.is_sorted_by(|a, b| a.end_ns < b.begin_ns));
    for (phase, expected) in phases.iter().zip([4000u64, 6000, 4000]) {
        assert!(phase.swap_ins.abs_diff(expected) <= 512, "{phases:?}");
    }
    assert_eq!(
        phases.iter().map(|phase| phase.swap_ins).sum::<u64>(),
        14_000
    );
    assert_eq!(
        program.facts(1).map(|facts| facts.pattern),
        Some(Pattern::Random)
    );
}

#[test]
fn a_hot_part_after_a_sweep_is_seen() {
    let hot = (0..200).flat_map(|_| [5u64, 900, 17, 333, 20, 6, 1, 44]);
    let program = Program::default().touch_all(0..1000).touch_all(hot);
    assert_eq!(
        program.patterns(),
        [Some(Pattern::Sequential), Some(Pattern::Hot)]
    );
}

#[test]
fn what_is_kept_does_not_grow_with_what_is_seen() {
    let program = Program::default().touch_all((0..200).flat_map(|_| 0..5000));
    assert!(program.watch.windows.all().len() <= 64);
    assert_eq!(program.patterns(), [Some(Pattern::Loop)]);
    assert_eq!(program.watch.distinct_pages(), 5000);
}

#[test]
fn a_page_evicted_between_two_accesses_is_no_step() {
    let facts = Program::default()
        .touch_all((0..100).flat_map(|page| [page, page]))
        .facts(1);
    assert_eq!(facts.map(|facts| facts.steps), Some(99));
}

/// Layers of so many pages one after the other, each in an order of its own.
fn in_bands(pages: u64, band: u64, round: u64) -> impl Iterator<Item = u64> {
    (0..pages / band).flat_map(move |layer| {
        let mut order: Vec<u64> = (layer * band..(layer + 1) * band).collect();
        order.sort_by_key(|&page| mixed(page + 7919 * round));
        order
    })
}

#[test]
fn what_is_in_order_only_from_afar_is_a_sweep() {
    let facts = |pages: Vec<u64>| Program::default().touch_all(pages).facts(1);
    let rounds = |pages, band| (0..4).flat_map(move |round| in_bands(pages, band, round));
    let up = facts(rounds(8000, 80).collect()).expect("a pattern");
    assert_eq!((up.pattern, up.is_coarse), (Pattern::Loop, true), "{up:?}");
    assert!(
        up.agreement > 0.9
            && up
                .reuse_pages
                .is_some_and(|pages| pages.abs_diff(8000) < 200)
    );
    let down = facts(rounds(8000, 200).map(|page| 8000 - page).collect()).expect("a pattern");
    assert_eq!(
        (down.pattern, down.is_coarse),
        (Pattern::Loop, true),
        "{down:?}"
    );
    let once = facts(in_bands(8000, 80, 0).collect()).expect("a pattern");
    assert_eq!((once.pattern, once.is_coarse), (Pattern::Sequential, true));
    // Two threads, a half each.
    let mut program = Program::default();
    for page in rounds(8000, 100) {
        program.touch(1, page);
        program.touch(2, page + 8000);
    }
    let halves = program.facts(1).expect("a pattern");
    assert_eq!(
        (halves.pattern, halves.is_coarse),
        (Pattern::Loop, true),
        "{halves:?}"
    );
    // Page after page it is not coarse.
    let fine = facts((0..3).flat_map(|_| 0..8000).collect()).expect("a pattern");
    assert_eq!((fine.pattern, fine.is_coarse), (Pattern::Loop, false));
}

#[test]
fn what_is_in_no_order_within_much_of_it_is_no_sweep() {
    let rounds = |pages, band| (0..4).flat_map(move |round| in_bands(pages, band, round));
    assert_eq!(pattern_of(rounds(8000, 4000)), Some(Pattern::UnorderedLoop));
    assert_eq!(pattern_of(rounds(8000, 1000)), Some(Pattern::UnorderedLoop));
    // Of 2 MiB, 80 pages are much.
    assert_eq!(pattern_of(rounds(480, 80)), Some(Pattern::UnorderedLoop));
    // At random in a window that moves on slowly: again and again, but no page once a round.
    let window = (0..40_000u64).map(|step| step / 20 + mixed(step) % 100);
    assert_eq!(pattern_of(window), Some(Pattern::Random));
}

#[test]
fn how_far_sweeps_go_on_is_told() {
    let run = |pages: Vec<u64>| {
        let facts = Program::default().touch_all(pages).facts(1);
        facts.expect("a pattern").run_pages
    };
    let is_about = |found: u64, right: u64| {
        assert!(
            (right / 10 * 9..=2 * right).contains(&found),
            "{found} is not {right}"
        )
    };
    // Rounds of a loop are one.
    is_about(run((0..4).flat_map(|_| 0..8000).collect()), 4 * 8000);
    // What was in memory is passed by, other parts each round: to come back where the round before ended a stretch is no new run.
    let in_parts = (0..4_u64).flat_map(|round| {
        let is_out = move |&page: &u64| !mixed(page / 64 + 7919 * round).is_multiple_of(3);
        (0..8000).filter(is_out)
    });
    assert!(run(in_parts.collect()) > 8000 / 3 * 2);
    // Chunks in another order each round; one further on counts as the same run, as what lies between may be in memory.
    let chunks = |pages: u64| {
        (0..4).flat_map(move |round| {
            let mut order: Vec<u64> = (0..8000 / pages).collect();
            order.sort_by_key(|chunk| mixed(chunk + 7919 * round));
            order
                .into_iter()
                .flat_map(move |chunk| chunk * pages..(chunk + 1) * pages)
        })
    };
    is_about(run(chunks(1000).collect()), 1000);
    is_about(run(chunks(40).collect()), 40);
    // Side by side, and with look-ups anywhere: these end no run.
    assert!(run(side_by_side(4, 1000).collect()) >= 4 * 2048);
    assert!(run(side_by_side(24, 1000).collect()) >= 4 * 500);
    let with_look_ups = (0..24_000).flat_map(|step| {
        let look_up = (step % 10 == 0).then(|| mixed(step) % 8000);
        std::iter::once(step % 8000).chain(look_up)
    });
    assert!(run(with_look_ups.collect()) > 1000);
    // Threads that run by turns, for long each.
    let mut program = Program::default();
    for turn in 0..64_u64 {
        for step in 0..500 {
            program.touch(
                turn as u32 % 4,
                turn % 4 * 2000 + (turn / 4 * 500 + step) % 2000,
            );
        }
    }
    is_about(program.facts(1).expect("a sweep").run_pages, 4 * 2000);
    let from_afar = (0..4).flat_map(|round| in_bands(8000, 80, round));
    assert!(run(from_afar.collect()) > 4000);
}

#[test]
fn pages_have_their_turn_but_where_each_pass_has_its_own() {
    let in_turn = |pages: Vec<u64>| {
        let facts = Program::default().touch_all(pages).facts(1);
        facts.expect("a pattern").in_turn
    };
    assert!(in_turn((0..5).flat_map(|_| 0..3000).collect()));
    // Columns by turns, and any of 16 each time.
    let column = |column: u64| (0..200).map(move |row| row * 16 + column);
    assert!(in_turn(
        (0..80).flat_map(|pass| column(pass % 16)).collect()
    ));
    assert!(!in_turn(
        (0..160).flat_map(|pass| column(mixed(pass) % 16)).collect()
    ));
}
