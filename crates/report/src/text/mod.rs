//! The report in a terminal: the headline, then objects by stall time, when and where in them, call paths, remarks.

mod attribution;
mod clean;
mod facts;
mod fault_paths;
mod file_io;
mod headline;
mod map;
mod names;
mod objects;
mod remarks;
mod style;
mod waits;
mod words;

use pagewise_analyze::Findings;
use pagewise_analyze::Object;

pub use file_io::render_file_io;
pub use style::ColorChoice;
pub use style::Style;

pub(crate) use attribution::remarks as attribution_remarks;
pub(crate) use clean::take_width;
pub(crate) use fault_paths::PathGroup;
pub(crate) use fault_paths::grouped;
pub(crate) use file_io::grounds as grounds_of_context;
pub(crate) use file_io::name_of as name_of_file;
pub(crate) use file_io::path_of as path_of_context;
pub(crate) use file_io::sums as sums_of_file_io;
pub(crate) use headline::sentences;
pub(crate) use names::own_frames;
pub(crate) use names::short_name;
pub(crate) use objects::needs;
pub(crate) use objects::table_of;
pub(crate) use remarks::page_out as page_out_remarks;
pub(crate) use remarks::polled_rings;
pub(crate) use remarks::unattributed_io;
pub(crate) use waits::coverage_words;
pub(crate) use waits::lines as waits_lines;

/// What an object is called in a line of text.
pub fn display_name(object: &Object) -> String {
    Style::of_stdout(ColorChoice::Never).name_of(object)
}

/// The whole report.
pub fn render(findings: &Findings, style: Style) -> String {
    let mut text = String::new();
    headline::headline(&mut text, findings, style);
    let mut facts = String::new();
    facts::facts(&mut facts, findings, style);
    waits::lines(&mut facts, findings);
    waits::coverage(&mut facts, findings, style);
    style.add_wrapped(&mut text, &facts);
    objects::table(&mut text, findings, style);
    map::map(&mut text, findings, style);
    fault_paths::fault_paths(&mut text, findings, style);
    let mut remarks = String::new();
    facts::latency(&mut remarks, findings);
    remarks::remarks(&mut remarks, findings, style);
    style.add_wrapped(&mut text, &remarks);
    text
}

/// Its first lines: what hurts, where, why and what would help.
pub fn render_headline(findings: &Findings, style: Style) -> String {
    let mut text = String::new();
    headline::headline(&mut text, findings, style);
    text
}
