//! Wire form of a plan, from the launcher to the preloaded library: one memory file, whose first part is the plan, only
//! read by the program, and whose last [`STATUS_BYTES`](crate::status::STATUS_BYTES) are what became of it.
//!
//! ```text
//!   header   64 bytes   magic, version, counts, sizes
//!   modules  160 each   name, build id
//!   frames   16 each    module, address stated in the file
//!   ranges   16 each    start, end
//!   rules    88 each    action, sizes, where its frames and ranges are
//!   patterns 128 each   of file names
//!   headway  16 each    user time, major faults by then
//! ```
//!
//! Numbers are little-endian. Addresses were resolved by the launcher against the files as they are now; the library adds
//! where they are loaded.

/// First word of a plan.
pub const PLAN_MAGIC: u64 = u64::from_le_bytes(*b"PGWSPLAN");
/// Version of this form.
pub const PLAN_VERSION: u32 = 10;
/// Names the launcher's socket for plans (abstract, without the leading zero byte) to the library.
pub const PLAN_VARIABLE: &str = "PAGEWISE_PLAN";
/// Allocations of fewer bytes are not looked at.
pub const PLAN_THRESHOLD: usize = 64 << 10;
/// Two fewer are taken: the words of the last are those of the program's own calls (`pagewise.h`), before them are [`FRESH`].
pub const MOST_RULES: usize = 64;
/// In place of the size of a global: the rule is about the heap of the program that its module is.
pub const HEAP: u64 = u64::MAX;
/// See [`MOST_RULES`].
pub const CALLS: usize = MOST_RULES - 1;
/// The words of all fresh memory that no rule is about ([`PlanSizes::fresh`]).
pub const FRESH: usize = MOST_RULES - 2;
/// The most modules that rules may name together.
pub const MOST_MODULES: usize = 16;
/// The longest part of a call path that is compared, frames.
pub const MOST_FRAMES: usize = 32;
/// The longest name of a module, bytes.
pub const MODULE_NAME_BYTES: usize = 128;
/// So many bytes of a build id are compared.
pub const BUILD_ID_BYTES: usize = 24;

/// The longest pattern of file names, bytes.
pub const PATTERN_BYTES: usize = 124;
/// The most points of [`PlanParts::headway`].
pub const MOST_HEADWAY: usize = 1000;
/// The most patterns that rules may have together.
pub const MOST_PATTERNS: usize = MOST_RULES;

const HEADER: usize = 64;
const MODULE: usize = 160;
const PAIR: usize = 16;
const RULE: usize = 88;
const PATTERN: usize = 4 + PATTERN_BYTES;

/// What is done to a rule's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PlanAction {
    /// Keep in memory.
    Lock = 1,
    /// Keep a part, read ahead of the sweep, drop behind it.
    Stream = 2,
    /// Read ahead of the sweep, drop behind it.
    Prefetch = 3,
    /// Page out early.
    Cold = 4,
    /// Back by huge pages.
    Huge = 5,
    /// Leave alone.
    Nothing = 6,
    /// Tell the kernel that it is swept.
    Sequential = 7,
    /// I/O: the kernel reads ahead as the rule says.
    IoReadahead = 8,
    /// I/O: each run is asked for as a whole.
    IoWillNeed = 9,
    /// I/O: what was brought into the page cache is dropped behind.
    IoDrop = 10,
    /// I/O: nothing is left in the page cache.
    IoDontCache = 11,
    /// I/O: left alone.
    IoNothing = 12,
    /// I/O: what is read again stays in the page cache.
    IoKeep = 13,
    /// Back by huge pages, and make them ready ahead of the program's first touch.
    Prezero = 14,
}

impl PlanAction {
    /// Whether it is about calls that read and write, not about memory.
    pub fn is_io(self) -> bool {
        (Self::IoReadahead as u32..=Self::IoKeep as u32).contains(&(self as u32))
    }

    fn from_number(number: u32) -> Option<Self> {
        let all = [
            Self::Lock,
            Self::Stream,
            Self::Prefetch,
            Self::Cold,
            Self::Huge,
            Self::Nothing,
            Self::Sequential,
            Self::IoReadahead,
            Self::IoWillNeed,
            Self::IoDrop,
            Self::IoDontCache,
            Self::IoNothing,
            Self::IoKeep,
            Self::Prezero,
        ];
        all.into_iter().find(|action| *action as u32 == number)
    }
}

