//! Events per second, over short windows.

use std::collections::BTreeMap;

use pagewise_trace::EventCount;
use pagewise_trace::EventKind;

/// Long enough for a rate, short enough to see a storm begin.
pub(crate) const WINDOW_NS: u64 = 100_000_000;
/// Events are nearly but not exactly in order: so many windows are kept open.
const OPEN_WINDOWS: u64 = 10;

/// What happened in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) swap_ins: u64,
    pub(crate) evictions: u64,
    pub(crate) waited_ns: u64,
}

/// Sums by window, handed out in order of time once they are complete.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    open: BTreeMap<u64, Window>,
    /// The window after the last one that was handed out.
    next: Option<u64>,
}

impl Rates {
    /// The window of a moment. One that was handed out already counts for the oldest that is open.
    pub(crate) fn window(&mut self, time_ns: u64) -> &mut Window {
        let number = time_ns / WINDOW_NS;
        self.open
            .entry(number.max(self.next.unwrap_or(0)))
            .or_default()
    }

    /// Spreads what was counted over an interval evenly over its windows; the parts add up exactly.
    pub(crate) fn spread(&mut self, row: &EventCount) {
        let end_ns = row.time_ns.saturating_add(row.interval_ns.max(1));
        let length = u128::from(end_ns - row.time_ns);
        let until = |whole: u64, time_ns: u64| {
            (u128::from(whole) * u128::from(time_ns - row.time_ns) / length) as u64
        };
        let mut from_ns = row.time_ns;
        while from_ns < end_ns {
            let to_ns = (from_ns / WINDOW_NS)
                .saturating_add(1)
                .saturating_mul(WINDOW_NS);
            let to_ns = to_ns.min(end_ns);
            let part = |whole| until(whole, to_ns) - until(whole, from_ns);
            let window = self.window(from_ns);
            match row.kind {
                EventKind::SwapIn | EventKind::SwapCacheHit => {
                    window.swap_ins += part(row.events);
                    window.waited_ns += part(row.latency_ns.unwrap_or(0));
                }
                EventKind::Eviction => window.evictions += part(row.events),
                EventKind::PageWritten | EventKind::ZeroFilled => {}
            }
            from_ns = to_ns;
        }
    }

    /// Windows that nothing will be added to, with their begin; where nothing follows, also the silence after one.
    pub(crate) fn complete(&mut self) -> Vec<(u64, Window)> {
        let newest = self.open.last_key_value().map_or(0, |(&number, _)| number);
        self.take(newest.saturating_sub(OPEN_WINDOWS))
    }

    /// All that are left, and the silence after them.
    pub(crate) fn rest(&mut self) -> Vec<(u64, Window)> {
        let mut rest = self.take(u64::MAX);
        rest.extend(
            self.next
                .map(|next| (next.saturating_mul(WINDOW_NS), Window::default())),
        );
        rest
    }

    fn take(&mut self, below: u64) -> Vec<(u64, Window)> {
        let mut taken = Vec::new();
        while let Some(entry) = self.open.first_entry() {
            let number = *entry.key();
            if number >= below {
                break;
            }
            let window = entry.remove();
            if let Some(silent) = self.next.filter(|&next| next < number) {
                taken.push((silent.saturating_mul(WINDOW_NS), Window::default()));
            }
            taken.push((number.saturating_mul(WINDOW_NS), window));
            self.next = Some(number.saturating_add(1));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(rates: &mut Rates, window: u64) {
        rates.window(window * WINDOW_NS + 5).swap_ins += 1;
    }

    #[test]
    fn windows_come_in_order_with_the_silence_between() {
        let mut rates = Rates::default();
        count(&mut rates, 3);
        count(&mut rates, 2);
        count(&mut rates, 3);
        count(&mut rates, 40);
        let found: Vec<(u64, u64)> = rates
            .complete()
            .into_iter()
            .chain(rates.rest())
            .map(|(begin, window)| (begin / WINDOW_NS, window.swap_ins))
            .collect();
        assert_eq!(found, [(2, 1), (3, 2), (4, 0), (40, 1), (41, 0)]);
    }

    #[test]
    fn a_straggler_is_counted_later_and_not_lost() {
        let mut rates = Rates::default();
        count(&mut rates, 1);
        count(&mut rates, 100);
        let early = rates.complete();
        count(&mut rates, 1);
        let all = early.into_iter().chain(rates.rest());
        let sum: u64 = all.map(|(_, window)| window.swap_ins).sum();
        assert_eq!(sum, 3);
    }

    #[test]
    fn what_was_counted_over_an_interval_is_spread_and_stays_whole() {
        let mut rates = Rates::default();
        rates.spread(&EventCount {
            time_ns: WINDOW_NS / 2,
            interval_ns: 2 * WINDOW_NS,
            space: 0,
            kind: EventKind::SwapIn,
            address: 0,
            bytes: 4096,
            events: 101,
            latency_ns: Some(1001),
        });
        let windows: Vec<(u64, u64)> = rates
            .rest()
            .into_iter()
            .map(|(_, window)| (window.swap_ins, window.waited_ns))
            .collect();
        assert_eq!(windows, [(25, 250), (50, 500), (26, 251), (0, 0)]);
    }

    #[test]
    fn nothing_has_no_rate() {
        assert_eq!(Rates::default().rest(), []);
    }
}
