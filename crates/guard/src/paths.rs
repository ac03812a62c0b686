//! Call paths, each kept once and known by a number, so that an object remembers two of them in eight bytes.
//!
//! A path is words in a growing store: how many frames and which thread, then the frames. A [`table`] of numbers by hash finds
//! it again. Both only grow, and any thread adds to them.

mod table;

use std::cell::Cell;
use std::cell::RefCell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::guard::MOST_FRAMES;
use pagewise_interpose::Registers;
use pagewise_interpose::thread_id;
use pagewise_interpose::unwind;
use pagewise_interpose::unwind::Memo;
use pagewise_interpose::unwind::walk_again;

use crate::reserve::Reserve;
use crate::sandbox;
use crate::system;

const WORD: usize = size_of::<u64>();
const _: () = assert!(MOST_FRAMES < unwind::MOST_REMEMBERED);
/// Paths, from which on a path is kept but once, whichever threads have it: the rest of the table is for new paths.
const MOST_WITH_THREAD: usize = table::MOST / 4 * 3;
/// Bytes of the store, at most.
const MOST_BYTES: usize = 4 << 30;
/// Of what a limit of the address space leaves, one part in so many.
const SHARE_OF_LIMIT: usize = 32;

static STORE: Reserve = Reserve::new();
/// Words used; number 0 stands for no path.
static USED: AtomicUsize = AtomicUsize::new(1);
/// Paths that were walked, and those of them that have no end, or no room.
pub(crate) static WALKED: AtomicU64 = AtomicU64::new(0);
pub(crate) static CUT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
    /// This thread's last path of callers and its number.
    static LAST: RefCell<(Memo, u32)> = const { RefCell::new((Memo::new(), 0)) };
}

/// A path on its way.
pub(crate) struct Path {
    pub(crate) frames: [usize; MOST_FRAMES],
    pub(crate) length: usize,
}

impl Path {
    /// Of the callers of the hook that captured the registers.
    pub(crate) fn of_callers(registers: Registers) -> Self {
        let mut frames = [0; MOST_FRAMES + 1];
        let walked = unwind::walk(registers, &mut frames);
        count(walked);
        let mut path = Self::empty();
        path.length = walked.frames.saturating_sub(1);
        path.frames.copy_from_slice(&frames[1..]);
        path
    }

    /// Of an instruction that faulted, and its callers.
    pub(crate) fn of_instruction(registers: Registers) -> Self {
        let mut path = Self::empty();
        path.length = unwind::walk(registers, &mut path.frames).frames;
        path
    }

    pub(crate) fn empty() -> Self {
        Self {
            frames: [0; MOST_FRAMES],
            length: 0,
        }
    }

    pub(crate) fn words(&self) -> [u64; MOST_FRAMES] {
        self.frames.map(|frame| frame as u64)
    }
}

fn count(walked: unwind::Walked) {
    WALKED.fetch_add(1, Ordering::Relaxed);
    if !walked.is_whole {
        CUT.fetch_add(1, Ordering::Relaxed);
    }
}

/// This thread's number, asked of the kernel once.
pub(crate) fn this_thread() -> u32 {
    THREAD
        .try_with(|known| {
            if known.get() == 0 {
                known.set(thread_id());
            }
            known.get()
        })
        .unwrap_or_else(|_| thread_id())
}

/// As [`this_thread`], but that in a sandbox the kernel is not asked: 0 if it was not before.
pub(crate) fn known_thread() -> u32 {
    match sandbox::is_in() {
        true => THREAD.try_with(Cell::get).unwrap_or(0),
        false => this_thread(),
    }
}

/// In a forked child, this thread has another number.
pub(crate) fn after_fork() {
    table::after_fork();
    let _ = THREAD.try_with(|known| known.set(0));
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| last.1 = 0));
}

/// Reserves the store. Without it, all paths are unknown.
pub(crate) fn prepare() {
    let bytes = match system::space_left() {
        None => MOST_BYTES,
        Some(limit) => (limit / SHARE_OF_LIMIT).next_multiple_of(2 << 20),
    };
    if STORE.make(bytes.min(MOST_BYTES)) {
        STORE.take_small_pages();
    }
}

/// Bytes of memory that paths take, the table included as far as it is touched at most.
pub(crate) fn bytes() -> usize {
    USED.load(Ordering::Relaxed) * WORD
}

fn word(number: usize) -> &'static AtomicU64 {
    // SAFETY: numbers in use are within the usable part of the store.
    unsafe { &*((STORE.start() + number * WORD) as *const AtomicU64) }
}

/// The number of the path of the callers, with this thread; 0: there is no room for it.
pub(crate) fn number_of_callers(registers: Registers) -> u32 {
    let again = LAST.try_with(|last| {
        // Not where a handler interrupted the walk.
        let mut last = last.try_borrow_mut().ok()?;
        let (memo, number) = &mut *last;
        let mut frames = [0; MOST_FRAMES + 1];
        let (walked, is_same) = walk_again(registers, &mut frames, memo);
        count(walked);
        if !is_same || *number == 0 {
            *number = number_of(&frames[1..walked.frames.max(1)], known_thread());
        }
        Some(*number)
    });
    again.ok().flatten().unwrap_or_else(|| {
        let path = Path::of_callers(registers);
        number_of(&path.frames[..path.length], known_thread())
    })
}

