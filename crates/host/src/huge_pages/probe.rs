//! Asks the kernel what it can, with a huge page of our own.

use std::os::fd::AsFd;
use std::ptr;

use super::Refusal;

/// What this kernel can do with huge pages from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Features {
    /// `MADV_COLLAPSE` works (6.1). `None`: no huge page was free to try it with, or it may not be tried.
    pub collapse: Option<bool>,
    /// `MADV_COLD` on a base page splits a huge page. `None`: not tried.
    pub split: Option<bool>,
    /// That frees the base pages of zeros (6.12). `None`: not tried.
    pub frees_zeros: Option<bool>,
}

impl Features {
    /// Whether splitting a huge page frees its pages of zeros: as tried, or, where it could not be tried, as the kernel's own shrinker of
    /// such huge pages says, which came with it (6.12).
    pub fn splits_free_zeros(&self) -> bool {
        let shrinker = std::path::Path::new("/sys/kernel/mm/transparent_hugepage/shrink_underused");
        self.split != Some(false) && self.frees_zeros.unwrap_or_else(|| shrinker.exists())
    }
}

/// Makes a huge page in this process's own memory, splits it, and looks what is left. Takes a few milliseconds.
pub fn features() -> Features {
    let unknown = Features {
        collapse: None,
        split: None,
        frees_zeros: None,
    };
    let Some(memory) = Region::new() else {
        return unknown;
    };
    let own = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    );
    let Ok(own) = own else {
        return unknown;
    };
    memory.write_first_byte();
    let _allowed = Allowed::for_now();
    match super::collapse(own.as_fd(), memory.address) {
        Ok(()) => {}
        Err(
            Refusal::NoHugePage | Refusal::LimitReached | Refusal::Busy | Refusal::NotPermitted,
        ) => {
            return unknown;
        }
        Err(_) => {
            return Features {
                collapse: Some(false),
                ..unknown
            };
        }
    }
    let collapsed = memory.kilobytes("AnonHugePages") == Some(2048);
    if !collapsed || super::split(own.as_fd(), memory.address).is_err() {
        return Features {
            collapse: Some(collapsed),
            split: collapsed.then_some(false),
            frees_zeros: None,
        };
    }
    Features {
        collapse: Some(true),
        split: memory.kilobytes("AnonHugePages").map(|huge| huge == 0),
        frees_zeros: memory.kilobytes("Rss").map(|resident| resident < 1024),
    }
}

/// Huge pages may be switched off for this process alone, which says nothing of others: they are allowed meanwhile.
struct Allowed {
    were_disabled: bool,
}

impl Allowed {
    fn for_now() -> Self {
        // SAFETY: no pointers; only a flag of this process is read.
        let were_disabled = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } == 1;
        if were_disabled {
            set_disabled(false);
        }
        Self { were_disabled }
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        if self.were_disabled {
            set_disabled(true);
        }
    }
}

fn set_disabled(disabled: bool) {
    // SAFETY: no pointers; only a flag of this process changes.
    unsafe {
        libc::prctl(
            libc::PR_SET_THP_DISABLE,
            libc::c_ulong::from(disabled),
            0,
            0,
            0,
        )
    };
}

/// A region of fresh memory between others that may not be touched, so that no neighbour is merged with it.
struct Region {
    mapping: *mut libc::c_void,
    address: u64,
}

const MAPPED: usize = 3 * super::BYTES as usize;

impl Region {
    fn new() -> Option<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice, unmapped when dropped.
        let mapping = unsafe {
            libc::mmap(
                ptr::null_mut(),
                MAPPED,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return None;
        }
        let region = Region {
            mapping,
            address: (mapping as u64 + 1).next_multiple_of(super::BYTES),
        };
        // SAFETY: the region lies inside the mapping, which is three times as long.
        let status = unsafe {
            libc::mprotect(
                region.address as *mut libc::c_void,
                super::BYTES as usize,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        (status == 0).then_some(region)
    }

    fn write_first_byte(&self) {
        // SAFETY: inside the mapping, which is writable and nobody else's.
        unsafe { (self.address as *mut u8).write_volatile(1) };
    }

    /// A line of its mapping in smaps.
    fn kilobytes(&self, key: &str) -> Option<u64> {
        let text = crate::files::read_optional(std::path::Path::new("/proc/self/smaps"))?;
        let mut inside = false;
        for line in text.lines() {
            let range = line.split_ascii_whitespace().next().and_then(|word| {
                let (start, end) = word.split_once('-')?;
                Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
            });
            if let Some(range) = range {
                inside = range.contains(&self.address);
            } else if inside && line.starts_with(key) {
                return line.split_ascii_whitespace().nth(1)?.parse().ok();
            }
        }
        None
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: start and length of our own mapping, which nothing refers to any more.
        unsafe { libc::munmap(self.mapping, MAPPED) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, as huge pages are switched off for the process as a whole.
    #[test]
    fn this_kernel_answers_without_contradiction_whatever_this_process_may() {
        let before = features();
        set_disabled(true);
        let disabled = features();
        // SAFETY: no pointers.
        let still = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) };
        set_disabled(false);
        assert_eq!((disabled, still), (before, 1));
        if before.frees_zeros == Some(true) {
            assert_eq!((before.collapse, before.split), (Some(true), Some(true)));
        }
    }
}
