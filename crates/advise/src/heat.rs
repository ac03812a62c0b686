//! Where in an object the accesses go, as far as a recording tells: by how soon pages are wanted again once they are out.
//!
//! A page that is accessed at random, so many times a second, is wanted again after the reciprocal of that rate, whenever
//! it was evicted. So swap-ins divided by the time that pages were out estimate the rate of accesses, also of pages that
//! were mostly in memory: these were out seldom, but not for long.
//!
//! ```text
//!     rate = swap-ins / time out            waiting saved by keeping a part = its waiting - rest's waiting * (out / rest's out)
//! ```
//!
//! The second half is what the part takes from the rest: so much more of that is out, and is wanted at its own rate.

use std::collections::HashMap;
use std::ops::Range;

use pagewise_analyze::Attribution;
use pagewise_analyze::Identity;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::layouts::Layouts;
use crate::layouts::aligned_to_blocks;

/// An object is looked at in so many cells at most,
const MOST_CELLS: u64 = 256;
/// that saw so many swap-ins on average: else the differences are chance.
pub(crate) const SWAP_INS_OF_CELL: u64 = 64;
/// A hot part is accessed so many times as often as the rest, by page.
const HOT: f64 = 2.0;
/// Standard deviations of a count (Poisson: its root) that are taken for chance.
const CHANCE: f64 = 2.0;

/// A stretch of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cell {
    pub(crate) swap_ins: u64,
    pub(crate) stall_ns: u64,
    /// Sum over its pages of the time that each was out, ns.
    pub(crate) out_ns: f64,
}

impl Cell {
    fn rate(&self) -> f64 {
        self.swap_ins as f64 / self.out_ns.max(1.0)
    }

    /// What the rate is at least, if chance made what came back as many as it may: five pages that came back tell little.
    fn least_rate(&self) -> f64 {
        let swap_ins = self.swap_ins as f64;
        (swap_ins - CHANCE * swap_ins.sqrt()).max(0.0) / self.out_ns.max(1.0)
    }

    fn add(&mut self, other: &Self) {
        self.swap_ins += other.swap_ins;
        self.stall_ns += other.stall_ns;
        self.out_ns += other.out_ns;
    }
}

/// The cells of an object, from its start; the last may reach beyond its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heat {
    pub(crate) cells: Vec<Cell>,
    pub(crate) cell_bytes: u64,
}

/// What of an object is worth keeping.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HotPart {
    /// Offsets in bytes, ascending.
    pub(crate) ranges: Vec<Range<u64>>,
    pub(crate) bytes: u64,
    /// Waiting of its own.
    pub(crate) stall_ns: u64,
    /// Of that, what is left when the rest waits more.
    pub(crate) saved_ns: u64,
    /// How many times as often a page of it is accessed as one of the rest; infinite where none of that came back.
    pub(crate) times: f64,
}

impl Heat {
    /// How often a page is wanted, on average, for each ns that it is out; `None`: too few came back to tell.
    pub(crate) fn rate(&self) -> Option<f64> {
        let mut sum = Cell::default();
        self.cells.iter().for_each(|cell| sum.add(cell));
        (sum.swap_ins >= SWAP_INS_OF_CELL).then(|| sum.rate())
    }

    /// How often a page of the first so many bytes came back, in terms of one of the whole; `None`: too few did to tell.
    pub(crate) fn returns_at_start(&self, bytes: u64) -> Option<f64> {
        let cells = usize::try_from(bytes / self.cell_bytes.max(1)).ok()?;
        let start = self.cells.get(..cells).filter(|start| !start.is_empty())?;
        let sum = |cells: &[Cell]| -> u64 { cells.iter().map(|cell| cell.swap_ins).sum() };
        let all = sum(&self.cells);
        let mean = |sum: u64, cells: usize| sum as f64 / cells as f64;
        (all >= SWAP_INS_OF_CELL).then(|| mean(sum(start), cells) / mean(all, self.cells.len()))
    }

    /// The part of at most so many bytes that saves most; `None`: no part is hotter than the rest.
    pub(crate) fn hot_part(&self, budget: u64) -> Option<HotPart> {
        let mut hottest: Vec<usize> = (0..self.cells.len()).collect();
        let least_rate = |at: usize| self.cells[at].least_rate();
        hottest.sort_by(|&a, &b| least_rate(b).total_cmp(&least_rate(a)));
        let most = usize::try_from(budget / self.cell_bytes.max(1)).ok()?;
        // Without a rest there is nothing to be hotter than.
        let most = most.min(hottest.len().saturating_sub(1));
        let mut part = Cell::default();
        let mut best: Option<(usize, f64, Cell, f64)> = None;
        for (count, &at) in hottest[..most].iter().enumerate() {
            let rest = self.sum(&hottest[count + 1..]);
            // From here on it is chance which of the cells seems hotter.
            if least_rate(at) < HOT * rest.rate() {
                break;
            }
            part.add(&self.cells[at]);
            let taken = rest.stall_ns as f64 * part.out_ns / rest.out_ns.max(1.0);
            let saved = part.stall_ns as f64 - taken;
            if best.is_none_or(|(_, most, ..)| saved > most) {
                best = Some((count + 1, saved, part, part.rate() / rest.rate()));
            }
        }
        let (count, saved, part, times) = best.filter(|&(_, saved, ..)| saved > 0.0)?;
        Some(HotPart {
            ranges: self.ranges(&hottest[..count]),
            bytes: count as u64 * self.cell_bytes,
            stall_ns: part.stall_ns,
            saved_ns: saved as u64,
            times,
        })
    }

