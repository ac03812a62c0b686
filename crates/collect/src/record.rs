//! The records of `bpf/record.h`, decoded. Pure: no system calls, so recorded words can be replayed.

use crate::CopiedStack;
use crate::io_record;
use crate::io_record::CacheChange;
use crate::io_record::FileCall;
use crate::io_record::FileSeen;

/// Most words in a processor's ring; a power of two.
pub const RING_WORDS: usize = 1 << 20;
/// Words behind the ring's end that a record begun in the last word may use.
pub const RING_SLACK: usize = 6;

const KIND_SWAP_IN: u64 = 1;
const KIND_SWAP_CACHE_HIT: u64 = 2;
const KIND_PAGE: u64 = 3;
const KIND_STALL: u64 = 4;

const KIND_IO: u64 = 5;
const KIND_CACHE: u64 = 6;
const KIND_WRITE_LOOK: u64 = 7;
const KIND_RUN_DELAY: u64 = 8;
const LOOK_FOUND_WRITTEN: u64 = 1;

const STALL_DIRECT_RECLAIM: u64 = 0;
const STALL_MEMCG_RECLAIM: u64 = 1;
const STALL_IN_SWAP_IN: u64 = 16;

const PAGE_LEFT: u64 = 1;
const PAGE_WRITTEN: u64 = 2;
const PAGE_ZERO: u64 = 4;
const PAGE_IN_FLIGHT: u64 = 8;
const PAGE_ORDER_SHIFT: u32 = 8;
const HAS_PATH: u64 = 1 << 59;
const PATH_IS_COPY: u64 = 1 << 63;
const PATH_IS_HANDED_OVER: u64 = 1 << 61;
const LATENCY_UNKNOWN: u64 = (1 << 40) - 1;
pub(crate) const PAGE_BYTES: u64 = 4096;

/// `struct config` of `bpf/record.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Config {
    pub(crate) base_ns: u64,
    pub(crate) direct_map: u64,
    pub(crate) page_structs: u64,
    pub(crate) top_level_shift: u32,
    pub(crate) ring_words: u32,
    pub(crate) rings: u32,
    pub(crate) look_every: u32,
    pub(crate) looks_waiting: u32,
    pub(crate) use_cast: u8,
    pub(crate) swap_is_slow: u8,
    pub(crate) zeros_are_noted: u8,
    pub(crate) zswap: u8,
    pub(crate) call_paths: u8,
    pub(crate) check_call_paths: u8,
    pub(crate) does_nothing: u8,
    pub(crate) copies_tables: u8,
    pub(crate) follows_uring: u8,
    pub(crate) enforces: u8,
}

impl Config {
    /// The bytes libbpf writes into the map.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size_of::<Self>());
        bytes.extend(self.base_ns.to_ne_bytes());
        bytes.extend(self.direct_map.to_ne_bytes());
        bytes.extend(self.page_structs.to_ne_bytes());
        bytes.extend(self.top_level_shift.to_ne_bytes());
        bytes.extend(self.ring_words.to_ne_bytes());
        bytes.extend(self.rings.to_ne_bytes());
        bytes.extend(self.look_every.to_ne_bytes());
        bytes.extend(self.looks_waiting.to_ne_bytes());
        bytes.extend([
            self.use_cast,
            self.swap_is_slow,
            self.zeros_are_noted,
            self.zswap,
            self.call_paths,
            self.check_call_paths,
            self.does_nothing,
            self.copies_tables,
            self.follows_uring,
            self.enforces,
        ]);
        bytes.resize(size_of::<Self>(), 0); // C pads the end
        bytes
    }
}

