//! `pagewise compare`: what a plan brings, by runs with and without it in turn.
//!
//! ```text
//!   for each memory size, round by round: arm: baseline, plan, unlimited --> comparison --statistics--> verdict
//! ```

mod arm;
mod cold;
mod comparison;
mod foreseen;
mod html;
mod in_place_of;
mod json;
mod latency;
mod statistics;
mod table;
mod victim;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::ValueEnum;
use pagewise_host::MemorySize;
use pagewise_host::Program;
use pagewise_host::SwapRequest;
use pagewise_host::page_bytes;
use pagewise_host::page_out::PageOut;
use pagewise_host::page_out::page_out;
use pagewise_plan::Plan;
use pagewise_report::bytes;
use pagewise_report::duration;
use pagewise_report::text::ColorChoice;
use pagewise_report::text::Style;

use self::arm::Ran;
use self::arm::Runner;
use self::cold::Evicted;
use self::comparison::Arm;
use self::comparison::ArmKind;
use self::comparison::Comparison;
use self::comparison::Verdict;
use crate::apply::tell_differences;
use crate::failure::Failure;
use crate::input::Input;
use crate::output::print;
use crate::output::tell;
use crate::record;
use crate::record::delegation;
use crate::record::signals::Signals;
use crate::target::Contents;
use crate::target::Target;

/// A run that the limit kills is done again so often; then the arm is given up.
const MOST_KILLED: u32 = 5;
/// The plan is slower, beyond the interval, or makes the program fail.
const SLOWER: u8 = 1;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArguments {
    /// The plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Memory the program may use: 512M, 60% (of its peak, as the plan or --peak states it); several, comma-separated,
    /// are compared one after the other [default: what the plan is made for]
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    memory: Vec<MemorySize>,
    /// The program's peak memory, which percentages refer to
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    peak: Option<MemorySize>,
    /// Swap to use: `auto`, `zram[:ALGORITHM]`, `file[:PATH]`, `existing`; set up anew for each run [default: auto]
    #[arg(long, value_name = "KIND")]
    swap: Option<SwapRequest>,
    /// Size of the swap that is set up [default: enough for the program's peak, or all of memory]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    swap_size: Option<MemorySize>,
    /// Rounds that count, each with a run of every arm
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Rounds before them that do not
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100))]
    warm_up: u32,
    /// The number of the first round, from 0: each round begins with another arm, also where a script asks for them one by one
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000), hide = true)]
    turn: u32,
    /// Also compare with what one would type without a plan: `mlock` of what it keeps or streams, as far as it fits
    /// (of what costs most, where it does neither), `madvise` (sequential) of what it streams
    #[arg(long, value_name = "ARM", value_delimiter = ',')]
    arms: Vec<MoreArm>,
    /// Record one more run of each arm with a limit, and tell how long its swap-ins took
    #[arg(long)]
    latencies: bool,
    /// Run another program beside it, in the same cgroup, and compare how long its operations took: a command for the shell that goes
    /// on until SIGTERM and then writes a line with p50_us=N p99_us=N p999_us=N (or _ns, _ms), or what redis-benchmark, fio or wrk
    /// --latency do; its first line says that it is ready
    #[arg(long, value_name = "CMD")]
    victim: Option<String>,
    /// Leave the page cache as it is: else the files that the plan names (`files` of `io`) are taken out of it before each run, so that none
    /// finds there what the one before has read
    #[arg(long)]
    warm: bool,
    /// Leave out the runs without a limit
    #[arg(long)]
    no_unlimited: bool,
    /// Print JSON (schema pagewise.compare/1) in place of a table
    #[arg(long)]
    json: bool,
    /// Write a page with pictures, too: one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Overwrite the file given with --html
    #[arg(short, long, requires = "html")]
    force: bool,
    /// Under sudo, run the program as root and not as the calling user
    #[arg(long)]
    as_root: bool,
    /// The program and its arguments; its standard output is compared between the runs, and goes nowhere else
    #[arg(last = true, required = true, value_name = "CMD")]
    program: Vec<OsString>,
}

const EXAMPLES: &str =
    "Exit code: 0, 1 if the plan is slower beyond the interval (with --victim: makes it wait longer, or the program slower by 5 %) or makes
the program fail, 125 if pagewise fails.

Examples:
  pagewise compare plan.toml -- ./solver input.txt
  pagewise compare plan.toml --memory 25%,50%,75%,90% --runs 9 --swap file -- ./solver input.txt
  pagewise compare plan.toml --arms mlock,madvise --html compare.html -- ./solver input.txt
  pagewise compare plan.toml --memory 512M --victim 'probe hot.db' -- ./scan whole big.db";

/// An arm on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MoreArm {
    Mlock,
    Madvise,
}