    fn cell_at(&mut self, offset: u64) -> Option<&mut Cell> {
        self.cells
            .get_mut((offset / self.cell_bytes.max(1)) as usize)
    }

    fn sum(&self, cells: &[usize]) -> Cell {
        let mut sum = Cell::default();
        cells.iter().for_each(|&at| sum.add(&self.cells[at]));
        sum
    }

    fn ranges(&self, cells: &[usize]) -> Vec<Range<u64>> {
        let of_cell = |&at: &usize| at as u64 * self.cell_bytes..(at as u64 + 1) * self.cell_bytes;
        merged(cells.iter().map(of_cell).collect())
    }
}

/// Ranges in order, those that touch as one.
pub(crate) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => merged.push(range),
        }
    }
    merged
}

/// What is to be looked at: an object of one block, or several with a layout.
pub(crate) struct Wanted<'findings> {
    /// The subject's number.
    pub(crate) subject: usize,
    pub(crate) identities: Vec<&'findings Identity>,
    pub(crate) bytes: u64,
    /// How large its blocks are, if there are several that are told apart.
    pub(crate) block_bytes: Option<u64>,
    pub(crate) swap_ins: u64,
}

/// The heat of some subjects; goes through the events once, and not at all if there is none.
pub(crate) fn read(
    trace: &Trace,
    wanted: &[Wanted<'_>],
    layouts: &Layouts,
) -> Result<Vec<Heat>, TraceError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut attribution = Attribution::read(trace)?;
    let page_bytes = attribution.page_bytes();
    let mut watches: Vec<Watch> = wanted
        .iter()
        .map(|one| Watch::new((one.bytes, one.block_bytes), one.swap_ins, page_bytes))
        .collect();
    let by_identity: HashMap<&Identity, usize> = (0..)
        .zip(wanted)
        .flat_map(|(at, one)| one.identities.iter().map(move |&identity| (identity, at)))
        .collect();
    let mut known: Vec<Option<usize>> = Vec::new();
    let mut last_ns = 0;
    for event in trace.events()? {
        let event = event?;
        let located = attribution.locate(&event);
        last_ns = event.time_ns;
        while known.len() <= located.object {
            let identity = attribution.identity(known.len());
            known.push(by_identity.get(identity).copied());
        }
        if let (Some(at), Some(page)) = (known[located.object], located.page) {
            let place = match wanted[at].block_bytes {
                Some(_) => layouts.place(wanted[at].subject, &event, page),
                None => Some((0, 0)),
            };
            if let Some((before, _)) = place {
                watches[at].add(&event, before + page * page_bytes);
            }
        }
    }
    Ok(watches
        .into_iter()
        .map(|watch| watch.finish(last_ns))
        .collect())
}

/// One object while events go by.
struct Watch {
    heat: Heat,
    /// When each page that is out went out, by its offset.
    out: HashMap<u64, u64>,
    /// The first swap-in: what went out before, while it was filled, was not wanted yet.
    began_ns: Option<u64>,
}

impl Watch {
    fn new((bytes, block_bytes): (u64, Option<u64>), swap_ins: u64, page_bytes: u64) -> Self {
        let cells = (swap_ins / SWAP_INS_OF_CELL).clamp(1, MOST_CELLS);
        let cell_bytes = bytes.div_ceil(cells).next_multiple_of(page_bytes);
        let cell_bytes = match block_bytes {
            Some(block_bytes) => aligned_to_blocks(cell_bytes, block_bytes),
            None => cell_bytes,
        };
        Self {
            heat: Heat {
                cells: vec![Cell::default(); bytes.div_ceil(cell_bytes).max(1) as usize],
                cell_bytes,
            },
            out: HashMap::new(),
            began_ns: None,
        }
    }

    fn add(&mut self, event: &Event, offset: u64) {
        let Some(cell) = self.heat.cell_at(offset) else {
            return;
        };
        match event.kind {
            EventKind::Eviction => {
                self.out.insert(offset, event.time_ns);
            }
            EventKind::SwapIn | EventKind::SwapCacheHit => {
                let began_ns = *self.began_ns.get_or_insert(event.time_ns);
                cell.swap_ins += 1;
                cell.stall_ns += event.latency_ns.unwrap_or(0);
                if let Some(since) = self.out.remove(&offset) {
                    cell.out_ns += event.time_ns.saturating_sub(since.max(began_ns)) as f64;
                }
            }
            _ => {}
        }
    }

