//! Runs: calls of a thread, by the same path and on the same file, each of which begins where the one before has ended.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::histogram::Histogram;

/// From so many calls on, a run is long.
pub(crate) const LONG_RUN: u64 = 4;
/// A run from a file's begin over this share of it reads it whole, in however few calls.
const WHOLE_SHARE: f64 = 0.9;
/// Runs that may be under way at once; beyond, all are cut.
const MOST_OPEN: usize = 1 << 18;

/// Of a context.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// How many.
    pub count: u64,
    /// Calls in them.
    pub calls: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Bytes in those of at least four calls, or over a whole file; `None`: only sums of calls are there.
    pub long_bytes: Option<u64>,
    /// Of those bytes, the ones over whole files.
    pub whole_file_bytes: u64,
    /// How long they are, bytes.
    pub sizes: Histogram,
}

impl Runs {
    /// Mean number of calls; `None`: there is no run.
    pub fn mean_calls(&self) -> Option<f64> {
        (self.count > 0).then(|| self.calls as f64 / self.count as f64)
    }

    /// Share of bytes in long runs, 0 to 1; `None`: not known.
    pub fn long_share(&self) -> Option<f64> {
        let long = self.long_bytes?;
        (self.bytes > 0).then(|| long as f64 / self.bytes as f64)
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        self.count += other.count;
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.long_bytes = match (self.long_bytes, other.long_bytes) {
            (None, None) => None,
            (mine, theirs) => Some(mine.unwrap_or(0) + theirs.unwrap_or(0)),
        };
        self.whole_file_bytes += other.whole_file_bytes;
        self.sizes.add_all(&other.sizes);
    }

    fn add(&mut self, run: Run, file_bytes: Option<u64>) {
        self.count += 1;
        self.calls += run.calls;
        self.bytes += run.bytes;
        self.sizes.add(run.bytes);
        let whole = run.start == 0
            && file_bytes.is_some_and(|size| run.bytes as f64 >= size as f64 * WHOLE_SHARE);
        let long = self.long_bytes.get_or_insert(0);
        if whole || run.calls >= LONG_RUN {
            *long += run.bytes;
        }
        if whole {
            self.whole_file_bytes += run.bytes;
        }
    }
}

#[derive(Clone, Copy)]
struct Run {
    start: u64,
    next: u64,
    calls: u64,
    bytes: u64,
}

/// A context's number, a file's and a thread's.
type Key = (u32, u32, u32);

/// Runs that are under way.
#[derive(Default)]
pub(crate) struct OpenRuns(HashMap<Key, Run, RandomState>);

impl OpenRuns {
    /// Takes a call. Says whether it goes on where the last one has ended; a run that ends goes into `ended`.
    pub(crate) fn call(
        &mut self,
        key: Key,
        offset: u64,
        bytes: u64,
        ended: &mut impl FnMut(Key, ClosedRun),
    ) -> bool {
        if self.0.len() >= MOST_OPEN && !self.0.contains_key(&key) {
            self.close(ended);
        }
        let new = Run {
            start: offset,
            next: offset.saturating_add(bytes),
            calls: 1,
            bytes,
        };
        let Some(run) = self.0.get_mut(&key) else {
            self.0.insert(key, new);
            return false;
        };
        if run.next == offset {
            run.next = new.next;
            run.calls += 1;
            run.bytes += bytes;
            return true;
        }
        ended(key, ClosedRun(std::mem::replace(run, new)));
        false
    }

    /// Ends all.
    pub(crate) fn close(&mut self, ended: &mut impl FnMut(Key, ClosedRun)) {
        for (key, run) in self.0.drain() {
            ended(key, ClosedRun(run));
        }
    }
}

/// A run that has ended.
pub(crate) struct ClosedRun(Run);

impl ClosedRun {
    pub(crate) fn add_to(self, runs: &mut Runs, file_bytes: Option<u64>) {
        runs.add(self.0, file_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(calls: &[(u32, u64, u64)], file_bytes: Option<u64>) -> Runs {
        let (mut open, mut runs) = (OpenRuns::default(), Runs::default());
        let mut ended = |_: Key, run: ClosedRun| run.add_to(&mut runs, file_bytes);
        for &(thread, offset, bytes) in calls {
            open.call((0, 1, thread), offset, bytes, &mut ended);
        }
        open.close(&mut ended);
        runs
    }

    #[test]
    fn a_run_ends_where_the_next_call_is_elsewhere() {
        let found = runs(&[(1, 0, 10), (1, 10, 10), (1, 50, 10), (1, 60, 5)], None);
        assert_eq!((found.count, found.calls, found.bytes), (2, 4, 35));
        assert_eq!(found.mean_calls(), Some(2.0));
        assert_eq!(found.long_share(), Some(0.0));
    }

    #[test]
    fn threads_do_not_cut_each_others_runs() {
        let found = runs(&[(1, 0, 10), (2, 500, 10), (1, 10, 10), (2, 510, 10)], None);
        assert_eq!((found.count, found.mean_calls()), (2, Some(2.0)));
    }

    #[test]
    fn a_whole_file_in_one_call_is_a_long_run() {
        let found = runs(&[(1, 0, 1000)], Some(1000));
        assert_eq!(
            (found.long_share(), found.whole_file_bytes),
            (Some(1.0), 1000)
        );
        assert_eq!(runs(&[(1, 8, 1000)], Some(1000)).long_share(), Some(0.0));
    }

    #[test]
    fn four_calls_are_a_long_run() {
        let found = runs(
            &[(1, 4, 1), (1, 5, 1), (1, 6, 1), (1, 7, 1), (1, 90, 4)],
            None,
        );
        assert_eq!(found.long_share(), Some(0.5));
    }
}
