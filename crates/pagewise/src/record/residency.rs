//! The residency sensor of one recording: when to look at which process, and what of it becomes rows.
//!
//! All processes are scanned in rounds (see `rounds`), a few milliseconds at a time, so that the other sensors' rings are
//! emptied in between.

use std::collections::HashMap;
use std::collections::HashSet;
use std::io;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::residency::Change;
use pagewise_collect::residency::Method;
use pagewise_collect::residency::Progress;
use pagewise_collect::residency::Scan;
use pagewise_collect::residency::Scanner;
use pagewise_collect::residency::Seen;
use pagewise_collect::residency::State;
use pagewise_collect::residency::pieces;
use pagewise_collect::residency::vmas;
use pagewise_host::family;
use pagewise_trace as trace;
use pagewise_trace::PageState;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

/// At a time.
const BUDGET: Duration = Duration::from_millis(4);

/// A process to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) pid: u32,
    pub(super) space: u32,
    /// The process it was forked from: until its exec they may share memory.
    pub(super) parent: Option<u32>,
}

/// The sensor.
#[derive(Debug)]
pub(super) struct Residency {
    method: Method,
    scanners: HashMap<u32, Scanner>,
    /// Each takes a descriptor, and the trace needs some.
    most_scanners: usize,
    /// Of this round, what is still to be scanned.
    queue: Vec<Target>,
    /// Of the space being scanned, what has changed.
    changes: Vec<Change>,
    unreadable: HashSet<u32>,
    counts: Counts,
}

/// What was not seen.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    overflowed: u64,
    left_out: u64,
}

impl Residency {
    /// The sensor, or why there is none.
    pub(super) fn start() -> Result<Self, String> {
        let method = pagewise_collect::residency::method()
            .map_err(|error| format!("missing: /proc/PID/pagemap cannot be read: {error}"))?;
        Ok(Self {
            method,
            scanners: HashMap::new(),
            most_scanners: pagewise_host::open_files::allowed() / 2,
            queue: Vec::new(),
            changes: Vec::new(),
            unreadable: HashSet::new(),
            counts: Counts::default(),
        })
    }

    /// What there is to say of it: huge pages cannot be told everywhere.
    pub(super) fn tells_huge(&self) -> bool {
        self.method.tells_huge()
    }

    /// These are the processes now.
    pub(super) fn begin_round(&mut self, targets: Vec<Target>) {
        let alive: HashSet<u32> = targets.iter().map(|target| target.space).collect();
        self.scanners.retain(|space, _| alive.contains(space));
        self.queue = targets;
    }

    /// Goes on with the round, for a few milliseconds. Whether there is more to do.
    pub(super) fn advance(&mut self, writer: &mut TraceWriter) -> Result<bool, TraceError> {
        let begun = Instant::now();
        while let Some(&target) = self.queue.last() {
            let left = BUDGET.saturating_sub(begun.elapsed());
            if left.is_zero() || !self.scan(target, left, writer)? {
                return Ok(true);
            }
            self.queue.pop();
        }
        Ok(false)
    }

    /// Whether this one is done with.
    fn scan(
        &mut self,
        target: Target,
        budget: Duration,
        writer: &mut TraceWriter,
    ) -> Result<bool, TraceError> {
        let mut changes = std::mem::take(&mut self.changes);
        let Some(scanner) = self.scanner(target) else {
            return Ok(true);
        };
        let progress = scanner.advance(budget, |change| changes.push(change));
        match progress {
            Progress::Unfinished => {
                self.changes = changes;
                return Ok(false);
            }
            Progress::Done(scan) => {
                let mapped = Mapped::look(target.pid, &changes, scanner);
                write_changes(target.space, &changes, mapped.as_ref(), writer)?;
                self.write_scan(target.space, &scan, writer)?;
            }
            // What was seen before it went was so.
            Progress::Gone => write_changes(target.space, &changes, None, writer)?,
        }
        changes.clear();
        self.changes = changes;
        Ok(true)
    }

