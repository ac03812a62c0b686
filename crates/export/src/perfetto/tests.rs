//! The timeline that a reader builds of the packets.

use std::collections::HashMap;

use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Stall;
use pagewise_trace::StallKind;
use prost::Message;

use super::proto::Data;
use super::proto::EventType;
use super::proto::Trace;
use super::proto::TrackDescriptor;
use super::proto::TrackEvent;
use super::proto::Value;
use crate::Format;
use crate::Options;
use crate::tests::GRID;
use crate::tests::PAGE;
use crate::tests::SECOND;
use crate::tests::event;
use crate::tests::exported;
use crate::tests::swap_in;
use crate::tests::trace_of;
use crate::tests::trace_with;
use crate::tests::usual_events;

/// As the trace's tables have it: the packets' clock is 7 ns ahead.
const BOOT_OFFSET: u64 = 7;

struct Timeline {
    tracks: HashMap<u64, TrackDescriptor>,
    /// Each with its time and name.
    events: Vec<(u64, String, TrackEvent)>,
    clocks: usize,
    texts: HashMap<u64, String>,
}

impl Timeline {
    fn of(events: &[Event]) -> Self {
        let (_folder, trace) = trace_of(events);
        Self::of_trace(&trace)
    }

    fn of_trace(trace: &pagewise_trace::Trace) -> Self {
        let bytes = exported(trace, Format::Perfetto, Options::default());
        let trace = Trace::decode(&bytes[..]).expect("a trace");
        let mut timeline = Timeline {
            tracks: HashMap::new(),
            events: Vec::new(),
            clocks: 0,
            texts: HashMap::new(),
        };
        let mut names = HashMap::new();
        for (number, packet) in trace.packet.into_iter().enumerate() {
            assert_eq!(packet.trusted_packet_sequence_id, Some(1));
            // The texts are numbered anew at the first packet and nowhere else.
            assert_eq!(packet.sequence_flags, Some(if number == 0 { 3 } else { 2 }));
            let texts = packet.interned_data.unwrap_or_default();
            for name in texts.event_names {
                names.insert(name.iid.expect("a number"), name.text.expect("a text"));
            }
            for text in texts.debug_annotation_string_values {
                timeline
                    .texts
                    .insert(text.iid.expect("a number"), text.text.expect("a text"));
            }
            match packet.data.expect("data") {
                Data::ClockSnapshot(snapshot) => timeline.clocks += snapshot.clocks.len(),
                Data::TrackDescriptor(track) => {
                    let uuid = track.uuid.expect("a number");
                    assert!(timeline.tracks.insert(uuid, track).is_none() && uuid != 0);
                }
                Data::TrackEvent(event) => {
                    let name = event
                        .name_iid
                        .map_or(String::new(), |iid| names[&iid].clone());
                    let time = packet.timestamp.expect("a time") - BOOT_OFFSET;
                    assert!(
                        timeline
                            .tracks
                            .contains_key(&event.track_uuid.expect("a track"))
                    );
                    timeline.events.push((time, name, event));
                }
            }
        }
        // As Perfetto does; of one moment, in the order of the packets.
        timeline.events.sort_by_key(|(time, ..)| *time);
        timeline
    }

    fn of_type(&self, wanted: EventType) -> impl Iterator<Item = &(u64, String, TrackEvent)> {
        self.events
            .iter()
            .filter(move |(.., event)| event.r#type() == wanted)
    }

    /// Begin, end and name of each slice; a fault must end before the next on its track begins.
    fn slices(&self) -> Vec<(u64, u64, &str)> {
        let mut open: HashMap<u64, Vec<(u64, &str)>> = HashMap::new();
        let mut slices = Vec::new();
        for (time, name, event) in &self.events {
            let track = event.track_uuid.expect("a track");
            match event.r#type() {
                EventType::SliceBegin => {
                    let outer = open.entry(track).or_default();
                    assert!(
                        outer.is_empty() || name == "reclaim",
                        "{name} within another"
                    );
                    outer.push((*time, name));
                }
                EventType::SliceEnd => {
                    let (begin, name) = open.get_mut(&track).and_then(Vec::pop).expect("begun");
                    slices.push((begin, *time, name));
                }
                _ => {}
            }
        }
        assert!(open.values().all(Vec::is_empty));
        slices
    }

    fn counter(&self, name: &str) -> Vec<(u64, f64)> {
        let is_it = |uuid: u64| self.tracks[&uuid].name.as_deref() == Some(name);
        let values = self.of_type(EventType::Counter);
        values
            .filter(|(.., event)| is_it(event.track_uuid.expect("a track")))
            .map(|(time, _, event)| {
                let value = event
                    .double_counter_value
                    .or(event.counter_value.map(|value| value as f64));
                (*time, value.expect("a value"))
            })
            .collect()
    }
}

