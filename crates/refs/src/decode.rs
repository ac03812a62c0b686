//! From blocks of bytes to runs of accesses.

use crate::block::Block;
use crate::cursor::Cursor;
use crate::cursor::Expected;
use crate::runs::Run;

/// Lines or records decoded at once, so that runs stay in the first-level cache.
const STEP: usize = 1024;

/// A place in a block, and in the file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    /// Offset in the block.
    pub(crate) at: usize,
    /// Lines or records before it, in the whole file.
    pub(crate) lines: u64,
}

/// Makes runs of a block.
pub(crate) trait Decoder: Send {
    /// Decodes some lines or records from `position` on. Of one that is not of the format nothing is decoded, and
    /// `position` is left at its beginning.
    fn decode(
        &mut self,
        block: &Block,
        position: &mut Position,
        runs: &mut Vec<Run>,
    ) -> Result<(), Expected>;

    /// What the decoder has to say when all is decoded.
    fn notice(&self) -> Option<String> {
        None
    }
}

/// Decodes one line.
pub(crate) trait LineDecoder: Send {
    /// Decodes the line that begins at the cursor and goes on to the next.
    fn line(&mut self, cursor: &mut Cursor<'_>, runs: &mut Vec<Run>) -> Result<(), Expected>;

    /// See [`Decoder::notice`].
    fn notice(&self) -> Option<String> {
        None
    }
}

/// A decoder of lines.
pub(crate) struct Lines<L>(pub(crate) L);

impl<L: LineDecoder> Decoder for Lines<L> {
    fn decode(
        &mut self,
        block: &Block,
        position: &mut Position,
        runs: &mut Vec<Run>,
    ) -> Result<(), Expected> {
        let mut cursor = Cursor::new(block.padded(), position.at);
        for _ in 0..STEP {
            if cursor.at >= block.len() {
                break;
            }
            let before = runs.len();
            if let Err(expected) = self.0.line(&mut cursor, runs) {
                runs.truncate(before);
                return Err(expected);
            }
            position.at = cursor.at;
            position.lines += 1;
        }
        Ok(())
    }

    fn notice(&self) -> Option<String> {
        self.0.notice()
    }
}

/// A decoder of records of one size, none of which can be wrong.
pub(crate) struct Records<F, const BYTES: usize>(pub(crate) F);

impl<F, const BYTES: usize> Decoder for Records<F, BYTES>
where
    F: FnMut(&[u8; BYTES], &mut Vec<Run>) + Send,
{
    fn decode(
        &mut self,
        block: &Block,
        position: &mut Position,
        runs: &mut Vec<Run>,
    ) -> Result<(), Expected> {
        let (records, _) = block.padded()[position.at..block.len()].as_chunks::<BYTES>();
        for record in records.iter().take(STEP) {
            (self.0)(record, runs);
            position.at += BYTES;
            position.lines += 1;
        }
        Ok(())
    }
}
