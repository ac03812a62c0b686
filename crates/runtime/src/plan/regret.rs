//! Whether what is done to memory does harm: pages that come back so soon that they would have stayed if nothing had been done. Pure.
//!
//! Time is counted in pages that came into memory: as long as what comes back was away ([`pagewise_abi::drops`]).

use std::ops::Range;

use pagewise_abi::drops;

use super::object::PAGE;

/// Parts of a region of which is known when they were dropped.
const PARTS: usize = 256;
/// What was dropped is halved when it is so many pages, as programs change.
const MOST_DROPPED: u64 = 16 * drops::LEAST_DROPPED;

/// Pages that are followed, of all that come.
const FOLLOWED: usize = 4096;

/// In a round, the lock saves as many swap-ins as it has pages; in eighths it is told how long ago a round began.
const EIGHTHS: usize = 8;

/// Pages that came into memory, and when some of them last did. All zeros before it begins.
pub(super) struct Arrivals {
    now: u64,
    /// One page in so many is followed.
    every: usize,
    pages: [(usize, u64); FOLLOWED],
}

impl Arrivals {
    /// With so many bytes of memory, the pages that are followed find a place each.
    pub(super) fn begin(&mut self, memory_bytes: usize) {
        self.every = (2 * memory_bytes / PAGE / FOLLOWED).max(1);
    }

    /// Pages that came so far.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// For how many pages one that is followed stands.
    pub(super) fn weight(&self) -> u64 {
        self.every as u64
    }

    /// So many came that were not told.
    pub(super) fn pass(&mut self, pages: u64) {
        self.now += pages;
    }

    /// A page came. `Some`: it is followed, and came before; when.
    pub(super) fn note(&mut self, address: usize) -> Option<u64> {
        self.now += 1;
        let page = address / PAGE;
        // Neighbours get places far apart (Knuth's multiplicative hashing).
        let hash = (page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash >> 24) as usize;
        if !hash.is_multiple_of(self.every) {
            return None;
        }
        let place = &mut self.pages[hash / self.every % FOLLOWED];
        let (before, when) = std::mem::replace(place, (page, self.now));
        (before == page && when > 0).then_some(when)
    }
}

/// Pages beside each other that were dropped one after the other.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    when: u64,
    /// How many of them were not wanted since: one that is read ahead and then touched counts once, in about.
    out: u64,
}

impl Span {
    const NONE: Self = Self {
        start: 0,
        end: 0,
        when: 0,
        out: 0,
    };

    /// These pages are dropped, which go on where it ends. False: they do not.
    fn go_on(&mut self, range: &Range<usize>, now: u64) -> bool {
        if range.start == self.end {
            self.end = range.end;
        } else if range.end == self.start {
            self.start = range.start;
        } else {
            return false;
        }
        self.out += (range.len() / PAGE) as u64;
        self.when = now;
        true
    }

    fn has(&self, address: usize) -> bool {
        self.out > 0 && (self.start..self.end).contains(&address)
    }
}

/// When parts of a region were dropped, and how much of that came back too soon.
pub(super) struct Drops {
    start: usize,
    part_bytes: usize,
    /// Of each part what is being dropped, and what was before: a part of a large region is larger than what lies between the place
    /// where pages are wanted and that where they are dropped.
    spans: [[Span; 2]; PARTS],
    dropped: u64,
    missed: u64,
}

impl Drops {
    pub(super) fn new(region: &Range<usize>) -> Self {
        Self {
            start: region.start,
            part_bytes: (region.len() / PARTS).next_multiple_of(PAGE).max(PAGE),
            spans: [[Span::NONE; 2]; PARTS],
            dropped: 0,
            missed: 0,
        }
    }

    fn part(&self, address: usize) -> Option<usize> {
        let part = address.checked_sub(self.start)? / self.part_bytes;
        (part < PARTS).then_some(part)
    }

