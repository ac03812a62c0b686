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
/// A region is at least so many chunks.
const REGION_CHUNKS: usize = 16;
/// Chunks behind the sweep that are dropped in hindsight.
const MOST_DEBT: usize = 16;
/// A place without faults for so long is left.
const FORGOTTEN_NS: u64 = 1_000_000_000;

/// What is read ahead is at least so many chunks: while some wait for their turn, most is in memory.
pub(super) const LEAD_CHUNKS: usize = 16;
const SMALLEST_CHUNK: usize = 128 << 10;
const LARGEST_CHUNK: usize = 4 << 20;
/// To read a chunk takes between these times: shorter ones cost calls, longer ones come too late.
const SHORT_NS: u64 = 300_000;
const LONG_NS: u64 = 3_000_000;

/// How far to read ahead, bytes, multiples of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) chunk: usize,
    pub(super) lead: usize,
}

impl Sizes {
    /// In a region of so many bytes: chunks are small parts of it.
    fn within(self, length: usize) -> Self {
        let most = whole_pages(length / REGION_CHUNKS).max(PAGE);
        Self {
            chunk: self.chunk.min(most),
            ..self
        }
    }

    /// After it took so long to read a chunk: the next is larger, or smaller.
    pub(super) fn fitted(self, took_ns: u64) -> Self {
        let chunk = match took_ns {
            ..SHORT_NS => self.chunk * 2,
            LONG_NS.. => self.chunk / 2,
            _ => return self,
        };
        let most = LARGEST_CHUNK.min(self.lead / LEAD_CHUNKS);
        let chunk = whole_pages(chunk.clamp(SMALLEST_CHUNK.min(most), most));
        Self {
            chunk: chunk.max(PAGE),
            ..self
        }
    }

    /// Of one of so many that read ahead at once: together they take no more memory than one alone.
    pub(super) fn shared(self, active: usize) -> Self {
        let whole = |bytes: usize| whole_pages(bytes).max(PAGE);
        let lead = whole(self.lead / active.max(1));
        Self {
            chunk: self.chunk.min(whole(lead / 4)),
            lead,
        }
    }
}

fn whole_pages(bytes: usize) -> usize {
    bytes / PAGE * PAGE
}

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
mod tests {
    use super::*;

    #[test]
    fn who_read_ahead_at_once_share_what_one_alone_has() {
        let alone = Sizes {
            chunk: 1 << 20,
            lead: 8 << 20,
        };
        assert_eq!((alone.shared(0), alone.shared(1)), (alone, alone));
        for active in [2, 5, 64] {
            let each = alone.shared(active);
            assert!(each.lead * active <= alone.lead && each.chunk <= each.lead / 4);
            assert_eq!((each.lead % PAGE, each.chunk % PAGE), (0, 0));
        }
    }

    #[test]
    fn a_chunk_takes_neither_too_long_nor_too_short_a_time() {
        // A device takes so long for each page, of which a program with so far a lead is ahead.
        let settled = |ns_a_page: u64, lead: usize| {
            let mut sizes = Sizes {
                chunk: 1 << 20,
                lead,
            };
            for _ in 0..10 {
                sizes = sizes.fitted((sizes.chunk / PAGE) as u64 * ns_a_page);
            }
            sizes.chunk
        };
        let far = 64 << 20;
        assert_eq!(settled(5000, far), 1 << 20, "1.3 ms");
        assert_eq!(settled(100, far), LARGEST_CHUNK);
        assert_eq!(settled(40_000, far), 256 << 10, "2.6 ms");
        assert_eq!(settled(1_000_000, far), SMALLEST_CHUNK);
        // In little memory, a sixteenth of what is read ahead, and a page at least.
        assert_eq!(settled(100, 1600 << 10), 100 << 10);
        assert_eq!(settled(100, PAGE), PAGE);
    }

    const BASE: usize = 0x7000_0000_0000;
    const PAGES: usize = 10_000;
    const SIZES: Sizes = Sizes {
        chunk: 64 * PAGE,
        lead: 1024 * PAGE,
    };

    fn sweep() -> Sweep {
        Sweep::new(BASE..BASE + PAGES * PAGE)
    }

    fn touch(sweep: &mut Sweep, page: usize, time_ns: u64) -> Option<Progress> {
        touch_by(sweep, 1, page, time_ns)
    }

