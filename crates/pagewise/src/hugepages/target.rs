//! One managed process: when it is looked at, and what was done to it.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::access::Pages;
use pagewise_collect::access::Region;
use pagewise_collect::access::Tenure;
use pagewise_collect::access::Walked;
use pagewise_collect::access::clear_accessed;
use pagewise_collect::access::pages_in;
use pagewise_collect::page_walks::PageWalks;
use pagewise_collect::page_walks::WalkEvents;
use pagewise_host::RunningProcess;
use pagewise_host::huge_pages;
use pagewise_host::huge_pages::Area;
use pagewise_host::huge_pages::AreaFinder;
use pagewise_host::process;
use pagewise_simulate::hugepages::Process;
use pagewise_simulate::hugepages::Seen;

use super::sensor::Sensor;
use super::targets;
use crate::failure::Failure;

/// Why a process is not managed.
pub(super) const MANAGED_BY_ANOTHER: &str =
    "another huge page manager has it (one that was started with another --state)";
/// Why it is not looked at now.
pub(super) const WATCHED_BY_ANOTHER: &str =
    "another one looks at its accesses (a recording, a manager or a scan)";
/// How often it is tried again to look at a process that another one looks at.
const CLAIMED_AGAIN: Duration = Duration::from_millis(200);

/// A process under management.
pub(super) struct Target {
    process: RunningProcess,
    pub(super) comm: String,
    pub(super) pages: Pages,
    /// `None`: it is only looked at.
    _tenure: Option<Tenure>,
    /// `None`: not counted.
    page_walks: Option<PageWalks>,
    finder: AreaFinder,
    pub(super) areas: Vec<Area>,
    phase: Phase,
    pub(super) looks: u32,
    /// Why it is left alone, if it is.
    pub(super) left_alone: Option<&'static str>,
    pub(super) done: Done,
    pub(super) cost: Cost,
    /// Where in its huge pages the look for zeros has come to.
    pub(super) sampled_to: u64,
}

/// Processor time of the last look at it, in its two parts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) clear: Duration,
    pub(super) walk: Duration,
}

impl Cost {
    pub(super) fn sum(self) -> Duration {
        self.clear + self.walk
    }
}

/// What was done to it so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    pub(super) promoted: u64,
    pub(super) demoted: u64,
    /// Base pages of zeros that were freed.
    pub(super) freed: u64,
    /// Actions that did not work, by reason.
    pub(super) refused: BTreeMap<String, u64>,
}

enum Phase {
    Resting { until: Instant },
    Cleared { until: Instant },
}

/// What a step has come to.
pub(super) enum Stepped {
    Nothing,
    /// Its accessed bits were cleared.
    Cleared,
    /// It was looked at.
    Looked,
    Ended,
}

/// How looks are spread.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) interval: Duration,
    /// Between clearing and looking. `None`: nothing is cleared.
    pub(super) window: Option<Duration>,
    /// Also at processes to which nothing may be done.
    pub(super) looks_at_all: bool,
}

