//! Which code each process maps, told by the kernel as it happens (`PERF_RECORD_MMAP2`, as perf record does): of a process
//! that ends before anybody has read its `/proc/PID/maps`, nothing else tells what its addresses mean.

use std::io;
use std::os::fd::OwnedFd;

use libbpf_sys as sys;

use crate::perf_event;
use crate::perf_ring;
use crate::perf_ring::PerfRing;

/// Pages of each ring's data: a hundred programs begun on one processor between two drains.
const RING_PAGES: usize = 16;

/// Something that happened to the code of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeEvent {
    /// When, in ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The process.
    pub pid: u32,
    /// What.
    pub change: CodeChange,
}

/// A change of what a process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeChange {
    /// It runs another program: nothing of before is mapped any more.
    Exec,
    /// Executable memory is there from now on.
    Mapped {
        /// First address.
        start: u64,
        /// First address after it.
        end: u64,
        /// Offset of `start` in the file, bytes.
        offset: u64,
        /// Major and minor number of the file's device.
        device: (u32, u32),
        /// Its inode; 0: there is no file.
        inode: u64,
        /// As `/proc/PID/maps` has it.
        path: String,
    },
}

/// The code of all processes of the machine.
#[derive(Debug)]
pub struct CodeEvents {
    rings: Vec<PerfRing>,
    lost: u64,
}

impl CodeEvents {
    /// Hears of all that is mapped from now on.
    ///
    /// # Errors
    /// Where perf events of whole processors are not permitted (CAP_PERFMON, or `perf_event_paranoid` of 0), or unknown.
    pub fn open() -> io::Result<Self> {
        let rings = PerfRing::on_each_processor(RING_PAGES, open_on)?;
        Ok(Self { rings, lost: 0 })
    }

    /// All that has happened since the last call, in order of time. Never blocks.
    pub fn drain(&mut self) -> Vec<CodeEvent> {
        let mut events = Vec::new();
        for ring in &mut self.rings {
            ring.drain(|kind, misc, body| match kind {
                sys::PERF_RECORD_LOST => self.lost += perf_ring::u64_at(body, 8).unwrap_or(1),
                _ => events.extend(decode(kind, misc, body)),
            });
        }
        events.sort_by_key(|event| event.time_ns);
        events
    }

    /// Events that found a ring full.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

fn open_on(processor: u32) -> io::Result<OwnedFd> {
    let mut attributes = sys::perf_event_attr {
        type_: sys::PERF_TYPE_SOFTWARE,
        size: size_of::<sys::perf_event_attr>() as u32,
        config: u64::from(sys::PERF_COUNT_SW_DUMMY),
        sample_type: u64::from(sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME),
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attributes.set_use_clockid(1);
    attributes.set_sample_id_all(1);
    attributes.set_mmap(1);
    attributes.set_mmap2(1);
    attributes.set_comm(1);
    attributes.set_comm_exec(1);
    perf_event::open(&attributes, perf_event::Scope::Processor(processor))
}

/// Length of what is at the end of every record: process, thread; time.
const TRAILER: usize = 16;

fn decode(kind: u32, misc: u16, body: &[u8]) -> Option<CodeEvent> {
    let u32_at = |at| perf_ring::u32_at(body, at);
    let u64_at = |at| perf_ring::u64_at(body, at);
    let trailer = body.len().checked_sub(TRAILER)?;
    let change = match kind {
        // pid, tid; name
        sys::PERF_RECORD_COMM if u32::from(misc) & sys::PERF_RECORD_MISC_COMM_EXEC != 0 => {
            CodeChange::Exec
        }
        // pid, tid; address; length; offset; major, minor; inode; its generation; protection, flags; path
        sys::PERF_RECORD_MMAP2 => CodeChange::Mapped {
            start: u64_at(8)?,
            end: u64_at(8)?.checked_add(u64_at(16)?)?,
            offset: u64_at(24)?,
            device: (u32_at(32)?, u32_at(36)?),
            inode: u64_at(40)?,
            path: perf_ring::padded_text(body.get(64..trailer)?),
        },
        _ => return None,
    };
    Some(CodeEvent {
        time_ns: u64_at(trailer + 8)?,
        pid: u32_at(0)?,
        change,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: u64 = 43 << 32 | 42;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn records_are_decoded() {
        let name = u64::from_ne_bytes(*b"/a/b\0\0\0\0");
        let device = 1 << 32 | 253;
        let words = [
            IDS, 0x1000, 0x2000, 0x3000, device, 77, 5, 0, name, IDS, 1000,
        ];
        let mapped = CodeEvent {
            time_ns: 1000,
            pid: 42,
            change: CodeChange::Mapped {
                start: 0x1000,
                end: 0x3000,
                offset: 0x3000,
                device: (253, 1),
                inode: 77,
                path: "/a/b".to_owned(),
            },
        };
        assert_eq!(
            decode(sys::PERF_RECORD_MMAP2, 2, &bytes(&words)),
            Some(mapped)
        );
        let renamed = bytes(&[IDS, name, IDS, 1000]);
        assert_eq!(decode(sys::PERF_RECORD_COMM, 0, &renamed), None);
        let misc = sys::PERF_RECORD_MISC_COMM_EXEC as u16;
        let found = decode(sys::PERF_RECORD_COMM, misc, &renamed).expect("an exec");
        assert_eq!(
            (found.time_ns, found.pid, found.change),
            (1000, 42, CodeChange::Exec)
        );
    }

    #[test]
    fn short_records_are_refused() {
        for words in 0..10 {
            let body = bytes(&vec![0; words]);
            assert_eq!(decode(sys::PERF_RECORD_MMAP2, 0, &body), None, "{words}");
        }
    }
}
