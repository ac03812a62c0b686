//! Short runs of calls at random places of one file, of several threads at once: which call begins one. Arithmetic only, the same in
//! the preloaded library and outside.

use core::ops::Range;

/// Runs that are followed at once.
const MOST: usize = 4;

/// Where runs through a file have got to.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    runs: [Run; MOST],
    /// The one whose place is given away next.
    oldest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    thread: u32,
    /// The next byte; `u64::MAX`: there is no run.
    end: u64,
}

impl Bursts {
    /// None is under way.
    pub const NONE: Self = Self {
        runs: [Run {
            thread: 0,
            end: u64::MAX,
        }; MOST],
        oldest: 0,
    };

    /// Whether a call there goes on with a run, whoever's that is.
    pub fn goes_on_at(&self, offset: u64) -> bool {
        self.runs.iter().any(|run| run.end == offset)
    }

    /// A thread's call has moved these bytes: it goes on with the run that ends there, or begins one in place of its last.
    pub fn moved(&mut self, thread: u32, bytes: &Range<u64>) {
        let of = |is: &dyn Fn(&Run) -> bool| self.runs.iter().position(is);
        let place = of(&|run| run.end == bytes.start)
            .or_else(|| of(&|run| run.end != u64::MAX && run.thread == thread))
            .or_else(|| of(&|run| run.end == u64::MAX));
        let place = place.unwrap_or_else(|| {
            self.oldest = (self.oldest + 1) % MOST;
            self.oldest
        });
        self.runs[place] = Run {
            thread,
            end: bytes.end,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many calls begin a run, of threads that take turns in runs of four.
    fn begun(threads: u32) -> usize {
        let mut bursts = Bursts::NONE;
        let mut begun = 0;
        for run in 0..100u64 {
            for call in 0..4 {
                for thread in 0..threads {
                    let start = (run * 64 + u64::from(thread)) << 20;
                    let at = start + call * 4096;
                    begun += usize::from(!bursts.goes_on_at(at));
                    bursts.moved(thread, &(at..at + 4096));
                }
            }
        }
        begun
    }

    #[test]
    fn a_run_is_begun_once_however_many_others_read_beside() {
        assert_eq!(begun(1), 100);
        assert_eq!(begun(2), 200);
        assert_eq!(begun(4), 400);
        assert!(begun(5) > 500, "more than are followed");
    }

    #[test]
    fn a_run_that_another_thread_goes_on_with_is_one() {
        let mut bursts = Bursts::NONE;
        bursts.moved(1, &(0..4096));
        assert!(bursts.goes_on_at(4096) && !bursts.goes_on_at(0));
        bursts.moved(2, &(4096..8192));
        assert!(bursts.goes_on_at(8192) && !bursts.goes_on_at(4096));
        bursts.moved(2, &(1 << 20..2 << 20));
        assert!(bursts.goes_on_at(2 << 20) && !bursts.goes_on_at(8192));
    }
}
