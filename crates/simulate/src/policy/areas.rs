//! Memory divided logically into areas by kind of access, each run by CLOCK, each with a shadow list that tells what a
//! larger area would have saved. Base of the two-area and the four-area policy.
//!
//! A page's header can be in several areas; the page leaves memory when it is in none. An area's share of memory grows
//! when a page of its shadow is accessed in its way, by what the saved transfer costs, and the others' shares shrink.

use crate::lists::Links;
use crate::lists::List;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

pub(crate) mod four;
pub(crate) mod two;

/// What distinguishes one policy of areas from another.
pub(crate) trait Division: Send {
    /// Which area's business this access is; below the number of areas.
    fn area(&self, reference: Reference) -> usize;

    /// Rounds that a page of this area may stay without being used because it was used often before.
    fn patience(&self, area: usize) -> u8;
}

/// One area.
struct Area {
    /// Of `members` and `shadow`: a page is in at most one of them.
    links: Links,
    /// Pages from the hand on.
    members: List,
    shadow: List,
    /// Pages this area should have, in shares of all areas' targets.
    target: f64,
    /// What a shadow hit adds to the target (pages).
    gain: f64,
    /// State of each page here: `MEMBER`, `SHADOW`, `USED` and rounds of patience left.
    states: Vec<u8>,
}

const MEMBER: u8 = 1;
const SHADOW: u8 = 2;
const USED: u8 = 4;
const PATIENCE_SHIFT: u32 = 3;

/// Nine bytes a page and area.
pub(crate) struct Areas<D, const N: usize> {
    division: D,
    areas: [Area; N],
}

impl<D: Division, const N: usize> Areas<D, N> {
    /// `costs`: what the transfer costs that a larger area saves.
    pub(crate) fn new(division: D, frames: u32, costs: [u64; N]) -> Areas<D, N> {
        let mean = (costs.iter().sum::<u64>() as f64 / N as f64).max(1.0);
        Areas {
            division,
            areas: costs.map(|cost| Area {
                links: Links::default(),
                members: List::new(),
                shadow: List::new(),
                target: f64::from(frames) / N as f64,
                gain: cost as f64 / mean,
                states: Vec::new(),
            }),
        }
    }

    fn free_a_frame(&mut self, memory: &mut Memory) {
        while memory.is_full() {
            let area = self.fullest();
            let page = self.release(area, memory.frames());
            if self.areas.iter().all(|area| !area.holds(page)) {
                memory.evict(page);
            }
        }
    }

    /// The area that exceeds its target most.
    fn fullest(&self) -> usize {
        let excess = |area: &Area| f64::from(area.members.len()) / area.target.max(1e-9);
        (0..N)
            .filter(|&area| !self.areas[area].members.is_empty())
            .max_by(|&a, &b| excess(&self.areas[a]).total_cmp(&excess(&self.areas[b])))
            .expect("a full memory has pages, and each is in an area")
    }

    /// Moves one page of the area to its shadow.
    fn release(&mut self, area: usize, frames: u32) -> u32 {
        let patience = self.division.patience(area);
        let area = &mut self.areas[area];
        loop {
            let page = area.members.pop(&mut area.links);
            let state = &mut area.states[page as usize];
            let rounds = *state >> PATIENCE_SHIFT;
            if *state & USED != 0 {
                *state = MEMBER | (rounds + 1).min(patience) << PATIENCE_SHIFT;
            } else if rounds > 0 {
                *state = MEMBER | (rounds - 1) << PATIENCE_SHIFT;
            } else {
                area.remember(page, frames);
                return page;
            }
            area.members.push(page, &mut area.links);
        }
    }

    /// A page of the area's shadow was accessed: the area grows at the others' expense.
    fn learn(&mut self, grown: usize, frames: u32) {
        let gain = self.areas[grown].gain;
        let before: f64 = self.areas.iter().map(|area| area.target).sum();
        self.areas[grown].target += gain;
        let rest = f64::from(frames) / (before + gain);
        for area in &mut self.areas {
            area.target *= rest;
        }
    }

    /// The access as its area sees it.
    fn note(&mut self, reference: Reference, frames: u32) {
        let number = self.division.area(reference);
        let page = reference.page();
        let area = &mut self.areas[number];
        let state = area.states[page as usize];
        if state & MEMBER != 0 {
            area.states[page as usize] |= USED;
            return;
        }
        if state & SHADOW != 0 {
            area.shadow.remove(page, &mut area.links);
        }
        area.members.push(page, &mut area.links);
        area.states[page as usize] = MEMBER;
        if state & SHADOW != 0 {
            self.learn(number, frames);
        }
    }
}

impl Area {
    fn holds(&self, page: u32) -> bool {
        self.states[page as usize] & MEMBER != 0
    }

    /// Members and shadow together are as many as there are frames, as in ARC: what lies farther back, no size of this
    /// area could have kept.
    fn remember(&mut self, page: u32, frames: u32) {
        self.states[page as usize] = SHADOW;
        self.shadow.push(page, &mut self.links);
        while self.shadow.len() > 1 && self.members.len() + self.shadow.len() > frames {
            let forgotten = self.shadow.pop(&mut self.links);
            self.states[forgotten as usize] = 0;
        }
    }
}

impl<D: Division, const N: usize> Policy for Areas<D, N> {
    fn grow(&mut self, pages: usize) {
        for area in &mut self.areas {
            area.links.grow(pages);
            area.states.resize(pages, 0);
        }
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        self.note(reference, memory.frames());
    }

    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        self.free_a_frame(memory);
        memory.admit(reference.page());
        self.note(reference, memory.frames());
    }
}
