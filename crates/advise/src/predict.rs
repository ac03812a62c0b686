//! What rules promise: the run's time without the waiting that they save.
//!
//! Of a lock: the object's waiting goes; what it takes from the others comes back as theirs. Of a lock of a hot part: what
//! `heat.rs` says, less what swap-ins cannot show of pages that stayed. Of a plan of locks that was simulated: what is swapped no more. Of a stream: only what is not kept comes in each
//! round, and of the waiting for those pages a part is left, as they are in the swap cache by then; and room is made by the reader while
//! the object is filled, which else the program does itself, outside of faults. How large the part is that is left
//! depends on the machine and the program: on zram a minor fault takes 0.37 of a swap-in, and to read is work, so that a program that does little
//! else outruns the reader the more the more of each round must come in, and one that works on what it reads does not; on a device it is far less.

use pagewise_plan::Action;
use pagewise_plan::Prediction;

use crate::choose::Choice;
use crate::facts::ObjectFacts;
use crate::run_facts::RunFacts;

/// The part of the waiting for a page that is left when it was read ahead.
struct Left {
    likely: f64,
    least: f64,
    most: f64,
}

/// Of a round of which next to nothing has to come in, on zram, and by how much more if all has to, with one processor beside the
/// program's. Measured by sweeps of 2 GiB with 25 to 90 % of their memory (docs/results-apply.md): 0.52 where a fifth comes in, 0.60 of a
/// third, 0.57 to 0.82 of 0.56, 1.14 of 0.78.
const OF_MEMORY: f64 = 0.4;
const OF_MEMORY_BY_PART: f64 = 0.6;
const MOST_LIKELY_OF_MEMORY: f64 = 0.85;
/// How long the reader takes for a page, in waits for one: the program's own time for it goes meanwhile. And what is left at least: a minor
/// fault. Of 14 streams that keep a part (2026-11-29, an EPYC of two processors with waits of 11 to 26 us) 0.17 to 0.83 of a wait was left, and
/// that and the own time for each page that came in were 0.5 to 0.9 of one together, but for 1.4 of what a child sweeps. Two readers may take less.
const READING: f64 = 0.8;
const LEAST_OF_MEMORY: f64 = 0.2;
/// By how much that may be off.
const LESS_OF_MEMORY: f64 = 0.25;
const MORE_OF_MEMORY: f64 = 0.3;
/// Where so large a part of what they wait is not at the same time, it is one who waits, and the reader has a processor.
const ONE_WAITS: f64 = 0.9;
/// The reader has so many threads.
const READERS: u64 = 2;
/// 20 sweeps on a file were 2.3 to 7.5 times as fast (docs/results-apply.md), where 0.45 had promised half of that.
const OF_DEVICE: Left = Left {
    likely: 0.2,
    least: 0.02,
    most: 0.9,
};
/// With one processor, reading ahead saves nothing where reading is work.
const ALONE: Left = Left {
    likely: 1.0,
    least: 0.8,
    most: 1.1,
};
/// In the judgement by simulation, whatever comes in.
const JUDGED_OF_MEMORY: f64 = 0.5;
const JUDGED_OF_DEVICE: f64 = 0.35;

/// What a fault takes beside what is measured of it, ns: the exception, and what is lost of caches and TLB. A sweep of 256 MiB on zram
/// was 2.5 us for each swap-in longer than its stalls and itself without a limit, the recorder's own work included.
const LIKELY_UNCOUNTED_NS: f64 = 500.0;
const MOST_UNCOUNTED_NS: f64 = 1000.0;

/// Of the reclaim outside of faults that is for an object, what goes if it is streamed.
const LIKELY_OF_RECLAIM: f64 = 0.5;

/// Of the waiting for an object that is locked as a whole, what does go: its pages are locked as they first come in.
const LIKELY_OF_LOCKED: f64 = 0.97;
const LEAST_OF_LOCKED: f64 = 0.9;
/// Of the waiting that a lock brings the others by what it takes from them; at most all of it.
const LIKELY_LOSS: f64 = 0.5;

