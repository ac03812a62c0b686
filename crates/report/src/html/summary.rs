//! The top of the page: what hurts, where in the source, why and how much; then what is known of the recording.

use std::fmt::Write as _;

use pagewise_analyze::Findings;

use super::escape::html;
use crate::text::Style;
use crate::text::attribution_remarks;
use crate::text::page_out_remarks;
use crate::text::polled_rings;
use crate::text::sentences;
use crate::text::unattributed_io;
use crate::text::waits_lines;
use crate::units::bytes;
use crate::units::count;
use crate::units::duration;

/// The headline and the sentences below it.
pub(super) fn headline(findings: &Findings) -> String {
    let mut text = String::new();
    let mut tag = ("<h1>", "</h1>");
    for sentence in sentences(findings, Style::PAGE) {
        let _ = writeln!(text, "{}{}{}", tag.0, html(&sentence), tag.1);
        tag = ("<p class=\"lead\">", "</p>");
    }
    text
}

/// What was recorded, what that cost, and what is missing; of so many swap-ins and evictions so many are drawn.
pub(super) fn recording(findings: &Findings, events: u64, drawn: u64) -> String {
    let mut text = String::new();
    text.push_str("<dl class=\"facts\">\n");
    for (term, value) in facts(findings) {
        let _ = writeln!(text, "<div><dt>{term}</dt><dd>{}</dd></div>", html(&value));
    }
    text.push_str("</dl>\n");
    let remarks = remarks(findings, events, drawn);
    if !remarks.is_empty() {
        text.push_str("<ul class=\"remarks\">\n");
        for (class, remark) in remarks {
            let _ = writeln!(text, "<li class=\"{class}\">{}</li>", html(&remark));
        }
        text.push_str("</ul>\n");
    }
    text
}

fn facts(findings: &Findings) -> Vec<(&'static str, String)> {
    let (meta, totals) = (&findings.meta, &findings.totals);
    let mut facts = Vec::new();
    let mut fact = |term, value: Option<String>| facts.extend(value.map(|value| (term, value)));
    let words = (!meta.command.is_empty()).then(|| meta.command.join(" "));
    fact("Command", words);
    fact("Ran for", meta.wall_ns.map(duration));
    fact("Limit", meta.limit.bytes.map(bytes));
    fact("Peak resident", meta.peak_rss_bytes.map(bytes));
    let swap = meta.swap.kind.as_ref().map(|kind| {
        let details = [
            meta.swap.algorithm.clone(),
            meta.swap.bytes.map(bytes),
            meta.swap.path.clone(),
        ];
        let details: Vec<String> = details.into_iter().flatten().collect();
        match details.is_empty() {
            true => kind.clone(),
            false => format!("{kind} ({})", details.join(", ")),
        }
    });
    fact("Swap", swap);
    if findings.faults_observed() {
        fact("Evictions", Some(count(totals.evictions)));
        fact("Pages written", Some(count(totals.pages_written)));
        let zeros = findings.zeros_observed().then(|| count(totals.zero_filled));
        fact("Zero-filled", zeros);
        fact("Swap-cache hits", Some(count(totals.swap_cache_hits)));
    }
    fact(
        "Dropped without a write",
        findings.dropped_without_write.map(count),
    );
    fact(
        "Pages of shared memory gone, perhaps to swap",
        findings
            .shared_pages_gone
            .filter(|&gone| gone > 0)
            .map(count),
    );
    for (term, latency) in [
        ("Swap-in latency", &findings.latency),
        ("Write latency", &findings.write_latency),
    ] {
        let at = |share| latency.quantile(share).map(duration);
        if let (Some(half), Some(most), Some(max)) = (at(0.5), at(0.99), latency.max()) {
            fact(
                term,
                Some(format!(
                    "median {half}, p99 {most}, longest {}",
                    duration(max)
                )),
            );
        }
    }
    let exit = match (meta.exit.code, meta.exit.signal) {
        (_, Some(signal)) => Some(format!("killed by signal {signal}")),
        (code, None) => code.map(|code| format!("code {code}")),
    };
    fact("Exit", exit);
    let machine = [
        Some(&meta.host.kernel)
            .filter(|kernel| !kernel.is_empty())
            .map(|kernel| format!("Linux {kernel}")),
        meta.host.cpus.map(|cpus| format!("{cpus} processors")),
        meta.host.memory_bytes.map(bytes),
    ];
    let machine: Vec<String> = machine.into_iter().flatten().collect();
    fact("Machine", (!machine.is_empty()).then(|| machine.join(", ")));
    let on = |(sensor, state): (&String, &String)| (state == "on").then(|| sensor.clone());
    let sensors: Vec<String> = meta.sensors.iter().filter_map(on).collect();
    fact(
        "Sensors on",
        (!sensors.is_empty()).then(|| sensors.join(", ")),
    );
    let cost = meta.cost.iter().map(|(what, value)| cost(what, *value));
    let cost: Vec<String> = cost.collect();
    fact(
        "Cost of recording",
        (!cost.is_empty()).then(|| cost.join(", ")),
    );
    facts
}

/// A number of the recorder's; its unit is the end of its name.
fn cost(what: &str, value: f64) -> String {
    let whole = value.is_finite() && value >= 0.0;
    let name = |ending| what.strip_suffix(ending).map(|name| name.replace('_', " "));
    match (name("_ns"), name("_bytes")) {
        (Some(name), _) if whole => return format!("{name} {}", duration(value as u64)),
        (_, Some(name)) if whole => return format!("{name} {}", bytes(value as u64)),
        _ => {}
    }
    format!("{} {value}", what.replace('_', " "))
}

/// Each with the class of its importance: `loss`, or nothing.
fn remarks(findings: &Findings, events: u64, drawn: u64) -> Vec<(&'static str, String)> {
    let meta = &findings.meta;
    let mut remarks = Vec::new();
    let lost = meta.losses.iter().filter(|(_, lost)| **lost > 0);
    let lost: Vec<String> = lost
        .map(|(what, lost)| format!("{what} {}", count(*lost)))
        .collect();
    if !lost.is_empty() {
        remarks.push(("loss", format!("Lost: {}", lost.join(", "))));
    }
    remarks.extend(meta.exit.reason.clone().map(|reason| ("loss", reason)));
    if meta.recovered.is_some() || (meta.end_monotonic_ns.is_none() && meta.imported.is_none()) {
        let cut = "The recording was cut short: this is what there was until then.";
        remarks.push(("loss", cut.to_owned()));
    }
    for (sensor, state) in meta.sensors.iter().filter(|(_, state)| *state != "on") {
        remarks.push(("", format!("Sensor {sensor}: {state}")));
    }
    remarks.extend(unattributed_io(meta).map(|line| ("loss", line)));
    remarks.extend(polled_rings(meta).map(|line| ("loss", line)));
    remarks.extend(page_out_remarks(meta).map(|line| ("loss", line)));
    if findings.counted_events > 0 {
        let counted = count(findings.counted_events);
        remarks.push(("", format!("{counted} events were counted by regions of 2 MiB, not listed (--max-size): they are in the tables, not in the pictures.")));
    }
    if drawn < events {
        let (events, drawn) = (count(events), count(drawn));
        remarks.push(("", format!("Of {events} swap-ins and evictions, the pictures show {drawn}; headline and tables count all.")));
    }
    let mut lines = String::new();
    waits_lines(&mut lines, findings);
    attribution_remarks(&mut lines, findings, Style::PAGE);
    remarks.extend(lines.lines().map(|line| ("", line.to_owned())));
    remarks
}
