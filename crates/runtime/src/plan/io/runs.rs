//! The runs through one open file: each rule and each thread has its own, so that nobody drops what is read ahead for another.

use std::ops::Range;

use super::behind::Behind;
use super::behind::GRANULE;

/// Runs that are followed at once. What the calls beyond bring in stays: to take a run from another thread would drop what is read
/// ahead for it, again and again.
const MOST: usize = 4;
/// Calls on the file during which a run did not go on, until another one may have its place.
const PATIENCE: u64 = 1024;

/// A small call that went elsewhere, as those do which read an inner page of a tree between its leaves: what is read ahead for the run
/// is waited for still, and a call that goes on behind this one begins another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Aside {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Nothing was cached there before.
    pub(super) is_clear: bool,
}

impl Aside {
    /// The granules that it touched, as a range of the file.
    pub(super) fn granules(&self) -> Range<u64> {
        self.start / GRANULE * GRANULE..self.end.next_multiple_of(GRANULE)
    }
}

/// A run through a file.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) behind: Behind,
    pub(super) rule: usize,
    pub(super) is_write: bool,
    /// It has the descriptor's own position.
    pub(super) is_cursor: bool,
    /// Who began it.
    pub(super) thread: u32,
    /// The call that it last went on with.
    call: u64,
    /// The last small call of its thread that went elsewhere meanwhile.
    aside: Option<Aside>,
    /// What it has sent to the disk, and is not known to be there; of length 0: nothing.
    sent: (u64, u64),
    /// That was not there in time.
    pub(super) is_late: bool,
}

impl Run {
    const NONE: Self = Self {
        behind: Behind::NONE,
        rule: 0,
        is_write: false,
        is_cursor: false,
        thread: 0,
        call: 0,
        aside: None,
        sent: (0, 0),
        is_late: false,
    };

    /// One that begins there.
    pub(super) fn new(
        offset: u64,
        rule: usize,
        thread: u32,
        is_write: bool,
        is_cursor: bool,
    ) -> Self {
        let mut run = Self {
            rule,
            is_write,
            is_cursor,
            thread,
            ..Self::NONE
        };
        run.behind.start_at(offset);
        run
    }

    /// The small call behind which one at this place goes on.
    pub(super) fn aside_before(&self, offset: u64) -> Option<Aside> {
        self.aside.filter(|aside| aside.end == offset)
    }

    /// A small call went elsewhere; the one before it.
    pub(super) fn put_aside(&mut self, aside: Aside) -> Option<Aside> {
        self.aside.replace(aside)
    }

    pub(super) fn aside(&self) -> Option<Aside> {
        self.aside
    }

    pub(super) fn take_aside(&mut self) -> Option<Aside> {
        self.aside.take()
    }

    /// There is nothing to drop of it.
    pub(super) fn leaves_nothing(&self) -> bool {
        self.aside.is_none() && self.behind.is_others()
    }

    pub(super) fn sent(&self) -> Option<Range<u64>> {
        let (start, end) = self.sent;
        (start < end).then_some(start..end)
    }

    pub(super) fn has_sent(&mut self, range: &Range<u64>) {
        self.sent = (range.start, range.end);
        self.is_late = false;
    }

    pub(super) fn forget_sent(&mut self) {
        self.sent = (0, 0);
    }

    fn is_of(&self, rule: usize) -> bool {
        self.behind.is_any() && self.rule == rule
    }

    /// Whether a thread's call of this rule that does not go on with it would take its place.
    pub(super) fn is_own(&self, rule: usize, thread: u32, is_cursor: bool) -> bool {
        self.is_of(rule) && (self.thread == thread || is_cursor && self.is_cursor)
    }
}

pub(super) struct Runs {
    runs: [Run; MOST],
    /// So many there were.
    calls: u64,
}

impl Runs {
    pub(super) const NONE: Self = Self {
        runs: [Run::NONE; MOST],
        calls: 0,
    };

    pub(super) fn at(&mut self, number: usize) -> &mut Run {
        &mut self.runs[number]
    }

    /// Numbers of those that are under way.
    pub(super) fn under_way(&self) -> impl Iterator<Item = usize> + use<> {
        let is_any = self.runs.map(|run| run.behind.is_any());
        (0..MOST).filter(move |&number| is_any[number])
    }

    /// There is nothing to drop of those that are under way.
    pub(super) fn leave_nothing(&self) -> bool {
        let mut under_way = self.runs.iter().filter(|run| run.behind.is_any());
        under_way.all(Run::leaves_nothing)
    }

    /// The run that a call goes on with: where two come together, the one that ends next to it.
    pub(super) fn going_on_at(&mut self, offset: u64, rule: usize) -> Option<usize> {
        self.calls += 1;
        let runs = self.runs.iter_mut().enumerate();
        let (number, run) = runs
            .filter(|(_, run)| run.is_of(rule) && run.behind.goes_on_at(offset))
            .min_by_key(|(_, run)| run.behind.end().abs_diff(offset))?;
        run.call = self.calls;
        Some(number)
    }

