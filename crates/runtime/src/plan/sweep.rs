//! Follows sweeps through an object by its faults, and says what to read in ahead and what to drop behind. Pure: addresses
//! and times in, ranges out.
//!
//! The object is seen as a ring, as a sweep mostly begins again. Many places are followed, each in its direction: a few of each
//! thread, so that threads that sweep parts of an object side by side do not make each other's be forgotten.
//!
//! Of an object of many blocks the sweep may go down from block to block, as allocators place them, and up in each. So there a place
//! has no direction before it has left the block that it began in.
//!
//! ```text
//!     dropped |<-- behind -->| position |<-- ahead -->| still in swap
//! ```

use std::ops::Range;

use pagewise_abi::sweeps;
use pagewise_interpose::Fault;

use super::object::PAGE;
use super::sizes::Sizes;
use super::sizes::whole_pages;

/// Places that are followed.
const CURSORS: usize = 64;
/// Blocks count where each is at most this share of the object.
const BLOCK_SHARE: usize = 64;
/// A step is at most so long, bytes,
const LONGEST_STEP: usize = sweeps::LONGEST_STEP as usize;
/// and of the object at most this share.
const STEP_SHARE: usize = 256;
/// Of the faults, at most one in so many may lie elsewhere.
const MOST_JUMPS: u32 = 4;
/// The counts of steps and jumps are halved when there are so many.
const MEMORY: u32 = 256;
/// Chunks behind the sweep that are dropped in hindsight.
const MOST_DEBT: usize = 16;
/// A place without faults for so long is left.
const FORGOTTEN_NS: u64 = 1_000_000_000;

/// What to do next; up to two ranges of addresses, as a ring has a seam.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ahead of the sweep; `is_down`: what is needed first lies last in them.
    Read {
        ranges: [Range<usize>; 2],
        is_down: bool,
    },
    Drop([Range<usize>; 2]),
}

const NOTHING: [Range<usize>; 2] = [0..0, 0..0];

/// How fast a sweep got on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) pages: u64,
    pub(super) ns: u64,
}

#[derive(Clone, Copy)]
struct Cursor {
    /// Bytes from the start of the region.
    position: usize,
    /// Of its direction, once there was a second fault.
    forward: Option<bool>,
    steps: u32,
    /// How far it has come since it began.
    swept: usize,
    /// How far behind the position it still touches pages.
    back: usize,
    ahead: usize,
    behind: usize,
    dropped_last: bool,
    time_ns: u64,
    /// When its position last changed.
    moved_ns: u64,
    /// Faults of the region until it last had one.
    faults: u64,
    /// Who was there last.
    thread: u32,
}

impl Cursor {
    /// Whether the sweep has gone on elsewhere, where the region had so many faults.
    fn was_left(&self, faults: u64) -> bool {
        faults - self.faults > sweeps::LEFT_FAULTS
    }
}

pub(super) struct Sweep {
    region: Range<usize>,
    /// The largest of the many blocks that the region is made of, with what may lie between two, bytes; 0: it is one, or of few.
    grain: usize,
    cursors: [Option<Cursor>; CURSORS],
    /// Of these, only the first so many have ever been.
    used: usize,
    hits: u32,
    jumps: u32,
    newest_ns: u64,
    faults: u64,
    longest_step: usize,
    /// A sweep that begins again no further back than this goes on where it was: what lies in between is kept.
    longest_return: usize,
    /// What was read ahead and passed over at once by the last step.
    passed: [Range<usize>; 2],
}

impl Sweep {
    /// Of a region of whole pages.
    pub(super) fn new(region: Range<usize>) -> Self {
        Self {
            region,
            grain: 0,
            cursors: [None; CURSORS],
            used: 0,
            hits: 0,
            jumps: 0,
            newest_ns: 0,
            faults: 0,
            longest_step: LONGEST_STEP,
            longest_return: 0,
            passed: NOTHING,
        }
    }

    /// Sweeps may begin again so many bytes back: there is room for these beside what is read ahead.
    pub(super) fn may_return(&mut self, bytes: usize) {
        self.longest_return = bytes;
    }

