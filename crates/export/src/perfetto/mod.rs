//! Perfetto's trace: a timeline of processes and threads, on which each fault is a slice named by its object.

mod packets;
mod proto;
mod rates;
#[cfg(test)]
mod tests;
mod tracks;

use std::collections::HashMap;
use std::io;
use std::io::Write;

use pagewise_analyze::Identity;
use pagewise_trace::Event;
use pagewise_trace::EventCount;
use pagewise_trace::EventKind;
use pagewise_trace::Meta;
use pagewise_trace::Sample;
use pagewise_trace::Stall;
use pagewise_trace::Trace;

use crate::error::ExportError;
use crate::events::Events;
use crate::events::LocatedEvent;
use packets::Packets;
use proto::CLOCK_BOOTTIME;
use proto::CLOCK_MONOTONIC;
use proto::CLOCK_REALTIME;
use proto::Clock;
use proto::ClockSnapshot;
use proto::Data;
use proto::DebugAnnotation;
use proto::EventType;
use proto::TrackEvent;
use proto::Value;
use rates::Rates;
use rates::WINDOW_NS;
use rates::Window;
use tracks::CounterUnit;
use tracks::Tracks;

const NS_PER_SECOND: u64 = 1_000_000_000;

pub(crate) fn write(
    trace: &Trace,
    events: &mut Events,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let meta = trace.meta();
    let mut packets = Packets::new(out);
    write_clocks(meta, &mut packets)?;
    let tracks = Tracks::begin(events.spaces(), &meta.command, &mut packets)?;
    let mut timeline = Timeline {
        // Perfetto's own clock; all tables are on the monotonic one.
        boot_offset_ns: meta.clock.boot_offset_ns.unwrap_or(0),
        packets,
        tracks,
        last_end: HashMap::new(),
    };
    timeline.write_samples(&trace.samples()?)?;
    let rate_tracks = RateTracks::describe(&mut timeline)?;
    let mut rates = Rates::default();
    while let Some(located) = events.next()? {
        let event = &located.event;
        let window = rates.window(event.time_ns);
        match event.kind {
            EventKind::SwapIn | EventKind::SwapCacheHit => {
                window.swap_ins += 1;
                let waited = event.latency_ns.unwrap_or(0);
                window.waited_ns = window.waited_ns.saturating_add(waited);
                timeline.write_fault(&located, events.identity(located.place.object))?;
            }
            EventKind::Eviction => window.evictions += 1,
            EventKind::PageWritten | EventKind::ZeroFilled => {}
        }
        for window in rates.complete() {
            rate_tracks.write(&mut timeline, window)?;
        }
    }
    for row in trace.rows::<EventCount>()? {
        rates.spread(&row?);
    }
    for window in rates.rest() {
        rate_tracks.write(&mut timeline, window)?;
    }
    // Last: of what begins in the same moment, the fault is the outer one.
    for span in trace.rows::<Stall>()? {
        timeline.write_reclaim(&span?)?;
    }
    Ok(())
}

/// The same instant on each clock, as far as known, so that wall-clock time can be shown.
fn write_clocks<W: Write>(meta: &Meta, packets: &mut Packets<'_, W>) -> io::Result<()> {
    let clock = &meta.clock;
    let (Some(monotonic), Some(offset)) = (clock.start_monotonic_ns, clock.boot_offset_ns) else {
        return Ok(());
    };
    let boot = monotonic.saturating_add(offset);
    let known = [
        (CLOCK_BOOTTIME, Some(boot)),
        (CLOCK_MONOTONIC, Some(monotonic)),
        (CLOCK_REALTIME, clock.start_realtime_ns),
    ];
    let clocks = known.into_iter().filter_map(|(clock_id, time)| {
        Some(Clock {
            clock_id: Some(clock_id),
            timestamp: Some(time?),
        })
    });
    let snapshot = ClockSnapshot {
        clocks: clocks.collect(),
        primary_trace_clock: Some(CLOCK_BOOTTIME),
    };
    packets.write(Some(boot), Data::ClockSnapshot(snapshot))
}

struct Timeline<'out, W: Write> {
    boot_offset_ns: u64,
    packets: Packets<'out, W>,
    tracks: Tracks,
    /// When the last fault on a track ended.
    last_end: HashMap<u64, u64>,
}

