//! Names for anonymous mappings of processes whose allocations nobody tells of: by address, kept while they grow.

use std::collections::HashMap;

use pagewise_attribute::Mapping;

/// Smaller ones go together: allocators make thousands.
const LARGE: u64 = 1 << 20;
const SMALL_NAME: &str = "[anonymous]";

/// The anonymous mappings of each address space, as last seen.
#[derive(Default)]
pub(super) struct AnonymousMappings {
    spaces: HashMap<u32, Vec<Named>>,
}

struct Named {
    start: u64,
    end: u64,
    name: String,
}

impl AnonymousMappings {
    /// Names all of a space's mappings that are private, writable memory of no file; the others keep what they have.
    pub(super) fn name(&mut self, space: u32, mappings: &mut [Mapping]) {
        let before = self.spaces.remove(&space).unwrap_or_default();
        let mut now = Vec::new();
        for mapping in mappings {
            if mapping.path.is_some() || mapping.shared || !mapping.writable {
                continue;
            }
            let (start, end) = (mapping.start, mapping.end);
            if end - start < LARGE {
                mapping.path = Some(SMALL_NAME.to_owned());
                continue;
            }
            // One that has grown, at either end, or swallowed its neighbour, stays what most of it was.
            let overlap = |old: &&Named| old.end.min(end).saturating_sub(old.start.max(start));
            let name = before
                .iter()
                .filter(|old| overlap(old) > 0)
                .max_by_key(overlap)
                .map_or_else(|| format!("[anonymous {start:x}]"), |old| old.name.clone());
            mapping.path = Some(name.clone());
            now.push(Named { start, end, name });
        }
        self.spaces.insert(space, now);
    }

    /// The space has ended.
    pub(super) fn forget(&mut self, space: u32) {
        self.spaces.remove(&space);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_attribute::parse_maps;

    fn names(known: &mut AnonymousMappings, maps: &str) -> Vec<Option<String>> {
        let mut mappings = parse_maps(maps).expect("well formed");
        known.name(7, &mut mappings);
        mappings.into_iter().map(|mapping| mapping.path).collect()
    }

    fn named(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn a_mapping_that_grows_keeps_its_name() {
        let mut known = AnonymousMappings::default();
        let first = names(
            &mut known,
            "7f0000000000-7f0000400000 rw-p 00000000 00:00 0\n",
        );
        assert_eq!(first, [named("[anonymous 7f0000000000]")]);
        let grown = names(
            &mut known,
            "7efffff00000-7f0000800000 rw-p 00000000 00:00 0\n",
        );
        assert_eq!(grown, first);
        let other = names(
            &mut known,
            "7e0000000000-7e0000800000 rw-p 00000000 00:00 0\n",
        );
        assert_eq!(other, [named("[anonymous 7e0000000000]")]);
    }

    #[test]
    fn small_ones_go_together_and_others_stay_as_they_are() {
        let mut known = AnonymousMappings::default();
        let found = names(
            &mut known,
            "7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n\
             7f0000010000-7f0000810000 ---p 00000000 00:00 0\n\
             7f0001000000-7f0001800000 rw-s 00000000 00:01 5 /dev/shm/x\n\
             7f0002000000-7f0002021000 rw-p 00000000 00:00 0 [heap]\n",
        );
        let expected = [
            named(SMALL_NAME),
            None,
            named("/dev/shm/x"),
            named("[heap]"),
        ];
        assert_eq!(found, expected);
    }
}
