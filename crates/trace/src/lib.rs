//! The trace: what a recording observed, as tables in a folder.
//!
//! ```text
//! record:  rows --> *.arrows (a batch per flush) + journal (which batches are whole) + meta.json
//! close:   *.arrows --> *.parquet, then meta.json says "closed", then *.arrows and journal go
//! read:    meta.json says which of the two to read; the rows come out the same
//! ```
//!
//! The crash story: a flush first appends one batch to each table's stream and then, in one write,
//! the checksummed journal lines that make those batches count. A reader believes the journal and
//! nothing else: bytes behind the last whole line or batch are dropped and counted ([`Recovered`]),
//! so after a `kill -9` everything up to the last flush is there and no row is wrong. The close writes
//! each Parquet file under another name, waits for the disk, renames them all, and only then
//! replaces `meta.json`, which is the one step that turns a recording into a closed trace: a
//! crash before it leaves a recording with Parquet files to be ignored, a crash after it a closed
//! trace with streams to be ignored. A lock on the journal, which ends with the process, keeps
//! [`recover`] away from a live recorder.
//!
//! What this crate does not do: interpret the rows, or look names up.
//!
//! ```
//! use pagewise_trace::{Event, EventKind, Meta, Overwrite, Trace, TraceWriter};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let dir = folder.path().join("pagewise.data");
//! let mut writer = TraceWriter::create(&dir, Meta::default(), Overwrite::Refuse)?;
//! writer.events.push(Event {
//!     time_ns: 1_000,
//!     space: 0,
//!     tid: Some(42),
//!     kind: EventKind::SwapIn,
//!     address: 0x7f00_0000_1000,
//!     latency_ns: Some(5_800),
//!     stack: None,
//! })?;
//! writer.flush()?; // safe from a crash of this process from here on
//! writer.close()?;
//!
//! let trace = Trace::open(&dir)?;
//! for event in trace.events()? {
//!     assert_eq!(event?.latency_ns, Some(5_800));
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod ahead;
mod batches;
mod cell;
mod checksum;
mod close;
mod compact;
mod error;
mod files;
mod forks;
mod guard;
mod journal;
mod kind;
mod memory;
mod meta;
mod page_states;
mod parquet_pages;
mod parquet_read;
mod parquet_write;
mod pressure;
mod resume;
mod rows;
mod sampling;
mod shared_memory;
mod snapshot;
mod spots;
mod stream_read;
mod stream_write;
mod table;
mod tables;
mod thrift;
mod trace;
mod writer;

pub use batches::TableBatches;
pub use error::TraceError;
pub use files::Owner;
pub use forks::forked;
pub use forks::forked_from;
pub use meta::Checksums;
pub use meta::Clock;
pub use meta::Counter;
pub use meta::Exit;
pub use meta::FORMAT_VERSION;
pub use meta::Host;
pub use meta::HugePageCosts;
pub use meta::IN_PART;
pub use meta::Imported;
pub use meta::Limit;
pub use meta::META_FILE;
pub use meta::Meta;
pub use meta::Recovered;
pub use meta::Running;
pub use meta::Sampling;
pub use meta::State;
pub use meta::Swap;
pub use resume::recover;
pub use rows::Rows;
pub use sampling::estimated_bytes;
pub use shared_memory::SharedMemory;
pub use snapshot::Snapshot;
pub use spots::SPOT_PAGES;
pub use spots::Spots;
pub use stream_write::TableWriter;
pub use table::Row;
pub use tables::*;
pub use trace::Trace;
pub use writer::Overwrite;
pub use writer::TraceWriter;
pub use writer::check_way;
