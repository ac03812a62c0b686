//! `start count ignored request`: blocks of 512 bytes.
//!
//! Megiddo, Modha: ARC, FAST 2003. Each block is a page of a file, read, unless pages of another size are asked for.

use crate::cursor::Cursor;
use crate::cursor::Expected;
use crate::decode::LineDecoder;
use crate::runs::FILE_READ;
use crate::runs::Run;

pub(crate) struct Arc {
    /// Blocks of a page, as a power of two.
    pub(crate) blocks_shift: u32,
}

impl Arc {
    #[inline]
    fn request(&self, start: u64, count: u64) -> Option<Run> {
        if count == 0 {
            return None;
        }
        Run::covering(start, count, self.blocks_shift, FILE_READ)
    }
}

impl LineDecoder for Arc {
    #[inline]
    fn line(&mut self, cursor: &mut Cursor<'_>, runs: &mut Vec<Run>) -> Result<(), Expected> {
        let mut number = || {
            let value = cursor.decimal();
            cursor.blanks();
            value
        };
        if let (Some(start), Some(count), Some(_), Some(_)) =
            (number(), number(), number(), number())
            && cursor.end_of_line()
        {
            let run = self.request(start, count);
            runs.push(run.ok_or("the count of blocks is 0 or too large")?);
            return Ok(());
        }
        Err("expected `start count ignored request`")
    }
}
