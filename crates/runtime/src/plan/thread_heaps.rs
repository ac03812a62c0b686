//! The heaps that the C library makes for further threads (malloc/arena.c, glibc 2.36): mappings of 64 MiB each, at multiples of that,
//! of which it uses more and more from their start on. It maps and unmaps them without the hooks: they are known by the blocks in them.
//!
//! A block's word before it says that it lies in such a heap, and the heap's first words how much of it is in use.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_interpose::system;

use super::object::PAGE;
use super::prezero;
use crate::settings;

/// `HEAP_MAX_SIZE`, unless the C library is told to use huge pages of a size that the user chose.
const ROOM: usize = 64 << 20;
/// Where a heap says how many bytes of it are in use (`heap_info.size`).
const SIZE_AT: usize = 2 * size_of::<usize>();
/// In the word before a block: its heap is a thread's (`NON_MAIN_ARENA`), and it is no mapping of its own (`IS_MMAPPED`).
const OF_THREAD: usize = 4;
const OF_THREAD_OR_MAPPED: usize = OF_THREAD | 2;

/// Smaller ones are left alone: threads have a heap each, of which most hold little.
const LEAST: usize = 1 << 20;
/// It grows by a page at a time; it is looked at again after so much.
const STEP: usize = 128 << 10;
/// Many more than fit into any memory that is short.
const MOST: usize = 4096;

static ARE_WATCHED: AtomicBool = AtomicBool::new(false);
/// Up to where each is known, by its start over [`ROOM`]; 0: no heap there is.
static ENDS: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
/// None is known whose place in [`ENDS`] is below the one or beyond the other.
static FIRST: AtomicUsize = AtomicUsize::new(MOST);
static LAST: AtomicUsize = AtomicUsize::new(0);

/// From here on their growth matters, where they can be told.
pub(super) fn watch() {
    let is_resized = settings::environment_variable("GLIBC_TUNABLES")
        .is_some_and(|tunables| tunables.windows(7).any(|part| part == b"hugetlb"));
    let can_be_told = prezero::is_c_librarys_allocator() && !is_resized;
    ARE_WATCHED.store(can_be_told, Ordering::Relaxed);
}

pub(super) fn leave() {
    ARE_WATCHED.store(false, Ordering::Relaxed);
}

/// Whether the heap of a thread has grown, as a block of so many bytes shows that was just made there.
#[inline(always)]
pub(super) fn is_grown(block: usize, bytes: usize) -> bool {
    ARE_WATCHED.load(Ordering::Relaxed) && block != 0 && is_beyond_known(block, bytes)
}

fn is_beyond_known(block: usize, bytes: usize) -> bool {
    // SAFETY: the C library's allocator has just made the block, and writes this word before each.
    let word = unsafe { *((block - size_of::<usize>()) as *const usize) };
    word & OF_THREAD_OR_MAPPED == OF_THREAD && block + bytes >= next_look(start_of(block))
}

fn start_of(address: usize) -> usize {
    address / ROOM * ROOM
}

fn place_of(start: usize) -> &'static AtomicUsize {
    &ENDS[start / ROOM % MOST]
}

/// Up to where the heap is known that starts there; `None`: it is not.
fn known_end(start: usize) -> Option<usize> {
    let end = place_of(start).load(Ordering::Relaxed);
    (end > start && end <= start + ROOM).then_some(end)
}

/// Blocks from there on tell that it has grown.
fn next_look(start: usize) -> usize {
    known_end(start).map_or(start + LEAST, |end| end + STEP)
}

/// What of the heap around a block is new; `None`: nothing, or another thread has found it. `true`: the heap itself is.
pub(super) fn grown(block: usize) -> Option<(Range<usize>, bool)> {
    let start = start_of(block);
    // SAFETY: the block's word says that it is in such a heap, which lives as long as its blocks, and the allocator writes that word whole.
    let size = unsafe { &*((start + SIZE_AT) as *const AtomicUsize) }.load(Ordering::Relaxed);
    if !is_size(size) || !(start..start + size).contains(&block) {
        return None;
    }
    let place = place_of(start);
    let known = place.load(Ordering::Relaxed);
    let before = known_end(start).unwrap_or(start);
    let end = start + size;
    let relaxed = Ordering::Relaxed;
    if end <= before
        || place
            .compare_exchange(known, end, relaxed, relaxed)
            .is_err()
    {
        return None;
    }
    let index = start / ROOM % MOST;
    FIRST.fetch_min(index, relaxed);
    LAST.fetch_max(index, relaxed);
    Some((before..end, before == start))
}

fn is_size(size: usize) -> bool {
    (PAGE..=ROOM).contains(&size) && size.is_multiple_of(PAGE)
}

/// The known heap around an address, as far as it is known.
pub(super) fn around(address: usize) -> Option<Range<usize>> {
    let start = start_of(address);
    let end = known_end(start)?;
    (address < end).then_some(start..end)
}

/// By the helper: tells of what is no heap any more, or not in use.
pub(super) fn look(mut gone: impl FnMut(Range<usize>)) {
    let relaxed = Ordering::Relaxed;
    for place in ENDS
        .iter()
        .take(LAST.load(relaxed) + 1)
        .skip(FIRST.load(relaxed))
    {
        let known = place.load(relaxed);
        if known == 0 {
            continue;
        }
        let start = start_of(known - 1);
        let size = system::own_word(start + SIZE_AT).filter(|&size| is_size(size));
        let end = start + size.unwrap_or(0);
        let now = if size.is_some() { end } else { 0 };
        if end < known && place.compare_exchange(known, now, relaxed, relaxed).is_ok() {
            gone(end..known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1000;

    fn blocks(count: usize) -> Vec<usize> {
        // SAFETY: any size may be asked for.
        let made = (0..count).map(|_| unsafe { libc::malloc(BYTES) } as usize);
        made.collect()
    }

    fn release(blocks: Vec<usize>) {
        for block in blocks {
            // SAFETY: made above, and released once.
            unsafe { libc::free(block as *mut libc::c_void) };
        }
    }

    fn follow_own_heap() {
        let many = blocks(4096);
        let last = *many.last().expect("many");
        assert!(is_beyond_known(last, BYTES));
        let (heap, is_new) = grown(last).expect("a heap that nobody knew");
        assert!(is_new && heap.start == start_of(last) && heap.contains(&(last + BYTES)));
        assert_eq!(around(last), Some(heap.clone()));
        assert!(!is_beyond_known(last, BYTES) && grown(last).is_none());
        let more = blocks(512);
        let last = *more.last().expect("more");
        let (piece, is_new) = grown(last).expect("it grew");
        assert!(!is_new && piece.start == heap.end && piece.contains(&last));
        look(|gone| assert!(gone.end <= heap.start || gone.start >= piece.end));
        release(many);
        release(more);
        let mut trimmed = 0;
        look(|gone| trimmed += gone.len());
        assert!(trimmed >= 2 << 20, "{trimmed} bytes were given back");
    }

    #[test]
    fn a_threads_heap_is_known_by_its_blocks_until_it_is_given_back() {
        let thread = std::thread::spawn(follow_own_heap);
        thread.join().expect("as it should be");
    }

    #[test]
    fn what_is_no_heap_is_not_taken_for_one() {
        // A mapping of its own.
        // SAFETY: any size may be asked for.
        let block = unsafe { libc::malloc(64 << 20) } as usize;
        assert!(!is_beyond_known(block, 64 << 20));
        assert_eq!(around(block), None);
        release(vec![block]);
        assert!(!is_size(0) && !is_size(PAGE + 1) && !is_size(2 * ROOM) && is_size(ROOM));
    }
}
