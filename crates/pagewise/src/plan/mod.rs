//! `pagewise plan`: advice from a recording.

mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pagewise_advise::Advice;
use pagewise_advise::NoAdvice;
use pagewise_advise::Request;
use pagewise_advise::lock_budget;
use pagewise_analyze::Findings;
use pagewise_analyze::analyze;
use pagewise_analyze::file_io::Thresholds;
use pagewise_host::MemorySize;
use pagewise_host::lockable_bytes;
use pagewise_host::page_bytes;
use pagewise_host::shell_word;
use pagewise_plan::Action;
use pagewise_plan::Rule;
use pagewise_predict::Model;
use pagewise_report::bytes;
use pagewise_report::text::ColorChoice;
use pagewise_report::text::Style;
use pagewise_simulate::hugepages::Tlb;
use pagewise_trace::Trace;

use crate::failure::Failure;
use crate::output::print;
use crate::output::tell;
use crate::progress::Working;
use crate::report::complete;
use crate::target::Contents;
use crate::target::Target;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArguments {
    /// The recording
    #[arg(default_value = "pagewise.data", value_name = "TRACE")]
    trace: PathBuf,
    /// The plan to write, or - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "plan.toml")]
    output: PathBuf,
    /// Overwrite it
    #[arg(short, long)]
    force: bool,
    /// Memory that the plan is for: 512M, 60% (of the program's peak) [default: the limit of the recording]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    memory: Option<MemorySize>,
    /// Call paths that read or write less of files get no rule (recordings with --io)
    #[arg(long, value_name = "SIZE", default_value = "100M")]
    min_io: MemorySize,
    /// Of recordings with --access: entries and cycles of the TLB that gains by huge pages are reckoned with, as far as they differ
    /// from l1-4k=64,l1-2m=8,l2=1024,walk=36,walk-2m=12,l2-hit=8,work=200 (a Haswell)
    #[arg(long, value_name = "GEOMETRY", allow_hyphen_values = true)]
    tlb: Option<Tlb>,
    /// Print JSON (schema pagewise.plan/1) in place of text
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Exit codes: 0 if a plan was written, also one that does nothing; 125 if pagewise fails.

Examples:
  pagewise record --memory 60% --measure-peak -- ./solver input.txt
  pagewise plan
  pagewise compare plan.toml -- ./solver input.txt
  pagewise record --access -- ./solver input.txt && pagewise plan -f
  pagewise record --io -- ./backup /data && pagewise plan -f && pagewise apply plan.toml -- ./backup /data";

pub(crate) fn run(arguments: &PlanArguments) -> Result<ExitCode, Failure> {
    let contents = Contents {
        name: "plan".to_owned(),
        is_text: true,
        option: "-o",
    };
    let is_printed = arguments.output.as_os_str() == "-";
    if is_printed && arguments.json {
        return Err(Failure::new(
            "-o - and --json both print to standard output; name a file with -o FILE",
        ));
    }
    let target = Target::choose(&arguments.output, &contents, arguments.force)?;
    complete(&arguments.trace)?;
    let trace = Trace::open(&arguments.trace)?;
    // Of a recording of millions of swap-ins it takes half a minute and more.
    let working = Working::on("simulating what rules would bring");
    let findings = analyze(&trace)?;
    let (model, no_curve) = match Model::read(&trace) {
        Ok(model) => (Some(model), None),
        Err(why) => (None, Some(why.to_string())),
    };
    let advice = advise(arguments, &trace, &findings, model.as_ref())?;
    drop(working);
    let text = advice.plan.to_toml();
    let text = text.map_err(|error| Failure::new(error.to_string()))?;
    target.write("-o", |out| out.write_all(text.as_bytes()))?;
    if is_printed {
        // The plan is all that belongs there.
    } else if arguments.json {
        let text = advice
            .to_json()
            .map_err(|error| Failure::new(format!("cannot render JSON: {error}")))?;
        print(&text)?;
    } else {
        print(&text::render(&advice, Style::of_stdout(ColorChoice::Auto)))?;
    }
    // Of input and output alone nobody expects one.
    if let Some(why) = no_curve.filter(|_| findings.faults_observed()) {
        tell!("pagewise: {why}");
    }
    tell_limit(&advice);
    if !is_printed {
        tell_next(arguments, &advice);
    }
    Ok(ExitCode::SUCCESS)
}

fn advise(
    arguments: &PlanArguments,
    trace: &Trace,
    findings: &Findings,
    model: Option<&Model>,
) -> Result<Advice, Failure> {
    let peak = pagewise_advise::peak_bytes(trace)?;
    let memory = arguments
        .memory
        .map(|memory| memory.resolve(peak, page_bytes()))
        .transpose()?;
    let MemorySize::Bytes(advise_bytes) = arguments.min_io else {
        return Err(Failure::new(format!(
            "--min-io {}: give bytes, for example 100M",
            arguments.min_io
        )));
    };
    let request = Request {
        memory_bytes: memory,
        lockable_bytes: lockable_bytes(),
        thresholds: Thresholds {
            advise_bytes,
            ..Thresholds::default()
        },
        tlb: arguments.tlb,
    };
    pagewise_advise::advise_on_all(trace, findings, model, &request).map_err(|error| match error {
        NoAdvice::Trace(error) => Failure::from(error),
        NoAdvice::Lacks(why) => Failure::new(why),
    })
}

fn keeps_memory(rule: &Rule) -> bool {
    matches!(rule.action, Action::Lock { .. } | Action::Stream { .. })
}

/// Says what would let a plan keep more that is cut to what the user may lock.
fn tell_limit(advice: &Advice) {
    if !advice.plan.rules.iter().any(keeps_memory) {
        return;
    }
    let memory = &advice.plan.memory;
    let could = lock_budget(memory.bytes);
    if let Some(may) = memory.lock_bytes.filter(|&may| may < could) {
        tell!(
            "pagewise: this user may lock {}, and the plan keeps no more of what it could, {}; type: ulimit -l {} (as root), or grant cap_ipc_lock, and plan again",
            bytes(may),
            bytes(could),
            could.div_ceil(1 << 10)
        );
    }
}

fn tell_next(arguments: &PlanArguments, advice: &Advice) {
    let file = arguments.output.display();
    let program = &advice.plan.program;
    if advice.plan.does_something() {
        let words = [&program.executable].into_iter().chain(&program.arguments);
        let words: Vec<String> = words.map(|word| shell_word(word)).collect();
        tell!(
            "pagewise: prove it with: pagewise compare {file} -- {}",
            words.join(" ")
        );
    } else {
        tell!("pagewise: {file} changes nothing");
    }
}
