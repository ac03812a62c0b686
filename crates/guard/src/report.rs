//! What went wrong, told to the launcher with the call paths of access, allocation and release.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::guard::Access;
use pagewise_abi::guard::Family;
use pagewise_abi::guard::Fault;
use pagewise_abi::guard::FaultKind;
use pagewise_abi::guard::MOST_NEAR;
use pagewise_abi::guard::NAME_BYTES;
use pagewise_abi::guard::Object;
use pagewise_abi::guard::SOCKET_VARIABLE;
use pagewise_interpose::Producer;
use pagewise_interpose::Registers;
use pagewise_interpose::RingCell;
use pagewise_interpose::let_others;
use pagewise_interpose::libraries_ever_loaded;
use pagewise_interpose::write_maps;
use pagewise_interpose::write_modules;

use crate::cancel;
use crate::careful;
use crate::ending;
use crate::heap;
use crate::heap::Seen;
use crate::judge::judge;
use crate::judge::judge_range;
use crate::lock;
use crate::own_stack;
use crate::paths;
use crate::paths::Path;
use crate::release::Told;
use crate::sandbox;
use crate::settings;
use crate::signals;
use crate::slot::State;
use crate::system;

/// An abstract socket's name is at most this long.
const SOCKET_BYTES: usize = 107;
/// Bytes of the program's path that are kept.
const MOST_PATH: usize = 1024;
/// How long the launcher may leave a full ring unread, ms.
const PATIENCE_MS: u32 = 2000;
/// How long its verdict may take, ms: it reads debug information first, of large programs for seconds.
const VERDICT_PATIENCE_MS: u32 = 60_000;
/// Places that were reported, as many as are remembered; a power of two.
const SITES: usize = 4096;

static RING: RingCell = RingCell::new();
static NAME: Text<SOCKET_BYTES> = Text::new();
/// By their hashes; of a suppressed one the lowest bit is set.
static SEEN: [AtomicU64; SITES] = [const { AtomicU64::new(0) }; SITES];
/// The thread that reports, by its pointer; 0: none.
static REPORTER: AtomicUsize = AtomicUsize::new(0);
/// The program's path, asked for while it can be.
static EXECUTABLE: Text<MOST_PATH> = Text::new();
/// How often libraries had been loaded when a sandbox began.
static LOADED: AtomicU64 = AtomicU64::new(0);
/// The child asks for a ring of its own before it first reports.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Bytes that are kept for later.
struct Text<const MOST: usize> {
    bytes: [AtomicU8; MOST],
    length: AtomicUsize,
}

impl<const MOST: usize> Text<MOST> {
    const fn new() -> Self {
        Self {
            bytes: [const { AtomicU8::new(0) }; MOST],
            length: AtomicUsize::new(0),
        }
    }

    /// Nothing is kept of what is longer.
    fn keep(&self, text: &[u8]) {
        if text.len() <= MOST {
            for (place, &byte) in self.bytes.iter().zip(text) {
                place.store(byte, Ordering::Relaxed);
            }
            self.length.store(text.len(), Ordering::Release);
        }
    }

    /// A copy, as far as its length.
    fn get<'place>(&self, place: &'place mut [u8; MOST]) -> &'place [u8] {
        let length = self.length.load(Ordering::Acquire);
        for (byte, kept) in place.iter_mut().zip(&self.bytes[..length]) {
            *byte = kept.load(Ordering::Relaxed);
        }
        &place[..length]
    }
}

/// Connects to the launcher.
pub(crate) fn connect() {
    let mut path = [0; MOST_PATH];
    EXECUTABLE.keep(system::executable(&mut path));
    let Some(name) = settings::environment_variable(SOCKET_VARIABLE) else {
        return;
    };
    if name.len() > SOCKET_BYTES {
        return;
    }
    NAME.keep(name);
    if let Some(ring) = Producer::connect(name) {
        RING.set(ring);
    }
}

/// In a forked child.
pub(crate) fn after_fork() {
    IS_CHILD.store(true, Ordering::Relaxed);
    REPORTER.store(0, Ordering::Relaxed);
}

/// The ring at hand: of a forked child that has not reported, its parent's, which takes what several processes write.
pub(crate) fn ring_at_hand() -> Option<Producer> {
    RING.get()
}

