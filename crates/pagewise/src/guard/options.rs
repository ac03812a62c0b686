//! What the command line says, and how it reaches the preloaded library.

use std::str::FromStr;

use pagewise_abi::guard as abi;
use pagewise_host::MemorySize;

use super::GuardArguments;
use super::session::Side;

/// The smallest limit of memory, bytes: half a chunk of objects' addresses.
const LEAST_MEMORY: u64 = 1 << 20;

/// How objects are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Auto,
    To(u8),
}

impl FromStr for Align {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "1" | "2" | "4" | "8" | "16" => text.parse().map(Self::To).map_err(|_| String::new()),
            _ => Err("it is auto, 1, 2, 4, 8 or 16".to_owned()),
        }
    }
}

/// One object in so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample(u32);

impl FromStr for Sample {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let every = text.strip_prefix("1/").and_then(|every| every.parse().ok());
        every
            .filter(|&every| every > 0)
            .map(Self)
            .ok_or_else(|| "it is 1/N, such as 1/1000".to_owned())
    }
}

/// Bytes, as `64M`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(MemorySize::Bytes(bytes)) => Ok(bytes),
        _ => Err("it is a size such as 64 or 4K".to_owned()),
    }
}

/// A byte, decimal or as `0xaa`.
pub(super) fn byte(text: &str) -> Result<u8, String> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    value.map_err(|_| "it is a byte: 0 to 255, or 0x00 to 0xff".to_owned())
}

/// A limit of memory: bytes, as `64M`.
pub(super) fn limit(text: &str) -> Result<u64, String> {
    size(text)
        .ok()
        .filter(|&bytes| bytes >= LEAST_MEMORY)
        .ok_or_else(|| "it is a size of at least 1M, such as 64M".to_owned())
}

/// The options for one run, as the library reads them.
pub(super) fn of(arguments: &GuardArguments, side: Side) -> String {
    let mut options = Vec::new();
    for (is_wanted, name) in [
        (arguments.keep_going, abi::OPTION_KEEP_GOING),
        (
            arguments.suppressions.is_some() && !arguments.keep_going,
            abi::OPTION_ASK,
        ),
        (arguments.leaks, abi::OPTION_LEAKS),
        (arguments.mprotect, abi::OPTION_MPROTECT),
        (arguments.overlap, abi::OPTION_OVERLAP),
        (side == Side::Begin, abi::OPTION_BEGIN),
        (arguments.stop, abi::OPTION_STOP),
        (arguments.core, abi::OPTION_CORE),
    ] {
        if is_wanted {
            options.push(name.to_owned());
        }
    }
    if let Align::To(bytes) = arguments.align {
        options.push(format!("{}{bytes}", abi::OPTION_ALIGN));
    }
    if arguments.sample != Sample(1) {
        options.push(format!("{}{}", abi::OPTION_SAMPLE, arguments.sample.0));
    }
    if let Some(byte) = arguments.fill {
        options.push(format!("{}{byte}", abi::OPTION_FILL));
    }
    for (size, name) in [
        (arguments.memory, abi::OPTION_MEMORY),
        (arguments.min, abi::OPTION_MIN),
        (arguments.max, abi::OPTION_MAX),
    ] {
        if let Some(size) = size {
            options.push(format!("{name}{size}"));
        }
    }
    options.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_decimal_or_of_two_digits() {
        assert_eq!(byte("170"), byte("0xaa"));
        assert_eq!(byte("0"), Ok(0));
        for wrong in ["", "256", "0x100", "-1", "aa"] {
            assert!(byte(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_are_one_in_so_many() {
        assert_eq!("1/1000".parse(), Ok(Sample(1000)));
        for wrong in ["", "1/0", "2/3", "0.1", "1/-3", "1000"] {
            assert!(wrong.parse::<Sample>().is_err(), "{wrong}");
        }
    }
}
