//! The manager: looks at its processes in turn, and does what the policy says, within its budget.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::page_walks::WalkEvents;
use pagewise_host::counters;
use pagewise_host::huge_pages;
use pagewise_host::huge_pages::Features;
use pagewise_simulate::hugepages::Controller;
use pagewise_simulate::hugepages::HugePolicy;
use pagewise_simulate::hugepages::MemoryState;
use pagewise_simulate::hugepages::Processes;

use super::arguments::ManageArguments;
use super::budget::Budget;
use super::folder;
use super::folder::Folder;
use super::groups::Groups;
use super::pause::Pause;
use super::prometheus;
use super::sample;
use super::sensor::Sensor;
use super::status;
use super::target;
use super::target::Pace;
use super::target::Stepped;
use super::target::Target;
use super::targets;
use super::targets::Named;
use super::work::Acted;
use super::work::ActionCost;
use crate::failure::Failure;
use crate::output::tell;
use crate::record::signals::Signals;

/// How often it looks whether something is due.
const TICK: Duration = Duration::from_millis(10);
/// How often it looks how much memory is used and who has ended, and writes its status.
pub(super) const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How often it looks which processes there are: that reads a file of each process of the machine.
const DISCOVERY: Duration = Duration::from_secs(5);
/// Of the manager's share, what looks may take: where there is too much memory for that, they are rarer. The rest is for what follows from them.
const SHARE_OF_LOOKS: f64 = 0.5;
/// And what finding processes may take, and looking at their limits.
const SHARE_OF_DISCOVERY: f64 = 0.1;

pub(super) struct Manager<'arguments> {
    pub(super) arguments: &'arguments ManageArguments,
    folder: Folder,
    named: Named,
    pub(super) sensor: Sensor,
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
    pub(super) action_cost: ActionCost,
    memory: MemoryState,
    pub(super) groups: Groups,
    next_housekeeping: Instant,
    next_discovery: Instant,
    next_limits: Instant,
    pub(super) pause: Pause,
    pub(super) sampling: sample::Turn,
    pub(super) ended: super::target::Done,
    /// Promotions made, or in a dry run shown.
    pub(super) promotions: u64,
    /// The policy had nothing more to do, and nothing has been seen since.
    pub(super) nothing_left: bool,
    /// Its status could not be written, which was told.
    status_lost: bool,
}

