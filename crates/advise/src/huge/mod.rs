//! Which objects of a recording with accessed bits are to have huge pages.

mod choose;
mod measured;
#[cfg(test)]
mod tests;

use pagewise_analyze::Findings;
use pagewise_plan::Action;
use pagewise_plan::Memory;
use pagewise_plan::Prediction;
use pagewise_plan::Rule;
use pagewise_simulate::hugepages::Tlb;
use pagewise_trace::Meta;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::Advice;
use crate::facts::ObjectFacts;
use crate::run_facts::RunFacts;
use crate::subjects::Subject;
use crate::targets::Targets;
use choose::Candidate;
use choose::Whole;
use measured::Measured;

/// What is advised about huge pages.
#[derive(Clone, Debug)]
pub(crate) struct HugeAdvice {
    rules: Vec<Rule>,
    predicted: Option<Prediction>,
    /// Why there is no rule that acts.
    words: String,
    unnamed: Vec<(String, String)>,
}

impl HugeAdvice {
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

/// Judges the objects of a recording by their coverage, for processors with this TLB, or that of the recording. `None`: it has no accessed bits.
///
/// # Errors
/// If the recording cannot be read.
pub(crate) fn huge_advice(
    trace: &Trace,
    findings: &Findings,
    memory: &Memory,
    tlb: Option<Tlb>,
) -> Result<Option<HugeAdvice>, TraceError> {
    let Some(whole) = whole(trace, findings, memory)? else {
        return Ok(None);
    };
    let tlb = &tlb.unwrap_or_else(|| tlb_of(trace.meta()));
    let subjects = Subject::all(findings, &Targets::read(trace)?, None);
    let candidates: Vec<Candidate> = (0..)
        .zip(&subjects)
        .filter_map(|(at, subject)| {
            let facts = ObjectFacts::of(subject);
            let allocations = subject.sum(|object| object.allocations);
            let mut candidate = Candidate {
                object: at,
                bytes: facts.bytes,
                block_bytes: facts.block_bytes,
                resident_share: facts.resident_share,
                most_resident_share: subject.mean(|object| object.most_resident_share),
                accessed_share: subject.mean(|object| object.accessed_share)?,
                allocations: allocations.max(1) as f64,
                accessed_time: 1.0,
            };
            candidate.accessed_time = accessed_time(findings, &candidate);
            facts.can_have_rule.then_some(candidate)
        })
        .collect();
    let chosen = choose::choose(&candidates, &whole, tlb);
    let mut advice = HugeAdvice {
        rules: Vec::new(),
        predicted: None,
        words: chosen.words,
        unnamed: Vec::new(),
    };
    let mut named = Vec::new();
    for choice in chosen.choices {
        let subject = &subjects[choice.candidate.object];
        match subject.target.clone() {
            Ok(target) => {
                advice.rules.push(Rule {
                    objects: None,
                    name: subject.name(),
                    place: subject.place(),
                    target,
                    action: if choice.is_huge {
                        Action::Huge
                    } else {
                        Action::Nothing
                    },
                    why: subject.why(choice.why, false),
                    predicted: Some(choice.predicted),
                });
                named.extend(choice.is_huge.then_some(choice.candidate));
            }
            Err(why) => advice.unnamed.push((subject.name(), why)),
        }
    }
    if !named.is_empty() {
        advice.predicted = Some(choose::predict(&named, &whole, tlb));
    }
    Ok(Some(advice))
}

/// What the objects are judged beside. `None`: nothing was looked at.
fn whole(trace: &Trace, findings: &Findings, memory: &Memory) -> Result<Option<Whole>, TraceError> {
    let looks = &findings.working_set;
    if looks.is_empty() {
        return Ok(None);
    }
    let time: f64 = looks.iter().map(|look| look.interval_ns as f64).sum();
    let accessed: f64 = looks
        .iter()
        .map(|look| look.accessed_bytes as f64 * look.interval_ns as f64)
        .sum();
    let (mut resident, mut huge) = (0_u64, 0_u64);
    for row in trace.accesses()? {
        let row = row?;
        resident += u64::from(row.resident_pages);
        huge += u64::from(row.resident_pages) * u64::from(row.huge);
    }
    Ok(Some(Whole {
        accessed_pages: accessed / time.max(1.0) / findings.page_bytes() as f64,
        interval_ns: time / looks.len() as f64,
        huge_share: huge as f64 / resident.max(1) as f64,
        stalled_share: RunFacts::of(findings).stalled_share(),
        memory_bytes: memory.bytes,
        peak_bytes: memory.peak_bytes,
        measured: measured(trace)?,
    }))
}

/// By default, a page walk costs what it did where it was recorded: twice as much and more in a guest, which walks two sets of tables.
fn tlb_of(meta: &Meta) -> Tlb {
    let default = Tlb::default();
    match meta.huge_pages {
        Some(costs) if costs.walk_cycles > 0.0 => Tlb {
            walk: costs.walk_cycles,
            // Not measured, as the second level has all huge pages of what is read there: in proportion.
            walk_2m: costs.walk_cycles * default.walk_2m / default.walk,
            ..default
        },
        _ => default,
    }
}

/// The share of the time looked at in which at least half as much was accessed as is of the object.
fn accessed_time(findings: &Findings, candidate: &Candidate) -> f64 {
    let least = choose::accessed_pages(candidate) * findings.page_bytes() as f64 / 2.0;
    let (mut all, mut with) = (0.0, 0.0);
    for look in &findings.working_set {
        let time = look.interval_ns as f64;
        all += time;
        with += time * f64::from(look.accessed_bytes as f64 >= least);
    }
    if all > 0.0 { with / all } else { 0.0 }
}

/// `None`: it is a recording of before these were measured, or they could not be.
fn measured(trace: &Trace) -> Result<Option<Measured>, TraceError> {
    let meta = trace.meta();
    let (Some(costs), Some(wall_ns)) = (meta.huge_pages, meta.wall_ns) else {
        return Ok(None);
    };
    let rate = pagewise_predict::lookup_rate(trace)?;
    let running = meta.running_threads.filter(|&threads| threads > 0.0);
    let walks = meta.page_walks.values().copied();
    Ok(Some(Measured {
        costs,
        wall_ns: wall_ns as f64,
        cycles_of_lookup: rate
            .zip(running)
            .map(|(rate, running)| costs.cycles_per_ns * running / rate.per_ns),
        may_be_faster: rate.is_none_or(|rate| rate.at_least),
        walk_share: walks.reduce(f64::max),
    }))
}

impl Advice {
    /// Adds what is advised about huge pages. Rules that act on memory already show that it is short: then no other is added.
    pub(crate) fn add_huge(&mut self, huge: HugeAdvice) {
        let is_of_memory = |rule: &&Rule| !matches!(rule.action, Action::Io(_));
        if self.plan.acting_rules().any(|rule| is_of_memory(&rule)) {
            return;
        }
        self.unnamed.extend(huge.unnamed);
        let names: Vec<&str> = huge
            .rules
            .iter()
            .filter(|rule| rule.action == Action::Huge)
            .map(|rule| rule.name.as_str())
            .collect();
        let does_nothing = self.plan.acting_rules().next().is_none();
        let words = match names.is_empty() {
            true => huge.words,
            false => format!("huge pages for {}", names.join(", ")),
        };
        if does_nothing && !names.is_empty() || self.words.is_empty() {
            self.words = words;
        } else {
            self.words.push_str(&format!("; {words}"));
        }
        if huge.predicted.is_some() {
            self.predicted = huge.predicted;
        }
        for rule in huge.rules {
            match self
                .plan
                .rules
                .iter_mut()
                .find(|one| one.target == rule.target)
            {
                // What was said of waiting for swap stands, unless there is something to do.
                Some(one) if rule.action == Action::Huge => *one = rule,
                Some(_) => {}
                None => self.plan.rules.push(rule),
            }
        }
    }
}
