//! Swap for one run: set up, and switched off again.

pub(crate) mod control;
mod file;
mod header;
mod request;
mod table;
pub(crate) mod zram;

pub use request::SwapRequest;
pub use table::SwapArea;
pub use table::active_areas;

use crate::error::Error;
use crate::error::Result;
use crate::restorer::Restorer;
use serde::Serialize;
use std::path::Path;
use std::path::PathBuf;

/// The swap a run has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum SwapKind {
    /// A zram device of ours.
    Zram {
        /// The device.
        device: PathBuf,
        /// Its compression algorithm.
        algorithm: String,
    },
    /// A file of ours.
    File {
        /// The file.
        path: PathBuf,
    },
    /// What was there already.
    Existing,
    /// Nothing was set up; there may be swap all the same.
    None,
}

/// Swap of a run. Its undoing is with the [`Restorer`] that was given when it was set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TemporarySwap {
    /// What it is.
    #[serde(flatten)]
    pub kind: SwapKind,
    /// Bytes free for the run at set-up, as the kernel counts them: with [`SwapKind::Existing`]
    /// possibly much less than asked for (or 0), `None` with [`SwapKind::None`].
    pub free_bytes: Option<u64>,
}

impl TemporarySwap {
    /// Sets up swap with room for `bytes` (rounded up to pages). `auto` takes existing swap if enough
    /// of it is free, else zram, else a file in `/var/tmp`. New swap gets a higher priority than what
    /// is there, so that it is used first.
    ///
    /// # Errors
    /// Of the kinds that start with "Swap" and "Zram" and the like, each with what to type. Nothing
    /// is left behind then.
    pub fn set_up(request: &SwapRequest, bytes: u64, restorer: &mut Restorer) -> Result<Self> {
        match request {
            SwapRequest::None => Ok(TemporarySwap {
                kind: SwapKind::None,
                free_bytes: None,
            }),
            SwapRequest::Existing => existing(),
            SwapRequest::Zram { algorithm } => new_zram(algorithm.as_deref(), bytes, restorer),
            SwapRequest::File { path } => new_file(path.as_deref(), bytes, restorer),
            SwapRequest::Auto => match existing() {
                Ok(swap) if swap.free_bytes >= Some(bytes) => Ok(swap),
                _ => new_zram(None, bytes, restorer)
                    .or_else(|zram| file_instead(bytes, restorer, &zram)),
            },
        }
    }
}

impl TemporarySwap {
    /// With the room the kernel found there: a file whose parts lie badly aligned on its disk holds a
    /// little less than it is long.
    fn of(kind: SwapKind) -> Result<Self> {
        let path = match &kind {
            SwapKind::Zram { device, .. } => device,
            SwapKind::File { path } => path,
            SwapKind::Existing | SwapKind::None => {
                return Ok(TemporarySwap {
                    kind,
                    free_bytes: None,
                });
            }
        };
        let areas = active_areas()?;
        let free_bytes = areas
            .iter()
            .find(|area| &area.path == path)
            .map(SwapArea::free_bytes);
        Ok(TemporarySwap { kind, free_bytes })
    }
}

fn existing() -> Result<TemporarySwap> {
    let areas = active_areas()?;
    if areas.is_empty() {
        return Err(Error::NoExistingSwap);
    }
    let free = areas.iter().map(SwapArea::free_bytes).sum();
    Ok(TemporarySwap {
        kind: SwapKind::Existing,
        free_bytes: Some(free),
    })
}

fn new_zram(algorithm: Option<&str>, bytes: u64, restorer: &mut Restorer) -> Result<TemporarySwap> {
    let kind = undone_on_failure(restorer, |restorer| {
        let layout = header::Layout::for_bytes(bytes, crate::page_bytes())?;
        zram::set_up(algorithm, &layout, restorer)
    })?;
    TemporarySwap::of(kind)
}

fn new_file(path: Option<&Path>, bytes: u64, restorer: &mut Restorer) -> Result<TemporarySwap> {
    let kind = undone_on_failure(restorer, |restorer| {
        let layout = header::Layout::for_bytes(bytes, crate::page_bytes())?;
        file::set_up(path, &layout, restorer)
    })?;
    TemporarySwap::of(kind)
}

fn file_instead(bytes: u64, restorer: &mut Restorer, zram: &Error) -> Result<TemporarySwap> {
    new_file(None, bytes, restorer).map_err(|file| match file {
        // Both for the same reason, which says it all.
        Error::SwapNotPermitted | Error::SwapTooSmall { .. } => file,
        file => Error::NoSwapPossible {
            zram: zram.chain(),
            source: Box::new(file),
        },
    })
}

fn undone_on_failure<T>(
    restorer: &mut Restorer,
    set_up: impl FnOnce(&mut Restorer) -> Result<T>,
) -> Result<T> {
    control::require_permission()?;
    let mark = restorer.mark();
    let done = set_up(restorer);
    if done.is_err() {
        restorer.undo_to(mark);
    }
    done
}
