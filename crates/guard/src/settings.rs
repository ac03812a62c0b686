//! What the launcher said in the environment, read when the library is loaded, before the program can write over it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::guard as abi;

use crate::placement::Alignment;
use crate::placement::Side;

static KEEPS_GOING: AtomicBool = AtomicBool::new(false);
static ASKS: AtomicBool = AtomicBool::new(false);
static WANTS_LEAKS: AtomicBool = AtomicBool::new(false);
static WANTS_MPROTECT: AtomicBool = AtomicBool::new(false);
static WANTS_OVERLAP: AtomicBool = AtomicBool::new(false);
static WANTS_STOP: AtomicBool = AtomicBool::new(false);
static WANTS_CORE: AtomicBool = AtomicBool::new(false);
static IS_AT_BEGIN: AtomicBool = AtomicBool::new(false);
/// One object in so many is guarded, of those not smaller and not larger.
static EVERY: AtomicUsize = AtomicUsize::new(1);
static LEAST_BYTES: AtomicUsize = AtomicUsize::new(0);
static MOST_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);
static IS_CHOOSY: AtomicBool = AtomicBool::new(false);
static COUNTER: AtomicU64 = AtomicU64::new(0);
/// 0: automatic.
static ALIGNMENT: AtomicUsize = AtomicUsize::new(0);

/// What new objects are full of; zeros need nothing done.
static FILL: AtomicU8 = AtomicU8::new(0);

/// As the process found it; null: not known yet.
static ENVIRONMENT: AtomicPtr<*const libc::c_char> = AtomicPtr::new(std::ptr::null_mut());
/// Bytes of memory that objects' pages may take; 0: any.
static MEMORY: AtomicUsize = AtomicUsize::new(0);

/// Bytes of memory that objects' pages may take, if that is limited.
#[inline(always)]
pub(crate) fn memory() -> Option<usize> {
    match MEMORY.load(Ordering::Relaxed) {
        0 => None,
        bytes => Some(bytes),
    }
}

/// Whether errors end the program.
pub(crate) fn keeps_going() -> bool {
    KEEPS_GOING.load(Ordering::Relaxed)
}

/// Whether the launcher is asked after an error whether to go on.
pub(crate) fn asks() -> bool {
    ASKS.load(Ordering::Relaxed)
}

/// Whether leaks are looked for.
pub(crate) fn wants_leaks() -> bool {
    WANTS_LEAKS.load(Ordering::Relaxed)
}

/// Whether guard regions are not to be used.
pub(crate) fn wants_mprotect() -> bool {
    WANTS_MPROTECT.load(Ordering::Relaxed)
}

/// Whether overlapping copies are errors.
pub(crate) fn wants_overlap() -> bool {
    WANTS_OVERLAP.load(Ordering::Relaxed)
}

/// Whether the program is to stop at an error.
pub(crate) fn wants_stop() -> bool {
    WANTS_STOP.load(Ordering::Relaxed)
}

/// Whether an error is to leave a core.
pub(crate) fn wants_core() -> bool {
    WANTS_CORE.load(Ordering::Relaxed)
}

/// What objects of which nothing is promised are full of.
#[inline(always)]
pub(crate) fn fill() -> u8 {
    FILL.load(Ordering::Relaxed)
}

/// At which end of objects the guard is.
pub(crate) fn side() -> Side {
    match IS_AT_BEGIN.load(Ordering::Relaxed) {
        true => Side::Begin,
        false => Side::End,
    }
}

/// Whether some objects are left without a guard on purpose.
#[inline(always)]
pub(crate) fn is_choosy() -> bool {
    IS_CHOOSY.load(Ordering::Relaxed)
}

/// Whether an object of this size is to be guarded. Of those of the right sizes one in so many is, whatever came before.
pub(crate) fn is_chosen(bytes: usize) -> bool {
    let every = EVERY.load(Ordering::Relaxed).max(1) as u64;
    let is_of_size =
        (LEAST_BYTES.load(Ordering::Relaxed)..=MOST_BYTES.load(Ordering::Relaxed)).contains(&bytes);
    is_of_size && (every == 1 || random().is_multiple_of(every))
}