    /// A place for one that begins: that of the thread's last one; a free one; or that of one which nobody goes on with.
    pub(super) fn place_for(&self, rule: usize, thread: u32, is_cursor: bool) -> Option<usize> {
        let is_own = |run: &Run| run.is_own(rule, thread, is_cursor);
        let is_free = |run: &Run| !run.behind.is_any();
        let is_left = |run: &Run| self.calls.saturating_sub(run.call) > PATIENCE;
        let runs = || self.runs.iter();
        runs()
            .position(is_own)
            .or_else(|| runs().position(is_free))
            .or_else(|| runs().position(is_left))
    }

    pub(super) fn begin(&mut self, number: usize, run: Run) {
        if run.is_cursor {
            // The descriptor has one position.
            self.runs.iter_mut().for_each(|run| run.is_cursor = false);
        }
        self.runs[number] = Run {
            call: self.calls,
            ..run
        };
    }

    /// A call by the descriptor's own position goes on with this one.
    pub(super) fn has_cursor(&mut self, number: usize) {
        if !self.runs[number].is_cursor {
            self.runs.iter_mut().for_each(|run| run.is_cursor = false);
            self.runs[number].is_cursor = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(runs: &mut Runs, thread: u32, rule: usize, offset: u64) -> Option<usize> {
        let number = runs.going_on_at(offset, rule).or_else(|| {
            let number = runs.place_for(rule, thread, false)?;
            runs.begin(number, Run::new(offset, rule, thread, false, false));
            Some(number)
        })?;
        runs.at(number).behind.reach(offset + 4096);
        Some(number)
    }

    #[test]
    fn threads_and_rules_have_runs_of_their_own_and_a_jump_ends_ones_own() {
        let mut runs = Runs::NONE;
        for step in 0..10 {
            let at = step * 4096;
            assert_eq!(call(&mut runs, 1, 0, at), Some(0));
            assert_eq!(call(&mut runs, 2, 0, (1 << 30) + at), Some(1));
            assert_eq!(call(&mut runs, 1, 5, (2 << 30) + at), Some(2));
        }
        assert_eq!(call(&mut runs, 2, 0, 3 << 30), Some(1));
        assert_eq!(call(&mut runs, 1, 0, 10 * 4096), Some(0), "and no other's");
        assert_eq!(runs.under_way().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn what_cannot_be_followed_is_left_until_somebody_has_gone() {
        let mut runs = Runs::NONE;
        let begin = |runs: &mut Runs, thread: u32| call(runs, thread, 0, u64::from(thread) << 30);
        for thread in 0..MOST as u32 {
            assert_eq!(begin(&mut runs, thread), Some(thread as usize));
        }
        assert_eq!(begin(&mut runs, 9), None);
        for step in 1..=PATIENCE {
            for thread in 1..MOST as u64 {
                let number = call(&mut runs, thread as u32, 0, (thread << 30) + step * 4096);
                assert_eq!(number, Some(thread as usize));
            }
        }
        assert_eq!(begin(&mut runs, 9), Some(0));
    }

    #[test]
    fn a_small_call_elsewhere_is_remembered_until_the_next() {
        let mut run = Run::new(0, 0, 1, false, false);
        let aside = |start| Aside {
            start,
            end: start + 4096,
            is_clear: true,
        };
        assert_eq!(run.put_aside(aside(2 * GRANULE - 4096)), None);
        assert_eq!(run.aside_before(2 * GRANULE - 4096), None);
        let before = run.aside_before(2 * GRANULE).expect("it goes on there");
        assert_eq!(before.granules(), GRANULE..2 * GRANULE);
        assert_eq!(run.put_aside(aside(2 * GRANULE - 8)), Some(before));
        assert_eq!(aside(2 * GRANULE - 8).granules(), GRANULE..3 * GRANULE);
        assert!(run.take_aside().is_some() && run.take_aside().is_none());
    }

    #[test]
    fn the_descriptor_has_one_position() {
        let mut runs = Runs::NONE;
        let cursor = |runs: &Runs| runs.runs.iter().position(|run| run.is_cursor);
        assert_eq!(cursor(&runs), None);
        runs.begin(0, Run::new(4096, 0, 1, false, true));
        assert_eq!(cursor(&runs), Some(0));
        runs.begin(1, Run::new(8192, 1, 1, false, true));
        assert_eq!(cursor(&runs), Some(1));
        assert_eq!(runs.place_for(1, 7, true), Some(1), "whoever moved it");
        runs.has_cursor(0);
        assert_eq!(cursor(&runs), Some(0));
    }
}
