//! What hurts, where in the source, why, and what memory would cure it.

use std::fmt::Write as _;

use pagewise_analyze::AVOIDED_SHARE;
use pagewise_analyze::Findings;
use pagewise_analyze::Object;

use super::Style;
use super::words::in_words;
use crate::units::bytes;
use crate::units::count;
use crate::units::duration;
use crate::units::percent;

/// The first says what it cost; the others, if there was a cost, where and why, and what would help.
pub(crate) fn sentences(findings: &Findings, style: Style) -> Vec<String> {
    let rest = [worst(findings, style), need(findings)];
    let rest = rest.into_iter().flatten();
    std::iter::once(waited(findings)).chain(rest).collect()
}

pub(crate) fn headline(text: &mut String, findings: &Findings, style: Style) {
    for sentence in sentences(findings, style) {
        for line in style.wrapped(&sentence) {
            let _ = writeln!(text, "{}", style.bold(&line));
        }
    }
}

fn waited(findings: &Findings) -> String {
    let totals = &findings.totals;
    if !findings.swap_ins_observed() {
        return "Faults and evictions were not observed (--sensors).".to_owned();
    }
    if !findings.faults_observed() {
        return format!(
            "{} swap-ins were seen; how long they took is not known.",
            count(totals.swap_ins)
        );
    }
    if totals.swap_ins == 0 && totals.evictions == 0 {
        return "Nothing was swapped.".to_owned();
    }
    let wall = findings.meta.wall_ns.filter(|&wall| wall > 0);
    let of_wall = wall.map_or(String::new(), |wall| {
        let share = percent(totals.stall_ns, wall);
        let together = match totals.stall_ns > wall {
            true => ", all threads together",
            false => "",
        };
        format!(" of {} ({share}{together})", duration(wall))
    });
    let from_cache = match totals.swap_cache_hits {
        0 => String::new(),
        hits => format!(", {} of them from the swap cache", count(hits)),
    };
    format!(
        "Waited {}{of_wall} for {} swap-ins{from_cache}.",
        duration(totals.stall_ns),
        count(totals.swap_ins)
    )
}

/// The object that cost most, where the program was, and what it does there.
fn worst(findings: &Findings, style: Style) -> Option<String> {
    let worst = findings
        .objects
        .first()
        .filter(|object| object.counts.stall_ns > 0)?;
    let share = percent(worst.counts.stall_ns, findings.totals.stall_ns);
    let mut sentence = format!("{share} of the waiting was for {}", style.name_of(worst));
    if let Some(place) = place(worst, findings, style) {
        let _ = write!(sentence, ", touched in {place}");
    }
    if let Some(facts) = &worst.pattern_facts {
        let words = in_words(facts, findings.page_bytes());
        let _ = write!(sentence, ": {words}");
    }
    sentence.push('.');
    Some(sentence)
}

/// The line that waited most for an object.
fn place(object: &Object, findings: &Findings, style: Style) -> Option<String> {
    let path = findings.fault_paths.get(object.worst_path?.fault_path)?;
    let mut frames = style.frames_of(&path.frames);
    frames.next().map(|frame| style.frame(frame))
}

fn need(findings: &Findings) -> Option<String> {
    let need = &findings.memory_need;
    let extra = need.extra_bytes?;
    let share = format!("{:.0} %", AVOIDED_SHARE * 100.0);
    Some(match (need.limit_bytes, findings.meta.limit.bytes) {
        (Some(enough), Some(limit)) => format!(
            "Needs {} instead of {} to avoid {share} of it.",
            bytes(enough),
            bytes(limit)
        ),
        _ => format!("Needs {} more memory to avoid {share} of it.", bytes(extra)),
    })
}
