//! How often libraries were loaded and unloaded, asked of the dynamic linker without leaving its lock to a child.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use crate::process::process_generation;

/// Threads of ours that are asking.
static ASKING: AtomicU32 = AtomicU32::new(0);
/// A fork is under way: nobody may begin to ask.
static FORKING: AtomicBool = AtomicBool::new(false);
/// The process of which that is so.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Rounds of waiting, some 10 ms.
const PATIENCE: u32 = 1 << 20;

/// Run when this library is loaded: later, the allocator may be who called us.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = prepare_for_forks;

extern "C" fn prepare_for_forks() {
    GENERATION.store(process_generation(), Ordering::SeqCst);
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
}

/// A number that changes with each load and unload; `None` while the process forks.
///
/// The answer is guarded by a lock of the linker's that fork(2) leaves as it is (glibc's `fork` makes other locks anew,
/// not `_dl_load_write_lock`): had another thread of ours held it at that moment, the child's next question would wait
/// for ever. So forks wait until nobody asks.
pub fn libraries_ever_loaded() -> Option<u64> {
    ASKING.fetch_add(1, Ordering::SeqCst);
    let answer = (!FORKING.load(Ordering::SeqCst)).then(ask);
    ASKING.fetch_sub(1, Ordering::SeqCst);
    answer
}

extern "C" fn before_fork() {
    FORKING.store(true, Ordering::SeqCst);
    // Each asks for some 100 ns. Who forks while it holds the linker's lock itself would wait for ever, hence the end.
    for _ in 0..PATIENCE {
        if ASKING.load(Ordering::SeqCst) == 0 {
            return;
        }
        std::hint::spin_loop();
    }
}

extern "C" fn after_fork() {
    FORKING.store(false, Ordering::SeqCst);
}

extern "C" fn in_child() {
    begin_in_child();
}

/// In a forked child nobody asks yet. The first time only: threads that were started since may.
pub(crate) fn begin_in_child() {
    let now = process_generation();
    if GENERATION.swap(now, Ordering::SeqCst) != now {
        ASKING.store(0, Ordering::SeqCst);
        FORKING.store(false, Ordering::SeqCst);
    }
}

/// A module in this process.
#[derive(Clone, Copy, Debug)]
pub struct LoadedModule<'info> {
    /// Its path; empty: the executable.
    pub path: &'info [u8],
    /// Address in the process less the address stated in the file.
    pub bias: usize,
    /// Where its code is.
    pub code: (usize, usize),
    /// Its GNU build id; empty: it has none.
    pub build_id: &'info [u8],
    /// Where its index of unwind tables is (`.eh_frame_hdr`); 0: it has none.
    pub unwind_index: usize,
}

/// A part of a module that was loaded from its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins in the process.
    pub start: usize,
    /// How much of it is the file's, bytes.
    pub bytes: usize,
    /// Where it begins in the file.
    pub offset: usize,
    /// It can be run.
    pub is_code: bool,
}

/// Visits all modules. False: a fork was under way, nothing was visited.
pub fn visit_modules(visit: &mut dyn FnMut(LoadedModule<'_>)) -> bool {
    iterate(&mut |info| {
        // SAFETY: the linker's own.
        unsafe { one_module(info, visit) }
    })
}

/// Visits the loaded parts of all modules, each with its module's path (empty: the executable), in their files' order. False:
/// a fork was under way, nothing was visited.
pub fn visit_segments(visit: &mut dyn FnMut(&[u8], Segment)) -> bool {
    iterate(&mut |info| {
        // SAFETY: the linker's own.
        let (path, headers) = unsafe { (path_of(info), headers_of(info)) };
        let loaded = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD);
        for header in loaded {
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            let segment = Segment {
                start,
                bytes: header.p_filesz as usize,
                offset: header.p_offset as usize,
                is_code: header.p_flags & libc::PF_X != 0,
            };
            visit(path, segment);
        }
    })
}

type Visit<'visit> = &'visit mut dyn FnMut(&libc::dl_phdr_info);

/// Visits what the linker says of each module. False: a fork was under way, nothing was visited.
fn iterate(mut visit: Visit<'_>) -> bool {
    unsafe extern "C" fn one(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the linker passes a valid info, and our own `data`.
        unsafe { (*data.cast::<Visit<'_>>())(&*info) };
        0
    }
    ASKING.fetch_add(1, Ordering::SeqCst);
    let is_free = !FORKING.load(Ordering::SeqCst);
    if is_free {
        // SAFETY: the callback matches its type and `visit` lives across the call.
        unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut visit).cast()) };
    }
    ASKING.fetch_sub(1, Ordering::SeqCst);
    is_free
}

