//! Comma-separated values: the rows of the JSON document, with its keys as header.

use super::json::JsonRow;
use super::outcome::Findings;
use crate::failure::Failure;

/// A header, then a line a row; what is unknown is empty.
pub(super) fn render(findings: &Findings<'_>) -> Result<String, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::new(error.to_string());
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in &findings.rows {
        let row = JsonRow::new(row, findings.plan.page_bytes);
        writer.serialize(row).map_err(|error| failed(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|error| failed(&error))
}
