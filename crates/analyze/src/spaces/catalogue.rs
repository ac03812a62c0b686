//! All objects of a trace, by number, and which call path makes which.

use std::collections::HashMap;
use std::collections::HashSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use pagewise_trace::Allocation;
use pagewise_trace::Site;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::call_paths::CallPaths;
use crate::code_places::code_places;
use crate::given_names::GivenNames;
use crate::identity::Identity;
use crate::identity::ObjectKind;
use crate::strings::Strings;

/// Grows while the trace is gone through: mappings and nameless allocations are met on the way. What has a number keeps it.
pub(crate) struct Catalogue {
    identities: Vec<Identity>,
    numbers: HashTable<u32>,
    hasher: RandomState,
    by_stack: HashMap<u32, u32, RandomState>,
    /// Of allocations that the program itself has named.
    by_allocation: HashMap<u64, u32, RandomState>,
    /// One call path of each object that has any.
    stacks: Vec<Option<u32>>,
    /// The type of each object of which one is known.
    types: HashMap<u32, Arc<str>, RandomState>,
    unknown: usize,
}

impl Catalogue {
    /// The sites of these call paths; the others make no objects, as most may be those of faults.
    pub(super) fn read(
        trace: &Trace,
        made_by: &HashSet<u32, RandomState>,
        paths: &CallPaths,
    ) -> Result<Self, TraceError> {
        let mut catalogue = Self::empty();
        catalogue.reserve(made_by.len());
        let (mut strings, mut nameless) = (Strings::default(), Vec::new());
        for site in trace.rows::<Site>()? {
            let site = site?;
            if !made_by.contains(&site.stack) {
                continue;
            }
            let identity = Identity::of_site(&site, paths, &mut strings);
            match identity.stack {
                None => {
                    let object = catalogue.add(site.stack, identity);
                    catalogue.note_type(object, strings.shared(site.type_name.as_deref()));
                }
                Some(_) => nameless.push((site.stack, identity)),
            }
        }
        let wanted = nameless.iter().filter_map(|(_, identity)| identity.stack);
        let codes = code_places(trace, &wanted.collect())?;
        for (stack, mut identity) in nameless {
            let code = identity.stack.and_then(|stack| codes.get(&stack));
            identity.code = code.map(|code| code.as_str().into());
            catalogue.add(stack, identity);
        }
        catalogue.rename(GivenNames::read(trace)?, &mut strings);
        Ok(catalogue)
    }

    /// Allocations of one site with names of their own are objects of their own.
    fn rename(&mut self, given_names: GivenNames, strings: &mut Strings) {
        for (allocation, given) in given_names.into_all() {
            let object = given.stack.and_then(|stack| self.of_stack(stack));
            let object = object.unwrap_or_else(|| self.nameless(given.stack));
            let type_name = self.type_name(object);
            let object = self.number(Identity {
                name: strings.shared(Some(&given.name)),
                code: None,
                ..self.identities[object].clone()
            });
            self.note_type(object, type_name);
            self.by_allocation.insert(allocation, object as u32);
            if let Some(stack) = given.stack {
                self.note_stack(object, stack);
            }
        }
    }

    fn empty() -> Self {
        let mut catalogue = Self {
            identities: Vec::new(),
            numbers: HashTable::new(),
            hasher: RandomState::default(),
            by_stack: HashMap::default(),
            by_allocation: HashMap::default(),
            stacks: Vec::new(),
            types: HashMap::default(),
            unknown: 0,
        };
        catalogue.unknown = catalogue.number(Identity::plain(ObjectKind::Unknown));
        catalogue
    }

    /// Makes room for so many call paths, each with an object of its own.
    fn reserve(&mut self, stacks: usize) {
        self.by_stack.reserve(stacks);
        self.stacks.reserve(stacks);
        self.identities.reserve(stacks);
        let (hasher, identities) = (&self.hasher, &self.identities);
        let rehash = |&number: &u32| hasher.hash_one(&identities[number as usize]);
        self.numbers.reserve(stacks, rehash);
    }

    fn add(&mut self, stack: u32, identity: Identity) -> usize {
        let object = self.number(identity);
        self.by_stack.insert(stack, object as u32);
        self.note_stack(object, stack);
        object
    }

    /// The first one that is known: it says no more of which object it is.
    pub(super) fn note_type(&mut self, object: usize, type_name: Option<Arc<str>>) {
        if let Some(type_name) = type_name {
            self.types.entry(object as u32).or_insert(type_name);
        }
    }

    fn note_stack(&mut self, object: usize, stack: u32) {
        if self.stacks.len() <= object {
            self.stacks.resize(object + 1, None);
        }
        self.stacks[object].get_or_insert(stack);
    }

    /// The number of the object of this identity, a new one if need be.
    pub(crate) fn number(&mut self, identity: Identity) -> usize {
        if let Some(known) = self.find(&identity) {
            return known;
        }
        let number = self.identities.len();
        let (hasher, identities) = (&self.hasher, &mut self.identities);
        let hash = hasher.hash_one(&identity);
        identities.push(identity);
        let rehash = |&number: &u32| hasher.hash_one(&identities[number as usize]);
        self.numbers.insert_unique(hash, number as u32, rehash);
        number
    }

    /// The number of the object of this identity, if there is one.
    pub(crate) fn find(&self, identity: &Identity) -> Option<usize> {
        let is_it = |&number: &u32| self.identities[number as usize] == *identity;
        let found = self.numbers.find(self.hasher.hash_one(identity), is_it);
        found.map(|&number| number as usize)
    }

    /// An allocation whose call path was not taken, or not named (the recorder died before).
    pub(super) fn nameless(&mut self, stack: Option<u32>) -> usize {
        self.number(Identity {
            stack,
            ..Identity::plain(ObjectKind::Allocation)
        })
    }

    /// The object that this allocation is; `None`: its call path was not named.
    pub(super) fn of_allocation(&self, allocation: &Allocation) -> Option<usize> {
        let renamed = self.by_allocation.get(&allocation.allocation);
        let renamed = renamed.map(|&object| object as usize);
        renamed.or_else(|| self.of_stack(allocation.stack?))
    }

    /// The object that allocations of this call path are; `None`: it was not named.
    pub(crate) fn of_stack(&self, stack: u32) -> Option<usize> {
        self.by_stack.get(&stack).map(|&object| object as usize)
    }

    /// One call path that made allocations of this object.
    pub(crate) fn stack(&self, object: usize) -> Option<u32> {
        self.stacks.get(object).copied().flatten()
    }

    /// The object of memory that nobody told of.
    pub(crate) fn unknown(&self) -> usize {
        self.unknown
    }

    /// How many there are so far; their numbers are those below.
    pub(crate) fn len(&self) -> usize {
        self.identities.len()
    }

    /// What the object of this number is called.
    pub(crate) fn identity(&self, object: usize) -> &Identity {
        &self.identities[object]
    }

    /// The type of an object, if it is known.
    pub(crate) fn type_name(&self, object: usize) -> Option<Arc<str>> {
        self.types.get(&(object as u32)).cloned()
    }

    /// All names, by number.
    pub(crate) fn into_identities(self) -> Vec<Identity> {
        self.identities
    }
}
