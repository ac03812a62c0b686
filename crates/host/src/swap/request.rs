//! `--swap auto|zram[:lz4]|file[:PATH]|existing|none`.

use crate::error::Error;
use crate::error::Result;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The swap that is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SwapRequest {
    /// What is there if it has room, else zram, else a file.
    #[default]
    Auto,
    /// A compressed device in memory.
    Zram {
        /// Compression algorithm; `None`: the kernel's choice.
        algorithm: Option<String>,
    },
    /// A file.
    File {
        /// A new file; `None`: one in `/var/tmp`.
        path: Option<PathBuf>,
    },
    /// What is there.
    Existing,
    /// Set nothing up.
    None,
}

impl FromStr for SwapRequest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, detail) = match text.split_once(':') {
            Some((kind, detail)) => (kind, Some(detail)),
            None => (text, None),
        };
        match (kind, detail) {
            ("auto", None) => Ok(SwapRequest::Auto),
            ("existing", None) => Ok(SwapRequest::Existing),
            ("none", None) => Ok(SwapRequest::None),
            ("zram", None) => Ok(SwapRequest::Zram { algorithm: None }),
            ("zram", Some(name)) if !name.is_empty() && !name.contains(char::is_whitespace) => {
                Ok(SwapRequest::Zram {
                    algorithm: Some(name.to_owned()),
                })
            }
            ("file", None) => Ok(SwapRequest::File { path: None }),
            ("file", Some(path)) if !path.is_empty() => Ok(SwapRequest::File {
                path: Some(path.into()),
            }),
            _ => Err(Error::SwapRequest {
                text: text.to_owned(),
            }),
        }
    }
}

impl fmt::Display for SwapRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwapRequest::Auto => f.write_str("auto"),
            SwapRequest::Existing => f.write_str("existing"),
            SwapRequest::None => f.write_str("none"),
            SwapRequest::Zram { algorithm: None } => f.write_str("zram"),
            SwapRequest::Zram {
                algorithm: Some(name),
            } => write!(f, "zram:{name}"),
            SwapRequest::File { path: None } => f.write_str("file"),
            SwapRequest::File { path: Some(path) } => write!(f, "file:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_reads_back() {
        for text in [
            "auto",
            "zram",
            "zram:lz4",
            "file",
            "file:/a:b",
            "existing",
            "none",
        ] {
            assert_eq!(text.parse::<SwapRequest>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn other_text_is_refused_with_the_choices() {
        for text in ["", "zram:", "zram:lz4 x", "file:", "none:x", "Auto", "disk"] {
            let error = text.parse::<SwapRequest>().expect_err(text).to_string();
            assert!(error.contains("zram:lz4"), "{error}");
        }
    }
}
