//! A program of a trace of references: coverage as accessed bits would have told it, second by second, and how often
//! translations are needed, which accessed bits do not tell.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use pagewise_refs::Classify;
use pagewise_refs::DEFAULT_PAGE_BYTES;
use pagewise_refs::Format;
use pagewise_refs::Options;
use pagewise_refs::Reader;
use pagewise_simulate::Reference;
use pagewise_simulate::hugepages::REGION_PAGES;
use pagewise_simulate::hugepages::replay::Use;

use super::HugeRequest;
use super::findings::Basis;
use super::load::Looks;
use super::load::Named;
use super::load::Recorded;
use crate::error::ReplayError;
use crate::watch::Step;
use crate::watch::Watch;
use crate::watch::tell;

/// A look tells of so much time.
const WINDOW: Duration = Duration::from_secs(1);
/// Cycles that a reference takes, translation aside: an instruction or an access.
const CYCLES_OF_REFERENCE: f64 = 1.0;
/// Looks at most: more of them is a reference time that is too long.
const MOST_LOOKS: u64 = 1_000_000;

pub(super) fn read(
    path: &Path,
    request: &HugeRequest,
    watch: &mut dyn Watch,
) -> Result<Recorded, ReplayError> {
    let options = Options {
        // Where a page is matters here, not what it holds.
        classify: Some(Classify::Paper),
        page_bytes: None,
        ..request.reading.clone()
    };
    let mut reader = Reader::open(path, &options)?;
    let format = reader.format();
    if !matches!(format, Format::Lackey | Format::Memtrace | Format::Address) {
        return Err(ReplayError::asked(format!(
            "{}: traces of the format {format} have no addresses, which --hugepages needs: give a recording (pagewise record \
             --access), references of lackey, memtrace or address, or a table of coverage",
            path.display()
        )));
    }
    let mut builder = Builder::new(request.reference_time);
    let progress = reader.progress();
    while let Some(chunk) = reader.next_chunk()?.map(<[Reference]>::to_vec) {
        for reference in chunk {
            builder.add(reference, &reader);
        }
        let step = Step {
            what: "reading",
            done: progress.read_bytes(),
            total: progress.total_bytes(),
        };
        tell(watch, step)?;
        if builder.windows > MOST_LOOKS {
            return Err(ReplayError::asked(format!(
                "{} lasts longer than {MOST_LOOKS} seconds at {:?} a reference: give a shorter --reference-time",
                path.display(),
                request.reference_time
            )));
        }
    }
    builder.finish(path, request.reference_time)
}

/// A region as far as it has been seen.
#[derive(Default)]
struct Region {
    address: u64,
    resident: u16,
    accessed: u16,
    page_lookups: f64,
    region_lookups: f64,
}

struct Builder {
    /// References in a window.
    window: u64,
    /// In the window that is open.
    references: u64,
    windows: u64,
    /// By page: its region, and the last window in which it was accessed, from 1.
    pages: Vec<(u32, u64)>,
    by_address: HashMap<u64, u32>,
    regions: Vec<Region>,
    last_page: Option<u32>,
    last_region: Option<u32>,
    looks: Looks,
}

impl Builder {
    fn new(reference_time: Duration) -> Self {
        let window = WINDOW.as_nanos() / reference_time.as_nanos().max(1);
        Self {
            window: u64::try_from(window).unwrap_or(u64::MAX).max(1),
            references: 0,
            windows: 0,
            pages: Vec::new(),
            by_address: HashMap::new(),
            regions: Vec::new(),
            last_page: None,
            last_region: None,
            looks: Looks::default(),
        }
    }

    fn add(&mut self, reference: Reference, reader: &Reader) {
        let page = reference.page();
        while self.pages.len() <= page as usize {
            let key = reader.page_key(self.pages.len() as u32).unwrap_or(0);
            let region = self.region_of(key);
            self.pages.push((region, 0));
        }
        self.references += 1;
        // Instructions have a TLB of their own: they take time only.
        if !reference.is_file() {
            self.access(page);
        }
        if self.references >= self.window {
            self.close();
        }
    }

    fn region_of(&mut self, key: u64) -> u32 {
        let number = key / u64::from(REGION_PAGES);
        let address = number.wrapping_mul(u64::from(REGION_PAGES) * DEFAULT_PAGE_BYTES);
        let next = self.regions.len() as u32;
        let region = *self.by_address.entry(address).or_insert(next);
        if region == next {
            self.regions.push(Region {
                address,
                ..Region::default()
            });
        }
        region
    }

    fn access(&mut self, page: u32) {
        let (number, last) = &mut self.pages[page as usize];
        let region = &mut self.regions[*number as usize];
        let window = self.windows + 1;
        if *last == 0 {
            region.resident += 1;
        }
        if *last != window {
            *last = window;
            region.accessed += 1;
        }
        // What was translated last is translated still.
        if self.last_page.replace(page) != Some(page) {
            region.page_lookups += 1.0;
        }
        if self.last_region.replace(*number) != Some(*number) {
            region.region_lookups += 1.0;
        }
    }

    /// Ends a window.
    fn close(&mut self) {
        let time = WINDOW.saturating_mul(u32::try_from(self.windows).unwrap_or(u32::MAX));
        let mut work = self.references as f64 * CYCLES_OF_REFERENCE;
        for region in self.regions.iter_mut().filter(|region| region.resident > 0) {
            let seen = Use {
                page_lookups: region.page_lookups,
                region_lookups: region.region_lookups,
                ..Use::of_coverage(region.address, region.resident, region.accessed, 0)
            };
            // All work of the window goes with its first region.
            self.looks.add(time, seen, std::mem::take(&mut work));
            (region.accessed, region.page_lookups, region.region_lookups) = (0, 0.0, 0.0);
        }
        self.references = 0;
        self.windows += 1;
    }

    /// A window that is not whole counts if it is the only one, or more than half of one.
    fn finish(mut self, path: &Path, reference_time: Duration) -> Result<Recorded, ReplayError> {
        let note = (self.windows == 0).then(|| {
            format!(
                "{}: {} references are less than a second at {reference_time:?} each: one look; a longer --reference-time makes \
                 more of them",
                path.display(),
                self.references
            )
        });
        if self.windows == 0 || self.references > self.window / 2 {
            self.close();
        }
        if self.looks.last().is_none() {
            return Err(ReplayError::asked(format!(
                "{} has no accesses to data, only instructions: nothing is known of its memory",
                path.display()
            )));
        }
        let duration = WINDOW.saturating_mul(u32::try_from(self.windows).unwrap_or(u32::MAX));
        Ok(Recorded {
            programs: vec![Named {
                walks: None,
                name: None,
                program: self.looks.finish(None),
            }],
            duration,
            basis: Basis::References,
            note,
        })
    }
}
