//! Counts by stack distance.

/// Events by distance; a memory that holds as many frames or more avoids them.
#[derive(Clone, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    /// Events in a memory of any size.
    pub(crate) always: u64,
}

impl Histogram {
    pub(crate) fn add(&mut self, distance: u32) {
        if distance as usize >= self.counts.len() {
            let length = (distance as usize + 1).max(self.counts.len() * 2);
            self.counts.resize(length, 0);
        }
        self.counts[distance as usize] += 1;
    }

    /// Turns counts into the number of events in a memory of each size.
    pub(crate) fn accumulate(&mut self) {
        let mut beyond = self.always;
        for count in self.counts.iter_mut().rev() {
            let here = *count;
            *count = beyond;
            beyond += here;
        }
    }

    /// Events in a memory of `frames`, once accumulated.
    pub(crate) fn at(&self, frames: u32) -> u64 {
        self.counts
            .get(frames as usize)
            .copied()
            .unwrap_or(self.always)
    }
}
