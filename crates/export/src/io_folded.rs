//! Collapsed stacks of calls on files: `outermost;...;innermost;read COUNT`, a line for each call path and what it does.

use std::collections::BTreeMap;
use std::io::Write;

use pagewise_trace::IoCall;
use pagewise_trace::IoDirection;
use pagewise_trace::IoSum;
use pagewise_trace::Trace;

use crate::call_paths::CallPaths;
use crate::error::ExportError;
use crate::folded::line_of;
use crate::folded::push_frame;
use crate::format::Weight;

/// By call path and direction, whose names are in the order of the alphabet so that the output is the same each time.
type Sums = BTreeMap<(Option<u32>, &'static str), u64>;

/// Lines that would count nothing are left out.
pub(crate) fn write(
    trace: &Trace,
    weight: Weight,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    if !trace.meta().has_recorded("io") {
        return Err(ExportError::NoIo);
    }
    let paths = CallPaths::read(trace)?;
    for ((stack, does), count) in sums(trace, weight)? {
        if count == 0 {
            continue;
        }
        let mut line = line_of(&paths, stack);
        if line.is_empty() {
            push_frame(&mut line, "(no call path)");
        }
        push_frame(&mut line, does);
        writeln!(out, "{line} {count}")?;
    }
    Ok(())
}

/// Single calls, and what was summed up in place of them.
fn sums(trace: &Trace, weight: Weight) -> Result<Sums, ExportError> {
    let weighed = |bytes: u64, ns: u64| match weight {
        Weight::IoNs => ns,
        _ => bytes,
    };
    let mut sums = Sums::new();
    for row in trace.rows::<IoCall>()? {
        let row = row?;
        let sum = sums.entry((row.stack, name(row.direction))).or_default();
        *sum += weighed(row.bytes.unwrap_or(0), row.latency_ns);
    }
    for row in trace.rows::<IoSum>()? {
        let row = row?;
        let sum = sums.entry((row.stack, name(row.direction))).or_default();
        *sum += weighed(row.bytes, row.latency_ns);
    }
    Ok(sums)
}

fn name(direction: IoDirection) -> &'static str {
    match direction {
        IoDirection::Read => "read",
        IoDirection::Write => "write",
        IoDirection::Sync => "sync",
        IoDirection::Map => "map",
    }
}

#[cfg(test)]
mod tests {
    use pagewise_trace::IoCallKind;
    use pagewise_trace::Meta;
    use pagewise_trace::Overwrite;
    use pagewise_trace::TraceWriter;

    use super::*;

    fn read(stack: Option<u32>, bytes: Option<u64>, latency_ns: u64) -> IoCall {
        IoCall {
            time_ns: 1,
            space: 0,
            tid: 1,
            call: IoCallKind::Read,
            direction: IoDirection::Read,
            file: None,
            direct: false,
            offset: None,
            bytes,
            error: None,
            latency_ns,
            cached_bytes: None,
            ahead_bytes: None,
            stack,
        }
    }

    fn folded(sensor: Option<&str>, weight: Weight) -> Result<String, ExportError> {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("pagewise.data");
        let mut meta = Meta::default();
        let sensor = sensor.map(|state| ("io".to_owned(), state.to_owned()));
        meta.sensors.extend(sensor);
        let mut writer = TraceWriter::create(&dir, meta, Overwrite::Refuse)?;
        let sync = IoCall {
            direction: IoDirection::Sync,
            ..read(None, None, 700)
        };
        let calls = [
            read(None, Some(4096), 5),
            sync,
            read(None, Some(100), 6),
            read(None, None, 1),
        ];
        for call in calls {
            writer.io_calls.push(call)?;
        }
        writer.close()?;
        let mut out = Vec::new();
        write(&Trace::open(&dir)?, weight, &mut out)?;
        Ok(String::from_utf8(out).expect("text"))
    }

    #[test]
    fn calls_are_summed_up_by_path_and_what_they_do() {
        let told = |weight| folded(Some("on"), weight).expect("written");
        assert_eq!(told(Weight::IoBytes), "(no call path);read 4196\n");
        let by_time = "(no call path);read 12\n(no call path);sync 700\n";
        assert_eq!(told(Weight::IoNs), by_time);
    }

    #[test]
    fn what_was_not_recorded_is_no_empty_picture() {
        let refused = folded(None, Weight::IoBytes).expect_err("refused");
        assert!(matches!(refused, ExportError::NoIo), "{refused}");
    }
}
