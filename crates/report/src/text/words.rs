//! A pattern in words.

use pagewise_analyze::Pattern;
use pagewise_analyze::PatternFacts;

use crate::units::bytes;
use crate::units::count;
use crate::units::duration;
use crate::units::percent;

/// What a program does with the memory, for example `a loop of 48,640 pages (190 MiB), 1.2 s a round`.
pub(crate) fn in_words(facts: &PatternFacts, page_bytes: u64) -> String {
    let pages = |pages: u64| {
        format!(
            "{} pages ({})",
            count(pages),
            bytes(pages.saturating_mul(page_bytes))
        )
    };
    match facts.pattern {
        Pattern::Sequential if facts.is_coarse => "once through, in order but for 1 MiB".to_owned(),
        Pattern::Sequential => "page after page, once through".to_owned(),
        Pattern::Loop | Pattern::UnorderedLoop => {
            let order = match facts.pattern {
                Pattern::UnorderedLoop => " in no order",
                _ if facts.is_coarse => ", in order but for 1 MiB",
                _ => "",
            };
            match (facts.reuse_pages, facts.reuse_ns) {
                (Some(round), Some(ns)) => {
                    let (round, time) = (pages(round), duration(ns));
                    format!("a loop of {round}{order}, {time} a round")
                }
                _ => format!("a loop{order}"),
            }
        }
        Pattern::Strided => match facts.stride_pages {
            Some(stride) => format!("in steps of {}", pages(stride)),
            None => "in equal steps".to_owned(),
        },
        Pattern::Random => match facts.reuse_pages {
            Some(reuse) => format!("in no order, the same page again after {}", pages(reuse)),
            None => "in no order".to_owned(),
        },
        Pattern::Hot => "a few pages again and again".to_owned(),
        Pattern::Once => "each page about once, in no order".to_owned(),
    }
}

/// How much of what was seen agrees: `97 % of 145,919 steps`, or returns, of pages that come back in each round.
pub(crate) fn how_sure(facts: &PatternFacts) -> String {
    let share = percent((facts.agreement * 1000.0).round() as u64, 1000);
    match facts.pattern {
        Pattern::UnorderedLoop => format!("{share} of the returns"),
        _ if facts.is_coarse => format!("{share} of the swap-ins"),
        _ => format!("{share} of {} steps", count(facts.steps)),
    }
}
