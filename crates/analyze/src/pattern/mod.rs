//! In what order an object's pages come back from swap, and when that changes.
//!
//! ```text
//!   swap-ins --Threads--> steps --> Stats of short windows --phases--> Phase, Phase, ...
//! ```
//!
//! What is kept of an object does not grow with its swap-ins: at most [`MOST_WINDOWS`](windows) windows, which become
//! longer, and the last steps of some threads.

mod fronts;
mod phases;
mod stats;
mod threads;
mod windows;

#[cfg(test)]
mod tests;

use pagewise_trace::Event;
use pagewise_trace::WriteLook;

use crate::counted::Share;
use crate::counts::Counts;
use crate::visits::Visit;

use fronts::Fronts;
use stats::Stats;
use threads::Step;
use threads::Threads;
use windows::Windows;

/// How a program goes through an object, seen by its swap-ins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Page after page, once through, at one place or at up to 32 side by side; or in no order within a short distance, from one end to the
    /// other ([`PatternFacts::is_coarse`]).
    Sequential,
    /// The same, again and again.
    Loop,
    /// In equal steps of more than one page.
    Strided,
    /// The same pages again and again, each about once or twice a round, in no order of their addresses: a list that is followed from
    /// its first node to its last.
    UnorderedLoop,
    /// In no order.
    Random,
    /// A few pages again and again.
    Hot,
    /// Each page about once, in no order.
    Once,
}

impl Pattern {
    /// The word for it in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Loop => "loop",
            Self::UnorderedLoop => "unordered-loop",
            Self::Strided => "strided",
            Self::Random => "random",
            Self::Hot => "hot",
            Self::Once => "once",
        }
    }
}

/// What is known of a pattern beside its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PatternFacts {
    /// The pattern.
    pub pattern: Pattern,
    /// The step of a strided one, in pages.
    pub stride_pages: Option<u64>,
    /// How many swap-ins of the object lie between two of one page, in the median; `None` if no page came back twice. Of
    /// a loop, unordered or not, it is how many pages come back in a round.
    pub reuse_pages: Option<u64>,
    /// The time between two of one page, in the median, ns: of a loop that of a round.
    pub reuse_ns: Option<u64>,
    /// The share of what was seen that agrees with it, 0 to 1: of the steps from page to page, of a hot or coarse one of the
    /// swap-ins, or of an unordered loop of the returns.
    pub agreement: f64,
    /// How many steps were seen.
    pub steps: u64,
    /// It is in order only from afar: what comes next lies within 1 MiB of how far it has come.
    pub is_coarse: bool,
    /// How far it goes on at a place, or round after round, before it is done there, pages, on average.
    pub run_pages: u64,
    /// Each page has its turn: the times between two swap-ins of one page are about as long as each other, or of two lengths. Not so where each pass
    /// goes through pages of its own.
    pub in_turn: bool,
}

/// A time in which an object's pattern did not change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Its first swap-in, ns of `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// Its last.
    pub end_ns: u64,
    /// Swap-ins in it.
    pub swap_ins: u64,
    /// Time spent in them, ns.
    pub stall_ns: u64,
    /// Different pages that came back in it.
    pub distinct_pages: u64,
    /// What else happened to the object's pages in it: evictions, writes, and looks whether they were written. Of an object's first
    /// phase also what happened before; no swap-ins.
    pub others: Counts,
    /// `None`: too few to tell.
    pub facts: Option<PatternFacts>,
}

/// Fewer swap-ins than this show no pattern.
const FEWEST: u64 = 32;
/// Swap readahead (8 pages) and neighbours that stayed resident leave gaps in a sequential sweep.
const NEAR: u64 = 16;
/// A pattern holds if this share of steps keeps it.
const MOST: f64 = 0.6;
/// How far a thread has come must be known for so many swap-ins of a sweep in order only from afar.
const WITH_FRONT: f64 = 0.5;
/// Of these, so many are near how far it has come,
const NEAR_FRONT: f64 = 0.8;
/// which gets on by at least and at most so many pages a swap-in: of wider steps, most of what lies between is not used.
const GETS_ON: std::ops::RangeInclusive<f64> = 0.5..=4.0;
/// More rounds than this count as "again".
const AGAIN: f64 = 1.5;
/// Of the returns in a loop, so many are about as long as each other. Accesses at random have 0.25 where the memory is small beside
/// the object, and 0.4 where it is about as large.
const AS_LONG: f64 = 0.6;
/// Or are of two lengths, each of about half of them: of pages that are passed by twice in a round, as of a ring that is written at one
/// place and read at another. At random the two have at most 0.83, where memory is nearly as large as the object.
const OF_TWO_LENGTHS: f64 = 0.9;
/// A hot set: its pages come back this often.
const HOT_ROUNDS: f64 = 16.0;
/// And are at most this many (1 MiB).
const HOT_PAGES: u64 = 256;

/// A swap-in of an object's page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageIn {
    pub(crate) thread: u32,
    /// The page's number within the object.
    pub(crate) page: u64,
    pub(crate) time_ns: u64,
    pub(crate) stall_ns: u64,
    /// When it came the last time before.
    pub(crate) before: Option<Visit>,
}

/// What a swap-in tells of the order.
#[derive(Clone, Copy, Debug)]
struct Order {
    step: Option<Step>,
    front: Option<fronts::Seen>,
}

/// Watches one object's swap-ins. Each thread's steps are taken by themselves, and from each of a few places, so that parts of an
/// array that are swept side by side, by several threads or by one, are not mistaken for disorder.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatternWatch {
    threads: Threads,
    fronts: Fronts,
    windows: Windows,
    swap_ins: u64,
    distinct: u64,
}