impl Target {
    /// Takes hold of the process to manage it. `None`: it has ended.
    pub(super) fn manage(
        pid: u32,
        walk_events: Option<&WalkEvents>,
    ) -> Result<Option<Self>, Failure> {
        let Some(mut target) = Self::hold(pid, walk_events)? else {
            return Ok(None);
        };
        target._tenure = match Tenure::take(pid) {
            Ok(Some(tenure)) => Some(tenure),
            Ok(None) => return Err(Failure::new(MANAGED_BY_ANOTHER)),
            Err(_) if target.has_ended() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(Some(target))
    }

    /// Takes hold of the process to look at it. `None`: it has ended.
    pub(super) fn hold(
        pid: u32,
        walk_events: Option<&WalkEvents>,
    ) -> Result<Option<Self>, Failure> {
        let process = targets::require(pid)?;
        let Some(pages) = Pages::open(pid)? else {
            return Ok(None);
        };
        // The id may have been used again between the two; if what the pidfd holds lives now, it was not.
        if process.has_ended() {
            return Ok(None);
        }
        let page_walks = walk_events.map(|events| PageWalks::open(events, pid));
        let page_walks = page_walks
            .transpose()
            .map_err(|error| Failure::new(format!("its page walks cannot be counted: {error}")))?;
        Ok(Some(Self {
            comm: name_of(pid),
            process,
            pages,
            _tenure: None,
            page_walks,
            finder: AreaFinder::default(),
            areas: Vec::new(),
            phase: Phase::Resting {
                until: Instant::now(),
            },
            looks: 0,
            left_alone: None,
            done: Done::default(),
            cost: Cost::default(),
            sampled_to: 0,
        }))
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(super) fn pidfd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.process.pidfd()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// When something is to be done.
    pub(super) fn due(&self) -> Instant {
        match self.phase {
            Phase::Resting { until } | Phase::Cleared { until } => until,
        }
    }

    /// Whether its next step is one that costs: the other one follows from it.
    pub(super) fn is_resting(&self) -> bool {
        matches!(self.phase, Phase::Resting { .. })
    }

    /// Clears the accessed bits, or looks at them.
    pub(super) fn step(
        &mut self,
        sensor: &mut Sensor,
        pace: Pace,
        now: Duration,
        known: &mut Process,
    ) -> Result<Stepped, Failure> {
        if self.due() > Instant::now() {
            return Ok(Stepped::Nothing);
        }
        if self.has_ended() {
            return Ok(Stepped::Ended);
        }
        if self.is_left_alone(known) && !pace.looks_at_all {
            self.pages.give_up_claim();
            self.phase = Phase::Resting {
                until: Instant::now() + pace.interval,
            };
            return Ok(Stepped::Looked);
        }
        match (pace.window, &self.phase) {
            (Some(window), Phase::Resting { .. }) => {
                if !self.pages.claim() {
                    self.left_alone = Some(WATCHED_BY_ANOTHER);
                    let until = Instant::now() + CLAIMED_AGAIN.min(window);
                    self.phase = Phase::Resting { until };
                    return Ok(Stepped::Nothing);
                }
                if !clear_accessed(self.pid())? {
                    return Ok(Stepped::Ended);
                }
                let until = Instant::now() + window;
                self.phase = Phase::Cleared { until };
                Ok(Stepped::Cleared)
            }
            _ => self.look(sensor, pace, now, known),
        }
    }

    fn look(
        &mut self,
        sensor: &mut Sensor,
        pace: Pace,
        now: Duration,
        known: &mut Process,
    ) -> Result<Stepped, Failure> {
        let Some(areas) = self.finder.areas(self.process.pid()) else {
            return Ok(Stepped::Ended);
        };
        self.areas = areas;
        let mut seen = Vec::new();
        let areas = &self.areas;
        let pages = &self.pages;
        let walked = sensor.walk(pages, |region| {
            if area_of(areas, region.address).is_some() && !is_zeros_of_the_kernel(pages, &region) {
                seen.push(seen_of(&region));
            }
        })?;
        if walked == Walked::Gone {
            return self.reopen(known, now);
        }
        self.pages.give_up_claim();
        known.observe(&seen, now);
        self.looks += 1;
        // From one clearing to the next.
        let window = pace.window.unwrap_or_default();
        self.phase = Phase::Resting {
            until: Instant::now() + self.rest(pace.interval).saturating_sub(window),
        };
        Ok(Stepped::Looked)
    }

    /// What the counters of the processor say since the last time, which `known` is told; while it did not run, what they said before holds.
    pub(super) fn count_page_walks(&mut self, known: &mut Process) {
        let counted = self.page_walks.as_mut().and_then(PageWalks::overhead);
        tell_overhead(known, counted);
    }

    /// Whether nothing may be done to it now, which `known` is told.
    pub(super) fn is_left_alone(&mut self, known: &mut Process) -> bool {
        self.left_alone = why_left_alone(self.pid());
        known.leave_alone(self.left_alone.is_some());
        self.left_alone.is_some()
    }

    /// The memory it had is gone: it has run another program, or ended.
    fn reopen(&mut self, known: &mut Process, now: Duration) -> Result<Stepped, Failure> {
        match Pages::open(self.pid())? {
            Some(pages) if !self.has_ended() => {
                self.pages = pages;
                self.finder = AreaFinder::default();
                self.areas.clear();
                known.observe(&[], now);
                self.comm = name_of(self.pid());
                self.phase = Phase::Resting {
                    until: Instant::now(),
                };
                Ok(Stepped::Nothing)
            }
            _ => Ok(Stepped::Ended),
        }
    }

    /// All processes are looked at first when they are found; by their second look they are spread over the interval, so that
    /// their faults are not held up all at once.
    fn rest(&self, interval: Duration) -> Duration {
        const GOLDEN: f64 = 0.618_033_988_75;
        if self.looks != 1 {
            return interval;
        }
        interval.mul_f64(0.5 + (f64::from(self.pid()) * GOLDEN).fract() / 2.0)
    }

    /// Whether the whole region of 2 MiB is mapped now; also if that cannot be told.
    pub(super) fn maps(&self, address: u64) -> bool {
        process::maps(self.pid()).is_none_or(|text| is_mapped(&text, address))
    }

    pub(super) fn area_of(&self, address: u64) -> Option<&Area> {
        area_of(&self.areas, address)
    }
}

/// Whether these mappings, in the form of `/proc/PID/maps`, leave nothing of the region out.
fn is_mapped(maps: &str, address: u64) -> bool {
    let mut mapped_to = address;
    for mapping in pagewise_attribute::parse_maps(maps).unwrap_or_default() {
        if (mapping.start..mapping.end).contains(&mapped_to) {
            mapped_to = mapping.end;
        }
    }
    mapped_to >= address + huge_pages::BYTES
}

fn tell_overhead(known: &mut Process, counted: Option<f64>) {
    known.set_overhead(counted.or(known.overhead()));
}

/// A program may be called anything, and the name goes to terminals.
fn name_of(pid: u32) -> String {
    let name = process::comm(pid).unwrap_or_default();
    let name = name.trim_end_matches('\n');
    name.replace(char::is_control, "?")
}

/// Areas are by address.
fn area_of(areas: &[Area], address: u64) -> Option<&Area> {
    let behind = areas.partition_point(|area| area.addresses.start <= address);
    areas[..behind].last().filter(|area| area.holds(address))
}

/// Memory that was only read so far: nobody has written to it, and it is no page of the process's own.
fn is_zeros_of_the_kernel(pages: &Pages, region: &Region) -> bool {
    region.huge && pages_in(&region.dirty) == 0 && !pages.is_anonymous(region.address)
}

pub(super) fn seen_of(region: &Region) -> Seen {
    Seen {
        address: region.address,
        resident: pages_in(&region.resident),
        accessed: pages_in(&region.accessed),
        swapped: pages_in(&region.swapped),
        huge: region.huge,
    }
}

/// A debugger, or a tool that saves the process to disk, would see memory change under its hands.
fn why_left_alone(pid: u32) -> Option<&'static str> {
    if huge_pages::switched_off(pid) == Some(true) {
        return Some("it has switched huge pages off (PR_SET_THP_DISABLE)");
    }
    process::is_traced(pid)?.then_some("a debugger is attached to it")
}

#[cfg(test)]
mod tests {
    use pagewise_simulate::hugepages::Processes;

