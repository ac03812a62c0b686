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

/// Finds this kernel's layout. Needs CAP_BPF, CAP_PERFMON, and CAP_SYS_ADMIN to see frame numbers.
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
    let mut question = Vec::with_capacity(48);
    for word in [page.address(), page.frame()?, page.magic(), 0, 0, 0] {
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
        let page =
            Self(NonNull::new(start.cast()).expect("mmap never returns null without MAP_FIXED"));
        // SAFETY: start and length are those of the mapping; locking changes no contents. Failure (a low
        // RLIMIT_MEMLOCK) is harmless: the page is used for microseconds.
        unsafe { libc::mlock(start, PAGE_BYTES) };
        // SAFETY: the mapping is writable, aligned and ours alone.
        unsafe { page.0.as_ptr().write_volatile(page.magic()) };
        Ok(page)
    }

    fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    /// Unlikely to stand anywhere else in memory at the start of a page.
    fn magic(&self) -> u64 {
        self.address().rotate_left(17) ^ 0x9e37_79b9_7f4a_7c15 ^ u64::from(std::process::id())
    }

    fn frame(&self) -> Result<u64, CollectError> {
        let read = || {
            let mut entry = [0; 8];
            let pagemap = File::open("/proc/self/pagemap")?;
            pagemap.read_exact_at(&mut entry, self.address() / PAGE_BYTES as u64 * 8)?;
            Ok(u64::from_ne_bytes(entry))
        };
        let entry: u64 = read().map_err(|source| CollectError::System {
            action: "reading /proc/self/pagemap".to_owned(),
            source,
        })?;
        match entry & FRAME {
            // Without CAP_SYS_ADMIN the kernel shows frame 0.
            0 => Err(CollectError::NotPermitted),
            frame if entry & PRESENT != 0 => Ok(frame),
            _ => Err(no_direct_map("the probe page is not in memory")),
        }
    }
}

impl Drop for ProbePage {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `new`; nothing else refers to it.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PAGE_BYTES) };
    }
}
