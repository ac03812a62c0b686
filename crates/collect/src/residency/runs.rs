//! The states of all pages of an address space as runs of equal state, and how they differ from those of the scan
//! before.

/// Where a page is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Neither in memory nor in swap.
    #[default]
    Absent = 0,
    /// In memory.
    Resident = 1,
    /// In memory, as part of a huge page.
    Huge = 2,
    /// The shared page of zeros.
    Zero = 3,
    /// In swap.
    Swapped = 4,
}

/// What was seen of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Where it is.
    pub state: State,
    /// In memory, it is a page of a file or shared memory. False in the other states.
    pub file: bool,
}

impl Seen {
    /// Never touched, or gone.
    pub const ABSENT: Seen = Seen {
        state: State::Absent,
        file: false,
    };

    fn code(self) -> u64 {
        self.state as u64 | u64::from(self.file) << 3
    }

    fn from_code(code: u64) -> Self {
        let state = match code & 7 {
            1 => State::Resident,
            2 => State::Huge,
            3 => State::Zero,
            4 => State::Swapped,
            _ => State::Absent,
        };
        Seen {
            state,
            file: code & 8 != 0,
        }
    }
}

/// A range of pages in one state: page numbers, the end excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) seen: Seen,
}

/// A range that differs: page numbers, the end excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) before: Seen,
    pub(crate) now: Seen,
}

/// Where a run begins and its state, in one word: absence between runs is a run too, and the first lies before all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run(u64);

impl Run {
    const STATE_BITS: u32 = 4;

    fn new(start: u64, seen: Seen) -> Self {
        Run(start << Self::STATE_BITS | seen.code())
    }

    fn start(self) -> u64 {
        self.0 >> Self::STATE_BITS
    }

    fn seen(self) -> Seen {
        Seen::from_code(self.0 & ((1 << Self::STATE_BITS) - 1))
    }
}

/// Bytes by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) resident: u64,
    pub(crate) huge: u64,
    pub(crate) swapped: u64,
}

/// All pages of an address space, being replaced from its start to its end, part by part.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// As of the scan before: from `at` on it still holds.
    old: Vec<Run>,
    /// Of `old`, the run that holds page `at`.
    old_index: usize,
    /// As of this scan, up to `at`.
    new: Vec<Run>,
    at: u64,
}

impl Runs {
    /// The first page that this scan has not replaced.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Runs kept: a word each.
    pub(crate) fn len(&self) -> usize {
        self.new.len() + self.old.len().saturating_sub(self.old_index)
    }

    /// Replaces the pages from [`Runs::at`] to `end` by `regions`, which are in order and lie in between; all else there
    /// is absent. Tells what differs from before.
    pub(crate) fn replace(
        &mut self,
        end: u64,
        regions: &[Region],
        mut differs: impl FnMut(Difference),
    ) {
        for region in regions {
            self.extend(region.start.min(end), Seen::ABSENT, &mut differs);
            self.extend(region.end.min(end), region.seen, &mut differs);
        }
        self.extend(end, Seen::ABSENT, &mut differs);
    }

    fn extend(&mut self, end: u64, now: Seen, differs: &mut impl FnMut(Difference)) {
        while self.at < end {
            let (before, before_ends) = self.old_at();
            let to = end.min(before_ends);
            if before != now {
                differs(Difference {
                    start: self.at,
                    end: to,
                    before,
                    now,
                });
            }
            self.push(now);
            self.at = to;
        }
    }

    /// What page `at` was before, and up to where that holds.
    fn old_at(&mut self) -> (Seen, u64) {
        while self
            .old
            .get(self.old_index + 1)
            .is_some_and(|next| next.start() <= self.at)
        {
            self.old_index += 1;
        }
        let run = self.old.get(self.old_index).copied();
        let next = self.old.get(self.old_index + 1).copied();
        match run {
            Some(run) if run.start() <= self.at => (run.seen(), next.map_or(u64::MAX, Run::start)),
            Some(first) => (Seen::ABSENT, first.start()),
            None => (Seen::ABSENT, u64::MAX),
        }
    }

