//! Rounds of a sweep that left no trace: over what is all in memory it raises no faults. Who drops behind such a sweep, or takes
//! its memory, has each of these rounds wait.
//!
//! How many there may have been is told by the program's own time, without what it waited: how long all of the object was in
//! memory, by how long a round took where its pages were missing. That an object is in memory does not say that it is swept, so
//! that this is the most there can have been: it speaks against plans, never for one.
//!
//! Of an object whose sweeps begin ever later (a factorization, a selection sort), what lies before is done with: once that has left, the
//! rest may be all in memory. Of others, what leaves for good and what stays says nothing: the program may do something else.

use std::collections::HashSet;

use pagewise_predict::Clock;
use pagewise_trace::Event;
use pagewise_trace::EventKind;

/// Of the pages of an object that is all in memory, at most one in so many is missing.
const WHOLE: u64 = 64;
/// Longer times between two swap-ins than so many times the one in the middle are pauses.
const PAUSE: u64 = 8;
/// Of its pages, at least one in so many came back before it is known to be in use.
const IN_USE: u64 = 8;
/// What a fault takes of own time: the exception, the recorder's work, and what is lost of caches and TLB, ns; at most so large a part
/// of the time from one swap-in to the next.
const UNCOUNTED_NS: f64 = 500.0;
const MOST_UNCOUNTED: f64 = 0.75;

/// A page left or came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Of a fault when it ended, ns, if that is known.
    time_ns: u64,
    /// `None`: it was not timed, or nobody waited.
    waited_ns: Option<u64>,
    kind: EventKind,
    object: Option<u32>,
    /// Of the object, or of several of its blocks.
    page: u32,
}

/// An object that is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swept {
    pub(crate) pages: u64,
    /// Its sweeps begin ever later.
    pub(crate) shrinks: bool,
    /// It came back though nobody saw it leave.
    pub(crate) left_unseen: bool,
}

impl Moment {
    /// `of`: the index of the object whose page it is, if it is one that is asked about, and which of its pages.
    pub(crate) fn of(event: &Event, of: Option<(usize, u64)>) -> Self {
        // Nobody waits for a page to be written.
        let is_fault = matches!(event.kind, EventKind::SwapIn | EventKind::SwapCacheHit);
        Self {
            time_ns: event.time_ns,
            waited_ns: event.latency_ns.filter(|_| is_fault),
            kind: event.kind,
            object: of.and_then(|(object, _)| u32::try_from(object).ok()),
            page: of.map_or(0, |(_, page)| page as u32),
        }
    }

    /// Whether a page came back.
    pub(crate) fn is_swap_in(&self) -> bool {
        matches!(self.kind, EventKind::SwapIn | EventKind::SwapCacheHit)
    }

    /// Whether a page left.
    pub(crate) fn is_eviction(&self) -> bool {
        self.kind == EventKind::Eviction
    }

    /// The object whose page it is, and which.
    pub(crate) fn page(&self) -> Option<(usize, u64)> {
        Some((self.object? as usize, u64::from(self.page)))
    }

    /// Whether it is known how long the program waited, and so when it went on.
    pub(crate) fn is_timed(&self) -> bool {
        self.waited_ns.is_some()
    }

    /// When a wait ended, and how long it was as far as is known, ns.
    pub(crate) fn wait(&self) -> (u64, u64) {
        (self.time_ns, self.waited_ns.unwrap_or(0))
    }