/// How the kernel reads ahead in an open file; 0 in a rule: as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PlanReadahead {
    /// As it finds right.
    Normal = 1,
    /// Twice as far.
    Sequential = 2,
    /// Not at all.
    Random = 3,
}

impl PlanReadahead {
    fn from_number(number: u32) -> Option<Self> {
        let all = [Self::Normal, Self::Sequential, Self::Random];
        all.into_iter().find(|mode| *mode as u32 == number)
    }
}

/// A module that rules name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanModule<'data> {
    /// File name.
    pub name: &'data [u8],
    /// The start of its build id, at most [`BUILD_ID_BYTES`]; empty: it has none.
    pub build_id: &'data [u8],
}

/// A return address: which module, and where the file states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanFrame {
    /// Index among the modules.
    pub module: u32,
    /// Address stated in the file.
    pub address: u64,
}

/// A rule. Sizes are bytes; 0: the library chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanRule {
    /// See [`PlanAction`].
    pub action: u32,
    /// First of its frames; none: it is a global, or the heap.
    pub first_frame: u32,
    /// How many.
    pub frames: u32,
    /// First of its ranges.
    pub first_range: u32,
    /// How many.
    pub ranges: u32,
    /// Of a global: its module. Of the heap: the program.
    pub module: u32,
    /// Of I/O: number of the pattern that files must match, from 1; 0: any file.
    pub pattern: u32,
    /// Of I/O: a [`PlanReadahead`]; 0: none.
    pub readahead: u32,
    /// Not 0: more than `keep_bytes` is kept where that saves more swap-ins than it costs.
    pub keeps_more: u32,
    /// Of I/O that drops: so many percent of it were used again while still cached when it was recorded.
    pub again_percent: u32,
    /// Kept at most, also of files.
    pub keep_bytes: u64,
    /// Read in at a time; of I/O: the length of a run.
    pub chunk_bytes: u64,
    /// Read in ahead of the sweep.
    pub lead_bytes: u64,
    /// Of a global: its address as stated in the file.
    pub address: u64,
    /// Of a global: its size. Of the heap: [`HEAP`].
    pub bytes: u64,
    /// It is another call path to what an earlier rule about an allocation is about: that one's number, from 1; 0: it is a rule of its own.
    pub same_as: u32,
    /// Not 0: its ranges are of all its objects together, one after the other in the order in which they are made.
    pub together: u32,
}

impl PlanRule {
    /// Whether it is about the heap.
    pub fn is_of_heap(&self) -> bool {
        self.frames == 0 && self.bytes == HEAP
    }

    /// The rule that counts where this one, of this index, matches.
    pub fn counts_as(&self, index: usize) -> usize {
        match self.same_as {
            0 => index,
            number => number as usize - 1,
        }
    }

    /// Whether it is about a global.
    pub fn is_of_global(&self) -> bool {
        self.frames == 0 && !self.is_of_heap()
    }
}

/// Sizes for the whole program, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanSizes {
    /// The limit in force; 0: none is known.
    pub limit_bytes: u64,
    /// All rules together lock no more; 0: the library chooses.
    pub lock_bytes: u64,
    /// What is done to all fresh memory, the heap and large mappings: [`PlanAction::Huge`], [`PlanAction::Prezero`] or nothing (0).
    pub fresh: u32,
}

/// A plan to be sent.
#[derive(Clone, Copy, Debug)]
pub struct PlanParts<'data> {
    /// Sizes.
    pub sizes: PlanSizes,
    /// Modules.
    pub modules: &'data [PlanModule<'data>],
    /// Frames of all rules.
    pub frames: &'data [PlanFrame],
    /// Ranges of all rules.
    pub ranges: &'data [(u64, u64)],
    /// Rules.
    pub rules: &'data [PlanRule],
    /// Patterns of file names.
    pub patterns: &'data [&'data [u8]],
    /// How many major faults the program had without a plan, by so much user time, ns, ascending.
    pub headway: &'data [(u64, u64)],
}

