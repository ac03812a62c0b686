//! How many promotions a second.

use std::time::Duration;

/// Earned with time, and spent one by one; what is not spent adds up to one second's worth at most.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    earned: f64,
    last: Option<Duration>,
}

impl Rate {
    pub(crate) fn new(per_second: f64) -> Self {
        Self {
            per_second,
            earned: 0.0,
            last: None,
        }
    }

    /// Whether one may be made now. The first may at once.
    pub(crate) fn allows(&mut self, now: Duration) -> bool {
        let passed = self.last.map(|last| now.saturating_sub(last).as_secs_f64());
        let more = passed.map_or(1.0, |passed| passed * self.per_second);
        self.earned = (self.earned + more).min(self.per_second.max(1.0));
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
        self.earned >= 1.0
    }

    pub(crate) fn spend(&mut self) {
        self.earned -= 1.0;
    }
}