    pub(crate) fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

/// Of each object, how many rounds there were time for while all of it was in memory, by moments in order of time. `end_ns`: when the program
/// ended; `clock`: its own time.
pub(crate) fn rounds(
    moments: &[Moment],
    clock: &Clock,
    end_ns: u64,
    objects: impl Iterator<Item = Swept>,
) -> Vec<f64> {
    let mut watches: Vec<Watch> = objects.map(Watch::new).collect();
    for object in missing_from_the_start(moments) {
        let watch = &mut watches[object as usize];
        watch.missing += u64::from(!watch.of.left_unseen);
    }
    let for_good = leave_for_good(moments, |object| watches[object as usize].of.shrinks);
    for (moment, for_good) in moments.iter().zip(for_good) {
        let Some(object) = moment.object else {
            continue;
        };
        let watch = &mut watches[object as usize];
        match for_good {
            true => watch.left_for_good += 1,
            false => watch.note(moment.kind, clock.own(moment.time_ns)),
        }
    }
    let end_ns = clock.own(end_ns);
    let rounds = watches.into_iter().map(|mut watch| {
        watch.end(end_ns);
        watch.rounds()
    });
    rounds.collect()
}

/// Of each page that comes back first, before it has left: its object. It left as another's, as where `realloc` has made this one of that.
fn missing_from_the_start(moments: &[Moment]) -> impl Iterator<Item = u32> {
    let mut met = HashSet::new();
    moments.iter().filter_map(move |moment| {
        let object = moment.object?;
        let moves = moment.is_swap_in() || moment.is_eviction();
        let is_first = moves && met.insert((object, moment.page));
        (is_first && moment.is_swap_in()).then_some(object)
    })
}

/// Which moments, in order of time, are those of pages that do not come back any more; asked of some objects only.
fn leave_for_good(moments: &[Moment], is_asked: impl Fn(u32) -> bool) -> Vec<bool> {
    let mut come_back = HashSet::new();
    let mut found: Vec<bool> = moments
        .iter()
        .rev()
        .map(|moment| {
            let Some(object) = moment.object.filter(|&object| is_asked(object)) else {
                return false;
            };
            let page = (object, moment.page);
            if moment.is_swap_in() {
                come_back.insert(page);
            }
            moment.kind == EventKind::Eviction && !come_back.contains(&page)
        })
        .collect();
    found.reverse();
    found
}

/// Watches one object's pages leave and come back.
#[derive(Clone, Debug)]
struct Watch {
    of: Swept,
    missing: u64,
    /// Pages that did not come back; counted only where sweeps begin ever later.
    left_for_good: u64,
    came_back: u64,
    /// When the last one came back; in own time, as all that follows.
    last: Option<u64>,
    /// Since when all are in memory, after some were not.
    whole_since: Option<u64>,
    whole_ns: u64,
    /// From one swap-in to the next, ns.
    gaps: Vec<u64>,
}

impl Watch {
    fn new(of: Swept) -> Self {
        Self {
            of: Swept {
                pages: of.pages.max(1),
                ..of
            },
            missing: 0,
            left_for_good: 0,
            came_back: 0,
            last: None,
            whole_since: None,
            whole_ns: 0,
            gaps: Vec::new(),
        }
    }

    /// A page left or came back.
    fn note(&mut self, kind: EventKind, own_ns: u64) {
        match kind {
            EventKind::Eviction => self.missing += 1,
            EventKind::SwapIn | EventKind::SwapCacheHit => {
                self.missing = self.missing.saturating_sub(1);
                self.came_back += 1;
                if let Some(last) = self.last.replace(own_ns) {
                    self.gaps.push(own_ns.saturating_sub(last));
                }
            }
            EventKind::PageWritten | EventKind::ZeroFilled => return,
        }
        let pages = self.of.pages;
        let left = pages.saturating_sub(self.left_for_good);
        let is_in_use = self.came_back * IN_USE >= pages && left * IN_USE >= pages;
        match self.missing * WHOLE <= left && is_in_use {
            true => self.whole_since = self.whole_since.or(Some(own_ns)),
            false => self.end(own_ns),
        }
    }

    /// It is no longer all in memory, or the program has ended.
    fn end(&mut self, own_ns: u64) {
        let since = self.whole_since.take().unwrap_or(own_ns);
        self.whole_ns += own_ns.saturating_sub(since);
    }

