//! The text of `damo report access --raw_form`, line by line:
//!
//! ```text
//! base_time_absolute: 8 m 59.809 s
//!
//! monitoring_start:                0 ns
//! monitoring_end:            104.599 ms
//! monitoring_duration:       104.599 ms
//! target_id: 18446623438842320000
//! nr_regions: 1
//! # start_addr     end_addr        length  nr_accesses   age
//! 563ebaa00000-563ebadf3000 (   3.949 MiB)           0    -1
//! ```

use std::io::BufRead;
use std::io::Read;

use super::Fault;
use super::number::integer;
use super::number::narrowed;
use super::number::time_ns;
use super::snapshot::Region;
use super::snapshot::Rows;
use super::snapshot::Snapshot;
use super::snapshot::Target;

/// damo's lines have less than 100 bytes.
const LONGEST_LINE: u64 = 4096;
/// DAMON itself is asked for at most some thousands.
const MOST_REGIONS: u64 = 1 << 20;

pub(super) fn read(mut input: impl BufRead, rows: &mut Rows<'_>) -> Result<(), Fault> {
    let mut reader = Reader::default();
    let mut line = Vec::new();
    let mut number = 0_u64;
    loop {
        line.clear();
        let taken = input
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line);
        let taken = taken.map_err(Fault::Read)?;
        number += 1;
        if taken as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
            return Err(Fault::Invalid(format!(
                "line {number} is longer than damo's"
            )));
        }
        if taken == 0 {
            return reader.end();
        }
        let text = std::str::from_utf8(&line)
            .map_err(|_| Fault::Invalid(format!("line {number} is no text")))?;
        reader
            .line(text.trim(), rows)
            .map_err(|fault| match fault {
                Fault::Invalid(detail) => Fault::Invalid(format!("line {number}: {detail}")),
                other => other,
            })?;
    }
}

/// What has been read of a snapshot.
#[derive(Default)]
struct Reader {
    base_ns: u64,
    start_ns: Option<u64>,
    end_ns: Option<u64>,
    target: Option<Target>,
    /// As announced.
    expected: Option<u64>,
    regions: Vec<Region>,
}

impl Reader {
    fn line(&mut self, line: &str, rows: &mut Rows<'_>) -> Result<(), Fault> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.starts_with(|first: char| first.is_ascii_hexdigit()) && line.contains('(') {
            return self.region(line, rows);
        }
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| Fault::Invalid(format!("{line:?} is nothing that damo writes")))?;
        let value = value.trim();
        let time = || time_ns(value).map_err(|error| Fault::Invalid(format!("{key}: {error}")));
        match key {
            "base_time_absolute" => {
                self.check_complete()?;
                self.base_ns = time()?;
            }
            "monitoring_start" => {
                self.check_complete()?;
                self.start_ns = Some(self.absolute(time()?)?);
            }
            "monitoring_end" => self.end_ns = Some(self.absolute(time()?)?),
            // The other two say it; of a tool for people, the words around may change.
            "monitoring_duration" | "data source" => {}
            "target_id" => self.target = Some(target(value)?),
            "nr_regions" => self.begin_regions(value, rows)?,
            _ => {
                return Err(Fault::Invalid(format!(
                    "{key:?} is nothing that damo writes"
                )));
            }
        }
        Ok(())
    }

    fn absolute(&self, relative_ns: u64) -> Result<u64, Fault> {
        let absolute = self.base_ns.checked_add(relative_ns);
        absolute.ok_or_else(|| Fault::Invalid("a time is too late".to_owned()))
    }

    fn begin_regions(&mut self, value: &str, rows: &mut Rows<'_>) -> Result<(), Fault> {
        let expected = integer(value).and_then(narrowed::<u64>);
        let expected = expected.map_err(|error| Fault::Invalid(format!("nr_regions: {error}")))?;
        if expected > MOST_REGIONS {
            return Err(Fault::Invalid(format!(
                "nr_regions: {expected} is too many"
            )));
        }
        self.expected = Some(expected);
        if expected == 0 {
            self.finish(rows)
        } else {
            Ok(())
        }
    }

    fn region(&mut self, line: &str, rows: &mut Rows<'_>) -> Result<(), Fault> {
        let Some(expected) = self.expected else {
            return Err(Fault::Invalid(
                "a region comes before its nr_regions, or is one too many".to_owned(),
            ));
        };
        let region =
            parse_region(line).map_err(|error| Fault::Invalid(format!("{line:?}: {error}")))?;
        self.regions.push(region);
        if self.regions.len() as u64 == expected {
            self.finish(rows)
        } else {
            Ok(())
        }
    }

    /// Hands on a snapshot that is complete.
    fn finish(&mut self, rows: &mut Rows<'_>) -> Result<(), Fault> {
        let missing = |what: &str| Fault::Invalid(format!("{what} is missing before nr_regions"));
        // Several targets may share one interval: its times stay.
        let snapshot = Snapshot {
            start_ns: self.start_ns.ok_or_else(|| missing("monitoring_start"))?,
            end_ns: self.end_ns.ok_or_else(|| missing("monitoring_end"))?,
            checks: None,
            regions: std::mem::take(&mut self.regions),
        };
        let target = self.target.take().ok_or_else(|| missing("target_id"))?;
        self.expected = None;
        rows.add(&target, snapshot)
    }

    fn check_complete(&self) -> Result<(), Fault> {
        match self.expected {
            None => Ok(()),
            Some(expected) => Err(Fault::Invalid(format!(
                "the snapshot before has {} of {expected} regions",
                self.regions.len()
            ))),
        }
    }

    fn end(&self) -> Result<(), Fault> {
        match (self.expected, &self.target) {
            (Some(expected), _) => Err(Fault::Truncated(format!(
                "the last snapshot has {} of {expected} regions",
                self.regions.len()
            ))),
            (None, Some(_)) => Err(Fault::Truncated(
                "the last snapshot has no nr_regions".to_owned(),
            )),
            (None, None) => Ok(()),
        }
    }
}

fn target(value: &str) -> Result<Target, Fault> {
    let id = match value {
        "None" => None,
        number => {
            Some(integer(number).map_err(|error| Fault::Invalid(format!("target_id: {error}")))?)
        }
    };
    Ok(Target {
        id,
        ..Target::default()
    })
}

/// `563ebaa00000-563ebadf3000 (   3.949 MiB)           0    -1`, or, from older versions, `...(  31.617 MiB):        1`.
fn parse_region(line: &str) -> Result<Region, String> {
    let (range, rest) = line.split_once('(').ok_or("no size")?;
    let (_size, counts) = rest.split_once(')').ok_or("no end of its size")?;
    let (start, end) = range.trim().split_once('-').ok_or("no range")?;
    let address =
        |text: &str| u64::from_str_radix(text, 16).map_err(|_| format!("{text:?} is no address"));
    let mut counts = counts.trim_start_matches(':').split_whitespace();
    let accesses = integer(counts.next().ok_or("no accesses")?)?;
    let age = counts.next().map(integer).transpose()?;
    if counts.next().is_some() {
        return Err("there is more than accesses and age".to_owned());
    }
    Ok(Region {
        start: address(start)?,
        end: address(end)?,
        accesses,
        age,
    })
}