impl PlanParts<'_> {
    /// Hands the wire form to `sink`, piece by piece. Names and build ids that are too long are cut.
    pub fn encode(&self, mut sink: impl FnMut(&[u8])) {
        let mut header = [0u8; HEADER];
        put64(&mut header, 0, PLAN_MAGIC);
        put32(&mut header, 8, PLAN_VERSION);
        put32(&mut header, 12, self.modules.len() as u32);
        put32(&mut header, 16, self.frames.len() as u32);
        put32(&mut header, 20, self.ranges.len() as u32);
        put32(&mut header, 24, self.rules.len() as u32);
        put32(&mut header, 28, self.patterns.len() as u32);
        put64(&mut header, 32, self.sizes.limit_bytes);
        put64(&mut header, 40, self.sizes.lock_bytes);
        put32(&mut header, 48, self.sizes.fresh);
        put32(&mut header, 52, self.headway.len() as u32);
        sink(&header);
        for module in self.modules {
            let mut entry = [0u8; MODULE];
            let name = &module.name[..module.name.len().min(MODULE_NAME_BYTES)];
            let id = &module.build_id[..module.build_id.len().min(BUILD_ID_BYTES)];
            entry[..name.len()].copy_from_slice(name);
            entry[MODULE_NAME_BYTES..][..id.len()].copy_from_slice(id);
            put32(&mut entry, 152, name.len() as u32);
            put32(&mut entry, 156, id.len() as u32);
            sink(&entry);
        }
        for frame in self.frames {
            sink(&pair(u64::from(frame.module), frame.address));
        }
        for &(start, end) in self.ranges {
            sink(&pair(start, end));
        }
        for rule in self.rules {
            let mut entry = [0u8; RULE];
            let halves = [
                rule.action,
                rule.first_frame,
                rule.frames,
                rule.first_range,
                rule.ranges,
                rule.module,
                rule.pattern,
                rule.readahead,
            ];
            for (index, half) in halves.into_iter().enumerate() {
                put32(&mut entry, 4 * index, half);
            }
            let words = [
                rule.keep_bytes,
                rule.chunk_bytes,
                rule.lead_bytes,
                rule.address,
                rule.bytes,
            ];
            for (index, word) in words.into_iter().enumerate() {
                put64(&mut entry, 32 + 8 * index, word);
            }
            put32(&mut entry, 72, rule.keeps_more);
            put32(&mut entry, 76, rule.again_percent);
            put32(&mut entry, 80, rule.same_as);
            put32(&mut entry, 84, rule.together);
            sink(&entry);
        }
        for pattern in self.patterns {
            let mut entry = [0u8; PATTERN];
            let pattern = &pattern[..pattern.len().min(PATTERN_BYTES)];
            put32(&mut entry, 0, pattern.len() as u32);
            entry[4..][..pattern.len()].copy_from_slice(pattern);
            sink(&entry);
        }
        for &(user_ns, major_faults) in self.headway {
            sink(&pair(user_ns, major_faults));
        }
    }
}

fn pair(first: u64, second: u64) -> [u8; PAIR] {
    let mut entry = [0u8; PAIR];
    put64(&mut entry, 0, first);
    put64(&mut entry, 8, second);
    entry
}

