//! What this machine and user may do: the facts behind `pagewise check`.

mod probe;

use crate::capabilities::Capabilities;
use crate::cgroup::CgroupHost;
use crate::counters;
use crate::counters::MachineMemory;
use crate::counters::Pressure;
use crate::files;
use crate::huge_pages;
use crate::swap;
use crate::swap::SwapArea;
use serde::Serialize;
use std::path::Path;

/// Facts about the host. `None` is "not known", mostly because the kernel has no such file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostFacts {
    /// Release of the kernel, `6.12.38-amd64`. To show, not to decide by.
    pub kernel_release: Option<String>,
    /// Effective user.
    pub effective_uid: u32,
    /// Effective capabilities.
    pub capabilities: Option<Capabilities>,
    /// `kernel.perf_event_paranoid`: at 2 one may still count faults of one's own programs.
    pub perf_event_paranoid: Option<i32>,
    /// `none`, `integrity` or `confidentiality`; `None` where securityfs is not mounted or has no
    /// such file, which says nothing about a lockdown.
    pub lockdown: Option<String>,
    /// Types of the kernel, which portable BPF programs need.
    pub btf: bool,
    /// `PAGEMAP_SCAN` works (6.7).
    pub pagemap_scan: bool,
    /// `process_madvise(2)` exists (5.10).
    pub process_madvise: bool,
    /// Open files of other processes can be had (`pidfd_getfd`, 5.6), and `cachestat` (6.5) tells of their pages.
    pub open_files: bool,
    /// Guard regions (`MADV_GUARD_INSTALL`) work (6.13).
    pub guard_regions: bool,
    /// userfaultfd(2) may serve the kernel's own faults: CAP_SYS_PTRACE, `vm.unprivileged_userfaultfd` or
    /// `/dev/userfaultfd`.
    pub kernel_userfaults: bool,
    /// Bytes of a base page.
    pub page_bytes: u64,
    /// Memory of the machine.
    pub memory: MachineMemory,
    /// Compressed swap devices.
    pub zram: ZramFacts,
    /// Memory cgroups.
    pub cgroup: CgroupFacts,
    /// Active swap; `None` on a kernel without swap.
    pub swap_areas: Option<Vec<SwapArea>>,
    /// Settings for transparent huge pages.
    pub huge_pages: HugePageFacts,
    /// What can be done to huge pages from outside a process.
    pub huge_page_actions: huge_pages::Features,
    /// Memory pressure; `None` without PSI.
    pub memory_pressure: Option<Pressure>,
}

/// zram devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ZramFacts {
    /// Numbers of the devices nobody uses.
    pub unused: Vec<u32>,
    /// Numbers of those in use.
    pub used: Vec<u32>,
    /// More can be added (the module is loaded).
    pub can_add: bool,
}

/// Memory cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CgroupFacts {
    /// Where they are; `None` without a memory controller.
    pub host: Option<CgroupHost>,
    /// This user can make one.
    pub can_create: bool,
    /// What is missing, and what to type.
    pub why_not: Option<String>,
}

/// Settings in `/sys/kernel/mm/transparent_hugepage`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HugePageFacts {
    /// `always`, `madvise` or `never`.
    pub enabled: Option<String>,
    /// How hard a fault tries.
    pub defrag: Option<String>,
    /// Bytes of a huge page.
    pub page_bytes: Option<u64>,
}

