//! Programs whose every access is known run in a simulated memory; from the faults and evictions at 60 % and from looks at
//! accessed bits, the swap-ins at other sizes are predicted and compared with those of the whole string.

use pagewise_simulate::Level;
use pagewise_simulate::Models;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;
use pagewise_trace::TraceError;

use crate::ages::Ages;
use crate::clock::Clock;
use crate::faulters::Faulters;
use crate::history::History;
use crate::history::Known;
use crate::history::What;
use crate::looked_rounds::RoundsOfRegions;
use crate::looks::First;
use crate::looks::Hot;
use crate::looks::Look;
use crate::pace::Pace;
use crate::pace::Use;
use crate::rates::Rates;
use crate::sampling::Sampling;
use crate::stays;
use crate::stays::Told;
use crate::strings;
use crate::strings::Step;
use crate::sweeps;

const PAGES: u64 = 4000;
const ACCESS_NS: u64 = 1000;
/// Pages whose bits reclaim looks at for each page that comes in.
const SCANNED: usize = 2;

/// What a recording of the string would have, in a memory of so many pages; with a look at accessed bits each so many
/// accesses. As reclaim clears bits too, two pages' for each page that comes in, so do the looks miss some; they clear none
/// that the policy sees.
fn record(string: &[u64], frames: u32, look_each: usize) -> (History, Vec<Look>) {
    // As recorded: glances at growing distances, then the look.
    let glances: Vec<usize> = match look_each {
        NEVER => vec![],
        _ => [256, 64, 16, 4, 1]
            .map(|share| look_each / share)
            .into_iter()
            .filter(|&at| at > 0)
            .collect(),
    };
    let mut first: Vec<Option<First>> = vec![None; PAGES as usize];
    let storage = Models::built_in().storage("ufs3.1", "zram-lz4", Level::Typical);
    let settings = Settings::new(PolicyKind::Linux, frames, storage.expect("built in"));
    let mut memory = Simulation::new(&settings).expect("valid");
    let mut known = Known::default();
    let mut here = vec![false; PAGES as usize];
    let mut accessed = here.clone();
    let (mut swap_ins, mut evictions, mut looks, mut hand) = (0, 0, Vec::new(), 0);
    for (number, &page) in string.iter().enumerate() {
        let at = number as u64 * ACCESS_NS;
        memory.feed(&[Step::access(at, page as u32)
            .reference()
            .expect("few pages")]);
        if memory.outcome().evictions != evictions {
            evictions = memory.outcome().evictions;
            for page in 0..PAGES {
                if here[page as usize] && !memory.holds(page as u32) {
                    known.entry(page).or_default().push((at, What::Evicted));
                    (here[page as usize], accessed[page as usize]) = (false, false);
                }
            }
        }
        if !std::mem::replace(&mut here[page as usize], true) {
            for _ in 0..SCANNED {
                hand = (hand + 1) % PAGES as usize;
                accessed[hand] = false;
            }
            let again = known.contains_key(&page);
            swap_ins += u64::from(again);
            let what = if again { What::Faulted } else { What::Touched };
            known.entry(page).or_default().push((at, what));
        }
        accessed[page as usize] = true;
        let cleared = at - (number % look_each) as u64 * ACCESS_NS;
        if let Some(glance) = glances.iter().position(|&at| number % look_each == at - 1) {
            let before = glance.checked_sub(1).map_or(0, |before| glances[before]);
            let after = cleared + before as u64 * ACCESS_NS;
            for (first, &accessed) in first.iter_mut().zip(&accessed) {
                if accessed && first.is_none() {
                    *first = Some(First { after, by: at });
                }
            }
        }
        if number % look_each == look_each - 1 {
            for region in (0..PAGES as u32).step_by(512) {
                let pages = region..(region + 512).min(PAGES as u32);
                let resident = pages.filter(|&page| here[page as usize]);
                let pages = resident.map(|page| (page, first[page as usize]));
                looks.push(Look {
                    region: (region / 512).into(),
                    cleared,
                    at,
                    pages: pages.collect(),
                });
            }
            accessed.fill(false);
            first.fill(None);
        }
    }
    let end = string.len() as u64 * ACCESS_NS;
    let clock = Clock::new(std::iter::empty());
    (History::assemble(known, clock, end, swap_ins), looks)
}

