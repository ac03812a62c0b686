//! What became of fresh memory: huge pages at its first touch, or ready before it.

use pagewise_abi::plan::FRESH;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::Total;
use pagewise_plan::Fresh;
use pagewise_report::bytes;
use pagewise_report::count;
use serde::Serialize;

use super::outcome::error_text;
use super::server::Words;

#[derive(Debug, Serialize)]
pub(super) struct FreshOutcome {
    action: &'static str,
    mappings: u64,
    mapped_bytes: u64,
    /// Of the heap and mappings.
    prezeroed_bytes: u64,
    returned_bytes: u64,
    refusals: u64,
    errno: Option<u64>,
    taken_over: u64,
    /// How often memory got short, so that it came in base pages.
    shortages: u64,
    /// Zeros that were freed then, by splitting huge pages.
    recovered_bytes: u64,
}

impl FreshOutcome {
    pub(super) fn of(fresh: Fresh, words: &Words) -> Self {
        let word = |word| words.of_rule(FRESH, word);
        Self {
            action: fresh.name(),
            mappings: word(OfRule::Objects),
            mapped_bytes: word(OfRule::Bytes),
            prezeroed_bytes: word(OfRule::Readied),
            returned_bytes: word(OfRule::Returned),
            refusals: word(OfRule::Refusals),
            errno: Some(word(OfRule::Errno)).filter(|&errno| errno > 0),
            taken_over: word(OfRule::TakenOver),
            shortages: words.total(Total::Shortages),
            recovered_bytes: words.total(Total::Recovered),
        }
    }

    pub(super) fn prezeroed_bytes(&self) -> u64 {
        self.prezeroed_bytes
    }

    /// For people.
    pub(super) fn line(&self) -> String {
        let mut parts = vec![format!(
            "the heap and {} large mappings ({}) in huge pages",
            count(self.mappings),
            bytes(self.mapped_bytes)
        )];
        if self.action == Fresh::Prezero.name() {
            parts.push(readied(self.prezeroed_bytes, self.returned_bytes));
        }
        if self.shortages > 0 {
            parts.push(format!(
                "in base pages while memory was short ({} times), {} of zeros freed",
                count(self.shortages),
                bytes(self.recovered_bytes)
            ));
        }
        if let Some(errno) = self.errno {
            let why = error_text(errno);
            parts.push(format!("refused {} times ({why})", count(self.refusals)));
        }
        format!("fresh memory: {}", parts.join(", "))
    }
}

pub(super) fn readied(prezeroed: u64, returned: u64) -> String {
    let mut text = format!("{} made ready ahead", bytes(prezeroed));
    if returned > 0 {
        text.push_str(&format!(", {} of it given back", bytes(returned)));
    }
    text
}
