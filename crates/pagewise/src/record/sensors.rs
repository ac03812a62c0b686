//! The sensors of one recording, and where their records go.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use pagewise_abi as abi;
use pagewise_abi::file_calls::OfFiles;
use pagewise_collect::AccessSensor;
use pagewise_collect::AllocationServer;
use pagewise_collect::CodeEvents;
use pagewise_collect::CollectError;
use pagewise_collect::Delays;
use pagewise_collect::SwapSensor;
use pagewise_collect::Totals;
use pagewise_collect::access::clear_accessed;
use pagewise_host::Exit;
use pagewise_host::counters;
use pagewise_host::page_bytes;
use pagewise_trace::HugePageCosts;
use pagewise_trace::IN_PART;
use pagewise_trace::TraceWriter;

use super::access::Accesses;
use super::access::Exchanged;
use super::access::Walker;
use super::facts::Clocks;
use super::page_walks::WalkShares;
use super::pressure;
use super::processes::Processes;
use super::residency::Residency;
use super::rounds::Rounds;
use super::rounds::processor_time;
use super::runtime_library;
use super::setting::Setting;
use super::translate::Translator;
use super::unprivileged::Unprivileged;
use super::unprivileged::is_lack_of_privilege;
use super::unprivileged::setcap;
use super::waits;
use crate::cli::AccessCost;
use crate::cli::AccessInterval;
use crate::cli::RecordArguments;
use crate::failure::Failure;
use crate::output::tell;

/// Half of a machine's memory does not fill in less.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What of calls on files is not seen without BPF.
const NOT_SEEN_OF_IO: &str = "calls of the C library that the preloaded library sees, not what the page cache did (missed, read ahead, in vain), \
     system calls that a program makes itself, sendfile, splice, copy_file_range, mappings, output by fwrite and printf";

const NOT_PRELOADED: &str =
    "missing: running processes cannot be preloaded; start it under pagewise record";

pub(super) struct Sensors {
    pub(super) faults: Option<SwapSensor>,
    /// The preloaded library and who hears it, of allocations or of calls on files.
    pub(super) allocations: Option<(AllocationServer, PathBuf)>,
    /// Where that library tells of nothing else, it still tells on whose behalf threads read (`pagewise.h`): its path.
    pub(super) marks: Option<PathBuf>,
    /// Of allocations it is to tell.
    pub(super) hears_allocations: bool,
    /// Of calls on files it is to tell, of those since that time (ns); `None`: it is not.
    pub(super) calls_since: Option<u64>,
    pub(super) accesses: Option<Accesses>,
    /// Measured where accesses are recorded: before the program begins, which it would disturb.
    pub(super) huge_page_costs: Option<HugePageCosts>,
    pub(super) set_accessed_ns: Option<f64>,
    pub(super) swap_is_slow: bool,
    /// What the program may have.
    memory_bytes: u64,
    /// Since the last look: faults are not watched before memory gets short.
    waiting_since: Option<Instant>,
    residency: Option<Residency>,
    /// Of processes that end before they are looked at.
    pub(super) code: Option<CodeEvents>,
    /// In place of `faults`, without the right to it.
    unprivileged: Option<Unprivileged>,
    processes: Processes,
    rounds: Rounds,
    pub(super) states: BTreeMap<String, String>,
}

/// What is taken of all that the preloaded library tells.
#[derive(Clone, Copy)]
struct Wanted {
    allocations: bool,
    calls_since: Option<u64>,
}

impl Wanted {
    fn is(self, record: &abi::Record<'_>) -> bool {
        match record {
            abi::Record::Maps(_) => true,
            abi::Record::OfFiles(OfFiles::Call(call)) => {
                self.calls_since.is_some_and(|since| call.time_ns >= since)
            }
            abi::Record::OfFiles(_) => self.calls_since.is_some(),
            _ => self.allocations,
        }
    }
}

