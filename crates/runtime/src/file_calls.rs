//! Tells the recorder of calls on files, where no program of its own in the kernel sees them: the hooks of `read`, `write` and kin
//! (`file_io`, `streams`) make the program's call between [`begin`] and [`end`].
//!
//! Which file it is, the kernel is asked before each call: a table of descriptors would have to trust that all who close one are seen. A call
//! that finds the ring full is lost, and counted; nobody waits.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_abi::file_calls::CallKind;
use pagewise_abi::file_calls::CallPath;
use pagewise_abi::file_calls::File;
use pagewise_abi::file_calls::FileCall;
use pagewise_abi::file_calls::FileId;
use pagewise_interpose as interpose;
use pagewise_interpose::Producer;
use pagewise_interpose::Registers;
use pagewise_interpose::page_cache;
use pagewise_interpose::page_cache::Identity;
use pagewise_interpose::unwind;

use crate::handover;
use crate::plan::io::At;
use crate::sandbox;
use crate::settings;
use crate::stream;

/// Numbers that the recorder has been told of. Where there are more than fit, some are told again.
struct Told<const PLACES: usize> {
    places: [AtomicU64; PLACES],
    next: AtomicU32,
}

/// Places in which a number may be.
const NEAR: usize = 8;

impl<const PLACES: usize> Told<PLACES> {
    const fn new() -> Self {
        Self {
            places: [const { AtomicU64::new(0) }; PLACES],
            next: AtomicU32::new(0),
        }
    }

    /// Where this number may be.
    fn near(&self, number: u64) -> &[AtomicU64] {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let begin = mixed as usize % (PLACES / NEAR) * NEAR;
        &self.places[begin..begin + NEAR]
    }

    fn has(&self, number: u64) -> bool {
        let mut near = self.near(number).iter();
        near.any(|place| place.load(Ordering::Relaxed) == number)
    }

    fn add(&self, number: u64) {
        let near = self.near(number);
        let free = near
            .iter()
            .find(|place| place.load(Ordering::Relaxed) == 0)
            .unwrap_or_else(|| &near[self.next.fetch_add(1, Ordering::Relaxed) as usize % NEAR]);
        free.store(number, Ordering::Relaxed);
    }

    fn forget(&self) {
        for place in &self.places {
            place.store(0, Ordering::Relaxed);
        }
    }
}

static PATHS: Told<8192> = Told::new();
static FILES: Told<4096> = Told::new();
/// The process that has told of these.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// How often libraries had been loaded then.
static LIBRARIES: AtomicU64 = AtomicU64::new(0);
/// Calls that were lost without a ring to count them in.
static UNCOUNTED: AtomicU64 = AtomicU64::new(0);

/// A call of the program.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) kind: CallKind,
    pub(crate) descriptor: i32,
    /// `None`: it has no place, or none that there is.
    pub(crate) at: Option<At>,
}

/// A call on a regular file that is under way.
pub(crate) struct Begun {
    call: Call,
    file: FileId,
    token: u64,
    direct: bool,
    appends: bool,
    /// Where the descriptor of a stream was.
    position: Option<u64>,
    time_ns: u64,
}

/// The program is about to make a call. `None`: it is not to be told.
#[inline(always)]
pub(crate) fn begin(call: Call, registers: Registers) -> Option<Begun> {
    if settings::wants_file_calls() {
        look(call, registers)
    } else {
        None
    }
}

#[cold]
fn look(call: Call, registers: Registers) -> Option<Begun> {
    // What it needs the program has forbidden itself.
    if sandbox::is_in() {
        return None;
    }
    let begun = stream::tell(|ring| {
        let identity = page_cache::identity(call.descriptor)?;
        forget_what_others_told(ring);
        let flags = page_cache::flags(call.descriptor).unwrap_or(0);
        let token = handover::on_behalf_of().unwrap_or_else(|| tell_path(ring, registers));
        let is_stream = call.at == Some(At::Buffer);
        Some(Begun {
            call,
            file: tell_file(ring, call.descriptor, &identity),
            token,
            direct: flags & libc::O_DIRECT != 0,
            appends: flags & libc::O_APPEND != 0,
            position: is_stream
                .then(|| page_cache::position(call.descriptor))
                .flatten(),
            time_ns: interpose::now_ns(),
        })
    });
    begun.unwrap_or_else(|| {
        // Perhaps of no file: only who can tell looks at that.
        let is_file = interpose::keeping_errno(|| page_cache::identity(call.descriptor).is_some());
        UNCOUNTED.fetch_add(u64::from(is_file), Ordering::Relaxed);
        None
    })
}

/// The program's call is over: its result, and `errno` if that is negative.
#[cold]
pub(crate) fn end(begun: &Begun, result: i64) {
    let ended_ns = interpose::now_ns();
    // SAFETY: this thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    let result = u64::try_from(result).map_err(|_| errno as u16);
    let told = stream::tell(|ring| {
        let place = place(begun, result.unwrap_or(0));
        tell_call(ring, begun, ended_ns, (place, result));
    });
    if told.is_none() {
        UNCOUNTED.fetch_add(1, Ordering::Relaxed);
    }
}

