//! A way to share out room by how often memory is used: of the pages that are used most, as many as fit are locked.
//!
//! Swap-ins tell of a page in memory only that it is there. The string of references that crate `predict` makes tells how often it is used, from
//! what was seen when memory was looked at, and how soon pages left and came back. To keep those used most is the best that locks can do where
//! uses come in no order, and as good as any other where they come in rounds.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::ops::Range;

use crate::choose::Choice;
use crate::choose::is_room_to_keep;
use crate::choose::left_beside_passes;
use crate::choose::left_to_the_kernel;
use crate::choose::lock_budget;
use crate::choose::most_used;
use crate::facts::ObjectFacts;
use crate::facts::PAGE;
use crate::heat::merged;
use crate::layouts::aligned_to_blocks;
use crate::run_facts::RunFacts;

/// An object is divided into so many cells at most, of so many pages that were counted each: else the differences are chance.
const MOST_CELLS: u64 = 64;
const PAGES_OF_CELL: u64 = 16;
/// Parts of an object are told apart where the more used is used so many times as often, by page.
const TELLS: f64 = 2.0;
/// Of what is not in use there are this many times fewer pages counted than stand for it.
const MOSTLY_UNUSED: u64 = 2;
/// Less than this share of memory is not worth the lock of a part.
const LEAST_PART: u64 = 16;
/// Shares of what may be locked, in quarters, all of which are tried.
const QUARTERS: [u64; 4] = [4, 3, 2, 1];

/// What is kept of an object.
pub(crate) struct Part {
    /// From where to where: of its only block, or of all together in the order in which they are made.
    pub(crate) ranges: Vec<Range<u64>>,
    /// Or so many bytes of its blocks, the first ones.
    pub(crate) first_bytes: Option<u64>,
    /// How much of it that is, as far as it is in use at all.
    pub(crate) bytes: u64,
    /// How many times as often a page of it is used as one that is not kept.
    pub(crate) times: f64,
}

/// Where a page lies: its object, and bytes from the object's start, all blocks together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) object: usize,
    pub(crate) offset: u64,
}

/// Pages that are kept together or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cell {
    /// `None`: no rule may be about it.
    object: Option<usize>,
    /// Of its object.
    range: Range<u64>,
    /// Pages of its own, as far as they are in use at all.
    pages: u64,
    uses: u64,
    /// It may also be kept in part.
    is_divisible: bool,
}

impl Cell {
    /// By page.
    fn rate(&self) -> f64 {
        self.uses as f64 / self.pages.max(1) as f64
    }

    /// Its first so many bytes; `None`: less than a page, or it is an object of its own.
    fn first(&self, bytes: u64) -> Option<Self> {
        let bytes = bytes / PAGE * PAGE;
        let whole = self.range.end - self.range.start;
        let of_these = |number: u64| (number as f64 * bytes as f64 / whole as f64) as u64;
        (bytes > 0 && !self.is_divisible).then(|| Self {
            range: self.range.start..self.range.start + bytes,
            pages: of_these(self.pages),
            uses: of_these(self.uses),
            ..self.clone()
        })
    }
}

/// Cells that are kept, by object.
type Taken = BTreeMap<usize, Vec<Cell>>;

/// How often each part of the program's memory is used.
pub(crate) struct Uses {
    /// Those used most first.
    cells: Vec<Cell>,
    /// How many bytes a page that was counted stands for.
    page_bytes: f64,
}

impl Uses {
    /// Of pages that stand for so many bytes each: where each lies, if a rule may be about it, and how often it is used.
    pub(crate) fn new(
        pages: impl Iterator<Item = (Option<Place>, u64)>,
        page_bytes: f64,
        objects: &[ObjectFacts],
    ) -> Self {
        let mut of_objects: HashMap<Option<usize>, Vec<(u64, u64)>> = HashMap::new();
        for (place, uses) in pages {
            let offset = place.map_or(0, |place| place.offset);
            let pages = of_objects.entry(place.map(|place| place.object));
            pages.or_default().push((offset, uses));
        }
        let cells = of_objects.into_iter().flat_map(|(of, pages)| match of {
            None => vec![whole(None, 0, &pages)],
            Some(at) => cells(at, &objects[at], &pages),
        });
        let mut uses = Self {
            cells: cells.collect(),
            page_bytes,
        };
        uses.sort();
        uses
    }

    /// Those used most first.
    fn sort(&mut self) {
        let place = |cell: &Cell| (cell.object, cell.range.start);
        self.cells.sort_by(|a, b| {
            let by_rate = b.rate().total_cmp(&a.rate());
            by_rate.then_with(|| place(a).cmp(&place(b)))
        });
    }