/// What a plan has to promise to be made at all. Two plans for a flow solver that promised 1.07 made it 0.91 and 0.21 times as fast: the
/// memory that they held was missed elsewhere. A lock on hot memory that promised 1.12 brought 1.26.
const LEAST_SPEEDUP: f64 = 1.1;
/// The same where nothing is kept, and swap is in memory: to read ahead is work there, too, and of zeros there is nothing to read. Such plans
/// that promised 1.13, 1.09 and 1.11 made programs 0.80, 0.82 and 1.01 times as fast.
const LEAST_SPEEDUP_AHEAD: f64 = 1.25;
/// The same where it is hot parts alone that are kept, and swap is memory: such plans brought about what they promised (1.13 and 1.12 where it was
/// 1.15 and 1.14; 1.07 and 1.11 by hand where it would have been 1.08), and by simulation they have to swap less, too.
const LEAST_SPEEDUP_OF_HOT: f64 = 1.05;
/// The same of locks that the simulation says to be of use, too, by what it says. Such plans that promised 1.04, 1.06 and 1.11 made programs 1.03, 1.23 and
/// 1.16 times as fast.
const LEAST_SPEEDUP_SIMULATED: f64 = 1.05;
/// What a rule has to promise.
const LEAST_SPEEDUP_OF_RULE: f64 = 1.01;

/// What is saved, as shares of all waiting for swap-ins, and of all reclaim outside of them.
#[derive(Clone, Copy, Debug, Default)]
struct Saved {
    likely: f64,
    least: f64,
    most: f64,
    /// At most; half of it is likely, and nothing at least.
    reclaim: f64,
}

impl Saved {
    fn and(self, more: Self) -> Self {
        Self {
            likely: self.likely + more.likely,
            least: self.least + more.least,
            most: self.most + more.most,
            reclaim: self.reclaim + more.reclaim,
        }
    }
}

/// The part of the waiting for a page that is judged to be left when it was read ahead.
pub(crate) fn left_of_streamed(run: &RunFacts) -> f64 {
    match (run.cpus, run.swap_is_memory) {
        (..=1, true) => ALONE.likely,
        (_, true) => JUDGED_OF_MEMORY,
        (_, false) => JUDGED_OF_DEVICE,
    }
}

/// The same as is likely, and within which bounds, where so large a part of each round comes in, 0 to 1, and the rest is kept or not.
fn left(run: &RunFacts, comes: f64, is_kept: bool) -> Left {
    match (run.cpus, run.swap_is_memory) {
        (..=1, true) => ALONE,
        (cpus, true) => {
            let readers = (cpus - 1).min(READERS) as f64;
            let by_part = OF_MEMORY + OF_MEMORY_BY_PART * comes / readers;
            let by_part = by_part.min(MOST_LIKELY_OF_MEMORY);
            // Who works on what it reads is not outrun. Where several wait for each other's turn, nobody reads ahead meanwhile; and what is
            // only read ahead of was slower as often as not.
            let likely = match is_kept && run.waits_at_a_time() >= ONE_WAITS {
                true => by_part.min(left_by_work(run, comes)),
                false => by_part,
            };
            Left {
                likely,
                least: (likely - LESS_OF_MEMORY).max(0.0),
                most: likely + MORE_OF_MEMORY,
            }
        }
        (_, false) => OF_DEVICE,
    }
}

/// What is left where the program works while its pages are read.
fn left_by_work(run: &RunFacts, comes: f64) -> f64 {
    let time = run.time(LIKELY_UNCOUNTED_NS);
    let worked = time.own_ns / (time.waited_ns * comes).max(1.0);
    (READING - worked).max(LEAST_OF_MEMORY)
}

pub(crate) fn of_choice(choice: &Choice, objects: &[ObjectFacts], run: &RunFacts) -> Prediction {
    prediction(saved(choice, objects, run), run)
}

pub(crate) fn of_all(choices: &[Choice], objects: &[ObjectFacts], run: &RunFacts) -> Prediction {
    let all = choices.iter().map(|choice| saved(choice, objects, run));
    prediction(all.fold(Saved::default(), Saved::and), run)
}

