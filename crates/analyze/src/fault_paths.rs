//! Where in the code a program waits: swap-in faults by call path.

use std::collections::HashMap;

use pagewise_trace::Event;

use crate::object::ObjectFrame;

/// Swap-in faults of one call path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPath {
    /// Innermost first: the first frame touched the page. Empty: the call path is not known.
    pub frames: Vec<ObjectFrame>,
    /// Faults that found a swap entry.
    pub swap_ins: u64,
    /// Time spent in them, ns.
    pub stall_ns: u64,
}

/// Sums while events go by.
#[derive(Default)]
pub(crate) struct PathTallies(HashMap<Option<u32>, (u64, u64)>);

impl PathTallies {
    pub(crate) fn swap_in(&mut self, event: &Event) {
        let (swap_ins, stall_ns) = self.0.entry(event.stack).or_default();
        *swap_ins += 1;
        *stall_ns += event.latency_ns.unwrap_or(0);
    }

    /// Most stall first, and which of them each stack is. Paths with equal names are one: they differ in nothing a reader
    /// could see.
    pub(crate) fn finish(
        self,
        frames: &HashMap<u32, Vec<ObjectFrame>>,
    ) -> (Vec<FaultPath>, HashMap<Option<u32>, usize>) {
        if self.0.keys().all(Option::is_none) {
            return Default::default();
        }
        let none = Vec::new();
        let names_of = |stack: &Option<u32>| {
            let path = stack.and_then(|stack| frames.get(&stack));
            path.unwrap_or(&none).as_slice()
        };
        let mut by_names: HashMap<&[ObjectFrame], (u64, u64)> = HashMap::new();
        for (stack, (swap_ins, stall_ns)) in &self.0 {
            let sum = by_names.entry(names_of(stack)).or_default();
            sum.0 += swap_ins;
            sum.1 += stall_ns;
        }
        let mut paths: Vec<FaultPath> = by_names
            .iter()
            .map(|(frames, (swap_ins, stall_ns))| FaultPath {
                frames: frames.to_vec(),
                swap_ins: *swap_ins,
                stall_ns: *stall_ns,
            })
            .collect();
        paths.sort_by(|a, b| {
            (b.stall_ns, b.swap_ins)
                .cmp(&(a.stall_ns, a.swap_ins))
                .then_with(|| a.frames.cmp(&b.frames))
        });
        let places = paths.iter().enumerate();
        let places: HashMap<&[ObjectFrame], usize> = places
            .map(|(place, path)| (path.frames.as_slice(), place))
            .collect();
        let of_stack = self.0.keys().filter_map(|stack| {
            let place = places.get(names_of(stack))?;
            Some((*stack, *place))
        });
        let of_stack = of_stack.collect();
        (paths, of_stack)
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
        let frames = HashMap::from([
            (1, vec![frame("sweep"), frame("main")]),
            (2, vec![frame("sweep"), frame("main")]),
            (3, vec![frame("fill"), frame("main")]),
        ]);
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
        assert_eq!(tallies.finish(&HashMap::new()).0, []);
    }
}
