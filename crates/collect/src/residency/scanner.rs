//! Whole scans of one address space, a part at a time, so that whoever asks can do something else in between.

use std::io;
use std::time::Duration;
use std::time::Instant;

use rustix::time::ClockId;

use super::pagemap::Look;
use super::pagemap::Method;
use super::pagemap::Pagemap;
use super::runs::Difference;
use super::runs::Region;
use super::runs::Runs;
use super::runs::Seen;
use super::vmas::Vma;
use super::vmas::vmas;

/// Runs kept of one process, a word each: 32 MiB.
const MOST_RUNS: usize = 4 << 20;
/// Changes told by one scan; the next one goes on there.
const MOST_CHANGES: usize = 1 << 16;

/// A range of pages that are in another state than at the scan before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When it was seen, in ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Its first byte.
    pub address: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// What its pages were at the scan before. Of a longer range of several kinds, its first page.
    pub before: Seen,
    /// What they are now.
    pub now: Seen,
}

/// A finished scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// When it began, in ns of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Time spent on it.
    pub cost: Duration,
    /// Bytes in memory, in huge pages too.
    pub resident_bytes: u64,
    /// Bytes in swap.
    pub swapped_bytes: u64,
    /// Bytes in memory in huge pages; `None` where they cannot be told.
    pub huge_bytes: Option<u64>,
    /// Whether all of the address space was looked at.
    pub complete: bool,
    /// Whether it ended because the pages' states were too many to remember.
    pub overflowed: bool,
    /// Mappings that were too large to look at.
    pub left_out: u64,
}

/// How far a scan has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More is to be looked at.
    Unfinished,
    /// This one is done.
    Done(Scan),
    /// The address space has gone; what was seen of it last stands.
    Gone,
}

/// The page states of one address space, over time.
#[derive(Debug)]
pub struct Scanner {
    pid: u32,
    method: Method,
    pagemap: Pagemap,
    page_bytes: u64,
    runs: Runs,
    /// Where the last scan had to stop, in pages.
    resume_at: u64,
    current: Option<Current>,
    regions: Vec<Region>,
    most_runs: usize,
    most_changes: usize,
}

/// A scan that has begun.
#[derive(Debug)]
struct Current {
    begin_ns: u64,
    cost: Duration,
    from: u64,
    end: u64,
    changes: usize,
    left_out: u64,
    vmas: Vec<Vma>,
}

impl Scanner {
    /// Looks at the address space that the process has now. An exec gives it another one, which needs another scanner.
    ///
    /// # Errors
    /// `NotFound` if there is no such process or it has no memory (a zombie, a kernel thread); `PermissionDenied` if it
    /// belongs to someone else or is set-user-id.
    pub fn open(pid: u32, method: Method) -> io::Result<Self> {
        Ok(Self {
            pid,
            method,
            pagemap: Pagemap::open(pid, method)?,
            page_bytes: super::pagemap::page_bytes(),
            runs: Runs::default(),
            resume_at: 0,
            current: None,
            regions: Vec::new(),
            most_runs: MOST_RUNS,
            most_changes: MOST_CHANGES,
        })
    }

    /// Whether nobody uses the address space any more.
    pub fn is_gone(&self) -> bool {
        self.pagemap.is_gone()
    }

    /// What the page at this address was when it was last looked at.
    pub fn seen(&self, address: u64) -> Seen {
        self.runs.seen(address / self.page_bytes)
    }

    /// Begins a scan, or goes on with it, until it is done or `budget` is spent; at least one look is taken.
    pub fn advance(&mut self, budget: Duration, mut sink: impl FnMut(Change)) -> Progress {
        let begun = Instant::now();
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.begin(),
        };
        let earlier = current.cost;
        loop {
            let more = self.look(&mut current, &mut sink);
            current.cost = earlier + begun.elapsed();
            match more {
                None => return Progress::Gone,
                Some(false) => return Progress::Done(self.finish(&current)),
                Some(true) if begun.elapsed() >= budget => {
                    self.current = Some(current);
                    return Progress::Unfinished;
                }
                Some(true) => {}
            }
        }
    }

    fn begin(&mut self) -> Current {
        let begin_ns = monotonic_ns();
        let vmas = match self.method {
            Method::Scan { .. } => Vec::new(),
            Method::Entries => vmas(self.pid).unwrap_or_default(),
        };
        self.runs.skip_to(self.resume_at);
        Current {
            begin_ns,
            cost: Duration::ZERO,
            from: self.resume_at,
            end: self.pagemap.end(&vmas),
            changes: 0,
            left_out: 0,
            vmas,
        }
    }

    /// One look. Whether there is more to look at; `None`: it has gone.
    fn look(&mut self, current: &mut Current, sink: &mut impl FnMut(Change)) -> Option<bool> {
        let from = self.runs.at();
        if from >= current.end {
            // Nothing vouches for a scan that took no look: a zombie's list of mappings is empty.
            return (!self.pagemap.is_gone()).then_some(false);
        }
        let look = self
            .pagemap
            .look(from, current.end, &current.vmas, &mut self.regions);
        let (end, left_out) = match look {
            Ok(Look::Seen { end, left_out }) => (end, left_out),
            // Whatever else the kernel refuses, it will refuse again.
            Ok(Look::Gone) | Err(_) => return None,
        };
        let time_ns = monotonic_ns();
        current.left_out += u64::from(left_out);
        let mut joined: Option<Difference> = None;
        let (page_bytes, changes) = (self.page_bytes, &mut current.changes);
        let mut tell = |difference: Difference| {
            *changes += 1;
            sink(Change {
                time_ns,
                address: difference.start * page_bytes,
                bytes: (difference.end - difference.start) * page_bytes,
                before: difference.before,
                now: difference.now,
            });
        };
        // At least one page, or the scan would never end.
        self.runs.replace(
            end.max(from + 1),
            &self.regions,
            |difference| match &mut joined {
                Some(last)
                    if last.end == difference.start
                        && last.now == difference.now
                        && last.before == difference.before =>
                {
                    last.end = difference.end;
                }
                _ => {
                    if let Some(last) = joined.replace(difference) {
                        tell(last);
                    }
                }
            },
        );
        if let Some(last) = joined {
            tell(last);
        }
        let full = self.runs.len() > self.most_runs || current.changes >= self.most_changes;
        Some(!full)
    }

    fn finish(&mut self, current: &Current) -> Scan {
        let overflowed = self.runs.len() > self.most_runs;
        let reached_end = self.runs.at() >= current.end;
        // What is too much to remember is not looked at; what was too much to tell at once is, next time.
        self.resume_at = if reached_end || overflowed {
            0
        } else {
            self.runs.at()
        };
        if overflowed {
            self.runs.forget_rest();
        }
        self.runs.finish();
        let pages = self.runs.pages();
        let bytes = |pages: u64| pages * self.page_bytes;
        Scan {
            begin_ns: current.begin_ns,
            end_ns: monotonic_ns(),
            cost: current.cost,
            resident_bytes: bytes(pages.resident),
            swapped_bytes: bytes(pages.swapped),
            huge_bytes: self.method.tells_huge().then_some(bytes(pages.huge)),
            complete: reached_end && current.from == 0,
            overflowed,
            left_out: current.left_out,
        }
    }
}

fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
