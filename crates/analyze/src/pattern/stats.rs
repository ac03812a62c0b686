//! What is counted of some swap-ins: adds up, whichever way they are cut into pieces.

use super::AGAIN;
use super::GETS_ON;
use super::HOT_PAGES;
use super::MOST;
use super::NEAR;
use super::NEAR_FRONT;
use super::Order;
use super::PageIn;
use super::WITH_FRONT;
use super::fronts::Seen;
use crate::counts::Counts;
use crate::visits::Reuse;

#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) swap_ins: u64,
    pub(super) stall_ns: u64,
    pub(super) steps: u64,
    /// Steps to a page near by, in the direction of the step before.
    pub(super) near: u64,
    /// Of runs of these, how many began.
    runs: u64,
    /// Steps of the same length as the one before, of more than a page.
    pub(super) strided: u64,
    /// Which length that is: the one that is left when unequal ones cancel each other out (Boyer and Moore's vote).
    stride: u64,
    votes: u64,
    /// Swap-ins for which it is known how far their thread has come,
    with_front: u64,
    /// and which are near that;
    near_front: u64,
    /// which got on by so many pages,
    got_on: u64,
    /// and was elsewhere then so often.
    fronts: u64,
    /// Swap-ins of pages that had come before.
    pub(super) returns: u64,
    pub(super) reuse: Reuses,
    /// Kept from the second window of an object on: what is so of the first, what is left of the whole object tells.
    pub(super) later: Option<Box<Later>>,
}

/// What tells of a window in what it differs from those before.
#[derive(Clone, Debug, Default)]
pub(super) struct Later {
    /// How many of its returns are of pages that had come the last time in each window, by number.
    origins: Vec<(u8, u64)>,
    /// What happened to the object's pages meanwhile but swap-ins.
    pub(super) counts: Counts,
}

impl Later {
    fn came_from(&mut self, window: u8, count: u64) {
        match self
            .origins
            .binary_search_by_key(&window, |origin| origin.0)
        {
            Ok(at) => self.origins[at].1 += count,
            Err(at) => self.origins.insert(at, (window, count)),
        }
    }

    /// Every two windows are one now.
    pub(super) fn halve(&mut self) {
        for (window, count) in std::mem::take(&mut self.origins) {
            self.came_from(window / 2, count);
        }
    }

    /// Returns of pages that had come in this window or after it.
    pub(super) fn returns_since(&self, window: u8) -> u64 {
        let since = self.origins.iter().filter(|origin| origin.0 >= window);
        since.map(|origin| origin.1).sum()
    }
}

impl Stats {
    /// Of any window but an object's first.
    pub(super) fn of_later() -> Self {
        Self {
            later: Some(Box::default()),
            ..Self::default()
        }
    }

    /// `origin`: the number of the window in which the page had come the last time.
    pub(super) fn add(
        &mut self,
        event: &PageIn,
        order: Order,
        reuse: Option<Reuse>,
        origin: Option<u8>,
    ) {
        if self.swap_ins == 0 {
            self.begin_ns = event.time_ns;
        }
        self.end_ns = self.end_ns.max(event.time_ns);
        self.swap_ins += 1;
        self.stall_ns = self.stall_ns.saturating_add(event.stall_ns);
        if let Some(reuse) = reuse {
            self.returns += 1;
            self.reuse.add(reuse);
        }
        if let (Some(later), Some(origin)) = (&mut self.later, origin) {
            later.came_from(origin, 1);
        }
        self.with_front += u64::from(order.front.is_some());
        match order.front {
            Some(Seen::Near(pages)) => {
                self.near_front += 1;
                self.got_on += pages;
            }
            Some(Seen::Begins) => self.fronts += 1,
            Some(Seen::Elsewhere) | None => {}
        }
        let Some(step) = order.step else { return };
        self.steps += 1;
        self.runs += u64::from(step.begins);
        let length = step.distance.unsigned_abs();
        // Downwards is a direction too.
        let onwards = step.distance.signum() == step.before.signum();
        self.near += u64::from(length <= NEAR && onwards);
        if length > 1 && step.distance == step.before {
            self.strided += 1;
            self.vote(length, 1);
        }
    }

    pub(super) fn merge(&mut self, later: &Stats) {
        if self.swap_ins == 0 {
            self.begin_ns = later.begin_ns;
        }
        self.end_ns = self.end_ns.max(later.end_ns);
        self.swap_ins += later.swap_ins;
        self.stall_ns = self.stall_ns.saturating_add(later.stall_ns);
        self.steps += later.steps;
        self.near += later.near;
        self.strided += later.strided;
        self.runs += later.runs;
        self.with_front += later.with_front;
        self.near_front += later.near_front;
        self.got_on += later.got_on;
        self.fronts += later.fronts;
        self.returns += later.returns;
        self.vote(later.stride, later.votes);
        self.reuse.merge(&later.reuse);
        if let (Some(own), Some(others)) = (&mut self.later, &later.later) {
            for &(window, count) in &others.origins {
                own.came_from(window, count);
            }
            own.counts = [own.counts, others.counts].iter().sum();
        }
    }

    fn vote(&mut self, stride: u64, votes: u64) {
        if self.votes == 0 || self.stride == stride {
            self.stride = stride;
            self.votes += votes;
        } else if votes > self.votes {
            self.stride = stride;
            self.votes = votes - self.votes;
        } else {
            self.votes -= votes;
        }
    }

    pub(super) fn stride(&self) -> Option<u64> {
        (self.votes > 0).then_some(self.stride)
    }

