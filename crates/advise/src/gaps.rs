//! Times between swap-ins, in which a program uses what it has.

use pagewise_predict::Clock;

use crate::unseen::Moment;

/// A pause is so many times as long as the time between two swap-ins in the middle,
const PAUSE: u64 = 64;
/// and at least so long, in own time, ns.
const LEAST_PAUSE_NS: u64 = 1_000_000;
/// Evictions between two swap-ins, at the time between two in the middle each, that make up so large a part of the time in between make room
/// for new pages: the program goes through these, and not again through what it has.
const FILLS: f64 = 0.25;
/// Of the swap-ins, those before so large a part are not looked at: some pages come back while memory is filled.
const FILLING: f64 = 0.01;

/// From one swap-in to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The object and its page that came back, if that is known.
    pub(crate) of: Option<(usize, u64)>,
    /// When it came, and when the next one did, ns.
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
    /// In between.
    pub(crate) evictions: u64,
    /// Own time, ns, and waiting that was not timed.
    pub(crate) all_ns: u64,
    /// Of that, what is own time for sure.
    pub(crate) worked_ns: u64,
}

impl Gap {
    pub(crate) fn length_ns(&self) -> u64 {
        self.until_ns - self.from_ns
    }

    /// Whether the program goes on with what it has, for long; `page_ns`: [`page_ns`].
    pub(crate) fn is_pause(&self, page_ns: u64) -> bool {
        let fills = self.evictions as f64 * page_ns as f64 >= FILLS * self.worked_ns as f64;
        self.worked_ns >= (PAUSE * page_ns).max(LEAST_PAUSE_NS) && !fills
    }
}

/// The own time between two swap-ins in the middle, ns; `None`: there are not two.
pub(crate) fn page_ns(gaps: &[Gap]) -> Option<u64> {
    let mut sorted: Vec<u64> = gaps.iter().map(|gap| gap.worked_ns).collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// How many of the first are of the time when memory was filled.
pub(crate) fn filling(gaps: &[Gap]) -> usize {
    (FILLING * gaps.len() as f64) as usize
}

/// All of a recording, by the program's own time and moments in order of time.
pub(crate) fn gaps(clock: &Clock, moments: &[Moment]) -> Vec<Gap> {
    let evictions = moments.iter().filter(|moment| moment.is_eviction());
    let mut evicted = evictions.map(Moment::time_ns).peekable();
    let swap_ins: Vec<&Moment> = moments.iter().filter(|one| one.is_swap_in()).collect();
    let longest = swap_ins.iter().map(|moment| moment.wait().1).max();
    let gaps = swap_ins.windows(2).map(|pair| {
        let [from_ns, until_ns] = [0, 1].map(|at| pair[at].time_ns());
        let all_ns = clock.own(until_ns).saturating_sub(clock.own(from_ns));
        while evicted.next_if(|&at| at <= from_ns).is_some() {}
        let in_gap = std::iter::from_fn(|| evicted.next_if(|&at| at <= until_ns));
        Gap {
            of: pair[0].page(),
            from_ns,
            until_ns,
            evictions: in_gap.count() as u64,
            all_ns,
            worked_ns: match pair.iter().all(|moment| moment.is_timed()) {
                true => all_ns,
                // It may have waited for a page that another had asked for.
                false => all_ns.saturating_sub(longest.unwrap_or(0)),
            },
        }
    });
    gaps.collect()
}
