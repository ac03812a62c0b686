//! How large objects are.

use crate::address_map::Range;

/// An object's size over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extent {
    live: Amount,
    /// What of it each address space has made, and not released: it ends with the space. Mostly there is one.
    of_spaces: Vec<(u32, Amount)>,
    /// Most bytes alive at once.
    pub(crate) peak_bytes: u64,
    /// Most allocations alive at once, each sample counted for all it stands for.
    peak_allocations: f64,
    /// In how many stretches they lay when most bytes were alive: those with no whole page between them are one.
    stretches: u64,
    /// How many allocations, counted alike.
    pub(crate) allocations: f64,
    /// Whether some of them were sampled.
    pub(crate) sampled: bool,
    /// Bytes alive at each swap-in of any object, summed up over so many first ones.
    bytes_at_swap_ins: f64,
    swap_ins: u64,
}

/// Bytes, and the allocations that they are of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Amount {
    bytes: u64,
    allocations: f64,
    /// Stretches that these make more: what lies between two others joins them, and makes one less.
    stretches: i64,
}

impl Amount {
    /// Of a range with so many of its object right beside it.
    fn of(range: &Range, beside: usize) -> Self {
        Self {
            bytes: range.stands_for,
            allocations: range.allocations(),
            stretches: 1 - beside as i64,
        }
    }

    fn add(&mut self, more: Self) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.allocations += more.allocations;
        self.stretches += more.stretches;
    }

    fn take(&mut self, less: Self) {
        self.bytes = self.bytes.saturating_sub(less.bytes);
        self.allocations = (self.allocations - less.allocations).max(0.0);
        self.stretches -= less.stretches;
    }

    /// No more than there is of another.
    fn at_most(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.min(other.bytes),
            allocations: self.allocations.min(other.allocations),
            stretches: self.stretches,
        }
    }
}

impl Extent {
    pub(crate) fn rounded_allocations(&self) -> u64 {
        self.allocations.round() as u64
    }

    /// Most allocations alive at once.
    pub(crate) fn most_alive(&self) -> u64 {
        self.peak_allocations.round() as u64
    }

    /// How many bytes were alive on average when something swapped in; `None`: nothing did.
    pub(crate) fn mean_bytes(&self) -> Option<u64> {
        (self.swap_ins > 0).then(|| (self.bytes_at_swap_ins / self.swap_ins as f64) as u64)
    }

    /// There have been so many swap-ins.
    fn pass(&mut self, swap_ins: u64) {
        self.bytes_at_swap_ins += (swap_ins - self.swap_ins) as f64 * self.live.bytes as f64;
        self.swap_ins = swap_ins;
    }

    /// In how many stretches they lay when most bytes were alive.
    pub(crate) fn stretches(&self) -> u64 {
        self.stretches
    }

    /// One more, with so many right beside it.
    pub(super) fn grow(&mut self, space: u32, range: &Range, beside: usize) {
        let more = Amount::of(range, beside);
        let at = self
            .of_spaces
            .iter()
            .rposition(|(number, _)| *number == space);
        match at {
            Some(at) => self.of_spaces[at].1.add(more),
            None => self.of_spaces.push((space, more)),
        }
        self.live.add(more);
        self.note_peak(self.live);
    }

    /// What is there from the beginning to the end.
    pub(super) fn is_there(&mut self, range: &Range) {
        self.note_peak(Amount::of(range, 0));
    }

    fn note_peak(&mut self, now: Amount) {
        if now.bytes > self.peak_bytes {
            self.peak_bytes = now.bytes;
            self.stretches = now.stretches.max(1) as u64;
        }
        self.peak_allocations = self.peak_allocations.max(now.allocations);
    }

    /// What a forked child releases of its parent's is the child's copy, which was never counted.
    pub(super) fn shrink(&mut self, space: u32, range: &Range, beside: usize) {
        let own = self
            .of_spaces
            .iter_mut()
            .rfind(|(number, _)| *number == space);
        if let Some((_, own)) = own {
            let less = Amount::of(range, beside).at_most(*own);
            own.take(less);
            self.live.take(less);
        }
    }

