//! The writer's side of the ring (see the `abi` crate). Many threads write at once, without a lock: each reserves
//! its bytes by moving the head, fills them, and writes the record's length last.

use std::sync::atomic::AtomicPtr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi as abi;

use crate::connect;

const RECORD_HEADER: usize = 8;

/// A ring mapped into this process. Copyable: all threads of a process share one mapping, which is never undone.
#[derive(Clone, Copy)]
pub struct Producer {
    start: *mut u8,
    capacity: usize,
}

// SAFETY: the mapping lives until the process ends, and all access to shared words is atomic or to bytes that
// this thread has reserved.
unsafe impl Send for Producer {}
// SAFETY: see above.
unsafe impl Sync for Producer {}

/// Holds the ring of a process.
pub struct RingCell {
    start: AtomicPtr<u8>,
    capacity: AtomicUsize,
}

impl RingCell {
    /// Holds none.
    pub const fn new() -> Self {
        Self {
            start: AtomicPtr::new(std::ptr::null_mut()),
            capacity: AtomicUsize::new(0),
        }
    }

    /// The ring, if there is one.
    pub fn get(&self) -> Option<Producer> {
        let start = self.start.load(Ordering::Acquire);
        let capacity = self.capacity.load(Ordering::Relaxed);
        (!start.is_null()).then_some(Producer { start, capacity })
    }

    /// To be called by one thread, of a cell that holds none.
    pub fn set(&self, ring: Producer) {
        self.capacity.store(ring.capacity, Ordering::Relaxed);
        self.start.store(ring.start, Ordering::Release);
    }

    /// Forgets the ring of the process that this one was forked from.
    pub fn clear(&self) {
        self.start.store(std::ptr::null_mut(), Ordering::Release);
    }
}

impl Default for RingCell {
    fn default() -> Self {
        Self::new()
    }
}

impl Producer {
    /// Asks the recorder for a ring. `None` if there is no recorder, or it does not answer.
    pub fn connect(socket: &[u8]) -> Option<Self> {
        let (start, bytes) = connect::request_file(socket)?;
        // SAFETY: request_file returns a mapping of `bytes` bytes, more than a header.
        unsafe { Self::from_mapping(start, bytes) }
    }

    /// # Safety
    /// `start` must be a mapping of `bytes` bytes, shared with nobody but a reader of rings, never unmapped.
    unsafe fn from_mapping(start: *mut u8, bytes: usize) -> Option<Self> {
        let ring = Self {
            start,
            capacity: bytes.checked_sub(abi::HEADER_BYTES)?,
        };
        let honest = ring.word(abi::OFFSET_MAGIC).load(Ordering::Relaxed) == abi::MAGIC
            && ring.word(abi::OFFSET_CAPACITY).load(Ordering::Relaxed) == ring.capacity as u64
            && ring.capacity.is_power_of_two();
        honest.then_some(ring)
    }

    /// Bytes of stack that the recorder wants with an allocation.
    pub fn stack_bytes(&self) -> usize {
        let wanted = self.word(abi::OFFSET_STACK).load(Ordering::Relaxed) as usize;
        wanted.clamp(abi::FIRST_STACK_BYTES, abi::STACK_BYTES)
    }

    /// Whether so many bytes fit now.
    pub fn has_room(&self, bytes: usize) -> bool {
        let head = self.word(abi::OFFSET_HEAD).load(Ordering::Relaxed);
        let tail = self.word(abi::OFFSET_TAIL).load(Ordering::Acquire);
        // Twice: the end of the ring may have to be left unused.
        head.wrapping_sub(tail) + 2 * bytes as u64 <= self.capacity as u64
    }

    /// Waits for room for so many bytes; false: there was none, and the recorder has read nothing for so many ms.
    pub fn wait_for_room(&self, bytes: usize, patience_ms: u32) -> bool {
        let mut seen = u64::MAX;
        let mut idle = 0;
        while idle < patience_ms {
            if self.has_room(bytes) {
                return true;
            }
            let tail = self.word(abi::OFFSET_TAIL).load(Ordering::Relaxed);
            idle = if tail == seen { idle + 1 } else { 0 };
            seen = tail;
            pause();
        }
        self.has_room(bytes)
    }

    /// What the reader said last: to be asked for before the record that it is to judge is written.
    pub fn last_verdict(&self) -> u64 {
        self.word(abi::OFFSET_VERDICT).load(Ordering::Acquire)
    }

    /// Waits for the reader's verdict on what this thread has told since `before`: whether to go on. `None`: none came in so many ms.
    pub fn wait_for_verdict(&self, before: u64, thread: u32, patience_ms: u32) -> Option<bool> {
        for _ in 0..patience_ms {
            let verdict = self.last_verdict();
            if verdict != before && (verdict >> 32) as u32 == thread {
                return Some(verdict & 1 == 1);
            }
            pause();
        }
        None
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: callers pass multiples of 8 within the header; the mapping is page-aligned and lives for ever.
        unsafe { &*self.start.add(offset).cast::<AtomicU64>() }
    }

    /// Writes one record of `bytes` bytes (a multiple of 8): `fill` gets its zeroed place, length excluded from
    /// its duties. False: the ring is full; the loss is counted.
    pub fn write(&self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        let is_written = self.try_write(bytes, fill);
        if !is_written {
            self.lose(1);
        }
        is_written
    }

    /// So many records were not told.
    pub fn lose(&self, records: u64) {
        self.word(abi::OFFSET_LOST)
            .fetch_add(records, Ordering::Relaxed);
    }

