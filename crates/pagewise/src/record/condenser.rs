//! Events and stalls as rows, until the recording has reached its size; from then on counted by interval and region, and what is
//! looked at from time to time is looked at less often.

use std::collections::BTreeMap;

use pagewise_trace::Event;
use pagewise_trace::EventCount;
use pagewise_trace::EventKind;
use pagewise_trace::Stall;
use pagewise_trace::StallCount;
use pagewise_trace::StallKind;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

/// A huge page: at most so much is counted together.
const REGION: u64 = 2 << 20;
const FIRST_INTERVAL_NS: u64 = 1_000_000_000;
/// How many events may pass between two looks at the size: a fraction of a percent of the smallest one.
const LOOK_EVERY: u64 = 4096;
/// Of one listed event, as it waits to be written.
const EVENT_BYTES: u64 = 34;

/// Writes events.
pub(super) struct Condenser {
    page_bytes: u64,
    budget: Option<Budget>,
    unseen: u64,
    counting: Option<Counting>,
}

/// The streams take half of the size asked for: at the close their Parquet files lie beside them for a moment, and are
/// smaller.
struct Budget {
    /// Where listing ends.
    listed: u64,
    all: u64,
}

struct Counting {
    interval_ns: u64,
    /// The size at which the interval doubles next.
    double_at: u64,
    began_ns: u64,
    counts: BTreeMap<Key, Count>,
    /// By address space, kind, and whether in a fault: how often, and ns together.
    stalls: BTreeMap<(u32, StallKind, bool), (u64, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    space: u32,
    kind: EventKind,
    region: u64,
}

struct Count {
    first: u64,
    last: u64,
    events: u64,
    latency_ns: Option<u64>,
}

impl Condenser {
    /// `max_bytes`: of the whole recording; `None`: all is listed.
    pub(super) fn new(page_bytes: u64, max_bytes: Option<u64>) -> Self {
        Self {
            page_bytes,
            budget: max_bytes.map(|bytes| Budget {
                listed: bytes / 8 * 3,
                all: bytes / 2,
            }),
            unseen: 0,
            counting: None,
        }
    }

    /// Whether events are counted and no longer listed.
    pub(super) fn is_counting(&self) -> bool {
        self.counting.is_some()
    }

    /// Whether the recording is as large as what is listed may become.
    pub(super) fn has_its_size(&self, writer: &TraceWriter) -> bool {
        let budget = self.budget.as_ref();
        self.is_counting() || budget.is_some_and(|budget| writer.bytes_on_disk() >= budget.listed)
    }

    /// How many times as long as usual is between two looks at what is not an event.
    pub(super) fn pace(&self) -> u32 {
        let interval_ns = self.counting.as_ref().map(|counting| counting.interval_ns);
        let pace = interval_ns.unwrap_or(FIRST_INTERVAL_NS) / FIRST_INTERVAL_NS;
        u32::try_from(pace).unwrap_or(u32::MAX)
    }

    /// Takes an event; they come in order of time.
    pub(super) fn push(
        &mut self,
        event: Event,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        self.step(event.time_ns, writer)?;
        match &mut self.counting {
            None => writer.events.push(event),
            Some(counting) => {
                counting.add(&event, self.page_bytes);
                Ok(())
            }
        }
    }

    /// Takes a stall.
    pub(super) fn push_stall(
        &mut self,
        stall: Stall,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        self.step(stall.time_ns, writer)?;
        match &mut self.counting {
            None => writer.stalls.push(stall),
            Some(counting) => {
                let key = (stall.space, stall.kind, stall.in_fault);
                let (stalls, ns) = counting.stalls.entry(key).or_default();
                *stalls += 1;
                *ns = ns.saturating_add(stall.duration_ns);
                Ok(())
            }
        }
    }

    /// Something is to be taken: is the recording as large as it may become, or an interval over?
    fn step(&mut self, time_ns: u64, writer: &mut TraceWriter) -> Result<(), TraceError> {
        let Some(counting) = &self.counting else {
            self.unseen += 1;
            if self.unseen >= LOOK_EVERY {
                self.look(time_ns, writer);
            }
            return Ok(());
        };
        if time_ns >= counting.began_ns.saturating_add(counting.interval_ns) {
            self.write_counts(writer)?;
            self.begin_interval(time_ns, writer);
        }
        Ok(())
    }

