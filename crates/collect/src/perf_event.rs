//! One software event a processor that fires at the end of each major fault.

use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;

use crate::CollectError;

/// Opens PERF_COUNT_SW_PAGE_FAULTS_MAJ with period 1 for all threads on one processor.
pub(crate) fn major_faults_on(cpu: u32) -> Result<OwnedFd, CollectError> {
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_SOFTWARE,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: u64::from(libbpf_sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = 1;
    // SAFETY: perf_event_open reads `size` bytes of the attributes, which live across the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1 as libc::c_long, // every thread
            libc::c_long::from(cpu),
            -1 as libc::c_long, // no group
            libc::c_ulong::from(libbpf_sys::PERF_FLAG_FD_CLOEXEC),
        )
    };
    if fd < 0 {
        return Err(CollectError::last_os(format!(
            "opening the major-fault event on processor {cpu} (perf_event_paranoid?)"
        )));
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
