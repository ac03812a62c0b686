//! What rules promise: the run's time without the waiting that they save.
//!
//! Of a lock: the object's waiting goes; what it takes from the others comes back as theirs. Of a lock of a hot part: what
//! `heat.rs` says, less what swap-ins cannot show of pages that stayed. Of a stream: only what is not kept comes in each
//! round, and of the waiting for those pages a part is left, as they are in the swap cache by then. How large that part is
//! depends on the machine: on zram a minor fault takes 0.37 of a swap-in, on a device far less, but the program may outrun
//! the reader.

use pagewise_plan::Action;
use pagewise_plan::Prediction;

use crate::choose::Choice;
use crate::facts::ObjectFacts;
use crate::facts::RunFacts;

/// The part of the waiting for a page that is left when it was read ahead.
struct Left {
    likely: f64,
    least: f64,
    most: f64,
}

const OF_MEMORY: Left = Left {
    likely: 0.5,
    least: 0.3,
    most: 0.95,
};
const OF_DEVICE: Left = Left {
    likely: 0.35,
    least: 0.1,
    most: 0.9,
};
/// With one processor, reading ahead saves nothing where reading is work.
const ALONE: Left = Left {
    likely: 1.0,
    least: 0.8,
    most: 1.1,
};

/// Of the waiting that `heat.rs` says a lock on a hot part saves, what does go: the rest of the object has less memory
/// then. At most all waiting for the hot part goes.
const LIKELY_OF_HOT: f64 = 0.8;
const LEAST_OF_HOT: f64 = 0.3;
/// Of the waiting for an object that is locked as a whole, what does go: its pages are locked as they first come in.
const LIKELY_OF_LOCKED: f64 = 0.97;
const LEAST_OF_LOCKED: f64 = 0.9;
/// Of the waiting that a lock brings the others by what it takes from them; at most all of it.
const LIKELY_LOSS: f64 = 0.5;

/// What a plan has to promise to be made at all.
const LEAST_SPEEDUP: f64 = 1.05;
/// What a rule has to promise.
const LEAST_SPEEDUP_OF_RULE: f64 = 1.01;

/// Waiting saved, as a share of all.
#[derive(Clone, Copy, Default)]
struct Saved {
    likely: f64,
    least: f64,
    most: f64,
}

/// The part of the waiting for a page that is likely left when it was read ahead.
pub(crate) fn left_of_streamed(run: &RunFacts) -> f64 {
    left(run).likely
}

fn left(run: &RunFacts) -> Left {
    match (run.cpus, run.swap_is_memory) {
        (..=1, true) => ALONE,
        (_, true) => OF_MEMORY,
        (_, false) => OF_DEVICE,
    }
}

pub(crate) fn of_choice(choice: &Choice, objects: &[ObjectFacts], run: &RunFacts) -> Prediction {
    prediction(saved(choice, objects, run), run)
}

pub(crate) fn of_all(choices: &[Choice], objects: &[ObjectFacts], run: &RunFacts) -> Prediction {
    let all = choices.iter().map(|choice| saved(choice, objects, run));
    let sum = all.fold(Saved::default(), |sum, more| Saved {
        likely: sum.likely + more.likely,
        least: sum.least + more.least,
        most: sum.most + more.most,
    });
    prediction(sum, run)
}

/// Turns rules that promise next to nothing into rules that do nothing, and if all of them together promise little, all:
/// what cannot be told from noise is not worth a risk.
pub(crate) fn without_small_gains(
    mut choices: Vec<Choice>,
    objects: &[ObjectFacts],
    run: &RunFacts,
) -> Vec<Choice> {
    let all = of_all(&choices, objects, run);
    let in_vain = all.speedup < LEAST_SPEEDUP;
    for choice in &mut choices {
        let alone = of_choice(choice, objects, run).speedup;
        if choice.action != Action::Nothing && (in_vain || alone < LEAST_SPEEDUP_OF_RULE) {
            choice.give_up(&format!(
                "a rule would make the run {alone:.2} times as fast: too little to tell from noise"
            ));
        }
    }
    choices
}

