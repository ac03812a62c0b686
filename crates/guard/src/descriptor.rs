//! Files that are read by system calls as they are: the C library's functions may be interposed, and may take memory.

use libc::c_long;

/// An open file of ours.
pub(crate) struct Descriptor(c_long);

impl Descriptor {
    /// Opens a file to read it.
    pub(crate) fn open(path: &std::ffi::CStr) -> Option<Self> {
        // SAFETY: the path is a C string.
        let file = unsafe {
            libc::syscall(
                libc::SYS_openat,
                c_long::from(libc::AT_FDCWD),
                path.as_ptr(),
                c_long::from(libc::O_RDONLY | libc::O_CLOEXEC),
            )
        };
        (file >= 0).then_some(Self(file))
    }

    /// Reads on. Returns how many bytes there were.
    pub(crate) fn read(&self, place: &mut [u8]) -> usize {
        // SAFETY: the buffer is that long.
        let bytes =
            unsafe { libc::syscall(libc::SYS_read, self.0, place.as_mut_ptr(), place.len()) };
        usize::try_from(bytes).unwrap_or(0)
    }

    /// Reads words from the one at `index` on; false: there are not so many.
    pub(crate) fn read_at(&self, place: &mut [u64], index: usize) -> bool {
        let bytes = size_of_val(place);
        // SAFETY: the buffer is that long.
        let read = unsafe {
            libc::syscall(
                libc::SYS_pread64,
                self.0,
                place.as_mut_ptr(),
                bytes,
                index * 8,
            )
        };
        read == bytes as c_long
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}
