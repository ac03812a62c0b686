//! What rules are about: an object each, or several that cannot be told apart in another run.
//!
//! A rule knows an object by the call path of its allocations within the program and its own libraries. Two objects may have the
//! same: buffers that one call makes inside a library of the system, or allocations of one line that the program has named
//! differently. One rule is then about all of them, and is chosen by what they cost together.

use std::cmp::Reverse;
use std::collections::HashMap;

use pagewise_analyze::Counts;
use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectKind;
use pagewise_plan::SourcePlace;
use pagewise_plan::Target;

use crate::Seen;
use crate::facts::SMALLEST_BLOCK;
use crate::targets::Targets;

/// So many names are told, of more their number.
const MOST_NAMES: usize = 3;

/// Why memory that is neither an allocation nor a variable has no rule.
pub(crate) const NOT_NAMED: &str = "it is no allocation and no variable";

/// What one rule is about.
#[derive(Debug)]
pub(crate) struct Subject<'findings> {
    /// At least one; most stall first.
    pub(crate) objects: Vec<&'findings Object>,
    /// How they are known again, or why they cannot be.
    pub(crate) target: Result<Target, String>,
    /// Of the heap: what lies in it.
    pub(crate) contents: Option<String>,
}

impl<'findings> Subject<'findings> {
    /// All that findings are about, most stall first. `in_heap`: the heap is one of them, with this in it.
    pub(crate) fn all(
        findings: &'findings Findings,
        targets: &Targets,
        in_heap: Option<&str>,
    ) -> Vec<Self> {
        let with_targets = findings.objects.iter().map(|object| {
            let target = match object.identity.kind {
                ObjectKind::Heap if in_heap.is_none() => Err(NOT_NAMED.to_owned()),
                _ if may_have_target(object) => targets.of(&object.identity),
                _ => Err("its blocks are too small to be looked at".to_owned()),
            };
            (object, target)
        });
        let mut subjects = Self::grouped(with_targets);
        if let Some(heap) = subjects.iter_mut().find(|subject| subject.is_heap()) {
            heap.contents = in_heap.map(str::to_owned);
        }
        subjects
    }

    /// Whether it is the heap as one.
    pub(crate) fn is_heap(&self) -> bool {
        matches!(self.target, Ok(Target::Heap { .. }))
    }

    fn grouped(
        objects: impl Iterator<Item = (&'findings Object, Result<Target, String>)>,
    ) -> Vec<Self> {
        let mut subjects: Vec<Self> = Vec::new();
        let mut known: HashMap<Target, usize> = HashMap::new();
        for (object, target) in objects {
            let next = subjects.len();
            let at = match &target {
                Ok(target) => *known.entry(target.clone()).or_insert(next),
                Err(_) => next,
            };
            match subjects.get_mut(at) {
                Some(subject) => subject.objects.push(object),
                None => subjects.push(Self {
                    objects: vec![object],
                    target,
                    contents: None,
                }),
            }
        }
        subjects.sort_by_key(|subject| Reverse(subject.sum(|object| object.counts.stall_ns)));
        subjects
    }

    /// The object that costs most.
    pub(crate) fn first(&self) -> &'findings Object {
        self.objects[0]
    }

    pub(crate) fn sum(&self, of: impl Fn(&Object) -> u64) -> u64 {
        let values = self.objects.iter().map(|object| of(object));
        values.fold(0, u64::saturating_add)
    }

    /// The mean by size; `None`: it is not known of all.
    pub(crate) fn mean(&self, of: impl Fn(&Object) -> Option<f64>) -> Option<f64> {
        if let [only] = self.objects[..] {
            return of(only);
        }
        let (mut sum, mut bytes) = (0.0, 0.0);
        for object in &self.objects {
            let weight = object.bytes.unwrap_or(0) as f64;
            sum += of(object)? * weight;
            bytes += weight;
        }
        (bytes > 0.0).then(|| sum / bytes)
    }

    /// What happened to all of them together.
    pub(crate) fn counts(&self) -> Counts {
        self.objects.iter().map(|object| &object.counts).sum()
    }

    /// What was seen of it.
    pub(crate) fn seen(&self, findings: &Findings) -> Seen {
        let first = self.first();
        Seen {
            pattern: first.pattern,
            reuse_pages: first
                .pattern_facts
                .as_ref()
                .and_then(|facts| facts.reuse_pages),
            accessed_share: self.mean(|object| object.accessed_share),
            write_share: findings.write_share(&self.counts()),
        }
    }

