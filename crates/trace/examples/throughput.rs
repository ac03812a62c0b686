//! Measures how fast events are pushed, closed and read; build it with `--release`:
//!
//! ```text
//! cargo run --release -p pagewise-trace --example throughput -- FOLDER [EVENTS]
//! ```

use std::error::Error;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: throughput FOLDER [EVENTS]")?;
    let events = arguments.next().map_or(Ok(5_000_000), |n| n.parse())?;
    let dir = Path::new(&folder);

    let mut writer = TraceWriter::create(dir, Meta::default(), Overwrite::Replace)?;
    let begin = Instant::now();
    for number in 0..events {
        writer.events.push(event(number))?;
    }
    writer.flush()?;
    show("push and flush", events, begin.elapsed());

    let begin = Instant::now();
    let streamed = sum(&Trace::open(dir)?)?;
    show("read, recording", events, begin.elapsed());

    let begin = Instant::now();
    writer.close()?;
    show("close", events, begin.elapsed());

    let begin = Instant::now();
    let closed = sum(&Trace::open(dir)?)?;
    show("read, closed", events, begin.elapsed());
    if closed != streamed {
        return Err("the closed trace differs from the recording".into());
    }
    let bytes = std::fs::metadata(dir.join("events.parquet"))?.len();
    println!(
        "{:16} {:.2} bytes per event",
        "closed",
        bytes as f64 / events as f64
    );
    Ok(())
}

fn show(what: &str, events: u64, took: Duration) {
    let per_event = took.as_nanos() as f64 / events as f64;
    println!(
        "{what:16} {:.3} s, {per_event:.0} ns per event",
        took.as_secs_f64()
    );
}

/// Uses every field, so that nothing of the reading can be left out.
fn sum(trace: &Trace) -> Result<u64, Box<dyn Error>> {
    let mut sum: u64 = 0;
    for event in trace.events()? {
        let event = event?;
        sum = sum
            .wrapping_mul(31)
            .wrapping_add(event.time_ns ^ event.address)
            .wrapping_add(event.latency_ns.unwrap_or(7) + u64::from(event.tid.unwrap_or(3)))
            .wrapping_add(event.kind as u64 + u64::from(event.space));
    }
    Ok(sum)
}

/// Three events per page, with scattered times (Knuth's multiplicative hash).
fn event(number: u64) -> Event {
    let scatter = number.wrapping_mul(2_654_435_761) >> 12 & 0x3ff;
    let page = number / 3;
    let (kind, ahead) = match number % 3 {
        0 => (EventKind::PageWritten, 30_000),
        1 => (EventKind::Eviction, 30_000),
        _ => (EventKind::SwapIn, 0),
    };
    let is_fault = kind == EventKind::SwapIn;
    Event {
        time_ns: 81_234_567_890_123 + number * 2_000 + scatter,
        space: 0,
        tid: is_fault.then_some(4242),
        kind,
        address: 0x7f00_0000_0000 + (page + ahead) * 4096,
        latency_ns: is_fault.then_some(2_500 + scatter),
        stack: is_fault.then_some((page % 5) as u32),
    }
}
