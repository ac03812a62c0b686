//! Memory in known states, and what the access sensor sees of it.
#![allow(dead_code, reason = "each user takes a part")]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use pagewise_collect::AccessSensor;
use pagewise_collect::access::Pages;
use pagewise_collect::access::Region;
use pagewise_collect::access::Walked;
use pagewise_collect::calibrate;

pub(crate) const PAGE: usize = 4096;
pub(crate) const REGION: usize = 2 << 20;
const PAGES: usize = REGION / PAGE;

/// A walk of this process's page tables, by region.
pub(crate) struct Walker {
    sensor: AccessSensor,
    pages: Pages,
}

impl Walker {
    pub(crate) fn new() -> Result<Self, String> {
        let layout = calibrate().map_err(|error| error.to_string())?;
        Ok(Self {
            sensor: AccessSensor::load(layout).map_err(|error| error.to_string())?,
            pages: Pages::open(std::process::id())
                .map_err(|error| error.to_string())?
                .ok_or("this process has no memory")?,
        })
    }

    pub(crate) fn walk(&mut self) -> Result<BTreeMap<u64, Region>, String> {
        let mut seen = BTreeMap::new();
        let mut last = None;
        let mut disorder = false;
        let (walked, _) = self
            .sensor
            .walk(&self.pages, |region| {
                disorder |= last.replace(region.address) >= Some(region.address);
                seen.insert(region.address, region);
            })
            .map_err(|error| error.to_string())?;
        match walked {
            Walked::Whole { changed: 0 } if !disorder => Ok(seen),
            _ => Err(format!("{walked:?}, disorder: {disorder}")),
        }
    }
}

impl Walker {
    /// The same, of memory that changes meanwhile.
    pub(crate) fn walk_anyhow(&mut self) -> BTreeMap<u64, Region> {
        let mut seen = BTreeMap::new();
        let walked = self.sensor.walk(&self.pages, |region| {
            seen.insert(region.address, region);
        });
        assert!(
            matches!(walked, Ok((Walked::Whole { .. }, _))),
            "{walked:?}"
        );
        seen
    }
}

/// Anonymous memory, a whole number of regions, aligned to them; unmapped when dropped.
pub(crate) struct Memory {
    start: *mut libc::c_void,
    bytes: usize,
    mapping: (*mut libc::c_void, usize),
}

impl Memory {
    pub(crate) fn new(regions: usize) -> Result<Self, String> {
        Self::with_flags(regions, 0)
    }

