//! The document pagewise.compare/1, described in docs/json.md.

use std::collections::BTreeMap;

use serde::Serialize;

use super::comparison::Arm;
use super::comparison::ArmKind;
use super::comparison::Comparison;
use super::comparison::Run;
use super::comparison::Verdict;
use super::comparison::mean_speedup;
use super::statistics::Ratio;

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    #[serde(flatten)]
    first: Size,
    mean_speedup: Option<f64>,
    mean_speedups: BTreeMap<&'static str, Option<f64>>,
    page_out: Vec<String>,
    sizes: Vec<Size>,
}

#[derive(Clone, Serialize)]
struct Size {
    memory_bytes: u64,
    speedup: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    interval: Option<&'static str>,
    verdict: &'static str,
    words: String,
    relief: Option<Relief>,
    gap_closed: Option<f64>,
    foreseen: Option<Foreseen>,
    plan: Option<JsonPlan>,
    output_identical: Option<bool>,
    arms: Vec<JsonArm>,
}

/// The victim's p99 without the plan over that with it.
#[derive(Clone, Serialize)]
struct Relief {
    ratio: f64,
    low: f64,
    high: f64,
}

/// Swap-ins without the plan, as it foresees them.
#[derive(Clone, Serialize)]
struct Foreseen {
    least: u64,
    most: u64,
    otherwise: bool,
}

/// What became of the plan in its last run.
#[derive(Clone, Serialize)]
struct JsonPlan {
    did_something: bool,
    lines: Vec<String>,
}

#[derive(Clone, Serialize)]
struct JsonArm {
    name: &'static str,
    same_as: Option<&'static str>,
    speedup: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    wall_ns: Vec<u64>,
    swap_ins: Vec<Option<u64>>,
    evictions: Vec<Option<u64>>,
    reclaimed: Vec<Option<u64>>,
    written_bytes: Vec<Option<u64>>,
    read_bytes: Vec<Option<u64>>,
    memory_bytes: Vec<Option<u64>>,
    exit_codes: Vec<u8>,
    killed: u32,
    cannot_run: Option<String>,
    latency: Option<JsonLatency>,
    victim: Vec<Option<JsonVictim>>,
}

#[derive(Clone, Serialize)]
struct JsonVictim {
    half_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
}

#[derive(Clone, Serialize)]
struct JsonLatency {
    swap_ins: u64,
    half_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
}

/// The keys of the first size stand at the top, too. There is at least one.
pub(super) fn render(
    comparisons: &[Comparison],
    page_out: Vec<String>,
) -> Result<String, serde_json::Error> {
    let sizes: Vec<Size> = comparisons.iter().map(size).collect();
    let Some(first) = sizes.first().cloned() else {
        return Ok(String::new());
    };
    let document = Document {
        schema: "pagewise.compare/1",
        first,
        mean_speedup: mean_speedup(comparisons, ArmKind::Plan),
        mean_speedups: comparisons
            .iter()
            .flat_map(|one| &one.arms)
            .map(|arm| (arm.kind.name(), mean_speedup(comparisons, arm.kind)))
            .collect(),
        page_out,
        sizes,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn size(comparison: &Comparison) -> Size {
    let ratio = comparison.speedup();
    Size {
        memory_bytes: comparison.memory_bytes,
        speedup: ratio.map(|ratio| ratio.value),
        low: ratio.map(|ratio| ratio.low),
        high: ratio.map(|ratio| ratio.high),
        interval: ratio.map(|ratio| match ratio.is_resampled() {
            true => "95 %",
            false => "range",
        }),
        verdict: match comparison.judgement() {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Fails => "fails",
            Verdict::NoDifference => "no difference",
            Verdict::Unknown => "unknown",
        },
        words: comparison.judgement_in_words(),
        relief: comparison.relief().map(|ratio| Relief {
            ratio: ratio.value,
            low: ratio.low,
            high: ratio.high,
        }),
        gap_closed: comparison.gap_closed(),
        foreseen: comparison.foreseen.as_ref().map(|swap_ins| Foreseen {
            least: *swap_ins.start(),
            most: *swap_ins.end(),
            otherwise: comparison.swaps_otherwise().is_some(),
        }),
        plan: comparison.of_plan().map(|of_plan| JsonPlan {
            did_something: of_plan.did_something,
            lines: of_plan.lines.clone(),
        }),
        output_identical: comparison.output_identical(),
        arms: comparison
            .arms
            .iter()
            .map(|arm| json_arm(arm, comparison.speedup_of(arm.kind)))
            .collect(),
    }
}

fn json_arm(arm: &Arm, ratio: Option<Ratio>) -> JsonArm {
    let all = |of: fn(&Run) -> Option<u64>| arm.runs.iter().map(of).collect();
    JsonArm {
        name: arm.kind.name(),
        same_as: arm.same_as.map(ArmKind::name),
        speedup: ratio.map(|ratio| ratio.value),
        low: ratio.map(|ratio| ratio.low),
        high: ratio.map(|ratio| ratio.high),
        wall_ns: arm.runs.iter().map(|run| run.wall_ns).collect(),
        swap_ins: all(|run| run.swap_ins),
        evictions: all(|run| run.evictions),
        reclaimed: all(|run| run.reclaimed),
        written_bytes: all(|run| run.written_bytes),
        read_bytes: all(|run| run.read_bytes),
        memory_bytes: all(|run| run.memory_bytes),
        exit_codes: arm.runs.iter().map(|run| run.exit_code).collect(),
        killed: arm.killed,
        cannot_run: arm.cannot_run.clone(),
        latency: arm.latency.map(|latency| JsonLatency {
            swap_ins: latency.swap_ins,
            half_ns: latency.half_ns,
            p99_ns: latency.p99_ns,
            p999_ns: latency.p999_ns,
        }),
        victim: arm.runs.iter().map(json_victim).collect(),
    }
}

fn json_victim(run: &Run) -> Option<JsonVictim> {
    run.victim.map(|suffered| JsonVictim {
        half_ns: suffered.half_ns,
        p99_ns: suffered.p99_ns,
        p999_ns: suffered.p999_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::comparison;
    use super::*;

    #[test]
    fn the_contract_holds_at_the_top_and_for_each_size() {
        let compared = comparison(&[(ArmKind::Baseline, &[4, 4]), (ArmKind::Plan, &[2, 2])]);
        let text = render(&[compared], vec!["DAMON".to_owned()]).expect("rendered");
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(document["schema"], "pagewise.compare/1");
        assert_eq!(document["page_out"][0], "DAMON");
        for place in [&document, &document["sizes"][0]] {
            assert_eq!(place["speedup"], 2.0);
            assert_eq!((&place["low"], &place["high"]), (&2.0.into(), &2.0.into()));
            assert_eq!(place["interval"], "range");
            assert_eq!(place["verdict"], "faster");
            assert_eq!(place["output_identical"], true);
            assert_eq!(place["arms"][1]["name"], "plan");
            assert_eq!(place["arms"][0]["swap_ins"][1], 10);
            assert!(place["arms"][0]["written_bytes"][0].is_null());
        }
    }
}