    /// `at` and what follows is now so.
    fn push(&mut self, now: Seen) {
        let last = self.new.last().map_or(Seen::ABSENT, |run| run.seen());
        if last != now {
            self.new.push(Run::new(self.at, now));
        }
    }

    /// The scan ends here; what lies beyond stays as it was seen before. The next one begins at the start.
    pub(crate) fn finish(&mut self) {
        let (seen, _) = self.old_at();
        self.push(seen);
        let rest = self
            .old
            .iter()
            .skip(self.old_index)
            .filter(|run| run.start() > self.at);
        self.new.extend(rest);
        std::mem::swap(&mut self.old, &mut self.new);
        self.new.clear();
        self.old_index = 0;
        self.at = 0;
    }

    /// Goes on with what was seen before up to this page, unchanged.
    pub(crate) fn skip_to(&mut self, page: u64) {
        while self.at < page {
            let (seen, ends) = self.old_at();
            self.push(seen);
            self.at = page.min(ends);
        }
    }

    /// What was seen of a page by the last scan that looked at it.
    pub(crate) fn seen(&self, page: u64) -> Seen {
        let runs = if page < self.at { &self.new } else { &self.old };
        let after = runs.partition_point(|run| run.start() <= page);
        after
            .checked_sub(1)
            .map_or(Seen::ABSENT, |index| runs[index].seen())
    }

    /// What was seen before of the pages that this scan has not reached is forgotten: they count as absent.
    pub(crate) fn forget_rest(&mut self) {
        self.old.clear();
        self.old_index = 0;
    }