    fn touch_by(sweep: &mut Sweep, thread: u32, page: usize, time_ns: u64) -> Option<Progress> {
        sweep.note(Fault {
            time_ns,
            address: BASE + page * PAGE + 8,
            thread,
            processor: None,
        })
    }

    /// What is to be read and dropped until there is nothing more to do, pages.
    fn all(sweep: &mut Sweep) -> (Vec<usize>, Vec<usize>) {
        let (mut read, mut dropped) = (Vec::new(), Vec::new());
        while let Some(step) = sweep.next(SIZES) {
            let (list, ranges) = match step {
                Step::Read { ranges, .. } => (&mut read, ranges),
                Step::Drop(ranges) => (&mut dropped, ranges),
            };
            for range in ranges {
                assert_eq!((range.start % PAGE, range.end % PAGE), (0, 0));
                assert!(
                    range.is_empty() || BASE <= range.start && range.end <= BASE + PAGES * PAGE
                );
                list.extend(range.step_by(PAGE).map(|address| (address - BASE) / PAGE));
            }
        }
        (read, dropped)
    }

    #[test]
    fn what_is_jumped_over_in_what_was_read_ahead_is_told_and_is_no_pace() {
        let mut sweep = sweep();
        (0..200).for_each(|page| {
            touch(&mut sweep, page, page as u64);
        });
        all(&mut sweep);
        let on = touch(&mut sweep, 210, 300);
        assert_eq!(on, Some(Progress { pages: 11, ns: 101 }));
        assert_eq!(sweep.take_passed(), NOTHING);
        // Over two MiB; what was read there was read for nothing.
        assert_eq!(touch(&mut sweep, 210 + 512, 310), None);
        let passed = BASE + 210 * PAGE..BASE + 722 * PAGE;
        assert_eq!(sweep.take_passed(), [passed, BASE..BASE]);
        assert_eq!(sweep.take_passed(), NOTHING);
        let on = touch(&mut sweep, 723, 320);
        assert_eq!(on, Some(Progress { pages: 1, ns: 10 }));
    }

    #[test]
    fn where_the_sweep_was_a_round_ago_takes_none_of_the_room() {
        let read = |pages: &[Range<usize>]| {
            let mut sweep = sweep();
            for (time_ns, page) in pages.iter().cloned().flatten().enumerate() {
                touch(&mut sweep, page, time_ns as u64);
            }
            // What is ahead of the place that was left has been read then.
            let ahead = |cursor: &Cursor| cursor.position / PAGE == 5499;
            while sweep.next(SIZES).is_some() {}
            let mut cursors = sweep.cursors.iter().flatten();
            cursors
                .find(|cursor| ahead(cursor))
                .map(|cursor| cursor.ahead / PAGE)
        };
        let alone = read(&[0..0, 5000..5500]);
        assert!(alone.is_some_and(|pages| pages > 900), "{alone:?}");
        assert_eq!(read(&[1000..2000, 5000..5500]), alone);
        // Side by side they share it.
        let side_by_side: Vec<Range<usize>> = (0..500)
            .flat_map(|at| [1000 + at..1001 + at, 5000 + at..5001 + at])
            .collect();
        assert!(read(&side_by_side) < alone);
    }

    #[test]
    fn downwards_what_is_needed_first_lies_last() {
        let is_down = |pages: &mut dyn Iterator<Item = usize>, grain: usize| {
            let mut sweep = sweep();
            sweep.reshape(BASE..BASE + PAGES * PAGE, grain);
            for (time_ns, page) in pages.enumerate() {
                touch(&mut sweep, page, time_ns as u64);
            }
            loop {
                match sweep.next(SIZES) {
                    Some(Step::Read { is_down, .. }) => return is_down,
                    Some(Step::Drop(_)) => {}
                    None => panic!("nothing is read"),
                }
            }
        };
        assert!(is_down(&mut (4000..5000).rev(), 0));
        assert!(!is_down(&mut (4000..5000), 0));
        // From block to block downwards, and up in each.
        let blocks = (50..100).rev();
        let mut pages = blocks.flat_map(|block| block * 16..(block + 1) * 16);
        assert!(!is_down(&mut pages, 16 * PAGE));
    }

