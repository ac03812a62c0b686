//! Writing a trace: rows while recording, flushes, and the close.

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::close;
use crate::error::Result;
use crate::error::TraceError;
use crate::files;
use crate::files::Owner;
use crate::journal;
use crate::journal::Journal;
use crate::journal::Segment;
use crate::journal::Segments;
use crate::meta::Meta;
use crate::meta::State;
use crate::parquet_write::Finished;
use crate::resume;
use crate::snapshot::Forgotten;
use crate::stream_write::TableWriter;
use crate::table::Row;
use crate::tables::*;

/// What to do if the folder to write exists. An empty folder is always used as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Fail with [`TraceError::Exists`].
    Refuse,
    /// Remove the trace in it.
    Replace,
    /// Rename it to `NAME.old`, and remove the trace that had that name.
    KeepOld,
}

macro_rules! trace_writer {
    ($( $field:ident: $row:ident, )*) => {
        /// A trace that is being recorded.
        ///
        /// Dropping it without [`close`](TraceWriter::close) leaves what a crash would: a trace that
        /// is readable up to the last [`flush`](TraceWriter::flush), and can be
        /// [resumed](TraceWriter::resume) or [recovered](crate::recover).
        #[derive(Debug)]
        pub struct TraceWriter {
            $(
                #[doc = concat!("The table `", stringify!($field), "`.")]
                pub $field: TableWriter<$row>,
            )*
            pub(crate) log: Log,
        }

        impl TraceWriter {
            pub(crate) fn with_tables(mut log: Log, tables: &mut impl Tables) -> Result<TraceWriter> {
                Ok(TraceWriter {
                    $( $field: tables.table::<$row>(&mut log)?, )*
                    log,
                })
            }

            /// Writes what waits in all tables, and then makes all of it count at once.
            ///
            /// It survives the death of this process, but not a power failure: nothing waits for
            /// the disk until the close.
            ///
            /// # Errors
            ///
            /// [`TraceError::DiskFull`] or [`TraceError::Io`]; what earlier calls wrote stays readable.
            pub fn flush(&mut self) -> Result<()> {
                $( self.log.add::<$row>(self.$field.write_out()?); )*
                match &mut self.log.journal {
                    Some(journal) => journal.commit(),
                    None => Ok(()),
                }
            }

            /// After a failure: a flush of what can be written. What cannot is lost.
            ///
            /// # Errors
            ///
            /// As [`flush`](TraceWriter::flush).
            pub fn salvage(&mut self) -> Result<()> {
                $( let written = self.$field.write_what_fits();
                self.log.add::<$row>(written); )*
                match &mut self.log.journal {
                    Some(journal) => journal.commit(),
                    None => Ok(()),
                }
            }

            /// Bytes that the tables take on disk so far, while they are streams.
            pub fn bytes_on_disk(&self) -> u64 {
                let mut bytes = 0;
                $( bytes += self.$field.bytes_on_disk(); )*
                bytes
            }

            /// Tells all parts of the folder's new name.
            fn moved_to(&mut self, dir: &Path) {
                $( self.$field.moved_to(dir); )*
                if let Some(journal) = &mut self.log.journal {
                    journal.moved_to(dir);
                }
                self.log.dir = dir.to_owned();
            }

            fn convert_all(&self) -> Result<Vec<(&'static str, Finished)>> {
                Ok(vec![$( ($row::TABLE, self.log.convert::<$row>()?) ),*])
            }
        }
    };
}
with_all_tables!(trace_writer);

/// Where the tables of a new or resumed trace come from.
pub(crate) trait Tables {
    fn table<T: Row>(&mut self, log: &mut Log) -> Result<TableWriter<T>>;
}

struct NewTables;

impl Tables for NewTables {
    fn table<T: Row>(&mut self, log: &mut Log) -> Result<TableWriter<T>> {
        TableWriter::create(&log.dir, log.owner)
    }
}

/// All of a trace but its tables.
pub(crate) struct Log {
    pub(crate) dir: PathBuf,
    pub(crate) owner: Option<Owner>,
    pub(crate) meta: Meta,
    /// `None`: the trace is kept in memory.
    pub(crate) journal: Option<Journal>,
    pub(crate) segments: Segments,
    /// Where the trace is to be in the end, while it is not there yet.
    pub(crate) aside: Option<Aside>,
    pub(crate) forgotten: Forgotten,
}

pub(crate) struct Aside {
    destination: PathBuf,
    overwrite: Overwrite,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.dir.fmt(f)
    }
}

impl Log {
    fn add<T: Row>(&mut self, segments: Vec<Segment>) {
        if let Some(journal) = &mut self.journal {
            for &segment in &segments {
                journal.add(T::TABLE, segment);
            }
        }
        let all = self.segments.entry(T::TABLE.to_owned()).or_default();
        all.extend(segments);
    }

