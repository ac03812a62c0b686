//! What to do about each object, as a function of numbers.
//!
//! - What is used in no order and fits is **locked**: the sweeps beside it no longer push it out.
//! - What is swept again and again and does not fit is **streamed**. The kernel's least-recently-used order then keeps
//!   exactly the pages that come last; a fixed part that is kept saves a share of each round, and the rest is read ahead.
//! - What is swept once is **prefetched**.
//! - What is used in no order and does not fit has a hot part that is **locked**, or is left alone: whichever part is kept,
//!   the others miss as often.

use pagewise_plan::Action;
use pagewise_plan::ReadAhead;

use crate::facts::ObjectFacts;
use crate::facts::RunFacts;
use crate::heat::HotPart;

/// An object whose share of the waiting is below this gets no rule.
const LEAST_STALL_SHARE: f64 = 0.01;
/// Below this share of the run, waiting is not worth a plan.
pub(crate) const LEAST_STALLED: f64 = 0.02;
/// Left to the kernel and to what no rule is about: an eighth, at least 6 MiB. The preloaded library leaves as much.
const LEAST_RESERVE: u64 = 6 << 20;
/// In less memory, what is not reserved is too little to keep anything or to read ahead.
const LEAST_MEMORY: u64 = 12 << 20;
/// What a stream needs beside what it keeps: read ahead and not yet dropped.
const STREAM_WINDOW: u64 = 16 << 20;
/// A page that comes back this often on average is used again and again.
pub(crate) const RETURNS: f64 = 1.5;
/// An object of which more is in memory all the time is mostly found there: swap-ins do not tell how often. One that is swept
/// and never found has less, unless it is alone with the memory.
const MOSTLY_RESIDENT: f64 = 0.85;
/// Bytes that a swap-in brings at least.
const PAGE: u64 = 4096;
/// What is used again and again and is not mostly in memory does not fit for sure if it is so many times what is left for it.
const CLEARLY: f64 = 1.2;
/// Who waits for so much of the time does not fit, whatever else is known.
const THRASHING: f64 = 0.4;

/// One rule to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// Its index.
    pub(crate) object: usize,
    pub(crate) action: Action,
    pub(crate) why: String,
    /// Of it, what will be in memory all the time.
    pub(crate) kept_bytes: u64,
    /// If only that is locked.
    pub(crate) hot: Option<HotPart>,
}

impl Choice {
    /// Nothing is done after all.
    pub(crate) fn give_up(&mut self, why: &str) {
        if self.action == Action::Nothing {
            return;
        }
        why.clone_into(&mut self.why);
        self.action = Action::Nothing;
        self.kept_bytes = 0;
        self.hot = None;
    }
}

/// How much all rules together may lock in so much memory, bytes.
pub fn lock_budget(memory_bytes: u64) -> u64 {
    memory_bytes
        .saturating_sub((memory_bytes / 8).max(LEAST_RESERVE))
        .max(1)
}

/// How room is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// What is used in no order first, and nothing that may do harm by what swap-ins tell alone.
    Careful,
    /// The same, whatever it may do to others: to be proven otherwise.
    UnorderedFirst,
    /// Most stall per byte first, swept or not, likewise.
    DensestFirst,
}

/// A rule for each object that costs enough, those of most stall first.
pub(crate) fn choose(
    objects: &[ObjectFacts],
    run: &RunFacts,
    memory_bytes: u64,
    manner: Manner,
) -> Vec<Choice> {
    if run.stalled_share() < LEAST_STALLED {
        return Vec::new();
    }
    let costly = |object: &ObjectFacts| {
        object.can_have_rule && object.stall_ns as f64 >= LEAST_STALL_SHARE * run.stall_ns as f64
    };
    let chosen: Vec<usize> = (0..objects.len())
        .filter(|&at| costly(&objects[at]))
        .collect();
    if memory_bytes < LEAST_MEMORY {
        let why = "in so little memory there is no room to keep anything or to read ahead";
        return chosen.into_iter().map(|at| nothing(at, why)).collect();
    }
    // Others that are in memory although it is short are in use.
    let others: u64 = (0..objects.len())
        .filter(|at| !chosen.contains(at))
        .map(|at| objects[at].resident_bytes())
        .sum();
    let mut budget = Budget {
        left: lock_budget(memory_bytes)
            .saturating_sub(others.min(memory_bytes / 2))
            .min(run.lockable_bytes.unwrap_or(u64::MAX)),
        unlocked: memory_bytes,
        may_harm: manner != Manner::Careful || run.stalled_share() >= THRASHING,
    };
    let swept: Vec<usize> = chosen
        .iter()
        .copied()
        .filter(|&at| {
            let is_kept = is_kept_by_the_kernel(&objects[at], memory_bytes);
            objects[at].is_swept() && (manner != Manner::Careful || !is_kept)
        })
        .collect();
    let mut choices: Vec<Option<Choice>> = vec![None; objects.len()];
    let unordered = |at: &usize| !objects[*at].is_swept();
    let unordered: Vec<usize> = chosen.iter().copied().filter(unordered).collect();
    if manner == Manner::DensestFirst {
        for at in by_density(objects, &chosen) {
            match objects[at].is_swept() {
                true => stream(objects, &[at], &mut budget, &mut choices),
                false => lock_what_fits(objects, &[at], &mut budget, &mut choices),
            }
        }
    } else {
        lock_what_fits(objects, &unordered, &mut budget, &mut choices);
    }
    lock_hot_parts(objects, &unordered, &mut budget, &mut choices);
    if manner != Manner::DensestFirst {
        stream(objects, &swept, &mut budget, &mut choices);
    }
    for &at in &chosen {
        choices[at].get_or_insert_with(|| nothing(at, why_nothing(&objects[at])));
    }
    choices.into_iter().flatten().collect()
}

