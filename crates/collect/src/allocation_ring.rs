//! One preloaded process's ring, as the recorder reads it. What is in there was written by a process that may be hostile,
//! or be killed at any moment: nothing there is believed, and whoever lies breaks only its own ring.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_abi as abi;
use rustix::fs::MemfdFlags;
use rustix::fs::SealFlags;
use rustix::mm::MapFlags;
use rustix::mm::ProtFlags;

/// One process's ring, mapped here too.
pub(crate) struct Ring {
    /// Whose it is; 0: nobody's yet.
    pub(crate) pid: u32,
    /// The memory, until it has been handed to the process: with many processes, each descriptor counts.
    file: Option<OwnedFd>,
    start: NonNull<AtomicU64>,
    /// Bytes behind the header, a power of two.
    capacity: usize,
    /// Bytes read, ever: our own count, the process could write over the one in the header.
    tail: u64,
    scratch: Vec<u8>,
    broken: bool,
}

impl Ring {
    /// `capacity`: a power of two. `is_filled`: with memory, at once.
    pub(crate) fn new(capacity: usize, is_filled: bool) -> Option<Self> {
        let bytes = abi::HEADER_BYTES + capacity;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("pagewise-ring", flags).ok()?;
        rustix::fs::ftruncate(&file, bytes as u64).ok()?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .ok()?;
        let mut flags = MapFlags::SHARED;
        flags.set(MapFlags::POPULATE, is_filled);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
                &file,
                0,
            )
        }
        .ok()?;
        let ring = Self {
            pid: 0, // nobody's yet
            file: Some(file),
            start: NonNull::new(start.cast())?,
            capacity,
            tail: 0,
            scratch: Vec::new(),
            broken: false,
        };
        ring.word(abi::OFFSET_MAGIC)
            .store(abi::MAGIC, Ordering::Relaxed);
        ring.word(abi::OFFSET_VERSION)
            .store(abi::VERSION.into(), Ordering::Relaxed);
        ring.word(abi::OFFSET_STACK)
            .store(abi::FIRST_STACK_BYTES as u64, Ordering::Relaxed);
        ring.word(abi::OFFSET_CAPACITY)
            .store(capacity as u64, Ordering::Release);
        Some(ring)
    }

    /// Of the whole mapping.
    fn bytes(&self) -> usize {
        abi::HEADER_BYTES + self.capacity
    }

    /// The memory, to be handed to the process; once. It stays mapped here.
    pub(crate) fn take_file(&mut self) -> Option<OwnedFd> {
        self.file.take()
    }

    /// Asks the process for twice as much stack with each allocation.
    pub(crate) fn lengthen_stacks(&self) {
        let wanted = self.word(abi::OFFSET_STACK);
        let longer = wanted.load(Ordering::Relaxed).saturating_mul(2);
        wanted.store(longer.min(abi::STACK_BYTES as u64), Ordering::Relaxed);
    }

    /// Says whether a thread that waits for it may go on.
    pub(crate) fn judge(&self, thread: u32, goes_on: bool) {
        let word = self.word(abi::OFFSET_VERDICT);
        let number = (word.load(Ordering::Relaxed) as u32 >> 1).wrapping_add(1);
        let low = number << 1 | u32::from(goes_on);
        word.store(u64::from(thread) << 32 | u64::from(low), Ordering::Release);
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is this long and lives as long as self; the file is sealed, so no process can
        // shorten it under us; both sides access it as atomics or, the writer, bytes it has reserved.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes() / 8) }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.words()[offset / 8]
    }

    pub(crate) fn lost(&self) -> u64 {
        self.word(abi::OFFSET_LOST).load(Ordering::Relaxed)
    }

    pub(crate) fn lost_calls(&self) -> u64 {
        self.word(abi::OFFSET_LOST_CALLS).load(Ordering::Relaxed)
    }

    /// Reads all finished records. Returns 1 if the ring's contents made no sense: it is then left alone for good.
    pub(crate) fn drain(&mut self, sink: &mut impl FnMut(u32, abi::Record<'_>)) -> u64 {
        if self.broken {
            return 0;
        }
        let head = self.word(abi::OFFSET_HEAD).load(Ordering::Acquire);
        // One round ends where the head was, so that a process that writes on and on does not keep us here.
        if head.wrapping_sub(self.tail) > self.capacity as u64 {
            self.broken = true;
            return 1;
        }
        while self.tail != head {
            let at = self.tail as usize & (self.capacity - 1);
            let first = (abi::HEADER_BYTES + at) / 8;
            // Pairs with the writer's store of the length; 0: not finished yet.
            let bytes = self.words()[first].load(Ordering::Acquire) as u32 as usize;
            if bytes == 0 {
                break;
            }
            let sane = bytes.is_multiple_of(8)
                && at + bytes <= self.capacity
                && bytes as u64 <= head.wrapping_sub(self.tail);
            if !sane || !self.take(first, bytes, sink) {
                self.broken = true;
                return 1;
            }
            self.tail = self.tail.wrapping_add(bytes as u64);
            // Only now may the bytes, all zero again, be reserved anew.
            self.word(abi::OFFSET_TAIL)
                .store(self.tail, Ordering::Release);
        }
        0
    }

    /// Copies a record out, zeroes its place, and decodes the copy: its writer cannot change it any more.
    fn take(
        &mut self,
        first: usize,
        bytes: usize,
        sink: &mut impl FnMut(u32, abi::Record<'_>),
    ) -> bool {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        for word in &self.words()[first..first + bytes / 8] {
            scratch.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            word.store(0, Ordering::Relaxed);
        }
        let decoded = abi::decode(&scratch);
        let sensible = decoded.is_ok();
        match decoded {
            Ok(abi::Record::Padding) | Err(_) => {}
            Ok(record) => sink(self.pid, record),
        }
        self.scratch = scratch;
        sensible
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `new`; no reference outlives self.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: usize = 1 << 16;

    fn ring_with(head: u64, words: &[(usize, u64)]) -> Ring {
        let ring = Ring::new(BYTES, true).expect("a ring");
        for &(index, value) in words {
            ring.words()[abi::HEADER_BYTES / 8 + index].store(value, Ordering::Relaxed);
        }
        ring.word(abi::OFFSET_HEAD).store(head, Ordering::Release);
        ring
    }

    fn drain(ring: &mut Ring) -> (u64, usize) {
        let mut records = 0;
        let broken = ring.drain(&mut |_, _| records += 1);
        (broken, records)
    }

    #[test]
    fn an_unfinished_record_waits() {
        let mut ring = ring_with(32, &[]);
        assert_eq!(drain(&mut ring), (0, 0));
        let release = u64::from(abi::Kind::Release as u16) << 32;
        ring.words()[abi::HEADER_BYTES / 8].store(release | 32, Ordering::Release);
        assert_eq!(drain(&mut ring), (0, 1));
        assert_eq!(
            ring.words()[abi::HEADER_BYTES / 8].load(Ordering::Relaxed),
            0,
            "zeroed for the next writer"
        );
    }

    #[test]
    fn a_lying_process_breaks_only_its_own_ring() {
        for lie in [7, 8 << 20, 4096, u64::from(u32::MAX) & !7] {
            let mut ring = ring_with(64, &[(0, lie)]);
            assert_eq!(drain(&mut ring), (1, 0), "length {lie}");
            assert_eq!(drain(&mut ring), (0, 0), "left alone afterwards");
        }
        let unknown_kind = 99u64 << 32 | 8;
        assert_eq!(drain(&mut ring_with(64, &[(0, unknown_kind)])), (1, 0));
        let mut wild_head = ring_with(
            u64::MAX,
            &[(0, u64::from(abi::Kind::Padding as u16) << 32 | 8)],
        );
        assert_eq!(drain(&mut wild_head).1, 0);
    }

    /// A hostile process's doing: words written here and there, and a head that says anything.
    fn hostile() -> impl Strategy<Value = (u64, u64, Vec<(usize, u64)>)> {
        let any_word = any::<u64>();
        // Likely headers: lengths and kinds near those of real records.
        let header = (0..9u64, 0..10_000u64).prop_map(|(kind, bytes)| (kind << 32) | bytes);
        let aligned = (1..6u64, 0..1000u64).prop_map(|(kind, words)| (kind << 32) | (words * 8));
        let word = prop_oneof![any_word, header, aligned];
        let place = prop_oneof![0..64usize, 0..BYTES / 8];
        let head = prop_oneof![any::<u64>(), 0..2 * BYTES as u64];
        let tail = prop_oneof![Just(0), any::<u64>(), 0..BYTES as u64];
        (head, tail, prop::collection::vec((place, word), 0..200))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn whatever_is_written_there_is_survived((head, tail, words) in hostile()) {
            let mut ring = ring_with(head, &words);
            ring.tail = tail & !7;
            let mut bytes = 0;
            let broken = ring.drain(&mut |_, record| bytes += size_of_record(&record));
            // A round never hands out more than the ring holds, however the head lies.
            prop_assert!(bytes <= BYTES, "{bytes}");
            prop_assert!(broken <= 1);
            prop_assert!(ring.scratch.capacity() <= BYTES);
        }

        #[test]
        fn records_that_are_written_come_out(lengths in prop::collection::vec(0..600usize, 1..40)) {
            let mut ring = ring_with(0, &[]);
            let mut at = 0;
            for &length in &lengths {
                let bytes = abi::Maps::wire_bytes(length);
                let text = vec![b'x'; length];
                let maps = abi::Maps { time_ns: 7, first: true, last: false, text: &text };
                let mut record = vec![0u8; bytes];
                maps.encode(&mut record);
                record[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
                for (index, word) in record.chunks_exact(8).enumerate() {
                    let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
                    ring.words()[(abi::HEADER_BYTES + at) / 8 + index].store(word, Ordering::Relaxed);
                }
                at += bytes;
            }
            ring.word(abi::OFFSET_HEAD).store(at as u64, Ordering::Release);
            let mut found = Vec::new();
            let broken = ring.drain(&mut |_, record| match record {
                abi::Record::Maps(maps) => found.push(maps.text.len()),
                other => panic!("{other:?}"),
            });
            prop_assert_eq!(broken, 0);
            prop_assert_eq!(found, lengths);
        }
    }

    fn size_of_record(record: &abi::Record<'_>) -> usize {
        match record {
            abi::Record::Allocation(allocation) => allocation.stack.len(),
            abi::Record::Maps(maps) => maps.text.len(),
            _ => 8,
        }
    }

    #[test]
    fn a_process_that_writes_while_we_read_is_survived() {
        let mut ring = ring_with(0, &[]);
        let memory = MmapOf(ring.start, ring.bytes() / 8);
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut state = 1u64;
                while !stop.load(Ordering::Relaxed) {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let header = abi::HEADER_BYTES / 8;
                    let place = header + state as usize % (memory.words().len() - header);
                    let value = (((state >> 20) % 6) << 32) | ((state >> 40) % 512 * 8);
                    memory.words()[place].store(value, Ordering::Relaxed);
                }
            });
            for round in 0..2000u64 {
                ring.broken = false;
                ring.tail = round * 8;
                let head = ring.word(abi::OFFSET_HEAD);
                head.store((round * 8).wrapping_add(BYTES as u64), Ordering::Release);
                let mut bytes = 0;
                let broken = ring.drain(&mut |_, record| bytes += size_of_record(&record));
                assert!(broken <= 1 && bytes <= BYTES, "{bytes}");
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    /// The ring's memory as its process has it.
    struct MmapOf(NonNull<AtomicU64>, usize);

    // SAFETY: all access is atomic.
    unsafe impl Sync for MmapOf {}

    impl MmapOf {
        fn words(&self) -> &[AtomicU64] {
            // SAFETY: the ring outlives the threads that use this.
            unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.1) }
        }
    }
}
