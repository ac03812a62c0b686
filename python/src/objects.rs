//! Objects as a table: a row each, with the columns that `pagewise report --json` gives them.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::BooleanArray;
use arrow_array::Float64Array;
use arrow_array::RecordBatch;
use arrow_array::StringArray;
use arrow_array::UInt32Array;
use arrow_array::UInt64Array;
use arrow_schema::ArrowError;
use pagewise_analyze::Findings;
use pagewise_analyze::Object;

/// Most stall first. Null is unknown.
pub(crate) fn table(findings: &Findings) -> Result<RecordBatch, ArrowError> {
    let objects = &findings.objects;
    let (faults, swap_ins) = (findings.faults_observed(), findings.swap_ins_observed());
    let zeros = findings.zeros_observed();
    let text = |value: fn(&Object) -> Option<&str>| -> ArrayRef {
        Arc::new(objects.iter().map(value).collect::<StringArray>())
    };
    let number = |known: bool, value: fn(&Object) -> Option<u64>| -> ArrayRef {
        let value = |object| Some(object).filter(|_| known).and_then(value);
        Arc::new(objects.iter().map(value).collect::<UInt64Array>())
    };
    let share = |value: fn(&Object) -> Option<f64>| -> ArrayRef {
        Arc::new(objects.iter().map(value).collect::<Float64Array>())
    };
    let labels = objects
        .iter()
        .map(|object| Some(object.identity.to_string()));
    let lines = objects.iter().map(|object| object.identity.line);
    let sampled = objects.iter().map(|object| Some(object.sampled));
    RecordBatch::try_from_iter_with_nullable([
        (
            "object",
            Arc::new(labels.collect::<StringArray>()) as ArrayRef,
            false,
        ),
        ("name", text(|object| object.identity.name.as_deref()), true),
        ("type", text(|object| object.type_name.as_deref()), true),
        ("file", text(|object| object.identity.file.as_deref()), true),
        (
            "line",
            Arc::new(lines.collect::<UInt32Array>()) as ArrayRef,
            true,
        ),
        (
            "function",
            text(|object| object.identity.function.as_deref()),
            true,
        ),
        (
            "kind",
            text(|object| Some(object.identity.kind.name())),
            false,
        ),
        ("bytes", number(true, |object| object.bytes), true),
        (
            "allocations",
            number(true, |object| Some(object.allocations)),
            false,
        ),
        (
            "sampled",
            Arc::new(sampled.collect::<BooleanArray>()) as ArrayRef,
            false,
        ),
        (
            "swap_ins",
            number(swap_ins, |object| Some(object.counts.swap_ins)),
            true,
        ),
        (
            "swap_cache_hits",
            number(faults, |object| Some(object.counts.swap_cache_hits)),
            true,
        ),
        (
            "evictions",
            number(faults, |object| Some(object.counts.evictions)),
            true,
        ),
        (
            "pages_written",
            number(faults, |object| Some(object.counts.pages_written)),
            true,
        ),
        (
            "zero_filled",
            number(zeros, |object| Some(object.counts.zero_filled)),
            true,
        ),
        (
            "stall_ns",
            number(faults, |object| Some(object.counts.stall_ns)),
            true,
        ),
        (
            "resident_share",
            share(|object| object.resident_share),
            true,
        ),
        (
            "accessed_share",
            share(|object| object.accessed_share),
            true,
        ),
        (
            "distinct_pages",
            number(swap_ins, |object| Some(object.distinct_pages)),
            true,
        ),
        (
            "pattern",
            text(|object| object.pattern.map(pagewise_analyze::Pattern::name)),
            true,
        ),
        (
            "extra_bytes",
            number(true, |object| object.extra_bytes),
            true,
        ),
    ])
}