/// This process's ring. A child that cannot have its own writes into its parent's.
fn ring() -> Option<Producer> {
    if IS_CHILD.swap(false, Ordering::Relaxed)
        && let Some(own) = Producer::connect(NAME.get(&mut [0; SOCKET_BYTES]))
    {
        RING.set(own);
    }
    RING.get()
}

/// Before system calls are forbidden: has this process's own ring at hand, and tells what lies where.
pub(crate) fn prepare_for_sandbox() {
    LOADED.store(libraries_ever_loaded().unwrap_or(0), Ordering::Relaxed);
    if let Some(ring) = ring() {
        tell_places(&ring);
    }
}

/// Tells what lies where: as the kernel lists it, or as the loader knows it where that cannot be read (no descriptor is left,
/// another root).
fn tell_places(ring: &Producer) {
    if !write_maps(ring) {
        tell_modules(ring);
    }
}

/// Apart, as its room on the stack is seldom needed.
#[cold]
#[inline(never)]
fn tell_modules(ring: &Producer) {
    write_modules(ring, EXECUTABLE.get(&mut [0; MOST_PATH]));
}

/// One thread reports at a time. `None`: this very one is at it, and something went wrong there.
struct Reporting;

impl Reporting {
    fn begin() -> Option<Self> {
        let me = lock::this_thread();
        loop {
            match REPORTER.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Self),
                Err(other) if other == me => return None,
                Err(_) => let_others(),
            }
        }
    }
}

/// Whether this thread was reporting, interrupted: it no longer is, so that others can, wherever it goes on.
pub(crate) fn leave() -> bool {
    let me = lock::this_thread();
    let left = REPORTER.compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed);
    left.is_ok()
}

impl Drop for Reporting {
    fn drop(&mut self) {
        REPORTER.store(0, Ordering::Release);
    }
}

/// What is known of an error.
struct Error<'seen> {
    kind: FaultKind,
    access: Access,
    access_bytes: Option<u32>,
    address: usize,
    seen: Option<&'seen Seen>,
    given_to: Family,
    function: &'static str,
    is_exact: bool,
    leaked: [u64; 2],
}

impl Error<'_> {
    fn of(kind: FaultKind, address: usize) -> Self {
        Self {
            kind,
            access: Access::None,
            access_bytes: None,
            address,
            seen: None,
            given_to: Family::Malloc,
            function: "",
            is_exact: false,
            leaked: [0, 0],
        }
    }
}

/// What the program is to do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The error happened while this thread reported another one.
    Nested,
    End,
    GoOn,
}

impl After {
    fn known(goes_on: bool) -> Self {
        match goes_on {
            true => Self::GoOn,
            false => Self::End,
        }
    }
}

/// Where the call path of an error begins.
#[derive(Clone, Copy)]
enum From {
    /// Nothing is known of it.
    Nowhere,
    /// At the caller of a function of ours.
    CallersOf(Registers),
    /// At an instruction that the processor stopped.
    Instruction(Registers),
}

impl From {
    fn path(self) -> Path {
        match self {
            Self::Nowhere => Path::empty(),
            Self::CallersOf(registers) => Path::of_callers(registers),
            Self::Instruction(registers) => Path::of_instruction(registers),
        }
    }
}

/// Tells of an error, if its place was not told of before.
fn tell(error: &Error<'_>, from: From) -> After {
    cancel::hold_off(|| tell_uncancelled(error, from))
}

fn tell_uncancelled(error: &Error<'_>, from: From) -> After {
    let Some(reporting) = Reporting::begin() else {
        return After::Nested;
    };
    let told = || tell_alone(error, &from.path());
    // In a sandbox one does not ask where one is.
    let (after, is_new) = if sandbox::is_in() || own_stack::is_on_that_of_signals() {
        told()
    } else {
        // SAFETY: one thread reports at a time.
        unsafe { own_stack::run(told) }
    };
    drop(reporting);
    // Here a debugger finds the stack of who erred.
    if is_new && settings::wants_stop() && error.kind != FaultKind::Leak && !sandbox::is_in() {
        signals::stop();
    }
    after
}

