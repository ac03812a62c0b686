//! Rules about global variables: matched when the program starts, again in a forked child, and as libraries come and go.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::MOST_RULES;

use super::call_path;
use super::loaded::Plan;

/// Which libraries there were when globals were looked for; 0: not in this process yet.
static SEEN: AtomicU64 = AtomicU64::new(0);
/// Where the global of each rule is; 0: nowhere.
static PLACES: [AtomicUsize; MOST_RULES] = [const { AtomicUsize::new(0) }; MOST_RULES];

/// A global that came, or that went with its library.
pub(super) struct Change {
    pub(super) rule: usize,
    /// Where it was; 0: nowhere.
    pub(super) before: usize,
    /// Where it is; 0: nowhere any more.
    pub(super) now: usize,
    pub(super) bytes: usize,
}

/// Tells what has changed since the last time.
pub(super) fn look(plan: &Plan, mut changed: impl FnMut(Change)) {
    let libraries = call_path::libraries();
    if SEEN.swap(libraries, Ordering::Relaxed) == libraries {
        return;
    }
    for (index, place) in PLACES.iter().enumerate().take(plan.view.rules()) {
        let rule = plan.view.rule(index);
        if !rule.is_of_global() {
            continue;
        }
        let now = call_path::address_of(rule.module as usize, rule.address).unwrap_or(0);
        let before = place.swap(now, Ordering::Relaxed);
        if before != now {
            changed(Change {
                rule: index,
                before,
                now,
                bytes: rule.bytes as usize,
            });
        }
    }
}

/// In a forked child: its parent's are not looked after here.
pub(super) fn forget() {
    SEEN.store(0, Ordering::Relaxed);
    for place in &PLACES {
        place.store(0, Ordering::Relaxed);
    }
}
