//! How open files read ahead: told, given back, and left to a program that says so itself.

use pagewise_abi::status::OfIo;
use pagewise_collect::io_record::FileCall;
use pagewise_collect::io_record::ReadsAhead;
use pagewise_host::open_file;
use rustix::fs::Advice;

use super::Hints;
use crate::apply::outside::files::Place;

/// What an open file was told.
pub(super) struct Told {
    pub(super) file: u32,
    reads_ahead: ReadsAhead,
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
        let meant = known.identity;
        match self.files.take(place, meant) {
            Ok(open) => {
                if self.advise(&open, index, 0..0, advice(wanted)) {
                    let time_ns = now_ns();
                    self.told.insert(
                        place,
                        Told {
                            file,
                            reads_ahead: wanted,
                            time_ns,
                        },
                    );
                }
            }
            Err(missed) => self.missed(index, missed),
        }
    }

    /// A call that no rule is about uses an open file that we have told something.
    pub(super) fn give_back(&mut self, place: Place, file: u32, call: &FileCall) {
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

    pub(super) fn take_back(&mut self, place: Place, file: u32) {
        let told = self.told.remove(&place);
        if told.is_some_and(|told| told.reads_ahead != ReadsAhead::AsUsual)
            && let Some(meant) = self.files.get(file).map(|known| known.identity)
            && let Ok(open) = self.files.take(place, meant)
        {
            // Whatever comes of it, it was the least that could be told.
            let _ = open_file::advise(&open, 0..0, Advice::Normal);
        }
    }
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
