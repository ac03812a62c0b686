//! The tracks: processes, threads and counters, each described once.

use std::collections::HashMap;
use std::io;
use std::io::Write;

use pagewise_trace::Space;

use super::packets::Packets;
use super::proto::CounterDescriptor;
use super::proto::Data;
use super::proto::ProcessDescriptor;
use super::proto::ThreadDescriptor;
use super::proto::TrackDescriptor;
use super::proto::Unit;

/// Track numbers, which must be unique in the trace and not 0.
#[derive(Default)]
pub(crate) struct Tracks {
    last: u64,
    processes: HashMap<u32, u64>,
    threads: HashMap<(u32, u32), u64>,
    /// Processes by address space.
    spaces: HashMap<u32, (u32, String)>,
}

impl Tracks {
    /// Describes all processes.
    pub(crate) fn begin<W: Write>(
        spaces: &HashMap<u32, Space>,
        command: &[String],
        packets: &mut Packets<'_, W>,
    ) -> io::Result<Self> {
        let mut tracks = Self::default();
        let mut ordered: Vec<&Space> = spaces.values().collect();
        ordered.sort_by_key(|space| space.space);
        let first = ordered.first().map(|space| space.pid);
        // After exec a process has another name: the last one counts.
        let names: HashMap<u32, &str> = ordered
            .iter()
            .map(|space| (space.pid, space.command.as_str()))
            .collect();
        for space in ordered {
            let known = (space.pid, space.command.clone());
            tracks.spaces.insert(space.space, known);
            if tracks.processes.contains_key(&space.pid) {
                continue;
            }
            let uuid = tracks.next();
            tracks.processes.insert(space.pid, uuid);
            let is_first = first == Some(space.pid);
            let process = ProcessDescriptor {
                pid: Some(space.pid as i32),
                cmdline: if is_first {
                    command.to_vec()
                } else {
                    Vec::new()
                },
                process_name: names.get(&space.pid).map(|&name| name.to_owned()),
            };
            let descriptor = TrackDescriptor {
                uuid: Some(uuid),
                process: Some(process),
                ..TrackDescriptor::default()
            };
            packets.write(None, Data::TrackDescriptor(descriptor))?;
        }
        Ok(tracks)
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The track of a thread; of its process, or of none (0), where less is known.
    pub(crate) fn of_thread<W: Write>(
        &mut self,
        space: u32,
        tid: Option<u32>,
        packets: &mut Packets<'_, W>,
    ) -> io::Result<u64> {
        let Some((pid, command)) = self.spaces.get(&space).cloned() else {
            return Ok(0);
        };
        let process = self.processes.get(&pid).copied().unwrap_or(0);
        let Some(tid) = tid else { return Ok(process) };
        if let Some(&uuid) = self.threads.get(&(pid, tid)) {
            return Ok(uuid);
        }
        let uuid = self.next();
        self.threads.insert((pid, tid), uuid);
        let thread = ThreadDescriptor {
            pid: Some(pid as i32),
            tid: Some(i64::from(tid)),
            // Only the first thread is sure to be called as its process.
            thread_name: (tid == pid).then_some(command),
        };
        let descriptor = TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid: Some(process),
            thread: Some(thread),
            ..TrackDescriptor::default()
        };
        packets.write(None, Data::TrackDescriptor(descriptor))?;
        Ok(uuid)
    }

    /// A counter of the recorded processes together.
    pub(crate) fn counter<W: Write>(
        &mut self,
        name: &str,
        unit: CounterUnit,
        packets: &mut Packets<'_, W>,
    ) -> io::Result<u64> {
        let uuid = self.next();
        let counter = match unit {
            CounterUnit::Bytes => CounterDescriptor {
                unit: Some(Unit::SizeBytes.into()),
                unit_name: None,
            },
            CounterUnit::Named(name) => CounterDescriptor {
                unit: Some(Unit::Unspecified.into()),
                unit_name: Some(name.to_owned()),
            },
        };
        let descriptor = TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name.to_owned()),
            counter: Some(counter),
            ..TrackDescriptor::default()
        };
        packets.write(None, Data::TrackDescriptor(descriptor))?;
        Ok(uuid)
    }
}

#[derive(Clone, Copy)]
pub(crate) enum CounterUnit {
    Bytes,
    Named(&'static str),
}
