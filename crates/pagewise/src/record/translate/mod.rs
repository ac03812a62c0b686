//! What the sensors say, as rows of the trace.

mod allocations;
mod processes;

use std::collections::HashMap;
use std::collections::HashSet;

use pagewise_collect::CodeEvents;
use pagewise_collect::Lesson;
use pagewise_collect::Observation;
use pagewise_collect::record::StallReason;
use pagewise_trace as trace;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

use super::anonymous::AnonymousMappings;
use super::call_paths::CallPaths;
use super::condenser::Condenser;
use super::facts::Clocks;
use super::fault_paths::FaultPaths;
use super::file_io::FileIo;
use super::preloadable::Executables;
use super::told_code::ToldCode;
use super::writes::Writes;

/// Translates one recording. Events wait for [`Translator::write_events`], which puts them in order of time.
pub(in crate::record) struct Translator {
    page_bytes: u64,
    announced: bool,
    spaces: HashMap<u32, trace::Space>,
    /// Whose each address space is, also of those that have just ended: their last stacks are still to be unwound.
    pids: HashMap<u32, u32>,
    /// By address space, what `call_paths` calls the program of a process that runs another one since: for its last stacks.
    former_programs: HashMap<u32, u32>,
    /// Those of them that are older than the last drain.
    former_before: Vec<u32>,
    /// The processes in each address space that lives.
    users: HashMap<u32, Vec<u32>>,
    /// Each process's address spaces, from when on: the allocation stream knows processes only.
    spaces_of: HashMap<u32, Vec<(u64, u32)>>,
    call_paths: CallPaths,
    pub(in crate::record) fault_paths: FaultPaths,
    maps: HashMap<u32, String>,
    mappings_written: HashSet<(u32, MappingKey)>,
    events: Vec<Event>,
    writes: Writes,
    file_io: FileIo,
    next_allocation: u64,
    /// Where nobody else gives out numbers.
    last_space: u32,
    pub(in crate::record) condenser: Condenser,
    /// Where no allocations are told.
    anonymous: Option<AnonymousMappings>,
    executables: Executables,
    ended: Vec<u32>,
    /// Those that had ended before the last drain.
    ended_before: Vec<u32>,
    pub(in crate::record) counts: Counts,
}

/// What identifies a mapping row.
type MappingKey = (u64, u64, u64, String);

/// Counted on the way.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::record) struct Counts {
    pub(in crate::record) major_swap_ins: u64,
    pub(in crate::record) evictions: u64,
    /// Records of processes that no sensor had announced.
    pub(in crate::record) strangers: u64,
    /// The same of what was told of calls on files.
    pub(in crate::record) strange_calls: u64,
    /// The largest mean distance of samples, bytes; 0: there was none.
    sparsest_sample_bytes: u32,
}

impl Counts {
    pub(in crate::record) fn sparsest_sample_bytes(&self) -> Option<u64> {
        let bytes = self.sparsest_sample_bytes;
        (bytes > 0).then_some(bytes.into())
    }
}

