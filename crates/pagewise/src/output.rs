//! Writing to standard output, where the reader may leave early.

use std::io::ErrorKind;
use std::io::Write;

use crate::failure::Failure;

/// Prints a text. A closed pipe is not an error: `pagewise report | head` is fine.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}