    /// These pages are dropped.
    pub(super) fn note_dropped(&mut self, range: &Range<usize>, now: u64) {
        let mut from = range.start;
        while from < range.end {
            let Some(part) = self.part(from) else {
                break;
            };
            let end = range.end.min(self.start + (part + 1) * self.part_bytes);
            let [now_dropped, before] = &mut self.spans[part];
            if !now_dropped.go_on(&(from..end), now) {
                *before = *now_dropped;
                *now_dropped = Span {
                    start: from,
                    end,
                    when: now,
                    out: ((end - from) / PAGE) as u64,
                };
            }
            from = end;
        }
        self.dropped += (range.len() / PAGE) as u64;
        if self.dropped > MOST_DROPPED {
            self.dropped /= 2;
            self.missed /= 2;
        }
    }

    /// A page is wanted; there is room for so many.
    pub(super) fn note_wanted(&mut self, address: usize, now: u64, room: u64) {
        let Some(part) = self.part(address) else {
            return;
        };
        let mut spans = self.spans[part].iter_mut();
        if let Some(span) = spans.find(|span| span.has(address)) {
            span.out -= 1;
            self.missed += u64::from(drops::is_soon(now.saturating_sub(span.when), room));
        }
    }

    /// Too much of what was dropped was wanted too soon.
    pub(super) fn is_harm(&self) -> bool {
        drops::is_harm(self.dropped, self.missed)
    }
}

/// While a sweep stands still, its lock saves nothing: once so many of its pages had to come back elsewhere, the lock rests,
const STANDS_STILL: u64 = 4;
/// until the sweep has got on by one in so many of the pages of a round.
const GOES_ON: u64 = 64;

/// What is to become of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Stays,
    /// It is of no use while the sweep stands still.
    Rests,
    GivenUp,
}

/// Whether the lock of a part of an object that is swept saves more swap-ins, by rounds of the sweep, than it costs elsewhere.
pub(super) struct Worth {
    locked: u64,
    /// Pages that are swept in a round.
    round: u64,
    /// Of these, how many were since the last eighth.
    swept: u64,
    /// When the last eighths of a round began, the newest first.
    eighths: [u64; EIGHTHS],
    in_round: usize,
    /// Rounds since all faults are heard.
    rounds: u64,
    /// Pages that had to come for it, in this round,
    missed: u64,
    /// and since the last eighth of one began.
    missed_still: u64,
    /// Pages that are to be swept until a resting lock is back; 0: it does not rest.
    until_back: u64,
    /// Of its pages, how many may have left while it rested.
    lost: u64,
}

impl Worth {
    /// Of so many pages that are locked, and so many that are swept besides.
    pub(super) fn new(locked: u64, round: u64) -> Self {
        Self {
            locked,
            round: round.max(EIGHTHS as u64),
            swept: 0,
            eighths: [0; EIGHTHS],
            in_round: 0,
            rounds: 0,
            missed: 0,
            missed_still: 0,
            until_back: 0,
            lost: 0,
        }
    }

    /// So many pages are locked from here on; what others cost says nothing of these.
    pub(super) fn set_locked(&mut self, locked: u64) {
        self.locked = locked;
        (self.missed, self.missed_still) = (0, 0);
    }

    pub(super) fn set_round(&mut self, round: u64) {
        self.round = round.max(EIGHTHS as u64);
    }

    /// Faults were not heard, and are from here on: what was missed, and how far the sweep got, is not known.
    pub(super) fn hear_again(&mut self, now: u64) {
        self.eighths = [now; EIGHTHS];
        (self.swept, self.in_round, self.rounds) = (0, 0, 0);
        (self.missed, self.missed_still) = (0, 0);
    }

    /// Rounds of the sweep since all faults are heard.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// The sweep got on: after a round, the lock was worth what it cost. True: a lock that rested is to be back.
    pub(super) fn note_swept(&mut self, pages: u64, now: u64) -> bool {
        self.swept += pages;
        let eighth = self.round / EIGHTHS as u64;
        while self.swept >= eighth {
            self.swept -= eighth;
            self.eighths.rotate_right(1);
            self.eighths[0] = now;
            self.missed_still = 0;
            self.in_round += 1;
            if self.in_round == EIGHTHS {
                (self.in_round, self.missed) = (0, 0);
                self.rounds += 1;
            }
        }
        let was_resting = self.is_resting();
        self.until_back = self.until_back.saturating_sub(pages);
        was_resting && !self.is_resting()
    }

    pub(super) fn is_resting(&self) -> bool {
        self.until_back > 0
    }

