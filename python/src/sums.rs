//! Counts by object as a table.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::RecordBatch;
use arrow_array::StringArray;
use arrow_array::UInt32Array;
use arrow_array::UInt64Array;
use arrow_schema::ArrowError;
use pagewise_analyze::Counts;
use pagewise_analyze::ObjectSum;
use pagewise_analyze::Observed;

/// In the order given. Null is unknown.
pub(crate) fn table(sums: &[ObjectSum], observed: Observed) -> Result<RecordBatch, ArrowError> {
    let text = |value: fn(&ObjectSum) -> Option<&str>| -> ArrayRef {
        Arc::new(sums.iter().map(value).collect::<StringArray>())
    };
    let count = |known: bool, value: fn(&Counts) -> u64| -> ArrayRef {
        let counts = sums.iter().map(|sum| known.then(|| value(&sum.counts)));
        Arc::new(counts.collect::<UInt64Array>())
    };
    let labels = sums.iter().map(|sum| Some(sum.identity.to_string()));
    let labels: ArrayRef = Arc::new(labels.collect::<StringArray>());
    let lines = sums.iter().map(|sum| sum.identity.line);
    let lines: ArrayRef = Arc::new(lines.collect::<UInt32Array>());
    let Observed {
        faults,
        swap_ins,
        zeros,
    } = observed;
    RecordBatch::try_from_iter_with_nullable([
        ("object", labels, false),
        ("name", text(|sum| sum.identity.name.as_deref()), true),
        ("file", text(|sum| sum.identity.file.as_deref()), true),
        ("line", lines, true),
        (
            "function",
            text(|sum| sum.identity.function.as_deref()),
            true,
        ),
        ("kind", text(|sum| Some(sum.identity.kind.name())), false),
        ("swap_ins", count(swap_ins, |counts| counts.swap_ins), true),
        (
            "swap_cache_hits",
            count(faults, |counts| counts.swap_cache_hits),
            true,
        ),
        ("evictions", count(faults, |counts| counts.evictions), true),
        (
            "pages_written",
            count(faults, |counts| counts.pages_written),
            true,
        ),
        (
            "zero_filled",
            count(zeros, |counts| counts.zero_filled),
            true,
        ),
        ("stall_ns", count(faults, |counts| counts.stall_ns), true),
    ])
}