/// The string that is made up from what was recorded at 60 %.
fn made_up(string: &[u64], look_each: usize) -> Vec<Step> {
    let (history, looks) = record(string, PAGES as u32 * 60 / 100, look_each);
    let found = sweeps::find(&history, |page| (page, page + 1));
    let mut steps = strings::known(&history, &found);
    let rates = Rates::new(&history, &found, &steps, std::iter::empty()).expect("no looks");
    let ages = Ages::new(&history, 10, |_| true);
    // The iterator of looks is gone through twice, as a recording is read twice.
    let all = || looks.iter().cloned().map(Ok);
    let rounds = RoundsOfRegions::find(|| Ok::<_, TraceError>(all())).expect("nothing is read");
    let told = Told {
        rates: &rates,
        ages: &ages,
        rounds: &rounds,
        hot: Hot::sum(all(), &rounds).expect("nothing is read"),
    };
    let of_all = Sampling::ALL;
    stays::add(&history, all(), &told, of_all, true, 1, &mut steps).expect("nothing is read");
    steps.sort_unstable();
    steps
}

/// Swap-ins predicted from what was recorded at 60 %, and those of the whole string, at `percent` of the pages.
fn predicted_and_true(string: &[u64], look_each: usize, percent: u64) -> (f64, f64) {
    let steps = made_up(string, look_each);
    let whole: Vec<Step> = (0..)
        .zip(string)
        .map(|(number, &page)| Step::access(number * ACCESS_NS, page as u32))
        .collect();
    let frames = PAGES * percent / 100;
    (
        Pace::FRESH
            .simulate(steps.iter().map(Use::Free), frames, 1.0)
            .swap_reads as f64,
        Pace::FRESH
            .simulate(whole.iter().map(Use::Free), frames, 1.0)
            .swap_reads as f64,
    )
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}

/// So many pages in no order, always the same.
fn shuffled(pages: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..pages).collect();
    let mut state = 3;
    for last in (1..order.len()).rev() {
        order.swap(last, random(&mut state) as usize % (last + 1));
    }
    order
}

/// All pages once, then accesses as `next` says.
fn string(accesses: u64, mut next: impl FnMut(u64) -> u64) -> Vec<u64> {
    (0..PAGES).chain((0..accesses).map(&mut next)).collect()
}

/// No looks.
const NEVER: usize = usize::MAX;

#[track_caller]
fn assert_near(string: &[u64], look_each: usize, share: f64) {
    for percent in [30, 50, 70, 90] {
        let (predicted, truth) = predicted_and_true(string, look_each, percent);
        assert!(
            (predicted - truth).abs() <= share * truth.max(PAGES as f64 / 100.0),
            "{predicted} predicted, {truth} true at {percent} %"
        );
    }
}

#[test]
fn a_loop_misses_at_any_size() {
    let string = string(40_000, |number| number % PAGES);
    assert_near(&string, NEVER, 0.05);
    assert_near(&string, 1500, 0.05);
}

#[test]
fn a_loop_in_no_order_misses_at_any_size() {
    let order = shuffled(PAGES);
    let list = string(40_000, |number| order[(number % PAGES) as usize]);
    assert_near(&list, NEVER, 0.05);
    assert_near(&list, 1500, 0.05);
}

#[test]
fn of_what_is_gone_through_in_rounds_the_first_is_known_though_it_was_in_memory() {
    let order = shuffled(PAGES);
    let list = string(10 * PAGES, |number| order[(number % PAGES) as usize]);
    let steps = made_up(&list, NEVER);
    let is_known = |&(turn, page): &(u64, u64)| {
        let near = |step: &&Step| {
            u64::from(step.page) == page
                && step.at.abs_diff(turn * ACCESS_NS) * 20 < PAGES * ACCESS_NS
        };
        steps.iter().filter(near).count() == 1
    };
    // To look at all steps for each page would take long.
    let pages: Vec<(u64, u64)> = (PAGES..).zip(order).step_by(16).collect();
    let known = pages.iter().filter(|page| is_known(page)).count();
    assert!(known * 20 > pages.len() * 17, "{known} of {}", pages.len());
}

#[test]
fn down_the_columns_of_a_matrix_most_pages_miss() {
    let columns = string(40_000, |number| number * 8 % PAGES + number * 8 / PAGES % 8);
    // How many pages of so regular a loop the active list catches depends on single ones of them.
    assert_near(&columns, NEVER, 0.25);
    assert_near(&columns, 1500, 0.25);
}

