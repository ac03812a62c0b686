//! Huge pages, and how much of each 2 MiB was in use where there are none: a map of each process, and sums.

use std::fmt::Write as _;

use pagewise_analyze::Coverage;
use pagewise_analyze::Findings;
use pagewise_analyze::REGION_BYTES;
use pagewise_analyze::RegionCoverage;

use super::escape::html;
use super::tables::Cell;
use super::tables::Table;
use crate::text::Style;
use crate::text::coverage_words;
use crate::units::bytes;
use crate::units::count;

const COLUMNS: u64 = 64;
const ROW_BYTES: u64 = COLUMNS * REGION_BYTES;
/// Regions that are drawn, of all processes together: 24 GiB.
const MOST_REGIONS: usize = 12 << 10;
const REGION_PAGES: f64 = 512.0;

/// The whole section; empty if accesses were not recorded.
pub(super) fn section(findings: &Findings) -> String {
    let mut text = String::new();
    if findings.coverage.is_empty() {
        return text;
    }
    text.push_str("<section id=\"coverage-section\" aria-labelledby=\"coverage-title\">\n<h2 id=\"coverage-title\">Huge pages, and what was accessed</h2>\n");
    let page_bytes = findings.page_bytes();
    let (mut left, mut left_out) = (MOST_REGIONS, 0);
    for process in &findings.coverage {
        let _ = writeln!(
            text,
            "<p>{}.</p>",
            html(&coverage_words(process, page_bytes, Style::PAGE))
        );
        let drawn = &process.regions[..process.regions.len().min(left)];
        map(&mut text, process, drawn);
        left -= drawn.len();
        left_out += process.regions.len() - drawn.len();
    }
    text.push_str(HELP);
    if left_out > 0 {
        let _ = writeln!(
            text,
            "<p class=\"help\">{} more regions are not drawn.</p>",
            count(left_out as u64)
        );
    }
    buckets(&mut text, findings, page_bytes);
    text.push_str("</section>\n");
    text
}

const HELP: &str = "<p class=\"help\">A cell is 2 MiB, a line 128 MiB, each as it was seen last; files and shared memory are among them. <span class=\"huge\">Huge pages</span>; \
     <span class=\"base\">base pages</span>, the stronger the more of the 512 were accessed within a look. Point at a cell for its figures.</p>\n";

/// A line for each 128 MiB that have any.
fn map(text: &mut String, process: &Coverage, regions: &[RegionCoverage]) {
    let _ = writeln!(
        text,
        "<div class=\"regions\" role=\"img\" aria-label=\"Map of {} regions of {}\">",
        regions.len(),
        html(&process.command)
    );
    for row in regions.chunk_by(|a, b| a.address / ROW_BYTES == b.address / ROW_BYTES) {
        let start = row[0].address / ROW_BYTES * ROW_BYTES;
        let _ = write!(
            text,
            "<div><code>{start:x}</code><svg viewBox=\"0 0 {COLUMNS} 1\" preserveAspectRatio=\"none\">"
        );
        row.iter().for_each(|region| cell(text, region, start));
        text.push_str("</svg></div>\n");
    }
    text.push_str("</div>\n");
}

fn cell(text: &mut String, region: &RegionCoverage, start: u64) {
    let x = (region.address - start) / REGION_BYTES;
    let accessed = region.accessed_pages.unwrap_or(0.0);
    let (class, strength) = match (region.is_huge, accessed > 0.0) {
        (true, _) => ("huge", 1.0),
        // Something is never shown as nothing.
        (false, true) => ("base", 0.15 + 0.85 * (accessed / REGION_PAGES).min(1.0)),
        (false, false) => ("base", 0.0),
    };
    let _ = write!(
        text,
        "<rect class=\"{class}\" x=\"{x}\" width=\"1\" height=\"1\" fill-opacity=\"{strength:.2}\"><title>{}</title></rect>",
        words(region, accessed)
    );
}

fn words(region: &RegionCoverage, accessed: f64) -> String {
    let address = region.address;
    match (region.is_huge, region.accessed_pages) {
        (true, None) => format!("{address:x}: a huge page"),
        (true, Some(_)) => {
            format!(
                "{address:x}: a huge page; of its base pages {accessed:.0} were accessed before"
            )
        }
        (false, _) => format!(
            "{address:x}: {accessed:.0} of 512 base pages accessed, {} in memory, {} in swap",
            region.resident_pages, region.swapped_pages
        ),
    }
}

/// Of all processes together.
fn buckets(text: &mut String, findings: &Findings, page_bytes: u64) {
    let mut sums = [(0, 0); 10];
    for process in &findings.coverage {
        for (sum, bucket) in sums.iter_mut().zip(process.buckets(page_bytes)) {
            sum.0 += bucket.regions;
            sum.1 += bucket.resident_bytes;
        }
    }
    let row = |(number, (regions, resident)): (usize, (u64, u64))| {
        let last = if number == 9 { 512 } else { number * 50 + 49 };
        let cells = vec![
            Cell::number(Some(regions), count),
            Cell::number(Some(resident), bytes),
        ];
        (String::new(), format!("{} to {last}", number * 50), cells)
    };
    let table = Table {
        id: "coverage-buckets",
        caption: "Regions of base pages, by how many of 512 were accessed",
        heads: vec!["accessed", "regions", "in memory"],
        selects: None,
        rows: sums.into_iter().enumerate().map(row).collect(),
        rest: None,
    };
    table.write(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(number: u64, is_huge: bool, accessed_pages: Option<f64>) -> RegionCoverage {
        RegionCoverage {
            address: number * REGION_BYTES,
            resident_pages: 512,
            swapped_pages: 0,
            is_huge,
            accessed_pages,
        }
    }

    #[test]
    fn each_region_has_its_place_in_a_line_of_its_own_128_mebibytes() {
        let process = Coverage {
            pid: Some(7),
            command: "<b>".to_owned(),
            regions: vec![
                region(64, true, None),
                region(66, false, Some(256.0)),
                region(64 * 9 - 1, false, Some(0.0)),
            ],
        };
        let mut text = String::new();
        map(&mut text, &process, &process.regions);
        assert!(text.contains("Map of 3 regions of &lt;b&gt;"), "{text}");
        assert_eq!(text.matches("<svg").count(), 2, "{text}");
        for expected in [
            "<code>8000000</code>",
            "<rect class=\"huge\" x=\"0\" width=\"1\" height=\"1\" fill-opacity=\"1.00\"><title>8000000: a huge page<",
            "<rect class=\"base\" x=\"2\" width=\"1\" height=\"1\" fill-opacity=\"0.57\"><title>8400000: 256 of 512 base pages accessed, 512 in memory, 0 in swap<",
            "<code>40000000</code>",
            "<rect class=\"base\" x=\"63\" width=\"1\" height=\"1\" fill-opacity=\"0.00\">",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