    fn convert<T: Row>(&self) -> Result<Finished> {
        let segments = self.segments.get(T::TABLE).map_or(&[][..], Vec::as_slice);
        close::convert::<T>(&self.dir, self.owner, segments)
    }
}

impl TraceWriter {
    /// Begins a trace in the folder `dir`, whose parent must exist.
    ///
    /// `schema`, `version` and `state` of `meta` are set here, as is an empty `pagewise_version`.
    ///
    /// # Errors
    ///
    /// [`TraceError::Exists`]; [`TraceError::NotATrace`] if anything but a trace would be
    /// overwritten; [`TraceError::InUse`] if what would be overwritten is still being recorded;
    /// [`TraceError::DiskFull`] and [`TraceError::Io`].
    pub fn create(dir: &Path, meta: Meta, overwrite: Overwrite) -> Result<TraceWriter> {
        let mut writer = TraceWriter::prepare(dir, meta, overwrite)?;
        writer.settle()?;
        Ok(writer)
    }

    /// As [`create`](TraceWriter::create), but what is in the way stays until [`settle`](TraceWriter::settle): until
    /// then the trace is in a folder beside it, `NAME.PID.new`. An empty folder is used as it is.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn prepare(dir: &Path, meta: Meta, overwrite: Overwrite) -> Result<TraceWriter> {
        if dir.is_dir() && !is_in_the_way(dir)? {
            return TraceWriter::begin(dir, meta, None);
        }
        check_way(dir, overwrite)?;
        let beside = with_suffix(dir, &format!(".{}.new", std::process::id()));
        if is_in_the_way(&beside)? {
            remove(&beside)?;
        }
        match fs::create_dir(&beside) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(TraceError::io(dir, source));
            }
            _ => {}
        }
        let aside = Aside {
            destination: dir.to_owned(),
            overwrite,
        };
        TraceWriter::begin(&beside, meta, Some(aside)).inspect_err(|_| {
            // Best effort: the error that matters is the first.
            let _ = files::remove_trace(&beside);
        })
    }

    /// Puts a [prepared](TraceWriter::prepare) trace where it belongs. A second call does nothing.
    ///
    /// # Errors
    ///
    /// Those of [`prepare`](TraceWriter::prepare), if something came into the way since.
    pub fn settle(&mut self) -> Result<()> {
        let Some(Aside {
            destination,
            overwrite,
        }) = &self.log.aside
        else {
            return Ok(());
        };
        make_way(destination, *overwrite)?;
        if is_in_the_way(destination)? {
            // Somebody's own files lie beside the trace that was removed: they stay.
            files::move_trace(&self.log.dir, destination)?;
        } else {
            files::rename(&self.log.dir, destination)?;
        }
        let destination = destination.clone();
        self.log.aside = None;
        self.moved_to(&destination);
        Ok(())
    }

    /// Removes a [prepared](TraceWriter::prepare) trace: what was in the way stays as it was.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`].
    pub fn abandon(self) -> Result<()> {
        if self.log.journal.is_none() {
            return Ok(()); // in memory
        }
        let (dir, in_place) = (self.log.dir.clone(), self.log.aside.is_none());
        drop(self);
        files::remove_trace(&dir)?;
        if in_place {
            // It was there before, empty.
            fs::create_dir(&dir).map_err(|source| TraceError::io(&dir, source))?;
        }
        Ok(())
    }

    fn begin(dir: &Path, mut meta: Meta, aside: Option<Aside>) -> Result<TraceWriter> {
        if meta.pagewise_version.is_empty() {
            meta.pagewise_version = env!("CARGO_PKG_VERSION").to_owned();
        }
        meta.state = State::Recording;
        meta.write(dir, None)?;
        let log = Log {
            dir: dir.to_owned(),
            owner: None,
            meta,
            journal: Some(Journal::create(dir, None)?),
            segments: Segments::new(),
            aside,
            forgotten: Forgotten::default(),
        };
        let mut writer = TraceWriter::with_tables(log, &mut NewTables)?;
        // So that the streams can be opened by other tools from the start.
        writer.flush()?;
        Ok(writer)
    }

    /// Goes on with a trace whose recorder died, to add late tables before its close.
    ///
    /// Reads all streams once to check them; what is not whole is cut off and counted in
    /// [`Meta::recovered`]. `None`: the trace is closed already; leftovers of its close are removed.
    ///
    /// # Errors
    ///
    /// Those of [`Trace::open`](crate::Trace::open) but [`TraceError::Empty`] for a recording without
    /// rows, and [`TraceError::InUse`] if the recorder lives.
    pub fn resume(dir: &Path) -> Result<Option<TraceWriter>> {
        let meta = Meta::read(dir)?;
        if meta.state == State::Closed {
            close::remove_leftovers(dir)?;
            return Ok(None);
        }
        let (log, mut tables) = resume::begin(dir, meta)?;
        let mut writer = TraceWriter::with_tables(log, &mut tables)?;
        writer.flush()?;
        writer.log.meta.recovered = Some(tables.into_recovered());
        Ok(Some(writer))
    }

    /// Gives the trace, and all files still to be made in it, to a user and group.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`], for example without the right to do so.
    pub fn set_owner(&mut self, owner: Owner) -> Result<()> {
        self.log.owner = Some(owner);
        if self.log.journal.is_none() {
            return Ok(());
        }
        files::give_to(&self.log.dir, owner)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.log.dir
    }

    /// The meta data as last written.
    pub fn meta(&self) -> &Meta {
        &self.log.meta
    }

    /// Changes the meta data and rewrites its file in one step.
    ///
    /// # Errors
    ///
    /// [`TraceError::DiskFull`] and [`TraceError::Io`]; the file then has its former content.
    pub fn update_meta(&mut self, change: impl FnOnce(&mut Meta)) -> Result<()> {
        let log = &mut self.log;
        change(&mut log.meta);
        log.meta.state = State::Recording;
        if log.journal.is_none() {
            return Ok(());
        }
        log.meta.write(&log.dir, log.owner)
    }

    /// Flushes, writes the Parquet files, and removes the streams. Returns the final meta data.
    ///
    /// # Errors
    ///
    /// [`TraceError::DiskFull`] and [`TraceError::Io`] above all; the trace then stays as after the
    /// last flush, and [`recover`](crate::recover) closes it once the cause is gone.
    pub fn close(mut self) -> Result<Meta> {
        self.flush()?;
        let finished = match self.convert_all() {
            Ok(finished) => finished,
            Err(error) => {
                // Best effort, to give back the space; the error that matters is the first.
                let _ = close::remove_unfinished(&self.log.dir);
                return Err(error);
            }
        };
        let log = &mut self.log;
        close::put_in_place(finished.iter().map(|(_, file)| file))?;
        files::sync_folder(&log.dir)?;
        for (table, file) in finished {
            log.meta.row_counts.insert(table.to_owned(), file.rows);
            log.meta.checksums.insert(table.to_owned(), file.checksums);
        }
        log.meta.state = State::Closed;
        log.meta.write(&log.dir, log.owner)?;
        close::remove_leftovers(&log.dir)?;
        Ok(self.log.meta)
    }
}

