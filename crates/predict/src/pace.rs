//! A string of references in simulated memory, as time passes.

use pagewise_simulate::Counters;
use pagewise_simulate::Level;
use pagewise_simulate::Models;
use pagewise_simulate::Outcome;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;
use pagewise_trace::Meta;

use crate::streams::Memory;
use crate::strings::Step;

/// References given to the simulator at once at most.
const MOST_AT_ONCE: f64 = 4096.0;
/// References that are not simulated yet, at most, when it is told what came back so far.
const MOST_UNTOLD: usize = 64;
/// How often the kernel brings the statistics of cgroups up to date by itself (`FLUSH_TIME`, mm/memcontrol.c, 6.12).
const BY_ITSELF_NS: f64 = 2e9;
/// How often whoever holds the killer of a v1 cgroup has them brought up to date while a program is at its limit
/// (`OomRelief`, of the crate `host`).
const BY_US_NS: f64 = 8e6;
/// How much older statistics are tried, where fewer swap-ins are modelled than were recorded.
const STALER: f64 = 4.0;
/// What the recorder tells of its cost where it has looked after the limit so.
const LOOKED_AFTER: &str = "limit_raised_times";
/// What a swap-in takes where that is not known: as from zram.
const USUAL_SWAP_IN_NS: f64 = 10_000.0;

/// What happens to a page, in order of time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use<'a> {
    /// It is accessed or ends, and may leave memory in between.
    Free(&'a Step),
    /// It is accessed or ends, and is read in ahead of that and dropped after it.
    Streamed(&'a Step),
    /// It comes, and stays in memory until it ends.
    Locked,
    /// That is over.
    Unlocked,
}

/// How fast time passes, and how old the statistics get that reclaim goes by.
///
/// By them the kernel decides whether active pages may be made inactive again, and whether what comes back was away for short enough
/// to be active. Where they are old it makes pages inactive in few passes only, so that half of memory stays active: a list in no order
/// misses half as often at 90 % of its memory as it would by statistics as they are (measured on 6.18, cgroup v1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// What a swap-in adds to the program's own time, ns.
    swap_in_ns: f64,
    /// Statistics are so old at most, ns; `None`: they are as all is.
    flushed_each_ns: Option<f64>,
}

impl Pace {
    /// With statistics that are as all is.
    #[cfg(test)]
    pub(crate) const FRESH: Self = Self {
        swap_in_ns: USUAL_SWAP_IN_NS,
        flushed_each_ns: None,
    };

    /// As in a recording, in which swap-ins took so long.
    pub(crate) fn of(meta: &Meta, swap_in_ns: Option<f64>) -> Self {
        let by_us = meta.cost.contains_key(LOOKED_AFTER);
        Self {
            swap_in_ns: swap_in_ns.unwrap_or(USUAL_SWAP_IN_NS),
            flushed_each_ns: Some(if by_us { BY_US_NS } else { BY_ITSELF_NS }),
        }
    }

    /// With statistics that get older.
    pub(crate) fn staler(self) -> Self {
        Self {
            flushed_each_ns: self.flushed_each_ns.map(|each_ns| each_ns * STALER),
            ..self
        }
    }

    /// With swap-ins that take so long.
    pub(crate) fn with_swap_ins_of(self, swap_in_ns: f64) -> Self {
        Self { swap_in_ns, ..self }
    }

    /// What a string of references does in so many pages of memory, of which each stands for as many as `pages_each` says.
    #[cfg(test)]
    pub(crate) fn simulate<'a>(
        self,
        uses: impl IntoIterator<Item = Use<'a>>,
        pages: u64,
        pages_each: f64,
    ) -> Outcome {
        self.simulate_beside(uses, pages, pages_each, |_, _| ())
    }

    /// The same, telling of each access to what is streamed in which memory it is.
    pub(crate) fn simulate_beside<'a>(
        self,
        uses: impl IntoIterator<Item = Use<'a>>,
        pages: u64,
        pages_each: f64,
        mut streamed: impl FnMut(&Step, Memory),
    ) -> Outcome {
        let most = frames(pages);
        let mut locked = 0;
        let mut simulation = self.memory(most, pages_each);
        let swap_in_ns = self.swap_in_ns * pages_each;
        let at_once = self.at_once(swap_in_ns);
        let mut chunk: Vec<Reference> = Vec::with_capacity(at_once);
        let (mut waited_ns, mut due_ns) = (0.0, 0.0);
        for one in uses {
            let step = match one {
                Use::Free(step) => step,
                Use::Streamed(step) => {
                    if chunk.len() >= MOST_UNTOLD {
                        simulation.feed(&chunk);
                        chunk.clear();
                    }
                    let memory = Memory {
                        came: simulation.outcome().swap_reads,
                        room: most.saturating_sub(locked).into(),
                    };
                    streamed(step, memory);
                    continue;
                }
                Use::Locked | Use::Unlocked => {
                    simulation.feed(&chunk);
                    chunk.clear();
                    locked = match one {
                        Use::Unlocked => locked - 1,
                        _ => locked + 1,
                    };
                    simulation.resize(most.saturating_sub(locked));
                    continue;
                }
            };
            let now_ns = step.at as f64 + waited_ns;
            let is_due = self.flushed_each_ns.is_some() && now_ns >= due_ns;
            if step.gone || is_due || chunk.len() == at_once {
                simulation.feed(&chunk);
                chunk.clear();
                waited_ns = simulation.outcome().swap_reads as f64 * swap_in_ns;
            }
            if let Some(each_ns) = self.flushed_each_ns.filter(|_| is_due) {
                simulation.flush_counters();
                due_ns = now_ns + each_ns;
            }
            match step.gone {
                true => _ = simulation.forget(step.page),
                false => chunk.extend(step.reference()),
            }
        }
        simulation.feed(&chunk);
        simulation.outcome()
    }

    /// As many references as miss within a quarter of the time in which statistics get old.
    fn at_once(self, swap_in_ns: f64) -> usize {
        let misses = |each_ns: f64| each_ns / 4.0 / swap_in_ns.max(1.0);
        self.flushed_each_ns
            .map_or(MOST_AT_ONCE, misses)
            .clamp(1.0, MOST_AT_ONCE) as usize
    }

    fn memory(self, frames: u32, pages_each: f64) -> Simulation {
        // Costs do not matter to what is counted here.
        let storage = Models::built_in()
            .storage("ufs3.1", "zram-lz4", Level::Typical)
            .expect("they are built in");
        let counters = match self.flushed_each_ns {
            Some(_) => Counters::Flushed,
            None => Counters::Fresh,
        };
        let settings = Settings {
            counters,
            pages_each: pages_each.round() as u32,
            ..Settings::new(PolicyKind::Linux, frames, storage)
        };
        Simulation::new(&settings).expect("some memory, and a policy of the past")
    }
}

