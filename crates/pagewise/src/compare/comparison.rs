//! What was measured at one memory size, and what it says.

mod relief;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::foreseen;
use super::latency::Latency;
use super::statistics::Ratio;
use super::statistics::geometric_mean;
use super::statistics::median;
use super::statistics::ratio_of_medians;
use super::victim::Suffered;
use crate::apply::Outcome;

/// One run of one arm.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) wall_ns: u64,
    /// Pages that came back from swap; `None`: the kernel does not tell.
    pub(super) swap_ins: Option<u64>,
    /// Pages that were sent to it, those of zeros included: not those that left as they still had their place there.
    pub(super) evictions: Option<u64>,
    /// Anonymous pages that reclaim took, clean or not; not those that were paged out on request (`MADV_PAGEOUT`).
    pub(super) reclaimed: Option<u64>,
    /// Bytes written to the swap device: pages of zeros are none.
    pub(super) written_bytes: Option<u64>,
    /// Bytes that it read from devices, swap included.
    pub(super) read_bytes: Option<u64>,
    /// The most memory it held, what zram held for it included.
    pub(super) memory_bytes: Option<u64>,
    pub(super) exit_code: u8,
    /// SHA-256 of what it wrote to its standard output.
    pub(super) output: [u8; 32],
    /// What the program beside it told; `None`: there was none.
    pub(super) victim: Option<Suffered>,
    /// What became of the plan; `None`: a run without one.
    pub(super) of_plan: Option<OfPlan>,
}

/// What became of the plan in one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OfPlan {
    /// Whether anything of it came into force.
    pub(super) did_something: bool,
    /// In words, as `pagewise apply` has them.
    pub(super) lines: Vec<String>,
}

impl OfPlan {
    pub(super) fn of(outcome: &Outcome) -> Self {
        Self {
            did_something: outcome.did_something(),
            lines: outcome.lines(),
        }
    }
}

/// Which runs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArmKind {
    /// The program as it is, under the limit.
    Baseline,
    /// With the plan.
    Plan,
    /// What one types first in place of the plan: what it keeps or streams is locked, as far as memory goes, or what costs most.
    Mlock,
    /// As above: the kernel is told of what is swept, and nothing is kept.
    Madvise,
    /// Without a limit: nothing can be faster.
    Unlimited,
}

impl ArmKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Plan => "plan",
            Self::Mlock => "mlock",
            Self::Madvise => "madvise",
            Self::Unlimited => "unlimited",
        }
    }
}

/// All runs of one arm, one for each round.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub(super) kind: ArmKind,
    pub(super) runs: Vec<Run>,
    /// Runs that the limit killed, and that were done again.
    pub(super) killed: u32,
    /// The limit killed it so often that it was given up: why; `None`: it was not.
    pub(super) cannot_run: Option<String>,
    /// How long swap-ins took in a run that was recorded; `None`: not asked for, or unknown.
    pub(super) latency: Option<Latency>,
    /// Which other arm it comes to with this plan.
    pub(super) same_as: Option<ArmKind>,
}

impl Arm {
    pub(super) fn new(kind: ArmKind, same_as: Option<ArmKind>) -> Self {
        Self {
            kind,
            same_as,
            runs: Vec::new(),
            killed: 0,
            cannot_run: None,
            latency: None,
        }
    }

    fn exit_codes(&self) -> BTreeSet<u8> {
        self.runs.iter().map(|run| run.exit_code).collect()
    }

    fn wall(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.wall_ns as f64).collect()
    }

    /// The median of something; `None` if it is unknown of any run.
    pub(super) fn median_of(&self, of: impl Fn(&Run) -> Option<u64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.runs.iter().map(|run| Some(of(run)? as f64)).collect();
        median(&values?)
    }
}

/// What the ratio means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Faster,
    Slower,
    /// With the plan the program ends in a way that it does not end without, or its limit kills it: how long that took means nothing.
    Fails,
    /// The interval holds 1, or the plan does nothing.
    NoDifference,
    /// Too few rounds for what they differ by, or the plan did not come into force.
    Unknown,
}

/// Of too few rounds for an interval all must be so much faster, or slower: two fall on one side by chance half of the time.
const MARGIN: f64 = 0.03;