    #[test]
    fn a_place_that_was_left_long_ago_does_not_say_how_fast_the_sweep_is() {
        let mut sweep = Sweep::new(BASE..BASE + PAGES * PAGE);
        let mut now_ns = 0;
        let mut goes = |sweep: &mut Sweep, from: usize, to: usize| -> u64 {
            let ns = (from..to).filter_map(|page| {
                now_ns += 1000;
                Some(touch(sweep, page, now_ns)?.ns)
            });
            ns.sum()
        };
        goes(&mut sweep, 0, 500);
        // What lies between is in memory.
        goes(&mut sweep, 1000, 1500);
        // A round later it comes to where it was before, over some pages that are in memory.
        goes(&mut sweep, 0, 200);
        let ns = goes(&mut sweep, 520, 3000);
        assert!(ns <= 2_500_000, "{ns}");
    }

    #[test]
    fn places_that_a_thread_sweeps_side_by_side_are_followed_and_their_time_counts_once() {
        for places in [2, 3, 8] {
            let mut sweep = sweep();
            let (part, mut now_ns) = (PAGES / places, 0);
            let mut goes = |pages: Range<usize>| {
                let mut got_on = Progress { pages: 0, ns: 0 };
                for step in pages {
                    for place in 0..places {
                        now_ns += 1000;
                        let progress = touch(&mut sweep, place * part + step, now_ns);
                        got_on.pages += progress.map_or(0, |progress| progress.pages);
                        got_on.ns += progress.map_or(0, |progress| progress.ns);
                    }
                }
                got_on
            };
            goes(0..100);
            let pages = (300 * places) as u64;
            let ns = 1000 * pages;
            assert_eq!(goes(100..400), Progress { pages, ns }, "{places}");
            let sweeping = sweep.cursors.iter().flatten();
            let sweeping = sweeping.filter(|cursor| sweep.is_sweeping(cursor));
            assert_eq!(sweeping.count(), places);
        }
    }

    #[test]
    fn what_is_swept_again_at_once_stays() {
        // Part after part of 800 pages, each twice, and beside it each time the same 600 pages far away. Of all touches, how many
        // are of pages that were dropped since the touch before, and how many places are swept in the end.
        let missed = |returns: usize| {
            let mut sweep = sweep();
            sweep.may_return(returns);
            let mut is_dropped = vec![false; PAGES];
            let (mut now_ns, mut missed) = (0, 0);
            let parts = (0..5).flat_map(|part| [part * 800; 2]);
            for (start, at) in parts.flat_map(|start| (0..800).map(move |at| (start, at))) {
                for page in [start + at, 8000 + at * 6 / 8] {
                    now_ns += 1000;
                    touch(&mut sweep, page, now_ns);
                    missed += usize::from(std::mem::take(&mut is_dropped[page]));
                }
                if at % 8 == 0 {
                    let (_, dropped) = all(&mut sweep);
                    dropped.into_iter().for_each(|page| is_dropped[page] = true);
                }
            }
            let places = sweep.cursors.iter().flatten();
            (
                missed,
                places.filter(|place| sweep.is_sweeping(place)).count(),
            )
        };
        // The first time it is not known yet.
        let (few, places) = missed(1024 * PAGE);
        assert!(few < 1500 && places == 2, "{few} of {places} places");
        let (many, places) = missed(0);
        assert!(many > 5 * few && places > 2, "{many} of {places} places");
        // What is further back than what there is room for is another sweep.
        assert_eq!(missed(500 * PAGE), (many, places));
    }

    #[test]
    fn what_stays_of_a_sweep_that_begins_again_is_whole_pages() {
        // A fourth of it is no whole number of them.
        let mut sweep = Sweep::new(BASE..BASE + 9_999 * PAGE);
        sweep.may_return(usize::MAX);
        for (time_ns, page) in (0..4000).chain(1490..1600).enumerate() {
            touch(&mut sweep, page, time_ns as u64);
        }
        let backs = sweep
            .cursors
            .iter()
            .flatten()
            .map(|cursor| cursor.back / PAGE);
        assert_eq!(backs.collect::<Vec<_>>(), [2499]);
        for page in 4000..8000 {
            touch(&mut sweep, page, page as u64);
        }
        let (_, dropped) = all(&mut sweep);
        assert!(!dropped.is_empty());
    }

