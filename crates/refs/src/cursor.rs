//! Reading numbers out of bytes, a word at a time.

/// Why a line is not of its format: what it should be.
pub(crate) type Expected = &'static str;

/// A place in a padded block. Parsing never goes beyond the newline that ends the block's last line.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The byte here.
    #[inline]
    pub(crate) fn peek(&self) -> u8 {
        self.bytes[self.at]
    }

    /// The next eight bytes, the first one lowest.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        let bytes = self.bytes[self.at..self.at + 8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes"))
    }

    /// Goes on if this byte is here.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        // With a branch: optimized, some rustc lose `at += usize::from(found)` (rust-lang/rust issue 158206, to 1.97.0).
        if self.peek() == byte {
            self.at += 1;
            return true;
        }
        false
    }

    /// Goes on if this word of at most eight letters is here.
    #[inline]
    pub(crate) fn take_word(&mut self, word: &[u8]) -> bool {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            return true;
        }
        false
    }

    /// Goes on over spaces and tabs; tells whether there were any.
    #[inline]
    pub(crate) fn blanks(&mut self) -> bool {
        let start = self.at;
        while matches!(self.peek(), b' ' | b'\t') {
            self.at += 1;
        }
        self.at > start
    }

    /// Goes on over the end of the line, which blanks and a carriage return may precede.
    #[inline]
    pub(crate) fn end_of_line(&mut self) -> bool {
        if self.take(b'\n') {
            return true;
        }
        self.blanks();
        self.take(b'\r');
        self.take(b'\n')
    }

    /// Goes on to the next line; returns what is left of this one.
    #[inline]
    pub(crate) fn rest_of_line(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len() - 1);
        self.at += length + 1;
        &rest[..length]
    }

    /// A decimal number below 2^64; `None` (and no telling where the cursor then is) if there is none.
    #[inline]
    pub(crate) fn decimal(&mut self) -> Option<u64> {
        let word = self.word();
        let (first, second) = (word as u8, (word >> 8) as u8);
        if first.is_ascii_digit() && !second.is_ascii_digit() {
            self.at += 1;
            return Some(u64::from(first - b'0'));
        }
        let digits = leading_digits(word);
        if digits == 0 {
            return None;
        }
        self.at += digits as usize;
        let value = digits_value(word, digits);
        if digits < 8 {
            return Some(value);
        }
        self.more_decimals(value)
    }

    #[inline(never)]
    fn more_decimals(&mut self, mut value: u64) -> Option<u64> {
        while self.peek().is_ascii_digit() {
            let digit = u64::from(self.peek() - b'0');
            value = value.checked_mul(10)?.checked_add(digit)?;
            self.at += 1;
        }
        Some(value)
    }

    /// A hexadecimal number below 2^64 without prefix.
    #[inline]
    pub(crate) fn hexadecimal(&mut self) -> Option<u64> {
        let start = self.at;
        let mut value = 0;
        loop {
            let digit = HEX[usize::from(self.peek())];
            if digit > 15 {
                break;
            }
            value = value << 4 | u64::from(digit);
            self.at += 1;
        }
        let digits = self.at - start;
        (1..=16).contains(&digits).then_some(value).or_else(|| {
            // Leading zeros do no harm.
            let zeros = digits.checked_sub(16)?;
            let leading = &self.bytes[start..start + zeros];
            (digits > 16 && leading.iter().all(|byte| *byte == b'0')).then_some(value)
        })
    }

    /// A hexadecimal number with `0x` before it, or without.
    #[inline]
    pub(crate) fn address(&mut self) -> Option<u64> {
        if self.peek() == b'0' && self.bytes[self.at + 1] | 0x20 == b'x' {
            self.at += 2;
        }
        self.hexadecimal()
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// How many of a word's bytes, from the lowest on, are decimal digits.
#[inline]
fn leading_digits(word: u64) -> u32 {
    // Digits become 0 to 9; adding 0x76 then sets the highest bit of all others. Carries go upwards only, to bytes that no
    // longer matter.
    let values = word ^ (ONES * 0x30);
    let others = (values.wrapping_add(ONES * 0x76) | values) & (ONES * 0x80);
    others.trailing_zeros() / 8
}

/// The value of the lowest `digits` bytes (1 to 8) of a word, which are decimal digits.
#[inline]
fn digits_value(word: u64, digits: u32) -> u64 {
    // As eight digits: leading zeros take the place of what follows the number.
    let values = ((word ^ (ONES * 0x30)) << (64 - 8 * digits)) & (ONES * 0x0f);
    // Neighbours are joined to pairs, these to fours, these to eight.
    let pairs = (values * 10 + (values >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
}

/// Values of hexadecimal digits; 255 for other bytes.
static HEX: [u8; 256] = {
    let mut values = [255; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with(text: &str, read: impl Fn(&mut Cursor<'_>) -> Option<u64>) -> (Option<u64>, usize) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend([b'\n'; 1]);
        bytes.extend([0; 32]);
        let mut cursor = Cursor::new(&bytes, 0);
        let value = read(&mut cursor);
        (value, cursor.at)
    }

    proptest! {
        #[test]
        fn decimals(number in prop_oneof![any::<u64>(), 0..1_000_000_000_u64], zeros in 0..12_usize, after in "[^0-9].{0,9}") {
            let digits = format!("{}{number}", "0".repeat(zeros));
            let (value, at) = with(&format!("{digits}{after}"), |cursor| cursor.decimal());
            prop_assert_eq!((value, at), (Some(number), digits.len()));
        }

        #[test]
        fn hexadecimals(number: u64, after in "[^0-9a-fA-F].{0,9}") {
            let digits = format!("{number:08x}");
            let (value, at) = with(&format!("{digits}{after}"), |cursor| cursor.hexadecimal());
            prop_assert_eq!((value, at), (Some(number), digits.len()));
            let (value, _) = with(&format!("0X{number:020X}{after}"), |cursor| cursor.address());
            prop_assert_eq!(value, Some(number));
        }
    }

    #[test]
    fn what_is_no_number() {
        for text in [
            "",
            " 1",
            "x",
            "18446744073709551616",
            "99999999999999999999",
            "-1",
            "\u{b2}",
        ] {
            assert_eq!(with(text, |cursor| cursor.decimal()).0, None, "{text}");
        }
        for text in ["", "g", "10000000000000000", "0x", "0xg"] {
            assert_eq!(with(text, |cursor| cursor.address()).0, None, "{text}");
        }
    }
}
