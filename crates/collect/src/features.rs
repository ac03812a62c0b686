//! What a kernel must offer and loading alone would not say in words. Probed for, never derived from a version.

use std::path::Path;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use libbpf_rs::btf::types::Typedef;

use crate::CollectError;
use crate::calibrate::open_object;
use crate::driver::SWAP;
use crate::record::Config;

const BTF: &str = "/sys/kernel/btf/vmlinux";
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// Tracepoints without which only the named part is missing.
const OPTIONAL: &[&str] = &[
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_direct_reclaim_end",
    "mm_vmscan_memcg_reclaim_begin", // CONFIG_MEMCG
    "mm_vmscan_memcg_reclaim_end",
    "block_bio_complete",
    "block_rq_complete",
    "sys_enter", // CONFIG_FTRACE_SYSCALLS
    "sys_exit",
    "mm_filemap_add_to_page_cache",
    "mm_filemap_delete_from_page_cache",
    "mm_filemap_fault",
    "mm_filemap_map_pages",
    "io_uring_submit_req", // CONFIG_IO_URING
    "io_uring_submit_sqe", // its name before 6.4
    "io_uring_complete",
    "io_uring_create",
];

/// Of these, those without which calls on files are not seen.
const IO_TRACEPOINTS: &[&str] = &[
    "sys_enter",
    "sys_exit",
    "mm_filemap_add_to_page_cache",
    "mm_filemap_delete_from_page_cache",
];

/// Whether the kernel describes itself and has each tracepoint that the sensors sit on. BTF has a type
/// `btf_trace_NAME` for each (include/trace/bpf_probe.h, 6.12).
pub(crate) fn require_tracepoints() -> Result<(), CollectError> {
    let kernel = kernel_types()?;
    let object = open_object("swap", SWAP, Config::default())?;
    for program in object.progs() {
        let section = program.section().to_string_lossy();
        if let Some(name) = tracepoint_of(&section)
            && !OPTIONAL.contains(&name)
            && !has_tracepoint(&kernel, name)
        {
            return Err(CollectError::NoTracepoint {
                name: name.to_owned(),
            });
        }
    }
    Ok(())
}

fn kernel_types() -> Result<Btf<'static>, CollectError> {
    if !Path::new(BTF).exists() {
        return Err(CollectError::NoBtf);
    }
    Btf::from_vmlinux().map_err(|error| CollectError::from_libbpf("swap", &error))
}

fn has_tracepoint(kernel: &Btf<'_>, name: &str) -> bool {
    kernel
        .type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))
        .is_some()
}

/// Of the tracepoints that are not required, those that this kernel does not have.
///
/// # Errors
/// If the kernel does not describe itself.
pub(crate) fn missing_tracepoints() -> Result<Vec<&'static str>, CollectError> {
    let kernel = kernel_types()?;
    let missing = OPTIONAL
        .iter()
        .filter(|name| !has_tracepoint(&kernel, name));
    Ok(missing.copied().collect())
}

/// Whether calls on files can be observed (`record --io`), which needs more of the kernel than swapping does.
///
/// # Errors
/// If the kernel does not describe itself, or a tracepoint is missing.
pub fn require_io() -> Result<(), CollectError> {
    require_io_tracepoints(&missing_tracepoints()?)
}

/// The same, where it is known what is missing.
pub(crate) fn require_io_tracepoints(missing: &[&'static str]) -> Result<(), CollectError> {
    match missing.iter().find(|name| IO_TRACEPOINTS.contains(name)) {
        Some(&name) => Err(CollectError::NoTracepoint {
            name: name.to_owned(),
        }),
        None => Ok(()),
    }
}

/// What else the kernel shows of input and output than calls.
pub(crate) struct IoFeatures {
    /// Requests of io_uring.
    pub(crate) requests: bool,
    /// Faults on mappings of files.
    pub(crate) file_faults: bool,
}

/// # Errors
/// If the kernel does not describe itself.
pub(crate) fn io_features() -> Result<IoFeatures, CollectError> {
    let kernel = kernel_types()?;
    let submitted = ["io_uring_submit_req", "io_uring_submit_sqe"];
    Ok(IoFeatures {
        // Before 6.0 a request had its command elsewhere, and the tracepoints other arguments.
        requests: submitted.iter().any(|name| has_tracepoint(&kernel, name))
            && has_tracepoint(&kernel, "io_uring_complete")
            && has_struct(&kernel, "io_cmd_data")
            && has_struct(&kernel, "io_rw"),
        file_faults: has_tracepoint(&kernel, "mm_filemap_fault"),
    })
}

fn has_struct(kernel: &Btf<'_>, name: &str) -> bool {
    kernel.type_by_name::<Struct<'_>>(name).is_some()
}

/// The tracepoint a section name such as `tp_btf/NAME` refers to.
pub(crate) fn tracepoint_of(section: &str) -> Option<&str> {
    section.strip_prefix("tp_btf/")
}

/// Whether the kernel is locked down so that `bpf_probe_read_kernel` is refused. False where securityfs is not mounted.
pub(crate) fn is_confidential() -> bool {
    std::fs::read_to_string(LOCKDOWN).is_ok_and(|modes| chosen(&modes) == Some("confidentiality"))
}

/// The mode in brackets, of `none [integrity] confidentiality` (security/lockdown/lockdown.c, 6.12).
fn chosen(modes: &str) -> Option<&str> {
    modes
        .split_whitespace()
        .find_map(|mode| mode.strip_prefix('[')?.strip_suffix(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_in_brackets_is_chosen() {
        assert_eq!(
            chosen("none integrity [confidentiality]\n"),
            Some("confidentiality")
        );
        assert_eq!(
            chosen("none [integrity] confidentiality\n"),
            Some("integrity")
        );
        assert_eq!(chosen("none integrity confidentiality\n"), None);
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn the_sensors_sit_on_named_tracepoints() {
        let object =
            open_object("swap", SWAP, Config::default()).expect("the object opens anywhere");
        let mut names: Vec<String> = object
            .progs()
            .filter_map(|program| {
                Some(tracepoint_of(&program.section().to_string_lossy())?.to_owned())
            })
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "block_bio_complete",
                "block_bio_queue",
                "block_rq_complete",
                "io_uring_complete",
                "io_uring_create",
                "io_uring_submit_req",
                "io_uring_submit_sqe",
                "mm_filemap_add_to_page_cache",
                "mm_filemap_delete_from_page_cache",
                "mm_filemap_fault",
                "mm_filemap_map_pages",
                "mm_page_free",
                "mm_vmscan_direct_reclaim_begin",
                "mm_vmscan_direct_reclaim_end",
                "mm_vmscan_memcg_reclaim_begin",
                "mm_vmscan_memcg_reclaim_end",
                "mm_vmscan_write_folio",
                "page_fault_kernel",
                "page_fault_user",
                "sched_process_exec",
                "sched_process_exit",
                "sched_process_fork",
                "sys_enter",
                "sys_exit",
            ]
        );
        assert!(OPTIONAL.iter().all(|name| names.iter().any(|n| n == name)));
    }
}
