//! When memory gets short, fresh memory comes in base pages again, and huge pages that hold many pages of zeros are split, which
//! frees these (Linux 6.12). When there is enough again, it comes in huge pages as before.

use std::ops::Range;

use pagewise_abi::plan::FRESH;
use pagewise_abi::status::Total;
use pagewise_interpose::system;

use super::super::loaded::Plan;
use super::super::object::Object;
use super::super::object::PAGE;
use super::super::objects;
use super::REGION;
use super::first_region;
use super::regions;

/// A huge page with more pages of zeros is bloat: as the manager of huge pages has it by default.
const MOST_ZERO: usize = 64;
/// Regions looked at in a round: what is in memory as a whole is read, and then it is enough.
const MOST_LOOKS: usize = 64;
/// Once all was looked at, it is looked at again after so long, should memory still be short.
const AGAIN_NS: u64 = 30_000_000_000;

/// What the thread does about it, a region in each of its rounds.
pub(super) struct Pressure {
    is_short: bool,
    /// Where it is: the object's number, 0 for the heap, and the region in it.
    at: (usize, usize),
    /// When all was looked at; `None`: not yet.
    done_ns: Option<u64>,
    frees_zeros: bool,
}

impl Pressure {
    pub(super) fn new(frees_zeros: bool) -> Self {
        Self {
            is_short: false,
            at: (0, 0),
            done_ns: None,
            frees_zeros,
        }
    }

    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// To be called in each round; `heap`: what of it was advised.
    pub(super) fn look(&mut self, plan: &Plan, heap: &Range<usize>, now_ns: u64) {
        let is_short = plan.is_short(now_ns);
        if is_short != self.is_short {
            self.is_short = is_short;
            plan.status.add(Total::Shortages, u64::from(is_short));
            advise_all(heap, advice(is_short));
            (self.at, self.done_ns) = ((0, 0), None);
        }
        let rests = |done: u64| now_ns.saturating_sub(done) < AGAIN_NS;
        if !is_short || !self.frees_zeros || self.done_ns.is_some_and(rests) {
            return;
        }
        self.done_ns = match self.recover(plan, heap) {
            true => None,
            false => Some(now_ns),
        };
    }

    /// Splits the next huge page that is bloat, if there is one among the next regions. False: all were looked at.
    fn recover(&mut self, plan: &Plan, heap: &Range<usize>) -> bool {
        for _ in 0..MOST_LOOKS {
            let (number, region) = self.at;
            let range = match number {
                0 => Some(heap.clone()),
                number => objects::find(number).map(|object| object.pages()),
            };
            if let Some(range) = range.filter(|range| region < regions(range)) {
                let address = first_region(&range) + region * REGION;
                self.at.1 += 1;
                let mut is_read = false;
                while_alive(number, || is_read = split_if_bloat(plan, address));
                if is_read {
                    return true;
                }
            } else if let Some(next) = objects::next_after(number, is_fresh) {
                self.at = (next.number, 0);
            } else {
                return false;
            }
        }
        true
    }
}

/// What is said of fresh memory.
pub(in super::super) fn advice(is_short: bool) -> i32 {
    if is_short {
        system::NO_HUGE
    } else {
        system::HUGE
    }
}

fn is_fresh(object: &Object) -> bool {
    object.rule == FRESH
}

/// The kernel may refuse: then all stays as it is.
fn advise_all(heap: &Range<usize>, advice: i32) {
    if !heap.is_empty() {
        let _ = system::advise(heap.start, heap.len(), advice);
    }
    let mut last = 0;
    while let Some(object) = objects::next_after(last, is_fresh) {
        last = object.number;
        let pages = object.pages();
        objects::while_alive(last, || {
            let _ = system::advise(pages.start, pages.len(), advice);
        });
    }
}

fn while_alive(number: usize, work: impl FnOnce()) {
    match number {
        0 => work(),
        number => {
            objects::while_alive(number, work);
        }
    }
}

/// Of base pages nothing is freed: a page that is asked to be cold does no harm. False: not all of it has memory, and it was not
/// read.
fn split_if_bloat(plan: &Plan, address: usize) -> bool {
    let Some(zeros) = system::zeros_of_whole(address) else {
        return false;
    };
    if zeros > MOST_ZERO {
        plan.status
            .add(Total::Recovered, (split(address) * PAGE) as u64);
    }
    true
}

/// Pages that this freed; what the kernel does not tell counts as none. That it took the advice does not say that it split.
fn split(address: usize) -> usize {
    let own = || system::PageMap::open()?.own_pages(address);
    let before = own();
    if system::advise(address, PAGE, system::COLD).is_err() {
        return 0;
    }
    let freed = before
        .zip(own())
        .map(|(before, after)| before.saturating_sub(after));
    freed.unwrap_or(0)
}
