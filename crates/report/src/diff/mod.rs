//! What changed between two recordings ([`compare`]), as text and as JSON.
//!
//! One recording each shows no spread: what is called better or worse here is a difference larger than recordings of one
//! program usually have among themselves, and no more than that.

mod json;
mod matching;
mod text;

use pagewise_analyze::Findings;
use pagewise_analyze::Object;

pub use json::to_json;
pub use text::render;

/// Differences below this share of the larger value are called similar: recordings of one program under one limit may
/// differ by nearly so much (`docs/results-report.md`).
pub const NOISE_SHARE: f64 = 0.2;
/// So are those below this share of the larger total: most objects are small.
pub const NOISE_OF_TOTAL: f64 = 0.01;

/// What became of an object, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It waits less.
    Better,
    /// It waits longer.
    Worse,
    /// No difference that would mean something.
    Similar,
    /// It is in the second recording only.
    New,
    /// It is in the first recording only.
    Gone,
}

impl Change {
    /// The word for it in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Similar => "similar",
            Self::New => "new",
            Self::Gone => "gone",
        }
    }
}

/// By what two objects were found to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedBy {
    /// The same variable, function and line of the same file.
    Site,
    /// The same variable and function of the same file, on another line.
    MovedLine,
    /// The same call path, without names of a line or variable.
    CallPath,
}

impl MatchedBy {
    /// The word for it in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::MovedLine => "moved_line",
            Self::CallPath => "call_path",
        }
    }
}

/// An object in both recordings, or in one.
#[derive(Clone, Debug)]
pub struct ObjectChange<'findings> {
    /// In the first.
    pub before: Option<&'findings Object>,
    /// In the second.
    pub after: Option<&'findings Object>,
    /// `None`: it is in one of them only.
    pub matched_by: Option<MatchedBy>,
    /// What became of it.
    pub change: Change,
    /// Whether it cost so much in one of them that a reader should know.
    pub matters: bool,
}

/// What changed.
#[derive(Clone, Debug)]
pub struct Difference<'findings> {
    /// The first recording.
    pub before: &'findings Findings,
    /// The second.
    pub after: &'findings Findings,
    /// Of all objects together.
    pub change: Change,
    /// Whether time is compared; else swap-ins, as one of them has no latencies.
    pub by_stall: bool,
    /// The largest difference first.
    pub objects: Vec<ObjectChange<'findings>>,
}

/// Compares the second recording with the first.
pub fn compare<'findings>(
    before: &'findings Findings,
    after: &'findings Findings,
) -> Difference<'findings> {
    let by_stall = before.faults_observed() && after.faults_observed();
    let cost = |object: &Object| cost_of(&object.counts, by_stall);
    let totals = (
        cost_of(&before.totals, by_stall),
        cost_of(&after.totals, by_stall),
    );
    let least = (totals.0.max(totals.1) as f64 * NOISE_OF_TOTAL) as u64;
    let mut objects: Vec<ObjectChange> = matching::pairs(&before.objects, &after.objects)
        .into_iter()
        .map(|(before, after, matched_by)| ObjectChange {
            before,
            after,
            matched_by,
            matters: [before, after]
                .into_iter()
                .flatten()
                .any(|side| cost(side) > least),
            change: match (before, after) {
                (Some(before), Some(after)) => change(cost(before), cost(after), least),
                (None, _) => Change::New,
                (_, None) => Change::Gone,
            },
        })
        .collect();
    objects.sort_by_key(|object| {
        let costs = [object.before, object.after].map(|side| side.map_or(0, cost));
        let difference = costs[0].abs_diff(costs[1]);
        std::cmp::Reverse((difference, costs[0].max(costs[1])))
    });
    Difference {
        before,
        after,
        change: change(totals.0, totals.1, least),
        by_stall,
        objects,
    }
}

fn cost_of(counts: &pagewise_analyze::Counts, by_stall: bool) -> u64 {
    match by_stall {
        true => counts.stall_ns,
        false => counts.swap_ins,
    }
}

fn change(before: u64, after: u64, least: u64) -> Change {
    let difference = before.abs_diff(after);
    if difference <= least || difference as f64 <= NOISE_SHARE * before.max(after) as f64 {
        Change::Similar
    } else if after < before {
        Change::Better
    } else {
        Change::Worse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_are_no_change() {
        for (before, after, least, expected) in [
            (1000, 850, 0, Change::Similar),
            (1000, 700, 0, Change::Better),
            (700, 1000, 0, Change::Worse),
            (10, 30, 100, Change::Similar),
            (0, 0, 0, Change::Similar),
            (0, 101, 100, Change::Worse),
        ] {
            assert_eq!(change(before, after, least), expected, "{before} {after}");
        }
    }
}
