//! A string of references in simulated memory, and what it takes for it to swap as the recorded run did.

use crate::pace::Pace;
use crate::pace::Use;
use crate::streams::Memory;
use crate::strings::Step;

/// Pages that are hot all the time, and leave no mark, may take so many hundredths of the memory at most. They are reckoned with where fewer
/// swap-ins than so many hundredths of those that were recorded are modelled without,
const MOST_HIDDEN: u64 = 25;
const TOO_FEW: u64 = 80;
/// as many of them as it takes to come to so many.
const AS_MANY: u64 = 90;

/// A string of references to pages, each of which stands for so many.
pub(crate) struct References {
    pub(crate) steps: Vec<Step>,
    pub(crate) pages_each: f64,
    pub(crate) pace: Pace,
}

/// What happens with some memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) swap_ins: u64,
    pub(crate) evictions: u64,
}

impl References {
    /// In memory of so many pages.
    pub(crate) fn simulate(&self, pages: u64) -> Counts {
        self.simulate_some(self.steps.iter().map(Use::Free), pages, self.pace)
    }

    /// Some of the pages, or all.
    pub(crate) fn simulate_some<'a>(
        &self,
        uses: impl IntoIterator<Item = Use<'a>>,
        pages: u64,
        pace: Pace,
    ) -> Counts {
        self.simulate_beside(uses, pages, pace, |_, _| ())
    }

    /// The same, telling of each access to what is streamed in which memory it is.
    pub(crate) fn simulate_beside<'a>(
        &self,
        uses: impl IntoIterator<Item = Use<'a>>,
        pages: u64,
        pace: Pace,
        streamed: impl FnMut(&Step, Memory),
    ) -> Counts {
        let pages = scaled(pages, 1.0 / self.pages_each);
        let outcome = pace.simulate_beside(uses, pages, self.pages_each, streamed);
        Counts {
            swap_ins: scaled(outcome.swap_reads, self.pages_each),
            evictions: scaled(outcome.evictions, self.pages_each),
        }
    }
}

/// Of the pages that fit into memory, those that there is room for beside hot ones. The accesses of what never leaves are not known, so that
/// in the model it leaves at once: a loop that just does not fit beside it would fit, and all its swap-ins would be missing.
pub(crate) fn room_beside_hidden(references: &References, fit: u64, recorded: u64) -> u64 {
    let is_too_few = |pages, hundredths: u64| {
        let modelled = references.simulate(pages).swap_ins;
        modelled * 100 < recorded.saturating_mul(hundredths)
    };
    let with_hidden = |hidden: u64| fit - fit * hidden / 100;
    let cannot_tell = || is_too_few(with_hidden(MOST_HIDDEN), AS_MANY);
    if !is_too_few(fit, TOO_FEW) || cannot_tell() {
        return fit;
    }
    let (mut few, mut enough) = (0, MOST_HIDDEN);
    while enough - few > 1 {
        let between = few.midpoint(enough);
        match is_too_few(with_hidden(between), AS_MANY) {
            true => few = between,
            false => enough = between,
        }
    }
    with_hidden(enough)
}

/// The pace, of that which is known and one by which statistics get older, with which as much is swapped as was recorded. A store of columns swaps 210,000 times
/// in some runs and 337,000 in others, and in simulation goes one way or the other by how old statistics are (in the kernel something else may decide:
/// to read them each ms changes nothing). Which way a run took is told by how often it swapped.
pub(crate) fn pace_as_recorded(known: Pace, recorded: u64, swap_ins: impl Fn(Pace) -> u64) -> Pace {
    let missing = |pace| recorded.saturating_sub(swap_ins(pace));
    let of_known = missing(known);
    let are_too_few = of_known * 100 > recorded * (100 - TOO_FEW);
    match are_too_few && missing(known.staler()) * 2 < of_known {
        true => known.staler(),
        false => known,
    }
}

/// So many times as many.
pub(crate) fn scaled(count: u64, times: f64) -> u64 {
    (count as f64 * times).round() as u64
}

impl Counts {
    pub(crate) const NONE: Self = Self {
        swap_ins: 0,
        evictions: 0,
    };

    /// Evictions that made room for a first touch.
    pub(crate) fn reclaimed(&self) -> u64 {
        self.evictions.saturating_sub(self.swap_ins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Sampling;

    #[test]
    fn some_pages_in_some_memory_stand_for_all_in_all() {
        const PAGES: u64 = 1 << 16;
        let mut random = crate::random::Random::new(5);
        // Some are accessed far more often than others.
        let page = |at: u64| match at {
            ..PAGES => at,
            _ => ((PAGES as f64 * random.uniform() * random.uniform()) as u64 * 40_503) % PAGES,
        };
        let steps: Vec<Step> = (0..10 * PAGES)
            .map(page)
            .enumerate()
            .map(|(at, page)| Step::access(at as u64, page as u32))
            .collect();
        let sampling = Sampling::first(PAGES as usize, None, |one_in| one_in == 4);
        let is_sampled = |step: &&Step| sampling.takes(step.page.into());
        let some = References {
            steps: steps.iter().filter(is_sampled).copied().collect(),
            pages_each: 4.0,
            pace: Pace::FRESH,
        };
        let all = References {
            steps,
            pages_each: 1.0,
            pace: Pace::FRESH,
        };
        for pages in [PAGES / 8, PAGES / 2, PAGES / 4 * 3] {
            let (some, all) = (some.simulate(pages), all.simulate(pages));
            for (some, all) in [
                (some.swap_ins, all.swap_ins),
                (some.reclaimed(), all.reclaimed()),
            ] {
                assert!(some.abs_diff(all) * 20 < all, "{pages}: {some} {all}");
            }
        }
    }

    #[test]
    fn statistics_may_have_been_older_where_that_explains_what_was_recorded() {
        let meta = pagewise_trace::Meta::default();
        let known = Pace::of(&meta, None);
        let chosen = |of_known, of_staler| {
            pace_as_recorded(known, 1000, |pace| match pace == known {
                true => of_known,
                false => of_staler,
            })
        };
        assert_eq!(chosen(600, 900), known.staler());
        // Most of what is missing is missing then, too, or next to nothing is.
        assert_eq!(chosen(600, 700), known);
        assert_eq!(chosen(900, 1000), known);
        assert_eq!(chosen(1200, 1000), known);
    }

    #[test]
    fn a_loop_that_missed_all_did_not_fit_beside_what_is_hot() {
        let steps = (0..100_000).map(|at| Step::access(at, (at % 1000) as u32));
        let loops = References {
            steps: steps.collect(),
            pages_each: 1.0,
            pace: Pace::FRESH,
        };
        let all = 99_000;
        let room = room_beside_hidden(&loops, 1050, all);
        assert!((800..=1000).contains(&room), "{room}");
        let swap_ins = loops.simulate(room).swap_ins;
        assert!(swap_ins * 100 >= all * AS_MANY, "{swap_ins}");
        // What the model has by itself is left as it is, and so is what no hot pages would explain.
        assert_eq!(room_beside_hidden(&loops, 900, all), 900);
        assert_eq!(room_beside_hidden(&loops, 1050, 0), 1050);
        assert_eq!(room_beside_hidden(&loops, 2000, all), 2000);
    }
}