/// # Safety
/// The info must be the linker's.
unsafe fn path_of(info: &libc::dl_phdr_info) -> &[u8] {
    // SAFETY: null or a C string that lives as long as the module.
    let path = unsafe {
        info.dlpi_name
            .as_ref()
            .map(|name| std::ffi::CStr::from_ptr(name))
    };
    path.map_or(&[][..], std::ffi::CStr::to_bytes)
}

/// # Safety
/// The info must be the linker's.
unsafe fn headers_of(info: &libc::dl_phdr_info) -> &[libc::Elf64_Phdr] {
    // SAFETY: the linker states how many headers there are.
    unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) }
}

/// # Safety
/// The info must be the linker's.
unsafe fn one_module(info: &libc::dl_phdr_info, visit: &mut dyn FnMut(LoadedModule<'_>)) {
    // SAFETY: by our caller.
    let (path, headers) = unsafe { (path_of(info), headers_of(info)) };
    let bias = info.dlpi_addr as usize;
    let (mut code, mut build_id, mut unwind_index) = ((usize::MAX, 0), &[][..], 0);
    for header in headers {
        let start = bias.wrapping_add(header.p_vaddr as usize);
        if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0 {
            code = (
                code.0.min(start),
                code.1.max(start + header.p_memsz as usize),
            );
        }
        if header.p_type == libc::PT_GNU_EH_FRAME {
            unwind_index = start;
        }
        if header.p_type == libc::PT_NOTE && build_id.is_empty() {
            // SAFETY: notes are loaded with the module's first segment.
            let notes =
                unsafe { std::slice::from_raw_parts(start as *const u8, header.p_filesz as usize) };
            build_id = build_id_in(notes).unwrap_or_default();
        }
    }
    visit(LoadedModule {
        path,
        bias,
        code,
        build_id,
        unwind_index,
    });
}

/// The build id among the notes of a segment.
fn build_id_in(mut notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: usize = 3;
    loop {
        let word = |at: usize| {
            let bytes = notes.get(at..at + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?) as usize)
        };
        let (name, content, kind) = (word(0)?, word(4)?, word(8)?);
        let content_at = 12 + name.next_multiple_of(4);
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" {
            return notes.get(content_at..content_at + content);
        }
        notes = notes.get(content_at + content.next_multiple_of(4)..)?;
    }
}

fn ask() -> u64 {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        size: usize,
        data: *mut libc::c_void,
    ) -> libc::c_int {
        if size >= size_of::<libc::dl_phdr_info>() {
            // SAFETY: the linker passes a valid info of `size` bytes, and our own `data`.
            unsafe { *data.cast::<u64>() = (*info).dlpi_adds.wrapping_add((*info).dlpi_subs) };
        }
        1 // one library is enough: the counts are the same in each
    }
    let mut count = 0u64;
    // SAFETY: the callback matches its type and `count` lives across the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_hold_this_function_and_their_build_ids() {
        let here = the_modules_hold_this_function_and_their_build_ids as fn() as usize;
        let (mut found, mut ids) = (0, 0);
        assert!(visit_modules(&mut |module| {
            found += usize::from((module.code.0..module.code.1).contains(&here));
            ids += usize::from(!module.build_id.is_empty());
        }));
        assert_eq!(found, 1);
        assert!(ids > 0, "libc has one");
        assert_eq!(
            build_id_in(&[4, 0, 0, 0, 255, 255, 255, 255, 3, 0, 0, 0]),
            None
        );
    }

    #[test]
    fn segments_hold_the_code_of_their_modules() {
        let here = segments_hold_the_code_of_their_modules as fn() as usize;
        let mut found = 0;
        assert!(visit_segments(&mut |path, segment| {
            let is_here = (segment.start..segment.start + segment.bytes).contains(&here);
            found += usize::from(is_here && segment.is_code && path.is_empty());
            assert_eq!(segment.start % 4096, segment.offset % 4096);
        }));
        assert_eq!(found, 1);
    }

    #[test]
    fn the_count_stays_until_a_library_comes() {
        let before = libraries_ever_loaded();
        assert!(before.is_some_and(|count| count > 0));
        assert_eq!(libraries_ever_loaded(), before);
    }
}
