//! Recording faults and processes without the right to load BPF programs: perf events of the program's own major faults
//! where they are permitted, and each thread's fault counters, read from time to time.

use std::collections::HashMap;
use std::collections::HashSet;
use std::io;
use std::path::Path;

use pagewise_attribute::Mapping;
use pagewise_attribute::parse_maps;
use pagewise_collect::CallPath;
use pagewise_collect::CollectError;
use pagewise_collect::FaultEvent;
use pagewise_collect::FaultEvents;
use pagewise_collect::Observation;
use pagewise_collect::record::ProcessChange;
use pagewise_collect::residency::Seen;
use pagewise_collect::residency::State;
use pagewise_host::family;
use pagewise_host::process;
use pagewise_trace as trace;
use pagewise_trace::SharedMemory;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

use super::facts::Clocks;
use super::residency::Residency;
use super::translate::Translator;

/// What stands in for the BPF sensor.
#[derive(Debug, Default)]
pub(super) struct Unprivileged {
    events: Option<FaultEvents>,
    /// Of faults nobody wants to hear.
    is_of_processes_only: bool,
    /// The address space of each process, as the events tell.
    spaces: HashMap<u32, Space>,
    mappings: HashMap<u32, Vec<Mapping>>,
    counters: HashMap<(u32, u32), (u64, u64)>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug)]
struct Space {
    number: u32,
    exec_epoch: u32,
}

/// Faults that are no swap-ins, or that cannot be told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// On pages of files.
    pub(super) of_files: u64,
    /// Of a process that had gone before its mappings were read, or whose begin was not told.
    pub(super) unclassified: u64,
}

/// What lies at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    Anonymous,
    /// A private mapping of a file: a page of it that was written to is the process's own.
    PrivateFile,
    SharedFile,
    /// Of no disk: what is read of it comes from swap.
    SharedMemory,
}

impl Unprivileged {
    /// Tells of processes as they come and go, and of no faults.
    pub(super) fn of_processes_only() -> Self {
        Self {
            is_of_processes_only: true,
            ..Self::default()
        }
    }

    /// Observes the program, which has not been let go yet. What the sensors then are, for the trace, `faults` first; none, if nobody
    /// wants to hear of faults.
    pub(super) fn attach(&mut self, pid: u32) -> Vec<(String, String)> {
        if self.is_of_processes_only {
            self.events = FaultEvents::open(pid).ok();
            return Vec::new();
        }
        let executable = std::env::current_exe().unwrap_or_default();
        let more = format!(
            "needs root or cap_bpf, cap_perfmon; type: sudo pagewise record ..., or once: {}",
            setcap(&executable)
        );
        let (faults, major_faults) = match FaultEvents::open(pid) {
            Ok(events) => {
                self.events = Some(events);
                let what = "major faults only, without latency, by perf events";
                (format!("missing: {more} ({what})"), "on".to_owned())
            }
            Err(error) => (
                format!("missing: {more}"),
                format!(
                    "missing: {}; type: sudo sysctl kernel.perf_event_paranoid=2",
                    perf_refused(&error)
                ),
            ),
        };
        let state = |sensor: &str, state: String| (sensor.to_owned(), state);
        vec![
            state("faults", faults),
            state("major_faults", major_faults),
            state("thread_faults", "on".to_owned()),
        ]
    }

    /// Whether anybody wants to hear of faults.
    pub(super) fn tells_faults(&self) -> bool {
        !self.is_of_processes_only
    }

    /// Whether the events tell of processes too.
    pub(super) fn follows_processes(&self) -> bool {
        self.events.is_some()
    }

    /// A new round of looking at these processes (process, space) begins.
    pub(super) fn begin_round(
        &mut self,
        live: &[(u32, u32)],
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        // What is mapped may have changed: read again when it is needed. Of processes that have gone, the last list is the
        // best there is.
        self.mappings.retain(|pid, _| !process::is_alive(*pid));
        match self.is_of_processes_only {
            true => Ok(()),
            false => self.count_faults(live, writer),
        }
    }

    /// Events lost, and what the others were; `None` without events, and where nobody wants to hear of faults.
    pub(super) fn seen(&self) -> Option<(u64, Counts)> {
        let events = self
            .events
            .as_ref()
            .filter(|_| !self.is_of_processes_only)?;
        Some((events.lost(), self.counts))
    }

    /// Moves what the events told into the trace.
    pub(super) fn drain(
        &mut self,
        translator: &mut Translator,
        residency: Option<&Residency>,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let Some(mut events) = self.events.take() else {
            return Ok(());
        };
        let mut failed = None;
        let mut reread = HashSet::new();
        events.drain(|event| {
            let observation =
                self.observation(event, residency, &mut reread, || translator.next_space());
            if let Some(observation) = observation
                && let Err(error) = translator.observe(observation, writer)
            {
                failed.get_or_insert(error);
            }
        });
        self.events = Some(events);
        failed.map_or(Ok(()), Err)
    }

