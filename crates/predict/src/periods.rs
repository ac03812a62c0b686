//! Pages that are accessed once a round, in whatever order: their accesses are known though they were in memory.
//!
//! Of a region in which most returns are about as long as each other, or a few times that, that is how long a round takes. Accesses at random are
//! not: a page stays for as long as others need to drive it out, and then away for as long as chance has it.

use crate::history::History;
use crate::history::What;
use crate::sweeps::Sweeps;

/// Returns of a region that tell a period.
const ENOUGH: usize = 128;
/// Of all returns, so many take a round, or, of pages that were still in memory, some rounds.
const MOST: f64 = 0.75;
const MOST_ROUNDS: u64 = 3;
const MANY: u64 = 4;
/// One in so many regions may have begun before its first round.
const EARLY: usize = 16;
/// So many others are asked when a round began, at most about.
const MOST_ASKED: usize = 256;
/// By so large a part a round may be longer or shorter.
const PRECISION: u64 = 8;

/// How a region is gone through, in own time, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rounds {
    /// How long one takes.
    pub(crate) length: u64,
    /// When the first began, and the last ended.
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

impl Rounds {
    /// Whether it was gone through often enough to say what was before the first fault: a round or two may be chance.
    pub(crate) fn are_many(&self) -> bool {
        (self.end - self.begin) / self.length >= MANY
    }
}

/// What is known of a region's faults.
#[derive(Clone, Debug, Default)]
struct Faults {
    first: Option<u64>,
    /// When a page of it came back first.
    first_return: Option<u64>,
    last: u64,
    /// From the first fault of a page to its next: what it is filled by need not be a round.
    first_returns: Vec<u64>,
    /// From any other fault of a page to its next.
    returns: Vec<u64>,
}

/// Of each region; `None`: it is not gone through in rounds. `regions`: of each page, the number of its region. Faults of sweeps
/// do not count, as these are known better.
pub(crate) fn find(history: &History, sweeps: &Sweeps, regions: &[u32]) -> Vec<Option<Rounds>> {
    let count = regions.iter().max().map_or(0, |&last| last as usize + 1);
    let mut of_regions = vec![Faults::default(); count];
    let mut last: Vec<Option<u64>> = vec![None; history.keys.len()];
    let mut has_returned = vec![false; history.keys.len()];
    for (moment, &swept) in history.moments.iter().zip(&sweeps.swept) {
        let last = &mut last[moment.page as usize];
        match moment.what {
            What::Faulted => {
                let before = last.replace(moment.at).filter(|_| !swept);
                let faults = &mut of_regions[regions[moment.page as usize] as usize];
                if let Some(before) = before {
                    let has_returned = &mut has_returned[moment.page as usize];
                    let returns = match std::mem::replace(has_returned, true) {
                        true => &mut faults.returns,
                        false => &mut faults.first_returns,
                    };
                    returns.push(moment.at - before);
                    faults.first_return = faults.first_return.or(Some(moment.at));
                }
                faults.first = faults.first.or(Some(moment.at));
                faults.last = moment.at;
            }
            What::Touched | What::Gone => *last = None,
            What::Evicted => {}
        }
    }
    let mut rounds: Vec<Option<Rounds>> = of_regions.into_iter().map(Faults::rounds).collect();
    begin_together(&mut rounds);
    rounds
}

/// What was still in memory has no faults in its first round: it began when others' did that take as long, but at most a round before its
/// own first fault. A few of the others began early by chance.
fn begin_together(rounds: &mut [Option<Rounds>]) {
    let mut all: Vec<Rounds> = rounds.iter().flatten().copied().collect();
    all.sort_unstable_by_key(|found| found.length);
    for found in rounds.iter_mut().flatten().filter(|found| found.are_many()) {
        let near = found.length / PRECISION;
        let first = all.partition_point(|other| other.length < found.length - near);
        let after = all.partition_point(|other| other.length <= found.length + near);
        let some = ((after - first) / MOST_ASKED).max(1);
        let alike = all[first..after].iter().step_by(some);
        let round_before = found.begin.saturating_sub(found.length)..=found.begin;
        let mut begins: Vec<u64> = alike
            .map(|other| other.begin)
            .chain([found.begin])
            .filter(|begin| round_before.contains(begin))
            .collect();
        let early = begins.len() / EARLY;
        found.begin = *begins.select_nth_unstable(early).1;
    }
}

impl Faults {
    fn rounds(mut self) -> Option<Rounds> {
        let tell_by_themselves = self.returns.len() >= self.first_returns.len();
        let length = match tell_by_themselves {
            true => period(&mut self.returns)?,
            false => {
                self.returns.append(&mut self.first_returns);
                period(&mut self.returns)?
            }
        };
        let is_filled_so = is_most(agreement(&self.first_returns, length), &self.first_returns);
        let begin = match tell_by_themselves && !is_filled_so {
            true => self.first_return?,
            false => self.first?,
        };
        Some(Rounds {
            length,
            begin,
            end: self.last.saturating_add(length),
        })
    }
}