    #[test]
    fn a_sweep_is_read_ahead_of_and_dropped_behind() {
        let mut sweep = sweep();
        for page in 0..2000 {
            touch(&mut sweep, page, page as u64);
            assert_eq!(sweep.is_any(), page >= 32);
        }
        let (read, dropped) = all(&mut sweep);
        let ahead: Vec<usize> = (1999 + 1 + 32..1999 + 1 + 32 + 15 * 64).collect();
        assert_eq!(read, ahead);
        assert_eq!(dropped, (1999 - 17 * 64..1999 - 64).collect::<Vec<_>>());
        assert_eq!(all(&mut sweep), (vec![], vec![]));
        // If the program gets ahead of that, it brings pages in itself.
        let is_read_ahead = |page: usize| sweep.is_read_ahead(BASE + page * PAGE);
        assert!(is_read_ahead(2031) && is_read_ahead(2991));
        assert!(!is_read_ahead(2992) && !is_read_ahead(1990) && !is_read_ahead(PAGES));
        // The next chunk is due when one has been used.
        (2000..2064).for_each(|page| {
            touch(&mut sweep, page, page as u64);
        });
        let (read, dropped) = all(&mut sweep);
        assert_eq!(
            read,
            (ahead.len() + 2032..ahead.len() + 2096).collect::<Vec<_>>()
        );
        assert_eq!(dropped, (1935..1999).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_read_ahead_is_short_until_half_of_it_is_there() {
        let mut sweep = sweep();
        assert!(!sweep.is_short(SIZES, 0), "nothing is swept");
        for page in 0..2000 {
            touch(&mut sweep, page, page as u64);
        }
        let mut pages = 0;
        while let Some(step) = sweep.next(SIZES) {
            if let Step::Read { ranges, .. } = step {
                assert_eq!(
                    sweep.is_short(SIZES, 0),
                    pages + 64 + 32 < SIZES.lead / PAGE / 2
                );
                pages += ranges.iter().map(|range| range.len() / PAGE).sum::<usize>();
            }
        }
        assert!(!sweep.is_short(SIZES, 0) && pages > 500);
        for page in 2000..2600 {
            touch(&mut sweep, page, page as u64);
        }
        assert!(sweep.is_short(SIZES, 0));
    }

    #[test]
    fn nothing_is_dropped_behind_a_place_that_was_left() {
        let mut sweep = sweep();
        for (time_ns, page) in (5000..6000).chain(0..2000).enumerate() {
            touch(&mut sweep, page, time_ns as u64);
        }
        sweep.begin(SIZES);
        let (_, dropped) = all(&mut sweep);
        assert!(!dropped.is_empty() && dropped.iter().all(|&page| page < 2000));
    }

    #[test]
    fn it_goes_over_the_end_and_backwards_too() {
        let mut there = sweep();
        (9000..10_000).for_each(|page| {
            touch(&mut there, page, page as u64);
        });
        let (read, _) = all(&mut there);
        assert_eq!(read.first(), Some(&32), "{read:?}");
        assert!(
            touch(&mut there, 0, 20_000).is_none(),
            "the seam is no progress"
        );
        assert!(touch(&mut there, 1, 20_001).is_some());

        let mut back = sweep();
        (5000..7000).rev().for_each(|page| {
            touch(&mut back, page, 9000 - page as u64);
        });
        let (read, dropped) = all(&mut back);
        let (most, least) = (read.iter().max(), read.iter().min());
        assert_eq!(
            (most, least),
            (Some(&(4999 - 32)), Some(&(4999 - 32 - 15 * 64 + 1)))
        );
        assert_eq!(
            (dropped.iter().max(), dropped.iter().min()),
            (Some(&(5000 + 17 * 64)), Some(&(5000 + 65)))
        );
    }

    #[test]
    fn small_regions_are_followed_within_their_bounds() {
        for pages in [8, 40, 64, 100] {
            let mut sweep = Sweep::new(BASE..BASE + pages * PAGE);
            let mut read = 0;
            for at in 0..20 * pages {
                touch(&mut sweep, at % pages, at as u64);
                while let Some(step) = sweep.next(SIZES) {
                    let (Step::Read { ranges, .. } | Step::Drop(ranges)) = &step;
                    for range in ranges.iter().filter(|range| !range.is_empty()) {
                        assert!(BASE <= range.start && range.end <= BASE + pages * PAGE);
                    }
                    read += usize::from(matches!(step, Step::Read { .. }));
                }
                for cursor in sweep.cursors.iter().flatten() {
                    assert!(cursor.ahead + cursor.behind <= pages * PAGE, "of {pages}");
                }
            }
            assert!(read > 0, "of {pages}");
        }
    }

    /// An array of blocks of so many pages, each below the one before, swept from the first to the last.
    fn sweep_down(sweep: &mut Sweep, block: usize, blocks: Range<usize>) {
        for index in blocks {
            let start = PAGES - (index + 1) * block;
            for page in start..start + block {
                touch(sweep, page, ((index + 1) * block + page - start) as u64);
            }
        }
    }

    #[test]
    fn blocks_that_lie_one_below_the_other_are_swept_in_their_order() {
        for block in [16, 20, 32, 128] {
            let mut sweep = sweep();
            sweep.reshape(BASE..BASE + PAGES * PAGE, block * PAGE);
            let swept = 2560 / block;
            sweep_down(&mut sweep, block, 0..swept);
            assert!(sweep.is_any(), "{block}");
            let (read, dropped) = all(&mut sweep);
            let lowest = PAGES - swept * block;
            assert!(read.iter().all(|&page| page < lowest), "{block}: {read:?}");
            assert!(read.contains(&(lowest - 100)), "{block}: {read:?}");
            let in_use = lowest..lowest + block;
            assert!(!dropped.is_empty() && !dropped.iter().any(|page| in_use.contains(page)));
        }
    }

    #[test]
    fn blocks_that_lie_one_above_the_other_are_swept_in_their_order() {
        let mut sweep = sweep();
        sweep.reshape(BASE..BASE + PAGES * PAGE, 16 * PAGE);
        (0..2000).for_each(|page| {
            touch(&mut sweep, page, page as u64);
        });
        let (read, dropped) = all(&mut sweep);
        assert!(read.contains(&2100) && read.iter().all(|&page| page > 1999));
        assert!(!dropped.is_empty() && dropped.iter().all(|&page| page < 1999));
    }

    #[test]
    fn the_pace_down_blocks_is_that_of_all_their_pages() {
        let mut sweep = sweep();
        sweep.reshape(BASE..BASE + PAGES * PAGE, 16 * PAGE);
        let mut sum = Progress { pages: 0, ns: 0 };
        for index in 0..20 {
            let start = PAGES - (index + 1) * 16;
            for page in start..start + 16 {
                let time_ns = (index * 16 + page - start) as u64 * 1000;
                if let Some(progress) = touch(&mut sweep, page, time_ns) {
                    sum.pages += progress.pages;
                    sum.ns += progress.ns;
                }
            }
        }
        assert_eq!(sum.ns, sum.pages * 1000);
        assert!(sum.pages >= 18 * 16, "{sum:?}");
    }

    #[test]
    fn a_sweep_goes_on_in_a_region_that_has_grown_or_shrunk() {
        let mut sweep = sweep();
        (0..2000).for_each(|page| {
            touch(&mut sweep, page, page as u64);
        });
        sweep.reshape(BASE - 100 * PAGE..BASE + (PAGES + 50) * PAGE, 0);
        assert!(sweep.is_any());
        assert_eq!(
            touch(&mut sweep, 2000, 2000),
            Some(Progress { pages: 1, ns: 1 })
        );
        sweep.reshape(BASE + 1000 * PAGE..BASE + 4000 * PAGE, 0);
        assert!(sweep.is_any() && touch(&mut sweep, 2001, 2001).is_some());
        while let Some(Step::Read { ranges, .. } | Step::Drop(ranges)) = sweep.next(SIZES) {
            for range in ranges.into_iter().filter(|range| !range.is_empty()) {
                assert!(range.start >= BASE + 1000 * PAGE && range.end <= BASE + 4000 * PAGE);
            }
        }
        sweep.reshape(BASE..BASE + 1000 * PAGE, 0);
        assert!(!sweep.is_any(), "where it was is no more");
    }

    #[test]
    fn only_whole_pages_are_read_and_dropped() {
        let mut sweep = Sweep::new(BASE..BASE + 1003 * PAGE);
        (0..500).for_each(|page| {
            touch(&mut sweep, page, page as u64);
        });
        sweep.begin(SIZES);
        sweep.reshape(BASE..BASE + 999 * PAGE, 0);
        while let Some(Step::Read { ranges, .. } | Step::Drop(ranges)) = sweep.next(SIZES) {
            for range in ranges {
                assert_eq!((range.start % PAGE, range.end % PAGE), (0, 0));
            }
        }
    }

    #[test]
    fn random_faults_in_blocks_are_no_sweep() {
        for block in [16, 128, 1024] {
            let mut sweep = sweep();
            sweep.reshape(BASE..BASE + PAGES * PAGE, block * PAGE);
            let mut random = 1u64;
            for time_ns in 0..20_000 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                touch(&mut sweep, (random >> 33) as usize % PAGES, time_ns);
                assert!(!sweep.is_any(), "{block}: at {time_ns}");
            }
        }
    }

    #[test]
    fn random_faults_are_no_sweep() {
        let mut sweep = sweep();
        let mut random = 1u64;
        for time_ns in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            touch(&mut sweep, (random >> 33) as usize % PAGES, time_ns);
            assert!(!sweep.is_any());
        }
    }