impl Sensors {
    pub(super) fn start(
        arguments: &RecordArguments,
        setting: &Setting,
        start: &Clocks,
    ) -> Result<Self, Failure> {
        if arguments.access.is_some() && !arguments.sensors.faults {
            return Err(Failure::new(
                "--access needs the sensor faults, which tells address spaces apart: add it to --sensors",
            ));
        }
        let mut sensors = Self {
            faults: None,
            allocations: None,
            marks: None,
            hears_allocations: false,
            calls_since: None,
            accesses: None,
            huge_page_costs: None,
            set_accessed_ns: None,
            swap_is_slow: Setting::swap_is_slow(),
            memory_bytes: setting.memory_bytes(),
            waiting_since: None,
            residency: None,
            code: None,
            unprivileged: None,
            processes: Processes::before_launch(),
            rounds: Rounds::new(),
            states: BTreeMap::new(),
        };
        if arguments.sensors.faults || arguments.io.is_some() {
            sensors.start_faults(arguments, start)?;
        }
        if !arguments.sensors.faults {
            sensors.state("faults", "off");
        }
        if arguments.io.is_some() && sensors.faults.is_none() {
            sensors.hear_calls()?;
        } else {
            let io = if arguments.io.is_some() { "on" } else { "off" };
            sensors.state("io", io);
        }
        let memory = sensors.faults.as_ref().filter(|_| arguments.sensors.faults);
        for (sensor, state) in waits::states(memory) {
            sensors.state(sensor, &state);
        }
        let looks_at_all = arguments.access.is_some() && sensors.accesses.is_some();
        if sensors.faults.is_none() {
            let missing = "missing: needs root, or the capabilities bpf, perfmon and sys_nice";
            sensors.state(
                "spots",
                if arguments.sensors.spots {
                    missing
                } else {
                    "off"
                },
            );
        }
        sensors.state("access", if looks_at_all { "on" } else { "off" });
        if let Some(faults) = sensors
            .faults
            .as_mut()
            // Of what runs already, pages may have been evicted long ago.
            .filter(|_| {
                !arguments.running.is_meant() && pressure::is_far(arguments.memory.is_some())
            })
        {
            faults.pause_faults();
            sensors.waiting_since = Some(Instant::now());
        }
        let wanted = arguments.sensors.call_paths && arguments.sensors.faults;
        let call_paths = if wanted && sensors.faults.is_some() {
            "on"
        } else {
            "off"
        };
        sensors.state("call_paths", call_paths);
        if arguments.sensors.allocations && arguments.running.is_meant() {
            sensors.state("allocations", NOT_PRELOADED);
        } else if arguments.sensors.allocations {
            match runtime_library() {
                Ok(library) => {
                    if sensors.allocations.is_none() {
                        sensors.allocations = Some((AllocationServer::start()?, library));
                    }
                    sensors.hears_allocations = true;
                    sensors.state("allocations", "on");
                }
                Err(why) => {
                    tell!("pagewise: objects stay without names: {why}; type: make build");
                    sensors.state("allocations", &why);
                }
            }
        } else {
            sensors.state("allocations", "off");
        }
        if arguments.io.is_some() && sensors.allocations.is_none() && !arguments.running.is_meant()
        {
            // Where it is missing, marks do nothing; whoever wants allocations has been told of that.
            sensors.marks = runtime_library().ok();
        }
        sensors.start_residency(arguments.sensors.residency);
        Ok(sensors)
    }

    /// Without BPF, the preloaded library tells of calls on files.
    fn hear_calls(&mut self) -> Result<(), Failure> {
        let library = runtime_library().map_err(|why| {
            Failure::new(format!(
                "--io without root needs the library that is preloaded: {why}; type: make build"
            ))
        })?;
        self.allocations = Some((AllocationServer::start()?, library));
        self.calls_since = Some(0);
        let executable = std::env::current_exe().unwrap_or_default();
        let state = format!(
            "{IN_PART}{NOT_SEEN_OF_IO}; all of it needs root or cap_bpf, cap_perfmon; type: sudo pagewise record --io ..., or once: {}",
            setcap(&executable)
        );
        tell!("pagewise: the sensor io is {state}");
        self.state("io", &state);
        Ok(())
    }

    /// What became of the sensor `io` where the preloaded library is all there is; `None`: nothing was in its way.
    pub(super) fn io_state(&self, translator: &Translator) -> Option<String> {
        self.calls_since?;
        let (server, _) = self.allocations.as_ref()?;
        let state = translator.preload_state(server.served() > 0)?;
        let part = self.states.get("io")?;
        Some(match server.served() {
            0 => format!("missing: no call was seen; the preloaded library: {state}"),
            _ => format!("{part}; the preloaded library: {state}"),
        })
    }

