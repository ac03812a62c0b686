//! One interval of one target, checked and turned into rows: common to all formats.

use std::collections::HashMap;

use pagewise_trace::RegionAccess;

use super::Fault;
use super::Sink;
use super::Summary;
use super::number::narrowed;

/// What was monitored together: DAMON's worker, context and scheme where the format has them, and its target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) worker: [Option<i128>; 3],
    pub(super) id: Option<i128>,
}

/// As the file states it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Below 0 in a snapshot that damo adds only to tell when the one before ended.
    pub(super) accesses: i128,
    /// `None` or below 0: unknown.
    pub(super) age: Option<i128>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Checks in the interval, if known.
    pub(super) checks: Option<u32>,
    pub(super) regions: Vec<Region>,
}

/// Checks snapshots and hands out their rows.
pub(super) struct Rows<'sink> {
    sink: Sink<'sink>,
    spaces: HashMap<Target, u32>,
    summary: Summary,
}

impl<'sink> Rows<'sink> {
    pub(super) fn new(sink: Sink<'sink>) -> Self {
        Rows {
            sink,
            spaces: HashMap::new(),
            summary: Summary::default(),
        }
    }

    pub(super) fn summary(&self) -> Summary {
        self.summary
    }

    pub(super) fn add(&mut self, target: &Target, mut snapshot: Snapshot) -> Result<(), Fault> {
        if is_fake(&snapshot) {
            return Ok(());
        }
        self.summary.snapshots += 1;
        let number = self.summary.snapshots;
        let invalid = |detail: String| Fault::Invalid(format!("snapshot {number}: {detail}"));
        let interval_ns = snapshot
            .end_ns
            .checked_sub(snapshot.start_ns)
            .ok_or_else(|| {
                invalid(format!(
                    "it ends at {} ns, before it begins at {} ns",
                    snapshot.end_ns, snapshot.start_ns
                ))
            })?;
        // damo can sort them by other things than their address.
        snapshot.regions.sort_by_key(|region| region.start);
        let mut end_of_last = 0;
        let space = self.space(target).map_err(invalid)?;
        let id = target
            .id
            .map(narrowed)
            .transpose()
            .map_err(|error| invalid(format!("target_id: {error}")))?;
        for region in &snapshot.regions {
            let place = format!("region {:#x}-{:#x}", region.start, region.end);
            let of_region = |detail: String| invalid(format!("{place}: {detail}"));
            if region.end <= region.start {
                return Err(of_region("it ends where it begins, or before".to_owned()));
            }
            if region.start < end_of_last {
                return Err(of_region("it overlaps the one before it".to_owned()));
            }
            end_of_last = region.end;
            let age = region.age.filter(|&age| age >= 0).map(narrowed).transpose();
            let row = RegionAccess {
                time_ns: snapshot.end_ns,
                interval_ns,
                space,
                target: id,
                start: region.start,
                bytes: region.end - region.start,
                accesses: narrowed(region.accesses)
                    .map_err(|error| of_region(format!("accesses: {error}")))?,
                checks: snapshot.checks,
                age: age.map_err(|error| of_region(format!("age: {error}")))?,
            };
            (self.sink)(row).map_err(Fault::Sink)?;
            self.summary.regions += 1;
        }
        Ok(())
    }

    fn space(&mut self, target: &Target) -> Result<u32, String> {
        if let Some(&space) = self.spaces.get(target) {
            return Ok(space);
        }
        let space = self.summary.targets;
        self.summary.targets = space.checked_add(1).ok_or("there are too many targets")?;
        self.spaces.insert(target.clone(), space);
        Ok(space)
    }
}

/// `add_fake_snapshot_if_needed` in damo's `_damo_records.py`.
fn is_fake(snapshot: &Snapshot) -> bool {
    match &snapshot.regions[..] {
        [only] => only.start == 0 && only.end == 0 && only.accesses == -1,
        _ => false,
    }
}