    /// `None`: there is nothing to look at, or it is not permitted.
    fn scanner(&mut self, target: Target) -> Option<&mut Scanner> {
        if !self.scanners.contains_key(&target.space) {
            let shares = |parent| family::share_memory(target.pid, parent) == Some(true);
            if target.parent.is_some_and(shares) {
                return None;
            }
            if self.scanners.len() >= self.most_scanners {
                self.unreadable.insert(target.space);
                return None;
            }
            match Scanner::open(target.pid, self.method) {
                Ok(scanner) => {
                    self.unreadable.remove(&target.space);
                    self.scanners.insert(target.space, scanner);
                }
                Err(error) => {
                    // One that has ended has nothing to look at.
                    if error.kind() != io::ErrorKind::NotFound {
                        self.unreadable.insert(target.space);
                    }
                    return None;
                }
            }
        }
        self.scanners.get_mut(&target.space)
    }

    fn write_scan(
        &mut self,
        space: u32,
        scan: &Scan,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        self.counts.overflowed += u64::from(scan.overflowed);
        self.counts.left_out = self.counts.left_out.max(scan.left_out);
        writer.residency_scans.push(trace::ResidencyScan {
            time_ns: scan.begin_ns,
            space,
            end_ns: scan.end_ns,
            cost_ns: scan.cost.as_nanos() as u64,
            resident_bytes: scan.resident_bytes,
            swapped_bytes: scan.swapped_bytes,
            huge_bytes: scan.huge_bytes,
            complete: scan.complete,
        })
    }

    /// Whether that space's memory has gone although its process may live: by exec.
    pub(super) fn is_gone(&self, space: u32) -> bool {
        self.scanners.get(&space).is_some_and(Scanner::is_gone)
    }

    /// What a page was when it was last looked at; `None` if its space was not.
    pub(super) fn seen(&self, space: u32, address: u64) -> Option<Seen> {
        Some(self.scanners.get(&space)?.seen(address))
    }

    /// What was not seen, by place.
    pub(super) fn losses(&self) -> [(&'static str, u64); 3] {
        [
            ("residency_processes", self.unreadable.len() as u64),
            ("residency_mappings", self.counts.left_out),
            ("residency_scans", self.counts.overflowed),
        ]
    }
}

/// What was mapped right after a scan.
struct Mapped(Vec<pagewise_collect::residency::Vma>);

impl Mapped {
    /// `None`: nobody needs to know, or there is no telling any more.
    fn look(pid: u32, changes: &[Change], scanner: &Scanner) -> Option<Self> {
        let wanted = |change: &Change| change.now.state == State::Absent;
        if !changes.iter().any(wanted) {
            return None;
        }
        let vmas = vmas(pid)?;
        // Of the same program still?
        (!scanner.is_gone()).then_some(Self(vmas))
    }
}

fn write_changes(
    space: u32,
    changes: &[Change],
    mapped: Option<&Mapped>,
    writer: &mut TraceWriter,
) -> Result<(), TraceError> {
    for change in changes {
        let row = trace::Residency {
            time_ns: change.time_ns,
            space,
            address: change.address,
            bytes: change.bytes,
            state: state(change.now.state),
            file: matches!(change.now.state, State::Resident | State::Huge)
                .then_some(change.now.file),
            mapped: None,
        };
        match mapped.filter(|_| change.now.state == State::Absent) {
            None => writer.residency.push(row)?,
            Some(Mapped(vmas)) => {
                for (start, end, mapped) in pieces(vmas, row.address, row.address + row.bytes) {
                    writer.residency.push(trace::Residency {
                        address: start,
                        bytes: end - start,
                        mapped: Some(mapped),
                        ..row.clone()
                    })?;
                }
            }
        }
    }
    Ok(())
}

fn state(state: State) -> PageState {
    match state {
        State::Absent => PageState::Absent,
        State::Resident => PageState::Resident,
        State::Huge => PageState::Huge,
        State::Zero => PageState::Zero,
        State::Swapped => PageState::Swapped,
    }
}
