//! The manager: looks at its processes in turn, and does what the policy says, within its budget.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::AccessSensor;
use pagewise_collect::page_walks::WalkEvents;
use pagewise_host::counters;
use pagewise_host::huge_pages;
use pagewise_simulate::hugepages::Controller;
use pagewise_simulate::hugepages::MemoryState;
use pagewise_simulate::hugepages::Processes;

use super::arguments::ManageArguments;
use super::budget::Budget;
use super::folder;
use super::folder::Folder;
use super::prometheus;
use super::status;
use super::target::Pace;
use super::target::Stepped;
use super::target::Target;
use super::targets;
use super::targets::Named;
use super::work::Acted;
use crate::failure::Failure;
use crate::output::tell;
use crate::record::signals::Signals;

/// How often it looks whether something is due.
const TICK: Duration = Duration::from_millis(10);
/// How often it looks how much memory is used and who has ended, and writes its status.
pub(super) const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How often it looks which processes there are: that reads a file of each process of the machine.
const DISCOVERY: Duration = Duration::from_secs(5);
/// What an action costs before one was measured.
const ACTION_COST: Duration = Duration::from_micros(500);

pub(super) struct Manager<'arguments> {
    pub(super) arguments: &'arguments ManageArguments,
    folder: Folder,
    named: Named,
    pub(super) sensor: AccessSensor,
    /// `None`: the policy does not go by them.
    walk_events: Option<WalkEvents>,
    pub(super) controller: Controller,
    pub(super) processes: Processes,
    pub(super) targets: BTreeMap<u32, Target>,
    pub(super) left_out: usize,
    /// There was a process to look at.
    has_found: bool,
    /// Processes that may not be managed, with the reason.
    pub(super) refused: BTreeMap<u32, String>,
    pub(super) budget: Budget,
    pub(super) action_cost: Duration,
    memory: MemoryState,
    next_housekeeping: Instant,
    next_discovery: Instant,
    pub(super) paused_until: Option<Instant>,
    pub(super) ended: super::target::Done,
    pub(super) handed_out: u64,
}

impl<'arguments> Manager<'arguments> {
    pub(super) fn new(
        arguments: &'arguments ManageArguments,
        folder: Folder,
    ) -> Result<Self, Failure> {
        let settings = arguments.settings()?;
        let named = Named::find(arguments)?;
        let walk_events = match arguments.policy.needs_counters() {
            true => Some(find_walk_events()?),
            false => None,
        };
        let layout = pagewise_collect::calibrate()?;
        let mut sensor = AccessSensor::with_zeros(layout)?;
        sensor.leave_out_zero_page();
        warn_of_missing_features();
        let memory = memory_now(&named)?;
        let interval = arguments.interval.0;
        Ok(Self {
            arguments,
            folder,
            named,
            sensor,
            walk_events,
            controller: Controller::new(&settings),
            processes: Processes::default(),
            targets: BTreeMap::new(),
            left_out: 0,
            has_found: false,
            refused: BTreeMap::new(),
            budget: Budget::new(arguments.cpu.0 / 100.0, interval),
            action_cost: ACTION_COST,
            memory,
            next_housekeeping: Instant::now(),
            next_discovery: Instant::now(),
            paused_until: None,
            ended: super::target::Done::default(),
            handed_out: 0,
        })
    }

