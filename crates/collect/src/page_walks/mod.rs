//! How much of its time a process waits for address translation: counters of the processor, cycles in page walks over all cycles
//! (HawkEye, ASPLOS 2019, section 3.4). Virtual machines seldom have them.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod processor;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod processor;

use std::fs;
use std::io;
use std::io::Read;

use libbpf_sys as sys;

use crate::perf_event;

/// Each thread takes some descriptors. Of more, the oldest are counted.
const MOST_THREADS: usize = 64;

/// A perf event, by type and configuration (perf_event_open(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    kind: u32,
    config: u64,
}

/// What counts page walks on this processor.
#[derive(Clone, Debug)]
pub struct WalkEvents {
    /// Cycles with a walk under way, of loads and of stores.
    walks: Vec<Event>,
    cycles: Event,
}

impl WalkEvents {
    /// Finds them, and tries them on this process.
    ///
    /// # Errors
    /// Why there are none, in words that end a sentence.
    pub fn find() -> Result<Self, String> {
        let processor = fs::read_to_string("/proc/cpuinfo").map_err(|error| error.to_string())?;
        let raw = processor::walk_cycles(&processor)?;
        let walks = raw.iter().map(|config| Event {
            kind: sys::PERF_TYPE_RAW,
            config: *config,
        });
        let found = Self {
            walks: walks.collect(),
            cycles: Event {
                kind: sys::PERF_TYPE_HARDWARE,
                config: u64::from(sys::PERF_COUNT_HW_CPU_CYCLES),
            },
        };
        match Counted::open(&found, std::process::id()) {
            Ok(_) => Ok(found),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                Err("its counters are not there, as in most virtual machines".to_owned())
            }
            Err(error) => Err(format!("its counters cannot be used: {error}")),
        }
    }
}

/// The counters of one process.
#[derive(Debug)]
pub struct PageWalks {
    threads: Vec<Counted>,
}

impl PageWalks {
    /// Counts from now on, in user mode, what the process's threads do and those that they start. Its child processes
    /// are not counted.
    ///
    /// # Errors
    /// `NotFound` for a process that has ended, and what perf_event_open(2) says: too many open files, too few privileges.
    pub fn open(events: &WalkEvents, pid: u32) -> io::Result<Self> {
        let mut threads = Vec::new();
        let mut ids: Vec<u32> = fs::read_dir(format!("/proc/{pid}/task"))?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        ids.sort_unstable();
        for id in ids.into_iter().take(MOST_THREADS) {
            match Counted::open(events, id) {
                Ok(counted) => threads.push(counted),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { threads })
    }

    /// Share of its cycles in page walks since the last call, 0 to 1. `None`: it did not run, or its counters did not.
    pub fn overhead(&mut self) -> Option<f64> {
        let (walks, cycles) = self.advance();
        (cycles > 0.0).then(|| (walks / cycles).min(1.0))
    }

    /// Cycles in page walks and all cycles since the last call.
    pub fn advance(&mut self) -> (f64, f64) {
        let (mut walks, mut cycles) = (0.0, 0.0);
        for thread in &mut self.threads {
            let counted: Vec<Option<f64>> = thread.walks.iter_mut().map(Counter::advance).collect();
            let all = counted.into_iter().sum::<Option<f64>>();
            // A thread of which one counter did not run says nothing.
            if let Some((walked, all)) = all.zip(thread.cycles.advance()) {
                walks += walked;
                cycles += all;
            }
        }
        (walks, cycles)
    }
}

/// The counters of one thread.
#[derive(Debug)]
struct Counted {
    walks: Vec<Counter>,
    cycles: Counter,
}

impl Counted {
    fn open(events: &WalkEvents, thread: u32) -> io::Result<Self> {
        let walks = events
            .walks
            .iter()
            .map(|event| Counter::open(*event, thread));
        Ok(Self {
            walks: walks.collect::<io::Result<_>>()?,
            cycles: Counter::open(events.cycles, thread)?,
        })
    }
}

#[derive(Debug)]
struct Counter {
    file: fs::File,
    last: Reading,
}

/// What reading a counter gives: `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reading {
    value: u64,
    enabled_ns: u64,
    running_ns: u64,
}

