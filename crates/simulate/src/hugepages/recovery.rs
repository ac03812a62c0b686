//! Bloat: while memory is short, huge pages with many base pages of zeros are split, and these freed (HawkEye, section 3.2).

use std::time::Duration;

use super::Choice;
use super::MemoryState;
use super::Process;
use super::Processes;

/// Looks that the adaptive watermarks remember.
const REMEMBERED: usize = 10;
/// Zeros that were counted so long ago are counted again: a program may have written zeros since.
const COUNTED_FOR: Duration = Duration::from_secs(300);
/// The adaptive high watermark is not put lower: a half-empty machine is not short of memory.
const LOWEST_HIGH: f64 = 0.5;

/// Used memory at which recovery begins, and ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watermarks {
    /// Begins when more is used, 0 to 1.
    pub high: f64,
    /// Ends when less is used, 0 to 1.
    pub low: f64,
    /// Where use rises steeply, both are lower: recovery begins while there is still room for twice the steepest rise
    /// between two looks. HawkEye's are fixed (a weakness its authors name).
    pub adaptive: bool,
}

impl Default for Watermarks {
    fn default() -> Self {
        Self {
            high: 0.85,
            low: 0.70,
            adaptive: false,
        }
    }
}

/// Decides when to recover, and which huge pages go.
#[derive(Debug)]
pub(crate) struct Recovery {
    watermarks: Watermarks,
    /// A huge page with more base pages of zeros goes.
    most_zero: u16,
    active: bool,
    used: Option<f64>,
    rises: Vec<f64>,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Count(Choice),
    Demote(Choice),
}

