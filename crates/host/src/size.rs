//! Sizes as people type them: `512M`, `1.5G`, `2500p`, `60%`.

use crate::error::Error;
use crate::error::Result;
use std::fmt;
use std::str::FromStr;

/// Largest percentage of the peak that makes sense to ask for.
const MAX_PERCENT: f64 = 1000.0;

/// An amount of memory. Suffixes are powers of 1024: K, M, G, T, also with `iB` (`512MiB`); `p` counts
/// base pages; `%` is a part of the program's peak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MemorySize {
    /// Bytes.
    Bytes(u64),
    /// Base pages.
    Pages(u64),
    /// Percent of the program's peak memory, above 0 and up to 1000.
    Percent(f64),
}

impl MemorySize {
    /// Bytes, at least one page. `peak` in bytes is needed for a percentage.
    ///
    /// # Errors
    /// [`Error::PeakUnknown`] for a percentage without a peak; [`Error::Size`] when the result does
    /// not fit or is less than a page.
    pub fn resolve(self, peak: Option<u64>, page_bytes: u64) -> Result<u64> {
        let bytes = match self {
            MemorySize::Bytes(bytes) => bytes,
            MemorySize::Pages(pages) => pages
                .checked_mul(page_bytes)
                .filter(|bytes| i64::try_from(*bytes).is_ok())
                .ok_or_else(|| self.refuse("it is more than any machine has"))?,
            MemorySize::Percent(percent) => {
                let peak = peak.ok_or(Error::PeakUnknown { percent })?;
                (peak as f64 * (percent / 100.0)) as u64
            }
        };
        if bytes < page_bytes {
            return Err(self.refuse("it is less than one page"));
        }
        Ok(bytes)
    }

    fn refuse(self, why: &'static str) -> Error {
        Error::Size {
            text: self.to_string(),
            why,
        }
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemorySize::Bytes(bytes) => {
                let units = [
                    ('T', 1_u64 << 40),
                    ('G', 1 << 30),
                    ('M', 1 << 20),
                    ('K', 1 << 10),
                ];
                match units
                    .iter()
                    .find(|(_, unit)| *bytes >= *unit && bytes % unit == 0)
                {
                    Some((letter, unit)) => write!(f, "{}{letter}", bytes / unit),
                    None => write!(f, "{bytes}"),
                }
            }
            MemorySize::Pages(pages) => write!(f, "{pages}p"),
            MemorySize::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for MemorySize {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text.trim()).map_err(|why| Error::Size {
            text: text.to_owned(),
            why,
        })
    }
}

fn parse(text: &str) -> std::result::Result<MemorySize, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.starts_with('-') {
        return Err("it is negative");
    }
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number = Number::parse(number)?;
    if number.value == 0.0 {
        return Err("it is zero");
    }
    match suffix {
        "p" => number.whole().map(MemorySize::Pages),
        "%" if number.value > MAX_PERCENT => Err("it is more than 1000 percent"),
        "%" => Ok(MemorySize::Percent(number.value)),
        "" => number.whole().and_then(fits).map(MemorySize::Bytes),
        _ => number
            .times(unit(suffix)?)
            .and_then(fits)
            .map(MemorySize::Bytes),
    }
}

fn unit(suffix: &str) -> std::result::Result<u64, &'static str> {
    let letter = suffix.strip_suffix("iB").unwrap_or(suffix);
    match letter {
        "K" | "k" => Ok(1 << 10),
        "M" | "m" => Ok(1 << 20),
        "G" | "g" => Ok(1 << 30),
        "T" | "t" => Ok(1 << 40),
        _ => Err("the suffix is not one of K M G T p %"),
    }
}

/// The kernel's limits are signed.
fn fits(bytes: u64) -> std::result::Result<u64, &'static str> {
    match i64::try_from(bytes) {
        Ok(_) if bytes > 0 => Ok(bytes),
        Ok(_) => Err("it is less than one byte"),
        Err(_) => Err("it is more than any machine has"),
    }
}

