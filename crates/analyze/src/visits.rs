//! When each page of each object came back last.

use std::collections::HashMap;
use std::num::NonZeroU32;

use foldhash::fast::RandomState;

/// A page's last swap-in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    /// Its number among the object's, modulo 2^32.
    ordinal: u32,
    /// In ticks, modulo 2^32: days.
    ticks: u32,
}

/// Times are kept to 65 us.
const TICK_BITS: u32 = 16;

fn ticks(time_ns: u64) -> u32 {
    (time_ns >> TICK_BITS) as u32
}

/// From one swap-in of a page to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reuse {
    /// Swap-ins of the object meanwhile, this one included.
    pub(crate) pages: u64,
    /// To 65 us.
    pub(crate) ns: u64,
}

impl Visit {
    pub(crate) fn until(self, ordinal: u64, time_ns: u64) -> Reuse {
        let passed = ticks(time_ns).wrapping_sub(self.ticks);
        Reuse {
            pages: u64::from((ordinal as u32).wrapping_sub(self.ordinal)),
            ns: u64::from(passed) << TICK_BITS,
        }
    }
}

/// Pages that lie side by side: programs go from one to the next. Few, as most objects of a program that has a million of
/// them have a page each.
const CHUNK_PAGES: u64 = 8;
type Chunk = [Option<NonZeroVisit>; CHUNK_PAGES as usize];

/// All pages of all objects.
#[derive(Default)]
pub(crate) struct Visits(HashMap<(u32, u64), Chunk, RandomState>);

impl Visits {
    /// Notes a swap-in; returns the one before.
    pub(crate) fn visit(
        &mut self,
        object: usize,
        page: u64,
        ordinal: u64,
        time_ns: u64,
    ) -> Option<Visit> {
        let chunk = self
            .0
            .entry((object as u32, page / CHUNK_PAGES))
            .or_default();
        let visit = NonZeroVisit::new(ordinal, time_ns);
        let before = chunk[(page % CHUNK_PAGES) as usize].replace(visit);
        before.map(NonZeroVisit::get)
    }
}

/// A visit in eight bytes, of which none is spent on whether there is one: numbers are counted from 1.
#[derive(Clone, Copy, Debug)]
struct NonZeroVisit {
    ordinal: NonZeroU32,
    ticks: u32,
}

impl NonZeroVisit {
    fn new(ordinal: u64, time_ns: u64) -> Self {
        Self {
            ordinal: NonZeroU32::new((ordinal as u32).wrapping_add(1)).unwrap_or(NonZeroU32::MIN),
            ticks: ticks(time_ns),
        }
    }

    fn get(self) -> Visit {
        Visit {
            ordinal: self.ordinal.get().wrapping_sub(1),
            ticks: self.ticks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_s_last_visit_is_told() {
        let mut visits = Visits::default();
        assert!(visits.visit(1, 77, 0, 1 << 20).is_none());
        assert!(visits.visit(1, 78, 1, 2 << 20).is_none());
        assert!(visits.visit(2, 77, 0, 3 << 20).is_none());
        let before = visits.visit(1, 77, 2, 5 << 20).expect("it was there");
        let reuse = Reuse {
            pages: 2,
            ns: 4 << 20,
        };
        assert_eq!(before.until(2, 5 << 20), reuse);
        assert_eq!(size_of::<Chunk>(), 64, "a line of the cache");
    }
}