/// Goes through the second half of an array, over and over, of which the end of the first half came back once, for this thread, and stays in memory.
fn passed_before_a_sweep_of_a_half(thread: u32) -> u64 {
    const SWEEPING: u32 = 1;
    let (rounds, half, stay) = (10, 1000, 700..1000);
    let mut known = Known::default();
    let mut faulters = Faulters::default();
    for page in 0..half {
        let moments = [What::Touched, What::Evicted, What::Faulted, What::Evicted];
        let stays = stay.contains(&page);
        let times = (0..).map(|number| number * half + page);
        let moments = times.zip(moments).take(if stays { 3 } else { 4 });
        known.insert(page, moments.collect());
        faulters.note(page, Some(thread), 2 * half + page);
    }
    // The last fault of whoever waited for it.
    let end = (rounds + 6) * half;
    faulters.note(0, Some(thread), end);
    for round in 4..rounds + 4 {
        for page in half..2 * half {
            let at = round * half + page - half;
            let moments = known.entry(page).or_default();
            match round {
                4 => moments.push((at, What::Touched)),
                _ => moments.push((at, What::Faulted)),
            }
            moments.push((at + half / 2, What::Evicted));
            faulters.note(page, Some(SWEEPING), at);
        }
    }
    let mut history = History::assemble(known, Clock::new(std::iter::empty()), end, 0);
    history.faulters = faulters;
    let found = sweeps::find(&history, |_| (0, 2 * half as u32));
    let passed = found.passings.iter().flat_map(|one| one.first..one.after);
    passed
        .filter(|page| stay.contains(&u64::from(*page)))
        .count() as u64
}

#[test]
fn a_sweep_does_not_pass_over_what_another_thread_goes_through() {
    assert!(passed_before_a_sweep_of_a_half(1) >= 300 * 8);
    assert_eq!(passed_before_a_sweep_of_a_half(2), 0);
}

#[test]
fn what_lies_between_sweeps_side_by_side_is_passed_over_once_a_round() {
    // Three places of one array, read side by side from end to end, of which the first part of the second stays in memory.
    let (rounds, pages, stay) = (10, 1000, 1000..1700);
    let mut known = Known::default();
    for (number, access) in (0..rounds * pages * 3).enumerate() {
        let (step, page) = (access / 3 % pages, access % 3 * pages + access / 3 % pages);
        let is_first = access < pages * 3;
        let at = number as u64 * ACCESS_NS;
        let moments = known.entry(page).or_default();
        match is_first {
            true => moments.push((at, What::Touched)),
            false if stay.contains(&page) => {}
            false => moments.push((at, What::Faulted)),
        }
        if !stay.contains(&page) {
            moments.push((at + (step + 1) * ACCESS_NS / 2, What::Evicted));
        }
    }
    let end = rounds * pages * 3 * ACCESS_NS;
    let history = History::assemble(known, Clock::new(std::iter::empty()), end, 0);
    let found = sweeps::find(&history, |_| (0, 3 * pages as u32));
    let passed = found.passings.iter().map(|one| one.after - one.first);
    // In the first round they were touched.
    let truth = (rounds - 1) as u32 * 700;
    assert_eq!(passed.sum::<u32>(), truth);
}

/// As above, but the last one comes first in each second round: what is at the end of one is at the beginning of the next, and was in memory.
#[test]
fn what_is_passed_over_downwards_is_so_in_that_order() {
    let to_and_fro = string(10 * PAGES, |number| match number / PAGES % 2 {
        0 => PAGES - 1 - number % PAGES,
        _ => number % PAGES,
    });
    let (history, _) = record(&to_and_fro, PAGES as u32 * 60 / 100, NEVER);
    let found = sweeps::find(&history, |_| (0, PAGES as u32));
    let down: Vec<u32> = found
        .passings
        .iter()
        .filter(|passing| passing.is_down)
        .flat_map(|passing| passing.pages())
        .collect();
    let falls = down.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(falls * 10 > down.len() * 9, "{falls} of {}", down.len());
    // Five rounds, in each of which what was in memory is passed over without a fault.
    assert!(down.len() as u64 > 4 * PAGES * 40 / 100, "{}", down.len());
    let steps = strings::known(&history, &found);
    let misses = |steps: &[Step], percent| {
        let frames = PAGES * percent / 100;
        Pace::FRESH
            .simulate(steps.iter().map(Use::Free), frames, 1.0)
            .swap_reads as f64
    };
    let whole: Vec<Step> = (0..)
        .zip(&to_and_fro)
        .map(|(number, &page)| Step::access(number * ACCESS_NS, page as u32))
        .collect();
    for percent in [50, 60, 70, 80] {
        let (predicted, truth) = (misses(&steps, percent), misses(&whole, percent));
        assert!(
            (predicted - truth).abs() <= 0.15 * truth,
            "{predicted} predicted, {truth} true at {percent} %"
        );
    }
}

#[test]
fn random_accesses_are_as_likely_anywhere() {
    let mut state = 7;
    let string = string(60_000, |_| random(&mut state) % PAGES);
    assert_near(&string, NEVER, 0.15);
    assert_near(&string, 1500, 0.15);
}

#[test]
fn pages_that_differ_in_how_often_they_are_accessed_are_told_apart_by_looks() {
    let mut state = 7;
    // Products of two numbers at random, spread over all regions: small ones are frequent.
    let string = string(60_000, |_| {
        let product = random(&mut state) % PAGES * (random(&mut state) % PAGES) / PAGES;
        product * 1009 % PAGES
    });
    assert_near(&string, 500, 0.15);
}

