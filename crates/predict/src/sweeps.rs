//! Sweeps: faults that go from page to page of those that were missing, so that the program must have passed over the
//! pages between them, which were in memory.
//!
//! A fault goes on with a sweep if the sweep's last page lies below it and no page between them was missing. Faults in no
//! order do that rarely: of all pages, few are the next missing one above one of the last faults. Sweeps downwards are those upwards of the
//! same with its pages in reverse.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Range;
use std::ops::RangeInclusive;

use crate::history::History;
use crate::history::What;

/// Faults after which a sweep that did not go on has ended.
const PATIENCE: u64 = 256;
/// Faults in a row that make a sweep.
const ENOUGH: usize = 5;
/// The same of one downwards: these are rare, and accesses in no order fall in a row as often as they rise.
const ENOUGH_DOWNWARDS: usize = 16;

/// Pages that were accessed in passing, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passing {
    pub(crate) first: u32,
    /// The page after the last.
    pub(crate) after: u32,
    /// From when to when, in own time.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// The last one first.
    pub(crate) is_down: bool,
}

impl Passing {
    /// Its pages, as they were passed over.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u32> {
        let (first, after, is_down) = (self.first, self.after, self.is_down);
        (first..after).map(move |page| match is_down {
            true => after - 1 - (page - first),
            false => page,
        })
    }
}

/// A history, as it is or with its pages in reverse.
#[derive(Clone, Copy)]
struct View<'a> {
    history: &'a History,
    /// Of a page: the first of the object around it and the page after its last.
    bounds: &'a dyn Fn(u32) -> (u32, u32),
    is_reversed: bool,
}

impl View<'_> {
    fn pages(&self) -> u32 {
        self.history.keys.len() as u32
    }

    /// The number of a page of the history, and the other way about.
    fn page(&self, page: u32) -> u32 {
        match self.is_reversed {
            true => self.pages() - 1 - page,
            false => page,
        }
    }

    fn bounds(&self, page: u32) -> (u32, u32) {
        let (first, after) = (self.bounds)(self.page(page));
        match self.is_reversed {
            true => (self.pages() - after, self.pages() - first),
            false => (first, after),
        }
    }

    fn are_contiguous(&self, first: u32, last: u32) -> bool {
        let (first, last) = (self.page(first), self.page(last));
        self.history
            .are_contiguous(first.min(last), first.max(last))
    }

    fn are_apart(&self, page: u32, other: u32) -> bool {
        self.history.are_apart(self.page(page), self.page(other))
    }
}

/// When pages were last accessed, as far as is known, and last left.
struct Pages {
    accessed: Vec<u64>,
    evicted: Vec<u64>,
}

/// What was found.
pub(crate) struct Sweeps {
    pub(crate) passings: Vec<Passing>,
    /// Of each moment, whether it is a fault of a sweep.
    pub(crate) swept: Vec<bool>,
}

/// A sweep that may go on.
struct Head {
    fault: u64,
    at: u64,
    /// Since when the page of its first fault had been out, and that of its last.
    first_out: u64,
    last_out: u64,
    /// Moments of its faults, until they are enough; then `None`.
    doubtful: Option<Vec<usize>>,
    /// What it passed over, until then.
    pending: Vec<Passing>,
    /// Its first fault's page, and what was in memory before it.
    first: u32,
    lead: Passing,
}

/// `bounds` are the first page of the object around a page and the page after its last: a sweep begins and ends there.
pub(crate) fn find(history: &History, bounds: impl Fn(u32) -> (u32, u32)) -> Sweeps {
    let view = |is_reversed| View {
        history,
        bounds: &bounds,
        is_reversed,
    };
    let (mut found, reversed) = (find_upwards(view(false)), find_upwards(view(true)));
    for (swept, is_down) in found.swept.iter_mut().zip(reversed.swept) {
        *swept |= is_down;
    }
    let pages = history.keys.len() as u32;
    let down = reversed.passings.into_iter().map(|passing| Passing {
        first: pages - passing.after,
        after: pages - passing.first,
        is_down: true,
        ..passing
    });
    found.passings.extend(down);
    found
}