impl Recovery {
    pub(crate) fn new(watermarks: Watermarks, most_zero: u16) -> Self {
        Self {
            watermarks,
            most_zero,
            active: false,
            used: None,
            rises: Vec::new(),
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Memory as it is now. True: recovery has just begun.
    pub(crate) fn memory(&mut self, memory: &MemoryState) -> bool {
        let used = memory.used();
        if let Some(before) = self.used.replace(used) {
            self.rises.push((used - before).max(0.0));
            if self.rises.len() > REMEMBERED {
                self.rises.remove(0);
            }
        }
        let (high, low) = self.effective();
        let before = self.active;
        self.active = used > if before { low } else { high };
        self.active && !before
    }

    /// The watermarks in force.
    pub(crate) fn effective(&self) -> (f64, f64) {
        let Watermarks {
            high,
            low,
            adaptive,
        } = self.watermarks;
        if !adaptive {
            return (high, low);
        }
        let steepest = self.rises.iter().copied().fold(0.0, f64::max);
        let lowered = (1.0 - 2.0 * steepest).max(LOWEST_HIGH).min(high);
        (lowered, lowered - (high - low))
    }

    /// The next step, from the process that gains least from huge pages on, of all of them or of those around which memory is short.
    /// `None`: nothing to recover, or no need to.
    pub(crate) fn next(&self, processes: &Processes, now: Duration) -> Option<Step> {
        let is_short = |process: &&Process| self.active || process.is_short();
        let possible = || {
            let short = processes.iter().filter(is_short);
            short.filter(|process| !process.is_left_alone())
        };
        let is_measured = possible().any(|process| process.overhead().is_some());
        let mut order: Vec<(f64, &Process)> = possible()
            .map(|process| (burden(process, is_measured), process))
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut order = order.into_iter();
        order.find_map(|(_, process)| self.next_of(process, now))
    }

    fn next_of(&self, process: &Process, now: Duration) -> Option<Step> {
        let choice = |address: u64| Choice {
            process: process.id(),
            address,
        };
        let huge = || {
            let regions = process.regions().iter();
            regions.filter(|(_, region)| region.may_be_demoted(now))
        };
        let bloated =
            huge().find(|(_, region)| region.zero.is_some_and(|zero| zero > self.most_zero));
        if let Some((address, _)) = bloated {
            return Some(Step::Demote(choice(*address)));
        }
        // What is not used is looked at first: splitting it costs the program nothing.
        let unknown = huge().filter(|(_, region)| {
            let is_old = now.saturating_sub(region.counted_at()) >= COUNTED_FOR;
            region.zero.is_none() || is_old
        });
        let (address, _) =
            unknown.min_by_key(|(address, region)| (region.seen.accessed, **address))?;
        Some(Step::Count(choice(*address)))
    }
}

/// What translation costs the process: as measured, or as its base pages let expect where nothing is measured. The two do not compare;
/// where others are measured, a process without a measurement did not run.
fn burden(process: &Process, is_measured: bool) -> f64 {
    if is_measured {
        process.overhead().unwrap_or(0.0)
    } else {
        process.translations()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Seen;
    use super::*;

    fn used(share: f64) -> MemoryState {
        MemoryState {
            total_bytes: 1000,
            available_bytes: (1000.0 * (1.0 - share)).round() as u64,
            fragmentation: None,
        }
    }

    #[test]
    fn recovery_lasts_from_the_high_to_the_low_watermark() {
        let mut recovery = Recovery::new(Watermarks::default(), 64);
        let shares = [0.5, 0.8, 0.86, 0.8, 0.71, 0.69, 0.8];
        let active = shares.map(|share| {
            recovery.memory(&used(share));
            recovery.is_active()
        });
        assert_eq!(active, [false, false, true, true, true, false, false]);
    }

    #[test]
    fn adaptive_watermarks_leave_room_for_twice_the_steepest_rise() {
        let watermarks = Watermarks {
            adaptive: true,
            ..Watermarks::default()
        };
        let mut recovery = Recovery::new(watermarks, 64);
        recovery.memory(&used(0.40));
        recovery.memory(&used(0.55));
        let (high, low) = recovery.effective();
        assert!(
            (high - 0.70).abs() < 1e-9 && (low - 0.55).abs() < 1e-9,
            "{high} {low}"
        );
        // Once nothing rises for a while, they are where they were set.
        for _ in 0..REMEMBERED {
            recovery.memory(&used(0.55));
        }
        assert_eq!(recovery.effective(), (0.85, 0.70));
    }

    #[test]
    fn the_least_burdened_process_is_counted_first_and_only_bloat_goes() {
        let huge = |number: u64, accessed: u16| Seen {
            address: number << 21,
            resident: 512,
            accessed,
            huge: true,
            ..Seen::default()
        };
        let mut processes = Processes::default();
        processes.entry(1).observe(&[huge(1, 512)], Duration::ZERO);
        processes.entry(1).set_overhead(Some(0.3));
        processes
            .entry(2)
            .observe(&[huge(1, 512), huge(2, 0)], Duration::ZERO);
        processes.entry(2).set_overhead(Some(0.1));
        let mut recovery = Recovery::new(Watermarks::default(), 64);
        assert_eq!(
            recovery.next(&processes, Duration::ZERO),
            None,
            "memory is ample"
        );
        assert!(recovery.memory(&used(0.9)));
        let mut steps = Vec::new();
        while let Some(step) = recovery.next(&processes, Duration::ZERO) {
            let (Step::Count(choice) | Step::Demote(choice)) = step;
            let process = processes.entry(choice.process);
            let number = choice.address >> 21;
            if matches!(step, Step::Count(_)) {
                steps.push(('?', choice.process, number));
                process.counted(
                    choice.address,
                    if number == 2 { 65 } else { 64 },
                    Duration::ZERO,
                );
            } else {
                steps.push(('-', choice.process, number));
                process.demoted(choice.address, 65, Duration::ZERO);
            }
        }
        assert_eq!(steps, [('?', 2, 2), ('-', 2, 2), ('?', 2, 1), ('?', 1, 1)]);
        // Later, a program may have written zeros; who is left alone then is not looked at.
        assert_eq!(recovery.next(&processes, COUNTED_FOR / 2), None);
        let again = |process| {
            Some(Step::Count(Choice {
                process,
                address: 1 << 21,
            }))
        };
        assert_eq!(recovery.next(&processes, COUNTED_FOR), again(2));
        processes.entry(2).leave_alone(true);
        assert_eq!(recovery.next(&processes, COUNTED_FOR), again(1));
    }

    #[test]
    fn where_overhead_is_measured_who_did_not_run_goes_first() {
        let huge = |number: u64| Seen {
            address: number << 21,
            resident: 512,
            huge: true,
            ..Seen::default()
        };
        let base = Seen {
            address: 9 << 21,
            resident: 512,
            accessed: 512,
            ..Seen::default()
        };
        let mut processes = Processes::default();
        processes.entry(1).observe(&[huge(1)], Duration::ZERO);
        processes.entry(1).set_overhead(Some(0.3));
        processes.entry(2).observe(&[huge(2), base], Duration::ZERO);
        let mut recovery = Recovery::new(Watermarks::default(), 64);
        recovery.memory(&used(0.9));
        let next = recovery.next(&processes, Duration::ZERO);
        assert_eq!(
            next,
            Some(Step::Count(Choice {
                process: 2,
                address: 2 << 21
            }))
        );
    }
}