/// What a sensor saw. Times in ns of CLOCK_MONOTONIC, addresses and sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A fault that found a swap entry.
    SwapIn {
        /// When the fault began.
        time_ns: u64,
        /// Address space.
        space: u32,
        /// Thread.
        tid: u32,
        /// The address that was touched.
        address: u64,
        /// From exception to mapped page; `None` for a page found in the swap cache, which the kernel does
        /// not report the end of.
        latency_ns: Option<u64>,
        /// The page had to be read (a major fault); otherwise it was in the swap cache.
        major: bool,
        /// What the program was doing.
        call_path: CallPath,
    },
    /// A stack that no program had seen before, from the stack pointer upwards as far as it could be read. Give
    /// its path's number to [`crate::SwapSensor::teach`].
    Stack {
        /// Whose.
        stack: CopiedStack,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Pages leaving memory, or being written on their way.
    Pages {
        /// When, to the precision of the surrounding fault; at worst two timer ticks early.
        time_ns: u64,
        /// Address space.
        space: u32,
        /// First page's address.
        address: u64,
        /// Base pages, from the address on.
        pages: u64,
        /// They left memory (an eviction).
        left: bool,
        /// They were sent to the swap device.
        written: bool,
        /// They were kept without input or output because all bytes are zero.
        zero_filled: bool,
        /// They are on their way to a slow device: an [`Observation::Written`] of the same space, address and time
        /// follows when it has them.
        in_flight: bool,
    },
    /// A page that came back from swap was looked at again, when up to half of what memory holds had come in after it.
    WriteLook {
        /// When, to the precision of the surrounding fault.
        time_ns: u64,
        /// Address space.
        space: u32,
        /// The page's address.
        address: u64,
        /// The program has written it since it came in.
        written: bool,
    },
    /// Pages have reached the slow swap device.
    Written {
        /// The time of the [`Observation::Pages`] that told of their submission.
        time_ns: u64,
        /// Address space.
        space: u32,
        /// First page's address.
        address: u64,
        /// From submission to completion.
        latency_ns: u64,
    },
    /// A system call has read or written a file.
    FileCall(FileCall),
    /// The page cache has got or lost pages of a file.
    Cache(CacheChange),
    /// A file that was not seen before.
    File(FileSeen),
    /// Work was handed over that another thread may do ([`CallPath::HandedOver`]). The same token stands for the same path.
    Handover {
        /// What the program calls it.
        token: u64,
        /// By which path it was.
        call_path: CallPath,
    },
    /// A thread had to reclaim memory itself.
    Stall {
        /// When that began.
        time_ns: u64,
        /// Address space.
        space: u32,
        /// Thread.
        tid: u32,
        /// What for.
        reason: StallReason,
        /// How long it took.
        duration_ns: u64,
        /// It happened inside a swap-in fault, whose latency holds it.
        in_swap_in: bool,
    },
    /// A thread was ready to run, and others had the processors: for so long from its last swap-in fault to the one before which this is told.
    RunDelay {
        /// Where it is put: it ended with that fault's begin, were it all at once.
        time_ns: u64,
        /// Address space.
        space: u32,
        /// Thread.
        tid: u32,
        /// How long.
        duration_ns: u64,
    },
    /// A recorded process began, changed its program or ended.
    Process {
        /// When.
        time_ns: u64,
        /// What happened.
        what: ProcessChange,
        /// Its address space from now on.
        space: u32,
        /// Address space it had before exec, or its parent's.
        parent_space: u32,
        /// Process (thread group).
        pid: u32,
        /// When it started, ns since boot.
        start_boottime_ns: u64,
        /// How often it has called exec, as the kernel counts.
        exec_epoch: u32,
        /// The kernel's short name for it, 15 bytes at most.
        command: String,
    },
}

/// See [`Observation::SwapIn`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallPath {
    /// Not asked for, or lost.
    #[default]
    Unknown,
    /// The number given by [`crate::Lesson::path`].
    Known(u32),
    /// That of the [`Observation::Stack`] with this sequence number, which comes later.
    Copied(u64),
    /// That of the [`Observation::Handover`] with this token, which may come later: the thread worked on behalf of another one.
    HandedOver(u64),
}

/// See [`Observation::Stall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallReason {
    /// The machine is short of memory.
    DirectReclaim,
    /// Its memory cgroup is at a limit.
    MemcgReclaim,
}

