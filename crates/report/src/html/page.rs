//! The file: what people read first, what pictures need for a first draft, the scripts, and last and largest the points.

use std::io;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pagewise_analyze::Findings;
use pagewise_analyze::file_io::FileIo;
use sha2::Digest as _;
use sha2::Sha256;

use super::bands::Bands;
use super::coverage;
use super::escape;
use super::events::Points;
use super::file_io;
use super::model::Model;
use super::pack::COLUMNS;
use super::pack::Packed;
use super::summary;
use super::tables;

const STYLE: &str = concat!(
    include_str!("../../assets/uplot/uPlot.min.css"),
    include_str!("../../assets/html/style.css")
);
const PLOTS: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
/// In the order in which they build on each other: together one script, so that they share their names with each other
/// and with nobody else.
const SCRIPT: &str = concat!(
    "(() => {\n'use strict';\n",
    include_str!("../../assets/html/format.js"),
    include_str!("../../assets/html/data.js"),
    include_str!("../../assets/html/state.js"),
    include_str!("../../assets/html/selection.js"),
    include_str!("../../assets/html/draw.js"),
    include_str!("../../assets/html/axes.js"),
    include_str!("../../assets/html/hover.js"),
    include_str!("../../assets/html/scatter.js"),
    include_str!("../../assets/html/curves.js"),
    include_str!("../../assets/html/flame.js"),
    include_str!("../../assets/html/tables.js"),
    include_str!("../../assets/html/main.js"),
    "})();\n"
);
const BODY: &str = include_str!("../../assets/html/body.html");
/// Says that all of the file has been read.
const COMPLETE: &str = "document.dispatchEvent(new Event('pagewise-points'));";

pub(super) fn write(
    findings: &Findings,
    io: Option<&FileIo>,
    points: &Points,
    bands: &Bands,
    model: &Model,
    packed: &Packed,
    out: &mut dyn Write,
) -> io::Result<()> {
    let scripts = [PLOTS, SCRIPT, COMPLETE].map(|script| format!("'{}'", digest(script)));
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {}; style-src '{}'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>",
        scripts.join(" "),
        digest(STYLE),
        escape::html(&title(findings))
    )?;
    writeln!(out, "<style>{STYLE}</style>\n</head>\n<body>")?;
    let pictures = if bands.bands.is_empty() {
        "without-points"
    } else {
        "with-points"
    };
    let parts = [
        ("{{pictures}}", pictures.to_owned()),
        ("{{headline}}", summary::headline(findings)),
        ("{{coverage}}", coverage::section(findings)),
        ("{{io}}", file_io::section(io)),
        ("{{objects}}", tables::objects(findings)),
        ("{{paths}}", tables::call_paths(findings)),
        ("{{lines}}", tables::lines(findings)),
        (
            "{{recording}}",
            summary::recording(findings, points.events, packed.points),
        ),
    ];
    fill(BODY, &parts, out)?;
    let json = escape::json(model)?;
    writeln!(
        out,
        "<script type=\"application/json\" id=\"model\">{json}</script>"
    )?;
    writeln!(out, "<script>{PLOTS}</script>\n<script>{SCRIPT}</script>")?;
    for (name, column) in COLUMNS.iter().zip(&packed.columns) {
        writeln!(
            out,
            "<script type=\"application/octet-stream\" id=\"column-{name}\">{column}</script>"
        )?;
    }
    writeln!(out, "<script>{COMPLETE}</script>\n</body>\n</html>")
}

/// The name of the window: the program's.
fn title(findings: &Findings) -> String {
    let program = findings.meta.command.first();
    let program = program.map(|path| path.rsplit('/').next().unwrap_or(path));
    match program {
        Some(program) => format!("{} - Pagewise", escape::visible(program)),
        None => "Pagewise".to_owned(),
    }
}

/// Puts each part in its place. Parts are not looked through: a name may read like a place.
fn fill(template: &str, parts: &[(&str, String)], out: &mut dyn Write) -> io::Result<()> {
    let mut rest = template;
    while let Some(begin) = rest.find("{{") {
        let part = parts
            .iter()
            .find(|(place, _)| rest[begin..].starts_with(place));
        let (place, text) =
            part.ok_or_else(|| io::Error::other("a part of the page is unknown"))?;
        out.write_all(&rest.as_bytes()[..begin])?;
        out.write_all(text.as_bytes())?;
        rest = &rest[begin + place.len()..];
    }
    out.write_all(rest.as_bytes())
}

/// As a Content-Security-Policy names a script or style that may be used.
fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_reads_like_a_place_stays_a_name() {
        let parts = [("{{a}}", "{{b}}".to_owned()), ("{{b}}", "x".to_owned())];
        let mut out = Vec::new();
        fill("1 {{a}} 2 {{b}} 3", &parts, &mut out).expect("all are known");
        assert_eq!(String::from_utf8_lossy(&out), "1 {{b}} 2 x 3");
    }

    #[test]
    fn the_scripts_do_not_end_their_element() {
        for script in [PLOTS, SCRIPT, COMPLETE] {
            assert!(!script.contains("</script") && !script.contains("<!--"));
        }
        assert!(!STYLE.contains("</style"));
    }
}
