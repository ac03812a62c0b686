//! The helper thread: follows sweeps by the program's own faults, reads ahead of them and drops behind; pages cold objects
//! out.
//!
//! It sleeps while the program does not swap. It takes none of the program's locks and does not allocate.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::PlanAction;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::Total;
use pagewise_interpose as interpose;
use pagewise_interpose::FaultEvents;
use pagewise_interpose::Leftover;
use pagewise_interpose::system;

use super::Hook;
use super::aside;
use super::aside::Aside;
use super::beside::Beside;
use super::bursts::BURST_NS;
use super::bursts::Bursts;
use super::bursts::SILENCE_NS;
use super::follower::Helpers;
use super::followers::Followers;
use super::heap;
use super::loaded;
use super::loaded::Plan;
use super::object::Object;
use super::objects;

/// So many major faults within so long mean swapping: from a disk, or of a program that computes much with each page, few come.
const SWAPPING: u64 = 32;
const SWAPPING_NS: u64 = 1_000_000_000;
const ASLEEP_NS: u64 = 5_000_000;
/// In a child that goes on with what its parent made, while nothing comes in, up to so long: there may be a hundred of them, and most may have
/// nothing to do.
const ASLEEP_IN_CHILD_NS: u64 = 100_000_000;
const BETWEEN_FAULTS_NS: u64 = 50_000;
/// On the processor on which the program runs.
const BESIDE_PROGRAM_NS: u64 = 200_000;
const WITHOUT_FAULTS_NS: u64 = 500_000;
/// While no sweep is to be read ahead of.
const WITHOUT_WORK_NS: u64 = 5_000_000;
/// Threads are looked for so often.
const THREADS_EVERY_NS: u64 = 20_000_000;
/// Without faults for so long, the program has stopped swapping.
const CALM_NS: u64 = 1_000_000_000;
/// Cold objects are paged out again after so long, doubled each time.
const COLD_AGAIN_NS: u64 = 250_000_000;

static THREAD: Beside = Beside::new();
/// In a forked child that goes on with its parent's objects: the parent's number; else 0.
static PARENT: AtomicU32 = AtomicU32::new(0);
/// It has ended.
const ENDED: u32 = u32::MAX;

/// Starts it, once. Only where no allocator's lock is held.
pub(super) fn start(plan: &Plan) {
    aside::note_maker();
    THREAD.start(plan, run);
}

/// Starts it for a new object, if that may be done now.
pub(super) fn start_for(plan: &Plan, hook: Hook) {
    aside::note_maker();
    if THREAD.may_start(hook) {
        start(plan);
    }
}

/// A forked child goes on with its parent's objects, whenever the thread is started.
pub(super) fn note_parent() {
    PARENT.store(system::parent_id(), Ordering::Relaxed);
}

/// A forked child has no such thread.
pub(super) fn forget() {
    THREAD.forget();
    PARENT.store(0, Ordering::Relaxed);
}

fn run() {
    let Some(plan) = loaded::plan() else {
        return;
    };
    match Followers::map(plan) {
        Some(followers) => Helper::new(plan, followers).run(),
        None => plan.status.set(Total::ThreadErrno, libc::ENOMEM as u64),
    }
}

struct Helper {
    plan: &'static Plan,
    events: FaultEvents,
    is_following: bool,
    /// It has asked for it.
    has_precedence: bool,
    /// The kernel refused to tell of faults.
    is_blind: bool,
    /// There was no memory for any ring at the last look.
    is_ringless: bool,
    followers: &'static mut Followers,
    aside: Aside,
    bursts: Bursts,
    /// Major faults at the beginning of a window in time, and when that was.
    majors: u64,
    majors_ns: u64,
    /// Pages of the program have been in swap.
    is_swap_seen: bool,
    /// How long it slept last, ns, and major faults by then.
    asleep_ns: u64,
    majors_asleep: u64,
    threads_seen_ns: u64,
    newest_ns: u64,
    cold_due_ns: u64,
    cold_rest_ns: u64,
    spent_ns: u64,
    leftover: Leftover,
}

impl Helper {
    fn new(plan: &'static Plan, followers: &'static mut Followers) -> Self {
        Self {
            plan,
            events: FaultEvents::new(),
            is_following: false,
            has_precedence: false,
            is_blind: false,
            is_ringless: false,
            followers,
            aside: THREAD.aside(),
            bursts: Bursts::new(),
            majors: system::major_faults(),
            majors_ns: 0,
            is_swap_seen: false,
            asleep_ns: ASLEEP_NS,
            majors_asleep: 0,
            threads_seen_ns: 0,
            newest_ns: 0,
            cold_due_ns: 0,
            cold_rest_ns: COLD_AGAIN_NS,
            spent_ns: 0,
            leftover: Leftover::default(),
        }
    }