#[test]
fn hot_pages_stay_though_others_pass() {
    let mut state = 7;
    let string = string(200_000, |_| match random(&mut state) % 10 {
        0..8 => random(&mut state) % 600,
        _ => random(&mut state) % PAGES,
    });
    assert_near(&string, 7_000, 0.15);
}

#[test]
fn what_fits_and_is_gone_through_in_rounds_is_missed_where_it_does_not_fit() {
    let hot = PAGES * 55 / 100;
    let order = shuffled(hot);
    // 20 rounds between two looks; the first glance comes within the first of them.
    let rounds = string(200 * hot, |number| order[(number % hot) as usize]);
    // With a little less memory than they need, it depends on how exactly the length of a round is known.
    for (percent, share) in [(30, 0.15), (50, 0.35), (70, 0.15), (90, 0.15)] {
        let (predicted, truth) = predicted_and_true(&rounds, 20 * hot as usize, percent);
        assert!(
            (predicted - truth).abs() <= share * truth.max(PAGES as f64 / 100.0),
            "{predicted} predicted, {truth} true at {percent} %"
        );
    }
}

#[test]
fn more_memory_than_the_program_has_needs_no_swap() {
    let string = string(20_000, |number| number * 7 % PAGES);
    assert_eq!(predicted_and_true(&string, NEVER, 101).0, 0.0);
}

/// Merge sort of records by lines of text, as GNU sort does: pages of text in no order, of records one after the other.
fn merge_sort(lines: usize) -> Vec<u64> {
    const LINES_OF_TEXT: usize = 150;
    const RECORDS: usize = 128;
    let text = |line: usize| (line / LINES_OF_TEXT) as u64;
    let text_pages = text(lines) + 1;
    let record = |line: usize| text_pages + (line / RECORDS) as u64;
    let record_pages = (lines / RECORDS) as u64 + 1;
    let spare = |line: usize| text_pages + record_pages + (line / RECORDS) as u64;
    let mut string: Vec<u64> = (0..lines)
        .step_by(64)
        .flat_map(|line| [text(line), record(lines - 1 - line)])
        .collect();
    let mut state = 11;
    // Begin, end, whether its halves are sorted.
    let mut todo = vec![(0, lines, false)];
    while let Some((begin, end, halves)) = todo.pop() {
        if end - begin <= RECORDS {
            string.extend([text(begin), record(begin), text(end - 1)]);
            continue;
        }
        let middle = (begin + end) / 2;
        if !halves {
            todo.extend([
                (begin, end, true),
                (middle, end, false),
                (begin, middle, false),
            ]);
            continue;
        }
        for line in begin..middle {
            if line % RECORDS < 2 {
                string.extend([record(line), spare(line - begin)]);
            }
        }
        for line in begin..end {
            let chosen = begin + random(&mut state) as usize % (end - begin);
            string.push(text(chosen));
            if line % 32 == 0 {
                let half = (line - begin) / 2;
                string.extend([spare(half), record(middle + half), record(line)]);
            }
        }
    }
    let used: std::collections::BTreeSet<u64> = string.iter().copied().collect();
    (0..PAGES)
        .filter(|page| !used.contains(page))
        .chain(string.iter().copied())
        .collect()
}

/// Look-ups of two levels, in all leaves and in few, and scans now and then.
fn look_ups(accesses: u64) -> Vec<u64> {
    let mut state = 5;
    let mut pages: Vec<u64> = (0..PAGES).collect();
    let (inner, leaves) = (100, 2500);
    for round in 0..4 {
        for _ in 0..accesses / 8 {
            let few = round % 2 == 1;
            let leaf = random(&mut state) % if few { leaves / 5 } else { leaves };
            pages.extend([
                leaf * inner / leaves,
                inner + leaf,
                inner + leaves + leaf / 3 % (PAGES - inner - leaves),
            ]);
        }
        pages.extend(inner..PAGES);
    }
    pages
}

#[test]
fn a_merge_sort_is_foretold_where_nothing_says_that_its_text_gets_hot() {
    let string = merge_sort(215_000);
    // Most swap-ins of small memory are those of text in the last merge, all of which fitted when it was recorded: glances tell
    // how hot it is, a look alone does not.
    for (percent, share) in [(30, 0.15), (50, 0.2), (70, 0.15), (90, 0.15)] {
        let (predicted, truth) = predicted_and_true(&string, string.len() / 64, percent);
        assert!(
            (predicted - truth).abs() <= share * truth,
            "{predicted} predicted, {truth} true at {percent} %"
        );
    }
}

#[test]
fn look_ups_and_scans_in_turn_are_told_apart() {
    assert_near(&look_ups(400_000), 7_000, 0.15);
}