    /// The lock rests, or did when this began. What that had cost is no reason to give it up.
    pub(super) fn let_rest(&mut self) {
        self.missed = self.missed.saturating_sub(self.missed_still);
        self.missed_still = 0;
        self.until_back = (self.round / GOES_ON).max(1);
        self.lost = self.locked;
    }

    /// A page elsewhere, which stands for so many, came back that last came then; beside the lock there is room for so many. It is given
    /// up if since the last round more of them had to come than the lock saves in one.
    pub(super) fn note_comeback(&mut self, when: u64, now: u64, room: u64, weight: u64) -> Verdict {
        let distance = now.saturating_sub(when);
        // What comes twice at once, to be read and to be written, was not evicted in between.
        let was_out = distance > room / 4;
        let would_have_stayed = distance < room + self.locked;
        // In a round, what is locked was wanted, too, and would have pushed it out.
        let is_within_round = when > self.eighths[EIGHTHS - 1];
        let is_locked = self.locked > 0 && !self.is_resting();
        let is_to_blame = is_locked && was_out && would_have_stayed && is_within_round;
        if is_to_blame {
            self.missed += weight;
            self.missed_still += weight;
        }
        if self.missed > self.locked {
            Verdict::GivenUp
        } else if is_to_blame && self.missed_still * STANDS_STILL > self.locked {
            Verdict::Rests
        } else {
            Verdict::Stays
        }
    }