    /// Locks, by how much of what may be locked they take.
    pub(crate) fn ways(
        &self,
        objects: &[ObjectFacts],
        run: &RunFacts,
        memory_bytes: u64,
    ) -> Vec<Vec<Choice>> {
        let most = lock_budget(memory_bytes).min(left_beside_passes(objects, memory_bytes));
        let lockable = run.lockable_bytes.unwrap_or(u64::MAX);
        let mut ways: Vec<Vec<Choice>> = Vec::new();
        if !is_room_to_keep(memory_bytes) {
            return ways;
        }
        for quarters in QUARTERS {
            let way = self.fill((most / 4 * quarters, lockable), objects, memory_bytes);
            if !way.is_empty() && !ways.contains(&way) {
                ways.push(way);
            }
        }
        ways
    }

    /// Locks of what is used most, within what there is and what the user may lock.
    fn fill(
        &self,
        (left, lockable): (u64, u64),
        objects: &[ObjectFacts],
        memory_bytes: u64,
    ) -> Vec<Choice> {
        let (taken, next) = self.that_fit((left, lockable), objects);
        let rest = self.rate_without(&taken).max(f64::MIN_POSITIVE);
        let kept = taken.into_iter().map(|(at, cells)| {
            let (pages, uses) = sums(&cells);
            let bytes: u64 = cells.iter().map(|cell| self.bytes_of(cell)).sum();
            let part = Part {
                ranges: merged(cells.iter().map(|cell| cell.range.clone()).collect()),
                first_bytes: None,
                bytes: bytes.min(objects[at].bytes),
                times: uses as f64 / pages.max(1) as f64 / rest,
            };
            most_used(at, &objects[at], &part)
        });
        let is_worth_it = |bytes: u64| bytes >= memory_bytes / LEAST_PART;
        let next = next.filter(|(cell, bytes)| cell.is_divisible && is_worth_it(*bytes));
        let first = next.and_then(|(cell, bytes)| {
            let part = Part {
                ranges: Vec::new(),
                first_bytes: Some(bytes),
                bytes,
                times: cell.rate() / rest,
            };
            Some(most_used(cell.object?, &objects[cell.object?], &part))
        });
        kept.chain(first).collect()
    }

    /// The cells used most that fit, by object, and the next one with what is left for it, bytes.
    fn that_fit(
        &self,
        (mut left, mut lockable): (u64, u64),
        objects: &[ObjectFacts],
    ) -> (Taken, Option<(&Cell, u64)>) {
        let mut taken = Taken::new();
        for cell in self.cells.iter().filter(|cell| cell.uses > 0) {
            let Some(at) = cell.object else {
                left = left.saturating_sub(self.bytes(cell.pages));
                continue;
            };
            let bytes = self.bytes_of(cell);
            let own = taken.get(&at).into_iter().flatten();
            let own: u64 = own.map(|cell| self.bytes_of(cell)).sum();
            let lockable_of_it = objects[at].lockable_bytes().saturating_sub(own);
            let most = left.min(lockable).min(lockable_of_it);
            if bytes > most {
                // It is used as often as any part of it.
                if let Some(part) = cell.first(most).filter(|_| objects[at].is_one_block) {
                    taken.entry(at).or_default().push(part);
                }
                return (taken, Some((cell, most)));
            }
            left -= bytes;
            lockable -= bytes;
            taken.entry(at).or_default().push(cell.clone());
        }
        (taken, None)
    }

    /// What is locked by a cell's lock: as a rule all of it, of which about as many pages were counted as stand for it; else what is in use.
    fn bytes_of(&self, cell: &Cell) -> u64 {
        let whole = cell.range.end - cell.range.start;
        match self.bytes(cell.pages) {
            some if some * MOSTLY_UNUSED < whole => some,
            _ => whole,
        }
    }

    /// Of so many pages that were counted.
    fn bytes(&self, pages: u64) -> u64 {
        (pages as f64 * self.page_bytes) as u64
    }

    /// Uses by page of what is not among these.
    fn rate_without(&self, taken: &Taken) -> f64 {
        let is_taken = |cell: &Cell| {
            let of_object = cell.object.and_then(|at| taken.get(&at));
            of_object.is_some_and(|cells| cells.iter().any(|one| one.range == cell.range))
        };
        let rest = self.cells.iter().filter(|cell| !is_taken(cell));
        let (pages, uses) = sums(rest);
        uses as f64 / pages.max(1) as f64
    }
}

fn sums<'uses>(cells: impl IntoIterator<Item = &'uses Cell>) -> (u64, u64) {
    let add = |(pages, uses), cell: &Cell| (pages + cell.pages, uses + cell.uses);
    cells.into_iter().fold((0, 0), add)
}

