//! What the kernel tells of a process's regions of 2 MiB without BPF: which of their pages are in memory and in swap, and which are huge
//! pages, by the `PAGEMAP_SCAN` request (Linux 6.7). Which were accessed it does not tell.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::CollectError;
use crate::access::PageSet;
use crate::access::Pages;
use crate::access::REGION_BYTES;
use crate::access::Region;
use crate::access::Walked;
use crate::record::PAGE_BYTES;
use crate::residency::Method;
use crate::residency::method;
use crate::residency::pagemap::is_gone;
use crate::residency::request;
use crate::residency::request::PageRegion;
use crate::residency::request::Request;

/// Pages that one request may find: the target's `mmap` waits for so long.
const MOST_PAGES: u64 = 1 << 14;
const MOST_FOUND: usize = 2048;

/// Looks at regions without the right to load BPF programs, or on a kernel without them.
pub struct PageRegions {
    /// The byte after the last of any address space.
    top: u64,
    found: Vec<PageRegion>,
}

impl PageRegions {
    /// Tries it on ourselves.
    ///
    /// # Errors
    /// `Unsupported`: this kernel has no such request.
    pub fn find() -> io::Result<Self> {
        match method()? {
            Method::Scan { top, .. } => Ok(Self {
                top,
                found: vec![PageRegion::default(); MOST_FOUND],
            }),
            Method::Entries => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Hands each region that has pages to `sink`, by address. All that is in memory counts as accessed and as written.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn walk(
        &mut self,
        pages: &Pages,
        mut sink: impl FnMut(Region),
    ) -> Result<Walked, CollectError> {
        self.walk_range(pages, 0, self.top, &mut sink)
    }

    /// The region at this address, as it is now. `None`: it has no pages, or the address space has ended.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn region_at(
        &mut self,
        pages: &Pages,
        address: u64,
    ) -> Result<Option<Region>, CollectError> {
        let mut found = None;
        let end = (address + REGION_BYTES).min(self.top);
        let walked = self.walk_range(pages, address, end, &mut |region| found = Some(region))?;
        Ok(found.filter(|_| walked != Walked::Gone))
    }

    fn walk_range(
        &mut self,
        pages: &Pages,
        start: u64,
        end: u64,
        sink: &mut dyn FnMut(Region),
    ) -> Result<Walked, CollectError> {
        let mut regions = Gathered { last: None, sink };
        let mut at = start;
        while at < end {
            let request = Request {
                start: at,
                end,
                most_pages: MOST_PAGES,
                guards: false,
            };
            let (count, reached) =
                request::scan(pages.file(), request, &mut self.found).map_err(|source| {
                    CollectError::System {
                        action: "asking for the pages of a process (PAGEMAP_SCAN)".to_owned(),
                        source,
                    }
                })?;
            if is_gone(pages.file()) {
                return Ok(Walked::Gone);
            }
            self.found[..count]
                .iter()
                .for_each(|found| regions.add(found));
            if reached <= at {
                break;
            }
            at = reached;
        }
        regions.finish();
        Ok(Walked::Whole { changed: 0 })
    }
}

/// Base pages of zeros in 2 MiB of a process, by reading them; a hint, as the program may write to them meanwhile. `None`: they cannot be read.
pub fn zeros_of(pid: u32, address: u64) -> Option<u16> {
    let mut bytes = vec![0; REGION_BYTES as usize];
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, address).ok()?;
    let pages = bytes.chunks_exact(PAGE_BYTES as usize);
    Some(
        pages
            .filter(|page| page.iter().all(|byte| *byte == 0))
            .count() as u16,
    )
}

/// Puts pages together to regions, which come by address.
struct Gathered<'sink> {
    last: Option<Region>,
    sink: &'sink mut dyn FnMut(Region),
}

impl Gathered<'_> {
    fn add(&mut self, found: &PageRegion) {
        let is = |category| found.categories & category != 0;
        // The kernel's page of zeros is none of the process's own.
        if is(request::PAGE_IS_PFNZERO) {
            return;
        }
        for at in (found.start..found.end).step_by(PAGE_BYTES as usize) {
            let address = at & !(REGION_BYTES - 1);
            let page = ((at - address) / PAGE_BYTES) as usize;
            let region = self.region(address);
            if is(request::PAGE_IS_PRESENT) {
                region.huge |= is(request::PAGE_IS_HUGE);
                add(&mut region.resident, page);
                add(&mut region.accessed, page);
                add(&mut region.dirty, page);
            } else {
                add(&mut region.swapped, page);
            }
        }
    }

    fn region(&mut self, address: u64) -> &mut Region {
        if self.last.is_none_or(|last| last.address != address) {
            self.finish();
        }
        self.last.get_or_insert_with(|| Region {
            address,
            ..Region::default()
        })
    }

    fn finish(&mut self) {
        if let Some(region) = self.last.take() {
            (self.sink)(region);
        }
    }
}

fn add(set: &mut PageSet, page: usize) {
    set[page / 64] |= 1 << (page % 64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::pages_in;

    #[test]
    fn pages_become_regions() {
        let found = |start: u64, end: u64, categories: u64| PageRegion {
            start: start * PAGE_BYTES,
            end: end * PAGE_BYTES,
            categories,
        };
        let mut regions = Vec::new();
        let mut sink = |region| regions.push(region);
        let mut gathered = Gathered {
            last: None,
            sink: &mut sink,
        };
        let present = request::PAGE_IS_PRESENT;
        for pages in [
            found(510, 514, present),
            found(514, 516, request::PAGE_IS_SWAPPED),
            found(600, 700, present | request::PAGE_IS_PFNZERO),
            found(1024, 1536, present | request::PAGE_IS_HUGE),
        ] {
            gathered.add(&pages);
        }
        gathered.finish();
        let told: Vec<_> = regions
            .iter()
            .map(|region: &Region| {
                let pages = (pages_in(&region.resident), pages_in(&region.swapped));
                (region.address / REGION_BYTES, pages, region.huge)
            })
            .collect();
        assert_eq!(
            told,
            [(0, (2, 0), false), (1, (2, 2), false), (2, (512, 0), true)]
        );
    }

    #[test]
    fn our_own_memory_is_found_and_its_zeros_are_counted() {
        let Ok(mut regions) = PageRegions::find() else {
            return; // before Linux 6.7
        };
        let bytes = 3 * REGION_BYTES as usize;
        let mut memory = vec![0u8; bytes];
        memory
            .chunks_mut(PAGE_BYTES as usize)
            .for_each(|page| page[0] = 1);
        let address = (memory.as_ptr() as u64).next_multiple_of(REGION_BYTES);
        let offset = (address - memory.as_ptr() as u64) as usize;
        memory[offset..][..10 * PAGE_BYTES as usize].fill(0);
        let pages = Pages::open(std::process::id())
            .expect("our own")
            .expect("alive");
        let region = regions
            .region_at(&pages, address)
            .expect("told")
            .expect("there");
        assert_eq!(pages_in(&region.resident), 512);
        assert_eq!(zeros_of(std::process::id(), address), Some(10));
        let mut all = Vec::new();
        let walked = regions.walk(&pages, |region| all.push(region.address));
        assert_eq!(walked.expect("walked"), Walked::Whole { changed: 0 });
        assert!(all.contains(&address) && all.is_sorted());
    }
}
