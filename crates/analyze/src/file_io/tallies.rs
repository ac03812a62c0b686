//! Sums while rows go by, and what becomes of them at the end.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;

use foldhash::fast::RandomState;
use pagewise_trace::IoCache;
use pagewise_trace::IoCacheKind;
use pagewise_trace::IoCall;
use pagewise_trace::IoCallKind;
use pagewise_trace::IoFile;
use pagewise_trace::IoSum;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::frame_paths::FramePaths;
use crate::histogram::Histogram;

use super::FileIo;
use super::alike::Kind;
use super::alike::UNNAMED;
use super::balance::drop_what_is_paid_for;
use super::class::Advice;
use super::class::Class;
use super::class::Evidence;
use super::class::Means;
use super::class::Thresholds;
use super::class::WhyNothing;
use super::context::IoContext;
use super::context::Reuse;
use super::context::Use;
use super::files::FileUse;
use super::files::Files;
use super::pages::Fate;
use super::pages::PAGE;
use super::pages::Pages;
use super::pages::Who;
use super::runs::Caller;
use super::runs::ClosedRun;
use super::runs::OpenRuns;
use super::runs::Runs;
use super::who::BEYOND;
use super::who::Numbers;

/// A context that moves less than this share of a file's bytes does not disagree with the others.
const GOOD_PART: f64 = 0.05;

/// Sums of one context.
#[derive(Clone, Default)]
struct Tally {
    calls: u64,
    failed: u64,
    bytes: u64,
    direct_bytes: u64,
    in_memory_bytes: u64,
    requested_bytes: u64,
    latency: Histogram,
    latency_ns: u64,
    missed_bytes: u64,
    ahead_bytes: u64,
    runs: Runs,
    fate: Fate,
    files: HashMap<u32, u64, RandomState>,
    stacks: Vec<u32>,
}

/// Contexts, by who does what.
type Tallied = HashMap<(Who, Use), u32, RandomState>;

/// A call path and a direction, and the sums of each kind of files.
type OfPath = ((Vec<u32>, Use), Vec<Tally>);

pub(crate) struct Tallies {
    files: Files,
    pages: Pages,
    open: OpenRuns,
    /// Of pages that came in by mappings,
    open_by_mapping: OpenRuns,
    /// and those that have ended.
    runs_by_mapping: HashMap<Who, Runs, RandomState>,
    who: Numbers,
    contexts: Tallied,
    tallies: Vec<Tally>,
    /// Bytes that came into the page cache, by who brought them in and by file.
    cached: HashMap<(Who, u32), u64, RandomState>,
    summed: bool,
    evicted_bytes: Option<u64>,
    cache_unseen: bool,
}

impl Tallies {
    pub(crate) fn new(files: Vec<IoFile>) -> Self {
        Self {
            files: Files::new(files),
            pages: Pages::default(),
            open: OpenRuns::default(),
            open_by_mapping: OpenRuns::default(),
            runs_by_mapping: HashMap::default(),
            who: Numbers::default(),
            contexts: HashMap::default(),
            tallies: Vec::new(),
            cached: HashMap::default(),
            summed: false,
            evicted_bytes: None,
            cache_unseen: false,
        }
    }

    /// Whose sums a call by that path on such a file is among.
    fn tally(&mut self, stack: Option<u32>, file: Option<u32>, does: Use) -> (Who, u32) {
        let who = self.who.of(stack, self.files.kind(file));
        (who, self.tally_of(who, stack, does))
    }

    fn tally_of(&mut self, who: Who, stack: Option<u32>, does: Use) -> u32 {
        let next = self.tallies.len() as u32;
        let context = *self.contexts.entry((who, does)).or_insert(next);
        if context == next {
            let own = stack.filter(|_| who != BEYOND);
            self.tallies.push(Tally {
                stacks: own.into_iter().collect(),
                ..Tally::default()
            });
        }
        context
    }

