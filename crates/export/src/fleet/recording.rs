//! The one row of the table `recordings` that a recording has.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::Int64Array;
use arrow_array::RecordBatch;
use arrow_array::StringArray;
use arrow_schema::ArrowError;
use arrow_schema::DataType;
use arrow_schema::Field;
use arrow_schema::Schema;
use pagewise_analyze::Findings;
use pagewise_trace::Meta;

use super::labels::Known;

/// A cell.
enum Value {
    Text(Option<String>),
    Number(Option<i64>),
}

fn text(value: &str) -> Value {
    Value::Text(Some(value.to_owned()).filter(|text| !text.is_empty()))
}

/// `None` also of what is too large to be true.
fn number(value: Option<u64>) -> Value {
    Value::Number(value.and_then(|value| i64::try_from(value).ok()))
}

/// Null is unknown; times are ns, sizes bytes.
pub(super) fn row(findings: &Findings, known: &Known, id: &str) -> Result<RecordBatch, ArrowError> {
    let mut columns = vec![
        ("recording", text(id)),
        ("service", Value::Text(known.service.clone())),
        ("release", Value::Text(known.release.clone())),
    ];
    columns.extend(of_meta(&findings.meta));
    columns.extend(of_findings(findings));
    let fields = columns.iter().map(|(name, value)| {
        let kind = match value {
            Value::Text(_) => DataType::Utf8,
            Value::Number(_) => DataType::Int64,
        };
        Field::new(*name, kind, *name != "recording")
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, value)| -> ArrayRef {
        match value {
            Value::Text(text) => Arc::new(StringArray::from(vec![text])),
            Value::Number(number) => Arc::new(Int64Array::from(vec![number])),
        }
    });
    RecordBatch::try_new(schema, arrays.collect())
}

fn of_meta(meta: &Meta) -> Vec<(&'static str, Value)> {
    let losses = meta.losses.values().copied().fold(0, u64::saturating_add);
    vec![
        ("command", text(&meta.command.join(" "))),
        ("pagewise_version", text(&meta.pagewise_version)),
        ("kernel", text(&meta.host.kernel)),
        ("cpus", number(meta.host.cpus)),
        ("memory_bytes", number(meta.host.memory_bytes)),
        ("page_bytes", number(meta.host.page_bytes)),
        ("start_unix_ns", number(meta.clock.start_realtime_ns)),
        ("start_monotonic_ns", number(meta.clock.start_monotonic_ns)),
        ("wall_ns", number(meta.wall_ns)),
        ("swap_kind", Value::Text(meta.swap.kind.clone())),
        ("limit_bytes", number(meta.limit.bytes)),
        ("peak_rss_bytes", number(meta.peak_rss_bytes)),
        ("exit_code", Value::Number(meta.exit.code.map(i64::from))),
        (
            "exit_signal",
            Value::Number(meta.exit.signal.map(i64::from)),
        ),
        ("losses", number(Some(losses))),
    ]
}

fn of_findings(findings: &Findings) -> Vec<(&'static str, Value)> {
    let totals = &findings.totals;
    let counted = |known: bool, count: u64| number(Some(count).filter(|_| known));
    let (faults, swap_ins) = (findings.faults_observed(), findings.swap_ins_observed());
    let looks = findings.working_set.iter();
    let working_set = looks.map(|look| look.accessed_bytes).max();
    let listed = findings.meta.row_counts.get("events").copied();
    vec![
        ("working_set_bytes", number(working_set)),
        ("needed_bytes", number(findings.memory_need.limit_bytes)),
        ("events", number(listed)),
        ("counted_events", number(Some(findings.counted_events))),
        ("swap_ins", counted(swap_ins, totals.swap_ins)),
        ("evictions", counted(faults, totals.evictions)),
        ("pages_written", counted(faults, totals.pages_written)),
        ("stall_ns", counted(faults, totals.stall_ns)),
    ]
}
