//! Whether a run under locks waits more than it did without: then it is tried without them, and they are given up if they save nothing.
//!
//! Nothing tells of a lock how often its pages are used, nor of what it pushes out, so that a plan may be wrong. But its recording tells how many major faults
//! the program had had by how much work of its own (user time: faults, and how long they wait, are the kernel's). Of two runs that do the same
//! that is the same, however fast they are, and of what goes beyond the recording nothing is known.
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
use super::rest;
use crate::sandbox;

/// It is looked so often.
const LOOK_EVERY_NS: u64 = 20_000_000;
/// A run may be so far ahead of the recording with the same user time, which the kernel tells by its ticks,
const AHEAD_NS: u64 = 50_000_000;
/// and by such a part of it. Of eleven programs a recorded run took 0.94 to 1.15 times as much user time as one without a plan and had 0.92 to 1.15 times as many major faults; but a
/// program that allocates much is behind by a quarter at its begin when it is recorded, as allocations cost more then, and may wait most of its time within a tenth of a second of its work.
const AHEAD: f64 = 0.25;
/// It may have so many major faults more: some come of files, some of a moment when all was in need.
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
    let recorded = || plan.view.headway();
    let mut leftover = Leftover::default();
    let mut aside = THREAD.aside();
    let mut doubt = Doubt::new(recorded().last().map_or(0, |(_, majors)| majors));
    loop {
        let now_ns = interpose::now_ns();
        if leftover.is_all(now_ns) || sandbox::is_in() {
            return;
        }
        aside.step_unheard(now_ns);
        let (user_ns, majors) = system::headway();
        let seen = Seen {
            majors: majors as f64,
            recorded: faults_by(recorded(), user_ns),
            recorded_at_most: faults_by(recorded(), at_most(user_ns)),
            kept: (rest::kept_bytes(plan) / PAGE as u64) as f64,
        };
        match doubt.note(&seen) {
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
        system::pause_ns(LOOK_EVERY_NS);
    }
}

/// How far a run may have got with so much user time, by the recording's.
fn at_most(user_ns: u64) -> u64 {
    user_ns + (AHEAD * user_ns as f64) as u64 + AHEAD_NS
}

/// How many major faults had been recorded by so much user time; `None`: it was over by then.
fn faults_by(recorded: impl Iterator<Item = (u64, u64)>, user_ns: u64) -> Option<f64> {
    let mut before = (0, 0);
    for point in recorded {
        if point.0 >= user_ns {
            let (way, length) = (user_ns - before.0, (point.0 - before.0).max(1));
            let more = (point.1 - before.1) as f64 * way as f64 / length as f64;
            return Some(before.1 as f64 + more);
        }
        before = point;
    }
    None
}

/// What a look sees: major faults so far, and pages that locks keep.
struct Seen {
    majors: f64,
    /// Recorded by as much work,
    recorded: Option<f64>,
    /// by as much as it may be, as it is told inexactly.
    recorded_at_most: Option<f64>,
    kept: f64,
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

/// Major faults, and those that were recorded, from when on something is counted.
#[derive(Clone, Copy, Debug)]
struct Mark {
    majors: f64,
    recorded: f64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing has been locked yet.
    Before,
    /// Locked, and nothing speaks against it.
    Locked(Mark),
    /// Not locked any more. What was kept so many pages of is still there for the most part; with locks there were so many times as many
    /// major faults as recorded.
    Leaving {
        since: Mark,
        kept: f64,
        with: f64,
    },
    Without {
        since: Mark,
        with: f64,
    },
    /// Locked again, as there were so many times as many without.
    Proven {
        since: Mark,
        without: f64,
    },
}

/// Whether locks do harm. Pure.
struct Doubt {
    state: State,
    /// Major faults of a trial, by what was recorded.
    tried: f64,
}

impl Doubt {
    /// Of a program that had so many major faults when it was recorded.
    fn new(recorded: u64) -> Self {
        Self {
            state: State::Before,
            tried: TRIED.max(TRIED_SHARE * recorded as f64),
        }
    }