    /// Counts pages by state, as of the last finished scan.
    pub(crate) fn pages(&self) -> Pages {
        let mut pages = Pages::default();
        for pair in self.old.windows(2) {
            let count = pair[1].start() - pair[0].start();
            match pair[0].seen().state {
                State::Resident => pages.resident += count,
                State::Huge => {
                    pages.resident += count;
                    pages.huge += count;
                }
                State::Swapped => pages.swapped += count,
                State::Absent | State::Zero => {}
            }
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = 1 << 35;

    fn seen(state: State) -> Seen {
        Seen { state, file: false }
    }

    fn region(start: u64, end: u64, state: State) -> Region {
        Region {
            start,
            end,
            seen: seen(state),
        }
    }

    /// A whole scan in parts that end at these pages.
    fn scan(runs: &mut Runs, parts: &[u64], regions: &[Region]) -> Vec<(u64, u64, State, State)> {
        let mut found = Vec::new();
        let mut from = 0;
        for &to in parts.iter().chain([&END]) {
            let part: Vec<Region> = regions
                .iter()
                .filter(|region| region.start >= from && region.end <= to)
                .copied()
                .collect();
            runs.replace(to, &part, |change| {
                found.push((
                    change.start,
                    change.end,
                    change.before.state,
                    change.now.state,
                ));
            });
            from = to;
        }
        runs.finish();
        found
    }

    #[test]
    fn the_first_scan_tells_all_that_is_not_absent() {
        let mut runs = Runs::default();
        let regions = [
            region(10, 20, State::Resident),
            region(20, 22, State::Swapped),
        ];
        assert_eq!(
            scan(&mut runs, &[], &regions),
            [
                (10, 20, State::Absent, State::Resident),
                (20, 22, State::Absent, State::Swapped)
            ]
        );
        assert_eq!(
            runs.pages(),
            Pages {
                resident: 10,
                huge: 0,
                swapped: 2
            }
        );
    }

    #[test]
    fn an_equal_scan_tells_nothing_however_it_is_cut() {
        let mut runs = Runs::default();
        let regions = [
            region(10, 20, State::Resident),
            region(20, 30, State::Swapped),
            region(40, 41, State::Huge),
        ];
        scan(&mut runs, &[], &regions);
        assert_eq!(scan(&mut runs, &[20, 35], &regions), []);
        assert_eq!(scan(&mut runs, &[5, 30, 40, 41, 50], &regions), []);
        assert_eq!(runs.len(), 5);
    }

    #[test]
    fn only_the_part_that_changed_is_told() {
        let mut runs = Runs::default();
        scan(&mut runs, &[], &[region(10, 30, State::Resident)]);
        let now = [
            region(10, 15, State::Resident),
            region(15, 17, State::Swapped),
            region(20, 35, State::Resident),
        ];
        assert_eq!(
            scan(&mut runs, &[], &now),
            [
                (15, 17, State::Resident, State::Swapped),
                (17, 20, State::Resident, State::Absent),
                (30, 35, State::Absent, State::Resident),
            ]
        );
        assert_eq!(
            scan(&mut runs, &[], &[]),
            [
                (10, 15, State::Resident, State::Absent),
                (15, 17, State::Swapped, State::Absent),
                (20, 35, State::Resident, State::Absent),
            ]
        );
        assert_eq!(runs.pages(), Pages::default());
    }

    #[test]
    fn what_a_short_scan_did_not_reach_stays_as_it_was() {
        let mut runs = Runs::default();
        let regions = [
            region(10, 30, State::Resident),
            region(50, 60, State::Swapped),
        ];
        scan(&mut runs, &[], &regions);
        let mut found = 0;
        runs.replace(20, &[], |_| found += 1);
        runs.finish();
        assert_eq!(found, 1);
        // The next one goes on there.
        runs.skip_to(20);
        assert_eq!(runs.at(), 20);
        let mut rest = Vec::new();
        runs.replace(END, &regions[1..], |change| {
            rest.push((change.start, change.end))
        });
        runs.finish();
        assert_eq!(rest, [(20, 30)]);
        assert_eq!(runs.pages().swapped, 10);
    }

    #[test]
    fn a_page_of_a_file_is_another_thing_than_a_page_of_ones_own() {
        let mut runs = Runs::default();
        scan(&mut runs, &[], &[region(1, 2, State::Resident)]);
        let file = Region {
            seen: Seen {
                state: State::Resident,
                file: true,
            },
            ..region(1, 2, State::Resident)
        };
        assert_eq!(scan(&mut runs, &[], &[file]).len(), 1);
        assert_eq!(runs.seen(1), file.seen);
        assert_eq!((runs.seen(0), runs.seen(2)), (Seen::ABSENT, Seen::ABSENT));
        assert_eq!(scan(&mut runs, &[], &[file]), []);
    }

    /// Against a plain array of pages, many times over.
    #[test]
    fn differences_add_up_to_the_states() {
        const PAGES: u64 = 64;
        let mut random = 88_172_645_463_325_252u64;
        let mut next = move |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let mut runs = Runs::default();
        let mut told = [Seen::ABSENT; PAGES as usize];
        for _ in 0..500 {
            let mut pages = [Seen::ABSENT; PAGES as usize];
            for page in &mut pages {
                *page = Seen::from_code([0, 1, 2, 3, 4, 9, 10][next(7) as usize]);
            }
            let regions: Vec<Region> = (0..PAGES)
                .map(|page| Region {
                    start: page,
                    end: page + 1,
                    seen: pages[page as usize],
                })
                .filter(|region| region.seen != Seen::ABSENT)
                .collect();
            let from = next(PAGES / 2);
            let to = if next(2) == 0 {
                END
            } else {
                from + next(PAGES)
            };
            runs.skip_to(from);
            let part: Vec<Region> = regions
                .into_iter()
                .filter(|region| region.start >= from && region.end <= to)
                .collect();
            runs.replace(to, &part, |change| {
                for page in change.start..change.end.min(PAGES) {
                    assert_eq!(told[page as usize], change.before);
                    told[page as usize] = change.now;
                }
            });
            runs.finish();
            let reached = from as usize..to.min(PAGES) as usize;
            assert_eq!(told[reached.clone()], pages[reached]);
        }
    }
}
