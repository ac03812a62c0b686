//! What is known of open files, by descriptor: which file it is, what was told of it, and how far its reader is.
//!
//! A descriptor's number comes to mean another file when it is closed and given anew. `close` and kin are hooked and empty the
//! place, waiting while a hint is under way; for those that bypass the hooks, device and inode are compared before each hint, and now
//! and then where none is given.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;

use pagewise_abi::bursts::Bursts;
use pagewise_abi::pattern;
use pagewise_abi::plan::PlanAction;
use pagewise_interpose::Spin;
use pagewise_interpose::page_cache;

use super::forget_file;
use super::paths::bits;
use super::runs::Runs;
use super::shared;
use crate::plan::loaded::Plan;

/// Descriptors of a block, and blocks: a million descriptors; who has more goes without hints.
const IN_BLOCK: usize = 64;
const BLOCKS: usize = 1 << 14;
/// Calls between two looks whether the descriptor still means this file.
const LOOK_EVERY: u32 = 64;
/// Calls between two questions where a descriptor is that is read in one go: those that bypass the hooks may have moved it.
const BELIEVED: u8 = 15;

/// What is known of one descriptor.
pub(super) struct Place {
    /// The advice that the open file has from us; 0: none, as [`page_cache::NORMAL`] is.
    pub(super) told: AtomicU8,
    /// Its position may be another than what is known.
    pub(super) is_moved: AtomicBool,
    pub(super) file: Spin<Option<OpenFile>>,
}

/// What the program says of an open file itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Own {
    Nothing,
    /// How the kernel reads ahead: that says nothing of whether it is used again.
    ReadingAhead,
    /// Also what is used again: nobody else speaks for it.
    All,
}

/// A regular file that is open.
pub(super) struct OpenFile {
    pub(super) identity: (u64, u64),
    /// The next file of that inode has another.
    generation: u32,
    /// It has a page cache.
    pub(super) takes_hints: bool,
    /// Why the kernel does not tell what is cached of it, so that nothing of it is dropped: an errno. 0: it does, or was not asked.
    pub(super) cache_errno: i32,
    /// It cannot be read and written without leaving something in the page cache.
    pub(super) always_leaves: bool,
    pub(super) own: Own,
    /// Pieces of it are kept ([`super::keeping`]).
    pub(super) has_kept: bool,
    /// The rules whose patterns its name matches, a bit each.
    pub(super) accepted_by: u64,
    /// The rules that were counted for it.
    pub(super) counted: u64,
    /// Bytes of calls that should leave nothing in the page cache, since it was last looked whether they do.
    pub(super) unlooked: u64,
    /// Calls since it was last looked whether it is still this one.
    calls: u32,
    /// How long it was when that was last looked at.
    pub(super) known_bytes: u64,
    /// That was for the call that is just beginning.
    is_fresh: bool,
    pub(super) runs: Runs,
    pub(super) bursts: Bursts,
    cursor: Option<Cursor>,
}

/// Where a thread's read has left the descriptor.
#[derive(Clone, Copy)]
struct Cursor {
    at: u64,
    thread: usize,
    /// Calls for which that is believed.
    left: u8,
}

/// This thread, by a number that costs nothing.
fn this_thread() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() as usize }
}

impl OpenFile {
    /// Looks at what is open there. Of what is no regular file, nothing is wanted.
    fn look(plan: &Plan, rules: u64, descriptor: i32) -> Option<Self> {
        let facts = page_cache::facts(descriptor)?;
        let takes_hints = facts.is_regular && page_cache::has_cache_to_spare(descriptor);
        let accepted_by = accepting(plan, rules, descriptor);
        let is_drop = |index| plan.view.action(&plan.view.rule(index)) == PlanAction::IoDrop;
        let cache_errno = if takes_hints && bits(accepted_by).any(is_drop) {
            page_cache::cached_pages(descriptor, 0..1)
                .err()
                .unwrap_or(0)
        } else {
            0
        };
        Some(Self {
            identity: facts.identity,
            generation: facts.generation,
            takes_hints,
            cache_errno,
            always_leaves: false,
            own: Own::Nothing,
            has_kept: false,
            accepted_by,
            counted: 0,
            unlooked: 0,
            calls: 0,
            known_bytes: facts.bytes,
            is_fresh: true,
            runs: Runs::NONE,
            bursts: Bursts::NONE,
            cursor: None,
        })
    }

    /// The call begins: from now on the descriptor may mean another file.
    pub(super) fn let_age(&mut self) {
        self.is_fresh = false;
    }

    /// Where the descriptor is: as this thread has left it, if nobody is known to have moved it since, or by a system call.
    pub(super) fn position(&mut self, descriptor: i32, place: &Place) -> Option<u64> {
        let cursor = self.cursor.take();
        let is_moved =
            place.is_moved.load(Ordering::Relaxed) && place.is_moved.swap(false, Ordering::Relaxed);
        if let Some(cursor) = cursor
            && !is_moved
            && cursor.left > 0
            && cursor.thread == this_thread()
            && !shared::is(descriptor)
        {
            self.cursor = Some(Cursor {
                left: cursor.left - 1,
                ..cursor
            });
            return Some(cursor.at);
        }
        page_cache::position(descriptor)
    }

