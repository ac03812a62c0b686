//! The formats, and how to read them.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A recording of Pagewise: a folder.
    Pagewise,
    /// One decimal block number a line; `*` and blank lines are skipped (traces of the LIRS paper).
    Lirs,
    /// `start count ignored request`: blocks of 512 bytes (traces of the ARC paper).
    Arc,
    /// `l|s ADDRESS count`, the address hexadecimal (SPEC address traces of the Caffeine simulator).
    Address,
    /// Valgrind's lackey, `--trace-mem=yes`, with or without `--trace-syscalls=yes`.
    Lackey,
    /// `readi|readd|write <TAB> ADDRESS <TAB> bytes`.
    Memtrace,
    /// Records of 24 bytes (libCacheSim's `oracleGeneral`).
    OracleGeneral,
    /// Values separated by commas, semicolons, tabs or bars.
    Csv,
    /// Records of VMware's vscsiStats, both versions (CloudPhysics traces).
    Vscsi,
}

const NAMES: &[(Format, &str)] = &[
    (Format::Pagewise, "pagewise"),
    (Format::Lirs, "lirs"),
    (Format::Arc, "arc"),
    (Format::Address, "address"),
    (Format::Lackey, "lackey"),
    (Format::Memtrace, "memtrace"),
    (Format::OracleGeneral, "oracle-general"),
    (Format::Csv, "csv"),
    (Format::Vscsi, "vscsi"),
];

impl Format {
    /// All formats.
    pub fn all() -> impl Iterator<Item = Format> {
        NAMES.iter().map(|(format, _)| *format)
    }

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        let find = |(format, name): &(Format, &'static str)| (*format == self).then_some(*name);
        NAMES
            .iter()
            .find_map(find)
            .expect("every format has a name")
    }

    /// Whether its lines tell addresses of memory rather than blocks or objects.
    pub fn has_addresses(self) -> bool {
        matches!(
            self,
            Format::Pagewise | Format::Address | Format::Lackey | Format::Memtrace
        )
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no format is called `{name}`; did you mean `{nearest}`?")]
pub struct UnknownFormat {
    name: String,
    nearest: Format,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
        let wanted = plain(name);
        if let Some(format) = Format::all().find(|format| plain(format.as_str()) == wanted) {
            return Ok(format);
        }
        let likeness = |format: &Format| strsim::jaro_winkler(&wanted, format.as_str());
        let nearest = Format::all().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        Err(UnknownFormat {
            name: name.to_owned(),
            nearest: nearest.expect("there are formats"),
        })
    }
}

/// How accesses to memory are told apart into those of files and of anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classify {
    /// By the system calls in the same log: what `mmap` of a descriptor mapped is a file, and a private page of it that is
    /// written becomes anonymous.
    Syscalls,
    /// By the kind of access, as Bahn (JIIBC 2024): instruction to file read, data read to anonymous read, data write to
    /// anonymous write; there are no file writes.
    Paper,
}

impl fmt::Display for Classify {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Classify::Syscalls => "syscalls",
            Classify::Paper => "paper",
        })
    }
}

impl FromStr for Classify {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "syscalls" => Ok(Classify::Syscalls),
            "paper" => Ok(Classify::Paper),
            _ => Err(format!("`{name}` is neither `syscalls` nor `paper`")),
        }
    }
}

/// Which columns of a csv file hold what, from 1; overrides its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The block, object or address.
    pub id: usize,
    /// Whether it is read or written.
    pub operation: Option<usize>,
    /// How many bytes.
    pub size: Option<usize>,
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "columns are given as id=5,op=3,size=4, counted from 1";
        let (mut id, mut operation, mut size) = (None, None, None);
        for part in text.split(',') {
            let (name, number) = part.split_once('=').ok_or(FORM)?;
            let number: usize = number.trim().parse().map_err(|_| FORM)?;
            let column = Some(number).filter(|number| *number > 0).ok_or(FORM)?;
            match name.trim() {
                "id" => id = Some(column),
                "op" => operation = Some(column),
                "size" => size = Some(column),
                _ => return Err(format!("no column is called `{name}`: {FORM}")),
            }
        }
        Ok(Columns {
            id: id.ok_or_else(|| format!("the column `id` is missing: {FORM}"))?,
            operation,
            size,
        })
    }
}

/// How to read a trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format; `None`: recognized by content.
    pub format: Option<Format>,
    /// How files are told from anonymous memory; `None`: by system calls where the log has them, else by kind of access.
    pub classify: Option<Classify>,
    /// Bytes of a page, a power of two. `None`: 4096 for addresses; blocks and objects are pages themselves.
    pub page_bytes: Option<u64>,
    /// The columns of a csv file; `None`: by its header.
    pub columns: Option<Columns>,
    /// Leave out lines that are not of the format, and count them.
    pub skip_bad: bool,
}

/// The size of a page unless told otherwise, in bytes.
pub const DEFAULT_PAGE_BYTES: u64 = 4096;

/// The unit of block numbers, in bytes.
pub(crate) const SECTOR_BYTES: u64 = 512;