/// A call that may have filled a stream's buffer is over: what it has read, its descriptor's position tells.
#[cold]
pub(crate) fn end_of_stream(begun: &Begun) {
    let ended_ns = interpose::now_ns();
    let told = stream::tell(|ring| {
        let after = page_cache::position(begun.call.descriptor);
        let read = begun.position.zip(after);
        if let Some((before, after)) = read.filter(|(before, after)| after > before) {
            tell_call(ring, begun, ended_ns, (Some(before), Ok(after - before)));
        }
    });
    if told.is_none() {
        UNCOUNTED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Where a call was that has moved so many bytes.
fn place(begun: &Begun, moved: u64) -> Option<u64> {
    use CallKind::Pwrite;
    use CallKind::Pwritev;
    let descriptor = begun.call.descriptor;
    let writes_at = matches!(begun.call.kind, Pwrite | Pwritev);
    let end = match begun.call.at? {
        // Whatever place they state, these go to the end.
        At::Offset(_) if writes_at && begun.appends => page_cache::identity(descriptor)?.bytes,
        At::Offset(offset) => return Some(offset),
        At::Cursor | At::Buffer => page_cache::position(descriptor)?,
    };
    end.checked_sub(moved)
}

fn tell_call(
    ring: &Producer,
    begun: &Begun,
    ended_ns: u64,
    (offset, result): (Option<u64>, Result<u64, u16>),
) {
    let call = FileCall {
        time_ns: begun.time_ns,
        latency_ns: ended_ns.saturating_sub(begun.time_ns),
        token: begun.token,
        tid: sandbox::thread_id(),
        kind: begun.call.kind,
        direct: begun.direct,
        file: begun.file,
        offset,
        result,
    };
    if !ring.try_write(FileCall::WIRE_BYTES, |place| call.encode(place)) {
        ring.lose_calls(1);
    }
}

/// A forked child has a ring of its own, and after libraries came or went addresses may mean something else. What was lost without a ring is
/// counted now.
fn forget_what_others_told(ring: &Producer) {
    let generation = interpose::process_generation();
    if GENERATION.swap(generation, Ordering::Relaxed) != generation {
        unwind::after_fork();
        PATHS.forget();
        FILES.forget();
    }
    if let Some(libraries) = interpose::libraries_ever_loaded()
        && LIBRARIES.swap(libraries, Ordering::Relaxed) != libraries
    {
        PATHS.forget();
    }
    if UNCOUNTED.load(Ordering::Relaxed) != 0 {
        ring.lose_calls(UNCOUNTED.swap(0, Ordering::Relaxed));
    }
}

/// The program hands work over by the call path that begins here.
pub(crate) fn handed_over(registers: Registers) {
    if sandbox::is_in() {
        return;
    }
    stream::tell(|ring| {
        forget_what_others_told(ring);
        tell_path(ring, registers);
    });
}

/// The token of the call path that begins here, which the recorder then knows, if there was room.
fn tell_path(ring: &Producer, registers: Registers) -> u64 {
    let known = handover::known_path(registers);
    if PATHS.has(known.token) {
        return known.token;
    }
    stream::send_maps_if_changed(ring);
    let path = CallPath {
        time_ns: interpose::now_ns(),
        token: known.token,
        registers: [registers.instruction, registers.stack, registers.frame]
            .map(|register| register as u64),
        frames: known.frames,
        stack: &[],
    };
    // It is told once: all of it that the recorder may want.
    let most = pagewise_abi::STACK_BYTES;
    let stack_bytes = interpose::stack_bytes_above(registers.stack).min(most);
    let is_told = ring.try_write(CallPath::wire_bytes(stack_bytes), |place| {
        path.encode_with(place, |place| interpose::copy_stack(registers.stack, place));
    });
    if is_told {
        PATHS.add(known.token);
    }
    known.token
}

/// What tells this file from others, which the recorder then knows, if there was room.
fn tell_file(ring: &Producer, descriptor: i32, identity: &Identity) -> FileId {
    let id = FileId {
        device: identity.device,
        inode: identity.inode,
        generation: identity.generation,
    };
    let number = number_of(id);
    if !FILES.has(number) && write_file(ring, descriptor, identity, id) {
        FILES.add(number);
    }
    id
}

#[cold]
#[inline(never)]
fn write_file(ring: &Producer, descriptor: i32, identity: &Identity, id: FileId) -> bool {
    let mut buffer = [0; File::LONGEST_PATH];
    let file = File {
        time_ns: interpose::now_ns(),
        id,
        bytes: identity.bytes,
        magic: page_cache::file_system(descriptor).map_or(0, |magic| magic as u64),
        unlinked: identity.is_unlinked,
        path: page_cache::path(descriptor, &mut buffer).unwrap_or_default(),
    };
    ring.try_write(File::wire_bytes(file.path.len()), |place| {
        file.encode(place)
    })
}

/// Never 0.
fn number_of(id: FileId) -> u64 {
    let (major, minor) = id.device;
    let words = [
        u64::from(major) << 32 | u64::from(minor),
        id.inode,
        id.generation.into(),
    ];
    let hash = words.iter().fold(0, |hash: u64, word| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    });
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_known_until_there_is_too_much_of_it() {
        let told = Told::<64>::new();
        assert!(!told.has(7));
        told.add(7);
        assert!(told.has(7) && !told.has(8));
        for number in 1000..2000 {
            told.add(number);
            assert!(told.has(number), "the last one stays");
        }
        let known = (1000..2000).filter(|&number| told.has(number)).count();
        assert_eq!(known, 64, "no place is wasted");
        told.forget();
        assert!((0..2000).all(|number| number == 0 || !told.has(number)));
    }

    #[test]
    fn files_have_numbers_of_their_own() {
        let id = FileId {
            device: (8, 1),
            inode: 4,
            generation: 0,
        };
        let others = [
            FileId {
                device: (1, 8),
                ..id
            },
            FileId { inode: 5, ..id },
            FileId {
                generation: 1,
                ..id
            },
        ];
        let mut numbers: Vec<u64> = others.iter().copied().map(number_of).collect();
        numbers.push(number_of(id));
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.len() == 4 && numbers[0] != 0);
    }
}
