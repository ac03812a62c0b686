//! From the calls of the processes to hints on their open files.

mod dropping;
mod told;

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Instant;

use pagewise_abi::bursts::Bursts;
use pagewise_abi::plan::PlanAction;
use pagewise_abi::plan::PlanReadahead;
use pagewise_abi::plan::PlanRule;
use pagewise_abi::plan::PlanView;
use pagewise_abi::regret::Regret;
use pagewise_abi::status::OfIo;
use pagewise_abi::status::WhyWithdrawn;
use pagewise_abi::worth::Worth;
use pagewise_collect::io_record::CacheChange;
use pagewise_collect::io_record::CacheEvent;
use pagewise_collect::io_record::Call;
use pagewise_collect::io_record::Direction;
use pagewise_collect::io_record::FileCall;
use pagewise_collect::io_record::ReadsAhead;
use pagewise_host::Restorer;
use pagewise_host::open_file;
use rustix::fs::Advice;

use self::dropping::REST;
use self::told::Told;
use super::files::Files;
use super::files::Missed;
use super::files::Place;
use super::pages::Behind;
use super::pages::PAGE;
use crate::apply::server::Words;

/// Bytes of a window of a trial of reading ahead, which has effects on the next calls, too.
const SEQUENTIAL_WINDOW: u64 = 64 << 20;

/// What is known of one file under one rule.
struct Use {
    behind: Behind,
    /// By which, and by which thread, it was used last.
    place: Place,
    thread: u32,
    last: Instant,
    /// By which another one had used it last, and when.
    another: Option<(Place, Instant)>,
    /// Its process has ended: how often it is still looked at.
    rests_left: Option<u8>,
    bursts: Bursts,
}

/// Counted besides the words of the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Late {
    /// Hints for open files that were closed by then.
    pub(super) closed: u64,
    /// Hints for descriptors that meant another file by then.
    pub(super) another: u64,
}

pub(super) struct Hints<'plan> {
    view: PlanView<'plan>,
    pub(super) files: Files,
    pub(super) words: Words,
    pub(super) late: Late,
    told: HashMap<Place, Told>,
    /// Takes back what was told should we be killed; `None`: no rule tells anything.
    pub(super) restorer: Option<Restorer>,
    uses: HashMap<(u32, usize), Use>,
    trials: HashMap<usize, Worth>,
    /// Rules that drop.
    drops: Vec<usize>,
    counted: HashSet<(u32, usize)>,
    /// Open files that the program advises itself.
    own: HashSet<(Place, u32)>,
    withdrawn: u64,
    regret: Box<Regret>,
    /// Rules beside whose dropping files read ahead as usual again.
    read_as_usual: u64,
    /// Used since the last time that pages were dropped.
    touched: BTreeSet<(u32, usize)>,
}

impl<'plan> Hints<'plan> {
    pub(super) fn new(view: PlanView<'plan>) -> Self {
        let trials = (0..view.rules()).filter_map(|index| Some((index, trial(&view, index)?)));
        let is_drop = |&index: &usize| view.action(&view.rule(index)) == PlanAction::IoDrop;
        let drops = (0..view.rules()).filter(is_drop);
        Self {
            trials: trials.collect(),
            drops: drops.collect(),
            view,
            files: Files::default(),
            words: Words::none(),
            late: Late::default(),
            told: HashMap::new(),
            restorer: None,
            uses: HashMap::new(),
            counted: HashSet::new(),
            own: HashSet::new(),
            withdrawn: 0,
            regret: Box::new(Regret::NONE),
            read_as_usual: 0,
            touched: BTreeSet::new(),
        }
    }

    /// A call of a process, whose path these rules match, a bit each.
    pub(super) fn call(&mut self, call: &FileCall, pid: u32, matching: u64) {
        let (Some(file), Some(descriptor)) = (call.file, call.descriptor) else {
            return;
        };
        let (file, place) = (self.files.number(file), Place { pid, descriptor });
        let Some(known) = self.files.get(file) else {
            return;
        };
        let has_cache = known.has_cache && !call.direct;
        let tells_cached = known.tells_cached;
        let shows_reading_ahead = known.shows_reading_ahead();
        let accepted = matching & known.accepted_by;
        let rules = (0..self.view.rules()).filter(|index| accepted >> index & 1 == 1);
        // The longest path; of equals, the one that names its files.
        let rule = rules.max_by_key(|&index| {
            let rule = self.view.rule(index);
            (rule.frames, rule.pattern > 0)
        });
        let Some(index) = rule else {
            return self.give_back(place, file, call);
        };
        let moves = !matches!(call.call, Call::Fsync | Call::Fdatasync);
        let bytes = call.result.unwrap_or(0);
        let rule = self.view.rule(index);
        let action = self.view.action(&rule);
        let takes_hints = has_cache
            && match action {
                PlanAction::IoReadahead => shows_reading_ahead,
                PlanAction::IoDrop => tells_cached,
                _ => true,
            };
        if self.counted.insert((file, index)) {
            let word = if takes_hints {
                OfIo::Files
            } else {
                OfIo::Hintless
            };
            self.words.add_to_io(index, word, 1);
        }
        self.words.add_to_io(index, OfIo::Calls, u64::from(moves));
        self.words
            .add_to_io(index, OfIo::Bytes, if moves { bytes } else { 0 });
        if !takes_hints || self.withdrawn >> index & 1 == 1 || action == PlanAction::IoNothing {
            return self.give_back(place, file, call);
        }
        let wanted = self.wanted(&rule, index, call, (bytes, shows_reading_ahead));
        self.tell(place, file, call, index, wanted);
        if let Some(offset) = call.offset.filter(|_| moves) {
            let range = offset..offset.saturating_add(bytes);
            self.follow(place, file, index, &range, call);
        }
        let is_read = moves && call.direction == Direction::FromFile;
        if action == PlanAction::IoDrop
            && is_read
            && call.result == Ok(0)
            && let Some(end) = self.end_reached(place, file, call)
        {
            // Whoever goes on reading begins anew.
            self.drop_to_end(file, index, end);
        }
    }