    fn observation(
        &mut self,
        event: FaultEvent,
        residency: Option<&Residency>,
        reread: &mut HashSet<u32>,
        next_space: impl FnOnce() -> u32,
    ) -> Option<Observation> {
        match event {
            FaultEvent::MajorFault { .. } if self.is_of_processes_only => None,
            FaultEvent::MajorFault {
                time_ns,
                pid,
                tid,
                address,
            } => {
                let Some(space) = self.spaces.get(&pid).map(|space| space.number) else {
                    self.counts.unclassified += 1;
                    return None;
                };
                let seen = residency.and_then(|residency| residency.seen(space, address));
                let page = address & !(pagewise_host::page_bytes() - 1);
                self.is_swap_in(pid, page, seen, reread)
                    .then_some(Observation::SwapIn {
                        time_ns,
                        space,
                        tid,
                        address: page,
                        latency_ns: None,
                        major: true,
                        call_path: CallPath::Unknown,
                    })
            }
            FaultEvent::Fork {
                time_ns,
                pid,
                parent,
            } => {
                let parent = *self.spaces.get(&parent)?;
                let command = process::comm(pid).unwrap_or_default();
                let begun = (ProcessChange::Fork, parent.number, parent.exec_epoch);
                Some(self.new_space(time_ns, pid, next_space(), begun, command))
            }
            FaultEvent::Exec {
                time_ns,
                pid,
                command,
            } => {
                self.mappings.remove(&pid);
                let before = self.spaces.get(&pid).copied();
                let begun = (
                    ProcessChange::Exec,
                    before.map_or(0, |space| space.number),
                    before.map_or(0, |space| space.exec_epoch) + 1,
                );
                Some(self.new_space(time_ns, pid, next_space(), begun, command))
            }
            FaultEvent::Exit { time_ns, pid } => {
                self.mappings.remove(&pid);
                let space = self.spaces.remove(&pid)?;
                Some(change(
                    time_ns,
                    pid,
                    space,
                    (ProcessChange::Exit, 0),
                    String::new(),
                ))
            }
        }
    }

    fn new_space(
        &mut self,
        time_ns: u64,
        pid: u32,
        number: u32,
        (what, parent, exec_epoch): (ProcessChange, u32, u32),
        command: String,
    ) -> Observation {
        let space = Space { number, exec_epoch };
        self.spaces.insert(pid, space);
        change(
            time_ns,
            pid,
            space,
            (what, parent),
            command.trim_end().to_owned(),
        )
    }

    /// A major fault on memory of no file, private or shared, is a swap-in. On a private mapping of a file it is one only if the page
    /// was seen in swap: else the file was read.
    fn is_swap_in(
        &mut self,
        pid: u32,
        page: u64,
        seen: Option<Seen>,
        reread: &mut HashSet<u32>,
    ) -> bool {
        if seen.is_some_and(|seen| seen.state == State::Swapped) {
            return true;
        }
        let mut found = self.backing(pid, page);
        if found.is_none() && reread.insert(pid) {
            // New since; a process that has gone keeps its old list.
            if let Some(text) = process::maps(pid).filter(|text| !text.is_empty()) {
                self.mappings
                    .insert(pid, parse_maps(&text).unwrap_or_default());
            }
            found = self.backing(pid, page);
        }
        match found {
            Some(Backing::Anonymous | Backing::SharedMemory) => true,
            Some(Backing::PrivateFile | Backing::SharedFile) => {
                self.counts.of_files += 1;
                false
            }
            None => {
                self.counts.unclassified += 1;
                false
            }
        }
    }

    fn backing(&self, pid: u32, page: u64) -> Option<Backing> {
        let mappings = self.mappings.get(&pid)?;
        let next = mappings.partition_point(|mapping| mapping.start <= page);
        let mapping = mappings.get(next.checked_sub(1)?)?;
        (page < mapping.end).then(|| backing(mapping))
    }

    /// Reads the fault counters of all threads of these processes (process, space).
    fn count_faults(
        &mut self,
        live: &[(u32, u32)],
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        for &(pid, space) in live {
            let time_ns = Clocks::now().monotonic_ns;
            for thread in family::thread_faults(pid) {
                let now = (thread.major, thread.minor);
                if self.counters.insert((space, thread.tid), now) != Some(now) {
                    writer.thread_faults.push(trace::ThreadFaults {
                        time_ns,
                        space,
                        tid: thread.tid,
                        major_faults: thread.major,
                        minor_faults: thread.minor,
                    })?;
                }
            }
        }
        self.counters
            .retain(|(space, _), _| live.iter().any(|(_, alive)| alive == space));
        Ok(())
    }
}

fn change(
    time_ns: u64,
    pid: u32,
    space: Space,
    (what, parent_space): (ProcessChange, u32),
    command: String,
) -> Observation {
    Observation::Process {
        time_ns,
        what,
        space: space.number,
        parent_space,
        pid,
        start_boottime_ns: process::stat(pid).map_or(0, |stat| stat.start_ns),
        exec_epoch: space.exec_epoch,
        command,
    }
}