    fn end(&mut self, space: u32) {
        if let Some(at) = self
            .of_spaces
            .iter()
            .rposition(|(number, _)| *number == space)
        {
            let (_, own) = self.of_spaces.swap_remove(at);
            self.live.take(own);
        }
    }
}

/// By the objects' numbers.
#[derive(Default)]
pub(super) struct Extents {
    of_objects: Vec<Extent>,
    /// Of any object, so far.
    swap_ins: u64,
}

impl Extents {
    pub(super) fn of(&mut self, object: usize) -> &mut Extent {
        if object >= self.of_objects.len() {
            self.of_objects.resize(object + 1, Extent::default());
        }
        let extent = &mut self.of_objects[object];
        extent.pass(self.swap_ins);
        extent
    }

    /// Something swaps in.
    pub(super) fn note_swap_in(&mut self) {
        self.swap_ins += 1;
    }

    /// An address space has ended, and all that was in it.
    pub(super) fn end(&mut self, space: u32) {
        for extent in &mut self.of_objects {
            extent.pass(self.swap_ins);
            extent.end(space);
        }
    }

    /// Of so many objects.
    pub(super) fn into_all(mut self, objects: usize) -> Vec<Extent> {
        self.of_objects.resize(objects, Extent::default());
        for extent in &mut self.of_objects {
            extent.pass(self.swap_ins);
        }
        self.of_objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: u64) -> Range {
        Range::whole(4096, 4096 + bytes, 0)
    }

    #[test]
    fn what_ended_with_its_process_is_not_alive_with_the_next_ones() {
        let mut extents = Extents::default();
        for space in 1..=4 {
            extents.of(0).grow(space, &bytes(24), 0);
            extents.end(space);
        }
        let of_one = extents.of(0);
        assert_eq!((of_one.peak_bytes, of_one.most_alive()), (24, 1));
        extents.of(0).grow(5, &bytes(10), 0);
        extents.of(0).grow(6, &bytes(10), 0);
        assert_eq!(extents.of(0).live.bytes, 20);
        assert_eq!(extents.of(0).most_alive(), 2);
        extents.of(0).shrink(7, &bytes(10), 0);
        assert_eq!(extents.of(0).live.bytes, 20, "a child's copy");
        extents.of(0).shrink(5, &bytes(10), 0);
        assert_eq!(extents.of(0).live.bytes, 10);
    }

    #[test]
    fn the_mean_size_is_that_at_swap_ins() {
        let mut extents = Extents::default();
        assert_eq!(extents.of(0).mean_bytes(), None);
        extents.of(0).grow(1, &bytes(4000), 0);
        for _ in 0..3 {
            extents.note_swap_in();
        }
        // Another object's changes do not matter.
        extents.of(1).grow(1, &bytes(100), 0);
        extents.of(0).shrink(1, &bytes(4000), 0);
        extents.note_swap_in();
        extents.end(1);
        let means: Vec<Option<u64>> = extents.into_all(3).iter().map(Extent::mean_bytes).collect();
        assert_eq!(means, [Some(3000), Some(25), Some(0)]);
    }

    #[test]
    fn what_is_made_again_and_again_is_one_at_a_time() {
        let mut extent = Extent::default();
        for _ in 0..2000 {
            extent.grow(1, &bytes(64 << 20), 0);
            extent.shrink(1, &bytes(64 << 20), 0);
        }
        assert_eq!((extent.peak_bytes, extent.most_alive()), (64 << 20, 1));
        // A sample counts for all that it stands for, and half of one is half.
        let samples = Range {
            stands_for: 6400,
            ..bytes(64)
        };
        extent.grow(1, &samples, 0);
        assert_eq!(extent.most_alive(), 100);
        let half = Range {
            stands_for: 3200,
            ..samples
        };
        extent.shrink(1, &half, 0);
        assert_eq!(extent.live.allocations, 50.0);
    }
}