    /// Where the file ends, if there was nothing more to read, and not only nothing asked for.
    fn end_reached(&mut self, place: Place, file: u32, call: &FileCall) -> Option<u64> {
        let open = self.files.open(place, file).ok()?;
        let end = u64::try_from(rustix::fs::fstat(&open).ok()?.st_size).ok()?;
        (call.offset? >= end).then_some(end)
    }

    /// Follows where the calls are.
    fn follow(
        &mut self,
        place: Place,
        file: u32,
        index: usize,
        range: &Range<u64>,
        call: &FileCall,
    ) {
        let rule = self.view.rule(index);
        let used = self
            .uses
            .entry((file, index))
            .or_insert_with(|| Use::new(place));
        used.by(place, call.tid);
        match self.view.action(&rule) {
            PlanAction::IoDrop => {
                let is_write = call.direction == Direction::ToFile;
                let dirty = used.behind.used(range, is_write);
                self.touched.insert((file, index));
                self.write_back(place, file, index, &dirty);
            }
            PlanAction::IoWillNeed => {
                let is_begin = !used.bursts.goes_on_at(range.start);
                used.bursts.moved(call.tid, range);
                let is_given = self.trials.get(&index).is_none_or(Worth::gives)
                    && !self.own.contains(&(place, file));
                let rest = range.end..range.start.saturating_add(rule.chunk_bytes);
                if is_begin && is_given && !rest.is_empty() {
                    self.ask_for(place, file, index, rest);
                }
            }
            _ => {}
        }
    }

    /// Pages of a file came or went. Those that come are by a path that these rules match.
    pub(super) fn cache(&mut self, change: &CacheChange, pid: Option<u32>, matching: u64) {
        let Some(file) = change.file else { return };
        let file = self.files.number(file);
        let range = change.offset..change.offset + change.bytes;
        if change.what != CacheEvent::Added {
            for &index in &self.drops {
                if let Some(used) = self.uses.get_mut(&(file, index)) {
                    used.behind.gone(&range);
                }
            }
            return;
        }
        let known = self.files.get(file).filter(|known| known.tells_cached);
        let accepted = matching & known.map_or(0, |known| known.accepted_by);
        for index in (0..self.view.rules()).filter(|index| accepted >> index & 1 == 1) {
            let rule = self.view.rule(index);
            if self.view.action(&rule) == PlanAction::IoDrop
                && let Some(pid) = pid
            {
                let nowhere = Place {
                    pid,
                    descriptor: u32::MAX,
                };
                let used = self.uses.entry((file, index));
                used.or_insert_with(|| Use::new(nowhere))
                    .behind
                    .added(&range);
            }
        }
    }

    /// How the open file shall read ahead from now on, after a call of so many bytes on one that shows it, or does not.
    fn wanted(
        &mut self,
        rule: &PlanRule,
        index: usize,
        call: &FileCall,
        (bytes, shows): (u64, bool),
    ) -> ReadsAhead {
        let is_left = self.read_as_usual >> index & 1 == 0;
        let advised = match self.view.readahead(rule).filter(|_| is_left && shows) {
            Some(PlanReadahead::Sequential) => ReadsAhead::Twice,
            Some(PlanReadahead::Random) => ReadsAhead::Not,
            Some(PlanReadahead::Normal) | None => ReadsAhead::AsUsual,
        };
        let has_effect = shows || self.view.action(rule) == PlanAction::IoWillNeed;
        let Some(trial) = self.trials.get_mut(&index).filter(|_| has_effect) else {
            return advised;
        };
        let now = if trial.gives() {
            advised
        } else {
            ReadsAhead::AsUsual
        };
        // A call that began before the hint had come is measured as neither.
        if call.reads_ahead == now {
            let device = call.cached_bytes + call.ahead_bytes;
            if let Some(verdict) = trial.note(call.latency_ns, device, bytes) {
                let thousandths = (verdict.ratio * 1000.0).clamp(1.0, 1e9) as u64;
                self.words.set_of_io(index, OfIo::Ratio, thousandths);
                if !verdict.is_worth_it {
                    self.end_reading_ahead(rule, index);
                    return ReadsAhead::AsUsual;
                }
            }
        }
        let gives = self.trials.get(&index).is_none_or(Worth::gives);
        if gives { advised } else { ReadsAhead::AsUsual }
    }

