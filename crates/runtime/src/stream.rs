//! The stream to the recorder: connects when first needed, again in a forked child, and gives up for good where
//! nobody answers.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_abi as abi;
use pagewise_abi::AllocationKind;
use pagewise_interpose as interpose;
use pagewise_interpose::Entered;
use pagewise_interpose::Producer;
use pagewise_interpose::Registers;
use pagewise_interpose::RingCell;

use crate::pace;
use crate::sandbox;
use crate::settings;

/// This process's ring, once it has one. In static memory: the allocator may be who called us, with its locks held.
static RING: RingCell = RingCell::new();
/// The process whose ring it is.
static GENERATION: AtomicU32 = AtomicU32::new(0);
static CONNECTING: AtomicBool = AtomicBool::new(false);
/// Nobody answered.
static IS_ALONE: AtomicBool = AtomicBool::new(false);
/// How often libraries were loaded and unloaded when the list of mappings was last sent.
static LIBRARIES: AtomicU64 = AtomicU64::new(u64::MAX);

/// Something that was handed to the program.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) kind: AllocationKind,
    /// Of the hook.
    pub(crate) registers: Registers,
}

/// An allocation was made. `sample_bytes`: 0, or the mean distance of samples by which it was chosen.
pub(crate) fn allocated(made: Made, sample_bytes: u32) {
    record(|ring| {
        send_maps_if_changed(ring);
        let Registers {
            instruction,
            stack,
            frame,
        } = made.registers;
        let now_ns = interpose::now_ns();
        if sample_bytes > 0 {
            pace::sampled(now_ns);
        }
        let allocation = abi::Allocation {
            time_ns: now_ns,
            address: made.address as u64,
            bytes: made.bytes as u64,
            tid: sandbox::thread_id(),
            kind: made.kind,
            sample_bytes,
            registers: [instruction as u64, stack as u64, frame as u64],
            stack: &[],
        };
        let stack_bytes = interpose::stack_bytes_above(stack).min(ring.stack_bytes());
        let record_bytes = abi::Allocation::wire_bytes(stack_bytes);
        write(ring, record_bytes, sample_bytes > 0, |place| {
            allocation.encode_with(place, |place| interpose::copy_stack(stack, place));
        });
    });
}

/// Memory is about to be released: told before it is, so that nobody else can have got it meanwhile.
/// `bytes` 0: the allocation that starts there.
pub(crate) fn releasing(address: usize, bytes: usize) {
    record(|ring| {
        let release = abi::Release {
            time_ns: interpose::now_ns(),
            address: address as u64,
            bytes: bytes as u64,
        };
        write(ring, abi::Release::WIRE_BYTES, false, |place| {
            release.encode(place)
        });
    });
}

/// The program says what the allocation that holds this address is called.
pub(crate) fn named(address: usize, name: &[u8]) {
    record(|ring| {
        let name = abi::Name {
            time_ns: interpose::now_ns(),
            address: address as u64,
            text: &name[..name.len().min(abi::Name::LONGEST)],
        };
        let bytes = abi::Name::wire_bytes(name.text.len());
        write(ring, bytes, false, |place| name.encode(place));
    });
}

/// A mapping was moved or resized.
pub(crate) fn moved(old_address: usize, old_bytes: usize, new_address: usize, new_bytes: usize) {
    record(|ring| {
        let moved = abi::Move {
            time_ns: interpose::now_ns(),
            old_address: old_address as u64,
            old_bytes: old_bytes as u64,
            new_address: new_address as u64,
            new_bytes: new_bytes as u64,
        };
        write(ring, abi::Move::WIRE_BYTES, false, |place| {
            moved.encode(place)
        });
    });
}

/// Of a full recording, or of what is recorded for itself, nothing shall be lost: the program waits for the recorder, in
/// vain no longer than so many ms. A sample is not worth that.
const PATIENCE_IN_FULL_MS: u32 = 2000;
const PATIENCE_MS: u32 = 20;
/// Nobody read while we waited: the next ones do not wait, until there is room.
static RECORDER_IS_STUCK: AtomicBool = AtomicBool::new(false);

