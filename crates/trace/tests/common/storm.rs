//! Events as a swap storm makes them: each page comes in while others are written and leave.

use pagewise_trace::Event;
use pagewise_trace::EventKind;

use crate::common::Random;

const PAGE_BYTES: u64 = 4096;
const HEAP: u64 = 0x7f3a_5c00_0000;
/// The kernel reclaims in batches of this many pages (`SWAP_CLUSTER_MAX` in `linux/swap.h`).
const RECLAIM_BATCH: u64 = 32;

/// Which page the program touches next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    Sweep,
    Random,
    /// As random, by several threads, with latencies as noisy as those of a disk.
    RandomThreads(u32),
}

/// `count` events on `pages` pages of which half fit into memory: three per page that comes in.
pub(crate) fn storm(access: Access, pages: u64, count: u64) -> impl Iterator<Item = Event> {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut resident = std::collections::VecDeque::new();
    let mut time_ns = 81_234_567_890_123;
    let mut step = 0;
    let mut ready = std::collections::VecDeque::new();
    std::iter::from_fn(move || {
        while ready.is_empty() {
            let page = match access {
                Access::Sweep => step % pages,
                Access::Random | Access::RandomThreads(_) => random.below(pages),
            };
            step += 1;
            resident.push_back(page);
            if resident.len() as u64 > pages / 2 + RECLAIM_BATCH {
                for _ in 0..RECLAIM_BATCH {
                    let victim = resident.pop_front()?;
                    for (kind, cost) in [(EventKind::PageWritten, 900), (EventKind::Eviction, 200)]
                    {
                        time_ns += cost + random.below(cost / 2);
                        ready.push_back(event(time_ns, kind, victim, None));
                    }
                }
            }
            let (thread, latency) = match access {
                Access::RandomThreads(threads) => {
                    // Between 2 us and 4 ms, each octave as likely as the next.
                    let octave = 1 << (11 + random.below(11));
                    (
                        random.below(threads.into()) as u32,
                        octave + random.below(octave),
                    )
                }
                _ => (
                    0,
                    2_500 + random.below(1_000) + random.below(40) / 39 * 30_000,
                ),
            };
            time_ns += match access {
                Access::RandomThreads(threads) => latency / u64::from(threads),
                _ => latency + random.below(400),
            };
            ready.push_back(Event {
                tid: Some(4242 + thread),
                ..event(time_ns, EventKind::SwapIn, page, Some(latency))
            });
        }
        ready.pop_front()
    })
    // Until memory is full there is no storm.
    .skip((pages / 2) as usize)
    .take(count as usize)
}

fn event(time_ns: u64, kind: EventKind, page: u64, latency_ns: Option<u64>) -> Event {
    Event {
        time_ns,
        space: 0,
        tid: latency_ns.map(|_| 4242),
        kind,
        address: HEAP + page * PAGE_BYTES,
        stack: latency_ns.map(|_| 0),
        latency_ns,
    }
}