fn find_upwards(view: View<'_>) -> Sweeps {
    let history = view.history;
    let enough = match view.is_reversed {
        true => ENOUGH_DOWNWARDS,
        false => ENOUGH,
    };
    let mut found = Sweeps {
        passings: Vec::new(),
        swept: vec![false; history.moments.len()],
    };
    let mut pages = Pages {
        accessed: vec![0; history.keys.len()],
        evicted: vec![0; history.keys.len()],
    };
    let mut missing: BTreeSet<u32> = BTreeSet::new();
    let mut heads: BTreeMap<u32, Head> = BTreeMap::new();
    let mut faults = 0;
    for (index, moment) in history.moments.iter().enumerate() {
        let page = view.page(moment.page);
        match moment.what {
            What::Touched => pages.accessed[page as usize] = moment.at,
            What::Evicted => {
                pages.evicted[page as usize] = moment.at;
                missing.insert(page);
            }
            What::Gone => {
                missing.remove(&page);
            }
            What::Faulted => {
                faults += 1;
                missing.remove(&page);
                pages.accessed[page as usize] = moment.at;
                let out = pages.evicted[page as usize];
                let below = missing
                    .range(..page)
                    .next_back()
                    .map_or(0, |below| below + 1);
                let (first, _) = view.bounds(page);
                let from = below.max(first.min(page));
                let head = heads.range(below..page).next_back();
                let last = head
                    .filter(|(_, head)| faults - head.fault <= PATIENCE)
                    .filter(|(last, _)| view.are_contiguous(**last, page))
                    .map(|(&last, _)| last);
                let mut head = match last {
                    Some(last) => {
                        let mut head = heads.remove(&last).expect("it was just found");
                        head.pass(last + 1, page, head.at, moment.at, &mut pages, &mut found);
                        head
                    }
                    None => {
                        let lead = Passing {
                            first: from,
                            after: page,
                            begin: moment.at,
                            end: moment.at,
                            is_down: false,
                        };
                        Head {
                            fault: faults,
                            at: moment.at,
                            first_out: out,
                            last_out: out,
                            doubtful: Some(Vec::new()),
                            pending: Vec::new(),
                            first: page,
                            lead,
                        }
                    }
                };
                (head.fault, head.at, head.last_out) = (faults, moment.at, out);
                head.count(index, enough, &mut pages, &mut found);
                heads.insert(page, head);
                if faults % PATIENCE == 0 {
                    let ended = heads
                        .iter()
                        .filter(|(_, head)| faults - head.fault > PATIENCE)
                        .map(|(&last, _)| last);
                    for last in ended.collect::<Vec<_>>() {
                        let head = heads.remove(&last).expect("it was just found");
                        head.finish(last, &missing, view, &mut heads, &mut pages, &mut found);
                    }
                }
            }
        }
    }
    while let Some((last, head)) = heads.pop_first() {
        head.finish(last, &missing, view, &mut heads, &mut pages, &mut found);
    }
    found
}

impl Sweeps {
    fn pass(&mut self, passing: Passing, pages: &mut Pages) {
        for accessed in &mut pages.accessed[passing.first as usize..passing.after as usize] {
            *accessed = passing.end.max(*accessed);
        }
        self.passings.push(passing);
    }
}

impl Head {
    fn pass(
        &mut self,
        first: u32,
        after: u32,
        begin: u64,
        end: u64,
        pages: &mut Pages,
        found: &mut Sweeps,
    ) {
        if first >= after {
            return;
        }
        let passing = Passing {
            first,
            after,
            begin,
            end,
            is_down: false,
        };
        match self.doubtful {
            None => found.pass(passing, pages),
            Some(_) => self.pending.push(passing),
        }
    }

    /// One more fault of it; so many make a sweep.
    fn count(&mut self, index: usize, enough: usize, pages: &mut Pages, found: &mut Sweeps) {
        let Some(doubtful) = &mut self.doubtful else {
            found.swept[index] = true;
            return;
        };
        doubtful.push(index);
        if doubtful.len() >= enough {
            for &index in doubtful.iter() {
                found.swept[index] = true;
            }
            for passing in self.pending.drain(..) {
                found.pass(passing, pages);
            }
            self.doubtful = None;
        }
    }

    /// It has ended: it passed over what was in memory before its first fault and behind its last one, but over no more each
    /// time than from the one to the other; and not over what another sweep passed over since the page beside it left, as
    /// that was in the same round; nor over what is another thread's.
    fn finish(
        mut self,
        last: u32,
        missing: &BTreeSet<u32>,
        view: View<'_>,
        others: &mut BTreeMap<u32, Head>,
        pages: &mut Pages,
        found: &mut Sweeps,
    ) {
        if self.doubtful.is_some() {
            return;
        }
        let (_, after) = view.bounds(last);
        let next = missing.range(last + 1..).next().copied();
        let extent = last - self.first;
        let farthest = last.saturating_add(1 + extent);
        let until = next.unwrap_or(u32::MAX).min(after).min(farthest);
        let lead = self.lead;
        let until = (last + 1..until)
            .find(|&page| view.are_apart(last, page))
            .unwrap_or(until);
        let from = lead.first.max(self.first.saturating_sub(extent));
        let others_page = (from..lead.after).rfind(|&page| view.are_apart(self.first, page));
        let from = others_page.map_or(from, |page| page + 1);
        let before_it = self.first_out + 1..=lead.begin;
        self.pass_unless(from..lead.after, lead.begin, before_it, pages, found);
        let since_it = self.last_out + 1..=u64::MAX;
        self.pass_unless(last + 1..until, self.at, since_it, pages, found);
        // The next one above began beyond that.
        if let Some((_, next)) = others.range_mut(last + 1..).next()
            && next.lead.begin > self.last_out
        {
            next.lead.first = next.lead.first.max(until);
        }
    }

    /// Those pages that were not accessed in that time, as far as is known.
    fn pass_unless(
        &mut self,
        passed: Range<u32>,
        at: u64,
        accessed: RangeInclusive<u64>,
        pages: &mut Pages,
        found: &mut Sweeps,
    ) {
        let mut first = passed.start;
        while first < passed.end {
            let is_known = |page: &u32| accessed.contains(&pages.accessed[*page as usize]);
            let stop = (first..passed.end).find(is_known).unwrap_or(passed.end);
            let next = (stop..passed.end).find(|page| !is_known(page));
            self.pass(first, stop, at, at, pages, found);
            first = next.unwrap_or(passed.end);
        }
    }
}
