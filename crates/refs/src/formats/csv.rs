//! Values separated by commas, semicolons, tabs or bars, one access a line.
//!
//! The header says what the columns are, or the caller does. Blocks and objects are pages of files; addresses are those
//! of anonymous memory. Object names that are no numbers are hashed.

mod quick;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::hash::BuildHasherDefault;
use std::hash::DefaultHasher;

use self::quick::Quick;
use crate::cursor::Cursor;
use crate::cursor::Expected;
use crate::decode::LineDecoder;
use crate::format::Columns;
use crate::format::SECTOR_BYTES;
use crate::runs::Access;
use crate::runs::Run;

/// What the column `id` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Names or numbers of objects: each is a page.
    Object,
    /// Numbers of blocks of 512 bytes: each is a page, unless pages of another size are asked for.
    Block,
    /// Addresses of bytes.
    Address,
}

/// What to look for in a line.
#[derive(Clone, Debug)]
pub(crate) struct Csv {
    delimiter: u8,
    columns: Columns,
    /// The last column that matters, from 1.
    last: usize,
    unit: Unit,
    page_shift: Option<u32>,
    /// Whether names that are no numbers are fine.
    names: bool,
    /// Whether the first line is still to come, and is a header.
    header: bool,
    quick: Quick,
}

const IDS: &[(&str, Unit)] = &[
    ("lbn", Unit::Block),
    ("lba", Unit::Block),
    ("block", Unit::Block),
    ("sector", Unit::Block),
    ("offset", Unit::Address),
    ("address", Unit::Address),
    ("addr", Unit::Address),
    ("vaddr", Unit::Address),
    ("page", Unit::Object),
    ("obj_id", Unit::Object),
    ("objid", Unit::Object),
    ("object_id", Unit::Object),
    ("object", Unit::Object),
    ("obj", Unit::Object),
    ("id", Unit::Object),
    ("key", Unit::Object),
];
const OPERATIONS: &[&str] = &["op", "operation", "rw", "type", "command", "cmd", "access"];
const SIZES: &[&str] = &["size", "bytes", "len", "length", "obj_size"];

/// Columns of `pagewise export csv`, whose rows are swap-ins, evictions and writes.
const EXPORTED: [&str; 3] = ["kind", "latency_ns", "object_kind"];
const NO_REFERENCES: &str = "these are events of a recording (pagewise export csv), and no references to pages: name the recording itself";
const NO_COLUMNS: &str = "which column is what? Its first line names none `id`, `lbn`, `address` or alike; \
    say it with --columns id=5,op=3,size=4 (counted from 1)";

impl Csv {
    /// Finds out by the file's beginning. An error says what is missing.
    pub(crate) fn new(
        head: &[u8],
        columns: Option<Columns>,
        page_shift: Option<u32>,
    ) -> Result<Self, String> {
        let mut lines = head.split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default().trim_ascii();
        let delimiter = delimiter(first);
        let header: Vec<String> = first
            .split(|byte| *byte == delimiter)
            .map(|field| String::from_utf8_lossy(unquoted(field)).to_lowercase())
            .collect();
        let position = |names: &[&str]| {
            header
                .iter()
                .position(|name| names.contains(&name.as_str()))
        };
        if columns.is_none() && EXPORTED.iter().all(|name| position(&[name]).is_some()) {
            return Err(NO_REFERENCES.to_owned());
        }
        let named = IDS
            .iter()
            .find_map(|(name, unit)| Some((position(&[name])?, *unit)));
        let (columns, unit) = match (columns, named) {
            (Some(columns), Some((at, unit))) if columns.id == at + 1 => (columns, unit),
            (Some(columns), _) => (columns, Unit::Object),
            (None, Some((id, unit))) => (
                Columns {
                    id: id + 1,
                    operation: position(OPERATIONS).map(|at| at + 1),
                    size: position(SIZES).map(|at| at + 1),
                },
                unit,
            ),
            (None, None) if header.len() == 1 => (
                Columns {
                    id: 1,
                    operation: None,
                    size: None,
                },
                Unit::Object,
            ),
            (None, None) => return Err(NO_COLUMNS.to_owned()),
        };
        let id_of = |line: &[u8]| {
            let id = fields(line, delimiter).nth(columns.id - 1)?.to_vec();
            Some(number(unquoted(&id)).is_some())
        };
        let second_is_number = lines.next().and_then(|line| id_of(line.trim_ascii()));
        // Without a known name, a first line is a header if its id is a word and the next one's is a number.
        let header =
            named.is_some() || id_of(first) == Some(false) && second_is_number == Some(true);
        let first_is_name = if header {
            second_is_number
        } else {
            id_of(first)
        } == Some(false);
        let last = columns
            .id
            .max(columns.operation.unwrap_or(0))
            .max(columns.size.unwrap_or(0));
        Ok(Self {
            delimiter,
            columns,
            last,
            quick: Quick::new(delimiter, columns, last),
            unit,
            page_shift,
            names: first_is_name && unit == Unit::Object,
            header,
        })
    }

