//! The map: which pages came back when, of the objects that matter.

mod band;
mod canvas;
mod time_axis;

use std::fmt::Write as _;

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::Phase;
use pagewise_analyze::SampledSwapIn;

use super::Style;
use super::words::how_sure;
use super::words::in_words;
use crate::units::bytes;
use crate::units::count;
use crate::units::duration;
use band::Band;
use canvas::Canvas;
use canvas::Marks;
use time_axis::TimeAxis;

/// Objects to draw.
const MOST_BANDS: usize = 5;
/// One with less of the swap-ins is not worth its rows.
const LEAST_SHARE: f64 = 0.01;
/// Fewer swap-ins make no picture.
const FEWEST: usize = 32;
/// Columns to the left of the picture: for an offset in the object.
const LABEL: usize = 9;

/// Draws the objects of the most stall, each in a band of its own.
pub(crate) fn map(text: &mut String, findings: &Findings, style: Style) {
    let points = &findings.sample.points;
    let shown: Vec<usize> = bands_to_show(findings);
    let of_shown = |point: &&SampledSwapIn| shown.contains(&point.object);
    let times = points.iter().filter(of_shown).map(|point| point.time_ns);
    let (Some(first), Some(last)) = (times.clone().min(), times.max()) else {
        return;
    };
    let marks = Marks::of(style);
    let columns = style.width.saturating_sub(LABEL + 2).max(8);
    let axis = TimeAxis::new(first, last, begin_of(findings, first), columns);
    let _ = writeln!(text, "\n{}", style.bold("When and where"));
    for object in shown {
        let of_object = points.iter().filter(|point| point.object == object);
        let band = Band::new(of_object.copied().collect(), findings.page_bytes());
        let mut canvas = Canvas::new(columns, band.rows(), marks);
        for point in &band.points {
            canvas.mark(axis.place(point.time_ns), band.place(point));
        }
        head(text, &findings.objects[object], &band, findings, style);
        rows(text, &canvas, &band, marks, style);
    }
    for line in axis.lines(marks) {
        let _ = writeln!(text, "{}", style.dim(&format!("{:LABEL$} {line}", "")));
    }
    let legend = legend(findings, &axis, marks);
    for line in style.wrapped(&legend) {
        let _ = writeln!(text, "{}", style.dim(&line));
    }
}

/// When the axis begins to count.
fn begin_of(findings: &Findings, first_ns: u64) -> u64 {
    let begin = findings.meta.clock.start_monotonic_ns;
    begin.filter(|&begin| begin <= first_ns).unwrap_or(first_ns)
}

fn bands_to_show(findings: &Findings) -> Vec<usize> {
    let points = &findings.sample.points;
    let mut numbers = vec![0usize; findings.objects.len().min(MOST_BANDS)];
    for point in points {
        if let Some(number) = numbers.get_mut(point.object) {
            *number += 1;
        }
    }
    let least = ((points.len() as f64 * LEAST_SHARE) as usize).max(FEWEST);
    let worth = numbers
        .iter()
        .enumerate()
        .filter(|(_, number)| **number >= least);
    worth.map(|(object, _)| object).collect()
}

/// What the band shows, and what was made of it.
fn head(text: &mut String, object: &Object, band: &Band, findings: &Findings, style: Style) {
    let name = style.bold(&style.name_of(object));
    let type_name = object.type_name.as_deref().map(|name| style.clean(name));
    let mut about: Vec<String> = type_name.into_iter().collect();
    about.push(format!("a row is {}", bytes(band.row_bytes())));
    about.extend(phases(object, findings));
    let about = about.join("; ");
    let lines = style.wrapped(&format!("{}: {about}", style.name_of(object)));
    let plain = lines.join("\n").replacen(&style.name_of(object), &name, 1);
    let _ = writeln!(text, "{plain}");
}

/// The pattern; where it changes, each with its time.
fn phases(object: &Object, findings: &Findings) -> Vec<String> {
    const MOST_PHASES: usize = 6;
    let begin = findings.meta.clock.start_monotonic_ns.unwrap_or(0);
    let known = object
        .phases
        .iter()
        .filter_map(|phase| Some((phase, phase.facts?)));
    let several = known.clone().count() > 1;
    let mut phases: Vec<String> = known
        .map(|(phase, facts)| {
            let words = in_words(&facts, findings.page_bytes());
            let sure = how_sure(&facts);
            match several {
                true => format!("{}: {words} ({sure})", when(phase, begin)),
                false => format!("{words} ({sure})"),
            }
        })
        .collect();
    if phases.len() > MOST_PHASES {
        let more = phases.len() - MOST_PHASES;
        phases.truncate(MOST_PHASES);
        phases.push(format!("{more} more changes"));
    }
    phases
}

/// `2.1 s to 3.4 s`; of a short time late in a long run, which would begin and end at the same, `at 26 s for 380 ms`.
fn when(phase: &Phase, zero_ns: u64) -> String {
    let at = |ns: u64| duration(ns.saturating_sub(zero_ns));
    let (begin, end) = (at(phase.begin_ns), at(phase.end_ns));
    match begin == end {
        true => format!(
            "at {begin} for {}",
            duration(phase.end_ns.saturating_sub(phase.begin_ns))
        ),
        false => format!("{begin} to {end}"),
    }
}

fn rows(text: &mut String, canvas: &Canvas, band: &Band, marks: Marks, style: Style) {
    let last = canvas.rows().len().saturating_sub(1);
    for (number, row) in canvas.rows().iter().enumerate() {
        let label = match number {
            0 => bytes(0),
            _ if number == last => bytes(band.bytes()),
            _ => String::new(),
        };
        let edge = style.dim(&format!("{label:>LABEL$} {}", marks.edge));
        let _ = writeln!(text, "{}", format!("{edge}{row}").trim_end());
    }
}

fn legend(findings: &Findings, axis: &TimeAxis, marks: Marks) -> String {
    let width = duration(axis.column_ns());
    let mut legend = match marks.dots {
        true => format!(
            "A character is a row high and {width} wide; a dot is a swap-in or more, in an eighth of it."
        ),
        false => format!(
            "A character is a row high and {width} wide: . : + # are ever more swap-ins (of the most in a character: \
             some, 1/8, 1/4, 1/2)."
        ),
    };
    let one_in = findings.sample.one_in;
    if one_in > 1 {
        let _ = write!(legend, " One in {} swap-ins is drawn.", count(one_in));
    }
    legend.push_str(
        " Downwards: addresses, without the gaps; to the right: time since the recording began.",
    );
    legend
}
