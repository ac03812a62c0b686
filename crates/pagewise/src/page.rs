//! Pages with plots: one file, no network. A template draws what a JSON document says.

use std::fs;
use std::io;
use std::path::Path;

use crate::failure::Failure;
use crate::output::tell;

const DATA: &str = "\"@DATA@\"";

/// Refuses a file that may not be written, before anything is done for it.
pub(crate) fn check(path: Option<&Path>, force: bool) -> Result<(), Failure> {
    match path {
        Some(path) if path.exists() && !force => Err(Failure::new(format!(
            "{} exists already: use -f to overwrite it",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes a page beside its place and renames it.
pub(crate) fn write(path: &Path, page: &str, force: bool) -> Result<(), Failure> {
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
pub(crate) fn render(template: &str, document: &str) -> String {
    template.replacen(DATA, &document.replace('<', "\\u003c"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_need_no_network_and_hold_their_data() {
        let templates = [
            include_str!("simulate/page.html"),
            include_str!("simulate/hugepages/page.html"),
            include_str!("hugepages/scan.html"),
        ];
        for template in templates {
            let page = render(template, "{\"path\":\"</script><b>\"}");
            assert!(page.contains(r#"{"path":"\u003c/script>\u003cb>"}"#));
            assert!(!page.contains("@DATA@"));
            for outside in ["src=", "href=", "@import", "url(", "fetch("] {
                assert!(!page.contains(outside), "{outside}");
            }
        }
    }
}
