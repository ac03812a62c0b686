//! `pagewise report --what-if`: questions about other sizes of memory and other swap devices.

use std::str::FromStr;

use pagewise_host::MemorySize;
use pagewise_predict::Device;
use pagewise_predict::Model;
use pagewise_report::what_if::WhatIf;
use pagewise_simulate::Level;
use pagewise_simulate::Models;
use pagewise_trace::Trace;

use crate::failure::Failure;

/// Recordings with more events are asked only on request: each second counts.
const MOST_EVENTS_UNASKED: u64 = 100_000;
/// Percent of the peak that are told unasked.
const UNASKED: [u64; 3] = [50, 80, 90];

/// One question: a size or, without, the whole curve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    memory: Option<MemorySize>,
    swap: Option<String>,
}

const FORM: &str = "a question is memory=512M, memory=80%,swap=nvme, swap=nvme or curve";

impl FromStr for Question {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut question = Self {
            memory: None,
            swap: None,
        };
        if text == "curve" {
            return Ok(question);
        }
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or(FORM)?;
            match key.trim() {
                "memory" => {
                    let size = value.trim().parse();
                    question.memory =
                        Some(size.map_err(|error: pagewise_host::Error| error.to_string())?);
                }
                "swap" => question.swap = Some(value.trim().to_owned()),
                other => return Err(format!("`{other}` is neither memory nor swap: {FORM}")),
            }
        }
        Ok(question)
    }
}

/// The answers; without questions those that come cheap, or none.
pub(crate) fn answers(trace: &Trace, questions: &[Question]) -> Result<Option<WhatIf>, Failure> {
    if questions.is_empty() {
        return Ok(unasked(trace));
    }
    let model = Model::read(trace).map_err(|error| Failure::new(error.to_string()))?;
    let mut answers = WhatIf::new(&model);
    let models = Models::built_in();
    for question in questions {
        let device = question
            .swap
            .as_deref()
            .map(|name| Ok::<_, Failure>((name, device(&models, name)?)));
        let device = device.transpose()?;
        match question.memory {
            None => answers.ask_curve(&model, device),
            Some(size) => {
                let page_bytes = trace.meta().host.page_bytes.unwrap_or(4096);
                let bytes = size.resolve(Some(model.peak_bytes()), page_bytes)?;
                answers.ask(&model, bytes, device);
            }
        }
    }
    Ok(Some(answers))
}

fn unasked(trace: &Trace) -> Option<WhatIf> {
    let events = trace.meta().row_counts.get("events").copied();
    if events.is_none_or(|events| events > MOST_EVENTS_UNASKED) {
        return None;
    }
    let model = Model::read(trace).ok()?;
    let mut answers = WhatIf::new(&model);
    for percent in UNASKED {
        answers.ask(&model, model.peak_bytes() * percent / 100, None);
    }
    Some(answers)
}

fn device(models: &Models, name: &str) -> Result<Device, Failure> {
    let device = models
        .device(name)
        .map_err(|error| Failure::new(error.to_string()))?;
    let fault_ns = models.fault.software_ns.at(Level::Typical);
    Ok(Device::new(device.cost(Level::Typical), fault_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_as_people_type_them() {
        let question = |text: &str| text.parse::<Question>();
        assert_eq!(
            question("curve"),
            Ok(Question {
                memory: None,
                swap: None
            })
        );
        let both = Question {
            memory: Some(MemorySize::Percent(80.0)),
            swap: Some("nvme".to_owned()),
        };
        assert_eq!(question("memory=80%,swap=nvme"), Ok(both));
        assert_eq!(question("512M"), Err(FORM.to_owned()));
        assert!(question("cpu=3").is_err_and(|error| error.starts_with("`cpu` is neither")));
        assert!(question("memory=many").is_err());
    }
}
