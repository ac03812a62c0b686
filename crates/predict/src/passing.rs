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

use crate::strings::Step;

/// References given to the simulator at once: in the time that as many misses take, statistics are brought up to date once or twice.
const CHUNK: usize = 256;
/// How often the kernel brings the statistics of cgroups up to date by itself (`FLUSH_TIME`, mm/memcontrol.c, 6.12).
const BY_ITSELF_NS: f64 = 2e9;
/// How often whoever holds the killer of a v1 cgroup has them brought up to date while a program is at its limit
/// (`OomRelief`, of the crate `host`).
const BY_US_NS: f64 = 8e6;
/// What a miss takes where that is not known: as from zram.
const USUAL_SWAP_IN_NS: f64 = 10_000.0;

/// How time passes, and how old the statistics get that reclaim goes by.
///
/// By them the kernel decides whether pages that came back may be made inactive again. Where they are old it does so in few passes,
/// so that half of memory stays active, and a loop in no order that does not fit misses less by half than with statistics as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing {
    /// What a swap-in adds to the program's own time, ns.
    swap_in_ns: f64,
    /// Statistics are so old at most, ns; `None`: they are as all is.
    told_each_ns: Option<f64>,
}

impl Passing {
    /// With statistics that are as all is.
    #[cfg(test)]
    pub(crate) const FRESH: Self = Self {
        swap_in_ns: USUAL_SWAP_IN_NS,
        told_each_ns: None,
    };

    /// As in a recording, in which swap-ins took so long.
    pub(crate) fn of(meta: &Meta, swap_in_ns: Option<f64>) -> Self {
        let is_v1 = meta.limit.kind.as_deref() == Some("memory.limit_in_bytes");
        Self {
            swap_in_ns: swap_in_ns.unwrap_or(USUAL_SWAP_IN_NS),
            told_each_ns: Some(if is_v1 { BY_US_NS } else { BY_ITSELF_NS }),
        }
    }

    /// Where each page stands for so many, and each miss takes as many times as long.
    pub(crate) fn of_each(self, pages_each: f64) -> Self {
        Self {
            swap_in_ns: self.swap_in_ns * pages_each,
            ..self
        }
    }

    /// What a string of references does in so many pages of memory.
    pub(crate) fn simulate<'a>(
        self,
        steps: impl IntoIterator<Item = &'a Step>,
        pages: u64,
    ) -> Outcome {
        let mut simulation = self.memory(pages);
        let mut chunk: Vec<Reference> = Vec::with_capacity(CHUNK);
        let (mut waited_ns, mut due_ns) = (0.0, 0.0);
        for step in steps {
            let now_ns = step.at as f64 + waited_ns;
            let is_due = self.told_each_ns.is_some() && now_ns >= due_ns;
            if step.gone || is_due || chunk.len() == CHUNK {
                simulation.feed(&chunk);
                chunk.clear();
                waited_ns = simulation.outcome().swap_reads as f64 * self.swap_in_ns;
            }
            if let Some(each_ns) = self.told_each_ns.filter(|_| is_due) {
                simulation.tell_counters();
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

    fn memory(self, pages: u64) -> Simulation {
        // Costs do not matter to what is counted here.
        let storage = Models::built_in()
            .storage("ufs3.1", "zram-lz4", Level::Typical)
            .expect("they are built in");
        let frames = pages.clamp(1, u64::from(pagewise_simulate::MAX_PAGES)) as u32;
        let counters = match self.told_each_ns {
            Some(_) => Counters::Told,
            None => Counters::Fresh,
        };
        let settings = Settings {
            counters,
            ..Settings::new(PolicyKind::Linux, frames, storage)
        };
        Simulation::new(&settings).expect("some memory, and a policy of the past")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let swap_ins = |told_each_ns| {
            let passing = Passing {
                told_each_ns,
                ..Passing::FRESH
            };
            let outcome = passing.simulate(&steps, u64::from(PAGES) / 10 * 9);
            outcome.swap_reads
        };
        let (fresh, old) = (swap_ins(None), swap_ins(Some(BY_US_NS)));
        assert!(old * 10 < fresh * 8, "{old} of {fresh}");
        // Ever up to date is as good as fresh, but for what happens within a chunk.
        let often = swap_ins(Some(1.0));
        assert!(often * 10 > fresh * 9, "{often} of {fresh}");
    }

    #[test]
    fn a_v1_cgroup_is_looked_after_and_others_are_told_by_the_kernel() {
        let of = |kind: &str| {
            let mut meta = Meta::default();
            meta.limit.kind = Some(kind.to_owned());
            Passing::of(&meta, None).told_each_ns
        };
        assert_eq!(of("memory.limit_in_bytes"), Some(BY_US_NS));
        assert_eq!(of("memory.max"), Some(BY_ITSELF_NS));
    }
}
