//! `mmap` and its family: the program's own mappings of memory, anonymous or shared. (The allocator's and the linker's calls do not
//! come this way; mappings of files are known from the list of mappings.)

use std::ffi::c_void;

use pagewise_abi::AllocationKind;
use pagewise_interpose::Registers;
use pagewise_interpose::capture;

use crate::locking::giving_way;
use crate::plan;
use crate::plan::Hook;
use crate::plan::Leaving;
use crate::settings::is_large;
use crate::shared_memory::is_shared_memory;
use crate::stream::Made;
use crate::stream::allocated;
use crate::stream::moved;
use crate::stream::releasing;

#[derive(Clone, Copy)]
struct Request {
    address: *mut c_void,
    bytes: usize,
    protection: i32,
    flags: i32,
    file: i32,
    offset: i64,
}

impl Request {
    /// # Safety
    /// As mmap(2).
    unsafe fn call(&self) -> *mut c_void {
        // SAFETY: our caller's promise.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mmap,
                self.address,
                self.bytes,
                // Variadic arguments are passed as they are: each must fill its register.
                libc::c_long::from(self.protection),
                libc::c_long::from(self.flags),
                libc::c_long::from(self.file),
                self.offset,
            )
        };
        result as *mut c_void
    }

    fn hook(&self) -> Hook {
        let special = libc::MAP_STACK | libc::MAP_GROWSDOWN | libc::MAP_HUGETLB;
        if self.flags & special != 0 {
            Hook::SpecialMapping
        } else if self.flags & libc::MAP_TYPE != libc::MAP_PRIVATE {
            Hook::SharedMemory
        } else if self.protection & libc::PROT_WRITE == 0 {
            Hook::SpecialMapping
        } else if self.flags & libc::MAP_NORESERVE != 0 {
            Hook::Reservation
        } else {
            Hook::Mapping
        }
    }
}

/// # Safety
/// As mmap(2).
unsafe fn map(request: Request, registers: Registers) -> *mut c_void {
    // The system call itself, as in the others below: looking up the next mmap may allocate, and allocators map memory.
    if request.flags & libc::MAP_FIXED != 0 {
        // What is there is unmapped by it.
        plan::leaving(request.address as usize, request.bytes, Leaving::Unmapped);
    }
    // SAFETY: the same call as our caller's.
    let call = || unsafe { request.call() };
    let result = match request.flags & libc::MAP_LOCKED {
        0 => call(),
        _ => giving_way(libc::MAP_FAILED, request.bytes, call),
    };
    if result == libc::MAP_FAILED {
        return result;
    }
    if request.flags & libc::MAP_ANONYMOUS == 0 {
        // Memory that went without our being told is a file's now.
        plan::not_fresh(result as usize, request.bytes, false);
        if !is_shared_memory(request.file, request.bytes, request.flags) {
            return result;
        }
    }
    if is_large(request.bytes) {
        let made = Made {
            address: result as usize,
            bytes: request.bytes,
            kind: AllocationKind::Mmap,
            registers,
        };
        allocated(made, 0);
    }
    // What is only reserved is made usable, in parts, later.
    if plan::wants(request.bytes) && request.protection != libc::PROT_NONE {
        plan::allocated(result as usize, request.bytes, request.hook(), None);
    }
    result
}

/// # Safety
/// As mmap(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    protection: i32,
    flags: i32,
    file: i32,
    offset: i64,
) -> *mut c_void {
    // SAFETY: our caller's promise.
    unsafe {
        map(
            Request {
                address,
                bytes,
                protection,
                flags,
                file,
                offset,
            },
            capture(),
        )
    }
}

/// # Safety
/// As mmap(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: usize,
    protection: i32,
    flags: i32,
    file: i32,
    offset: i64,
) -> *mut c_void {
    // SAFETY: our caller's promise.
    unsafe {
        map(
            Request {
                address,
                bytes,
                protection,
                flags,
                file,
                offset,
            },
            capture(),
        )
    }
}

/// # Safety
/// As munmap(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: usize) -> i32 {
    if is_large(bytes) {
        releasing(address as usize, bytes);
    }
    plan::leaving(address as usize, bytes, Leaving::Unmapped);
    // SAFETY: the same call as our caller's.
    unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as i32 }
}

/// # Safety
/// As mremap(2).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mremap(
    old: *mut c_void,
    old_bytes: usize,
    new_bytes: usize,
    flags: i32,
    target: *mut c_void,
) -> *mut c_void {
    let mut inherited = match flags & !libc::MREMAP_MAYMOVE {
        0 => plan::remapping(old as usize, old_bytes, new_bytes),
        _ => plan::leaving(old as usize, old_bytes, Leaving::Moved),
    };
    if flags & libc::MREMAP_FIXED != 0 {
        // What is there is unmapped by it.
        plan::leaving(target as usize, new_bytes, Leaving::Unmapped);
    }
    // SAFETY: the same call as our caller's; the kernel looks at the fifth argument if a flag says so.
    let call = || unsafe {
        libc::syscall(
            libc::SYS_mremap,
            old,
            old_bytes,
            new_bytes,
            libc::c_long::from(flags),
            target,
        ) as *mut c_void
    };
    let mut result = call();
    if result == libc::MAP_FAILED
        && let Some(inherited) = inherited.as_mut().filter(|inherited| inherited.has_locks())
    {
        // More than the user may lock, perhaps.
        plan::let_go(old as usize, old_bytes, inherited);
        result = call();
    }
    if result != libc::MAP_FAILED && is_large(old_bytes.max(new_bytes)) {
        moved(old as usize, old_bytes, result as usize, new_bytes);
    }
    if inherited.is_some() {
        let (address, bytes) = if result == libc::MAP_FAILED {
            (old, old_bytes)
        } else {
            (result, new_bytes)
        };
        plan::allocated(address as usize, bytes, Hook::Mapping, inherited);
    }
    result
}
