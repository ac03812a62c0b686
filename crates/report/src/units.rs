//! Numbers for people: three digits, and the unit.

/// A time of so many ns, for example `2.9 us`.
pub fn duration(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => scaled(ns / 1e3, "us"),
        _ if ns < 1e9 => scaled(ns / 1e6, "ms"),
        _ => scaled(ns / 1e9, "s"),
    }
}

/// A size, in powers of 1024, for example `190 MiB`.
pub fn bytes(bytes: u64) -> String {
    const KIB: f64 = 1024.0;
    let size = bytes as f64;
    match size {
        _ if size < KIB => format!("{bytes} B"),
        _ if size < KIB * KIB => scaled(size / KIB, "KiB"),
        _ if size < KIB * KIB * KIB => scaled(size / KIB / KIB, "MiB"),
        _ => scaled(size / KIB / KIB / KIB, "GiB"),
    }
}

/// A count with thin separators, for example `204,829`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share, for example `7.3 %`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let share = 100.0 * part as f64 / whole as f64;
    if share > 0.0 && share < 9.95 {
        format!("{share:.1} %")
    } else {
        format!("{share:.0} %")
    }
}

fn scaled(value: f64, unit: &str) -> String {
    let digits = if value < 9.95 { 1 } else { 0 };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_chosen_to_be_read() {
        assert_eq!(duration(0), "0 ns");
        assert_eq!(duration(2_940), "2.9 us");
        assert_eq!(duration(12_345_678_901), "12 s");
        assert_eq!(bytes(199_229_440), "190 MiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(count(0), "0");
        assert_eq!(count(204_829), "204,829");
        assert_eq!(count(1_000_000), "1,000,000");
    }

    #[test]
    fn shares_are_read_at_a_glance() {
        assert_eq!(percent(1, 3), "33 %");
        assert_eq!(percent(1, 100), "1.0 %");
        assert_eq!(percent(0, 0), "0 %");
    }
}