    /// How the rule lets files read ahead was of no use: what it drops besides it goes on to drop.
    fn end_reading_ahead(&mut self, rule: &PlanRule, index: usize) {
        if self.view.action(rule) == PlanAction::IoDrop {
            self.trials.remove(&index);
            self.read_as_usual |= 1 << index;
            self.words.set_of_io(index, OfIo::ReadsAsUsual, 1);
        } else {
            self.withdraw(index, WhyWithdrawn::NoGain);
        }
    }

    fn ask_for(&mut self, place: Place, file: u32, index: usize, range: Range<u64>) {
        match self.files.open(place, file) {
            Ok(open) => {
                // It may have been truncated meanwhile. Of nothing the kernel would make all the rest.
                let end = range.end.min(open_file::length(&open).unwrap_or(range.end));
                let pages = end.saturating_sub(range.start).div_ceil(PAGE);
                if pages > 0 && self.advise(&open, index, range.start..end, Advice::WillNeed) {
                    self.words.add_to_io(index, OfIo::Asked, pages);
                }
            }
            Err(missed) => self.missed(index, missed),
        }
    }

    /// A process has ended: what it brought in goes, and its descriptors mean nothing any more.
    pub(super) fn ended(&mut self, pid: u32, live: &BTreeSet<u32>) {
        let uses = self.uses.iter().filter(|(_, used)| used.place.pid == pid);
        let uses: Vec<(u32, usize)> = uses.map(|(&key, _)| key).collect();
        for (file, index) in uses {
            self.leave(file, index, live);
        }
        self.pass_on(pid, live);
        self.own.retain(|(place, _)| place.pid != pid);
        self.files.forget_process(pid);
    }

    /// The processes go on without us: what was told of their open files is taken back, what they have used goes.
    pub(super) fn finish(&mut self) {
        let told = self.told.iter().map(|(&place, told)| (place, told.file));
        for (place, file) in told.collect::<Vec<_>>() {
            self.take_back(place, file);
        }
        self.drop_last();
    }

    fn advise(&mut self, open: &OwnedFd, index: usize, range: Range<u64>, advice: Advice) -> bool {
        match open_file::advise(open, range, advice) {
            Ok(()) => self.words.add_to_io(index, OfIo::Hints, 1),
            Err(errno) => {
                self.words.refused_io(index, errno.raw_os_error());
                return false;
            }
        }
        true
    }

    fn missed(&mut self, index: usize, missed: Missed) {
        match missed {
            Missed::Closed => self.late.closed += 1,
            Missed::Another => self.late.another += 1,
            Missed::Refused(errno) => self.words.refused_io(index, errno.raw_os_error()),
        }
    }

    fn withdraw(&mut self, index: usize, why: WhyWithdrawn) {
        self.withdrawn |= 1 << index;
        self.words.set_of_io(index, OfIo::Withdrawn, why as u64);
    }
}

impl Use {
    /// A thread uses it now.
    fn by(&mut self, place: Place, thread: u32) {
        if (place, thread) != (self.place, self.thread) && self.thread != 0 {
            self.another = Some((self.place, self.last));
        }
        (self.place, self.thread, self.last) = (place, thread, Instant::now());
        self.rests_left = None;
    }

    /// By which another one than the last has used it a moment ago: what is read ahead may be for that one.
    fn shared_with(&self) -> Option<Place> {
        let (place, last) = self.another?;
        (last.elapsed() < REST).then_some(place)
    }

    fn new(place: Place) -> Self {
        Self {
            behind: Behind::default(),
            place,
            thread: 0,
            last: Instant::now(),
            another: None,
            rests_left: None,
            bursts: Bursts::NONE,
        }
    }
}

/// The trial of a rule; `None`: its effect is looked at otherwise.
fn trial(view: &PlanView<'_>, index: usize) -> Option<Worth> {
    let rule = view.rule(index);
    match (view.action(&rule), view.readahead(&rule)) {
        (PlanAction::IoWillNeed, _) | (PlanAction::IoReadahead, Some(PlanReadahead::Random)) => {
            Some(Worth::new(0))
        }
        (PlanAction::IoReadahead, Some(PlanReadahead::Sequential))
        | (PlanAction::IoDrop, Some(PlanReadahead::Sequential | PlanReadahead::Random)) => {
            Some(Worth::new(SEQUENTIAL_WINDOW))
        }
        _ => None,
    }
}