    /// So many calls on files were not told.
    pub fn lose_calls(&self, calls: u64) {
        self.word(abi::OFFSET_LOST_CALLS)
            .fetch_add(calls, Ordering::Relaxed);
    }

    /// As [`Producer::write`], but who writes counts what is lost.
    pub fn try_write(&self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        let Some(offset) = self.reserve(bytes) else {
            return false;
        };
        // SAFETY: these bytes were reserved by this call alone and do not wrap; the reader leaves them alone
        // until their length is written.
        let place = unsafe { std::slice::from_raw_parts_mut(self.start.add(offset), bytes) };
        fill(place);
        self.commit(offset, bytes);
        true
    }

    /// Reserves `bytes` in one piece and returns their offset in the mapping.
    fn reserve(&self, bytes: usize) -> Option<usize> {
        let head = self.word(abi::OFFSET_HEAD);
        let mut at = head.load(Ordering::Relaxed);
        loop {
            // Pairs with the reader's store of the tail after it has zeroed what it read.
            let tail = self.word(abi::OFFSET_TAIL).load(Ordering::Acquire);
            let start = at as usize & (self.capacity - 1);
            let padding = if start + bytes > self.capacity {
                self.capacity - start
            } else {
                0
            };
            let end = at + (padding + bytes) as u64;
            if end.wrapping_sub(tail) > self.capacity as u64 {
                return None;
            }
            match head.compare_exchange_weak(at, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) if padding == 0 => return Some(abi::HEADER_BYTES + start),
                Ok(_) => {
                    self.pad(abi::HEADER_BYTES + start, padding);
                    return Some(abi::HEADER_BYTES);
                }
                Err(now) => at = now,
            }
        }
    }

    fn pad(&self, offset: usize, bytes: usize) {
        // SAFETY: as in `write`: reserved by this thread alone. Padding is at least 8 bytes long.
        let place =
            unsafe { std::slice::from_raw_parts_mut(self.start.add(offset), RECORD_HEADER) };
        place[4..8].copy_from_slice(&(abi::Kind::Padding as u32).to_le_bytes());
        self.commit(offset, bytes);
    }

    fn commit(&self, offset: usize, bytes: usize) {
        // SAFETY: offset is a multiple of 8 within the mapping.
        let length = unsafe { &*self.start.add(offset).cast::<AtomicU32>() };
        length.store(bytes as u32, Ordering::Release);
    }
}

/// A millisecond, or less if a signal comes.
pub fn pause() {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    // SAFETY: a valid duration; what is left of it after a signal does not matter.
    // The C library's function ends a thread that is to be cancelled.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, 0 as libc::c_long) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(capacity: usize) -> Producer {
        let memory = vec![0u64; (abi::HEADER_BYTES + capacity) / 8].leak();
        memory[abi::OFFSET_MAGIC / 8] = abi::MAGIC;
        memory[abi::OFFSET_CAPACITY / 8] = capacity as u64;
        let bytes = abi::HEADER_BYTES + capacity;
        // SAFETY: leaked memory of that size that nobody else uses.
        unsafe { Producer::from_mapping(memory.as_mut_ptr().cast(), bytes) }
            .expect("an honest header")
    }

    #[test]
    fn a_full_ring_counts_losses_and_records_do_not_wrap() {
        let ring = ring(64);
        assert!(ring.write(40, |place| place[8..].fill(1)));
        // 24 bytes are left: too few, and the reader has freed none.
        assert!(!ring.write(32, |_| ()));
        assert!(!ring.try_write(32, |_| ()));
        ring.lose_calls(3);
        assert_eq!(ring.word(abi::OFFSET_LOST).load(Ordering::Relaxed), 1);
        let lost_calls = ring.word(abi::OFFSET_LOST_CALLS);
        assert_eq!(lost_calls.load(Ordering::Relaxed), 3);
        ring.word(abi::OFFSET_TAIL).store(40, Ordering::Release);
        assert!(ring.write(32, |place| place[8..].fill(2)));
        // The end was padded, the record begins at the start again.
        assert_eq!(ring.word(abi::OFFSET_HEAD).load(Ordering::Relaxed), 64 + 32);
        // SAFETY: within the ring.
        let padding =
            unsafe { std::slice::from_raw_parts(ring.start.add(abi::HEADER_BYTES + 40), 8) };
        assert_eq!(padding, [24, 0, 0, 0, abi::Kind::Padding as u8, 0, 0, 0]);
    }

    #[test]
    fn who_waits_gets_room_from_a_reader_and_gives_up_without() {
        let ring = ring(256);
        assert!(ring.write(240, |_| ()));
        assert!(!ring.wait_for_room(40, 3));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                ring.word(abi::OFFSET_TAIL).store(240, Ordering::Release);
            });
            assert!(ring.wait_for_room(40, 10_000));
        });
    }

    #[test]
    fn threads_do_not_overwrite_each_other() {
        let ring = ring(1 << 20);
        std::thread::scope(|scope| {
            for thread in 1..=4u8 {
                scope.spawn(move || {
                    for _ in 0..1000 {
                        assert!(ring.write(64, |place| place[8..].fill(thread)));
                    }
                });
            }
        });
        for record in 0..4000 {
            // SAFETY: within the ring; the writers have ended.
            let bytes = unsafe {
                std::slice::from_raw_parts(ring.start.add(abi::HEADER_BYTES + record * 64), 64)
            };
            assert_eq!(bytes[0], 64);
            assert!(bytes[8..].iter().all(|&byte| byte == bytes[8] && byte != 0));
        }
    }
}
