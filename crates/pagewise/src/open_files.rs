//! How many files this command may have open.

use rustix::process::Resource;
use rustix::process::Rlimit;
use rustix::process::getrlimit;
use rustix::process::setrlimit;

/// As many as there may be: each process that is held or looked into takes some.
pub(crate) fn allow_most() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Refused, there are as many as before.
    let _ = setrlimit(Resource::Nofile, most);
}
