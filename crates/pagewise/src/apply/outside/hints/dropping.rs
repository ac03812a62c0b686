//! What the calls of a rule brought into the page cache is dropped behind them, and nothing else.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use pagewise_abi::regret::Drop;
use pagewise_abi::status::OfIo;
use pagewise_abi::status::WhyWithdrawn;
use pagewise_host::open_file;
use pagewise_host::open_file::OnTheWay;
use rustix::fs::Advice;

use super::Hints;
use super::Use;
use crate::apply::outside::files::Place;
use crate::apply::outside::pages::CHUNK;
use crate::apply::outside::pages::PAGE;
use crate::apply::outside::pages::Passed;

/// Pages that must have been dropped in vain until a hint is withdrawn.
const IN_VAIN: u64 = 8 * CHUNK / PAGE;
/// Chunks that were written are looked at so many at a time: the calls go on meanwhile.
const AT_ONCE: usize = 16;
/// A file that was not used for so long is at rest.
pub(super) const REST: Duration = Duration::from_secs(1);
/// What an ended process has written has so many of these to get to the disk: a slow one writes for a while.
const RESTS_OF_ENDED: u8 = 30;
/// At our own end, this often is looked whether it has.
const LAST_TURNS: u32 = 20;
const LAST_TURN: Duration = Duration::from_millis(50);