fn frames(pages: u64) -> u32 {
    pages.clamp(1, u64::from(pagewise_simulate::MAX_PAGES)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// All pages in order of their numbers, then ten times in another order that is always the same, each a microsecond.
    fn list(pages: u32) -> Vec<Step> {
        // Odd, so that it goes through all pages of a power of two.
        let other = |at: u32| (at % pages).wrapping_mul(40_503) % pages;
        let order = (0..pages).chain((0..10 * pages).map(other));
        let steps = order.zip(0..);
        steps
            .map(|(page, at)| Step::access(at * 1000, page))
            .collect()
    }

    #[test]
    fn by_old_statistics_half_of_memory_stays_active() {
        const PAGES: u32 = 1 << 16;
        let steps = list(PAGES);
        let swap_ins = |flushed_each_ns| {
            let pace = Pace {
                flushed_each_ns,
                ..Pace::FRESH
            };
            let outcome =
                pace.simulate(steps.iter().map(Use::Free), u64::from(PAGES) / 10 * 9, 1.0);
            outcome.swap_reads
        };
        let (fresh, old) = (swap_ins(None), swap_ins(Some(BY_US_NS)));
        assert!(old * 10 < fresh * 8, "{old} of {fresh}");
        // Ever up to date is as good as fresh, but for what happens within a reclaim.
        let often = swap_ins(Some(1.0));
        assert!(often * 10 > fresh * 9, "{often} of {fresh}");
        // As a kernel has it that nobody asks: reclaim never gets stuck for good.
        let by_itself = swap_ins(Some(BY_ITSELF_NS));
        assert!((1..=fresh).contains(&by_itself), "{by_itself} of {fresh}");
    }

    #[test]
    fn of_pages_that_stand_for_several_as_much_less_is_reclaimed_at_a_time() {
        const PAGES: u64 = 1 << 13;
        const EACH: u64 = 16;
        let mut random = Random::new(7);
        let mut page = || (random.uniform() * PAGES as f64) as u64;
        let steps: Vec<Step> = (0..60 * PAGES)
            .map(|at| Step::access(at * 1000, page() as u32))
            .collect();
        let chosen = steps.iter().filter(|step| u64::from(step.page) % EACH == 0);
        let frames = PAGES / 8 * 7;
        let all = Pace::FRESH
            .simulate(steps.iter().map(Use::Free), frames, 1.0)
            .swap_reads;
        let some = Pace::FRESH.simulate(chosen.map(Use::Free), frames / EACH, EACH as f64);
        let off = (some.swap_reads * EACH) as f64 / all as f64 - 1.0;
        // By 32 pages at a time, of 448, it would be a third.
        assert!(off.abs() < 0.05, "{off} of {all}");
    }

    #[test]
    fn no_more_is_fed_at_once_than_misses_while_statistics_get_old() {
        let pace = Pace {
            flushed_each_ns: Some(BY_US_NS),
            ..Pace::FRESH
        };
        assert_eq!(pace.at_once(10_000.0), 200);
        assert_eq!(pace.at_once(16.0 * 10_000.0), 12);
        assert_eq!(pace.at_once(1e9), 1);
        assert_eq!(Pace::FRESH.at_once(10_000.0), 4096);
    }

    #[test]
    fn who_holds_the_killer_reads_statistics_and_else_the_kernel_brings_them_up_to_date() {
        let mut meta = Meta::default();
        assert_eq!(Pace::of(&meta, None).flushed_each_ns, Some(BY_ITSELF_NS));
        meta.cost.insert(LOOKED_AFTER.to_owned(), 0.0);
        assert_eq!(Pace::of(&meta, None).flushed_each_ns, Some(BY_US_NS));
    }
}
