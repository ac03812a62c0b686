//! Source files and their syntax trees, the most recently used of them kept.

use super::syntax::{Grammar, SourceTree};
use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

/// Files kept at once.
const MAX_FILES: usize = 200;
/// Source text kept at once, in bytes; a syntax tree takes about ten times as much.
const MAX_BYTES: usize = 16 << 20;
/// Larger files are generated, and reading them helps nobody.
const MAX_FILE_BYTES: u64 = 12 << 20;

/// A bounded cache of parsed sources, unreadable ones included.
#[derive(Default)]
pub(super) struct Sources {
    files: HashMap<String, Entry>,
    bytes: usize,
    clock: u64,
}

struct Entry {
    source: Option<Arc<SourceTree>>,
    last_use: u64,
}

impl Sources {
    /// The parsed file, or `None` if it cannot be read or its language not be understood.
    pub(super) fn get(&mut self, file: &str) -> Option<Arc<SourceTree>> {
        self.clock += 1;
        if let Some(entry) = self.files.get_mut(file) {
            entry.last_use = self.clock;
            return entry.source.clone();
        }
        let source = read(file).map(Arc::new);
        self.bytes += source.as_ref().map_or(0, |source| source.bytes());
        let entry = Entry {
            source: source.clone(),
            last_use: self.clock,
        };
        self.files.insert(file.to_owned(), entry);
        self.evict();
        source
    }

    /// Forgets the least recently used files beyond the bounds, but never the newest.
    fn evict(&mut self) {
        while self.files.len() > 1 && (self.files.len() > MAX_FILES || self.bytes > MAX_BYTES) {
            let oldest = self.files.iter().min_by_key(|(_, entry)| entry.last_use);
            let Some(file) = oldest.map(|(file, _)| file.clone()) else {
                return;
            };
            if let Some(Entry {
                source: Some(source),
                ..
            }) = self.files.remove(&file)
            {
                self.bytes -= source.bytes();
            }
        }
    }
}

fn read(file: &str) -> Option<SourceTree> {
    Grammar::of(file)?;
    let metadata = fs::metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return None;
    }
    // Columns and lines count bytes: text in another encoding must not shift them.
    let text = match String::from_utf8(fs::read(file).ok()?) {
        Ok(text) => text,
        Err(error) => {
            let replace = |byte: u8| if byte.is_ascii() { byte as char } else { '?' };
            error.as_bytes().iter().copied().map(replace).collect()
        }
    };
    SourceTree::parse(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_files_are_kept_than_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let mut sources = Sources::default();
        let path = |index: usize| {
            let path = folder.path().join(format!("{index}.c"));
            fs::write(&path, "int main(void) { return 0; }\n").unwrap();
            path.to_str().unwrap().to_owned()
        };
        let first = path(0);
        for index in 0..MAX_FILES + 10 {
            assert!(sources.get(&path(index)).is_some());
            // In use all the time, so never the oldest.
            assert!(sources.get(&first).is_some());
        }
        assert_eq!(sources.files.len(), MAX_FILES);
        assert!(sources.files.contains_key(&first));
        assert_eq!(
            sources.bytes,
            MAX_FILES * "int main(void) { return 0; }\n".len()
        );
    }

    #[test]
    fn unreadable_and_foreign_files_are_none() {
        let mut sources = Sources::default();
        assert!(sources.get("/nonexistent/a.c").is_none());
        assert!(sources.get("/proc/self").is_none());
        assert!(sources.get("/dev/null.adb").is_none());
    }

    #[test]
    fn text_in_another_encoding_keeps_its_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latin1.c");
        fs::write(&path, b"/* \xe9 */ int x;\n").unwrap();
        let source = Sources::default().get(path.to_str().unwrap()).unwrap();
        assert_eq!(source.bytes(), b"/* \xe9 */ int x;\n".len());
    }
}
