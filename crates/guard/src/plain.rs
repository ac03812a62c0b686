//! Copies and fills that are no calls: what the compiler would call is this library's own `memcpy`, which looks at objects.

/// Copies bytes from the lowest address on.
///
/// # Safety
/// As `memcpy`; `to` may also overlap `from` if it is below it.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: by our caller; the direction flag is clear as the calling convention says.
    unsafe {
        std::arch::asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for at in 0..bytes {
        // SAFETY: by our caller.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
}

/// Copies bytes from the highest address on.
///
/// # Safety
/// As `memmove` where `to` is above `from`.
pub(crate) unsafe fn copy_backward(to: *mut u8, from: *const u8, bytes: usize) {
    for at in (0..bytes).rev() {
        // SAFETY: by our caller.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
}

/// Fills bytes.
///
/// # Safety
/// As `memset`.
pub(crate) unsafe fn fill(to: *mut u8, value: u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: by our caller; the direction flag is clear as the calling convention says.
    unsafe {
        std::arch::asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("al") value,
            options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for at in 0..bytes {
        // SAFETY: by our caller.
        unsafe { to.add(at).write_volatile(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_also_where_places_overlap() {
        let mut bytes: [u8; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        let place = bytes.as_mut_ptr();
        // SAFETY: within the array.
        unsafe { copy(place, place.add(2), 7) };
        assert_eq!(bytes, [3, 4, 5, 6, 7, 8, 9, 8, 9]);
        // SAFETY: as above.
        unsafe { copy_backward(place.add(1), place, 8) };
        assert_eq!(bytes, [3, 3, 4, 5, 6, 7, 8, 9, 8]);
        // SAFETY: as above.
        unsafe { fill(place.add(1), 7, 2) };
        assert_eq!(bytes, [3, 7, 7, 5, 6, 7, 8, 9, 8]);
    }
}
