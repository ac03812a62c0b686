//! What the launcher said in the environment, read when the library is loaded, before the program can write over it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::guard as abi;

use crate::placement::Alignment;

static KEEPS_GOING: AtomicBool = AtomicBool::new(false);
static WANTS_LEAKS: AtomicBool = AtomicBool::new(false);
static WANTS_MPROTECT: AtomicBool = AtomicBool::new(false);
/// 0: automatic.
static ALIGNMENT: AtomicUsize = AtomicUsize::new(0);

/// Whether errors end the program.
pub(crate) fn keeps_going() -> bool {
    KEEPS_GOING.load(Ordering::Relaxed)
}

/// Whether leaks are looked for.
pub(crate) fn wants_leaks() -> bool {
    WANTS_LEAKS.load(Ordering::Relaxed)
}

/// Whether guard regions are not to be used.
pub(crate) fn wants_mprotect() -> bool {
    WANTS_MPROTECT.load(Ordering::Relaxed)
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
            abi::OPTION_LEAKS => WANTS_LEAKS.store(true, Ordering::Relaxed),
            abi::OPTION_MPROTECT => WANTS_MPROTECT.store(true, Ordering::Relaxed),
            _ => {
                let bytes = option.strip_prefix(abi::OPTION_ALIGN);
                let bytes = bytes.and_then(|text| text.parse().ok());
                if let Some(bytes) = bytes.filter(|bytes: &usize| bytes.is_power_of_two()) {
                    ALIGNMENT.store(bytes, Ordering::Relaxed);
                }
            }
        }
    }
}

/// A variable's value, read without locks or allocation; `None` also before there is an environment.
pub(crate) fn environment_variable(name: &str) -> Option<&'static [u8]> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: null until start-up is done, then a null-terminated array of C strings; nothing else runs yet.
    unsafe {
        let mut entry = environ;
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
