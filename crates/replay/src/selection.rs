//! Which references are simulated: all, or those of some of the pages, which stand for all (spatial sampling; the sources
//! are at [`Sampler`]).

use std::fmt;
use std::str::FromStr;

use pagewise_simulate::Curve;
use pagewise_simulate::CurveBuilder;
use pagewise_simulate::Outcome;
use pagewise_simulate::Reference;
use pagewise_simulate::Sampler;

use crate::plan::Plan;

/// A share of the pages, above 0 and at most 1: `1%` or `0.01`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleRate(f64);

impl SampleRate {
    /// As a part of 1.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for SampleRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = match text.strip_suffix('%') {
            Some(percent) => (percent, 100.0),
            None => (text, 1.0),
        };
        match number.parse::<f64>() {
            Ok(number) if number > 0.0 && number <= unit => Ok(Self(number / unit)),
            _ => Err(format!(
                "a sample of {text:?}: give a share of the pages above 0 and at most 1, like 1% or 0.01"
            )),
        }
    }
}

impl fmt::Display for SampleRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}%", 100.0 * self.0)
    }
}

/// Chooses among references as they are read.
pub(crate) struct Selection {
    /// `None`: all are simulated.
    sampler: Option<Sampler>,
    chosen: Vec<Reference>,
}

impl Selection {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            sampler: plan.sampler(),
            chosen: Vec::new(),
        }
    }

    /// Those of the next references that are to be simulated.
    pub(crate) fn of<'a>(&'a mut self, references: &'a [Reference]) -> &'a [Reference] {
        let Some(sampler) = &self.sampler else {
            return references;
        };
        self.chosen.clear();
        sampler.select(references, &mut self.chosen);
        &self.chosen
    }
}

/// Learns what a sample stands for, from the references of the whole trace in their order.
pub(crate) struct Measuring {
    sampler: Sampler,
    /// References of the warm-up that have not been seen yet.
    warmup_left: usize,
    /// Of those that were seen, the chosen ones.
    warmup: u64,
    lru: CurveBuilder,
}

/// What is known of a sample at its end.
pub(crate) struct Sampled {
    pub(crate) sampler: Sampler,
    /// Chosen references of the warm-up.
    pub(crate) warmup: u64,
    /// LRU's curve from the same pages, which tells the error.
    lru: Curve,
}

impl Measuring {
    /// `None`: the plan has no sample.
    pub(crate) fn new(plan: &Plan) -> Option<Self> {
        let sampler = plan.sampler()?;
        Some(Self {
            sampler,
            warmup_left: usize::try_from(plan.warmup).unwrap_or(usize::MAX),
            warmup: 0,
            lru: CurveBuilder::new(sampler.rate(), plan.warmup, plan.flush_period),
        })
    }

    pub(crate) fn feed(&mut self, references: &[Reference]) {
        self.lru.feed(references);
        let before = self.warmup_left.min(references.len());
        self.warmup_left -= before;
        let chosen = |reference: &&Reference| self.sampler.chooses(reference.page());
        self.warmup += references[..before].iter().filter(chosen).count() as u64;
    }

    /// `pages`: distinct ones of the whole trace.
    pub(crate) fn finish(self, pages: u32) -> Sampled {
        let lru = self.lru.finish();
        Sampled {
            sampler: self.sampler.measured(lru.pages(), pages),
            warmup: self.warmup,
            lru,
        }
    }
}

impl Sampled {
    /// What the sample's counts stand for, given how many references were to be counted in the whole trace.
    pub(crate) fn scale(&self, counted: &Outcome, references: u64) -> Outcome {
        self.sampler.scale(counted, references)
    }

    /// The standard error of LRU's miss ratio in a memory of so many pages, which stands for the other policies'.
    pub(crate) fn error(&self, frames: u32) -> Option<f64> {
        self.lru.standard_error(frames)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pagewise_refs::Reader;

    use super::*;
    use crate::Request;
    use crate::Unwatched;
    use crate::load::Input;
    use crate::load::References;
    use crate::run::run;

    /// A sample of too many references to hold is read again.
    #[test]
    fn a_sample_read_again_is_the_one_that_was_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.lis");
        let block = |number: u64| format!("{}\n", 1 + number * number % 4093 % (1 + number % 3001));
        fs::write(&path, (0..50_000).map(block).collect::<String>()).unwrap();
        let request = Request {
            policies: vec!["lru".parse().unwrap(), "arc".parse().unwrap()],
            sizes: vec!["500p".parse().unwrap(), "20%".parse().unwrap()],
            sample: Some(SampleRate(0.25)),
            warmup: 10_000,
            ..Request::default()
        };
        let plan = Plan::new(&request).unwrap();
        let counted = |again: bool| {
            let reader = Reader::open(&path, &plan.reading).unwrap();
            let mut input = Input::open(&path, reader, &plan, &mut Unwatched).unwrap();
            let cells = plan
                .cells(input.footprint(), input.sampled.as_ref())
                .unwrap();
            assert!(matches!(input.references, References::Held(_)));
            if again {
                let reader = Reader::open(&path, &plan.reading).unwrap();
                input.references = References::Stream(Box::new(reader));
            }
            (
                run(&mut input, &cells, &plan, &mut Unwatched).unwrap(),
                input.facts.references,
            )
        };
        let (held, references) = counted(false);
        assert_eq!(references, 50_000);
        assert!(
            held.iter()
                .all(|outcome| outcome.references == 40_000 && outcome.misses() > 0)
        );
        assert_eq!(counted(true), (held, references));
    }

    #[test]
    fn rates_are_shares() {
        assert_eq!("1%".parse(), Ok(SampleRate(0.01)));
        assert_eq!("0.25".parse(), Ok(SampleRate(0.25)));
        assert_eq!("100%".parse(), Ok(SampleRate(1.0)));
        assert_eq!(SampleRate(0.25).to_string(), "25%");
        for text in [
            "", "0", "0%", "-1%", "1.5", "101%", "NaN", "inf", "%", "ten",
        ] {
            let error = text.parse::<SampleRate>().unwrap_err();
            assert!(error.contains("like 1% or 0.01"), "{text}: {error}");
        }
    }
}