/// Turns rules that promise next to nothing into rules that do nothing, and if all of them together promise little, all:
/// what cannot be told from noise is not worth a risk.
pub(crate) fn without_small_gains(
    choices: Vec<Choice>,
    objects: &[ObjectFacts],
    run: &RunFacts,
) -> Vec<Choice> {
    let is_kept = choices.iter().any(|choice| choice.kept_bytes > 0);
    let mut acting = choices.iter().filter(|choice| choice.acts());
    let are_hot = acting.all(|choice| choice.is_of_hot_part(&objects[choice.object]));
    let least = match (run.swap_is_memory, is_kept) {
        (true, false) => LEAST_SPEEDUP_AHEAD,
        (true, true) if are_hot => LEAST_SPEEDUP_OF_HOT,
        _ => LEAST_SPEEDUP,
    };
    that_promise(least, choices, objects, run)
}

/// The same of locks whose promises are by simulation.
pub(crate) fn without_small_simulated_gains(
    choices: Vec<Choice>,
    objects: &[ObjectFacts],
    run: &RunFacts,
) -> Vec<Choice> {
    that_promise(LEAST_SPEEDUP_SIMULATED, choices, objects, run)
}

/// These without rules that promise next to nothing, or, if all of them promise less than this, without any.
fn that_promise(
    least: f64,
    mut choices: Vec<Choice>,
    objects: &[ObjectFacts],
    run: &RunFacts,
) -> Vec<Choice> {
    let in_vain = of_all(&choices, objects, run).speedup < least;
    for choice in &mut choices {
        let alone = of_choice(choice, objects, run).speedup;
        if choice.acts() && (in_vain || alone < LEAST_SPEEDUP_OF_RULE) {
            choice.give_up(&format!(
                "a rule would make the run {alone:.2} times as fast: too little to tell from noise"
            ));
        }
    }
    choices
}

fn prediction(saved: Saved, run: &RunFacts) -> Prediction {
    let speedup = |waiting: f64, reclaim: f64, uncounted_ns| {
        let time = run.time(uncounted_ns);
        let all = time.own_ns + time.waited_ns + time.reclaim_ns;
        let saved = time.waited_ns * waiting.clamp(-0.5, 1.0) + time.reclaim_ns * reclaim.min(1.0);
        match all > 0.0 {
            true => all / (all - saved),
            false => 1.0,
        }
    };
    let likely = speedup(
        saved.likely,
        LIKELY_OF_RECLAIM * saved.reclaim,
        LIKELY_UNCOUNTED_NS,
    );
    Prediction {
        speedup: likely,
        low: speedup(saved.least, 0.0, 0.0).min(likely),
        high: speedup(saved.most, saved.reclaim, MOST_UNCOUNTED_NS).max(likely),
    }
}

fn saved(choice: &Choice, objects: &[ObjectFacts], run: &RunFacts) -> Saved {
    let object = &objects[choice.object];
    let share_of = |stall_ns: f64| stall_ns / run.stall_ns.max(1) as f64;
    let share = share_of(object.stall_ns as f64);
    if let Some(saves) = &choice.saves
        && choice.acts()
    {
        return Saved {
            likely: share_of(saves.likely),
            least: share_of(saves.least),
            most: share_of(saves.most),
            reclaim: 0.0,
        };
    }
    match choice.action {
        Action::Lock { .. } => {
            // Of a part of it, that part of the waiting goes: no page of it is wanted more than another.
            let part = (choice.kept_bytes as f64 / object.bytes.max(1) as f64).min(1.0);
            let kept = share * part;
            let had = (object.resident_bytes() as f64 * part) as u64;
            let taken = choice.kept_bytes.saturating_sub(had);
            let in_use: u64 = objects.iter().map(ObjectFacts::resident_bytes).sum();
            let taken_share = (taken as f64 / in_use.max(1) as f64).min(1.0);
            // The rest of what is swept and does not fit misses all its pages each round as it is.
            let likely_losers = 1.0 - if object.is_swept() { share } else { kept };
            Saved {
                likely: LIKELY_OF_LOCKED * kept - LIKELY_LOSS * likely_losers * taken_share,
                least: LEAST_OF_LOCKED * kept - (1.0 - kept) * taken_share,
                most: kept,
                reclaim: 0.0,
            }
        }
        Action::Stream { .. } | Action::Prefetch(_) => {
            // In each round at most what is not kept comes in.
            let rest = object.bytes.saturating_sub(choice.kept_bytes) / run.page_bytes;
            let after = (rest as f64 * object.returns).min(object.swap_ins as f64);
            let comes = after / object.swap_ins.max(1) as f64;
            let left = left(run, comes, choice.kept_bytes > 0);
            Saved {
                likely: share * (1.0 - comes * left.likely),
                least: share * (1.0 - comes * left.most),
                most: share * (1.0 - comes * left.least),
                reclaim: share_of_first_touches(choice.object, objects, run),
            }
        }
        Action::Cold
        | Action::Huge
        | Action::Prezero
        | Action::Sequential
        | Action::Io(_)
        | Action::Nothing => Saved::default(),
    }
}

