//! The key of an allocation site: a hash over its call path that survives address randomisation and rebuilds of other files.

use std::fmt;
use std::str::FromStr;

use sha2::Digest;
use sha2::Sha256;

use crate::model::Frame;

/// The first 64 bits of the SHA-256 of a call path, shown as 16 hexadecimal digits.
///
/// Each frame is hashed as the line `MODULE` NUL `FUNCTION` NUL `OFFSET` newline, or, without a function, `BUILD-ID` NUL NUL
/// `MODULE OFFSET` newline; offsets in hexadecimal digits without prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site(pub u64);

impl Site {
    /// The key of a call path, innermost frame first.
    pub fn of(path: &[Frame]) -> Self {
        let mut hash = Sha256::new();
        for frame in path {
            let line = match (&frame.function, &frame.build_id) {
                (Some((function, offset)), _) => {
                    format!("{}\0{function}\0{offset:x}\n", frame.module)
                }
                (None, build_id) => format!(
                    "{}\0\0{:x}\n",
                    build_id.as_deref().unwrap_or_default(),
                    frame.module_offset
                ),
            };
            hash.update(line.as_bytes());
        }
        let digest = hash.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        Self(u64::from_be_bytes(first))
    }
}

impl fmt::Display for Site {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl FromStr for Site {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let lower = text.bytes().all(|byte| !byte.is_ascii_uppercase());
        if !digits || !lower {
            return Err(());
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: Option<(&str, u64)>, module_offset: u64) -> Frame {
        Frame {
            module: "solver".to_owned(),
            build_id: Some("abcd".to_owned()),
            function: function.map(|(name, offset)| (name.to_owned(), offset)),
            module_offset,
        }
    }

    #[test]
    fn a_rebuild_that_moves_functions_keeps_the_key() {
        let before = Site::of(&[frame(Some(("main", 0x1b2)), 0x41b2)]);
        let mut moved = frame(Some(("main", 0x1b2)), 0x99b2);
        moved.build_id = None;
        assert_eq!(before, Site::of(&[moved]));
        assert_ne!(before, Site::of(&[frame(Some(("main", 0x1b3)), 0x41b2)]));
    }

    #[test]
    fn without_symbols_the_build_and_the_offset_count() {
        let before = Site::of(&[frame(None, 0x41b2)]);
        assert_ne!(before, Site::of(&[frame(None, 0x41b3)]));
        let mut other = frame(None, 0x41b2);
        other.build_id = Some("abce".to_owned());
        assert_ne!(before, Site::of(&[other]));
    }

    #[test]
    fn the_key_is_the_documented_hash() {
        // printf 'solver\0main\0001b2\n' | sha256sum
        let site = Site::of(&[frame(Some(("main", 0x1b2)), 0x41b2)]);
        assert_eq!(site.to_string(), "cb8fd3dd44a0a9d2");
        assert_eq!(site.to_string().parse(), Ok(site));
        for wrong in [
            "",
            "cb8fd3dd44a0a9d20",
            "0123456789ABCDEF",
            "+123456789abcdef",
        ] {
            assert_eq!(wrong.parse::<Site>(), Err(()), "{wrong}");
        }
    }
}
