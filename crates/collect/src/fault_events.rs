//! Major faults without root: perf events of one's own program and its descendants, where `perf_event_paranoid` permits
//! them (2 or less). They tell thread and address, not how long the fault took; and, on the way, who forks, execs and ends.
//!
//! One ring per processor, read without waking anyone. The formats are those of perf_event_open(2).

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use libbpf_sys as sys;

use crate::perf_event;
use crate::perf_ring;
use crate::perf_ring::PerfRing;

/// Pages of each ring's data: with the page before them, what `perf_event_mlock_kb` grants anyone, 516 KiB a processor.
const RING_PAGES: usize = 128;

/// Something that happened to the program, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultEvent {
    /// A major fault in user mode has ended.
    MajorFault {
        /// When.
        time_ns: u64,
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The address that was accessed.
        address: u64,
    },
    /// A process was forked (also by vfork, then sharing its parent's memory).
    Fork {
        /// When.
        time_ns: u64,
        /// The new process.
        pid: u32,
        /// Its parent.
        parent: u32,
    },
    /// A process runs another program.
    Exec {
        /// When.
        time_ns: u64,
        /// The process.
        pid: u32,
        /// Its new name.
        command: String,
    },
    /// The last thread of a process ended.
    Exit {
        /// When.
        time_ns: u64,
        /// The process.
        pid: u32,
    },
}

impl FaultEvent {
    /// When it happened.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::MajorFault { time_ns, .. }
            | Self::Fork { time_ns, .. }
            | Self::Exec { time_ns, .. }
            | Self::Exit { time_ns, .. } => *time_ns,
        }
    }
}

/// The open events of one program.
#[derive(Debug)]
pub struct FaultEvents {
    rings: Vec<PerfRing>,
    /// Threads alive of each process that has several.
    threads: HashMap<u32, u32>,
    lost: u64,
}

impl FaultEvents {
    /// Observes this process from its next exec on, and its descendants.
    ///
    /// # Errors
    /// `PermissionDenied` if `perf_event_paranoid` is above 2, in containers that forbid perf events, and for processes of
    /// others.
    pub fn open(pid: u32) -> io::Result<Self> {
        let rings = PerfRing::on_each_processor(RING_PAGES, |cpu| open_on(pid, cpu))?;
        Ok(Self {
            rings,
            threads: HashMap::new(),
            lost: 0,
        })
    }

    /// Hands all that happened since the last call to `sink`, in order of time. Never blocks.
    pub fn drain(&mut self, sink: impl FnMut(FaultEvent)) {
        let mut events = Vec::new();
        for ring in &mut self.rings {
            ring.drain(|kind, misc, body| match decode(kind, misc, body) {
                Some(Decoded::Event(event)) => events.push(event),
                Some(Decoded::Thread(thread)) => events.push(thread.into_event()),
                Some(Decoded::Lost(count)) => self.lost += count,
                None => {}
            });
        }
        events.sort_by_key(FaultEvent::time_ns);
        let threads = &mut self.threads;
        events
            .into_iter()
            .filter(|event| counts(threads, event))
            .for_each(sink);
    }