/// The arms at one memory size.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    /// What the limited arms might use, bytes.
    pub(super) memory_bytes: u64,
    /// What the program needs at most, bytes; `None`: not known.
    pub(super) peak_bytes: Option<u64>,
    /// Whether the plan may change something: a rule acts, or there is none, as for a program that calls `pagewise.h`.
    /// If not, what differs is chance.
    pub(super) plan_acts: bool,
    /// Swap-ins without the plan, as it foresees them; `None`: of this memory size it does not say.
    pub(super) foreseen: Option<RangeInclusive<u64>>,
    pub(super) arms: Vec<Arm>,
}

impl Comparison {
    pub(super) fn arm(&self, kind: ArmKind) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.kind == kind)
    }

    /// Forgets the runs of a round that did not come to its end: of it not every arm has one. An arm that was given up may lack some.
    pub(super) fn keep_whole_rounds(&mut self) {
        let going_on = self.arms.iter().filter(|arm| arm.cannot_run.is_none());
        let whole = going_on.map(|arm| arm.runs.len()).min().unwrap_or(0);
        for arm in &mut self.arms {
            arm.runs.truncate(whole);
        }
    }

    /// Whether there is anything to tell.
    pub(super) fn has_runs(&self) -> bool {
        self.arms.iter().any(|arm| !arm.runs.is_empty())
    }

    /// The baseline's time over the plan's.
    pub(super) fn speedup(&self) -> Option<Ratio> {
        self.speedup_of(ArmKind::Plan)
    }

    /// The baseline's time over that of an arm.
    pub(super) fn speedup_of(&self, kind: ArmKind) -> Option<Ratio> {
        self.ratio(ArmKind::Baseline, kind)
    }

    /// The time of one arm over that of another.
    pub(super) fn ratio(&self, over: ArmKind, under: ArmKind) -> Option<Ratio> {
        let wall = |kind| self.arm(kind).map(Arm::wall);
        ratio_of_medians(&wall(over)?, &wall(under)?)
    }

    /// The arms beside baseline and plan: what they bring.
    pub(super) fn compared(&self) -> Vec<ArmKind> {
        let kinds = self.arms.iter().map(|arm| arm.kind);
        kinds
            .filter(|kind| !matches!(kind, ArmKind::Baseline | ArmKind::Plan))
            .collect()
    }

    /// What became of the plan in its last run.
    pub(super) fn of_plan(&self) -> Option<&OfPlan> {
        self.arm(ArmKind::Plan)?.runs.last()?.of_plan.as_ref()
    }

    /// No run had the plan in force, as its rules matched nothing: the program without it was compared with itself.
    pub(super) fn is_plan_absent(&self) -> bool {
        let runs = self
            .arm(ArmKind::Plan)
            .into_iter()
            .flat_map(|arm| &arm.runs);
        let mut known = runs.filter_map(|run| run.of_plan.as_ref()).peekable();
        known.peek().is_some() && known.all(|of_plan| !of_plan.did_something)
    }

    /// Swap-ins without the plan, if they are far from what it foresees. Those of runs without a limit are others'.
    pub(super) fn swaps_otherwise(&self) -> Option<u64> {
        let swap_ins = |kind| self.arm(kind)?.median_of(|run| run.swap_ins);
        let of_others = swap_ins(ArmKind::Unlimited).unwrap_or(0.0);
        let swap_ins = (swap_ins(ArmKind::Baseline)? - of_others).max(0.0) as u64;
        let foreseen = self.foreseen.as_ref()?;
        foreseen::is_otherwise(swap_ins, foreseen).then_some(swap_ins)
    }

    /// How the program ends with the plan and not without: exit codes but 0.
    fn failures_of_plan(&self) -> Vec<u8> {
        let codes = |kind| self.arm(kind).map(Arm::exit_codes).unwrap_or_default();
        let baseline = codes(ArmKind::Baseline);
        let plan = codes(ArmKind::Plan).into_iter();
        plan.filter(|code| *code != 0 && !baseline.contains(code))
            .collect()
    }

    /// Whether the program ends without the plan as it never does with it.
    fn fails_without_plan(&self) -> bool {
        let codes = |kind| self.arm(kind).map(Arm::exit_codes);
        let both = codes(ArmKind::Baseline).zip(codes(ArmKind::Plan));
        both.is_some_and(|(baseline, plan)| baseline != plan)
    }

    /// Why the limit does not let an arm run at all.
    pub(super) fn cannot_run(&self, kind: ArmKind) -> Option<&str> {
        self.arm(kind)?.cannot_run.as_deref()
    }

    /// Whether more rounds would tell nothing: one of those that are compared cannot run.
    pub(super) fn is_decided(&self) -> bool {
        self.cannot_run(ArmKind::Baseline).is_some() || self.cannot_run(ArmKind::Plan).is_some()
    }

    fn killed(&self, kind: ArmKind) -> u32 {
        self.arm(kind).map_or(0, |arm| arm.killed)
    }

    /// Whether the limit kills the program with the plan, and without it never, or so much less often that it is no chance.
    fn is_killed_by_plan(&self) -> bool {
        let (plan, baseline) = (self.killed(ArmKind::Plan), self.killed(ArmKind::Baseline));
        let is_clear = match baseline {
            0 => plan > 0,
            few => plan > 3 * (few + 1),
        };
        let can_run = self.cannot_run(ArmKind::Baseline).is_none();
        let in_force = self.plan_acts && !self.is_plan_absent();
        in_force && can_run && (is_clear || self.cannot_run(ArmKind::Plan).is_some())
    }

    /// Whether times say what the plan brings: it was in force, and the program did the same work.
    fn is_comparable(&self) -> bool {
        !self.is_killed_by_plan()
            && !self.is_decided()
            && self.failures_of_plan().is_empty()
            && !self.is_plan_absent()
            && !self.fails_without_plan()
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self.speedup() {
            _ if self.is_killed_by_plan() => Verdict::Fails,
            _ if self.is_decided() => Verdict::Unknown,
            None => Verdict::Unknown,
            Some(_) if !self.failures_of_plan().is_empty() => Verdict::Fails,
            Some(_) if !self.plan_acts => Verdict::NoDifference,
            Some(_) if self.is_plan_absent() || self.fails_without_plan() => Verdict::Unknown,
            Some(ratio) if ratio.rounds < 2 => Verdict::Unknown,
            Some(ratio) if ratio.low > 1.0 + ratio.margin(MARGIN) => Verdict::Faster,
            Some(ratio) if ratio.high < 1.0 - ratio.margin(MARGIN) => Verdict::Slower,
            Some(ratio) if !ratio.is_resampled() => Verdict::Unknown,
            Some(_) => Verdict::NoDifference,
        }
    }

    /// The share of the time lost for want of memory that the plan gives back; `None` if nothing was lost, or the plan
    /// does nothing.
    pub(super) fn gap_closed(&self) -> Option<f64> {
        if !self.plan_acts || !self.is_comparable() {
            return None;
        }
        let wall = |kind| median(&self.arm(kind)?.wall());
        let (baseline, plan) = (wall(ArmKind::Baseline)?, wall(ArmKind::Plan)?);
        let lost = baseline - wall(ArmKind::Unlimited)?;
        // Below a fiftieth of the run it is noise.
        (lost > 0.02 * baseline).then(|| (baseline - plan) / lost)
    }

    /// Whether every run wrote the same and ended alike; `None` without a run.
    pub(super) fn output_identical(&self) -> Option<bool> {
        let mut runs = self.arms.iter().flat_map(|arm| &arm.runs);
        let first = runs.next()?;
        Some(runs.all(|run| run.output == first.output && run.exit_code == first.exit_code))
    }

    /// For people.
    pub(super) fn words(&self) -> String {
        if let Some(words) = self.words_of_kills() {
            return words;
        }
        let Some(ratio) = self.speedup() else {
            return "too few runs to tell".to_owned();
        };
        let value = ratio.value;
        let failures = self.failures_of_plan();
        if !failures.is_empty() {
            let codes = failures.iter().map(u8::to_string);
            return format!(
                "with the plan the program ends with exit code {}, without it never: do not use it here",
                codes.collect::<Vec<_>>().join(" or ")
            );
        }
        if !self.plan_acts {
            return format!(
                "no rule of the plan does anything, so what differs is chance: {value:.2} times as fast ({ratio})"
            );
        }
        if self.is_plan_absent() {
            return format!(
                "the plan did not come into force, so nothing is known of it and what differs is chance: {value:.2} times as fast ({ratio})"
            );
        }
        if self.fails_without_plan() {
            return "the program does not end alike with the plan and without: its times cannot be compared".to_owned();
        }
        let alike = self.failing_alike();
        let closed = self.gap_closed().map_or(String::new(), |closed| {
            format!(
                "; it gives back {:.0} % of what the missing memory costs",
                100.0 * closed.clamp(0.0, 1.0)
            )
        });
        match self.verdict() {
            Verdict::Faster => {
                format!("the plan makes it {value:.2} times as fast ({ratio}){closed}{alike}")
            }
            Verdict::Slower => format!(
                "the plan makes it slower, {value:.2} times as fast ({ratio}): do not use it here{alike}"
            ),
            Verdict::Unknown | Verdict::Fails => {
                format!(
                    "too few runs to tell, type --runs 6: {value:.2} times as fast ({ratio}){alike}"
                )
            }
            Verdict::NoDifference => format!(
                "no difference that these runs could show: {value:.2} times as fast ({ratio}){alike}"
            ),
        }
    }

    /// Said where the limit killed what is compared; `None`: it did not, or no more with the plan than without.
    fn words_of_kills(&self) -> Option<String> {
        let baseline = self.cannot_run(ArmKind::Baseline);
        let plan = self.cannot_run(ArmKind::Plan);
        match (baseline, plan) {
            _ if self.is_killed_by_plan() => Some(format!(
                "with the plan the limit killed the program {}, without it {}: do not use it here",
                times(self.killed(ArmKind::Plan)),
                times(self.killed(ArmKind::Baseline))
            )),
            (Some(why), None) => Some(format!(
                "in so little memory the program runs with the plan only, so there is no time to compare with (without it: {why})"
            )),
            (Some(why), Some(_)) => {
                Some(format!("the program cannot run in so little memory: {why}"))
            }
            (None, Some(why)) => Some(format!("the runs with the plan were killed: {why}")),
            (None, None) => None,
        }
    }

    /// Said of runs that all end with the same exit code but 0.
    fn failing_alike(&self) -> String {
        let codes: BTreeSet<u8> = self.arms.iter().flat_map(Arm::exit_codes).collect();
        match codes.first() {
            Some(code) if codes.len() == 1 && *code != 0 => {
                format!("; every run ended with exit code {code}: is that the work that was meant?")
            }
            _ => String::new(),
        }
    }
}

