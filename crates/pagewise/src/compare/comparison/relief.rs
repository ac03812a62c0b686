//! Where a victim is beside the program, the plan is there for the victim: whether that one is better off is what the plan brings. The
//! program itself may pay a little for it.

use super::Arm;
use super::ArmKind;
use super::Comparison;
use super::MARGIN;
use super::Verdict;
use crate::compare::statistics::Ratio;
use crate::compare::statistics::ratio_of_medians;

/// By so much longer the program may take for the sake of the victim.
const PRICE: f64 = 0.05;

impl Comparison {
    /// The time within which 99 % of the victim's operations end, without the plan over with it. `None`: there is no victim, or it did
    /// not tell that time in each run.
    pub(in crate::compare) fn relief(&self) -> Option<Ratio> {
        let p99 = |kind| self.arm(kind).and_then(p99_of_runs);
        ratio_of_medians(&p99(ArmKind::Baseline)?, &p99(ArmKind::Plan)?)
    }

    /// What the plan brings to whom it is there for: the victim if there is one, else the program.
    pub(in crate::compare) fn judgement(&self) -> Verdict {
        let Some(relief) = self.relief_that_counts() else {
            return self.verdict();
        };
        if relief.rounds < 2 {
            Verdict::Unknown
        } else if self.costs_too_much() || relief.high < 1.0 - relief.margin(MARGIN) {
            Verdict::Slower
        } else if relief.low > 1.0 + relief.margin(MARGIN) {
            Verdict::Faster
        } else if relief.is_resampled() {
            Verdict::NoDifference
        } else {
            Verdict::Unknown
        }
    }

    /// The judgement for people.
    pub(in crate::compare) fn judgement_in_words(&self) -> String {
        let (Some(relief), Some(speedup)) = (self.relief_that_counts(), self.speedup()) else {
            return self.words();
        };
        let of_victim = format!("{} ({})", in_words(relief), turned(relief));
        let of_program = format!(
            "the program itself is {:.2} times as fast ({speedup})",
            speedup.value
        );
        match self.judgement() {
            Verdict::Faster => format!("{of_victim}; {of_program}"),
            Verdict::Slower if self.costs_too_much() => format!(
                "the plan costs the program more than the {:.0} % that the victim's sake is worth: do not use it here; {of_program}; {of_victim}",
                100.0 * PRICE
            ),
            Verdict::Slower => format!("{of_victim}: do not use it here; {of_program}"),
            Verdict::NoDifference => {
                format!(
                    "no difference to the victim that these runs could show: {of_victim}; {of_program}"
                )
            }
            Verdict::Unknown | Verdict::Fails => {
                format!("too few runs to tell, type --runs 6: {of_victim}; {of_program}")
            }
        }
    }

    /// Of a plan that did nothing, or with which the program does not do the same work, the victim tells nothing either.
    fn relief_that_counts(&self) -> Option<Ratio> {
        let says_something = self.plan_acts && self.is_comparable();
        self.relief().filter(|_| says_something)
    }

    fn costs_too_much(&self) -> bool {
        let speedup = self.speedup();
        speedup.is_some_and(|ratio| ratio.rounds >= 2 && ratio.high < 1.0 / (1.0 + PRICE))
    }
}

fn p99_of_runs(arm: &Arm) -> Option<Vec<f64>> {
    let p99 = |run: &super::Run| Some(run.victim?.p99_ns?.max(1) as f64);
    arm.runs.iter().map(p99).collect()
}

fn in_words(relief: Ratio) -> String {
    let (times, as_what) = match relief.value >= 1.0 {
        true => (relief.value, "short"),
        false => (1.0 / relief.value, "long"),
    };
    let times = match times < 10.0 {
        true => format!("{times:.2}"),
        false => format!("{times:.0}"),
    };
    format!(
        "with the plan, 99 % of the victim's operations end within a time {times} times as {as_what}"
    )
}

