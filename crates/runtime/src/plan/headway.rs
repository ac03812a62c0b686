//! Whether a run under locks waits more than it did without: then it is tried without them, and they are given up if they save nothing.
//!
//! Nothing tells of a lock how often its pages are used, nor of what it pushes out, so that a plan may be wrong. But its recording tells how many major faults
//! the program had had by how much work of its own ([`super::recorded`]).
//!
//! ```text
//!   locked --more than recorded--> leaving --as much came as was kept--> without --enough seen--> given up, or locked again
//! ```
//!
//! The launcher sends nothing of that with plans that read ahead: what is read ahead of a sweep are major faults, too, for which nobody waits; and
//! sweeps are measured themselves ([`super::gain`]).

use pagewise_interpose as interpose;
use pagewise_interpose::Leftover;
use pagewise_interpose::system;

use super::Hook;
use super::aside;
use super::beside::Beside;
use super::loaded;
use super::loaded::Plan;
use super::object::PAGE;
use super::recorded::Mark;
use super::recorded::Points;
use super::recorded::Recorded;
use super::rest;
use crate::sandbox;

/// It is looked so often.
const LOOK_EVERY_NS: u64 = 20_000_000;
/// A run may have so many major faults more than recorded: some come of files, some of a moment when all was in need.
const MORE: f64 = 1024.0;
/// The trial is over as soon as such a part of all that was recorded would have come, and so many at least.
const TRIED_SHARE: f64 = 0.05;
const TRIED: f64 = 2048.0;
/// Locks have to save such a part of what comes without them.
const SAVES: f64 = 0.05;
/// After the trial so many times as many major faults as were seen without locks are too many.
const TOO_MANY: f64 = 1.25;

static THREAD: Beside = Beside::new();

/// Starts to look, once there are locks. Only where no allocator's lock is held.
pub(super) fn watch(plan: &Plan) {
    if is_wanted(plan) {
        THREAD.start(plan, look);
    }
}

/// The same for a new object, if that may be done now.
pub(super) fn watch_for(plan: &Plan, hook: Hook) {
    if is_wanted(plan) && THREAD.may_start(hook) {
        THREAD.start(plan, look);
    }
}

fn is_wanted(plan: &Plan) -> bool {
    if !plan.is_held_against_recording() {
        return false;
    }
    aside::note_maker();
    !THREAD.is_started() && rest::kept_bytes(plan) > 0 && !sandbox::is_in()
}

/// A forked child has no such thread.
pub(super) fn forget() {
    THREAD.forget();
}

fn look() {
    let Some(plan) = loaded::plan() else {
        return;
    };
    let recorded = Recorded::new(|| plan.view.headway());
    let mut leftover = Leftover::default();
    let mut aside = THREAD.aside();
    let mut doubt = Doubt::new(recorded.all());
    loop {
        let now_ns = interpose::now_ns();
        if leftover.is_all(now_ns) || sandbox::is_in() {
            return;
        }
        aside.step_unheard(now_ns);
        let (user_ns, majors) = system::headway();
        let now = Mark {
            user_ns,
            majors: majors as f64,
        };
        let kept = (rest::kept_bytes(plan) / PAGE as u64) as f64;
        match doubt.note(now, kept, &recorded) {
            Step::GoOn => {}
            Step::Rest => rest::begin(plan),
            Step::LockAgain => rest::lock_again(plan),
            Step::GiveUp => {
                rest::begin(plan);
                // One that was being locked meanwhile.
                system::pause_ns(LOOK_EVERY_NS);
                rest::begin(plan);
                rest::note_given_up(plan);
                return;
            }
        }
        if recorded.is_over(now.user_ns) {
            // There is nothing to hold more of the run against.
            return;
        }
        system::pause_ns(LOOK_EVERY_NS);
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    GoOn,
    /// Nothing is to be locked, until it is known what that brings.
    Rest,
    LockAgain,
    GiveUp,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing has been locked yet.
    Before,
    /// Locked, and nothing speaks against it.
    Locked(Mark),
    /// Not locked any more. What was kept so many pages of is still there for the most part.
    Leaving {
        since: Mark,
        kept: f64,
        with: Times,
    },
    Without {
        since: Mark,
        with: Times,
    },
    /// Locked again, as there were so many times as many without.
    Proven {
        since: Mark,
        without: Times,
    },
    /// Locked again, as the recording ended during the trial.
    Over,
}

/// How many times as many major faults there were as recorded.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// By the same user time,
    there: f64,
    /// and where about then most came.
    near: f64,
}

