//! Files that are alike by name: one call path may append to logs and fill tables, and want different things for each. Only what names tell can a
//! plan tell another time.

use std::collections::HashMap;

/// A kind of files, of one trace.
pub(crate) type Kind = u32;

/// Of files without a known path.
pub(crate) const UNNAMED: Kind = 0;

/// Kinds, by what files of it have in common.
#[derive(Default)]
pub(crate) struct Kinds {
    known: HashMap<String, Kind>,
}

impl Kinds {
    pub(crate) fn of(&mut self, path: Option<&str>) -> Kind {
        let Some(path) = path else { return UNNAMED };
        let next = self.known.len() as Kind + 1;
        *self.known.entry(shape(path)).or_insert(next)
    }
}

/// The ending of a name; where it has none, or one that counts, the name with its numbers left out, and the folder's before it if nothing else is
/// left of it.
fn shape(path: &str) -> String {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((before, ending)) if !before.is_empty() && is_word(ending) => format!("*.{ending}"),
        _ => {
            let without = without_numbers(name);
            match without.contains(char::is_alphabetic) {
                true => without,
                false => format!("{}/{without}", without_numbers(parts.next().unwrap_or(""))),
            }
        }
    }
}

fn is_word(ending: &str) -> bool {
    !ending.is_empty() && !ending.contains(|letter: char| letter.is_ascii_digit())
}

fn without_numbers(name: &str) -> String {
    let mut without = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter.is_ascii_digit() {
            true if without.ends_with('#') => {}
            true => without.push('#'),
            false => without.push(letter),
        }
    }
    without
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_by_numbers_only_are_alike() {
        for (path, expected) in [
            ("/db/000012.sst", "*.sst"),
            ("/db/shop.db-wal", "*.db-wal"),
            ("/db/MANIFEST-000005", "MANIFEST-#"),
            ("/fio/log.3.0", "log.#.#"),
            ("/var/log/syslog.1", "syslog.#"),
            ("/home/.profile", ".profile"),
            ("/pg/base/16384/2619", "#/#"),
            ("/pg/wal/00017", "wal/#"),
            ("/ends.", "ends."),
            ("", "/"),
        ] {
            assert_eq!(shape(path), expected, "{path}");
        }
    }

    #[test]
    fn files_whose_names_nobody_knows_are_a_kind_of_their_own() {
        let mut kinds = Kinds::default();
        let first = kinds.of(Some("/a/1.log"));
        assert_eq!(kinds.of(Some("/b/2.log")), first);
        assert_ne!(kinds.of(Some("/b/2.db")), first);
        assert_eq!(kinds.of(None), UNNAMED);
    }
}