    #[test]
    fn threads_that_share_an_object_are_followed_each() {
        let mut sweep = sweep();
        for page in 0..500 {
            for thread in 0..4 {
                let time_ns = (page * 4 + thread) as u64;
                touch_by(&mut sweep, thread as u32, thread * 2500 + page, time_ns);
            }
        }
        let (read, _) = all(&mut sweep);
        for thread in 0..4 {
            assert!(read.contains(&(thread * 2500 + 600)), "{thread}");
        }
        assert!(read.len() <= SIZES.lead / PAGE);
    }

    #[test]
    fn many_threads_are_followed_each_and_share_the_lead() {
        for threads in [8, 32] {
            let part = PAGES / threads;
            let mut sweep = sweep();
            // As they are told of: thread by thread, some faults at a time.
            for round in 0..10 {
                for thread in 0..threads {
                    for page in round * 10..round * 10 + 10 {
                        let time_ns = (round * 1000 + page) as u64;
                        touch_by(&mut sweep, thread as u32, thread * part + page, time_ns);
                    }
                }
            }
            assert!(sweep.is_any());
            let (read, _) = all(&mut sweep);
            for thread in 0..threads {
                let ahead = thread * part + 100..thread * part + 100 + SIZES.lead / PAGE / threads;
                assert!(
                    read.iter().any(|page| ahead.contains(page)),
                    "{thread} of {threads}: {read:?}"
                );
            }
            assert!(read.len() <= SIZES.lead / PAGE);
        }
    }

