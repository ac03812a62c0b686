//! What is chosen for an object, and why, in words.

use pagewise_plan::Action;
use pagewise_plan::ReadAhead;

use super::MOSTLY_RESIDENT;
use super::NotAhead;
use super::RETURNS;
use crate::facts::ObjectFacts;
use crate::facts::PAGE;
use crate::heat::HotPart;
use crate::most_used::Part;
use pagewise_report::bytes as bytes_text;

/// One rule to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// Its index.
    pub(crate) object: usize,
    pub(crate) action: Action,
    pub(crate) why: String,
    /// Of it, what will be in memory all the time.
    pub(crate) kept_bytes: u64,
    /// What a lock saves, where more is known than the object's stall.
    pub(crate) saves: Option<Saves>,
}

/// How much stall a lock saves, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Saves {
    pub(crate) likely: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// Of the waiting that `heat.rs` says a lock on a hot part saves, what does go: the rest of the object has less memory
/// then. At most all waiting for the hot part goes.
const LIKELY_OF_HOT: f64 = 0.8;
const LEAST_OF_HOT: f64 = 0.3;
/// Where swap is memory it is more, as reclaim no longer comes by what is hot only to find it in use, which is a part of each fault: 0.8 to 2.0
/// times as much with fourteen programs (docs/results-apply.md).
const LIKELY_OF_HOT_IN_MEMORY: f64 = 1.4;
const LEAST_OF_HOT_IN_MEMORY: f64 = 0.7;
const MOST_OF_HOT_IN_MEMORY: f64 = 2.0;

impl Choice {
    /// It does something.
    pub(crate) fn acts(&self) -> bool {
        self.action != Action::Nothing
    }

    /// It locks all of an object.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(
            &self.action,
            Action::Lock { keep_bytes: None, ranges, .. } if ranges.is_empty()
        )
    }

    /// It locks parts of an object that are used more than others, not such of a sweep.
    pub(crate) fn is_of_hot_part(&self, object: &ObjectFacts) -> bool {
        let has_ranges = matches!(&self.action, Action::Lock { ranges, .. } if !ranges.is_empty());
        has_ranges && (!object.is_swept() || object.may_be_random())
    }

    /// Its sweeps are read ahead of.
    pub(crate) fn is_read_ahead(&self) -> bool {
        matches!(self.action, Action::Stream { .. } | Action::Prefetch(_))
    }

    /// Its sweeps are followed, if only to see what the lock of their fixed part is worth.
    pub(crate) fn is_followed(&self) -> bool {
        let is_lock = matches!(
            self.action,
            Action::Lock {
                keep_more: true,
                ..
            }
        );
        is_lock || self.is_read_ahead()
    }

    /// The same with half of the fixed part that is kept of a sweep. `None`: there is none.
    pub(crate) fn halved(&self) -> Option<Self> {
        self.part(1, 2)
    }

    /// The same with so many of so many parts of that.
    pub(crate) fn part(&self, part: u64, of: u64) -> Option<Self> {
        let mut less = self.clone();
        let keep = match &mut less.action {
            Action::Lock {
                keep_bytes: Some(keep),
                ranges,
                ..
            } if ranges.is_empty() => keep,
            Action::Stream {
                keep_bytes: Some(keep),
                ..
            } => keep,
            _ => return None,
        };
        *keep = *keep / of * part;
        less.kept_bytes = *keep;
        (less.kept_bytes >= PAGE).then_some(less)
    }

    /// Nothing is done after all.
    pub(crate) fn give_up(&mut self, why: &str) {
        if !self.acts() {
            return;
        }
        why.clone_into(&mut self.why);
        self.action = Action::Nothing;
        self.kept_bytes = 0;
        self.saves = None;
    }
}

pub(super) fn lock_swept(at: usize, object: &ObjectFacts) -> Choice {
    Choice {
        why: format!(
            "swept about {:.0} times and fits into what is left: kept whole",
            object.returns.max(1.0)
        ),
        ..lock(at, object)
    }
}

pub(super) fn lock(at: usize, object: &ObjectFacts) -> Choice {
    Choice {
        object: at,
        action: Action::Lock {
            keep_bytes: None,
            keep_more: false,
            ranges: Vec::new(),
            together: false,
        },
        why: format!(
            "used again and again ({:.1} times a page) and fits: others no longer push it out",
            object.returns
        ),
        kept_bytes: object.bytes,
        saves: None,
    }
}

pub(super) fn lock_beside(at: usize, object: &ObjectFacts) -> Choice {
    Choice {
        why: "mostly in memory while others are swept: locked, so that it is known how much room there is for these".to_owned(),
        ..lock(at, object)
    }
}

fn why_hot(hot: &HotPart) -> String {
    let bytes = pagewise_report::bytes(hot.bytes);
    match hot.times.is_finite() {
        true => format!(
            "{bytes} of it are accessed {:.0} times as often as the rest, by page, and were pushed out by it",
            hot.times
        ),
        false => format!("{bytes} of it were wanted again when they were out, the rest was not"),
    }
}

pub(super) fn lock_hot(
    at: usize,
    object: &ObjectFacts,
    hot: HotPart,
    swap_is_memory: bool,
) -> Choice {
    let saved = hot.saved_ns as f64;
    let saves = match swap_is_memory {
        true => Saves {
            likely: LIKELY_OF_HOT_IN_MEMORY * saved,
            least: LEAST_OF_HOT_IN_MEMORY * saved,
            most: MOST_OF_HOT_IN_MEMORY * saved,
        },
        false => Saves {
            likely: LIKELY_OF_HOT * saved,
            least: LEAST_OF_HOT * saved,
            most: hot.stall_ns as f64,
        },
    };
    Choice {
        object: at,
        action: Action::Lock {
            keep_bytes: None,
            keep_more: false,
            together: object.is_laid_out,
            ranges: hot.ranges.clone(),
        },
        why: why_hot(&hot),
        kept_bytes: hot.bytes,
        saves: Some(saves),
    }
}

