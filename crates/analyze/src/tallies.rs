//! Sums while events go by: of each object, and of all.

use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Space;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::counted;
use crate::counts::Counts;
use crate::fault_paths::PathTallies;
use crate::histogram::Histogram;
use crate::memory_need::NeedCurve;
use crate::pattern::PageIn;
use crate::pattern::PatternWatch;
use crate::spaces::Place;
use crate::spaces::Spaces;
use crate::swap_in_sample::Sampler;
use crate::swapped::SwappedPages;
use crate::visits::Visits;
use crate::waiting::Waiting;

/// Of one object.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    pub(crate) watch: PatternWatch,
    pub(crate) need: NeedCurve,
}

/// Of all that a trace holds.
#[derive(Default)]
pub(crate) struct Tallies {
    pub(crate) objects: Vec<Tally>,
    pub(crate) latency: Histogram,
    pub(crate) write_latency: Histogram,
    pub(crate) paths: PathTallies,
    pub(crate) need: NeedCurve,
    pub(crate) waiting: Waiting,
    pub(crate) sampler: Sampler,
    pub(crate) estimated_swap_ins: u64,
    pub(crate) counted_events: u64,
    visits: Visits,
    swapped: SwappedPages,
    page_bytes: u64,
}

impl Tallies {
    /// Goes through all events. Afterwards `spaces` knows all objects.
    pub(crate) fn read(trace: &Trace, spaces: &mut Spaces) -> Result<Self, TraceError> {
        let mut tallies = Self {
            page_bytes: spaces.page_bytes,
            ..Self::default()
        };
        let mut ends = Ends::read(trace)?;
        spaces.tell_of_given_back();
        for event in trace.events()? {
            let event = event?;
            spaces.advance(event.time_ns);
            for given in spaces.given_back() {
                tallies
                    .swapped
                    .given_back(given.space, given.first_page, given.end_page);
            }
            ends.up_to(event.time_ns, |space| tallies.swapped.ended(space));
            let place = spaces.place_of(&event);
            if event.kind == EventKind::SwapIn {
                spaces.note_swap_in();
            }
            tallies.add(&event, place);
        }
        tallies.add_counted(trace, spaces)?;
        (tallies.visits, tallies.swapped) = Default::default();
        spaces.finish();
        tallies
            .objects
            .resize_with(spaces.catalogue.len(), Tally::default);
        Ok(tallies)
    }

    pub(crate) fn object(&mut self, object: usize) -> &mut Tally {
        if object >= self.objects.len() {
            self.objects.resize_with(object + 1, Tally::default);
        }
        &mut self.objects[object]
    }

    fn add(&mut self, event: &Event, place: Place) {
        let tally = self.object(place.object);
        tally.counts.add(event);
        if !matches!(event.kind, EventKind::SwapIn | EventKind::SwapCacheHit) {
            tally.watch.other(event);
        }
        match event.kind {
            EventKind::SwapIn | EventKind::SwapCacheHit => self.swap_in(event, place),
            EventKind::Eviction => {
                let page = event.address / self.page_bytes;
                self.swapped.evicted(event.space, page);
            }
            EventKind::PageWritten => {
                if let Some(ns) = event.latency_ns {
                    self.write_latency.add(ns);
                }
            }
            EventKind::ZeroFilled => {}
        }
    }

    fn swap_in(&mut self, event: &Event, place: Place) {
        let stall_ns = event.latency_ns.unwrap_or(0);
        let extra = self
            .swapped
            .came_back(event.space, event.address / self.page_bytes);
        let tally = &mut self.objects[place.object];
        let ordinal = tally.watch.ordinal();
        let before = self
            .visits
            .visit(place.object, place.page, ordinal, event.time_ns);
        tally.watch.swap_in(PageIn {
            thread: event.tid.unwrap_or(0),
            page: place.page,
            time_ns: event.time_ns,
            stall_ns,
            before,
        });
        tally.need.add(extra, stall_ns);
        self.need.add(extra, stall_ns);
        self.paths.swap_in(event.stack, place.object, stall_ns);
        self.sampler.swap_in(event, place.object);
        self.waiting.add(event);
        self.estimated_swap_ins += u64::from(place.estimated);
        if let Some(ns) = event.latency_ns {
            self.latency.add(ns);
        }
    }

    fn add_counted(&mut self, trace: &Trace, spaces: &mut Spaces) -> Result<(), TraceError> {
        self.counted_events = counted::share_out(trace, spaces, |share| {
            let tally = self.object(share.object);
            tally.counts.add_share(&share);
            if matches!(share.kind, EventKind::SwapIn | EventKind::SwapCacheHit) {
                tally.need.add_unknown(share.events, share.latency_ns);
                self.need.add_unknown(share.events, share.latency_ns);
            } else {
                tally.watch.counted(&share);
            }
        })?;
        Ok(())
    }
}

/// Ends of address spaces, in order of time.
struct Ends(std::iter::Peekable<std::vec::IntoIter<(u64, u32)>>);

impl Ends {
    fn read(trace: &Trace) -> Result<Self, TraceError> {
        let end = |space: &Space| Some((space.end_ns?, space.space));
        let mut ends: Vec<(u64, u32)> = trace.spaces()?.iter().filter_map(end).collect();
        ends.sort_unstable();
        Ok(Self(ends.into_iter().peekable()))
    }

    fn up_to(&mut self, time_ns: u64, mut tell: impl FnMut(u32)) {
        while let Some((_, space)) = self.0.next_if(|(end_ns, _)| *end_ns < time_ns) {
            tell(space);
        }
    }
}
