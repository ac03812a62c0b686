//! Comma-separated values: the rows of the JSON document, with its keys as header.

use crate::json::JsonRow;
use crate::outcome::Findings;

impl Findings {
    /// A header, then a line a row; what is unknown is empty.
    pub fn to_csv(&self) -> Result<String, Box<dyn std::error::Error>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in &self.rows {
            writer.serialize(JsonRow::new(row, self.plan.page_bytes))?;
        }
        Ok(String::from_utf8(writer.into_inner()?)?)
    }
}