    fn run(mut self) {
        loop {
            let now_ns = interpose::now_ns();
            heap::look(self.plan, now_ns);
            self.followers.keep_up(self.plan);
            let pause_ns = if self.is_following {
                self.follow(now_ns)
            } else {
                self.wait_for_swapping(now_ns);
                self.aside.step_unheard(now_ns);
                self.sleep_ns()
            };
            if !self.is_following && self.leftover.is_all(now_ns) {
                return;
            }
            if pause_ns > 0 {
                self.tell_time();
                system::pause_ns(pause_ns);
            }
        }
    }

    /// How long it sleeps while it follows nothing.
    fn sleep_ns(&mut self) -> u64 {
        let parent = PARENT.load(Ordering::Relaxed);
        if parent == 0 {
            return ASLEEP_NS;
        }
        self.look_for_parent();
        let majors = system::major_faults();
        self.asleep_ns = match std::mem::replace(&mut self.majors_asleep, majors) == majors {
            true => (2 * self.asleep_ns).min(ASLEEP_IN_CHILD_NS),
            false => ASLEEP_NS,
        };
        self.asleep_ns
    }

    /// What the parent kept by locks of its own is swept, too, once it has ended.
    fn look_for_parent(&self) {
        let parent = PARENT.load(Ordering::Relaxed);
        if parent != 0 && parent != ENDED && system::parent_id() != parent {
            PARENT.store(ENDED, Ordering::Relaxed);
            objects::take_back_from_parent();
        }
    }

    fn tell_time(&mut self) {
        let spent_ns = system::thread_time_ns();
        self.plan
            .status
            .add(Total::ThreadNs, spent_ns - self.spent_ns);
        self.spent_ns = spent_ns;
    }

    fn action(&self, object: &Object) -> PlanAction {
        self.plan.action_of(object.rule)
    }

    /// Not while memory is filled, however much of it goes to swap: each page that another thread takes from the program then
    /// interrupts it, and nothing has to come back yet.
    fn wait_for_swapping(&mut self, now_ns: u64) {
        let is_swapping = self.look_for_swapping(now_ns);
        if is_swapping && !self.followers.is_empty() {
            if !std::mem::replace(&mut self.has_precedence, true) {
                self.plan.take_precedence();
            }
            self.look_for_threads(now_ns);
            self.is_following = true;
            self.newest_ns = now_ns;
        }
    }

    /// Whether the program waits for its pages to come back.
    fn look_for_swapping(&mut self, now_ns: u64) -> bool {
        let majors = system::major_faults();
        let is_enough = majors.saturating_sub(self.majors) >= SWAPPING;
        if is_enough || now_ns.saturating_sub(self.majors_ns) > SWAPPING_NS {
            self.begin_window(majors, now_ns);
        }
        if !self.is_swap_seen {
            // So far they were files' pages, of a program that starts; or of shared memory.
            if is_enough && !self.has_swapped(now_ns) && system::has_shared_memory() == Some(true) {
                self.note_swapping(now_ns);
            }
            return false;
        }
        if is_enough {
            self.page_cold_out(now_ns);
        }
        is_enough
    }

    fn begin_window(&mut self, majors: u64, now_ns: u64) {
        self.majors = majors;
        self.majors_ns = now_ns;
    }

    /// Whether pages of the program have been in swap.
    fn has_swapped(&mut self, now_ns: u64) -> bool {
        if !self.is_swap_seen && system::has_swapped().unwrap_or(true) {
            self.note_swapping(now_ns);
        }
        self.is_swap_seen
    }

    fn note_swapping(&mut self, now_ns: u64) {
        let majors = system::major_faults();
        self.is_swap_seen = true;
        self.begin_window(majors, now_ns);
    }

    fn look_for_threads(&mut self, now_ns: u64) {
        self.threads_seen_ns = now_ns;
        self.look_for_parent();
        if self.is_blind {
            return;
        }
        match self.events.look_for_threads() {
            // At the limit there may be none just now: asked again with the next look.
            Err(libc::ENOMEM) => {
                self.is_ringless = true;
                self.plan.status.set(Total::PerfErrno, libc::ENOMEM as u64);
            }
            Err(errno) => {
                self.plan.status.set(Total::PerfErrno, errno as u64);
                self.is_blind = true;
                return;
            }
            Ok(()) => {
                if std::mem::take(&mut self.is_ringless) {
                    self.plan.status.set(Total::PerfErrno, 0);
                }
            }
        }
        let beyond = self.events.unfollowed() as u64;
        self.plan.status.at_least(Total::UnfollowedThreads, beyond);
    }

