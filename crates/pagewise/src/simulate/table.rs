//! The table in a terminal.

use pagewise_host::MemorySize;
use pagewise_replay::Curve;
use pagewise_replay::Findings;
use pagewise_replay::Row;
use pagewise_report::count;
use pagewise_report::duration;
use pagewise_report::text::Style;

use crate::columns::aligned;

/// What was simulated, then a table for each memory size.
pub(super) fn render(findings: &Findings, style: Style) -> String {
    let mut text = headline(findings);
    for (size, _) in findings.plan.sizes.iter().enumerate() {
        for (ratio, _) in &findings.plan.storages {
            let here = |row: &&Row| row.size == size && row.write_read_ratio == *ratio;
            let rows: Vec<&Row> = findings.rows.iter().filter(here).collect();
            text.push_str(&section(findings, &rows, style));
        }
    }
    text.push_str(&curves(findings, style));
    if findings
        .rows
        .iter()
        .all(|row| row.misses_vs_optimum.is_none())
    {
        text.push_str("\nFor the distance to the optimum, add belady to --policy.\n");
    }
    text
}

fn headline(findings: &Findings) -> String {
    let facts = &findings.trace.facts;
    let share = |part: u64| 100.0 * part as f64 / facts.references as f64;
    let pages = match (facts.pages, findings.footprint_bytes()) {
        (Some(pages), Some(bytes)) => format!(
            "{} pages ({})",
            count(pages.into()),
            pagewise_report::bytes(bytes)
        ),
        _ => "? pages".to_owned(),
    };
    let classify = match findings.trace.classify {
        Some(classify) => format!(", files by {classify}"),
        None => String::new(),
    };
    let storage = &findings.plan.storages[0].1;
    let swap_write = match findings.plan.storages.len() {
        1 => format!("write {}", duration(storage.swap.write_ns)),
        _ => "write swept".to_owned(),
    };
    let warmup = match findings.plan.warmup {
        0 => String::new(),
        warmup => format!("\nthe first {} references are not counted", count(warmup)),
    };
    let sample = match findings.plan.sample {
        None => String::new(),
        Some(rate) => {
            let errors = findings.rows.iter().filter_map(|row| row.miss_ratio_error);
            format!(
                "\nsimulated: {rate} of the pages; miss ratios are off by about {:.4} (LRU's standard error, the greatest of these sizes)",
                errors.fold(0.0, f64::max)
            )
        }
    };
    format!(
        "{} ({}{classify}): {} references to {pages}, {:.1} % writes, {:.1} % to files\n\
         files on {} (read {}, write {}), swap on {} (read {}, {swap_write}) for a page{warmup}{sample}\n",
        findings.trace.path.display(),
        findings.trace.format,
        count(facts.references),
        share(facts.writes),
        share(facts.of_files),
        findings.plan.devices.file,
        duration(storage.file.read_ns),
        duration(storage.file.write_ns),
        findings.plan.devices.swap,
        duration(storage.swap.read_ns),
    )
}

/// The rows of one size.
fn section(findings: &Findings, rows: &[&Row], style: Style) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let share = match (findings.plan.sizes[first.size], findings.trace.facts.pages) {
        (size @ MemorySize::Percent(_), _) => format!(", {size} of the footprint"),
        (_, Some(pages)) => {
            let percent = 100.0 * f64::from(first.frames) / f64::from(pages);
            format!(", {percent:.1}% of the footprint")
        }
        (_, None) => String::new(),
    };
    let ratio = match first.write_read_ratio {
        Some(ratio) => format!("; a write to swap costs {ratio} reads"),
        None => String::new(),
    };
    let title = format!(
        "memory {} pages ({}{share}){ratio}",
        count(first.frames.into()),
        pagewise_report::bytes(u64::from(first.frames) * findings.plan.page_bytes),
    );
    let mut lines = vec![HEADER.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| fields(row)));
    // Columns that are the same everywhere say nothing: the optimum, if it was not simulated.
    if rows.iter().all(|row| row.misses_vs_optimum.is_none()) {
        for line in &mut lines {
            line.pop();
        }
    }
    format!("\n{}\n{}", style.bold(&title), aligned(&lines))
}

/// Miss ratios at every fourth size of the curves.
fn curves(findings: &Findings, style: Style) -> String {
    let Some(first) = findings.curves.first() else {
        return String::new();
    };
    let mut lines = vec![vec!["memory".to_owned()]];
    lines[0].extend(findings.curves.iter().map(|curve| curve.policy.to_string()));
    for (index, size) in first.points.iter().enumerate().skip(3).step_by(4) {
        let ratio = |curve: &Curve| {
            let point = curve.points.get(index);
            point.map_or("?".to_owned(), |point| format!("{:.4}", point.miss_ratio))
        };
        let mut line = vec![pagewise_report::bytes(
            u64::from(size.frames) * findings.plan.page_bytes,
        )];
        line.extend(findings.curves.iter().map(ratio));
        lines.push(line);
    }
    let sampled = findings.curves.iter().find(|curve| curve.rate < 1.0);
    let remark = match sampled {
        Some(curve) => format!(
            "All but lru from {:.2} % of the pages; the error of lru's curve at that rate is {:.4} on average.\n",
            100.0 * curve.rate,
            curve.error
        ),
        None => String::new(),
    };
    format!(
        "\n{}\n{}{remark}",
        style.bold("miss ratio by memory"),
        aligned(&lines)
    )
}

const HEADER: [&str; 10] = [
    "policy",
    "misses",
    "miss ratio",
    "I/O time",
    "file read",
    "file write",
    "swap read",
    "swap write",
    "vs clock",
    "vs optimum",
];

fn fields(row: &Row) -> Vec<String> {
    let io = &row.io;
    let ratio = row.outcome.miss_ratio();
    vec![
        row.policy.to_string(),
        count(row.outcome.misses()),
        ratio.map_or("?".to_owned(), |ratio| format!("{ratio:.4}")),
        duration(io.io_ns()),
        duration(io.file_read_ns),
        duration(io.file_write_ns),
        duration(io.swap_read_ns),
        duration(io.swap_write_ns),
        change(row.io_vs_clock),
        change(row.misses_vs_optimum),
    ]
}

/// A ratio as what is more or less, in percent.
fn change(ratio: Option<f64>) -> String {
    match ratio {
        // Rounded first: nothing is -0.0 %.
        Some(ratio) => format!("{:+.1} %", ((ratio - 1.0) * 1e3).round() / 10.0 + 0.0),
        None => "?".to_owned(),
    }
}
