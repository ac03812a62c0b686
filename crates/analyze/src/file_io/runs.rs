//! Runs: calls on a file, each of which begins where one before has ended: mostly of one thread and by one path, but a header and its body may be
//! read at two places of the code, a parser refills its buffer from any depth of its recursion, and threads may share a descriptor.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::RandomState;

use crate::histogram::Histogram;

/// From so many calls on, a run is long.
pub(crate) const LONG_RUN: u64 = 4;
/// A run from a file's begin over this share of it reads it whole, in however few calls.
const WHOLE_SHARE: f64 = 0.9;
/// Callers whose runs may be under way at once; beyond, all are cut.
const MOST_OPEN: usize = 1 << 18;
/// Another path or thread goes on with a run only if that went on so few calls ago: places and threads that take turns are near each other,
/// and of reads at random every place of a file is the end of one sooner or later.
pub const NEAR_CALLS: u64 = 256;
/// Call paths that are told to take part in a run.
const MOST_PARTS: usize = 4096;

/// Of a context.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// How many it takes part in; once each path of a context, if these take turns.
    pub count: u64,
    /// Calls in them, the others' too.
    pub calls: u64,
    /// Its own bytes in them.
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
        // Of sums, all calls may go on where others' have ended.
        (self.calls > 0).then(|| self.calls as f64 / self.count.max(1) as f64)
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

    fn add(&mut self, run: &Run, own_bytes: u64, file_bytes: Option<u64>) {
        self.count += 1;
        self.calls += run.calls;
        self.bytes += own_bytes;
        self.sizes.add(run.bytes);
        let whole = run.start == 0
            && file_bytes.is_some_and(|size| run.bytes as f64 >= size as f64 * WHOLE_SHARE);
        let long = self.long_bytes.get_or_insert(0);
        if whole || run.calls >= LONG_RUN {
            *long += own_bytes;
        }
        if whole {
            self.whole_file_bytes += own_bytes;
        }
    }
}

/// Who makes a call: a context's number, a file's and a thread's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    pub(crate) context: u32,
    pub(crate) file: u32,
    pub(crate) tid: u32,
    pub(crate) writes: bool,
}

/// A run. It belongs to who made its last call, and ends when they go elsewhere.
struct Run {
    owner: Caller,
    start: u64,
    next: u64,
    calls: u64,
    bytes: u64,
    /// Bytes by call path, in their order.
    parts: Vec<(u32, u64)>,
    /// When it went on last, in calls.
    went_on: u64,
}

impl Run {
    fn new(owner: Caller, start: u64) -> Self {
        Self {
            went_on: 0,
            owner,
            start,
            next: start,
            calls: 0,
            bytes: 0,
            parts: Vec::with_capacity(1),
        }
    }

    fn end(&self) -> End {
        (self.owner.file, self.owner.writes, self.next)
    }

    fn add(&mut self, caller: Caller, bytes: u64) {
        self.owner = caller;
        self.next = self.next.saturating_add(bytes);
        self.calls += 1;
        self.bytes += bytes;
        match self
            .parts
            .binary_search_by_key(&caller.context, |part| part.0)
        {
            Ok(at) => self.parts[at].1 += bytes,
            Err(at) if self.parts.len() < MOST_PARTS => {
                self.parts.insert(at, (caller.context, bytes));
            }
            Err(_) => {}
        }
    }
}

/// Where in a file a run goes on: file, whether it writes, and offset.
type End = (u32, bool, u64);

/// Runs that are under way.
#[derive(Default)]
pub(crate) struct OpenRuns {
    runs: HashMap<u64, Run, RandomState>,
    /// The run that each has added to last; it may be another's by now, or have ended.
    last: HashMap<Caller, u64, RandomState>,
    /// Of those that go on at the same place, the last one.
    ends: HashMap<End, u64, RandomState>,
    numbers: u64,
    /// Calls so far.
    clock: u64,
}

impl OpenRuns {
    /// Takes a call. Says where its run has begun; a run that ends goes into `ended`.
    pub(crate) fn call(
        &mut self,
        caller: Caller,
        offset: u64,
        bytes: u64,
        ended: &mut impl FnMut(ClosedRun),
    ) -> u64 {
        if self.last.len() >= MOST_OPEN && !self.last.contains_key(&caller) {
            self.close(ended);
        }
        self.clock += 1;
        let clock = self.clock;
        let own = self.own(caller);
        let goes_on = |number: &u64| self.runs.get(number).is_some_and(|run| run.next == offset);
        let is_near = |number: &u64| {
            let run = self.runs.get(number);
            run.is_some_and(|run| clock - run.went_on <= NEAR_CALLS)
        };
        let of_any = || {
            let end = (caller.file, caller.writes, offset);
            self.ends.get(&end).copied().filter(is_near)
        };
        let joined = own.filter(goes_on).or_else(of_any);
        if let Some(own) = own.filter(|_| joined != own) {
            self.end(own, ended);
        }
        let number = joined.unwrap_or_else(|| {
            self.numbers += 1;
            self.runs.insert(self.numbers, Run::new(caller, offset));
            self.numbers
        });
        self.forget_end(number);
        self.last.insert(caller, number);
        let Some(run) = self.runs.get_mut(&number) else {
            return offset;
        };
        run.add(caller, bytes);
        run.went_on = clock;
        self.ends.insert(run.end(), number);
        run.start
    }