/// What may still be locked, and what is not.
struct Budget {
    left: u64,
    unlocked: u64,
    /// Whatever others lose by it, it is worth a try.
    may_harm: bool,
}

impl Budget {
    fn take(&mut self, bytes: u64) {
        self.left -= bytes;
        self.unlocked -= bytes;
    }
}

/// Of what is used again and again in no order, as much as fits, most stall per byte first.
fn lock_what_fits(
    objects: &[ObjectFacts],
    unordered: &[usize],
    budget: &mut Budget,
    choices: &mut [Option<Choice>],
) {
    for at in by_density(objects, unordered) {
        let object = &objects[at];
        if object.returns >= RETURNS
            && object.bytes <= budget.left
            && is_thrashing_beside(objects, at, budget)
        {
            budget.take(object.bytes);
            choices[at] = Some(lock(at, object));
        }
    }
}

/// Of the others of them, the hot parts.
fn lock_hot_parts(
    objects: &[ObjectFacts],
    unordered: &[usize],
    budget: &mut Budget,
    choices: &mut [Option<Choice>],
) {
    for at in by_density(objects, unordered) {
        let heat = objects[at].heat.as_ref().filter(|_| choices[at].is_none());
        if let Some(hot) = heat.and_then(|heat| heat.hot_part(budget.left)) {
            budget.take(hot.bytes);
            choices[at] = Some(lock_hot(at, hot));
        }
    }
}

/// Whether beside an object there are others that miss whatever memory is left for them. A lock takes memory from the others: if
/// these just fit, they no longer do, and miss far more often than before. That their pages are used while they are in memory
/// leaves no trace in swap-ins, so that it must be shown that they do not fit: by their sizes, or as the program does little but
/// wait.
fn is_thrashing_beside(objects: &[ObjectFacts], at: usize, budget: &Budget) -> bool {
    if budget.may_harm {
        return true;
    }
    let rest = budget.unlocked.saturating_sub(objects[at].bytes);
    let others = (0..objects.len()).filter(|&other| other != at);
    let misses = |object: &ObjectFacts| {
        // All of it, not some pages.
        object.returns >= RETURNS
            && object.swap_ins * PAGE >= object.bytes
            && object
                .resident_share
                .is_none_or(|share| share <= MOSTLY_RESIDENT)
    };
    let bytes: u64 = others
        .filter(|&other| misses(&objects[other]))
        .map(|other| objects[other].bytes)
        .sum();
    bytes as f64 >= CLEARLY * rest as f64
}

/// A sweep of which most is found in memory: to drop what lies behind it would do harm.
fn is_kept_by_the_kernel(object: &ObjectFacts, memory_bytes: u64) -> bool {
    object.bytes < memory_bytes / 2
        && object
            .resident_share
            .is_some_and(|share| share > MOSTLY_RESIDENT)
}

/// Most stall per byte first.
fn by_density(objects: &[ObjectFacts], chosen: &[usize]) -> Vec<usize> {
    let density = |at: usize| objects[at].stall_ns as f64 / objects[at].bytes.max(1) as f64;
    let mut sorted = chosen.to_vec();
    sorted.sort_by(|&a, &b| density(b).total_cmp(&density(a)));
    sorted
}

/// Shares what is left among the swept objects: a byte kept saves a page per round wherever it is, so those of most
/// stall per byte get theirs first.
fn stream(
    objects: &[ObjectFacts],
    swept: &[usize],
    budget: &mut Budget,
    choices: &mut [Option<Choice>],
) {
    for at in by_density(objects, swept) {
        let object = &objects[at];
        let again = object.returns >= RETURNS;
        choices[at] = if again && object.bytes <= budget.left {
            is_thrashing_beside(objects, at, budget).then(|| {
                budget.take(object.bytes);
                lock_swept(at, object)
            })
        } else if again {
            let keep = budget
                .left
                .saturating_sub(STREAM_WINDOW.min(budget.left / 4));
            budget.take(keep);
            Some(stream_of(at, object, keep))
        } else {
            Some(Choice {
                object: at,
                action: Action::Prefetch(ReadAhead::default()),
                why: "swept once: its pages can be read in ahead of their turn".to_owned(),
                kept_bytes: 0,
                hot: None,
            })
        };
    }
}

