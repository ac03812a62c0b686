//! Why a file is not looked at.

use std::path::PathBuf;

/// Why a whole file is refused.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It cannot be read.
    #[error("cannot read {}: {source}; name a C or C++ source", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// By its name it is neither C nor C++.
    #[error("{}: neither C nor C++ by its name (.c, .h, .cc, .cpp, .cxx, .hpp and kin): name a source, or a copy of this one that is called so", .0.display())]
    Language(PathBuf),
    /// It has zero bytes.
    #[error("a binary file, not a source: name a source")]
    Binary,
    /// It is larger than any source that people write.
    #[error("larger than 16 MiB: split it, or place the calls by hand")]
    TooLarge,
    /// The parser gave up.
    #[error("not parsed within 10 s: split it, or place the calls by hand")]
    TooSlow,
    /// A program writes it: a patch would be lost.
    #[error("a generated file: patch what it is generated from")]
    Generated {
        /// Where that is said, from 1.
        line: usize,
    },
}

impl SourceError {
    /// The line that is to blame.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Generated { line } => Some(*line),
            _ => None,
        }
    }
}
