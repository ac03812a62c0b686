//! A plan, as data. Sizes are bytes, addresses are those stated in an ELF file.

use std::ops::Range;

use crate::site::Site;

/// What shall be done to a program, and what that promises.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// For which program.
    pub program: Program,
    /// For which memory size.
    pub memory: Memory,
    /// One for each object.
    pub rules: Vec<Rule>,
    /// What is predicted without the plan, by memory size.
    pub curve: Vec<CurvePoint>,
    /// How many major faults the program had without the plan by so much work, when it was recorded with no more memory; empty: it is not known. A run
    /// that has had clearly more by then gives up its locks.
    pub headway: Vec<HeadwayPoint>,
    /// The files that the recorded calls read and wrote, by path, most bytes first. They are what runs are compared without having
    /// in the page cache; no rule is about them.
    pub files: Vec<String>,
}

impl Plan {
    /// The rules that are more than a word about an object.
    pub fn acting_rules(&self) -> impl Iterator<Item = &Rule> {
        let acts = |rule: &&Rule| rule.action != Action::Nothing;
        self.rules.iter().filter(acts)
    }

    /// Whether any rule changes anything.
    pub fn does_something(&self) -> bool {
        self.memory.fresh.is_some() || self.acting_rules().next().is_some()
    }
}

/// The program that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Path of the executable.
    pub executable: String,
    /// Its GNU build id in lower-case hexadecimal digits, if it has one.
    pub build_id: Option<String>,
    /// Its arguments, without its name.
    pub arguments: Vec<String>,
    /// Paths of the libraries that rules name, as far as they are known: those that the program loads itself cannot be told from
    /// its file.
    pub modules: Vec<String>,
}

/// Sizes that the plan is made for, bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What the program may use: its cgroup's limit.
    pub bytes: u64,
    /// What it needs at most, if known.
    pub peak_bytes: Option<u64>,
    /// What all rules together may lock; the runtime chooses where nothing is said.
    pub lock_bytes: Option<u64>,
    /// What is done to all fresh memory that no rule is about, the heap and large mappings; `None`: nothing.
    pub fresh: Option<Fresh>,
    /// How much is made ready ahead of the program at most, bytes a second; `None`: as the command chooses.
    pub prezero_rate: Option<u64>,
}

impl Memory {
    /// Whether so many bytes are no less memory than so many others, or by no more than 2 %, which is nothing to a program.
    pub fn is_as_much(bytes: u64, other: u64) -> bool {
        const PART: u64 = 50;
        bytes >= other - other / PART
    }
}

/// No [`Memory::prezero_rate`] may be less, bytes a second: one huge page each 20 ms.
pub const LEAST_PREZERO_RATE: u64 = 100 << 20;

/// How fresh memory comes to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// In huge pages, at the first touch.
    Huge,
    /// In huge pages that were made ready before.
    Prezero,
}

impl Fresh {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Huge, Self::Prezero];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Huge => "huge",
            Self::Prezero => "prezero",
        }
    }
}

/// What is done to one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The object's name, for people.
    pub name: String,
    /// Where it is allocated, for people.
    pub place: SourcePlace,
    /// How it is known again.
    pub target: Target,
    /// How many objects of it there were at once when it was recorded; `None`: one, or it is not known. Not 0.
    pub objects: Option<u64>,
    /// What is done.
    pub action: Action,
    /// Why, for people.
    pub why: String,
    /// What it is expected to bring.
    pub predicted: Option<Prediction>,
}

impl Rule {
    /// Whether it says something else about some of what another would be about: without it, the other would be.
    pub fn is_exception_to(&self, other: &Self) -> bool {
        self.action != other.action && self.target.is_part_of(&other.target)
    }
}

/// A place in the source; what is unknown is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePlace {
    /// Function, demangled.
    pub function: Option<String>,
    /// File as the debug information names it.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
}