/// Removes or renames what is in the way at `dir`, if that is allowed.
fn make_way(dir: &Path, overwrite: Overwrite) -> Result<()> {
    check_way(dir, overwrite)?;
    if !is_in_the_way(dir)? {
        return Ok(());
    }
    if overwrite == Overwrite::Replace {
        return files::remove_trace(dir);
    }
    let old = old_name(dir);
    if is_in_the_way(&old)? {
        files::remove_trace(&old)?;
    }
    files::rename(dir, &old)
}

/// Whether a trace could be begun there, as far as what is in the way goes; changes nothing.
///
/// # Errors
///
/// As [`TraceWriter::create`].
pub fn check_way(dir: &Path, overwrite: Overwrite) -> Result<()> {
    if !is_in_the_way(dir)? {
        return Ok(());
    }
    if overwrite == Overwrite::Refuse {
        return Err(TraceError::Exists {
            path: dir.to_owned(),
        });
    }
    check_replaceable(dir)?;
    let old = old_name(dir);
    if overwrite == Overwrite::KeepOld && is_in_the_way(&old)? {
        check_replaceable(&old)?;
    }
    Ok(())
}

fn old_name(dir: &Path) -> PathBuf {
    with_suffix(dir, ".old")
}

/// `NAMEsuffix`, also where `dir` ends with a slash.
fn with_suffix(dir: &Path, suffix: &str) -> PathBuf {
    let mut name = dir.components().as_path().as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn is_in_the_way(dir: &Path) -> Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(true),
        Err(source) => Err(TraceError::io(dir, source)),
    }
}

fn remove(dir: &Path) -> Result<()> {
    check_replaceable(dir)?;
    files::remove_trace(dir)
}

/// Whatever is not a trace, or is still being recorded, must not be removed.
fn check_replaceable(dir: &Path) -> Result<()> {
    // Any other error: damaged or newer, but a trace.
    if let Err(error @ TraceError::NotATrace { .. }) = Meta::read(dir) {
        return Err(error);
    }
    journal::check_unused(dir)
}
