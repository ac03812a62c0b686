//! The process's own list of mappings, copied into the ring without allocating.

use pagewise_abi::Maps;

use crate::Producer;
use crate::now_ns;

/// Copies `/proc/self/maps` into the ring, piece by piece. False if it cannot be read or did not fit.
pub fn write_maps(ring: &Producer) -> bool {
    // SAFETY: the path is a C string.
    let file = unsafe {
        libc::open(
            c"/proc/self/maps".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    };
    if file < 0 {
        return false;
    }
    let time_ns = now_ns();
    let mut text = [0u8; Maps::PIECE_BYTES];
    let mut first = true;
    let complete = loop {
        // SAFETY: the buffer is valid for its length.
        let read = unsafe { libc::read(file, text.as_mut_ptr().cast(), text.len()) };
        let Ok(length) = usize::try_from(read) else {
            break false;
        };
        let piece = Maps {
            time_ns,
            first,
            last: length == 0,
            text: &text[..length],
        };
        if !ring.write(Maps::wire_bytes(length), |place| piece.encode(place)) {
            break false;
        }
        if length == 0 {
            break true;
        }
        first = false;
    };
    // SAFETY: opened above, closed once.
    unsafe { libc::close(file) };
    complete
}
