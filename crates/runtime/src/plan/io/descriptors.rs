//! What becomes of descriptors: they are closed, mean another file, or the same as another one; or the program advises their file itself.

use std::sync::atomic::Ordering;

use pagewise_abi::plan::PlanAction;
use pagewise_abi::status::OfIo;
use pagewise_interpose as interpose;
use pagewise_interpose::page_cache;

use super::PROCESS;
use super::RULES;
use super::forget_file;
use super::give_back;
use super::hints::Hinted;
use super::is_any;
use super::keeping;
use super::open_files;
use super::open_files::OpenFile;
use super::open_files::Own;
use super::open_files::Place;
use super::paths;
use super::runs::Runs;
use super::shared;
use super::take_back;
use crate::plan::loaded::Plan;
use crate::plan::with_plan;

/// A descriptor is about to be closed, or to mean another file: what lies behind its reader is dropped, and all forgotten.
#[inline(always)]
pub(crate) fn closing(descriptor: i32) {
    if is_any() {
        close(descriptor, Goes::WithFile);
    }
}

/// A descriptor is about to mean the same open file as another one, if that is open: else it stays as it is.
#[inline(always)]
pub(crate) fn replacing(old: i32, new: i32) {
    if is_any() && old != new && page_cache::facts(old).is_some() {
        close(new, Goes::WithFile);
    }
}

/// What becomes of the open file when a descriptor is closed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    /// It is closed, too, or others who have it get it as it was.
    WithFile,
    /// Others have it by the same descriptor.
    Alone,
}

#[cold]
fn close(descriptor: i32, goes: Goes) {
    with_plan(|plan| {
        if PROCESS.load(Ordering::Relaxed) != interpose::process_id() {
            return;
        }
        if let Some(place) = open_files::known(descriptor)
            && let Some(mut held) = place.file.lock()
        {
            if let Some(file) = held.as_mut() {
                finish(plan, descriptor, place, file);
            }
            match goes {
                Goes::WithFile => forget_file(plan, descriptor, place, &mut held),
                Goes::Alone => return take_back(descriptor, place),
            }
        }
        if goes == Goes::WithFile {
            shared::clear(descriptor);
        }
    });
}

fn finish(plan: &Plan, descriptor: i32, place: &Place, file: &mut OpenFile) {
    if !file.runs.leave_nothing() && !file.is_still(descriptor) {
        return;
    }
    for number in file.runs.under_way() {
        let rule = file.runs.at(number).rule;
        Hinted {
            plan,
            place,
            file,
            rule,
        }
        .drop_rest(descriptor, number);
    }
}

/// All descriptors of a range are about to be closed.
#[cold]
pub(crate) fn closing_all(first: u32, last: u32) {
    if is_any() {
        close_all(first, last, Goes::WithFile);
        if PROCESS.load(Ordering::Relaxed) == interpose::process_id() {
            shared::clear_all(first, last);
        }
    }
}

/// The same, but other threads keep them.
#[cold]
pub(crate) fn leaving_all(first: u32, last: u32) {
    if is_any() {
        close_all(first, last, Goes::Alone);
    }
}

fn close_all(first: u32, last: u32, goes: Goes) {
    for (descriptor, _) in open_files::all() {
        if (first..=last).contains(&descriptor.unsigned_abs()) {
            close(descriptor, goes);
        }
    }
}

/// The program ends: what lies behind its readers is dropped.
pub(in crate::plan) fn ending() {
    closing_all(0, u32::MAX);
}

/// Two descriptors mean the same open file from here on.
#[cold]
pub(crate) fn duplicated(old: i32, new: i32) {
    if !is_any() {
        return;
    }
    with_plan(|_| {
        if PROCESS.load(Ordering::Relaxed) != interpose::process_id() {
            return;
        }
        for descriptor in [old, new] {
            share(descriptor);
        }
    });
}

/// This process forks: each descriptor that is open means the same open file in the child.
#[cold]
pub(crate) fn forking() {
    if is_any() {
        with_plan(|_| share_all());
    }
}

/// All descriptors that are open may be somebody else's, too.
pub(super) fn share_all() {
    if !interpose::visit_open(&mut share) {
        // At least those about which something was told.
        open_files::all().for_each(|(descriptor, _)| share(descriptor));
    }
}

fn share(descriptor: i32) {
    shared::set(descriptor);
    give_back(descriptor);
}

/// The program drops what is cached of a file: nothing of it is kept that was read by this descriptor.
#[cold]
pub(crate) fn drops_itself(descriptor: i32) {
    if !is_any() {
        return;
    }
    with_plan(|plan| {
        if let Some(place) = open_files::known(descriptor)
            && let Some(mut held) = place.file.lock()
            && let Some(file) = held.as_mut()
            && std::mem::take(&mut file.has_kept)
        {
            keeping::let_go_of(plan, descriptor);
        }
    });
}

/// The program advises a file itself: from here on that is its own.
#[cold]
pub(crate) fn advised(descriptor: i32, own: Own) {
    if !is_any() {
        return;
    }
    with_plan(|plan| {
        let rules = RULES.load(Ordering::Relaxed);
        if let Some(place) = open_files::place(descriptor)
            && let Some(mut held) = place.file.lock()
            && open_files::look(plan, rules, descriptor, place, &mut held).is_some()
            && let Some(file) = held.as_mut()
            && file.takes_hints
            && file.own < own
        {
            take_back(descriptor, place);
            let before = std::mem::replace(&mut file.own, own);
            if own == Own::All {
                file.runs = Runs::NONE;
            }
            let loses = |rule: &usize| is_lost(plan, *rule, own) && !is_lost(plan, *rule, before);
            for rule in paths::bits(file.accepted_by).filter(loses) {
                plan.status.add_to_io(rule, OfIo::TakenOver, 1);
            }
        }
    });
}

/// Whether a rule has something to say that the program says itself.
fn is_lost(plan: &Plan, rule: usize, own: Own) -> bool {
    let rule = plan.view.rule(rule);
    match own {
        Own::Nothing => false,
        Own::ReadingAhead => {
            plan.view.action(&rule) == PlanAction::IoWillNeed
                || plan.view.readahead(&rule).is_some()
        }
        Own::All => true,
    }
}