    /// The index of the file of that number. One that was long unused gets a new number: what left the page cache until then was not told.
    fn file(&mut self, number: Option<u32>) -> Option<u32> {
        let (file, is_known_anew) = self.files.meet(number?)?;
        if is_known_anew {
            let bytes = self.files.files[file as usize].bytes;
            self.pages.forget_cached(file, bytes);
        }
        Some(file)
    }

    pub(crate) fn change(&mut self, row: &IoCache) {
        let evicted = self.evicted_bytes.get_or_insert(0);
        if row.kind == IoCacheKind::Evicted {
            *evicted += row.bytes;
        }
        let Some(file) = self.file(row.file) else {
            return;
        };
        match row.kind {
            IoCacheKind::Added => {
                let who = self.who.of(row.stack, self.files.kind(Some(file)));
                *self.cached.entry((who, file)).or_default() += row.bytes;
                self.pages.added(who, file, row.offset, row.bytes);
                self.add_to_run_by_mapping(who, file, row);
            }
            kind => {
                let evicted = kind == IoCacheKind::Evicted;
                self.pages.removed(file, row.offset, row.bytes, evicted);
            }
        }
    }

    /// What a mapping is touched in the order of shows by what its faults bring in: one that finds its page tells nothing. Until the first call by
    /// a path has ended, its pages might be a mapping's.
    fn add_to_run_by_mapping(&mut self, who: Who, file: u32, row: &IoCache) {
        let makes_calls = |does| self.contexts.contains_key(&(who, does));
        if makes_calls(Use::Read) || makes_calls(Use::Write) {
            return;
        }
        let caller = Caller {
            context: who.into(),
            file,
            tid: row.tid.unwrap_or(0),
            writes: false,
        };
        let (runs, files) = (&mut self.runs_by_mapping, &self.files.files);
        let mut ended = |run| add_run_by_mapping(runs, files, &run);
        (self.open_by_mapping).call(caller, row.offset, row.bytes, &mut ended);
    }

    pub(crate) fn call(&mut self, row: &IoCall) {
        let does = Use::from(row.direction);
        let file = self.file(row.file);
        let (who, context) = self.tally(row.stack, file, does);
        let bytes = row.bytes.unwrap_or(0);
        self.cache_unseen |= row.cached_bytes.is_none() || row.ahead_bytes.is_none();
        let tally = &mut self.tallies[context as usize];
        tally.calls += 1;
        tally.failed += u64::from(row.error.is_some());
        tally.latency.add(row.latency_ns);
        tally.latency_ns += row.latency_ns;
        tally.missed_bytes += row.cached_bytes.unwrap_or(0);
        tally.ahead_bytes += row.ahead_bytes.unwrap_or(0);
        tally.bytes += bytes;
        if row.direct {
            tally.direct_bytes += bytes;
        }
        if is_request(row.call) {
            tally.requested_bytes += bytes;
        }
        let Some(file) = file else { return };
        self.add_to_file(context, file, 1, bytes, does);
        // What else of it is touched is not seen.
        let has_place = bytes > 0 && does != Use::Map;
        let Some(offset) = row.offset.filter(|_| has_place) else {
            return;
        };
        let file_use = &mut self.files.files[file as usize];
        let end = offset.saturating_add(bytes);
        file_use.reaches(end);
        let reaches_end = end == file_use.bytes;
        file_use.heat.add(offset, bytes, does == Use::Write);
        let caller = Caller {
            context,
            file,
            tid: row.tid,
            writes: does == Use::Write,
        };
        let mut ended = |run| add_run(&mut self.tallies, &self.files.files, &run);
        let start = self.open.call(caller, offset, bytes, &mut ended);
        match does {
            Use::Write if row.direct => {
                self.pages
                    .written_past(file, (offset, bytes), start, reaches_end);
            }
            Use::Write => {
                let place = (offset, bytes);
                self.pages.written(who, file, place, start, reaches_end);
            }
            _ if row.direct => self.pages.read_past(file, offset, bytes),
            _ => self.pages.read(who, file, offset, bytes, start),
        }
    }