    #[test]
    fn random_faults_of_many_threads_are_no_sweep() {
        let mut sweep = sweep();
        let mut random = 1u64;
        for time_ns in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let page = (random >> 33) as usize % PAGES;
            touch_by(&mut sweep, (time_ns % 16) as u32, page, time_ns);
            assert!(!sweep.is_any(), "at {time_ns}");
        }
    }

    #[test]
    fn a_sweep_that_threads_take_turns_in_is_one() {
        let mut sweep = sweep();
        for page in 0..500 {
            touch_by(&mut sweep, (page / 10 % 8) as u32, page, page as u64);
        }
        let (read, _) = all(&mut sweep);
        assert!(read.contains(&600), "{read:?}");
    }

    #[test]
    fn what_is_touched_again_behind_is_not_dropped() {
        let mut sweep = sweep();
        for page in 0..2000 {
            touch(&mut sweep, page, page as u64);
            if page > 30 {
                touch(&mut sweep, page - 30, page as u64);
            }
        }
        let (_, dropped) = all(&mut sweep);
        assert_eq!(dropped.last(), Some(&(1999 - 64 - 30 - 1)));
    }

    #[test]
    fn addresses_elsewhere_are_nobodys() {
        let mut sweep = sweep();
        assert!(
            sweep
                .note(Fault {
                    time_ns: 1,
                    address: BASE - 1,
                    thread: 1,
                    processor: None,
                })
                .is_none()
        );
        assert!(touch(&mut sweep, PAGES, 1).is_none());
        assert!(sweep.next(SIZES).is_none());
    }
}
