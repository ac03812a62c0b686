//! Writing to standard output and error, where the reader may leave early.

use std::io::BufWriter;
use std::io::ErrorKind;
use std::io::Write;

use crate::failure::Failure;

/// Prints a text. A closed pipe is not an error: `pagewise report | head` is fine.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_by(|out| out.write_all(text.as_bytes()))
}

/// The same of what is too long to be held at once.
pub(crate) fn print_by(
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Failure> {
    // Lines are of no interest: standard output by itself would write each when it ends.
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Prints a line to standard error. Nobody reading it is no reason to fail, as `eprintln!` would: a recording goes on.
macro_rules! tell {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($argument)*);
    }};
}
pub(crate) use tell;