fn backing(mapping: &Mapping) -> Backing {
    let path = mapping.path.as_deref();
    if mapping.shared {
        match path.is_some_and(SharedMemory::has_path) {
            true => Backing::SharedMemory,
            false => Backing::SharedFile,
        }
    } else if path.is_some_and(|path| !path.starts_with('[')) {
        Backing::PrivateFile
    } else {
        Backing::Anonymous
    }
}

/// What to type so that the executable may load BPF programs for anyone who runs it.
pub(crate) fn setcap(executable: &Path) -> String {
    format!(
        "sudo setcap cap_bpf,cap_perfmon+ep {}",
        executable.display()
    )
}

/// Why there are no perf events.
pub(crate) fn perf_refused(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::PermissionDenied {
        let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        let paranoid = paranoid.unwrap_or_default();
        return format!("not permitted (perf_event_paranoid is {})", paranoid.trim());
    }
    format!("perf events cannot be opened: {error}")
}

/// Whether that is so for lack of privilege: then something else is recorded instead. Without root, what else may be
/// missing for BPF does not matter.
pub(crate) fn is_lack_of_privilege(error: &CollectError) -> bool {
    matches!(error, CollectError::NotPermitted) || !rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00400000-00401000 rw-p 00001000 00:1f 42 /usr/bin/prog
00500000-00600000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000100000 rw-p 00000000 00:00 0
7f0000200000-7f0000300000 rw-s 00000000 00:01 99 /memfd:ring (deleted)
7f0000400000-7f0000500000 rw-s 00000000 00:01 99 /dev/zero (deleted)
7f0000600000-7f0000700000 rw-s 00000000 00:1f 99 /var/lib/table
";

    fn with_maps(pid: u32) -> Unprivileged {
        let mut sensor = Unprivileged::default();
        let mappings = parse_maps(MAPS).expect("well formed");
        sensor.mappings.insert(pid, mappings);
        sensor
    }

    /// No such process: its mappings are what they were.
    const GONE: u32 = u32::MAX / 2;

    #[test]
    fn what_a_major_fault_is_depends_on_what_lies_there() {
        let mut sensor = with_maps(GONE);
        let mut told = |page, seen| sensor.is_swap_in(GONE, page, seen, &mut HashSet::new());
        let seen = |state| Some(Seen { state, file: false });
        assert!(told(0x7f00_0000_1000, None));
        assert!(told(0x50_0000, seen(State::Resident)), "the heap");
        assert!(!told(0x40_0000, None), "the file was read");
        assert!(told(0x40_0000, seen(State::Swapped)), "written to before");
        assert!(told(0x7f00_0020_0000, None), "shared memory");
        assert!(told(0x7f00_0040_0000, seen(State::Absent)));
        assert!(!told(0x7f00_0060_0000, None), "a file");
        assert!(!told(0x1000, None), "nothing is known to lie there");
        let counts = sensor.counts;
        assert_eq!((counts.of_files, counts.unclassified), (2, 1));
    }

    #[test]
    fn processes_get_spaces_and_strangers_do_not() {
        let mut sensor = Unprivileged::default();
        let mut last = 0;
        let mut observe = |event| {
            let next = || {
                last += 1;
                last
            };
            sensor.observation(event, None, &mut HashSet::new(), next)
        };
        let exec = |pid| FaultEvent::Exec {
            time_ns: 1,
            pid,
            command: "prog".to_owned(),
        };
        let fork = |pid, parent| FaultEvent::Fork {
            time_ns: 2,
            pid,
            parent,
        };
        let numbers = |observation: Option<Observation>| match observation {
            Some(Observation::Process {
                what,
                space,
                parent_space,
                exec_epoch,
                ..
            }) => Some((what, space, parent_space, exec_epoch)),
            _ => None,
        };
        assert_eq!(
            numbers(observe(fork(GONE + 1, GONE))),
            None,
            "before the exec"
        );
        let first = numbers(observe(exec(GONE)));
        assert_eq!(first, Some((ProcessChange::Exec, 1, 0, 1)));
        let child = numbers(observe(fork(GONE + 1, GONE)));
        assert_eq!(child, Some((ProcessChange::Fork, 2, 1, 1)));
        let child = numbers(observe(exec(GONE + 1)));
        assert_eq!(child, Some((ProcessChange::Exec, 3, 2, 2)));
        let end = FaultEvent::Exit {
            time_ns: 3,
            pid: GONE + 1,
        };
        let ended = numbers(observe(end.clone()));
        assert_eq!(ended, Some((ProcessChange::Exit, 3, 0, 2)));
        assert_eq!(numbers(observe(end)), None, "only once");
    }

    #[test]
    fn a_fault_of_an_unknown_process_is_counted() {
        let mut sensor = Unprivileged::default();
        let fault = FaultEvent::MajorFault {
            time_ns: 1,
            pid: GONE,
            tid: GONE,
            address: 0x1000,
        };
        let observed = sensor.observation(fault, None, &mut HashSet::new(), || 1);
        assert!(observed.is_none());
        assert_eq!(sensor.counts.unclassified, 1);
    }
}
