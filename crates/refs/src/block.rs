//! A stream cut into blocks that end with a line or a record.

use std::io;
use std::io::ErrorKind;
use std::io::Read;

/// Bytes of a block: it shall stay in a processor's cache between being filled and being parsed.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;

/// Zero bytes behind a block's end, so that parsers load words without asking where it is.
pub(crate) const PADDING: usize = 32;

/// No line of any format is longer.
const LONGEST_LINE: usize = BLOCK_BYTES;

/// Where a block may end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    /// After a newline; the last line gets one if it has none.
    Lines,
    /// After a multiple of so many bytes.
    Records(usize),
}

/// Whole lines or records, then [`PADDING`].
#[derive(Debug, Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    length: usize,
    /// Bytes of a last record that is not whole.
    pub(crate) left_over: usize,
}

impl Block {
    /// Its bytes with the padding.
    pub(crate) fn padded(&self) -> &[u8] {
        &self.bytes[..self.length + PADDING]
    }

    /// Bytes without the padding.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    #[cfg(test)]
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut cutter = Cutter::new(bytes, Cut::Lines);
        let mut block = Block::default();
        assert!(cutter.next(&mut block).unwrap() || bytes.is_empty());
        block
    }
}

/// Something that gives blocks.
pub(crate) trait Blocks: Send {
    /// Replaces `block` by the next one; `false` at the end.
    fn next(&mut self, block: &mut Block) -> io::Result<bool>;
}

/// Cuts a stream.
pub(crate) struct Cutter<R> {
    source: R,
    cut: Cut,
    /// What was read behind the last block's end.
    rest: Vec<u8>,
    ended: bool,
}

impl<R: Read> Cutter<R> {
    pub(crate) fn new(source: R, cut: Cut) -> Self {
        Self {
            source,
            cut,
            rest: Vec::new(),
            ended: false,
        }
    }

    /// Reads until the buffer is full or the stream ends; returns how far it is filled.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.rest.len();
        buffer[..filled].copy_from_slice(&self.rest);
        self.rest.clear();
        while filled < buffer.len() {
            match self.source.read(&mut buffer[filled..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl<R: Read + Send> Blocks for Cutter<R> {
    fn next(&mut self, block: &mut Block) -> io::Result<bool> {
        block.left_over = 0;
        block.length = 0;
        block.bytes.resize(BLOCK_BYTES + PADDING, 0);
        if self.ended {
            return Ok(false);
        }
        // One byte is kept for the newline that the last line may lack.
        let mut filled = self.fill(&mut block.bytes[..BLOCK_BYTES - 1])?;
        let end = match self.cut {
            Cut::Lines if self.ended => {
                if filled > 0 && block.bytes[filled - 1] != b'\n' {
                    block.bytes[filled] = b'\n';
                    filled += 1;
                }
                filled
            }
            Cut::Lines => match memchr::memrchr(b'\n', &block.bytes[..filled]) {
                Some(last) => last + 1,
                None => {
                    return Err(io::Error::new(
                        ErrorKind::InvalidData,
                        format!(
                            "a line is longer than {LONGEST_LINE} bytes: this is no text of references"
                        ),
                    ));
                }
            },
            Cut::Records(bytes) => {
                let end = filled - filled % bytes;
                if self.ended {
                    block.left_over = filled - end;
                }
                end
            }
        };
        self.rest.extend_from_slice(&block.bytes[end..filled]);
        block.length = end;
        block.bytes[end..end + PADDING].fill(0);
        Ok(end > 0 || block.left_over > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives few bytes at a time.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = buffer.len().min(self.0.len()).min(4001);
            buffer[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0 = &self.0[bytes..];
            Ok(bytes)
        }
    }

    fn blocks(text: &[u8], cut: Cut) -> io::Result<(Vec<u8>, usize)> {
        let mut cutter = Cutter::new(Trickle(text), cut);
        let mut block = Block::default();
        let (mut all, mut left_over) = (Vec::new(), 0);
        while cutter.next(&mut block)? {
            let (whole, padding) = block.padded().split_at(block.len());
            assert!(padding.iter().all(|byte| *byte == 0));
            if matches!(cut, Cut::Lines) {
                assert_eq!(whole.last(), Some(&b'\n'));
            }
            all.extend_from_slice(whole);
            left_over += block.left_over;
        }
        Ok((all, left_over))
    }

    #[test]
    fn lines_come_whole_and_the_last_gets_its_newline() {
        let text: Vec<u8> = (0..100_000)
            .flat_map(|n| format!("{n}\n").into_bytes())
            .collect();
        assert_eq!(blocks(&text, Cut::Lines).unwrap(), (text.clone(), 0));
        let (all, _) = blocks(&text[..text.len() - 1], Cut::Lines).unwrap();
        assert_eq!(all, text);
        assert_eq!(blocks(b"", Cut::Lines).unwrap(), (Vec::new(), 0));
    }

    #[test]
    fn part_of_a_record_is_left_over() {
        let bytes = vec![1; 24 * 30_000 + 7];
        let (all, left_over) = blocks(&bytes, Cut::Records(24)).unwrap();
        assert_eq!((all.len(), left_over), (24 * 30_000, 7));
    }

    #[test]
    fn a_line_without_end_is_refused() {
        assert!(blocks(&vec![b'1'; 600_000], Cut::Lines).is_err());
    }
}
