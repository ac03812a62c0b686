//! Numbers for who reads and writes: call paths, and of each path the kinds of files that it uses.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::RandomState;

use super::alike::Kind;
use super::pages::Who;

/// All call paths for which there is no number of their own.
pub(crate) const BEYOND: Who = Who::MAX;
/// Of one path so many kinds of files are told apart: one that uses more goes through all that there are,
const MOST_KINDS: u8 = 16;
/// and kinds leave half of the numbers to paths.
const MOST_BY_KIND: Who = Who::MAX / 2;

struct CallPath {
    first: Who,
    kinds: u8,
}

/// Numbers from 1; 0 is nobody.
#[derive(Default)]
pub(crate) struct Numbers {
    known: HashMap<(Option<u32>, Kind), Who, RandomState>,
    /// By stack; the one that is not known too.
    paths: HashMap<Option<u32>, CallPath, RandomState>,
    given: usize,
}

impl Numbers {
    /// Kinds of files beyond those that are told apart count as the path's first.
    pub(crate) fn of(&mut self, stack: Option<u32>, kind: Kind) -> Who {
        let vacant = match self.known.entry((stack, kind)) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(vacant) => vacant,
        };
        let next = Who::try_from(self.given + 1).unwrap_or(BEYOND);
        let who = match self.paths.entry(stack) {
            Entry::Vacant(path) => {
                let first = path.insert(CallPath {
                    first: next,
                    kinds: 1,
                });
                first.first
            }
            Entry::Occupied(path) if path.get().kinds == MOST_KINDS || next > MOST_BY_KIND => {
                path.get().first
            }
            Entry::Occupied(mut path) => {
                path.get_mut().kinds += 1;
                next
            }
        };
        if who == next && who != BEYOND {
            self.given += 1;
        }
        *vacant.insert(who)
    }

    /// How many call paths have no number of their own.
    pub(crate) fn paths_beyond(&self) -> usize {
        let paths = self.paths.values();
        paths.filter(|path| path.first == BEYOND).count()
    }

    /// Each number once, with its path.
    pub(crate) fn all(&self) -> Vec<(Who, Option<u32>)> {
        let known = self.known.iter();
        let mut all: Vec<(Who, Option<u32>)> =
            known.map(|(&(stack, _), &who)| (who, stack)).collect();
        all.sort_unstable();
        all.dedup_by_key(|&mut (who, _)| who);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_goes_through_all_sorts_of_files_is_one_beyond_some() {
        let mut numbers = Numbers::default();
        let first = numbers.of(Some(7), 1);
        let others: Vec<Who> = (2..=100).map(|kind| numbers.of(Some(7), kind)).collect();
        assert_eq!(first, 1);
        assert_eq!(others[..15], (2..=16).collect::<Vec<Who>>());
        assert!(others[15..].iter().all(|&who| who == first));
        assert_eq!(numbers.of(Some(8), 1), 17);
        assert_eq!(numbers.of(Some(7), 3), 3, "as before");
        assert_eq!(numbers.all().len(), 17);
    }

    #[test]
    fn kinds_of_files_take_no_numbers_that_call_paths_need() {
        let mut numbers = Numbers::default();
        for stack in 0..u32::from(Who::MAX) {
            numbers.of(Some(stack), 1);
            numbers.of(Some(stack), 2);
        }
        assert_eq!(numbers.paths_beyond(), usize::from(Who::MAX) - 49_151);
        assert_eq!(numbers.of(Some(1 << 20), 1), BEYOND);
    }
}
