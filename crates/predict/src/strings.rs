//! A string of references that could have been the program's: what is known, what sweeps passed over, and accesses at
//! random to pages in memory, as often as their like were accessed when they were away.

use pagewise_simulate::Reference;

use crate::ages::Ages;
use crate::history::History;
use crate::history::What;
use crate::rates::Rates;
use crate::sweeps::Sweeps;

/// Accesses at random that are made up at most.
const MOST: f64 = 2e6;
/// Parts of the run in which a page's accesses may count once.
const FINEST: u64 = 4096;

/// Their place among steps of the same time.
const RANDOM: u32 = u32::MAX / 2;

/// An access, or the end of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    pub(crate) at: u64,
    /// Of the same time: sweeps before the fault they led to.
    order: u32,
    pub(crate) page: u32,
    pub(crate) gone: bool,
}

impl Step {
    #[cfg(test)]
    pub(crate) fn access(at: u64, page: u32) -> Step {
        Step {
            at,
            order: u32::MAX,
            page,
            gone: false,
        }
    }

    pub(crate) fn reference(&self) -> Option<Reference> {
        Reference::new(self.page, true, false)
    }
}

/// The whole string; with `unnoticed` also accesses that would have left no mark.
pub(crate) fn build(
    history: &History,
    known: &[Step],
    rates: &Rates,
    ages: &Ages,
    unnoticed: bool,
    seed: u64,
) -> Vec<Step> {
    let mut steps = known.to_vec();
    let spans = spans(history, ages, unnoticed, &mut steps);
    add_random(history, &spans, rates, ages, seed, &mut steps);
    steps.sort_unstable();
    steps
}

/// What is known, in order of time: first touches, faults, what sweeps passed over.
pub(crate) fn known(history: &History, sweeps: &Sweeps) -> Vec<Step> {
    let mut steps = Vec::new();
    for moment in &history.moments {
        let gone = match moment.what {
            What::Touched | What::Faulted => false,
            What::Gone => true,
            What::Evicted => continue,
        };
        steps.push(Step {
            at: moment.at,
            order: u32::MAX,
            page: moment.page,
            gone,
        });
    }
    for passing in &sweeps.passings {
        let pages = u64::from(passing.after - passing.first);
        for (number, page) in (0..).zip(passing.first..passing.after) {
            let at = passing.begin + (passing.end - passing.begin) * (number + 1) / (pages + 1);
            steps.push(Step {
                at,
                order: number as u32,
                page,
                gone: false,
            });
        }
    }
    steps.sort_unstable();
    steps
}

/// When a page was in memory and may have been accessed: page, begin, end.
type Span = (u32, u64, u64);

/// Those of all pages. Last accesses that are known to the moment go to `steps`.
fn spans(history: &History, ages: &Ages, unnoticed: bool, steps: &mut Vec<Step>) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut here_since = vec![None; history.keys.len()];
    for moment in &history.moments {
        let page = moment.page;
        let since: &mut Option<u64> = &mut here_since[page as usize];
        match moment.what {
            What::Touched => *since = since.or(Some(moment.at)),
            What::Faulted => *since = Some(moment.at),
            What::Gone => spans.extend(since.take().map(|since| (page, since, moment.at))),
            What::Evicted => {
                let Some(since) = since.take() else {
                    continue;
                };
                if let Some(last) = ages.last_access(since, moment.at) {
                    spans.push((page, since, last));
                    steps.push(Step {
                        at: last,
                        order: RANDOM,
                        page,
                        gone: false,
                    });
                } else if unnoticed {
                    let until = ages.unnoticed(since, moment.at);
                    spans.extend(until.map(|until| (page, since, until)));
                }
            }
        }
    }
    let rest = (0..).zip(here_since);
    spans.extend(rest.filter_map(|(page, since)| Some((page, since?, history.end))));
    spans
}

/// Accesses at random while pages were in memory.
fn add_random(
    history: &History,
    spans: &[Span],
    rates: &Rates,
    ages: &Ages,
    seed: u64,
    steps: &mut Vec<Step>,
) {
    let begin = history.moments.first().map_or(0, |moment| moment.at);
    let run = history.end.saturating_sub(begin).max(1);
    let mut finest = FINEST;
    while finest > 16 && expected(spans, rates, (run / finest).max(1)) > MOST {
        finest /= 2;
    }
    let tick = (run / finest).max(1);
    let mut random = Random(seed | 1);
    for &(page, since, until) in spans {
        let mut at = since;
        while at < until {
            let (rate, holds) = rates.rate(page, at);
            let gap = random.exponential() / rate;
            // It would hardly have stayed otherwise.
            let longest = ages.longest(at) as f64 * 2.0;
            let gap = if gap.is_finite() {
                gap.min(longest).max(tick as f64)
            } else {
                longest
            };
            let next = at.saturating_add(gap as u64);
            if next >= holds.min(until) {
                // Memoryless: from the end of the window on it is another rate.
                at = holds.min(until);
                if rate * (tick as f64) < 1.0 {
                    continue;
                }
            } else {
                at = next;
            }
            if at < until {
                steps.push(Step {
                    at,
                    order: RANDOM,
                    page,
                    gone: false,
                });
            }
        }
    }
}

fn expected(spans: &[Span], rates: &Rates, tick: u64) -> f64 {
    let mut sum = 0.0;
    for &(page, since, until) in spans.iter().step_by(16) {
        let mut at = since;
        while at < until {
            let (rate, holds) = rates.rate(page, at);
            let end = holds.min(until);
            sum += (end - at) as f64 * rate.min(1.0 / tick as f64);
            at = end;
        }
    }
    sum * 16.0
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn exponential(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        -((bits as f64 + 1.0) / (1u64 << 53) as f64).ln()
    }
}
