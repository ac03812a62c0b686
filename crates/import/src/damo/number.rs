//! Numbers and times as damo writes them: for machines (`539809434100`) or for people (`8 m 59.809 s`, `94,827`).

use serde::Deserialize;

/// A number in JSON: as one, or as text.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub(super) enum Quantity {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
}

impl Quantity {
    /// A count, an address or an id.
    pub(super) fn integer(&self) -> Result<i128, String> {
        match self {
            Self::Unsigned(value) => Ok((*value).into()),
            Self::Signed(value) => Ok((*value).into()),
            Self::Float(value) => whole(*value).ok_or_else(|| format!("{value} is no integer")),
            Self::Text(text) => integer(text),
        }
    }

    /// A time in ns.
    pub(super) fn time_ns(&self) -> Result<u64, String> {
        match self {
            Self::Text(text) => time_ns(text),
            Self::Float(value) => rounded(*value, &value.to_string()),
            number => narrowed(number.integer()?),
        }
    }

    /// A time in us, or with a unit; as ns.
    pub(super) fn microseconds_as_ns(&self) -> Result<u64, String> {
        let thousandfold = |value: i128| narrowed(value.saturating_mul(1000));
        match self {
            Self::Text(text) => match integer(text) {
                Ok(value) => thousandfold(value),
                Err(_) => time_ns(text),
            },
            Self::Float(value) => rounded(value * 1000.0, &value.to_string()),
            number => thousandfold(number.integer()?),
        }
    }
}

/// An integer that fits, or what is wrong with it.
pub(super) fn narrowed<T: TryFrom<i128>>(value: i128) -> Result<T, String> {
    T::try_from(value).map_err(|_| {
        let what = if value < 0 { "negative" } else { "too large" };
        format!("{value} is {what}")
    })
}

fn whole(value: f64) -> Option<i128> {
    (value.is_finite() && value.fract() == 0.0).then_some(value as i128)
}

/// An integer, maybe with commas between its digits.
pub(super) fn integer(text: &str) -> Result<i128, String> {
    let digits: String = text.trim().chars().filter(|&digit| digit != ',').collect();
    if digits == "max" {
        return Ok(u64::MAX.into());
    }
    digits
        .parse()
        .map_err(|_| format!("{text:?} is no integer"))
}

/// A time in ns: parts such as `8 m 59.809 s`, or a number alone.
pub(super) fn time_ns(text: &str) -> Result<u64, String> {
    if let Ok(value) = integer(text) {
        return narrowed(value);
    }
    let mut sum: u64 = 0;
    let mut words = text.split_whitespace();
    let mut any = false;
    while let Some(number) = words.next() {
        let unit = words.next().and_then(unit_ns);
        let unit = unit.ok_or_else(|| format!("{text:?} is no time"))?;
        let part = part_ns(number, unit).ok_or_else(|| format!("{text:?} is no time"))?;
        sum = sum
            .checked_add(part)
            .ok_or_else(|| format!("{text:?} is too long a time"))?;
        any = true;
    }
    if any {
        Ok(sum)
    } else {
        Err("a time is missing".to_owned())
    }
}

fn unit_ns(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        "d" => 86_400 * 1_000_000_000,
        _ => return None,
    })
}

fn part_ns(number: &str, unit: u64) -> Option<u64> {
    if let Ok(value) = integer(number) {
        return u64::try_from(value).ok()?.checked_mul(unit);
    }
    let value: f64 = number.parse().ok()?;
    rounded(value * unit as f64, number).ok()
}

fn rounded(value: f64, text: &str) -> Result<u64, String> {
    // u64::MAX as f64 is one more than it.
    if value.is_finite() && value >= 0.0 && value < u64::MAX as f64 {
        Ok(value.round() as u64)
    } else {
        Err(format!("{text} is out of range"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_for_machines_and_people() {
        for (text, expected) in [
            ("539809434100", 539_809_434_100),
            ("0 ns", 0),
            ("104.599 ms", 104_599_000),
            ("8 m 59.809 s", 539_809_000_000),
            ("1 h 2 m 3 s", 3_723_000_000_000),
            ("8 m 59 s 809 ms 434 us 100 ns", 539_809_434_100),
        ] {
            assert_eq!(time_ns(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "ns",
            "3",
            "-3",
            "3 x",
            "1e400 s",
            "99999999999 d",
            "NaN s",
            "-1 s",
            "5 s 3",
        ] {
            assert_eq!(time_ns(text).is_ok(), text == "3", "{text}");
        }
    }

    #[test]
    fn integers_with_and_without_commas() {
        assert_eq!(integer("94,827,419,009,024"), Ok(94_827_419_009_024));
        assert_eq!(integer("-1"), Ok(-1));
        assert_eq!(integer("max"), Ok(u64::MAX.into()));
        assert!(integer("1.5").is_err() && integer("").is_err());
        assert_eq!(
            narrowed::<u32>(1 << 32),
            Err("4294967296 is too large".to_owned())
        );
        assert_eq!(narrowed::<u64>(-1), Err("-1 is negative".to_owned()));
        assert!(
            Quantity::Float(1e300)
                .integer()
                .and_then(narrowed::<u64>)
                .is_err()
        );
    }

    #[test]
    fn microseconds_may_have_a_unit() {
        let ns = |text: &str| Quantity::Text(text.to_owned()).microseconds_as_ns();
        assert_eq!(ns("5000"), Ok(5_000_000));
        assert_eq!(ns("5 ms"), Ok(5_000_000));
        assert_eq!(ns("100,000"), Ok(100_000_000));
    }
}