    /// Only one in so many pages is told of: steps are as long as the share of the object allows.
    pub(super) fn be_coarse(&mut self) {
        self.longest_step = usize::MAX;
    }

    pub(super) fn is_coarse(&self) -> bool {
        self.longest_step == usize::MAX
    }

    /// The region is another from here on, made of blocks as large as that: some came, or went. What it has in common with the one
    /// before is where it was.
    pub(super) fn reshape(&mut self, region: Range<usize>, grain: usize) {
        let shift = self.region.start.wrapping_sub(region.start) as isize;
        let most = whole_pages(region.len() / 2);
        for place in &mut self.cursors {
            let Some(cursor) = place else {
                continue;
            };
            let position = cursor.position.checked_add_signed(shift);
            match position.filter(|&position| position < region.len()) {
                Some(position) => cursor.position = position,
                None => *place = None,
            }
            if let Some(cursor) = place {
                cursor.ahead = cursor.ahead.min(most);
                cursor.behind = cursor.behind.min(most);
                cursor.back = cursor.back.min(most);
            }
        }
        self.region = region;
        // A block has a part of a page at each end.
        let block = grain.next_multiple_of(PAGE) + 2 * PAGE;
        // Few large ones are swept as arrays are: a step down to the next is rare.
        let are_many = grain > 0 && block <= self.length() / BLOCK_SHARE;
        self.grain = if are_many { block } else { 0 };
    }

    pub(super) fn region(&self) -> &Range<usize> {
        &self.region
    }

    fn length(&self) -> usize {
        self.region.len()
    }

    /// From one place to another, going in a direction.
    fn distance(&self, from: usize, to: usize, forward: bool) -> usize {
        let (from, to) = if forward { (from, to) } else { (to, from) };
        if to >= from {
            to - from
        } else {
            to + self.length() - from
        }
    }

    /// A page of the region was touched that had to be brought in or mapped.
    pub(super) fn note(&mut self, fault: Fault) -> Option<Progress> {
        let offset = fault.address.checked_sub(self.region.start)? / PAGE * PAGE;
        if offset >= self.length() {
            return None;
        }
        self.newest_ns = self.newest_ns.max(fault.time_ns);
        self.faults += 1;
        if self.hits + self.jumps > MEMORY {
            self.hits /= 2;
            self.jumps /= 2;
        }
        if let Some(progress) = self.advance_any(offset, &fault) {
            self.hits += 1;
            return progress;
        }
        self.jumps += 1;
        self.begin_at(offset, &fault);
        None
    }

    /// What lay ahead of a place from which the last step went further than one does: nothing of it was touched that raises a fault.
    pub(super) fn take_passed(&mut self) -> [Range<usize>; 2] {
        std::mem::replace(&mut self.passed, NOTHING)
    }

    /// Whether this page lies in what is read ahead of a place.
    pub(super) fn is_read_ahead(&self, address: usize) -> bool {
        let offset = address.wrapping_sub(self.region.start);
        let is_ahead = |cursor: &Cursor| {
            let forward = cursor.forward.unwrap_or(true);
            self.distance(cursor.position, offset, forward) <= cursor.ahead
        };
        self.region.contains(&address) && self.cursors.iter().flatten().any(is_ahead)
    }

    /// The thread's own places first, as another's may be as near, and of these the one where it was last: it may pass one that it left
    /// long ago. `None`: the fault is near none.
    fn advance_any(&mut self, offset: usize, fault: &Fault) -> Option<Option<Progress>> {
        let mut own = [0; CURSORS];
        let mut count = 0;
        for index in 0..self.used {
            let is_own = self.cursors[index].is_some_and(|cursor| cursor.thread == fault.thread);
            if is_own {
                own[count] = index;
                count += 1;
            }
        }
        own[..count].sort_unstable_by_key(|&index| {
            let time_ns = self.cursors[index].map_or(0, |cursor| cursor.time_ns);
            std::cmp::Reverse(time_ns)
        });
        let mut own = own[..count].iter();
        own.find_map(|&index| self.advance(index, offset, fault, true))
            .or_else(|| self.advance_other(offset, fault))
    }

