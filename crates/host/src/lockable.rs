//! What may be locked in memory.

use rustix::process::Resource;
use rustix::process::getrlimit;
use rustix::thread::CapabilitySet;

/// What programs that are started here may lock, in bytes; `None`: as much as there is. Under sudo they run as the user who
/// called it.
pub fn lockable_bytes() -> Option<u64> {
    let is_for_root = std::env::var_os("SUDO_UID").is_none();
    let may_all = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    match is_for_root && may_all {
        true => None,
        false => getrlimit(Resource::Memlock).current,
    }
}
