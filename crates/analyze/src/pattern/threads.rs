//! Each thread's last steps in an object, from each of the few places at which it is at work.
//!
//! A thread that goes through several parts of an array side by side (the fields of structures that lie one after the other, the two runs of a
//! merge, the ends of a ring) jumps from one part to the next, and yet goes on page by page in each.

use super::NEAR;

/// Places that are told apart in one object; of more, the one that was left longest ago is forgotten.
const MOST_PLACES: usize = 256;
/// And of one thread: one for so many pages between the first and the last that were seen, as one that goes anywhere would else soon be near
/// one of them each time,
const PAGES_OF_PLACE: u64 = 16 * NEAR;
/// at least and at most so many.
const FEWEST_OF_THREAD: usize = 8;
const MOST_OF_THREAD: usize = 32;

/// Who comes back to a place after as many steps elsewhere has begun something new there.
const LEFT_STEPS: u64 = 256;

/// Where a thread was last in a part of an object.
#[derive(Clone, Copy, Debug)]
struct Place {
    thread: u32,
    page: u64,
    /// How it came there: from the page before in this part, or, to the part's first page, from another part.
    along: i64,
    /// The step that was told of then.
    step: i64,
    /// Where its run began.
    from: u64,
    /// A run begins here, if it goes on at once.
    is_new: bool,
    /// The thread came here from here.
    is_running: bool,
    /// Of the thread's steps, the number of the one to here.
    number: u64,
}

impl Place {
    fn distance_to(&self, page: u64) -> i64 {
        page.wrapping_sub(self.page) as i64
    }

    fn is_near(&self, page: u64) -> bool {
        self.distance_to(page).unsigned_abs() <= NEAR
    }

    /// Whether a jump leads further on in the direction of a run that goes on here.
    fn is_passed_by(&self, jump: i64) -> bool {
        self.goes_on(self.along) && self.along.signum() == jump.signum()
    }

    /// Whether such a step is the next of a sweep that has begun here. To come near where it was once before is no sweep yet.
    fn goes_on(&self, distance: i64) -> bool {
        distance != 0
            && self.along.unsigned_abs() <= NEAR
            && self.along.signum() == distance.signum()
    }
}

/// From one page to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) distance: i64,
    /// Of the step before, 0 if there was none.
    pub(super) before: i64,
    /// The first of a run: the thread had jumped there, and goes on. Not so where the one before began, as in each round of a loop, nor further on
    /// in the direction of the one before, over pages that were in memory.
    pub(super) begins: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Threads {
    /// The one seen last is the last.
    places: Vec<Place>,
    /// The first page and the last that were seen; none before there is a place.
    first: u64,
    last: u64,
}

impl Threads {
    /// From where the thread was before in that part of the object, if it sweeps that part; else from where it was last. `None`: the
    /// thread's first page, or the same again (evicted in between).
    pub(super) fn step(&mut self, thread: u32, page: u64) -> Option<Step> {
        self.widen(page);
        let Some(last_at) = self.own(thread).next() else {
            self.remember(Place {
                thread,
                page,
                along: 0,
                step: 0,
                from: page,
                is_new: true,
                is_running: false,
                number: 0,
            });
            return None;
        };
        let near_at = self.own(thread).find(|&at| self.places[at].is_near(page));
        let last = self.places[last_at];
        let jump = last.distance_to(page);
        let (step, along) = match near_at.map(|at| self.places[at]) {
            _ if jump == 0 => {
                self.places[last_at..].rotate_left(1);
                return None;
            }
            Some(place) => {
                let distance = place.distance_to(page);
                let along = if distance == 0 { place.along } else { distance };
                let is_swept = near_at == Some(last_at) || place.goes_on(distance);
                let onwards = Step {
                    distance,
                    before: place.along,
                    begins: place.is_new && near_at == Some(last_at),
                };
                (is_swept.then_some(onwards), along)
            }
            None => (None, jump),
        };
        let step = step.unwrap_or(Step {
            distance: jump,
            before: last.step,
            begins: false,
        });
        // Of places side by side none is done when the thread jumps to the next.
        let is_running = near_at == Some(last_at);
        let (from, is_new) = match near_at.map(|at| self.places[at]) {
            Some(place) if last.number - place.number < LEFT_STEPS => (place.from, false),
            _ if last.is_passed_by(jump) => (last.from, false),
            _ => (page, last.is_running && last.from.abs_diff(page) > NEAR),
        };
        if let Some(at) = near_at {
            self.places.remove(at);
        }
        self.remember(Place {
            thread,
            page,
            along,
            step: step.distance,
            from,
            is_new,
            is_running,
            number: last.number + 1,
        });
        Some(step)
    }

    /// How many pages lie between the first and the last that were seen.
    pub(super) fn span(&self) -> u64 {
        self.last - self.first
    }

    /// Where a thread's places are, the one seen last first.
    fn own(&self, thread: u32) -> impl Iterator<Item = usize> {
        let is_own = move |&at: &usize| self.places[at].thread == thread;
        (0..self.places.len()).rev().filter(is_own)
    }

    fn widen(&mut self, page: u64) {
        let (first, last) = match self.places.is_empty() {
            true => (page, page),
            false => (self.first, self.last),
        };
        (self.first, self.last) = (first.min(page), last.max(page));
    }

    fn remember(&mut self, place: Place) {
        let most = usize::try_from(self.span() / PAGES_OF_PLACE).unwrap_or(usize::MAX);
        let most = most.clamp(FEWEST_OF_THREAD, MOST_OF_THREAD);
        let oldest = self.own(place.thread).nth(most - 1);
        if let Some(at) = oldest {
            self.places.remove(at);
        } else if self.places.len() == MOST_PLACES {
            self.places.remove(0);
        }
        if self.places.is_empty() {
            self.places.reserve_exact(1); // mostly there is one
        }
        self.places.push(place);
    }
}