impl<W: Write> Timeline<'_, W> {
    fn write_event(&mut self, time_ns: u64, event: TrackEvent) -> io::Result<()> {
        let timestamp = time_ns.saturating_add(self.boot_offset_ns);
        self.packets.write(Some(timestamp), Data::TrackEvent(event))
    }

    /// A fault of known latency is a slice, another one an instant.
    fn write_fault(&mut self, located: &LocatedEvent, identity: &Identity) -> io::Result<()> {
        let event = &located.event;
        let track = self
            .tracks
            .of_thread(event.space, event.tid, &mut self.packets)?;
        let category = self.packets.category(event.kind.as_str());
        let mut head = TrackEvent {
            r#type: Some(EventType::Instant.into()),
            track_uuid: Some(track),
            category_iids: vec![category],
            name_iid: Some(self.packets.name(&identity.to_string())),
            debug_annotations: self.annotations(located, identity),
            ..TrackEvent::default()
        };
        let Some(latency) = event.latency_ns else {
            return self.write_event(event.time_ns, head);
        };
        head.r#type = Some(EventType::SliceBegin.into());
        let begin = self.begin_of(track, event, latency);
        self.write_event(begin, head)?;
        let tail = TrackEvent {
            r#type: Some(EventType::SliceEnd.into()),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        self.write_event(event.time_ns, tail)
    }

    /// Within a fault or by itself.
    fn write_reclaim(&mut self, span: &Stall) -> io::Result<()> {
        let tid = Some(span.tid);
        let track = self.tracks.of_thread(span.space, tid, &mut self.packets)?;
        let head = TrackEvent {
            r#type: Some(EventType::SliceBegin.into()),
            track_uuid: Some(track),
            category_iids: vec![self.packets.category("reclaim")],
            name_iid: Some(self.packets.name("reclaim")),
            ..TrackEvent::default()
        };
        self.write_event(span.time_ns.saturating_sub(span.duration_ns), head)?;
        let tail = TrackEvent {
            r#type: Some(EventType::SliceEnd.into()),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        self.write_event(span.time_ns, tail)
    }

    /// A thread takes one fault after the other: clocks of two processors may make them overlap by a few ns, which
    /// Perfetto would show as one within the other.
    fn begin_of(&mut self, track: u64, event: &Event, latency: u64) -> u64 {
        let begin = event.time_ns.saturating_sub(latency);
        let last = self.last_end.insert(track, event.time_ns);
        match last {
            Some(last) if last <= event.time_ns => begin.max(last),
            _ => begin,
        }
    }

    fn annotations(&mut self, located: &LocatedEvent, identity: &Identity) -> Vec<DebugAnnotation> {
        let packets = &mut self.packets;
        let file = identity.file.as_deref();
        let values = [
            ("address", Some(Value::Pointer(located.event.address))),
            ("page", located.place.page.map(Value::Number)),
            (
                "kind",
                Some(Value::Text(packets.annotation_text(identity.kind.name()))),
            ),
            (
                "file",
                file.map(|file| Value::Text(packets.annotation_text(file))),
            ),
            ("line", identity.line.map(|line| Value::Number(line.into()))),
        ];
        let known = values.into_iter().filter(|(_, value)| value.is_some());
        known
            .map(|(name, value)| DebugAnnotation {
                name_iid: Some(packets.annotation_name(name)),
                value,
            })
            .collect()
    }

    fn describe_counter(&mut self, name: &str, unit: CounterUnit) -> io::Result<u64> {
        self.tracks.counter(name, unit, &mut self.packets)
    }

    fn write_samples(&mut self, samples: &[Sample]) -> io::Result<()> {
        type Field = fn(&Sample) -> Option<u64>;
        let counters: [(&str, Field); 3] = [
            ("resident memory", |sample| sample.rss_bytes),
            ("swapped memory", |sample| sample.swap_bytes),
            ("memory limit", |sample| sample.limit_bytes),
        ];
        for (name, field) in counters {
            if samples.iter().all(|sample| field(sample).is_none()) {
                continue;
            }
            let track = self.describe_counter(name, CounterUnit::Bytes)?;
            for sample in samples {
                if let Some(bytes) = field(sample) {
                    let counter = TrackEvent {
                        r#type: Some(EventType::Counter.into()),
                        track_uuid: Some(track),
                        counter_value: Some(i64::try_from(bytes).unwrap_or(i64::MAX)),
                        ..TrackEvent::default()
                    };
                    self.write_event(sample.time_ns, counter)?;
                }
            }
        }
        Ok(())
    }
}

/// Counters computed from the events.
struct RateTracks {
    swap_ins: u64,
    evictions: u64,
    waiting: u64,
}

impl RateTracks {
    fn describe<W: Write>(timeline: &mut Timeline<'_, W>) -> io::Result<Self> {
        Ok(Self {
            swap_ins: timeline.describe_counter("swap-ins", CounterUnit::Named("per second"))?,
            evictions: timeline.describe_counter("evictions", CounterUnit::Named("per second"))?,
            waiting: timeline
                .describe_counter("waiting for swap-ins", CounterUnit::Named("threads"))?,
        })
    }

    fn write<W: Write>(
        &self,
        timeline: &mut Timeline<'_, W>,
        (begin, window): (u64, Window),
    ) -> io::Result<()> {
        let per_second = (NS_PER_SECOND / WINDOW_NS) as f64;
        let values = [
            (self.swap_ins, window.swap_ins as f64 * per_second),
            (self.evictions, window.evictions as f64 * per_second),
            (self.waiting, window.waited_ns as f64 / WINDOW_NS as f64),
        ];
        for (track, value) in values {
            let counter = TrackEvent {
                r#type: Some(EventType::Counter.into()),
                track_uuid: Some(track),
                double_counter_value: Some(value),
                ..TrackEvent::default()
            };
            timeline.write_event(begin, counter)?;
        }
        Ok(())
    }
}
