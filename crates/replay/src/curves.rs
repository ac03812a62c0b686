//! Whole curves by memory size: LRU's exactly by stack distances, the others' by small simulations of sampled pages.

use pagewise_simulate::Curve as LruCurve;
use pagewise_simulate::CurveBuilder;
use pagewise_simulate::Outcome;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Sampler;
use pagewise_simulate::Settings;

use crate::error::ReplayError;
use crate::plan::Cell;
use crate::plan::Plan;
use crate::run::held;
use crate::watch::Watch;

/// Points of a curve; closer together where memory is small, as curves are steep there.
const POINTS: u32 = 40;
/// Pages that a sample has at most: with so many, SHARDS' error was below 0.01 (Waldspurger et al., FAST 2015).
const SAMPLED_PAGES: f64 = 16_384.0;
/// References that a sample has at most, about.
const SAMPLED_REFERENCES: f64 = 2e7;

/// A policy's curve.
#[derive(Debug)]
pub struct Curve {
    /// Of replacement.
    pub policy: PolicyKind,
    /// The share of pages that was simulated; 1 if the curve is exact.
    pub rate: f64,
    /// Mean absolute error of LRU's miss ratio at this rate, which stands for the others'; 0 if the curve is exact.
    pub error: f64,
    /// By size, ascending.
    pub points: Vec<Point>,
}

/// What happens in a memory of some size.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Pages of memory.
    pub frames: u32,
    /// Misses over references.
    pub miss_ratio: f64,
    /// What they take on the plan's first storage.
    pub io_ns: u64,
}

/// The curves of all policies of the plan, on its first storage.
pub(crate) fn curves(
    plan: &Plan,
    references: &[Reference],
    pages: u32,
    watch: &mut dyn Watch,
) -> Result<Vec<Curve>, ReplayError> {
    let sizes = sizes(pages);
    let rate = (SAMPLED_PAGES / f64::from(pages))
        .min(SAMPLED_REFERENCES / references.len() as f64)
        .min(1.0);
    let sample = Sample::new(plan, references, rate);
    let exact = lru(plan, references, 1.0);
    let error = sample.error(plan, references, &exact, &sizes);
    let others = plan
        .policies
        .iter()
        .copied()
        .filter(|policy| *policy != PolicyKind::Lru);
    let others: Vec<PolicyKind> = others.collect();
    let mut counted = sample.simulate(plan, &others, &sizes, watch)?.into_iter();
    let mut curves = Vec::new();
    for &policy in &plan.policies {
        let is_lru = policy == PolicyKind::Lru;
        let point = |&frames: &u32| {
            let outcome = if is_lru {
                Some(exact.outcome(frames))
            } else {
                counted.next()
            };
            outcome.and_then(|outcome| point(plan, frames, &outcome))
        };
        curves.push(Curve {
            policy,
            rate: if is_lru { 1.0 } else { sample.sampler.rate() },
            error: if is_lru { 0.0 } else { error },
            points: sizes.iter().filter_map(point).collect(),
        });
    }
    Ok(curves)
}

/// Sizes up to the footprint (pages).
fn sizes(pages: u32) -> Vec<u32> {
    let size = |index: u32| {
        let share = f64::from(index) / f64::from(POINTS);
        ((f64::from(pages) * share * share).round() as u32).max(1)
    };
    let mut sizes: Vec<u32> = (1..=POINTS).map(size).collect();
    sizes.dedup();
    sizes
}

fn point(plan: &Plan, frames: u32, outcome: &Outcome) -> Option<Point> {
    let (_, storage) = plan.storages.first()?;
    Some(Point {
        frames,
        miss_ratio: outcome.miss_ratio()?,
        io_ns: outcome.io(storage).io_ns(),
    })
}

fn lru(plan: &Plan, references: &[Reference], rate: f64) -> LruCurve {
    let mut builder = CurveBuilder::new(rate, plan.warmup, plan.flush_period);
    builder.feed(references);
    builder.finish()
}

/// The references of some of the pages.
struct Sample {
    sampler: Sampler,
    references: Vec<Reference>,
    /// Of these, those of the warm-up.
    warmup: u64,
    /// References counted in the whole trace.
    counted: u64,
}

impl Sample {
    fn new(plan: &Plan, references: &[Reference], rate: f64) -> Self {
        let sampler = Sampler::new(rate);
        let before = usize::try_from(plan.warmup)
            .map_or(references.len(), |warmup| warmup.min(references.len()));
        let mut chosen = Vec::new();
        sampler.select(&references[..before], &mut chosen);
        let warmup = chosen.len() as u64;
        sampler.select(&references[before..], &mut chosen);
        Self {
            sampler,
            references: chosen,
            warmup,
            counted: (references.len() - before) as u64,
        }
    }

    fn error(&self, plan: &Plan, references: &[Reference], exact: &LruCurve, sizes: &[u32]) -> f64 {
        if self.sampler.rate() >= 1.0 {
            return 0.0;
        }
        let sampled = lru(plan, references, self.sampler.rate());
        let ratio = |curve: &LruCurve, frames| curve.outcome(frames).miss_ratio().unwrap_or(0.0);
        let differences = sizes
            .iter()
            .map(|&frames| (ratio(&sampled, frames) - ratio(exact, frames)).abs());
        differences.sum::<f64>() / sizes.len() as f64
    }

    /// What each policy counts at each size, in this order, as if all pages had been simulated.
    fn simulate(
        &self,
        plan: &Plan,
        policies: &[PolicyKind],
        sizes: &[u32],
        watch: &mut dyn Watch,
    ) -> Result<Vec<Outcome>, ReplayError> {
        let (_, storage) = plan.storages[0];
        let cell = |policy, frames| Cell {
            size: 0,
            frames,
            settings: Settings {
                warmup: self.warmup,
                flush_period: (plan.flush_period).map(|period| self.sampler.period(period)),
                pages_each: self.sampler.pages_each(),
                ..Settings::new(policy, self.sampler.frames(frames), storage)
            },
        };
        let cells: Vec<Cell> = (policies.iter())
            .flat_map(|&policy| sizes.iter().map(move |&frames| cell(policy, frames)))
            .collect();
        let counted = held(&self.references, &cells, plan.jobs, watch)?;
        let whole = |outcome: &Outcome| self.sampler.scale(outcome, self.counted);
        Ok(counted.iter().map(whole).collect())
    }
}