/// A decimal number, exact when it has no fraction.
struct Number {
    exact: Option<u64>,
    value: f64,
}

impl Number {
    fn parse(digits: &str) -> std::result::Result<Self, &'static str> {
        if !digits.starts_with(|c: char| c.is_ascii_digit()) || digits.ends_with('.') {
            return Err("it does not start with a number");
        }
        let value: f64 = digits
            .parse()
            .map_err(|_| "the number has more than one point")?;
        if digits.contains('.') {
            return Ok(Number { exact: None, value });
        }
        let exact = digits
            .parse()
            .map_err(|_| "it is more than any machine has")?;
        Ok(Number {
            exact: Some(exact),
            value,
        })
    }

    fn whole(&self) -> std::result::Result<u64, &'static str> {
        self.exact.ok_or("bytes and pages come in whole numbers")
    }

    fn times(&self, unit: u64) -> std::result::Result<u64, &'static str> {
        match self.exact {
            Some(exact) => exact
                .checked_mul(unit)
                .ok_or("it is more than any machine has"),
            // `as` saturates, so what does not fit is refused by the caller.
            None => Ok((self.value * unit as f64) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_people_type() {
        let table = [
            ("512M", MemorySize::Bytes(512 << 20)),
            ("2G", MemorySize::Bytes(2 << 30)),
            ("1.5G", MemorySize::Bytes(3 << 29)),
            ("64K", MemorySize::Bytes(64 << 10)),
            ("64k", MemorySize::Bytes(64 << 10)),
            ("1T", MemorySize::Bytes(1 << 40)),
            ("512MiB", MemorySize::Bytes(512 << 20)),
            (" 123456 ", MemorySize::Bytes(123_456)),
            ("2500p", MemorySize::Pages(2500)),
            ("60%", MemorySize::Percent(60.0)),
            ("12.5%", MemorySize::Percent(12.5)),
            ("150%", MemorySize::Percent(150.0)),
            ("1000%", MemorySize::Percent(1000.0)),
            ("9007199254740993", MemorySize::Bytes(9_007_199_254_740_993)),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<MemorySize>().expect(text), expected, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_on_one_line_with_examples() {
        for text in [
            "",
            " ",
            "-5M",
            "0",
            "0%",
            "0p",
            "0.0G",
            "NaN",
            "inf",
            "1e3",
            "M",
            "%",
            ".5G",
            "5.",
            "1.2.3G",
            "1001%",
            "12X",
            "12MB",
            "5 M",
            "1.5p",
            "1.5",
            "99999999999T",
            "18446744073709551616",
            "8388608T",
            "9.9e9G",
            "0.0001K",
            "٣M",
            "1P",
            "+5M",
        ] {
            let error = text.parse::<MemorySize>().expect_err(text).to_string();
            assert!(error.contains("60%") && error.contains("512M"), "{error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn display_reads_back() {
        for text in ["512M", "3G", "1536M", "123457", "2500p", "60%", "12.5%"] {
            assert_eq!(text.parse::<MemorySize>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn a_percentage_needs_a_peak() {
        let sixty = MemorySize::Percent(60.0);
        assert_eq!(
            sixty.resolve(Some(1000 << 20), 4096).expect("resolves"),
            600 << 20
        );
        let error = sixty.resolve(None, 4096).expect_err("unknown").to_string();
        assert!(
            error.contains("--peak SIZE") && error.contains("--measure-peak"),
            "{error}"
        );
    }

    #[test]
    fn less_than_a_page_or_too_many_pages_is_refused() {
        assert!(MemorySize::Bytes(4095).resolve(None, 4096).is_err());
        assert!(MemorySize::Percent(1.0).resolve(Some(4096), 4096).is_err());
        assert!(MemorySize::Pages(u64::MAX / 2).resolve(None, 4096).is_err());
        assert_eq!(
            MemorySize::Pages(3).resolve(None, 16384).expect("resolves"),
            49152
        );
    }
}
