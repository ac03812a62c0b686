//! What a recording is called in the data set: partition, service, release, and the number that tells it from others.

use std::path::Path;

use pagewise_trace::Meta;
use pagewise_trace::Space;
use pagewise_trace::Trace;
use sha2::Digest;
use sha2::Sha256;

use super::date;
use super::error::FleetError;

/// What a user calls a recording; what is `None` comes from the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// The machine. Else the name that it has itself.
    pub host: Option<String>,
    /// The day, `YYYY-MM-DD`. Else the day on which the recording began, UTC.
    pub date: Option<String>,
    /// What the program is a part of. Else the file name of the command, or of the cgroup.
    pub service: Option<String>,
    /// The program's version. Else the GNU build id of its executable.
    pub release: Option<String>,
}

/// The same, complete but for what nobody knows.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) host: String,
    pub(super) date: String,
    pub(super) service: Option<String>,
    pub(super) release: Option<String>,
}

impl Known {
    pub(super) fn host_folder(&self) -> String {
        format!("host={}", self.host)
    }

    pub(super) fn date_folder(&self) -> String {
        format!("date={}", self.date)
    }
}

impl Labels {
    pub(super) fn resolve(&self, trace: &Trace) -> Result<Known, FleetError> {
        let meta = trace.meta();
        let spaces = trace.spaces()?;
        let start = meta.clock.start_realtime_ns;
        Ok(Known {
            host: self.host(meta)?,
            date: self.date(start)?,
            service: self.service.clone().or_else(|| service(meta, &spaces)),
            release: self.release.clone().or_else(|| build_id(meta, &spaces)),
        })
    }

    fn host(&self, meta: &Meta) -> Result<String, FleetError> {
        let host = self.host.clone().or_else(|| meta.host.name.clone());
        let host = host.ok_or(FleetError::Unlabelled {
            what: "on which machine it was made",
            option: "host",
            example: "NAME",
            value: "web-17",
        })?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_plain) {
            return Err(FleetError::Host(host));
        }
        Ok(host)
    }

    fn date(&self, start_realtime_ns: Option<u64>) -> Result<String, FleetError> {
        match (&self.date, start_realtime_ns) {
            (Some(date), _) if date::is_one(date) => Ok(date.clone()),
            (Some(date), _) => Err(FleetError::Date(date.clone())),
            (None, Some(ns)) => Ok(date::of_unix_ns(ns)),
            (None, None) => Err(FleetError::Unlabelled {
                what: "when it was made",
                option: "date",
                example: "YYYY-MM-DD",
                value: "2026-11-22",
            }),
        }
    }
}

fn file_name(path: &str) -> Option<String> {
    let name = Path::new(path).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

fn service(meta: &Meta, spaces: &[Space]) -> Option<String> {
    let cgroup = meta.running.cgroup.as_deref();
    let named = meta.command.first().map(String::as_str).or(cgroup);
    let running = || spaces.first().map(|space| space.command.clone());
    named.and_then(file_name).or_else(running)
}

/// Of the program that was started, or of the first process that ran.
fn build_id(meta: &Meta, spaces: &[Space]) -> Option<String> {
    let command = meta.command.first().and_then(|path| file_name(path));
    let executables = || spaces.iter().filter_map(|space| space.executable.as_ref());
    let executable = match command {
        Some(command) => executables().find(|path| file_name(path).as_ref() == Some(&command)),
        None => executables().next(),
    };
    meta.build_ids.get(executable?).cloned()
}

/// Sixteen hexadecimal digits of what was observed and when: a copy of a recording has the same, another recording
/// of the same program another.
pub(super) fn identity(meta: &Meta) -> String {
    let mut digest = Sha256::new();
    let clock = &meta.clock;
    digest.update(format!(
        "{:?} {:?} {:?}",
        clock.start_realtime_ns, clock.start_monotonic_ns, meta.command
    ));
    for (table, sums) in &meta.checksums {
        digest.update(format!(" {table} {} {}", sums.bytes, sums.crc32));
    }
    let digits = digest.finalize();
    digits[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
