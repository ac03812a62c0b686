//! An object's swap-ins cut into windows, as many as are worth keeping.

use super::PageIn;
use super::stats::Stats;
use super::threads::Step;
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
    pub(super) fn add(&mut self, event: &PageIn, step: Option<Step>, reuse: Option<Reuse>) {
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
            self.windows.push(Stats::default());
        }
        if let Some(window) = self.windows.last_mut() {
            window.add(event, step, reuse);
        }
    }

    fn halve(&mut self) {
        self.windows = self
            .windows
            .chunks(2)
            .map(|pair| {
                let mut first = pair[0].clone();
                pair.iter().skip(1).for_each(|second| first.merge(second));
                first
            })
            .collect();
        self.length *= 2;
    }

    pub(super) fn all(&self) -> &[Stats] {
        &self.windows
    }
}
