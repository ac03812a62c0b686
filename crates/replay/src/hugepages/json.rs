//! The document pagewise.simulate-hugepages/1, described in docs/json.md.

use pagewise_simulate::hugepages::Tlb;
use pagewise_simulate::hugepages::replay::Course;
use pagewise_simulate::hugepages::replay::Sample;
use serde::Serialize;

use super::ArmFindings;
use super::HugeFindings;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    tlb: JsonTlb,
    interval_s: f64,
    promotions_per_second: f64,
    duration_s: f64,
    memory_bytes: Option<u64>,
    fragmentation: Option<f64>,
    programs: Vec<JsonProgram<'a>>,
    policies: Vec<Policy>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct JsonTlb {
    l1_4k: u32,
    l1_2m: u32,
    l2: u32,
    walk_cycles: f64,
    walk_2m_cycles: f64,
    l2_hit_cycles: f64,
    work_cycles: f64,
}

impl From<Tlb> for JsonTlb {
    fn from(tlb: Tlb) -> Self {
        Self {
            l1_4k: tlb.l1_4k,
            l1_2m: tlb.l1_2m,
            l2: tlb.l2,
            walk_cycles: tlb.walk,
            walk_2m_cycles: tlb.walk_2m,
            l2_hit_cycles: tlb.second_level,
            work_cycles: tlb.work,
        }
    }
}

#[derive(Serialize)]
struct JsonProgram<'a> {
    trace: &'a str,
    name: &'a str,
    basis: &'static str,
    base_overhead: Option<f64>,
}

#[derive(Serialize)]
struct Policy {
    policy: String,
    overhead: Option<f64>,
    speed_up: Option<f64>,
    saved_s: f64,
    promotions: u64,
    demotions: u64,
    saved_by_promotion_s: Option<f64>,
    near_huge_from_s: Option<f64>,
    most_bloat_bytes: u64,
    last_bloat_bytes: u64,
    programs: Vec<OfProgram>,
    samples: Vec<JsonSample>,
}

#[derive(Serialize)]
struct OfProgram {
    promotions: u64,
    demotions: u64,
    recorded_s: f64,
    needed_s: f64,
}

#[derive(Serialize)]
struct JsonSample {
    time_s: f64,
    overhead: Option<f64>,
    bloat_bytes: u64,
    programs: Vec<Option<JsonState>>,
}

#[derive(Serialize)]
struct JsonState {
    overhead: f64,
    slow_down: f64,
    huge_pages: u64,
    bloat_bytes: u64,
}

impl HugeFindings {
    /// The document `pagewise.simulate-hugepages/1` (docs/json.md), on one line or indented.
    pub fn to_json(&self, indented: bool) -> Result<String, serde_json::Error> {
        let programs = self.programs.iter().zip(&self.base_overheads);
        let document = Document {
            schema: "pagewise.simulate-hugepages/1",
            tlb: self.tlb.into(),
            interval_s: self.interval.as_secs_f64(),
            promotions_per_second: self.promotions_per_second,
            duration_s: self.duration.as_secs_f64(),
            memory_bytes: self.memory_bytes,
            fragmentation: self.fragmentation,
            programs: programs
                .map(|(facts, base_overhead)| JsonProgram {
                    trace: &facts.trace,
                    name: &facts.name,
                    basis: facts.basis.name(),
                    base_overhead: *base_overhead,
                })
                .collect(),
            policies: self.arms.iter().map(policy).collect(),
            notes: &self.notes,
        };
        match indented {
            true => serde_json::to_string_pretty(&document).map(|text| text + "\n"),
            false => serde_json::to_string(&document),
        }
    }
}

fn policy(arm: &ArmFindings) -> Policy {
    let course = &arm.course;
    let programs = course.programs.iter().map(|of| OfProgram {
        promotions: of.promotions,
        demotions: of.demotions,
        recorded_s: of.recorded_s,
        needed_s: of.needed_s,
    });
    Policy {
        policy: arm.arm.to_string(),
        overhead: course.overhead(),
        speed_up: course.speed_up(),
        saved_s: course.saved_s(),
        promotions: course.promotions(),
        demotions: course.demotions(),
        saved_by_promotion_s: course.saved_by_promotion_s(),
        near_huge_from_s: course.near_huge_from().map(|time| time.as_secs_f64()),
        most_bloat_bytes: course.most_bloat_bytes(),
        last_bloat_bytes: course.last_bloat_bytes(),
        programs: programs.collect(),
        samples: changes(course).map(sample).collect(),
    }
}

/// The samples at which something is other than before, and the last.
pub(super) fn changes(course: &Course) -> impl Iterator<Item = &Sample> {
    let samples = &course.samples;
    (samples.iter().enumerate())
        .filter(|(at, sample)| {
            let before = at.checked_sub(1).map(|before| &samples[before].programs);
            before != Some(&sample.programs) || at + 1 == samples.len()
        })
        .map(|(_, sample)| sample)
}

fn sample(sample: &Sample) -> JsonSample {
    let programs = sample.programs.iter().map(|state| {
        state.map(|state| JsonState {
            overhead: state.overhead,
            slow_down: state.slow_down,
            huge_pages: state.huge_pages,
            bloat_bytes: state.bloat_bytes,
        })
    });
    JsonSample {
        time_s: sample.time.as_secs_f64(),
        overhead: sample.overhead(),
        bloat_bytes: sample.bloat_bytes(),
        programs: programs.collect(),
    }
}
