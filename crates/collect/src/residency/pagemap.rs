//! One look at a part of an address space.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::request;
use super::request::PageRegion;
use super::request::Request;
use super::runs::Region;
use super::runs::Seen;
use super::runs::State;
use super::vmas::Vma;

/// Pages that one look may find: what the kernel then does with the target's `mmap_lock` held takes half a millisecond or so.
const MOST_PAGES: u64 = 1 << 14;
/// Regions that one look may find; the kernel gives the lock away after each 512 (PAGEMAP_WALK_SIZE).
const MOST_REGIONS: usize = 2048;
/// Entries of `/proc/PID/pagemap` read at once.
const ENTRIES: usize = 1 << 15;
/// Without `PAGEMAP_SCAN` every page of a mapping is read, touched or not: larger mappings are left out.
const LARGEST_READ: u64 = 64 << 30;

const ENTRY_PRESENT: u64 = 1 << 63;
const ENTRY_SWAPPED: u64 = 1 << 62;
const ENTRY_FILE: u64 = 1 << 61;

/// How page tables are looked at (Documentation/admin-guide/mm/pagemap.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The `PAGEMAP_SCAN` request (Linux 6.7), up to this address.
    Scan {
        /// The byte after the last of any address space.
        top: u64,
        /// Guard pages are told from swapped ones (Linux 6.15).
        guards: bool,
    },
    /// Reading `/proc/PID/pagemap`: huge pages and pages of zeros look like others, and mappings of more than 64 GiB
    /// are left out.
    Entries,
}

impl Method {
    /// Whether huge pages and the page of zeros can be told from others.
    pub fn tells_huge(self) -> bool {
        matches!(self, Method::Scan { .. })
    }
}

/// The way that this kernel offers, found by trying it on ourselves.
///
/// # Errors
/// If the kernel has no `/proc/PID/pagemap` (CONFIG_PROC_PAGE_MONITOR), or it may not be read.
pub fn method() -> io::Result<Method> {
    let own = File::open("/proc/self/pagemap")?;
    // The widths that address spaces have, widest first: the kernel refuses an end beyond.
    for (bits, guards) in [56, 52, 48, 47, 42, 39, 38]
        .map(|bits| [(bits, true), (bits, false)])
        .as_flattened()
    {
        let top = (1u64 << bits) - page_bytes();
        let request = Request {
            start: 0,
            end: top,
            most_pages: 1,
            guards: *guards,
        };
        if let Ok((1, _)) = request::scan(&own, request, &mut [PageRegion::default()]) {
            return Ok(Method::Scan {
                top,
                guards: *guards,
            });
        }
    }
    Ok(Method::Entries)
}

pub(super) fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// What a look found.
pub(super) enum Look {
    /// The pages up to this one were seen; the regions are in the buffer.
    Seen {
        /// The first page that was not.
        end: u64,
        /// Of a mapping too large to be read page by page.
        left_out: bool,
    },
    /// The address space has gone: by exec, or because its last process ended.
    Gone,
}

/// An address space's page tables. It stays that of the program that ran when this was opened: after an exec it is
/// gone, whatever the process then runs.
#[derive(Debug)]
pub(super) struct Pagemap {
    file: File,
    method: Method,
    page_bytes: u64,
    found: Vec<PageRegion>,
    entries: Vec<u8>,
}

impl Pagemap {
    pub(super) fn open(pid: u32, method: Method) -> io::Result<Self> {
        let pagemap = Self {
            file: File::open(format!("/proc/{pid}/pagemap")).map_err(no_such_process)?,
            method,
            page_bytes: page_bytes(),
            found: Vec::new(),
            entries: Vec::new(),
        };
        // Before any request: a kernel thread or a zombie has no memory at all.
        if pagemap.is_gone() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(pagemap)
    }

    /// Whether nobody uses the address space any more. Asked after a look, the answer no vouches for what was seen:
    /// nothing had been torn down (mmget_not_zero in pagemap_read, fs/proc/task_mmu.c, 6.12).
    pub(super) fn is_gone(&self) -> bool {
        is_gone(&self.file)
    }

    /// The last page of the address space, excluded.
    pub(super) fn end(&self, vmas: &[Vma]) -> u64 {
        let top = match self.method {
            Method::Scan { top, .. } => top,
            Method::Entries => vmas.last().map_or(0, |vma| vma.end),
        };
        top / self.page_bytes
    }

    /// Looks at the pages from `page` on, up to `end` at most, and puts what is in memory or swap into `regions`.
    /// `vmas` are needed by [`Method::Entries`] only.
    pub(super) fn look(
        &mut self,
        page: u64,
        end: u64,
        vmas: &[Vma],
        regions: &mut Vec<Region>,
    ) -> io::Result<Look> {
        regions.clear();
        match self.method {
            Method::Scan { guards, .. } => self.scan(page, end, guards, regions),
            Method::Entries => self.read(page, end, vmas, regions),
        }
    }

    fn scan(
        &mut self,
        page: u64,
        end: u64,
        guards: bool,
        regions: &mut Vec<Region>,
    ) -> io::Result<Look> {
        self.found.resize(MOST_REGIONS, PageRegion::default());
        let request = Request {
            start: page * self.page_bytes,
            end: end * self.page_bytes,
            most_pages: MOST_PAGES,
            guards,
        };
        let (count, reached) = request::scan(&self.file, request, &mut self.found)?;
        if self.is_gone() {
            return Ok(Look::Gone);
        }
        let found = self.found[..count].iter();
        regions.extend(found.map(|found| Region {
            start: found.start / self.page_bytes,
            end: found.end / self.page_bytes,
            seen: of_categories(found.categories),
        }));
        Ok(Look::Seen {
            end: reached / self.page_bytes,
            left_out: false,
        })
    }

