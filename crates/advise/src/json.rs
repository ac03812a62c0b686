//! The document pagewise.plan/1, described in docs/json.md.

use pagewise_analyze::Pattern;
use pagewise_plan::Action;
use pagewise_plan::IoAction;
use pagewise_plan::Prediction;
use pagewise_plan::ReadAhead;
use pagewise_plan::Rule;
use pagewise_plan::Target;
use pagewise_predict::Costs;
use serde::Serialize;

use crate::Advice;

#[derive(Serialize)]
struct Document<'advice> {
    schema: &'static str,
    memory_bytes: u64,
    peak_bytes: Option<u64>,
    lock_bytes: Option<u64>,
    words: &'advice str,
    predicted: Option<Predicted>,
    rules: Vec<JsonRule<'advice>>,
    unnamed: Vec<Unnamed<'advice>>,
    storage: Option<Storage>,
    curve: Vec<Point>,
}

#[derive(Serialize)]
struct JsonRule<'advice> {
    target: &'advice str,
    site: Option<String>,
    files_pattern: Option<&'advice str>,
    file: Option<&'advice str>,
    line: Option<u32>,
    function: Option<&'advice str>,
    action: &'static str,
    keep_bytes: Option<u64>,
    keep_more: bool,
    ranges: Option<Vec<[u64; 2]>>,
    together: bool,
    lead_bytes: Option<u64>,
    chunk_bytes: Option<u64>,
    why: &'advice str,
    predicted: Option<Predicted>,
    pattern: Option<&'static str>,
    reuse_pages: Option<u64>,
    accessed_share: Option<f64>,
    write_share: Option<f64>,
}

/// Parameters of an action; what it has not, or leaves to the runtime, is `None`.
#[derive(Default)]
struct Parameters {
    keep_bytes: Option<u64>,
    keep_more: bool,
    ranges: Option<Vec<[u64; 2]>>,
    together: bool,
    ahead: ReadAhead,
}

impl Parameters {
    fn of(action: &Action) -> Self {
        match action {
            Action::Lock {
                keep_bytes,
                keep_more,
                ranges,
                together,
            } => {
                let pairs = ranges.iter().map(|range| [range.start, range.end]);
                Self {
                    keep_bytes: *keep_bytes,
                    keep_more: *keep_more,
                    ranges: (!ranges.is_empty()).then(|| pairs.collect()),
                    together: *together,
                    ..Self::default()
                }
            }
            Action::Stream {
                keep_bytes,
                keep_more,
                ahead,
            } => Self {
                keep_bytes: *keep_bytes,
                keep_more: *keep_more,
                ahead: *ahead,
                ..Self::default()
            },
            Action::Prefetch(ahead) => Self {
                ahead: *ahead,
                ..Self::default()
            },
            Action::Io(IoAction::Keep { keep_bytes }) => Self {
                keep_bytes: *keep_bytes,
                ..Self::default()
            },
            _ => Self::default(),
        }
    }
}

/// What a page costs: [`Costs`].
#[derive(Serialize)]
struct Storage {
    read_ns: Option<u64>,
    hit_ns: Option<u64>,
    hit_share: Option<f64>,
    reclaim_ns: Option<u64>,
}

impl From<Costs> for Storage {
    fn from(costs: Costs) -> Self {
        Self {
            read_ns: costs.read_ns,
            hit_ns: costs.hit_ns,
            hit_share: costs.hit_share,
            reclaim_ns: costs.reclaim_ns,
        }
    }
}

#[derive(Serialize)]
struct Predicted {
    speedup: f64,
    low: f64,
    high: f64,
}

impl From<Prediction> for Predicted {
    fn from(prediction: Prediction) -> Self {
        Self {
            speedup: prediction.speedup,
            low: prediction.low,
            high: prediction.high,
        }
    }
}

#[derive(Serialize)]
struct Unnamed<'advice> {
    target: &'advice str,
    why: &'advice str,
}

#[derive(Serialize)]
struct Point {
    memory_bytes: u64,
    swap_ins: u64,
    swap_ins_low: Option<u64>,
    swap_ins_high: Option<u64>,
    wall_ns: Option<u64>,
}

impl Advice {
    /// The document `pagewise.plan/1`, indented.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let plan = &self.plan;
        let rules = plan.rules.iter().map(|rule| self.json_rule(rule));
        let unnamed = self
            .unnamed
            .iter()
            .map(|(target, why)| Unnamed { target, why });
        let curve = plan.curve.iter().map(|point| Point {
            memory_bytes: point.memory_bytes,
            swap_ins: point.swap_ins,
            swap_ins_low: point.swap_ins_low,
            swap_ins_high: point.swap_ins_high,
            wall_ns: point.wall_ns,
        });
        let document = Document {
            schema: "pagewise.plan/1",
            memory_bytes: plan.memory.bytes,
            peak_bytes: plan.memory.peak_bytes,
            lock_bytes: plan.memory.lock_bytes,
            words: &self.words,
            predicted: self.predicted.map(Predicted::from),
            rules: rules.collect(),
            unnamed: unnamed.collect(),
            storage: self.costs.map(Storage::from),
            curve: curve.collect(),
        };
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }

    fn json_rule<'advice>(&'advice self, rule: &'advice Rule) -> JsonRule<'advice> {
        let parameters = Parameters::of(&rule.action);
        let seen = self.seen.get(&rule.target).copied().unwrap_or_default();
        JsonRule {
            target: &rule.name,
            site: rule.target.site().map(|site| site.to_string()),
            files_pattern: match &rule.target {
                Target::Io { files, .. } => files.as_deref(),
                _ => None,
            },
            file: rule.place.file.as_deref(),
            line: rule.place.line,
            function: rule.place.function.as_deref(),
            action: rule.action.name(),
            keep_bytes: parameters.keep_bytes,
            keep_more: parameters.keep_more,
            ranges: parameters.ranges,
            together: parameters.together,
            lead_bytes: parameters.ahead.lead_bytes,
            chunk_bytes: parameters.ahead.chunk_bytes,
            why: &rule.why,
            predicted: rule.predicted.map(Predicted::from),
            pattern: seen.pattern.map(Pattern::name),
            reuse_pages: seen.reuse_pages,
            accessed_share: seen.accessed_share,
            write_share: seen.write_share,
        }
    }
}