    fn key(&self, id: &[u8]) -> Option<u64> {
        let hashed = || BuildHasherDefault::<DefaultHasher>::new().hash_one(id);
        number(id).or_else(|| (self.names && !id.is_empty()).then(hashed))
    }

    #[inline]
    fn run(&self, id: u64, bytes: u64, write: bool) -> Option<Run> {
        let access = Access {
            write,
            file: self.unit != Unit::Address,
        };
        let shift = match (self.unit, self.page_shift) {
            (Unit::Object, _) | (Unit::Block, None) => return Some(Run::one(id, access)),
            (Unit::Block, Some(shift)) => {
                let address = id.saturating_mul(SECTOR_BYTES);
                return Run::covering(address, bytes, shift, access);
            }
            (Unit::Address, shift) => shift.unwrap_or(12),
        };
        Run::covering(id, bytes, shift, access)
    }

    fn parse(&mut self, line: &[u8]) -> Result<Run, Expected> {
        let (mut id, mut write, mut bytes) = (None, false, 1);
        for (field, column) in fields(line, self.delimiter).take(self.last).zip(1..) {
            if column == self.columns.id {
                id = self.key(unquoted(field));
            } else if Some(column) == self.columns.operation {
                write = is_write(unquoted(field)).ok_or("neither a read nor a write")?;
                self.quick.learn(field, write);
            } else if Some(column) == self.columns.size {
                bytes = number(unquoted(field)).ok_or("the size is no number")?;
            }
        }
        let id = id.ok_or("no number where the block, object or address should be")?;
        self.run(id, bytes, write).ok_or("the size is too large")
    }
}

impl LineDecoder for Csv {
    #[inline]
    fn line(&mut self, cursor: &mut Cursor<'_>, runs: &mut Vec<Run>) -> Result<(), Expected> {
        if !self.header
            && let Some(line) = self.quick.line(cursor)
        {
            let run = self.run(line.id, line.size, line.write);
            runs.push(run.ok_or("the size is too large")?);
            return Ok(());
        }
        let line = cursor.rest_of_line();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if std::mem::take(&mut self.header) || line.is_empty() {
            return Ok(());
        }
        runs.push(self.parse(line)?);
        Ok(())
    }
}

/// The candidate that a line has most of.
pub(crate) fn delimiter(line: &[u8]) -> u8 {
    let count = |byte: &u8| line.iter().filter(|found| *found == byte).count();
    // Of equals the last one wins.
    *b"|\t;,"
        .iter()
        .max_by_key(|byte| count(byte))
        .expect("four")
}

/// The line's fields. A delimiter between quotes separates nothing.
pub(crate) fn fields(line: &[u8], delimiter: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let quoted = match line {
            [b'"', inner @ ..] => inner
                .iter()
                .position(|byte| *byte == b'"')
                .map_or(0, |at| at + 2),
            _ => 0,
        };
        let end = memchr::memchr(delimiter, &line[quoted..]);
        let end = end.map(|at| at + quoted);
        rest = end.map(|at| &line[at + 1..]);
        Some(&line[..end.unwrap_or(line.len())])
    })
}

fn unquoted(field: &[u8]) -> &[u8] {
    let field = field.trim_ascii();
    match field {
        [b'"', inner @ .., b'"'] => inner.trim_ascii(),
        _ => field,
    }
}

/// A decimal number, or a hexadecimal one with `0x` before it.
#[inline]
fn number(field: &[u8]) -> Option<u64> {
    if let [b'0', b'x' | b'X', digits @ ..] = field {
        let text = std::str::from_utf8(digits).ok()?;
        return u64::from_str_radix(text, 16).ok();
    }
    if field.is_empty() || field.len() > 20 {
        return None;
    }
    field.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(())?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Words, and SCSI's operation codes in hexadecimal (READ and WRITE of 6, 10, 12 and 16 bytes) or decimal.
fn is_write(operation: &[u8]) -> Option<bool> {
    let mut lower = [0; 8];
    let lower = lower.get_mut(..operation.len())?;
    lower.copy_from_slice(operation);
    lower.make_ascii_lowercase();
    match lower.strip_prefix(b"0x").unwrap_or(lower) {
        b"r" | b"rd" | b"rs" | b"read" | b"get" | b"gets" | b"l" | b"load" | b"0" => Some(false),
        b"w" | b"wr" | b"ws" | b"write" | b"set" | b"put" | b"s" | b"store" | b"1" => Some(true),
        b"28" | b"a8" | b"88" | b"8" | b"08" | b"40" => Some(false),
        b"2a" | b"aa" | b"8a" | b"a" | b"0a" | b"42" => Some(true),
        _ => None,
    }
}

/// Whether a SCSI operation code writes.
pub(crate) fn is_scsi_write(code: u64) -> bool {
    matches!(code, 0x0a | 0x2a | 0x8a | 0xaa)
}
