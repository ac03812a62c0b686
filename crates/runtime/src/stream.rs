//! The stream to the recorder: connects when first needed, again in a forked child, and gives up for good where
//! nobody answers.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi as abi;
use pagewise_abi::AllocationKind;
use pagewise_interpose as interpose;
use pagewise_interpose::Entered;
use pagewise_interpose::Producer;
use pagewise_interpose::Registers;

/// An abstract socket's name is at most this long.
const SOCKET_BYTES: usize = 107;

/// Allocations of fewer bytes are not recorded; 0 until the environment was read.
static THRESHOLD: AtomicUsize = AtomicUsize::new(0);
/// This process's ring, once it has one. Points to leaked memory.
static RING: AtomicPtr<Producer> = AtomicPtr::new(std::ptr::null_mut());
/// The recorder's socket, copied out of the environment: programs write over theirs (setproctitle).
static SOCKET: [AtomicU8; SOCKET_BYTES] = [const { AtomicU8::new(0) }; SOCKET_BYTES];
static SOCKET_LENGTH: AtomicUsize = AtomicUsize::new(0);
static CONNECTING: AtomicBool = AtomicBool::new(false);
/// How often libraries were loaded and unloaded when the list of mappings was last sent.
static LIBRARIES: AtomicU64 = AtomicU64::new(u64::MAX);

/// Whether an allocation of so many bytes is recorded. The fast path of every hook.
#[inline]
pub(crate) fn is_large(bytes: usize) -> bool {
    match THRESHOLD.load(Ordering::Relaxed) {
        0 => bytes >= read_threshold(),
        threshold => bytes >= threshold,
    }
}

/// Reads the environment: without a recorder nothing is large. Before the C library has set the environment up,
/// the default holds.
#[cold]
fn read_threshold() -> usize {
    let Some(entries) = environment() else {
        return abi::DEFAULT_THRESHOLD;
    };
    let socket = variable(entries, abi::SOCKET_VARIABLE).filter(|name| name.len() <= SOCKET_BYTES);
    let threshold = if let Some(name) = socket {
        for (place, &byte) in SOCKET.iter().zip(name) {
            place.store(byte, Ordering::Relaxed);
        }
        SOCKET_LENGTH.store(name.len(), Ordering::Release);
        variable(entries, abi::THRESHOLD_VARIABLE)
            .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok())
            .filter(|&bytes| bytes > 0)
            .unwrap_or(abi::DEFAULT_THRESHOLD)
    } else {
        usize::MAX
    };
    THRESHOLD.store(threshold, Ordering::Relaxed);
    threshold
}

/// The environment's entries; `None` before there is one.
fn environment() -> Option<*const *const libc::c_char> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: the C library's variable; null until start-up is done.
    let entries = unsafe { environ };
    (!entries.is_null()).then_some(entries)
}

/// A variable's value, read without locks or allocation.
fn variable(mut entry: *const *const libc::c_char, name: &str) -> Option<&'static [u8]> {
    // SAFETY: a null-terminated array of C strings; a program that changes its environment in another thread at
    // this very moment breaks getenv in the same way.
    unsafe {
        while !(*entry).is_null() {
            let text = std::ffi::CStr::from_ptr(*entry).to_bytes();
            if let Some(value) = text
                .strip_prefix(name.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"="))
            {
                return Some(value);
            }
            entry = entry.add(1);
        }
    }
    None
}

/// An allocation was made. `registers`: of the hook.
pub(crate) fn allocated(address: usize, bytes: usize, kind: AllocationKind, registers: Registers) {
    if address == 0 {
        return;
    }
    record(|ring| {
        send_maps_if_changed(ring);
        let time_ns = interpose::now_ns();
        let tid = interpose::thread_id();
        let allocation = abi::Allocation {
            time_ns,
            address: address as u64,
            bytes: bytes as u64,
            tid,
            kind,
            registers: [
                registers.instruction as u64,
                registers.stack as u64,
                registers.frame as u64,
            ],
            stack: &[],
        };
        let stack_bytes = interpose::stack_bytes_above(registers.stack).min(abi::STACK_BYTES);
        ring.write(abi::Allocation::wire_bytes(stack_bytes), |place| {
            allocation.encode_with(place, |place| interpose::copy_stack(registers.stack, place));
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
        ring.write(abi::Release::WIRE_BYTES, |place| release.encode(place));
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
        ring.write(abi::Move::WIRE_BYTES, |place| moved.encode(place));
    });
}

fn record(write: impl FnOnce(&Producer)) {
    let Some(_entered) = Entered::enter() else {
        return;
    };
    interpose::keeping_errno(|| {
        if let Some(ring) = ring() {
            write(ring);
        }
    });
}

/// This process's ring. A forked child's first record finds its parent's and asks for one of its own.
fn ring() -> Option<&'static Producer> {
    if interpose::is_new_process() {
        RING.store(std::ptr::null_mut(), Ordering::Release);
        CONNECTING.store(false, Ordering::Release);
        LIBRARIES.store(u64::MAX, Ordering::Release);
    }
    let ring = RING.load(Ordering::Acquire);
    // SAFETY: null or a leaked Producer.
    if let Some(ring) = unsafe { ring.as_ref() } {
        return Some(ring);
    }
    connect()
}

#[cold]
fn connect() -> Option<&'static Producer> {
    // One thread connects, once; records of other threads meanwhile are lost, as are all where nobody answers.
    if CONNECTING.swap(true, Ordering::AcqRel) {
        return None;
    }
    let length = SOCKET_LENGTH.load(Ordering::Acquire);
    if length == 0 {
        CONNECTING.store(false, Ordering::Release); // the environment is not there yet: ask again
        return None;
    }
    let mut name = [0u8; SOCKET_BYTES];
    for (place, byte) in name.iter_mut().zip(&SOCKET) {
        *place = byte.load(Ordering::Relaxed);
    }
    let ring: &'static Producer = Box::leak(Box::new(Producer::connect(&name[..length])?));
    RING.store(std::ptr::from_ref(ring).cast_mut(), Ordering::Release);
    Some(ring)
}

/// Return addresses mean something only to who knows which library is mapped where.
fn send_maps_if_changed(ring: &Producer) {
    let now = libraries_ever_loaded();
    if LIBRARIES.swap(now, Ordering::AcqRel) != now {
        interpose::write_maps(ring);
    }
}

fn libraries_ever_loaded() -> u64 {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        size: usize,
        data: *mut libc::c_void,
    ) -> libc::c_int {
        if size >= size_of::<libc::dl_phdr_info>() {
            // SAFETY: the linker passes a valid info of `size` bytes, and our own `data`.
            unsafe { *data.cast::<u64>() = (*info).dlpi_adds.wrapping_add((*info).dlpi_subs) };
        }
        1 // one library is enough: the counts are the same in each
    }
    let mut count = 0u64;
    // SAFETY: the callback matches its type and `count` lives across the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}
