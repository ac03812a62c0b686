//! Simulations side by side over one decoding of the trace.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::SyncSender;
use std::sync::mpsc::TrySendError;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use pagewise_refs::Progress;
use pagewise_refs::Reader;
use pagewise_simulate::Outcome;
use pagewise_simulate::Reference;
use pagewise_simulate::Simulation;
use pagewise_simulate::SimulationError;

use crate::error::ReplayError;
use crate::load::Facts;
use crate::load::Input;
use crate::load::References;
use crate::plan::Cell;
use crate::plan::Plan;
use crate::selection::Selection;
use crate::watch::Step;
use crate::watch::Watch;
use crate::watch::tell;

/// References fed at once.
const CHUNK: usize = 1 << 20;
/// Chunks of a stream that wait for a slow simulation.
const CHUNKS_AHEAD: usize = 8;
/// How often whoever watches is told while only helpers work.
const PAUSE: Duration = Duration::from_millis(1);

/// What each cell counted.
pub(crate) fn run(
    input: &mut Input,
    cells: &[Cell],
    plan: &Plan,
    watch: &mut dyn Watch,
) -> Result<Vec<Outcome>, ReplayError> {
    let counted = match &mut input.references {
        References::Held(references) => held(references, cells, plan.jobs, watch)?,
        References::Stream(reader) => {
            let mut passing = Passing {
                facts: Facts::default(),
                selection: Selection::new(plan),
            };
            let counted = stream(reader, cells, plan.jobs, &mut passing, watch)?;
            input.facts = passing.facts;
            counted
        }
    };
    Ok(counted.iter().map(|outcome| input.whole(outcome)).collect())
}