/// What is used by page so many times as often is used more often.
const MORE_OFTEN: f64 = 1.1;

/// What is used most.
pub(crate) fn most_used(at: usize, object: &ObjectFacts, part: &Part) -> Choice {
    let is_all =
        matches!(part.ranges[..], [ref only] if only.start == 0 && only.end >= object.bytes);
    let what = match (is_all, part.first_bytes) {
        (true, _) => "its pages are".to_owned(),
        (false, None) => format!("{} of it are", bytes_text(part.bytes)),
        (false, Some(_)) => "a part is kept that fits; its pages are".to_owned(),
    };
    let ranges = match is_all {
        true => Vec::new(),
        false => part.ranges.clone(),
    };
    Choice {
        object: at,
        action: Action::Lock {
            keep_bytes: part.first_bytes,
            keep_more: false,
            together: object.is_laid_out && !ranges.is_empty(),
            ranges,
        },
        why: match part.times >= MORE_OFTEN {
            true => format!(
                "{what} used {:.1} times as often, page by page, as what is left to the kernel, as far as that was seen",
                part.times
            ),
            false => format!(
                "{what} used about as often as what is left to the kernel, but by simulation fewer pages are swapped in where some stay"
            ),
        },
        kept_bytes: part.bytes,
        saves: None,
    }
}

pub(super) fn stream_of(at: usize, object: &ObjectFacts, keep: u64) -> Choice {
    let ahead = ReadAhead::default();
    let (action, what) = match keep {
        // A stream that does not say how much it keeps keeps what it can get.
        0 => (Action::Prefetch(ahead), "it is"),
        _ => (
            Action::Stream {
                keep_bytes: Some(keep),
                keep_more: true,
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
        saves: None,
    }
}

/// A sweep that cannot be read ahead of, and why: what is kept saves its share of each round.
pub(super) fn lock_part(at: usize, object: &ObjectFacts, keep: u64, not: &NotAhead) -> Choice {
    Choice {
        action: Action::Lock {
            keep_bytes: Some(keep),
            keep_more: not.is_followed,
            ranges: Vec::new(),
            together: false,
        },
        why: format!(
            "swept about {:.0} times and larger than its share of memory: a fixed part is kept, and nothing read ahead, as {}",
            object.returns.max(1.0),
            not.why
        ),
        kept_bytes: keep,
        ..lock(at, object)
    }
}

/// A part of what is used in no order, beside sweeps.
pub(super) fn lock_part_beside(at: usize, object: &ObjectFacts, keep: u64) -> Choice {
    Choice {
        action: Action::Lock {
            keep_bytes: Some(keep),
            keep_more: false,
            ranges: Vec::new(),
            together: false,
        },
        why: format!(
            "used again and again ({:.1} times a page) and larger than what others leave of the memory: a part is kept, as what is swept beside it has less use \
             for that memory",
            object.returns
        ),
        kept_bytes: keep,
        ..lock(at, object)
    }
}

/// A sweep of which less and less is left.
pub(super) fn lock_end(at: usize, object: &ObjectFacts, keep: u64) -> Choice {
    let from = object.bytes.saturating_sub(keep) / PAGE * PAGE;
    Choice {
        action: Action::Lock {
            keep_bytes: None,
            keep_more: false,
            ranges: std::iter::once(from..object.bytes).collect(),
            together: false,
        },
        why: format!(
            "swept about {:.0} times, its start less often than the rest, and larger than its share of memory: its end is kept",
            object.returns.max(1.0)
        ),
        kept_bytes: keep,
        ..lock(at, object)
    }
}

pub(super) fn prefetch(at: usize) -> Choice {
    Choice {
        object: at,
        action: Action::Prefetch(ReadAhead::default()),
        why: "swept once: its pages can be read in ahead of their turn".to_owned(),
        kept_bytes: 0,
        saves: None,
    }
}

pub(super) fn not_ahead(why: &str) -> String {
    format!("it cannot be read ahead of ({why}), and there is nothing to keep")
}

pub(super) fn why_nothing(object: &ObjectFacts) -> String {
    if object.lockable_bytes() < object.bytes {
        return format!(
            "used in no order, in {} pieces, more than can be kept account of",
            object.pieces
        );
    }
    let why = if object
        .resident_share
        .is_some_and(|share| share > MOSTLY_RESIDENT)
    {
        "mostly in memory as it is, and so are others: the memory that it got would be missing there"
    } else if object.returns < RETURNS {
        "its pages come back once, in no order: there is nothing to foresee and nothing to keep"
    } else if object.has_no_turns {
        "gone through in wide steps, by other pages each time: whichever part is kept, the rest misses as often"
    } else {
        "used in no order, larger than what others leave of the memory, and nowhere much more than elsewhere: whichever part is kept, the rest \
         misses as often"
    };
    why.to_owned()
}

/// Beside what is used more often ([`most_used`]).
pub(crate) fn left_to_the_kernel(at: usize) -> Choice {
    nothing(at, "what is kept is used more often, by page")
}

pub(super) fn nothing(at: usize, why: &str) -> Choice {
    Choice {
        object: at,
        action: Action::Nothing,
        why: why.to_owned(),
        kept_bytes: 0,
        saves: None,
    }
}
