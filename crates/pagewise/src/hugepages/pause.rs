//! The kernel has no huge page to give: asking for others, of whatever process, would cost time and be in vain.

use std::time::Duration;
use std::time::Instant;

/// After a refusal for want of huge pages, nothing is promoted for so long.
const PAUSE: Duration = Duration::from_secs(1);

/// Whether promotions wait for huge pages to become free.
#[derive(Default)]
pub(super) struct Pause {
    until: Option<Instant>,
}

impl Pause {
    /// None was free now.
    pub(super) fn begin(&mut self, now: Instant) {
        self.until = Some(now + PAUSE);
    }

    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_for_its_time_from_the_latest_refusal_on() {
        let mut pause = Pause::default();
        let start = Instant::now();
        assert!(!pause.is_on(start));
        pause.begin(start);
        assert!(pause.is_on(start) && pause.is_on(start + PAUSE * 9 / 10));
        assert!(!pause.is_on(start + PAUSE));
        pause.begin(start + PAUSE / 2);
        assert!(pause.is_on(start + PAUSE) && !pause.is_on(start + 2 * PAUSE));
    }
}
