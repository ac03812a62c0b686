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
    // SAFETY: by our caller.
    unsafe {
        fill_by_words(to, value, bytes);
    }
}

/// As [`fill`], where the processor has no instruction for it.
///
/// # Safety
/// As [`fill`].
#[cfg(any(test, not(target_arch = "x86_64")))]
unsafe fn fill_by_words(to: *mut u8, value: u8, bytes: usize) {
    const WORD: usize = size_of::<u64>();
    let head = to.align_offset(WORD).min(bytes);
    let words = (bytes - head) / WORD;
    let tail = head + words * WORD;
    // SAFETY: by our caller; words begin at a multiple of their size.
    unsafe {
        for at in (0..head).chain(tail..bytes) {
            to.add(at).write_volatile(value);
        }
        let begin = to.add(head).cast::<u64>();
        for at in 0..words {
            begin
                .add(at)
                .write_volatile(u64::from_ne_bytes([value; WORD]));
        }
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

    #[test]
    fn all_bytes_and_no_others_are_filled() {
        for (begin, bytes) in (0..9).flat_map(|begin| (0..30).map(move |bytes| (begin, bytes))) {
            let mut places = [[0u8; 48]; 2];
            for (index, place) in places.iter_mut().enumerate() {
                let to = place[begin..].as_mut_ptr();
                // SAFETY: within the array.
                unsafe {
                    match index {
                        0 => fill(to, 5, bytes),
                        _ => fill_by_words(to, 5, bytes),
                    }
                }
                let is_right = |(at, &byte): (usize, &u8)| {
                    byte == if (begin..begin + bytes).contains(&at) {
                        5
                    } else {
                        0
                    }
                };
                assert!(place.iter().enumerate().all(is_right), "{begin} {bytes}");
            }
        }
    }
}