/// Each worker takes the next cell that nobody has begun.
pub(crate) fn held(
    references: &[Reference],
    cells: &[Cell],
    jobs: usize,
    watch: &mut dyn Watch,
) -> Result<Vec<Outcome>, ReplayError> {
    let next = AtomicUsize::new(0);
    let fed = AtomicU64::new(0);
    let stopped = AtomicBool::new(false);
    let work = |report: &mut dyn FnMut() -> Result<(), ReplayError>| {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cells.get(index) else {
                return Ok(done);
            };
            let mut simulation =
                Simulation::with_future(&cell.settings, references).map_err(impossible)?;
            for chunk in references.chunks(CHUNK) {
                if stopped.load(Ordering::Relaxed) {
                    return Err(ReplayError::Stopped);
                }
                simulation.feed(chunk);
                fed.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                report()?;
            }
            done.push((index, simulation.outcome()));
        }
    };
    let total = references.len() as u64 * cells.len() as u64;
    let mut report = || {
        let step = Step {
            what: "simulating",
            done: fed.load(Ordering::Relaxed),
            total: Some(total),
        };
        tell(watch, step)
    };
    let workers = jobs.min(cells.len()).max(1);
    let results = thread::scope(|scope| {
        let helpers: Vec<_> = (1..workers)
            .map(|_| scope.spawn(|| work(&mut || Ok(()))))
            .collect();
        let mut mine = work(&mut report);
        while mine.is_ok() && helpers.iter().any(|helper| !helper.is_finished()) {
            thread::sleep(PAUSE);
            mine = mine.and_then(|done| report().map(|()| done));
        }
        stopped.store(mine.is_err(), Ordering::Relaxed);
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

fn impossible(error: SimulationError) -> ReplayError {
    ReplayError::asked(error.to_string())
}

/// What is noted of references on their way to the simulations.
struct Passing {
    facts: Facts,
    selection: Selection,
}

impl Passing {
    /// Those that are to be simulated.
    fn pass<'a>(&'a mut self, references: &'a [Reference]) -> &'a [Reference] {
        self.facts.count(references);
        self.selection.of(references)
    }
}

/// All simulations go along with the stream.
fn stream(
    reader: &mut Reader,
    cells: &[Cell],
    jobs: usize,
    passing: &mut Passing,
    watch: &mut dyn Watch,
) -> Result<Vec<Outcome>, ReplayError> {
    let started: Result<Vec<_>, _> = (cells.iter())
        .map(|cell| Simulation::new(&cell.settings))
        .collect();
    let numbered = started
        .map_err(impossible)?
        .into_iter()
        .enumerate()
        .collect();
    // One thread decodes.
    let done = match jobs.saturating_sub(1).min(cells.len()) {
        0 => alone(reader, numbered, passing, watch)?,
        workers => together(reader, numbered, workers, passing, watch)?,
    };
    passing.facts.finish(reader);
    let mut outcomes = vec![Outcome::default(); cells.len()];
    for (index, outcome) in done {
        outcomes[index] = outcome;
    }
    Ok(outcomes)
}

fn streaming(read: &Progress) -> Step {
    Step {
        what: "simulating",
        done: read.read_bytes(),
        total: read.total_bytes(),
    }
}

type Numbered<T> = Vec<(usize, T)>;

/// One thread does everything.
fn alone(
    reader: &mut Reader,
    mut simulations: Numbered<Simulation>,
    passing: &mut Passing,
    watch: &mut dyn Watch,
) -> Result<Numbered<Outcome>, ReplayError> {
    let read = reader.progress();
    while let Some(chunk) = reader.next_chunk()? {
        let chunk = passing.pass(chunk);
        for (_, simulation) in &mut simulations {
            simulation.feed(chunk);
            tell(watch, streaming(&read))?;
        }
    }
    Ok(outcomes(simulations))
}

/// Each worker has some of the simulations.
fn together(
    reader: &mut Reader,
    simulations: Numbered<Simulation>,
    workers: usize,
    passing: &mut Passing,
    watch: &mut dyn Watch,
) -> Result<Numbered<Outcome>, ReplayError> {
    let read = reader.progress();
    let mut shares: Vec<Numbered<Simulation>> = (0..workers).map(|_| Vec::new()).collect();
    for (index, simulation) in simulations {
        shares[index % workers].push((index, simulation));
    }
    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut helpers = Vec::new();
        for share in shares {
            let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
            senders.push(sender);
            let stopped = &stopped;
            helpers.push(scope.spawn(move || follow(share, &receiver, stopped)));
        }
        let mut feed = || -> Result<(), ReplayError> {
            while let Some(chunk) = reader.next_chunk()? {
                let chunk: Arc<[Reference]> = passing.pass(chunk).into();
                for sender in &senders {
                    send(sender, &chunk, &mut || tell(watch, streaming(&read)))?;
                }
            }
            Ok(())
        };
        let fed = feed();
        stopped.store(fed.is_err(), Ordering::Relaxed);
        drop(senders);
        while fed.is_ok() && helpers.iter().any(|helper| !helper.is_finished()) {
            thread::sleep(PAUSE);
            if let Err(error) = tell(watch, streaming(&read)) {
                stopped.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        fed?;
        Ok(helpers.into_iter().flat_map(joined).collect())
    })
}

/// Sends as soon as there is room; whoever watches is told meanwhile.
fn send(
    sender: &SyncSender<Arc<[Reference]>>,
    chunk: &Arc<[Reference]>,
    tell: &mut impl FnMut() -> Result<(), ReplayError>,
) -> Result<(), ReplayError> {
    loop {
        tell()?;
        match sender.try_send(Arc::clone(chunk)) {
            Err(TrySendError::Full(_)) => thread::sleep(PAUSE),
            // A worker that is gone has panicked, and joining it says so.
            Ok(()) | Err(TrySendError::Disconnected(_)) => return Ok(()),
        }
    }
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
    stopped: &AtomicBool,
) -> Numbered<Outcome> {
    for chunk in chunks {
        for (_, simulation) in &mut share {
            if stopped.load(Ordering::Relaxed) {
                return Vec::new();
            }
            simulation.feed(&chunk);
        }
    }
    outcomes(share)
}
