//! All locks of what is not followed, at once: ended for a while or for good, and made again. Nothing else tells what they are worth
//! ([`super::headway`]).

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use pagewise_abi::status::OfRule;

use super::loaded::Plan;
use super::locks;
use super::object::Object;
use super::objects;

/// Nothing of theirs is locked, to see what that brings, or for good.
static DO_REST: AtomicBool = AtomicBool::new(false);

/// In a forked child they are as in a new program.
pub(super) fn forget() {
    DO_REST.store(false, Ordering::Relaxed);
}

/// Whether nothing of an object is to be locked now.
pub(super) fn does_rest(plan: &Plan, object: &Object) -> bool {
    DO_REST.load(Ordering::Relaxed) && is_meant(plan, object.rule)
}

/// What they keep in this process, bytes.
pub(super) fn kept_bytes(plan: &Plan) -> u64 {
    rules(plan).map(locks::kept_bytes).sum()
}

/// They end, and none is made until [`lock_again`].
pub(super) fn begin(plan: &Plan) {
    DO_REST.store(true, Ordering::Relaxed);
    for rule in rules(plan) {
        let is_any = u64::from(locks::kept_bytes(rule) > 0);
        plan.status.add_to_rule(rule, OfRule::Rests, is_any);
        locks::end_all_of(plan, rule);
    }
}

/// All that rests is locked again.
pub(super) fn lock_again(plan: &Plan) {
    DO_REST.store(false, Ordering::Relaxed);
    each_at_rest(plan, |object| {
        let mut is_done = false;
        while !std::mem::replace(&mut is_done, true) {
            // What lies beyond the budget was counted when it was locked first.
            objects::change(object.number, |object| {
                is_done = locks::lock_piece(plan, object, 0);
            });
        }
        objects::note_change();
    });
}

/// What rests is never locked again.
pub(super) fn note_given_up(plan: &Plan) {
    each_at_rest(plan, |object| {
        plan.status.add_to_rule(object.rule, OfRule::GivenUp, 1);
    });
}

/// What is to be locked later anyway is left to that.
fn each_at_rest(plan: &Plan, mut work: impl FnMut(Object)) {
    let is_at_rest =
        |object: &Object| is_meant(plan, object.rule) && object.locked == 0 && object.due_ns == 0;
    let mut last = 0;
    while let Some(object) = objects::next_after(last, is_at_rest) {
        last = object.number;
        work(object);
    }
}

fn rules(plan: &Plan) -> impl Iterator<Item = usize> {
    (0..plan.view.rules()).filter(|&rule| is_meant(plan, rule))
}

fn is_meant(plan: &Plan, rule: usize) -> bool {
    rule < plan.view.rules() && plan.locks(rule) && !plan.follows(rule)
}
