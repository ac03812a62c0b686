//! How many major faults the program had had by how much work of its own when it was recorded.
//!
//! Work is user time: faults, and how long they wait, are the kernel's. Of two runs that do the same it is about the same, however fast they are; but each
//! fault adds some (0.5 to 10 us were measured), and so does being recorded, so that a run gets ahead of the recording, or behind it.

/// With the same user time a run may be so far ahead of the recording or behind it,
const ASTRAY_NS: u64 = 100_000_000;
/// and by such a part of it: of twelve programs a recorded run took 0.92 to 1.18 times as much as one without a plan; of a program that allocates much it is
/// a quarter at its begin, as allocations cost more then.
const ASTRAY: f64 = 0.25;
/// A time of the run may be so much longer in the recording,
const LONGER: f64 = 0.1;
/// and by so much, as the kernel tells it by its ticks.
const LONGER_NS: u64 = 20_000_000;

/// Points of a curve that ascends: user time, ns, and major faults by then.
pub(super) trait Points {
    fn points(&self) -> impl Iterator<Item = (u64, u64)>;
}

impl<F: Fn() -> I, I: Iterator<Item = (u64, u64)>> Points for F {
    fn points(&self) -> impl Iterator<Item = (u64, u64)> {
        self()
    }
}

/// How far a run has got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) user_ns: u64,
    pub(super) majors: f64,
}

/// What was recorded.
pub(super) struct Recorded<P> {
    points: P,
}

impl<P: Points> Recorded<P> {
    pub(super) fn new(points: P) -> Self {
        Self { points }
    }

    /// Major faults in all.
    pub(super) fn all(&self) -> f64 {
        self.by(u64::MAX)
    }

    /// Whether it ended before so much user time: beyond that nothing is known.
    pub(super) fn is_over(&self, user_ns: u64) -> bool {
        user_ns > self.end_ns()
    }

    /// Major faults after so much user time.
    pub(super) fn after(&self, user_ns: u64) -> f64 {
        self.all() - self.by(user_ns)
    }

    /// Major faults between two marks of a run, as if it got on as the recording did.
    pub(super) fn between(&self, since: &Mark, now: &Mark) -> f64 {
        self.by(now.user_ns) - self.by(since.user_ns)
    }

    /// The most major faults in as much work as lies between two marks of a run, wherever the run may have been in the recording.
    pub(super) fn most_near(&self, since: &Mark, now: &Mark) -> f64 {
        let work = now.user_ns.saturating_sub(since.user_ns);
        let work = work + (LONGER * work as f64) as u64 + LONGER_NS;
        let earliest = (since.user_ns as f64 / (1.0 + ASTRAY)) as u64;
        let earliest = earliest.saturating_sub(ASTRAY_NS);
        let latest = now.user_ns + (ASTRAY * now.user_ns as f64) as u64 + ASTRAY_NS;
        let latest = latest.min(self.end_ns()).saturating_sub(work).max(earliest);
        let of_begin = |begin: u64| self.by(begin + work) - self.by(begin);
        // Between points faults come evenly, so that most come where a point begins or ends such a time.
        let at_points = self.points.points().flat_map(|(user_ns, _)| {
            let begins = [user_ns, user_ns.saturating_sub(work)];
            begins
                .into_iter()
                .filter(|&begin| earliest < begin && begin < latest)
        });
        let begins = at_points.chain([earliest, latest]);
        begins.map(of_begin).fold(0.0, f64::max)
    }

    fn end_ns(&self) -> u64 {
        self.points
            .points()
            .last()
            .map_or(0, |(user_ns, _)| user_ns)
    }

    /// Major faults by so much user time.
    fn by(&self, user_ns: u64) -> f64 {
        let mut before = (0, 0);
        for point in self.points.points() {
            if point.0 >= user_ns {
                let (way, length) = (user_ns - before.0, (point.0 - before.0).max(1));
                let more = (point.1 - before.1) as f64 * way as f64 / length as f64;
                return before.1 as f64 + more;
            }
            before = point;
        }
        before.1 as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn mark(user_ms: u64) -> Mark {
        Mark {
            user_ns: user_ms * MS,
            majors: 0.0,
        }
    }

    #[test]
    fn between_points_faults_come_evenly_and_none_after_the_last() {
        let points = [(100 * MS, 0), (500 * MS, 8000), (1000 * MS, 40_000)];
        let recorded = Recorded::new(|| points.into_iter());
        let by = |ms| recorded.by(ms * MS);
        let times = [0, 100, 300, 1000, 1001].map(by);
        assert_eq!(times, [0.0, 0.0, 4000.0, 40_000.0, 40_000.0]);
        assert_eq!(recorded.all(), 40_000.0);
        assert!(recorded.is_over(1001 * MS) && !recorded.is_over(1000 * MS));
        assert_eq!(recorded.between(&mark(300), &mark(500)), 4000.0);
        let nothing = Recorded::new(std::iter::empty);
        assert_eq!(nothing.all(), 0.0);
        assert!(nothing.is_over(1));
    }

    #[test]
    fn what_comes_at_once_counts_wherever_the_run_may_be() {
        // 80,000 from 500 to 600 ms, and next to none before and after.
        let points = [(500 * MS, 500), (600 * MS, 80_500), (2000 * MS, 82_000)];
        let recorded = Recorded::new(|| points.into_iter());
        // 100 ms of the run are 130 of the recording, where a run that is a quarter ahead or behind may be.
        assert!(recorded.most_near(&mark(400), &mark(500)) > 80_000.0);
        assert!(recorded.most_near(&mark(600), &mark(700)) > 80_000.0);
        assert!(recorded.most_near(&mark(100), &mark(200)) < 200.0);
        assert!(recorded.most_near(&mark(1200), &mark(1300)) < 200.0);
        // No shorter time than a few ticks.
        let at_once = recorded.most_near(&mark(550), &mark(550));
        assert!((at_once - 16_000.0).abs() < 1.0, "{at_once}");
        let all = recorded.most_near(&mark(0), &mark(2000));
        assert_eq!(all, 82_000.0);
    }
}