    fn finish(mut self, end_ns: u64) -> Heat {
        let began_ns = self.began_ns.unwrap_or(end_ns);
        for (offset, since) in self.out {
            if let Some(cell) = self.heat.cell_at(offset) {
                cell.out_ns += end_ns.saturating_sub(since.max(began_ns)) as f64;
            }
        }
        self.heat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_seldom_at_the_start_is_known() {
        let cell = |swap_ins| Cell {
            swap_ins,
            ..Cell::default()
        };
        // Each sweep begins further on.
        let heat = Heat {
            cells: [100, 200, 300, 400].map(cell).to_vec(),
            cell_bytes: 4096,
        };
        assert_eq!(heat.returns_at_start(8192), Some(0.6));
        assert_eq!(heat.returns_at_start(4 * 4096), Some(1.0));
        assert_eq!(heat.returns_at_start(4095), None);
        assert_eq!(heat.returns_at_start(1 << 40), None);
        assert_eq!(Heat::default().returns_at_start(4096), None);
    }

    const CELL: u64 = 1 << 20;

    fn cell(swap_ins: u64, out_ms: f64) -> Cell {
        Cell {
            swap_ins,
            stall_ns: swap_ins * 10_000,
            out_ns: out_ms * 1e6,
        }
    }

    fn heat(cells: Vec<Cell>) -> Heat {
        Heat {
            cells,
            cell_bytes: CELL,
        }
    }

    #[test]
    fn what_comes_back_soon_is_hot_however_seldom_it_was_out() {
        // Cells 3 to 6: out for a hundredth of the time of the others, and as many swap-ins.
        let cells = (0..20).map(|at| cell(100, if (3..7).contains(&at) { 10.0 } else { 1000.0 }));
        let heat = heat(cells.collect());
        let hot = heat.hot_part(10 * CELL).expect("a hot part");
        assert_eq!(
            (hot.ranges.len(), &hot.ranges[0]),
            (1, &(3 * CELL..7 * CELL))
        );
        assert_eq!((hot.bytes, hot.stall_ns), (4 * CELL, 4_000_000));
        // The rest waits longer by 40 ms in 16,000.
        assert_eq!(hot.saved_ns, 4_000_000 - 40_000);
        assert!(hot.times > 50.0, "{hot:?}");
        let half = heat.hot_part(2 * CELL).expect("a part of it");
        assert_eq!(half.bytes, 2 * CELL);
        assert!(heat.hot_part(CELL - 1).is_none());
    }

    #[test]
    fn what_came_back_seldom_in_a_short_time_may_be_chance() {
        // Cell 5 is hot; of cells 7 and 8, which went out at the end, a few pages came back.
        let cells = (0..20).map(|at| match at {
            5 => cell(100, 100.0),
            7 | 8 => cell(5, 22.0),
            _ => cell(100, 1000.0),
        });
        let hot = heat(cells.collect()).hot_part(10 * CELL);
        let hot = hot.expect("a hot part");
        assert_eq!(
            (hot.ranges.first(), hot.bytes),
            (Some(&(5 * CELL..6 * CELL)), CELL)
        );
    }

    #[test]
    fn where_all_is_alike_nothing_is_hot() {
        assert!(
            heat(vec![cell(100, 500.0); 20])
                .hot_part(10 * CELL)
                .is_none()
        );
        let noisy = (0..20).map(|at| cell(90 + at, 500.0 - at as f64));
        assert!(heat(noisy.collect()).hot_part(10 * CELL).is_none());
        assert!(heat(vec![cell(100, 1.0)]).hot_part(10 * CELL).is_none());
        assert!(heat(Vec::new()).hot_part(10 * CELL).is_none());
    }

    #[test]
    fn what_went_out_while_it_was_filled_was_not_wanted_yet() {
        let mut watch = Watch::new((2 * 4096, None), 128, 4096);
        let event = |kind, time_ns| Event {
            kind,
            time_ns,
            space: 1,
            tid: None,
            address: 0,
            latency_ns: None,
            stack: None,
        };
        watch.add(&event(EventKind::Eviction, 10), 0);
        watch.add(&event(EventKind::Eviction, 20), 4096);
        watch.add(&event(EventKind::SwapIn, 100), 4096);
        watch.add(&event(EventKind::SwapIn, 130), 0);
        watch.add(&event(EventKind::Eviction, 140), 4096);
        let heat = watch.finish(200);
        let out: Vec<f64> = heat.cells.iter().map(|cell| cell.out_ns).collect();
        assert_eq!(out, [30.0, 60.0]);
    }
}
