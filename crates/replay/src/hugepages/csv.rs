//! Comma-separated values: a row for each policy, moment and program.

use serde::Serialize;

use super::HugeFindings;
use super::json::changes;

#[derive(Serialize)]
struct Row<'a> {
    policy: &'a str,
    time_s: f64,
    program: &'a str,
    overhead: f64,
    slow_down: f64,
    huge_pages: u64,
    bloat_bytes: u64,
}

impl HugeFindings {
    /// A header, then a line for each program that runs at each moment at which something changed.
    pub fn to_csv(&self) -> Result<String, Box<dyn std::error::Error>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for arm in &self.arms {
            let policy = arm.arm.to_string();
            for sample in changes(&arm.course) {
                for (facts, state) in self.programs.iter().zip(&sample.programs) {
                    let Some(state) = state else { continue };
                    writer.serialize(Row {
                        policy: &policy,
                        time_s: sample.time.as_secs_f64(),
                        program: &facts.name,
                        overhead: state.overhead,
                        slow_down: state.slow_down,
                        huge_pages: state.huge_pages,
                        bloat_bytes: state.bloat_bytes,
                    })?;
                }
            }
        }
        Ok(String::from_utf8(writer.into_inner()?)?)
    }
}
