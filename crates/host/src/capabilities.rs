//! Effective capabilities of this process.

use crate::files;
use serde::Serialize;
use std::path::Path;

/// The capabilities that matter here, as effective now (`CapEff` of `/proc/self/status`;
/// include/uapi/linux/capability.h). Having one does not mean that a lockdown lets it be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// All bits.
    pub mask: u64,
    /// Load BPF programs.
    pub bpf: bool,
    /// Open perf events of others.
    pub perfmon: bool,
    /// Mount, swapon, and on old kernels BPF and perf too.
    pub sys_admin: bool,
    /// Exceed resource limits.
    pub sys_resource: bool,
    /// Look into processes of other users.
    pub sys_ptrace: bool,
    /// Open files whoever they belong to.
    pub dac_override: bool,
    /// Advise about memory of others (`process_madvise`).
    pub sys_nice: bool,
}

impl Capabilities {
    /// Those of this process; `None` if `/proc` is not there.
    pub fn current() -> Option<Self> {
        Self::from_status(&files::read_optional(Path::new("/proc/self/status"))?)
    }

    /// What a manager of other programs' huge pages lacks: it loads BPF programs, looks into others and advises about their memory.
    pub fn missing_for_huge_pages(&self) -> Vec<&'static str> {
        let needed = [
            ("bpf", self.bpf || self.sys_admin),
            ("perfmon", self.perfmon || self.sys_admin),
            ("sys_ptrace", self.sys_ptrace),
            ("sys_nice", self.sys_nice),
            // Their clear_refs and pagemap in /proc.
            ("dac_override", self.dac_override),
        ];
        let missing = needed.into_iter().filter(|(_, is_there)| !is_there);
        missing.map(|(name, _)| name).collect()
    }

    /// Lets a process whose executable was given capabilities look at itself (`/proc/self/pagemap`), which the kernel forbids
    /// after such an exec (PR_SET_DUMPABLE). Others of the same user may still not look into it without those
    /// capabilities (cap_ptrace_access_check, security/commoncap.c, 6.12). Does nothing for root, nor without capabilities.
    pub fn allow_looking_at_oneself() {
        let some = Self::current().is_some_and(|capabilities| capabilities.mask != 0);
        if some && !rustix::process::geteuid().is_root() {
            // If refused, something else will say what is missing.
            let _ =
                rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable);
        }
    }

    pub(crate) fn from_status(status: &str) -> Option<Self> {
        let hex = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))?;
        let mask = u64::from_str_radix(hex.trim(), 16).ok()?;
        let has = |bit: u32| mask & (1 << bit) != 0;
        Some(Capabilities {
            mask,
            bpf: has(39),
            perfmon: has(38),
            sys_admin: has(21),
            sys_resource: has(24),
            sys_ptrace: has(19),
            dac_override: has(1),
            sys_nice: has(23),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_their_names() {
        let all_but_resource =
            Capabilities::from_status("Name:\tx\nCapEff:\t000001fffeffffff\n").expect("parses");
        assert!(all_but_resource.bpf && all_but_resource.perfmon && all_but_resource.sys_ptrace);
        assert!(all_but_resource.sys_admin && !all_but_resource.sys_resource);
        let none = Capabilities::from_status("CapEff:\t0000000000000000").expect("parses");
        assert!(!none.bpf && !none.sys_admin && none.mask == 0);
        assert_eq!(none.missing_for_huge_pages().len(), 5);
        let container = Capabilities::from_status("CapEff:\t00000000a82425fb").expect("parses");
        assert_eq!(
            container.missing_for_huge_pages(),
            ["sys_ptrace", "sys_nice"]
        );
        assert_eq!(Capabilities::from_status("CapEff:\tzz"), None);
    }
}
