//! Keeps a file from filling memory: a JSON text may be one endless string, or unpack to a thousand times its size.

use std::cell::Cell;
use std::io;
use std::io::Read;

/// What is read between two snapshots at most: a million regions, where DAMON has thousands.
const MOST_BYTES: u64 = 64 << 20;

/// How much may be read until the next snapshot is complete.
pub(super) struct Allowance(Cell<u64>);

impl Allowance {
    pub(super) fn new() -> Self {
        Allowance(Cell::new(MOST_BYTES))
    }

    /// A snapshot is complete.
    pub(super) fn renew(&self) {
        self.0.set(MOST_BYTES);
    }
}

/// A reader that fails when the allowance is used up.
pub(super) struct Metered<'allowance, R> {
    pub(super) inner: R,
    pub(super) allowance: &'allowance Allowance,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let Allowance(left) = self.allowance;
        let Some(rest) = left.get().checked_sub(read as u64) else {
            let text = format!("{} MiB and no snapshot that is complete", MOST_BYTES >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        left.set(rest);
        Ok(read)
    }
}
