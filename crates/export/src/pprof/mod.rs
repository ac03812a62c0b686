//! pprof's profile: what swapping cost, by call path, with the object as a label.

mod proto;
mod tables;
#[cfg(test)]
mod tests;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use pagewise_analyze::Counts;
use pagewise_trace::Trace;
use prost::Message;

use crate::call_paths::CallPaths;
use crate::error::ExportError;
use crate::events::Events;
use crate::format::CallPathOf;
use crate::tally::Key;
use crate::tally::Tally;
use proto::Label;
use proto::Profile;
use proto::Sample;
use proto::ValueType;
use tables::Tables;

/// What each sample counts, in this order, with its unit.
const SAMPLE_TYPES: &[(&str, &str)] = &[
    ("swap_ins", "count"),
    ("stall", "nanoseconds"),
    ("evictions", "count"),
    ("swapped_in", "bytes"),
];
const DEFAULT_SAMPLE_TYPE: &str = "stall";

pub(crate) fn write(
    trace: &Trace,
    events: &Events,
    tally: &Tally,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let profile = profile(trace, events, tally)?;
    let mut compressed = GzEncoder::new(out, Compression::default());
    compressed.write_all(&profile.encode_to_vec())?;
    compressed.finish()?;
    Ok(())
}

fn profile(trace: &Trace, events: &Events, tally: &Tally) -> Result<Profile, ExportError> {
    let paths = CallPaths::read(trace)?;
    let mut tables = Tables::new();
    if let Some(program) = program(events) {
        tables.mapping(program);
    }
    let sample_type = SAMPLE_TYPES.iter().map(|(kind, unit)| ValueType {
        kind: tables.text(kind),
        unit: tables.text(unit),
    });
    let sample_type = sample_type.collect();
    let mut sample = Vec::with_capacity(tally.sums.len());
    for (key, sums) in &tally.sums {
        sample.push(Sample {
            location_id: locations(&mut tables, &paths, events, tally, key),
            value: values(sums, events.page_bytes()),
            label: labels(&mut tables, events, key),
        });
    }
    let meta = trace.meta();
    let comment = format!("pagewise: {}", meta.command.join(" "));
    let comment = vec![tables.text(&comment)];
    let default_sample_type = tables.text(DEFAULT_SAMPLE_TYPE);
    Ok(Profile {
        sample_type,
        sample,
        time_nanos: meta.clock.start_realtime_ns.map_or(0, clamped),
        duration_nanos: meta.wall_ns.map_or(0, clamped),
        comment,
        default_sample_type,
        mapping: tables.mapping,
        location: tables.location,
        function: tables.function,
        string_table: tables.string_table,
    })
}

/// The executable of the first process.
fn program(events: &Events) -> Option<&str> {
    let first = events.spaces().values().min_by_key(|space| space.space)?;
    first.executable.as_deref()
}

/// Innermost first; the object itself where there is no call path.
fn locations(
    tables: &mut Tables,
    paths: &CallPaths,
    events: &Events,
    tally: &Tally,
    key: &Key,
) -> Vec<u64> {
    let levels = paths.levels(key.stack);
    if !levels.is_empty() {
        return levels.iter().map(|level| tables.level(level)).collect();
    }
    let alone = match tally.call_path_of {
        CallPathOf::Allocation => tables.object(events.identity(key.object)),
        CallPathOf::Fault => tables.named("(no call path)"),
    };
    vec![alone]
}

fn values(sums: &Counts, page_bytes: u64) -> Vec<i64> {
    let bytes = sums.swap_ins.saturating_mul(page_bytes);
    [sums.swap_ins, sums.stall_ns, sums.evictions, bytes]
        .map(clamped)
        .to_vec()
}

fn labels(tables: &mut Tables, events: &Events, key: &Key) -> Vec<Label> {
    let identity = events.identity(key.object);
    let label = identity.to_string();
    [("object", label.as_str()), ("kind", identity.kind.name())]
        .map(|(name, value)| Label {
            key: tables.text(name),
            text: tables.text(value),
        })
        .to_vec()
}

/// The format's numbers are signed.
fn clamped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