    fn note(&mut self, seen: &Seen) -> Step {
        let (Some(recorded), Some(at_most)) = (seen.recorded, seen.recorded_at_most) else {
            // Beyond the recording.
            return Step::GoOn;
        };
        let now = Mark {
            majors: seen.majors,
            recorded,
        };
        let is_kept = seen.kept > 0.0;
        let (step, next) = match self.state {
            State::Before if is_kept => (Step::GoOn, State::Locked(now)),
            State::Locked(since)
                if is_kept && now.majors - since.majors > at_most - since.recorded + MORE =>
            {
                let leaving = State::Leaving {
                    since: now,
                    kept: seen.kept,
                    with: since.times(&now),
                };
                (Step::Rest, leaving)
            }
            State::Leaving { since, kept, with } if since.most_until(&now) >= kept / 2.0 => {
                (Step::GoOn, State::Without { since: now, with })
            }
            State::Without { since, with } if now.recorded - since.recorded >= self.tried => {
                let without = since.times(&now);
                match with < (1.0 - SAVES) * without {
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
                if now.majors - since.majors
                    > TOO_MANY * without * (at_most - since.recorded) + MORE + seen.kept =>
            {
                (Step::GiveUp, self.state)
            }
            state => (Step::GoOn, state),
        };
        self.state = next;
        step
    }
}

impl Mark {
    /// How many times as many major faults there were since as were recorded.
    fn times(&self, now: &Self) -> f64 {
        (now.majors - self.majors) / (now.recorded - self.recorded).max(1.0)
    }

    /// How many came since, or were recorded to.
    fn most_until(&self, now: &Self) -> f64 {
        (now.majors - self.majors).max(now.recorded - self.recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const KEPT: f64 = 2000.0;

    #[test]
    fn between_points_faults_come_evenly_and_beyond_the_last_is_nothing_known() {
        let recorded = [(100 * MS, 0), (500 * MS, 8000), (1000 * MS, 40_000)];
        let by = |ms| faults_by(recorded.into_iter(), ms * MS);
        assert_eq!(by(0), Some(0.0));
        assert_eq!(by(100), Some(0.0));
        assert_eq!(by(300), Some(4000.0));
        assert_eq!(by(1000), Some(40_000.0));
        assert_eq!(by(1001), None);
        assert_eq!(faults_by(std::iter::empty(), 0), None);
    }

    /// A run of a program that had 100,000 major faults, each after as much work: of these, so many times as many come with locks and without, from that one
    /// on. What was done, and after how many.
    fn run(with: f64, without: f64, noise: f64) -> Vec<(Step, u64)> {
        let mut doubt = Doubt::new(100_000);
        let (mut majors, mut is_locked, mut done) = (0.0, true, Vec::new());
        for recorded in (0..100_000).step_by(100) {
            majors += 100.0 * noise * if is_locked { with } else { without };
            let recorded = f64::from(recorded);
            let step = doubt.note(&Seen {
                majors,
                recorded: Some(recorded),
                recorded_at_most: Some((1.0 + AHEAD) * recorded),
                kept: if is_locked { KEPT } else { 0.0 },
            });
            if step != Step::GoOn {
                done.push((step, recorded as u64));
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

    fn steps(with: f64, without: f64, noise: f64) -> Vec<Step> {
        let done = run(with, without, noise);
        done.into_iter().map(|(step, _)| step).collect()
    }

    #[test]
    fn locks_that_do_harm_are_given_up_soon() {
        let done = run(1.6, 1.0, 1.0);
        let [(Step::Rest, rested), (Step::GiveUp, given_up)] = done[..] else {
            panic!("{done:?}");
        };
        assert!(rested < 5000 && given_up < 12_000, "{done:?}");
        assert_eq!(steps(10.0, 1.0, 1.0), [Step::Rest, Step::GiveUp]);
        assert_eq!(steps(1.5, 1.0, 1.0), [Step::Rest, Step::GiveUp]);
        // Also of no use.
        assert_eq!(steps(1.0, 1.0, 1.5), [Step::Rest, Step::GiveUp]);
    }

    #[test]
    fn locks_that_save_something_stay() {
        assert_eq!(steps(0.9, 1.0, 1.0), []);
        assert_eq!(steps(1.0, 1.0, 1.0), [], "what is not suspect is not tried");
    }

    #[test]
    fn a_run_that_waits_more_by_itself_has_its_locks_again() {
        assert_eq!(steps(0.85, 1.0, 1.7), [Step::Rest, Step::LockAgain]);
    }

    #[test]
    fn what_proved_itself_and_then_does_harm_is_given_up_too() {
        let mut doubt = Doubt::new(100_000);
        let mut step = |majors: f64, recorded: f64| {
            doubt.note(&Seen {
                majors,
                recorded: Some(recorded),
                recorded_at_most: Some(recorded),
                kept: KEPT,
            })
        };
        assert_eq!(step(0.0, 0.0), Step::GoOn);
        assert_eq!(step(15_000.0, 10_000.0), Step::Rest);
        assert_eq!(step(17_000.0, 11_000.0), Step::GoOn);
        assert_eq!(step(27_000.0, 16_000.0), Step::LockAgain);
        assert_eq!(step(51_000.0, 26_000.0), Step::GoOn);
        assert_eq!(step(56_000.0, 26_000.0), Step::GiveUp);
    }

    #[test]
    fn nothing_is_done_before_there_are_locks_and_beyond_the_recording() {
        let mut doubt = Doubt::new(100_000);
        let seen = |majors, recorded, kept| Seen {
            majors,
            recorded,
            recorded_at_most: recorded,
            kept,
        };
        assert_eq!(doubt.note(&seen(50_000.0, Some(10.0), 0.0)), Step::GoOn);
        assert_eq!(doubt.note(&seen(50_000.0, Some(10.0), KEPT)), Step::GoOn);
        assert_eq!(doubt.note(&seen(51_000.0, Some(20.0), KEPT)), Step::GoOn);
        assert_eq!(doubt.note(&seen(90_000.0, None, KEPT)), Step::GoOn);
        assert_eq!(doubt.note(&seen(90_000.0, Some(30.0), 0.0)), Step::GoOn);
        assert_eq!(doubt.note(&seen(90_000.0, Some(30.0), KEPT)), Step::Rest);
    }
}
