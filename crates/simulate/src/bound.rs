//! A lower bound of the I/O time that any policy can reach, even one that knows the future.
//!
//! The least time is hard to compute once dirty pages must be written back (N. Beckmann, P. B. Gibbons, B. Haeupler,
//! C. McGuffey, Writeback-aware caching, APOCS 2020). Its Lagrangian relaxation is not: memory is rented instead of
//! limited. At given rents each page decides alone, by a shortest path over its accesses, in which gaps to stay; what all
//! pages then pay, less the rent of the memory there is, is a lower bound whatever the rents (weak duality). Rents are
//! improved by subgradient steps, and the best bound counts.

use crate::future::pages;
use crate::reference::Reference;
use crate::storage::Storage;

/// Stretches of the trace, each with a rent of its own.
const STRETCHES: usize = 1024;

/// No earlier access.
const FIRST: u32 = u32::MAX;

const CLEAN: usize = 0;
const DIRTY: usize = 1;

/// A choice for the gap before an access, for each state after it: two bits, whether the page stayed, and whether it was
/// dirty before.
const STAYED: u8 = 1;
const WAS_DIRTY: u8 = 2;

/// A time (ns) below which no policy gets with `frames` pages of memory: reads from files and swap and writes to swap,
/// without writes to files. `upper`, the time of any policy, guides the search; more `rounds` make the bound tighter.
/// At most 2^32 - 1 references. That swap may not keep copies is left out, which leaves it a bound.
pub fn lower_bound(
    trace: &[Reference],
    frames: u32,
    storage: &Storage,
    upper: u64,
    rounds: u32,
) -> u64 {
    let mut search = Search::new(trace, frames, storage);
    let mut best = 0.0f64;
    let mut boldness = 1.0;
    for _ in 0..rounds {
        let bound = search.price();
        if bound > best {
            best = bound;
        } else {
            boldness *= 0.97;
        }
        if !search.adjust(boldness * (upper as f64 - bound).max(0.0)) {
            break;
        }
    }
    best as u64
}

struct Search<'a> {
    trace: &'a [Reference],
    storage: &'a Storage,
    /// Position of the previous access to the same page, or [`FIRST`].
    previous: Vec<u32>,
    /// References in a stretch.
    stretch: usize,
    /// Rent of a frame for one reference (ns), by stretch.
    rents: Vec<f64>,
    /// Frames that pages other than the one accessed can use.
    room: f64,
    /// Least cost up to each page's last access, if it is clean or dirty then.
    costs: Vec<[f64; 2]>,
    choices: Vec<u8>,
}

impl Search<'_> {
    fn new<'a>(trace: &'a [Reference], frames: u32, storage: &'a Storage) -> Search<'a> {
        let pages = pages(trace);
        let mut last = vec![FIRST; pages];
        let previous = trace.iter().enumerate().map(|(position, reference)| {
            std::mem::replace(&mut last[reference.page() as usize], position as u32)
        });
        let previous = previous.collect();
        let stretch = trace.len().div_ceil(STRETCHES).max(1);
        Search {
            trace,
            storage,
            previous,
            stretch,
            rents: vec![0.0; trace.len().div_ceil(stretch)],
            room: f64::from(frames) - 1.0,
            costs: vec![[0.0; 2]; pages],
            choices: vec![0; trace.len()],
        }
    }

    /// Rent of a frame from the beginning to each stretch's beginning.
    fn rent_before(&self) -> Vec<f64> {
        let sums = self.rents.iter().scan(0.0, |sum, rent| {
            let before = *sum;
            *sum += rent * self.stretch as f64;
            Some(before)
        });
        sums.collect()
    }

    /// The bound at the present rents; leaves each page's choices.
    fn price(&mut self) -> f64 {
        let before = self.rent_before();
        let rent_to = |position: usize| {
            let stretch = position / self.stretch;
            before[stretch] + self.rents[stretch] * (position % self.stretch) as f64
        };
        for (position, &reference) in self.trace.iter().enumerate() {
            let costs = &mut self.costs[reference.page() as usize];
            let previous = self.previous[position];
            let read = match reference.is_file() {
                true => self.storage.file.read_ns,
                false if previous == FIRST => 0,
                false => self.storage.swap.read_ns,
            } as f64;
            let (mut after, mut choices) = ([read, f64::INFINITY], [0; 2]);
            if previous != FIRST {
                let rent = rent_to(position) - rent_to(previous as usize + 1);
                let write = self.storage.swap.write_ns as f64;
                let ways = [
                    (costs[CLEAN] + rent, STAYED),
                    (costs[CLEAN] + read, 0),
                    (costs[DIRTY] + write + read, WAS_DIRTY),
                ];
                let cheapest = ways.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
                (after[CLEAN], choices[CLEAN]) = cheapest.expect("three ways");
                (after[DIRTY], choices[DIRTY]) = (costs[DIRTY] + rent, STAYED | WAS_DIRTY);
            }
            if reference.is_write() && !reference.is_file() {
                let cheaper = usize::from(after[DIRTY] < after[CLEAN]);
                (after[DIRTY], choices[DIRTY]) = (after[cheaper], choices[cheaper]);
                after[CLEAN] = f64::INFINITY;
            }
            *costs = after;
            self.choices[position] = choices[CLEAN] | choices[DIRTY] << 2;
        }
        let paid: f64 = self
            .costs
            .iter()
            .map(|costs| costs[CLEAN].min(costs[DIRTY]))
            .sum();
        let end = rent_to(self.trace.len().saturating_sub(1)) + self.rents.last().unwrap_or(&0.0);
        paid - self.room * end
    }
    /// Moves the rents towards where demand meets supply, so far that the bound might rise by `missing`; whether there was
    /// anything to move.
    fn adjust(&mut self, missing: f64) -> bool {
        let demand = self.demand();
        let supply = self.room * self.stretch as f64;
        let gradient: Vec<f64> = (demand.iter().take(self.rents.len()))
            .map(|demand| demand - supply)
            .collect();
        let squares: f64 = gradient.iter().map(|slope| slope * slope).sum();
        if squares == 0.0 {
            return false;
        }
        for (rent, slope) in self.rents.iter_mut().zip(gradient) {
            *rent = (*rent + missing / squares * slope).max(0.0);
        }
        true
    }

    /// Frames times references that pages stay for at the present rents, by stretch.
    fn demand(&self) -> Vec<f64> {
        let dirty = self
            .costs
            .iter()
            .map(|costs| usize::from(costs[DIRTY] < costs[CLEAN]));
        let mut states: Vec<usize> = dirty.collect();
        // Whole stretches as differences, what begins or ends within one apart.
        let mut whole = vec![0.0; self.rents.len() + 1];
        let mut parts = vec![0.0; self.rents.len() + 1];
        for (position, reference) in self.trace.iter().enumerate().rev() {
            let state = &mut states[reference.page() as usize];
            let choice = self.choices[position] >> (2 * *state);
            *state = usize::from(choice & WAS_DIRTY != 0);
            if choice & STAYED == 0 {
                continue;
            }
            for (end, sign) in [
                (position, 1.0),
                (self.previous[position] as usize + 1, -1.0),
            ] {
                whole[end / self.stretch] += sign;
                parts[end / self.stretch] += sign * (end % self.stretch) as f64;
            }
        }
        // What ends in a later stretch lasts through this one.
        let mut later = 0.0;
        for stretch in (0..self.rents.len()).rev() {
            parts[stretch] += later * self.stretch as f64;
            later += whole[stretch];
        }
        parts
    }
}