impl<'arguments> Manager<'arguments> {
    pub(super) fn new(
        arguments: &'arguments ManageArguments,
        folder: Folder,
    ) -> Result<Self, Failure> {
        let mut settings = arguments.settings()?;
        let named = Named::find(arguments)?;
        let walk_events = match arguments.policy.needs_counters() {
            true => Some(find_walk_events()?),
            false => None,
        };
        // Each process takes two, and more where its page walks are counted: more than are allowed at first.
        pagewise_host::open_files::allow_most();
        let mut sensor = Sensor::find(arguments.policy)?;
        require_features(huge_pages::features(), arguments)?;
        if !sensor.leave_out_zero_page() && settings.splits_free_zeros {
            tell!(
                "pagewise: the kernel's page of zeros is not known (that needs cap_sys_admin), so what a split frees cannot be told: bloat is not recovered"
            );
            settings.splits_free_zeros = false;
        }
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
            action_cost: ActionCost::default(),
            memory,
            groups: Groups::default(),
            next_housekeeping: Instant::now(),
            next_discovery: Instant::now(),
            next_limits: Instant::now(),
            pause: Pause::default(),
            sampling: sample::Turn::default(),
            ended: super::target::Done::default(),
            promotions: 0,
            nothing_left: false,
            status_lost: false,
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
                self.require_one()?;
                if self.targets.is_empty() && (self.arguments.once || self.named.has_ended()) {
                    return Ok(());
                }
            }
            self.look()?;
            let acted = self.act()?;
            if self.left_to_promote() == 0
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
        // Once it was told, it will be again.
        if let Ok(memory) = memory_now(&self.named) {
            self.memory = memory;
        }
        self.controller.memory(&self.memory);
        self.look_at_limits();
        self.count_page_walks();
        self.nothing_left = false;
        let gone: Vec<u32> = self
            .targets
            .values()
            .filter(|target| target.has_ended())
            .map(Target::pid)
            .collect();
        gone.into_iter().for_each(|pid| self.let_go(pid));
        if Instant::now() >= self.next_discovery && !(self.arguments.once && self.any_looked()) {
            let before = self.budget.spent();
            self.discover();
            let cost = self.budget.spent().saturating_sub(before);
            let rest = self.time_to_earn(cost, SHARE_OF_DISCOVERY);
            self.next_discovery = Instant::now() + rest.max(DISCOVERY);
        }
        self.sample_zeros();
        self.tell_status()
    }

    /// Of all, each second, and not only with a look: who has got its huge pages is soon below the share from which on it gets more, and
    /// would have those of others until its next look.
    fn count_page_walks(&mut self) {
        if self.walk_events.is_none() {
            return;
        }
        for (pid, target) in &mut self.targets {
            target.count_page_walks(self.processes.entry(*pid));
        }
    }

    /// The tightest limit around all that was named stands for the machine; beyond that some may be short of memory where others are not.
    fn look_at_limits(&mut self) {
        if Instant::now() < self.next_limits {
            return;
        }
        let before = self.budget.spent();
        let processes = &mut self.processes;
        let watermarks = self.controller.watermarks();
        self.groups.look(watermarks, |group| {
            processes
                .iter()
                .any(|process| process.group() == Some(group))
        });
        for pid in self.targets.keys() {
            let known = processes.entry(*pid);
            let is_short = |group| self.groups.is_short(group);
            known.set_short(known.group().is_some_and(is_short));
        }
        let cost = self.budget.spent().saturating_sub(before);
        let rest = self.time_to_earn(cost, SHARE_OF_DISCOVERY);
        self.next_limits = Instant::now() + rest.max(HOUSEKEEPING);
    }

    /// In how much time this part of the manager's share comes to such a cost.
    pub(super) fn time_to_earn(&self, cost: Duration, part: f64) -> Duration {
        cost.div_f64(self.arguments.cpu.share() * part)
    }

    /// From one look at a process to the next: as was asked for, or longer where looks at all of them would take too much of the share.
    pub(super) fn interval(&self) -> Duration {
        let looks = self.targets.values().map(|target| target.cost.sum()).sum();
        self.time_to_earn(looks, SHARE_OF_LOOKS)
            .max(self.arguments.interval.0)
    }

    fn discover(&mut self) {
        let held = self.targets.keys().copied().collect();
        let found = self.named.now(&held);
        self.left_out = found.left_out;
        // Another manager may have ended.
        self.refused
            .retain(|pid, why| found.processes.contains(pid) && why != target::MANAGED_BY_ANOTHER);
        let small = held.difference(&found.processes).copied();
        small.for_each(|pid| self.let_go(pid));
        for pid in found.processes {
            if !self.targets.contains_key(&pid) && !self.refused.contains_key(&pid) {
                self.take_hold(pid);
            }
        }
    }

    /// Where processes were named by their number, and none of them may be managed, there is nothing to wait for.
    fn require_one(&self) -> Result<(), Failure> {
        let are_named = matches!(self.named, Named::Processes(_));
        match self.refused.first_key_value() {
            Some((pid, why)) if are_named && !self.has_found => {
                Err(Failure::new(format!("process {pid} is not managed: {why}")))
            }
            _ => Ok(()),
        }
    }

    fn any_looked(&self) -> bool {
        let mut targets = self.targets.values();
        targets.any(|target| target.looks > 0 || target.left_alone.is_some())
    }

    fn take_hold(&mut self, pid: u32) {
        match Target::manage(pid, self.walk_events.as_ref()) {
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

    /// Whether accessed bits are cleared and looked at.
    pub(super) fn goes_by_accesses(&self) -> bool {
        self.arguments.policy.needs_accesses() && self.sensor.tells_accesses()
    }

    /// Takes the steps that are due, as far as the budget allows new ones.
    fn look(&mut self) -> Result<(), Failure> {
        let pace = Pace {
            interval: self.interval(),
            window: self.goes_by_accesses().then(|| self.arguments.window()),
            looks_at_all: false,
        };
        let due: Vec<u32> = {
            let now = Instant::now();
            // Once is once.
            let is_wanted = |target: &&Target| {
                !(self.arguments.once && target.looks > 0 && target.is_resting())
            };
            let targets = self.targets.values().filter(is_wanted);
            let due = targets.filter(|target| target.due() <= now);
            let mut due: Vec<&Target> = due.collect();
            // Where the budget is not enough for all, nobody is always last.
            due.sort_by_key(|target| target.due());
            due.into_iter().map(Target::pid).collect()
        };
        let mut has_to_wait = false;
        for pid in due {
            let Some(target) = self.targets.get_mut(&pid) else {
                continue;
            };
            // What was cleared is looked at in any case; of others none overtakes one that waits for more.
            if target.is_resting() && (has_to_wait || !self.budget.allows(target.cost.sum())) {
                has_to_wait = true;
                continue;
            }
            let before = self.budget.spent();
            let known = self.processes.entry(pid);
            let stepped = target.step(&mut self.sensor, pace, self.budget.elapsed(), known);
            let cost = self.budget.spent().saturating_sub(before);
            match stepped {
                Ok(Stepped::Nothing) => {}
                Ok(Stepped::Cleared) => target.cost.clear = cost,
                Ok(Stepped::Looked) => {
                    target.cost.walk = cost;
                    known.set_group(self.groups.of_process(pid));
                    self.nothing_left = false;
                }
                Ok(Stepped::Ended) => self.let_go(pid),
                Err(failure) => {
                    self.let_go(pid);
                    self.refused.insert(pid, failure.to_string());
                }
            }
        }
        Ok(())
    }

    /// The first status must be written; later, that it cannot is told once, and no reason to stop.
    fn tell_status(&mut self) -> Result<(), Failure> {
        let is_first = self.budget.elapsed() < HOUSEKEEPING;
        match self.write_status() {
            Err(failure) if is_first => return Err(failure),
            Err(failure) if !self.status_lost => {
                tell!("pagewise: {failure}; the manager goes on");
                self.status_lost = true;
            }
            Err(_) => {}
            Ok(()) => self.status_lost = false,
        }
        Ok(())
    }

    /// For others to read: the folder's status, and the file for Prometheus.
    pub(super) fn write_status(&self) -> Result<(), Failure> {
        let status = status::Status::of(self, self.arguments, &self.controller, &self.memory);
        self.folder.write_status(&status.render()?)?;
        match &self.arguments.prometheus {
            Some(path) => folder::replace(path, &prometheus::render(&status)),
            None => Ok(()),
        }
    }

    /// What it wrote for others to read goes with it: a figure that stands still looks like one of now.
    pub(super) fn remove_prometheus(&self) {
        if let Some(path) = &self.arguments.prometheus
            && !self.arguments.once
        {
            let _ = std::fs::remove_file(path);
        }
    }

    /// What was done, in a line, for the end.
    pub(super) fn end(&self) -> String {
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
            let least = match self.left_to_promote() {
                0 if self.arguments.max_promotions.is_none() => "at least ",
                _ => "",
            };
            format!(
                "nothing changed; {least}{} promotions would be made",
                self.promotions
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

fn find_walk_events() -> Result<WalkEvents, Failure> {
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

/// What this kernel lacks is told once, and the rest works. To look at programs for nothing is refused.
fn require_features(features: Features, arguments: &ManageArguments) -> Result<(), Failure> {
    let wants_promotions = arguments.policy != HugePolicy::Nothing && !arguments.dry_run;
    if features.collapse == Some(false) && wants_promotions {
        return Err(Failure::new(
            "this kernel makes no huge pages on request (MADV_COLLAPSE needs Linux 6.1 with huge pages), so nothing can be promoted\n\
             What would be done is shown by --dry-run; in a program that is started with it, `pagewise hugepages --launch` has huge pages \
             made at the first touch",
        ));
    }
    if features.split == Some(false) {
        tell!(
            "pagewise: this kernel does not split huge pages on request: bloat cannot be recovered"
        );
    } else if !features.splits_free_zeros() {
        tell!(
            "pagewise: this kernel frees nothing when it splits a huge page (that needs Linux 6.12): bloat is not recovered"
        );
    }
    Ok(())
}