pub(crate) fn run(arguments: &CompareArguments) -> Result<ExitCode, Failure> {
    let plan = Plan::read(&arguments.plan)?;
    delegation::seek(true);
    let library = record::runtime_library().map_err(|why| {
        Failure::new(format!(
            "no plan without the preloaded library: {why}; type: make build"
        ))
    })?;
    let peak_bytes = match arguments.peak {
        Some(peak) => Some(peak.resolve(None, page_bytes())?),
        None => plan.memory.peak_bytes,
    };
    let sizes = sizes(arguments, &plan, peak_bytes)?;
    require_victim(arguments)?;
    // Refused before the runs, not after them.
    let page = page(arguments)?;
    if !plan.does_something() {
        tell!(
            "pagewise: {} changes nothing: runs with and without it differ by chance only",
            arguments.plan.display()
        );
    }
    let signals = Signals::catch()?;
    let runner = Runner {
        arguments,
        plan: &plan,
        library: &library,
        peak_bytes,
        signals: &signals,
        input: input()?,
    };
    let page_out: Vec<String> = page_out().iter().map(PageOut::words).collect();
    for line in &page_out {
        tell!(
            "pagewise: {line}: runs may differ by its doing (pagewise check tells how to end it)"
        );
    }
    if runner.is_cold() {
        tell_evicted(cold::evict(&plan.files));
    }
    let (compared, failure) = compare_all(&runner, &sizes);
    if let Some(failure) = failure.as_ref().filter(|_| compared.is_empty()) {
        return Err(Failure::new(format!("{failure}: nothing was compared")));
    }
    if let Some(page) = page {
        let text = html::render(&compared, &arguments.program);
        page.write("--html", |out| out.write_all(text.as_bytes()))?;
    }
    if arguments.json {
        let text = json::render(&compared, page_out)
            .map_err(|error| Failure::new(format!("cannot render JSON: {error}")))?;
        print(&text)?;
    } else {
        print(&table::render(
            &compared,
            Style::of_stdout(ColorChoice::Auto),
        ))?;
    }
    if let Some(failure) = failure {
        return Err(Failure::new(format!(
            "{failure}: only rounds that were complete by then are told"
        )));
    }
    if let Some(why) = nothing_compared(&compared) {
        return Err(Failure::new(format!(
            "nothing could be compared: {why}; give it more with --memory"
        )));
    }
    let does_harm = |one: &Comparison| matches!(one.judgement(), Verdict::Slower | Verdict::Fails);
    Ok(if compared.iter().any(does_harm) {
        ExitCode::from(SLOWER)
    } else {
        ExitCode::SUCCESS
    })
}

/// Refused before the runs: the shell would do nothing, and end.
fn require_victim(arguments: &CompareArguments) -> Result<(), Failure> {
    match &arguments.victim {
        Some(command) if command.trim().is_empty() => Err(Failure::new(
            "--victim is empty; give a command, for example --victim 'probe hot.db'",
        )),
        _ => Ok(()),
    }
}

/// Why the program could run at no size, neither with the plan nor without.
fn nothing_compared(compared: &[Comparison]) -> Option<&str> {
    let never_ran = |one: &Comparison| {
        [ArmKind::Baseline, ArmKind::Plan]
            .iter()
            .all(|&kind| one.cannot_run(kind).is_some())
    };
    let first = compared.first()?;
    first
        .cannot_run(ArmKind::Baseline)
        .filter(|_| compared.iter().all(never_ran))
}

/// What comes once only would be the first run's, and the others would do other work: then no run gets it.
fn input() -> Result<Input, Failure> {
    let input = Input::at_start();
    if !input.is_read_once() {
        return Ok(input);
    }
    tell!(
        "pagewise: standard input is a pipe, which only one run could read: the runs get none; give it as a file, with: < FILE"
    );
    let null = std::fs::File::open("/dev/null")
        .and_then(|null| Ok(rustix::stdio::dup2_stdin(null)?))
        .map_err(|error| Failure::new(format!("cannot open /dev/null: {error}")));
    null.map(|()| input)
}

fn tell_evicted(evicted: Evicted) {
    let missing = match evicted.missing {
        0 => String::new(),
        missing => format!("; {missing} are not there any more, or may not be read"),
    };
    tell!(
        "pagewise: files of the plan are taken out of the page cache before each run: {} of {} (--warm leaves them){missing}",
        evicted.files,
        bytes(evicted.bytes)
    );
}

fn page(arguments: &CompareArguments) -> Result<Option<Target>, Failure> {
    let contents = Contents {
        name: "page".to_owned(),
        is_text: false,
        option: "--html",
    };
    let path = arguments.html.as_deref();
    path.map(|path| Target::choose(path, &contents, arguments.force))
        .transpose()
}

