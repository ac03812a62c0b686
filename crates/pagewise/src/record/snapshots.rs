//! `--snapshot`: the last while is kept in memory; SIGUSR1 writes it, and so does the end.

use std::path::Path;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use pagewise_analyze::names;
use pagewise_host::page_bytes;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Snapshot;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

use super::facts;
use super::facts::Clocks;
use crate::cli::RecordArguments;
use crate::failure::Failure;
use crate::output::tell;

const DEFAULT_BYTES: u64 = 64 << 20;
/// Less holds no second of a storm.
const FEWEST_BYTES: u64 = 1 << 20;

/// `--max-size`, in bytes.
pub(super) fn max_bytes(arguments: &RecordArguments) -> Result<Option<u64>, Failure> {
    let Some(size) = arguments.window.max_size else {
        return Ok(None);
    };
    let bytes = size.resolve(None, page_bytes())?;
    if bytes < FEWEST_BYTES {
        return Err(Failure::new(format!(
            "--max-size {size} is too small to record anything: give at least 1M"
        )));
    }
    Ok(Some(bytes))
}

pub(super) struct Snapshots {
    span: Duration,
    max_bytes: u64,
    folder: PathBuf,
    overwrite: Overwrite,
    /// Names take a while: they are found beside the recording.
    writing: Option<JoinHandle<Result<PathBuf, TraceError>>>,
}

impl Snapshots {
    /// `None`: not asked for. Fails if the folder could not be written at the end.
    pub(super) fn new(
        arguments: &RecordArguments,
        folder: &Path,
        overwrite: Overwrite,
    ) -> Result<Option<Self>, Failure> {
        let Some(span) = arguments.window.snapshot else {
            return Ok(None);
        };
        TraceWriter::prepare(folder, Meta::default(), overwrite)?.abandon()?;
        Ok(Some(Self {
            span: span.0,
            max_bytes: max_bytes(arguments)?.unwrap_or(DEFAULT_BYTES),
            folder: folder.to_owned(),
            overwrite,
            writing: None,
        }))
    }

    /// Once a second: lets go of what is too old or too much.
    pub(super) fn forget(&self, writer: &mut TraceWriter) -> Result<(), Failure> {
        let span = u64::try_from(self.span.as_nanos()).unwrap_or(u64::MAX);
        let before_ns = Clocks::now().monotonic_ns.saturating_sub(span);
        Ok(writer.forget(before_ns, self.max_bytes)?)
    }

    /// Whether one is being written.
    pub(super) fn is_busy(&mut self) -> bool {
        if self.writing.as_ref().is_some_and(JoinHandle::is_finished) {
            self.join();
        }
        self.writing.is_some()
    }

    /// Begins to write one, to a folder of its own.
    pub(super) fn write(&mut self, snapshot: Snapshot) {
        let base = dated(&self.folder, Clocks::now().realtime_ns);
        let writing = std::thread::Builder::new().spawn(move || write(snapshot, &base));
        match writing {
            Ok(thread) => self.writing = Some(thread),
            // A limit of processes; the recording goes on.
            Err(error) => {
                tell!("pagewise: no snapshot: no thread can be started to write it: {error}");
            }
        }
    }

    fn join(&mut self) {
        let Some(thread) = self.writing.take() else {
            return;
        };
        match thread.join() {
            Ok(Ok(folder)) => {
                let folder = folder.display();
                tell!(
                    "pagewise: snapshot written to {folder}; see it with: pagewise report {folder}"
                );
            }
            Ok(Err(error)) => tell!("pagewise: no snapshot: {}", Failure::from(error)),
            Err(_) => tell!("pagewise: no snapshot: writing it failed"),
        }
    }

    /// At the end: what is left in memory goes to the recording's own folder.
    pub(super) fn finish(mut self, writer: &mut TraceWriter) -> Result<TraceWriter, Failure> {
        self.join();
        let snapshot = writer.snapshot()?;
        Ok(snapshot.write(&self.folder, self.overwrite, facts::sudo_caller())?)
    }
}

fn write(snapshot: Snapshot, base: &Path) -> Result<PathBuf, TraceError> {
    let mut folder = base.to_owned();
    for number in 1.. {
        if folder.symlink_metadata().is_err() {
            break;
        }
        folder = with_suffix(base, &format!("-{number}"));
    }
    let mut writer = snapshot.write(&folder, Overwrite::Refuse, facts::sudo_caller())?;
    names::add_names(&mut writer)?;
    writer.close()?;
    Ok(folder)
}

/// `NAME.YYYYMMDD-HHMMSS`, in UTC.
fn dated(folder: &Path, realtime_ns: u64) -> PathBuf {
    let seconds = realtime_ns / 1_000_000_000;
    let (year, month, day) = date(seconds / 86_400);
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    with_suffix(
        folder,
        &format!(".{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}"),
    )
}

fn with_suffix(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = folder.components().as_path().as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Of a day since 1970, in the Gregorian calendar.
fn date(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_bear_the_date() {
        for (seconds, expected) in [
            (0, "p.19700101-000000"),
            (951_782_399, "p.20000228-235959"),
            (951_782_400, "p.20000229-000000"),
            (1_772_323_199, "p.20260228-235959"),
            (1_772_323_200, "p.20260301-000000"),
            (1_798_761_599, "p.20261231-235959"),
        ] {
            let found = dated(Path::new("p/"), seconds * 1_000_000_000);
            assert_eq!(found, PathBuf::from(expected));
        }
    }
}