    /// How many rounds there were time for while all of it was in memory.
    fn rounds(self) -> f64 {
        match without_pauses(self.gaps) {
            Some(gap_ns) => {
                let page_ns = gap_ns - UNCOUNTED_NS.min(MOST_UNCOUNTED * gap_ns);
                self.whole_ns as f64 / (page_ns * self.of.pages as f64).max(1.0)
            }
            None => 0.0,
        }
    }
}

/// The mean of times from one swap-in to the next that are no pauses, ns.
fn without_pauses(mut gaps: Vec<u64>) -> Option<f64> {
    gaps.sort_unstable();
    let longest = gaps.get(gaps.len() / 2)?.saturating_mul(PAUSE);
    let short = &gaps[..gaps.partition_point(|&gap| gap <= longest)];
    Some(short.iter().sum::<u64>() as f64 / short.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = 640;
    const ALL: Swept = Swept {
        pages: PAGES,
        shrinks: false,
        left_unseen: false,
    };

    /// What the program does with a page, ns.
    const WORK_NS: u64 = 500;

    fn clock(moments: &[Moment]) -> Clock {
        let faults = moments.iter().filter(|moment| moment.is_swap_in());
        Clock::new(faults.map(Moment::wait))
    }

    /// Goes once through all pages, all of which are missing.
    fn sweep(watch: &mut Watch, now: &mut u64) {
        for _ in 0..PAGES {
            *now += WORK_NS + UNCOUNTED_NS as u64;
            watch.note(EventKind::SwapIn, *now);
        }
    }

    fn evict(watch: &mut Watch, now: u64, pages: u64) {
        (0..pages).for_each(|_| watch.note(EventKind::Eviction, now));
    }

    #[test]
    fn rounds_in_memory_are_told_by_how_long_those_took_that_were_not() {
        let (mut watch, mut now) = (Watch::new(ALL), 1000);
        evict(&mut watch, now, PAGES);
        sweep(&mut watch, &mut now);
        // Five rounds of it raise no faults; then others take its memory, for long.
        now += 5 * PAGES * WORK_NS;
        evict(&mut watch, now, PAGES);
        now += 1_000_000_000;
        sweep(&mut watch, &mut now);
        now += 2 * PAGES * WORK_NS;
        watch.end(now);
        let rounds = watch.rounds();
        assert!((6.5..7.5).contains(&rounds), "{rounds}");
    }

    #[test]
    fn what_is_never_all_in_memory_has_no_such_rounds() {
        let (mut watch, mut now) = (Watch::new(ALL), 1000);
        evict(&mut watch, now, PAGES / 4);
        for page in 0..10 * PAGES {
            now += WORK_NS;
            if page.is_multiple_of(4) {
                watch.note(EventKind::SwapIn, now);
                watch.note(EventKind::Eviction, now);
            }
        }
        watch.end(now);
        assert_eq!(watch.rounds(), 0.0);
    }

    #[test]
    fn before_some_of_it_came_back_nothing_is_known_to_be_swept() {
        let mut watch = Watch::new(ALL);
        // While it is filled, its first page leaves and comes back.
        evict(&mut watch, 1000, 1);
        watch.note(EventKind::SwapIn, 2000);
        watch.note(EventKind::SwapIn, 3000);
        watch.end(1_000_000_000);
        assert_eq!(watch.rounds(), 0.0);
    }

    #[test]
    fn what_left_as_part_of_another_object_was_missing_from_the_start() {
        // A quarter of it is in memory at any time, and none of it was seen to leave at first.
        let moment = |time_ns, kind, page| Moment {
            time_ns,
            waited_ns: Some(0),
            kind,
            object: Some(0),
            page,
        };
        let pages = PAGES as u32;
        let steps = (0..10 * pages).flat_map(|step| {
            let now = 1000 * u64::from(step);
            let came = moment(now, EventKind::SwapIn, step % pages);
            let left = step.checked_sub(pages / 4);
            let left = left.map(|left| moment(now, EventKind::Eviction, left % pages));
            [Some(came), left].into_iter().flatten()
        });
        let moments: Vec<Moment> = steps.collect();
        let end_ns = 1000 * 20 * PAGES;
        assert_eq!(
            rounds(&moments, &clock(&moments), end_ns, [ALL].into_iter()),
            [0.0]
        );
        let unseen = Swept {
            left_unseen: true,
            ..ALL
        };
        let found = rounds(&moments, &clock(&moments), end_ns, [unseen].into_iter());
        assert!(found[0] > 1.0, "at most: {found:?}");
    }

    /// Sweeps of ever less of it, of which the last six raise no faults.
    #[test]
    fn of_sweeps_that_begin_ever_later_what_is_left_may_be_all_in_memory() {
        let rounds = |shrinks| {
            let mut moments = Vec::new();
            let mut now = 1000;
            let mut note = |kind, page, now| {
                moments.push(Moment {
                    time_ns: now,
                    waited_ns: Some(0),
                    kind,
                    object: Some(0),
                    page,
                });
            };
            let all = PAGES as u32;
            (0..all).for_each(|page| note(EventKind::Eviction, page, 0));
            for sweep in 0..4 {
                for page in all / 10 * sweep..all {
                    now += WORK_NS + UNCOUNTED_NS as u64;
                    note(EventKind::SwapIn, page, now);
                    if sweep < 3 || page < all / 10 * 4 {
                        note(EventKind::Eviction, page, now);
                    }
                }
            }
            now += 6 * PAGES * WORK_NS / 3;
            let of = Swept {
                pages: PAGES,
                shrinks,
                left_unseen: false,
            };
            super::rounds(&moments, &clock(&moments), now, [of].into_iter())[0]
        };
        assert_eq!(rounds(false), 0.0);
        let found = rounds(true);
        assert!((1.5..2.5).contains(&found), "{found}");
    }
}
