//! The trace: held in memory where that is needed and it fits, else read as a stream, twice if need be.

use std::path::Path;
use std::path::PathBuf;

use pagewise_refs::Classify;
use pagewise_refs::Format;
use pagewise_refs::Reader;
use pagewise_simulate::Outcome;
use pagewise_simulate::Reference;

use crate::error::ReplayError;
use crate::plan::Plan;
use crate::selection::Measuring;
use crate::selection::Sampled;
use crate::selection::Selection;
use crate::watch::Step;
use crate::watch::Watch;
use crate::watch::tell;

/// References held at most, unless a policy must know the future or curves are wanted: 1 GiB.
const HELD: usize = 256 << 20;

/// A trace, ready to be simulated.
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    pub(crate) classify: Option<Classify>,
    pub(crate) facts: Facts,
    /// The plan's warm-up (references).
    asked_warmup: u64,
    /// Of a sample, once the trace has been read.
    pub(crate) sampled: Option<Sampled>,
    pub(crate) references: References,
}

/// The references.
pub(crate) enum References {
    /// All that are simulated.
    Held(Vec<Reference>),
    /// To be read.
    Stream(Box<Reader>),
}

/// What is known of a trace once it is read.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// All of them, those of the warm-up too.
    pub references: u64,
    /// Of these, writes.
    pub writes: u64,
    /// Of these, to pages of files.
    pub of_files: u64,
    /// Distinct pages; `None`: not yet known.
    pub pages: Option<u32>,
    /// Lines left out.
    pub skipped: u64,
    /// What is to be said about the trace.
    pub notes: Vec<String>,
}

impl Facts {
    /// Takes in some references.
    pub(crate) fn count(&mut self, references: &[Reference]) {
        self.references += references.len() as u64;
        // In lanes of 32 bits, which processors add many of at once; a chunk is far shorter than 2^32.
        let writes: u32 = references.iter().map(|r| u32::from(r.is_write())).sum();
        let of_files: u32 = references.iter().map(|r| u32::from(r.is_file())).sum();
        self.writes += u64::from(writes);
        self.of_files += u64::from(of_files);
    }

    /// Takes in what the reader knows at its end.
    pub(crate) fn finish(&mut self, reader: &Reader) {
        self.pages = Some(reader.pages());
        self.skipped = reader.skipped();
        self.notes.extend(reader.notice());
        if let Some(first) = reader.first_skipped() {
            self.notes.push(format!(
                "left out {} bad lines; the first: {first}",
                pagewise_report::count(self.skipped)
            ));
        }
    }
}

impl Input {
    /// Reads as much as the plan needs to know before it starts.
    pub(crate) fn open(
        path: &Path,
        reader: Reader,
        plan: &Plan,
        watch: &mut dyn Watch,
    ) -> Result<Self, ReplayError> {
        let mut input = Self {
            path: path.to_owned(),
            format: reader.format(),
            classify: reader.classify(),
            facts: Facts::default(),
            asked_warmup: plan.warmup,
            sampled: None,
            references: References::Held(Vec::new()),
        };
        let limit = if plan.needs_all() {
            usize::MAX
        } else if plan.needs_a_look() {
            HELD
        } else {
            0
        };
        input.references = if limit == 0 {
            References::Stream(Box::new(reader))
        } else {
            input.hold(reader, limit, plan, watch)?
        };
        Ok(input)
    }

    fn hold(
        &mut self,
        mut reader: Reader,
        limit: usize,
        plan: &Plan,
        watch: &mut dyn Watch,
    ) -> Result<References, ReplayError> {
        let mut held = Some(Vec::new());
        let mut selection = Selection::new(plan);
        let mut measuring = Measuring::new(plan);
        let read = reader.progress();
        while let Some(chunk) = reader.next_chunk()? {
            self.facts.count(chunk);
            if let Some(measuring) = &mut measuring {
                measuring.feed(chunk);
            }
            let chunk = selection.of(chunk);
            match &mut held {
                Some(all) if all.len() + chunk.len() <= limit => all.extend_from_slice(chunk),
                _ => held = None,
            }
            let step = Step {
                what: "reading",
                done: read.read_bytes(),
                total: read.total_bytes(),
            };
            tell(watch, step)?;
        }
        self.facts.finish(&reader);
        self.sampled = measuring.map(|measuring| measuring.finish(reader.pages()));
        match held {
            Some(all) => Ok(References::Held(all)),
            None if self.path == Path::new("-") => Err(ReplayError::asked(
                "a trace of more than 2^28 references on standard input cannot be read twice, as percentages of the \
                 footprint need, and samples: write it to a file, or give --memory in bytes or pages",
            )),
            None => Ok(References::Stream(Box::new(Reader::open(
                &self.path,
                &plan.reading,
            )?))),
        }
    }

    /// What was counted, or what the counts of a sample stand for.
    pub(crate) fn whole(&self, counted: &Outcome) -> Outcome {
        match &self.sampled {
            Some(sampled) => {
                let references = self.facts.references.saturating_sub(self.asked_warmup);
                sampled.scale(counted, references)
            }
            None => *counted,
        }
    }

    /// Distinct pages, if the whole trace has been read.
    pub(crate) fn footprint(&self) -> Option<u32> {
        self.facts.pages
    }
}
