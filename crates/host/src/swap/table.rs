//! Active swap areas, from `/proc/swaps`.

use crate::error::Result;
use crate::files;
use serde::Serialize;
use std::path::Path;
use std::path::PathBuf;

/// One active swap area.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwapArea {
    /// Device or file.
    pub path: PathBuf,
    /// `partition` (any block device) or `file`.
    pub kind: String,
    /// Bytes it can hold.
    pub size_bytes: u64,
    /// Bytes it holds.
    pub used_bytes: u64,
    /// Higher is used first.
    pub priority: i32,
}

impl SwapArea {
    /// Bytes it can still take.
    pub fn free_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(self.used_bytes)
    }

    /// Whether it is compressed memory: `/dev/zram0`, on Android `/dev/block/zram0`.
    pub fn is_zram(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("zram"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    }
}

/// All active swap areas.
///
/// # Errors
/// When `/proc/swaps` cannot be read, as on a kernel without swap.
pub fn active_areas() -> Result<Vec<SwapArea>> {
    Ok(parse(&files::read(Path::new("/proc/swaps"))?))
}

fn parse(text: &str) -> Vec<SwapArea> {
    text.lines().skip(1).filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<SwapArea> {
    let mut fields = line.split_ascii_whitespace();
    let path = files::unescape(fields.next()?);
    let kind = fields.next()?.to_owned();
    let mut kib = || fields.next()?.parse::<u64>().ok()?.checked_mul(1024);
    let (size_bytes, used_bytes) = (kib()?, kib()?);
    let priority = fields.next()?.parse().ok()?;
    Some(SwapArea {
        path,
        kind,
        size_bytes,
        used_bytes,
        priority,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_escaped_names_and_negative_priorities() {
        let areas = parse(
            "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
             /dev/zram0                              partition\t2097148\t\t452\t\t-2\n\
             /var/a\\040b                            file\t\t1024\t\t2048\t\t7\n\
             broken line\n",
        );
        assert_eq!(areas.len(), 2);
        assert_eq!(
            (areas[0].size_bytes, areas[0].used_bytes),
            (2_097_148 << 10, 452 << 10)
        );
        assert_eq!(areas[0].priority, -2);
        assert!(areas[0].is_zram() && !areas[1].is_zram());
        assert_eq!(areas[1].path, Path::new("/var/a b"));
        assert_eq!(areas[1].free_bytes(), 0);
    }

    #[test]
    fn compressed_memory_is_told_by_its_device() {
        let is_zram = |path: &str| {
            let line = format!("{path} partition 1024 0 5");
            parse_line(&line).expect("an area").is_zram()
        };
        assert!(is_zram("/dev/zram12") && is_zram("/dev/block/zram0"));
        for other in ["/dev/sda3", "/var/zram", "/var/zramfile", "/zram0/swap"] {
            assert!(!is_zram(other), "{other}");
        }
    }
}
