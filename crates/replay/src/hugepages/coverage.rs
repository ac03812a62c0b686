//! A table of coverage as comma-separated values, made by hand or by another tool: what each look saw of each region.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use pagewise_simulate::hugepages::REGION_PAGES;
use pagewise_simulate::hugepages::replay::Use;
use serde::Deserialize;

use super::HugeRequest;
use super::findings::Basis;
use super::load::Looks;
use super::load::Named;
use super::load::Recorded;
use crate::error::ReplayError;

/// What such a table begins with.
pub(super) const HEADER: &str = "time_s,address,resident,accessed";
const REGION_BYTES: u64 = 2 << 20;
/// More is no time: 30 years, s.
const LONGEST_S: f64 = 1e9;

/// A line.
#[derive(Debug, Deserialize)]
struct Row {
    time_s: f64,
    address: String,
    resident: u16,
    accessed: u16,
    swapped: Option<u16>,
    page_lookups: Option<f64>,
    region_lookups: Option<f64>,
    work: Option<f64>,
    process: Option<String>,
}

pub(super) fn read(path: &Path, request: &HugeRequest) -> Result<Recorded, ReplayError> {
    let failed = |line: u64, why: &dyn std::fmt::Display| {
        ReplayError::asked(format!("{}, line {line}: {why}", path.display()))
    };
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_path(path)
        .map_err(|error| failed(1, &error))?;
    let mut processes: BTreeMap<String, Vec<(Duration, Use, f64)>> = BTreeMap::new();
    let mut order = Vec::new();
    for (row, line) in reader.deserialize::<Row>().zip(2_u64..) {
        let row = row.map_err(|error| failed(line, &error))?;
        let (time, region) = region(&row).map_err(|why| failed(line, &why))?;
        let work = row.work.unwrap_or(region.page_lookups * request.tlb.work);
        let name = row.process.unwrap_or_default();
        if !processes.contains_key(&name) {
            order.push(name.clone());
        }
        processes
            .entry(name)
            .or_default()
            .push((time, region, work));
    }
    if processes.is_empty() {
        return Err(failed(1, &"there are no lines after the header"));
    }
    let is_alone = order.len() == 1 && order[0].is_empty();
    let mut programs = Vec::new();
    let mut last = Duration::ZERO;
    for name in order {
        let mut rows = processes.remove(&name).unwrap_or_default();
        rows.sort_by_key(|(time, region, _)| (*time, region.address));
        let is_twice = |pair: &[(Duration, Use, f64)]| {
            (pair[0].0, pair[0].1.address) == (pair[1].0, pair[1].1.address)
        };
        if let Some(pair) = rows.windows(2).find(|pair| is_twice(pair)) {
            return Err(ReplayError::asked(format!(
                "{}: address {:#x} is there twice at {} s",
                path.display(),
                pair[0].1.address,
                pair[0].0.as_secs_f64()
            )));
        }
        let mut looks = Looks::default();
        for (time, region, work) in rows {
            looks.add(time, region, work);
            last = last.max(time);
        }
        programs.push(Named {
            walks: None,
            name: (!is_alone).then_some(name),
            program: looks.finish(None),
        });
    }
    Ok(Recorded {
        programs,
        duration: last + request.interval,
        basis: Basis::Assumed,
        note: None,
    })
}

/// Refuses what cannot be.
fn region(row: &Row) -> Result<(Duration, Use), String> {
    if !(0.0..=LONGEST_S).contains(&row.time_s) {
        return Err(format!("time_s {} is no time", row.time_s));
    }
    let digits = row.address.strip_prefix("0x");
    let address = match digits {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => row.address.parse().ok(),
    };
    let address = address
        .filter(|address| address % REGION_BYTES == 0)
        .ok_or_else(|| format!("address {} is no multiple of 2 MiB (0x200000)", row.address))?;
    let swapped = row.swapped.unwrap_or(0);
    let pages = u32::from(row.resident) + u32::from(swapped);
    if pages > u32::from(REGION_PAGES) || row.accessed > row.resident {
        return Err(format!(
            "{} accessed, {} resident, {swapped} swapped: no more can be accessed than resident, and a region has {REGION_PAGES} \
             pages",
            row.accessed, row.resident
        ));
    }
    let mut region = Use::of_coverage(address, row.resident, row.accessed, swapped);
    region.page_lookups = row.page_lookups.unwrap_or(region.page_lookups);
    region.region_lookups = row.region_lookups.unwrap_or(region.page_lookups);
    let numbers = [
        region.page_lookups,
        region.region_lookups,
        row.work.unwrap_or(0.0),
    ];
    if numbers.iter().any(|number| !(0.0..=1e18).contains(number)) {
        return Err("lookups and work are numbers from 0 on".to_owned());
    }
    Ok((Duration::from_secs_f64(row.time_s), region))
}
