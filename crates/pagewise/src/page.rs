//! A page with plots: one file, no network. The template draws what the JSON document says.

use std::fs;
use std::io;
use std::path::Path;

use super::arguments::SimulateArguments;
use crate::failure::Failure;
use crate::output::tell;

const TEMPLATE: &str = include_str!("page.html");
const DATA: &str = "\"@DATA@\"";

/// Refuses a file that may not be written, before anything is simulated.
pub(super) fn check(arguments: &SimulateArguments) -> Result<(), Failure> {
    match &arguments.html {
        Some(path) if path.exists() && !arguments.force => Err(Failure::new(format!(
            "{} exists already: use -f to overwrite it",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// The page of what another replacement policy would do.
pub(super) fn page(document: &str) -> String {
    render(TEMPLATE, document)
}

/// Writes a page beside its place and renames it.
pub(super) fn write(path: &Path, page: &str, force: bool) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
    if force && path.exists() && !path.is_file() {
        // A device or a pipe is written into.
        return fs::write(path, page).map_err(failed);
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.tmp", std::process::id()));
    let written = fs::write(&unfinished, page).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // The first error is the one that matters.
        let _ = fs::remove_file(&unfinished);
    }
    written.map_err(failed)?;
    tell!(
        "pagewise: wrote {} ({})",
        path.display(),
        pagewise_report::bytes(page.len() as u64)
    );
    Ok(())
}

/// The template with the document in it. No text of the document may end the script that holds it.
pub(super) fn render(template: &str, document: &str) -> String {
    template.replacen(DATA, &document.replace('<', "\\u003c"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_no_network_and_holds_its_data() {
        let page = page("{\"path\":\"</script><b>\"}");
        assert!(page.contains(r#"{"path":"\u003c/script>\u003cb>"}"#));
        assert!(!page.contains("@DATA@"));
        for outside in ["src=", "href=", "@import", "url(", "fetch("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
