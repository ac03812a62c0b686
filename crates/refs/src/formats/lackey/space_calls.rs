//! What system calls do to the address space.

use super::calls::Call;
use super::files::Files;
use super::files::Opened;
use super::space::Backing;
use super::space::Mapping;
use super::space::Space;

const MAP_SHARED: u64 = 0x01;
const MAP_ANONYMOUS: u64 = 0x20;

/// No mapping is larger; a log that says so is damaged. In bytes: the largest address space of x86-64.
const LARGEST_MAPPING: u64 = 1 << 57;

impl Space {
    /// Applies a call that has succeeded. `program_break` is where the heap ends, once that is known.
    pub(super) fn apply(
        &mut self,
        call: &Call,
        result: u64,
        files: &mut Files,
        program_break: &mut Option<u64>,
    ) {
        match *call {
            Call::Map {
                bytes,
                flags,
                descriptor,
                offset,
            } => {
                let Some((start, end)) = self.pages(result, bytes) else {
                    return;
                };
                // MAP_SHARED_VALIDATE has the bit as well.
                let shared = flags & MAP_SHARED != 0;
                let opened = if flags & MAP_ANONYMOUS != 0 {
                    Opened::Memory
                } else {
                    files.get(descriptor)
                };
                match opened {
                    Opened::Memory => self.map_anonymous(start, end),
                    Opened::File(file) => {
                        self.map_file(start, end, file, offset >> self.page_shift, shared);
                    }
                }
            }
            Call::Unmap { address, bytes } => {
                if let Some((start, end)) = self.pages(address, bytes) {
                    self.take(start, end);
                }
            }
            Call::Remap {
                address,
                old_bytes,
                new_bytes,
            } => self.remap(address, old_bytes, result, new_bytes),
            Call::Break => self.move_break(program_break, result),
            Call::Discard { address, bytes } => self.discard(address, bytes),
            Call::Open { ref path } => files.open(result, path),
            Call::OpenMemory => files.open_memory(result),
            Call::Duplicate { descriptor } => files.duplicate(descriptor, result),
            Call::Close { descriptor } => files.close(descriptor),
        }
    }

    /// First page of a range, and the one after its last.
    fn pages(&self, address: u64, bytes: u64) -> Option<(u64, u64)> {
        if bytes == 0 || bytes > LARGEST_MAPPING {
            return None;
        }
        let last = address.checked_add(bytes - 1)? >> self.page_shift;
        Some((address >> self.page_shift, last + 1))
    }

    /// Pages keep what they are where they go.
    fn remap(&mut self, address: u64, old_bytes: u64, new_address: u64, new_bytes: u64) {
        let (Some((new_start, new_end)), Some((start, end))) = (
            self.pages(new_address, new_bytes),
            self.pages(address, old_bytes),
        ) else {
            return;
        };
        let pieces = self.take(start, end);
        self.take(new_start, new_end);
        let mut reached = new_start;
        for (at, Mapping { end, backing }) in pieces {
            let moved_start = new_start + (at - start);
            let moved_end = (new_start + (end - start)).min(new_end);
            self.map(moved_start, moved_end, backing);
            reached = reached.max(moved_end);
        }
        if reached < new_end {
            self.map_anonymous(reached, new_end);
        }
    }

    /// The heap begins where the break is when it is first asked for.
    fn move_break(&mut self, program_break: &mut Option<u64>, address: u64) {
        let end_of = |address: u64, shift: u32| address.div_ceil(1 << shift);
        let end = end_of(address, self.page_shift);
        if let Some(old) = program_break.replace(address) {
            let old = end_of(old, self.page_shift);
            if end > old && address.abs_diff(old << self.page_shift) <= LARGEST_MAPPING {
                self.map_anonymous(old, end);
            } else if end < old {
                self.take(end, old);
            }
        }
    }

    /// Anonymous pages and copies of a file's pages are gone: the next access finds new ones.
    fn discard(&mut self, address: u64, bytes: u64) {
        let Some((start, end)) = self.pages(address, bytes) else {
            return;
        };
        for (at, Mapping { end, backing }) in self.take(start, end) {
            let fresh = self.fresh_key(end - at);
            let backing = match backing {
                Backing::Anonymous(_) => Backing::Anonymous(fresh),
                Backing::Private { file, .. } => Backing::Private { file, copy: fresh },
                shared @ Backing::Shared(_) => shared,
            };
            self.map(at, end, backing);
        }
    }
}
