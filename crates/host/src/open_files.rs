//! How many files this process may have open, and the programs that it starts.

use std::sync::OnceLock;

use rustix::process::Resource;
use rustix::process::Rlimit;
use rustix::process::getrlimit;
use rustix::process::setrlimit;

/// What this process was begun with, once that has been changed.
static BEGUN_WITH: OnceLock<Rlimit> = OnceLock::new();

/// As many as there may be: each process that is held or looked into takes some. Programs that are started later are begun
/// as this process was.
pub fn allow_most() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    BEGUN_WITH.get_or_init(|| limit);
    // Refused, there are as many as before.
    let _ = setrlimit(Resource::Nofile, most);
}

/// How many this process may have open.
pub fn allowed() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

/// The limit that programs are to be given; `None`: that of this process.
pub(crate) fn of_programs() -> Option<Rlimit> {
    BEGUN_WITH.get().copied()
}
