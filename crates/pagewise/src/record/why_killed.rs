//! A program that dies at its limit should not have to guess why.

use pagewise_host::MemoryCgroup;
use pagewise_host::launch::HowEnded;
use pagewise_host::swap::active_areas;
use pagewise_report::bytes;
use rustix::process::Signal;

use super::setting::Setting;

/// Free swap as last seen before an end. After it, it is too late to look: what the program had swapped is free again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FreeSwap {
    /// When the killer was let go.
    AtTheKill(u64),
    /// Some milliseconds before, in which a program can fill some more.
    ShortlyBefore(u64),
}

impl FreeSwap {
    /// As it is now for a run in this cgroup.
    pub(crate) fn now(cgroup: Option<&MemoryCgroup>) -> Self {
        Self::ShortlyBefore(cgroup.map_or(0, MemoryCgroup::free_swap))
    }

    fn bytes(self) -> u64 {
        match self {
            Self::AtTheKill(bytes) | Self::ShortlyBefore(bytes) => bytes,
        }
    }

    /// A few pages always lie between two hands, and 3 GB a second are what a fast device takes.
    fn is_full(self) -> bool {
        match self {
            Self::AtTheKill(bytes) => bytes < 1 << 20,
            Self::ShortlyBefore(bytes) => bytes < 32 << 20,
        }
    }
}

/// What the killer left behind.
struct Death {
    /// The program itself was killed, and not only one of its children.
    of_program: bool,
    limit_bytes: u64,
    /// Swap of the machine: all of it, and what was free.
    swap_bytes: u64,
    free_swap: FreeSwap,
}

/// `None`: its limit killed none of its processes.
pub(crate) fn why_killed(
    how: Option<HowEnded>,
    setting: &Setting,
    free_swap: FreeSwap,
    raised: u64,
) -> Option<String> {
    let kills = setting.cgroup.as_ref().and_then(MemoryCgroup::oom_kills)?;
    if kills == 0 {
        let kernel_bytes = setting.cgroup.as_ref().and_then(MemoryCgroup::kernel_peak);
        return explain_stuck(
            how?,
            setting.limit.bytes?,
            raised,
            kernel_bytes.unwrap_or(0),
        );
    }
    let killer = Signal::KILL.as_raw();
    let areas = match setting.is_swapless() {
        true => Vec::new(),
        false => active_areas().unwrap_or_default(),
    };
    Some(explain(&Death {
        of_program: matches!(how, Some(HowEnded::Signal(signal)) if i32::from(signal) == killer),
        limit_bytes: setting.limit.bytes.unwrap_or(0),
        swap_bytes: areas.iter().map(|area| area.size_bytes).sum(),
        free_swap,
    }))
}

/// On cgroup v1 the killer is held and a stuck fault waits; but one that the kernel takes for the program inside a
/// system call cannot wait: the call fails with EFAULT, or, where a signal was to be delivered, with SIGSEGV
/// (mm/memcontrol-v1.c, 6.12: `mem_cgroup_oom` waits in user faults only).
///
/// Where the first fault to fail is of that kind, nobody has seen it stuck; then a limit that is full of what cannot be swapped tells.
fn explain_stuck(
    how: HowEnded,
    limit_bytes: u64,
    raised: u64,
    kernel_bytes: u64,
) -> Option<String> {
    let died = match how {
        HowEnded::Signal(signal) => {
            let faults = [Signal::SEGV, Signal::BUS];
            faults
                .iter()
                .any(|fault| i32::from(signal) == fault.as_raw())
        }
        HowEnded::Code(code) => code != 0,
    };
    let limit = bytes(limit_bytes);
    let when = if raised > 0 {
        format!("after reclaim had given up at its limit of {limit}")
    } else if kernel_bytes >= limit_bytes / 4 {
        let kernel = bytes(kernel_bytes);
        format!(
            "at its limit of {limit}, of which page tables and other memory of the kernel's had up to {kernel}"
        )
    } else {
        return None;
    };
    died.then(|| {
        format!(
            "The program failed {when} (cgroup v1): a system call that needed memory then may have failed with \
             \"Bad address\" (EFAULT), or a signal with SIGSEGV; give a larger --memory."
        )
    })
}

fn explain(death: &Death) -> String {
    let whose = if death.of_program {
        "The program was killed"
    } else {
        "A process of the program was killed"
    };
    let limit = bytes(death.limit_bytes);
    let free = bytes(death.free_swap.bytes());
    let why = if death.swap_bytes == 0 {
        "there is no swap; add some with --swap auto, or give a larger --memory".to_owned()
    } else if death.free_swap.is_full() {
        "swap is full; give more with --swap-size, or a larger --memory".to_owned()
    } else {
        format!(
            "reclaim failed with {free} of swap still free; what cannot be swapped needs more: give a larger --memory"
        )
    };
    format!("{whose} by its memory limit of {limit}: {why}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn death(swap_bytes: u64, free_swap: u64) -> Death {
        Death {
            of_program: true,
            limit_bytes: 64 << 20,
            swap_bytes,
            free_swap: FreeSwap::AtTheKill(free_swap),
        }
    }

    #[test]
    fn full_swap_and_failed_reclaim_are_told_apart() {
        let full = explain(&death(16 << 20, 4096));
        assert!(
            full.contains("swap is full") && full.contains("--swap-size"),
            "{full}"
        );
        let failed = explain(&death(1 << 30, 512 << 20));
        assert!(
            failed.contains("reclaim failed with 512 MiB of swap still free"),
            "{failed}"
        );
        assert!(!failed.contains("full"), "{failed}");
    }

    #[test]
    fn what_was_seen_before_the_end_may_have_been_filled_since() {
        let early = Death {
            free_swap: FreeSwap::ShortlyBefore(8 << 20),
            ..death(64 << 20, 0)
        };
        assert!(explain(&early).contains("swap is full"));
        let at_the_kill = explain(&death(64 << 20, 8 << 20));
        assert!(
            at_the_kill.contains("reclaim failed with 8.0 MiB"),
            "{at_the_kill}"
        );
    }

    #[test]
    fn a_failure_after_a_stuck_fault_is_told_and_no_other() {
        let segv = Signal::SEGV.as_raw() as u8;
        for how in [HowEnded::Signal(segv), HowEnded::Code(1)] {
            let told = explain_stuck(how, 64 << 20, 2, 0).expect("told");
            assert!(
                told.contains("64 MiB") && told.contains("EFAULT") && told.contains("--memory"),
                "{told}"
            );
            assert_eq!(
                explain_stuck(how, 64 << 20, 0, 4 << 20),
                None,
                "never stuck"
            );
            let told = explain_stuck(how, 64 << 20, 0, 30 << 20).expect("told");
            assert!(
                told.contains("page tables") && told.contains("30 MiB"),
                "{told}"
            );
        }
        let term = Signal::TERM.as_raw() as u8;
        for how in [HowEnded::Signal(term), HowEnded::Code(0)] {
            assert_eq!(explain_stuck(how, 64 << 20, 2, 64 << 20), None);
        }
    }

    #[test]
    fn without_swap_none_is_called_full() {
        let none = explain(&death(0, 0));
        assert!(
            none.contains("there is no swap") && none.contains("--swap auto"),
            "{none}"
        );
    }

    #[test]
    fn a_child_that_was_killed_is_not_called_the_program() {
        let child = Death {
            of_program: false,
            ..death(0, 0)
        };
        assert!(
            explain(&child)
                .starts_with("A process of the program was killed by its memory limit of 64 MiB")
        );
    }
}
