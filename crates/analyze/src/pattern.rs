//! In what order an object's pages come back from swap.

use std::collections::HashMap;

/// How a program goes through an object, seen by its swap-ins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Page after page, once through.
    Sequential,
    /// Page after page, again and again.
    Loop,
    /// In equal steps of more than one page.
    Strided,
    /// In no order.
    Random,
    /// A few pages again and again.
    Hot,
    /// Each page about once, in no order.
    Once,
}

impl Pattern {
    /// The word for it in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Loop => "loop",
            Self::Strided => "strided",
            Self::Random => "random",
            Self::Hot => "hot",
            Self::Once => "once",
        }
    }
}

/// Fewer swap-ins than this show no pattern.
const FEWEST: u64 = 32;
/// Swap readahead (8 pages) and neighbours that stayed resident leave gaps in a sequential sweep.
const NEAR: i64 = 16;
/// A pattern holds if this share of steps keeps it.
const MOST: f64 = 0.6;
/// More rounds than this count as "again".
const AGAIN: f64 = 1.5;
/// A hot set: its pages come back this often.
const HOT_ROUNDS: f64 = 16.0;
/// And are at most this many (1 MiB).
const HOT_PAGES: usize = 256;

/// Watches one object's swap-ins. Each thread's steps are taken by themselves, so that threads that sweep parts of an
/// array side by side are not mistaken for disorder.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatternWatch {
    last: HashMap<u32, Step>,
    steps: u64,
    near: u64,
    strided: u64,
    stride: u64,
    swap_ins: u64,
    times: HashMap<u64, u32>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    page: u64,
    distance: i64,
}

impl PatternWatch {
    /// A swap-in of the page with this number, within the object, by this thread.
    pub(crate) fn swap_in(&mut self, thread: u32, page: u64) {
        self.swap_ins += 1;
        *self.times.entry(page).or_default() += 1;
        let Some(last) = self.last.get_mut(&thread) else {
            self.last.insert(thread, Step { page, distance: 0 });
            return;
        };
        let distance = page.wrapping_sub(last.page) as i64;
        if distance == 0 {
            return; // the same page, evicted in between: no step
        }
        self.steps += 1;
        // Downwards is a direction too.
        self.near += u64::from(
            distance.unsigned_abs() <= NEAR as u64 && distance.signum() == last.distance.signum(),
        );
        if distance.unsigned_abs() > 1 && distance == last.distance {
            self.strided += 1;
            self.stride = distance.unsigned_abs();
        }
        *last = Step { page, distance };
    }

    pub(crate) fn distinct_pages(&self) -> usize {
        self.times.len()
    }

    /// `None`: too few swap-ins to tell. `readahead`: pages the kernel brings with each fault; steps of up to so many
    /// are a sweep's, whatever they look like.
    pub(crate) fn pattern(&self, readahead: u64) -> Option<Pattern> {
        if self.swap_ins < FEWEST {
            return None;
        }
        let share = |part: u64| part as f64 / self.steps.max(1) as f64;
        let rounds = self.swap_ins as f64 / self.times.len().max(1) as f64;
        if rounds > HOT_ROUNDS && self.times.len() <= HOT_PAGES {
            return Some(Pattern::Hot);
        }
        if share(self.strided) > MOST && self.stride > readahead {
            return Some(Pattern::Strided);
        }
        if share(self.near) > MOST {
            return Some(if rounds > AGAIN {
                Pattern::Loop
            } else {
                Pattern::Sequential
            });
        }
        Some(if rounds > AGAIN {
            Pattern::Random
        } else {
            Pattern::Once
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern_of(pages: impl IntoIterator<Item = u64>) -> Option<Pattern> {
        let mut watch = PatternWatch::default();
        for page in pages {
            watch.swap_in(1, page);
        }
        watch.pattern(1)
    }

    fn scrambled(count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(|step| step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52)
    }

    #[test]
    fn the_plain_cases() {
        assert_eq!(pattern_of(0..10), None);
        assert_eq!(pattern_of(0..1000), Some(Pattern::Sequential));
        assert_eq!(pattern_of((0..1000).rev()), Some(Pattern::Sequential));
        assert_eq!(
            pattern_of((0..4).flat_map(|_| 0..1000)),
            Some(Pattern::Loop)
        );
        assert_eq!(
            pattern_of((0..1000).map(|page| page * 7)),
            Some(Pattern::Strided)
        );
        assert_eq!(pattern_of((0..1000).flat_map(|_| 0..4)), Some(Pattern::Hot));
        assert_eq!(pattern_of(scrambled(20_000)), Some(Pattern::Random));
    }

    #[test]
    fn readahead_leaves_a_sweep_a_sweep() {
        let mut watch = PatternWatch::default();
        for step in 0..1000 {
            watch.swap_in(1, step * 8);
        }
        assert_eq!(watch.pattern(8), Some(Pattern::Sequential));
        assert_eq!(watch.pattern(1), Some(Pattern::Strided));
        // Now seven, now eight pages further.
        assert_eq!(
            pattern_of((0..1000).map(|step| step * 7 + step % 2)),
            Some(Pattern::Sequential)
        );
    }

    #[test]
    fn threads_side_by_side_are_no_disorder() {
        let mut watch = PatternWatch::default();
        for page in 0..1000 {
            for thread in 0..4 {
                watch.swap_in(thread, u64::from(thread) * 1000 + page);
            }
        }
        assert_eq!(watch.pattern(1), Some(Pattern::Sequential));
    }
}
