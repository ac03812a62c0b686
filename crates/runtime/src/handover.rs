//! Work that one thread hands over to another, by the program's own word (`pagewise.h`): what the other one reads and writes counts
//! as done by the call path that handed it over, for a recorder and for the rules of a plan.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_abi::marks;
use pagewise_interpose as interpose;
use pagewise_interpose::Entered;
use pagewise_interpose::Registers;
use pagewise_interpose::unwind;

use crate::file_calls;
use crate::plan::io;
use crate::sandbox;
use crate::settings;

/// Return addresses that tell call paths apart.
const MOST_FRAMES: usize = 128;

/// `pagewise_handover_t`: kept by the program, with the work.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// The same for the same call path; 0: nothing was handed over, or nobody cares.
    path: u64,
    /// The rules about I/O whose path it is, a bit each.
    rules: u64,
}

/// A recorder hears marks.
static IS_HEARD: AtomicBool = AtomicBool::new(false);
/// How often libraries were loaded when the last path was walked.
static LIBRARIES: AtomicU64 = AtomicU64::new(0);

// Without a destructor: what it is asked for last is destructors' I/O.
thread_local!(static WORKS_FOR: Cell<Handover> = const { Cell::new(Handover { path: 0, rules: 0 }) });

/// Run when this library is loaded.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    let is_heard = settings::environment_variable(marks::VARIABLE).is_some();
    IS_HEARD.store(is_heard, Ordering::Relaxed);
}

/// The program is about to hand work over, by the path that begins here.
pub(crate) fn hand_over(registers: Registers) -> Handover {
    let from = works_for();
    if from.path != 0 {
        // Who hands on what it was handed is not the one who wanted it.
        return from;
    }
    let is_heard = IS_HEARD.load(Ordering::Relaxed);
    let is_told = settings::wants_file_calls();
    if !is_heard && !is_told && !io::is_any() {
        return Handover::default();
    }
    let rules = io::matching(registers);
    let path = token_of(registers);
    if is_told {
        file_calls::handed_over(registers);
    }
    if is_heard {
        mark(marks::HANDED_OVER, path);
    }
    Handover { path, rules }
}

/// This thread works on behalf of who has handed that over; by default, for itself.
pub(crate) fn work_for(handover: Handover) {
    let _ = WORKS_FOR.try_with(|works_for| works_for.set(handover));
    if IS_HEARD.load(Ordering::Relaxed) {
        mark(marks::ON_BEHALF, handover.path);
    }
}

/// The rules of the path on whose behalf this thread works; `None`: it works for itself.
#[inline(always)]
pub(crate) fn rules() -> Option<u64> {
    let from = works_for();
    (from.path != 0).then_some(from.rules)
}

#[inline(always)]
fn works_for() -> Handover {
    WORKS_FOR.try_with(Cell::get).unwrap_or_default()
}

/// The token of the path on whose behalf this thread works; `None`: it works for itself.
#[inline(always)]
pub(crate) fn on_behalf_of() -> Option<u64> {
    Some(works_for().path).filter(|&path| path != 0)
}

/// A number for the call path, never 0.
fn token_of(registers: Registers) -> u64 {
    Entered::enter().map_or(1, |_entered| known_path(registers).token)
}

/// A call path by its token.
#[derive(Clone, Copy)]
pub(crate) struct KnownPath {
    pub(crate) token: u64,
    /// Frames that it tells, the first one included; 0: all of them.
    pub(crate) frames: u32,
}

/// Walks the call path that begins here. To be called inside, as what it reads may be interposed.
pub(crate) fn known_path(registers: Registers) -> KnownPath {
    let libraries = interpose::libraries_ever_loaded().unwrap_or(0);
    if LIBRARIES.swap(libraries, Ordering::Relaxed) != libraries {
        unwind::forget();
    }
    let mut path = [0; MOST_FRAMES];
    let walked = unwind::walk(registers, &mut path);
    let is_all = walked.is_whole && walked.frames < MOST_FRAMES;
    KnownPath {
        // The first is in this library.
        token: token(path.get(1..walked.frames).unwrap_or_default()),
        frames: if is_all { 0 } else { walked.frames as u32 },
    }
}

fn token(path: &[usize]) -> u64 {
    let hash = path.iter().fold(0, |hash: u64, &address| {
        let mixed = (hash ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    });
    (hash & marks::TOKEN_BITS).max(1)
}

/// The kernel refuses it; the recorder's programs see it.
#[cold]
fn mark(what: u64, token: u64) {
    if sandbox::is_in() {
        return;
    }
    interpose::keeping_errno(|| {
        // SAFETY: a number that means nothing to the kernel, and no pointers.
        unsafe {
            libc::syscall(
                libc::SYS_prctl,
                libc::c_long::from(marks::OPTION),
                what,
                token,
                0 as libc::c_long,
                0 as libc::c_long,
            )
        };
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_tokens_of_their_own_that_fit() {
        let tokens = [
            &[][..],
            &[0x1000],
            &[0x1000, 0x2000],
            &[0x2000, 0x1000],
            &[usize::MAX; 100],
        ]
        .map(token);
        assert!(
            tokens
                .iter()
                .all(|&token| token != 0 && token <= marks::TOKEN_BITS)
        );
        let mut distinct = tokens.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), tokens.len(), "{tokens:x?}");
    }

    #[test]
    fn a_thread_works_for_one_at_a_time_and_hands_on_whom_it_works_for() {
        assert_eq!(rules(), None);
        let handed = Handover { path: 7, rules: 0 };
        work_for(handed);
        assert_eq!(
            rules(),
            Some(0),
            "no rule at all is something else than its own"
        );
        assert_eq!(hand_over(interpose::capture()), handed);
        work_for(Handover::default());
        assert_eq!(rules(), None);
        assert_eq!(hand_over(interpose::capture()), Handover::default());
    }
}
