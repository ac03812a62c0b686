//! Advice: which object of a recorded program is to be kept, streamed or left alone, and what that promises.
//!
//! ```text
//!   recording --analyze--> objects: size, pattern, stall --choose--> action for each --predict--> speed-up
//!        '--targets--> how each is known again ------------------------'--> Plan
//! ```
//!
//! `choose` is a function of numbers only; what a rule promises is in `predict.rs`.

#![forbid(unsafe_code)]

mod blocks;
mod bursts;
mod choose;
mod contexts;
mod facts;
mod family;
mod gaps;
mod headway;
mod heap;
mod heat;
mod huge;
mod io;
mod json;
mod judge;
mod layouts;
mod most_used;
mod own_time;
mod passed_over;
mod pauses;
mod predict;
mod rivals;
mod run_facts;
mod subjects;
mod targets;
mod unseen;
mod ways;
mod whole;
mod worst;

use std::collections::HashMap;
use std::fmt;

use pagewise_analyze::Findings;
use pagewise_analyze::ObjectKind;
use pagewise_analyze::Pattern;
use pagewise_analyze::SmallBlocks;
use pagewise_analyze::analyze_with;
use pagewise_plan::Action;
use pagewise_plan::CurvePoint;
use pagewise_plan::Memory;
use pagewise_plan::Plan;
use pagewise_plan::Prediction;
use pagewise_plan::Program;
use pagewise_plan::Rule;
use pagewise_plan::Target;
use pagewise_predict::Costs;
use pagewise_predict::Model;
use pagewise_predict::Treatment;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

pub use contexts::ContextPath;
pub use contexts::add_context_keys;
pub use contexts::context_paths;
use huge::huge_advice;
use io::IoAdvice;
use io::io_advice;
pub use whole::Request;
pub use whole::advise_on_all;

use bursts::Bursts;
use choose::Choice;
use choose::MoreMemory;
pub use choose::lock_budget;
pub use choose::memory_to_lock;
use facts::ObjectFacts;
use layouts::Layouts;
use run_facts::RunFacts;
use subjects::Subject;
use targets::Targets;
use ways::best;

/// What is advised.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The plan, with the curve over sizes of memory if there is a model.
    pub plan: Plan,
    /// What all rules about memory together promise; `None`: nothing is known of its memory. What rules about input and output bring is
    /// not predicted.
    pub predicted: Option<Prediction>,
    /// In a sentence or two: what the plan does, or why there is nothing to do.
    pub words: String,
    /// Objects that cost much and have no rule, with why.
    pub unnamed: Vec<(String, String)>,
    /// What was seen of the memory that rules are about. Nothing of rules about input and output.
    pub seen: HashMap<Target, Seen>,
    /// What a page costs, as measured in the recording: what the curve reckons with. `None`: there is no model.
    pub costs: Option<Costs>,
}

/// What was seen of what a rule is about; shares are 0 to 1, and what is unknown is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// In what order its pages came back: of the object that cost most, in the phase that cost most.
    pub pattern: Option<Pattern>,
    /// Swap-ins of it between two of one page, in the median: of a loop the pages of a round.
    pub reuse_pages: Option<u64>,
    /// The share of its pages in memory that was accessed in an interval of the recording.
    pub accessed_share: Option<f64>,
    /// The share of its evicted pages that had to be written.
    pub write_share: Option<f64>,
}

/// What is predicted without the plan at 10 to 100 % of what the program needs, for [`Plan::curve`].
pub(crate) fn curve(model: &Model) -> Vec<CurvePoint> {
    let points = model.curve(None).into_iter();
    points
        .map(|point| CurvePoint {
            memory_bytes: point.memory_bytes,
            swap_ins: point.swap_ins,
            swap_ins_low: Some(point.swap_ins_low),
            swap_ins_high: point.swap_ins_high,
            wall_ns: point.wall_ns,
        })
        .collect()
}

/// Why there is no advice.
#[derive(Debug)]
pub enum NoAdvice {
    /// The recording cannot be read.
    Trace(TraceError),
    /// It has not what is needed: in words, with what to type.
    Lacks(String),
}

impl fmt::Display for NoAdvice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(formatter),
            Self::Lacks(why) => formatter.write_str(why),
        }
    }
}

impl std::error::Error for NoAdvice {}