/// The number of a path with a thread; where there are very many threads, only that of the path.
fn number_of(frames: &[usize], thread: u32) -> u32 {
    let is_full = table::entries() > MOST_WITH_THREAD;
    let mut number = find(frames, thread, !is_full);
    if number == 0 && is_full {
        number = find(frames, 0, true);
    }
    CUT.fetch_add(u64::from(number == 0), Ordering::Relaxed);
    number
}

/// The number of a path with a thread, which is added if that `is_wanted`; 0: it is not there.
fn find(frames: &[usize], thread: u32, is_wanted: bool) -> u32 {
    let head = frames.len() as u64 | u64::from(thread) << 32;
    let wanted = table::Wanted {
        hash: hash(head, frames.iter().map(|&frame| frame as u64)),
        is_same: |number| is_same(number, head, frames),
        hash_of: hash_of_number,
    };
    match is_wanted {
        true => wanted.find_or_add(|| write(head, frames)),
        false => wanted.find(),
    }
}

fn hash(head: u64, frames: impl Iterator<Item = u64>) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    frames.fold(head.wrapping_mul(MULTIPLIER), |hash, frame| {
        let hash = (hash ^ frame).wrapping_mul(MULTIPLIER);
        hash ^ hash >> 29
    })
}

fn hash_of_number(number: u32) -> u64 {
    let word = |index| word(number as usize + index).load(Ordering::Relaxed);
    let length = length_of(number).unwrap_or(0);
    hash(word(0), (1..=length).map(word))
}

fn is_same(number: u32, head: u64, frames: &[usize]) -> bool {
    let at = number as usize;
    word(at).load(Ordering::Relaxed) == head
        && frames
            .iter()
            .enumerate()
            .all(|(index, &frame)| word(at + 1 + index).load(Ordering::Relaxed) == frame as u64)
}

/// Adds a path to the store; 0: it is full.
fn write(head: u64, frames: &[usize]) -> u32 {
    let words = frames.len() + 1;
    let at = USED.load(Ordering::Relaxed);
    if !STORE.use_up_to((at + words) * WORD) {
        return 0;
    }
    let at = USED.fetch_add(words, Ordering::Relaxed);
    // Others may have come before.
    if !STORE.use_up_to((at + words) * WORD) {
        return 0;
    }
    word(at).store(head, Ordering::Relaxed);
    for (index, &frame) in frames.iter().enumerate() {
        word(at + 1 + index).store(frame as u64, Ordering::Relaxed);
    }
    at as u32
}

/// How many frames a path has. `None`: the number is no path's: 0, or of a slot whose words were written over.
fn length_of(number: u32) -> Option<usize> {
    let at = number as usize;
    let is_within = |end: usize| end * WORD <= STORE.usable();
    if at == 0 || !is_within(at + 1) {
        return None;
    }
    let length = (word(at).load(Ordering::Relaxed) as u32 as usize).min(MOST_FRAMES);
    is_within(at + 1 + length).then_some(length)
}

/// Where the innermost call of a path returns to. `None`: the path is unknown.
pub(crate) fn caller(number: u32) -> Option<usize> {
    length_of(number).filter(|&length| length != 0)?;
    Some(word(number as usize + 1).load(Ordering::Relaxed) as usize)
}

/// The thread and the frames of a path; 0: none.
pub(crate) fn read(number: u32) -> (u32, Path) {
    let mut path = Path::empty();
    let Some(length) = length_of(number) else {
        return (0, path);
    };
    let head = word(number as usize).load(Ordering::Relaxed);
    path.length = length;
    for (index, frame) in path.frames[..path.length].iter_mut().enumerate() {
        *frame = word(number as usize + 1 + index).load(Ordering::Relaxed) as usize;
    }
    ((head >> 32) as u32, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_number_whoever_walks_it() {
        prepare();
        let frames: Vec<usize> = (1..20).collect();
        let number = number_of(&frames, 7);
        assert!(number != 0);
        assert_eq!(number_of(&frames, 7), number);
        assert_ne!(number_of(&frames[1..], 7), number);
        assert_ne!(number_of(&frames, 8), number);
        let (thread, path) = read(number);
        assert_eq!((thread, &path.frames[..path.length]), (7, &frames[..]));
        let numbers: Vec<u32> = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| {
                scope.spawn(|| {
                    (0..500)
                        .map(|last| number_of(&[5, last], 1))
                        .collect::<Vec<_>>()
                })
            });
            threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("joined"))
                .collect()
        });
        for index in 0..500 {
            assert!(
                numbers
                    .iter()
                    .skip(index)
                    .step_by(500)
                    .all(|&number| number == numbers[index])
            );
        }
        for none in [0, u32::MAX, (STORE.usable() / WORD) as u32] {
            assert_eq!((read(none).1.length, caller(none)), (0, None), "{none}");
        }
        with_very_many_threads_each_path_is_known_all_the_same();
    }

    /// Last, as it fills the table.
    fn with_very_many_threads_each_path_is_known_all_the_same() {
        for thread in 1..=2000 {
            for last in 0..500 {
                number_of(&[9, last], thread);
            }
        }
        let (first, again) = (number_of(&[9, 1], 1), number_of(&[9, 1], 3000));
        assert_eq!(read(first).0, 1);
        let (thread, path) = read(again);
        assert_eq!((thread, &path.frames[..path.length]), (0, &[9, 1][..]));
        let number = number_of(&[10, 11], 3000);
        assert_eq!((read(number).0, read(number).1.length), (0, 2));
    }
}