    /// One round while the program swaps; how long to sleep after it, ns.
    fn follow(&mut self, now_ns: u64) -> u64 {
        if self.followers.is_quiet() {
            return self.hear_bursts(now_ns);
        }
        self.bursts.listen(&mut self.events);
        if now_ns > self.threads_seen_ns + THREADS_EVERY_NS {
            self.look_for_threads(now_ns);
            self.look_for_swapping(now_ns);
        }
        let followers = &mut *self.followers;
        if self.is_blind {
            let seen_ns = followers.look_at_pages(self.plan);
            self.newest_ns = seen_ns.unwrap_or(self.newest_ns);
        } else {
            followers.look_at_room(self.plan);
            let (newest_ns, aside) = (&mut self.newest_ns, &mut self.aside);
            self.events.drain(&mut |fault| {
                *newest_ns = fault.time_ns.max(*newest_ns);
                aside.note(fault);
                followers.hear_of(self.plan, fault);
            });
        }
        if followers.is_any_wanted() {
            self.aside.come_back();
        }
        let helpers = Helpers {
            active: followers.active(),
            hear: !self.is_blind,
            spare_program: self.aside.is_around(),
        };
        let worked = followers.act(self.plan, helpers);
        let calm_ns = now_ns.saturating_sub(self.newest_ns);
        self.stop_if_calm(now_ns);
        if self.is_following && !self.is_blind && self.bursts.are_possible() {
            self.followers.look_for_quiet(self.plan, now_ns);
        }
        if self.followers.is_quiet() {
            self.bursts.begin();
            return self.begin_silence();
        }
        let is_any_working = self.followers.is_any_working();
        if is_any_working {
            self.aside.stand_around(now_ns);
        } else {
            self.aside.step(now_ns);
        }
        match (worked, calm_ns > 4 * BETWEEN_FAULTS_NS || self.is_blind) {
            (true, _) => 0,
            (false, false) if self.aside.is_around() => BESIDE_PROGRAM_NS,
            // Each time that it wakes, the program's own evictions have another processor to interrupt.
            _ if !is_any_working => WITHOUT_WORK_NS,
            (false, false) => BETWEEN_FAULTS_NS,
            (false, true) => WITHOUT_FAULTS_NS,
        }
    }

    fn stop_if_calm(&mut self, now_ns: u64) {
        let calm_ns = now_ns.saturating_sub(self.newest_ns);
        if calm_ns > CALM_NS || self.followers.is_empty() {
            self.events.stop();
            self.followers.end_quiet();
            self.bursts.forget();
            self.is_following = false;
            self.begin_window(system::major_faults(), now_ns);
        }
    }

    /// As [`Helper::follow`], while it is enough to hear a burst of faults now and then.
    fn hear_bursts(&mut self, now_ns: u64) -> u64 {
        let came = self.bursts.count();
        self.followers.pass(came);
        if came > 0 {
            self.newest_ns = now_ns;
        }
        if self.bursts.is_silent() {
            self.bursts.listen(&mut self.events);
            self.look_for_threads(now_ns);
            self.look_for_swapping(now_ns);
            return BURST_NS;
        }
        let (followers, aside) = (&mut *self.followers, &mut self.aside);
        self.events.drain(&mut |fault| {
            aside.note(fault);
            followers.hear_burst(fault);
        });
        self.followers.look_for_quiet(self.plan, now_ns);
        self.aside.step(now_ns);
        self.stop_if_calm(now_ns);
        self.begin_silence()
    }

    /// If bursts are enough: how long nothing is heard, ns.
    fn begin_silence(&mut self) -> u64 {
        if !self.followers.is_quiet() {
            return WITHOUT_WORK_NS;
        }
        if !self.bursts.be_silent(&self.events) {
            self.followers.end_quiet();
            return WITHOUT_WORK_NS;
        }
        SILENCE_NS
    }

    fn page_cold_out(&mut self, now_ns: u64) {
        if now_ns < self.cold_due_ns {
            return;
        }
        let is_cold = |object: &Object| self.action(object) == PlanAction::Cold;
        let mut last = 0;
        while let Some(object) = objects::next_after(last, is_cold) {
            last = object.number;
            let pages = object.pages();
            let status = &self.plan.status;
            match system::advise(pages.start, pages.len(), system::PAGE_OUT) {
                Ok(()) => status.add_to_rule(object.rule, OfRule::Advised, pages.len() as u64),
                // It has ended meanwhile, or a part of it: how much was advised is not known.
                Err(libc::ENOMEM) => {}
                Err(errno) => status.refused(object.rule, errno),
            }
        }
        self.cold_due_ns = now_ns + self.cold_rest_ns;
        self.cold_rest_ns = self.cold_rest_ns.saturating_mul(2);
    }
}
