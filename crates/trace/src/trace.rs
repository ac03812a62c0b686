//! Reading a trace, closed or not.

use std::path::Path;
use std::path::PathBuf;

use crate::checksum::CheckedFile;
use crate::error::Result;
use crate::error::TraceError;
use crate::files;
use crate::journal;
use crate::journal::Segments;
use crate::meta::Meta;
use crate::meta::Recovered;
use crate::meta::State;
use crate::parquet_read::ParquetBatches;
use crate::rows::Batches;
use crate::rows::Rows;
use crate::stream_read;
use crate::stream_read::StreamBatches;
use crate::table::Row;
use crate::table::last_of_each;
use crate::tables::*;

/// Far more than a recording has in any of the tables that are read whole.
const MOST_ROWS_IN_MEMORY: usize = 1 << 24;

/// A trace opened for reading.
///
/// A recording that is still going on is read as of its last flush before the opening.
#[derive(Debug)]
pub struct Trace {
    dir: PathBuf,
    meta: Meta,
    // Of a trace that is not closed.
    segments: Segments,
    in_progress: bool,
}

impl Trace {
    /// Opens the trace in the folder `dir`; reads no table yet.
    ///
    /// # Errors
    ///
    /// [`TraceError::NotFound`], [`TraceError::NotATrace`], [`TraceError::Empty`] (nothing was
    /// recorded before the recorder died, or a file has no bytes), [`TraceError::Truncated`],
    /// [`TraceError::Corrupt`], [`TraceError::NewerVersion`], [`TraceError::Io`].
    pub fn open(dir: &Path) -> Result<Trace> {
        let trace = Trace {
            dir: dir.to_owned(),
            meta: Meta::read(dir)?,
            segments: Segments::new(),
            in_progress: false,
        };
        match trace.meta.state {
            State::Closed => trace.check_lengths(),
            State::Recording => trace.find_segments(),
        }
    }

    /// Finds cut files now rather than in the middle of an analysis.
    fn check_lengths(self) -> Result<Trace> {
        for table in TABLE_NAMES {
            let path = files::parquet_path(&self.dir, table);
            if path.exists() {
                CheckedFile::open(&path, self.meta.checksums.get(*table))?;
            }
        }
        Ok(self)
    }

    fn find_segments(mut self) -> Result<Trace> {
        let (journalled, in_progress) = journal::read(&self.dir)?;
        self.in_progress = in_progress;
        let mut recovered = Recovered::default();
        let mut rows: u64 = 0;
        for table in TABLE_NAMES {
            let of_table = journalled.get(*table).map_or(&[][..], Vec::as_slice);
            let whole = stream_read::by_length(&self.dir, table, of_table)?;
            recovered.drop_bytes(table, whole.dropped_bytes);
            rows = rows.saturating_add(whole.rows());
            self.segments.insert((*table).to_owned(), whole.segments);
        }
        if rows == 0 {
            return Err(TraceError::Empty { path: self.dir });
        }
        if !in_progress {
            self.meta.recovered = Some(recovered);
        }
        Ok(self)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What was recorded, where, when.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(crate) fn into_meta(self) -> Meta {
        self.meta
    }

    /// Whether a live recorder is still writing the trace.
    pub fn in_progress(&self) -> bool {
        self.in_progress
    }

    /// What was lost because the recorder died; `None` if it did not (yet).
    pub fn recovered(&self) -> Option<&Recovered> {
        self.meta.recovered.as_ref()
    }

    /// Streams any table; of a table with a key ([`Space`]) every row that was pushed.
    ///
    /// # Errors
    ///
    /// As for [`Trace::open`]; damage further on comes as an item of the iterator.
    pub fn rows<T: Row>(&self) -> Result<Rows<T>> {
        Ok(Rows::new(&self.dir, self.batches_of::<T>()?))
    }

    pub(crate) fn batches_of<T: Row>(&self) -> Result<Batches> {
        match self.meta.state {
            State::Closed => Ok(match ParquetBatches::open::<T>(&self.dir, &self.meta)? {
                Some(batches) => Batches::Parquet(Box::new(batches)),
                None => Batches::None,
            }),
            State::Recording => self.stream(T::TABLE),
        }
    }

    fn stream(&self, table: &str) -> Result<Batches> {
        match self.segments.get(table) {
            Some(segments) if !segments.is_empty() => {
                StreamBatches::open(&self.dir, table, segments.clone()).map(Batches::Stream)
            }
            _ => Ok(Batches::None),
        }
    }

    fn all<T: Row>(&self) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        for row in self.rows()? {
            rows.push(row?);
            if rows.len() > MOST_ROWS_IN_MEMORY {
                let path = files::parquet_path(&self.dir, T::TABLE);
                let detail = format!("it has more than {MOST_ROWS_IN_MEMORY} rows");
                return Err(TraceError::corrupt(&path, detail));
            }
        }
        Ok(match T::KEY {
            Some(key) => last_of_each(rows, key),
            None => rows,
        })
    }
}

macro_rules! streamed {
    ($( $name:ident: $row:ident, )*) => {
        /// Tables that may be large: one batch is in memory at a time. Errors are those of
        /// [`Trace::rows`].
        impl Trace {$(
            #[doc = concat!("Streams the table `", stringify!($name), "`.")]
            pub fn $name(&self) -> Result<Rows<$row>> {
                self.rows()
            }
        )*}
    };
}
streamed! {
    events: Event,
    allocations: Allocation,
    releases: Release,
    region_accesses: RegionAccess,
    stalls: Stall,
    run_delays: RunDelay,
    accesses: Access,
    glances: Glance,
    spot_looks: SpotLook,
    spot_glances: SpotGlance,
    write_looks: WriteLook,
    residency: Residency,
    residency_scans: ResidencyScan,
    thread_faults: ThreadFaults,
    headway: Headway,
    given_names: GivenName,
    io_calls: IoCall,
    io_cache: IoCache,
    io_sums: IoSum,
}

macro_rules! whole {
    ($( $name:ident: $row:ident, )*) => {
        /// Tables that fit into memory. Errors are those of [`Trace::rows`], for the first damage
        /// anywhere in the table.
        impl Trace {$(
            #[doc = concat!("Reads the table `", stringify!($name), "`.")]
            pub fn $name(&self) -> Result<Vec<$row>> {
                self.all()
            }
        )*}
    };
}
whole! {
    spaces: Space,
    moves: Move,
    mappings: Mapping,
    stacks: StackFrame,
    frames: Frame,
    sites: Site,
    globals: Global,
    samples: Sample,
    pressure: Pressure,
    event_counts: EventCount,
    stall_counts: StallCount,
    io_files: IoFile,
}
