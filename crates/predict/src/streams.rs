//! What is read ahead of sweeps and dropped behind them: whether so much of it is wanted again so soon that the preloaded library will
//! leave it alone ([`pagewise_abi::drops`]).

use std::collections::BTreeMap;

use pagewise_abi::drops;

use crate::strings::Step;
use crate::treatment::Treatment;

/// The program's memory when a page is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Pages that came back from swap so far, but for what is read ahead.
    pub(crate) came: u64,
    /// Pages that there is room for beside what is locked.
    pub(crate) room: u64,
}

/// Of one stream, pages that were wanted after they had been dropped, and how many of them too soon.
#[derive(Clone, Copy, Default)]
struct Dropped {
    pages: u64,
    missed: u64,
}

/// All streams of a plan.
pub(crate) struct Streams<'a> {
    of_pages: &'a [Treatment],
    /// Pages that are kept free to be read ahead in.
    window: u64,
    /// When each page was last wanted, in pages that came.
    wanted_at: Vec<Option<u64>>,
    read_ahead: u64,
    dropped: BTreeMap<u32, Dropped>,
}

impl<'a> Streams<'a> {
    pub(crate) fn new(of_pages: &'a [Treatment], window: u64) -> Self {
        Self {
            of_pages,
            window,
            wanted_at: vec![None; of_pages.len()],
            read_ahead: 0,
            dropped: BTreeMap::new(),
        }
    }

    /// A page of a stream is accessed, or ends. What was not seen says nothing of how soon a sweep comes back.
    pub(crate) fn pass(&mut self, step: &Step, memory: Memory) {
        let page = step.page as usize;
        let Treatment::Streamed(stream) = self.of_pages[page] else {
            return;
        };
        if step.gone {
            self.wanted_at[page] = None;
        }
        if step.gone || step.is_made_up() {
            return;
        }
        let now = memory.came + self.read_ahead;
        let before = self.wanted_at[page].replace(now);
        self.read_ahead += u64::from(before.is_some());
        if let Some(before) = before {
            let dropped = self.dropped.entry(stream).or_default();
            dropped.pages += 1;
            dropped.missed += u64::from(drops::is_soon(now - before, memory.room + self.window));
        }
    }

    /// Those that the library will leave alone, where each page stands for so many.
    pub(crate) fn left_alone(&self, pages_each: f64) -> Vec<u32> {
        let all = |pages: u64| (pages as f64 * pages_each) as u64;
        let is_harm = |of: &Dropped| drops::is_harm(all(of.pages), all(of.missed));
        let harmful = self.dropped.iter().filter(|(_, of)| is_harm(of));
        harmful.map(|(&stream, _)| stream).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of so many pages that is swept ten times while there is room for 4,000, and as many others come in each round.
    fn left_alone(pages: u32, others: u64) -> Vec<u32> {
        let of_pages = vec![Treatment::Streamed(7); pages as usize];
        let mut streams = Streams::new(&of_pages, 1000);
        for round in 0..10 {
            let memory = Memory {
                came: round * others,
                room: 3000,
            };
            (0..pages).for_each(|page| streams.pass(&Step::access(round, page), memory));
        }
        streams.left_alone(1.0)
    }

    #[test]
    fn a_sweep_that_comes_back_while_its_pages_would_be_there_is_left_alone() {
        assert_eq!(left_alone(1000, 500), [7]);
        assert!(left_alone(1000, 3000).is_empty());
        assert!(left_alone(4000, 0).is_empty());
    }

    #[test]
    fn few_pages_and_made_up_accesses_tell_nothing() {
        assert!(left_alone(100, 0).is_empty());
        let of_pages = vec![Treatment::Streamed(7); 3000];
        let mut streams = Streams::new(&of_pages, 0);
        let memory = Memory {
            came: 0,
            room: 9000,
        };
        for round in 0..10 {
            (0..3000).for_each(|page| streams.pass(&Step::made_up(round, page), memory));
        }
        assert!(streams.left_alone(1.0).is_empty());
    }
}
