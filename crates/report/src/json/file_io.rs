//! Contexts of input and output, and files.

use pagewise_analyze::file_io::FileIo;
use pagewise_analyze::file_io::FileUse;
use pagewise_analyze::file_io::IoContext;
use pagewise_analyze::file_io::Use;
use serde::Serialize;

use super::Latency;
use super::code::JsonFrame;
use crate::file_io::advice_name;

/// More than a reader looks through.
const MOST_FILES: usize = 1000;
const MOST_FILES_OF_CONTEXT: usize = 20;

#[derive(Debug, Serialize)]
pub(super) struct JsonContext<'a> {
    does: &'static str,
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    keys: &'a [String],
    by_files: bool,
    calls: u64,
    failed: u64,
    bytes: u64,
    direct_bytes: u64,
    requested_bytes: u64,
    mean_bytes: Option<u64>,
    latency_ns: u64,
    latency: Latency,
    miss_ratio: Option<f64>,
    missed_bytes: Option<u64>,
    ahead_bytes: Option<u64>,
    unused_ahead_bytes: Option<u64>,
    in_vain_bytes: Option<u64>,
    refaulted_bytes: Option<u64>,
    run_length: Option<f64>,
    run_bytes: Option<u64>,
    long_run_share: Option<f64>,
    again_share: Option<f64>,
    again_cached_share: Option<f64>,
    class: Option<String>,
    advice: Option<&'static str>,
    advice_bytes: Option<u64>,
    files: Vec<JsonPart>,
    path: Vec<JsonFrame<'a>>,
}

/// A file of a context, or a context of a file: by its place in the list of them.
#[derive(Debug, Serialize)]
struct JsonPart {
    index: usize,
    bytes: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct JsonIoFile<'a> {
    path: Option<&'a str>,
    device: String,
    inode: u64,
    filesystem: &'a str,
    bytes: u64,
    unlinked: bool,
    calls: u64,
    read_bytes: u64,
    written_bytes: u64,
    distinct_read_bytes: Option<u64>,
    read_again_bytes: Option<u64>,
    contexts: Vec<JsonPart>,
    contexts_disagree: bool,
    block_bytes: u64,
    block_read_bytes: &'a [u64],
    block_written_bytes: &'a [u64],
}

impl<'a> JsonContext<'a> {
    fn new(context: &'a IoContext) -> Self {
        let place = context.place();
        let has_runs = context.does != Use::Sync;
        let (advice, advice_bytes) = advice_name(context.advice);
        Self {
            does: context.does.name(),
            function: place.and_then(|frame| frame.function.as_deref()),
            file: place.and_then(|frame| frame.file.as_deref()),
            line: place.and_then(|frame| frame.line),
            keys: &context.keys,
            by_files: context.is_by_files,
            calls: context.calls,
            failed: context.failed,
            bytes: context.bytes,
            direct_bytes: context.direct_bytes,
            requested_bytes: context.requested_bytes,
            mean_bytes: context.mean_bytes(),
            latency_ns: context.latency_ns,
            latency: Latency::new(&context.latency),
            miss_ratio: context.miss_ratio(),
            missed_bytes: context.missed_bytes,
            ahead_bytes: context.ahead_bytes,
            unused_ahead_bytes: context.unused_ahead_bytes,
            in_vain_bytes: context.in_vain_bytes,
            refaulted_bytes: context.refaulted_bytes,
            run_length: context.runs.mean_calls().filter(|_| has_runs),
            run_bytes: context.runs.sizes.quantile(0.5).filter(|_| has_runs),
            long_run_share: context.runs.long_share().filter(|_| has_runs),
            again_share: context.reuse.and_then(|reuse| reuse.again_share()),
            again_cached_share: context.reuse.and_then(|reuse| reuse.again_cached_share()),
            class: context.class(),
            advice,
            advice_bytes,
            files: parts(&context.files[..context.files.len().min(MOST_FILES_OF_CONTEXT)]),
            path: context
                .frames
                .iter()
                .map(|frame| JsonFrame::new(frame))
                .collect(),
        }
    }
}

fn parts(all: &[(usize, u64)]) -> Vec<JsonPart> {
    let part = |&(index, bytes): &(usize, u64)| JsonPart { index, bytes };
    all.iter().map(part).collect()
}

impl<'a> JsonIoFile<'a> {
    fn new(file: &'a FileUse) -> Self {
        Self {
            path: file.path.as_deref(),
            device: format!("{}:{}", file.device.0, file.device.1),
            inode: file.inode,
            filesystem: &file.filesystem,
            bytes: file.bytes,
            unlinked: file.unlinked,
            calls: file.calls,
            read_bytes: file.read_bytes,
            written_bytes: file.written_bytes,
            distinct_read_bytes: file.distinct_read_bytes,
            read_again_bytes: file.read_again_bytes,
            contexts: parts(&file.contexts),
            contexts_disagree: file.contexts_disagree,
            block_bytes: file.heat.block_bytes,
            block_read_bytes: &file.heat.read,
            block_written_bytes: &file.heat.written,
        }
    }
}

/// All contexts, and the files that most bytes were moved of. `None`: not recorded.
pub(super) fn document(
    io: Option<&FileIo>,
) -> (Option<Vec<JsonContext<'_>>>, Option<Vec<JsonIoFile<'_>>>) {
    let contexts = io.map(|io| io.contexts.iter().map(JsonContext::new).collect());
    let files = io.map(|io| {
        io.files
            .iter()
            .take(MOST_FILES)
            .map(JsonIoFile::new)
            .collect()
    });
    (contexts, files)
}
