//! An object's swap-ins cut into windows, as many as are worth keeping.

use super::Order;
use super::PageIn;
use super::stats::Stats;
use crate::counts::Counts;
use crate::visits::Reuse;

/// Swap-ins in a window, to begin with.
const SHORTEST: u64 = 64;
/// When there are so many, every two become one.
const MOST_WINDOWS: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Windows {
    windows: Vec<Stats>,
    length: u64,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            windows: Vec::new(),
            length: SHORTEST,
        }
    }
}

impl Windows {
    /// The swap-in of this number.
    pub(super) fn add(&mut self, ordinal: u64, event: &PageIn, order: Order, reuse: Option<Reuse>) {
        let full = |window: &Stats| window.swap_ins >= self.length;
        if self.windows.last().is_none_or(full) {
            if self.windows.len() == MOST_WINDOWS {
                self.halve();
            }
            // Most objects of a program with a million of them need but one.
            self.windows.reserve_exact(if self.windows.is_empty() {
                1
            } else {
                self.windows.len()
            });
            let is_first = self.windows.is_empty();
            self.windows.push(match is_first {
                true => Stats::default(),
                false => Stats::of_later(),
            });
        }
        let origin = reuse.map(|reuse| self.window_of(ordinal.saturating_sub(reuse.pages)));
        if let Some(window) = self.windows.last_mut() {
            window.add(event, order, reuse, origin);
        }
    }

    /// The number of the window that a swap-in is in: all but the last are full.
    pub(super) fn window_of(&self, ordinal: u64) -> u8 {
        u8::try_from(ordinal / self.length).unwrap_or(u8::MAX)
    }

    /// What happened last.
    pub(super) fn meanwhile(&mut self, count: impl FnOnce(&mut Counts)) {
        if let Some(later) = self
            .windows
            .last_mut()
            .and_then(|window| window.later.as_mut())
        {
            count(&mut later.counts);
        }
    }

    /// What happened at this time.
    pub(super) fn at(&mut self, time_ns: u64, count: impl FnOnce(&mut Counts)) {
        let begun = self
            .windows
            .partition_point(|window| window.begin_ns <= time_ns);
        let window = begun.checked_sub(1).map(|at| &mut self.windows[at]);
        if let Some(later) = window.and_then(|window| window.later.as_mut()) {
            count(&mut later.counts);
        }
    }

    fn halve(&mut self) {
        self.windows = self
            .windows
            .chunks(2)
            .map(|pair| {
                let mut first = pair[0].clone();
                pair.iter().skip(1).for_each(|second| first.merge(second));
                if let Some(later) = &mut first.later {
                    later.halve();
                }
                first
            })
            .collect();
        self.length *= 2;
    }

    pub(super) fn all(&self) -> &[Stats] {
        &self.windows
    }
}
