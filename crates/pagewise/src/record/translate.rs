//! What the sensors say, as rows of the trace.

use std::collections::HashMap;
use std::collections::HashSet;

use pagewise_abi as abi;
use pagewise_attribute::Mapping;
use pagewise_attribute::parse_maps;
use pagewise_collect::Observation;
use pagewise_collect::record::ProcessChange;
use pagewise_trace as trace;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

use super::call_paths::CallPaths;
use super::facts::Clocks;

/// Translates one recording. Events wait for [`Translator::write_events`], which puts them in order of time.
pub(super) struct Translator {
    page_bytes: u64,
    announced: bool,
    spaces: HashMap<u32, trace::Space>,
    /// Each process's address spaces, from when on: the allocation stream knows processes only.
    spaces_of: HashMap<u32, Vec<(u64, u32)>>,
    call_paths: CallPaths,
    maps: HashMap<u32, String>,
    mappings_written: HashSet<(u32, MappingKey)>,
    events: Vec<Event>,
    next_allocation: u64,
    ended: Vec<u32>,
    pub(super) counts: Counts,
}

/// Of more processes at once, the mappings are as the preloaded library told them.
const MOST_PROCESSES: usize = 64;

/// What identifies a mapping row.
type MappingKey = (u64, u64, u64, String);

/// Counted on the way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) major_swap_ins: u64,
    pub(super) evictions: u64,
    /// Records of processes that no sensor had announced.
    pub(super) strangers: u64,
}

