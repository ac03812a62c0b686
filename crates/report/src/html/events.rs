//! Swap-ins and evictions of a recording, small enough to keep millions in memory.

use std::collections::HashMap;

use pagewise_analyze::Attribution;
use pagewise_analyze::Findings;
use pagewise_analyze::Identity;
use pagewise_trace::EventKind;
use pagewise_trace::Space;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// More swap-ins and evictions than this are thinned out: a picture has fewer points, and memory is bounded.
const MOST_EVENTS: u64 = 6_000_000;
/// Call paths that events name; the rest is told as "another".
pub(super) const MOST_PATHS: usize = 5_000;
/// The call path is not known.
pub(super) const NO_PATH: u16 = u16::MAX;
/// The call path is none of the first [`MOST_PATHS`].
pub(super) const OTHER_PATH: u16 = u16::MAX - 1;
/// Processes that events name; the last stands for all further ones.
pub(super) const MOST_SPACES: usize = 255;

/// What a point of the picture is; its number is the one in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    SwapIn = 0,
    CacheHit = 1,
    Eviction = 2,
}

/// How many [`Kind`]s there are.
pub(super) const KINDS: usize = 3;

/// One swap-in or eviction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// ns of CLOCK_MONOTONIC.
    pub(super) time_ns: u64,
    /// Address in pages.
    pub(super) page: u64,
    /// Index into the objects of the findings, or [`NO_OBJECT`].
    pub(super) object: u32,
    /// ns; `None` if it was not measured.
    pub(super) latency_ns: Option<u32>,
    /// Index into the call paths of the findings, or [`NO_PATH`], [`OTHER_PATH`].
    pub(super) path: u16,
    /// Index into [`Points::spaces`].
    pub(super) space: u16,
    pub(super) kind: Kind,
}

/// The findings do not list the object.
pub(super) const NO_OBJECT: u32 = u32::MAX;

/// All points in the order of time, and what they refer to.
#[derive(Debug, Default)]
pub(super) struct Points {
    pub(super) points: Vec<Point>,
    /// One in so many events is a point.
    pub(super) every: u64,
    /// Swap-ins and evictions in the table.
    pub(super) events: u64,
    pub(super) spaces: Vec<Process>,
    pub(super) page_bytes: u64,
    /// Whether any swap-in has a call path.
    pub(super) has_paths: bool,
}

/// An address space of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Process {
    pub(super) pid: Option<u32>,
    pub(super) command: Option<String>,
}

impl Points {
    pub(super) fn read(trace: &Trace, findings: &Findings) -> Result<Self, TraceError> {
        let mut attribution = Attribution::read(trace)?;
        let objects: HashMap<&Identity, u32> = (0..)
            .zip(&findings.objects)
            .map(|(index, object)| (&object.identity, index))
            .collect();
        let paths = path_numbers(findings);
        let mut spaces = Spaces::read(trace)?;
        // Of each number that the attribution gives, the index in the findings.
        let mut object_of: Vec<u32> = Vec::new();
        let totals = &findings.totals;
        let listed = (totals.swap_ins + totals.evictions).saturating_sub(findings.counted_events);
        let mut result = Self {
            every: listed.div_ceil(MOST_EVENTS).max(1),
            page_bytes: attribution.page_bytes(),
            ..Self::default()
        };
        for event in trace.events()? {
            let event = event?;
            let place = attribution.locate(&event);
            let kind = match event.kind {
                EventKind::SwapIn => Kind::SwapIn,
                EventKind::SwapCacheHit => Kind::CacheHit,
                EventKind::Eviction => Kind::Eviction,
                EventKind::PageWritten | EventKind::ZeroFilled => continue,
            };
            result.events += 1;
            if !is_kept(result.events, result.every) {
                continue;
            }
            for number in object_of.len()..=place.object {
                let index = objects.get(attribution.identity(number)).copied();
                object_of.push(index.unwrap_or(NO_OBJECT));
            }
            let path = event.stack.and_then(|stack| paths.get(&stack).copied());
            let path = path.filter(|_| kind != Kind::Eviction).unwrap_or(NO_PATH);
            result.has_paths |= path != NO_PATH;
            result.points.push(Point {
                time_ns: event.time_ns,
                page: event.address / result.page_bytes,
                object: object_of[place.object],
                latency_ns: event
                    .latency_ns
                    .filter(|_| kind != Kind::Eviction)
                    .map(|ns| u32::try_from(ns).unwrap_or(u32::MAX)),
                path,
                space: spaces.index(event.space),
                kind,
            });
        }
        // Nearly in order already.
        result.points.sort_by_key(|point| point.time_ns);
        result.spaces = spaces.named;
        Ok(result)
    }
}

/// Whether the event of this number, from 1, is one of the one in `every` that stay. Scattered (Knuth's multiplicative
/// hash), as events come in turns.
pub(super) fn is_kept(number: u64, every: u64) -> bool {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    every <= 1 || scattered.is_multiple_of(every)
}

/// Of each call path's number in the trace, its place in the findings, where paths of equal names are one.
fn path_numbers(findings: &Findings) -> HashMap<u32, u16> {
    let number = |(&stack, &index): (&u32, &usize)| match index < MOST_PATHS {
        true => (stack, index as u16),
        false => (stack, OTHER_PATH),
    };
    findings.fault_path_of_stack.iter().map(number).collect()
}

/// Gives address spaces small numbers in the order in which they are met.
struct Spaces {
    known: HashMap<u32, Space>,
    numbers: HashMap<u32, u16>,
    named: Vec<Process>,
}

impl Spaces {
    fn read(trace: &Trace) -> Result<Self, TraceError> {
        let spaces = trace.spaces()?.into_iter();
        Ok(Self {
            known: spaces.map(|space| (space.space, space)).collect(),
            numbers: HashMap::new(),
            named: Vec::new(),
        })
    }

    fn index(&mut self, space: u32) -> u16 {
        if let Some(&number) = self.numbers.get(&space) {
            return number;
        }
        let number = self.named.len().min(MOST_SPACES - 1);
        if number + 1 == MOST_SPACES {
            self.named.truncate(number);
            self.named.push(Process::default());
        } else {
            let known = self.known.get(&space);
            self.named.push(Process {
                pid: known.map(|space| space.pid),
                command: known.map(|space| super::escape::visible(&space.command)),
            });
        }
        self.numbers.insert(space, number as u16);
        number as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_share_of_events_that_come_in_turns() {
        let kept: Vec<u64> = (1..=100_000).filter(|&number| is_kept(number, 4)).collect();
        assert!(kept.len().abs_diff(25_000) < 500, "{}", kept.len());
        let even = kept
            .iter()
            .filter(|number| number.is_multiple_of(2))
            .count();
        assert!(even.abs_diff(kept.len() / 2) < 500, "{even}");
        assert!((1..100).all(|number| is_kept(number, 1)));
    }
}