/// See [`Observation::Process`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessChange {
    /// It runs a new program: a new address space.
    Exec,
    /// It is a new child.
    Fork,
    /// Its last thread ended.
    Exit,
    /// It ran already when recording of it began.
    Join,
}

/// Times in records have so many bits, and begin anew after 78 hours.
const TIME_BITS: u64 = (1 << 48) - 1;
/// What is decoded was told before now; this much later at most while it is being read.
const STILL_COMING_NS: u64 = 60_000_000_000;

/// The latest time that what is decoded now can have.
pub(crate) fn latest_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 + STILL_COMING_NS
}

/// Where the time in this word of a record counts from: the recording's base, moved on by as many turns of 78 hours as have
/// passed by `latest_ns`.
pub(crate) fn base_of_turn(time_word: u64, base_ns: u64, latest_ns: u64) -> u64 {
    let first = base_ns.wrapping_add(time_word & TIME_BITS);
    base_ns.wrapping_add(latest_ns.saturating_sub(first) & !TIME_BITS)
}

/// Address spaces that records can tell apart at a time.
pub(crate) const NUMBERS: usize = 1 << 16;

/// Decodes the record at the start of `words`, whose time counts from `base_ns`; the address space has only the low bits of
/// its number (see `Observation::space_of_record`). Returns it and its length in words, or `None` if `words` holds no
/// whole, well-formed record: the ring's writer is trusted, so that means a bug and ends the recording.
pub fn decode(words: &[u64], base_ns: u64) -> Option<(Observation, usize)> {
    let (&first, &second) = (words.first()?, words.get(1)?);
    let space = (second >> 48) as u32;
    let time_ns = base_ns.wrapping_add(second & TIME_BITS);
    // Canonical user addresses have at most 56 bits.
    let address = first & ((1 << 57) - 1);
    let has_path = first & HAS_PATH != 0;
    match first >> 60 {
        kind @ (KIND_SWAP_IN | KIND_SWAP_CACHE_HIT) => {
            let third = *words.get(2)?;
            let latency = third >> 24;
            let observation = Observation::SwapIn {
                time_ns,
                space,
                tid: (third & 0xff_ffff) as u32,
                address,
                latency_ns: (latency != LATENCY_UNKNOWN).then_some(latency),
                major: kind == KIND_SWAP_IN,
                call_path: if has_path {
                    call_path(*words.get(3)?)
                } else {
                    CallPath::Unknown
                },
            };
            Some((observation, if has_path { 4 } else { 3 }))
        }
        KIND_PAGE => {
            let observation = Observation::Pages {
                time_ns,
                space,
                address: address & !(PAGE_BYTES - 1),
                pages: 1 << ((address >> PAGE_ORDER_SHIFT) & 0xf),
                left: address & PAGE_LEFT != 0,
                written: address & PAGE_WRITTEN != 0,
                zero_filled: address & PAGE_ZERO != 0,
                in_flight: address & PAGE_IN_FLIGHT != 0,
            };
            Some((observation, 2))
        }
        KIND_STALL => {
            let third = *words.get(2)?;
            let observation = Observation::Stall {
                time_ns,
                space,
                tid: (third & 0xff_ffff) as u32,
                reason: match address & !STALL_IN_SWAP_IN {
                    STALL_DIRECT_RECLAIM => StallReason::DirectReclaim,
                    STALL_MEMCG_RECLAIM => StallReason::MemcgReclaim,
                    _ => return None,
                },
                duration_ns: third >> 24,
                in_swap_in: address & STALL_IN_SWAP_IN != 0,
            };
            Some((observation, 3))
        }
        KIND_RUN_DELAY => {
            let third = *words.get(2)?;
            let observation = Observation::RunDelay {
                time_ns,
                space,
                tid: (third & 0xff_ffff) as u32,
                duration_ns: third >> 24,
            };
            Some((observation, 3))
        }
        KIND_WRITE_LOOK => {
            let observation = Observation::WriteLook {
                time_ns,
                space,
                address: address & !(PAGE_BYTES - 1),
                written: address & LOOK_FOUND_WRITTEN != 0,
            };
            Some((observation, 2))
        }
        KIND_IO => io_record::decode_call(words, space, time_ns)
            .map(|call| (Observation::FileCall(call), io_record::CALL_WORDS)),
        KIND_CACHE => io_record::decode_cache(words, space, time_ns)
            .map(|change| (Observation::Cache(change), io_record::CACHE_WORDS)),
        _ => None,
    }
}