impl Translator {
    /// `announced`: a sensor tells of processes; else their first record does.
    pub(super) fn new(page_bytes: u64, announced: bool) -> Self {
        Self {
            page_bytes,
            announced,
            spaces: HashMap::new(),
            spaces_of: HashMap::new(),
            call_paths: CallPaths::default(),
            maps: HashMap::new(),
            mappings_written: HashSet::new(),
            events: Vec::new(),
            next_allocation: 0,
            ended: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Takes an observation of the BPF sensors.
    pub(super) fn observe(
        &mut self,
        observation: Observation,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        match observation {
            Observation::SwapIn {
                time_ns,
                space,
                tid,
                address,
                latency_ns,
                major,
            } => {
                self.counts.major_swap_ins += u64::from(major);
                self.events.push(Event {
                    time_ns: time_ns + latency_ns.unwrap_or(0),
                    space,
                    tid: Some(tid),
                    kind: if major {
                        EventKind::SwapIn
                    } else {
                        EventKind::SwapCacheHit
                    },
                    address,
                    latency_ns,
                });
                Ok(())
            }
            Observation::Pages {
                time_ns,
                space,
                address,
                pages,
                left,
                written,
                zero_filled,
            } => {
                self.counts.evictions += u64::from(left) * pages;
                for (kind, happened) in [
                    (EventKind::PageWritten, written),
                    (EventKind::ZeroFilled, zero_filled),
                    (EventKind::Eviction, left),
                ] {
                    if happened {
                        let page = |index| address + index * self.page_bytes;
                        self.events.extend((0..pages).map(|index| Event {
                            time_ns,
                            space,
                            tid: None,
                            kind,
                            address: page(index),
                            latency_ns: None,
                        }));
                    }
                }
                Ok(())
            }
            process @ Observation::Process { .. } => self.process(process, writer),
        }
    }

    fn process(&mut self, change: Observation, writer: &mut TraceWriter) -> Result<(), TraceError> {
        let Observation::Process {
            time_ns,
            what,
            space,
            parent_space,
            pid,
            start_boottime_ns,
            exec_epoch,
            command,
        } = change
        else {
            return Ok(());
        };
        if space == 0 {
            return Ok(()); // not recorded before its exec
        }
        match what {
            ProcessChange::Exec | ProcessChange::Fork => {
                if what == ProcessChange::Exec {
                    self.end_space(parent_space, time_ns, writer)?;
                }
                let executable = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
                let row = trace::Space {
                    space,
                    pid,
                    start_time_ns: start_boottime_ns,
                    exec_epoch,
                    parent_space: (parent_space != 0).then_some(parent_space),
                    begin_ns: time_ns,
                    end_ns: None,
                    command,
                    executable: executable.map(|path| path.display().to_string()),
                };
                // A child that borrows its parent's memory (vfork) has no space of its own.
                if parent_space != space {
                    writer.spaces.push(row.clone())?;
                    self.spaces.insert(space, row);
                    if what == ProcessChange::Exec {
                        self.read_mappings_of(pid, space, time_ns, writer)?;
                    }
                }
                self.spaces_of
                    .entry(pid)
                    .or_default()
                    .push((time_ns, space));
            }
            ProcessChange::Exit => {
                if self.spaces.get(&space).is_some_and(|row| row.pid == pid) {
                    self.end_space(space, time_ns, writer)?;
                }
                self.ended.push(pid);
            }
        }
        Ok(())
    }

    fn end_space(
        &mut self,
        space: u32,
        time_ns: u64,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let Some(mut row) = self.spaces.remove(&space) else {
            return Ok(());
        };
        row.end_ns = Some(time_ns);
        writer.spaces.push(row)
    }

    /// Processes that have ended since the last call: their rings can go.
    pub(super) fn take_ended(&mut self) -> Vec<u32> {
        for pid in &self.ended {
            self.call_paths.forget(*pid);
            self.maps.remove(pid);
        }
        std::mem::take(&mut self.ended)
    }

    fn space_at(&self, pid: u32, time_ns: u64) -> Option<u32> {
        let spaces = self.spaces_of.get(&pid)?;
        spaces
            .iter()
            .rev()
            .find(|(begin, _)| *begin <= time_ns)
            .or(spaces.first())
            .map(|(_, space)| *space)
    }

    /// Without the sensor that sees exec, fork and exit: one address space a process.
    fn introduce(
        &mut self,
        pid: u32,
        time_ns: u64,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let space = self.spaces_of.len() as u32 + 1;
        self.spaces_of.insert(pid, vec![(time_ns, space)]);
        writer.spaces.push(trace::Space {
            space,
            pid,
            start_time_ns: pagewise_host::process::stat(pid).map_or(0, |stat| stat.start_ns),
            exec_epoch: 0,
            parent_space: None,
            begin_ns: time_ns,
            end_ns: None,
            command: pagewise_host::process::comm(pid).unwrap_or_default(),
            executable: pagewise_host::process::exe(pid).map(|path| path.display().to_string()),
        })
    }

    /// Takes a record of the preloaded library.
    pub(super) fn allocation_record(
        &mut self,
        pid: u32,
        record: &abi::Record<'_>,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let time_ns = match record {
            abi::Record::Padding => return Ok(()),
            abi::Record::Allocation(allocation) => allocation.time_ns,
            abi::Record::Release(release) => release.time_ns,
            abi::Record::Move(moved) => moved.time_ns,
            abi::Record::Maps(maps) => maps.time_ns,
        };
        if !self.announced && !self.spaces_of.contains_key(&pid) {
            self.introduce(pid, time_ns, writer)?;
        }
        let Some(space) = self.space_at(pid, time_ns) else {
            self.counts.strangers += 1;
            return Ok(());
        };
        match record {
            abi::Record::Padding => Ok(()),
            abi::Record::Allocation(allocation) => self.allocation(pid, space, allocation, writer),
            abi::Record::Release(release) => writer.releases.push(trace::Release {
                space,
                time_ns,
                address: release.address,
                bytes: (release.bytes != 0).then_some(release.bytes),
            }),
            abi::Record::Move(moved) => writer.moves.push(trace::Move {
                space,
                time_ns,
                old_address: moved.old_address,
                old_bytes: moved.old_bytes,
                new_address: moved.new_address,
                new_bytes: moved.new_bytes,
            }),
            abi::Record::Maps(maps) => self.maps_piece(pid, space, maps, writer),
        }
    }

    fn allocation(
        &mut self,
        pid: u32,
        space: u32,
        allocation: &abi::Allocation<'_>,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let path = self.call_paths.number(pid, allocation);
        let stack = path.as_ref().map(|(number, _)| *number);
        for row in path.into_iter().flat_map(|(_, rows)| rows) {
            writer.stacks.push(row)?;
        }
        self.next_allocation += 1;
        writer.allocations.push(trace::Allocation {
            allocation: self.next_allocation,
            space,
            tid: allocation.tid,
            time_ns: allocation.time_ns,
            address: allocation.address,
            bytes: allocation.bytes,
            kind: kind(allocation.kind),
            stack,
        })
    }

    fn maps_piece(
        &mut self,
        pid: u32,
        space: u32,
        piece: &abi::Maps<'_>,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        const LONGEST: usize = 64 << 20;
        let text = self.maps.entry(pid).or_default();
        if piece.first {
            text.clear();
        }
        if text.len() < LONGEST {
            text.push_str(&String::from_utf8_lossy(piece.text));
        }
        if !piece.last {
            return Ok(());
        }
        let text = self.maps.remove(&pid).unwrap_or_default();
        // A process that writes nonsense there has no modules.
        let mappings = parse_maps(&text).unwrap_or_default();
        self.call_paths.set_mappings(pid, &mappings);
        self.write_mappings(space, piece.time_ns, mappings, writer)
    }

    fn write_mappings(
        &mut self,
        space: u32,
        time_ns: u64,
        mappings: Vec<Mapping>,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        for mapping in mappings {
            let permissions = permissions(&mapping);
            let Some(path) = mapping.path else { continue };
            if path.starts_with("[anon") || path.starts_with("/memfd:pagewise") {
                continue;
            }
            let key = (
                space,
                (mapping.start, mapping.end, mapping.offset, path.clone()),
            );
            if self.mappings_written.insert(key) {
                writer.mappings.push(trace::Mapping {
                    space,
                    time_ns,
                    start: mapping.start,
                    end: mapping.end,
                    permissions,
                    offset: mapping.offset,
                    path,
                })?;
            }
        }
        Ok(())
    }

    /// Looks again at what is mapped in each process that lives: heaps grow, libraries come. This also serves programs
    /// that cannot be preloaded.
    pub(super) fn read_mappings(&mut self, writer: &mut TraceWriter) -> Result<(), TraceError> {
        let live: Vec<(u32, u32)> = self
            .spaces
            .values()
            .map(|row| (row.pid, row.space))
            .collect();
        for (pid, space) in live.into_iter().take(MOST_PROCESSES) {
            self.read_mappings_of(pid, space, Clocks::now().monotonic_ns, writer)?;
        }
        Ok(())
    }

    fn read_mappings_of(
        &mut self,
        pid: u32,
        space: u32,
        time_ns: u64,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let text = pagewise_host::process::maps(pid).unwrap_or_default();
        self.write_mappings(
            space,
            time_ns,
            parse_maps(&text).unwrap_or_default(),
            writer,
        )
    }

    /// Writes what waits, in order of time.
    pub(super) fn write_events(&mut self, writer: &mut TraceWriter) -> Result<(), TraceError> {
        self.events.sort_by_key(|event| event.time_ns);
        for event in self.events.drain(..) {
            writer.events.push(event)?;
        }
        Ok(())
    }
}

fn permissions(mapping: &Mapping) -> String {
    let letter = |is: bool, letter: char| if is { letter } else { '-' };
    let shared = if mapping.shared { 's' } else { 'p' };
    let letters = [
        letter(mapping.readable, 'r'),
        letter(mapping.writable, 'w'),
        letter(mapping.executable, 'x'),
        shared,
    ];
    letters.iter().collect()
}

fn kind(kind: abi::AllocationKind) -> trace::AllocationKind {
    match kind {
        abi::AllocationKind::Malloc => trace::AllocationKind::Malloc,
        abi::AllocationKind::Calloc => trace::AllocationKind::Calloc,
        abi::AllocationKind::Realloc => trace::AllocationKind::Realloc,
        abi::AllocationKind::Aligned => trace::AllocationKind::Aligned,
        abi::AllocationKind::Mmap => trace::AllocationKind::Mmap,
    }
}
