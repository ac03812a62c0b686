//! Simulations side by side over one decoding of the trace.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::sync_channel;
use std::thread;

use pagewise_refs::Reader;
use pagewise_simulate::Outcome;
use pagewise_simulate::Reference;
use pagewise_simulate::Simulation;
use pagewise_simulate::SimulationError;

use super::load::Facts;
use super::load::Input;
use super::load::References;
use super::plan::Cell;
use super::plan::Plan;
use super::progress::Progress;
use crate::failure::Failure;

/// References fed at once.
const CHUNK: usize = 1 << 20;
/// Chunks of a stream that wait for a slow simulation.
const CHUNKS_AHEAD: usize = 8;

/// What each cell counted.
pub(crate) fn run(input: &mut Input, cells: &[Cell], plan: &Plan) -> Result<Vec<Outcome>, Failure> {
    let outcomes = match &mut input.references {
        References::Held(references) => held(references, cells, plan.jobs),
        References::Stream(reader) => {
            let (outcomes, facts) = stream(reader, cells, plan.jobs)?;
            input.facts = facts;
            Ok(outcomes)
        }
    };
    outcomes.map_err(|error: SimulationError| Failure::new(error.to_string()))
}

/// Each worker takes the next cell that nobody has begun.
pub(super) fn held(
    references: &[Reference],
    cells: &[Cell],
    jobs: usize,
) -> Result<Vec<Outcome>, SimulationError> {
    let next = AtomicUsize::new(0);
    let fed = AtomicU64::new(0);
    let total = references.len() as u64 * cells.len() as u64;
    let work = |report: &mut dyn FnMut(u64)| {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cells.get(index) else {
                return Ok(done);
            };
            let mut simulation = Simulation::with_future(&cell.settings, references)?;
            for chunk in references.chunks(CHUNK) {
                simulation.feed(chunk);
                let before = fed.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                report(before + chunk.len() as u64);
            }
            done.push((index, simulation.outcome()));
        }
    };
    let mut progress = Progress::new("simulating", Some(total));
    let workers = jobs.min(cells.len()).max(1);
    let results = thread::scope(|scope| {
        let helpers: Vec<_> = (1..workers)
            .map(|_| scope.spawn(|| work(&mut |_| {})))
            .collect();
        let mine = work(&mut |fed| progress.at(fed));
        let theirs = helpers.into_iter().map(joined);
        [mine].into_iter().chain(theirs).collect::<Vec<_>>()
    });
    let mut outcomes = vec![Outcome::default(); cells.len()];
    for result in results {
        for (index, outcome) in result? {
            outcomes[index] = outcome;
        }
    }
    Ok(outcomes)
}

/// All simulations go along with the stream.
fn stream(
    reader: &mut Reader,
    cells: &[Cell],
    jobs: usize,
) -> Result<(Vec<Outcome>, Facts), Failure> {
    let started: Result<Vec<_>, _> = (cells.iter())
        .map(|cell| Simulation::new(&cell.settings))
        .collect();
    let started = started.map_err(|error| Failure::new(error.to_string()))?;
    let numbered = started.into_iter().enumerate().collect();
    let mut facts = Facts::default();
    // One thread decodes.
    let done = match jobs.saturating_sub(1).min(cells.len()) {
        0 => alone(reader, numbered, &mut facts)?,
        workers => together(reader, numbered, workers, &mut facts)?,
    };
    facts.finish(reader);
    let mut outcomes = vec![Outcome::default(); cells.len()];
    for (index, outcome) in done {
        outcomes[index] = outcome;
    }
    Ok((outcomes, facts))
}

type Numbered<T> = Vec<(usize, T)>;

/// One thread does everything.
fn alone(
    reader: &mut Reader,
    mut simulations: Numbered<Simulation>,
    facts: &mut Facts,
) -> Result<Numbered<Outcome>, Failure> {
    let read = reader.progress();
    let mut progress = Progress::new("simulating", read.total_bytes());
    while let Some(chunk) = reader.next_chunk()? {
        facts.count(chunk);
        for (_, simulation) in &mut simulations {
            simulation.feed(chunk);
        }
        progress.at(read.read_bytes());
    }
    Ok(outcomes(simulations))
}

/// Each worker has some of the simulations.
fn together(
    reader: &mut Reader,
    simulations: Numbered<Simulation>,
    workers: usize,
    facts: &mut Facts,
) -> Result<Numbered<Outcome>, Failure> {
    let read = reader.progress();
    let mut progress = Progress::new("simulating", read.total_bytes());
    let mut shares: Vec<Numbered<Simulation>> = (0..workers).map(|_| Vec::new()).collect();
    for (index, simulation) in simulations {
        shares[index % workers].push((index, simulation));
    }
    thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut helpers = Vec::new();
        for share in shares {
            let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
            senders.push(sender);
            helpers.push(scope.spawn(move || follow(share, &receiver)));
        }
        while let Some(chunk) = reader.next_chunk()? {
            facts.count(chunk);
            let chunk: Arc<[Reference]> = chunk.into();
            for sender in &senders {
                // A worker that is gone has panicked, and joining it says so.
                let _ = sender.send(Arc::clone(&chunk));
            }
            progress.at(read.read_bytes());
        }
        drop(senders);
        Ok(helpers.into_iter().flat_map(joined).collect())
    })
}

/// What a helper returned; its panic is ours.
fn joined<T>(helper: thread::ScopedJoinHandle<'_, T>) -> T {
    helper
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn outcomes(simulations: Numbered<Simulation>) -> Numbered<Outcome> {
    let outcome = |(index, simulation): (usize, Simulation)| (index, simulation.outcome());
    simulations.into_iter().map(outcome).collect()
}

fn follow(
    mut share: Numbered<Simulation>,
    chunks: &Receiver<Arc<[Reference]>>,
) -> Numbered<Outcome> {
    for chunk in chunks {
        for (_, simulation) in &mut share {
            simulation.feed(&chunk);
        }
    }
    outcomes(share)
}
