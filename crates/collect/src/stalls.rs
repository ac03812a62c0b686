//! The reader's side of `bpf/stalls.h`: completions of writes, and the kernel's own delay accounting.

use std::cell::RefCell;
use std::io::Read;
use std::rc::Rc;

use libbpf_rs::Iter;
use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::Object;
use libbpf_rs::RingBuffer;
use libbpf_rs::RingBufferBuilder;

use crate::CollectError;
use crate::Observation;
use crate::driver::find;
use crate::record;

/// What threads waited for as the kernel itself accounts it (include/linux/delayacct.h, 6.12), ns, summed over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Reading pages from swap devices; less than a swap-in fault, which does more.
    pub swapin_ns: u64,
    /// Reclaiming memory.
    pub freepages_ns: u64,
    /// How often that was.
    pub freepages_count: u64,
    /// Waiting for pages that had been evicted a short time before.
    pub thrashing_ns: u64,
    /// Waiting for block devices.
    pub blkio_ns: u64,
}

impl Delays {
    /// What was waited since `before`. A thread that ended at the time of a look may have been missing there.
    pub fn since(self, before: Self) -> Self {
        Self {
            swapin_ns: self.swapin_ns.saturating_sub(before.swapin_ns),
            freepages_ns: self.freepages_ns.saturating_sub(before.freepages_ns),
            freepages_count: self.freepages_count.saturating_sub(before.freepages_count),
            thrashing_ns: self.thrashing_ns.saturating_sub(before.thrashing_ns),
            blkio_ns: self.blkio_ns.saturating_sub(before.blkio_ns),
        }
    }
}

/// `struct delays` and `struct stall_totals` of `bpf/record.h`, in words.
const DELAY_WORDS: usize = 6;
const TOTALS_WORDS: usize = DELAY_WORDS + 2;

/// What `struct stall_totals` counts besides delays.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StallTotals {
    pub(crate) lost_stalls: u64,
    pub(crate) lost_completions: u64,
}

impl StallTotals {
    pub(crate) fn read(object: &Object) -> Result<Self, CollectError> {
        let words: [u64; TOTALS_WORDS] = words(object, ".data.stall_totals")?;
        Ok(Self {
            lost_stalls: words[DELAY_WORDS],
            lost_completions: words[DELAY_WORDS + 1],
        })
    }
}

/// The first words of the only value of a map.
pub(crate) fn words<const N: usize>(object: &Object, map: &str) -> Result<[u64; N], CollectError> {
    let bytes = find(object, map)?
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| CollectError::from_libbpf(map, &error))?
        .unwrap_or_default();
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Ok(words)
}

/// Of threads that have ended and of those that live; `None`: none of them has such accounts.
fn sum(ended: [u64; DELAY_WORDS], live: [u64; DELAY_WORDS]) -> Option<Delays> {
    let [threads, swapin, freepages, count, thrashing, blkio] =
        std::array::from_fn(|word| ended[word].wrapping_add(live[word]));
    (threads > 0).then_some(Delays {
        swapin_ns: swapin,
        freepages_ns: freepages,
        freepages_count: count,
        thrashing_ns: thrashing,
        blkio_ns: blkio,
    })
}

pub(crate) struct Stalls {
    ring: RingBuffer<'static>,
    queue: Rc<RefCell<Vec<Observation>>>,
    missing_tracepoints: Vec<&'static str>,
}

impl Stalls {
    pub(crate) fn start(
        object: &Object,
        base_ns: u64,
        missing_tracepoints: Vec<&'static str>,
    ) -> Result<Self, CollectError> {
        let refused = |error: libbpf_rs::Error| CollectError::from_libbpf("completions", &error);
        let queue = Rc::new(RefCell::new(Vec::new()));
        let map = find(object, "completions")?;
        let mut builder = RingBufferBuilder::new();
        let sink = queue.clone();
        builder
            .add(&map, move |bytes: &[u8]| {
                let latest_ns = record::latest_ns();
                sink.borrow_mut()
                    .extend(record::decode_completion(bytes, base_ns, latest_ns));
                0
            })
            .map_err(refused)?;
        Ok(Self {
            ring: builder.build().map_err(refused)?,
            queue,
            missing_tracepoints,
        })
    }

    /// Writes that have completed since the last call.
    pub(crate) fn completions(&self) -> Result<Vec<Observation>, CollectError> {
        self.ring
            .consume()
            .map_err(|error| CollectError::from_libbpf("completions", &error))?;
        Ok(std::mem::take(&mut self.queue.borrow_mut()))
    }

    pub(crate) fn missing_tracepoints(&self) -> &[&'static str] {
        &self.missing_tracepoints
    }

    /// Threads that end while this looks may be missing once; the next look has them.
    pub(crate) fn delays(&self, object: &Object) -> Result<Option<Delays>, CollectError> {
        let refused = |error: libbpf_rs::Error| CollectError::from_libbpf("live_delays", &error);
        let program = object
            .progs_mut()
            .find(|program| program.name() == "live_delays")
            .ok_or_else(|| CollectError::Refused {
                program: "swap".to_owned(),
                detail: "no program live_delays".to_owned(),
            })?;
        let link = program.attach().map_err(refused)?;
        find(object, LIVE)?
            .update(&0u32.to_ne_bytes(), &[0; DELAY_WORDS * 8], MapFlags::ANY)
            .map_err(refused)?;
        let mut nothing = Vec::new();
        Iter::new(&link)
            .map_err(refused)?
            .read_to_end(&mut nothing)
            .map_err(|source| CollectError::System {
                action: "going through all tasks".to_owned(),
                source,
            })?;
        let all: [u64; TOTALS_WORDS] = words(object, ".data.stall_totals")?;
        let ended = std::array::from_fn(|word| all[word]);
        Ok(sum(ended, words(object, LIVE)?))
    }
}

const LIVE: &str = ".data.live_sum";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_the_first_exec_is_taken_off() {
        // A thread that had waited 5 ns before its exec, and 7 ns in all when it ended.
        let ended = [2, 7u64.wrapping_sub(5), 0, 0, 0, 0];
        let live = [1, 10, 20, 2, 0, 3];
        let expected = Delays {
            swapin_ns: 12,
            freepages_ns: 20,
            freepages_count: 2,
            thrashing_ns: 0,
            blkio_ns: 3,
        };
        assert_eq!(sum(ended, live), Some(expected));
    }

    #[test]
    fn without_accounts_delays_are_unknown() {
        assert_eq!(sum([0; DELAY_WORDS], [0; DELAY_WORDS]), None);
    }
}