impl HostFacts {
    /// Looks at this machine. Changes nothing, takes milliseconds.
    pub fn gather() -> Self {
        let (proc, sys) = (Path::new("/proc"), Path::new("/sys"));
        HostFacts {
            kernel_release: files::read_optional(&proc.join("sys/kernel/osrelease")),
            effective_uid: rustix::process::geteuid().as_raw(),
            capabilities: Capabilities::current(),
            perf_event_paranoid: perf_event_paranoid(proc),
            lockdown: lockdown(sys),
            btf: sys.join("kernel/btf/vmlinux").exists(),
            pagemap_scan: probe::pagemap_scan(),
            process_madvise: probe::process_madvise(),
            open_files: probe::open_files(),
            guard_regions: probe::guard_regions(),
            kernel_userfaults: probe::kernel_userfaults(),
            page_bytes: crate::page_bytes(),
            memory: counters::machine_memory(),
            zram: ZramFacts::gather(),
            cgroup: CgroupFacts::gather(),
            swap_areas: swap::active_areas().ok(),
            huge_pages: HugePageFacts::read_from(sys),
            huge_page_actions: huge_pages::features(),
            memory_pressure: counters::memory_pressure(),
        }
    }
}

impl ZramFacts {
    fn gather() -> Self {
        let (unused, used) = swap::zram::devices()
            .into_iter()
            .partition(|number| swap::zram::disksize(*number) == Some(0));
        ZramFacts {
            unused,
            used,
            can_add: swap::zram::can_add(),
        }
    }
}

impl CgroupFacts {
    fn gather() -> Self {
        match CgroupHost::detect() {
            Err(error) => CgroupFacts {
                host: None,
                can_create: false,
                why_not: Some(error.chain()),
            },
            Ok(host) => {
                let why_not = host.check_create().err().map(|error| error.chain());
                CgroupFacts {
                    can_create: why_not.is_none(),
                    why_not,
                    host: Some(host),
                }
            }
        }
    }
}

impl HugePageFacts {
    fn read_from(sys: &Path) -> Self {
        let folder = sys.join("kernel/mm/transparent_hugepage");
        let setting = |name: &str| {
            files::read_optional(&folder.join(name)).map(|text| files::chosen(&text).to_owned())
        };
        HugePageFacts {
            enabled: setting("enabled"),
            defrag: setting("defrag"),
            page_bytes: files::read_number(&folder.join("hpage_pmd_size")),
        }
    }
}

fn perf_event_paranoid(proc: &Path) -> Option<i32> {
    files::read_optional(&proc.join("sys/kernel/perf_event_paranoid"))?
        .trim()
        .parse()
        .ok()
}

fn lockdown(sys: &Path) -> Option<String> {
    let text = files::read_optional(&sys.join("kernel/security/lockdown"))?;
    Some(files::chosen(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn settings_are_read_from_their_files_and_unknown_without() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        assert_eq!(perf_event_paranoid(root), None);
        assert_eq!(lockdown(root), None);
        assert_eq!(HugePageFacts::read_from(root).enabled, None);

        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, text).expect("a file");
        };
        write("sys/kernel/perf_event_paranoid", "-1\n");
        write(
            "kernel/security/lockdown",
            "none [integrity] confidentiality\n",
        );
        write(
            "kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        );
        write("kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n");
        assert_eq!(perf_event_paranoid(root), Some(-1));
        assert_eq!(lockdown(root).as_deref(), Some("integrity"));
        let huge = HugePageFacts::read_from(root);
        assert_eq!(huge.enabled.as_deref(), Some("madvise"));
        assert_eq!((huge.page_bytes, huge.defrag), (Some(2 << 20), None));
    }

    #[test]
    fn this_machine_answers_and_its_facts_become_json() {
        let facts = HostFacts::gather();
        assert_eq!(facts.effective_uid, rustix::process::geteuid().as_raw());
        assert!(facts.memory.total_bytes > Some(1 << 20));
        assert!(facts.page_bytes.is_power_of_two());
        assert_eq!(facts.btf, Path::new("/sys/kernel/btf/vmlinux").exists());
        assert_eq!(facts.cgroup.can_create, facts.cgroup.why_not.is_none());
        let json = serde_json::to_value(&facts).expect("JSON");
        assert_eq!(json["effective_uid"], facts.effective_uid);
        assert!(json["capabilities"]["bpf"].is_boolean());
    }
}
