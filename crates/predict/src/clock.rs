//! The program's own time: that of the recording without what it waited in swap-in faults. With less memory the same
//! accesses happen at the same own time, and only the waiting grows.

/// Translates times of a recording into own time.
#[derive(Debug)]
pub struct Clock {
    /// Ends of faults, and how long had been waited until then; both in ns, ascending.
    ends: Vec<(u64, u64)>,
}

impl Clock {
    /// `faults`: the end and the length of each, ns, in order of their ends. Where threads wait at the same time it counts
    /// once.
    pub fn new(faults: impl Iterator<Item = (u64, u64)>) -> Clock {
        let mut ends: Vec<(u64, u64)> = Vec::new();
        let mut waited = 0;
        let mut until = 0;
        for (end, length) in faults {
            let begin = end.saturating_sub(length).max(until);
            waited += end.saturating_sub(begin);
            until = until.max(end);
            ends.push((end, waited));
        }
        Clock { ends }
    }

    /// Own time at `time`, in ns since the same origin.
    pub fn own(&self, time: u64) -> u64 {
        let after = self.ends.partition_point(|&(end, _)| end <= time);
        let waited = after.checked_sub(1).map_or(0, |last| self.ends[last].1);
        time - waited.min(time)
    }

    /// All that was waited, ns.
    pub(crate) fn waited(&self) -> u64 {
        self.ends.last().map_or(0, |&(_, waited)| waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_takes_no_own_time() {
        let clock = Clock::new([(100, 20), (110, 15), (200, 50)].into_iter());
        assert_eq!(
            [50, 100, 110, 150, 200, 300].map(|time| clock.own(time)),
            [50, 80, 80, 120, 120, 220]
        );
        assert_eq!(clock.waited(), 80);
    }
}
