//! Lines as most are: plain decimal numbers, and operations spelled as before.

use crate::cursor::Cursor;
use crate::format::Columns;

/// Reads such lines without looking for what might be otherwise.
#[derive(Clone, Debug)]
pub(super) struct Quick {
    delimiter: u8,
    columns: Columns,
    /// The last column that matters, from 1.
    last: usize,
    /// How the last read was spelled, and the last write.
    spelled: [Option<Spelling>; 2],
}

/// A word of at most eight bytes.
#[derive(Clone, Copy, Debug)]
struct Spelling {
    word: u64,
    mask: u64,
    bytes: usize,
}

/// What a line says.
pub(super) struct Line {
    pub(super) id: u64,
    pub(super) write: bool,
    pub(super) size: u64,
}

impl Quick {
    pub(super) fn new(delimiter: u8, columns: Columns, last: usize) -> Self {
        Self {
            delimiter,
            columns,
            last,
            spelled: [None; 2],
        }
    }

    /// Notes how an operation is spelled.
    pub(super) fn learn(&mut self, operation: &[u8], write: bool) {
        let mut word = [0; 8];
        if let Some(begin) = word.get_mut(..operation.len())
            && !operation.is_empty()
        {
            begin.copy_from_slice(operation);
            self.spelled[usize::from(write)] = Some(Spelling {
                word: u64::from_le_bytes(word),
                mask: u64::MAX >> (64 - 8 * operation.len()),
                bytes: operation.len(),
            });
        }
    }

    /// The line at the cursor, which goes on to the next. `None` (and the cursor where it was) if it is not as most are,
    /// right or wrong.
    #[inline]
    pub(super) fn line(&self, cursor: &mut Cursor<'_>) -> Option<Line> {
        let begin = cursor.at;
        let line = self.try_line(cursor);
        if line.is_none() {
            cursor.at = begin;
        }
        line
    }

    #[inline]
    fn try_line(&self, cursor: &mut Cursor<'_>) -> Option<Line> {
        let mut line = Line {
            id: 0,
            write: false,
            size: 1,
        };
        for column in 1..=self.last {
            if column > 1 && !cursor.take(self.delimiter) {
                return None;
            }
            if column == self.columns.id {
                line.id = cursor.decimal()?;
            } else if Some(column) == self.columns.operation {
                line.write = self.operation(cursor)?;
            } else if Some(column) == self.columns.size {
                line.size = cursor.decimal()?;
            } else {
                self.skip_field(cursor);
            }
        }
        if cursor.take(b'\n') {
            return Some(line);
        }
        (cursor.peek() == self.delimiter).then(|| {
            cursor.rest_of_line();
            line
        })
    }

    #[inline]
    fn operation(&self, cursor: &mut Cursor<'_>) -> Option<bool> {
        let word = cursor.word();
        let is_spelled = |spelling: &Spelling| (word ^ spelling.word) & spelling.mask == 0;
        let write =
            (self.spelled.iter()).position(|known| known.as_ref().is_some_and(is_spelled))?;
        cursor.at += self.spelled[write]?.bytes;
        Some(write == 1)
    }

    /// Goes on to what ends a field, or to a quote, which ends nothing here.
    #[inline]
    fn skip_field(&self, cursor: &mut Cursor<'_>) {
        loop {
            let word = cursor.word();
            let ends =
                bytes_like(word, self.delimiter) | bytes_like(word, b'\n') | bytes_like(word, b'"');
            if ends != 0 {
                cursor.at += ends.trailing_zeros() as usize / 8;
                return;
            }
            cursor.at += 8;
        }
    }
}

/// The highest bit of each byte of `word` that is `byte`. Above the lowest such byte others may be set, too.
#[inline]
fn bytes_like(word: u64, byte: u8) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let zeros = word ^ (ONES * u64::from(byte));
    zeros.wrapping_sub(ONES) & !zeros & (ONES << 7)
}
