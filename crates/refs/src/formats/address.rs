//! `l|s ADDRESS count`: loads and stores of SPEC programs, as the Caffeine simulator keeps them.
//!
//! The count is of instructions in between. Memory is anonymous, as nothing says otherwise.

use crate::cursor::Cursor;
use crate::cursor::Expected;
use crate::decode::LineDecoder;
use crate::runs::ANONYMOUS_READ;
use crate::runs::ANONYMOUS_WRITE;
use crate::runs::Run;

pub(crate) struct Address {
    pub(crate) page_shift: u32,
}

impl Address {
    #[inline]
    fn parse(&self, cursor: &mut Cursor<'_>) -> Option<Run> {
        let access = match cursor.peek() {
            b'l' => ANONYMOUS_READ,
            b's' => ANONYMOUS_WRITE,
            _ => return None,
        };
        cursor.at += 1;
        if !cursor.blanks() {
            return None;
        }
        let address = cursor.address()?;
        cursor.blanks();
        cursor.decimal()?;
        cursor
            .end_of_line()
            .then_some(Run::one(address >> self.page_shift, access))
    }
}

impl LineDecoder for Address {
    #[inline]
    fn line(&mut self, cursor: &mut Cursor<'_>, runs: &mut Vec<Run>) -> Result<(), Expected> {
        let run = self.parse(cursor);
        runs.push(run.ok_or("expected `l|s ADDRESS count`")?);
        Ok(())
    }
}
