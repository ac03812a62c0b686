//! What lies where: records of the preloaded library, and what is mapped.

use pagewise_abi as abi;
use pagewise_abi::file_calls::OfFiles;
use pagewise_attribute::Mapping;
use pagewise_trace as trace;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

use super::Translator;
use crate::record::facts::Clocks;

/// Of more processes at once, the mappings are as the preloaded library told them.
const MOST_PROCESSES: usize = 64;

impl Translator {
    /// Processes whose call paths were longer than the stacks they send.
    pub(in crate::record) fn take_short_stacks(&mut self) -> Vec<u32> {
        self.call_paths.take_short_stacks()
    }

    /// Takes a record of the preloaded library.
    pub(in crate::record) fn allocation_record(
        &mut self,
        pid: u32,
        record: &abi::Record<'_>,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let time_ns = match record {
            // The guard's are not of a recording.
            abi::Record::Padding | abi::Record::Guard(_) => return Ok(()),
            abi::Record::Allocation(allocation) => allocation.time_ns,
            abi::Record::Release(release) => release.time_ns,
            abi::Record::Move(moved) => moved.time_ns,
            abi::Record::Maps(maps) => maps.time_ns,
            abi::Record::Name(name) => name.time_ns,
            abi::Record::OfFiles(record) => record.time_ns(),
        };
        if !self.announced && !self.spaces_of.contains_key(&pid) {
            self.introduce(pid, time_ns, writer)?;
        }
        let Some(space) = self.space_at(pid, time_ns) else {
            match record {
                abi::Record::OfFiles(_) => self.counts.strange_calls += 1,
                _ => self.counts.strangers += 1,
            }
            return Ok(());
        };
        match record {
            abi::Record::Padding | abi::Record::Guard(_) => Ok(()),
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
            abi::Record::OfFiles(record) => self.of_files(pid, space, record, writer),
            abi::Record::Name(name) => writer.given_names.push(trace::GivenName {
                time_ns,
                space,
                address: name.address,
                name: String::from_utf8_lossy(name.text).into_owned(),
            }),
        }
    }

    fn of_files(
        &mut self,
        pid: u32,
        space: u32,
        record: &OfFiles<'_>,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        match record {
            OfFiles::Path(path) => {
                let found = self.call_paths.number_of_told(pid, path);
                let number = found.as_ref().map(|(number, _)| *number);
                self.file_io.told.path((space, path.token), number);
                let rows = found.into_iter().flat_map(|(_, rows)| rows);
                rows.into_iter().try_for_each(|row| writer.stacks.push(row))
            }
            OfFiles::File(file) => self.file_io.told_file(file, pid, space, writer),
            OfFiles::Call(call) => {
                self.file_io.told.call(call, space);
                Ok(())
            }
        }
    }

    /// Calls on files that were told without their call path.
    pub(in crate::record) fn calls_without_path(&self) -> u64 {
        self.file_io.told.without_path
    }

    pub(in crate::record) fn allocation(
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
        let sparsest = &mut self.counts.sparsest_sample_bytes;
        *sparsest = allocation.sample_bytes.max(*sparsest);
        writer.allocations.push(trace::Allocation {
            allocation: self.next_allocation,
            space,
            tid: allocation.tid,
            time_ns: allocation.time_ns,
            address: allocation.address,
            bytes: allocation.bytes,
            kind: kind(allocation.kind),
            stack,
            estimated_bytes: (allocation.sample_bytes > 0)
                .then(|| trace::estimated_bytes(allocation.bytes, allocation.sample_bytes)),
        })
    }

    pub(in crate::record) fn maps_piece(
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
        let mappings = self.call_paths.mapped.parse(pid, &text);
        self.call_paths.set_mappings(pid, &mappings);
        self.write_mappings(space, piece.time_ns, mappings, writer)
    }

    pub(in crate::record) fn write_mappings(
        &mut self,
        space: u32,
        time_ns: u64,
        mut mappings: Vec<Mapping>,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        if let Some(anonymous) = &mut self.anonymous {
            anonymous.name(space, &mut mappings);
        }
        for mapping in mappings {
            let permissions = permissions(&mapping);
            let Some(path) = mapping.path else { continue };
            if path.starts_with("[anon:") || path.starts_with("/memfd:pagewise") {
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
    pub(in crate::record) fn read_mappings(
        &mut self,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        for (pid, space) in self.live_spaces().into_iter().take(MOST_PROCESSES) {
            self.read_mappings_of(pid, space, Clocks::now().monotonic_ns, writer)?;
        }
        Ok(())
    }

    pub(in crate::record) fn read_mappings_of(
        &mut self,
        pid: u32,
        space: u32,
        time_ns: u64,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let mappings = self.call_paths.mapped.now(pid);
        // Code that came or went, for processes whose stacks are unwound.
        if self.call_paths.knows(pid) && !mappings.is_empty() {
            self.call_paths.set_mappings(pid, &mappings);
        }
        self.write_mappings(space, time_ns, mappings, writer)
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
        abi::AllocationKind::Brk => trace::AllocationKind::Brk,
    }
}