/// Returns what the program is to do, and whether the error is one to be looked at.
fn tell_alone(error: &Error<'_>, path: &Path) -> (After, bool) {
    let slot = error
        .seen
        .and_then(|seen| Some(heap::arena()?.slot(seen.number)));
    let made = slot.map_or(0, |slot| slot.made.load(Ordering::Relaxed));
    let place = Place::of(error, path, made);
    if let Some(is_suppressed) = place.was_told(error.kind) {
        return (
            After::known(is_suppressed || settings::keeps_going()),
            false,
        );
    }
    let Some(ring) = ring() else {
        say_that_nobody_listens();
        return (After::known(settings::keeps_going()), true);
    };
    let freed = slot.filter(|slot| slot.facts().state == State::Freed);
    let freed = freed.map_or(0, |slot| slot.freed.load(Ordering::Relaxed));
    let ((maker, made), (freer, freed)) = (paths::read(made), paths::read(freed));
    let mut near = [0; MOST_NEAR];
    let (near_address, near_bytes) = bytes_near(error, &mut near);
    let words = [path.words(), made.words(), freed.words()];
    let lengths = [path.length, made.length, freed.length];
    let parts: [&[u64]; 3] = std::array::from_fn(|index| &words[index][..lengths[index]]);
    let mut function = [0; NAME_BYTES];
    let name = error.function.as_bytes();
    function[..name.len()].copy_from_slice(name);
    let fault = Fault {
        pid: sandbox::process(),
        tid: paths::known_thread(),
        kind: error.kind,
        access: error.access,
        access_bytes: error.access_bytes,
        address: error.address as u64,
        object: error.seen.map(|seen| Object {
            address: seen.placed.start as u64,
            bytes: seen.placed.bytes as u64,
            is_freed: seen.facts.state != State::Live,
            family: seen.facts.family,
        }),
        given_to: error.given_to,
        first_frame_is_exact: error.is_exact,
        threads: [maker, freer],
        leaked: error.leaked,
        function,
        near_address: near_address as u64,
    };
    let near = &near[..near_bytes];
    let bytes = Fault::wire_bytes(&parts, near);
    ring.wait_for_room(64 << 10, PATIENCE_MS);
    if !sandbox::is_in() {
        tell_places(&ring);
    } else if libraries_ever_loaded().is_some_and(|now| now != LOADED.load(Ordering::Relaxed)) {
        // The loader was asked to work in there.
        tell_modules(&ring);
    }
    let before = ring.last_verdict();
    ring.write(bytes, |place| fault.encode(place, &parts, near));
    // In a sandbox nobody waits; leaks are told when all is over.
    let is_suppressed = settings::asks()
        && error.kind != FaultKind::Leak
        && !sandbox::is_in()
        && ring.wait_for_verdict(before, fault.tid, VERDICT_PATIENCE_MS) == Some(true);
    if is_suppressed {
        place.suppress();
    }
    let goes_on = is_suppressed || settings::keeps_going();
    (After::known(goes_on), !is_suppressed)
}

fn say_that_nobody_listens() {
    static WAS_SAID: AtomicBool = AtomicBool::new(false);
    say_once(
        &WAS_SAID,
        "pagewise: an error on the heap, and nobody to tell it to: this process could not reach the launcher, or there are too \
         many (of another network namespace? start pagewise guard in there)\n",
    );
}

/// Where the program writes its own errors: what has no place in the ring.
pub(crate) fn say_once(was_said: &AtomicBool, text: &str) {
    if !sandbox::is_in()
        && !is_socket(libc::STDERR_FILENO)
        && !was_said.swap(true, Ordering::Relaxed)
    {
        // SAFETY: text of that length.
        unsafe {
            libc::syscall(
                libc::SYS_write,
                libc::STDERR_FILENO,
                text.as_ptr(),
                text.len(),
            )
        };
    }
}

/// What a client is told is not ours to say.
fn is_socket(descriptor: libc::c_int) -> bool {
    let mut kind: libc::c_int = 0;
    let mut bytes = size_of_val(&kind) as libc::socklen_t;
    // SAFETY: places for the answer, as long as said.
    let status = unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_TYPE,
            &raw mut kind,
            &raw mut bytes,
        )
    };
    status == 0
}

/// Where errors of a kind were told of. Only used while reporting, by one thread at a time.
struct Place {
    hash: u64,
    entry: &'static AtomicU64,
}

