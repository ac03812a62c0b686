//! Hints on one open file, before and after a call. `None` from these: the descriptor means another file than it did, and
//! nothing was done.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::MOST_RULES;
use pagewise_abi::plan::PlanAction;
use pagewise_abi::plan::PlanReadahead;
use pagewise_abi::plan::PlanRule;
use pagewise_abi::status::OfIo;
use pagewise_abi::status::WhyWithdrawn;
use pagewise_abi::worth::Worth;
use pagewise_interpose as interpose;
use pagewise_interpose::Spin;
use pagewise_interpose::page_cache;

use super::At;
use super::Call;
use super::Request;
use super::advice;
use super::keeping;
use super::open_files::OpenFile;
use super::open_files::Own;
use super::open_files::Place;
use super::withdraw;
use crate::plan::loaded::Plan;

pub(super) const PAGE: u64 = 4096;
/// Bytes of a window of a trial of reading ahead, which has effects on the next calls, too.
const SEQUENTIAL_WINDOW: u64 = 64 << 20;

static OF_RUNS: [Spin<Worth>; MOST_RULES] = [const { Spin::new(Worth::new(0)) }; MOST_RULES];
static OF_SCANS: [Spin<Worth>; MOST_RULES] =
    [const { Spin::new(Worth::new(SEQUENTIAL_WINDOW)) }; MOST_RULES];

/// Rules beside whose dropping files read ahead as usual again, a bit each.
static READS_AS_USUAL: AtomicU64 = AtomicU64::new(0);

/// How a rule lets files read ahead, as long as that is of use.
fn readahead(plan: &Plan, rule: &PlanRule, index: usize) -> Option<PlanReadahead> {
    let is_left = READS_AS_USUAL.load(Ordering::Relaxed) >> index & 1 == 0;
    plan.view.readahead(rule).filter(|_| is_left)
}

/// The trial of a rule; `None`: its effect is looked at otherwise.
fn trial(plan: &Plan, rule: &PlanRule, index: usize) -> Option<&'static Spin<Worth>> {
    match (plan.view.action(rule), readahead(plan, rule, index)) {
        (PlanAction::IoWillNeed, _) | (PlanAction::IoReadahead, Some(PlanReadahead::Random)) => {
            Some(&OF_RUNS[index])
        }
        (PlanAction::IoReadahead, Some(PlanReadahead::Sequential))
        | (
            PlanAction::IoDrop | PlanAction::IoDontCache,
            Some(PlanReadahead::Sequential | PlanReadahead::Random),
        ) => Some(&OF_SCANS[index]),
        _ => None,
    }
}

/// What a call cost.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    pub(super) ns: u64,
    /// Read from devices for it.
    pub(super) device_bytes: u64,
}

/// What a call of so many bytes cost, for the trial of its rule, if there is one.
pub(super) fn note_cost(plan: &Plan, index: usize, cost: Cost, bytes: u64) {
    let rule = plan.view.rule(index);
    let Some(mut worth) = trial(plan, &rule, index).and_then(|trial| trial.lock()) else {
        return;
    };
    if let Some(verdict) = worth.note(cost.ns, cost.device_bytes, bytes) {
        let thousandths = (verdict.ratio * 1000.0).clamp(1.0, 1e9) as u64;
        plan.status.set_of_io(index, OfIo::Ratio, thousandths);
        if verdict.is_worth_it {
            return;
        }
        match plan.view.action(&rule) {
            PlanAction::IoDrop | PlanAction::IoDontCache => {
                READS_AS_USUAL.fetch_or(1 << index, Ordering::Relaxed);
                plan.status.set_of_io(index, OfIo::ReadsAsUsual, 1);
            }
            _ => withdraw(plan, index, WhyWithdrawn::NoGain),
        }
    }
}

/// A file, and the rule that a call on it matches.
pub(super) struct Hinted<'place> {
    pub(super) plan: &'place Plan,
    pub(super) place: &'place Place,
    pub(super) file: &'place mut OpenFile,
    pub(super) rule: usize,
}