    use super::*;

    #[test]
    fn who_did_not_run_keeps_its_overhead() {
        let mut processes = Processes::default();
        let known = processes.entry(1);
        let told = [None, Some(0.3), None, Some(0.01)].map(|counted| {
            tell_overhead(known, counted);
            known.overhead()
        });
        assert_eq!(told, [None, Some(0.3), Some(0.3), Some(0.01)]);
    }

    #[test]
    fn a_region_of_which_a_page_was_given_back_is_not_mapped_as_a_whole() {
        let maps = |text: &str| is_mapped(text, 0x7f00_0020_0000);
        let whole = "7f0000000000-7f0000300000 rw-p 00000000 00:00 0\n7f0000300000-7f0000400000 r--p 00000000 00:00 0\n";
        assert!(maps(whole));
        for (from, to) in [
            ("7f0000400000", "7f00003ff000"),
            ("-7f0000300000", "-7f00002ff000"),
        ] {
            assert!(!maps(&whole.replacen(from, to, 1)), "{to}");
        }
        assert!(!maps(""));
    }

    #[test]
    fn the_area_of_a_region_is_the_one_that_holds_all_of_it() {
        let area = |start: u64, end: u64| Area {
            addresses: start << 20..end << 20,
            name: "anonymous".to_owned(),
            locked: false,
        };
        let areas = [area(1, 5), area(6, 10)];
        let starts = [0, 2, 4, 6, 8, 10].map(|at| {
            let area: Option<&Area> = area_of(&areas, at << 20);
            area.map(|area| area.addresses.start >> 20)
        });
        assert_eq!(starts, [None, Some(1), None, Some(6), Some(6), None]);
    }
}
