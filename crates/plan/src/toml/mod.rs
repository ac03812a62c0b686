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
        let mut file = File::open(path).map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        // A folder, or a device that never ends.
        if !facts.is_file() {
            return Err(failed(io::Error::other("it is no regular file")));
        }
        if facts.len() > MOST_BYTES {
            return Err(PlanError::TooLarge {
                path: path.display().to_string(),
                bytes: facts.len(),
                most: MOST_BYTES,
            });
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
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
