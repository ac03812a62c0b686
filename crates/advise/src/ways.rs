//! Several ways to share out the room, and which of them is taken: the one by which the program swaps least, as simulated ([`crate::judge`]).

use pagewise_plan::Action;
use pagewise_predict::Model;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::choose;
use crate::choose::Choice;
use crate::choose::Manner;
use crate::choose::Saves;
use crate::facts::ObjectFacts;
use crate::judge::Judge;
use crate::layouts::Layouts;
use crate::most_used;
use crate::predict;
use crate::run_facts::RunFacts;
use crate::subjects::Subject;

/// The most that swap-ins may be with a plan, as a share of those without: less of a gain may be an error of the simulation.
const WORTH_IT: f64 = 0.9;
/// The same where something is read ahead of, and swap is memory: of what is swept indeed far less is left, and to read ahead is work. Columns of which each
/// query passes through some were 0.82 times as fast by a stream for which 0.9 of the swap-ins were to be left.
const WORTH_IT_AHEAD: f64 = 0.75;
/// The same where much is waited for by several threads: what one of them uses while it is in memory is seen less ([`Judge::share_of_threads`]). By a lock
/// that was to leave 0.895 of the swap-ins there were 10 times as many.
const WORTH_IT_OF_THREADS: f64 = 0.75;
/// The most that swap-ins may be with locks if all else that is swept was missing at each turn, as a share of those without a plan. By 144 recordings of 75 programs it is 0.3 to
/// 0.99; by two of a column store 1.4 to 1.6: its lock left 1.2 times the swap-ins.
const MOST_AT_WORST: f64 = 1.0;
/// Such a share of the swap-ins is much.
const MUCH: f64 = 0.2;
/// The same of locks of hot parts alone, where swap is memory: by fourteen such plans 0.6 to 2.0 times as many swap-ins were saved as by the
/// simulation, and each of the others took less time.
const WORTH_IT_OF_HOT: f64 = 0.97;
/// The part of what is swapped by the best of the others, at most, of a way that nothing but the simulation speaks for.
const CLEARLY_BETTER: f64 = 0.9;
/// Of what may at most be missed in pauses of which nothing is known, what counts in the judgement of such a way.
const LIKELY_IN_PAUSES: f64 = 1.0 / 3.0;
/// Of the stall that locks save by simulation, what they save at least, likely and at most. Of eleven programs it was 0.4 to 1.5 (docs/results-apply.md).
const OF_SIMULATED: [f64; 3] = [0.4, 1.0, 1.5];
/// The same of hot parts where swap is memory.
const OF_SIMULATED_HOT: [f64; 3] = [0.7, 1.4, 3.0];
/// Of locks that leave no more of the swap-ins than this beyond the best, those that keep the least: what it leaves to others may be used more than is known. A lock
/// of 87 MiB made a program no faster for which one of 75 brought 1.23, where by simulation the first left 0.795 of the swap-ins and the other 0.807.
const AS_GOOD: f64 = 0.02;
/// Locks that leave so much more of the swap-ins in somewhat less memory are such by which the rest fits just so, if it does.
const FAR_MORE: f64 = 0.05;
/// Then so many such parts are tried, from a half on: somewhat less may be enough.
const FINE_PARTS: u64 = 8;
/// What is kept is tried so often in half that by simulation does harm.
const HALVES: usize = 2;
/// Of what is kept, such parts are tried where all does good.
const PARTS: u64 = 4;

/// Choices, and the swap-ins that are left with them, as shares of those without.
struct Judged {
    choices: Vec<Choice>,
    share_left: f64,
    /// The same, or what is left in somewhat less memory where that is far more and could be mended: what ways are told apart by.
    most_left: f64,
}

impl Judged {
    fn of(choices: Vec<Choice>, share_left: f64) -> Self {
        Self {
            choices,
            share_left,
            most_left: share_left,
        }
    }