fn sizes(
    arguments: &CompareArguments,
    plan: &Plan,
    peak_bytes: Option<u64>,
) -> Result<Vec<u64>, Failure> {
    if arguments.memory.is_empty() {
        return Ok(vec![plan.memory.bytes]);
    }
    let resolved = arguments
        .memory
        .iter()
        .map(|size| size.resolve(peak_bytes, page_bytes()));
    Ok(resolved.collect::<Result<_, _>>()?)
}

/// At each size of memory; if that fails or is interrupted, what was complete by then, and why it ended.
fn compare_all(runner: &Runner<'_>, sizes: &[u64]) -> (Vec<Comparison>, Option<Failure>) {
    let mut compared = Vec::new();
    for &memory_bytes in sizes {
        let mut comparison = comparison_of(runner, memory_bytes);
        let failure = compare(runner, &mut comparison).err();
        if failure.is_some() {
            comparison.keep_whole_rounds();
        }
        if failure.is_none() || comparison.has_runs() {
            compared.push(comparison);
        }
        if failure.is_some() {
            return (compared, failure);
        }
    }
    (compared, None)
}

/// Nothing run yet.
fn comparison_of(runner: &Runner<'_>, memory_bytes: u64) -> Comparison {
    let mut kinds = vec![ArmKind::Baseline, ArmKind::Plan];
    for (asked, kind) in [
        (MoreArm::Mlock, ArmKind::Mlock),
        (MoreArm::Madvise, ArmKind::Madvise),
    ] {
        kinds.extend(Some(kind).filter(|_| runner.arguments.arms.contains(&asked)));
    }
    if !runner.arguments.no_unlimited {
        kinds.push(ArmKind::Unlimited);
    }
    Comparison {
        memory_bytes,
        peak_bytes: runner.peak_bytes,
        plan_acts: runner.plan.does_something() || runner.plan.rules.is_empty(),
        foreseen: foreseen::swap_ins(runner.plan, memory_bytes),
        arms: kinds
            .into_iter()
            .map(|kind| Arm::new(kind, runner.same_as(kind)))
            .collect(),
    }
}

/// All rounds at one memory size: in each, one run of every arm, so that what disturbs the machine disturbs them alike.
fn compare(runner: &Runner<'_>, comparison: &mut Comparison) -> Result<(), Failure> {
    let memory_bytes = comparison.memory_bytes;
    let executable = Program::new(&runner.arguments.program).executable()?;
    tell_differences(runner.plan, &executable, Some(memory_bytes));
    for round in 0..runner.arguments.warm_up + runner.arguments.runs {
        run_round(runner, comparison, round)?;
        if comparison.is_decided() {
            break;
        }
    }
    if runner.arguments.latencies {
        let limited = |arm: &&mut Arm| arm.kind != ArmKind::Unlimited && arm.cannot_run.is_none();
        for arm in comparison.arms.iter_mut().filter(limited) {
            arm.latency = latency::measure(runner, arm.kind, memory_bytes)?;
        }
    }
    Ok(())
}

fn run_round(runner: &Runner<'_>, comparison: &mut Comparison, round: u32) -> Result<(), Failure> {
    let (memory_bytes, warm_up) = (comparison.memory_bytes, runner.arguments.warm_up);
    let mut times = Vec::new();
    let turn = runner.arguments.turn + round;
    for arm in in_turn(&mut comparison.arms, turn).filter(|arm| arm.cannot_run.is_none()) {
        let Some(run) = run_unless_killed(runner, arm, memory_bytes)? else {
            times.push(format!("{} killed", arm.kind.name()));
            continue;
        };
        times.push(format!("{} {}", arm.kind.name(), duration(run.wall_ns)));
        if round >= warm_up {
            arm.runs.push(run);
        }
    }
    let counted = match round.checked_sub(warm_up) {
        Some(number) => format!("round {} of {}", number + 1, runner.arguments.runs),
        None => "warm-up".to_owned(),
    };
    tell!(
        "pagewise: {}, {counted}: {}",
        bytes(memory_bytes),
        times.join(", ")
    );
    Ok(())
}

/// The arms, each round from another one on: who always came after the same one would have what that leaves behind.
fn in_turn(arms: &mut [Arm], round: u32) -> impl Iterator<Item = &mut Arm> {
    let (before, from) = arms.split_at_mut(round as usize % arms.len().max(1));
    from.iter_mut().chain(before)
}

/// `None`: the limit killed it again and again, as is noted.
fn run_unless_killed(
    runner: &Runner<'_>,
    arm: &mut Arm,
    memory_bytes: u64,
) -> Result<Option<comparison::Run>, Failure> {
    let mut last = String::new();
    for _ in 0..=MOST_KILLED {
        match runner.run(arm.kind, memory_bytes)? {
            Ran::Done(run) => return Ok(Some(run)),
            Ran::Killed(why) => last = why,
        }
        arm.killed += 1;
    }
    arm.cannot_run = Some(format!("{last}, {} times in a row", MOST_KILLED + 1));
    Ok(None)
}
