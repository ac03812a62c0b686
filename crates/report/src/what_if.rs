//! What would happen with more or less memory, or another swap device: as text and for JSON.

use std::fmt::Write as _;

use pagewise_predict::Device;
use pagewise_predict::Model;
use pagewise_predict::Point;
use serde::Serialize;

use crate::units::bytes;
use crate::units::count;
use crate::units::duration;

/// A question, and the answer.
#[derive(Clone, Debug, Serialize)]
struct Answer {
    memory_bytes: u64,
    device: Option<String>,
    swap_ins: u64,
    swap_ins_low: u64,
    swap_ins_high: Option<u64>,
    stall_ns: Option<u64>,
    reclaim_ns: Option<u64>,
    wall_ns: Option<u64>,
}

/// The key `what_if` of the JSON document, and the lines of the report.
#[derive(Clone, Debug, Serialize)]
pub struct WhatIf {
    peak_bytes: u64,
    recorded_bytes: Option<u64>,
    recorded_swap_ins: u64,
    simulated_swap_ins: u64,
    asked: Vec<Answer>,
    curve: Vec<Answer>,
}

impl WhatIf {
    /// Nothing asked yet.
    pub fn new(model: &Model) -> Self {
        Self {
            peak_bytes: model.peak_bytes(),
            recorded_bytes: model.recorded_bytes(),
            recorded_swap_ins: model.recorded_swap_ins(),
            simulated_swap_ins: model.simulated_swap_ins(),
            asked: Vec::new(),
            curve: Vec::new(),
        }
    }

    /// Asks for one size, on a device of this name or as recorded.
    pub fn ask(&mut self, model: &Model, memory_bytes: u64, device: Option<(&str, Device)>) {
        let point = model.at(memory_bytes, device.map(|(_, device)| device).as_ref());
        self.asked.push(Answer::new(point, device));
    }

    /// Asks for the curve.
    pub fn ask_curve(&mut self, model: &Model, device: Option<(&str, Device)>) {
        let points = model.curve(device.map(|(_, device)| device).as_ref());
        let answers = points.into_iter().map(|point| Answer::new(point, device));
        self.curve.extend(answers);
    }

    /// A line for each answer.
    pub fn to_text(&self) -> String {
        let mut text = "\nWhat if:\n".to_owned();
        let answers = || self.asked.iter().chain(&self.curve);
        for answer in answers() {
            let _ = writeln!(text, "  {}", self.line(answer));
        }
        if answers().any(|answer| answer.swap_ins_high.is_none()) {
            text.push_str("  (or more, perhaps many times as many: nobody looked how often what stayed in memory is used; ");
            text.push_str(
                "record as root with the sensor spots, or with --access=0.1 --access-cost=2)\n",
            );
        }
        let _ = writeln!(
            text,
            "  (at the recorded size the model has {} swap-ins of {})",
            count(self.simulated_swap_ins),
            count(self.recorded_swap_ins)
        );
        text
    }

    fn line(&self, answer: &Answer) -> String {
        let share = answer.memory_bytes as f64 * 100.0 / self.peak_bytes.max(1) as f64;
        let device = answer
            .device
            .as_ref()
            .map_or(String::new(), |name| format!(" and swap on {name}"));
        let low = count(answer.swap_ins_low);
        let (interval, about) = match answer.swap_ins_high {
            Some(high) => (format!("{low} to {}", count(high)), "about "),
            None => (format!("{low} or more"), "at least about "),
        };
        let time = answer
            .wall_ns
            .map_or(String::new(), |wall| format!(", {about}{}", duration(wall)));
        format!(
            "with {} ({share:.0} %){device}: {} swap-ins ({interval}){time}",
            bytes(answer.memory_bytes),
            count(answer.swap_ins),
        )
    }
}

impl Answer {
    fn new(point: Point, device: Option<(&str, Device)>) -> Self {
        Self {
            memory_bytes: point.memory_bytes,
            device: device.map(|(name, _)| name.to_owned()),
            swap_ins: point.swap_ins,
            swap_ins_low: point.swap_ins_low,
            swap_ins_high: point.swap_ins_high,
            stall_ns: point.stall_ns,
            reclaim_ns: point.reclaim_ns,
            wall_ns: point.wall_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(memory_bytes: u64, swap_ins_high: Option<u64>) -> Answer {
        Answer {
            memory_bytes,
            device: None,
            swap_ins: 4000,
            swap_ins_low: 3000,
            swap_ins_high,
            stall_ns: None,
            reclaim_ns: None,
            wall_ns: Some(2_000_000_000),
        }
    }

    #[test]
    fn how_many_at_most_is_said_where_it_is_known() {
        let mut what_if = WhatIf {
            peak_bytes: 100 << 20,
            recorded_bytes: Some(60 << 20),
            recorded_swap_ins: 3500,
            simulated_swap_ins: 3400,
            asked: vec![answer(80 << 20, Some(5000))],
            curve: Vec::new(),
        };
        let known = what_if.to_text();
        let line = "with 80 MiB (80 %): 4,000 swap-ins (3,000 to 5,000), about 2.0 s\n";
        assert!(known.contains(line), "{known}");
        assert!(!known.contains("or more"), "{known}");
        what_if.curve.push(answer(30 << 20, None));
        let unknown = what_if.to_text();
        let line = "with 30 MiB (30 %): 4,000 swap-ins (3,000 or more), at least about 2.0 s\n";
        assert!(unknown.contains(line), "{unknown}");
        assert!(
            unknown.contains("sensor spots, or with --access=0.1"),
            "{unknown}"
        );
    }
}
