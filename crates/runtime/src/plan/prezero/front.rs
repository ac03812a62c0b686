//! Where the program touches fresh memory first, and which huge pages to make ready ahead of it. Arithmetic only.
//!
//! ```text
//!   region   0 1 2 3 4 5 6 7 8 ...          W: wire, left as it is: once it has memory, the program is there
//!            . . . W a a a W' .             a: made ready, from the far end back; then W' is the wire
//! ```
//!
//! The kernel does not tell what of ready memory was touched, but whether a page has memory at all. So the first region of each
//! chunk is not made ready. The program raises one fault there, and the chunk behind the next wire is made ready. A program that
//! touches as fast as memory can be zeroed shares the work: it comes from the front, the helper from the back, and they meet.

use std::ops::Range;

/// Regions of the first chunk,
const FIRST: usize = 2;
/// and of the longest: 64 MiB.
const LONGEST: usize = 32;
/// Chunks double while they are entered within so long, and begin anew later.
const GROWS_NS: u64 = 1_000_000_000;
/// What was made ready and is not entered within so long is given back.
const CALM_NS: u64 = 2_000_000_000;

/// Regions are counted from the first whole one of an area.
#[derive(Debug)]
pub(super) struct Front {
    /// The first region of the chunk that is entered next.
    wire: usize,
    /// Where that chunk ends.
    end: usize,
    /// Regions of the last chunk that was laid out.
    chunk: usize,
    /// To be made ready, from the end back: what lies close first.
    work: [Range<usize>; 2],
    entered_ns: u64,
    /// The area ended at the wire: that there is more of it now is as good as an entry.
    was_at_end: bool,
    /// What lies ahead was given back, or never made ready.
    is_bare: bool,
}

impl Front {
    pub(super) fn new() -> Self {
        Self {
            wire: 0,
            end: FIRST,
            chunk: FIRST,
            work: [0..0, 0..0],
            entered_ns: 0,
            was_at_end: false,
            is_bare: true,
        }
    }

    /// The region to be made ready next, of an area that has so many now; `None`: nothing is to be done at this moment.
    pub(super) fn next(
        &mut self,
        regions: usize,
        now_ns: u64,
        mut has_memory: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        loop {
            for work in &mut self.work {
                work.end = work.end.min(regions);
                if work.start >= work.end {
                    continue;
                }
                work.end -= 1;
                if !has_memory(work.end) {
                    return Some(work.end);
                }
                // Here it meets the program, or what was ready before.
                work.end = work.start;
            }
            if self.wire >= regions {
                self.shrink_to(regions);
                return None;
            }
            if !self.was_at_end && !has_memory(self.wire) {
                return None;
            }
            self.enter(regions, now_ns);
        }
    }

    /// The area ends before the wire: what comes beyond is new.
    fn shrink_to(&mut self, regions: usize) {
        self.wire = regions;
        self.end = regions + FIRST;
        self.was_at_end = regions > 0;
    }

    fn enter(&mut self, regions: usize, now_ns: u64) {
        let is_growing = now_ns.saturating_sub(self.entered_ns) < GROWS_NS;
        // No more ahead than was touched so far.
        let most = LONGEST.min(self.end.max(FIRST));
        self.chunk = if is_growing { self.chunk * 2 } else { FIRST }.min(most);
        self.entered_ns = now_ns;
        let rest = self.wire + usize::from(!self.was_at_end)..self.end.min(regions);
        self.was_at_end = false;
        self.wire = self.end;
        self.end = (self.wire + self.chunk).min(regions.max(self.wire));
        self.work = [rest, self.wire + 1..self.end];
        self.is_bare = false;
    }

    /// Whether all of an area was entered and nothing of it is left to be made ready.
    pub(super) fn is_through(&self, regions: usize) -> bool {
        self.wire >= regions && self.work.iter().all(|work| work.is_empty())
    }

    /// Nothing more is made ready of what was begun: there is no room.
    pub(super) fn stop(&mut self) {
        self.work = [0..0, 0..0];
    }

    /// What was made ready and the program did not come to; once. `in_need`: it is wanted back at once.
    pub(super) fn given_up(&mut self, regions: usize, now_ns: u64, in_need: bool) -> Range<usize> {
        let is_calm = in_need || now_ns.saturating_sub(self.entered_ns) > CALM_NS;
        if self.is_bare || !is_calm || self.work.iter().any(|work| !work.is_empty()) {
            return 0..0;
        }
        self.is_bare = true;
        let end = self.end.min(regions);
        (self.wire + 1).min(end)..end
    }

