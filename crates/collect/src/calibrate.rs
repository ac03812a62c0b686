//! Finds where this kernel maps all of memory (see `bpf/calibrate.bpf.c`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::ObjectBuilder;
use libbpf_rs::OpenObject;
use libbpf_rs::ProgramInput;

use crate::CollectError;
use crate::features;
use crate::record::Config;

const PAGE_BYTES: usize = 4096;
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// What a page-table walk from BPF needs to know of this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Virtual address of the direct map of all memory.
    pub direct_map: u64,
    /// Virtual address of the kernel's array of `struct page`; `None`: not found, so pages of zeros are taken for
    /// written ones.
    pub page_structs: Option<u64>,
    /// 39 for page tables of four levels, 48 for five.
    pub top_level_shift: u32,
    /// Kernel memory is read by `bpf_rdonly_cast` (6.2), not by `bpf_probe_read_kernel`.
    pub use_cast: bool,
}

/// Finds this kernel's layout. Needs CAP_BPF and CAP_PERFMON.
///
/// # Errors
/// If the kernel lacks a tracepoint or BTF, if the programs are refused, or if the direct map is not found by either
/// way of reading.
pub fn calibrate() -> Result<Layout, CollectError> {
    features::require_tracepoints()?;
    match calibrate_reading(true) {
        // The loader says no such thing as "no bpf_rdonly_cast": the next way is tried after any refusal.
        Err(CollectError::Refused { .. }) => {}
        result => return result,
    }
    match calibrate_reading(false) {
        Err(CollectError::Refused { .. }) if features::is_confidential() => {
            Err(CollectError::NoKernelReads)
        }
        result => result,
    }
}

fn calibrate_reading(use_cast: bool) -> Result<Layout, CollectError> {
    let refused = |error: libbpf_rs::Error| CollectError::from_libbpf("calibrate", &error);
    let mut open = open_object(
        "calibrate",
        CALIBRATE,
        Config {
            use_cast: use_cast.into(),
            ..Config::default()
        },
    )?;
    for mut program in open.progs_mut() {
        program.set_autoload(true);
    }
    let object = open.load().map_err(refused)?;
    let map = object
        .maps()
        .find(|map| map.name().to_string_lossy().ends_with(".data.calibration"))
        .ok_or_else(|| no_direct_map("the calibration program has lost its data"))?;
    let page = ProbePage::new()?;
    let mut question = Vec::with_capacity(56);
    let frame = page.frame()?.unwrap_or(0);
    for word in [page.address(), frame, page.magic(), 0, 0, 0, frames()?] {
        question.extend(word.to_ne_bytes());
    }
    map.update(&0u32.to_ne_bytes(), &question, MapFlags::ANY)
        .map_err(refused)?;
    let program = object
        .progs_mut()
        .next()
        .ok_or_else(|| no_direct_map("no calibration program"))?;
    program.test_run(ProgramInput::default()).map_err(refused)?;
    let answer = map
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(refused)?
        .ok_or_else(|| no_direct_map("the calibration program has no answer"))?;
    let word = |index: usize| {
        answer
            .get(index * 8..index * 8 + 8)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_ne_bytes)
    };
    match (word(3), word(5)) {
        (0, _) | (_, 0) => Err(no_direct_map("no guess led to the probe page")),
        (direct_map, shift) => Ok(Layout {
            direct_map,
            page_structs: Some(word(4)).filter(|&base| base != 0),
            top_level_shift: shift as u32,
            use_cast,
        }),
    }
}

fn no_direct_map(detail: &str) -> CollectError {
    CollectError::NoDirectMap {
        detail: detail.to_owned(),
    }
}

static CALIBRATE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/calibrate.bpf.o"));

/// Opens a BPF object and sets its configuration, quietly: refusals come back as errors, not as log lines.
pub(crate) fn open_object(
    name: &str,
    bytes: &'static [u8],
    config: Config,
) -> Result<OpenObject, CollectError> {
    if std::env::var_os("PAGEWISE_BPF_LOG").is_none() {
        libbpf_rs::set_print(None);
    }
    let refused = |error: libbpf_rs::Error| CollectError::from_libbpf(name, &error);
    let mut open = ObjectBuilder::default()
        .open_memory(bytes)
        .map_err(refused)?;
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(".rodata.config") {
            map.set_initial_value(&config.to_bytes()).map_err(refused)?;
        }
    }
    Ok(open)
}

