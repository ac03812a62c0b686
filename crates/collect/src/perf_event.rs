//! Opening perf events.

use std::io;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;

use libbpf_sys as sys;

use crate::CollectError;

/// Whose events.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope {
    /// Every thread's on this processor.
    Processor(u32),
    /// This thread's on all processors.
    Thread(u32),
    /// This thread's on one processor.
    ThreadOn { thread: u32, processor: u32 },
}

/// perf_event_open(2), closed on exec and in no group.
pub(crate) fn open(attributes: &sys::perf_event_attr, scope: Scope) -> io::Result<OwnedFd> {
    let (thread, processor) = match scope {
        Scope::Processor(processor) => (-1, i64::from(processor)),
        Scope::Thread(thread) => (i64::from(thread), -1),
        Scope::ThreadOn { thread, processor } => (i64::from(thread), i64::from(processor)),
    };
    // SAFETY: perf_event_open reads `size` bytes of the attributes, which live across the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            thread,
            processor,
            -1 as libc::c_long,
            libc::c_ulong::from(sys::PERF_FLAG_FD_CLOEXEC),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// PERF_COUNT_SW_PAGE_FAULTS_MAJ with period 1, which fires at the end of each major fault, for all threads on one processor.
pub(crate) fn major_faults_on(cpu: u32) -> Result<OwnedFd, CollectError> {
    let mut attributes = sys::perf_event_attr {
        type_: sys::PERF_TYPE_SOFTWARE,
        size: size_of::<sys::perf_event_attr>() as u32,
        config: u64::from(sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = 1;
    open(&attributes, Scope::Processor(cpu)).map_err(|source| CollectError::System {
        action: format!("opening the major-fault event on processor {cpu} (perf_event_paranoid?)"),
        source,
    })
}
