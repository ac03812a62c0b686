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

/// What a folder has in it that is a recording.
const OF_RECORDING: &str = "meta.json";

impl Plan {
    /// Reads a plan from a file.
    ///
    /// # Errors
    /// [`PlanError`]: the file, or what is wrong in it, by line and key.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let failed = |error| unread(path, &error);
        let facts = std::fs::metadata(path).map_err(failed)?;
        // A folder, or a device that never ends. To open a pipe would wait for who writes into it.
        if !facts.is_file() {
            return Err(no_file(path, facts.is_dir()));
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

/// A plan that is not there can be made, and what is no text was none.
fn unread(path: &Path, error: &io::Error) -> PlanError {
    let name = quoted(path);
    let (why, remedy) = match error.kind() {
        io::ErrorKind::NotFound => (
            "there is no such file".to_owned(),
            format!("make one of a recording: pagewise plan -o {name} RECORDING"),
        ),
        io::ErrorKind::InvalidData => (
            "it is no text".to_owned(),
            "name a file that pagewise plan wrote".to_owned(),
        ),
        io::ErrorKind::PermissionDenied => (
            error.to_string(),
            format!("let this user read it: chmod +r {name}"),
        ),
        _ => (
            error.to_string(),
            "name a file that pagewise plan wrote".to_owned(),
        ),
    };
    PlanError::Read {
        path: path.display().to_string(),
        why,
        remedy,
    }
}

/// A path as it is typed.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@,=%".contains(letter);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

fn no_file(path: &Path, is_folder: bool) -> PlanError {
    let name = quoted(path);
    let (why, remedy) = match (is_folder, path.join(OF_RECORDING).exists()) {
        (true, true) => (
            "it is a recording",
            format!("make a plan of it: pagewise plan -o plan.toml {name}"),
        ),
        (true, false) => (
            "it is a folder",
            "name a file that pagewise plan wrote".to_owned(),
        ),
        (false, _) => (
            "it is no regular file",
            "write it into one, and name that".to_owned(),
        ),
    };
    PlanError::Read {
        path: path.display().to_string(),
        why: why.to_owned(),
        remedy,
    }
}
