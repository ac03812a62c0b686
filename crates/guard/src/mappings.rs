//! This process's mappings, as the kernel lists them.

use crate::descriptor::Descriptor;

/// Start and end of a mapping that is readable and writable, and no device; `None`: another line.
fn writable(line: &[u8]) -> Option<(usize, usize)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let is_writable = fields.next()?.starts_with("rw");
    // Behind offset, device and inode.
    let is_searched = is_writable && !fields.nth(3).is_some_and(is_device);
    is_searched.then_some((number(start)?, number(end)?))
}

/// Whether a mapping's file is a device: not what is memory all the same, shared with children or others.
fn is_device(path: &str) -> bool {
    let memory = ["/dev/zero", "/dev/shm/"];
    path.starts_with("/dev/") && !memory.iter().any(|memory| path.starts_with(memory))
}

/// Visits the mappings that are searched.
pub(crate) fn visit_mappings(visit: &mut dyn FnMut(usize, usize)) -> Option<()> {
    let maps = Descriptor::open(c"/proc/self/maps")?;
    let mut text = [0u8; 4096];
    let mut kept = 0;
    loop {
        let read = maps.read(&mut text[kept..]);
        let filled = kept + read;
        let mut begin = 0;
        while let Some(length) = text[begin..filled].iter().position(|&byte| byte == b'\n') {
            if let Some((start, end)) = writable(&text[begin..begin + length]) {
                visit(start, end);
            }
            begin += length + 1;
        }
        if read == 0 {
            return Some(());
        }
        text.copy_within(begin..filled, 0);
        // A line longer than the buffer is no line of the kernel's.
        kept = if begin == 0 && filled == text.len() {
            0
        } else {
            filled - begin
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernels_list_are_read() {
        let line = b"7f0000001000-7f0000003000 rw-p 00000000 00:00 0   [stack]";
        assert_eq!(writable(line), Some((0x7f00_0000_1000, 0x7f00_0000_3000)));
        assert_eq!(writable(b"1000-2000 r--p 00000000 00:00 0"), None);
        assert_eq!(
            writable(b"1000-2000 rw-s 00000000 00:00 0  /dev/dri/card0"),
            None
        );
        for path in [
            "/dev/zero (deleted)",
            "/dev/shm/its",
            "/home/dev/program",
            "/srv/dev/dev/its library.so",
        ] {
            let line = format!("1000-2000 rw-s 00000000 00:01 7   {path}");
            assert_eq!(writable(line.as_bytes()), Some((0x1000, 0x2000)), "{path}");
        }
        assert_eq!(writable(b"nonsense"), None);
        let mut bytes = 0;
        assert!(visit_mappings(&mut |start, end| bytes += end - start).is_some());
        assert!(bytes > 0);
    }
}
