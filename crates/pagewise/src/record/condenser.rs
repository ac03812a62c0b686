//! Events as rows, until the recording has reached its size; from then on counted by interval and region.

use std::collections::BTreeMap;

use pagewise_trace::Event;
use pagewise_trace::EventCount;
use pagewise_trace::EventKind;
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

    /// Takes an event; they come in order of time.
    pub(super) fn push(
        &mut self,
        event: Event,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        self.unseen += 1;
        if self.counting.is_none() && self.unseen >= LOOK_EVERY {
            self.look(event.time_ns, writer);
        }
        let Some(counting) = &mut self.counting else {
            return writer.events.push(event);
        };
        if event.time_ns >= counting.began_ns.saturating_add(counting.interval_ns) {
            self.write_counts(writer)?;
            self.begin_interval(event.time_ns, writer);
        }
        if let Some(counting) = &mut self.counting {
            counting.add(&event, self.page_bytes);
        }
        Ok(())
    }

    fn look(&mut self, time_ns: u64, writer: &TraceWriter) {
        let Some(budget) = &self.budget else { return };
        self.unseen = 0;
        // What waits for its batch is not on disk yet.
        if writer.bytes_on_disk() + writer.events.waiting() as u64 * EVENT_BYTES < budget.listed {
            return;
        }
        self.counting = Some(Counting {
            interval_ns: FIRST_INTERVAL_NS,
            double_at: budget.all - (budget.all - budget.listed) / 2,
            began_ns: time_ns,
            counts: BTreeMap::new(),
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