    /// Events that found a ring full.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// Follows the threads of processes: of these, only the end of the last one counts.
fn counts(threads: &mut HashMap<u32, u32>, event: &FaultEvent) -> bool {
    match event {
        FaultEvent::Fork { pid, parent, .. } if pid == parent => {
            *threads.entry(*pid).or_insert(1) += 1;
            false
        }
        FaultEvent::Exit { pid, .. } => match threads.get_mut(pid) {
            Some(alive) if *alive > 1 => {
                *alive -= 1;
                false
            }
            _ => {
                threads.remove(pid);
                true
            }
        },
        // The other threads' ends were told before, or are told by nobody.
        FaultEvent::Exec { pid, .. } => {
            threads.remove(pid);
            true
        }
        FaultEvent::Fork { .. } | FaultEvent::MajorFault { .. } => true,
    }
}

fn open_on(pid: u32, cpu: u32) -> io::Result<OwnedFd> {
    let mut attributes = sys::perf_event_attr {
        type_: sys::PERF_TYPE_SOFTWARE,
        size: size_of::<sys::perf_event_attr>() as u32,
        config: u64::from(sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
        sample_type: u64::from(
            sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_ADDR,
        ),
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = 1;
    attributes.set_disabled(1);
    attributes.set_enable_on_exec(1);
    attributes.set_inherit(1);
    attributes.set_exclude_kernel(1);
    attributes.set_exclude_hv(1);
    attributes.set_use_clockid(1);
    attributes.set_sample_id_all(1);
    attributes.set_task(1);
    attributes.set_comm(1);
    attributes.set_comm_exec(1);
    perf_event::open(
        &attributes,
        perf_event::Scope::ThreadOn {
            thread: pid,
            processor: cpu,
        },
    )
}

enum Decoded {
    Event(FaultEvent),
    Thread(Thread),
    Lost(u64),
}

/// A thread was made or has ended; a thread is a process of its own if no other has its number.
struct Thread {
    time_ns: u64,
    pid: u32,
    parent: u32,
    ended: bool,
}

impl Thread {
    fn into_event(self) -> FaultEvent {
        let Thread {
            time_ns,
            pid,
            parent,
            ended,
        } = self;
        if ended {
            FaultEvent::Exit { time_ns, pid }
        } else {
            FaultEvent::Fork {
                time_ns,
                pid,
                parent,
            }
        }
    }
}

fn decode(kind: u32, misc: u16, body: &[u8]) -> Option<Decoded> {
    let u32_at = |at| perf_ring::u32_at(body, at);
    let u64_at = |at| perf_ring::u64_at(body, at);
    match kind {
        // pid, tid; time; address
        sys::PERF_RECORD_SAMPLE => Some(Decoded::Event(FaultEvent::MajorFault {
            pid: u32_at(0)?,
            tid: u32_at(4)?,
            time_ns: u64_at(8)?,
            address: u64_at(16)?,
        })),
        // pid, ppid; tid, ptid; time
        sys::PERF_RECORD_FORK | sys::PERF_RECORD_EXIT => Some(Decoded::Thread(Thread {
            pid: u32_at(0)?,
            parent: u32_at(4)?,
            time_ns: u64_at(16)?,
            ended: kind == sys::PERF_RECORD_EXIT,
        })),
        // pid, tid; name, padded with zeros; then as of every record: pid, tid; time
        sys::PERF_RECORD_COMM if u32::from(misc) & sys::PERF_RECORD_MISC_COMM_EXEC != 0 => {
            let name = body.get(8..body.len().checked_sub(16)?)?;
            Some(Decoded::Event(FaultEvent::Exec {
                pid: u32_at(0)?,
                time_ns: u64_at(body.len() - 8)?,
                command: perf_ring::padded_text(name),
            }))
        }
        // id; count
        sys::PERF_RECORD_LOST => Some(Decoded::Lost(u64_at(8)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn event(kind: u32, misc: u16, words: &[u64]) -> Option<FaultEvent> {
        match decode(kind, misc, &bytes(words)) {
            Some(Decoded::Event(event)) => Some(event),
            Some(Decoded::Thread(thread)) => Some(thread.into_event()),
            _ => None,
        }
    }

    #[test]
    fn records_are_decoded() {
        let ids = 43 << 32 | 42;
        assert_eq!(
            event(sys::PERF_RECORD_SAMPLE, 2, &[ids, 1000, 0x7f00_0000_1234]),
            Some(FaultEvent::MajorFault {
                time_ns: 1000,
                pid: 42,
                tid: 43,
                address: 0x7f00_0000_1234
            })
        );
        assert_eq!(
            event(
                sys::PERF_RECORD_FORK,
                0,
                &[7 << 32 | 42, 7 << 32 | 42, 1000, 0, 1000]
            ),
            Some(FaultEvent::Fork {
                time_ns: 1000,
                pid: 42,
                parent: 7
            })
        );
        let name = u64::from_ne_bytes(*b"sweep\0\0\0");
        let exec = sys::PERF_RECORD_MISC_COMM_EXEC as u16;
        assert_eq!(
            event(sys::PERF_RECORD_COMM, exec, &[ids, name, ids, 1000]),
            Some(FaultEvent::Exec {
                time_ns: 1000,
                pid: 42,
                command: "sweep".to_owned()
            })
        );
        assert_eq!(
            event(sys::PERF_RECORD_COMM, 0, &[ids, name, ids, 1000]),
            None,
            "a thread was renamed"
        );
    }

    #[test]
    fn short_records_are_refused() {
        for kind in [
            sys::PERF_RECORD_SAMPLE,
            sys::PERF_RECORD_FORK,
            sys::PERF_RECORD_COMM,
            sys::PERF_RECORD_LOST,
        ] {
            for words in 0..2 {
                let body = bytes(&vec![0; words]);
                let misc = sys::PERF_RECORD_MISC_COMM_EXEC as u16;
                assert!(
                    decode(kind, misc, &body).is_none(),
                    "{kind} of {words} words"
                );
            }
        }
    }

    #[test]
    fn a_process_ends_with_its_last_thread() {
        let mut threads = HashMap::new();
        let thread = FaultEvent::Fork {
            time_ns: 1,
            pid: 42,
            parent: 42,
        };
        let end = FaultEvent::Exit {
            time_ns: 2,
            pid: 42,
        };
        assert!(!counts(&mut threads, &thread), "no process of its own");
        assert!(!counts(&mut threads, &end), "another thread lives");
        assert!(counts(&mut threads, &end));
    }

    /// Ours, where the kernel permits it: else it says that it does not.
    #[test]
    fn a_child_that_execs_and_ends_is_seen() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read go; exec sleep 0"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("sh");
        let events = FaultEvents::open(child.id());
        drop(child.stdin.take());
        let pid = child.id();
        child.wait().expect("waited");
        let mut events = match events {
            Ok(events) => events,
            Err(error) => return assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        };
        let mut seen = Vec::new();
        events.drain(|event| match event {
            FaultEvent::Exec { command, .. } => seen.push(command),
            FaultEvent::Exit { pid: ended, .. } if ended == pid => seen.push("its end".to_owned()),
            _ => {}
        });
        assert_eq!(seen, ["sleep", "its end"]);
        assert_eq!(events.lost(), 0);
    }
}
