//! A plan as TOML: what is written is read again as it was.

mod io_action;
mod read;
mod rule;
mod table;
mod write;

use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;

use crate::error::PlanError;
use crate::model::Plan;

/// The longest plan that is read, bytes: thousands of rules.
const MOST_BYTES: u64 = 16 << 20;

impl Plan {
    /// Reads a plan from a file.
    ///
    /// # Errors
    /// [`PlanError`]: the file, or what is wrong in it, by line and key.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let failed = |source| PlanError::Read {
            path: path.display().to_string(),
            source,
        };
        let facts = std::fs::metadata(path).map_err(failed)?;
        // A folder, or a device that never ends. To open a pipe would wait for who writes into it.
        if !facts.is_file() {
            return Err(failed(io::Error::other("it is no regular file")));
        }
        let file = File::open(path).map_err(failed)?;
        let mut text = String::new();
        let bytes = file.take(MOST_BYTES + 1).read_to_string(&mut text);
        let bytes = facts.len().max(bytes.map_err(failed)? as u64);
        if bytes > MOST_BYTES {
            return Err(PlanError::TooLarge {
                path: path.display().to_string(),
                bytes,
                most: MOST_BYTES,
            });
        }
        Self::parse(&text, path)
    }

    /// Reads a plan from its text; `path` names it in errors.
    ///
    /// # Errors
    /// [`PlanError::Invalid`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, PlanError> {
        read::plan(text, path)
    }

    /// The plan as text, with comments: the same each time.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] if the plan breaks a rule that is checked when it is read; its line is that of the text that
    /// would have been written.
    pub fn to_toml(&self) -> Result<String, PlanError> {
        let text = write::text(self);
        Self::parse(&text, Path::new("the plan to write"))?;
        Ok(text)
    }
}
