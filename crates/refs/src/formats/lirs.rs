//! One decimal block number a line; `*` marks a point at which the LIRS paper's programs print.
//!
//! Jiang, Zhang: LIRS, SIGMETRICS 2002. Blocks are pages of files, read.

use crate::cursor::Cursor;
use crate::cursor::Expected;
use crate::decode::LineDecoder;
use crate::runs::FILE_READ;
use crate::runs::Run;

pub(crate) struct Lirs;

impl LineDecoder for Lirs {
    #[inline]
    fn line(&mut self, cursor: &mut Cursor<'_>, runs: &mut Vec<Run>) -> Result<(), Expected> {
        match cursor.decimal() {
            Some(block) => runs.push(Run::one(block, FILE_READ)),
            None => {
                cursor.blanks();
                cursor.take(b'*');
            }
        }
        if cursor.end_of_line() {
            Ok(())
        } else {
            Err("expected one block number")
        }
    }
}