    pub(crate) fn sum(&mut self, row: &IoSum) {
        self.summed = true;
        let does = Use::from(row.direction);
        let file = self.files.index(row.file);
        let (_, context) = self.tally(row.stack, file, does);
        self.cache_unseen |= row.cached_bytes.is_none() || row.ahead_bytes.is_none();
        let tally = &mut self.tallies[context as usize];
        tally.calls += row.calls;
        tally.failed += row.failed;
        let middle = 3u64.checked_shl(row.latency_octave).unwrap_or(u64::MAX) / 2;
        tally.latency.add_many(middle, row.calls);
        tally.latency_ns += row.latency_ns;
        tally.missed_bytes += row.cached_bytes.unwrap_or(0);
        tally.ahead_bytes += row.ahead_bytes.unwrap_or(0);
        tally.bytes += row.bytes;
        if row.direct {
            tally.direct_bytes += row.bytes;
        }
        if matches!(does, Use::Read | Use::Write) {
            tally.runs.calls += row.calls;
            tally.runs.count += row.calls.saturating_sub(row.continued);
            tally.runs.bytes += row.bytes;
        }
        if let Some(file) = file {
            self.add_to_file(context, file, row.calls, row.bytes, does);
        }
    }

    fn add_to_file(&mut self, context: u32, file: u32, calls: u64, bytes: u64, does: Use) {
        let file_use = &mut self.files.files[file as usize];
        match does {
            Use::Write => file_use.written_bytes += bytes,
            Use::Read | Use::Sync => file_use.read_bytes += bytes,
            Use::Map => {}
        }
        file_use.calls += if does == Use::Map { 0 } else { calls };
        let tally = &mut self.tallies[context as usize];
        if file_use.is_in_memory() {
            tally.in_memory_bytes += bytes;
        }
        *tally.files.entry(file).or_default() += bytes;
    }

    pub(crate) fn finish(
        mut self,
        trace: &Trace,
        thresholds: &Thresholds,
    ) -> Result<FileIo, TraceError> {
        self.close();
        let (is_single, cache_unseen) = (!self.summed, self.cache_unseen);
        let beyond_bytes = self.pages.beyond_bytes();
        let beyond = self.who.paths_beyond();
        let thresholds = &thresholds.for_memory_of(trace.meta());
        let stacks = self.tallies.iter().flat_map(|tally| &tally.stacks);
        let wanted: HashSet<u32, RandomState> = stacks.copied().collect();
        let frames = FramePaths::read(trace, &wanted)?;
        let by_path = self.merge(&frames);
        let call_paths = by_path.len() as u64;
        let mut contexts = Vec::new();
        for ((names, does), kinds) in by_path {
            let make = |tally: Tally| {
                let known = Known {
                    reuse: is_single && tally.fate.beyond == 0,
                    cache: !cache_unseen,
                };
                context(tally, does, &frames, &names, known, thresholds)
            };
            let parts = parts_of_path(kinds, &make, thresholds.advise_bytes);
            contexts.extend(parts.into_iter().map(|part| (names.clone(), part)));
        }
        contexts.sort_by(|(names, one), (other_names, other)| {
            (other.bytes, other.calls, names).cmp(&(one.bytes, one.calls, other_names))
        });
        let contexts = contexts.into_iter().map(|(_, context)| context);
        let mut contexts: Vec<IoContext> = contexts.collect();
        drop_what_is_paid_for(&mut contexts, thresholds);
        let mut io = FileIo {
            contexts,
            call_paths,
            files: self.files.files,
            summed: self.summed,
            evicted_bytes: self.evicted_bytes.filter(|_| is_single),
            cache_unseen,
            paths_beyond: beyond as u64,
            beyond_bytes,
            ..FileIo::default()
        };
        io.connect();
        Ok(io)
    }