    /// Until a signal, the end of the time, or of all that was named.
    pub(super) fn run(&mut self, signals: &Signals) -> Result<(), Failure> {
        while signals.told().is_none() {
            if self
                .arguments
                .duration
                .is_some_and(|time| self.budget.elapsed() >= time.0)
            {
                return Ok(());
            }
            if Instant::now() >= self.next_housekeeping {
                self.keep_house()?;
                if self.targets.is_empty() && (self.arguments.once || self.named.has_ended()) {
                    return Ok(());
                }
            }
            self.look()?;
            let acted = self.act()?;
            if self.left_to_hand_out() == 0
                || (acted == Acted::NothingLeft && self.arguments.once && self.all_looked())
            {
                return Ok(());
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    fn keep_house(&mut self) -> Result<(), Failure> {
        self.next_housekeeping = Instant::now() + HOUSEKEEPING;
        self.memory = memory_now(&self.named)?;
        self.controller.memory(&self.memory);
        let gone: Vec<u32> = self
            .targets
            .values()
            .filter(|target| target.has_ended())
            .map(Target::pid)
            .collect();
        gone.into_iter().for_each(|pid| self.let_go(pid));
        if Instant::now() >= self.next_discovery && !(self.arguments.once && self.any_looked()) {
            self.next_discovery = Instant::now() + DISCOVERY;
            self.discover();
        }
        self.write_status()
    }

    fn discover(&mut self) {
        let found = self.named.now();
        self.left_out = found.left_out;
        self.refused.retain(|pid, _| found.processes.contains(pid));
        for pid in found.processes {
            if !self.targets.contains_key(&pid) && !self.refused.contains_key(&pid) {
                self.take_hold(pid);
            }
        }
    }

    fn any_looked(&self) -> bool {
        self.targets.values().any(|target| target.looks > 0)
    }

    fn take_hold(&mut self, pid: u32) {
        match Target::hold(pid, self.walk_events.as_ref()) {
            Ok(Some(target)) => {
                self.processes.entry(pid);
                self.targets.insert(pid, target);
                self.has_found = true;
            }
            Ok(None) => {}
            Err(failure) => {
                self.refused.insert(pid, failure.to_string());
            }
        }
    }

    pub(super) fn let_go(&mut self, pid: u32) {
        self.processes.remove(pid);
        if let Some(target) = self.targets.remove(&pid) {
            self.ended.add(&target.done);
        }
    }

    /// Takes the steps that are due, as far as the budget allows new ones.
    fn look(&mut self) -> Result<(), Failure> {
        let pace = Pace {
            interval: self.arguments.interval.0,
            window: self
                .arguments
                .policy
                .needs_accesses()
                .then(|| self.arguments.window()),
            looks_at_all: false,
        };
        let due: Vec<u32> = {
            let now = Instant::now();
            let due = self.targets.values().filter(|target| target.due() <= now);
            let mut due: Vec<&Target> = due.collect();
            // Where the budget is not enough for all, nobody is always last.
            due.sort_by_key(|target| target.due());
            due.into_iter().map(Target::pid).collect()
        };
        for pid in due {
            let Some(target) = self.targets.get_mut(&pid) else {
                continue;
            };
            // What was cleared is looked at in any case.
            if target.is_resting() && !self.budget.allows(Duration::ZERO) {
                continue;
            }
            let known = self.processes.entry(pid);
            match target.step(&mut self.sensor, pace, self.budget.elapsed(), known) {
                Ok(Stepped::Nothing | Stepped::Looked) => {}
                Ok(Stepped::Ended) => self.let_go(pid),
                Err(failure) => {
                    self.let_go(pid);
                    self.refused.insert(pid, failure.to_string());
                }
            }
        }
        Ok(())
    }

    fn write_status(&self) -> Result<(), Failure> {
        let status = status::Status::of(self, self.arguments, &self.controller, &self.memory);
        self.folder.write_status(&status.render()?)?;
        match &self.arguments.prometheus {
            Some(path) => folder::replace(path, &prometheus::render(&status)),
            None => Ok(()),
        }
    }

    /// What it wrote for others to read goes with it: a figure that stands still looks like one of now.
    fn remove_prometheus(&self) {
        if let Some(path) = &self.arguments.prometheus
            && !self.arguments.once
        {
            let _ = std::fs::remove_file(path);
        }
    }

    /// What was done, in a line, for the end.
    pub(super) fn end(&mut self) -> String {
        self.remove_prometheus();
        let mut done = self.ended.clone();
        self.targets
            .values()
            .for_each(|target| done.add(&target.done));
        let refused: u64 = done.refused.values().sum();
        let reasons: Vec<String> = done
            .refused
            .iter()
            .map(|(why, count)| format!("{why} {count}"))
            .collect();
        let refused = match refused {
            0 => String::new(),
            _ => format!(", {refused} refused ({})", reasons.join(", ")),
        };
        if self.arguments.once && !self.has_found {
            tell!(
                "pagewise: none of the processes has {} MiB of memory or more: nothing was looked at",
                targets::LEAST_BYTES >> 20
            );
        }
        for (pid, why) in &self.refused {
            tell!("pagewise: {pid} was left alone: {why}");
        }
        let work = if self.arguments.dry_run {
            let least = match self.left_to_hand_out() {
                0 if self.arguments.max_promotions.is_none() => "at least ",
                _ => "",
            };
            format!(
                "nothing changed; {least}{} promotions would be made",
                self.handed_out
            )
        } else {
            format!(
                "{} promoted, {} split, {} MiB freed{refused}",
                done.promoted,
                done.demoted,
                (done.freed * pagewise_host::page_bytes()) >> 20
            )
        };
        let short = if self.controller.is_recovering() {
            "; memory is short, so nothing is promoted"
        } else {
            ""
        };
        format!(
            "{work}{short}; used {:.2} % of one processor",
            self.budget.used() * 100.0
        )
    }
}

/// Counters take up to three descriptors a thread: more than are allowed at first.
fn find_walk_events() -> Result<WalkEvents, Failure> {
    pagewise_host::open_files::allow_most();
    WalkEvents::find().map_err(|why| {
        Failure::new(format!(
            "hawkeye-pmu needs this processor's counters of page walks: {why}; use --policy hawkeye-g, which estimates by accesses"
        ))
    })
}

/// Of the machine, or of the limit around the processes of which the most is used.
fn memory_now(named: &Named) -> Result<MemoryState, Failure> {
    let memory = counters::machine_memory();
    let (Some(total_bytes), Some(available_bytes)) = (memory.total_bytes, memory.available_bytes)
    else {
        return Err(Failure::new(
            "/proc/meminfo does not tell how much memory is available",
        ));
    };
    let machine = MemoryState {
        total_bytes,
        available_bytes,
        fragmentation: huge_pages::fragmentation(),
    };
    let limits = named.room().into_iter().map(|room| MemoryState {
        total_bytes: room.limit_bytes,
        available_bytes: room.limit_bytes.saturating_sub(room.used_bytes),
        ..machine
    });
    Ok(limits.fold(machine, |a, b| if b.used() > a.used() { b } else { a }))
}

/// What this kernel lacks is told once, and the rest works.
fn warn_of_missing_features() {
    let features = huge_pages::features();
    if features.collapse == Some(false) {
        tell!(
            "pagewise: this kernel makes no huge pages on request (MADV_COLLAPSE needs Linux 6.1): nothing can be promoted"
        );
    }
    if features.split == Some(false) {
        tell!(
            "pagewise: this kernel does not split huge pages on request: bloat cannot be recovered"
        );
    } else if features.frees_zeros == Some(false) {
        tell!(
            "pagewise: this kernel frees nothing when it splits a huge page (that needs Linux 6.12): bloat is not recovered"
        );
    }
}