#[test]
fn faults_are_slices_named_by_their_objects() {
    let timeline = Timeline::of(&usual_events());
    let at = |ns: u64| 2 * SECOND + ns;
    assert_eq!(
        timeline.slices(),
        [
            (at(0) - 50, at(0), "grid (sweep.c:12)"),
            (at(0), at(100), "grid (sweep.c:12)"),
            (at(280), at(300), "table, \"big\""),
            (at(460), at(500), "grid (sweep.c:12)"),
            (at(893), at(900), "(memory of no recorded object)"),
        ]
    );
    let instants: Vec<_> = timeline.of_type(EventType::Instant).collect();
    assert_eq!(instants.len(), 1);
    assert_eq!(instants[0].0, at(600));
    assert_eq!(timeline.clocks, 3);
    let threads: Vec<_> = timeline
        .tracks
        .values()
        .filter_map(|track| track.thread.as_ref())
        .collect();
    let mut tids: Vec<_> = threads.iter().filter_map(|thread| thread.tid).collect();
    tids.sort_unstable();
    assert_eq!(tids, [4242, 4243]);
    let process = timeline
        .tracks
        .values()
        .find_map(|track| track.process.as_ref())
        .expect("a process");
    assert_eq!(process.cmdline, ["./sweep", "a b"]);
}

#[test]
fn slices_say_where_the_object_is() {
    let timeline = Timeline::of(&usual_events());
    let (.., first) = timeline
        .of_type(EventType::SliceBegin)
        .next()
        .expect("a slice");
    let values: Vec<Value> = first
        .debug_annotations
        .iter()
        .filter_map(|note| note.value)
        .collect();
    let [
        Value::Pointer(GRID),
        Value::Number(0),
        Value::Text(kind),
        Value::Text(file),
        Value::Number(12),
    ] = values[..]
    else {
        panic!("{values:?}")
    };
    assert_eq!(timeline.texts[&kind], "allocation");
    assert_eq!(timeline.texts[&file], "src/sweep.c");
}

#[test]
fn counters_show_memory_and_rates() {
    let timeline = Timeline::of(&usual_events());
    let mib = |count: u64| (count << 20) as f64;
    assert_eq!(
        timeline.counter("resident memory"),
        [(SECOND, mib(1)), (2 * SECOND, mib(2))]
    );
    assert_eq!(timeline.counter("memory limit"), []);
    let window = |tenths: u64| tenths * SECOND / 10;
    assert_eq!(
        timeline.counter("swap-ins"),
        [(window(19), 0.0), (window(20), 60.0), (window(21), 0.0)]
    );
    assert_eq!(
        timeline.counter("evictions"),
        [(window(19), 20.0), (window(20), 0.0), (window(21), 0.0)]
    );
    let waiting = timeline.counter("waiting for swap-ins");
    assert!((waiting[1].1 - 227.0 / 1e8).abs() < 1e-12, "{waiting:?}");
}

#[test]
fn what_is_out_of_order_or_out_of_range_is_kept_as_it_is() {
    let late = swap_in(2 * SECOND - 1_000, GRID, 30);
    let long = swap_in(50, GRID + PAGE, u64::MAX);
    let foreign = Event {
        space: 77,
        ..event(EventKind::SwapIn, 3 * SECOND, GRID)
    };
    let events = [swap_in(2 * SECOND, GRID, 50), late, long];
    let timeline = Timeline::of(&events);
    let mut slices = timeline.slices();
    slices.sort_unstable();
    let spans: Vec<(u64, u64)> = slices.iter().map(|&(begin, end, _)| (begin, end)).collect();
    assert_eq!(
        spans,
        [
            (0, 50),
            (2 * SECOND - 1_030, 2 * SECOND - 1_000),
            (2 * SECOND - 50, 2 * SECOND)
        ]
    );
    // Of a process nobody told us of: on the trace's own track, which has the number 0 and no descriptor.
    let (_folder, trace) = trace_of(&[foreign]);
    let bytes = exported(&trace, Format::Perfetto, Options::default());
    let trace = Trace::decode(&bytes[..]).expect("a trace");
    assert!(trace.packet.iter().any(|packet| matches!(
        &packet.data,
        Some(Data::TrackEvent(event)) if event.track_uuid == Some(0)
    )));
}

#[test]
fn reclaim_lies_within_its_fault_where_it_was_recorded() {
    let reclaim = |time_ns, duration_ns| Stall {
        time_ns,
        space: 0,
        tid: 4243,
        kind: StallKind::MemcgReclaim,
        duration_ns,
        in_fault: false,
    };
    // The first begins with the fault.
    let stalls = [reclaim(2 * SECOND - 400, 100), reclaim(2 * SECOND + 90, 50)];
    let (_folder, trace) = trace_with(&[swap_in(2 * SECOND, GRID, 500)], &stalls);
    let timeline = Timeline::of_trace(&trace);
    let at = |ns: u64| 2 * SECOND - 500 + ns;
    assert_eq!(
        timeline.slices(),
        [
            (at(0), at(100), "reclaim"),
            (at(0), at(500), "grid (sweep.c:12)"),
            (at(540), at(590), "reclaim"),
        ]
    );
}
