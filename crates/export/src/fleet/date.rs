//! Days of the calendar, UTC.

const NS_OF_DAY: u64 = 86_400_000_000_000;
const DAYS_OF_ERA: u64 = 146_097; // 400 years
/// From the first of March of the year 0 to 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

/// The day of an instant in ns since 1970, as `2026-11-22`.
///
/// Years begin in March here, so that the day that some years have more is their last.
pub(super) fn of_unix_ns(ns: u64) -> String {
    let days = ns / NS_OF_DAY + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Whether a text is such a day.
pub(super) fn is_one(text: &str) -> bool {
    let fields: Vec<&str> = text.split('-').collect();
    let [year, month, day] = fields[..] else {
        return false;
    };
    let number = |field: &str, digits: usize| -> Option<u64> {
        let plain = field.len() == digits && field.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| field.parse().ok()).flatten()
    };
    match (number(year, 4), number(month, 2), number(day, 2)) {
        (Some(year), Some(month), Some(day)) => {
            day > 0 && day <= days_of_month(year, month).unwrap_or(0)
        }
        _ => false,
    }
}

fn days_of_month(year: u64, month: u64) -> Option<u64> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => Some(if is_leap { 29 } else { 28 }),
        4 | 6 | 9 | 11 => Some(30),
        1..=12 => Some(31),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_have_their_day() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_700_000_000, "2023-11-14"),
            (4_107_542_399, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(of_unix_ns(seconds * 1_000_000_000), day);
            assert!(is_one(day), "{day}");
        }
        assert!(is_one(&of_unix_ns(9_000_000_000_000_000_000)));
    }

    #[test]
    fn what_is_no_day_is_none() {
        for text in [
            "",
            "2026",
            "2026-11-22-1",
            "2026-13-01",
            "2026-00-01",
            "2026-11-31",
            "2026-02-29",
            "2100-02-29",
            "2026-1-2",
            "+026-11-22",
            "2026-11-00",
            "22-11-2026",
            "2026-11-2\u{0662}",
        ] {
            assert!(!is_one(text), "{text}");
        }
    }
}
