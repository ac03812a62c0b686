//! The surroundings of a run: memory limit, swap, and the keeper that undoes them if we cannot.

use pagewise_host::CgroupHost;
use pagewise_host::CgroupVersion;
use pagewise_host::Keeper;
use pagewise_host::LimitKind;
use pagewise_host::MemoryCgroup;
use pagewise_host::MemorySize;
use pagewise_host::Restorer;
use pagewise_host::SwapRequest;
use pagewise_host::TemporarySwap;
use pagewise_host::counters;
use pagewise_host::page_bytes;
use pagewise_host::swap::SwapArea;
use pagewise_host::swap::SwapKind;
use pagewise_host::swap::active_areas;
use pagewise_host::undo_log;
use pagewise_report as report;
use pagewise_trace as trace;

use super::subject::Subject;
use crate::cli::RecordArguments;
use crate::failure::Failure;
use crate::output::tell;

/// Room beyond the peak: fragmentation, page tables, the program's children.
const SWAP_MARGIN: f64 = 1.25;
/// Where a plan is in force: once swap is half full, the kernel takes a page's place in it away as soon as the page is
/// read in (`vm_swap_full`, include/linux/swap.h), and what a sweep only reads is written again and again.
pub(crate) const ROOMY_SWAP_MARGIN: f64 = 2.25;
const SMALLEST_SWAP: u64 = 64 << 20;
const SWAP_WITHOUT_A_PEAK: u64 = 8 << 30;

/// What was asked for.
pub(crate) struct Surroundings {
    pub(crate) memory: Option<MemorySize>,
    pub(crate) swap: Option<SwapRequest>,
    pub(crate) swap_size: Option<MemorySize>,
    /// Swap that is set up without a size given, as a multiple of the peak.
    pub(crate) swap_margin: f64,
}

impl Surroundings {
    pub(super) fn of(arguments: &RecordArguments) -> Self {
        Self {
            memory: arguments.memory,
            swap: arguments.swap.clone(),
            swap_size: arguments.swap_size,
            swap_margin: SWAP_MARGIN,
        }
    }
}

pub(crate) struct Setting {
    restorer: Option<Restorer>,
    pub(crate) cgroup: Option<MemoryCgroup>,
    pub(crate) limit: trace::Limit,
    pub(crate) swap: trace::Swap,
}

impl Setting {
    /// Sets all up, or fails with nothing changed.
    pub(crate) fn prepare(arguments: &Surroundings, peak: Option<u64>) -> Result<Self, Failure> {
        let mut setting = Self {
            restorer: None,
            cgroup: None,
            limit: trace::Limit::default(),
            swap: trace::Swap::default(),
        };
        let limit = arguments
            .memory
            .map(|memory| memory.resolve(peak, page_bytes()))
            .transpose()?;
        let default = if limit.is_some() {
            SwapRequest::Auto
        } else {
            SwapRequest::None
        };
        let request = arguments.swap.clone().unwrap_or(default);
        if limit.is_none() && request == SwapRequest::None {
            return Ok(setting);
        }
        put_back_what_others_left();
        let keeper = Keeper::start(std::path::Path::new("/proc/self/exe"))?;
        let mut restorer = Restorer::new(keeper);
        setting.set_swap(&request, swap_bytes(arguments, peak)?, &mut restorer)?;
        if let Some(bytes) = limit {
            setting.set_limit(bytes, &mut restorer)?;
        }
        setting.restorer = Some(restorer);
        Ok(setting)
    }

    fn set_swap(
        &mut self,
        request: &SwapRequest,
        bytes: u64,
        restorer: &mut Restorer,
    ) -> Result<(), Failure> {
        let swap = TemporarySwap::set_up(request, bytes, restorer)?;
        let (kind, path, algorithm) = match swap.kind {
            SwapKind::Zram { device, algorithm } => ("zram", Some(device), Some(algorithm)),
            SwapKind::File { path } => ("file", Some(path), None),
            SwapKind::Existing => ("existing", first_area(), None),
            SwapKind::None => ("none", None, None),
        };
        self.swap = trace::Swap {
            kind: Some(kind.to_owned()),
            path: path.map(|path| path.display().to_string()),
            bytes: swap.free_bytes,
            algorithm,
        };
        Ok(())
    }

    fn set_limit(&mut self, bytes: u64, restorer: &mut Restorer) -> Result<(), Failure> {
        let cgroup = MemoryCgroup::create(&format!("pagewise-{}", std::process::id()), restorer)?;
        // memory.high throttles where memory.max kills, but a program that reclaims slower than it allocates
        // outgrows it: the hard limit keeps what was asked for.
        let kind = match cgroup.version() {
            CgroupVersion::V1 => "memory.limit_in_bytes",
            CgroupVersion::V2 => "memory.max",
        };
        let is_swapless = self.is_swapless();
        if is_swapless {
            cgroup.forbid_swap()?;
        }
        let taken = cgroup.set_limit(lower_around(bytes), LimitKind::Max)?;
        self.limit = trace::Limit {
            bytes: Some(taken),
            kind: Some(kind.to_owned()),
        };
        self.bound_swap(&cgroup)?;
        let swap_limit = cgroup.swap_limit().filter(|_| !is_swapless);
        if let Some(most) = swap_limit.filter(|&most| most < bytes) {
            tell!(
                "pagewise: {} may swap {} at most: memory.swap.max around it says so",
                cgroup.path().display(),
                report::bytes(most)
            );
        }
        self.cgroup = Some(cgroup);
        Ok(())
    }