    fn start_accesses(
        &mut self,
        arguments: &RecordArguments,
        layout: pagewise_collect::Layout,
    ) -> Result<(), Failure> {
        let Some(AccessInterval(shortest)) = arguments.access else {
            let spots = self.start_spots(arguments, layout);
            self.state("spots", spots.err().as_deref().unwrap_or("on"));
            return Ok(());
        };
        self.state("spots", "off: --access looks at all pages, not at some");
        // Tried on ourselves: better refused now than after the program has started.
        clear_accessed(std::process::id())?;
        let walker = self.walker(layout)?;
        let (walk_shares, why) = WalkShares::find();
        self.state("page_walks", why.as_deref().unwrap_or("on"));
        self.huge_page_costs = huge_page_costs();
        self.set_accessed_ns = pagewise_host::huge_pages::set_accessed_ns();
        let AccessCost(share) = arguments.access_cost;
        let accesses = Accesses::of_all(walker, shortest, share, page_bytes(), walk_shares);
        self.accesses = Some(accesses);
        Ok(())
    }

    /// After the sensor that tells whose memory it is.
    fn walker(&self, layout: pagewise_collect::Layout) -> Result<Walker, CollectError> {
        let faults = self.faults.as_ref();
        Ok(Walker {
            sensor: AccessSensor::load(layout)?,
            spaces: faults.map(SwapSensor::spaces).transpose()?,
        })
    }

    /// Returns why there are none.
    fn start_spots(
        &mut self,
        arguments: &RecordArguments,
        layout: pagewise_collect::Layout,
    ) -> Result<(), String> {
        if !arguments.sensors.spots {
            return Err("off".to_owned());
        }
        if arguments.running.is_meant() {
            return Err("off: what runs already is left as it is".to_owned());
        }
        if pagewise_host::cold::folios_may_be_large() {
            return Err(
                "off: memory may be in large folios, which clearing the bits of some pages would split (transparent_hugepage/hugepages-*kB/enabled)"
                    .to_owned(),
            );
        }
        let walker = self.walker(layout).map_err(|error| error.to_string())?;
        self.accesses = Some(Accesses::of_spots(walker, page_bytes()));
        Ok(())
    }

    /// Looks at accessed bits if that is due.
    pub(super) fn look_for_accesses(
        &mut self,
        translator: &Translator,
        writer: &mut TraceWriter,
    ) -> Result<(), Failure> {
        let Some(accesses) = self.accesses.as_mut() else {
            return Ok(());
        };
        let processes = || {
            let spaces = translator.live_spaces();
            spaces.into_iter().map(|(pid, _)| pid).collect()
        };
        let counts = &translator.counts;
        let exchanged = Exchanged {
            evictions: counts.evictions,
            swap_ins: counts.major_swap_ins,
        };
        if let Some(why) = accesses.tick(processes, exchanged, writer)? {
            let sensor = if accesses.are_of_spots() {
                "spots"
            } else {
                "access"
            };
            self.state(sensor, &why);
        }
        Ok(())
    }

    /// Nothing is recorded any more: what a look under way has seen by now.
    pub(super) fn finish_looks(&mut self, writer: &mut TraceWriter) -> Result<(), Failure> {
        match &mut self.accesses {
            Some(accesses) => accesses.finish(writer),
            None => Ok(()),
        }
    }

