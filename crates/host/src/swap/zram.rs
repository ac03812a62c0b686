//! A zram device as swap (Documentation/admin-guide/blockdev/zram.rst).

use super::SwapKind;
use super::control;
use super::header;
use super::header::Layout;
use crate::error::Error;
use crate::error::Result;
use crate::files;
use crate::journal::UndoAction;
use crate::restorer::Restorer;
use crate::restorer::Ticket;
use rustix::fs::FlockOperation;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

const HOT_ADD: &str = "/sys/class/zram-control/hot_add";
const HOT_REMOVE: &str = "/sys/class/zram-control/hot_remove";
/// udev opens a device for a moment whenever it changes, which keeps it from being reset.
const RESET_ATTEMPTS: u32 = 40;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// A device that nobody uses, locked against other runs of this program (and udev, which honours the
/// same lock) until dropped.
struct Claimed {
    number: u32,
    /// The promise to remove it, if it was added.
    hot_added: Option<Ticket>,
    _lock: File,
}

/// Numbers of all zram devices.
pub(crate) fn devices() -> Vec<u32> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut numbers: Vec<u32> = names
        .filter_map(|name| name.strip_prefix("zram")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Whether devices can be added.
pub(crate) fn can_add() -> bool {
    Path::new(HOT_ADD).exists()
}

/// The size a device was given; 0 means that nobody uses it.
pub(crate) fn disksize(number: u32) -> Option<u64> {
    files::read_number(&attribute(number, "disksize"))
}

/// Sets a device up and switches it on.
pub(super) fn set_up(
    algorithm: Option<&str>,
    layout: &Layout,
    restorer: &mut Restorer,
) -> Result<SwapKind> {
    let claimed = claim(restorer)?;
    let number = claimed.number;
    let offered = files::read(&attribute(number, "comp_algorithm"))?;
    let before = files::chosen(&offered).to_owned();
    let disksize = layout.total_bytes();
    let _ = restorer.push(UndoAction::ResetZram {
        number,
        disksize,
        algorithm: before.clone(),
        hot_added: claimed.hot_added.is_some(),
    })?;
    if let Some(ticket) = claimed.hot_added {
        // The new promise says more; both would be one removal too many.
        restorer.forget(ticket);
    }
    if let Some(name) = algorithm {
        choose_algorithm(number, name, &offered)?;
    }
    files::write(&attribute(number, "disksize"), &disksize.to_string()).map_err(busy(number))?;
    let device = node(number);
    write_header(&device, layout)?;
    control::swap_on(&device, restorer)?;
    let algorithm = algorithm.map_or(before, str::to_owned);
    Ok(SwapKind::Zram { device, algorithm })
}

/// Empties a device, gives it its algorithm back, and removes it if it was added. Not being there, or
/// not being of our size, is success: then it is not ours.
pub(crate) fn reset(number: u32, ours: u64, algorithm: &str, hot_added: bool) -> Result<()> {
    match disksize(number) {
        Some(0) => {}
        Some(size) if size == ours => {
            while_busy(|| files::write(&attribute(number, "reset"), "1"))?;
        }
        _ => return Ok(()),
    }
    if hot_added {
        return while_busy(|| files::write(Path::new(HOT_REMOVE), &number.to_string()));
    }
    let setting = attribute(number, "comp_algorithm");
    match files::read_optional(&setting) {
        Some(now) if files::chosen(&now) != algorithm => files::write(&setting, algorithm),
        _ => Ok(()),
    }
}

fn while_busy(mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    for _ in 1..RESET_ATTEMPTS {
        match attempt() {
            Err(error) if error.is_transient() => thread::sleep(BETWEEN_ATTEMPTS),
            other => return other,
        }
    }
    attempt()
}

fn claim(restorer: &mut Restorer) -> Result<Claimed> {
    let unused = devices()
        .into_iter()
        .filter(|number| disksize(*number) == Some(0));
    for number in unused {
        if let Some(lock) = lock(number) {
            return Ok(Claimed {
                number,
                hot_added: None,
                _lock: lock,
            });
        }
    }
    if !can_add() {
        return Err(Error::NoZram);
    }
    // Reading adds the device, so its number can be told to the keeper only afterwards. A kill in
    // between leaves an empty device, which takes no memory.
    let text = files::read(Path::new(HOT_ADD))?;
    let number = text.parse().map_err(|_| Error::Form {
        path: HOT_ADD.into(),
        expected: "the number of a device",
    })?;
    let algorithm = String::new();
    let removal = UndoAction::ResetZram {
        number,
        disksize: 0,
        algorithm,
        hot_added: true,
    };
    let ticket = restorer.push(removal)?;
    let device = node(number);
    let lock = lock(number).ok_or(Error::ZramBusy { device })?;
    Ok(Claimed {
        number,
        hot_added: Some(ticket),
        _lock: lock,
    })
}

fn lock(number: u32) -> Option<File> {
    let file = File::open(node(number)).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    // Someone may have taken it before we had the lock.
    (disksize(number) == Some(0)).then_some(file)
}

fn choose_algorithm(number: u32, name: &str, offered: &str) -> Result<()> {
    let known: Vec<String> = offered
        .split_ascii_whitespace()
        .map(|word| word.trim_matches(['[', ']']).to_owned())
        .collect();
    if !known.iter().any(|other| other == name) {
        return Err(Error::UnknownAlgorithm {
            name: name.to_owned(),
            known,
        });
    }
    files::write(&attribute(number, "comp_algorithm"), name).map_err(busy(number))
}

fn write_header(device: &Path, layout: &Layout) -> Result<()> {
    let header = layout.header(header::random_uuid()?);
    OpenOptions::new()
        .write(true)
        .open(device)
        .and_then(|file| file.write_all_at(&header, 0).and_then(|()| file.sync_all()))
        .map_err(|source| Error::file("write", device, source))
}

/// The kernel says "busy" of a device that has a size already.
fn busy(number: u32) -> impl FnOnce(Error) -> Error {
    move |error| match &error {
        Error::File { source, .. } if source.raw_os_error() == Some(libc::EBUSY) => {
            Error::ZramBusy {
                device: node(number),
            }
        }
        _ => error,
    }
}

fn attribute(number: u32, name: &str) -> PathBuf {
    format!("/sys/block/zram{number}/{name}").into()
}

/// The device's path.
pub(crate) fn node(number: u32) -> PathBuf {
    format!("/dev/zram{number}").into()
}