    /// For people.
    pub(crate) fn name(&self) -> String {
        if let Some(contents) = &self.contents {
            return format!("the heap: {contents}");
        }
        names_of(&self.objects)
    }

    /// Where the first of them is allocated.
    pub(crate) fn place(&self) -> SourcePlace {
        let identity = &self.first().identity;
        SourcePlace {
            function: identity.function.as_deref().map(str::to_owned),
            file: identity.file.as_deref().map(str::to_owned),
            line: identity.line,
        }
    }

    /// Why a rule says what it says, and that it is about several, where it does not tell their parts apart.
    pub(crate) fn why(&self, of_rule: String, tells_apart: bool) -> String {
        match self.objects.len() {
            _ if tells_apart => of_rule,
            1 => of_rule,
            objects => format!(
                "{of_rule} ({objects} objects that are made by the same calls: in another run they cannot be told apart)"
            ),
        }
    }
}

/// Of these, the first few by name.
pub(crate) fn names_of(objects: &[&Object]) -> String {
    let shown = objects.iter().take(MOST_NAMES);
    let names: Vec<String> = shown.map(|object| object.identity.to_string()).collect();
    let names = names.join(", ");
    match objects.len().saturating_sub(MOST_NAMES) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// Of a million objects most are too small for a block that the preloaded library looks at.
fn may_have_target(object: &Object) -> bool {
    let is_allocation = object.identity.kind == ObjectKind::Allocation;
    !is_allocation || object.bytes.unwrap_or(0) >= SMALLEST_BLOCK
}

#[cfg(test)]
pub(crate) mod tests {
    use pagewise_analyze::Counts;
    use pagewise_analyze::Identity;
    use pagewise_plan::Frame;

    use super::*;

    /// An allocation with one block at a time.
    pub(crate) fn object(name: &str, bytes: u64, stall_ns: u64) -> Object {
        Object {
            identity: Identity {
                kind: ObjectKind::Allocation,
                name: Some(name.into()),
                file: None,
                line: None,
                function: None,
                stack: None,
                code: None,
            },
            type_name: None,
            bytes: Some(bytes),
            mean_bytes: None,
            allocations: 1,
            most_alive: 1,
            stretches: 1,
            sampled: false,
            counts: Counts {
                stall_ns,
                ..Counts::default()
            },
            distinct_pages: 0,
            accessed_share: None,
            resident_share: None,
            most_resident_share: None,
            pattern: None,
            pattern_facts: None,
            phases: Vec::new(),
            extra_bytes: None,
            worst_path: None,
            site: Vec::new(),
        }
    }

    fn target(module_offset: u64) -> Target {
        Target::allocation(vec![Frame {
            module: "solver".to_owned(),
            build_id: Some("abcd".to_owned()),
            function: None,
            module_offset,
        }])
    }

    #[test]
    fn what_has_the_same_call_path_has_one_rule() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let objects: Vec<Object> = names.iter().map(|name| object(name, 1 << 20, 10)).collect();
        let targets = [
            Ok(target(1)),
            Ok(target(2)),
            Ok(target(2)),
            Err("unknown".to_owned()),
            Ok(target(2)),
            Ok(target(2)),
        ];
        let subjects = Subject::grouped(objects.iter().zip(targets));
        let told: Vec<String> = subjects.iter().map(Subject::name).collect();
        assert_eq!(told, ["b, c, e and 1 more", "a", "d"]);
        let stall_ns: Vec<u64> = subjects
            .iter()
            .map(|subject| subject.sum(|object| object.counts.stall_ns))
            .collect();
        assert_eq!(stall_ns, [40, 10, 10]);
        assert!(
            subjects[0]
                .why("hot".to_owned(), false)
                .contains("4 objects")
        );
        assert_eq!(subjects[0].why("hot".to_owned(), true), "hot");
        assert_eq!(subjects[1].why("hot".to_owned(), false), "hot");
    }

    #[test]
    fn shares_count_by_size_and_are_unknown_if_one_is() {
        let mut objects = [object("a", 1 << 20, 2), object("b", 3 << 20, 1)];
        (objects[0].resident_share, objects[1].resident_share) = (Some(1.0), Some(0.2));
        let share = |objects: &[Object; 2]| {
            let same = objects.iter().map(|object| (object, Ok(target(1))));
            Subject::grouped(same)[0].mean(|object| object.resident_share)
        };
        assert_eq!(share(&objects), Some(0.4));
        objects[1].resident_share = None;
        assert_eq!(share(&objects), None);
    }
}
