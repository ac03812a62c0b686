//! What of the lasting tables is still needed when events before a moment are forgotten: an allocation that was
//! released before it is not, nor what belonged to an address space that ended before it, and of states of a page the
//! last is enough.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;

use crate::page_states;
use crate::tables::Allocation;
use crate::tables::GivenName;
use crate::tables::Mapping;
use crate::tables::Move;
use crate::tables::Release;
use crate::tables::Residency;
use crate::tables::Space;

/// The rows of these tables.
pub(crate) struct Lasting {
    pub(crate) spaces: Vec<Space>,
    pub(crate) allocations: Vec<Allocation>,
    pub(crate) releases: Vec<Release>,
    pub(crate) moves: Vec<Move>,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) residency: Vec<Residency>,
    pub(crate) given_names: Vec<GivenName>,
}

impl Lasting {
    /// Removes what no event from that moment on can refer to.
    pub(crate) fn forget(&mut self, before_ns: u64) {
        let needed = self.needed_spaces(before_ns);
        self.spaces.retain(|row| needed.contains(&row.space));
        self.allocations.retain(|row| needed.contains(&row.space));
        self.releases.retain(|row| needed.contains(&row.space));
        self.moves.retain(|row| needed.contains(&row.space));
        self.mappings.retain(|row| needed.contains(&row.space));
        let residency = std::mem::take(&mut self.residency);
        self.residency = page_states::fold(residency, &needed, before_ns);
        self.forget_released(before_ns);
        self.forget_names(before_ns);
    }

    /// Those that did not end before, and those they were forked from: a child has what its parent had.
    fn needed_spaces(&self, before_ns: u64) -> HashSet<u32> {
        let mut last: HashMap<u32, &Space> = HashMap::new();
        for row in &self.spaces {
            last.insert(row.space, row);
        }
        let lives = |row: &&&Space| row.end_ns.is_none_or(|end| end >= before_ns);
        let mut needed = HashSet::new();
        let mut next: Vec<u32> = last.values().filter(lives).map(|row| row.space).collect();
        while let Some(space) = next.pop() {
            if needed.insert(space)
                && let Some(parent) = last.get(&space).and_then(|row| row.parent_space)
            {
                next.push(parent);
            }
        }
        needed
    }

    /// Removes pairs of an allocation and its release, unless a child was forked between them.
    fn forget_released(&mut self, before_ns: u64) {
        let mut forks: HashMap<u32, Vec<u64>> = HashMap::new();
        for row in &self.spaces {
            if let Some(parent) = row.parent_space {
                forks.entry(parent).or_default().push(row.begin_ns);
            }
        }
        let was_forked = |space: u32, from: u64, to: u64| {
            let times = forks.get(&space);
            times.is_some_and(|times| times.iter().any(|time| (from..=to).contains(time)))
        };
        // Where a range was moved, the release bears another address.
        let moved: HashSet<(u32, u64)> = self
            .moves
            .iter()
            .flat_map(|row| [(row.space, row.old_address), (row.space, row.new_address)])
            .collect();
        let mut open: HashMap<(u32, u64), usize> = HashMap::new();
        let mut changes: Vec<(u64, bool, usize)> = Vec::new();
        let allocations = self.allocations.iter().enumerate();
        changes.extend(allocations.map(|(index, row)| (row.time_ns, false, index)));
        let releases = self.releases.iter().enumerate();
        changes.extend(releases.map(|(index, row)| (row.time_ns, true, index)));
        changes.sort_unstable();
        let (mut dead, mut spent) = (HashSet::new(), HashSet::new());
        for (time_ns, is_release, index) in changes {
            if time_ns >= before_ns {
                break;
            }
            if !is_release {
                let row = &self.allocations[index];
                open.insert((row.space, row.address), index);
                continue;
            }
            let release = &self.releases[index];
            let key = (release.space, release.address);
            if moved.contains(&key) {
                continue;
            }
            let Some(&at) = open.get(&key) else { continue };
            let allocation = &self.allocations[at];
            let whole = release.bytes.is_none_or(|bytes| bytes >= allocation.bytes);
            if whole && !was_forked(release.space, allocation.time_ns, time_ns) {
                open.remove(&key);
                dead.insert(at);
                spent.insert(index);
            }
        }
        keep_others(&mut self.allocations, &dead);
        keep_others(&mut self.releases, &spent);
    }
}

