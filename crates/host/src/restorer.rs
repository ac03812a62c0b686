//! Undoes what was changed, in reverse order; the keeper knows everything before it happens.

use crate::error::Error;
use crate::error::Result;
use crate::files;
use crate::journal::UndoAction;
use crate::keeper::Keeper;
use std::fmt;
use std::path::Path;

/// A place in the list of things to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// One thing to undo, to be forgotten should the change not have been made.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "keep it to forget the action if the change fails, or bind it to _"]
pub struct Ticket(u64);

/// Something that could not be undone.
#[derive(Debug)]
pub struct Failure {
    /// What.
    pub action: UndoAction,
    /// Why not.
    pub error: Error,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not restored: {}; type: {}",
            self.error.chain(),
            self.action.by_hand()
        )
    }
}

struct Entry {
    id: u64,
    action: UndoAction,
}

/// Holds what is to be undone; dropping it undoes.
///
/// With a [`Keeper`] this also happens when this process is killed. What could not be undone here stays
/// with the keeper, which goes on trying after this process has ended.
pub struct Restorer {
    keeper: Option<Keeper>,
    entries: Vec<Entry>,
    next: u64,
}

impl Restorer {
    /// With a keeper: the way to make changes that outlive a process.
    pub fn new(keeper: Keeper) -> Self {
        Restorer {
            keeper: Some(keeper),
            entries: Vec::new(),
            next: 0,
        }
    }

    /// Without a keeper: a `kill -9` leaves everything as it is. For tests, and where nothing is changed.
    pub fn without_keeper() -> Self {
        Restorer {
            keeper: None,
            entries: Vec::new(),
            next: 0,
        }
    }

    /// Promises to undo something. Call it *before* the change.
    ///
    /// # Errors
    /// [`Error::KeeperGone`]: then do not make the change.
    pub fn push(&mut self, action: UndoAction) -> Result<Ticket> {
        let id = self.next;
        if let Some(keeper) = &mut self.keeper {
            keeper.announce(id, action.clone())?;
        }
        self.next += 1;
        self.entries.push(Entry { id, action });
        Ok(Ticket(id))
    }

    /// The change was not made: there is nothing to undo.
    pub fn forget(&mut self, ticket: Ticket) {
        self.entries.retain(|entry| entry.id != ticket.0);
        self.tell_done(ticket.0);
    }

    /// Changes a setting of the machine (sysctl, transparent huge pages, ...), to be put back.
    ///
    /// # Errors
    /// When it cannot be read or written, or the keeper is gone: then it is unchanged.
    pub fn change_setting(&mut self, path: &Path, value: &str) -> Result<()> {
        let before = files::read(path)?;
        let contents = files::chosen(&before).to_owned();
        let ticket = self.push(UndoAction::WriteFile {
            path: path.to_owned(),
            contents,
        })?;
        let written = files::write(path, value);
        if written.is_err() {
            self.forget(ticket);
        }
        written
    }

    /// Where the list is now, for [`Restorer::undo_to`].
    pub fn mark(&self) -> Mark {
        Mark(self.next)
    }

    /// Undoes what was pushed since the mark, last first. What fails stays to be undone.
    pub fn undo_to(&mut self, mark: Mark) -> Vec<Failure> {
        let start = self.entries.partition_point(|entry| entry.id < mark.0);
        let mut kept = Vec::new();
        let mut failures = Vec::new();
        for entry in self.entries.split_off(start).into_iter().rev() {
            match entry.action.perform() {
                Ok(()) => self.tell_done(entry.id),
                Err(error) => {
                    failures.push(Failure {
                        action: entry.action.clone(),
                        error,
                    });
                    kept.push(entry);
                }
            }
        }
        self.entries.extend(kept.into_iter().rev());
        failures
    }

    /// Undoes everything, last first. What fails stays to be undone: by another call, or by the keeper
    /// when this process ends.
    pub fn undo_all(&mut self) -> Vec<Failure> {
        self.undo_to(Mark(0))
    }

    /// Whether nothing is left to undo.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn tell_done(&mut self, id: u64) {
        if let Some(keeper) = &mut self.keeper {
            keeper.tell_done(id);
        }
    }
}

impl Drop for Restorer {
    fn drop(&mut self) {
        let failures = self.undo_all();
        if self.keeper.is_none() {
            for failure in failures {
                eprintln!("pagewise: {failure}");
            }
        }
    }
}

impl fmt::Debug for Restorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actions: Vec<_> = self.entries.iter().map(|entry| &entry.action).collect();
        f.debug_struct("Restorer")
            .field("kept", &self.keeper.is_some())
            .field("to_undo", &actions)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).expect("text")
    }

    #[test]
    fn settings_are_put_back_last_first() {
        let dir = tempfile::tempdir().expect("a folder");
        let setting = dir.path().join("enabled");
        fs::write(&setting, "always [madvise] never\n").expect("a file");
        let mut restorer = Restorer::without_keeper();
        restorer
            .change_setting(&setting, "always")
            .expect("changed");
        restorer.change_setting(&setting, "never").expect("changed");
        assert_eq!(read(&setting), "never");
        assert!(restorer.undo_all().is_empty() && restorer.is_empty());
        assert_eq!(read(&setting), "madvise");
    }

    #[test]
    fn dropping_undoes_and_forgetting_does_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let (kept, changed) = (dir.path().join("kept"), dir.path().join("changed"));
        for path in [&kept, &changed] {
            fs::write(path, "new").expect("a file");
        }
        let action = |path: &Path| UndoAction::WriteFile {
            path: path.to_owned(),
            contents: "old".into(),
        };
        let mut restorer = Restorer::without_keeper();
        let ticket = restorer.push(action(&kept)).expect("pushed");
        let _ = restorer.push(action(&changed)).expect("pushed");
        restorer.forget(ticket);
        drop(restorer);
        assert_eq!(
            (read(&kept).as_str(), read(&changed).as_str()),
            ("new", "old")
        );
    }

    #[test]
    fn undoing_to_a_mark_leaves_what_was_before_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        for path in [&first, &second] {
            fs::write(path, "old").expect("a file");
        }
        let mut restorer = Restorer::without_keeper();
        restorer.change_setting(&first, "new").expect("changed");
        let mark = restorer.mark();
        restorer.change_setting(&second, "new").expect("changed");
        assert!(restorer.undo_to(mark).is_empty());
        assert_eq!(
            (read(&first).as_str(), read(&second).as_str()),
            ("new", "old")
        );
    }

    #[test]
    fn a_failure_says_what_to_type_and_stays_to_be_undone() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut restorer = Restorer::without_keeper();
        let contents = "1".to_owned();
        // A folder cannot be written to.
        let action = UndoAction::WriteFile {
            path: dir.path().to_owned(),
            contents,
        };
        let ticket = restorer.push(action).expect("pushed");
        let failures = restorer.undo_all();
        assert_eq!(failures.len(), 1);
        assert!(
            failures[0].to_string().contains("; type: echo 1 > "),
            "{}",
            failures[0]
        );
        assert!(!restorer.is_empty());
        restorer.forget(ticket);
        assert!(restorer.is_empty());
    }
}
