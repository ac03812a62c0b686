use thiserror::Error;

/// Why a sensor cannot run. Each message says what to do about it.
#[derive(Debug, Error)]
pub enum CollectError {
    /// The kernel refused a BPF object for lack of privilege.
    #[error(
        "no permission to load BPF programs: run as root, or give pagewise cap_bpf and cap_perfmon (pagewise check)"
    )]
    NotPermitted,
    /// The kernel refused a BPF object for another reason.
    #[error(
        "the kernel refused the BPF program {program}: {detail}; its reasons: PAGEWISE_BPF_LOG=1 pagewise check"
    )]
    Refused {
        /// Which object or program.
        program: String,
        /// What libbpf or the kernel said.
        detail: String,
    },
    /// No BTF: the programs cannot be fitted to this kernel.
    #[error(
        "this kernel does not describe itself (/sys/kernel/btf/vmlinux is missing): it needs CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf,
    /// Both ways of reading kernel memory from BPF are closed.
    #[error(
        "lockdown=confidentiality forbids bpf_probe_read_kernel, and this kernel has no bpf_rdonly_cast: it needs Linux 6.2, or lockdown=integrity"
    )]
    NoKernelReads,
    /// A tracepoint that the sensors sit on is not in the kernel's BTF.
    #[error("this kernel has no tracepoint {name}{}", since(.name))]
    NoTracepoint {
        /// Its name, without its group.
        name: String,
    },
    /// The kernel's direct map was not found.
    #[error("could not find where this kernel maps memory: {detail}")]
    NoDirectMap {
        /// What was tried.
        detail: String,
    },
    /// Accessed bits cannot be cleared on this kernel.
    #[error(
        "this kernel cannot clear accessed bits (no /proc/PID/clear_refs): it needs CONFIG_PROC_PAGE_MONITOR; record without --access"
    )]
    NoClearRefs,
    /// A system call failed.
    #[error("{action}: {source}")]
    System {
        /// What was being done, and to what.
        action: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

/// When the youngest of the tracepoints came (include/trace/events/vmscan.h); the others are older than BTF, but not on
/// every processor.
fn since(name: &str) -> &'static str {
    match name {
        "mm_vmscan_write_folio" => ": it needs Linux 5.18",
        _ => "",
    }
}

impl CollectError {
    pub(crate) fn last_os(action: impl Into<String>) -> Self {
        Self::System {
            action: action.into(),
            source: std::io::Error::last_os_error(),
        }
    }

    pub(crate) fn from_libbpf(program: &str, error: &libbpf_rs::Error) -> Self {
        if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
            return Self::NotPermitted;
        }
        Self::Refused {
            program: program.to_owned(),
            detail: format!("{error:#}"),
        }
    }
}