fn put32(place: &mut [u8], at: usize, value: u32) {
    place[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(place: &mut [u8], at: usize, value: u64) {
    place[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// A plan that was received, checked as a whole.
#[derive(Clone, Copy, Debug)]
pub struct PlanView<'data> {
    bytes: &'data [u8],
    modules: usize,
    frames: usize,
    ranges: usize,
    rules: usize,
    patterns: usize,
    headway: usize,
}

impl<'data> PlanView<'data> {
    /// `None`: it is no plan, of another version, or one part of it points outside of another.
    pub fn decode(bytes: &'data [u8]) -> Option<Self> {
        if get64(bytes, 0)? != PLAN_MAGIC || get32(bytes, 8)? != PLAN_VERSION {
            return None;
        }
        let count = |at| get32(bytes, at).map(|count| count as usize);
        let view = Self {
            bytes,
            modules: count(12)?,
            frames: count(16)?,
            ranges: count(20)?,
            rules: count(24)?,
            patterns: count(28)?,
            headway: count(52)?,
        };
        if view.modules > MOST_MODULES
            || view.rules > FRESH
            || view.frames > MOST_RULES * MOST_FRAMES
            || view.ranges > 1 << 20
            || view.patterns > MOST_PATTERNS
            || view.headway > MOST_HEADWAY
            || view.headway_at() + view.headway * PAIR > bytes.len()
        {
            return None;
        }
        let sound = (0..view.rules).all(|index| view.is_sound(&view.rule(index)))
            && (0..view.rules).all(|index| view.has_sound_other(index))
            && (0..view.frames).all(|index| (view.frame(index).module as usize) < view.modules)
            && (0..view.modules).all(|index| view.has_sound_lengths(index))
            && (0..view.patterns).all(|index| {
                view.get32(view.patterns_at() + index * PATTERN) as usize <= PATTERN_BYTES
            });
        sound.then_some(view)
    }

    fn is_sound(&self, rule: &PlanRule) -> bool {
        let within = |first: u32, count: u32, all: usize| first as usize + count as usize <= all;
        let is_sound_io = || {
            rule.frames > 0
                && rule.pattern as usize <= self.patterns
                && (rule.readahead == 0 || PlanReadahead::from_number(rule.readahead).is_some())
        };
        PlanAction::from_number(rule.action).is_some_and(|action| !action.is_io() || is_sound_io())
            && within(rule.first_frame, rule.frames, self.frames)
            && within(rule.first_range, rule.ranges, self.ranges)
            && rule.frames as usize <= MOST_FRAMES
            && (rule.frames > 0 || (rule.module as usize) < self.modules)
    }

    fn has_sound_other(&self, index: usize) -> bool {
        let rule = self.rule(index);
        let other = rule.counts_as(index);
        let is_of_allocation = |rule: &PlanRule| rule.frames > 0 && !self.action(rule).is_io();
        rule.same_as == 0
            || other < index
                && self.rule(other).same_as == 0
                && is_of_allocation(&rule)
                && is_of_allocation(&self.rule(other))
    }

    fn has_sound_lengths(&self, index: usize) -> bool {
        let at = HEADER + index * MODULE;
        self.get32(at + 152) as usize <= MODULE_NAME_BYTES
            && self.get32(at + 156) as usize <= BUILD_ID_BYTES
    }

    fn frames_at(&self) -> usize {
        HEADER + self.modules * MODULE
    }

    fn ranges_at(&self) -> usize {
        self.frames_at() + self.frames * PAIR
    }

    fn rules_at(&self) -> usize {
        self.ranges_at() + self.ranges * PAIR
    }

    fn patterns_at(&self) -> usize {
        self.rules_at() + self.rules * RULE
    }

    /// Sizes.
    pub fn sizes(&self) -> PlanSizes {
        PlanSizes {
            limit_bytes: self.get64(32),
            lock_bytes: self.get64(40),
            fresh: self.get32(48),
        }
    }

    fn headway_at(&self) -> usize {
        self.patterns_at() + self.patterns * PATTERN
    }

    /// How many major faults the program had without a plan, by so much user time, ns; none: it is not known.
    pub fn headway(&self) -> impl Iterator<Item = (u64, u64)> + use<'data> {
        let view = *self;
        (0..view.headway).map(move |index| {
            let at = view.headway_at() + index * PAIR;
            (view.get64(at), view.get64(at + 8))
        })
    }

    /// What is done to all fresh memory; `None`: nothing.
    pub fn fresh(&self) -> Option<PlanAction> {
        PlanAction::from_number(self.sizes().fresh)
            .filter(|action| matches!(action, PlanAction::Huge | PlanAction::Prezero))
    }

    /// How many modules there are.
    pub fn modules(&self) -> usize {
        self.modules
    }

    /// How many rules there are.
    pub fn rules(&self) -> usize {
        self.rules
    }

    /// A module. The index must be less than their number.
    pub fn module(&self, index: usize) -> PlanModule<'data> {
        let at = HEADER + index * MODULE;
        let (name, id) = (self.get32(at + 152), self.get32(at + 156));
        let piece = |at: usize, length: u32| self.bytes.get(at..at + length as usize);
        PlanModule {
            name: piece(at, name).unwrap_or_default(),
            build_id: piece(at + MODULE_NAME_BYTES, id).unwrap_or_default(),
        }
    }

    fn frame(&self, index: usize) -> PlanFrame {
        let at = self.frames_at() + index * PAIR;
        PlanFrame {
            module: self.get64(at) as u32,
            address: self.get64(at + 8),
        }
    }

    /// A rule. The index must be less than their number.
    pub fn rule(&self, index: usize) -> PlanRule {
        let at = self.rules_at() + index * RULE;
        PlanRule {
            action: self.get32(at),
            first_frame: self.get32(at + 4),
            frames: self.get32(at + 8),
            first_range: self.get32(at + 12),
            ranges: self.get32(at + 16),
            module: self.get32(at + 20),
            pattern: self.get32(at + 24),
            readahead: self.get32(at + 28),
            keep_bytes: self.get64(at + 32),
            chunk_bytes: self.get64(at + 40),
            lead_bytes: self.get64(at + 48),
            address: self.get64(at + 56),
            bytes: self.get64(at + 64),
            keeps_more: self.get32(at + 72),
            again_percent: self.get32(at + 76),
            same_as: self.get32(at + 80),
            together: self.get32(at + 84),
        }
    }

    /// What a rule does.
    pub fn action(&self, rule: &PlanRule) -> PlanAction {
        PlanAction::from_number(rule.action).unwrap_or(PlanAction::Nothing)
    }

    /// How the kernel reads ahead for a rule of I/O; `None`: as it does.
    pub fn readahead(&self, rule: &PlanRule) -> Option<PlanReadahead> {
        PlanReadahead::from_number(rule.readahead)
    }

    /// The pattern that a rule's files must match; `None`: any file is meant.
    pub fn pattern(&self, rule: &PlanRule) -> Option<&'data [u8]> {
        let at = self.patterns_at() + (rule.pattern.checked_sub(1)? as usize) * PATTERN;
        let length = self.get32(at) as usize;
        self.bytes.get(at + 4..at + 4 + length)
    }

    /// The call path of a rule, innermost first.
    pub fn frames(&self, rule: &PlanRule) -> impl Iterator<Item = PlanFrame> + use<'data> {
        let (view, first) = (*self, rule.first_frame as usize);
        (0..rule.frames as usize).map(move |index| view.frame(first + index))
    }

    /// A frame of a rule's call path, from 0; `None`: the path is shorter.
    pub fn frame_of(&self, rule: &PlanRule, depth: usize) -> Option<PlanFrame> {
        (depth < rule.frames as usize).then(|| self.frame(rule.first_frame as usize + depth))
    }

    /// The ranges of a rule.
    pub fn ranges(&self, rule: &PlanRule) -> impl Iterator<Item = (u64, u64)> + use<'data> {
        let (view, first) = (*self, rule.first_range as usize);
        (0..rule.ranges as usize).map(move |index| {
            let at = view.ranges_at() + (first + index) * PAIR;
            (view.get64(at), view.get64(at + 8))
        })
    }

    fn get32(&self, at: usize) -> u32 {
        get32(self.bytes, at).unwrap_or(0)
    }

    fn get64(&self, at: usize) -> u64 {
        get64(self.bytes, at).unwrap_or(0)
    }
}