    /// Whether the program came on within so long.
    pub(super) fn is_moving(&self, now_ns: u64, within_ns: u64) -> bool {
        !self.is_bare && now_ns.saturating_sub(self.entered_ns) < within_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An area, and who gave each region its memory.
    struct Area {
        front: Front,
        ready: Vec<bool>,
        touched: Vec<bool>,
        now_ns: u64,
    }

    impl Area {
        fn new(regions: usize) -> Self {
            Self {
                front: Front::new(),
                ready: vec![false; regions],
                touched: vec![false; regions],
                now_ns: 1,
            }
        }

        fn step(&mut self) -> bool {
            let (ready, touched) = (&self.ready, &self.touched);
            let has_memory = |region: usize| ready[region] || touched[region];
            let next = self.front.next(self.ready.len(), self.now_ns, has_memory);
            if let Some(region) = next {
                assert!(!self.touched[region] && !self.ready[region]);
                self.ready[region] = true;
            }
            next.is_some()
        }

        fn settle(&mut self) {
            while self.step() {}
        }

        /// The program's first touch, and whether it raised a fault.
        fn touch(&mut self, region: usize) -> bool {
            self.now_ns += 1_000_000;
            let faults = !self.ready[region] && !self.touched[region];
            self.touched[region] = true;
            faults
        }

        fn ahead(&self) -> usize {
            let pairs = self.ready.iter().zip(&self.touched);
            pairs
                .filter(|(ready, touched)| **ready && !**touched)
                .count()
        }
    }

    #[test]
    fn what_is_never_touched_is_never_made_ready() {
        let mut area = Area::new(1000);
        area.settle();
        area.touch(500);
        area.settle();
        assert_eq!(area.ahead(), 0);
    }

    #[test]
    fn who_goes_through_memory_raises_few_faults_and_little_is_ready_in_vain() {
        let mut area = Area::new(1000);
        let mut faults = 0;
        for region in 0..1000 {
            faults += usize::from(area.touch(region));
            area.settle();
            assert!(area.ahead() <= 2 * LONGEST && area.ahead() <= 3 * region.max(FIRST));
        }
        // One for each chunk: 2, 2, 4, ..., 32, 32, ...
        assert!(faults <= 1000 / LONGEST + 8, "{faults}");
    }

    #[test]
    fn who_is_as_fast_as_the_helper_does_half_of_it() {
        let mut area = Area::new(1000);
        let (mut faults, mut made, mut at) = (0, 0, 0);
        while at < 1000 {
            // Each takes one at a time; ready ones cost the program nothing.
            faults += usize::from(area.touch(at));
            at += 1;
            while at < 1000 && area.ready[at] {
                area.touch(at);
                at += 1;
            }
            made += usize::from(area.step());
        }
        assert_eq!(faults + made, 1000);
        assert!((400..600).contains(&made), "{made}");
    }

    #[test]
    fn who_slept_catches_up() {
        let mut area = Area::new(1000);
        (0..600).for_each(|region| {
            area.touch(region);
        });
        area.settle();
        assert!(
            area.ready[600..].iter().any(|ready| *ready),
            "{:?}",
            area.front
        );
        assert!(!area.ready[..600].iter().any(|ready| *ready));
    }

    #[test]
    fn it_is_through_at_the_end_and_not_before() {
        let mut area = Area::new(100);
        assert!(!area.front.is_through(100));
        for region in 0..100 {
            assert!(!area.front.is_through(100) || area.ready[region]);
            area.touch(region);
            area.settle();
        }
        assert!(area.front.is_through(100));
        assert!(Front::new().is_through(0));
    }

    #[test]
    fn a_heap_that_grows_is_ready_up_to_its_end() {
        let mut area = Area::new(8);
        (0..8).for_each(|region| {
            area.touch(region);
            area.settle();
        });
        // The end moves because more is needed now: no fault is waited for.
        area.ready.resize(40, false);
        area.touched.resize(40, false);
        area.settle();
        assert!(area.ready[8], "{:?}", area.front);
        // It shrinks, and grows again elsewhere than the wire was.
        area.ready.truncate(4);
        area.touched.truncate(4);
        area.settle();
        area.ready.resize(12, false);
        area.touched.resize(12, false);
        area.settle();
        assert!(area.ready[4] && area.ready[5], "{:?}", area.front);
    }

    #[test]
    fn what_was_ready_in_vain_is_given_back_once_growth_stops() {
        let mut area = Area::new(100);
        (0..20).for_each(|region| {
            area.touch(region);
            area.settle();
        });
        assert!(area.front.is_moving(area.now_ns, GROWS_NS));
        assert_eq!(area.front.given_up(100, area.now_ns, false), 0..0);
        area.now_ns += CALM_NS + 1;
        let vain = area.front.given_up(100, area.now_ns, false);
        assert!(vain.start > 20 && !vain.is_empty(), "{vain:?}");
        assert!(vain.clone().all(|region| area.ready[region]));
        assert_eq!(area.front.given_up(100, area.now_ns, true), 0..0);
        // The program comes after all.
        vain.clone().for_each(|region| area.ready[region] = false);
        for region in 20..100 {
            area.touch(region);
            area.settle();
        }
        assert!(area.ready[vain.end - 1]);
    }
}