    /// Ends what is under way, and gives contexts what became of their pages.
    fn close(&mut self) {
        let mut ended = |run| add_run(&mut self.tallies, &self.files.files, &run);
        self.open.close(&mut ended);
        let (runs, files) = (&mut self.runs_by_mapping, &self.files.files);
        let mut ended = |run| add_run_by_mapping(runs, files, &run);
        self.open_by_mapping.close(&mut ended);
        let shares = self.pages.finish();
        if !self.summed {
            for (number, file) in self.files.files.iter_mut().enumerate() {
                let number = number as u32;
                let shares = shares.get(&number).copied().unwrap_or_default();
                let known = |pages: u64| (!self.pages.is_cut(number)).then_some(pages * PAGE);
                file.distinct_read_bytes = known(shares.read);
                file.read_again_bytes = known(shares.read_again);
            }
        }
        let all = self.who.all();
        let mut calling: HashMap<Option<u32>, u32, RandomState> = HashMap::default();
        for &(who, stack) in &all {
            for context in self.of_calls(who) {
                calling.entry(stack).or_insert(context);
            }
        }
        let mut orphans = Vec::new();
        for (who, stack) in all {
            let fate = self.pages.fate(who);
            let of_calls = self.of_calls(who);
            for (place, &context) in of_calls.iter().enumerate() {
                // A transfer reads and writes: what it cached counts once.
                let cached = if place == 0 {
                    fate
                } else {
                    fate.without_cached()
                };
                self.tallies[context as usize].fate = cached;
            }
            if !of_calls.is_empty() || fate.cached + fate.beyond == 0 {
                continue;
            }
            if let Some(&context) = calling.get(&stack) {
                // Pages of one file came with a call on another.
                orphans.push((context, fate));
            } else {
                let context = self.tally_of(who, stack, Use::Map);
                let tally = &mut self.tallies[context as usize];
                tally.fate = fate;
                tally.runs = self.runs_by_mapping.remove(&who).unwrap_or_default();
                let files = self.cached.iter().filter(|((by, _), _)| *by == who);
                tally.bytes = (fate.cached + fate.beyond) * PAGE;
                tally.files = files.map(|(&(_, file), &bytes)| (file, bytes)).collect();
            }
        }
        for (context, fate) in orphans {
            self.tallies[context as usize].fate.add(fate);
        }
    }

    /// What a path and kind of files has calls in, of each direction one.
    fn of_calls(&self, who: Who) -> Vec<u32> {
        let directions = [Use::Read, Use::Write].into_iter();
        let found = directions.filter_map(|does| self.contexts.get(&(who, does)));
        found.copied().collect()
    }

    /// Call paths that read alike are one, however deep a recursion was; what each does to files of each kind.
    fn merge(&mut self, frames: &FramePaths) -> Vec<OfPath> {
        let mut merged: BTreeMap<(Vec<u32>, Use), BTreeMap<Kind, Tally>> = BTreeMap::new();
        let is_same = |one, other| frames.are_of_one_function(one, other);
        for ((_, does), context) in std::mem::take(&mut self.contexts) {
            let tally = std::mem::take(&mut self.tallies[context as usize]);
            let names = tally
                .stacks
                .first()
                .map_or(&[][..], |stack| frames.numbers(*stack));
            let kinds = tally.files.keys().map(|&file| self.files.kind(Some(file)));
            let kind = kinds.min().unwrap_or(UNNAMED);
            let of_path = merged.entry((without_recursion(names, &is_same), does));
            of_path.or_default().entry(kind).or_default().add(tally);
        }
        let merged = merged.into_iter();
        merged
            .map(|(path, kinds)| (path, kinds.into_values().collect()))
            .collect()
    }
}

