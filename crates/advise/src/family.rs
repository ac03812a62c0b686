//! Children that go through what their parent filled. Until one of them writes to it, a page is the same in both; to the model each process
//! has its own, but for shared memory, so that what it says of such a program's memory is of another one.

use std::collections::HashMap;

use pagewise_trace::EventKind;
use pagewise_trace::SharedMemory;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;
use pagewise_trace::forked_from;

/// So large a part of the swap-ins is too much to simulate the rest.
const MUCH: f64 = 0.1;

/// Whether much of what children swap in is what their parents had before.
pub(crate) fn is_inherited(trace: &Trace) -> Result<bool, TraceError> {
    let parents = forked_from(trace)?;
    if parents.is_empty() {
        return Ok(false);
    }
    let page_bytes = trace.meta().host.page_bytes.unwrap_or(4096).max(1);
    let mut family = Family {
        parents,
        had: HashMap::new(),
        memory: SharedMemory::read(trace)?,
        page_bytes,
    };
    let mut swap_ins: Vec<(u32, u64)> = Vec::new();
    let mut all = 0;
    for event in trace.events()? {
        let event = event?;
        let page = (event.space, event.address / page_bytes);
        let is_swap_in = matches!(event.kind, EventKind::SwapIn | EventKind::SwapCacheHit);
        all += u64::from(is_swap_in);
        match family.parents.contains_key(&event.space) {
            true if is_swap_in => swap_ins.push(page),
            _ => {
                let first = family.had.entry(page).or_insert(event.time_ns);
                *first = event.time_ns.min(*first);
            }
        }
    }
    let inherited = swap_ins
        .iter()
        .filter(|&&(space, page)| family.is_inherited(space, page));
    Ok(inherited.count() as f64 > MUCH * all as f64)
}

/// What is known of the processes' pages.
struct Family {
    parents: HashMap<u32, (u32, u64)>,
    /// When something first happened to each page of a space.
    had: HashMap<(u32, u64), u64>,
    memory: SharedMemory,
    page_bytes: u64,
}

impl Family {
    /// Whether an ancestor had this page before, of memory that is not shared for good: what is shared counts to one of them
    /// ([`SharedMemory::home`]). What the parent makes at the same address after the fork is its own.
    fn is_inherited(&self, space: u32, page: u64) -> bool {
        if self.memory.home(space, page * self.page_bytes) != space {
            return false;
        }
        ancestors(&self.parents, space).any(|(ancestor, fork_ns)| {
            let first = self.had.get(&(ancestor, page));
            first.is_some_and(|&first| first <= fork_ns)
        })
    }
}

/// From a space to the first that was forked from none: each, and when it was forked from, ns.
fn ancestors(parents: &HashMap<u32, (u32, u64)>, space: u32) -> impl Iterator<Item = (u32, u64)> {
    std::iter::successors(parents.get(&space).copied(), |(space, _)| {
        parents.get(space).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_all_that_came_before_it() {
        let parents = HashMap::from([(3, (2, 20)), (2, (1, 10))]);
        assert_eq!(
            ancestors(&parents, 3).collect::<Vec<_>>(),
            [(2, 20), (1, 10)]
        );
        assert_eq!(ancestors(&parents, 1).count(), 0);
    }

    #[test]
    fn shared_memory_is_no_copy() {
        let shared = SharedMemory::of(1, &[(100 * 4096, 200 * 4096)]).with_children(&[(2, 1)]);
        let family = Family {
            parents: HashMap::from([(2, (1, 10))]),
            had: HashMap::from([((1, 5), 7), ((1, 6), 12), ((1, 100), 7)]),
            memory: shared,
            page_bytes: 4096,
        };
        let inherited = [5, 6, 7, 100].map(|page| family.is_inherited(2, page));
        assert_eq!(inherited, [true, false, false, false]);
    }
}
