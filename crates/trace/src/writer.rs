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
            log: Log,
        }

        impl TraceWriter {
            fn with_tables(mut log: Log, tables: &mut impl Tables) -> Result<TraceWriter> {
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
                self.log.journal.commit()
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
    pub(crate) journal: Journal,
    pub(crate) segments: Segments,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.dir.fmt(f)
    }
}

impl Log {
    fn add<T: Row>(&mut self, segments: Vec<Segment>) {
        for &segment in &segments {
            self.journal.add(T::TABLE, segment);
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
    pub fn create(dir: &Path, mut meta: Meta, overwrite: Overwrite) -> Result<TraceWriter> {
        make_way(dir, overwrite)?;
        match fs::create_dir(dir) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(TraceError::io(dir, source));
            }
            _ => {}
        }
        if meta.pagewise_version.is_empty() {
            meta.pagewise_version = env!("CARGO_PKG_VERSION").to_owned();
        }
        meta.state = State::Recording;
        meta.write(dir, None)?;
        let log = Log {
            dir: dir.to_owned(),
            owner: None,
            meta,
            journal: Journal::create(dir, None)?,
            segments: Segments::new(),
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
    if !is_in_the_way(dir)? {
        return Ok(());
    }
    match overwrite {
        Overwrite::Refuse => {
            return Err(TraceError::Exists {
                path: dir.to_owned(),
            });
        }
        Overwrite::Replace => remove(dir)?,
        Overwrite::KeepOld => {
            check_replaceable(dir)?;
            let old = old_name(dir);
            if is_in_the_way(&old)? {
                remove(&old)?;
            }
            files::rename(dir, &old)?;
        }
    }
    Ok(())
}

/// `NAME.old`, also where `dir` ends with a slash.
fn old_name(dir: &Path) -> PathBuf {
    let mut name = dir.components().as_path().as_os_str().to_owned();
    name.push(".old");
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
