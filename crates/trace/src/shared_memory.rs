//! Shared memory that belongs to no disk (tmpfs, System V, memfd, shared anonymous mappings). Its pages go to swap as those of
//! private memory do, but no page table tells: there they are just gone.

use std::collections::HashMap;

use crate::error::TraceError;
use crate::forks::forked_from;
use crate::trace::Trace;

/// Where each address space had shared memory, sooner or later.
#[derive(Debug, Default)]
pub struct SharedMemory {
    /// Ranges that do not overlap, in order.
    ranges: HashMap<u32, Vec<(u64, u64)>>,
    /// What each was forked from.
    parents: HashMap<u32, u32>,
}

impl SharedMemory {
    /// Of one address space: ranges of addresses, the second excluded.
    pub fn of(space: u32, ranges: &[(u64, u64)]) -> Self {
        Self {
            ranges: HashMap::from([(space, joined(ranges.to_vec()))]),
            parents: HashMap::new(),
        }
    }

    /// The same, with address spaces that were forked, each with the one it was forked from. They have the mappings of that one.
    #[must_use]
    pub fn with_children(mut self, children: &[(u32, u32)]) -> Self {
        self.parents.extend(children.iter().copied());
        self
    }

    /// From the mappings of a recording.
    ///
    /// # Errors
    /// [`TraceError`]: the table cannot be read.
    pub fn read(trace: &Trace) -> Result<Self, TraceError> {
        let mut ranges: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for mapping in trace.mappings()? {
            if Self::has_path(&mapping.path) {
                let of_space = ranges.entry(mapping.space).or_default();
                of_space.push((mapping.start, mapping.end));
            }
        }
        for of_space in ranges.values_mut() {
            *of_space = joined(std::mem::take(of_space));
        }
        let forked = forked_from(trace)?.into_iter();
        let parents = forked.map(|(space, (parent, _))| (space, parent));
        Ok(Self {
            ranges,
            parents: parents.collect(),
        })
    }

    /// The address space that a page counts to: of shared memory the first that had it there, as what is forked from that has the same
    /// page; of other memory its own.
    pub fn home(&self, space: u32, address: u64) -> u32 {
        if self.ranges.is_empty() {
            return space;
        }
        let is_there = |space: &u32| self.has(*space, address);
        let first = self.ancestors(space).filter(is_there).last();
        first.unwrap_or(space)
    }

    /// The address spaces that this one was forked from, the nearest first.
    pub fn ancestors(&self, space: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(self.parents.get(&space), |space| self.parents.get(space)).copied()
    }

    /// Whether there is shared memory at an address.
    pub fn has(&self, space: u32, address: u64) -> bool {
        self.bytes_in(space, address, address.saturating_add(1)) > 0
    }

    /// Whether a mapping with this path is such memory: by the names that the kernel gives it. A file on another tmpfs than /dev/shm has
    /// a name like any other.
    pub fn has_path(path: &str) -> bool {
        let in_container = path.strip_prefix("/proc/").and_then(|rest| {
            let (_, path) = rest.split_once("/root/")?;
            Some(format!("/{path}"))
        });
        let path = in_container.as_deref().unwrap_or(path);
        path == "/dev/zero"
            || ["/memfd:", "/SYSV", "/dev/shm/", "[anon_shmem:"]
                .iter()
                .any(|beginning| path.starts_with(beginning))
    }

    /// How many bytes of this range are shared memory.
    pub fn bytes_in(&self, space: u32, start: u64, end: u64) -> u64 {
        let ranges = self.ranges.get(&space).map_or(&[][..], Vec::as_slice);
        let first = ranges.partition_point(|range| range.1 <= start);
        ranges[first..]
            .iter()
            .take_while(|range| range.0 < end)
            .map(|range| range.1.min(end) - range.0.max(start))
            .sum()
    }
}

fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.retain(|range| range.0 < range.1);
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_known_by_its_names() {
        for path in [
            "/dev/zero",
            "/memfd:buffers",
            "/SYSV00000000",
            "/dev/shm/PostgreSQL.1",
            "[anon_shmem:name]",
            "/proc/4711/root/dev/shm/x",
        ] {
            assert!(SharedMemory::has_path(path), "{path}");
        }
        for path in [
            "/usr/lib/libc.so.6",
            "[heap]",
            "/tmp/dev/shm/x",
            "/dev/null",
        ] {
            assert!(!SharedMemory::has_path(path), "{path}");
        }
    }

    #[test]
    fn a_page_of_shared_memory_counts_to_the_first_that_had_it() {
        let shared = SharedMemory::of(1, &[(0, 10)]).with_children(&[(2, 1), (3, 2)]);
        assert_eq!(
            [1, 2, 3, 4].map(|space| shared.home(space, 5)),
            [1, 1, 1, 4]
        );
        assert_eq!(shared.home(3, 10), 3, "private memory");
        assert_eq!(shared.ancestors(3).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn bytes_are_counted_once() {
        let shared = SharedMemory::of(1, &[(30, 40), (0, 10), (5, 20), (20, 25), (7, 7)]);
        assert_eq!(shared.ranges[&1], [(0, 25), (30, 40)]);
        assert_eq!(shared.bytes_in(1, 10, 35), 20);
        assert_eq!(shared.bytes_in(1, 25, 30), 0);
        assert_eq!(shared.bytes_in(2, 0, 40), 0, "another space");
    }
}
