//! Of a full recording, what a sampled one would have been: the same events, and of the allocations a sample.

use std::collections::HashMap;
use std::path::Path;

use pagewise_abi::DEFAULT_SAMPLE_BYTES;
use pagewise_abi::DEFAULT_THRESHOLD;
use pagewise_interpose::Sampler;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Overwrite;
use pagewise_trace::Sampling;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;
use pagewise_trace::estimated_bytes;

/// Chooses as the preloaded library does: by threads, in the order of their allocations.
pub(crate) struct Chooser {
    seed: u64,
    threads: HashMap<u32, Sampler>,
}

impl Chooser {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            threads: HashMap::new(),
        }
    }

    /// The allocation as it would have been recorded; `None`: not at all.
    pub(crate) fn choose(&mut self, allocation: Allocation) -> Option<Allocation> {
        let large = allocation.bytes >= DEFAULT_THRESHOLD as u64;
        if large || allocation.kind == AllocationKind::Mmap {
            return large.then_some(allocation);
        }
        let (mean, bytes) = (DEFAULT_SAMPLE_BYTES, allocation.bytes as usize);
        let sampler = self.threads.entry(allocation.tid).or_default();
        if sampler.pass(bytes) && !sampler.is_seeded() {
            sampler.seed(self.seed ^ u64::from(allocation.tid) << 32, mean, bytes);
        }
        sampler.choose(mean).map(|_| Allocation {
            estimated_bytes: Some(estimated_bytes(allocation.bytes, mean)),
            ..allocation
        })
    }
}

/// Writes the trace at `to`.
pub(crate) fn resample(from: &Path, to: &Path, seed: u64) {
    let trace = Trace::open(from).expect("a trace");
    let mut meta = trace.meta().clone();
    meta.sampling = Sampling {
        threshold_bytes: Some(DEFAULT_THRESHOLD as u64),
        sample_bytes: Some(DEFAULT_SAMPLE_BYTES.into()),
        sparsest_sample_bytes: Some(DEFAULT_SAMPLE_BYTES.into()),
    };
    let mut writer = TraceWriter::create(to, meta, Overwrite::Refuse).expect("a writer");
    macro_rules! copy {
        ($($table:ident)*) => {$(
            for row in trace.rows().expect(stringify!($table)) {
                writer.$table.push(row.expect("a row")).expect("pushed");
            }
        )*};
    }
    copy!(events spaces releases moves mappings stacks frames sites globals);
    let mut chooser = Chooser::new(seed);
    for allocation in trace.allocations().expect("allocations") {
        let chosen = chooser.choose(allocation.expect("a row"));
        if let Some(allocation) = chosen {
            writer.allocations.push(allocation).expect("pushed");
        }
    }
    writer.close().expect("closed");
}
