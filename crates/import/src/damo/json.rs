//! damo's JSON: a list of records, each of one target, each a list of snapshots. One snapshot is in memory at a time.

use std::fmt;
use std::io::BufReader;
use std::io::Read;

use serde::Deserialize;
use serde::Deserializer;
use serde::de::DeserializeSeed;
use serde::de::Error as _;
use serde::de::IgnoredAny;
use serde::de::MapAccess;
use serde::de::SeqAccess;
use serde::de::Visitor;

use super::Fault;
use super::metered::Allowance;
use super::metered::Metered;
use super::number::Quantity;
use super::number::narrowed;
use super::snapshot::Region;
use super::snapshot::Rows;
use super::snapshot::Snapshot;
use super::snapshot::Target;

pub(super) fn read(input: impl Read, rows: &mut Rows<'_>) -> Result<(), Fault> {
    let mut fault = None;
    let allowance = Allowance::new();
    let input = Metered {
        inner: input,
        allowance: &allowance,
    };
    // Reads byte by byte.
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(input));
    let records = Records {
        rows,
        fault: &mut fault,
        allowance: &allowance,
    };
    let result = records.deserialize(&mut json).and_then(|()| json.end());
    match (fault, result) {
        // What a visitor found is told better than through the parser.
        (Some(fault), _) => Err(fault),
        (None, Err(error)) => Err(syntax(error)),
        (None, Ok(())) => Ok(()),
    }
}

fn syntax(error: serde_json::Error) -> Fault {
    let text = error.to_string();
    match error.classify() {
        serde_json::error::Category::Eof => Fault::Truncated(text),
        serde_json::error::Category::Io => read_fault(error.into(), text),
        _ => Fault::Invalid(text),
    }
}

/// The decompressor's own errors come as those of reading.
fn read_fault(error: std::io::Error, text: String) -> Fault {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Fault::Truncated(text),
        std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData => Fault::Invalid(text),
        _ => Fault::Read(error),
    }
}

/// The whole document.
struct Records<'rows, 'sink> {
    rows: &'rows mut Rows<'sink>,
    fault: &'rows mut Option<Fault>,
    allowance: &'rows Allowance,
}

impl<'de> DeserializeSeed<'de> for Records<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Records<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of damo's records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut records: A) -> Result<(), A::Error> {
        while records
            .next_element_seed(Record {
                rows: self.rows,
                fault: self.fault,
                allowance: self.allowance,
                target: Target::default(),
                known: false,
                checks: None,
            })?
            .is_some()
        {}
        Ok(())
    }
}

/// One record: its target, then its snapshots.
struct Record<'rows, 'sink> {
    rows: &'rows mut Rows<'sink>,
    fault: &'rows mut Option<Fault>,
    allowance: &'rows Allowance,
    target: Target,
    /// Whether `target_id` has come.
    known: bool,
    checks: Option<u32>,
}

impl<'de> DeserializeSeed<'de> for Record<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Record<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a record of damo's")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut record: A) -> Result<(), A::Error> {
        let mut has_snapshots = false;
        while let Some(key) = record.next_key::<String>()? {
            match key.as_str() {
                "kdamond_idx" => self.target.worker[0] = number(record.next_value()?)?,
                "context_idx" => self.target.worker[1] = number(record.next_value()?)?,
                "scheme_idx" => self.target.worker[2] = number(record.next_value()?)?,
                "target_id" => {
                    self.target.id = number(record.next_value()?)?;
                    self.known = true;
                }
                "intervals" => {
                    let intervals: Option<Intervals> = record.next_value()?;
                    self.checks = intervals.and_then(|intervals| intervals.checks());
                }
                // Snapshots are handed on as they are read, so what they belong to must be known.
                "snapshots" if !self.known => {
                    return Err(A::Error::custom("snapshots come before their target_id"));
                }
                "snapshots" => {
                    has_snapshots = true;
                    record.next_value_seed(Snapshots(&mut self))?;
                }
                _ => {
                    record.next_value::<IgnoredAny>()?;
                }
            }
        }
        if has_snapshots {
            Ok(())
        } else {
            Err(A::Error::missing_field("snapshots"))
        }
    }
}

