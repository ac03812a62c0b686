//! Texts that many rows have in common, each once.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;

/// A million sites lie in a few files and functions.
#[derive(Default)]
pub(crate) struct Strings(HashSet<Arc<str>, RandomState>);

impl Strings {
    /// The same text, shared.
    pub(crate) fn shared(&mut self, text: Option<&str>) -> Option<Arc<str>> {
        let text = text?;
        if let Some(known) = self.0.get(text) {
            return Some(Arc::clone(known));
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        Some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one() {
        let mut strings = Strings::default();
        let (a, b) = (
            strings.shared(Some("main.c")),
            strings.shared(Some("main.c")),
        );
        let (a, b) = (a.expect("a text"), b.expect("a text"));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(strings.shared(None), None);
    }
}