impl Observation {
    /// The address space of what a record told of.
    pub(crate) fn space_of_record(&mut self) -> Option<&mut u32> {
        match self {
            Self::SwapIn { space, .. }
            | Self::Pages { space, .. }
            | Self::WriteLook { space, .. }
            | Self::Written { space, .. }
            | Self::Stall { space, .. }
            | Self::RunDelay { space, .. } => Some(space),
            Self::FileCall(call) => Some(&mut call.space),
            Self::Cache(change) => change.by.as_mut().map(|by| &mut by.space),
            Self::Stack { .. } | Self::File(_) | Self::Handover { .. } | Self::Process { .. } => {
                None
            }
        }
    }

    /// The call path it has, if any.
    pub(crate) fn call_path(&self) -> CallPath {
        match self {
            Self::SwapIn { call_path, .. } | Self::Handover { call_path, .. } => *call_path,
            Self::FileCall(call) => call.call_path,
            Self::Cache(change) => change.call_path,
            _ => CallPath::Unknown,
        }
    }
}

pub(crate) fn call_path(word: u64) -> CallPath {
    match word {
        0 => CallPath::Unknown,
        copy if copy & PATH_IS_COPY != 0 => CallPath::Copied(copy),
        token if token & PATH_IS_HANDED_OVER != 0 => {
            CallPath::HandedOver(token & (PATH_IS_HANDED_OVER - 1))
        }
        known => CallPath::Known((known - 1) as u32),
    }
}

/// Decodes `struct completion`; `None` if it is too short.
pub(crate) fn decode_completion(bytes: &[u8], base_ns: u64, latest_ns: u64) -> Option<Observation> {
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let time_word = word(8)?;
    let base_ns = base_of_turn(time_word, base_ns, latest_ns);
    Some(Observation::Written {
        address: word(0)?,
        space: (time_word >> 48) as u32,
        time_ns: base_ns.wrapping_add(time_word & TIME_BITS),
        latency_ns: word(16)?,
    })
}