    pub(super) fn share(&self, of_steps: u64) -> f64 {
        of_steps as f64 / self.steps.max(1) as f64
    }

    pub(super) fn share_of_swap_ins(&self, part: u64) -> f64 {
        part as f64 / self.swap_ins.max(1) as f64
    }

    /// Whether it is a sweep in order, if only from afar.
    pub(super) fn is_coarse(&self) -> bool {
        let got_on = self.got_on as f64 / self.with_front.max(1) as f64;
        self.share_of_swap_ins(self.with_front) > WITH_FRONT
            && self.share_near_front() > NEAR_FRONT
            && GETS_ON.contains(&got_on)
    }

    /// Of the swap-ins for which there is a front.
    pub(super) fn share_near_front(&self) -> f64 {
        self.near_front as f64 / self.with_front.max(1) as f64
    }

    /// How far it goes on at a place, pages, before it is done there.
    pub(super) fn run_pages(&self) -> u64 {
        let (pages, runs) = match self.is_coarse() && self.share(self.near) <= MOST {
            true => (self.got_on, self.fronts),
            false => (self.near, self.runs),
        };
        pages / runs.max(1)
    }

    /// Whether more than [`AGAIN`] rounds were made, as far as these swap-ins tell.
    pub(super) fn comes_again(&self) -> bool {
        self.share_of_swap_ins(self.returns) > 1.0 - 1.0 / AGAIN
    }

    /// How many pages a hot set has; `None` if it is none: nearly all of its swap-ins are returns, from nearby.
    pub(super) fn hot_pages(&self) -> Option<u64> {
        let pages = self.reuse.mean_pages()?;
        let hot = self.share_of_swap_ins(self.returns) > 0.9 && pages <= HOT_PAGES as f64;
        hot.then_some(pages.ceil() as u64)
    }
}

/// Reuses by the logarithm of their length in pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Reuses(Vec<Bucket>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    number: u8,
    count: u64,
    pages: u64,
    ns: u64,
}

/// Two buckets to a doubling.
fn bucket_of(pages: u64) -> u8 {
    let pages = pages.max(1);
    let octave = pages.ilog2();
    let upper_half = octave > 0 && pages >> (octave - 1) & 1 == 1;
    2 * octave as u8 + u8::from(upper_half)
}

impl Reuses {
    fn add(&mut self, reuse: Reuse) {
        self.put(Bucket {
            number: bucket_of(reuse.pages),
            count: 1,
            pages: reuse.pages,
            ns: reuse.ns,
        });
    }

    fn merge(&mut self, others: &Reuses) {
        for bucket in &others.0 {
            self.put(*bucket);
        }
    }

    fn put(&mut self, more: Bucket) {
        match self
            .0
            .binary_search_by_key(&more.number, |bucket| bucket.number)
        {
            Ok(at) => {
                let bucket = &mut self.0[at];
                bucket.count += more.count;
                bucket.pages = bucket.pages.saturating_add(more.pages);
                bucket.ns = bucket.ns.saturating_add(more.ns);
            }
            Err(at) => self.0.insert(at, more),
        }
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|bucket| bucket.count).sum()
    }

    /// The mean of those that are about as long as the one in the middle.
    pub(super) fn median(&self) -> Option<Reuse> {
        let middle = self.count().div_ceil(2);
        let mut seen = 0;
        let bucket = self.0.iter().find(|bucket| {
            seen += bucket.count;
            seen >= middle
        })?;
        Some(Reuse {
            pages: bucket.pages / bucket.count,
            ns: bucket.ns / bucket.count,
        })
    }

    /// The share of those that are about as long as each other, 0 to 1: the most that lie within a doubling.
    pub(super) fn share_as_long(&self) -> f64 {
        let most = self.doublings().map(|(_, count)| count).max();
        most.unwrap_or(0) as f64 / self.count().max(1) as f64
    }

    /// The same of two lengths, of which each may have the half at most: of pages that are passed by twice in a round.
    pub(super) fn share_of_two_lengths(&self) -> f64 {
        let half = self.count().div_ceil(2);
        let both = self.doublings().flat_map(|(number, count)| {
            let others = self.doublings();
            let apart = others.filter(move |(other, _)| *other >= number + 2);
            apart.map(move |(_, other)| count.min(half) + other.min(half))
        });
        both.max().unwrap_or(0) as f64 / self.count().max(1) as f64
    }

    /// Of pages that are passed by twice in a round, that.
    pub(super) fn twice_the_mean(&self) -> Option<Reuse> {
        let sum = |of: fn(&Bucket) -> u64| self.0.iter().map(of).sum::<u64>();
        let count = Some(self.count()).filter(|&count| count > 0)?;
        Some(Reuse {
            pages: 2 * sum(|bucket| bucket.pages) / count,
            ns: 2 * sum(|bucket| bucket.ns) / count,
        })
    }

    /// How many lie within each doubling, by its first bucket.
    fn doublings(&self) -> impl Iterator<Item = (u8, u64)> {
        let buckets = self.0.iter().enumerate();
        buckets.map(|(at, first)| {
            let next = self.0.get(at + 1);
            let next = next.filter(|next| next.number == first.number + 1);
            (
                first.number,
                first.count + next.map_or(0, |next| next.count),
            )
        })
    }

    fn mean_pages(&self) -> Option<f64> {
        let pages: u64 = self.0.iter().map(|bucket| bucket.pages).sum();
        let count = self.count();
        (count > 0).then(|| pages as f64 / count as f64)
    }
}
