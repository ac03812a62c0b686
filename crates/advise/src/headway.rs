//! How often the program had had to wait by how much work, without a plan: what its library holds a run with the plan against.

use std::collections::BTreeMap;

use pagewise_plan::HeadwayPoint;
use pagewise_plan::Memory;
use pagewise_trace::Headway;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// Points of a plan, evenly over the program's work.
const POINTS: u64 = 100;
/// Of all major faults, one process has such a share at least, or it is not known whose plan it is.
const OF_ONE: f64 = 0.9;
/// Of these, no more than such a share came before it was first looked at: a recording that has forgotten its begin tells nothing of it.
const BEFORE_FIRST: f64 = 0.05;

/// The points, for a plan for so much memory; none: the recording does not tell, or is not of the whole of a run with no more memory than that.
pub(crate) fn points(trace: &Trace, memory_bytes: u64) -> Result<Vec<HeadwayPoint>, TraceError> {
    let meta = trace.meta();
    let is_as_much = |limit| Memory::is_as_much(memory_bytes, limit);
    let is_whole = meta.running.pids.is_empty() && meta.running.cgroup.is_none();
    if !meta.limit.bytes.is_some_and(is_as_much) || !is_whole {
        return Ok(Vec::new());
    }
    let mut of_spaces: BTreeMap<u32, Vec<Headway>> = BTreeMap::new();
    for row in trace.headway()? {
        let row = row?;
        of_spaces.entry(row.space).or_default().push(row);
    }
    Ok(of_one(of_spaces.into_values().collect()))
}

/// Of the process that has nearly all major faults. A program that a process is replaced by goes on with its counts.
fn of_one(spaces: Vec<Vec<Headway>>) -> Vec<HeadwayPoint> {
    let majors = |rows: &Vec<Headway>| rows.last().map_or(0, |row| row.major_faults);
    let all: u64 = spaces.iter().map(majors).sum();
    match spaces.into_iter().max_by_key(majors) {
        Some(rows) if majors(&rows) as f64 >= OF_ONE * all as f64 && has_begin(&rows) => {
            evenly(&rows)
        }
        _ => Vec::new(),
    }
}

fn has_begin(rows: &[Headway]) -> bool {
    let majors = |row: Option<&Headway>| row.map_or(0.0, |row| row.major_faults as f64);
    majors(rows.first()) <= BEFORE_FIRST * majors(rows.last())
}

fn evenly(rows: &[Headway]) -> Vec<HeadwayPoint> {
    let Some(last) = rows.last() else {
        return Vec::new();
    };
    let point = |number: u64| {
        let user_ms = last.user_ns * number / POINTS / 1_000_000;
        // What came after a point counts by the next.
        let by_then = rows.partition_point(|row| row.user_ns <= user_ms * 1_000_000);
        let before = by_then.checked_sub(1).map(|at| &rows[at]);
        HeadwayPoint {
            user_ms,
            major_faults: before.map_or(0, |row| row.major_faults),
        }
    };
    let mut points: Vec<HeadwayPoint> = (1..=POINTS).map(point).collect();
    let end = points.last_mut().expect("there are points");
    *end = HeadwayPoint {
        user_ms: last.user_ns.div_ceil(1_000_000),
        major_faults: last.major_faults,
    };
    points.dedup_by_key(|point| point.user_ms);
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(space: u32, user_ms: u64, major_faults: u64) -> Headway {
        Headway {
            time_ns: 0,
            space,
            user_ns: user_ms * 1_000_000,
            major_faults,
        }
    }

    #[test]
    fn points_are_even_and_end_where_the_recording_does() {
        let rows = (0..=50).map(|tick| row(1, 10 * tick, 100 * tick)).collect();
        let points = of_one(vec![rows]);
        assert_eq!(points.len(), 100);
        let at = |number: usize| (points[number - 1].user_ms, points[number - 1].major_faults);
        assert_eq!(at(1), (5, 0));
        assert_eq!(at(2), (10, 100));
        assert_eq!(at(99), (495, 4900));
        assert_eq!(at(100), (500, 5000));
    }

    #[test]
    fn they_are_of_the_one_process_that_waits() {
        let rows = |space, majors| vec![row(space, 10, 0), row(space, 500, majors)];
        let last = |spaces| of_one(spaces).last().map(|point| point.major_faults);
        assert_eq!(last(vec![rows(1, 5), rows(2, 1000)]), Some(1000));
        assert_eq!(last(vec![rows(1, 500), rows(2, 1000)]), None);
        assert_eq!(last(Vec::new()), None);
        let without_begin = vec![row(1, 10, 60), row(1, 500, 1000)];
        assert_eq!(last(vec![without_begin]), None);
    }

    #[test]
    fn what_is_too_short_for_even_points_has_fewer() {
        let points = of_one(vec![vec![row(1, 0, 0), row(1, 3, 7)]]);
        let points: Vec<_> = points.iter().map(|p| (p.user_ms, p.major_faults)).collect();
        assert_eq!(points, [(0, 0), (1, 0), (2, 0), (3, 7)]);
    }
}
