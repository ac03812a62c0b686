//! Which calls go where in a source.

use crate::allocator::Allocation;
use crate::allocator::Outlet;
use crate::allocator::allocation;
use crate::allocator::is_wrapper;
use crate::binding::bind;
use crate::calls;
use crate::declared::Declared;
use crate::declared::why_scattered;
use crate::diff::Insertions;
use crate::diff::unified;
use crate::expression::function_around;
use crate::patch::Patch;
use crate::source::Source;
use crate::source::descendants;

/// An allocation that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Line, from 1.
    pub line: usize,
    /// The function that it is in.
    pub function: Option<String>,
    /// What it is kept in; `None`: that cannot be told.
    pub variable: Option<String>,
    /// What allocates: `malloc`, `new`, `resize`.
    pub by: String,
    /// Its size in bytes, as an expression; `None`: the source does not tell one that may be evaluated again.
    pub bytes: Option<String>,
    /// The calls that follow it. Empty: none, as it was refused.
    pub calls: Vec<String>,
    /// They are there already.
    pub already: bool,
}

/// A call that reads or writes a file, and that a plan is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCall {
    /// Line, from 1.
    pub line: usize,
    /// The function that it is in.
    pub function: Option<String>,
    /// `pread`.
    pub by: String,
    /// The descriptor or stream, as it is written there.
    pub file: String,
    /// The call that takes its place.
    pub call: String,
    /// It is there already.
    pub already: bool,
}

/// What was not patched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Line, from 1; `None`: the whole file.
    pub line: Option<usize>,
    /// Why, and what to do.
    pub why: String,
}

/// A source with what is inserted into it.
#[derive(Default)]
pub struct Annotated {
    /// What allocates, by line.
    pub found: Vec<Found>,
    /// What reads or writes and has a hint, by line.
    pub found_calls: Vec<FoundCall>,
    /// What was refused, by line.
    pub refusals: Vec<Refusal>,
    pub(crate) insertions: Insertions,
}

impl Annotated {
    /// Of a source that is not patched at all.
    pub fn refused(why: String) -> Self {
        Self {
            refusals: vec![Refusal { line: None, why }],
            ..Self::default()
        }
    }

    /// The unified diff of the source, called `name` below `a/` and `b/`; empty: nothing is inserted.
    pub fn diff(&self, source: &Source, name: &str) -> Vec<u8> {
        unified(name, source.bytes(), &self.insertions)
    }
}

/// Names each allocation to the recorder. Those in functions that only hand memory on (`xmalloc`) are left to their callers.
pub fn hints(source: &Source) -> Annotated {
    let mut patch = Patch::new(source);
    let declared = Declared::read(source);
    for allocation in allocations(source, &declared) {
        let in_wrapper = function_around(source, allocation.node).is_some_and(is_wrapper);
        if in_wrapper || !is_known(source, &declared, &allocation) {
            continue;
        }
        match bind(source, &declared, &allocation) {
            Ok(binding) => patch.insert(&allocation, &binding, vec![calls::name(&binding)]),
            Err(why) => patch.refuse(&allocation, why),
        }
    }
    for (row, kind) in &declared.scattered {
        patch.refuse_line(*row, why_scattered(kind));
    }
    patch.refuse_macros();
    patch.finish()
}

/// All that allocates.
pub(crate) fn allocations<'tree>(
    source: &'tree Source,
    declared: &Declared,
) -> Vec<Allocation<'tree>> {
    descendants(source.root())
        .filter_map(|node| allocation(source, declared, node))
        .collect()
}

/// `resize` may be anybody's: of a container that this file declares it is worth a call, or a word why it has none.
fn is_known(source: &Source, declared: &Declared, allocation: &Allocation<'_>) -> bool {
    match allocation.outlet {
        Outlet::Container(..) => declared
            .kind_of_container(source, allocation)
            .is_container(),
        _ => true,
    }
}