/// How an object is known again in another run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// By the call path that allocated it: return addresses, innermost first; inlined frames and those of system
    /// libraries and allocators are left out.
    Allocation {
        /// The one by which most of it is made. Never empty.
        path: Vec<Frame>,
        /// Others that make it, too, as where the compiler has inlined the line in several places. None is empty.
        others: Vec<Vec<Frame>>,
    },
    /// Not memory but I/O: by the call path of the calls that read or write. Never empty.
    Io {
        /// Return addresses, as of an allocation.
        path: Vec<Frame>,
        /// Only of files whose name (or, with a slash in it, whose path) matches this pattern of `*` and `?`.
        files: Option<String>,
    },
    /// By name: a global variable.
    Global {
        /// File name of the module that defines it.
        module: String,
        /// As in the module's symbol table (mangled).
        symbol: String,
        /// Its size, if known: what is static may share its name with others.
        bytes: Option<u64>,
        /// Its address as stated in the file that was recorded (SVMA), if known: to tell it from others of its name and size.
        module_offset: Option<u64>,
    },
    /// The C library's heap (`brk`) of the processes that run this program, as one: the small blocks in it share their pages. Blocks
    /// that other rules are about are not in it.
    Heap {
        /// File name of the program.
        module: String,
    },
}

impl Target {
    /// Whether all that this is about would be another's, if there were only that.
    fn is_part_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Allocation { .. }, Self::Allocation { .. }) => {
                let is_others = |path: &[Frame]| {
                    let mut shorter = other.paths();
                    shorter.any(|shorter| path.starts_with(shorter))
                };
                self.paths().all(is_others)
            }
            (
                Self::Io { path, files },
                Self::Io {
                    path: shorter,
                    files: of_shorter,
                },
            ) => {
                // Of equal paths, the one of some files counts.
                let is_wider = path == shorter && files.is_none() && of_shorter.is_some();
                path.starts_with(shorter) && !is_wider
            }
            _ => false,
        }
    }

    /// An allocation, by one call path.
    pub fn allocation(path: Vec<Frame>) -> Self {
        Self::Allocation {
            path,
            others: Vec::new(),
        }
    }

    /// Its call paths; of a global and the heap there are none.
    pub fn paths(&self) -> impl Iterator<Item = &[Frame]> {
        let (first, others) = match self {
            Self::Allocation { path, others } => (Some(path), &others[..]),
            Self::Io { path, .. } => (Some(path), &[][..]),
            Self::Global { .. } | Self::Heap { .. } => (None, &[][..]),
        };
        first.into_iter().chain(others).map(Vec::as_slice)
    }

    /// The key of the (first) call path; `None` for a global and the heap.
    pub fn site(&self) -> Option<Site> {
        match self {
            Self::Allocation { path, .. } | Self::Io { path, .. } => Some(Site::of(path)),
            Self::Global { .. } | Self::Heap { .. } => None,
        }
    }
}

/// One return address of a call path. It has a function, a build id, or both: otherwise it could not be told whether
/// another build is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// File name of the module, without folders.
    pub module: String,
    /// GNU build id of the module that was recorded, in lower-case hexadecimal digits.
    pub build_id: Option<String>,
    /// The function's symbol (mangled) and how far behind its start the return address lies, bytes.
    pub function: Option<(String, u64)>,
    /// The return address as stated in the file (SVMA).
    pub module_offset: u64,
}

/// What the runtime does to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Keeps it in memory, by `mlock2` on fault.
    Lock {
        /// At most so many bytes; `None`: all that fits.
        keep_bytes: Option<u64>,
        /// It is a sweep's fixed part: more is kept, up to the budget, where that saves more swap-ins than it costs, and the lock rests while
        /// the sweep stands still and others need the room. Only with `keep_bytes`, and without `ranges`.
        keep_more: bool,
        /// The hot parts, byte ranges of the object, ascending; empty: from its start.
        ranges: Vec<Range<u64>>,
        /// The ranges are of all objects of the rule together, one after the other in the order in which a process makes them; else of
        /// each. Only with ranges, of an allocation.
        together: bool,
    },
    /// Keeps a fixed part and reads the rest in ahead of the sweep, dropping it behind.
    Stream {
        /// The fixed part, bytes; `None`: as much as the budget gives, as of a lock. A sweep that keeps nothing is [`Action::Prefetch`].
        keep_bytes: Option<u64>,
        /// More is kept, up to the budget, where that saves more swap-ins than it costs; only with `keep_bytes`.
        keep_more: bool,
        /// How it reads ahead.
        ahead: ReadAhead,
    },
    /// Reads ahead of the sweep, and keeps nothing.
    Prefetch(ReadAhead),
    /// Pages it out early.
    Cold,
    /// Backs it by huge pages.
    Huge,
    /// Backs it by huge pages that are ready before the program's first touch.
    Prezero,
    /// Tells the kernel that it is swept (`MADV_SEQUENTIAL`), and no more.
    Sequential,
    /// What the page cache is told of I/O calls, and done about them. Of [`Target::Io`] only.
    Io(IoAction),
    /// Leaves it alone: nothing would help.
    Nothing,
}