/// Of all pages, each its offset and its uses.
fn whole(object: Option<usize>, bytes: u64, pages: &[(u64, u64)]) -> Cell {
    Cell {
        object,
        range: 0..bytes,
        pages: pages.len() as u64,
        uses: pages.iter().map(|(_, uses)| uses).sum(),
        is_divisible: true,
    }
}

/// The cells of an object, or one where they do not differ.
fn cells(at: usize, object: &ObjectFacts, pages: &[(u64, u64)]) -> Vec<Cell> {
    let whole = whole(Some(at), object.bytes, pages);
    if !object.has_parts() {
        return vec![whole];
    }
    let count = (pages.len() as u64 / PAGES_OF_CELL).clamp(1, MOST_CELLS);
    let cell_bytes = object.bytes.div_ceil(count).next_multiple_of(PAGE);
    let cell_bytes = match object.is_one_block {
        true => cell_bytes,
        false => aligned_to_blocks(cell_bytes, object.block_bytes),
    };
    let mut cells: BTreeMap<u64, Cell> = BTreeMap::new();
    for &(offset, uses) in pages {
        let number = offset / cell_bytes;
        let cell = cells.entry(number).or_insert_with(|| Cell {
            object: Some(at),
            range: number * cell_bytes..(number + 1) * cell_bytes,
            ..Cell::default()
        });
        cell.pages += 1;
        cell.uses += uses;
    }
    let cells: Vec<Cell> = cells.into_values().collect();
    match do_differ(&cells) {
        true => cells,
        false => vec![whole],
    }
}

/// Whether some of these are used so much more than the others that it is no chance: where they are divided best in two.
fn do_differ(cells: &[Cell]) -> bool {
    let mut sorted: Vec<&Cell> = cells.iter().collect();
    sorted.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
    let apart = |count: usize| {
        let (more, less) = sorted.split_at(count);
        let sums = |cells: &[&Cell]| sums(cells.iter().copied());
        let ((pages, uses), (other_pages, other_uses)) = (sums(more), sums(less));
        let rates = [
            uses as f64 / pages.max(1) as f64,
            other_uses as f64 / other_pages.max(1) as f64,
        ];
        let between = pages as f64 * other_pages as f64 * (rates[0] - rates[1]).powi(2);
        (between, rates[0] >= TELLS * rates[1] && uses > 0)
    };
    let best = (1..cells.len())
        .map(apart)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.is_some_and(|(_, tells)| tells)
}

/// Adds that nothing is done about what another way has a choice for.
pub(crate) fn add_others(choices: &mut Vec<Choice>, of_other_way: &[Choice]) {
    let others = of_other_way
        .iter()
        .filter(|other| choices.iter().all(|choice| choice.object != other.object));
    let others: Vec<Choice> = others
        .map(|other| left_to_the_kernel(other.object))
        .collect();
    choices.extend(others);
    choices.sort_by_key(|choice| choice.object);
}

#[cfg(test)]
mod tests {
    use pagewise_plan::Action;

    use super::*;
    use crate::facts::tests::facts_of;
    use crate::subjects::tests::object;

    const MIB: u64 = 1 << 20;

    /// Objects of so many MiB, each page of which counts itself, and is used so often by its number.
    fn uses(mib: &[u64], uses_of: impl Fn(usize, u64) -> u64) -> (Uses, Vec<ObjectFacts>) {
        let name = |at| ["first", "second", "third"][at];
        let objects: Vec<ObjectFacts> = mib
            .iter()
            .enumerate()
            .map(|(at, mib)| facts_of(&[object(name(at), mib * MIB, 0)]))
            .collect();
        let cells = objects.iter().enumerate().flat_map(|(at, object)| {
            let pages = (0..object.bytes / PAGE).map(|page| (page * PAGE, uses_of(at, page)));
            cells(at, object, &pages.collect::<Vec<_>>())
        });
        let mut uses = Uses {
            cells: cells.collect(),
            page_bytes: PAGE as f64,
        };
        uses.sort();
        (uses, objects)
    }

    fn kept(choices: &[Choice]) -> Vec<(usize, u64, Option<u64>, usize)> {
        let of = |choice: &Choice| match &choice.action {
            Action::Lock {
                keep_bytes, ranges, ..
            } => (
                choice.object,
                choice.kept_bytes / MIB,
                keep_bytes.map(|keep| keep / MIB),
                ranges.len(),
            ),
            other => panic!("{other:?}"),
        };
        choices.iter().map(of).collect()
    }