    /// Whether nothing is read ahead of: what is kept of a sweep is another matter.
    fn is_of_locks(&self) -> bool {
        !self.choices.iter().any(Choice::is_read_ahead)
    }

    fn kept_bytes(&self) -> u64 {
        let acting = self.choices.iter().filter(|choice| choice.acts());
        acting.map(|choice| choice.kept_bytes).sum()
    }

    /// `of_threads`: see [`Judge::share_of_threads`].
    fn is_worth_it(&self, of_threads: f64, (facts, run): (&[ObjectFacts], &RunFacts)) -> bool {
        let mut acting = self.choices.iter().filter(|choice| choice.acts());
        let is_hot = |choice: &Choice| choice.is_of_hot_part(&facts[choice.object]);
        let worth = match run.swap_is_memory {
            true if acting.all(is_hot) => WORTH_IT_OF_HOT,
            true if !self.is_of_locks() => WORTH_IT_AHEAD,
            _ if of_threads > MUCH => WORTH_IT_OF_THREADS,
            _ => WORTH_IT,
        };
        self.most_left <= worth
    }
}

/// Of several ways to share out the room, the one by which the program swaps least, as simulated. Where that cannot be
/// simulated, the careful one.
pub(crate) fn best(
    trace: &Trace,
    (subjects, layouts): (&[Subject<'_>], &Layouts),
    (facts, run): (&[ObjectFacts], &RunFacts),
    memory_bytes: u64,
    model: Option<&Model>,
) -> Result<Vec<Choice>, TraceError> {
    let choose = |manner| chosen(facts, run, memory_bytes, manner);
    let careful = choose(Manner::Careful);
    let Some(model) = model.filter(|_| choose::is_any_worth_it(run)) else {
        return Ok(careful);
    };
    let mut ways = vec![careful];
    for manner in [
        Manner::UnorderedFirst,
        Manner::PartsOfUnordered,
        Manner::DensestFirst,
        Manner::SmallestFirst,
    ] {
        let choices = choose(manner);
        if !ways.contains(&choices) {
            ways.push(choices);
        }
    }
    let at_random = hot_at_random(facts, run, memory_bytes);
    if !at_random.is_empty() && !ways.contains(&at_random) {
        ways.push(at_random);
    }
    let judge = Judge::new(
        trace,
        (subjects, layouts),
        (facts, run),
        model,
        memory_bytes,
    )?;
    let best = least_swapped(&judge, ways, run);
    let mut best = best.expect("the careful way is always there");
    let is_worth_it =
        |best: &Judged| best.is_worth_it(judge.share_of_threads(&best.choices), (facts, run));
    let may_be_kept = |(subject, object): (&Subject<'_>, &ObjectFacts)| {
        subject.target.is_ok() && object.tells_uses()
    };
    let may_be_kept: Vec<bool> = subjects.iter().zip(facts).map(may_be_kept).collect();
    let by_uses = match run.has_uneven_pauses {
        true => Vec::new(),
        false => judge.uses(&may_be_kept).ways(facts, run, memory_bytes),
    };
    if let Some((mut used, share_left)) = least_swapped_in_doubt(&judge, by_uses, run)
        && share_left < CLEARLY_BETTER * in_doubt(&judge, &best).min(1.0)
        && (!is_worth_it(&best) || are_comparable(&used.choices, &best.choices))
    {
        promise(&judge, &mut used, (facts, run));
        used.choices = predict::without_small_gains(used.choices, facts, run);
        most_used::add_others(&mut used.choices, &best.choices);
        if used.choices.iter().any(Choice::acts) {
            return Ok(used.choices);
        }
    }
    if !is_worth_it(&best) {
        for choice in &mut best.choices {
            choice.give_up("by simulation no fewer pages would be swapped in: what it gained, other memory would lose");
        }
    } else if best.is_of_locks() {
        best = with_no_more_than_needed(&judge, best, run);
        promise(&judge, &mut best, (facts, run));
        best.choices = predict::without_small_simulated_gains(best.choices, facts, run);
    }
    Ok(best.choices)
}

/// What is chosen in this manner, without what promises too little, and with what stays beside sweeps.
fn chosen(facts: &[ObjectFacts], run: &RunFacts, memory_bytes: u64, manner: Manner) -> Vec<Choice> {
    let choices = choose::choose(facts, run, memory_bytes, manner);
    let mut choices = predict::without_small_gains(choices, facts, run);
    choose::lock_beside_sweeps(&mut choices, facts, run, memory_bytes);
    choices
}

/// A way in which what seems to be gone through in rounds in no order is used at random, if a part of it is used more than the rest then.
fn hot_at_random(facts: &[ObjectFacts], run: &RunFacts, memory_bytes: u64) -> Vec<Choice> {
    if !facts.iter().any(ObjectFacts::may_be_random) {
        return Vec::new();
    }
    let others: Vec<ObjectFacts> = facts
        .iter()
        .map(|object| match object.may_be_random() {
            true => object.at_random(),
            false => object.clone(),
        })
        .collect();
    let choices = chosen(&others, run, memory_bytes, Manner::Careful);
    let is_hot = |choice: &Choice| choice.is_of_hot_part(&others[choice.object]);
    match choices.iter().any(is_hot) {
        true => choices,
        false => Vec::new(),
    }
}

/// Says of each of these locks what it saves: of the stall what is swapped no more by them all, in proportion to what would be swapped again
/// without it.
fn promise(judge: &Judge<'_>, judged: &mut Judged, (facts, run): (&[ObjectFacts], &RunFacts)) {
    let left_of_streamed = predict::left_of_streamed(run);
    let gain = |without: &Choice| {
        let others = judged.choices.iter().filter(|one| *one != without);
        let others: Vec<Choice> = others.cloned().collect();
        (judge.share_left(&others, left_of_streamed) - judged.share_left).max(0.0)
    };
    let gains = judged.choices.iter().map(|choice| match choice.acts() {
        true => gain(choice),
        false => 0.0,
    });
    let gains: Vec<f64> = gains.collect();
    let all = gains.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let saved_ns = (1.0 - judged.share_left).max(0.0) * run.stall_ns as f64;
    for (choice, gain) in judged.choices.iter_mut().zip(gains) {
        let simulated = saved_ns * gain / all;
        let is_hot = run.swap_is_memory && choice.is_of_hot_part(&facts[choice.object]);
        let [least, likely, most] = match is_hot {
            true => OF_SIMULATED_HOT,
            false => OF_SIMULATED,
        };
        choice.saves = Some(Saves {
            likely: likely * simulated,
            least: least * simulated,
            most: most * simulated,
        });
    }
}

/// Of these, each without the rules that do harm, the one by which the program swaps least; `None`: there is none.
fn least_swapped(judge: &Judge<'_>, ways: Vec<Vec<Choice>>, run: &RunFacts) -> Option<Judged> {
    let judged = ways.into_iter().map(|way| judged(judge, way, run));
    preferred(judged.collect())
}

/// The one by which the program swaps least, or, of locks that are about as good, those that keep least.
fn preferred(judged: Vec<Judged>) -> Option<Judged> {
    let judged = judged.into_iter().map(|one| {
        let most_left = one.most_left;
        (one, most_left)
    });
    preferred_of(judged.collect()).map(|(best, _)| best)
}

/// The same, by what is said beside each to be left.
fn preferred_of(mut judged: Vec<(Judged, f64)>) -> Option<(Judged, f64)> {
    judged.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let (_, least) = judged.first()?;
    let most = least + AS_GOOD;
    let is_as_good = |(one, left): &&(Judged, f64)| *left <= most && one.is_of_locks();
    let locks = judged.iter().take_while(is_as_good);
    let least_kept = (0..)
        .zip(locks)
        .min_by_key(|(_, (one, _))| one.kept_bytes());
    let best = least_kept.map_or(0, |(at, _)| at);
    Some(judged.swap_remove(best))
}

/// The same of ways that nothing but the simulation speaks for, as judged with what that cannot know.
fn least_swapped_in_doubt(
    judge: &Judge<'_>,
    ways: Vec<Vec<Choice>>,
    run: &RunFacts,
) -> Option<(Judged, f64)> {
    let judged = ways.into_iter().map(|way| judged(judge, way, run));
    let judged = judged.map(|judged| {
        let share_left = in_doubt(judge, &judged);
        (judged, share_left)
    });
    preferred_of(judged.collect())
}

/// What is left of the swap-ins, with what may be missed in pauses of which nothing is known, if anything is done at all.
fn in_doubt(judge: &Judge<'_>, judged: &Judged) -> f64 {
    let missed = match judged.choices.iter().any(Choice::acts) {
        true => judge.most_missed_in_pauses(&judged.choices),
        false => 0.0,
    };
    judged.most_left + LIKELY_IN_PAUSES * missed
}

fn judged(judge: &Judge<'_>, mut choices: Vec<Choice>, run: &RunFacts) -> Judged {
    let left_of_streamed = predict::left_of_streamed(run);
    without_passed_over(&mut choices, |object| judge.is_passed_over(object));
    without_vain_streams(&mut choices, |choices| judge.left_alone(choices));
    let share_left = without_harm(judge, &mut choices, left_of_streamed);
    let judged = Judged::of(choices, share_left);
    if !judged.is_of_locks() || !judged.choices.iter().any(Choice::acts) {
        return judged;
    }
    let judged = with_room_to_spare(
        judged,
        |locks| judge.share_left(locks, 1.0),
        |locks| judge.share_left_in_less_room(locks),
    );
    let left = judge.most_left_by_turns(&judged.choices);
    without_harm_at_worst(judged, left)
}

/// These locks, or none of them if more may be swapped than without: what is `left` if all else that is swept is missing at each turn.
fn without_harm_at_worst(mut judged: Judged, left: Option<f64>) -> Judged {
    if left.is_none_or(|left| left <= MOST_AT_WORST) {
        return judged;
    }
    for choice in &mut judged.choices {
        choice.give_up("what is swept besides might be missing at each of its turns then, and more be swapped than without");
    }
    Judged::of(judged.choices, 1.0)
}

/// These locks, or, where in somewhat less memory they leave far more to be swapped, the same with parts of what they keep of an object that do not, and
/// are worth it. `left` and `left_in_less`: by locks, what they leave, and what in somewhat less memory. What is locked as a whole, or in places, stays as it is.
fn with_room_to_spare(
    judged: Judged,
    left: impl Fn(&[Choice]) -> f64,
    left_in_less: impl Fn(&[Choice]) -> f64,
) -> Judged {
    let judge = |choices: Vec<Choice>, share_left: f64| Judged {
        most_left: share_left.max(left_in_less(&choices)),
        choices,
        share_left,
    };
    let is_tight = |judged: &Judged| judged.most_left > judged.share_left + FAR_MORE;
    let parts_of = |choice: &Choice| -> Vec<Choice> {
        let parts = FINE_PARTS / 2..FINE_PARTS;
        parts
            .filter_map(|part| choice.part(part, FINE_PARTS))
            .collect()
    };
    let mut best = judge(judged.choices.clone(), judged.share_left);
    for at in 0..best.choices.len() {
        if !is_tight(&best) {
            break;
        }
        let with = |part: Choice| {
            let mut choices = best.choices.clone();
            choices[at] = part;
            let share_left = left(&choices);
            judge(choices, share_left)
        };
        let less: Vec<Judged> = parts_of(&best.choices[at]).into_iter().map(with).collect();
        let least = less
            .into_iter()
            .min_by(|a, b| a.most_left.total_cmp(&b.most_left));
        if let Some(least) = least.filter(|least| least.most_left + AS_GOOD < best.most_left) {
            best = least;
        }
    }
    match !is_tight(&best) && best.most_left <= WORTH_IT {
        true => best,
        false => judged,
    }
}

/// Whether by simulation alone one way can be told to be better than another: of locks. What a page costs that is read ahead is known about
/// only (a banded matrix with three quarters of its memory was 0.85 times as fast by a way that was to swap a tenth less, and read ahead of more).
fn are_comparable(one: &[Choice], other: &[Choice]) -> bool {
    !one.iter().chain(other).any(Choice::is_read_ahead)
}

/// Drops what would be read ahead of sweeps that leave most of it out.
fn without_passed_over(choices: &mut [Choice], is_passed_over: impl Fn(usize) -> bool) {
    for choice in choices.iter_mut() {
        if choice.is_read_ahead() && is_passed_over(choice.object) {
            choice.give_up("its sweeps leave out much of what lies ahead of them, which would be read in for nothing");
        }
    }
}

/// Drops what would be read ahead in vain: objects that are `left_alone` with these choices. What they take no more may be enough for others to be, too.
fn without_vain_streams(choices: &mut [Choice], left_alone: impl Fn(&[Choice]) -> Vec<usize>) {
    loop {
        let vain = left_alone(choices);
        if vain.is_empty() {
            return;
        }
        let of_these = |choice: &&mut Choice| vain.contains(&choice.object);
        for choice in choices.iter_mut().filter(of_these) {
            choice.give_up(
                "what would be dropped behind its sweeps is wanted again while it would be in memory still",
            );
        }
    }
}

/// Drops the rules without which the program swaps no more. What is left of the swap-ins.
fn without_harm(judge: &Judge<'_>, choices: &mut [Choice], left_of_streamed: f64) -> f64 {
    let was_followed = choices.iter().any(Choice::is_followed);
    let mut share = judge.share_left(choices, left_of_streamed);
    for at in 0..choices.len() {
        if !choices[at].acts() {
            continue;
        }
        let kept = choices[at].clone();
        choices[at].give_up("by simulation the others would lose more than it gained");
        let without = judge.share_left(choices, left_of_streamed);
        let is_dropped = match tells_how_much_room_there_is(&kept, choices) {
            true => without < share,
            false => without <= share,
        };
        if !is_dropped {
            choices[at] = kept;
            continue;
        }
        share = without;
        if let Some((less, of_less)) = with_less(judge, choices, &kept, left_of_streamed)
            && of_less < without
        {
            (choices[at], share) = (less, of_less);
        }
    }
    match was_followed && !choices.iter().any(Choice::is_followed) {
        // Locks that stayed beside that alone have to bring something themselves now.
        true => without_harm(judge, choices, left_of_streamed),
        false => share,
    }
}

/// Half or a quarter of what a rule was to keep that keeps too much, in place of what is chosen for its object: the better one, with what is left of
/// the swap-ins then. `None`: it keeps no part of a sweep.
fn with_less(
    judge: &Judge<'_>,
    choices: &[Choice],
    kept: &Choice,
    left_of_streamed: f64,
) -> Option<(Choice, f64)> {
    let half = kept.halved()?;
    let parts = std::iter::successors(Some(half), Choice::halved).take(HALVES);
    let judged = parts.map(|part| {
        let others = choices.iter().filter(|other| other.object != kept.object);
        let tried: Vec<Choice> = others.chain([&part]).cloned().collect();
        let share = judge.share_left(&tried, left_of_streamed);
        (part, share)
    });
    judged.min_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// The same locks, of which those that keep a part of what is swept keep no more of it than is about as good as the best: what they leave may be used more
/// than is known. One of 60 MiB of 72 made a program 0.82 times as fast for which one of 40 brought 1.21.
fn with_no_more_than_needed(judge: &Judge<'_>, mut best: Judged, run: &RunFacts) -> Judged {
    let left_of_streamed = predict::left_of_streamed(run);
    // What it leaves is what it has left by simulation, as that of its parts is.
    best.most_left = best.share_left;
    for at in 0..best.choices.len() {
        let with = |part: Choice| {
            let mut choices = best.choices.clone();
            choices[at] = part;
            let share_left = judge.share_left(&choices, left_of_streamed);
            Judged::of(choices, share_left)
        };
        let parts = (1..PARTS).filter_map(|part| best.choices[at].part(part, PARTS));
        let less: Vec<Judged> = parts.map(with).collect();
        best = preferred(less.into_iter().chain([best]).collect()).expect("the best is there");
    }
    best
}

/// Whether it locks something beside sweeps that are followed. What fits beside a sweep that is dropped behind stays without a lock, too; but then
/// the library, to which it raises no faults, takes all of memory for the sweep's own, and what it drops for what would have stayed.
fn tells_how_much_room_there_is(choice: &Choice, choices: &[Choice]) -> bool {
    let is_lock = matches!(choice.action, Action::Lock { .. }) && !choice.is_followed();
    is_lock && choices.iter().any(Choice::is_followed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::facts_of;
    use crate::run_facts::tests::run;
    use crate::subjects::tests::object;
    use pagewise_plan::ReadAhead;

    fn way(keeps: u64, is_read_ahead: bool, share_left: f64) -> Judged {
        let action = match is_read_ahead {
            true => Action::Stream {
                keep_bytes: Some(keeps),
                keep_more: false,
                ahead: ReadAhead::default(),
            },
            false => Action::Lock {
                keep_bytes: Some(keeps),
                keep_more: false,
                ranges: Vec::new(),
                together: false,
            },
        };
        let choice = Choice {
            object: 0,
            action,
            why: String::new(),
            kept_bytes: keeps,
            saves: None,
        };
        Judged::of(vec![choice], share_left)
    }

    #[test]
    fn locks_are_given_up_by_which_more_may_be_swapped_than_without() {
        let judged = |left| without_harm_at_worst(way(4096, false, 0.7), left);
        for harmless in [None, Some(0.8)] {
            assert!(judged(harmless).choices[0].acts());
            assert_eq!(judged(harmless).share_left, 0.7);
        }
        let harmful = judged(Some(1.4));
        assert!(!harmful.choices[0].acts());
        assert_eq!(harmful.share_left, 1.0);
    }

    #[test]
    fn what_is_passed_over_is_not_read_ahead() {
        let stream = |object| Choice {
            object,
            ..way(4096, true, 1.0).choices.remove(0)
        };
        let mut choices = [1, 2].map(stream);
        without_passed_over(&mut choices, |object| object == 2);
        assert_eq!(choices.map(|choice| choice.acts()), [true, false]);
    }

    #[test]
    fn what_would_be_read_ahead_in_vain_is_dropped_and_then_what_is_so_without_it() {
        let stream = |object| Choice {
            object,
            ..way(4096, true, 1.0).choices.remove(0)
        };
        let mut choices = [1, 2, 3].map(stream);
        // Without the second the first is in vain, too.
        without_vain_streams(&mut choices, |choices| {
            let acts = |at: usize| choices[at].acts();
            match (acts(0), acts(1)) {
                (true, true) => vec![2],
                (true, false) => vec![1],
                _ => Vec::new(),
            }
        });
        assert_eq!(choices.map(|choice| choice.acts()), [false, false, true]);
    }

    #[test]
    fn what_is_read_ahead_of_has_to_save_more_where_swap_is_memory() {
        let facts = [facts_of(&[object("array", 100 << 20, 0)])];
        let zram = RunFacts {
            swap_is_memory: true,
            ..run()
        };
        let file = RunFacts {
            swap_is_memory: false,
            ..zram
        };
        let is_worth_it = |is_read_ahead, share_left, run: &RunFacts| {
            way(10, is_read_ahead, share_left).is_worth_it(0.0, (&facts, run))
        };
        assert!(is_worth_it(true, 0.75, &zram) && !is_worth_it(true, 0.76, &zram));
        assert!(is_worth_it(true, 0.9, &file) && !is_worth_it(true, 0.91, &file));
        assert!(is_worth_it(false, 0.9, &zram) && !is_worth_it(false, 0.91, &zram));
    }

    #[test]
    fn where_several_threads_wait_locks_have_to_save_more() {
        let facts = [facts_of(&[object("array", 100 << 20, 0)])];
        let run = run();
        let is_worth_it =
            |left, of_threads| way(10, false, left).is_worth_it(of_threads, (&facts, &run));
        assert!(is_worth_it(0.9, 0.2) && !is_worth_it(0.9, 0.21));
        assert!(is_worth_it(0.75, 1.0) && !is_worth_it(0.76, 1.0));
    }

    #[test]
    fn of_locks_as_good_those_that_keep_least_are_preferred() {
        let kept = |judged| preferred(judged).map(|one| one.kept_bytes());
        let locks = || {
            vec![
                way(87, false, 0.795),
                way(75, false, 0.807),
                way(40, false, 0.9),
            ]
        };
        assert_eq!(kept(locks()), Some(75));
        // Of sweeps the kept start counts by itself.
        let streams = vec![way(87, true, 0.795), way(75, true, 0.807)];
        assert_eq!(kept(streams), Some(87));
        let mut mixed = locks();
        mixed.push(way(10, true, 0.79));
        assert_eq!(kept(mixed), Some(10), "it is the best");
        mixed = locks();
        mixed.push(way(10, true, 0.81));
        assert_eq!(kept(mixed), Some(75), "nothing is read ahead for less");
        assert_eq!(kept(Vec::new()), None);
        // What is in doubt of each counts, if that is said.
        let in_doubt = locks().into_iter().zip([0.85, 0.93, 0.94]).collect();
        let best = preferred_of(in_doubt).map(|(one, left)| (one.kept_bytes(), left));
        assert_eq!(best, Some((87, 0.85)));
        let in_doubt = locks().into_iter().zip([0.93, 0.95, 0.94]).collect();
        let best = preferred_of(in_doubt).map(|(one, left)| (one.kept_bytes(), left));
        assert_eq!(best, Some((40, 0.94)));
    }

    #[test]
    fn of_locks_that_leave_just_room_enough_a_part_is_made() {
        let kept = |most_room: u64| {
            let of_kept = |kept: u64| 1.0 - kept as f64 / 200.0;
            let left = |locks: &[Choice]| of_kept(locks[0].kept_bytes >> 20);
            let left_in_less = |locks: &[Choice]| match locks[0].kept_bytes >> 20 > most_room {
                true => 1.5,
                false => left(locks),
            };
            let spared = with_room_to_spare(way(80 << 20, false, 0.6), left, left_in_less);
            (
                spared.kept_bytes() >> 20,
                spared.share_left,
                spared.most_left,
            )
        };
        assert_eq!(kept(80), (80, 0.6, 0.6));
        assert_eq!(kept(75), (70, 0.65, 0.65), "seven eighths");
        assert_eq!(kept(45), (40, 0.8, 0.8));
        // Where no part is worth it, all of it is judged as it is.
        assert_eq!(kept(10), (80, 0.6, 0.6));
    }

    #[test]
    fn what_has_no_parts_is_judged_as_it_is() {
        let mut whole = way(80 << 20, false, 0.6);
        let Action::Lock { keep_bytes, .. } = &mut whole.choices[0].action else {
            panic!("a lock");
        };
        *keep_bytes = None;
        let spared = with_room_to_spare(whole, |_| 0.6, |_| 1.5);
        assert_eq!((spared.share_left, spared.most_left), (0.6, 0.6));
    }
}
