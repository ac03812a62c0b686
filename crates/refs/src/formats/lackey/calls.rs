//! System calls as Valgrind prints them.

use std::collections::HashMap;

use super::files::Files;
use super::space::Space;

/// How their lines begin.
pub(super) const START: &[u8] = b"SYSCALL[";

/// A system call that changes what is mapped, or which descriptor is what. Addresses and lengths in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Map {
        bytes: u64,
        flags: u64,
        descriptor: u64,
        offset: u64,
    },
    Unmap {
        address: u64,
        bytes: u64,
    },
    Remap {
        address: u64,
        old_bytes: u64,
        new_bytes: u64,
    },
    Break,
    /// `MADV_DONTNEED`.
    Discard {
        address: u64,
        bytes: u64,
    },
    Open {
        path: String,
    },
    OpenMemory,
    Duplicate {
        descriptor: u64,
    },
    Close {
        descriptor: u64,
    },
}

/// The system calls of a log.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Lines.
    pub(super) seen: u64,
    files: Files,
    /// Calls that have begun and not ended, by process and thread.
    begun: HashMap<String, Call>,
    pub(super) program_break: Option<u64>,
}

impl Calls {
    /// Takes in a line, without its [`START`]. What is not understood changes nothing.
    pub(super) fn line(&mut self, line: &str, space: &mut Space) {
        self.seen += 1;
        let Some((thread, rest)) = line.split_once(']') else {
            return;
        };
        let Some((_, rest)) = rest.split_once(") ") else {
            return;
        };
        let call = if rest.starts_with("...") {
            self.begun.remove(thread)
        } else {
            parse(rest)
        };
        let Some(call) = call else {
            return;
        };
        let (_, outcome) = rest.rsplit_once("--> ").unwrap_or_default();
        if let Some(result) = succeeded(outcome) {
            space.apply(&call, result, &mut self.files, &mut self.program_break);
        } else if outcome.starts_with("[async] ...") {
            self.begun.insert(thread.to_owned(), call);
        }
    }
}

/// The result of a call that succeeded.
fn succeeded(outcome: &str) -> Option<u64> {
    let (_, result) = outcome.split_once("Success(0x")?;
    let (digits, _) = result.split_once(')')?;
    u64::from_str_radix(digits, 16).ok()
}

/// The call, if it is one that matters: `sys_NAME ( ARGUMENTS ) ...`.
fn parse(text: &str) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let name = name.trim().trim_start_matches("sys_");
    let name = name.split('[').next().unwrap_or(name);
    let (arguments, _) = rest.rsplit_once("--> ").unwrap_or((rest, ""));
    let (arguments, _) = arguments.rsplit_once(')')?;
    let number = |index: usize| number(arguments.split(',').nth(index)?);
    Some(match name {
        "mmap" | "old_mmap" | "mmap2" => Call::Map {
            bytes: number(1)?,
            flags: number(3)?,
            descriptor: number(4)?,
            offset: number(5)?.wrapping_mul(if name == "mmap2" { 4096 } else { 1 }),
        },
        "munmap" => Call::Unmap {
            address: number(0)?,
            bytes: number(1)?,
        },
        "mremap" => Call::Remap {
            address: number(0)?,
            old_bytes: number(1)?,
            new_bytes: number(2)?,
        },
        "brk" => Call::Break,
        "madvise" if number(2)? == MADV_DONTNEED => Call::Discard {
            address: number(0)?,
            bytes: number(1)?,
        },
        "open" | "openat" | "openat2" | "creat" => Call::Open {
            path: path(arguments)?.to_owned(),
        },
        "memfd_create" => Call::OpenMemory,
        "dup" | "dup2" | "dup3" => Call::Duplicate {
            descriptor: number(0)?,
        },
        "fcntl" if matches!(number(1)?, F_DUPFD | F_DUPFD_CLOEXEC) => Call::Duplicate {
            descriptor: number(0)?,
        },
        "close" => Call::Close {
            descriptor: number(0)?,
        },
        _ => return None,
    })
}

const MADV_DONTNEED: u64 = 4;
const F_DUPFD: u64 = 0;
const F_DUPFD_CLOEXEC: u64 = 1030;

/// An argument: decimal or hexadecimal, maybe with the text it points at.
fn number(argument: &str) -> Option<u64> {
    let argument = argument.trim();
    let argument = argument.split('(').next().unwrap_or(argument);
    match argument.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => argument.parse().ok(),
    }
}

/// The text that an argument points at.
fn path(arguments: &str) -> Option<&str> {
    let (_, rest) = arguments.split_once('(')?;
    Some(rest.rsplit_once(')')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_understood() {
        let mmap =
            "sys_mmap ( 0x0, 16400, 1, 2050, 4, 8192 ) --> [pre-success] Success(0x4837000) ";
        let map = Call::Map {
            bytes: 16400,
            flags: 2050,
            descriptor: 4,
            offset: 8192,
        };
        assert_eq!(parse(mmap), Some(map));
        let open = "sys_openat ( 4294967196, 0x10a0(/tmp/a, (b)), 524288 ) --> [async] ... ";
        let path = "/tmp/a, (b)".to_owned();
        assert_eq!(parse(open), Some(Call::Open { path }));
        let fcntl = "sys_fcntl[ARG3=='arg'] ( 4, 0, 20 )[sync] --> Success(0x14) ";
        assert_eq!(parse(fcntl), Some(Call::Duplicate { descriptor: 4 }));
        let close = "sys_close ( 4 )[sync] --> Success(0x0) ";
        assert_eq!(parse(close), Some(Call::Close { descriptor: 4 }));
        for text in [
            "",
            "sys_mmap",
            "sys_mmap (",
            "sys_mmap ( 0x0 )",
            "sys_brk",
            "x ) --> (",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn results_are_understood() {
        assert_eq!(
            succeeded("[pre-success] Success(0x4035000) "),
            Some(0x403_5000)
        );
        assert_eq!(succeeded("Success(0x4)"), Some(4));
        assert_eq!(succeeded("Failure(0x2)"), None);
        assert_eq!(succeeded("[async] ... "), None);
    }
}