    /// To be called from time to time: a recording also grows without events.
    pub(super) fn look_at_the_size(
        &mut self,
        time_ns: u64,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        self.unseen = self.unseen.max(LOOK_EVERY);
        self.step(time_ns, writer)
    }

    fn look(&mut self, time_ns: u64, writer: &TraceWriter) {
        let Some(budget) = &self.budget else { return };
        self.unseen = 0;
        // What waits for its batch is not on disk yet.
        let waiting = (writer.events.waiting() + writer.stalls.waiting()) as u64;
        if writer.bytes_on_disk() + waiting * EVENT_BYTES < budget.listed {
            return;
        }
        self.counting = Some(Counting {
            interval_ns: FIRST_INTERVAL_NS,
            double_at: budget.all - (budget.all - budget.listed) / 2,
            began_ns: time_ns,
            counts: BTreeMap::new(),
            stalls: BTreeMap::new(),
        });
    }

    /// Intervals double each time that half of the rest is used up: the size stays below its bound for ever.
    fn begin_interval(&mut self, time_ns: u64, writer: &TraceWriter) {
        let (Some(budget), Some(counting)) = (&self.budget, &mut self.counting) else {
            return;
        };
        while writer.bytes_on_disk() >= counting.double_at && counting.double_at < budget.all {
            counting.interval_ns = counting.interval_ns.saturating_mul(2);
            counting.double_at += (budget.all - counting.double_at).div_ceil(2);
        }
        counting.began_ns = time_ns;
    }