/// The ratio as it is told: never below 1.
fn turned(relief: Ratio) -> Ratio {
    match relief.value >= 1.0 {
        true => relief,
        false => Ratio {
            value: 1.0 / relief.value,
            low: 1.0 / relief.high,
            high: 1.0 / relief.low,
            ..relief
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::comparison::tests::comparison;
    use crate::compare::victim::Suffered;

    /// Run times and the victim's p99, without the plan and with it.
    fn beside(baseline: (&[u64], &[u64]), plan: (&[u64], &[u64])) -> Comparison {
        let mut compared = comparison(&[(ArmKind::Baseline, baseline.0), (ArmKind::Plan, plan.0)]);
        for (arm, p99s) in compared.arms.iter_mut().zip([baseline.1, plan.1]) {
            for (run, &p99_ns) in arm.runs.iter_mut().zip(p99s) {
                run.victim = Some(Suffered {
                    p99_ns: Some(p99_ns),
                    ..Suffered::default()
                });
            }
        }
        compared
    }

    #[test]
    fn the_victim_is_who_it_is_about_and_the_program_may_pay_a_little() {
        let compared = beside(
            (&[1000; 6], &[9_000_000; 6]),
            (&[1040; 6], &[9000, 9100, 8900, 9000, 9000, 9000]),
        );
        assert_eq!(compared.verdict(), Verdict::Slower, "of the program alone");
        assert_eq!(compared.judgement(), Verdict::Faster);
        let words = compared.judgement_in_words();
        assert!(words.contains("1000 times as short"), "{words}");
        assert!(
            words.contains("the program itself is 0.96 times as fast"),
            "{words}"
        );
    }

    #[test]
    fn what_the_victim_suffers_is_no_gain_however_fast_the_program_is() {
        let compared = beside((&[1000; 3], &[1000; 3]), (&[500; 3], &[10_000; 3]));
        assert_eq!(compared.verdict(), Verdict::Faster, "of the program alone");
        assert_eq!(compared.judgement(), Verdict::Slower);
        let words = compared.judgement_in_words();
        assert!(
            words.contains("10 times as long (10.00 to 10.00 in 3 rounds): do not use it here"),
            "{words}"
        );
    }

    #[test]
    fn the_victims_sake_is_not_worth_any_price() {
        let compared = beside((&[1000; 6], &[9000; 6]), (&[1100; 6], &[90; 6]));
        assert_eq!(compared.judgement(), Verdict::Slower);
        let words = compared.judgement_in_words();
        assert!(
            words.contains("more than the 5 %") && words.contains("100 times as short"),
            "{words}"
        );
    }

    #[test]
    fn what_chance_does_is_no_judgement() {
        let walls: &[u64] = &[1000; 6];
        let of = |p99s: &[u64]| beside((walls, &[100, 120, 80, 110, 90, 100]), (walls, p99s));
        let same = of(&[90, 100, 110, 80, 120, 100]);
        assert_eq!(same.judgement(), Verdict::NoDifference);
        assert!(
            same.judgement_in_words()
                .starts_with("no difference to the victim")
        );
        let few = beside((&[10, 10], &[100, 80]), (&[10, 10], &[80, 100]));
        assert_eq!(few.judgement(), Verdict::Unknown);
        assert!(few.judgement_in_words().starts_with("too few runs"));
        let one = beside((&[10], &[100]), (&[10], &[1]));
        assert_eq!(one.judgement(), Verdict::Unknown);
    }

    #[test]
    fn without_a_victims_word_the_program_is_judged() {
        let alone = comparison(&[(ArmKind::Baseline, &[4, 4]), (ArmKind::Plan, &[2, 2])]);
        assert_eq!(alone.judgement(), Verdict::Faster);
        assert_eq!(alone.judgement_in_words(), alone.words());
        let mut silent = beside((&[4, 4], &[9, 9]), (&[2, 2], &[90, 90]));
        assert_eq!(silent.judgement(), Verdict::Slower);
        silent.arms[1].runs[1].victim = Some(Suffered::default());
        assert_eq!(silent.judgement(), Verdict::Faster);
    }

    #[test]
    fn a_plan_that_did_nothing_has_relieved_nobody() {
        let mut compared = beside((&[4; 6], &[900; 6]), (&[4; 6], &[9; 6]));
        compared.plan_acts = false;
        assert_eq!(compared.judgement(), Verdict::NoDifference);
        compared.plan_acts = true;
        compared.arms[1].runs[0].exit_code = 139;
        assert_eq!(compared.judgement(), Verdict::Fails);
    }
}