impl Hints<'_> {
    pub(super) fn write_back(
        &mut self,
        place: Place,
        file: u32,
        index: usize,
        dirty: &[Range<u64>],
    ) {
        if dirty.is_empty() {
            return;
        }
        match self.files.open(place, file) {
            Ok(open) => {
                for range in dirty {
                    if let Err(errno) = open_file::write_back(&open, range.clone()) {
                        self.words.refused_io(index, errno.raw_os_error());
                    }
                }
            }
            Err(missed) => self.missed(index, missed),
        }
    }

    /// Drops what lies behind the calls that were told of since the last time.
    pub(in crate::apply::outside) fn drop_passed(&mut self) {
        for (file, index) in std::mem::take(&mut self.touched) {
            let used = self.uses.get_mut(&(file, index));
            if let Some(used) = used {
                let (place, passed) = (used.place, used.behind.take_passed());
                self.drop_these(place, file, index, &passed);
                self.drop_written(place, file, index);
            }
        }
    }

    /// Drops what was written and is on the disk by now, in the order of writing.
    fn drop_written(&mut self, place: Place, file: u32, index: usize) {
        let waits = self.uses.get(&(file, index));
        if waits.is_none_or(|used| used.behind.oldest_written().is_none())
            || self.withdrawn >> index & 1 == 1
        {
            return;
        }
        let open = match self.files.open(place, file) {
            Ok(open) => open,
            Err(missed) => {
                // Nobody asks for that one again.
                let used = self.uses.get_mut(&(file, index));
                used.and_then(|used| used.behind.take_oldest_written());
                return self.missed(index, missed);
            }
        };
        for _ in 0..AT_ONCE {
            let Some(used) = self.uses.get_mut(&(file, index)) else {
                return;
            };
            let Some(range) = used.behind.oldest_written() else {
                return;
            };
            match open_file::on_the_way(&open, range.clone()).unwrap_or_default() {
                OnTheWay {
                    changed: 0,
                    under_way: 0,
                } => {
                    let passed = used.behind.take_oldest_written();
                    self.drop_each(&open, file, index, passed.iter());
                }
                // What comes after it waits, too.
                OnTheWay { changed: 0, .. } => return,
                OnTheWay { .. } => {
                    used.behind.postpone_oldest_written();
                    self.write_back(place, file, index, &[range]);
                }
            }
        }
    }

    /// Once a second: drops what was used of files that are at rest.
    pub(in crate::apply::outside) fn rest(&mut self) {
        let is_at_rest = |used: &Use| used.last.elapsed() >= REST && !used.behind.is_empty();
        let resting = self.uses.iter().filter(|(_, used)| is_at_rest(used));
        let resting: Vec<(u32, usize)> = resting.map(|(&key, _)| key).collect();
        for (file, index) in resting {
            self.drop_used(file, index);
            if let Some(used) = self.uses.get_mut(&(file, index)) {
                used.rests_left = used.rests_left.map(|rests| rests.saturating_sub(1));
            }
        }
        // What is known of ten thousand files that nobody uses is not worth its room.
        self.uses.retain(|_, used| match used.rests_left {
            Some(rests) => rests > 0 && !used.behind.is_empty(),
            None => used.last.elapsed() < 10 * REST || !used.behind.is_empty(),
        });
    }

    fn drop_used(&mut self, file: u32, index: usize) {
        if let Some(used) = self.uses.get_mut(&(file, index)) {
            let place = used.place;
            let (dirty, passed) = used.behind.take_used();
            self.write_back(place, file, index, &dirty);
            self.drop_these(place, file, index, &passed);
        }
    }

    /// One who has read the file has come to its end there: all goes, but what was read ahead where others go on.
    pub(super) fn drop_to_end(&mut self, file: u32, index: usize, end: u64) {
        let Some(used) = self.uses.get_mut(&(file, index)) else {
            return;
        };
        if used.shared_with().is_none() {
            return self.drop_all_of(file, index);
        }
        let (place, passed) = (used.place, used.behind.take_last(end));
        self.drop_these(place, file, index, passed.as_slice());
    }

    fn drop_all_of(&mut self, file: u32, index: usize) {
        if let Some(used) = self.uses.get_mut(&(file, index)) {
            let place = used.place;
            let (dirty, passed) = (used.behind.take_dirty(), used.behind.take_all());
            self.write_back(place, file, index, &dirty);
            self.drop_these(place, file, index, &passed);
        }
    }

    /// The process that has used this file has ended: what it has written goes when it is on the disk.
    pub(super) fn leave(&mut self, file: u32, index: usize, live: &BTreeSet<u32>) {
        if let Some(used) = self.uses.get_mut(&(file, index))
            && let Some(other) = used.shared_with()
            && live.contains(&other.pid)
        {
            // It is that one's from here on.
            (used.place, used.another) = (other, None);
            return;
        }
        self.drop_all_of(file, index);
        if let Some(used) = self.uses.get_mut(&(file, index)) {
            used.rests_left = Some(RESTS_OF_ENDED);
            if !used.behind.waits_for_disk() {
                self.uses.remove(&(file, index));
            }
        }
    }

    /// What was used, with a short wait for what is on its way to the disk.
    pub(super) fn drop_last(&mut self) {
        for turn in 0..LAST_TURNS {
            let wanted = self.uses.iter();
            let wanted = wanted.filter(|(_, used)| turn == 0 || used.behind.waits_for_disk());
            let wanted: Vec<(u32, usize)> = wanted.map(|(&key, _)| key).collect();
            if wanted.is_empty() {
                break;
            }
            if turn > 0 {
                std::thread::sleep(LAST_TURN);
            }
            for (file, index) in wanted {
                self.drop_used(file, index);
            }
        }
    }

    pub(super) fn drop_these(&mut self, place: Place, file: u32, index: usize, passed: &[Passed]) {
        if passed.is_empty() || self.withdrawn >> index & 1 == 1 {
            return;
        }
        let open = match self.files.open(place, file) {
            Ok(open) => open,
            Err(missed) => return self.missed(index, missed),
        };
        let unwritten = |passed: &&Passed| {
            passed.is_written
                && open_file::on_the_way(&open, passed.whole.clone()).unwrap_or_default()
                    != OnTheWay::default()
        };
        let (waiting, ready): (Vec<&Passed>, Vec<&Passed>) = passed.iter().partition(unwritten);
        if let Some(used) = self.uses.get_mut(&(file, index)) {
            waiting
                .iter()
                .for_each(|passed| used.behind.put_back(passed));
        }
        self.drop_each(&open, file, index, ready.into_iter());
    }

    fn drop_each<'a>(
        &mut self,
        open: &OwnedFd,
        file: u32,
        index: usize,
        ready: impl Iterator<Item = &'a Passed>,
    ) {
        for passed in ready {
            let gone = self.drop_from(open, index, passed);
            if gone.is_ok_and(|gone| gone > 0) {
                self.withdraw_if_missed(file, index, passed);
            }
            if let Err(errno) = gone {
                // Such as one that is open for writing only, on overlayfs.
                self.words.refused_io(index, errno.raw_os_error());
                self.words.add_to_io(index, OfIo::Hintless, 1);
                self.files.tells_nothing(file);
                self.uses.remove(&(file, index));
                return;
            }
        }
        let (gone, stayed) = (
            self.words.of_io(index, OfIo::Gone),
            self.words.of_io(index, OfIo::Stayed),
        );
        if stayed >= IN_VAIN && gone < stayed / 16 {
            self.withdraw(index, WhyWithdrawn::NoEffect);
        }
    }

    fn withdraw_if_missed(&mut self, file: u32, index: usize, passed: &Passed) {
        let (chunk, granules) = passed.granules();
        let drop = Drop {
            rule: index,
            file: (0, u64::from(file)),
            chunk,
            granules,
            again_percent: self.view.rule(index).again_percent.into(),
            is_written: passed.is_written,
        };
        let memory_bytes = self.view.sizes().limit_bytes;
        if let Some(missed) = self.regret.dropped(drop, memory_bytes) {
            let pages = missed.bytes / PAGE;
            self.words.add_to_io(missed.rule, OfIo::Missed, pages);
            if missed.is_harm {
                self.withdraw(missed.rule, WhyWithdrawn::Missed);
            }
        }
    }

    /// The pages that are gone. Err: the kernel does not tell what is cached, so that no effect can be seen.
    pub(super) fn drop_from(
        &mut self,
        open: &OwnedFd,
        index: usize,
        passed: &Passed,
    ) -> rustix::io::Result<u64> {
        let all = open_file::cached_pages(open, passed.whole.clone())?;
        let (mut before, mut left) = (0, 0);
        for range in &passed.own {
            let cached = open_file::cached_pages(open, range.clone())?;
            before += cached;
            if cached > 0 && self.advise(open, index, range.clone(), Advice::DontNeed) {
                left += open_file::cached_pages(open, range.clone())?;
            }
        }
        let gone = before.saturating_sub(left);
        self.words.add_to_io(index, OfIo::Gone, gone);
        if passed.has_whole_folios {
            self.words.add_to_io(index, OfIo::Stayed, left);
            self.words
                .add_to_io(index, OfIo::Theirs, all.saturating_sub(before));
        }
        Ok(gone)
    }
}