impl Times {
    fn of(since: &Mark, now: &Mark, recorded: &Recorded<impl Points>) -> Self {
        let majors = now.majors - since.majors;
        Self {
            there: majors / recorded.between(since, now).max(1.0),
            near: majors / recorded.most_near(since, now).max(1.0),
        }
    }

    /// Whether locks with which it was so saved something of these, by one of both: if the run is ahead of the recording or behind it, the first
    /// is of something else.
    fn is_saving(&self, without: &Self) -> bool {
        let most = 1.0 - SAVES;
        self.there < most * without.there || self.near < most * without.near
    }
}

/// Whether locks do harm. Pure.
struct Doubt {
    state: State,
    /// Major faults of a trial, by what was recorded.
    tried: f64,
}

impl Doubt {
    /// Of a program that had so many major faults when it was recorded.
    fn new(recorded: f64) -> Self {
        Self {
            state: State::Before,
            tried: TRIED.max(TRIED_SHARE * recorded),
        }
    }

    fn note(&mut self, now: Mark, kept: f64, recorded: &Recorded<impl Points>) -> Step {
        if recorded.is_over(now.user_ns) {
            return self.end();
        }
        let is_kept = kept > 0.0;
        let (step, next) = match self.state {
            State::Before if is_kept => (Step::GoOn, State::Locked(now)),
            State::Locked(since)
                if is_kept
                    && is_more(&since, &now, recorded)
                    && recorded.after(now.user_ns) >= kept / 2.0 + self.tried =>
            {
                let with = Times::of(&since, &now, recorded);
                let since = now;
                (Step::Rest, State::Leaving { since, kept, with })
            }
            State::Leaving { since, kept, with }
                if now.majors - since.majors >= kept / 2.0
                    || recorded.between(&since, &now) >= kept / 2.0 =>
            {
                (Step::GoOn, State::Without { since: now, with })
            }
            State::Without { since, with } if recorded.between(&since, &now) >= self.tried => {
                let without = Times::of(&since, &now, recorded);
                match with.is_saving(&without) {
                    true => (
                        Step::LockAgain,
                        State::Proven {
                            since: now,
                            without,
                        },
                    ),
                    false => (Step::GiveUp, self.state),
                }
            }
            State::Proven { since, without }
                if is_more_than_without(&without, (&since, &now), kept, recorded) =>
            {
                (Step::GiveUp, self.state)
            }
            state => (Step::GoOn, state),
        };
        self.state = next;
        step
    }

    /// The recording is over: nothing more is known, and what was being tried is as it was.
    fn end(&mut self) -> Step {
        match self.state {
            State::Leaving { .. } | State::Without { .. } => {
                self.state = State::Over;
                Step::LockAgain
            }
            _ => Step::GoOn,
        }
    }
}

/// Whether there were clearly more major faults than in any such time near that was recorded.
fn is_more(since: &Mark, now: &Mark, recorded: &Recorded<impl Points>) -> bool {
    let more = now.majors - since.majors - MORE;
    more > 0.0 && more > recorded.most_near(since, now)
}