/// Decodes a notice (`struct notice`); `None` if it is too short or of an unknown kind.
pub(crate) fn decode_notice(bytes: &[u8]) -> Option<Observation> {
    let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let what = match u32_at(16)? {
        1 => ProcessChange::Exec,
        2 => ProcessChange::Fork,
        3 => ProcessChange::Exit,
        4 => ProcessChange::Join,
        _ => return None,
    };
    let name = bytes.get(40..56)?;
    let length = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(name.len());
    Some(Observation::Process {
        time_ns: u64_at(0)?,
        start_boottime_ns: u64_at(8)?,
        what,
        space: u32_at(20)?,
        parent_space: u32_at(24)?,
        pid: u32_at(28)?,
        exec_epoch: u32_at(36)?,
        command: String::from_utf8_lossy(&name[..length]).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 1_000_000;

    #[test]
    fn a_swap_in_keeps_address_thread_and_latency() {
        let words = [
            KIND_SWAP_IN << 60 | 0x7f12_3456_7abc,
            7 << 48 | 500,
            2_900 << 24 | 4242,
        ];
        let expected = Observation::SwapIn {
            time_ns: BASE + 500,
            space: 7,
            tid: 4242,
            address: 0x7f12_3456_7abc,
            latency_ns: Some(2_900),
            major: true,
            call_path: CallPath::Unknown,
        };
        assert_eq!(decode(&words, BASE), Some((expected, 3)));
    }

    #[test]
    fn a_path_is_known_copied_or_lost() {
        let path_of = |word: u64| {
            let words = [
                KIND_SWAP_IN << 60 | HAS_PATH | 0x1000,
                1 << 48,
                5 << 24 | 1,
                word,
            ];
            match decode(&words, BASE) {
                Some((Observation::SwapIn { call_path, .. }, 4)) => call_path,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(path_of(0), CallPath::Unknown);
        assert_eq!(path_of(1), CallPath::Known(0));
        assert_eq!(
            path_of(PATH_IS_COPY | 9),
            CallPath::Copied(PATH_IS_COPY | 9)
        );
        let cut = [KIND_SWAP_IN << 60 | HAS_PATH, 1 << 48, 0];
        assert_eq!(decode(&cut, BASE), None);
    }

    #[test]
    fn times_go_on_after_78_hours() {
        const TURN: u64 = 1 << 48;
        let told = |time_ns: u64| 3 << 48 | (time_ns - BASE) & TIME_BITS;
        for latest in [
            BASE + 10,
            BASE + TURN - 1,
            BASE + TURN,
            BASE + 5 * TURN + 10,
        ] {
            for age in [0, 10, TURN / 2, TURN - 1] {
                let Some(time) = latest.checked_sub(age).filter(|&time| time >= BASE) else {
                    continue;
                };
                let base = base_of_turn(told(time), BASE, latest);
                let words = [KIND_PAGE << 60 | 0x1000, told(time)];
                let Some((Observation::Pages { time_ns, .. }, 2)) = decode(&words, base) else {
                    panic!("{words:?}");
                };
                assert_eq!(time_ns, time, "{latest} {age}");
            }
        }
    }

    #[test]
    fn an_unknown_latency_is_none() {
        let words = [
            KIND_SWAP_CACHE_HIT << 60 | 0x1000,
            1 << 48,
            LATENCY_UNKNOWN << 24 | 1,
        ];
        let (observation, _) = decode(&words, BASE).expect("well formed");
        assert!(matches!(
            observation,
            Observation::SwapIn {
                latency_ns: None,
                major: false,
                ..
            }
        ));
    }

    #[test]
    fn a_large_folio_counts_its_pages() {
        let words = [
            KIND_PAGE << 60 | 0x7f00_0000_0000 | PAGE_LEFT | PAGE_WRITTEN | 4 << PAGE_ORDER_SHIFT,
            1 << 48 | 9,
        ];
        let expected = Observation::Pages {
            time_ns: BASE + 9,
            space: 1,
            address: 0x7f00_0000_0000,
            pages: 16,
            left: true,
            written: true,
            zero_filled: false,
            in_flight: false,
        };
        assert_eq!(decode(&words, BASE), Some((expected, 2)));
    }

    #[test]
    fn a_look_tells_whether_its_page_was_written() {
        let look = |written| Observation::WriteLook {
            time_ns: BASE + 40,
            space: 3,
            address: 0x7f00_0000_1000,
            written,
        };
        let words = |found| {
            [
                KIND_WRITE_LOOK << 60 | 0x7f00_0000_1000 | found,
                3 << 48 | 40,
            ]
        };
        assert_eq!(decode(&words(0), BASE), Some((look(false), 2)));
        let written = words(LOOK_FOUND_WRITTEN);
        assert_eq!(decode(&written, BASE), Some((look(true), 2)));
    }

    #[test]
    fn a_stall_tells_why_and_whether_a_fault_holds_it() {
        let words = [
            KIND_STALL << 60 | STALL_MEMCG_RECLAIM | STALL_IN_SWAP_IN,
            3 << 48 | 40,
            70_000 << 24 | 17,
        ];
        let expected = Observation::Stall {
            time_ns: BASE + 40,
            space: 3,
            tid: 17,
            reason: StallReason::MemcgReclaim,
            duration_ns: 70_000,
            in_swap_in: true,
        };
        assert_eq!(decode(&words, BASE), Some((expected, 3)));
        assert_eq!(
            decode(&[KIND_STALL << 60 | 2, 1 << 48, 0], BASE),
            None,
            "an unknown reason"
        );
        assert_eq!(decode(&words[..2], BASE), None);
    }

    #[test]
    fn a_run_delay_is_of_a_thread() {
        let words = [KIND_RUN_DELAY << 60, 3 << 48 | 40, 4_000_000 << 24 | 17];
        let expected = Observation::RunDelay {
            time_ns: BASE + 40,
            space: 3,
            tid: 17,
            duration_ns: 4_000_000,
        };
        assert_eq!(decode(&words, BASE), Some((expected, 3)));
        assert_eq!(decode(&words[..2], BASE), None);
    }

    #[test]
    fn a_completion_repeats_the_time_of_its_submission() {
        let words = [
            KIND_PAGE << 60 | 0x7000 | PAGE_WRITTEN | PAGE_IN_FLIGHT,
            5 << 48 | 9,
        ];
        let Some((
            Observation::Pages {
                in_flight: true,
                time_ns,
                space,
                address,
                ..
            },
            2,
        )) = decode(&words, BASE)
        else {
            panic!("{:?}", decode(&words, BASE))
        };
        let bytes: Vec<u8> = [0x7000u64, words[1], 123]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let expected = Observation::Written {
            time_ns,
            space,
            address,
            latency_ns: 123,
        };
        assert_eq!(decode_completion(&bytes, BASE, BASE), Some(expected));
        assert_eq!(decode_completion(&bytes[..23], BASE, BASE), None);
    }

    #[test]
    fn short_or_unknown_records_are_refused() {
        assert_eq!(decode(&[], BASE), None);
        assert_eq!(decode(&[KIND_SWAP_IN << 60, 0], BASE), None);
        assert_eq!(decode(&[0, 0, 0], BASE), None);
        assert_eq!(decode_notice(&[0; 20]), None);
    }

    /// record.h is the other half of this contract.
    #[test]
    fn the_header_has_the_same_numbers() {
        let header = include_str!("bpf/record.h");
        let value = |name: &str| {
            let line = header
                .lines()
                .find(|line| line.starts_with(&format!("#define {name} ")))
                .unwrap_or_else(|| panic!("{name} is not in record.h"));
            let rest = &line[format!("#define {name} ").len()..];
            rest.split("/*")
                .next()
                .expect("split yields one")
                .trim()
                .to_owned()
        };
        for (name, here) in [
            ("KIND_SWAP_IN", KIND_SWAP_IN),
            ("KIND_SWAP_CACHE_HIT", KIND_SWAP_CACHE_HIT),
            ("KIND_PAGE", KIND_PAGE),
            ("KIND_STALL", KIND_STALL),
            ("KIND_IO", KIND_IO),
            ("KIND_CACHE", KIND_CACHE),
            ("KIND_WRITE_LOOK", KIND_WRITE_LOOK),
            ("KIND_RUN_DELAY", KIND_RUN_DELAY),
            ("LOOK_FOUND_WRITTEN", LOOK_FOUND_WRITTEN),
            ("STALL_DIRECT_RECLAIM", STALL_DIRECT_RECLAIM),
            ("STALL_MEMCG_RECLAIM", STALL_MEMCG_RECLAIM),
            ("STALL_IN_SWAP_IN", STALL_IN_SWAP_IN),
            ("PAGE_IN_FLIGHT", PAGE_IN_FLIGHT),
            ("PAGE_LEFT", PAGE_LEFT),
            ("PAGE_WRITTEN", PAGE_WRITTEN),
            ("PAGE_ZERO", PAGE_ZERO),
            ("PAGE_ORDER_SHIFT", u64::from(PAGE_ORDER_SHIFT)),
            ("RING_SLACK", RING_SLACK as u64),
        ] {
            assert_eq!(value(name), here.to_string(), "{name}");
        }
        let most = crate::looks::MOST_LOOKS_WAITING;
        assert_eq!(value("MOST_LOOKS_WAITING"), most.to_string());
        assert_eq!(value("RING_WORDS"), "(1 << 20)");
        assert_eq!(value("NUMBERS"), "(1 << 16)");
        assert_eq!(value("LATENCY_UNKNOWN"), "((1ULL << 40) - 1)");
        assert_eq!(Config::default().to_bytes().len(), size_of::<Config>());
    }
}