impl Place {
    /// `made`: the number of the path that made the object. Damage has no place of its own: at the end, all is seen by the same
    /// call. And whether an error is suppressed may depend on who made the object.
    fn of(error: &Error<'_>, path: &Path, made: u32) -> Self {
        let depends_on_maker = error.access == Access::EarlierWrite || settings::asks();
        let maker = depends_on_maker.then_some(made as usize);
        let frames = path.frames[..path.length.min(3)].iter().copied();
        let mut hash = 1 + error.kind as u64;
        for word in frames.chain(maker) {
            hash = (hash ^ word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        // Not 0, which stands for none.
        let hash = hash & !1 | 2;
        Self {
            hash,
            entry: entry_of(&SEEN, hash),
        }
    }

    /// Whether this kind of error was told of at this place before, and if so, whether it was suppressed. From now on it was told of.
    fn was_told(&self, kind: FaultKind) -> Option<bool> {
        if kind == FaultKind::Leak {
            // Of each path of an allocation there is one.
            return None;
        }
        let before = self.entry.load(Ordering::Relaxed);
        if before & !1 == self.hash {
            return Some(before & 1 == 1);
        }
        self.entry.store(self.hash, Ordering::Relaxed);
        None
    }

    fn suppress(&self) {
        self.entry.store(self.hash | 1, Ordering::Relaxed);
    }
}

/// The entry of a place: its own, or the first that is free from where its hash points on; in a full table, the one there.
fn entry_of(table: &[AtomicU64], hash: u64) -> &AtomicU64 {
    let begin = (hash >> 8) as usize % table.len();
    let (before, behind) = table.split_at(begin);
    let is_its = |entry: &&AtomicU64| {
        let held = entry.load(Ordering::Relaxed);
        held == 0 || held & !1 == hash
    };
    behind
        .iter()
        .chain(before)
        .find(is_its)
        .unwrap_or(&table[begin])
}

/// Copies what lies around the address on the object's pages, and says where that begins.
fn bytes_near(error: &Error<'_>, place: &mut [u8; MOST_NEAR]) -> (usize, usize) {
    let Some(seen) = error
        .seen
        .filter(|seen| matches!(seen.facts.state, State::Live | State::Leaving))
    else {
        return (0, 0);
    };
    let (first, end) = (seen.placed.first_page(), seen.placed.guard);
    let half = MOST_NEAR / 2;
    let middle = error.address.clamp(first, end) & !15;
    let begin = middle.saturating_sub(half).max(first);
    let bytes = MOST_NEAR.min(end.saturating_sub(begin));
    // Another thread may give it back meanwhile.
    (begin, careful::read(&mut place[..bytes], begin))
}

/// After an error that a call has: the program ends here unless it is to go on.
fn told(error: &Error<'_>, registers: Registers) {
    if tell(error, From::CallersOf(registers)) != After::GoOn {
        ending::summarize();
        signals::abort();
    }
}

pub(crate) fn invalid_free(address: usize, seen: Option<&Seen>, registers: Registers) {
    let error = Error {
        seen,
        ..Error::of(FaultKind::InvalidFree, address)
    };
    told(&error, registers);
}

pub(crate) fn double_free(seen: &Seen, registers: Registers) {
    let error = Error {
        seen: Some(seen),
        ..Error::of(FaultKind::DoubleFree, seen.placed.start)
    };
    told(&error, registers);
}

/// Given back as it was not made. Of another size than it has, that is told with it.
pub(crate) fn mismatch(seen: &Seen, how: Told, registers: Registers) {
    let bytes = how.bytes.filter(|&bytes| bytes != seen.placed.bytes);
    let error = Error {
        seen: Some(seen),
        given_to: how.family,
        access_bytes: bytes.and_then(|bytes| u32::try_from(bytes).ok()),
        ..Error::of(FaultKind::Mismatch, seen.placed.start)
    };
    told(&error, registers);
}

fn damage_of(seen: &Seen, address: usize) -> Error<'_> {
    let kind = match address < seen.placed.start {
        true => FaultKind::Underflow,
        false => FaultKind::Overflow,
    };
    Error {
        access: Access::EarlierWrite,
        seen: Some(seen),
        ..Error::of(kind, address)
    }
}

/// Bytes around an object were written; when, nobody knows.
pub(crate) fn damage(seen: &Seen, address: usize, registers: Registers) {
    told(&damage_of(seen, address), registers);
}

/// The same seen at a process's end: it ends as it would, so that the C library writes out what the program printed, and all
/// that is damaged is told. What a child has from its parent is not its doing, either.
pub(crate) fn damage_at_end(seen: &Seen, address: usize, registers: Registers) {
    tell(&damage_of(seen, address), From::CallersOf(registers));
}

/// A call of the C library's is about to go beyond an object.
pub(crate) fn argument(
    function: &'static str,
    buffer: usize,
    bytes: usize,
    access: Access,
    registers: Registers,
) {
    let Some((kind, seen)) = judge_range(buffer, bytes) else {
        return;
    };
    let address = match kind {
        FaultKind::Overflow => seen.placed.end().max(buffer),
        _ => buffer,
    };
    let error = Error {
        access,
        access_bytes: u32::try_from(bytes).ok(),
        seen: Some(&seen),
        function,
        ..Error::of(kind, address)
    };
    told(&error, registers);
}

/// Objects of one call path that nothing points to.
pub(crate) fn leak(seen: &Seen, objects: u64, bytes: u64) {
    let error = Error {
        seen: Some(seen),
        leaked: [objects, bytes],
        ..Error::of(FaultKind::Leak, seen.placed.start)
    };
    tell(&error, From::Nowhere);
}

/// What the processor stopped.
pub(crate) struct Stopped {
    pub(crate) address: usize,
    pub(crate) access: Access,
    pub(crate) access_bytes: Option<u32>,
    pub(crate) registers: Registers,
}

/// Reports a fault if it is one of objects. `None`: it is the program's own affair, or this thread was reporting.
pub(crate) fn fault(stopped: &Stopped) -> Option<After> {
    let (kind, seen) = judge(stopped.address)?;
    let error = Error {
        access: stopped.access,
        access_bytes: stopped.access_bytes,
        seen: Some(&seen),
        is_exact: true,
        ..Error::of(kind, stopped.address)
    };
    let after = tell(&error, From::Instruction(stopped.registers));
    (after != After::Nested).then_some(after)
}

/// Source and destination of a copy that must not overlap do.
pub(crate) fn overlap(function: &'static str, to: usize, bytes: usize, registers: Registers) {
    let seen = heap::look(to).filter(|seen| seen.facts.state == State::Live);
    let error = Error {
        access: Access::Write,
        access_bytes: u32::try_from(bytes).ok(),
        seen: seen.as_ref(),
        function,
        ..Error::of(FaultKind::Overlap, to)
    };
    told(&error, registers);
}

/// An access to where nothing is ends the program. `address` is 0 where the processor does not say it.
pub(crate) fn wild(stopped: &Stopped) {
    let error = Error {
        access: stopped.access,
        access_bytes: stopped.access_bytes,
        is_exact: true,
        ..Error::of(FaultKind::Wild, stopped.address)
    };
    tell(&error, From::Instruction(stopped.registers));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_same_entry_are_kept_apart_until_the_table_is_full() {
        let table: [AtomicU64; 4] = std::array::from_fn(|_| AtomicU64::new(0));
        // All of these point to the last entry.
        let hashes: Vec<u64> = (0..5).map(|number| (3 | number << 10) << 8 | 2).collect();
        for (count, &hash) in hashes[..4].iter().enumerate() {
            assert_eq!(entry_of(&table, hash).load(Ordering::Relaxed), 0);
            entry_of(&table, hash).store(hash | 1, Ordering::Relaxed);
            for &known in &hashes[..=count] {
                let held = entry_of(&table, known).load(Ordering::Relaxed);
                assert_eq!(held, known | 1, "{count}");
            }
        }
        let taken = entry_of(&table, hashes[4]);
        assert_eq!(
            taken.load(Ordering::Relaxed),
            hashes[0] | 1,
            "there is no room"
        );
    }

    #[test]
    fn a_thread_whose_report_was_interrupted_for_good_can_report_again() {
        assert!(!leave());
        let reporting = Reporting::begin();
        assert!(reporting.is_some() && Reporting::begin().is_none());
        // Its frames are jumped over.
        std::mem::forget(reporting);
        assert!(leave() && !leave());
        assert!(Reporting::begin().is_some());
    }
}
