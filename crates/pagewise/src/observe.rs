//! Arguments of `record` that say what to observe, and for how long.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use pagewise_host::MemorySize;

/// A year: longer than any recording, and far from the ends of the clocks.
const LONGEST: f64 = 366.0 * 86400.0;

/// What runs already.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Running {
    /// Record these running processes with their children (comma-separated); Ctrl-C ends it, they go on
    #[arg(long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["program", "cgroup"], allow_negative_numbers = true)]
    pub(crate) pid: Vec<u32>,
    /// Record all processes of a cgroup: its path, a systemd unit (redis.service), or a container's name or id
    #[arg(long, value_name = "CGROUP", conflicts_with = "program")]
    pub(crate) cgroup: Option<String>,
}

impl Running {
    /// Whether anything but a program to start is meant.
    pub(crate) fn is_meant(&self) -> bool {
        !self.pid.is_empty() || self.cgroup.is_some()
    }
}

/// When to observe, and how much to keep.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Window {
    /// Observe for so long at most (10, 1.5, 500ms, 2m); a program that was started goes on to its end
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) duration: Option<TimeSpan>,
    /// Begin to observe so long after the start
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) delay: Option<TimeSpan>,
    /// Keep only the last TIME (or what fits into --max-size), in memory; SIGUSR1 writes it to FOLDER.DATE, the end to
    /// FOLDER
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1y",
        allow_negative_numbers = true
    )]
    pub(crate) snapshot: Option<TimeSpan>,
    /// Size of the recording at most (at least 1M): what comes later is counted by second and region of 2 MiB. With
    /// --snapshot: memory to keep it in [default: 64M]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) max_size: Option<MemorySize>,
}

/// A length of time as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSpan(pub(crate) Duration);

impl fmt::Display for TimeSpan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.0)
    }
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text.trim()).map_err(|why| {
            format!("{text:?} is not a time: {why}; write for example 10 (seconds), 1.5, 500ms, 2m or 1h")
        })
    }
}

fn parse(text: &str) -> Result<TimeSpan, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.starts_with('-') {
        return Err("it is negative");
    }
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('.') {
        return Err("it does not start with a number");
    }
    let number: f64 = number
        .parse()
        .map_err(|_| "the number has more than one point")?;
    let seconds = number
        * match unit {
            "us" => 1e-6,
            "ms" => 1e-3,
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            "y" => LONGEST,
            _ => return Err("the unit is not one of us ms s m h d"),
        };
    if seconds > LONGEST {
        return Err("it is more than a year");
    }
    let span = Duration::from_secs_f64(seconds);
    if span.is_zero() {
        return Err("it is zero");
    }
    Ok(TimeSpan(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_people_type() {
        for (text, milliseconds) in [
            ("10", 10_000),
            ("1.5", 1500),
            ("500ms", 500),
            ("2m", 120_000),
            ("0.5s", 500),
            ("1h", 3_600_000),
            (" 3 ", 3000),
        ] {
            let expected = TimeSpan(Duration::from_millis(milliseconds));
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert_eq!("250us".parse(), Ok(TimeSpan(Duration::from_micros(250))));
    }

    #[test]
    fn nonsense_is_refused_with_examples() {
        for text in [
            "",
            " ",
            "-1",
            "-500ms",
            "0",
            "0.0",
            "0ms",
            "abc",
            "s",
            ".5",
            "5.",
            "1.2.3",
            "5 s",
            "5S",
            "NaN",
            "inf",
            "1e3",
            "2y",
            "99999999999999999999",
            "+5",
        ] {
            let error = text.parse::<TimeSpan>().expect_err(text);
            assert!(
                error.contains("is not a time") && error.contains("500ms"),
                "{error}"
            );
            assert!(!error.contains('\n'));
        }
    }
}