/// One context; or one for each class, where it would help some of the files that the path uses, and be wrong for others: `least` bytes of either.
/// Kinds of files of fewer bytes are looked at together.
fn parts_of_path(
    kinds: Vec<Tally>,
    make: &impl Fn(Tally) -> IoContext,
    least: u64,
) -> Vec<IoContext> {
    let mut whole = Tally::default();
    for kind in &kinds {
        whole.add(kind.clone());
    }
    let whole = make(whole);
    let is_few = kinds.iter().filter(|kind| kind.bytes >= least).count() == 0;
    if kinds.len() == 1 || is_few || !matches!(whole.does, Use::Read | Use::Write) {
        return vec![whole];
    }
    let (large, small): (Vec<Tally>, Vec<Tally>) =
        kinds.into_iter().partition(|kind| kind.bytes >= least);
    let rest = small.into_iter().reduce(|mut rest, kind| {
        rest.add(kind);
        rest
    });
    let mut parts: Vec<(Vec<Class>, Tally)> = Vec::new();
    for kind in large.into_iter().chain(rest) {
        let classes = make(kind.clone()).classes;
        match parts.iter_mut().find(|(known, _)| *known == classes) {
            Some((_, part)) => part.add(kind),
            None => parts.push((classes, kind)),
        }
    }
    let parts: Vec<IoContext> = parts.into_iter().map(|(_, part)| make(part)).collect();
    let differs = |part: &IoContext| part.bytes >= least && is_acting(part) != is_acting(&whole);
    if !parts.iter().any(differs) {
        return vec![whole];
    }
    let by_files = |part| IoContext {
        is_by_files: true,
        ..part
    };
    parts.into_iter().map(by_files).collect()
}

/// Whether anything is said to the kernel for it.
fn is_acting(context: &IoContext) -> bool {
    !matches!(
        context.advice,
        Advice::Keep | Advice::KeepResident | Advice::Nothing(_)
    )
}

fn is_request(call: IoCallKind) -> bool {
    matches!(
        call,
        IoCallKind::UringRead | IoCallKind::UringWrite | IoCallKind::UringSync
    )
}

/// Gives a run that has ended to the contexts that take part in it.
fn add_run(tallies: &mut [Tally], files: &[FileUse], run: &ClosedRun) {
    let size = Some(files[run.file() as usize].bytes);
    for (context, bytes) in run.parts() {
        run.add_to(&mut tallies[context as usize].runs, bytes, size);
    }
}

fn add_run_by_mapping(
    runs: &mut HashMap<Who, Runs, RandomState>,
    files: &[FileUse],
    run: &ClosedRun,
) {
    let size = Some(files[run.file() as usize].bytes);
    for (who, bytes) in run.parts() {
        if let Ok(who) = Who::try_from(who) {
            run.add_to(runs.entry(who).or_default(), bytes, size);
        }
    }
}

/// The longest repetition that is recognized, in frames: functions that call each other in turn.
const MOST_REPEATED: usize = 8;

/// A path with each stretch of functions that follows itself told once, by its innermost frames.
fn without_recursion(frames: &[u32], is_same: &impl Fn(u32, u32) -> bool) -> Vec<u32> {
    let mut folded: Vec<u32> = Vec::new();
    for &frame in frames {
        folded.push(frame);
        let is_repeated = |&length: &usize| {
            let (before, last) = folded.split_at(folded.len() - length);
            let mut pairs = before[before.len() - length..].iter().zip(last);
            pairs.all(|(&one, &other)| is_same(one, other))
        };
        let most = MOST_REPEATED.min(folded.len() / 2);
        if let Some(length) = (1..=most).find(is_repeated) {
            folded.truncate(folded.len() - length);
        }
    }
    folded
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.bytes += other.bytes;
        self.direct_bytes += other.direct_bytes;
        self.in_memory_bytes += other.in_memory_bytes;
        self.requested_bytes += other.requested_bytes;
        self.latency.add_all(&other.latency);
        self.latency_ns += other.latency_ns;
        self.missed_bytes += other.missed_bytes;
        self.ahead_bytes += other.ahead_bytes;
        self.runs.add_all(&other.runs);
        self.fate.add(other.fate);
        for (file, bytes) in other.files {
            *self.files.entry(file).or_default() += bytes;
        }
        self.stacks.extend(other.stacks);
    }
}

