//! Where a process can have huge pages: private anonymous memory, by `/proc/PID/maps` and `/proc/PID/smaps`.

use crate::files;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// So many times in a row the flags of mappings are taken as known.
const REMEMBERED: u32 = 10;

/// A mapping that can have huge pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// `[heap]`, `[anon:NAME]` (named by the program), or `anonymous`.
    pub name: String,
    /// Locked in memory: a huge page there cannot be split.
    pub locked: bool,
}

impl Area {
    /// Whether all of the 2 MiB at this address belong to it.
    pub fn holds(&self, region: u64) -> bool {
        let Range { start, end } = self.addresses;
        region >= start && region.saturating_add(super::BYTES) <= end
    }

    fn has_room(&self) -> bool {
        let Range { start, end } = self.addresses;
        let first = start.checked_next_multiple_of(super::BYTES);
        first.is_some_and(|first| self.holds(first) && first < end)
    }

    fn with(mut self, flags: Flags) -> Self {
        self.locked = flags.locked;
        self
    }
}

/// Finds the areas of one process again and again. For the flags of mappings, which `smaps` tells, the kernel visits each page in memory;
/// so they are asked for when there is a new mapping, and now and then. What they forbid meanwhile the kernel refuses anyway.
#[derive(Debug, Default)]
pub struct AreaFinder {
    /// By first address. `None`: it takes no huge pages.
    known: BTreeMap<u64, Option<Flags>>,
    looks: u32,
}

#[derive(Clone, Copy, Debug)]
struct Flags {
    locked: bool,
}

impl AreaFinder {
    /// Private writable anonymous mappings of the process that are not advised against huge pages, by address. `None`: it has
    /// ended, or may not be looked into.
    pub fn areas(&mut self, pid: u32) -> Option<Vec<Area>> {
        let maps = files::read_optional(Path::new(&format!("/proc/{pid}/maps")))?;
        let smaps = || files::read_optional(Path::new(&format!("/proc/{pid}/smaps")));
        self.find(&maps, smaps)
    }

    fn find(&mut self, maps: &str, smaps: impl FnOnce() -> Option<String>) -> Option<Vec<Area>> {
        let possible: Vec<Area> = maps.lines().filter_map(header).flatten().collect();
        let is_new =
            |area: &Area| area.has_room() && !self.known.contains_key(&area.addresses.start);
        self.looks += 1;
        if self.looks % REMEMBERED != 1 && !possible.iter().any(is_new) {
            let known = possible.into_iter().filter_map(|area| {
                let flags = self.known.get(&area.addresses.start).copied()??;
                Some(area.with(flags))
            });
            return Some(known.collect());
        }
        let told = parse(&smaps()?);
        self.known = told
            .iter()
            .map(|(area, flags)| (area.addresses.start, *flags))
            .collect();
        let told = told.into_iter();
        Some(
            told.filter_map(|(area, flags)| Some(area.with(flags?)))
                .collect(),
        )
    }
}

/// Whether the process has huge pages switched off (`PR_SET_THP_DISABLE`): `THP_enabled: 0` in `/proc/PID/status` (5.0).
/// `None`: unknown.
pub fn switched_off(pid: u32) -> Option<bool> {
    let text = files::read_optional(Path::new(&format!("/proc/{pid}/status")))?;
    let word = text
        .lines()
        .find_map(|line| line.strip_prefix("THP_enabled:"))?;
    Some(word.trim() == "0")
}

/// Mappings that may be areas, each with its flags. `None`: it is none.
fn parse(text: &str) -> Vec<(Area, Option<Flags>)> {
    let mut areas = Vec::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            areas.extend(current.take().map(|area| (area, flags_of(flags))));
        } else if let Some(header) = header(line) {
            current = header;
        }
    }
    areas
}

/// `None`: no header. `Some(None)`: the header of a mapping that can have none.
fn header(line: &str) -> Option<Option<Area>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let permissions = words.next()?;
    let inode = words.nth(2)?;
    let rest: Vec<&str> = words.collect();
    let name = match rest[..] {
        [] => "anonymous".to_owned(),
        // Named mappings may have blanks in their names.
        _ => rest.join(" "),
    };
    let possible = permissions.contains('w')
        && permissions.ends_with('p')
        && inode == "0"
        && (matches!(&*name, "anonymous" | "[heap]") || name.starts_with("[anon:"));
    Some(possible.then_some(Area {
        addresses: start..end,
        name,
        locked: false,
    }))
}