fn write(ring: &Producer, bytes: usize, is_sample: bool, fill: impl FnOnce(&mut [u8])) {
    // Waiting needs a system call.
    let may_wait = !sandbox::is_in();
    let patience_ms = match (settings::is_full_recording(), is_sample) {
        (true, _) => PATIENCE_IN_FULL_MS,
        (false, true) => 0,
        (false, false) => PATIENCE_MS,
    };
    let has_room = ring.has_room(bytes);
    if has_room {
        RECORDER_IS_STUCK.store(false, Ordering::Relaxed);
    } else if may_wait && patience_ms > 0 && !RECORDER_IS_STUCK.load(Ordering::Relaxed) {
        let came = ring.wait_for_room(bytes, patience_ms);
        RECORDER_IS_STUCK.store(!came, Ordering::Relaxed);
    }
    ring.write(bytes, fill);
}

fn record(write: impl FnOnce(&Producer)) {
    let Some(_entered) = Entered::enter() else {
        return;
    };
    interpose::keeping_errno(|| {
        if let Some(ring) = ring() {
            write(&ring);
        }
    });
}

/// Tells of something by this process's ring; while another thread is about to get it, waits for that. `None`: there is none, or this
/// thread is telling of something else and was interrupted by a signal. Not for allocators, which may be called with locks held.
pub(crate) fn tell<T>(write: impl FnOnce(&Producer) -> T) -> Option<T> {
    let _entered = Entered::enter()?;
    interpose::keeping_errno(|| ring().or_else(await_ring).map(|ring| write(&ring)))
}

/// Before the program forbids itself system calls: whatever will be recorded needs a ring, and who reads it the libraries.
pub(crate) fn prepare() {
    // It may not have allocated yet: asked for the first time, the settings are read.
    settings::is_large(0);
    record(send_maps_if_changed);
}

/// This process's ring. A forked child's first record finds its parent's and asks for one of its own.
fn ring() -> Option<Producer> {
    let generation = interpose::process_generation();
    if GENERATION.swap(generation, Ordering::AcqRel) != generation {
        RING.clear();
        CONNECTING.store(false, Ordering::Release);
        IS_ALONE.store(false, Ordering::Release);
        LIBRARIES.store(u64::MAX, Ordering::Release);
    }
    RING.get().or_else(connect)
}

#[cold]
fn connect() -> Option<Producer> {
    // What has not been asked for before is not any more.
    if sandbox::is_in() {
        return None;
    }
    // One thread connects, once; records of other threads meanwhile are lost, as are all where nobody answers.
    if CONNECTING.swap(true, Ordering::AcqRel) {
        return None;
    }
    let (name, length) = settings::socket();
    if length == 0 {
        CONNECTING.store(false, Ordering::Release); // the environment is not there yet: ask again
        return None;
    }
    let Some(ring) = Producer::connect(&name[..length]) else {
        IS_ALONE.store(true, Ordering::Release);
        return None;
    };
    RING.set(ring);
    Some(ring)
}

/// How long threads wait for the one that connects, ms: it gives up itself before.
const CONNECTING_MS: u32 = 2000;

/// The ring that another thread is about to get.
#[cold]
fn await_ring() -> Option<Producer> {
    for _ in 0..CONNECTING_MS {
        let is_coming = CONNECTING.load(Ordering::Acquire) && !IS_ALONE.load(Ordering::Acquire);
        if !is_coming || sandbox::is_in() || RING.get().is_some() {
            break;
        }
        interpose::pause();
    }
    RING.get()
}

/// Return addresses mean something only to who knows which library is mapped where.
pub(crate) fn send_maps_if_changed(ring: &Producer) {
    let Some(now) = interpose::libraries_ever_loaded().filter(|_| !sandbox::is_in()) else {
        return;
    };
    if LIBRARIES.swap(now, Ordering::AcqRel) != now {
        interpose::write_maps(ring);
    }
}
