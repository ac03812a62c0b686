//! How a program ended, and what it used.

use crate::error::Error;
use crate::error::Result;
use rustix::process::Pid;
use serde::Serialize;
use std::io;
use std::mem::MaybeUninit;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HowEnded {
    /// It returned this code.
    Code(u8),
    /// This signal killed it.
    Signal(u8),
}

/// The end of a program. The counts are those of the program and of its children that it waited for
/// (getrusage(2)); they include the little that its process did before exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Exit {
    /// How it ended.
    pub how: HowEnded,
    /// Largest resident size of any one of these processes. `None`: smaller than this process itself, as whose fork
    /// it began, which the kernel counts too (`setmax_mm_hiwater_rss` in fs/exec.c).
    pub peak_resident_bytes: Option<u64>,
    /// Faults that had to wait for a device.
    pub major_faults: u64,
    /// Other faults.
    pub minor_faults: u64,
    /// Bytes read from devices, swap included, in whole sectors. Caches hold the rest.
    pub read_bytes: u64,
    /// Time on the processor in the program, ns.
    pub user_ns: u64,
    /// Time on the processor in the kernel, ns.
    pub system_ns: u64,
}

impl Exit {
    /// As a shell has it: the code, or 128 + the signal.
    pub fn code(&self) -> u8 {
        match self.how {
            HowEnded::Code(code) => code,
            HowEnded::Signal(signal) => 128 | signal,
        }
    }
}

/// Waits for a child and takes its zombie away.
pub(super) fn wait(pid: Pid) -> Result<Exit> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both places are ours and large enough; the kernel fills them.
        let got = unsafe {
            libc::wait4(
                pid.as_raw_nonzero().get(),
                &raw mut status,
                0,
                usage.as_mut_ptr(),
            )
        };
        if got >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(Error::system("wait for the program", error));
        }
    }
    // SAFETY: filled by the kernel, and zeros are a valid value of it too.
    let usage = unsafe { usage.assume_init() };
    Ok(decode(status, &usage))
}

fn decode(status: i32, usage: &libc::rusage) -> Exit {
    let how = if libc::WIFSIGNALED(status) {
        HowEnded::Signal((libc::WTERMSIG(status) & 0x7f) as u8)
    } else {
        HowEnded::Code((libc::WEXITSTATUS(status) & 0xff) as u8)
    };
    Exit {
        how,
        // Linux tells KiB.
        peak_resident_bytes: Some(unsigned(usage.ru_maxrss).saturating_mul(1024)),
        major_faults: unsigned(usage.ru_majflt),
        minor_faults: unsigned(usage.ru_minflt),
        // kernel/exit.c counts sectors of 512 bytes, whatever the device's are.
        read_bytes: unsigned(usage.ru_inblock).saturating_mul(512),
        user_ns: ns(&usage.ru_utime),
        system_ns: ns(&usage.ru_stime),
    }
}

fn ns(time: &libc::timeval) -> u64 {
    unsigned(time.tv_sec)
        .saturating_mul(1_000_000_000)
        .saturating_add(unsigned(time.tv_usec) * 1000)
}

fn unsigned(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(0)
}
