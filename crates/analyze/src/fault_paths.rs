//! Where in the code a program waits: swap-in faults by call path.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use pagewise_trace::Event;

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

/// Sums while events go by.
#[derive(Default)]
pub(crate) struct PathTallies(HashMap<Option<u32>, (u64, u64), RandomState>);

impl PathTallies {
    pub(crate) fn swap_in(&mut self, event: &Event) {
        let (swap_ins, stall_ns) = self.0.entry(event.stack).or_default();
        *swap_ins += 1;
        *stall_ns += event.latency_ns.unwrap_or(0);
    }

    /// Whether a fault was on the path of this number.
    pub(crate) fn has(&self, stack: u32) -> bool {
        self.0.contains_key(&Some(stack))
    }

    /// Most stall first, and which of them each stack is. Paths with equal names are one: they differ in nothing a reader
    /// could see.
    pub(crate) fn finish(
        self,
        frames: &FramePaths,
    ) -> (Vec<FaultPath>, HashMap<Option<u32>, usize>) {
        if self.0.keys().all(Option::is_none) {
            return Default::default();
        }
        let names_of = |stack: &Option<u32>| stack.map_or(&[][..], |stack| frames.numbers(stack));
        let mut by_names: HashMap<&[u32], (u64, u64), RandomState> = HashMap::default();
        for (stack, (swap_ins, stall_ns)) in &self.0 {
            let sum = by_names.entry(names_of(stack)).or_default();
            sum.0 += swap_ins;
            sum.1 += stall_ns;
        }
        let path = |(numbers, (swap_ins, stall_ns))| FaultPath {
            frames: frames.frames(numbers),
            swap_ins,
            stall_ns,
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
        let of_stack = self.0.keys().filter_map(|stack| {
            let place = places.get(names_of(stack))?;
            Some((*stack, *place))
        });
        let of_stack = of_stack.collect();
        (paths.into_iter().map(|(_, path)| path).collect(), of_stack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_trace::EventKind;

    fn event(stack: Option<u32>, latency_ns: u64) -> Event {
        Event {
            time_ns: 1,
            space: 1,
            tid: Some(1),
            kind: EventKind::SwapIn,
            address: 0x1000,
            latency_ns: Some(latency_ns),
            stack,
        }
    }

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
            tallies.swap_in(&event(stack, ns));
        }
        let (paths, of_stack) = tallies.finish(&frames);
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
        tallies.swap_in(&event(None, 10));
        assert_eq!(tallies.finish(&FramePaths::default()).0, []);
    }
}
