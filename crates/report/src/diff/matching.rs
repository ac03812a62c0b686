//! Which object of one recording is which of the other.

use std::collections::HashMap;
use std::hash::Hash;

use pagewise_analyze::Object;
use pagewise_analyze::ObjectKind;
use pagewise_analyze::bare;

use super::MatchedBy;

/// A pair, or one alone.
pub(super) type Pair<'findings> = (
    Option<&'findings Object>,
    Option<&'findings Object>,
    Option<MatchedBy>,
);

/// Matches what is equal first, then what has moved to another line; the rest has come or gone.
pub(super) fn pairs<'findings>(
    before: &'findings [Object],
    after: &'findings [Object],
) -> Vec<Pair<'findings>> {
    let mut pairing = Pairing {
        before: before.iter().map(Some).collect(),
        after: after.iter().map(Some).collect(),
        pairs: Vec::new(),
    };
    pairing.pair(MatchedBy::Site, |object| {
        let named = object.identity.line.is_some() || object.identity.name.is_some();
        let plain = object.identity.kind != ObjectKind::Allocation;
        (named || plain).then(|| (place(object), object.identity.line))
    });
    pairing.pair(MatchedBy::MovedLine, |object| {
        let identity = &object.identity;
        let tells = identity.name.is_some() || identity.function.is_some();
        (identity.line.is_some() && tells).then(|| place(object))
    });
    pairing.pair(MatchedBy::CallPath, |object| {
        let nameless = object.identity.line.is_none() && object.identity.name.is_none();
        (nameless && !object.site.is_empty()).then(|| call_path(object))
    });
    pairing.finish()
}

/// All of a name but the line. Files by their last part: builds live in folders of their own.
fn place(object: &Object) -> impl Hash + Eq + use<'_> {
    let identity = &object.identity;
    let file = identity.file.as_deref();
    (
        identity.kind,
        identity.name.as_deref(),
        identity.function.as_deref().map(bare),
        file.map(|file| file.rsplit('/').next().unwrap_or(file)),
    )
}

/// Functions, or without names where in which module.
fn call_path(object: &Object) -> Vec<(Option<&str>, Option<&str>, Option<u64>)> {
    object
        .site
        .iter()
        .map(|at| {
            let module = at.module.as_deref();
            let module = module.map(|path| path.rsplit('/').next().unwrap_or(path));
            // An offset moves with every build: it counts only where there is no function.
            let offset = at.module_offset.filter(|_| at.function.is_none());
            (at.function.as_deref(), module, offset)
        })
        .collect()
}

struct Pairing<'findings> {
    before: Vec<Option<&'findings Object>>,
    after: Vec<Option<&'findings Object>>,
    pairs: Vec<Pair<'findings>>,
}

impl<'findings> Pairing<'findings> {
    /// Pairs what has the same key, the first with the first: objects come by stall. `None`: no key of this sort.
    fn pair<K: Hash + Eq>(
        &mut self,
        matched_by: MatchedBy,
        key: impl Fn(&'findings Object) -> Option<K>,
    ) {
        let mut waiting: HashMap<K, Vec<usize>> = HashMap::new();
        for (at, object) in self.after.iter().enumerate().rev() {
            if let Some(key) = object.and_then(&key) {
                waiting.entry(key).or_default().push(at);
            }
        }
        for object in &mut self.before {
            let Some(key) = object.and_then(&key) else {
                continue;
            };
            let Some(at) = waiting.get_mut(&key).and_then(Vec::pop) else {
                continue;
            };
            let pair = (object.take(), self.after[at].take(), Some(matched_by));
            self.pairs.push(pair);
        }
    }

    fn finish(mut self) -> Vec<Pair<'findings>> {
        let gone = self.before.into_iter().flatten();
        self.pairs
            .extend(gone.map(|object| (Some(object), None, None)));
        let new = self.after.into_iter().flatten();
        self.pairs
            .extend(new.map(|object| (None, Some(object), None)));
        self.pairs
    }
}