    /// Where another thread was last.
    fn advance_other(&mut self, offset: usize, fault: &Fault) -> Option<Option<Progress>> {
        (0..self.used).find_map(|index| {
            let cursor = self.cursors[index]?;
            let is_other = cursor.thread != fault.thread;
            is_other.then(|| self.advance(index, offset, fault, false))?
        })
    }

    /// `None`: the fault is not near this cursor. Where another thread was at work, one only goes on: what is behind is not its own.
    fn advance(
        &mut self,
        index: usize,
        offset: usize,
        fault: &Fault,
        is_own: bool,
    ) -> Option<Option<Progress>> {
        let mut cursor = self.cursors[index]?;
        let now_ns = fault.time_ns;
        let grain = self.grain;
        let near = (self.length() / STEP_SHARE).clamp(PAGE, self.longest_step.max(PAGE));
        // To the start of the block before, past the one that lies between.
        let near = near.max(2 * grain);
        let ahead = self.distance(cursor.position, offset, true);
        let forward = match cursor.forward {
            Some(forward) => forward,
            None if ahead.min(self.length() - ahead) < grain => return is_own.then_some(None),
            None if ahead <= near => true,
            None if self.length() - ahead <= near => false,
            None => return None,
        };
        cursor.forward = Some(forward);
        let step = self.distance(cursor.position, offset, forward);
        let mut progress = None;
        if step <= cursor.ahead + near {
            let ns = now_ns.saturating_sub(self.since_ns(&cursor, fault.thread));
            // Over the seam lies a part without faults, or a pause.
            let crosses = (offset > cursor.position) != forward && step > 0;
            let was_left = cursor.was_left(self.faults);
            let pages = (step / PAGE) as u64;
            // Into what was read ahead, over what is not wanted of it. That it got so far says nothing of its pace.
            let jumps = step > near.max(LONGEST_STEP) && !self.is_coarse();
            if jumps {
                self.passed = self.ranges(&cursor, 0, step.min(cursor.ahead));
            }
            let is_known = !crosses && !was_left && !jumps && pages > 0;
            progress = is_known.then_some(Progress { pages, ns });
            if step > 0 {
                cursor.moved_ns = now_ns;
            }
            cursor.position = offset;
            cursor.swept = cursor.swept.saturating_add(step);
            cursor.steps = cursor.steps.saturating_add(1);
            cursor.ahead = cursor.ahead.saturating_sub(step);
            cursor.behind = (cursor.behind + step).min(self.length() - cursor.ahead);
        } else if !is_own {
            return None;
        } else {
            let back = self.length() - step;
            if back
                > near
                    .max(cursor.back)
                    .max(LONGEST_STEP.min(self.length() / 16))
            {
                return None;
            }
            cursor.back = cursor.back.max(back);
        }
        cursor.time_ns = now_ns;
        cursor.faults = self.faults;
        cursor.thread = fault.thread;
        self.cursors[index] = Some(cursor);
        let got_on = cursor.moved_ns == now_ns;
        if got_on {
            self.join(index);
        }
        Some(progress)
    }

    /// If the thread goes through what another of its places has just swept, as where each part of an array is gone through twice, that is the same
    /// sweep: what lies in between is touched again and again, and is not to be dropped. As two they would read ahead of each other, too. Not of
    /// many blocks, in which a sweep may go up and down by turns.
    fn join(&mut self, index: usize) {
        let is_sweeping = |cursor: &Cursor| cursor.steps >= self.steps() && self.grain == 0;
        let Some(behind) = self.cursors[index].filter(is_sweeping) else {
            return;
        };
        let forward = behind.forward.unwrap_or(true);
        let most = whole_pages(self.longest_return.min(self.length() / 4));
        let before = |other: usize| {
            let front = self.cursors[other].filter(|front| {
                let is_another = other != index && front.thread == behind.thread;
                is_another && front.forward == behind.forward && front.steps >= self.steps()
            })?;
            let distance = self.distance(behind.position, front.position, forward);
            let is_swept_again = distance <= most.min(front.swept);
            (is_swept_again && !front.was_left(self.faults)).then_some((other, front, distance))
        };
        let Some((other, mut front, distance)) = (0..self.used).find_map(before) else {
            return;
        };
        front.back = front.back.max((distance + behind.swept).min(most));
        front.ahead = front.ahead.max(behind.ahead.saturating_sub(distance));
        front.time_ns = behind.time_ns;
        front.moved_ns = behind.moved_ns;
        front.faults = behind.faults;
        self.cursors[other] = Some(front);
        self.cursors[index] = None;
    }

