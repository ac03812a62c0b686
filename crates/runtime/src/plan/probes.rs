//! Where the kernel does not tell of faults: a few pages of an object are looked at again and again, and one that has come
//! into memory since the last look is where a sweep has passed.

use std::ops::Range;

use pagewise_interpose as interpose;
use pagewise_interpose::Fault;
use pagewise_interpose::system::PageMap;

use super::object::PAGE;

/// As many as the steps that a sweep may take (`sweep.rs`), so that from one to the next is a step.
const PROBES: usize = 256;

pub(super) struct Probes {
    region: Range<usize>,
    /// Bytes from one to the next.
    distance: usize,
    /// Which were in memory at the last look; `None`: there was none.
    present: Option<[u64; PROBES / 64]>,
}

impl Probes {
    pub(super) fn new(region: Range<usize>) -> Self {
        Self {
            distance: (region.len() / PROBES / PAGE * PAGE).max(PAGE),
            region,
            present: None,
        }
    }

    /// Tells which have come since the last look. False: the page map cannot be read.
    pub(super) fn look(&mut self, map: &PageMap, sink: &mut dyn FnMut(Fault)) -> bool {
        let time_ns = interpose::now_ns();
        let mut present = [0u64; PROBES / 64];
        for (index, address) in self
            .region
            .clone()
            .step_by(self.distance)
            .take(PROBES)
            .enumerate()
        {
            match map.is_present(address / PAGE) {
                Some(true) => present[index / 64] |= 1 << (index % 64),
                Some(false) => {}
                None => return false,
            }
        }
        let before = self.present.replace(present).unwrap_or(present);
        for (index, (now, before)) in present.iter().zip(before).enumerate() {
            let mut come = now & !before;
            while come != 0 {
                let probe = index * 64 + come.trailing_zeros() as usize;
                come &= come - 1;
                sink(Fault {
                    time_ns,
                    address: self.region.start + probe * self.distance,
                    thread: 0,
                    processor: None,
                });
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sweep::Sweep;

    #[test]
    fn a_sweep_is_seen_without_being_told_of_faults() {
        let pages = 2048;
        // SAFETY: a fresh mapping, never unmapped.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                pages * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        } as usize;
        let region = start..start + pages * PAGE;
        let (mut probes, mut sweep) = (Probes::new(region.clone()), Sweep::new(region.clone()));
        let map = PageMap::open().expect("one's own page map");
        for page in 0..pages / 2 {
            // SAFETY: within the mapping.
            unsafe { ((start + page * PAGE) as *mut u8).write_volatile(1) };
            if page % 4 == 0 {
                assert!(probes.look(&map, &mut |fault| {
                    assert!(fault.address <= start + page * PAGE);
                    sweep.note(fault);
                }));
            }
        }
        assert!(sweep.is_any());
    }
}