    pub(crate) fn with_flags(regions: usize, flags: i32) -> Result<Self, String> {
        let bytes = regions * REGION;
        let mapped = bytes + REGION;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(format!("mmap: {}", std::io::Error::last_os_error()));
        }
        let offset = (mapping as usize).wrapping_neg() % REGION;
        Ok(Self {
            start: mapping.wrapping_byte_add(offset),
            bytes,
            mapping: (mapping, mapped),
        })
    }

    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }

    fn page(&self, page: usize) -> *mut libc::c_void {
        assert!(page * PAGE < self.bytes);
        self.start.wrapping_byte_add(page * PAGE)
    }

    /// Writes one byte of a page.
    pub(crate) fn write(&self, page: usize) {
        // SAFETY: inside the mapping (see `page`), which is ours alone and writable where this is called.
        unsafe { self.page(page).cast::<u8>().write_volatile(7) };
    }

    /// Reads one byte of a page.
    pub(crate) fn read(&self, page: usize) {
        // SAFETY: inside the mapping (see `page`), and readable where this is called.
        unsafe { self.page(page).cast::<u8>().read_volatile() };
    }

    pub(crate) fn advise(&self, pages: std::ops::Range<usize>, advice: i32) -> std::io::Result<()> {
        let start = self.page(pages.start);
        // SAFETY: the range lies inside the mapping; nobody relies on its contents.
        match unsafe { libc::madvise(start, pages.len() * PAGE, advice) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// Moves all of it, page tables and all, in the place of another of the same size; an empty mapping stays.
    pub(crate) fn move_to(&self, other: &Self) {
        assert_eq!(self.bytes, other.bytes);
        // SAFETY: both ranges are mappings of ours without references into them; what was in the other is given up, and
        // both stay mapped.
        let moved = unsafe {
            libc::mremap(
                self.start,
                self.bytes,
                self.bytes,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP,
                other.start,
            )
        };
        assert_eq!(moved, other.start, "{}", std::io::Error::last_os_error());
    }

    pub(crate) fn protect(&self, pages: std::ops::Range<usize>, protection: i32) {
        let start = self.page(pages.start);
        // SAFETY: the range lies inside the mapping, to which there are no references.
        let result = unsafe { libc::mprotect(start, pages.len() * PAGE, protection) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `with_flags`.
        unsafe { libc::munmap(self.mapping.0, self.mapping.1) };
    }
}

/// A page as this process's own /proc/self/pagemap has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    Resident,
    Swapped,
}

/// Documentation/admin-guide/mm/pagemap.rst (6.12).
fn states_by_pagemap(start: u64) -> Result<Vec<State>, String> {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    let mut bytes = vec![0; PAGES * 8];
    File::open("/proc/self/pagemap")
        .and_then(|file| file.read_exact_at(&mut bytes, start / PAGE as u64 * 8))
        .map_err(|error| format!("/proc/self/pagemap: {error}"))?;
    let entries = bytes.as_chunks::<8>().0.iter();
    Ok(entries
        .map(|entry| u64::from_ne_bytes(*entry))
        .map(|entry| match (entry & PRESENT != 0, entry & SWAPPED != 0) {
            (true, _) => State::Resident,
            (_, true) => State::Swapped,
            _ => State::Absent,
        })
        .collect())
}

fn state_in(region: &Region, page: usize) -> State {
    let has = |set: &[u64]| set[page / 64] >> (page % 64) & 1 == 1;
    match (has(&region.resident), has(&region.swapped)) {
        (true, false) => State::Resident,
        (false, true) => State::Swapped,
        (false, false) => State::Absent,
        (true, true) => panic!("page {page} is in memory and in swap"),
    }
}

fn pages(set: &[u64]) -> Vec<usize> {
    (0..PAGES)
        .filter(|page| set[page / 64] >> (page % 64) & 1 == 1)
        .collect()
}

fn expect(seen: &[usize], wanted: impl Fn(usize) -> bool, what: &str) -> Result<(), String> {
    let wanted: Vec<usize> = (0..PAGES).filter(|page| wanted(*page)).collect();
    if seen == wanted {
        Ok(())
    } else {
        let first = |pages: &[usize]| pages.iter().take(9).copied().collect::<Vec<_>>();
        Err(format!(
            "{what}: {} pages {:?}..., not {} {:?}...",
            seen.len(),
            first(seen),
            wanted.len(),
            first(&wanted)
        ))
    }
}

/// One region with every state of a base page: written, only read, never touched, swapped out, under PROT_NONE, and a
/// guard marker where this kernel has them (6.13).
pub(crate) fn page_states(walker: &mut Walker) -> Result<String, String> {
    const MADV_GUARD_INSTALL: i32 = 102;
    let memory = Memory::new(1)?;
    // Where huge pages are always used, this memory is to have none.
    let _ = memory.advise(0..PAGES, libc::MADV_NOHUGEPAGE);
    (0..320).for_each(|page| memory.write(page));
    (320..330).for_each(|page| memory.read(page)); // the page of zeros, clean
    memory.protect(64..96, libc::PROT_NONE);
    let guards = memory.advise(400..408, MADV_GUARD_INSTALL).is_ok();
    memory
        .advise(128..256, libc::MADV_PAGEOUT)
        .map_err(|error| format!("MADV_PAGEOUT: {error}"))?;
    let expected = states_by_pagemap(memory.address())?;
    let seen = walker.walk()?;
    let after = states_by_pagemap(memory.address())?;
    let region = seen
        .get(&memory.address())
        .ok_or("the region was not seen")?;
    if region.huge {
        return Err("base pages are taken for a huge page".to_owned());
    }
    for page in 0..PAGES {
        // A guard marker is no page; pagemap shows it as swapped.
        let marker = guards && (400..408).contains(&page);
        let wanted = if marker {
            State::Absent
        } else {
            expected[page]
        };
        let found = state_in(region, page);
        if found != wanted && expected[page] == after[page] {
            return Err(format!("page {page} is {found:?}, not {wanted:?}"));
        }
    }
    expect(
        &pages(&region.dirty),
        |page| page < 320 && expected[page] == State::Resident,
        "dirty",
    )?;
    let count = |state| expected.iter().filter(|seen| **seen == state).count();
    let swapped = count(State::Swapped) - if guards { 8 } else { 0 };
    if swapped == 0 {
        return Err("nothing was swapped out: is there swap?".to_owned());
    }
    memory.protect(64..96, libc::PROT_READ | libc::PROT_WRITE);
    Ok(format!(
        "{} resident, {swapped} swapped, guard pages {}",
        count(State::Resident),
        if guards {
            "told apart"
        } else {
            "not on this kernel"
        }
    ))
}

/// A huge page counts as 512, also under PROT_NONE.
pub(crate) fn huge_pages(walker: &mut Walker) -> Result<String, String> {
    let memory = Memory::new(2)?;
    if memory.advise(0..2 * PAGES, libc::MADV_HUGEPAGE).is_err() {
        return Ok("no huge pages on this kernel".to_owned());
    }
    memory.write(0);
    memory.write(PAGES);
    memory.protect(PAGES..2 * PAGES, libc::PROT_NONE);
    let seen = walker.walk()?;
    let mut huge = 0;
    for number in 0..2 {
        let address = memory.address() + (number * REGION) as u64;
        let region = seen.get(&address).ok_or("a huge page was not seen")?;
        let whole = states_by_pagemap(address)?
            .iter()
            .all(|state| *state == State::Resident);
        if region.huge != whole {
            return Err(format!("huge: {} where pagemap says {whole}", region.huge));
        }
        if region.huge {
            huge += 1;
            expect(
                &pages(&region.resident),
                |_| true,
                "resident of a huge page",
            )?;
            expect(&pages(&region.dirty), |_| true, "dirty of a huge page")?;
        }
    }
    Ok(format!("{huge} huge pages"))
}

/// Address space without pages costs nothing: 4 TiB of it, and one page far into it.
pub(crate) fn holes(walker: &mut Walker) -> Result<String, String> {
    const TERABYTES: usize = 4 << 40;
    let memory = Memory::with_flags(TERABYTES / REGION, libc::MAP_NORESERVE)?;
    memory.protect(0..TERABYTES / PAGE, libc::PROT_NONE);
    let far = TERABYTES / PAGE - 5;
    memory.protect(far..far + 1, libc::PROT_READ | libc::PROT_WRITE);
    memory.write(far);
    let begun = std::time::Instant::now();
    let seen = walker.walk()?;
    let elapsed = begun.elapsed();
    let inside: Vec<&Region> = seen
        .range(memory.address()..memory.address() + TERABYTES as u64)
        .map(|(_, region)| region)
        .collect();
    let [region] = inside[..] else {
        return Err(format!("{} regions in 4 TiB with one page", inside.len()));
    };
    expect(
        &pages(&region.resident),
        |page| page == PAGES - 5,
        "resident",
    )?;
    Ok(format!("4 TiB of holes in {elapsed:?}"))
}

/// Touched pages, and only they, are accessed: one in eight of the first region, all of the second, none of the third.
pub(crate) fn accessed_pages(
    walker: &mut Walker,
    clear: impl Fn() -> Result<bool, String>,
) -> Result<String, String> {
    let memory = Memory::new(3)?;
    let _ = memory.advise(0..3 * PAGES, libc::MADV_NOHUGEPAGE);
    (0..3 * PAGES).for_each(|page| memory.write(page));
    let mut told = 0;
    for round in 0..3 {
        if !clear()? {
            return Err("this process has no memory to clear".to_owned());
        }
        forget_translations()?;
        let touched = |page: usize| page % 8 == round;
        (0..PAGES)
            .filter(|page| touched(*page))
            .for_each(|page| memory.read(page));
        (PAGES..2 * PAGES).for_each(|page| memory.write(page));
        let seen = walker.walk()?;
        let region = |number: usize| {
            let address = memory.address() + (number * REGION) as u64;
            seen.get(&address)
                .ok_or_else(|| format!("no region {number}"))
        };
        expect(
            &pages(&region(0)?.accessed),
            touched,
            "one in eight accessed",
        )?;
        expect(&pages(&region(1)?.accessed), |_| true, "all accessed")?;
        expect(&pages(&region(2)?.accessed), |_| false, "none accessed")?;
        for number in 0..3 {
            expect(&pages(&region(number)?.resident), |_| true, "all resident")?;
            expect(&pages(&region(number)?.dirty), |_| true, "all dirty")?;
            told += pages(&region(number)?.accessed).len();
        }
    }
    Ok(format!("{told} accessed pages exact"))
}

/// Clearing accessed bits leaves translations cached, and an access by way of those sets no bit. A change of protection
/// of more than 33 pages empties the cache (arch/x86/mm/tlb.c, 6.12, tlb_single_page_flush_ceiling).
fn forget_translations() -> Result<(), String> {
    let other = Memory::new(1)?;
    (0..PAGES).for_each(|page| other.write(page));
    other.protect(0..PAGES, libc::PROT_READ);
    Ok(())
}
