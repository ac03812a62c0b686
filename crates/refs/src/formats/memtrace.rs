//! `readi|readd|write <TAB> ADDRESS <TAB> bytes`: instruction fetches, loads and stores.
//!
//! Yoon, Cho, Bahn: Electronics 11(3):386, 2022. Classified as in `--classify paper`: there are no system calls.

use crate::cursor::Cursor;
use crate::cursor::Expected;
use crate::decode::LineDecoder;
use crate::runs::ANONYMOUS_READ;
use crate::runs::ANONYMOUS_WRITE;
use crate::runs::Access;
use crate::runs::FILE_READ;
use crate::runs::Run;

pub(crate) struct Memtrace {
    pub(crate) page_shift: u32,
}

const KINDS: [(&[u8], Access); 3] = [
    (b"readi", FILE_READ),
    (b"readd", ANONYMOUS_READ),
    (b"write", ANONYMOUS_WRITE),
];

impl Memtrace {
    #[inline]
    fn parse(&self, cursor: &mut Cursor<'_>) -> Option<Run> {
        let (_, access) = KINDS.iter().find(|(word, _)| cursor.take_word(word))?;
        if !cursor.blanks() {
            return None;
        }
        let address = cursor.address()?;
        cursor.blanks();
        let bytes = cursor.decimal()?;
        if !cursor.end_of_line() {
            return None;
        }
        Run::covering(address, bytes, self.page_shift, *access)
    }
}

impl LineDecoder for Memtrace {
    #[inline]
    fn line(&mut self, cursor: &mut Cursor<'_>, runs: &mut Vec<Run>) -> Result<(), Expected> {
        let run = self.parse(cursor);
        runs.push(run.ok_or("expected `readi|readd|write ADDRESS bytes`")?);
        Ok(())
    }
}
