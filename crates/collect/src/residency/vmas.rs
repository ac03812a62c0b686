//! The mappings of a process, by address only (`/proc/PID/maps`).

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vma {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// Whether anything may be done with it at all: a mere reservation (`PROT_NONE`) may not.
    pub accessible: bool,
}

/// All mappings of a process in order; `None` if it has gone or may not be read.
pub fn vmas(pid: u32) -> Option<Vec<Vma>> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    Some(
        text.split(|&byte| byte == b'\n')
            .filter_map(parse)
            .collect(),
    )
}

/// Cuts a range where mappings begin and end: pieces of start, end, and whether they are mapped. `vmas` are in order.
pub fn pieces(vmas: &[Vma], start: u64, end: u64) -> Vec<(u64, u64, bool)> {
    let mut pieces: Vec<(u64, u64, bool)> = Vec::new();
    let mut add = |from: u64, to: u64, mapped: bool| match pieces.last_mut() {
        _ if from >= to => {}
        Some(last) if last.2 == mapped => last.1 = to,
        _ => pieces.push((from, to, mapped)),
    };
    let first = vmas.partition_point(|vma| vma.end <= start);
    let mut reached = start;
    for vma in vmas[first..].iter().take_while(|vma| vma.start < end) {
        add(reached, vma.start, false);
        reached = vma.start.max(reached);
        add(reached, vma.end.min(end), true);
        reached = vma.end.min(end);
    }
    add(reached, end, false);
    pieces
}

/// `START-END PERMISSIONS ...` in hexadecimal.
fn parse(line: &[u8]) -> Option<Vma> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mut range = fields.next()?.split(|&byte| byte == b'-');
    let mut number = || u64::from_str_radix(std::str::from_utf8(range.next()?).ok()?, 16).ok();
    let (start, end) = (number()?, number()?);
    let permissions = fields.next()?;
    // The vsyscall page lies in the kernel's half, and no page table of the process has it.
    (start < end && end < 1 << 63).then_some(Vma {
        start,
        end,
        accessible: !permissions.starts_with(b"---"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vma(start: u64, end: u64) -> Vma {
        Vma {
            start,
            end,
            accessible: true,
        }
    }

    #[test]
    fn lines_are_read_and_nonsense_is_not() {
        let line = b"7f00-7f10 rw-p 00000000 00:00 0   [anon: with blanks]";
        assert_eq!(parse(line), Some(vma(0x7f00, 0x7f10)));
        assert_eq!(
            parse(b"7f00-7f10 ---p 0 0 0").map(|vma| vma.accessible),
            Some(false)
        );
        assert_eq!(
            parse(b"ffffffffff600000-ffffffffff601000 --xp 0 00:00 0 [vsyscall]"),
            None
        );
        for nonsense in [
            &b""[..],
            b"7f00",
            b"7f10-7f00 rw-p",
            b"x-y rw-p",
            b"7f00-7f10",
        ] {
            assert_eq!(parse(nonsense), None);
        }
    }

    #[test]
    fn a_range_is_cut_where_mappings_begin_and_end() {
        let vmas = [vma(10, 20), vma(20, 30), vma(40, 50)];
        assert_eq!(pieces(&vmas, 12, 28), [(12, 28, true)]);
        assert_eq!(
            pieces(&vmas, 25, 45),
            [(25, 30, true), (30, 40, false), (40, 45, true)]
        );
        assert_eq!(pieces(&vmas, 5, 15), [(5, 10, false), (10, 15, true)]);
        assert_eq!(pieces(&vmas, 45, 55), [(45, 50, true), (50, 55, false)]);
        assert_eq!(pieces(&vmas, 60, 70), [(60, 70, false)]);
        assert_eq!(pieces(&[], 1, 2), [(1, 2, false)]);
        assert_eq!(pieces(&vmas, 30, 40), [(30, 40, false)]);
    }
}