/// What a recording tells of a context.
#[derive(Clone, Copy)]
struct Known {
    /// What it uses again.
    reuse: bool,
    /// What came into the page cache and left it.
    cache: bool,
}

fn context(
    tally: Tally,
    does: Use,
    frames: &FramePaths,
    names: &[u32],
    is_known: Known,
    thresholds: &Thresholds,
) -> IoContext {
    let fate = tally.fate;
    let writes = does == Use::Write;
    // Of a path that uses files of several kinds, each kind has it.
    let mut stacks = tally.stacks;
    stacks.sort_unstable();
    stacks.dedup();
    let reuse = match does {
        Use::Read => Some(Reuse {
            bytes: fate.read * PAGE,
            again_bytes: fate.read_again * PAGE,
            again_cached_bytes: is_known.cache.then_some(fate.kept_read * PAGE),
        }),
        Use::Write => Some(Reuse {
            bytes: fate.written * PAGE,
            // What was read back and then written again counts for both.
            again_bytes: (fate.rewritten + fate.read_back).min(fate.written) * PAGE,
            again_cached_bytes: is_known
                .cache
                .then_some(fate.kept_written.min(fate.written) * PAGE),
        }),
        Use::Sync | Use::Map => None,
    };
    let reuse = reuse.filter(|_| is_known.reuse);
    let classes = thresholds.classes(&Evidence {
        calls: match does {
            Use::Map => tally.runs.calls,
            _ => tally.calls,
        },
        runs: &tally.runs,
        reuse,
        writes,
    });
    let is_followed = is_known.reuse && is_known.cache && does != Use::Sync;
    let known = |pages: u64| is_followed.then_some(pages * PAGE);
    let seen = |bytes: u64| is_known.cache.then_some(bytes);
    let unused = if writes { 0 } else { fate.unused };
    let unused_ahead = known(unused).filter(|_| does == Use::Read);
    let advice = match does {
        Use::Sync | Use::Map => Advice::Nothing(WhyNothing::NoUse),
        _ if tally.direct_bytes * 2 > tally.bytes => Advice::Nothing(WhyNothing::Direct),
        _ if tally.in_memory_bytes * 2 > tally.bytes => Advice::Nothing(WhyNothing::InMemory),
        _ => thresholds.advice(
            &classes,
            &Means {
                writes,
                buffered_bytes: tally.bytes - tally.direct_bytes,
                call_bytes: tally.bytes / (tally.calls - tally.failed).max(1),
                burst_bytes: tally.runs.sizes.quantile(0.5).map(whole_pages),
                ahead_bytes: seen(tally.ahead_bytes),
                unused_ahead_bytes: unused_ahead,
                missed_bytes: seen(tally.missed_bytes),
                latency_ns: tally.latency_ns,
                reuse,
            },
        ),
    };
    let mut files: Vec<(usize, u64)> = tally
        .files
        .into_iter()
        .map(|(file, bytes)| (file as usize, bytes))
        .collect();
    files.sort_by_key(|&(file, bytes)| (std::cmp::Reverse(bytes), file));
    let in_vain = if writes || does == Use::Map {
        fate.unused
    } else {
        fate.unused + fate.used_once
    };
    IoContext {
        stacks,
        frames: frames.frames(names),
        keys: Vec::new(),
        does,
        is_by_files: false,
        calls: tally.calls,
        failed: tally.failed,
        bytes: tally.bytes,
        direct_bytes: tally.direct_bytes,
        in_memory_bytes: tally.in_memory_bytes,
        requested_bytes: tally.requested_bytes,
        latency: tally.latency,
        latency_ns: tally.latency_ns,
        missed_bytes: seen(tally.missed_bytes),
        ahead_bytes: seen(tally.ahead_bytes),
        // What uses a mapping is not seen.
        in_vain_bytes: known(in_vain).filter(|_| does != Use::Map),
        unused_ahead_bytes: unused_ahead,
        refaulted_bytes: known(fate.refaulted),
        runs: tally.runs,
        reuse,
        files,
        classes,
        advice,
    }
}