/// The share of the reclaim outside of faults that is for an object: pages come into being by it as it is large. Nothing of it is
/// saved if no other processor can do it.
fn share_of_first_touches(object: usize, objects: &[ObjectFacts], run: &RunFacts) -> f64 {
    if run.cpus <= 1 {
        return 0.0;
    }
    let all: u64 = objects.iter().map(|object| object.bytes).sum();
    objects[object].bytes as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_analyze::Pattern;
    use pagewise_plan::ReadAhead;

    fn facts() -> (Vec<ObjectFacts>, RunFacts) {
        let object = ObjectFacts {
            name: "a".to_owned(),
            bytes: 512 << 20,
            swap_ins: 393_216,
            stall_ns: 900_000_000,
            returns: 3.0,
            pattern: Some(Pattern::Loop),
            stride_pages: None,
            swept_rounds: 0.0,
            wanted_rate: None,
            resident_share: Some(0.5),
            stays_once_back_bytes: 0,
            never_left_bytes: 0,
            is_gone: false,
            touched_bytes: 0,
            block_bytes: 512 << 20,
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
        };
        let run = RunFacts {
            wall_ns: 1_000_000_000,
            stall_ns: 900_000_000,
            waited_ns: 900_000_000,
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
        };
        (vec![object], run)
    }

    fn choice(action: Action, kept_bytes: u64) -> Choice {
        Choice {
            object: 0,
            action,
            why: String::new(),
            kept_bytes,
            saves: None,
        }
    }

    #[test]
    fn what_is_kept_and_what_is_read_ahead_both_save() {
        let (objects, run) = facts();
        let ahead = choice(Action::Prefetch(ReadAhead::default()), 0);
        let kept = choice(
            Action::Stream {
                keep_bytes: Some(256 << 20),
                keep_more: true,
                ahead: ReadAhead::default(),
            },
            256 << 20,
        );
        let (ahead, kept) = (
            of_choice(&ahead, &objects, &run),
            of_choice(&kept, &objects, &run),
        );
        for found in [&ahead, &kept] {
            assert!(
                1.0 < found.speedup && found.low < found.speedup && found.speedup < found.high,
                "{found:?}"
            );
        }
        assert!(kept.speedup > ahead.speedup && kept.low > 1.0);
        // Who has to read all of it on zram may be outrun.
        assert!(ahead.low < 1.0);
    }

    #[test]
    fn who_works_on_what_it_reads_is_not_outrun_unless_others_wait_too() {
        let (objects, mut run) = facts();
        let kept = 256 << 20;
        let stream = Action::Stream {
            keep_bytes: Some(kept),
            keep_more: true,
            ahead: ReadAhead::default(),
        };
        // Of the waiting, which is 0.9 s.
        let waits = |action: &Action, kept, run: &RunFacts| {
            let found = of_choice(&choice(action.clone(), kept), &objects, run);
            1.0 - (1.0 - 1.0 / found.speedup) * run.wall_ns as f64 / run.waited_ns as f64
        };
        let idle = waits(&stream, kept, &run);
        run.wall_ns += run.waited_ns;
        let busy = waits(&stream, kept, &run);
        assert!(idle > 2.0 * busy && busy > 0.0, "{idle} {busy}");
        // All of it comes in, of which there is no telling.
        let ahead = Action::Prefetch(ReadAhead::default());
        assert!(waits(&ahead, 0, &run) > 0.7);
        run.stall_ns *= 2;
        let in_turn = waits(&stream, kept, &run);
        assert!(in_turn > 2.0 * busy, "{in_turn} {busy}");
    }

    #[test]
    fn reclaim_is_saved_by_a_stream_and_by_no_lock() {
        let (mut objects, mut run) = facts();
        objects.push(ObjectFacts {
            stall_ns: 0,
            ..objects[0].clone()
        });
        let kept = 256 << 20;
        let stream = Action::Stream {
            keep_bytes: Some(kept),
            keep_more: true,
            ahead: ReadAhead::default(),
        };
        let lock = Action::Lock {
            keep_bytes: Some(kept),
            keep_more: false,
            ranges: Vec::new(),
            together: false,
        };
        let high = |action: &Action, run: &RunFacts| {
            of_choice(&choice(action.clone(), kept), &objects, run).high
        };
        let before = [high(&stream, &run), high(&lock, &run)];
        let wall_ns = run.wall_ns as f64;
        run.reclaim_ns = Some(80_000_000);
        run.wall_ns += 80_000_000;
        let saved_ns = |speedup: f64, wall_ns: f64| wall_ns * (1.0 - 1.0 / speedup);
        let more_ns = |action: &Action, before: f64| {
            saved_ns(high(action, &run), run.wall_ns as f64) - saved_ns(before, wall_ns)
        };
        // Half of the memory that came into being was the object's.
        let of_stream = more_ns(&stream, before[0]);
        assert!((of_stream - 40_000_000.0).abs() < 1.0, "{of_stream}");
        assert!(more_ns(&lock, before[1]).abs() < 1.0);
    }

    /// Sweeps of 2 GiB, three times, on a Xeon, as docs/results-apply.md has them: the share of the memory, whether swap was zram, seconds
    /// without a plan, the share of these that a recording saw waiting for swap-ins, and how many times as fast it was with the plan. The first
    /// has the seconds and the gain of 2026-11-27, since when the library is faster there (it was 1.10 before), and the share of days before.
    const MEASURED: [(f64, bool, f64, f64, f64); 6] = [
        (0.25, true, 11.0, 0.67, 1.99),
        (0.50, true, 12.19, 0.66, 1.89),
        (0.75, true, 13.70, 0.72, 2.81),
        (0.90, true, 12.70, 0.70, 3.57),
        (0.50, false, 19.14, 0.65, 3.51),
        (0.75, false, 28.49, 0.77, 6.21),
    ];

    #[test]
    fn what_was_measured_lies_within_what_is_promised() {
        for measured in MEASURED {
            let (memory, swap_is_memory, seconds, stalled, speedup) = measured;
            let (mut objects, mut run) = facts();
            let bytes: u64 = 2 << 30;
            let pages = bytes / 4096;
            run.swap_is_memory = swap_is_memory;
            run.wall_ns = (seconds * 1e9) as u64;
            run.waited_ns = (stalled * seconds * 1e9) as u64;
            run.stall_ns = run.waited_ns;
            run.swap_ins = 2 * pages;
            // For each page too many when the array is filled, as recorded of one of 256 MiB.
            let each = if swap_is_memory { 8_700.0 } else { 32_000.0 };
            run.reclaim_ns = Some(((1.0 - memory) * pages as f64 * each) as u64);
            objects[0] = ObjectFacts {
                bytes,
                swap_ins: run.swap_ins,
                stall_ns: run.stall_ns,
                returns: 2.0,
                ..objects[0].clone()
            };
            let keep = (memory * bytes as f64 * 7.0 / 8.0) as u64;
            let stream = Action::Stream {
                keep_bytes: Some(keep),
                keep_more: true,
                ahead: ReadAhead::default(),
            };
            let found = of_choice(&choice(stream, keep), &objects, &run);
            let interval = found.low..found.high;
            assert!(interval.contains(&speedup), "{measured:?}: {found:?}");
        }
    }

    #[test]
    fn a_lock_on_a_part_saves_that_part() {
        let (objects, run) = facts();
        let lock = |kept_bytes| {
            let action = Action::Lock {
                keep_bytes: Some(kept_bytes),
                keep_more: false,
                ranges: Vec::new(),
                together: false,
            };
            of_choice(&choice(action, kept_bytes), &objects, &run)
        };
        let (part, whole) = (lock(256 << 20), lock(512 << 20));
        assert!(1.0 < part.speedup && part.speedup < whole.speedup);
        // Half of 90 % of the run goes at most.
        assert!(part.high <= 1.0 / (1.0 - 0.45) + 1e-9, "{part:?}");
    }

    #[test]
    fn the_rest_of_a_sweep_misses_no_more_for_what_is_kept() {
        let (mut objects, run) = facts();
        // Of what several processes share, page tables do not tell how much is in memory.
        objects[0].resident_share = Some(0.1);
        let action = Action::Lock {
            keep_bytes: Some(256 << 20),
            keep_more: false,
            ranges: Vec::new(),
            together: false,
        };
        let part = choice(action, 256 << 20);
        let swept = of_choice(&part, &objects, &run);
        assert!(swept.speedup > 1.7, "{swept:?}");
        objects[0].pattern = Some(Pattern::Random);
        assert!(of_choice(&part, &objects, &run).speedup < 1.3);
    }

    #[test]
    fn what_cannot_be_told_from_noise_is_left_alone() {
        let (objects, mut run) = facts();
        let lock = choice(
            Action::Lock {
                keep_bytes: None,
                keep_more: false,
                ranges: Vec::new(),
                together: false,
            },
            512 << 20,
        );
        let kept = |run: &RunFacts| {
            let choices = without_small_gains(vec![lock.clone()], &objects, run);
            choices[0].action != Action::Nothing
        };
        assert!(kept(&run));
        run.wall_ns = 100 * run.waited_ns;
        assert!(!kept(&run));
    }

    #[test]
    fn what_is_only_read_ahead_of_must_promise_more_where_reading_is_work() {
        let (objects, mut run) = facts();
        let ahead = choice(Action::Prefetch(pagewise_plan::ReadAhead::default()), 0);
        let promised = |run: &RunFacts| of_choice(&ahead, &objects, run).speedup;
        // Waits for so much of its time that it promises between the two.
        while promised(&run) > LEAST_SPEEDUP_AHEAD - 0.05 {
            run.wall_ns += run.wall_ns / 50;
        }
        assert!(promised(&run) > LEAST_SPEEDUP, "{}", promised(&run));
        let is_kept = |run: &RunFacts| {
            let choices = without_small_gains(vec![ahead.clone()], &objects, run);
            choices[0].acts()
        };
        assert!(!is_kept(&run));
        run.swap_is_memory = false;
        assert!(is_kept(&run));
    }

    #[test]
    fn doing_nothing_promises_nothing() {
        let (objects, run) = facts();
        let found = of_choice(&choice(Action::Nothing, 0), &objects, &run);
        assert_eq!((found.speedup, found.low, found.high), (1.0, 1.0, 1.0));
    }

    #[test]
    fn no_promise_goes_beyond_the_run_without_waiting() {
        let (objects, run) = facts();
        let lock = choice(
            Action::Lock {
                keep_bytes: None,
                keep_more: false,
                ranges: Vec::new(),
                together: false,
            },
            512 << 20,
        );
        let found = of_all(&[lock.clone(), lock], &objects, &run);
        assert!(found.high <= 1.0 / (1.0 - 0.9) + 1e-9, "{found:?}");
    }
}