/// What most of these are about, or a few times that, if most are.
fn period(returns: &mut [u64]) -> Option<u64> {
    if returns.len() < ENOUGH {
        return None;
    }
    returns.sort_unstable();
    let round = densest(returns);
    is_most(agreement(returns, round), returns).then_some(round)
}

fn is_most(agree: usize, of: &[u64]) -> bool {
    agree as f64 > MOST * of.len() as f64
}

/// How many of these are about a round, or a few.
fn agreement(returns: &[u64], round: u64) -> usize {
    let takes_rounds = |&&time: &&u64| {
        let rounds = (time + round / 2) / round;
        let nearest = rounds * round;
        (1..=MOST_ROUNDS).contains(&rounds) && time.abs_diff(nearest) * PRECISION <= nearest
    };
    match round {
        0 => 0,
        _ => returns.iter().filter(takes_rounds).count(),
    }
}

/// The middle of where most of these lie beside each other; ascending.
fn densest(returns: &[u64]) -> u64 {
    let (mut most, mut end) = (0..0, 0);
    for (begin, &shortest) in returns.iter().enumerate() {
        let longest = shortest + 2 * shortest / PRECISION;
        while end < returns.len() && returns[end] <= longest {
            end += 1;
        }
        if end - begin > most.len() {
            most = begin..end;
        }
    }
    returns[(most.start + most.end) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_as_long_begins_together_but_no_more_than_a_round_before_its_faults() {
        let of = |length, begin| {
            Some(Rounds {
                length,
                begin,
                end: 100_000,
            })
        };
        let mut rounds = vec![of(1000, 10_000); 40];
        rounds[3] = None;
        rounds[7] = of(1050, 10_700);
        rounds[8] = of(1000, 15_000);
        // Another loop, and faults by chance before the first round.
        rounds[9] = of(5000, 7000);
        rounds[10] = of(1000, 9100);
        rounds[11] = of(1100, 2000);
        begin_together(&mut rounds);
        let begins =
            [0, 7, 8, 9, 10, 11].map(|region: usize| rounds[region].map(|found| found.begin));
        let expected = [10_000, 10_000, 15_000, 7000, 9100, 2000];
        assert_eq!(begins, expected.map(Some));
        assert_eq!(rounds[3], None);
    }

    #[test]
    fn a_period_is_what_most_returns_are_about_or_a_few_times_that() {
        let of = |mut returns: Vec<u64>| period(&mut returns);
        let round = |number: u64| 1000 + number % 100;
        assert_eq!(of((0..100).map(round).collect()), None, "too few");
        let found = of((0..1000).map(round).collect()).expect("all are alike");
        assert!((1040..=1060).contains(&found), "{found}");
        // A quarter was in memory for a round.
        let skipped = |number: u64| round(number) * if number.is_multiple_of(4) { 2 } else { 1 };
        let found = of((0..1000).map(skipped).collect()).expect("most are alike");
        assert!((1000..=1150).contains(&found), "{found}");
        // As long as it takes to leave, and then as chance has it.
        let mut random = crate::random::Random::new(5);
        for stay in [0, 500, 1000, 2000] {
            let by_chance = (0..10_000).map(|_| stay + (1000.0 * random.exponential()) as u64);
            assert_eq!(of(by_chance.collect()), None, "{stay}");
        }
        assert_eq!(of(vec![0; 1000]), None);
    }

    /// Two passes fill it, of which the second is the first in which pages come back; then three rounds of another length.
    #[test]
    fn what_is_filled_at_another_pace_is_gone_through_in_rounds_from_then_on() {
        let pages = 200;
        let faults = |paces: &[u64]| {
            let mut faults = Faults {
                first: Some(5),
                first_return: Some(700),
                last: 10_000,
                ..Faults::default()
            };
            for page in 0..pages {
                faults.first_returns.push(paces[0] + page % 9);
                let later = paces[1..].iter().map(|pace| pace + page % 9);
                faults.returns.extend(later);
            }
            faults
                .rounds()
                .map(|found| (found.length / 100, found.begin))
        };
        assert_eq!(faults(&[700, 300, 300]), Some((3, 700)));
        assert_eq!(
            faults(&[300, 300, 300]),
            Some((3, 5)),
            "so it is filled, too"
        );
        assert_eq!(faults(&[700, 300]), Some((3, 700)));
        assert_eq!(faults(&[700, 300, 900, 1700]), None);
        assert_eq!(faults(&[300]), Some((3, 5)));
    }
}
