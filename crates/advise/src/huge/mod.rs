//! Which objects of a recording with accessed bits are to have huge pages.

mod choose;
#[cfg(test)]
mod tests;

use pagewise_analyze::Findings;
use pagewise_plan::Action;
use pagewise_plan::Memory;
use pagewise_plan::Prediction;
use pagewise_plan::Rule;
use pagewise_simulate::hugepages::Tlb;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::Advice;
use crate::facts::ObjectFacts;
use crate::facts::RunFacts;
use crate::subjects::Subject;
use crate::targets::Targets;
use choose::Candidate;
use choose::Whole;

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

/// Judges the objects of a recording by their coverage, for processors with this TLB. `None`: it has no accessed bits.
///
/// # Errors
/// If the recording cannot be read.
pub(crate) fn huge_advice(
    trace: &Trace,
    findings: &Findings,
    memory: &Memory,
    tlb: &Tlb,
) -> Result<Option<HugeAdvice>, TraceError> {
    let Some(whole) = whole(trace, findings, memory)? else {
        return Ok(None);
    };
    let subjects = Subject::all(findings, &Targets::read(trace)?);
    let candidates: Vec<Candidate> = (0..)
        .zip(&subjects)
        .filter_map(|(at, subject)| {
            let facts = ObjectFacts::of(subject);
            Some(Candidate {
                object: at,
                bytes: facts.bytes,
                block_bytes: facts.block_bytes,
                resident_share: facts.resident_share,
                most_resident_share: subject.mean(|object| object.most_resident_share),
                accessed_share: subject.mean(|object| object.accessed_share)?,
            })
            .filter(|_| facts.can_have_rule)
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
                    name: subject.name(),
                    place: subject.place(),
                    target,
                    action: if choice.is_huge {
                        Action::Huge
                    } else {
                        Action::Nothing
                    },
                    why: subject.why(choice.why),
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
