//! The reader's side of the per-processor rings (see `bpf/record.h`).

use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use crate::CollectError;
use crate::record::RING_SLACK;
use crate::record::RING_WORDS;

const CPU_STATE_WORDS: usize = 32;
const TAIL: usize = 8;
const COUNTERS: usize = 16;
/// What the rings of many processors may take together, unless each had less than the least.
const MOST_BYTES: usize = 256 << 20;
const LEAST_WORDS: usize = (1 << 20) / 8;

/// How many rings there are, and how many words each has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingSizes {
    pub(crate) rings: usize,
    pub(crate) words: usize,
}

impl RingSizes {
    /// For the processors that are online: virtual machines have numbers for a hundred more, which may never come.
    pub(crate) fn of_this_machine(possible: usize) -> Self {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online");
        Self::of(online.as_deref().unwrap_or_default(), possible)
    }

    /// `online`: a list such as `0-3,8`.
    fn of(online: &str, possible: usize) -> Self {
        let numbers = online.trim().split([',', '-']);
        let highest = numbers
            .filter_map(|number| number.parse::<usize>().ok())
            .max();
        let rings = highest.map_or(possible, |highest| (highest + 1).min(possible));
        let share = MOST_BYTES / 8 / rings.max(1);
        let below = (share + 1).next_power_of_two() / 2;
        Self {
            rings,
            words: below.clamp(LEAST_WORDS, RING_WORDS),
        }
    }

    pub(crate) fn stride_words(self) -> usize {
        self.words + RING_SLACK
    }
}

/// A BPF array map, mapped into this process for as long as the value lives.
pub(crate) struct MappedArray {
    start: NonNull<u64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone, and any thread may read it.
unsafe impl Send for MappedArray {}

impl MappedArray {
    pub(crate) fn new(map: BorrowedFd<'_>, words: usize) -> Result<Self, CollectError> {
        // SAFETY: a fresh mapping at an address of the kernel's choice; no existing memory is touched.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                words * 8,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(CollectError::last_os("mapping a sensor's ring"));
        }
        let start = NonNull::new(start.cast()).expect("mmap never returns null without MAP_FIXED");
        Ok(Self { start, words })
    }

    /// Words shared with the kernel: read and written only as atomics.
    pub(crate) fn atomics(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is `words` u64 long, aligned to a page and lives as long as self; AtomicU64 has
        // u64's layout; the kernel's side writes whole aligned words.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.words) }
    }
}

impl MappedArray {
    /// Reads words from there on, by index.
    pub(crate) fn words_at(&self, start: usize) -> impl Fn(usize) -> u64 {
        let words = &self.atomics()[start..];
        move |index| words[index].load(Ordering::Relaxed)
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `new`; no reference outlives self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}

/// Counters that a processor's programs keep (`struct cpu_state`), summed over all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuCounters {
    pub(crate) lost: u64,
    /// On processors that have no ring: they came online later.
    pub(crate) without_ring: u64,
    pub(crate) file_majors: u64,
    pub(crate) pages_read: u64,
    pub(crate) displaced_faults: u64,
    pub(crate) foreign_pages: u64,
    pub(crate) unknown_owner: u64,
    pub(crate) lost_copies: u64,
    pub(crate) shared_pages: u64,
}

/// All processors' rings.
pub(crate) struct Rings {
    states: MappedArray,
    words: MappedArray,
    cpus: usize,
    sizes: RingSizes,
    scratch: Vec<u64>,
}

impl Rings {
    pub(crate) fn map(
        states: BorrowedFd<'_>,
        words: BorrowedFd<'_>,
        cpus: usize,
        sizes: RingSizes,
    ) -> Result<Self, CollectError> {
        Ok(Self {
            states: MappedArray::new(states, cpus * CPU_STATE_WORDS)?,
            words: MappedArray::new(words, sizes.rings * sizes.stride_words())?,
            cpus,
            sizes,
            scratch: Vec::new(),
        })
    }

    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }

    /// Hands each processor's new words to `take`, oldest first; `take` says how many words its record had, and
    /// `None` for a malformed one, which drops the rest of that batch (returned as a count of words).
    pub(crate) fn drain(&mut self, mut take: impl FnMut(&[u64]) -> Option<usize>) -> u64 {
        let mut malformed = 0;
        for cpu in 0..self.sizes.rings {
            let state = &self.states.atomics()[cpu * CPU_STATE_WORDS..];
            let tail = state[TAIL].load(Ordering::Relaxed);
            // Pairs with the program's store of head after the record's words.
            let head = state[0].load(Ordering::Acquire);
            let mut at = tail;
            while at < head {
                // Copied out: a record is read once, and no reference into shared memory escapes.
                let offset =
                    cpu * self.sizes.stride_words() + (at as usize & (self.sizes.words - 1));
                let length = RING_SLACK.min((head - at) as usize);
                let words = &self.words.atomics()[offset..offset + length];
                self.scratch.clear();
                self.scratch
                    .extend(words.iter().map(|word| word.load(Ordering::Relaxed)));
                let Some(used) = take(&self.scratch) else {
                    malformed += head - at;
                    break;
                };
                at += used as u64;
            }
            state[TAIL].store(head, Ordering::Release);
        }
        malformed
    }

    pub(crate) fn counters(&self) -> CpuCounters {
        let mut sum = CpuCounters::default();
        for cpu in 0..self.cpus {
            let counters = &self.states.atomics()[cpu * CPU_STATE_WORDS + COUNTERS..];
            let read = |index: usize| counters[index].load(Ordering::Relaxed);
            let lost = if cpu < self.sizes.rings {
                &mut sum.lost
            } else {
                &mut sum.without_ring
            };
            *lost += read(0);
            sum.file_majors += read(1);
            sum.pages_read += read(2);
            sum.displaced_faults += read(3);
            sum.foreign_pages += read(4);
            sum.unknown_owner += read(5);
            sum.lost_copies += read(6);
            sum.shared_pages += read(8);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_for_processors_that_are_online_and_bounded_together() {
        let of = |online, possible| {
            let sizes = RingSizes::of(online, possible);
            (sizes.rings, (sizes.words * 8) >> 20)
        };
        assert_eq!(of("0-1\n", 240), (2, 8), "a virtual machine");
        assert_eq!(of("0-3,6", 8), (7, 8), "some are offline");
        assert_eq!(of("0", 1), (1, 8));
        assert_eq!(of("0-31", 32), (32, 8));
        assert_eq!(of("0-32", 64), (33, 4));
        assert_eq!(of("0-127", 128), (128, 2));
        assert_eq!(of("0-1023", 1024), (1024, 1));
        assert_eq!(of("", 4), (4, 8), "unknown");
        assert_eq!(of("0-7", 4), (4, 8), "of another namespace");
    }
}
