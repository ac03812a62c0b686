//! What a simulation counted, and what that costs on given devices.

use crate::storage::Storage;

/// Events counted after the warm-up. All counts are of pages, except `references`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Accesses.
    pub references: u64,
    /// Accesses to file pages that were not in memory.
    pub file_misses: u64,
    /// Accesses to anonymous pages that were not in memory, first touches included.
    pub anonymous_misses: u64,
    /// Misses that were the first access to their page in the whole trace.
    pub first_touches: u64,
    /// Pages that left memory.
    pub evictions: u64,
    /// Pages read from their file.
    pub file_reads: u64,
    /// Pages written to their file, by flushing or at eviction.
    pub file_writes: u64,
    /// Pages read from swap.
    pub swap_reads: u64,
    /// Pages written to swap.
    pub swap_writes: u64,
}

impl Outcome {
    /// Accesses to pages that were not in memory.
    pub fn misses(&self) -> u64 {
        self.file_misses + self.anonymous_misses
    }

    /// Misses for each reference; `None` if there were no references.
    pub fn miss_ratio(&self) -> Option<f64> {
        (self.references > 0).then(|| self.misses() as f64 / self.references as f64)
    }

    /// The time the counted transfers and faults take on `storage`.
    pub fn io(&self, storage: &Storage) -> IoTime {
        IoTime {
            file_read_ns: self.file_reads * storage.file.read_ns,
            file_write_ns: self.file_writes * storage.file.write_ns,
            swap_read_ns: self.swap_reads * storage.swap.read_ns,
            swap_write_ns: self.swap_writes * storage.swap.write_ns,
            software_ns: self.misses() * storage.fault_ns,
        }
    }
}

/// Time of transfers by device and direction (ns), and that of the kernel apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoTime {
    /// Reading pages from files.
    pub file_read_ns: u64,
    /// Writing pages to files.
    pub file_write_ns: u64,
    /// Reading pages from swap.
    pub swap_read_ns: u64,
    /// Writing pages to swap.
    pub swap_write_ns: u64,
    /// The kernel's own work at each miss; in no other figure here.
    pub software_ns: u64,
}

impl IoTime {
    /// Time of all transfers, without software.
    pub fn io_ns(&self) -> u64 {
        self.file_read_ns + self.file_write_ns + self.swap_read_ns + self.swap_write_ns
    }
}