fn times(number: u32) -> String {
    match number {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        more => format!("{more} times"),
    }
}

/// The geometric mean of an arm's speed-ups over all memory sizes; `None` if one is unknown, or times of the plan say nothing.
pub(super) fn mean_speedup(comparisons: &[Comparison], kind: ArmKind) -> Option<f64> {
    let speedups = comparisons.iter().map(|one| {
        let says = kind != ArmKind::Plan || one.is_comparable();
        says.then(|| Some(one.speedup_of(kind)?.value)).flatten()
    });
    geometric_mean(&speedups.collect::<Option<Vec<f64>>>()?)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn comparison(arms: &[(ArmKind, &[u64])]) -> Comparison {
        let arms = arms.iter().map(|&(kind, walls)| Arm {
            kind,
            runs: walls.iter().map(|&wall_ns| run(wall_ns)).collect(),
            killed: 0,
            cannot_run: None,
            latency: None,
            same_as: None,
        });
        Comparison {
            memory_bytes: 64 << 20,
            peak_bytes: Some(256 << 20),
            plan_acts: true,
            foreseen: None,
            arms: arms.collect(),
        }
    }

    fn run(wall_ns: u64) -> Run {
        Run {
            wall_ns,
            swap_ins: Some(10),
            evictions: Some(20),
            reclaimed: Some(30),
            written_bytes: None,
            read_bytes: Some(8 << 20),
            memory_bytes: Some(1 << 20),
            exit_code: 0,
            output: [7; 32],
            victim: None,
            of_plan: None,
        }
    }

    #[test]
    fn of_a_plan_that_does_nothing_no_difference_is_told() {
        let mut drifted = comparison(&[
            (ArmKind::Baseline, &[15, 13, 12]),
            (ArmKind::Plan, &[14, 12, 11]),
        ]);
        assert_eq!(drifted.verdict(), Verdict::Faster);
        drifted.plan_acts = false;
        assert_eq!(drifted.verdict(), Verdict::NoDifference);
        assert!(drifted.words().contains("is chance"), "{}", drifted.words());
        assert_eq!(drifted.gap_closed(), None);
    }

    #[test]
    fn a_round_that_was_cut_short_does_not_count() {
        let mut cut = comparison(&[
            (ArmKind::Baseline, &[10, 11, 12]),
            (ArmKind::Plan, &[5, 6]),
            (ArmKind::Unlimited, &[1, 2, 3]),
        ]);
        let rounds = |cut: &Comparison| -> Vec<usize> {
            cut.arms.iter().map(|arm| arm.runs.len()).collect()
        };
        cut.keep_whole_rounds();
        assert_eq!(rounds(&cut), [2, 2, 2]);
        // Who was given up is not waited for.
        cut.arms[2].runs.clear();
        cut.arms[2].cannot_run = Some("killed".to_owned());
        cut.keep_whole_rounds();
        assert_eq!(rounds(&cut), [2, 2, 0]);
        assert!(cut.has_runs());
        cut.arms[1].runs.clear();
        cut.keep_whole_rounds();
        assert!(!cut.has_runs());
    }

    #[test]
    fn verdicts_follow_the_interval() {
        let of = |plan: &[u64]| {
            comparison(&[
                (ArmKind::Baseline, &[100, 101, 99, 100, 102]),
                (ArmKind::Plan, plan),
            ])
            .verdict()
        };
        assert_eq!(of(&[50, 51, 49, 50, 52]), Verdict::Faster);
        assert_eq!(of(&[120, 121, 119, 120, 122]), Verdict::Slower);
        assert_eq!(of(&[]), Verdict::Unknown);
        let same: [(ArmKind, &[u64]); 2] = [
            (ArmKind::Baseline, &[100, 101, 99, 100, 102, 100]),
            (ArmKind::Plan, &[95, 110, 100, 99, 105, 100]),
        ];
        assert_eq!(comparison(&same).verdict(), Verdict::NoDifference);
    }

    #[test]
    fn few_rounds_tell_only_what_is_clear() {
        let of = |plan: &[u64]| {
            comparison(&[(ArmKind::Baseline, &[1000, 1000]), (ArmKind::Plan, plan)]).verdict()
        };
        assert_eq!(of(&[980, 990]), Verdict::Unknown, "by chance once in four");
        assert_eq!(of(&[1010, 1020]), Verdict::Unknown);
        assert_eq!(of(&[990, 1010]), Verdict::Unknown, "nor is it the same");
        assert_eq!(of(&[900, 950]), Verdict::Faster);
        assert_eq!(of(&[1050, 1100]), Verdict::Slower);
        // Of enough rounds the interval alone tells.
        let six: [(ArmKind, &[u64]); 2] =
            [(ArmKind::Baseline, &[1000; 6]), (ArmKind::Plan, &[980; 6])];
        assert_eq!(comparison(&six).verdict(), Verdict::Faster);
    }

    #[test]
    fn the_gap_is_what_is_lost_for_want_of_memory() {
        let arms: [(ArmKind, &[u64]); 3] = [
            (ArmKind::Baseline, &[100]),
            (ArmKind::Plan, &[40]),
            (ArmKind::Unlimited, &[20]),
        ];
        assert_eq!(comparison(&arms).gap_closed(), Some(0.75));
        let calm: [(ArmKind, &[u64]); 3] = [
            (ArmKind::Baseline, &[100]),
            (ArmKind::Plan, &[100]),
            (ArmKind::Unlimited, &[99]),
        ];
        assert_eq!(comparison(&calm).gap_closed(), None);
    }

    #[test]
    fn a_plan_that_makes_the_program_fail_never_wins() {
        let mut crashed = comparison(&[
            (ArmKind::Baseline, &[3000, 3001]),
            (ArmKind::Plan, &[100, 101]),
        ]);
        assert_eq!(crashed.verdict(), Verdict::Faster);
        crashed.arms[1].runs[1].exit_code = 139;
        assert_eq!(crashed.verdict(), Verdict::Fails);
        assert!(crashed.words().contains("exit code 139"));
        assert_eq!(crashed.gap_closed(), None);
        // The other way round there is nothing to compare with.
        crashed.arms.swap(0, 1);
        (crashed.arms[0].kind, crashed.arms[1].kind) = (ArmKind::Baseline, ArmKind::Plan);
        assert_eq!(crashed.verdict(), Verdict::Unknown);
        assert!(crashed.words().contains("does not end alike"));
    }

    #[test]
    fn a_plan_with_which_the_limit_kills_the_program_never_wins() {
        let mut killed = comparison(&[
            (ArmKind::Baseline, &[3000, 3001]),
            (ArmKind::Plan, &[100, 101]),
        ]);
        // As often without: that is the size, not the plan.
        killed.arms[0].killed = 2;
        killed.arms[1].killed = 3;
        assert_eq!(killed.verdict(), Verdict::Faster);
        killed.arms[1].killed = 10;
        assert_eq!(killed.verdict(), Verdict::Fails);
        killed.arms[0].killed = 0;
        killed.arms[1].killed = 1;
        assert_eq!(killed.verdict(), Verdict::Fails);
        assert!(killed.words().contains("once, without it never"));
        assert_eq!(killed.gap_closed(), None);
        assert_eq!(mean_speedup(&[killed.clone()], ArmKind::Plan), None);
        // What is not in force kills nothing.
        killed.plan_acts = false;
        assert_eq!(killed.verdict(), Verdict::NoDifference);
    }

    #[test]
    fn an_arm_that_cannot_run_is_part_of_the_result() {
        let why = Some("killed by its limit, 6 times in a row".to_owned());
        let mut compared = comparison(&[(ArmKind::Baseline, &[3000]), (ArmKind::Plan, &[])]);
        compared.arms[1].cannot_run.clone_from(&why);
        compared.arms[1].killed = 6;
        assert!(compared.is_decided());
        assert_eq!(compared.verdict(), Verdict::Fails);
        assert!(compared.words().contains("6 times, without it never"));
        // Without the plan it cannot run either: that is no fault of the plan.
        compared.arms[0].cannot_run = why;
        compared.arms[0].killed = 6;
        assert_eq!(compared.verdict(), Verdict::Unknown);
        assert!(compared.words().contains("cannot run in so little memory"));
        compared.arms[1].cannot_run = None;
        assert_eq!(compared.verdict(), Verdict::Unknown);
        assert!(compared.words().contains("with the plan only"));
    }

    #[test]
    fn runs_that_all_fail_alike_are_told() {
        let mut failed = comparison(&[(ArmKind::Baseline, &[2, 2]), (ArmKind::Plan, &[1, 1])]);
        let runs = failed.arms.iter_mut().flat_map(|arm| &mut arm.runs);
        runs.for_each(|run| run.exit_code = 2);
        assert_eq!(failed.verdict(), Verdict::Faster);
        assert!(failed.words().contains("every run ended with exit code 2"));
    }

    #[test]
    fn of_a_plan_that_did_not_come_into_force_nothing_is_known() {
        let mut absent = comparison(&[(ArmKind::Baseline, &[9, 9]), (ArmKind::Plan, &[4, 4])]);
        let runs = &mut absent.arms[1].runs;
        let of_plan = |did_something| {
            Some(OfPlan {
                did_something,
                lines: Vec::new(),
            })
        };
        runs.iter_mut().for_each(|run| run.of_plan = of_plan(false));
        assert_eq!(absent.verdict(), Verdict::Unknown);
        assert!(absent.words().contains("did not come into force"));
        absent.arms[1].runs[0].of_plan = of_plan(true);
        assert_eq!(absent.verdict(), Verdict::Faster);
    }

    #[test]
    fn another_output_or_exit_code_is_seen() {
        let mut compared = comparison(&[(ArmKind::Baseline, &[1, 2]), (ArmKind::Plan, &[1, 2])]);
        assert_eq!(compared.output_identical(), Some(true));
        compared.arms[1].runs[1].exit_code = 1;
        assert_eq!(compared.output_identical(), Some(false));
        compared.arms[1].runs[1] = run(1);
        compared.arms[1].runs[0].output = [8; 32];
        assert_eq!(compared.output_identical(), Some(false));
    }

    #[test]
    fn one_unknown_count_makes_the_median_unknown() {
        let compared = comparison(&[(ArmKind::Baseline, &[1, 2])]);
        assert_eq!(compared.arms[0].median_of(|run| run.swap_ins), Some(10.0));
        assert_eq!(compared.arms[0].median_of(|run| run.written_bytes), None);
    }
}
