//! Small blocks: of those nobody follows each, so that what can have a rule is the heap in which they lie, as one.
//!
//! A list of a million nodes, a map, the rows of a matrix: to the paging they are what an array is, as an allocator places side by side
//! what is made one after the other.

use std::cmp::Reverse;

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectKind;

use crate::choose;
use crate::facts::SMALLEST_BLOCK;
use crate::run_facts::RunFacts;
use crate::subjects::names_of;

/// What lies in the heap and costs much, for people; `None`: small blocks cost too little together to be worth a rule.
pub(crate) fn contents(findings: &Findings, run: &RunFacts) -> Option<String> {
    let small = || findings.objects.iter().filter(|object| is_small(object));
    let stall_ns = small().map(|object| object.counts.stall_ns).sum();
    if !choose::is_stall_costly(stall_ns, run) {
        return None;
    }
    let mut named: Vec<&Object> = small().filter(|object| is_allocation(object)).collect();
    named.retain(|object| choose::is_stall_costly(object.counts.stall_ns, run));
    named.sort_by_key(|object| Reverse(object.counts.stall_ns));
    Some(match named.is_empty() {
        true => "small blocks".to_owned(),
        false => names_of(&named),
    })
}

fn is_allocation(object: &Object) -> bool {
    object.identity.kind == ObjectKind::Allocation
}

/// Whether its memory is the heap's, as far as a rule is concerned.
fn is_small(object: &Object) -> bool {
    let block_bytes = object.bytes.unwrap_or(0) / object.most_alive.max(1);
    object.identity.kind == ObjectKind::Heap
        || is_allocation(object) && block_bytes < SMALLEST_BLOCK
}
