//! Valgrind's lackey with `--trace-mem=yes`, and with `--trace-syscalls=yes` the system calls in the same log.
//!
//! ```text
//! I  0401ab70,3          instruction fetch: address, bytes
//!  L 1fff000758,8        load;  S store;  M load and store of the same bytes
//! SYSCALL[1,1](9) sys_mmap ( 0x0, 8192, 3, 34, 4294967295, 0 ) --> [pre-success] Success(0x4835000)
//! ==1== a message of Valgrind
//! ```
//!
//! Form of the lines: `lackey/lk_main.c` and `coregrind/m_syswrap/syswrap-main.c` of Valgrind 3.19 to 3.25. What the kernel
//! itself reads and writes for a system call (the buffer of `read`) is not in the log, so it is not counted.

mod calls;
mod files;
mod space;
mod space_calls;

#[cfg(test)]
mod tests;

use crate::cursor::Cursor;
use crate::cursor::Expected;
use crate::decode::LineDecoder;
use crate::runs::ANONYMOUS_READ;
use crate::runs::ANONYMOUS_WRITE;
use crate::runs::FILE_READ;
use crate::runs::Run;

use self::space::Space;

/// What a line says was done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fetch,
    Load,
    Store,
    Modify,
}

/// An access to memory.
#[derive(Clone, Copy, Debug)]
struct Touch {
    kind: Kind,
    address: u64,
    bytes: u64,
}

const EXPECTED: Expected = "expected a line of lackey, as `I  0401ab70,3` or ` S 1fff000758,8`";

/// Parses an access, or leaves the cursor where it is if the line is none.
#[inline]
fn touch(cursor: &mut Cursor<'_>) -> Option<Touch> {
    let kind = if cursor.take_word(b"I  ") {
        Kind::Fetch
    } else if cursor.take_word(b" L ") {
        Kind::Load
    } else if cursor.take_word(b" S ") {
        Kind::Store
    } else if cursor.take_word(b" M ") {
        Kind::Modify
    } else {
        return None;
    };
    let address = cursor.hexadecimal()?;
    if !cursor.take(b',') {
        return None;
    }
    let bytes = cursor.decimal()?;
    cursor.end_of_line().then_some(Touch {
        kind,
        address,
        bytes,
    })
}

/// Goes on over a message of Valgrind (`==PID==`, `--PID--`, `**PID**`), the second line of a system call that does not
/// exist (` --> [pre-fail]`), or a blank line.
fn message(cursor: &mut Cursor<'_>) -> bool {
    let starts = [&b"=="[..], b"--", b"**", b" --> ["];
    let is_message = starts.iter().any(|start| cursor.take_word(start));
    if is_message {
        cursor.rest_of_line();
    }
    is_message || cursor.end_of_line()
}

/// Whether this line of a log tells of a system call.
pub(crate) fn is_call(line: &[u8]) -> bool {
    line.starts_with(calls::START)
}

/// Classifies by the kind of access; a page is where it is.
pub(crate) struct ByKind {
    pub(crate) page_shift: u32,
}

impl LineDecoder for ByKind {
    #[inline]
    fn line(&mut self, cursor: &mut Cursor<'_>, runs: &mut Vec<Run>) -> Result<(), Expected> {
        let Some(touch) = touch(cursor) else {
            return other_line(cursor).map(|_| ());
        };
        let accesses: &[_] = match touch.kind {
            Kind::Fetch => &[FILE_READ],
            Kind::Load => &[ANONYMOUS_READ],
            Kind::Store => &[ANONYMOUS_WRITE],
            Kind::Modify => &[ANONYMOUS_READ, ANONYMOUS_WRITE],
        };
        for access in accesses {
            let run = Run::covering(touch.address, touch.bytes, self.page_shift, *access);
            runs.push(run.ok_or(EXPECTED)?);
        }
        Ok(())
    }
}

/// A line that is no access: a system call, which is returned, or a message.
#[inline(never)]
fn other_line<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, Expected> {
    if cursor.take_word(calls::START) {
        Ok(Some(cursor.rest_of_line()))
    } else if message(cursor) {
        Ok(None)
    } else {
        Err(EXPECTED)
    }
}

/// Classifies by what is mapped where.
pub(crate) struct BySyscalls {
    space: Space,
    calls: calls::Calls,
}

impl BySyscalls {
    pub(crate) fn new(page_shift: u32) -> Self {
        Self {
            space: Space::new(page_shift),
            calls: calls::Calls::default(),
        }
    }
}

impl LineDecoder for BySyscalls {
    #[inline]
    fn line(&mut self, cursor: &mut Cursor<'_>, runs: &mut Vec<Run>) -> Result<(), Expected> {
        let Some(touch) = touch(cursor) else {
            if let Some(call) = other_line(cursor)? {
                self.calls
                    .line(&String::from_utf8_lossy(call), &mut self.space);
            }
            return Ok(());
        };
        self.space.access(touch, runs).ok_or(EXPECTED)
    }

    fn notice(&self) -> Option<String> {
        (self.calls.seen == 0).then(|| {
            "the log holds no system calls, so mappings are unknown: all data that is not on the stack counts as the \
             program's file; record with --trace-syscalls=yes, or use --classify paper"
                .to_owned()
        })
    }
}