fn lock_swept(at: usize, object: &ObjectFacts) -> Choice {
    Choice {
        why: format!(
            "swept about {:.0} times and fits into what is left: kept whole",
            object.returns.max(1.0)
        ),
        ..lock(at, object)
    }
}

fn lock(at: usize, object: &ObjectFacts) -> Choice {
    Choice {
        object: at,
        action: Action::Lock {
            keep_bytes: None,
            ranges: Vec::new(),
        },
        why: format!(
            "used again and again ({:.1} times a page) and fits: others no longer push it out",
            object.returns
        ),
        kept_bytes: object.bytes,
        hot: None,
    }
}

fn lock_hot(at: usize, hot: HotPart) -> Choice {
    Choice {
        object: at,
        action: Action::Lock {
            keep_bytes: None,
            ranges: hot.ranges.clone(),
        },
        why: format!(
            "{} of it are accessed {:.0} times as often as the rest, by page, and were pushed out by it",
            pagewise_report::bytes(hot.bytes),
            hot.times
        ),
        kept_bytes: hot.bytes,
        hot: Some(hot),
    }
}

fn stream_of(at: usize, object: &ObjectFacts, keep: u64) -> Choice {
    let ahead = ReadAhead::default();
    let (action, what) = match keep {
        // A stream that does not say how much it keeps keeps what it can get.
        0 => (Action::Prefetch(ahead), "it is"),
        _ => (
            Action::Stream {
                keep_bytes: Some(keep),
                ahead,
            },
            "a fixed part is kept, the rest",
        ),
    };
    Choice {
        object: at,
        action,
        why: format!(
            "swept about {:.0} times and larger than its share of memory: {what} read ahead of the sweep and dropped \
             behind it",
            object.returns.max(1.0)
        ),
        kept_bytes: keep,
        hot: None,
    }
}

fn why_nothing(object: &ObjectFacts) -> &'static str {
    if object
        .resident_share
        .is_some_and(|share| share > MOSTLY_RESIDENT)
    {
        "mostly in memory as it is, beside others that are, too: what it got, they would lose"
    } else if object.returns < RETURNS {
        "its pages come back once, in no order: there is nothing to foresee and nothing to keep"
    } else {
        "used in no order, larger than what is left, and nowhere much more than elsewhere: whichever part is kept, the rest \
         misses as often"
    }
}

fn nothing(at: usize, why: &str) -> Choice {
    Choice {
        object: at,
        action: Action::Nothing,
        why: why.to_owned(),
        kept_bytes: 0,
        hot: None,
    }
}

/// What the plan does, for people.
pub(crate) fn words(
    choices: &[Choice],
    objects: &[ObjectFacts],
    run: &RunFacts,
    extra_bytes: Option<u64>,
) -> String {
    let names = |wanted: fn(&Action) -> bool| {
        let chosen = choices.iter().filter(|choice| wanted(&choice.action));
        chosen
            .map(|choice| objects[choice.object].name.as_str())
            .collect::<Vec<_>>()
    };
    let parts: Vec<String> = [
        (
            "lock",
            names(|action| matches!(action, Action::Lock { .. })),
        ),
        (
            "stream",
            names(|action| matches!(action, Action::Stream { .. })),
        ),
        (
            "prefetch",
            names(|action| matches!(action, Action::Prefetch(_))),
        ),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(verb, names)| format!("{verb} {}", names.join(", ")))
    .collect();
    if !parts.is_empty() {
        return parts.join("; ");
    }
    if run.stalled_share() < LEAST_STALLED {
        return format!(
            "do nothing: waiting for swap-ins is {:.1} % of the run",
            100.0 * run.stalled_share()
        );
    }
    match extra_bytes {
        Some(extra) => format!(
            "do nothing: no placement would help much here. Add memory: {} more would have avoided 99 % of the waiting",
            pagewise_report::bytes(extra)
        ),
        None => {
            "do nothing: no placement would help much here, and how much memory would is not known"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat::Cell;
    use crate::heat::Heat;
    use pagewise_analyze::Pattern;

    const MIB: u64 = 1 << 20;

    fn object(name: &str, mib: u64, stall_ms: u64, returns: f64, pattern: Pattern) -> ObjectFacts {
        ObjectFacts {
            name: name.to_owned(),
            bytes: mib * MIB,
            swap_ins: (returns * mib as f64 * 256.0) as u64,
            stall_ns: stall_ms * 1_000_000,
            returns,
            pattern: Some(pattern),
            reuse_ns: None,
            resident_share: Some(0.5),
            can_have_rule: true,
            is_one_block: true,
            heat: None,
        }
    }

    fn run(objects: &[ObjectFacts], wall_ms: u64) -> RunFacts {
        RunFacts {
            wall_ns: wall_ms * 1_000_000,
            stall_ns: objects.iter().map(|object| object.stall_ns).sum(),
            stall_scale: 1.0,
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
            ..object(name, 64, 50, 3.0, pattern)
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
    fn what_is_swept_once_is_only_read_ahead() {
        let actions = actions(&[object("a", 512, 900, 1.0, Pattern::Sequential)], 256);
        assert!(matches!(actions[..], [Action::Prefetch(_)]), "{actions:?}");
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
}
