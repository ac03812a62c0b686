//! swapon(2) and swapoff(2), with their error numbers explained.

use super::table;
use super::table::SwapArea;
use crate::capabilities::Capabilities;
use crate::counters;
use crate::error::Error;
use crate::error::Result;
use crate::journal::UndoAction;
use crate::restorer::Restorer;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// include/linux/swap.h.
const SWAP_FLAG_PREFER: i32 = 0x8000;
const SWAP_FLAG_PRIO_MASK: i32 = 0x7fff;

/// Refuses early, before anything is made that would have to be undone.
pub(super) fn require_permission() -> Result<()> {
    match Capabilities::current() {
        Some(capabilities) if !capabilities.sys_admin => Err(Error::SwapNotPermitted),
        _ => Ok(()),
    }
}

/// Switches a prepared area on, before all others in the order of use.
pub(super) fn swap_on(path: &Path, restorer: &mut Restorer) -> Result<()> {
    let priority = priority_above(&table::active_areas()?);
    let name = c_path(path)?;
    let ticket = restorer.push(UndoAction::SwapOff {
        path: path.to_owned(),
    })?;
    // SAFETY: a string that ends with a zero byte, which the call only reads.
    let status = unsafe { libc::swapon(name.as_ptr(), SWAP_FLAG_PREFER | priority) };
    if status == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    restorer.forget(ticket);
    Err(Error::SwapRefused {
        path: path.to_owned(),
        why: explain(&source),
        source,
    })
}

/// Switches an area off; not being swap is success. Returns when its pages are back in memory, which
/// takes seconds per GiB.
pub(crate) fn swap_off(path: &Path) -> Result<()> {
    let name = c_path(path)?;
    require_room(path)?;
    loop {
        // SAFETY: a string that ends with a zero byte, which the call only reads.
        if unsafe { libc::swapoff(name.as_ptr()) } == 0 {
            return Ok(());
        }
        let source = io::Error::last_os_error();
        match source.raw_os_error() {
            Some(libc::EINTR) => {}
            // Not swap (any more), or no such file or device.
            Some(libc::EINVAL | libc::ENOENT | libc::ENXIO | libc::ENODEV | libc::ENOTDIR) => {
                return Ok(());
            }
            // The kernel asks who we are before it looks what that is.
            Some(libc::EPERM) if !is_listed(path) => return Ok(()),
            _ => return Err(Error::file("switch off swap on", path, source)),
        }
    }
}

/// The kernel makes the one who calls swapoff the first victim when memory runs out on the way
/// (`set_current_oom_origin`, mm/swapfile.c): do not try what cannot work.
fn require_room(path: &Path) -> Result<()> {
    let Ok(areas) = table::active_areas() else {
        return Ok(());
    };
    let (this, others): (Vec<&SwapArea>, Vec<&SwapArea>) =
        areas.iter().partition(|area| area.path == path);
    let used: u64 = this.iter().map(|area| area.used_bytes).sum();
    let memory = counters::machine_memory().available_bytes;
    let elsewhere: u64 = others.iter().map(|area| area.free_bytes()).sum();
    match memory.map(|memory| memory.saturating_add(elsewhere)) {
        Some(available) if available < used => Err(Error::SwapStillNeeded {
            path: path.to_owned(),
            used,
            available,
        }),
        _ => Ok(()),
    }
}

fn is_listed(path: &Path) -> bool {
    // Without the list, nothing says that it is off.
    table::active_areas().map_or(true, |areas| areas.iter().any(|area| area.path == path))
}

fn priority_above(areas: &[SwapArea]) -> i32 {
    let highest = areas.iter().map(|area| area.priority).max().unwrap_or(0);
    highest.saturating_add(1).clamp(1, SWAP_FLAG_PRIO_MASK)
}

fn explain(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            "not permitted, or too many swap areas are active; run with sudo, and look at swapon --show"
        }
        Some(libc::EBUSY) => "it is in use; look at swapon --show and /proc/mounts",
        Some(libc::EINVAL) => {
            "its file system cannot hold swap (tmpfs, overlay, network, or btrfs with copy-on-write); \
             name a file on another: --swap file:/path, or use --swap zram"
        }
        Some(libc::ENOMEM) => "there is not enough memory to manage it; ask for less",
        _ => "it gave no usual reason; try another kind: --swap zram or --swap file:/path",
    }
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::Argument {
        text: path.display().to_string(),
        why: "it has a zero byte in it",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_priority(priority: i32) -> SwapArea {
        SwapArea {
            path: "/x".into(),
            kind: "file".into(),
            size_bytes: 1,
            used_bytes: 0,
            priority,
        }
    }

    #[test]
    fn new_swap_comes_before_all_others() {
        assert_eq!(priority_above(&[]), 1);
        assert_eq!(priority_above(&[with_priority(-2)]), 1);
        assert_eq!(priority_above(&[with_priority(5), with_priority(100)]), 101);
        assert_eq!(priority_above(&[with_priority(32767)]), 32767);
    }
}