impl PatternWatch {
    /// The number of the next swap-in.
    pub(crate) fn ordinal(&self) -> u64 {
        self.swap_ins
    }

    pub(crate) fn swap_in(&mut self, event: PageIn) {
        let step = self.threads.step(event.thread, event.page);
        let front = self
            .fronts
            .advance(event.thread, event.page, self.threads.span());
        let reuse = event
            .before
            .map(|before| before.until(self.swap_ins, event.time_ns));
        let order = Order { step, front };
        self.windows.add(self.swap_ins, &event, order, reuse);
        self.swap_ins += 1;
        self.distinct += u64::from(event.before.is_none());
    }

    /// Something else happened to one of its pages.
    pub(crate) fn other(&mut self, event: &Event) {
        self.windows.meanwhile(|counts| counts.add(event));
    }

    /// So much else happened to its pages after all that is listed.
    pub(crate) fn counted(&mut self, share: &Share) {
        self.windows.meanwhile(|counts| counts.add_share(share));
    }

    /// Somebody looked whether one of its pages was written, maybe before what was told last.
    pub(crate) fn look(&mut self, look: &WriteLook) {
        self.windows
            .at(look.time_ns, |counts| counts.add_look(look));
    }

    pub(crate) fn distinct_pages(&self) -> u64 {
        self.distinct
    }

    /// One after the other in time. `readahead`: pages the kernel brings with each fault; steps of up to so many are a
    /// sweep's, whatever they look like. `all`: what happened to all its pages.
    pub(crate) fn phases(&self, readahead: u64, all: &Counts) -> Vec<Phase> {
        let parts = phases::split(self.windows.all(), readahead);
        let mut first = 0;
        let mut phases: Vec<Phase> = Vec::with_capacity(parts.len());
        for part in &parts {
            // Where there is one phase, its pages are what they are of the object.
            let whole = part.swap_ins == self.swap_ins;
            let later = part.later.as_deref().filter(|_| first > 0);
            let returns = later.map_or(part.returns, |later| {
                later.returns_since(self.windows.window_of(first))
            });
            phases.push(Phase {
                begin_ns: part.begin_ns,
                end_ns: part.end_ns,
                swap_ins: part.swap_ins,
                stall_ns: part.stall_ns,
                distinct_pages: part.swap_ins - returns,
                others: later.map_or_else(Counts::default, |later| later.counts),
                facts: part.facts(readahead, whole.then_some(self.distinct)),
            });
            first += part.swap_ins;
        }
        let later: Counts = phases.iter().map(|phase| &phase.others).sum();
        if let Some(first) = phases.first_mut() {
            first.others = all.but_swap_ins().less(&later);
        }
        phases
    }
}

/// The phase that counts most: of the longest stall, else of the most swap-ins.
pub(crate) fn leading(phases: &[Phase]) -> Option<&Phase> {
    let known = phases.iter().filter(|phase| phase.facts.is_some());
    known.max_by_key(|phase| (phase.stall_ns, phase.swap_ins))
}

impl Stats {
    /// `None`: too few swap-ins to tell. `distinct`: how many pages they were of, where that is known.
    fn facts(&self, readahead: u64, distinct: Option<u64>) -> Option<PatternFacts> {
        if self.swap_ins < FEWEST {
            return None;
        }
        let as_long = self.reuse.share_as_long();
        let of_two_lengths = self.reuse.share_of_two_lengths();
        let is_passed_twice = as_long <= AS_LONG && of_two_lengths > OF_TWO_LENGTHS;
        let reuse = match is_passed_twice {
            true => self.reuse.twice_the_mean(),
            false => self.reuse.median(),
        };
        let pages = distinct.or_else(|| self.hot_pages());
        let hot = pages.is_some_and(|pages| {
            pages <= HOT_PAGES && self.swap_ins as f64 > HOT_ROUNDS * pages as f64
        });
        let again = match distinct {
            Some(distinct) => self.swap_ins as f64 > AGAIN * distinct as f64,
            None => self.comes_again(),
        };
        let stride = self.stride().filter(|&stride| stride > readahead);
        let is_coarse = self.is_coarse();
        let (pattern, agreement) = if hot {
            (Pattern::Hot, self.share_of_swap_ins(self.returns))
        } else if self.share(self.strided) > MOST && stride.is_some() {
            (Pattern::Strided, self.share(self.strided))
        } else if self.share(self.near) > MOST {
            let pattern = if again {
                Pattern::Loop
            } else {
                Pattern::Sequential
            };
            (pattern, self.share(self.near))
        } else {
            let as_long = if is_passed_twice {
                of_two_lengths
            } else {
                as_long
            };
            let disorder = 1.0 - self.share(self.near.max(self.strided));
            let near_front = self.share_near_front();
            match again {
                true if as_long > AS_LONG && is_coarse => (Pattern::Loop, near_front),
                false if is_coarse => (Pattern::Sequential, near_front),
                true if as_long > AS_LONG => (Pattern::UnorderedLoop, as_long),
                true => (Pattern::Random, disorder),
                false => (Pattern::Once, disorder),
            }
        };
        Some(PatternFacts {
            pattern,
            stride_pages: stride.filter(|_| pattern == Pattern::Strided),
            reuse_pages: reuse.map(|reuse| reuse.pages),
            reuse_ns: reuse.map(|reuse| reuse.ns),
            agreement,
            steps: self.steps,
            is_coarse: matches!(pattern, Pattern::Loop | Pattern::Sequential)
                && self.share(self.near) <= MOST,
            run_pages: self.run_pages(),
            in_turn: as_long > AS_LONG || is_passed_twice,
        })
    }
}