    #[test]
    fn what_is_used_no_more_often_than_others_is_not_said_to_be() {
        let facts = facts_of(&[object("table", 192 << 20, 0)]);
        let why = |times| {
            let part = Part {
                ranges: Vec::new(),
                first_bytes: Some(96 << 20),
                bytes: 96 << 20,
                times,
            };
            most_used(0, &facts, &part).why
        };
        assert!(why(1.04).contains("about as often"), "{}", why(1.04));
        assert!(why(1.26).contains("1.3 times as often"), "{}", why(1.26));
    }

    #[test]
    fn what_is_used_most_is_kept_whole_and_of_the_next_what_fits() {
        let (uses, objects) = uses(&[64, 96, 64], |at, _| [3, 5, 20][at]);
        let fill = |mib, lockable| kept(&uses.fill((mib * MIB, lockable), &objects, 128 * MIB));
        assert_eq!(
            fill(112, u64::MAX),
            [(2, 64, None, 0), (1, 48, Some(48), 0)]
        );
        assert_eq!(fill(66, u64::MAX), [(2, 64, None, 0)], "the rest is little");
        assert_eq!(fill(112, 32 * MIB), [(2, 32, Some(32), 0)], "no more may");
        assert_eq!(fill(4, u64::MAX), []);
    }

    #[test]
    fn what_stands_for_a_little_more_than_there_is_fits_as_what_there_is() {
        let (mut uses, objects) = uses(&[64, 64], |at, _| [9, 3][at]);
        uses.page_bytes *= 1.02;
        let found = uses.fill((112 * MIB, u64::MAX), &objects, 128 * MIB);
        assert_eq!(kept(&found), [(0, 64, None, 0), (1, 48, Some(48), 0)]);
    }

    #[test]
    fn where_parts_differ_the_part_used_more_is_kept() {
        let (uses, objects) = uses(&[64, 64], |at, page| match (at, page / 4096) {
            (0, 1 | 3) => 12,
            (0, _) => 2,
            _ => 4,
        });
        let found = uses.fill((48 * MIB, u64::MAX), &objects, 128 * MIB);
        assert_eq!(kept(&found), [(0, 32, None, 2), (1, 16, Some(16), 0)]);
        let Action::Lock { ranges, .. } = &found[0].action else {
            panic!("{found:?}");
        };
        assert_eq!(ranges[..], [16 * MIB..32 * MIB, 48 * MIB..64 * MIB]);
        assert!(found[0].why.contains("32 MiB of it"), "{}", found[0].why);
    }

    #[test]
    fn what_is_left_is_filled_by_a_part_of_a_cell_and_cells_are_locked_as_a_whole() {
        let (mut uses, objects) = uses(&[64], |_, page| if page / 4096 == 1 { 12 } else { 0 });
        // Of chance, fewer pages were counted than stand for all.
        uses.page_bytes *= 0.9;
        let budget = 12 * MIB + MIB / 2;
        let found = uses.fill((budget, u64::MAX), &objects, 128 * MIB);
        let Action::Lock { ranges, .. } = &found[0].action else {
            panic!("{found:?}");
        };
        assert_eq!(
            (ranges.len(), &ranges[0]),
            (1, &(16 * MIB..16 * MIB + budget))
        );
        // Of what is hardly in use, what is.
        uses.page_bytes *= 0.1;
        let found = uses.fill((budget, u64::MAX), &objects, 128 * MIB);
        assert!(found[0].kept_bytes < 2 * MIB, "{found:?}");
        let Action::Lock { ranges, .. } = &found[0].action else {
            panic!("{found:?}");
        };
        assert_eq!((ranges.len(), &ranges[0]), (1, &(16 * MIB..32 * MIB)));
    }

    #[test]
    fn chance_tells_no_parts_apart() {
        // Three times as often here and there, nowhere for long.
        let (uses, _) = uses(&[64], |_, page| if page % 7 == 0 { 9 } else { 3 });
        assert_eq!(uses.cells.len(), 1);
    }

    #[test]
    fn what_no_rule_may_be_about_has_its_room() {
        let (mut uses, objects) = uses(&[64], |_, _| 5);
        uses.cells.push(Cell {
            pages: 32 * MIB / PAGE,
            uses: 100 * MIB,
            ..Cell::default()
        });
        uses.sort();
        let found = uses.fill((64 * MIB, u64::MAX), &objects, 128 * MIB);
        assert_eq!(kept(&found), [(0, 32, Some(32), 0)]);
    }

    #[test]
    fn what_is_used_once_is_not_kept() {
        let (uses, objects) = uses(&[64, 64], |at, _| [0, 1][at]);
        let found = uses.fill((128 * MIB, u64::MAX), &objects, 128 * MIB);
        assert_eq!(kept(&found), [(1, 64, None, 0)]);
    }
}
