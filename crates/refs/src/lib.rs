//! Streaming decoders of page-reference traces: Pagewise's own recordings and other tools' files.
//!
//! ```text
//! file -> (gzip, zstd, xz: a thread of their own) -> blocks of whole lines or records -> runs of pages -> numbers
//! ```
//!
//! Formats and compression are recognized by content. Pages are numbered in order of first appearance, so that
//! simulators index arrays. Memory grows with the number of distinct pages only.
//!
//! ```
//! use pagewise_refs::{Options, Reader};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("blocks.lis");
//! std::fs::write(&path, "4711 2 0 0\n12 1 0 1\n4711 1 0 2\n")?;
//! let mut reader = Reader::open(&path, &Options::default())?;
//! let pages: Vec<u32> = reader.read_all()?.iter().map(|reference| reference.page()).collect();
//! assert_eq!(pages, [0, 1, 2, 0]);
//! assert_eq!((reader.format().as_str(), reader.pages()), ("arc", 3));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod block;
mod cursor;
mod decode;
mod detect;
mod error;
mod format;
mod formats;
mod interner;
mod reader;
mod runs;
mod setup;
mod source;

pub use error::RefsError;
pub use format::Classify;
pub use format::Columns;
pub use format::DEFAULT_PAGE_BYTES;
pub use format::Format;
pub use format::Options;
pub use format::UnknownFormat;
pub use reader::Reader;
pub use source::Progress;
