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

/// Chooses among references as they are read, in their order.
pub(crate) struct Selection {
    /// `None`: all are simulated.
    sample: Option<Sample>,
}

struct Sample {
    sampler: Sampler,
    /// References of the warm-up that have not been seen yet.
    warmup_left: usize,
    /// Of those that were seen, the chosen ones.
    warmup: u64,
    chosen: Vec<Reference>,
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

impl Selection {
    pub(crate) fn new(plan: &Plan) -> Self {
        let sample = |sampler: Sampler| Sample {
            sampler,
            warmup_left: usize::try_from(plan.warmup).unwrap_or(usize::MAX),
            warmup: 0,
            chosen: Vec::new(),
            lru: CurveBuilder::new(sampler.rate(), plan.warmup, plan.flush_period),
        };
        Self {
            sample: plan.sampler().map(sample),
        }
    }

    /// Those of the next references that are to be simulated.
    pub(crate) fn of<'a>(&'a mut self, references: &'a [Reference]) -> &'a [Reference] {
        match &mut self.sample {
            None => references,
            Some(sample) => sample.of(references),
        }
    }

    /// `pages`: distinct ones of the whole trace, which has been read.
    pub(crate) fn finish(self, pages: u32) -> Option<Sampled> {
        let sample = self.sample?;
        let lru = sample.lru.finish();
        Some(Sampled {
            sampler: sample.sampler.measured(lru.pages(), pages),
            warmup: sample.warmup,
            lru,
        })
    }
}

impl Sample {
    fn of(&mut self, references: &[Reference]) -> &[Reference] {
        self.lru.feed(references);
        let before = self.warmup_left.min(references.len());
        self.warmup_left -= before;
        self.chosen.clear();
        self.sampler.select(&references[..before], &mut self.chosen);
        self.warmup += self.chosen.len() as u64;
        self.sampler.select(&references[before..], &mut self.chosen);
        &self.chosen
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
    use super::*;

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