fn number<E: serde::de::Error>(value: Option<Quantity>) -> Result<Option<i128>, E> {
    let value = value.map(|value| value.integer());
    value.transpose().map_err(E::custom)
}

#[derive(Deserialize)]
struct Intervals {
    sample_us: Quantity,
    aggr_us: Quantity,
}

impl Intervals {
    /// How many checks an aggregation interval has; `None` if that makes no sense.
    fn checks(&self) -> Option<u32> {
        let sample = self.sample_us.microseconds_as_ns().ok()?;
        let aggregation = self.aggr_us.microseconds_as_ns().ok()?;
        u32::try_from(aggregation.checked_div(sample)?).ok()
    }
}

/// The list of snapshots of a record.
struct Snapshots<'record, 'rows, 'sink>(&'record mut Record<'rows, 'sink>);

impl<'de> DeserializeSeed<'de> for Snapshots<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Snapshots<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of snapshots")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut snapshots: A) -> Result<(), A::Error> {
        let record = self.0;
        while let Some(written) = snapshots.next_element::<WrittenSnapshot>()? {
            let added = written
                .checked(record.checks)
                .map_err(|error| {
                    let number = record.rows.summary().snapshots + 1;
                    Fault::Invalid(format!("snapshot {number}: {error}"))
                })
                .and_then(|snapshot| record.rows.add(&record.target, snapshot));
            if let Err(fault) = added {
                *record.fault = Some(fault);
                return Err(A::Error::custom("refused"));
            }
            record.allowance.renew();
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct WrittenSnapshot {
    start_time: Quantity,
    end_time: Quantity,
    regions: Vec<WrittenRegion>,
}

#[derive(Deserialize)]
struct WrittenRegion {
    start: Quantity,
    end: Quantity,
    nr_accesses: WrittenAccesses,
    age: Option<WrittenAge>,
}

#[derive(Deserialize)]
struct WrittenAccesses {
    samples: Option<Quantity>,
    percent: Option<Quantity>,
}

#[derive(Deserialize)]
struct WrittenAge {
    aggr_intervals: Option<Quantity>,
}

impl WrittenSnapshot {
    fn checked(&self, checks: Option<u32>) -> Result<Snapshot, String> {
        let time = |name: &str, value: &Quantity| {
            value.time_ns().map_err(|error| format!("{name}: {error}"))
        };
        let regions = self.regions.iter().map(|region| region.checked(checks));
        Ok(Snapshot {
            start_ns: time("start_time", &self.start_time)?,
            end_ns: time("end_time", &self.end_time)?,
            checks,
            regions: regions.collect::<Result<_, String>>()?,
        })
    }
}

impl WrittenRegion {
    fn checked(&self, checks: Option<u32>) -> Result<Region, String> {
        let address = |name: &str, value: &Quantity| {
            let address = value.integer().and_then(narrowed);
            address.map_err(|error| format!("a region's {name}: {error}"))
        };
        let age = self
            .age
            .as_ref()
            .and_then(|age| age.aggr_intervals.as_ref());
        let age = age.map(Quantity::integer).transpose();
        Ok(Region {
            start: address("start", &self.start)?,
            end: address("end", &self.end)?,
            accesses: self.nr_accesses.count(checks)?,
            age: age.map_err(|error| format!("a region's age: {error}"))?,
        })
    }
}

impl WrittenAccesses {
    /// damo knows them as a count, or as a share of the checks.
    fn count(&self, checks: Option<u32>) -> Result<i128, String> {
        let wrong = |error| format!("a region's nr_accesses: {error}");
        match (&self.samples, &self.percent, checks) {
            (Some(samples), _, _) => samples.integer().map_err(wrong),
            (None, Some(percent), Some(checks)) => {
                let percent = percent.integer().map_err(wrong)?;
                Ok(percent.saturating_mul(checks.into()) / 100)
            }
            _ => Err(wrong(
                "neither samples, nor percent and intervals".to_owned(),
            )),
        }
    }
}
