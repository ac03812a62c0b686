//! The process's own list of mappings, copied into the ring without allocating.

use std::fmt;
use std::fmt::Write;

use libc::c_long;
use pagewise_abi::Maps;

use crate::Producer;
use crate::Segment;
use crate::now_ns;
use crate::visit_segments;

const PAGE: usize = 4096;

/// Copies `/proc/self/maps` into the ring, piece by piece. False if it cannot be read or did not fit. The kernel's own calls are
/// made: in the C library's a thread that is to be cancelled would end, wherever its program called us.
pub fn write_maps(ring: &Producer) -> bool {
    // SAFETY: the path is a C string.
    let file = unsafe {
        libc::syscall(
            libc::SYS_openat,
            c_long::from(libc::AT_FDCWD),
            c"/proc/self/maps".as_ptr(),
            c_long::from(libc::O_RDONLY | libc::O_CLOEXEC),
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
        let read = unsafe { libc::syscall(libc::SYS_read, file, text.as_mut_ptr(), text.len()) };
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
    unsafe { libc::syscall(libc::SYS_close, file) };
    complete
}

/// Writes what the loader knows of where modules are, in the form of such a list: where the kernel's own cannot be read, as no
/// descriptor is left or there is no `/proc`. No system calls are made. Modules without an absolute path are left out, as the
/// kernel's always are; `executable`: the program's path, which the loader does not know. False: nothing is known now, or it did not fit.
#[cold]
#[inline(never)]
pub fn write_modules(ring: &Producer, executable: &[u8]) -> bool {
    let mut list = List {
        ring,
        text: [0; Maps::PIECE_BYTES],
        length: 0,
        time_ns: now_ns(),
        is_first: true,
        is_whole: true,
    };
    let is_known = visit_segments(&mut |path, segment| {
        let path = if path.is_empty() { executable } else { path };
        if path.first() == Some(&b'/') {
            list.add(path, segment);
        }
    });
    list.flush(false);
    list.flush(true);
    is_known && list.is_whole
}

/// A list on its way: whole lines, a piece of them at a time.
struct List<'ring> {
    ring: &'ring Producer,
    text: [u8; Maps::PIECE_BYTES],
    length: usize,
    time_ns: u64,
    is_first: bool,
    is_whole: bool,
}

impl List<'_> {
    fn add(&mut self, path: &[u8], segment: Segment) {
        if self.line(path, segment).is_err() {
            self.flush(false);
            // A line that is longer than a piece is no line.
            self.is_whole &= self.line(path, segment).is_ok();
        }
    }

    /// Nothing is added where there is no room for all of it.
    fn line(&mut self, path: &[u8], segment: Segment) -> fmt::Result {
        let begin = self.length;
        let skipped = segment.start % PAGE;
        let start = segment.start - skipped;
        let end = (segment.start + segment.bytes).next_multiple_of(PAGE);
        let code = if segment.is_code { 'x' } else { '-' };
        let offset = segment.offset.saturating_sub(skipped);
        let mut written = write!(self, "{start:x}-{end:x} r-{code}p {offset:08x} 00:00 0 ");
        for part in [path, b"\n"] {
            written = written.and_then(|()| self.bytes(part));
        }
        if written.is_err() {
            self.length = begin;
        }
        written
    }

    fn bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        let place = self.text.get_mut(self.length..self.length + bytes.len());
        place.ok_or(fmt::Error)?.copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }

    /// `last`: an empty piece ends the list, as the end of the kernel's does.
    fn flush(&mut self, last: bool) {
        if self.length == 0 && !last {
            return;
        }
        let piece = Maps {
            time_ns: self.time_ns,
            first: self.is_first,
            last,
            text: &self.text[..self.length],
        };
        let bytes = Maps::wire_bytes(self.length);
        self.is_whole &= self.ring.write(bytes, |place| piece.encode(place));
        self.is_first = false;
        self.length = 0;
    }
}

impl Write for List<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes())
    }
}