    fn read(
        &mut self,
        page: u64,
        end: u64,
        vmas: &[Vma],
        regions: &mut Vec<Region>,
    ) -> io::Result<Look> {
        let worth_reading = |vma: &&Vma| vma.accessible;
        let next = vmas.partition_point(|vma| vma.end / self.page_bytes <= page);
        let Some(vma) = vmas[next..].iter().find(worth_reading) else {
            return Ok(Look::Seen {
                end,
                left_out: false,
            });
        };
        if vma.end - vma.start > LARGEST_READ {
            return Ok(Look::Seen {
                end: (vma.end / self.page_bytes).min(end),
                left_out: true,
            });
        }
        let first = page.max(vma.start / self.page_bytes);
        let last = end.min(vma.end / self.page_bytes);
        let count = (last.saturating_sub(first) as usize).min(ENTRIES);
        self.entries.resize(count * 8, 0);
        // Shorter than asked for at the end of the address space, nothing once it has gone.
        let bytes = self.file.read_at(&mut self.entries, first * 8)?;
        if bytes < 8 {
            return Ok(Look::Gone);
        }
        let words = self.entries[..bytes].chunks_exact(8);
        for (page, word) in (first..).zip(words) {
            let entry = u64::from_ne_bytes(word.try_into().unwrap_or_default());
            add(regions, page, of_entry(entry));
        }
        Ok(Look::Seen {
            end: first + bytes as u64 / 8,
            left_out: false,
        })
    }
}

/// Whether nobody uses the address space any more whose `pagemap` this is.
pub(crate) fn is_gone(pagemap: &File) -> bool {
    let mut entry = [0; 8];
    !matches!(pagemap.read_at(&mut entry, 8), Ok(8))
}

/// Since Linux 6.15 what has no memory cannot be opened at all.
fn no_such_process(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ESRCH) => io::ErrorKind::NotFound.into(),
        _ => error,
    }
}

fn add(regions: &mut Vec<Region>, page: u64, seen: Seen) {
    if seen == Seen::ABSENT {
        return;
    }
    match regions.last_mut() {
        Some(last) if last.end == page && last.seen == seen => last.end += 1,
        _ => regions.push(Region {
            start: page,
            end: page + 1,
            seen,
        }),
    }
}

fn of_categories(categories: u64) -> Seen {
    let is = |category: u64| categories & category != 0;
    let file = is(request::PAGE_IS_FILE);
    let state = match () {
        () if is(request::PAGE_IS_GUARD) => State::Absent,
        () if is(request::PAGE_IS_PFNZERO) => State::Zero,
        // Pages of files do not go to swap: one on its way to another place in memory.
        () if is(request::PAGE_IS_SWAPPED) && !file => State::Swapped,
        () if is(request::PAGE_IS_HUGE) => State::Huge,
        () => State::Resident,
    };
    seen(state, file)
}

fn of_entry(entry: u64) -> Seen {
    let file = entry & ENTRY_FILE != 0;
    match (entry & ENTRY_PRESENT != 0, entry & ENTRY_SWAPPED != 0) {
        (true, _) => seen(State::Resident, file),
        (false, true) if file => seen(State::Resident, file),
        (false, true) => seen(State::Swapped, false),
        (false, false) => Seen::ABSENT,
    }
}

fn seen(state: State, file: bool) -> Seen {
    let in_memory = matches!(state, State::Resident | State::Huge);
    Seen {
        state,
        file: file && in_memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_become_states() {
        let states = |categories: &[u64]| of_categories(categories.iter().sum());
        let present = request::PAGE_IS_PRESENT;
        let cases = [
            (states(&[present]), State::Resident, false),
            (
                states(&[present, request::PAGE_IS_FILE]),
                State::Resident,
                true,
            ),
            (
                states(&[present, request::PAGE_IS_HUGE]),
                State::Huge,
                false,
            ),
            (
                states(&[present, request::PAGE_IS_PFNZERO]),
                State::Zero,
                false,
            ),
            (states(&[request::PAGE_IS_SWAPPED]), State::Swapped, false),
            (
                states(&[request::PAGE_IS_SWAPPED, request::PAGE_IS_HUGE]),
                State::Swapped,
                false,
            ),
            (
                states(&[request::PAGE_IS_SWAPPED, request::PAGE_IS_FILE]),
                State::Resident,
                true,
            ),
            (
                states(&[request::PAGE_IS_SWAPPED, request::PAGE_IS_GUARD]),
                State::Absent,
                false,
            ),
        ];
        for (seen, state, file) in cases {
            assert_eq!(seen, Seen { state, file });
        }
    }

    #[test]
    fn entries_become_runs() {
        let mut regions = Vec::new();
        let entries = [
            0,
            ENTRY_PRESENT,
            ENTRY_PRESENT,
            ENTRY_SWAPPED | 7 << 5,
            0,
            ENTRY_PRESENT | ENTRY_FILE,
        ];
        for (page, entry) in (100..).zip(entries) {
            add(&mut regions, page, of_entry(entry));
        }
        let found: Vec<_> = regions
            .iter()
            .map(|region| {
                (
                    region.start,
                    region.end,
                    region.seen.state,
                    region.seen.file,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                (101, 103, State::Resident, false),
                (103, 104, State::Swapped, false),
                (105, 106, State::Resident, true)
            ]
        );
    }

    #[test]
    fn this_kernel_offers_a_way() {
        method().expect("/proc/self/pagemap");
    }
}