/// A page of our own with known contents, locked so that its frame stays.
struct ProbePage(NonNull<u64>);

impl ProbePage {
    fn new() -> Result<Self, CollectError> {
        let page = Self::untouched()?;
        // SAFETY: start and length are those of the mapping; locking changes no contents. Failure (a low
        // RLIMIT_MEMLOCK) is harmless: the page is used for microseconds.
        unsafe { libc::mlock(page.0.as_ptr().cast(), PAGE_BYTES) };
        // SAFETY: the mapping is writable, aligned and ours alone.
        unsafe { page.0.as_ptr().write_volatile(page.magic()) };
        Ok(page)
    }

    fn untouched() -> Result<Self, CollectError> {
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(CollectError::last_os("mapping a probe page"));
        }
        let start = NonNull::new(start.cast()).expect("mmap never returns null without MAP_FIXED");
        Ok(Self(start))
    }

    fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    /// Unlikely to stand anywhere else in memory at the start of a page.
    fn magic(&self) -> u64 {
        self.address().rotate_left(17) ^ 0x9e37_79b9_7f4a_7c15 ^ u64::from(std::process::id())
    }

    /// `None`: the kernel does not tell, for want of CAP_SYS_ADMIN.
    fn frame(&self) -> Result<Option<u64>, CollectError> {
        let read = || -> std::io::Result<u64> {
            let mut entry = [0; 8];
            let pagemap = File::open("/proc/self/pagemap")?;
            pagemap.read_exact_at(&mut entry, self.address() / PAGE_BYTES as u64 * 8)?;
            Ok(u64::from_ne_bytes(entry))
        };
        let entry = match read() {
            Ok(entry) => entry,
            // An executable with capabilities may not always look at itself.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Ok(None),
            Err(source) => {
                return Err(CollectError::System {
                    action: "reading /proc/self/pagemap".to_owned(),
                    source,
                });
            }
        };
        match entry & FRAME {
            0 if entry & PRESENT != 0 => Ok(None),
            frame if entry & PRESENT != 0 => Ok(Some(frame)),
            _ => Err(no_direct_map("the probe page is not in memory")),
        }
    }
}

/// The frame of the kernel's one page of zeros: what a fresh page is backed by that was only read. `None`: not told.
pub(crate) fn zero_frame() -> Option<u64> {
    let page = ProbePage::untouched().ok()?;
    // SAFETY: the mapping is readable, aligned and ours alone.
    unsafe { page.0.as_ptr().read_volatile() };
    page.frame().ok()?
}

/// One more than the highest frame number of the machine's memory.
fn frames() -> Result<u64, CollectError> {
    let zones = std::fs::read_to_string("/proc/zoneinfo").map_err(|source| {
        let action = "reading /proc/zoneinfo".to_owned();
        CollectError::System { action, source }
    })?;
    highest_frame(&zones).ok_or_else(|| no_direct_map("/proc/zoneinfo tells no zones"))
}

/// A zone tells how many frames it spans, and later with which it begins (mm/vmstat.c, 6.12).
fn highest_frame(zones: &str) -> Option<u64> {
    let mut spanned = 0;
    let mut highest = None;
    for line in zones.lines() {
        let mut words = line.split_whitespace();
        match (
            words.next(),
            words.next().and_then(|word| word.parse::<u64>().ok()),
        ) {
            (Some("spanned"), Some(frames)) => spanned = frames,
            (Some("start_pfn:"), Some(first)) if spanned > 0 => {
                highest = highest.max(first.checked_add(spanned));
            }
            _ => {}
        }
    }
    highest
}

impl Drop for ProbePage {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `new`; nothing else refers to it.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PAGE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_frame_is_the_end_of_the_last_zone() {
        let zones = "Node 0, zone DMA\n  spanned  4095\n  start_pfn:           1\n\
            Node 0, zone Normal\n  spanned  5505024\n  start_pfn:           1048576\n\
            Node 0, zone Movable\n  spanned  0\n  start_pfn:           0\n";
        assert_eq!(highest_frame(zones), Some(5_505_024 + 1_048_576));
        assert_eq!(highest_frame(""), None);
        assert_eq!(highest_frame("  start_pfn: x\n  spanned\n"), None);
        assert!(frames().is_ok_and(|frames| frames > 256));
    }
}