impl Translator {
    /// `announced`: a sensor tells of processes; else their first record does.
    pub(in crate::record) fn new(page_bytes: u64, announced: bool) -> Self {
        Self {
            page_bytes,
            announced,
            spaces: HashMap::new(),
            pids: HashMap::new(),
            former_programs: HashMap::new(),
            former_before: Vec::new(),
            users: HashMap::new(),
            spaces_of: HashMap::new(),
            call_paths: CallPaths::default(),
            fault_paths: FaultPaths::default(),
            maps: HashMap::new(),
            mappings_written: HashSet::new(),
            events: Vec::new(),
            writes: Writes::default(),
            file_io: FileIo::default(),
            next_allocation: 0,
            last_space: 0,
            condenser: Condenser::new(page_bytes, None),
            anonymous: None,
            executables: Executables::default(),
            ended: Vec::new(),
            ended_before: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Keeps the trace within that size.
    pub(in crate::record) fn within(mut self, max_bytes: Option<u64>) -> Self {
        self.condenser = Condenser::new(self.page_bytes, max_bytes);
        self
    }

    /// Hears of the code of processes that end before they are looked at.
    pub(in crate::record) fn hearing_of_code(mut self, told: Option<CodeEvents>) -> Self {
        if let Some(told) = told {
            self.call_paths.hear(ToldCode::new(told));
        }
        self
    }

    /// Sums up calls on files instead of listing them.
    pub(in crate::record) fn with_io_sums(mut self, wanted: bool) -> Self {
        if wanted {
            self.file_io.sum();
        }
        self
    }

    /// Lists anonymous mappings too: nobody tells of the allocations in them.
    pub(in crate::record) fn with_anonymous_mappings(mut self, wanted: bool) -> Self {
        self.anonymous = wanted.then(AnonymousMappings::default);
        self
    }

    /// Takes an observation of the BPF sensors.
    pub(in crate::record) fn observe(
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
                call_path,
            } => {
                self.fault_paths.expect(self.events.len(), call_path);
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
                    stack: None,
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
                in_flight,
            } => {
                if in_flight {
                    self.writes.submitted(space, address, time_ns, pages);
                }
                self.counts.evictions += u64::from(left) * pages;
                for (kind, happened) in [
                    (EventKind::PageWritten, written && !in_flight),
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
                            stack: None,
                        }));
                    }
                }
                Ok(())
            }
            Observation::WriteLook {
                time_ns,
                space,
                address,
                written,
            } => {
                // They are a sample anyway: none are added once events are only counted.
                if self.condenser.is_counting() {
                    return Ok(());
                }
                writer.write_looks.push(trace::WriteLook {
                    time_ns,
                    space,
                    address,
                    written,
                })
            }
            Observation::RunDelay {
                time_ns,
                space,
                tid,
                duration_ns,
            } => {
                // They explain what is listed: none are added once events are only counted.
                if self.condenser.is_counting() {
                    return Ok(());
                }
                writer.run_delays.push(trace::RunDelay {
                    time_ns: time_ns + duration_ns,
                    space,
                    tid,
                    duration_ns,
                })
            }
            Observation::Stack { stack, bytes } => {
                let pids = [&self.pids, &self.former_programs];
                let pid = pids.iter().find_map(|pids| pids.get(&stack.space)).copied();
                let rows = self
                    .fault_paths
                    .learn(pid, &stack, &bytes, &mut self.call_paths);
                rows.into_iter().try_for_each(|row| writer.stacks.push(row))
            }
            Observation::Written {
                time_ns,
                space,
                address,
                latency_ns,
            } => {
                self.writes.completed(space, address, time_ns, latency_ns);
                Ok(())
            }
            Observation::Stall {
                time_ns,
                space,
                tid,
                reason,
                duration_ns,
                in_swap_in,
            } => {
                let stall = trace::Stall {
                    time_ns: time_ns + duration_ns,
                    space,
                    tid,
                    kind: match reason {
                        StallReason::DirectReclaim => trace::StallKind::DirectReclaim,
                        StallReason::MemcgReclaim => trace::StallKind::MemcgReclaim,
                    },
                    duration_ns,
                    in_fault: in_swap_in,
                };
                self.condenser.push_stall(stall, writer)
            }
            Observation::FileCall(call) => {
                self.file_io.call(&call);
                Ok(())
            }
            Observation::Cache(change) => {
                self.file_io.cache(&change);
                Ok(())
            }
            Observation::Handover { token, call_path } => {
                self.fault_paths.handed_over(token, call_path);
                Ok(())
            }
            Observation::File(file) => {
                let pid = self.pids.get(&file.space).copied();
                self.file_io.file(file, pid, writer)
            }
            process @ Observation::Process { .. } => self.process(process, writer),
        }
    }

    /// What call paths were learnt since the last call.
    pub(in crate::record) fn take_lessons(&mut self) -> Vec<Lesson> {
        self.fault_paths.take_lessons(&self.call_paths)
    }

    /// Whether what was learnt of call paths may be wrong from now on; see [`CallPaths::code_has_changed`].
    pub(in crate::record) fn code_has_changed(&mut self) -> bool {
        self.call_paths.code_has_changed()
    }

    /// At the end of the recording: no completion is waited for any more.
    pub(in crate::record) fn write_rest(
        &mut self,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        self.events
            .extend(self.writes.take_done(u64::MAX, self.page_bytes));
        self.write_events(writer)
    }

    /// Writes what waits, in order of time.
    pub(in crate::record) fn write_events(
        &mut self,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        self.call_paths.listen();
        self.fault_paths.resolve(&mut self.events);
        if self.condenser.has_its_size(writer) {
            self.file_io.sum();
        }
        self.file_io.write(&mut self.fault_paths, writer)?;
        let now_ns = Clocks::now().monotonic_ns;
        self.events
            .extend(self.writes.take_done(now_ns, self.page_bytes));
        self.events.sort_by_key(|event| event.time_ns);
        for event in self.events.drain(..) {
            self.condenser.push(event, writer)?;
        }
        Ok(())
    }

    /// Whether the recording is as large as it may become, also where nothing happens.
    pub(in crate::record) fn look_at_the_size(
        &mut self,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let now_ns = Clocks::now().monotonic_ns;
        self.condenser.look_at_the_size(now_ns, writer)
    }

    /// At the end: writes what is still being counted.
    pub(in crate::record) fn finish(&mut self, writer: &mut TraceWriter) -> Result<(), TraceError> {
        self.write_events(writer)?;
        self.file_io.finish(writer)?;
        self.condenser.write_counts(writer)
    }
}
