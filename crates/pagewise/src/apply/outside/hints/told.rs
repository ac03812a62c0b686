//! How open files read ahead: told, given back, and left to a program that says so itself.

use std::collections::BTreeSet;

use pagewise_abi::status::OfIo;
use pagewise_collect::io_record::FileCall;
use pagewise_collect::io_record::ReadsAhead;
use pagewise_host::Ticket;
use pagewise_host::UndoAction;
use pagewise_host::family::share_open_file;
use pagewise_host::open_file;
use pagewise_host::open_file::MeantFile;
use rustix::fs::Advice;

use super::Hints;
use crate::apply::outside::files::Place;

/// Processes that are asked whether they have an open file of one that has ended, and descriptors whether they mean the same one.
const MOST_HEIRS: usize = 64;

/// What an open file was told.
pub(super) struct Told {
    pub(super) file: u32,
    reads_ahead: ReadsAhead,
    /// What the keeper was told of it.
    ticket: Option<Ticket>,
    /// Calls that began before then do not know of it.
    time_ns: u64,
}

impl Hints<'_> {
    pub(super) fn tell(
        &mut self,
        place: Place,
        file: u32,
        call: &FileCall,
        index: usize,
        wanted: ReadsAhead,
    ) {
        if call.reads_ahead != ReadsAhead::AsUsual {
            self.files.shown(file);
        } else if !self.own.is_empty() {
            // Opened anew, or left to the kernel again.
            self.own.remove(&(place, file));
        }
        let place = self.told_by(place, file, call);
        let told = self.told.get(&place).filter(|told| told.file == file);
        let is_too_old = told.is_some_and(|told| call.time_ns < told.time_ns);
        if is_too_old || call.reads_ahead == wanted {
            return;
        }
        let is_ours = told.is_some_and(|told| told.reads_ahead == call.reads_ahead);
        if call.reads_ahead != ReadsAhead::AsUsual && !is_ours {
            if self.own.insert((place, file)) {
                self.words.add_to_io(index, OfIo::TakenOver, 1);
            }
            return;
        }
        let Some(known) = self.files.get(file) else {
            return;
        };
        let meant = known.meant;
        if !known.shows_reading_ahead() {
            return;
        }
        let is_unseen = call.reads_ahead == ReadsAhead::AsUsual
            && told.is_some_and(|told| told.reads_ahead != ReadsAhead::AsUsual);
        if is_unseen && self.files.is_never_shown(file) {
            self.words.add_to_io(index, OfIo::Hintless, 1);
            return self.take_back(place, file);
        }
        match self.files.take(place, meant) {
            Ok(open) => {
                let Ok(ticket) = self.promise(place, meant, wanted) else {
                    return;
                };
                if self.advise(&open, index, 0..0, advice(wanted)) {
                    let now = Told {
                        file,
                        reads_ahead: wanted,
                        ticket,
                        time_ns: now_ns(),
                    };
                    let before = self.told.insert(place, now);
                    self.is_over(before.and_then(|told| told.ticket));
                } else {
                    self.is_over(ticket);
                }
            }
            Err(missed) => self.missed(index, missed),
        }
    }

    /// By which descriptor the open file of a call was told what it shows: perhaps by another one, which was duplicated or inherited. Else by
    /// its own, if at all.
    fn told_by(&self, place: Place, file: u32, call: &FileCall) -> Place {
        let is_told = |told: &Told| told.file == file && told.reads_ahead == call.reads_ahead;
        if call.reads_ahead == ReadsAhead::AsUsual
            || self.told.get(&place).is_some_and(is_told)
            || self.own.contains(&(place, file))
        {
            return place;
        }
        let others = self.told.iter().filter(|(_, told)| is_told(told));
        let mut others = others.map(|(&other, _)| other).take(MOST_HEIRS);
        let same = others.find(|&other| {
            let number = |place: Place| (place.pid, place.descriptor);
            share_open_file(number(place), number(other)) == Some(true)
        });
        same.unwrap_or(place)
    }

    /// A call that no rule is about uses an open file that we have told something.
    pub(super) fn give_back(&mut self, place: Place, file: u32, call: &FileCall) {
        let place = self.told_by(place, file, call);
        let is_ours = |told: &Told| {
            told.file == file
                && told.time_ns <= call.time_ns
                && told.reads_ahead == call.reads_ahead
                && told.reads_ahead != ReadsAhead::AsUsual
        };
        if self.told.get(&place).is_some_and(is_ours) {
            self.take_back(place, file);
        }
    }

    /// Tells the keeper, before anything is told to the open file: were we killed, it would take that back. Err: it is gone.
    fn promise(
        &mut self,
        place: Place,
        meant: MeantFile,
        wanted: ReadsAhead,
    ) -> Result<Option<Ticket>, ()> {
        let start_ns = self.files.start_ns(place.pid);
        match (&mut self.restorer, start_ns) {
            (Some(restorer), Some(start_ns)) if wanted != ReadsAhead::AsUsual => {
                let action = UndoAction::ReadAsUsual {
                    pid: place.pid,
                    start_ns,
                    descriptor: place.descriptor,
                    device: meant.identity.device,
                    inode: meant.identity.inode,
                };
                restorer.push(action).map(Some).map_err(drop)
            }
            _ => Ok(None),
        }
    }

    /// What was promised is done, or not needed any more.
    fn is_over(&mut self, ticket: Option<Ticket>) {
        if let (Some(restorer), Some(ticket)) = (&mut self.restorer, ticket) {
            restorer.forget(ticket);
        }
    }

    /// A process has ended. An open file that it had from its parent, or has left to a child, is as it was told to be: whoever
    /// has it is answerable for it now. That it is the same open file, and not another one of the same file by the same
    /// number, cannot be asked any more; then the worst is that this one reads ahead as usual in the end.
    pub(super) fn pass_on(&mut self, pid: u32, live: &BTreeSet<u32>) {
        let of_it = self.told.extract_if(|place, _| place.pid == pid);
        let of_it: Vec<(Place, Told)> = of_it.collect();
        for (place, mut told) in of_it {
            self.is_over(told.ticket.take());
            let Some(meant) = self.files.get(told.file).map(|known| known.meant) else {
                continue;
            };
            if told.reads_ahead == ReadsAhead::AsUsual {
                continue;
            }
            // Parents have the lower numbers, mostly.
            let heirs = live.iter().take(MOST_HEIRS);
            let mut heirs = heirs.map(|&pid| Place { pid, ..place });
            if let Some(heir) = heirs.find(|&heir| self.files.take(heir, meant).is_ok())
                && is_free(self.told.get(&heir), &told)
                && let Ok(ticket) = self.promise(heir, meant, told.reads_ahead)
            {
                told.ticket = ticket;
                let before = self.told.insert(heir, told);
                self.is_over(before.and_then(|told| told.ticket));
            }
        }
    }

    pub(super) fn take_back(&mut self, place: Place, file: u32) {
        let Some(told) = self.told.remove(&place) else {
            return;
        };
        if told.reads_ahead != ReadsAhead::AsUsual
            && let Some(meant) = self.files.get(file).map(|known| known.meant)
            && let Ok(open) = self.files.take(place, meant)
        {
            // Whatever comes of it, it was the least that could be told.
            let _ = open_file::advise(&open, 0..0, Advice::Normal);
        }
        self.is_over(told.ticket);
    }
}

/// Nothing is told there that is about this file.
fn is_free(there: Option<&Told>, told: &Told) -> bool {
    there.is_none_or(|there| there.file != told.file)
}

fn advice(reads_ahead: ReadsAhead) -> Advice {
    match reads_ahead {
        ReadsAhead::AsUsual => Advice::Normal,
        ReadsAhead::Twice => Advice::Sequential,
        ReadsAhead::Not => Advice::Random,
    }
}

fn now_ns() -> u64 {
    crate::record::facts::Clocks::now().monotonic_ns
}