/// The middle of a bucket is a little more than what all that is in it may have been.
fn whole_pages(bytes: u64) -> u64 {
    (bytes / PAGE * PAGE).max(bytes.min(PAGE))
}

impl FileIo {
    /// Sums, and which contexts each file has.
    fn connect(&mut self) {
        for (index, context) in self.contexts.iter().enumerate() {
            if context.does != Use::Map {
                self.calls += context.calls;
            }
            match context.does {
                Use::Read => self.read_bytes += context.bytes,
                Use::Write => self.written_bytes += context.bytes,
                Use::Sync | Use::Map => {}
            }
            for &(file, bytes) in &context.files {
                self.files[file].contexts.push((index, bytes));
            }
        }
        let contexts = &self.contexts;
        for file in &mut self.files {
            file.heat.cut();
            file.contexts
                .sort_by_key(|&(context, bytes)| (std::cmp::Reverse(bytes), context));
            let all = file.read_bytes + file.written_bytes;
            let heavy = file
                .contexts
                .iter()
                .filter(|(_, bytes)| *bytes > 0 && *bytes as f64 >= all as f64 * GOOD_PART);
            let wishes: HashSet<&[Class]> = heavy
                .map(|(context, _)| &contexts[*context])
                .filter(|context| context.does == Use::Read && !context.classes.is_empty())
                .map(|context| context.classes.as_slice())
                .collect();
            file.contexts_disagree = wishes.len() > 1;
        }
        self.sort_files();
    }

    fn sort_files(&mut self) {
        let mut order: Vec<usize> = (0..self.files.len()).collect();
        let moved = |file: &FileUse| file.read_bytes + file.written_bytes;
        order.sort_by_key(|&file| (std::cmp::Reverse(moved(&self.files[file])), file));
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old] = new;
        }
        let mut files: Vec<_> = std::mem::take(&mut self.files)
            .into_iter()
            .map(Some)
            .collect();
        self.files = order.iter().filter_map(|&old| files[old].take()).collect();
        for context in &mut self.contexts {
            for (file, _) in &mut context.files {
                *file = place[*file];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;
    use super::whole_pages;
    use super::without_recursion;

    #[test]
    fn the_usual_length_of_bursts_is_told_in_pages() {
        for bytes in [4096, 16384, 65536, 69632] {
            let mut sizes = Histogram::default();
            sizes.add_many(bytes, 9);
            assert_eq!(sizes.quantile(0.5).map(whole_pages), Some(bytes));
        }
        assert_eq!(whole_pages(100), 100, "and no burst is of no length");
    }

    #[test]
    fn what_follows_itself_is_told_once() {
        for (path, expected) in [
            (&[][..], &[][..]),
            (&[1, 2, 3], &[1, 2, 3]),
            (&[1, 2, 2, 2, 2, 3], &[1, 2, 3]),
            (&[1, 2, 3, 2, 3, 2, 3, 4], &[1, 2, 3, 4]),
            (&[1, 2, 3, 2, 4], &[1, 2, 3, 2, 4]),
            (&[5, 5, 6, 5, 5, 6, 7], &[5, 6, 7]),
            // Two places of the function 2: that of the innermost call stays.
            (&[1, 20, 2, 2, 20, 3], &[1, 20, 3]),
        ] {
            let function = |frame| if frame == 20 { 2 } else { frame };
            let is_same = |one, other| function(one) == function(other);
            assert_eq!(without_recursion(path, &is_same), expected, "{path:?}");
        }
    }
}