impl Lasting {
    /// Removes names of what is not there any more. What was moved has its name where it was.
    fn forget_names(&mut self, before_ns: u64) {
        let mut ranges: HashMap<u32, BTreeMap<u64, u64>> = HashMap::new();
        for row in &self.allocations {
            let end = row.address.saturating_add(row.bytes);
            let longest = ranges.entry(row.space).or_default();
            let known = longest.entry(row.address).or_default();
            *known = end.max(*known);
        }
        let is_there = |row: &GivenName| {
            let mut below = ranges.get(&row.space)?.range(..=row.address);
            below.next_back().filter(|(_, end)| row.address < **end)
        };
        self.given_names
            .retain(|row| row.time_ns >= before_ns || is_there(row).is_some());
    }
}

fn keep_others<T>(rows: &mut Vec<T>, without: &HashSet<usize>) {
    let mut index = 0;
    rows.retain(|_| {
        index += 1;
        !without.contains(&(index - 1))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::AllocationKind;

    fn space(space: u32, parent_space: Option<u32>, begin_ns: u64, end_ns: Option<u64>) -> Space {
        Space {
            space,
            pid: space,
            start_time_ns: 0,
            exec_epoch: 0,
            parent_space,
            begin_ns,
            end_ns,
            command: String::new(),
            executable: None,
        }
    }

    fn allocation(space: u32, time_ns: u64, address: u64) -> Allocation {
        Allocation {
            estimated_bytes: None,
            allocation: time_ns,
            space,
            tid: 1,
            time_ns,
            address,
            bytes: 4096,
            kind: AllocationKind::Malloc,
            stack: None,
        }
    }

    fn release(space: u32, time_ns: u64, address: u64) -> Release {
        Release {
            space,
            time_ns,
            address,
            bytes: None,
        }
    }

    fn times(lasting: &Lasting) -> (Vec<u64>, Vec<u64>) {
        let allocations = lasting.allocations.iter().map(|row| row.time_ns);
        let releases = lasting.releases.iter().map(|row| row.time_ns);
        (allocations.collect(), releases.collect())
    }

    fn lasting(spaces: Vec<Space>) -> Lasting {
        Lasting {
            spaces,
            allocations: Vec::new(),
            releases: Vec::new(),
            moves: Vec::new(),
            mappings: Vec::new(),
            residency: Vec::new(),
            given_names: Vec::new(),
        }
    }

    #[test]
    fn pairs_before_the_moment_go_and_what_lives_stays() {
        let mut rows = lasting(vec![space(1, None, 0, None)]);
        // Released before; released after; never; and the same address again.
        rows.allocations = vec![
            allocation(1, 10, 0x1000),
            allocation(1, 11, 0x2000),
            allocation(1, 12, 0x3000),
            allocation(1, 30, 0x1000),
        ];
        rows.releases = vec![release(1, 20, 0x1000), release(1, 60, 0x2000)];
        rows.forget(50);
        assert_eq!(times(&rows), (vec![11, 12, 30], vec![60]));
    }

    #[test]
    fn names_go_with_what_they_name() {
        let mut rows = lasting(vec![space(1, None, 0, None)]);
        rows.allocations = vec![allocation(1, 10, 0x1000), allocation(1, 11, 0x3000)];
        rows.releases = vec![release(1, 20, 0x1000)];
        let name = |time_ns, address| GivenName {
            time_ns,
            space: 1,
            address,
            name: "grid".to_owned(),
        };
        rows.given_names = vec![name(12, 0x1000), name(13, 0x3008), name(60, 0x9000)];
        rows.forget(50);
        let times: Vec<u64> = rows.given_names.iter().map(|row| row.time_ns).collect();
        assert_eq!(times, [13, 60]);
    }

    #[test]
    fn what_a_child_inherited_stays() {
        let mut rows = lasting(vec![
            space(1, None, 0, Some(40)),
            space(2, Some(1), 15, None),
            space(3, None, 0, Some(40)),
        ]);
        rows.allocations = vec![allocation(1, 10, 0x1000), allocation(3, 10, 0x1000)];
        rows.releases = vec![release(1, 20, 0x1000)];
        rows.forget(50);
        assert_eq!(times(&rows), (vec![10], vec![20]));
        assert_eq!(rows.spaces.len(), 2, "the third ended and has no child");
    }

    #[test]
    fn a_moved_range_is_left_alone() {
        let mut rows = lasting(vec![space(1, None, 0, None)]);
        rows.allocations = vec![allocation(1, 10, 0x1000)];
        rows.moves = vec![Move {
            space: 1,
            time_ns: 15,
            old_address: 0x1000,
            old_bytes: 4096,
            new_address: 0x9000,
            new_bytes: 8192,
        }];
        rows.releases = vec![release(1, 20, 0x9000)];
        rows.forget(50);
        assert_eq!(times(&rows), (vec![10], vec![20]));
    }
}