/// As splitmix64 makes numbers of a counter, begun at the time.
fn random() -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    if COUNTER.load(Ordering::Relaxed) == 0 {
        COUNTER.store(pagewise_interpose::now_ns(), Ordering::Relaxed);
    }
    let mut value = COUNTER.fetch_add(STEP, Ordering::Relaxed);
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// How objects are aligned.
#[inline(always)]
pub(crate) fn alignment() -> Alignment {
    match ALIGNMENT.load(Ordering::Relaxed) {
        0 => Alignment::Auto,
        bytes => Alignment::To(bytes),
    }
}

/// Reads the options. Objects that are made before, by the loader, are as by default.
pub(crate) fn read() {
    let Some(options) = environment_variable(abi::OPTIONS_VARIABLE) else {
        return;
    };
    for option in options.split(|&byte| byte == b',') {
        let Ok(option) = std::str::from_utf8(option) else {
            continue;
        };
        match option {
            abi::OPTION_KEEP_GOING => KEEPS_GOING.store(true, Ordering::Relaxed),
            abi::OPTION_ASK => ASKS.store(true, Ordering::Relaxed),
            abi::OPTION_LEAKS => WANTS_LEAKS.store(true, Ordering::Relaxed),
            abi::OPTION_BEGIN => IS_AT_BEGIN.store(true, Ordering::Relaxed),
            abi::OPTION_OVERLAP => WANTS_OVERLAP.store(true, Ordering::Relaxed),
            abi::OPTION_STOP => WANTS_STOP.store(true, Ordering::Relaxed),
            abi::OPTION_CORE => WANTS_CORE.store(true, Ordering::Relaxed),
            abi::OPTION_MPROTECT => WANTS_MPROTECT.store(true, Ordering::Relaxed),
            _ => read_number(option),
        }
    }
}

/// An option with a number; others are of another version, and pass.
fn read_number(option: &str) {
    let number = |name| option.strip_prefix(name)?.parse::<usize>().ok();
    if let Some(bytes) = number(abi::OPTION_ALIGN).filter(|bytes| bytes.is_power_of_two()) {
        ALIGNMENT.store(bytes, Ordering::Relaxed);
    }
    if let Some(byte) = number(abi::OPTION_FILL) {
        FILL.store(byte as u8, Ordering::Relaxed);
    }
    if let Some(bytes) = number(abi::OPTION_MEMORY) {
        MEMORY.store(bytes, Ordering::Relaxed);
    }
    for (name, place) in [
        (abi::OPTION_SAMPLE, &EVERY),
        (abi::OPTION_MIN, &LEAST_BYTES),
        (abi::OPTION_MAX, &MOST_BYTES),
    ] {
        if let Some(value) = number(name) {
            place.store(value, Ordering::Relaxed);
            IS_CHOOSY.store(true, Ordering::Relaxed);
        }
    }
}

/// Says where the environment is, which the C library does not know yet.
pub(crate) fn set_environment(environment: *const *const libc::c_char) {
    ENVIRONMENT.store(environment.cast_mut(), Ordering::Release);
}

/// A variable's value, read without locks or allocation; `None` also before there is an environment.
pub(crate) fn environment_variable(name: &str) -> Option<&'static [u8]> {
    // SAFETY: null, or a null-terminated array of C strings; nothing else runs yet.
    unsafe {
        let mut entry = ENVIRONMENT.load(Ordering::Acquire).cast_const();
        while !entry.is_null() && !(*entry).is_null() {
            let text = std::ffi::CStr::from_ptr(*entry).to_bytes();
            let value = text.strip_prefix(name.as_bytes());
            if let Some(value) = value.and_then(|rest| rest.strip_prefix(b"=")) {
                return Some(value);
            }
            entry = entry.add(1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_objects_the_share_asked_for_is_guarded_also_of_every_second() {
        read_number("sample=10");
        let mut chosen = [0u32; 2];
        for index in 0..200_000 {
            chosen[index % 2] += u32::from(is_chosen(24));
        }
        read_number("sample=1");
        // 10,000 each, by a standard deviation of 95.
        assert!(
            chosen.iter().all(|count| count.abs_diff(10_000) < 600),
            "{chosen:?}"
        );
        for option in ["min=16", "max=64"] {
            read_number(option);
        }
        let of_size = [15, 16, 64, 65].map(is_chosen);
        read_number("min=0");
        MOST_BYTES.store(usize::MAX, Ordering::Relaxed);
        assert_eq!(of_size, [false, true, true, false]);
    }
}
