//! Where a pattern changes.

use super::FEWEST;
use super::MOST;
use super::stats::Stats;

/// A phase has at least this share of an object's swap-ins: shorter ones are noise to a reader.
const SHORTEST_SHARE: f64 = 0.04;

/// Patterns that are told apart from one window to the next. Whether a sweep is a loop, and disorder more than once
/// through, shows over a whole phase only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Sweep,
    Strided(u64),
    Disorder,
    Hot,
}

impl Order {
    fn of(stats: &Stats, readahead: u64) -> Self {
        let stride = stats.stride().filter(|&stride| stride > readahead);
        if stats.hot_pages().is_some() {
            return Self::Hot;
        }
        match stride.filter(|_| stats.share(stats.strided) > MOST) {
            Some(stride) => Self::Strided(stride),
            None if stats.share(stats.near) > MOST || stats.is_coarse() => Self::Sweep,
            None => Self::Disorder,
        }
    }
}

/// Joins windows of one pattern. What is left are the phases, in time.
pub(super) fn split(windows: &[Stats], readahead: u64) -> Vec<Stats> {
    let mut parts: Vec<(Order, Stats)> = windows
        .iter()
        .map(|window| (Order::of(window, readahead), window.clone()))
        .collect();
    let all: u64 = windows.iter().map(|window| window.swap_ins).sum();
    let fewest = FEWEST.max((all as f64 * SHORTEST_SHARE) as u64);
    loop {
        join_equals(&mut parts);
        let shortest = parts
            .iter()
            .enumerate()
            .filter(|(_, (_, stats))| stats.swap_ins < fewest)
            .min_by_key(|(_, (_, stats))| stats.swap_ins);
        match shortest {
            Some((at, _)) if parts.len() > 1 => absorb(&mut parts, at),
            _ => return parts.into_iter().map(|(_, stats)| stats).collect(),
        }
    }
}

fn join_equals(parts: &mut Vec<(Order, Stats)>) {
    let mut joined: Vec<(Order, Stats)> = Vec::with_capacity(parts.len());
    for (order, stats) in parts.drain(..) {
        match joined.last_mut() {
            Some((last, sum)) if *last == order => sum.merge(&stats),
            _ => joined.push((order, stats)),
        }
    }
    *parts = joined;
}

/// A part that is too short goes to the larger one of those beside it, which stays what it is.
fn absorb(parts: &mut Vec<(Order, Stats)>, at: usize) {
    let swap_ins = |at: usize| parts.get(at).map_or(0, |(_, stats)| stats.swap_ins);
    let to_left = at > 0 && swap_ins(at - 1) >= swap_ins(at + 1);
    let first = if to_left { at - 1 } else { at };
    let (order_of_right, right) = parts.remove(first + 1);
    let (order, left) = &mut parts[first];
    if !to_left {
        *order = order_of_right;
    }
    left.merge(&right);
}
