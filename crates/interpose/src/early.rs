//! Memory for the few bytes that the dynamic linker asks for while we look up the real allocator.

use std::cell::UnsafeCell;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

const BYTES: usize = 64 << 10;
const ALIGNMENT: usize = 16;

/// Hands out zeroed memory and never takes any back.
pub struct EarlyPool {
    memory: UnsafeCell<Aligned>,
    used: AtomicUsize,
}

#[repr(align(4096))]
struct Aligned {
    _bytes: [u8; BYTES],
}

// SAFETY: each byte is handed out once, to one caller, by the atomic `used`.
unsafe impl Sync for EarlyPool {}

impl EarlyPool {
    /// An empty pool.
    pub const fn new() -> Self {
        Self {
            memory: UnsafeCell::new(Aligned { _bytes: [0; BYTES] }),
            used: AtomicUsize::new(0),
        }
    }

    /// Zeroed memory aligned to at least 16 bytes, or null when the pool is used up.
    pub fn allocate(&self, bytes: usize, alignment: usize) -> *mut u8 {
        let alignment = alignment.max(ALIGNMENT);
        let base = self.memory.get() as usize;
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let Some(start) = (base + used).checked_next_multiple_of(alignment) else {
                return std::ptr::null_mut();
            };
            let Some(end) = start.checked_add(bytes).filter(|&end| end <= base + BYTES) else {
                return std::ptr::null_mut();
            };
            match self
                .used
                .compare_exchange(used, end - base, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return start as *mut u8,
                Err(now) => used = now,
            }
        }
    }

    /// Whether an address came from here: it must not reach the real `free`.
    pub fn owns(&self, address: *const u8) -> bool {
        (address as usize).wrapping_sub(self.memory.get() as usize) < BYTES
    }
}

impl Default for EarlyPool {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_out_disjoint_aligned_memory_until_it_is_used_up() {
        static POOL: EarlyPool = EarlyPool::new();
        let first = POOL.allocate(10, 1) as usize;
        let second = POOL.allocate(100, 64) as usize;
        assert_eq!((first % ALIGNMENT, second % 64), (0, 0));
        assert!(second >= first + 10);
        assert!(POOL.owns(first as *const u8));
        assert!(!POOL.owns(std::ptr::null()));
        assert!(POOL.allocate(BYTES, 1).is_null());
        assert!(POOL.allocate(usize::MAX, 1).is_null());
    }
}