fn get32(bytes: &[u8], at: usize) -> Option<u32> {
    let piece = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(piece.try_into().ok()?))
}

fn get64(bytes: &[u8], at: usize) -> Option<u64> {
    let piece = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(piece.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const RULES: [PlanRule; 3] = [
        PlanRule {
            action: PlanAction::Stream as u32,
            first_frame: 0,
            frames: 2,
            first_range: 0,
            ranges: 1,
            module: 0,
            pattern: 0,
            readahead: 0,
            keeps_more: 1,
            again_percent: 0,
            keep_bytes: 1,
            chunk_bytes: 2,
            lead_bytes: 3,
            address: 0,
            bytes: 0,
            same_as: 0,
            together: 1,
        },
        PlanRule {
            action: PlanAction::Lock as u32,
            first_frame: 0,
            frames: 0,
            first_range: 0,
            ranges: 0,
            module: 1,
            pattern: 0,
            readahead: 0,
            keeps_more: 0,
            again_percent: 0,
            keep_bytes: 0,
            chunk_bytes: 0,
            lead_bytes: 0,
            address: 77,
            bytes: 4096,
            same_as: 0,
            together: 0,
        },
        PlanRule {
            action: PlanAction::IoDrop as u32,
            first_frame: 1,
            frames: 1,
            first_range: 0,
            ranges: 0,
            module: 0,
            pattern: 2,
            readahead: PlanReadahead::Sequential as u32,
            keeps_more: 0,
            again_percent: 40,
            keep_bytes: 0,
            chunk_bytes: 0,
            lead_bytes: 0,
            address: 0,
            bytes: 0,
            same_as: 0,
            together: 0,
        },
    ];

    fn encoded() -> Vec<u8> {
        let mut bytes = Vec::new();
        PlanParts {
            sizes: PlanSizes {
                limit_bytes: 5,
                lock_bytes: 6,
                fresh: PlanAction::Prezero as u32,
            },
            modules: &[
                PlanModule {
                    name: b"solver",
                    build_id: &[1, 2, 3],
                },
                PlanModule {
                    name: &[b'x'; 200],
                    build_id: &[9; 64],
                },
            ],
            frames: &[
                PlanFrame {
                    module: 0,
                    address: 0x41b2,
                },
                PlanFrame {
                    module: 1,
                    address: 0x51b2,
                },
            ],
            ranges: &[(4096, 8192)],
            rules: &RULES,
            patterns: &[b"*.log", b"*.sst"],
            headway: &[(10, 1), (20, 5)],
        }
        .encode(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    #[test]
    fn another_path_is_of_an_earlier_rule_about_an_allocation() {
        let is_taken = |rules: &[PlanRule]| {
            let mut bytes = Vec::new();
            PlanParts {
                sizes: PlanSizes::default(),
                modules: &[PlanModule {
                    name: b"solver",
                    build_id: &[],
                }; 2],
                frames: &[PlanFrame {
                    module: 0,
                    address: 1,
                }; 2],
                ranges: &[(0, 1)],
                rules,
                patterns: &[b"a", b"b"],
                headway: &[],
            }
            .encode(|piece| bytes.extend_from_slice(piece));
            PlanView::decode(&bytes).map(|view| view.rule(view.rules() - 1).counts_as(1))
        };
        let [first, global, io] = RULES;
        let other = |same_as| PlanRule { same_as, ..first };
        assert_eq!(is_taken(&[first, other(1)]), Some(0));
        assert_eq!(is_taken(&[first, first]), Some(1));
        let wrong = [
            [first, other(2)],
            [first, other(7)],
            [global, other(1)],
            [io, other(1)],
            [first, PlanRule { same_as: 1, ..io }],
        ];
        for rules in wrong {
            assert_eq!(is_taken(&rules), None, "{rules:?}");
        }
        assert_eq!(is_taken(&[first, other(1), other(2)]), None);
    }

    #[test]
    fn a_plan_survives_the_wire() {
        let bytes = encoded();
        let view = PlanView::decode(&bytes).expect("it is sound");
        assert_eq!((view.modules(), view.rules()), (2, 3));
        assert_eq!(view.sizes().lock_bytes, 6);
        assert_eq!(view.fresh(), Some(PlanAction::Prezero));
        assert_eq!(view.module(0).name, b"solver");
        assert_eq!(view.module(0).build_id, [1, 2, 3]);
        assert_eq!(view.module(1).name.len(), MODULE_NAME_BYTES);
        assert_eq!([view.rule(0), view.rule(1), view.rule(2)], RULES);
        assert_eq!(view.pattern(&RULES[2]), Some(&b"*.sst"[..]));
        assert_eq!(view.pattern(&RULES[0]), None);
        assert_eq!(view.readahead(&RULES[2]), Some(PlanReadahead::Sequential));
        let addresses: Vec<u64> = view.frames(&RULES[0]).map(|frame| frame.address).collect();
        assert_eq!(addresses, [0x41b2, 0x51b2]);
        assert_eq!(view.ranges(&RULES[0]).collect::<Vec<_>>(), [(4096, 8192)]);
        assert_eq!(view.action(&RULES[0]), PlanAction::Stream);
        assert_eq!(view.headway().collect::<Vec<_>>(), [(10, 1), (20, 5)]);
    }

    #[test]
    fn what_is_cut_short_or_points_outside_is_refused() {
        let bytes = encoded();
        for length in 0..bytes.len() {
            assert!(PlanView::decode(&bytes[..length]).is_none(), "{length}");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                // All that is accepted can be walked.
                if let Some(view) = PlanView::decode(&damaged) {
                    for index in 0..view.rules() {
                        let rule = view.rule(index);
                        view.action(&rule);
                        view.frames(&rule).count();
                        view.ranges(&rule).count();
                        view.pattern(&rule);
                    }
                    view.headway().count();
                    (0..view.modules())
                        .for_each(|index| assert!(view.module(index).name.len() <= 128));
                }
            }
        }
    }
}