impl Hinted<'_> {
    pub(super) fn before(&mut self, rule: &PlanRule, call: &mut Call) -> Option<()> {
        let action = self.plan.view.action(rule);
        let mut is_given = self.file.own == Own::Nothing;
        if is_given
            && let Some(trial) = trial(self.plan, rule, self.rule)
            && let Some(mut worth) = trial.lock()
        {
            is_given = worth.gives();
            if worth.measures() {
                call.began = Some((interpose::now_ns(), page_cache::device_bytes()));
            } else {
                // Counted only, until the next trial.
                worth.note(0, 0, call.request.bytes);
            }
        }
        let readahead = readahead(self.plan, rule, self.rule).filter(|_| is_given);
        let advice = readahead.map(advice);
        if self.file.own == Own::Nothing {
            self.tell(call, advice.unwrap_or(page_cache::NORMAL))?;
        }
        match action {
            PlanAction::IoWillNeed if is_given => self.ask_for_run(rule, call),
            PlanAction::IoDrop if self.file.takes(action) => self.look_ahead(call),
            PlanAction::IoKeep if !call.request.is_write => {
                let offset = self.offset(call)?;
                if keeping::is_measured(self.file.identity, offset) {
                    call.began = Some((interpose::now_ns(), page_cache::device_bytes()));
                }
                Some(())
            }
            PlanAction::IoDontCache => {
                call.leaves_nothing = call.request.at != At::Buffer && self.file.takes(action);
                Some(())
            }
            _ => Some(()),
        }
    }

    pub(super) fn after(
        &mut self,
        rule: &PlanRule,
        call: &Call,
        bytes: u64,
        cost: Option<Cost>,
    ) -> Option<()> {
        match self.plan.view.action(rule) {
            PlanAction::IoDrop => self.drop_behind(call, bytes),
            PlanAction::IoWillNeed => {
                self.note_burst(call, bytes);
                Some(())
            }
            PlanAction::IoKeep => {
                let is_same = self.keep_read(rule, call, bytes, cost);
                self.note_burst(call, bytes);
                is_same
            }
            PlanAction::IoDontCache if call.leaves_nothing => self.look_what_is_left(call, bytes),
            _ => Some(()),
        }
    }

    /// How the kernel shall read ahead; told once, as long as nobody says otherwise.
    fn tell(&mut self, call: &Call, advice: i32) -> Option<()> {
        let told = &self.place.told;
        if i32::from(told.load(Ordering::Relaxed)) == advice {
            return Some(());
        }
        self.require_same(call.request.descriptor)?;
        if self.advise(call.request.descriptor, 0..0, advice) {
            told.store(advice as u8, Ordering::Relaxed);
        }
        Some(())
    }

    /// A run that begins is asked for as a whole.
    fn ask_for_run(&mut self, rule: &PlanRule, call: &mut Call) -> Option<()> {
        let offset = self.offset(call)?;
        if !self.file.bursts.goes_on_at(offset) && call.request.bytes < rule.chunk_bytes {
            let length = self.file.length_if_still(call.request.descriptor)?;
            // It may have been truncated meanwhile. Of nothing the kernel would make all the rest.
            let range = offset..offset.saturating_add(rule.chunk_bytes).min(length);
            if !range.is_empty()
                && self.advise(
                    call.request.descriptor,
                    range.clone(),
                    page_cache::WILL_NEED,
                )
            {
                let pages = (range.end - range.start).div_ceil(PAGE);
                self.plan.status.add_to_io(self.rule, OfIo::Asked, pages);
            }
        }
        Some(())
    }

    /// Where the run goes on: only now is it known, of calls on several buffers and of those at the end of a file.
    fn note_burst(&mut self, call: &Call, bytes: u64) {
        if let Some(offset) = call.offset {
            let moved = offset..offset.saturating_add(bytes);
            self.file.bursts.moved(interpose::thread_id(), &moved);
        }
    }

    /// Where the call begins.
    pub(super) fn offset(&mut self, call: &mut Call) -> Option<u64> {
        let Request {
            descriptor,
            at,
            is_write,
            ..
        } = call.request;
        let offset = match at {
            At::Offset(offset) => Some(offset),
            At::Cursor if !is_write => self.file.position(descriptor, self.place),
            At::Cursor | At::Buffer => page_cache::position(descriptor),
        };
        call.offset = offset;
        offset
    }

    pub(super) fn require_same(&self, descriptor: i32) -> Option<()> {
        self.file.is_still(descriptor).then_some(())
    }

    pub(super) fn advise(&self, descriptor: i32, range: Range<u64>, advice: i32) -> bool {
        let status = &self.plan.status;
        match page_cache::advise(descriptor, range, advice) {
            Ok(()) => {
                status.add_to_io(self.rule, OfIo::Hints, 1);
                true
            }
            Err(errno) => {
                status.refused_io(self.rule, errno);
                false
            }
        }
    }
}
