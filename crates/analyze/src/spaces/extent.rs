//! How large objects are.

/// An object's size over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extent {
    live_bytes: u64,
    /// What of it each address space has made, and not released: it ends with the space. Mostly there is one.
    of_spaces: Vec<(u32, u64)>,
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

    pub(super) fn grow(&mut self, space: u32, bytes: u64) {
        let at = self
            .of_spaces
            .iter()
            .rposition(|(number, _)| *number == space);
        match at {
            Some(at) => self.of_spaces[at].1 = self.of_spaces[at].1.saturating_add(bytes),
            None => self.of_spaces.push((space, bytes)),
        }
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }

    /// What a forked child releases of its parent's is the child's copy, which was never counted.
    pub(super) fn shrink(&mut self, space: u32, bytes: u64) {
        let own = self
            .of_spaces
            .iter_mut()
            .rfind(|(number, _)| *number == space);
        if let Some((_, own)) = own {
            let bytes = bytes.min(*own);
            *own -= bytes;
            self.live_bytes -= bytes;
        }
    }

    fn end(&mut self, space: u32) {
        if let Some(at) = self
            .of_spaces
            .iter()
            .rposition(|(number, _)| *number == space)
        {
            let (_, bytes) = self.of_spaces.swap_remove(at);
            self.live_bytes -= bytes;
        }
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

    /// An address space has ended, and all that was in it.
    pub(super) fn end(&mut self, space: u32) {
        self.0.iter_mut().for_each(|extent| extent.end(space));
    }

    /// Of so many objects.
    pub(super) fn into_all(mut self, objects: usize) -> Vec<Extent> {
        self.0.resize(objects, Extent::default());
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_with_its_process_is_not_alive_with_the_next_ones() {
        let mut extents = Extents::default();
        for space in 1..=4 {
            extents.of(0).grow(space, 24);
            extents.end(space);
        }
        assert_eq!(extents.of(0).peak_bytes, 24);
        extents.of(0).grow(5, 10);
        extents.of(0).grow(6, 10);
        assert_eq!(extents.of(0).live_bytes, 20);
        extents.of(0).shrink(7, 10);
        assert_eq!(extents.of(0).live_bytes, 20, "a child's copy");
        extents.of(0).shrink(5, 10);
        assert_eq!(extents.of(0).live_bytes, 10);
    }
}