impl From<TraceError> for NoAdvice {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

/// A plan for another size of memory than was recorded.
struct OtherSize {
    recorded_bytes: Option<u64>,
    /// Swap-ins there by those at the recorded size, both simulated; `None`: that cannot be told.
    ratio: Option<f64>,
    /// The same of reclaim outside of swap-in faults; 1 if that cannot be told.
    reclaim_scale: f64,
}

impl OtherSize {
    fn of(findings: &Findings, memory_bytes: u64, model: Option<&Model>) -> Option<Self> {
        let recorded_bytes = findings.meta.limit.bytes;
        if recorded_bytes == Some(memory_bytes) {
            return None;
        }
        let ratio = model.and_then(|model| {
            let there = model.treated(memory_bytes, |_, _| Treatment::Free);
            let recorded = model.simulated_swap_ins();
            (recorded > 0).then(|| there.swap_ins as f64 / recorded as f64)
        });
        Some(Self {
            recorded_bytes,
            ratio,
            reclaim_scale: model.map_or(1.0, |model| model.reclaim_scale(memory_bytes)),
        })
    }

    /// Each swap-in is taken to be waited for as long as it was.
    fn stall_scale(&self) -> f64 {
        self.ratio.unwrap_or(1.0)
    }

    fn words(&self) -> String {
        let recorded = match self.recorded_bytes {
            Some(bytes) => format!("with {}", pagewise_report::bytes(bytes)),
            None => "without a limit".to_owned(),
        };
        match self.ratio {
            Some(_) => format!(" (by simulation, from a run {recorded})"),
            None => format!(
                ". What is said of waiting and speed is that of the run that was recorded, {recorded}: how it would be otherwise \
                 cannot be simulated; record it there"
            ),
        }
    }
}

/// How much more than this memory the program needs to wait next to nothing: by the curve, or without a model by how long its pages
/// were away. `None`: it has that, or it is not known.
fn more_memory(
    findings: &Findings,
    model: Option<&Model>,
    memory_bytes: u64,
) -> Option<MoreMemory> {
    match model.and_then(|model| model.enough_bytes(memory_bytes)) {
        Some(enough) => (enough > memory_bytes).then(|| MoreMemory::ByCurve {
            bytes: enough - memory_bytes,
            enough,
        }),
        None => extra_bytes(findings, memory_bytes).map(MoreMemory::ByRecency),
    }
}

fn extra_bytes(findings: &Findings, memory_bytes: u64) -> Option<u64> {
    let extra = findings.memory_need.extra_bytes?;
    match findings.meta.limit.bytes {
        Some(recorded) => {
            Some((recorded + extra).saturating_sub(memory_bytes)).filter(|more| *more > 0)
        }
        None => Some(extra),
    }
}

/// What costs much and cannot have a rule whatever is chosen, with why.
fn costly_without_rule(
    subjects: &[Subject<'_>],
    facts: &[ObjectFacts],
    run: &RunFacts,
) -> Vec<(String, String)> {
    let costly = subjects.iter().zip(facts);
    let costly = costly.filter(|(_, of)| !of.can_have_rule && choose::is_costly(of, run));
    let told = costly.map(|(subject, of)| {
        let why = match (&subject.target, subject.first().identity.kind) {
            (Err(why), kind) if kind != ObjectKind::Allocation => why.clone(),
            _ => of.why_no_rule(),
        };
        (of.name.clone(), why)
    });
    told.collect()
}

/// Makes a plan. With a `model` of the recording it is
/// judged by simulation.
///
/// # Errors
/// If the recording cannot be read, or does not say what is needed.
pub(crate) fn advise(
    trace: &Trace,
    findings: &Findings,
    request: &Request,
    model: Option<&Model>,
) -> Result<Advice, NoAdvice> {
    let memory = memory(trace, findings, request)?;
    let targets = Targets::read(trace)?;
    let other = OtherSize::of(findings, memory.bytes, model);
    let mut run = RunFacts::of(findings);
    run.lockable_bytes = request.lockable_bytes;
    run.peak_bytes = memory.peak_bytes;
    run.stall_scale = other.as_ref().map_or(1.0, OtherSize::stall_scale);
    run.reclaim_scale = other.as_ref().map_or(1.0, |other| other.reclaim_scale);
    let is_worth_it = choose::is_any_worth_it(&run);
    let simulated = match is_worth_it && family::is_inherited(trace)? {
        true => None,
        false => model,
    };
    if is_worth_it {
        let bursts = Bursts::read(trace, memory.bytes / run.page_bytes, simulated.is_some())?;
        let used = bursts.used();
        run.burst_bytes = used.map(|used| used.pages * run.page_bytes);
        run.has_uneven_pauses = used.is_some_and(|used| used.is_uneven);
    }
    let in_heap = heap::contents(findings, &run);
    let with_heap = match in_heap {
        Some(_) => Some(analyze_with(trace, SmallBlocks::OneHeap)?),
        None => None,
    };
    let findings = with_heap.as_ref().unwrap_or(findings);
    let subjects = Subject::all(findings, &targets, in_heap.as_deref());
    let (facts, layouts) = facts(trace, &targets, &subjects, &run)?;
    let laid_out = (&subjects[..], &layouts);
    let choices = best(trace, laid_out, (&facts, &run), memory.bytes, simulated)?;
    let mut rules = Vec::new();
    let mut unnamed = Vec::new();
    let mut kept = Vec::new();
    let mut seen = HashMap::new();
    let mut is_help_unnamed = false;
    for choice in choices {
        let subject = &subjects[choice.object];
        // What is only locked beside others' sweeps is nobody's concern where it is not.
        let is_locked = choice.acts() && subject.target.is_ok();
        if !choose::is_costly(&facts[choice.object], &run) && !is_locked {
            continue;
        }
        match subject.target.clone() {
            Ok(target) => {
                kept.push(choice.clone());
                seen.insert(target.clone(), subject.seen(findings));
                let is_allocation = matches!(target, Target::Allocation { .. });
                rules.push(Rule {
                    name: subject.name(),
                    place: subject.place(),
                    objects: Some(subject.sum(|object| object.most_alive))
                        .filter(|&objects| is_allocation && objects > 1),
                    target,
                    predicted: Some(predict::of_choice(&choice, &facts, &run)),
                    why: subject.why(choice.why, choice.action.is_together()),
                    action: choice.action,
                });
            }
            Err(why) => {
                is_help_unnamed |= choice.acts();
                unnamed.push((subject.name(), why));
            }
        }
    }
    unnamed.extend(costly_without_rule(&subjects, &facts, &run));
    let predicted = predict::of_all(&kept, &facts, &run);
    let does_nothing = !kept.iter().any(Choice::acts);
    let more = || more_memory(findings, model, memory.bytes);
    let words = match does_nothing && is_help_unnamed {
        true => choose::words_without_rule(more()),
        false => choose::words(&kept, &facts, &run, more),
    };
    let words = words + &other.map_or(String::new(), |other| other.words());
    Ok(Advice {
        plan: Plan {
            program: targets.program(trace),
            headway: headway::points(trace, memory.bytes)?,
            memory,
            rules,
            curve: Vec::new(),
            files: Vec::new(),
        },
        predicted: Some(predicted),
        words,
        unnamed,
        seen,
        costs: model.map(Model::costs),
    })
}

/// A plan without rules for a memory size in bytes (`None`: all that the machine has), for a recording whose memory nothing is known of: a
/// place for rules about its input and output.
///
/// # Errors
/// If the recording cannot be read.
pub(crate) fn without_memory(trace: &Trace, memory_bytes: Option<u64>) -> Result<Advice, NoAdvice> {
    let peak_bytes = peak_bytes(trace)?;
    let meta = trace.meta();
    let recorded = meta.limit.bytes.or(meta.host.memory_bytes);
    let Some(bytes) = memory_bytes.or(recorded).or(peak_bytes) else {
        return Err(NoAdvice::Lacks(
            "the recording does not say how much memory the machine has: say for which size the plan shall be; type: pagewise \
             plan --memory SIZE"
                .to_owned(),
        ));
    };
    Ok(Advice {
        plan: Plan {
            program: Targets::read(trace)?.program(trace),
            memory: Memory {
                bytes,
                peak_bytes,
                lock_bytes: None,
                fresh: None,
                prezero_rate: None,
            },
            rules: Vec::new(),
            curve: Vec::new(),
            headway: Vec::new(),
            files: Vec::new(),
        },
        predicted: None,
        words: String::new(),
        unnamed: Vec::new(),
        seen: HashMap::new(),
        costs: None,
    })
}

impl Advice {
    /// Drops rules that do nothing, the last first, until there is room for so many more. Those stay that keep another rule from
    /// what they are about.
    fn make_room(&mut self, wanted: usize) {
        let rules = &mut self.plan.rules;
        for at in (0..rules.len()).rev() {
            if rules.len() + wanted <= pagewise_plan::MOST_RULES {
                return;
            }
            let is_exception = rules.iter().any(|other| rules[at].is_exception_to(other));
            if rules[at].action == Action::Nothing && !is_exception {
                rules.remove(at);
            }
        }
    }

    /// Adds what is advised for input and output.
    pub(crate) fn add_io(&mut self, mut io: IoAdvice) {
        self.make_room(io.rules.len());
        io.fit_into(pagewise_plan::MOST_RULES.saturating_sub(self.plan.rules.len()));
        let helped: Vec<String> = io
            .rules
            .iter()
            .filter(|rule| rule.action != Action::Nothing)
            .map(|rule| format!("{} {}", rule.action.name(), rule.name))
            .collect();
        if !helped.is_empty() {
            if !self.words.is_empty() {
                self.words.push_str("; ");
            }
            self.words.push_str(&helped.join("; "));
        } else if self.words.is_empty() {
            self.words = "do nothing: no hint would help its input and output".to_owned();
        }
        self.plan.rules.extend(io.rules);
        self.plan.files = io.files;
        self.unnamed.extend(io.unnamed);
    }
}

/// Of all objects; where accesses go is looked at only where that may matter.
fn facts(
    trace: &Trace,
    targets: &Targets,
    subjects: &[Subject<'_>],
    run: &RunFacts,
) -> Result<(Vec<ObjectFacts>, Layouts), TraceError> {
    let mut facts: Vec<ObjectFacts> = subjects.iter().map(ObjectFacts::of).collect();
    let layouts = Layouts::read(trace, targets, (subjects, &facts), run.page_bytes)?;
    for (at, one) in facts.iter_mut().enumerate() {
        one.is_laid_out = layouts.has(at);
    }
    // Without that sensor (no root) nothing is seen to leave, private memory neither.
    let sensor = trace.meta().sensors.get("faults");
    let sees_evictions = sensor.is_some_and(|state| state == "on");
    for one in &mut facts {
        one.wanted_rate = one.mean_wanted_rate(run.wall_ns, run.page_bytes);
        one.left_unseen &= sees_evictions;
    }
    let looked_at: Vec<usize> = (0..facts.len())
        .filter(|&at| facts[at].shows_heat())
        .collect();
    let wanted: Vec<heat::Wanted<'_>> = looked_at
        .iter()
        .map(|&at| heat::Wanted {
            subject: at,
            identities: subjects[at]
                .objects
                .iter()
                .map(|object| &object.identity)
                .collect(),
            bytes: facts[at].bytes,
            block_bytes: facts[at].is_laid_out.then_some(facts[at].block_bytes),
            swap_ins: facts[at].swap_ins,
        })
        .collect();
    for (heat, at) in heat::read(trace, &wanted, &layouts)?
        .into_iter()
        .zip(looked_at)
    {
        // The mean counts what is not filled yet as out. Of a sweep, pages are wanted by turns.
        if facts[at].may_have_hot_part() {
            facts[at].wanted_rate = heat.rate().or(facts[at].wanted_rate);
        }
        facts[at].heat = Some(heat);
    }
    Ok((facts, layouts))
}

fn memory(trace: &Trace, findings: &Findings, request: &Request) -> Result<Memory, NoAdvice> {
    if !findings.faults_observed() {
        return Err(NoAdvice::Lacks(
            "the recording has no swap-ins with their times; type: pagewise record --memory SIZE -- CMD, as root"
                .to_owned(),
        ));
    }
    let Some(bytes) = request.memory_bytes.or(findings.meta.limit.bytes) else {
        return Err(NoAdvice::Lacks(
            "the recording had no memory limit: say for which size the plan shall be; type: pagewise plan --memory SIZE"
                .to_owned(),
        ));
    };
    Ok(Memory {
        bytes,
        peak_bytes: peak_bytes(trace)?,
        lock_bytes: Some(request.lockable_bytes.map_or(lock_budget(bytes), |most| {
            most.min(lock_budget(bytes)).max(1)
        })),
        fresh: None,
        prezero_rate: None,
    })
}

/// The most memory and swap that the program had at once, by samples, and no less than its peak resident memory, bytes;
/// `None`: neither is known.
///
/// # Errors
/// If the table cannot be read.
pub fn peak_bytes(trace: &Trace) -> Result<Option<u64>, TraceError> {
    let samples = trace.samples()?.into_iter();
    let sampled = samples
        .filter_map(|sample| Some(sample.rss_bytes?.saturating_add(sample.swap_bytes?)))
        .max();
    Ok(sampled.max(trace.meta().peak_rss_bytes))
}

impl Targets {
    fn program(&self, trace: &Trace) -> Program {
        let meta = trace.meta();
        let executable = self.executable().or_else(|| meta.command.first().cloned());
        Program {
            build_id: executable
                .as_ref()
                .and_then(|path| meta.build_ids.get(path).cloned()),
            executable: executable.unwrap_or_default(),
            arguments: meta.command.iter().skip(1).cloned().collect(),
            modules: Vec::new(),
        }
    }
}