    fn start_faults(&mut self, arguments: &RecordArguments, start: &Clocks) -> Result<(), Failure> {
        let layout = match pagewise_collect::calibrate() {
            Ok(layout) => layout,
            Err(error)
                if is_lack_of_privilege(&error)
                    && arguments.io.is_some()
                    && arguments.running.is_meant() =>
            {
                return Err(Failure::new(format!(
                    "--io of what runs already needs root or the capabilities bpf and perfmon: {error}; type: sudo pagewise record --io ..., \
                     or start it under pagewise record"
                )));
            }
            Err(error) if is_lack_of_privilege(&error) && arguments.access.is_none() => {
                self.unprivileged = Some(if arguments.sensors.faults {
                    Unprivileged::default()
                } else {
                    Unprivileged::of_processes_only()
                });
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let zeros_are_noted =
            counters::vmstat().is_ok_and(|counts| counts.contains_key("swpout_zero"));
        // Without the array of page structs they count as written.
        let zeros = match (zeros_are_noted, layout.page_structs, self.swap_is_slow) {
            (false, ..) => "this kernel writes pages of zeros like others",
            (true, None, false) => {
                "pages of zeros count as written: their contents cannot be found"
            }
            _ => "on",
        };
        self.state("zero_filled", zeros);
        self.faults = Some(SwapSensor::load(pagewise_collect::Options {
            layout,
            base_ns: start.monotonic_ns,
            swap_is_slow: self.swap_is_slow,
            memory_bytes: self.memory_bytes,
            zeros_are_noted,
            memory: arguments.sensors.faults,
            io: arguments.io.is_some(),
            call_paths: arguments.sensors.call_paths || arguments.io.is_some(),
            check_call_paths: arguments.check_call_paths,
            does_nothing: false,
            enforces: false,
        })?);
        if arguments.sensors.faults {
            self.state("faults", "on");
        }
        if arguments.sensors.call_paths || arguments.io.is_some() {
            // Without it, what is lost is counted.
            self.code = CodeEvents::open().ok();
        }
        let unseen = self
            .faults
            .as_ref()
            .map_or(0, SwapSensor::unseen_processors);
        if unseen > 0 {
            tell!(
                "pagewise: {unseen} processors refuse the event of major faults: swap-ins there are told without latency"
            );
        }
        self.start_accesses(arguments, layout)
    }

    fn start_residency(&mut self, wanted: bool) {
        if !wanted {
            return self.state("residency", "off");
        }
        match Residency::start() {
            Ok(residency) => {
                self.state("residency", "on");
                if !residency.tells_huge() {
                    let why = "missing: needs PAGEMAP_SCAN (Linux 6.7)";
                    self.state("huge_pages", why);
                }
                self.residency = Some(residency);
            }
            Err(why) => {
                tell!("pagewise: which pages are in memory is not recorded: {why}");
                self.state("residency", &why);
            }
        }
    }

    /// The program is there, and has not been let go yet.
    pub(super) fn attach(&mut self, pid: u32) -> Result<(), Failure> {
        if let Some(faults) = &self.faults {
            faults.watch(pid)?;
        }
        if let Some(unprivileged) = &mut self.unprivileged {
            let states = unprivileged.attach(pid);
            if let [(_, faults), ..] = &states[..] {
                tell!("pagewise: the sensor faults is {faults}");
            }
            self.states.extend(states);
        }
        Ok(())
    }

    /// What the kernel accounts of recorded threads; `None` where it does not.
    pub(super) fn delays(&self) -> Option<Delays> {
        let on = self.states.get("delays").is_some_and(|state| state == "on");
        let faults = self.faults.as_ref().filter(|_| on)?;
        // No recording ends for want of what is only put beside it.
        faults.delays().ok().flatten()
    }

    /// Whether a sensor tells of processes as they come and go.
    pub(super) fn announce_processes(&self) -> bool {
        let events = self.unprivileged.as_ref();
        self.faults.is_some() || events.is_some_and(Unprivileged::follows_processes)
    }

    /// Looks at the processes' page tables and counters, if it is time.
    pub(super) fn look_at_processes(
        &mut self,
        translator: &mut Translator,
        writer: &mut TraceWriter,
    ) -> Result<(), Failure> {
        if self.residency.is_none() && self.unprivileged.is_none() {
            return Ok(());
        }
        let (began, spent) = (Instant::now(), processor_time());
        if self.rounds.is_due() {
            if self.faults.is_none() {
                let (told, residency) = (self.announce_processes(), self.residency.as_ref());
                self.processes.find(told, translator, residency, writer)?;
            }
            if let Some(unprivileged) = &mut self.unprivileged {
                unprivileged.begin_round(&translator.live(), writer)?;
            }
            if let Some(residency) = &mut self.residency {
                residency.begin_round(translator.targets());
            }
            self.rounds.begin(began);
        }
        let more = match &mut self.residency {
            Some(residency) => residency.advance(writer)?,
            None => false,
        };
        self.rounds
            .spent(processor_time().saturating_sub(spent), more);
        Ok(())
    }

    /// Looks at everything so many times more rarely.
    pub(super) fn slow_down(&mut self, pace: u32) {
        self.rounds.slow_down(pace);
        if let Some(accesses) = &mut self.accesses {
            accesses.slow_down(pace);
        }
    }

    fn state(&mut self, sensor: &str, state: &str) {
        self.states.insert(sensor.to_owned(), state.to_owned());
    }

    /// Observes no memory until [`Sensors::observe`]; processes are followed, and allocations are taken.
    pub(super) fn hold(&mut self) {
        self.calls_since = self.calls_since.map(|_| u64::MAX);
        if let Some(faults) = &mut self.faults {
            faults.pause();
        }
    }

    /// Observes memory after [`Sensors::hold`], faults at once: pages may have been evicted meanwhile.
    pub(super) fn observe(&mut self) -> Result<(), Failure> {
        self.waiting_since = None;
        self.calls_since = self.calls_since.map(|_| Clocks::now().monotonic_ns);
        if let Some(faults) = &mut self.faults {
            faults.resume()?;
        }
        Ok(())
    }

    /// Watches faults from the moment that memory may get short.
    pub(super) fn look_for_pressure(&mut self, evictions: u64) -> Result<(), Failure> {
        let Some(since) = self.waiting_since else {
            return Ok(());
        };
        if evictions == 0 && since.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.waiting_since = Some(Instant::now());
        if evictions > 0 || !pressure::memory_is_plenty() {
            self.waiting_since = None;
            if let Some(faults) = &mut self.faults {
                faults.resume_faults()?;
            }
        }
        Ok(())
    }

    /// Moves all that was seen into the trace.
    pub(super) fn drain(
        &mut self,
        translator: &mut Translator,
        writer: &mut TraceWriter,
    ) -> Result<(), Failure> {
        // The first error counts; the sensors cannot be stopped half-way.
        let mut failed = None;
        if let Some(faults) = &mut self.faults {
            faults.drain(|observation| {
                if let Err(error) = translator.observe(observation, writer) {
                    failed.get_or_insert(error);
                }
            })?;
            if translator.code_has_changed() {
                faults.forget_paths();
            }
            for lesson in translator.take_lessons() {
                faults.teach(&lesson);
            }
        }
        if let Some(unprivileged) = &mut self.unprivileged {
            let drained = unprivileged.drain(translator, self.residency.as_ref(), writer);
            failed = failed.or(drained.err());
        }
        if let Some((server, _)) = &mut self.allocations {
            let wanted = Wanted {
                allocations: self.hears_allocations,
                calls_since: self.calls_since,
            };
            server.drain(|pid, record| {
                if !wanted.is(&record) {
                    return;
                }
                if let Err(error) = translator.allocation_record(pid, &record, writer) {
                    failed.get_or_insert(error);
                }
            });
            for pid in translator.take_short_stacks() {
                server.lengthen_stacks(pid);
            }
        }
        for pid in translator.take_ended() {
            if let Some((server, _)) = &mut self.allocations {
                server.forget(pid);
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(translator.write_events(writer)?),
        }
    }

    /// Where allocations could not be recorded after all; `None`: nowhere.
    pub(super) fn allocations_state(&self, translator: &Translator) -> Option<String> {
        let (server, _) = self
            .allocations
            .as_ref()
            .filter(|_| self.hears_allocations)?;
        translator.preload_state(server.served() > 0)
    }

    pub(super) fn totals(&self) -> Result<Option<Totals>, Failure> {
        Ok(self.faults.as_ref().map(SwapSensor::totals).transpose()?)
    }

    /// What looking at processes has cost: nothing to tell if nobody looked.
    pub(super) fn cost(&self) -> Option<(String, f64)> {
        let total = self.rounds.total().as_nanos() as f64;
        self.residency
            .as_ref()
            .map(|_| ("residency_ns".to_owned(), total))
    }

    /// Counts that do not need the sensor of faults, where it is missing: the program's own, as its parent gets them.
    pub(super) fn counted_instead(
        &self,
        exit: Option<&Exit>,
        translator: &Translator,
    ) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        let unprivileged = self.unprivileged.as_ref();
        let unprivileged = unprivileged.filter(|unprivileged| unprivileged.tells_faults());
        let (Some(exit), Some(unprivileged)) = (exit, unprivileged) else {
            return counts;
        };
        counts.insert("major_faults".to_owned(), exit.major_faults);
        if let Some((_, seen)) = unprivileged.seen() {
            let told = translator.counts.major_swap_ins + seen.of_files + seen.unclassified;
            counts.insert("file_major_faults".to_owned(), seen.of_files);
            counts.insert(
                "faults_without_exception".to_owned(),
                exit.major_faults.saturating_sub(told),
            );
        }
        counts
    }

    pub(super) fn losses(
        &self,
        totals: &Option<Totals>,
        translator: &Translator,
    ) -> BTreeMap<String, u64> {
        let mut losses = BTreeMap::new();
        if let Some(totals) = totals {
            losses.insert("events".to_owned(), totals.lost + totals.malformed);
            losses.insert(
                "events_of_new_processors".to_owned(),
                totals.lost_without_ring,
            );
            losses.insert("process_notices".to_owned(), totals.lost_notices);
            losses.insert("processes".to_owned(), totals.lost_processes);
            losses.insert(
                "call_paths".to_owned(),
                totals.lost_copies + translator.fault_paths.too_late,
            );
            losses.insert("evictions_without_owner".to_owned(), totals.unknown_owner);
            losses.insert("stalls".to_owned(), totals.lost_stalls);
            losses.insert("write_latencies".to_owned(), totals.lost_completions);
            if self.states.get("io").is_some_and(|state| state == "on") {
                losses.insert("files".to_owned(), totals.io.lost_files);
                losses.insert("io_of_other_threads".to_owned(), totals.io.unseen_calls);
                losses.insert("io_of_32_bit_code".to_owned(), totals.io.foreign_calls);
                losses.insert("handovers".to_owned(), totals.io.lost_handovers);
            }
        }
        if let Some(faults) = &self.faults {
            losses.insert("fault_processors".to_owned(), faults.unseen_processors());
        }
        for (what, lost) in self.accesses.iter().flat_map(Accesses::losses) {
            losses.insert(what.to_owned(), lost);
        }
        if let Some((server, _)) = &self.allocations {
            if self.hears_allocations {
                losses.insert(
                    "allocations".to_owned(),
                    server.lost() + translator.counts.strangers,
                );
            }
            if self.calls_since.is_some() {
                let strange = translator.counts.strange_calls;
                losses.insert("io_calls".to_owned(), server.lost_calls() + strange);
                losses.insert("call_paths".to_owned(), translator.calls_without_path());
            }
            losses.insert(
                "malformed_allocation_records".to_owned(),
                server.malformed(),
            );
            losses.insert("allocation_processes".to_owned(), server.unserved());
        }
        if let Some(residency) = &self.residency {
            let lost = residency.losses();
            losses.extend(lost.map(|(place, count)| (place.to_owned(), count)));
        }
        if let Some((lost, counts)) = self.unprivileged.as_ref().and_then(Unprivileged::seen) {
            losses.insert("events".to_owned(), lost + counts.unclassified);
        }
        losses
    }
}

fn huge_page_costs() -> Option<HugePageCosts> {
    let costs = pagewise_host::huge_pages::costs()?;
    Some(HugePageCosts {
        cycles_per_ns: costs.cycles_per_ns,
        walk_cycles: costs.walk_cycles,
        touch_base_ns: costs.touch_base.median_ns,
        touch_base_p90_ns: costs.touch_base.p90_ns,
        touch_huge_ns: costs.touch_huge.median_ns,
        touch_huge_p90_ns: costs.touch_huge.p90_ns,
    })
}

#[cfg(test)]
mod tests {
    use pagewise_abi::file_calls::CallKind;
    use pagewise_abi::file_calls::FileCall;
    use pagewise_abi::file_calls::FileId;

    use super::*;

    fn call(time_ns: u64) -> abi::Record<'static> {
        abi::Record::OfFiles(OfFiles::Call(FileCall {
            time_ns,
            latency_ns: 1,
            token: 1,
            tid: 1,
            kind: CallKind::Read,
            direct: false,
            file: FileId {
                device: (8, 1),
                inode: 1,
                generation: 0,
            },
            offset: None,
            result: Ok(1),
        }))
    }

    #[test]
    fn of_what_the_library_tells_only_what_is_wanted_is_taken() {
        let release = abi::Record::Release(abi::Release {
            time_ns: 5,
            address: 1,
            bytes: 0,
        });
        let wanted = |allocations, calls_since| Wanted {
            allocations,
            calls_since,
        };
        assert!(wanted(true, None).is(&release) && !wanted(true, None).is(&call(5)));
        assert!(!wanted(false, Some(0)).is(&release) && wanted(false, Some(0)).is(&call(5)));
        // With --delay.
        assert!(!wanted(true, Some(6)).is(&call(5)) && wanted(true, Some(5)).is(&call(5)));
    }
}