    /// A read by the descriptor's own position has left it there.
    pub(super) fn left_at(&mut self, position: u64) {
        let left = self.cursor.map_or(BELIEVED, |cursor| cursor.left);
        self.cursor = Some(Cursor {
            at: position,
            thread: this_thread(),
            left,
        });
    }

    /// Whether what a rule does has a meaning for it.
    pub(super) fn takes(&self, action: PlanAction) -> bool {
        self.takes_hints
            && match action {
                PlanAction::IoDrop => self.cache_errno == 0,
                PlanAction::IoDontCache => !self.always_leaves,
                _ => true,
            }
    }

    /// A call: whether it turns out that the descriptor means another file by now, closed and opened anew behind the hooks' backs.
    fn has_gone(&mut self, descriptor: i32) -> bool {
        self.calls += 1;
        if self.calls < LOOK_EVERY {
            return false;
        }
        self.calls = 0;
        !self.is_still(descriptor)
    }

    /// Whether the descriptor still means this file.
    pub(super) fn is_still(&self, descriptor: i32) -> bool {
        self.length_if_still(descriptor).is_some()
    }

    /// How long the file is now, bytes; `None`: the descriptor means another one.
    pub(super) fn length_if_still(&self, descriptor: i32) -> Option<u64> {
        if self.is_fresh {
            return Some(self.known_bytes);
        }
        let facts = page_cache::facts(descriptor)?;
        let is_same = facts.identity == self.identity && facts.generation == self.generation;
        is_same.then_some(facts.bytes)
    }
}

/// The rules that have no pattern, or one that the file's path matches.
fn accepting(plan: &Plan, rules: u64, descriptor: i32) -> u64 {
    let mut buffer = [0u8; 4096];
    let mut path = None;
    let mut accepting = 0;
    for index in bits(rules) {
        let is_accepted = match plan.view.pattern(&plan.view.rule(index)) {
            None => true,
            Some(pattern) => {
                let path = path.get_or_insert_with(|| {
                    page_cache::path(descriptor, &mut buffer).map_or(0, <[u8]>::len)
                });
                pattern::is_meant(pattern, &buffer[..*path])
            }
        };
        accepting |= u64::from(is_accepted) << index;
    }
    accepting
}

type Block = [Place; IN_BLOCK];

static TABLE: [AtomicPtr<Block>; BLOCKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; BLOCKS];

/// What is known of a descriptor; `None`: nothing.
pub(super) fn known(descriptor: i32) -> Option<&'static Place> {
    let number = usize::try_from(descriptor).ok()?;
    let block = TABLE.get(number / IN_BLOCK)?.load(Ordering::Acquire);
    // SAFETY: null, or made by `make` and never undone.
    let block = unsafe { block.as_ref() }?;
    Some(&block[number % IN_BLOCK])
}

/// The place for what is known of a descriptor.
pub(super) fn place(descriptor: i32) -> Option<&'static Place> {
    known(descriptor).or_else(|| {
        make(usize::try_from(descriptor).ok()? / IN_BLOCK)?;
        known(descriptor)
    })
}

/// Looks at the file if that was not done, or if it is another one now.
pub(super) fn look(
    plan: &Plan,
    rules: u64,
    descriptor: i32,
    place: &Place,
    file: &mut Option<OpenFile>,
) -> Option<()> {
    if file.as_mut().is_some_and(|file| file.has_gone(descriptor)) {
        forget_file(plan, descriptor, place, file);
    }
    if file.is_none() {
        *file = Some(OpenFile::look(plan, rules, descriptor)?);
    }
    Some(())
}

fn make(number: usize) -> Option<()> {
    let entry = TABLE.get(number)?;
    // SAFETY: a fresh mapping of our own; never undone but when another thread was first.
    let start = unsafe {
        libc::syscall(
            libc::SYS_mmap,
            0 as libc::c_long,
            size_of::<Block>(),
            libc::c_long::from(libc::PROT_READ | libc::PROT_WRITE),
            libc::c_long::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
            -1 as libc::c_long,
            0 as libc::c_long,
        )
    };
    if start <= 0 {
        return None;
    }
    let block = start as *mut Place;
    for index in 0..IN_BLOCK {
        let place = Place {
            told: AtomicU8::new(0),
            is_moved: AtomicBool::new(false),
            file: Spin::new(None),
        };
        // SAFETY: within the mapping, which is aligned to pages.
        unsafe { block.add(index).write(place) };
    }
    let first = entry.compare_exchange(
        std::ptr::null_mut(),
        block.cast(),
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    if first.is_err() {
        // SAFETY: our own mapping, which nobody else has seen.
        unsafe { libc::syscall(libc::SYS_munmap, start, size_of::<Block>()) };
    }
    Some(())
}

/// All places there are, with their descriptors.
pub(super) fn all() -> impl Iterator<Item = (i32, &'static Place)> {
    let blocks = TABLE.iter().enumerate();
    blocks.flat_map(|(number, block)| {
        // SAFETY: as in `known`.
        let block = unsafe { block.load(Ordering::Acquire).as_ref() };
        let places = block.into_iter().flatten().enumerate();
        places.map(move |(index, place)| ((number * IN_BLOCK + index) as i32, place))
    })
}

/// A forked child: other threads of the parent may have held places.
pub(super) fn forget() {
    for (_, place) in all() {
        place.file.break_open();
        place.told.store(0, Ordering::Relaxed);
        if let Some(mut file) = place.file.lock() {
            *file = None;
        }
    }
}