impl Action {
    /// Whether it tells the objects of its rule apart by the order in which they are made.
    pub fn is_together(&self) -> bool {
        matches!(self, Self::Lock { together: true, .. })
    }

    /// The word for it in plans, JSON and output.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Lock { .. } => "lock",
            Self::Stream { .. } => "stream",
            Self::Prefetch(_) => "prefetch",
            Self::Cold => "cold",
            Self::Huge => "huge",
            Self::Prezero => "prezero",
            Self::Sequential => "sequential",
            Self::Io(action) => action.name(),
            Self::Nothing => "nothing",
        }
    }
}

/// What is done about the I/O calls of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoAction {
    /// The kernel reads ahead so.
    Readahead(Readahead),
    /// Short runs at random places: the kernel reads nothing ahead, and each run is asked for as a whole when it begins.
    WillNeed {
        /// Length of a run.
        burst_bytes: u64,
    },
    /// Never used again: what the calls brought into the page cache is dropped behind them (`POSIX_FADV_DONTNEED`).
    Drop {
        /// How the kernel reads ahead; `None`: as it does.
        readahead: Option<Readahead>,
        /// Of what the calls brought in, so much was used again while still cached when it was recorded, percent: the plan has reckoned
        /// with that, and only what is missed beyond it withdraws the hint.
        again_percent: u8,
    },
    /// Never used again: the calls leave nothing in the page cache (`RWF_DONTCACHE`).
    DontCache {
        /// How the kernel reads ahead; `None`: as it does.
        readahead: Option<Readahead>,
    },
    /// Used again and again: what the calls read again stays in the page cache.
    Keep {
        /// At most so much; `None`: as much as may be locked.
        keep_bytes: Option<u64>,
    },
}

impl IoAction {
    /// The word for it in plans, JSON and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Readahead(mode) => mode.name(),
            Self::WillNeed { .. } => "willneed",
            Self::Drop { .. } => "drop",
            Self::DontCache { .. } => "dontcache",
            Self::Keep { .. } => "keep",
        }
    }
}

/// How the kernel reads ahead in an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readahead {
    /// As it finds right (`POSIX_FADV_NORMAL`).
    Normal,
    /// Twice as far (`POSIX_FADV_SEQUENTIAL`).
    Sequential,
    /// Not at all (`POSIX_FADV_RANDOM`).
    Random,
}

impl Readahead {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Normal, Self::Sequential, Self::Random];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Sequential => "sequential",
            Self::Random => "random",
        }
    }
}

/// Sizes that the runtime shall not choose itself, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAhead {
    /// Read in at a time.
    pub chunk_bytes: Option<u64>,
    /// Kept read in ahead of the sweep.
    pub lead_bytes: Option<u64>,
}

/// An expected ratio of run times: without the plan to with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Most likely.
    pub speedup: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// A point of the predicted curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurvePoint {
    /// With so much memory, bytes,
    pub memory_bytes: u64,
    /// so many pages are swapped in,
    pub swap_ins: u64,
    /// at least so many, if that is known,
    pub swap_ins_low: Option<u64>,
    /// and at most so many, likewise,
    pub swap_ins_high: Option<u64>,
    /// and the run takes so long, ns; `None`: how long swap-ins take is not known.
    pub wall_ns: Option<u64>,
}

/// The most points of [`Plan::headway`].
pub const MOST_HEADWAY: usize = 1000;

/// How far the process that waited most had got, and how often it had waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadwayPoint {
    /// By so much time in user mode, of all its threads, ms,
    pub user_ms: u64,
    /// it had had so many major faults.
    pub major_faults: u64,
}