    /// When a thread last got on, here or in another place that it sweeps: the time that it takes to go through several side by side is to be
    /// counted once.
    fn since_ns(&self, cursor: &Cursor, thread: u32) -> u64 {
        let places = self.cursors[..self.used].iter().flatten();
        let swept = places.filter(|place| place.thread == thread && place.steps >= self.steps());
        swept.fold(cursor.moved_ns, |newest_ns, place| {
            newest_ns.max(place.moved_ns)
        })
    }

    /// In a place of its own that is left longest, if the thread has as many as it may, else in a free one.
    fn begin_at(&mut self, offset: usize, fault: &Fault) {
        let is_own = |cursor: &Cursor| cursor.thread == fault.thread;
        let own = self
            .cursors
            .iter()
            .flatten()
            .filter(|cursor| is_own(cursor));
        let most = sweeps::places_of_thread(self.grain > 0);
        let is_full = own.count() >= most;
        let oldest = self
            .cursors
            .iter_mut()
            .enumerate()
            .filter(|(_, place)| !is_full || place.as_ref().is_some_and(is_own))
            .min_by_key(|(_, place)| place.map_or(0, |cursor| cursor.time_ns + 1));
        if let Some((index, place)) = oldest {
            self.used = self.used.max(index + 1);
            *place = Some(Cursor {
                position: offset,
                forward: None,
                steps: 0,
                swept: 0,
                back: 0,
                ahead: 0,
                behind: 0,
                dropped_last: false,
                time_ns: fault.time_ns,
                moved_ns: fault.time_ns,
                faults: self.faults,
                thread: fault.thread,
            });
        }
    }

    /// That make a place a sweep.
    fn steps(&self) -> u32 {
        sweeps::least_steps(self.grain > 0)
    }

    fn is_sweeping(&self, cursor: &Cursor) -> bool {
        cursor.steps >= self.steps()
            && self.jumps * MOST_JUMPS <= self.hits
            && self.newest_ns - cursor.time_ns < FORGOTTEN_NS
    }

    /// Whether there is a sweep to follow.
    pub(super) fn is_any(&self) -> bool {
        self.cursors
            .iter()
            .flatten()
            .any(|cursor| self.is_sweeping(cursor))
    }

    /// What lies so far ahead of each place that is swept, or a round less so far behind it, bytes: of several, less of each.
    pub(super) fn ahead(
        &self,
        from: usize,
        bytes: usize,
    ) -> impl Iterator<Item = [Range<usize>; 2]> {
        let share = self.at_work().count().max(1);
        let part = |bytes: usize| whole_pages(bytes / share).max(PAGE);
        let (from, bytes) = (part(from), part(bytes).min(self.length()));
        self.at_work()
            .map(move |cursor| self.ranges(cursor, from, bytes))
    }

    /// Reading ahead begins: what was just swept is what is needed last, and makes room. Not so behind a place that was left: where the object
    /// was filled last, pages were never evicted, and what it costs to drop these says nothing of the rest.
    pub(super) fn begin(&mut self, sizes: Sizes) {
        let most = whole_pages(self.length() / 4);
        let faults = self.faults;
        for cursor in self.cursors.iter_mut().flatten() {
            let was_left = cursor.was_left(faults);
            cursor.ahead = 0;
            cursor.behind = match was_left {
                true => 0,
                false => (sizes.lead + 2 * sizes.chunk).min(most),
            };
        }
    }