impl Reading {
    /// What was counted since `before`, as if the counter had not shared the processor's with others. `None`: it did not run.
    fn since(self, before: Self) -> Option<f64> {
        let enabled = self.enabled_ns.saturating_sub(before.enabled_ns) as f64;
        let running = self.running_ns.saturating_sub(before.running_ns) as f64;
        let counted = self.value.saturating_sub(before.value) as f64;
        (running > 0.0).then(|| counted * (enabled / running))
    }
}

impl Counter {
    fn open(event: Event, thread: u32) -> io::Result<Self> {
        let mut attributes = sys::perf_event_attr {
            type_: event.kind,
            size: size_of::<sys::perf_event_attr>() as u32,
            config: event.config,
            read_format: u64::from(
                sys::PERF_FORMAT_TOTAL_TIME_ENABLED | sys::PERF_FORMAT_TOTAL_TIME_RUNNING,
            ),
            ..Default::default()
        };
        attributes.set_exclude_kernel(1);
        attributes.set_exclude_hv(1);
        attributes.set_inherit(1);
        attributes.set_inherit_thread(1);
        let opened = perf_event::open(&attributes, perf_event::Scope::Thread(thread))?;
        Ok(Self {
            file: opened.into(),
            last: Reading::default(),
        })
    }

    fn advance(&mut self) -> Option<f64> {
        let mut bytes = [0; 24];
        if !matches!(self.file.read(&mut bytes), Ok(24)) {
            return None;
        }
        let word = |at: usize| {
            bytes[at * 8..]
                .first_chunk()
                .map_or(0, |word| u64::from_ne_bytes(*word))
        };
        let now = Reading {
            value: word(0),
            enabled_ns: word(1),
            running_ns: word(2),
        };
        let counted = now.since(self.last);
        self.last = now;
        counted
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;
    use std::time::Instant;

    use super::*;

    const TASK_CLOCK: Event = Event {
        kind: sys::PERF_TYPE_SOFTWARE,
        config: sys::PERF_COUNT_SW_TASK_CLOCK as u64,
    };

    fn busy(time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn counters_that_shared_the_processor_are_scaled() {
        let before = Reading {
            value: 100,
            enabled_ns: 1000,
            running_ns: 500,
        };
        let now = Reading {
            value: 400,
            enabled_ns: 3000,
            running_ns: 1500,
        };
        assert_eq!(now.since(before), Some(600.0));
        assert_eq!(before.since(before), None, "it did not run");
    }

    /// With the time of its threads for both counters, half and half of two: this machine need not have others.
    #[test]
    fn a_share_is_of_all_threads_since_the_last_call() {
        let events = WalkEvents {
            walks: vec![TASK_CLOCK],
            cycles: TASK_CLOCK,
        };
        let mut walks = match PageWalks::open(&events, std::process::id()) {
            Ok(walks) => walks,
            Err(error) => panic!("perf_event_paranoid? {error}"),
        };
        // A thread that comes later is counted as well.
        let (send, receive) = mpsc::channel();
        let later = thread::spawn(move || {
            busy(Duration::from_millis(20));
            send.send(()).ok();
        });
        receive.recv().ok();
        later.join().ok();
        let share = walks.overhead();
        assert!(share.is_some_and(|share| share > 0.9), "{share:?}");
    }

    #[test]
    fn a_process_that_has_ended_is_told() {
        let events = WalkEvents {
            walks: vec![],
            cycles: TASK_CLOCK,
        };
        let ended = PageWalks::open(&events, u32::MAX >> 1).map(|_| ());
        assert_eq!(
            ended.map_err(|error| error.kind()),
            Err(io::ErrorKind::NotFound)
        );
    }
}