fn prediction(saved: Saved, run: &RunFacts) -> Prediction {
    let stalled = run.stalled_share();
    let speedup = |saved: f64| 1.0 / (1.0 - stalled * saved.clamp(-0.5, 1.0));
    Prediction {
        speedup: speedup(saved.likely),
        low: speedup(saved.least.min(saved.likely)),
        high: speedup(saved.most.max(saved.likely)),
    }
}

fn saved(choice: &Choice, objects: &[ObjectFacts], run: &RunFacts) -> Saved {
    let object = &objects[choice.object];
    let share_of = |stall_ns: u64| stall_ns as f64 / run.stall_ns.max(1) as f64;
    let share = share_of(object.stall_ns);
    if let Some(hot) = &choice.hot
        && choice.action != Action::Nothing
    {
        return Saved {
            likely: LIKELY_OF_HOT * share_of(hot.saved_ns),
            least: LEAST_OF_HOT * share_of(hot.saved_ns),
            most: share_of(hot.stall_ns),
        };
    }
    match choice.action {
        Action::Lock { .. } => {
            // Of a part of it, that part of the waiting goes: no page of it is wanted more than another.
            let part = (choice.kept_bytes as f64 / object.bytes.max(1) as f64).min(1.0);
            let share = share * part;
            let had = (object.resident_bytes() as f64 * part) as u64;
            let taken = choice.kept_bytes.saturating_sub(had);
            let in_use: u64 = objects.iter().map(ObjectFacts::resident_bytes).sum();
            let loss = (1.0 - share) * (taken as f64 / in_use.max(1) as f64).min(1.0);
            Saved {
                likely: LIKELY_OF_LOCKED * share - LIKELY_LOSS * loss,
                least: LEAST_OF_LOCKED * share - loss,
                most: share,
            }
        }
        Action::Stream { .. } | Action::Prefetch(_) => {
            let left = left(run);
            // In each round at most what is not kept comes in.
            let rest = object.bytes.saturating_sub(choice.kept_bytes) / run.page_bytes;
            let after = (rest as f64 * object.returns).min(object.swap_ins as f64);
            let comes = after / object.swap_ins.max(1) as f64;
            Saved {
                likely: share * (1.0 - comes * left.likely),
                least: share * (1.0 - comes * left.most),
                most: share * (1.0 - comes * left.least),
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
            resident_share: Some(0.5),
            block_bytes: 512 << 20,
            pieces: 1,
            can_have_rule: true,
            is_one_block: true,
            heat: None,
        };
        let run = RunFacts {
            wall_ns: 1_000_000_000,
            stall_ns: 900_000_000,
            waited_ns: 900_000_000,
            stall_scale: 1.0,
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
            hot: None,
        }
    }

    #[test]
    fn what_is_kept_and_what_is_read_ahead_both_save() {
        let (objects, run) = facts();
        let ahead = choice(Action::Prefetch(ReadAhead::default()), 0);
        let kept = choice(
            Action::Stream {
                keep_bytes: Some(256 << 20),
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
                1.0 < found.low && found.low < found.speedup && found.speedup < found.high,
                "{found:?}"
            );
        }
        assert!(kept.speedup > ahead.speedup);
    }

    #[test]
    fn a_lock_on_a_part_saves_that_part() {
        let (objects, run) = facts();
        let lock = |kept_bytes| {
            let action = Action::Lock {
                keep_bytes: Some(kept_bytes),
                ranges: Vec::new(),
            };
            of_choice(&choice(action, kept_bytes), &objects, &run)
        };
        let (part, whole) = (lock(256 << 20), lock(512 << 20));
        assert!(1.0 < part.speedup && part.speedup < whole.speedup);
        // Half of 90 % of the run goes at most.
        assert!(part.high <= 1.0 / (1.0 - 0.45) + 1e-9, "{part:?}");
    }

    #[test]
    fn what_cannot_be_told_from_noise_is_left_alone() {
        let (objects, mut run) = facts();
        let lock = choice(
            Action::Lock {
                keep_bytes: None,
                ranges: Vec::new(),
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
                ranges: Vec::new(),
            },
            512 << 20,
        );
        let found = of_all(&[lock.clone(), lock], &objects, &run);
        assert!(found.high <= 1.0 / (1.0 - 0.9) + 1e-9, "{found:?}");
    }
}