/// Whether there were clearly more than without locks, when these were made again.
fn is_more_than_without(
    without: &Times,
    (since, now): (&Mark, &Mark),
    kept: f64,
    recorded: &Recorded<impl Points>,
) -> bool {
    let more = now.majors - since.majors - MORE - kept;
    if more <= 0.0 {
        return false;
    }
    // Beside a burst, the most that is near tells little of a short time, and the count by the same time little of the burst.
    let near = without.near * recorded.most_near(since, now);
    let there = without.there * recorded.between(since, now);
    more > TOO_MANY * near.max(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const KEPT: f64 = 2000.0;

    /// 100,000 major faults in a second, evenly.
    fn even() -> Recorded<impl Points> {
        Recorded::new(|| [(1000 * MS, 100_000)].into_iter())
    }

    /// A run of which each ms has so many major faults: by the ms and whether all is locked. What was done, and at which ms.
    fn run(
        recorded: &Recorded<impl Points>,
        faults: impl Fn(u64, bool) -> f64,
    ) -> Vec<(Step, u64)> {
        let mut doubt = Doubt::new(recorded.all());
        let (mut majors, mut is_locked, mut done) = (0.0, true, Vec::new());
        for ms in 0..1000 {
            majors += faults(ms, is_locked);
            let now = Mark {
                user_ns: ms * MS,
                majors,
            };
            let step = doubt.note(now, if is_locked { KEPT } else { 0.0 }, recorded);
            if step != Step::GoOn {
                done.push((step, ms));
            }
            is_locked = match step {
                Step::GoOn => is_locked,
                Step::Rest | Step::GiveUp => false,
                Step::LockAgain => true,
            };
            if step == Step::GiveUp {
                break;
            }
        }
        done
    }

    /// The same with so many times as many as recorded.
    fn steps(with: f64, without: f64) -> Vec<Step> {
        let faults = |_, is_locked| 100.0 * if is_locked { with } else { without };
        let done = run(&even(), faults).into_iter();
        done.map(|(step, _)| step).collect()
    }

    #[test]
    fn locks_that_do_harm_are_given_up_soon() {
        let done = run(
            &even(),
            |_, is_locked| if is_locked { 160.0 } else { 100.0 },
        );
        let [(Step::Rest, rested), (Step::GiveUp, given_up)] = done[..] else {
            panic!("{done:?}");
        };
        assert!(rested < 70 && given_up < 140, "{done:?}");
        assert_eq!(steps(10.0, 1.0), [Step::Rest, Step::GiveUp]);
        assert_eq!(steps(1.25, 1.0), [Step::Rest, Step::GiveUp]);
        // Also of no use.
        assert_eq!(steps(1.5, 1.5), [Step::Rest, Step::GiveUp]);
    }

    #[test]
    fn harm_counts_when_it_is_more_than_was_saved() {
        let faults = |ms, is_locked| match (ms, is_locked) {
            (..300, true) => 60.0,
            (_, true) => 180.0,
            (_, false) => 100.0,
        };
        let done = run(&even(), faults);
        let [(Step::Rest, rested), (Step::GiveUp, _)] = done[..] else {
            panic!("{done:?}");
        };
        assert!((550..600).contains(&rested), "{done:?}");
    }

    #[test]
    fn locks_that_save_something_stay() {
        assert_eq!(steps(0.9, 1.0), []);
        assert_eq!(steps(1.0, 1.0), [], "what is not suspect is not tried");
    }

    #[test]
    fn a_run_that_waits_more_by_itself_has_its_locks_again() {
        assert_eq!(steps(1.45, 1.7), [Step::Rest, Step::LockAgain]);
    }

    /// 60,000 of the 80,000 come within a tenth of a second of the recording, and a tenth of a second sooner in a run.
    #[test]
    fn a_run_that_is_ahead_of_its_recording_keeps_locks_that_save_something() {
        let points = [(500 * MS, 10_000), (600 * MS, 70_000), (1000 * MS, 80_000)];
        let recorded = Recorded::new(|| points.into_iter());
        let of_ms = |ms: u64| {
            if (400..500).contains(&ms) {
                600.0
            } else {
                20.0
            }
        };
        let saved = |ms, is_locked| of_ms(ms) * if is_locked { 0.8 } else { 1.0 };
        assert_eq!(run(&recorded, saved), []);
    }

    #[test]
    fn what_is_saved_by_either_measure_is_saved() {
        let times = |there, near| Times { there, near };
        assert!(!times(1.5, 1.2).is_saving(&times(1.0, 0.9)));
        assert!(times(0.8, 1.2).is_saving(&times(1.0, 0.9)));
        assert!(times(1.5, 0.8).is_saving(&times(1.0, 0.9)));
        assert!(!times(0.96, 0.96).is_saving(&times(1.0, 1.0)));
    }

    #[test]
    fn what_proved_itself_and_then_does_harm_is_given_up_too() {
        let faults = |ms, is_locked| match (ms, is_locked) {
            (500.., true) => 350.0,
            (_, true) => 145.0,
            (_, false) => 170.0,
        };
        let done = run(&even(), faults);
        let [(Step::Rest, _), (Step::LockAgain, _), (Step::GiveUp, ended)] = done[..] else {
            panic!("{done:?}");
        };
        assert!(ended > 500, "{done:?}");
    }

    /// 10,000 in each tenth of a second, and 100,000 from 500 to 510 ms: a trial just before has these near.
    #[test]
    fn what_proved_itself_beside_a_burst_is_measured_by_what_came() {
        let points = [
            (500 * MS, 50_000),
            (510 * MS, 150_000),
            (1000 * MS, 200_000),
        ];
        let recorded = Recorded::new(|| points.into_iter());
        let without = Times {
            there: 1.7,
            near: 0.2,
        };
        let mark = |user_ms, majors| Mark {
            user_ns: user_ms * MS,
            majors,
        };
        let is_more = |majors| {
            let marks = (&mark(480, 0.0), &mark(680, majors));
            is_more_than_without(&without, marks, KEPT, &recorded)
        };
        assert!(!is_more(1.45 * 119_000.0));
        assert!(is_more(2.2 * 119_000.0));
    }

    #[test]
    fn a_trial_ends_with_the_recording_and_none_begins_shortly_before() {
        let faults = |_, is_locked| if is_locked { 160.0 } else { 100.0 };
        let late = |from: u64| {
            let faults = move |ms, is_locked| match ms < from {
                true => 100.0,
                false => faults(ms, is_locked),
            };
            let done = run(&even(), faults);
            done.into_iter().map(|(step, _)| step).collect::<Vec<_>>()
        };
        assert_eq!(late(300), [Step::Rest, Step::GiveUp]);
        assert_eq!(late(900), []);
        let mut doubt = Doubt::new(100_000.0);
        let mark = |user_ms, majors| Mark {
            user_ns: user_ms * MS,
            majors,
        };
        let mut note = |user_ms, majors| doubt.note(mark(user_ms, majors), KEPT, &even());
        assert_eq!(note(10, 0.0), Step::GoOn);
        assert_eq!(note(100, 30_000.0), Step::Rest);
        assert_eq!(note(1001, 120_000.0), Step::LockAgain);
        assert_eq!(note(1002, 120_000.0), Step::GoOn);
    }

    #[test]
    fn nothing_is_done_before_there_are_locks_and_beyond_the_recording() {
        let mut doubt = Doubt::new(100_000.0);
        let mut note = |majors, user_ms, kept| {
            let now = Mark {
                user_ns: user_ms * MS,
                majors,
            };
            doubt.note(now, kept, &even())
        };
        assert_eq!(note(50_000.0, 10, 0.0), Step::GoOn);
        assert_eq!(note(50_000.0, 10, KEPT), Step::GoOn);
        assert_eq!(note(52_000.0, 20, KEPT), Step::GoOn);
        assert_eq!(note(90_000.0, 1001, KEPT), Step::GoOn);
        assert_eq!(note(90_000.0, 30, 0.0), Step::GoOn);
        assert_eq!(note(90_000.0, 30, KEPT), Step::Rest);
    }
}