    /// A page of what is locked had to come back, which stands for so many: it left while the lock rested.
    pub(super) fn note_lost(&mut self, weight: u64) -> Verdict {
        let lost = weight.min(self.lost);
        self.lost -= lost;
        self.missed += lost;
        match self.missed > self.locked {
            true => Verdict::GivenUp,
            false => Verdict::Stays,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: usize = 0x7000_0000_0000;
    const ROOM: u64 = 4000;

    fn arrivals(memory_bytes: usize) -> Arrivals {
        let mut arrivals = Arrivals {
            now: 0,
            every: 0,
            pages: [(0, 0); FOLLOWED],
        };
        arrivals.begin(memory_bytes);
        arrivals
    }

    /// Of a sweep through so many pages that drops all behind it: whether that is harm.
    fn sweep_and_drop(pages: usize, rounds: usize) -> bool {
        let mut drops = Drops::new(&(BASE..BASE + pages * PAGE));
        let mut now = 0;
        for page in (0..rounds * pages).map(|page| page % pages) {
            now += 1;
            let address = BASE + page * PAGE;
            drops.note_wanted(address, now, ROOM);
            if page % 64 == 63 {
                drops.note_dropped(&(address - 63 * PAGE..address + PAGE), now);
            }
            if drops.is_harm() {
                return true;
            }
        }
        false
    }

    #[test]
    fn what_is_dropped_and_would_not_have_stayed_is_no_harm() {
        assert!(!sweep_and_drop(10_000, 5));
        assert!(!sweep_and_drop(3200, 5));
    }

    /// Of 12 GiB, a part is as large as what many chunks behind the sweep have.
    #[test]
    fn in_a_large_region_what_lies_behind_is_not_what_is_wanted_beside_it() {
        let pages = 3 << 20;
        assert!(!sweep_and_drop(pages, 2));
        let mut drops = Drops::new(&(BASE..BASE + pages * PAGE));
        let mut now = 0;
        for page in (0..4).flat_map(|_| 0..3200) {
            now += 1;
            let address = BASE + page * PAGE;
            drops.note_wanted(address, now, 180_000);
            if page % 64 == 63 {
                drops.note_dropped(&(address - 63 * PAGE..address + PAGE), now);
            }
        }
        assert!(drops.is_harm(), "a few of them are swept again and again");
    }

    #[test]
    fn a_page_that_is_wanted_twice_counts_once() {
        let mut drops = Drops::new(&(BASE..BASE + 10_000 * PAGE));
        let all = BASE..BASE + 2048 * PAGE;
        drops.note_dropped(&all, 1);
        for address in (all.start..all.start + 512 * PAGE).step_by(PAGE) {
            (0..5).for_each(|_| drops.note_wanted(address, 2, ROOM));
        }
        assert!(!drops.is_harm());
    }

    #[test]
    fn what_is_dropped_and_wanted_at_once_is_harm() {
        assert!(sweep_and_drop(2500, 3));
        // Too little to tell.
        assert!(!sweep_and_drop(600, 3));
    }

    #[test]
    fn pages_of_a_region_of_any_size_have_a_part() {
        for pages in [1, 7, 255, 256, 257, 1000, 1_000_000] {
            let drops = Drops::new(&(BASE..BASE + pages * PAGE));
            assert_eq!(drops.part(BASE), Some(0));
            assert!(drops.part(BASE + (pages - 1) * PAGE).is_some(), "{pages}");
            assert_eq!(drops.part(BASE - 1), None);
        }
    }

    #[test]
    fn a_page_that_comes_again_is_known_by_the_pages_in_between() {
        let mut came = arrivals(0);
        assert_eq!(came.weight(), 1);
        let known = |arrivals: &mut Arrivals| -> Vec<u64> {
            let comes = |page| arrivals.note(BASE + page * PAGE);
            (0..1000).filter_map(comes).collect()
        };
        assert_eq!(known(&mut came), []);
        let again = known(&mut came);
        // Some have a place together.
        assert!(again.len() > 700, "{}", again.len());
        assert!(again.is_sorted() && again.iter().all(|&when| when <= 1000));
        assert_eq!(came.now(), 2000);
    }

    #[test]
    fn of_much_memory_a_part_is_followed() {
        let pages = 100_000;
        let mut came = arrivals(pages * PAGE);
        let mut known = 0;
        for page in (0..2).flat_map(|_| 0..pages) {
            known += u64::from(came.note(BASE + page * PAGE).is_some());
        }
        let all = known * came.weight();
        assert!((70_000..110_000).contains(&all), "{all}");
    }

    /// A table of so many pages is looked up while a sweep, of which 2,000 pages are locked, makes so much of a round for each page of it that
    /// comes back. After how many of these the lock is no more, and how it ended.
    fn ends(table: u64, rounds_a_page: f64) -> Option<(u64, Verdict)> {
        let mut worth = Worth::new(2000, 8000);
        let (mut now, mut swept) = (0, 0.0);
        for number in 0..100_000 {
            now += 1;
            swept += rounds_a_page * 8000.0;
            let pages = swept as u64;
            swept -= pages as f64;
            now += pages;
            worth.note_swept(pages, now);
            if number < table {
                continue;
            }
            let since = table + (table as f64 * rounds_a_page * 8000.0) as u64;
            let when = now.saturating_sub(since).max(1);
            let verdict = worth.note_comeback(when, now, 1000, 1);
            if verdict != Verdict::Stays {
                return Some((number, verdict));
            }
        }
        None
    }

    #[test]
    fn a_lock_that_costs_more_than_it_saves_is_given_up() {
        let ended = ends(800, 1.0 / 3500.0);
        assert!(matches!(ended, Some((_, Verdict::GivenUp))), "{ended:?}");
    }

    #[test]
    fn a_lock_whose_sweep_stands_still_rests_soon() {
        assert_eq!(ends(1500, 0.0), Some((1500 + 500, Verdict::Rests)));
    }

    #[test]
    fn a_lock_that_saves_more_stays() {
        // Few come back in a round,
        assert_eq!(ends(1000, 1.0 / 1500.0), None);
        // or would not have stayed in its place either,
        assert_eq!(ends(3500, 0.0), None);
        // or the locked part was wanted in between.
        assert_eq!(ends(2900, 1.0 / 2000.0), None);
    }

    #[test]
    fn a_resting_lock_is_back_when_its_sweep_goes_on() {
        let mut worth = Worth::new(2000, 8000);
        worth.let_rest();
        assert_eq!(worth.note_comeback(1, 1200, 1000, 5000), Verdict::Stays);
        assert!(!worth.note_swept(100, 2000) && worth.is_resting());
        assert!(worth.note_swept(100, 2100) && !worth.is_resting());
        assert!(!worth.note_swept(100, 2200));
        // That costs what has left meanwhile, besides what was missed elsewhere.
        assert_eq!(worth.note_lost(2000), Verdict::Stays);
        assert_eq!(worth.note_lost(1), Verdict::Stays, "no more could leave");
        worth.let_rest();
        assert_eq!(worth.note_lost(1), Verdict::GivenUp);
    }
}
