//! Sweeps that pass over most of what lies ahead of them: who looks at every fourth column of a table goes through one after the other, and what would be
//! read ahead is mostly of those in between. Which pages a sweep leaves out is told by those that are not in memory when it passes: it would have
//! waited for them. Of those in memory nothing is known, and nothing would be read for them.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use pagewise_abi::sweeps;
use pagewise_trace::EventKind;

/// Of what is read ahead, no more than so many pages may be passed over for each that is used. (Of recordings of `bench/apply` none of a sweep has a tenth,
/// boosted trees have 1.4.)
const MOST: f64 = 0.5;

/// The sweeps of some objects.
pub(crate) struct PassedOver {
    walks: Vec<Walk>,
    page_bytes: u64,
    reach: Reach,
}

/// How far sweeps go and are read ahead of, pages.
#[derive(Clone, Copy)]
struct Reach {
    step: u64,
    lead: u64,
}

impl PassedOver {
    /// Of each object, whether it is of several blocks; in so much memory, bytes.
    pub(crate) fn new(
        of_blocks: impl Iterator<Item = bool>,
        memory_bytes: u64,
        page_bytes: u64,
    ) -> Self {
        Self {
            walks: of_blocks.map(Walk::new).collect(),
            page_bytes,
            reach: Reach {
                step: sweeps::LONGEST_STEP / page_bytes,
                lead: sweeps::longest_lead(memory_bytes) / page_bytes,
            },
        }
    }

    /// A page of an object left or came back, in order of time.
    pub(crate) fn note(&mut self, object: usize, address: u64, kind: EventKind) {
        let page = address / self.page_bytes;
        match kind {
            EventKind::Eviction => self.walks[object].leave(page),
            EventKind::SwapIn | EventKind::SwapCacheHit => {
                self.walks[object].come(page, self.reach)
            }
            EventKind::PageWritten | EventKind::ZeroFilled => {}
        }
    }

    /// Whether too much of what would be read ahead of this object's sweeps is passed over.
    pub(crate) fn is_much(&self, object: usize) -> bool {
        let walk = &self.walks[object];
        walk.over as f64 > MOST * walk.came as f64
    }
}

/// Where a sweep is.
#[derive(Clone, Copy)]
struct Place {
    page: u64,
    /// Of its direction, once there was a second one.
    forward: Option<bool>,
    steps: u32,
    /// Pages that had come back until then.
    came: u64,
}

/// What comes back of one object, page by page.
struct Walk {
    /// A bit for each page that is out of memory, by 64 pages.
    out: HashMap<u64, u64, RandomState>,
    /// The one that got on last is first.
    places: Vec<Place>,
    of_blocks: bool,
    came: u64,
    over: u64,
}

impl Walk {
    fn new(of_blocks: bool) -> Self {
        Self {
            out: HashMap::default(),
            places: Vec::new(),
            of_blocks,
            came: 0,
            over: 0,
        }
    }

    fn leave(&mut self, page: u64) {
        *self.out.entry(page / 64).or_default() |= 1 << (page % 64);
    }

    fn come(&mut self, page: u64, reach: Reach) {
        if let Some(word) = self.out.get_mut(&(page / 64)) {
            *word &= !(1 << (page % 64));
        }
        self.came += 1;
        let lead = reach.lead / self.at_work().max(1);
        let least_steps = sweeps::least_steps(self.of_blocks);
        let near = |place: &Place| distance(place, page).is_some_and(|pages| pages <= reach.step);
        let ahead = |place: &Place| {
            place.steps >= least_steps && distance(place, page).is_some_and(|pages| pages <= lead)
        };
        let index = self.places.iter().position(near);
        let index = index.or_else(|| self.places.iter().position(ahead));
        let place = match index {
            Some(index) => {
                let place = self.places.remove(index);
                if !near(&place) {
                    self.over += self.out_between(place.page, page);
                }
                Place {
                    page,
                    forward: place.forward.or(Some(page >= place.page)),
                    steps: place.steps + 1,
                    came: self.came,
                }
            }
            None => {
                self.leave_one(lead);
                Place {
                    page,
                    forward: None,
                    steps: 0,
                    came: self.came,
                }
            }
        };
        self.places.insert(0, place);
    }

    /// Sweeps that share what is read ahead.
    fn at_work(&self) -> u64 {
        let is_at_work = |place: &&Place| {
            let was_left = self.came - place.came > sweeps::LEFT_FAULTS;
            self.is_sweeping(place) && !was_left
        };
        self.places.iter().filter(is_at_work).count() as u64
    }