    /// The next thing to do; `None`: all is read in as far as it shall be.
    pub(super) fn next(&mut self, sizes: Sizes) -> Option<Step> {
        self.first_step(self.sizes_of_each(sizes))
    }

    /// Whether the program is about to catch up with what is read ahead, of which so many bytes are still to be read.
    pub(super) fn is_short(&self, sizes: Sizes, unread: usize) -> bool {
        let lead = self.sizes_of_each(sizes).within(self.length()).lead;
        let mut places = self.at_work();
        places.any(|cursor| cursor.ahead.saturating_sub(unread) < lead / 2)
    }

    /// Of the places that share what is read ahead: where the sweep was in the round before nothing is.
    fn sizes_of_each(&self, sizes: Sizes) -> Sizes {
        sizes.shared(self.at_work().count())
    }

    fn at_work(&self) -> impl Iterator<Item = &Cursor> {
        let cursors = self.cursors[..self.used].iter().flatten();
        cursors.filter(|cursor| self.is_sweeping(cursor) && !cursor.was_left(self.faults))
    }

    fn first_step(&mut self, sizes: Sizes) -> Option<Step> {
        let sizes = sizes.within(self.length());
        for index in 0..self.used {
            let Some(mut cursor) = self.cursors[index].filter(|cursor| self.is_sweeping(cursor))
            else {
                continue;
            };
            let step = self.step_of(&mut cursor, sizes);
            self.cursors[index] = Some(cursor);
            if step.is_some() {
                return step;
            }
        }
        None
    }

    /// What to drop behind, where there is nothing to read.
    pub(super) fn next_drop(&mut self, sizes: Sizes) -> Option<Step> {
        let nothing_ahead = Sizes { lead: 0, ..sizes };
        self.first_step(nothing_ahead)
    }

    fn step_of(&self, cursor: &mut Cursor, sizes: Sizes) -> Option<Step> {
        let kept = cursor.back + sizes.chunk;
        let drops = cursor.behind >= kept + sizes.chunk;
        if cursor.ahead == 0 {
            // It is at work on these itself.
            cursor.ahead = whole_pages(sizes.chunk / 2);
        }
        cursor.behind = cursor.behind.min(self.length() - cursor.ahead);
        let reads = cursor.ahead + sizes.chunk <= sizes.lead.min(self.length() / 2);
        // In turn: what is read in must not push others out; but what was read in ahead is clean, and cheaper to drop than
        // what the program had to bring in itself, so that reading must not wait until all is dropped.
        if drops && !(reads && cursor.dropped_last) {
            // Far behind, the kernel has been at it.
            cursor.behind = cursor.behind.min(kept + MOST_DEBT * sizes.chunk);
            let bytes = (cursor.behind - kept).min(2 * sizes.chunk);
            let from = self.length() - cursor.behind;
            cursor.behind -= bytes;
            cursor.dropped_last = true;
            return Some(Step::Drop(self.ranges(cursor, from, bytes)));
        }
        cursor.dropped_last = false;
        if !reads {
            return None;
        }
        let from = cursor.ahead + PAGE;
        cursor.ahead += sizes.chunk;
        cursor.behind = cursor.behind.min(self.length() - cursor.ahead);
        Some(Step::Read {
            ranges: self.ranges(cursor, from, sizes.chunk),
            // Blocks that lie one below the other are swept upwards each.
            is_down: cursor.forward == Some(false) && self.grain == 0,
        })
    }

    /// So many bytes from so far ahead of a cursor.
    fn ranges(&self, cursor: &Cursor, from: usize, bytes: usize) -> [Range<usize>; 2] {
        let length = self.length();
        let start = if cursor.forward == Some(false) {
            // The page at the cursor is the last of what lies before it.
            (cursor.position + PAGE + 2 * length - from - bytes) % length
        } else {
            (cursor.position + from) % length
        };
        let first = bytes.min(length - start);
        let at = |offset: usize| self.region.start + offset;
        [at(start)..at(start + first), at(0)..at(bytes - first)]
    }
}

#[cfg(test)]
mod tests;
