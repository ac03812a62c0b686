//! Which descriptors are open in this process, by system calls only: a child may be about to be forked.

use libc::c_long;

/// Of a directory entry (`struct linux_dirent64`): where its length and its name are.
const LENGTH_AT: usize = 16;
const NAME_AT: usize = 19;

/// Visits all descriptors that are open. False: they cannot be told.
pub fn visit_open(visit: &mut dyn FnMut(i32)) -> bool {
    // SAFETY: a C string.
    let folder = unsafe {
        libc::syscall(
            libc::SYS_openat,
            c_long::from(libc::AT_FDCWD),
            c"/proc/self/fd".as_ptr(),
            c_long::from(libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC),
        )
    };
    if folder < 0 {
        return false;
    }
    let mut entries = [0u8; 2048];
    let bytes = loop {
        // SAFETY: the buffer is valid for its length.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                folder,
                entries.as_mut_ptr(),
                entries.len(),
            )
        };
        let Some(filled) = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| entries.get(..bytes))
        else {
            break bytes;
        };
        if filled.is_empty() {
            break bytes;
        }
        visit_entries(filled, &mut |number| {
            if c_long::from(number) != folder {
                visit(number);
            }
        });
    };
    // SAFETY: our own descriptor.
    unsafe { libc::syscall(libc::SYS_close, folder) };
    bytes == 0
}

fn visit_entries(mut entries: &[u8], visit: &mut dyn FnMut(i32)) {
    while let Some(&[low, high]) = entries.get(LENGTH_AT..LENGTH_AT + 2) {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        if let Some(number) = entries.get(NAME_AT..length).and_then(number) {
            visit(number);
        }
        entries = entries.get(length.max(1)..).unwrap_or_default();
    }
}

/// `None`: a name that is no number (`.` and `..`).
fn number(name: &[u8]) -> Option<i32> {
    let digits = name.split(|&byte| byte == 0).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn all_open_descriptors_are_visited() {
        let files: Vec<_> = (0..300)
            .map(|_| std::fs::File::open("/proc/self/status").expect("open"))
            .collect();
        let mut visited = Vec::new();
        assert!(visit_open(&mut |number| visited.push(number)));
        assert!(files.iter().all(|file| visited.contains(&file.as_raw_fd())));
        assert_eq!((number(b"17\0\0"), number(b"..\0")), (Some(17), None));
    }
}