    fn is_sweeping(&self, place: &Place) -> bool {
        place.steps >= sweeps::least_steps(self.of_blocks)
    }

    /// If there are many, the one that was left first is no more: what was read ahead of it was not wanted.
    fn leave_one(&mut self, lead: u64) {
        if self.places.len() < sweeps::places_of_thread(self.of_blocks) {
            return;
        }
        let place = self.places.pop().expect("there are several");
        if self.is_sweeping(&place) {
            self.over += match place.forward {
                Some(false) => self.out_between(place.page.saturating_sub(lead), place.page),
                _ => self.out_between(place.page, place.page + lead),
            };
        }
    }

    /// Pages between two that are out of memory, whichever comes first.
    fn out_between(&self, one: u64, other: u64) -> u64 {
        let (from, to) = (one.min(other) + 1, one.max(other));
        let words = (from / 64)..=(to / 64);
        let bits = words.map(|number| {
            let word = self.out.get(&number).copied().unwrap_or(0);
            let first = from.saturating_sub(number * 64).min(64);
            let last = to.saturating_sub(number * 64).min(64);
            let below = |bits: u64| (1u128 << bits) as u64;
            let within = below(last).wrapping_sub(1) & !below(first).wrapping_sub(1);
            u64::from((word & within).count_ones())
        });
        bits.sum()
    }
}

/// How far a page lies from a place in its direction; `None`: in the other.
fn distance(place: &Place, page: u64) -> Option<u64> {
    match place.forward {
        Some(true) => page.checked_sub(place.page),
        Some(false) => place.page.checked_sub(page),
        None => Some(page.abs_diff(place.page)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAD: u64 = 2048;
    const REACH: Reach = Reach {
        step: 256,
        lead: LEAD,
    };
    const BLOCK: u64 = 366;

    /// All that are out come back as a sweep goes through blocks, of which it looks at each so many; by the direction.
    fn share(every: usize, is_down: bool) -> f64 {
        let mut walk = Walk::new(true);
        let pages = 100 * BLOCK;
        for _ in 0..2 {
            (0..pages).for_each(|page| walk.leave(page));
            for block in (0..100).step_by(every) {
                for page in block * BLOCK..(block + 1) * BLOCK {
                    walk.come(if is_down { pages - 1 - page } else { page }, REACH);
                }
            }
        }
        walk.over as f64 / walk.came as f64
    }

    #[test]
    fn what_is_left_out_between_blocks_is_passed_over() {
        for is_down in [false, true] {
            assert_eq!(share(1, is_down), 0.0);
            let half = share(2, is_down);
            assert!((0.9..1.05).contains(&half), "{half}");
            let most = share(4, is_down);
            assert!((2.8..3.1).contains(&most), "{most}");
        }
    }

    #[test]
    fn what_is_in_memory_would_not_be_read() {
        let mut walk = Walk::new(true);
        (0..100).for_each(|page| walk.leave(page));
        (1000..1100).for_each(|page| walk.leave(page));
        (0..100)
            .chain(1000..1100)
            .for_each(|page| walk.come(page, REACH));
        assert_eq!((walk.came, walk.over), (200, 0));
    }

    #[test]
    fn runs_here_and_there_are_read_beyond() {
        let mut walk = Walk::new(true);
        let runs = 40;
        (0..runs * 10_000).for_each(|page| walk.leave(page));
        for run in 0..runs {
            let from = (run * 7 % runs) * 10_000;
            (from..from + 100).for_each(|page| walk.come(page, REACH));
        }
        // Three runs lie so close to each other in time that they share it.
        assert_eq!(
            walk.over,
            (runs - sweeps::places_of_thread(true) as u64) * (LEAD / 3 - 1)
        );
    }

    #[test]
    fn fields_side_by_side_are_a_sweep_each() {
        let mut walk = Walk::new(false);
        (0..240_000).for_each(|page| walk.leave(page));
        for page in 0..10_000 {
            (0..24).for_each(|field| walk.come(field * 10_000 + page, REACH));
        }
        assert_eq!(walk.over, 0);
    }

    #[test]
    fn what_is_used_at_random_is_no_sweep() {
        let mut walk = Walk::new(true);
        (0..100_000).for_each(|page| walk.leave(page));
        (0..5000).for_each(|number: u64| walk.come(number * 7919 % 100_000, REACH));
        assert_eq!(walk.over, 0);
    }
}
