//! `pagewise hugepages scan`: one look at one process.

use std::time::Duration;
use std::time::Instant;

use pagewise_simulate::hugepages::Processes;
use serde::Serialize;

use super::arguments::ScanArguments;
use super::map;
use super::sensor::Sensor;
use super::status::Sizes;
use super::table;
use super::target::Pace;
use super::target::Target;
use super::target::WATCHED_BY_ANOTHER;
use crate::failure::Failure;
use crate::output;
use crate::page;
use crate::record::signals::Signals;

/// From clearing accessed bits to looking at them, with room for a busy machine: who holds them longer is a recording.
const LONGEST_LOOK_OF_A_MANAGER: Duration = Duration::from_secs(4);

const TEMPLATE: &str = include_str!("scan.html");

#[derive(Serialize)]
struct Document<'scan> {
    schema: &'static str,
    pid: u32,
    comm: &'scan str,
    /// Why the manager leaves it alone, if it does.
    left_alone: Option<&'static str>,
    /// `null`: what is accessed is not known.
    window_s: Option<f64>,
    #[serde(flatten)]
    sizes: &'scan Sizes,
    regions: Vec<RegionRow>,
}

#[derive(Serialize)]
struct RegionRow {
    address: u64,
    resident_pages: u16,
    swapped_pages: u16,
    huge: bool,
    /// `null`: a huge page, which has one bit for all its base pages; or it is not known.
    accessed_pages: Option<u16>,
    /// `null`: not a huge page.
    zero_pages: Option<u16>,
}

pub(super) fn run(arguments: &ScanArguments) -> Result<(), Failure> {
    page::check(arguments.html.as_deref(), arguments.force)?;
    let signals = Signals::catch()?;
    let pid = arguments.pid;
    let gone = || Failure::new(format!("process {pid} ended before it could be looked at"));
    let mut target = Target::hold(pid, None)?.ok_or_else(gone)?;
    let mut sensor = Sensor::find_any()?;
    let tells_accesses = sensor.tells_accesses();
    sensor.leave_out_zero_page();
    let mut processes = Processes::default();
    let known = processes.entry(pid);
    let pace = Pace {
        interval: Duration::MAX / 4,
        window: tells_accesses.then_some(arguments.window.0),
        looks_at_all: true,
    };
    let begun = Instant::now();
    while target.looks == 0 {
        if target.has_ended() {
            return Err(gone());
        }
        if target.left_alone == Some(WATCHED_BY_ANOTHER)
            && begun.elapsed() > LONGEST_LOOK_OF_A_MANAGER
        {
            return Err(Failure::new(format!(
                "process {pid} cannot be looked at: {WATCHED_BY_ANOTHER}, and two would clear each other's accessed bits; scan again when it has ended"
            )));
        }
        target.step(&mut sensor, pace, Duration::ZERO, known)?;
        if target.looks == 0 && !super::wait(Duration::from_millis(10), &signals) {
            return Ok(());
        }
    }
    let huge: Vec<u64> = {
        let regions = known.regions().iter();
        regions
            .filter(|(_, region)| region.seen.huge)
            .map(|(address, _)| *address)
            .collect()
    };
    for address in huge {
        if let Some(zero) = sensor.count_zeros(target.pid(), &target.pages, address)? {
            known.counted(address, zero, Duration::ZERO);
        }
    }
    let mut sizes = Sizes::new(tells_accesses);
    known
        .regions()
        .values()
        .for_each(|region| sizes.add(region));
    let document = || json(pace, &target, known, &sizes);
    if let Some(path) = &arguments.html {
        page::write(path, &page::render(TEMPLATE, &document()?), arguments.force)?;
    }
    if arguments.json {
        return output::print(&format!("{}\n", document()?));
    }
    let zeros = match sizes.zero_bytes_in_huge {
        Some(zeros) => format!(", of which {} are pages of zeros", table::bytes(zeros)),
        None => String::new(),
    };
    let left_alone = target.left_alone.map_or(String::new(), |why| {
        format!("left alone by the manager: {why}\n")
    });
    output::print(&format!(
        "{pid} {}: {} resident where huge pages can be, {} in huge pages{zeros}\n{left_alone}\n{}\n{}\n",
        target.comm,
        table::bytes(sizes.resident_bytes),
        table::bytes(sizes.huge_bytes),
        map::draw(known.regions(), tells_accesses),
        map::legend(tells_accesses),
    ))
}

fn json(
    pace: Pace,
    target: &Target,
    known: &pagewise_simulate::hugepages::Process,
    sizes: &Sizes,
) -> Result<String, Failure> {
    let regions = known.regions().iter().map(|(address, region)| RegionRow {
        address: *address,
        resident_pages: region.seen.resident,
        swapped_pages: region.seen.swapped,
        huge: region.seen.huge,
        accessed_pages: (pace.window.is_some() && !region.seen.huge)
            .then_some(region.seen.accessed),
        zero_pages: region.zero,
    });
    let document = Document {
        schema: "pagewise.hugepages-scan/1",
        pid: target.pid(),
        comm: &target.comm,
        left_alone: target.left_alone,
        window_s: pace.window.map(|window| window.as_secs_f64()),
        sizes,
        regions: regions.collect(),
    };
    serde_json::to_string_pretty(&document).map_err(|error| Failure::new(error.to_string()))
}
