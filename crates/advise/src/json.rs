//! The document pagewise.plan/1, described in docs/json.md.

use pagewise_plan::Prediction;
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
    curve: Vec<Point>,
}

#[derive(Serialize)]
struct JsonRule<'advice> {
    target: &'advice str,
    site: Option<String>,
    file: Option<&'advice str>,
    line: Option<u32>,
    function: Option<&'advice str>,
    action: &'static str,
    why: &'advice str,
    predicted: Option<Predicted>,
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
    wall_ns: u64,
}

impl Advice {
    /// The document `pagewise.plan/1`, indented.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let plan = &self.plan;
        let rules = plan.rules.iter().map(|rule| JsonRule {
            target: &rule.name,
            site: rule.target.site().map(|site| site.to_string()),
            file: rule.place.file.as_deref(),
            line: rule.place.line,
            function: rule.place.function.as_deref(),
            action: rule.action.name(),
            why: &rule.why,
            predicted: rule.predicted.map(Predicted::from),
        });
        let unnamed = self
            .unnamed
            .iter()
            .map(|(target, why)| Unnamed { target, why });
        let curve = plan.curve.iter().map(|point| Point {
            memory_bytes: point.memory_bytes,
            swap_ins: point.swap_ins,
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
            curve: curve.collect(),
        };
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }
}
