//! Where in the code a program waits: swap-in faults by call path.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::frame_paths::FramePaths;
use crate::object::ObjectFrame;

/// Swap-in faults of one call path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPath {
    /// Innermost first: the first frame touched the page. Empty: the call path is not known. Paths share their frames.
    pub frames: Vec<Arc<ObjectFrame>>,
    /// Faults that found a swap entry.
    pub swap_ins: u64,
    /// Time spent in them, ns.
    pub stall_ns: u64,
}

/// The call path whose faults on an object's pages took longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstPath {
    /// Index in the findings' `fault_paths`.
    pub fault_path: usize,
    /// Time spent there on this object, ns.
    pub stall_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    swap_ins: u64,
    stall_ns: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.swap_ins += other.swap_ins;
        self.stall_ns += other.stall_ns;
    }
}

/// Sums while events go by, by call path and object.
#[derive(Default)]
pub(crate) struct PathTallies(HashMap<(Option<u32>, u32), Sum, RandomState>);

impl PathTallies {
    pub(crate) fn swap_in(&mut self, stack: Option<u32>, object: usize, stall_ns: u64) {
        self.0.entry((stack, object as u32)).or_default().add(Sum {
            swap_ins: 1,
            stall_ns,
        });
    }

    /// The paths that faults were on, by number.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = u32> {
        self.0.keys().filter_map(|(stack, _)| *stack)
    }

    /// Most stall first, and which of them each stack is. Paths with equal names are one: they differ in nothing a reader
    /// could see.
    pub(crate) fn paths(
        &self,
        frames: &FramePaths,
    ) -> (Vec<FaultPath>, HashMap<Option<u32>, usize>) {
        if self.stacks().next().is_none() {
            return Default::default();
        }
        let mut of_stack: HashMap<Option<u32>, Sum, RandomState> = HashMap::default();
        for ((stack, _), sum) in &self.0 {
            of_stack.entry(*stack).or_default().add(*sum);
        }
        let names_of = |stack: &Option<u32>| stack.map_or(&[][..], |stack| frames.numbers(stack));
        let mut by_names: HashMap<&[u32], Sum, RandomState> = HashMap::default();
        for (stack, sum) in &of_stack {
            by_names.entry(names_of(stack)).or_default().add(*sum);
        }
        let path = |(numbers, sum): (&[u32], Sum)| FaultPath {
            frames: frames.frames(numbers),
            swap_ins: sum.swap_ins,
            stall_ns: sum.stall_ns,
        };
        let mut paths: Vec<(&[u32], FaultPath)> =
            by_names.into_iter().map(|sum| (sum.0, path(sum))).collect();
        paths.sort_by(|(_, a), (_, b)| {
            (b.stall_ns, b.swap_ins)
                .cmp(&(a.stall_ns, a.swap_ins))
                .then_with(|| a.frames.cmp(&b.frames))
        });
        let places = paths.iter().enumerate();
        let places: HashMap<&[u32], usize, RandomState> = places
            .map(|(place, (numbers, _))| (*numbers, place))
            .collect();
        let of_stack = of_stack.keys().filter_map(|stack| {
            let place = places.get(names_of(stack))?;
            Some((*stack, *place))
        });
        let of_stack = of_stack.collect();
        (paths.into_iter().map(|(_, path)| path).collect(), of_stack)
    }

    /// Of each object's number, the call path of its longest stall.
    pub(crate) fn worst(
        &self,
        path_of_stack: &HashMap<Option<u32>, usize>,
        objects: usize,
    ) -> Vec<Option<WorstPath>> {
        let named = self.0.iter().filter_map(|((stack, object), sum)| {
            let path = path_of_stack.get(stack)?;
            Some((*object, *path, sum.stall_ns))
        });
        let mut named: Vec<(u32, usize, u64)> = named.collect();
        named.sort_unstable();
        let mut worst: Vec<Option<WorstPath>> = vec![None; objects];
        for of_path in named.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (object, fault_path, _) = of_path[0];
            let stall_ns = of_path.iter().map(|(_, _, stall_ns)| stall_ns).sum();
            let found = WorstPath {
                fault_path,
                stall_ns,
            };
            let of_object = &mut worst[object as usize];
            if of_object.is_none_or(|before| before.stall_ns < stall_ns) {
                *of_object = Some(found);
            }
        }
        worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str) -> ObjectFrame {
        ObjectFrame {
            function: Some(function.to_owned()),
            ..ObjectFrame::default()
        }
    }

    #[test]
    fn paths_of_equal_names_are_one_and_the_unknown_is_shown() {
        let mut frames = FramePaths::default();
        for (stack, innermost) in [(1, "sweep"), (2, "sweep"), (3, "fill")] {
            frames.add(stack, frame(innermost));
            frames.add(stack, frame("main"));
        }
        let mut tallies = PathTallies::default();
        for (stack, ns) in [(Some(1), 10), (Some(2), 20), (Some(3), 5), (None, 50)] {
            tallies.swap_in(stack, 7, ns);
        }
        let (paths, of_stack) = tallies.paths(&frames);
        let sums: Vec<_> = paths
            .iter()
            .map(|path| (path.frames.len(), path.swap_ins, path.stall_ns))
            .collect();
        assert_eq!(sums, [(0, 1, 50), (2, 2, 30), (2, 1, 5)]);
        let place = |stack| of_stack.get(&stack).copied();
        assert_eq!(
            [place(None), place(Some(1)), place(Some(2)), place(Some(3))],
            [Some(0), Some(1), Some(1), Some(2)]
        );
    }

    #[test]
    fn without_any_path_there_is_nothing_to_say() {
        let mut tallies = PathTallies::default();
        tallies.swap_in(None, 0, 10);
        assert_eq!(tallies.paths(&FramePaths::default()).0, []);
    }

    #[test]
    fn an_object_s_worst_path_is_the_sum_of_what_reads_alike() {
        let mut tallies = PathTallies::default();
        for (stack, object, ns) in [(1, 0, 10), (2, 0, 8), (3, 0, 8), (3, 2, 1)] {
            tallies.swap_in(Some(stack), object, ns);
        }
        let path_of_stack = HashMap::from([(Some(1), 0), (Some(2), 1), (Some(3), 1)]);
        let worst = tallies.worst(&path_of_stack, 3);
        let worst = worst
            .iter()
            .map(|path| path.map(|path| (path.fault_path, path.stall_ns)));
        assert_eq!(
            worst.collect::<Vec<_>>(),
            [Some((1, 16)), None, Some((1, 1))]
        );
    }
}
