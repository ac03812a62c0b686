//! What the recorder said in the environment, read once, before the program can write over it (setproctitle).

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi as abi;

/// An abstract socket's name is at most this long.
pub(crate) const SOCKET_BYTES: usize = 107;

/// Allocations of at least so many bytes are all recorded; 0 until the environment was read.
static THRESHOLD: AtomicUsize = AtomicUsize::new(0);
static SAMPLE_BYTES: AtomicU32 = AtomicU32::new(0);
static SAMPLES_ADAPT: AtomicBool = AtomicBool::new(false);
static FILE_CALLS: AtomicBool = AtomicBool::new(false);
static SEED: AtomicU64 = AtomicU64::new(0);
static SOCKET: [AtomicU8; SOCKET_BYTES] = [const { AtomicU8::new(0) }; SOCKET_BYTES];
static SOCKET_LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Whether every allocation of so many bytes is recorded. Without a recorder none is.
#[inline(always)]
pub(crate) fn is_large(bytes: usize) -> bool {
    match THRESHOLD.load(Ordering::Relaxed) {
        0 => bytes >= read(),
        threshold => bytes >= threshold,
    }
}

/// Whether the recorder wants to hear of calls on files.
#[inline(always)]
pub(crate) fn wants_file_calls() -> bool {
    if THRESHOLD.load(Ordering::Relaxed) == 0 {
        read();
    }
    FILE_CALLS.load(Ordering::Relaxed)
}

/// Whether the environment was read; before the C library has set it up, it cannot be.
pub(crate) fn are_known() -> bool {
    THRESHOLD.load(Ordering::Relaxed) != 0
}

/// Smaller allocations are sampled, one in so many bytes; 0: none is.
pub(crate) fn sample_bytes() -> u32 {
    SAMPLE_BYTES.load(Ordering::Relaxed)
}

/// Whether samples may become sparser than that.
pub(crate) fn samples_adapt() -> bool {
    SAMPLES_ADAPT.load(Ordering::Relaxed)
}

/// Where sampling's random numbers start.
pub(crate) fn seed() -> u64 {
    SEED.load(Ordering::Relaxed)
}

/// Whether all is recorded, and the program waits for it.
pub(crate) fn is_full_recording() -> bool {
    (1..abi::FULL_BELOW).contains(&THRESHOLD.load(Ordering::Relaxed))
}

/// The recorder's socket and the length of its name; 0: there is none, or not yet.
pub(crate) fn socket() -> ([u8; SOCKET_BYTES], usize) {
    let length = SOCKET_LENGTH.load(Ordering::Acquire);
    let mut name = [0u8; SOCKET_BYTES];
    for (place, byte) in name.iter_mut().zip(&SOCKET) {
        *place = byte.load(Ordering::Relaxed);
    }
    (name, length)
}

/// Reads the environment and returns the threshold: without a recorder nothing is large. Before the C library has set
/// the environment up, the default holds.
#[cold]
fn read() -> usize {
    let Some(entries) = environment() else {
        return abi::DEFAULT_THRESHOLD;
    };
    let socket = variable(entries, abi::SOCKET_VARIABLE).filter(|name| name.len() <= SOCKET_BYTES);
    let threshold = if let Some(name) = socket {
        for (place, &byte) in SOCKET.iter().zip(name) {
            place.store(byte, Ordering::Relaxed);
        }
        SOCKET_LENGTH.store(name.len(), Ordering::Release);
        let (sample, adapts) = variable(entries, abi::SAMPLE_VARIABLE)
            .and_then(sample_setting)
            .unwrap_or((abi::DEFAULT_SAMPLE_BYTES, true));
        SAMPLES_ADAPT.store(adapts, Ordering::Relaxed);
        SAMPLE_BYTES.store(sample.min(abi::LARGEST_SAMPLE_BYTES), Ordering::Relaxed);
        FILE_CALLS.store(
            variable(entries, abi::file_calls::VARIABLE).is_some(),
            Ordering::Relaxed,
        );
        SEED.store(
            number(entries, abi::SEED_VARIABLE).unwrap_or(0),
            Ordering::Relaxed,
        );
        number(entries, abi::THRESHOLD_VARIABLE)
            .filter(|&bytes| bytes > 0)
            .unwrap_or(abi::DEFAULT_THRESHOLD)
    } else {
        usize::MAX
    };
    THRESHOLD.store(threshold, Ordering::Release);
    threshold
}

/// Bytes, and whether the mark for "or sparser" follows.
fn sample_setting(text: &[u8]) -> Option<(u32, bool)> {
    let text = std::str::from_utf8(text).ok()?;
    let bytes = text.strip_suffix(abi::OR_SPARSER);
    Some((bytes.unwrap_or(text).parse().ok()?, bytes.is_some()))
}

fn number<T: std::str::FromStr>(entries: *const *const libc::c_char, name: &str) -> Option<T> {
    let text = variable(entries, name)?;
    std::str::from_utf8(text).ok()?.parse().ok()
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

/// A variable of the environment as it is at start.
pub(crate) fn environment_variable(name: &str) -> Option<&'static [u8]> {
    variable(environment()?, name)
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
