//! Where in a file the bytes are that were read or written: a picture of few blocks, whatever the file's size.

/// Blocks in the picture.
pub(crate) const BLOCKS: usize = 64;
const SMALLEST_BLOCK: u64 = 4096;

/// Bytes by block of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heat {
    /// The size of a block.
    pub block_bytes: u64,
    /// Bytes read, by block.
    pub read: Vec<u64>,
    /// Bytes written, by block.
    pub written: Vec<u64>,
}

impl Default for Heat {
    fn default() -> Self {
        Self {
            block_bytes: SMALLEST_BLOCK,
            read: vec![0; BLOCKS],
            written: vec![0; BLOCKS],
        }
    }
}

impl Heat {
    pub(crate) fn add(&mut self, offset: u64, bytes: u64, write: bool) {
        let end = offset.saturating_add(bytes);
        while end > self.block_bytes.saturating_mul(BLOCKS as u64) {
            self.double();
        }
        let blocks = if write {
            &mut self.written
        } else {
            &mut self.read
        };
        let mut at = offset;
        while at < end {
            let block = at / self.block_bytes;
            let next = (block + 1).saturating_mul(self.block_bytes).min(end);
            if let Some(sum) = blocks.get_mut(block as usize) {
                *sum += next - at;
            }
            at = next;
        }
    }

    /// Makes each two blocks one.
    fn double(&mut self) {
        self.block_bytes = self.block_bytes.saturating_mul(2);
        for blocks in [&mut self.read, &mut self.written] {
            let mut pairs: Vec<u64> = blocks.chunks(2).map(|pair| pair.iter().sum()).collect();
            pairs.resize(BLOCKS, 0);
            *blocks = pairs;
        }
    }

    /// The blocks up to the last one that was used.
    pub(crate) fn cut(&mut self) {
        let used = |blocks: &[u64]| {
            blocks
                .iter()
                .rposition(|&sum| sum > 0)
                .map_or(0, |at| at + 1)
        };
        let length = used(&self.read).max(used(&self.written));
        self.read.truncate(length);
        self.written.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_file_and_keep_their_bytes() {
        let mut heat = Heat::default();
        heat.add(0, 4096, false);
        heat.add(6000, 4096, false);
        assert_eq!(heat.read[..3], [4096, 8192 - 6000, 6000 - 4096]);
        heat.add(64 * 4096 * 3, 4096, true);
        assert_eq!(heat.block_bytes, 4 * 4096);
        assert_eq!(heat.read[0], 8192);
        assert_eq!(heat.written[48], 4096);
        heat.cut();
        assert_eq!((heat.read.len(), heat.written.len()), (49, 49));
    }

    #[test]
    fn the_end_of_the_largest_file_is_no_overflow() {
        let mut heat = Heat::default();
        heat.add(i64::MAX as u64 - 10, 10, false);
        assert_eq!(heat.read.iter().sum::<u64>(), 10);
    }
}
