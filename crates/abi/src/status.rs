//! What became of a plan: words at the end of its memory file, that all processes of the program add to and the launcher
//! reads when they have ended.

use crate::plan::MOST_RULES;

/// How long what the launcher said of the room counts, ns: it may have been killed.
pub const ROOM_LASTS_NS: u64 = 500_000_000;
/// Bytes of the part for the program's words.
pub const STATUS_BYTES: usize = 16 << 10;
/// Words of each rule.
pub const RULE_WORDS: usize = 19;
/// First word of the first rule; before it are those of the whole program ([`Total`]).
pub const FIRST_RULE_WORD: usize = 128;
/// First of the words in which processes state what they have locked, two each: number and bytes.
pub const FIRST_PROCESS_WORD: usize = FIRST_RULE_WORD + MOST_RULES * RULE_WORDS;
/// Processes that have locked something at once; of more, the later ones lock nothing.
pub const PROCESSES: usize = 128;

const _: () = assert!((FIRST_PROCESS_WORD + 2 * PROCESSES) * 8 <= STATUS_BYTES);

/// Words about the whole program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Total {
    /// Processes that read the plan.
    Processes,
    /// Allocations whose call path was not looked at, as they came too fast.
    Unseen,
    /// The program called `mlockall`: its own locks win.
    LockedAll,
    /// Why faults could not be followed by perf events: an errno; 0: they could, or were not wanted.
    PerfErrno,
    /// Why the helper thread could not be started: an errno.
    ThreadErrno,
    /// What could be locked at most, bytes.
    LockBudget,
    /// `RLIMIT_MEMLOCK` was the reason for that.
    LimitedByRlimit,
    /// Modules of the plan that were loaded, but of another build: a bit each.
    OtherBuilds,
    /// Nanoseconds of processor time of the helper threads.
    ThreadNs,
    /// Phases that the program said began.
    Phases,
    /// Written by the launcher: bytes that may be made ready ahead before it looks again; what is made ready is taken off.
    Room,
    /// Written by the launcher: when, ns of the monotonic clock. A room that is older than [`ROOM_LASTS_NS`] is none.
    RoomSeen,
    /// Written by the launcher: memory is short, and what was made ready in vain is wanted back.
    Short,
    /// How often memory ahead was not made ready, as there was no room.
    WithoutRoom,
    /// Objects that were left alone, as there were too many at once.
    Unfollowed,
    /// Objects whose sweeps were not followed, as there were too many at once: the most there ever were.
    UnfollowedSweeps,
    /// Threads whose faults were not told, likewise.
    UnfollowedThreads,
    /// How often memory got short, so that fresh memory came in base pages.
    Shortages,
    /// Bytes of zeros that were freed then, by splitting huge pages.
    Recovered,
}

/// Words of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum OfRule {
    /// Objects that matched.
    Objects,
    /// Their bytes.
    Bytes,
    /// The most that was locked at once, bytes.
    Locked,
    /// What should have been locked and was beyond the budget, bytes.
    BeyondBudget,
    /// Calls that the kernel refused.
    Refusals,
    /// The last reason: an errno.
    Errno,
    /// Pages read in ahead.
    ReadAhead,
    /// Pages dropped behind.
    Dropped,
    /// Times that reading ahead began.
    Started,
    /// Times that it was stopped, as it did not help.
    Stopped,
    /// Why it last stopped ([`Why`]).
    Why,
    /// Objects that the program took over by its own mlock or madvise.
    TakenOver,
    /// Bytes advised: cold or huge.
    Advised,
    /// Locked now, bytes.
    LockedNow,
    /// Bytes made ready ahead of the program's first touch.
    Readied,
    /// Of these, bytes that were given back untouched.
    Returned,
    /// Objects whose locks were ended, as more had to come back elsewhere than they saved.
    GivenUp,
    /// Times that locks rested: as the sweep stood still and other pages had to come back, or as the run waited more than it had without.
    Rests,
}

/// Words of a rule about I/O, in place of [`OfRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum OfIo {
    /// Calls that matched.
    Calls,
    /// Bytes that they read or wrote.
    Bytes,
    /// Open files on which they did.
    Files,
    /// Hints that were given: calls of the kernel that took them.
    Hints,
    /// Calls that the kernel refused.
    Refusals,
    /// The last reason: an errno.
    Errno,
    /// Pages that are gone from the page cache, as was wanted.
    Gone,
    /// Pages that are there still, though they should be gone: in use, or not yet written where the kernel does not tell.
    Stayed,
    /// Pages that were cached before the calls came to them: another's, and left alone.
    Theirs,
    /// Pages asked for ahead.
    Asked,
    /// Why the hint was withdrawn ([`WhyWithdrawn`]).
    Withdrawn,
    /// Open files for which the program itself says what the rule would, and that were left to it.
    TakenOver,
    /// Others, for which the hint means nothing: pipes, sockets, files in memory, opened with `O_DIRECT`, or of which the kernel tells nothing.
    Hintless,
    /// Time with the hint by time without it, as measured in turn, thousandths; 0: not measured.
    Ratio,
    /// How it let the kernel read ahead was of no use and is as usual again: 1. What it does besides goes on.
    ReadsAsUsual,
    /// Pages that were dropped and read again while they would have been cached still.
    Missed,
    /// Pages that were written, and not on the disk yet when they should have gone: nothing can drop them then.
    Unwritten,
    /// Of what `keep` keeps and is read again, how much came from a device in the last comparison, thousandths.
    KeptMissed,
    /// The same of the parts that are left as they are.
    LeftMissed,
}

/// Why a hint was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum WhyWithdrawn {
    /// The calls were no faster with it.
    NoGain = 1,
    /// The pages stayed in the page cache.
    NoEffect = 2,
    /// The kernel, or the file system, does not have it.
    Unsupported = 3,
    /// What was dropped was read again while it would have been cached still.
    Missed = 4,
}

impl WhyWithdrawn {
    /// From its number.
    pub fn from_number(number: u64) -> Option<Self> {
        [
            Self::NoGain,
            Self::NoEffect,
            Self::Unsupported,
            Self::Missed,
        ]
        .into_iter()
        .find(|why| *why as u64 == number)
    }
}

/// Why reading ahead stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Why {
    /// It was not faster.
    NoGain = 1,
    /// What lies ahead is in memory without it.
    Fits = 2,
    /// What was dropped behind was wanted again too soon.
    Missed = 3,
    /// Most of what was read ahead was passed over.
    PassedOver = 4,
}

impl Why {
    /// From its number.
    pub fn from_number(number: u64) -> Option<Self> {
        [Self::NoGain, Self::Fits, Self::Missed, Self::PassedOver]
            .into_iter()
            .find(|why| *why as u64 == number)
    }
}

const _: () = assert!((OfIo::LeftMissed as usize) < RULE_WORDS);
const _: () = assert!((OfRule::Rests as usize) < RULE_WORDS);

/// The word of a rule about I/O, counted from the first of the part.
pub const fn io_word(rule: usize, word: OfIo) -> usize {
    FIRST_RULE_WORD + rule * RULE_WORDS + word as usize
}

/// The word of a rule, counted from the first of the part.
pub const fn rule_word(rule: usize, word: OfRule) -> usize {
    FIRST_RULE_WORD + rule * RULE_WORDS + word as usize
}
