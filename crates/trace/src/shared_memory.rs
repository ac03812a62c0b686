//! Shared memory that belongs to no disk (tmpfs, System V, memfd, shared anonymous mappings). Its pages go to swap as those of
//! private memory do, but no page table tells: there they are just gone.

use std::collections::HashMap;

use crate::error::TraceError;
use crate::trace::Trace;

/// Where each address space had shared memory, sooner or later.
#[derive(Debug, Default)]
pub struct SharedMemory {
    /// Ranges that do not overlap, in order.
    ranges: HashMap<u32, Vec<(u64, u64)>>,
}

impl SharedMemory {
    /// Of one address space: ranges of addresses, the second excluded.
    pub fn of(space: u32, ranges: &[(u64, u64)]) -> Self {
        Self {
            ranges: HashMap::from([(space, joined(ranges.to_vec()))]),
        }
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
        Ok(Self { ranges })
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
    fn bytes_are_counted_once() {
        let shared = SharedMemory::of(1, &[(30, 40), (0, 10), (5, 20), (20, 25), (7, 7)]);
        assert_eq!(shared.ranges[&1], [(0, 25), (30, 40)]);
        assert_eq!(shared.bytes_in(1, 10, 35), 20);
        assert_eq!(shared.bytes_in(1, 25, 30), 0);
        assert_eq!(shared.bytes_in(2, 0, 40), 0, "another space");
    }
}