    /// The run under way whose last call was theirs.
    fn own(&self, caller: Caller) -> Option<u64> {
        let number = *self.last.get(&caller)?;
        let run = self.runs.get(&number)?;
        (run.owner == caller).then_some(number)
    }

    fn forget_end(&mut self, number: u64) {
        if let Some(run) = self.runs.get(&number)
            && let Entry::Occupied(place) = self.ends.entry(run.end())
            && *place.get() == number
        {
            place.remove();
        }
    }

    fn end(&mut self, number: u64, ended: &mut impl FnMut(ClosedRun)) {
        self.forget_end(number);
        if let Some(run) = self.runs.remove(&number) {
            ended(ClosedRun(run));
        }
    }

    /// Ends all.
    pub(crate) fn close(&mut self, ended: &mut impl FnMut(ClosedRun)) {
        self.last.clear();
        self.ends.clear();
        for (_, run) in self.runs.drain() {
            ended(ClosedRun(run));
        }
    }
}

/// A run that has ended.
pub(crate) struct ClosedRun(Run);

impl ClosedRun {
    pub(crate) fn file(&self) -> u32 {
        self.0.owner.file
    }

    /// The contexts that take part in it, each with its bytes.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.parts.iter().copied()
    }

    /// Adds it to those of a context that has moved so many of its bytes.
    pub(crate) fn add_to(&self, runs: &mut Runs, own_bytes: u64, file_bytes: Option<u64>) {
        runs.add(&self.0, own_bytes, file_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Context, thread, offset and bytes of each call.
    fn runs_of(context: u32, calls: &[(u32, u32, u64, u64)], file_bytes: Option<u64>) -> Runs {
        let (mut open, mut runs) = (OpenRuns::default(), Runs::default());
        let mut ended = |run: ClosedRun| {
            for (_, bytes) in run.parts().filter(|&(part, _)| part == context) {
                run.add_to(&mut runs, bytes, file_bytes);
            }
        };
        for &(context, tid, offset, bytes) in calls {
            let caller = Caller {
                context,
                file: 1,
                tid,
                writes: false,
            };
            open.call(caller, offset, bytes, &mut ended);
        }
        open.close(&mut ended);
        assert!(open.ends.is_empty() && open.last.is_empty());
        runs
    }

    #[test]
    fn reads_at_random_by_threads_that_come_and_go_are_no_runs() {
        // Each page of the file is the end of some call sooner or later.
        let (pages, mut at) = (25_600_u64, 7_u64);
        let calls: Vec<(u32, u32, u64, u64)> = (0..200_000)
            .map(|tid| {
                at = at
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (0, tid, (at >> 33) % pages * 4096, 4096)
            })
            .collect();
        let runs = runs_of(0, &calls, None);
        let mean = runs.calls as f64 / runs.count as f64;
        assert!(mean < 1.1, "{mean}");
    }

    fn runs(calls: &[(u32, u64, u64)], file_bytes: Option<u64>) -> Runs {
        let calls = calls.iter().map(|&(tid, at, bytes)| (0, tid, at, bytes));
        runs_of(0, &calls.collect::<Vec<_>>(), file_bytes)
    }

    #[test]
    fn places_of_the_code_that_take_turns_make_one_run() {
        let calls: Vec<_> = (0..100)
            .flat_map(|record| [(0, 1, record * 20, 4), (1, 1, record * 20 + 4, 16)])
            .collect();
        for (context, bytes) in [(0, 4), (1, 16)] {
            let found = runs_of(context, &calls, None);
            assert_eq!((found.count, found.mean_calls()), (1, Some(200.0)));
            assert_eq!(found.bytes, 100 * bytes);
            assert_eq!(found.long_share(), Some(1.0));
        }
    }

    #[test]
    fn records_anywhere_are_short_runs_by_two_places_of_the_code() {
        let calls: Vec<_> = [70, 10, 50, 30, 90]
            .into_iter()
            .flat_map(|at| [(0, 1, at * 20, 4), (1, 1, at * 20 + 4, 16)])
            .collect();
        for context in 0..2 {
            let found = runs_of(context, &calls, None);
            assert_eq!((found.count, found.mean_calls()), (5, Some(2.0)));
        }
    }

    #[test]
    fn threads_of_one_descriptor_make_one_run() {
        let found = runs(&[(1, 0, 10), (2, 10, 10), (2, 20, 10), (1, 30, 10)], None);
        assert_eq!((found.count, found.mean_calls()), (1, Some(4.0)));
    }

    #[test]
    fn readers_abreast_have_each_their_own_run() {
        let calls: Vec<_> = (0..20)
            .map(|call| (call % 2, u64::from(call / 2) * 10, 10))
            .collect();
        let found = runs(&calls, None);
        assert_eq!((found.count, found.mean_calls()), (2, Some(10.0)));
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