/// The two letters of each flag: Documentation/filesystems/proc.rst. Left out are mappings advised against huge pages (`nh`),
/// of huge pages of another kind (`ht`), of devices (`io`, `pf`), and those a userfaultfd watches (`um`, `uw`, `ui`): it would
/// not be told of pages that come and go.
fn flags_of(flags: &str) -> Option<Flags> {
    let has = |flag: &str| flags.split_ascii_whitespace().any(|word| word == flag);
    let takes_none = ["nh", "ht", "io", "pf", "um", "uw", "ui"]
        .into_iter()
        .any(has);
    (!takes_none).then(|| Flags { locked: has("lo") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_anonymous_memory_that_takes_huge_pages_is_an_area() {
        let text = "\
55d0-55f0 rw-p 00000000 00:00 0                          [heap]
Rss:                  16 kB
VmFlags: rd wr mr mw me ac sd
7f00-7f10 rw-p 00000000 00:00 0
VmFlags: rd wr mr mw me lo ac
7f10-7f20 rw-p 00000000 00:00 0
VmFlags: rd wr mr mw me ac nh
7f20-7f30 rw-p 00000000 08:01 4711                       /usr/lib/x.so
VmFlags: rd wr
7f30-7f40 rw-s 00000000 00:01 0                          /dev/zero (deleted)
VmFlags: rd wr
7f40-7f50 rw-p 00000000 00:00 0                          [anon: glibc: malloc]
VmFlags: rd wr
7f50-7f60 rw-p 00000000 00:00 0
VmFlags: rd wr um
7f60-7f70 rw-p 00000000 00:00 0
VmFlags: rd wr uw
7f70-7f80 rw-p 00000000 00:00 0
VmFlags: rd wr ui
7ffd-7ffe rw-p 00000000 00:00 0                          [stack]
VmFlags: rd wr gd
";
        let found: Vec<(u64, String, bool)> = AreaFinder::default()
            .find("", || Some(text.to_owned()))
            .expect("found")
            .into_iter()
            .map(|area| (area.addresses.start, area.name, area.locked))
            .collect();
        let expected = [
            (0x55d0, "[heap]", false),
            (0x7f00, "anonymous", true),
            (0x7f40, "[anon: glibc: malloc]", false),
        ];
        assert_eq!(
            found,
            expected.map(|(start, name, locked)| (start, name.to_owned(), locked))
        );
    }

    #[test]
    fn flags_are_asked_for_where_there_is_a_new_mapping_and_now_and_then() {
        let line = |start: u64, end: u64| format!("{start:x}-{end:x} rw-p 00000000 00:00 0\n");
        let first = line(0x20_0000, 0x80_0000) + &line(0x100_0000, 0x101_0000);
        let told = line(0x20_0000, 0x80_0000) + "VmFlags: rd wr lo\n";
        let mut finder = AreaFinder::default();
        let never = || -> Option<String> { panic!("known") };
        let once = || Some(told.clone());
        assert!(finder.find(&first, once).expect("found")[0].locked);
        // It has grown; and a small one holds no huge page.
        let grown = line(0x20_0000, 0xa0_0000) + &line(0x100_0000, 0x101_0000);
        let areas = finder.find(&grown, never).expect("found");
        assert_eq!(
            (areas.len(), areas[0].addresses.end, areas[0].locked),
            (1, 0xa0_0000, true)
        );
        let two = line(0x20_0000, 0x80_0000) + &line(0x100_0000, 0x180_0000);
        let told = told.clone() + &line(0x100_0000, 0x180_0000) + "VmFlags: rd wr nh\n";
        assert_eq!(
            finder
                .find(&two, || Some(told.clone()))
                .expect("found")
                .len(),
            1
        );
        for _ in 3..REMEMBERED {
            assert_eq!(finder.find(&two, never).expect("found").len(), 1);
        }
        let none = finder.find(&two, || Some(String::new())).expect("found");
        assert_eq!(none, []);
    }

    #[test]
    fn a_region_must_lie_wholly_inside() {
        let area = Area {
            addresses: 0x10_0000..0x60_0000,
            name: "anonymous".to_owned(),
            locked: false,
        };
        let holds = [0x0, 0x20_0000, 0x40_0000, 0x60_0000].map(|region| area.holds(region));
        assert_eq!(holds, [false, true, true, false]);
        assert!(!area.holds(u64::MAX - 5));
    }

    #[test]
    fn this_process_has_areas_and_says_whether_huge_pages_are_off() {
        let areas = |pid| AreaFinder::default().areas(pid);
        assert!(areas(std::process::id()).is_some_and(|areas| !areas.is_empty()));
        assert_eq!(areas(u32::MAX), None);
        assert_eq!(switched_off(std::process::id()), Some(false));
        assert_eq!(switched_off(u32::MAX), None);
    }
}