    /// Writes the counts of the interval so far: at its end, and at that of the recording.
    pub(super) fn write_counts(&mut self, writer: &mut TraceWriter) -> Result<(), TraceError> {
        let Some(counting) = &mut self.counting else {
            return Ok(());
        };
        for (key, count) in std::mem::take(&mut counting.counts) {
            writer.event_counts.push(EventCount {
                time_ns: counting.began_ns,
                interval_ns: counting.interval_ns,
                space: key.space,
                kind: key.kind,
                address: count.first,
                bytes: count.last - count.first + self.page_bytes,
                events: count.events,
                latency_ns: count.latency_ns,
            })?;
        }
        for ((space, kind, in_fault), (stalls, duration_ns)) in std::mem::take(&mut counting.stalls)
        {
            writer.stall_counts.push(StallCount {
                time_ns: counting.began_ns,
                interval_ns: counting.interval_ns,
                space,
                kind,
                in_fault,
                stalls,
                duration_ns,
            })?;
        }
        Ok(())
    }
}

impl Counting {
    fn add(&mut self, event: &Event, page_bytes: u64) {
        let page = event.address - event.address % page_bytes;
        let key = Key {
            space: event.space,
            kind: event.kind,
            region: page / REGION,
        };
        let count = self.counts.entry(key).or_insert(Count {
            first: page,
            last: page,
            events: 0,
            latency_ns: None,
        });
        count.first = count.first.min(page);
        count.last = count.last.max(page);
        count.events += 1;
        if let Some(ns) = event.latency_ns {
            *count.latency_ns.get_or_insert(0) += ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_trace::Meta;
    use pagewise_trace::Overwrite;
    use pagewise_trace::Trace;

    const SECOND: u64 = 1_000_000_000;

    fn event(number: u64, pages: u64) -> Event {
        Event {
            stack: None,
            time_ns: number * 5_000, // 200,000 a second
            space: 1,
            tid: Some(7),
            kind: EventKind::SwapIn,
            address: 0x7f00_0000_0000 + number % pages * 4096 + 5,
            latency_ns: Some(3),
        }
    }

    /// Listed events, counts and bytes on disk before the close.
    fn condensed(max_bytes: u64, events: u64, pages: u64) -> (u64, Vec<EventCount>, u64) {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("trace");
        let mut writer =
            TraceWriter::create(&dir, Meta::default(), Overwrite::Refuse).expect("begun");
        let mut condenser = Condenser::new(4096, Some(max_bytes));
        for number in 0..events {
            condenser
                .push(event(number, pages), &mut writer)
                .expect("pushed");
            if number % 200_000 == 0 {
                writer.flush().expect("flushed");
            }
        }
        condenser.write_counts(&mut writer).expect("written");
        writer.flush().expect("flushed");
        let bytes = writer.bytes_on_disk();
        writer.close().expect("closed");
        let trace = Trace::open(&dir).expect("opened");
        let listed = trace.events().expect("read").count() as u64;
        let counts = trace.rows().expect("read").collect::<Result<_, _>>();
        (listed, counts.expect("read"), bytes)
    }

    /// So many events in a test; PAGEWISE_TEST_EVENTS names more.
    fn events() -> u64 {
        let wanted = std::env::var("PAGEWISE_TEST_EVENTS").ok();
        wanted.map_or(3_000_000, |text| text.parse().expect("a number"))
    }

    #[test]
    fn totals_stay_right_and_the_size_is_kept() {
        let events = events();
        let (listed, counts, bytes) = condensed(8 << 20, events, 1 << 16);
        assert!(listed > 50_000, "{listed}");
        assert!(bytes <= 4 << 20, "{bytes}");
        let counted: u64 = counts.iter().map(|count| count.events).sum();
        assert_eq!(listed + counted, events);
        let latency: u64 = counts.iter().filter_map(|count| count.latency_ns).sum();
        assert_eq!(latency, counted * 3);
        let region =
            |count: &&EventCount| count.address.is_multiple_of(4096) && count.bytes <= REGION;
        assert_eq!(counts.iter().filter(region).count(), counts.len());
    }

    #[test]
    fn intervals_grow_rather_than_the_size() {
        // 8 GiB touched, page by page of each region: as many regions a second as events.
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("trace");
        let mut writer =
            TraceWriter::create(&dir, Meta::default(), Overwrite::Refuse).expect("begun");
        let mut condenser = Condenser::new(4096, Some(1 << 20));
        for second in 0..600u64 {
            for region in 0..2000u64 {
                let event = Event {
                    time_ns: second * SECOND + region,
                    address: region * REGION,
                    ..event(0, 1)
                };
                condenser.push(event, &mut writer).expect("pushed");
            }
            writer.flush().expect("flushed");
        }
        condenser.write_counts(&mut writer).expect("written");
        writer.flush().expect("flushed");
        assert!(condenser.is_counting());
        assert!(
            writer.bytes_on_disk() <= 1 << 20,
            "{}",
            writer.bytes_on_disk()
        );
        let interval = condenser.counting.map(|counting| counting.interval_ns);
        assert!(interval > Some(8 * SECOND), "{interval:?}");
    }

    #[test]
    fn stalls_are_counted_too_and_rounds_become_rarer() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("trace");
        let mut writer =
            TraceWriter::create(&dir, Meta::default(), Overwrite::Refuse).expect("begun");
        let mut condenser = Condenser::new(4096, Some(1 << 20));
        assert_eq!(condenser.pace(), 1);
        for number in 0..300_000u64 {
            let stall = Stall {
                time_ns: number * 1_000_000,
                space: 1,
                tid: number as u32,
                kind: StallKind::MemcgReclaim,
                duration_ns: 10,
                in_fault: number % 3 == 0,
            };
            condenser.push_stall(stall, &mut writer).expect("pushed");
            if number % 1000 == 0 {
                writer.flush().expect("flushed");
                let now = number * 1_000_000;
                condenser
                    .look_at_the_size(now, &mut writer)
                    .expect("looked");
            }
        }
        condenser.write_counts(&mut writer).expect("written");
        writer.flush().expect("flushed");
        assert!(
            writer.bytes_on_disk() <= 1 << 19,
            "{}",
            writer.bytes_on_disk()
        );
        assert!(condenser.pace() > 1, "{}", condenser.pace());
        let listed = writer.stalls.rows();
        writer.close().expect("closed");
        let trace = Trace::open(&dir).expect("opened");
        let counts: Vec<StallCount> = trace
            .rows()
            .expect("read")
            .map(|row| row.expect("read"))
            .collect();
        assert!(listed > 1000, "{listed}");
        let counted: u64 = counts.iter().map(|count| count.stalls).sum();
        assert_eq!(listed + counted, 300_000);
        assert_eq!(
            counts.iter().map(|count| count.duration_ns).sum::<u64>(),
            counted * 10
        );
    }

    #[test]
    fn without_a_size_all_is_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("trace");
        let mut writer =
            TraceWriter::create(&dir, Meta::default(), Overwrite::Refuse).expect("begun");
        let mut condenser = Condenser::new(4096, None);
        for number in 0..100_000 {
            condenser
                .push(event(number, 10), &mut writer)
                .expect("pushed");
        }
        condenser.write_counts(&mut writer).expect("written");
        assert_eq!(
            (writer.events.rows(), writer.event_counts.rows()),
            (100_000, 0)
        );
    }
}
