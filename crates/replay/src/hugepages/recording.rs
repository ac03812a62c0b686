//! Programs of a recording with accessed bits (`record --access`).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use pagewise_simulate::hugepages::Tlb;
use pagewise_simulate::hugepages::replay::Use;
use pagewise_trace::Space;
use pagewise_trace::Trace;

use super::findings::Basis;
use super::load::Looks;
use super::load::Named;
use super::load::Recorded;
use crate::error::ReplayError;

const REGION_BYTES: u64 = 2 << 20;

pub(super) fn read(dir: &Path, tlb: &Tlb) -> Result<Recorded, ReplayError> {
    let trace = Trace::open(dir)?;
    let left_alone = LeftAlone::read(&trace)?;
    let mut spaces: BTreeMap<u32, Looks> = BTreeMap::new();
    let (mut regions, mut unknown) = (0_u64, 0_u64);
    // The first look is the beginning: what was before is not known.
    let mut first_ns = None;
    let mut last_ns = 0;
    for row in trace.accesses()? {
        let row = row?;
        regions += 1;
        // One bit for all of it: nobody knows which of its base pages are used.
        if row.huge {
            unknown += 1;
            continue;
        }
        let mut region = Use::of_coverage(
            row.address,
            row.resident_pages,
            row.accessed_pages,
            row.swapped_pages,
        );
        region.left_alone = left_alone.holds(row.space, row.address);
        let time = since(*first_ns.get_or_insert(row.time_ns), row.time_ns);
        last_ns = last_ns.max(row.time_ns.saturating_add(row.interval_ns));
        spaces
            .entry(row.space)
            .or_default()
            .add(time, region, region.page_lookups * tlb.work);
    }
    if spaces.is_empty() {
        return Err(nothing_to_replay(dir, regions));
    }
    let begin = first_ns.unwrap_or(0);
    let end_ns = trace.meta().end_monotonic_ns.unwrap_or(last_ns);
    Ok(Recorded {
        programs: named(&trace, dir, spaces, begin)?,
        duration: since(begin, end_ns),
        basis: Basis::Assumed,
        note: (unknown > 0).then(|| {
            format!(
                "{}: {unknown} of {regions} looks at regions found huge pages, of whose base pages nothing is known: left out. \
                 To have them, record with huge pages off (/sys/kernel/mm/transparent_hugepage/enabled)",
                dir.display()
            )
        }),
    })
}

fn since(begin_ns: u64, time_ns: u64) -> Duration {
    Duration::from_nanos(time_ns.saturating_sub(begin_ns))
}

fn nothing_to_replay(dir: &Path, regions: u64) -> ReplayError {
    let dir = dir.display();
    ReplayError::asked(match regions {
        0 => format!(
            "{dir} does not say which pages were accessed; type: pagewise record --access -- CMD"
        ),
        _ => format!(
            "{dir}: all memory was in huge pages, of whose base pages nothing is known; switch huge pages off \
             (/sys/kernel/mm/transparent_hugepage/enabled), and type: pagewise record --access -- CMD"
        ),
    })
}

fn named(
    trace: &Trace,
    dir: &Path,
    spaces: BTreeMap<u32, Looks>,
    begin_ns: u64,
) -> Result<Vec<Named>, ReplayError> {
    // Of several rows of a space the last counts.
    let known: BTreeMap<u32, Space> = trace
        .spaces()?
        .into_iter()
        .map(|space| (space.space, space))
        .collect();
    let is_alone = spaces.len() == 1;
    let programs = spaces.into_iter().map(|(number, looks)| {
        let space = known.get(&number);
        Named {
            walks: trace.meta().page_walks.get(&number).copied(),
            name: space
                .filter(|_| !is_alone)
                .map(|space| format!("{}: {} {}", dir.display(), space.command, space.pid)),
            program: looks.finish(
                space
                    .and_then(|space| space.end_ns)
                    .map(|end_ns| since(begin_ns, end_ns)),
            ),
        }
    });
    Ok(programs.collect())
}

/// Regions that files are mapped in, or stacks: the manager leaves these alone.
struct LeftAlone {
    /// Space, and the number of the region.
    regions: std::collections::HashSet<(u32, u64)>,
}

impl LeftAlone {
    fn read(trace: &Trace) -> Result<Self, ReplayError> {
        let mut regions = std::collections::HashSet::new();
        for mapping in trace.mappings()? {
            let is_file = mapping.path.starts_with('/');
            if !is_file && !mapping.path.starts_with("[stack") {
                continue;
            }
            let (first, end) = (
                mapping.start / REGION_BYTES,
                mapping.end.div_ceil(REGION_BYTES),
            );
            // A range that makes no sense names no regions.
            if end.saturating_sub(first) <= 1 << 27 {
                regions.extend((first..end).map(|region| (mapping.space, region)));
            }
        }
        Ok(Self { regions })
    }

    fn holds(&self, space: u32, address: u64) -> bool {
        self.regions.contains(&(space, address / REGION_BYTES))
    }
}