    /// Where swap was set up for it, the run may use as much as that, and none of the swap that the machine has besides:
    /// full is full, and what is measured is the device that was asked for.
    fn bound_swap(&self, cgroup: &MemoryCgroup) -> Result<(), Failure> {
        let own = matches!(self.swap.kind.as_deref(), Some("zram" | "file"));
        if let Some(bytes) = self.swap.bytes.filter(|_| own) {
            cgroup.limit_swap(bytes)?;
        }
        Ok(())
    }

    /// Whether nothing is to be swapped (`--swap none`).
    pub(super) fn is_swapless(&self) -> bool {
        self.swap.kind.as_deref() == Some("none")
    }

    /// Without swap and a limit of ours, what the machine and the subject have already is told.
    pub(super) fn look_around(&mut self, subject: &Subject) {
        if self.swap.kind.is_none() && active_areas().is_ok_and(|areas| !areas.is_empty()) {
            self.swap.kind = Some("existing".to_owned());
            self.swap.path = first_area().map(|path| path.display().to_string());
        }
        if self.limit.bytes.is_some() {
            return;
        }
        let host = match subject {
            Subject::Program(_) => CgroupHost::detect(),
            Subject::Running(running) => match running.first() {
                Some(pid) => CgroupHost::of_process(pid),
                None => return,
            },
        };
        if let Some(limit) = host.ok().and_then(|host| host.limit_around()) {
            self.limit = trace::Limit {
                bytes: Some(limit.bytes),
                kind: Some(limit.kind.to_owned()),
            };
        }
    }

    /// How much memory the program may have, bytes: what was asked for, or the limit that is around this process, or all.
    pub(super) fn memory_bytes(&self) -> u64 {
        let around = || CgroupHost::detect().ok()?.limit_around();
        let limit = self.limit.bytes.or_else(|| Some(around()?.bytes));
        let all = || counters::machine_memory().total_bytes;
        limit.or_else(all).unwrap_or(0)
    }

    /// Whether pages linger in the swap cache: all swap but zram, and zram behind zswap.
    pub(super) fn swap_is_slow() -> bool {
        let zswap = std::fs::read_to_string("/sys/module/zswap/parameters/enabled");
        let areas = active_areas().unwrap_or_default();
        let slow = |area: &SwapArea| !area.is_zram();
        zswap.is_ok_and(|enabled| enabled.starts_with('Y')) || areas.iter().any(slow)
    }

    /// Puts everything back; what could not be is told, with what to type.
    pub(super) fn restore(&mut self) -> Vec<pagewise_host::Failure> {
        self.cgroup = None;
        self.restorer
            .take()
            .map(|mut restorer| restorer.undo_all())
            .unwrap_or_default()
    }
}

/// The swap that the machine uses first; `None`: it has none, or memory and disks.
fn first_area() -> Option<std::path::PathBuf> {
    let areas = active_areas().unwrap_or_default();
    let is_memory = areas.first()?.is_zram();
    let is_like_first = |area: &SwapArea| area.is_zram() == is_memory;
    let are_alike = areas.iter().all(is_like_first);
    let first = areas.into_iter().max_by_key(|area| area.priority);
    first.filter(|_| are_alike).map(|area| area.path)
}

/// Of runs that were killed together with their keepers: their swap would take part in this one.
fn put_back_what_others_left() {
    for left in undo_log::take_up() {
        for action in &left.undone {
            tell!(
                "pagewise: an earlier run was killed together with its keeper; put back for it: {}",
                action.by_hand()
            );
        }
        for failure in &left.failures {
            tell!("pagewise: of an earlier run {failure}");
        }
    }
}

/// The limit that was asked for, or a lower one that is in force already: on v2 our cgroup may lie beside the one that
/// has it.
fn lower_around(asked: u64) -> u64 {
    let around = CgroupHost::detect()
        .ok()
        .and_then(|host| host.limit_around());
    let Some(around) = around.filter(|limit| limit.bytes < asked) else {
        return asked;
    };
    tell!(
        "pagewise: {} has a limit of {} ({}), less than the {} asked for: that counts",
        around.cgroup.display(),
        report::bytes(around.bytes),
        around.kind,
        report::bytes(asked)
    );
    around.bytes
}

/// The size of swap that is set up.
pub(crate) fn swap_bytes(arguments: &Surroundings, peak: Option<u64>) -> Result<u64, Failure> {
    if let Some(size) = arguments.swap_size {
        return Ok(size.resolve(peak, page_bytes())?);
    }
    if let Some(peak) = peak {
        return Ok(((peak as f64 * arguments.swap_margin) as u64).max(SMALLEST_SWAP));
    }
    let memory = counters::machine_memory()
        .total_bytes
        .unwrap_or(SWAP_WITHOUT_A_PEAK);
    Ok(memory.min(SWAP_WITHOUT_A_PEAK))
}
