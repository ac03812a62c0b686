//! The stream to the recorder: connects when first needed, again in a forked child, and gives up for good where
//! nobody answers.

use std::sync::atomic::AtomicBool;
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
/// The process whose ring it is, and how far it got ([`Phase`]).
static CONNECTION: AtomicU64 = AtomicU64::new(0);
/// Records of threads that have waited in vain for the one that connects.
static MISSED: AtomicU64 = AtomicU64::new(0);
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

/// Tells of something by this process's ring. `None`: there is none, or this thread is telling of something else and was interrupted by a
/// signal.
pub(crate) fn tell<T>(write: impl FnOnce(&Producer) -> T) -> Option<T> {
    let _entered = Entered::enter()?;
    interpose::keeping_errno(|| ring().map(|ring| write(&ring)))
}

/// Before the program forbids itself system calls: whatever will be recorded needs a ring, and who reads it the libraries.
pub(crate) fn prepare() {
    // It may not have allocated yet: asked for the first time, the settings are read.
    settings::is_large(0);
    record(send_maps_if_changed);
}

/// How far a process has got with its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It was not asked for, or could not be.
    None,
    /// A thread is asking.
    Asking,
    /// It is there.
    Ready,
    /// Nobody answered: there will be none.
    Alone,
}

impl Phase {
    const ALL: [Self; 4] = [Self::None, Self::Asking, Self::Ready, Self::Alone];

    /// In one word, so that of the threads of a process one asks and none takes a ring for its own that is its parent's.
    fn of(self, generation: u32) -> u64 {
        u64::from(generation) << 8 | self as u64
    }

    /// Where the process of this generation is, by such a word: a forked child is where its parent began.
    fn now(word: u64, generation: u32) -> Self {
        match (word >> 8) == u64::from(generation) {
            true => Self::ALL[(word & 3) as usize],
            false => Self::None,
        }
    }
}

/// This process's ring. A forked child's first record finds its parent's and asks for one of its own.
fn ring() -> Option<Producer> {
    let generation = interpose::process_generation();
    let word = CONNECTION.load(Ordering::Acquire);
    match Phase::now(word, generation) {
        Phase::Ready => RING.get(),
        Phase::Alone => None,
        Phase::None => connect(word, generation),
        Phase::Asking => await_ring(generation),
    }
}

#[cold]
fn connect(word: u64, generation: u32) -> Option<Producer> {
    // What has not been asked for before is not any more.
    if sandbox::is_in() {
        return None;
    }
    let relaxed = Ordering::Relaxed;
    let asking = Phase::Asking.of(generation);
    let is_ours = CONNECTION.compare_exchange(word, asking, Ordering::AcqRel, relaxed);
    if is_ours.is_err() {
        return await_ring(generation);
    }
    RING.clear();
    LIBRARIES.store(u64::MAX, relaxed);
    MISSED.store(0, relaxed);
    let (name, length) = settings::socket();
    let ring = (length > 0)
        .then(|| Producer::connect(&name[..length]))
        .flatten();
    let phase = match ring {
        // Others may tell of calls before this thread tells again where libraries are.
        Some(ring) => {
            interpose::write_maps(&ring);
            RING.set(ring);
            Phase::Ready
        }
        None if length > 0 => Phase::Alone,
        // The environment is not there yet: ask again.
        None => Phase::None,
    };
    CONNECTION.store(phase.of(generation), Ordering::Release);
    ring.inspect(|ring| ring.lose(MISSED.swap(0, relaxed)))
}

/// How long threads wait for the one that asks, ms: for it the recorder's answer takes less than one, on a busy machine more.
const ASKING_MS: u32 = 2000;

/// The ring that another thread is asking for: it asks the kernel only, so that whatever locks are held by who waits here, it goes on.
#[cold]
fn await_ring(generation: u32) -> Option<Producer> {
    for _ in 0..ASKING_MS {
        let phase = Phase::now(CONNECTION.load(Ordering::Acquire), generation);
        match phase {
            Phase::Ready => return RING.get(),
            Phase::Asking if !sandbox::is_in() => interpose::pause(),
            _ => break,
        }
    }
    MISSED.fetch_add(1, Ordering::Relaxed);
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_begins_where_its_parent_began() {
        for phase in Phase::ALL {
            let word = phase.of(7);
            assert_eq!(Phase::now(word, 7), phase);
            assert_eq!(Phase::now(word, 8), Phase::None);
        }
        assert_eq!(Phase::now(0, 1), Phase::None);
    }
}
