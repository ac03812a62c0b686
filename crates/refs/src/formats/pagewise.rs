//! Our own recordings: looks at accessed bits, changes of page tables, and exact faults, in order of time.
//!
//! A look (`record --access`) says which pages were accessed in an interval, not in which order or how often: each counts
//! once, at the interval's end, by address. A page that came into memory between two scans counts as accessed then, and
//! each swap-in fault as the access that it was. Of looks, a region's accesses are writes if all of its pages in memory are
//! dirty.

use std::path::Path;
use std::vec;

use pagewise_trace::Access as Look;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::PageState;
use pagewise_trace::Residency;
use pagewise_trace::Rows;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::error::RefsError;
use crate::format::DEFAULT_PAGE_BYTES;
use crate::reader::RunSource;
use crate::runs::ANONYMOUS_READ;
use crate::runs::Access;
use crate::runs::FILE_READ;
use crate::runs::Run;

/// Addresses have 57 bits at most, pages of 4 KiB 45; the address space's number goes above.
const SPACE_SHIFT: u32 = 45;
const REGION_PAGES: u64 = 512;

/// A table whose rows are asked for by time.
struct Timed<T: pagewise_trace::Row> {
    rows: Rows<T>,
    next: Option<T>,
    time: fn(&T) -> u64,
}

impl<T: pagewise_trace::Row> Timed<T> {
    fn new(rows: Rows<T>, time: fn(&T) -> u64) -> Result<Self, TraceError> {
        let mut timed = Self {
            rows,
            next: None,
            time,
        };
        timed.advance()?;
        Ok(timed)
    }

    fn advance(&mut self) -> Result<Option<T>, TraceError> {
        let next = self.rows.next().transpose()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn time(&self) -> u64 {
        self.next.as_ref().map_or(u64::MAX, self.time)
    }
}

/// A recording's references.
pub(crate) struct Recording {
    looks: Timed<Look>,
    changes: Timed<Residency>,
    events: Timed<Event>,
    page_shift: u32,
    /// Regions that files are mapped in: space, first byte, byte after the last.
    files: Vec<(u32, u64, u64)>,
    /// Runs of a row that are still to be given.
    pending: vec::IntoIter<Run>,
}

impl Recording {
    pub(crate) fn open(dir: &Path, page_bytes: Option<u64>) -> Result<Self, RefsError> {
        let trace = Trace::open(dir)?;
        let recorded = trace.meta().host.page_bytes.unwrap_or(DEFAULT_PAGE_BYTES);
        if page_bytes.is_some_and(|bytes| bytes != recorded) {
            return Err(RefsError::Format {
                path: dir.to_owned(),
                detail: format!("its pages have {recorded} bytes: leave out --page-size"),
            });
        }
        let mut files = Vec::new();
        for mapping in trace.mappings()? {
            if mapping.path.starts_with('/') && !mapping.permissions.contains('w') {
                files.push((mapping.space, mapping.start, mapping.end));
            }
        }
        files.sort_unstable();
        Ok(Self {
            looks: Timed::new(trace.accesses()?, |look| look.time_ns)?,
            changes: Timed::new(trace.residency()?, |change| change.time_ns)?,
            events: Timed::new(trace.events()?, |event| event.time_ns)?,
            page_shift: recorded.checked_ilog2().unwrap_or(12),
            files,
            pending: Vec::new().into_iter(),
        })
    }

    /// The runs of the earliest row that is left; `None` if none is left.
    fn next_row(&mut self) -> Result<Option<Vec<Run>>, TraceError> {
        let times = [self.events.time(), self.changes.time(), self.looks.time()];
        let earliest = times.into_iter().min().unwrap_or(u64::MAX);
        if earliest == times[0]
            && let Some(event) = self.events.advance()?
        {
            return Ok(Some(self.fault(&event)));
        }
        if earliest == times[1]
            && let Some(change) = self.changes.advance()?
        {
            return Ok(Some(self.arrival(&change)));
        }
        if let Some(look) = self.looks.advance()? {
            return Ok(Some(self.look(&look)));
        }
        Ok(None)
    }

    fn fault(&self, event: &Event) -> Vec<Run> {
        match event.kind {
            EventKind::SwapIn | EventKind::SwapCacheHit => {
                vec![Run::one(
                    self.key(event.space, event.address),
                    ANONYMOUS_READ,
                )]
            }
            EventKind::Eviction | EventKind::PageWritten | EventKind::ZeroFilled => Vec::new(),
        }
    }

    fn arrival(&self, change: &Residency) -> Vec<Run> {
        let present = match change.state {
            PageState::Resident | PageState::Huge | PageState::Zero => change.bytes,
            PageState::Absent | PageState::Swapped => 0,
        };
        let access = if change.file == Some(true) {
            FILE_READ
        } else {
            ANONYMOUS_READ
        };
        let pages = present >> self.page_shift;
        let key = self.key(change.space, change.address);
        // Ranges of 2^32 pages are split.
        (0..pages)
            .step_by(u32::MAX as usize)
            .map(|at| Run {
                key: key + at,
                pages: (pages - at).min(u64::from(u32::MAX)) as u32,
                access,
            })
            .collect()
    }

    fn look(&self, look: &Look) -> Vec<Run> {
        if look.accessed_pages == 0 {
            return Vec::new();
        }
        let access = Access {
            write: look.dirty_pages > 0 && look.dirty_pages == look.resident_pages,
            file: self.is_file(look.space, look.address),
        };
        let map = look.accessed_map.as_ref().or(look.resident_map.as_ref());
        let key = self.key(look.space, look.address);
        match map {
            None => vec![Run {
                key,
                pages: REGION_PAGES as u32,
                access,
            }],
            Some(digits) => set_bits(digits)
                .map(|page| Run::one(key + page, access))
                .collect(),
        }
    }

    /// Whether a mapping of a file that is not written covers it.
    fn is_file(&self, space: u32, address: u64) -> bool {
        let after = self
            .files
            .partition_point(|file| *file <= (space, address, u64::MAX));
        self.files[..after]
            .last()
            .is_some_and(|(of, _, end)| *of == space && address < *end)
    }

    fn key(&self, space: u32, address: u64) -> u64 {
        let page = address >> self.page_shift & ((1 << SPACE_SHIFT) - 1);
        u64::from(space) << SPACE_SHIFT | page
    }
}

/// The numbers of the bits that are set; the first digit holds the lowest four.
fn set_bits(digits: &str) -> impl Iterator<Item = u64> {
    let digits = digits.chars().map(|digit| digit.to_digit(16).unwrap_or(0));
    (0..)
        .zip(digits)
        .flat_map(|(index, digit)| {
            (0..4)
                .filter(move |bit| digit >> bit & 1 == 1)
                .map(move |bit| index * 4 + bit)
        })
        .filter(|page| *page < REGION_PAGES)
}

/// Runs given at once.
const ENOUGH: usize = 4096;

impl RunSource for Recording {
    fn refill(&mut self, runs: &mut Vec<Run>) -> Result<bool, RefsError> {
        while runs.len() < ENOUGH {
            if let Some(run) = self.pending.next() {
                runs.push(run);
                continue;
            }
            match self.next_row()? {
                Some(row) => self.pending = row.into_iter(),
                None => break,
            }
        }
        Ok(!runs.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_the_first_digit() {
        let pages: Vec<u64> = set_bits("1800f").collect();
        assert_eq!(pages, [0, 7, 16, 17, 18, 19]);
    }
}
