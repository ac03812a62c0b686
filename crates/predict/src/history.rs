//! What is known of each page from a recording: when it was first touched, left memory, came back, ceased to be.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use pagewise_trace::EventKind;
use pagewise_trace::SharedMemory;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::clock::Clock;
use crate::departures::UsualStays;
use crate::faulters::Faulters;
use crate::losses;
use crate::scans;
use crate::touches::Touches;

/// Addresses have 57 bits at most, pages of 4 KiB 45; the address space's number goes above.
const SPACE_SHIFT: u32 = 45;

/// What happened to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// It came into being. When exactly is known to the interval between two scans.
    Touched,
    /// It left memory.
    Evicted,
    /// It was accessed and came back.
    Faulted,
    /// It was given back.
    Gone,
}

/// Something that happened to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// When, in ns of the program's own time ([`Clock`]).
    pub(crate) at: u64,
    pub(crate) page: u32,
    pub(crate) what: What,
}

/// Everything that happened, in order of time. Pages are numbered by address: neighbours have adjacent numbers.
pub(crate) struct History {
    pub(crate) moments: Vec<Moment>,
    /// The address space and page number of each page.
    pub(crate) keys: Vec<u64>,
    pub(crate) clock: Clock,
    /// The end, in the program's own time.
    pub(crate) end: u64,
    pub(crate) swap_ins: u64,
    /// Of which a page counts to one address space, whoever uses it.
    shared: SharedMemory,
    /// How long its pages stay: when each left is not known exactly.
    shared_stays: UsualStays,
    pub(crate) faulters: Faulters,
    page_shift: u32,
}

pub(crate) type Known = HashMap<u64, Vec<(u64, What)>, RandomState>;

/// While memory is filled, one page in so many may come back.
const BY_CHANCE: usize = 64;

impl History {
    /// Since when, in own time, pages come back in numbers: before, memory was filled, and who looks then does not see how it is used later.
    pub(crate) fn filled(&self) -> u64 {
        let faults = self.moments.iter();
        let mut faults = faults.filter(|moment| moment.what == What::Faulted);
        let some = faults.nth(self.keys.len() / BY_CHANCE);
        some.map_or(0, |fault| fault.at)
    }

    pub(crate) fn read(trace: &Trace) -> Result<History, TraceError> {
        let shift = page_shift(trace);
        let shared = SharedMemory::read(trace)?;
        let mut events = Vec::new();
        let mut faulters = Faulters::default();
        for event in trace.events()? {
            let event = event?;
            let what = match event.kind {
                EventKind::SwapIn | EventKind::SwapCacheHit => What::Faulted,
                EventKind::Eviction => What::Evicted,
                EventKind::PageWritten | EventKind::ZeroFilled => continue,
            };
            let home = shared.home(event.space, event.address);
            let key = key(home, event.address >> shift);
            if what == What::Faulted {
                faulters.note(key, event.tid, event.time_ns);
            }
            events.push((event.time_ns, event.latency_ns.unwrap_or(0), key, what));
        }
        events.sort_by_key(|event| event.0);
        let faults = events.iter().filter(|event| event.3 == What::Faulted);
        let came: Vec<u64> = faults.clone().map(|event| event.0).collect();
        let clock = Clock::new(faults.clone().map(|event| (event.0, event.1)));
        let losses = losses::find(trace, &came, &clock)?;
        let clock = clock.with_losses(&losses);
        let swap_ins = faults.count() as u64;
        let own = events.iter().map(|event| (clock.own(event.0), event.3));
        let touches = Touches::new(own.collect());
        let mut known = Known::default();
        for (time, _, key, what) in events {
            // A fault's access was where the program's own time stood still.
            known.entry(key).or_default().push((clock.own(time), what));
        }
        let (last, shared_stays) = scans::add(trace, shift, &shared, &clock, &touches, &mut known)?;
        let end = trace
            .meta()
            .end_monotonic_ns
            .map_or(0, |end| clock.own(end));
        let history = History::assemble(known, clock, end.max(last), swap_ins);
        Ok(History {
            shared,
            shared_stays,
            faulters,
            page_shift: shift,
            ..history
        })
    }

    /// The key of the page at an address.
    pub(crate) fn key_at(&self, space: u32, address: u64) -> u64 {
        key(self.shared.home(space, address), address >> self.page_shift)
    }

    /// How long a page that left had stayed, in pages that came meanwhile, of which so many were counted: of shared memory as long as
    /// usual, as each of its stays is known by scans only, and seems shorter or longer by when they came.
    pub(crate) fn stayed(&self, page: u32, counted: usize) -> usize {
        let key = self.keys[page as usize];
        let (space, number) = parts(key);
        let is_shared = self.shared.has(space, number << self.page_shift);
        let usual = self.shared_stays.of(key).filter(|_| is_shared);
        usual.map_or(counted, |usual| usual as usize)
    }

    /// Whether all addresses from one page to a later one are known pages.
    pub(crate) fn are_contiguous(&self, first: u32, last: u32) -> bool {
        self.keys[last as usize] - self.keys[first as usize] == u64::from(last - first)
    }

    /// Whether each of two pages comes back for a thread of its own, and these ran side by side.
    pub(crate) fn are_apart(&self, page: u32, other: u32) -> bool {
        let key = |page: u32| self.keys[page as usize];
        self.faulters.are_apart(key(page), key(other))
    }

    pub(crate) fn assemble(known: Known, clock: Clock, end: u64, swap_ins: u64) -> History {
        let mut keys: Vec<u64> = known.keys().copied().collect();
        keys.sort_unstable();
        let mut moments = Vec::new();
        let mut end = end;
        for (page, key) in keys.iter().enumerate() {
            let mut exists = false;
            for &(at, what) in &known[key] {
                let page = page as u32;
                if !exists && what != What::Touched && what != What::Gone {
                    moments.push(Moment {
                        at,
                        page,
                        what: What::Touched,
                    });
                }
                exists = what != What::Gone;
                moments.push(Moment { at, page, what });
                end = end.max(at);
            }
        }
        moments.sort_by_key(|moment| moment.at);
        History {
            moments,
            keys,
            clock,
            end,
            swap_ins,
            shared: SharedMemory::default(),
            shared_stays: UsualStays::default(),
            faulters: Faulters::default(),
            page_shift: 12,
        }
    }
}

/// The size of a page in bytes.
pub(crate) fn page_bytes(trace: &Trace) -> u64 {
    1 << page_shift(trace)
}

pub(crate) fn page_shift(trace: &Trace) -> u32 {
    let bytes = trace.meta().host.page_bytes;
    bytes.and_then(u64::checked_ilog2).unwrap_or(12)
}

pub(crate) fn key(space: u32, page: u64) -> u64 {
    u64::from(space) << SPACE_SHIFT | page & ((1 << SPACE_SHIFT) - 1)
}

/// The address space's number and the page's of a key.
pub(crate) fn parts(key: u64) -> (u32, u64) {
    ((key >> SPACE_SHIFT) as u32, key & ((1 << SPACE_SHIFT) - 1))
}
