//! How large objects are.

/// An object's size over time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    live_bytes: u64,
    /// Most bytes alive at once.
    pub(crate) peak_bytes: u64,
    /// How many allocations, each sample counted for all it stands for.
    pub(crate) allocations: f64,
    /// Whether some of them were sampled.
    pub(crate) sampled: bool,
}

impl Extent {
    pub(crate) fn rounded_allocations(&self) -> u64 {
        self.allocations.round() as u64
    }

    pub(super) fn grow(&mut self, bytes: u64) {
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }

    pub(super) fn shrink(&mut self, bytes: u64) {
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
    }
}

/// By the objects' numbers.
#[derive(Default)]
pub(super) struct Extents(Vec<Extent>);

impl Extents {
    pub(super) fn of(&mut self, object: usize) -> &mut Extent {
        if object >= self.0.len() {
            self.0.resize(object + 1, Extent::default());
        }
        &mut self.0[object]
    }

    /// Of so many objects.
    pub(super) fn into_all(mut self, objects: usize) -> Vec<Extent> {
        self.0.resize(objects, Extent::default());
        self.0
    }
}
