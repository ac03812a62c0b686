//! What changes what lies where, in order of time.

use std::collections::HashMap;
use std::collections::HashSet;

use foldhash::fast::RandomState;
use pagewise_trace::Allocation;
use pagewise_trace::Mapping;
use pagewise_trace::Move;
use pagewise_trace::Release;
use pagewise_trace::Space;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// Something that changes what lies where. Most are allocations: what is larger and rare is held elsewhere.
pub(super) enum Change {
    Fork(Box<Space>),
    Mapping(Box<Mapping>),
    Allocation(Allocation),
    Release(Release),
    Move(Move),
    /// When an address space ended, and its number.
    End(u64, u32),
}

impl Change {
    pub(super) fn time_ns(&self) -> u64 {
        match self {
            Self::Fork(space) => space.begin_ns,
            Self::Mapping(mapping) => mapping.time_ns,
            Self::Allocation(allocation) => allocation.time_ns,
            Self::Release(release) => release.time_ns,
            Self::Move(moved) => moved.time_ns,
            Self::End(time_ns, _) => *time_ns,
        }
    }

    pub(super) fn space(&self) -> u32 {
        match self {
            Self::Fork(space) => space.space,
            Self::Mapping(mapping) => mapping.space,
            Self::Allocation(allocation) => allocation.space,
            Self::Release(release) => release.space,
            Self::Move(moved) => moved.space,
            Self::End(_, space) => *space,
        }
    }
}

/// All changes of a trace, gone through as often as one likes.
#[derive(Default)]
pub(super) struct Changes {
    all: Vec<Change>,
    next: usize,
    /// Of each thread of each space, where its allocations are among all.
    of_thread: HashMap<(u32, u32), Vec<u32>, RandomState>,
}

/// What the allocations have in common.
#[derive(Default)]
pub(super) struct Allocated {
    /// The call paths that made some.
    pub(super) stacks: HashSet<u32, RandomState>,
    /// Whether some were sampled.
    pub(super) sampled: bool,
}

impl Changes {
    pub(super) fn read(trace: &Trace) -> Result<(Self, Allocated), TraceError> {
        let mut all = forks(trace)?;
        let boxed = |mapping| Change::Mapping(Box::new(mapping));
        all.extend(trace.mappings()?.into_iter().map(boxed));
        let mut allocated = Allocated::default();
        for allocation in trace.allocations()? {
            let allocation = allocation?;
            allocated.stacks.extend(allocation.stack);
            allocated.sampled |= allocation.estimated_bytes.is_some();
            all.push(Change::Allocation(allocation));
        }
        for release in trace.releases()? {
            all.push(Change::Release(release?));
        }
        all.extend(trace.moves()?.into_iter().map(Change::Move));
        let end = |space: Space| Some(Change::End(space.end_ns?, space.space));
        all.extend(trace.spaces()?.into_iter().filter_map(end));
        // Stable: of one moment, in the order above.
        all.sort_by_key(Change::time_ns);
        let changes = Self {
            all,
            ..Self::default()
        };
        Ok((changes, allocated))
    }

    /// From now on, [`next_of_thread`](Self::next_of_thread) finds something.
    pub(super) fn index_threads(&mut self) {
        for (at, change) in (0..).zip(&self.all) {
            if let Change::Allocation(made) = change {
                let of_thread = self.of_thread.entry((made.space, made.tid));
                of_thread.or_default().push(at);
            }
        }
    }

    pub(super) fn rewind(&mut self) {
        self.next = 0;
    }

    #[inline]
    pub(super) fn is_due(&self, time_ns: u64) -> bool {
        let next = self.all.get(self.next);
        next.is_some_and(|change| change.time_ns() <= time_ns)
    }

    /// The next one, if its time has come.
    pub(super) fn next_until(&mut self, time_ns: u64) -> Option<&Change> {
        if !self.is_due(time_ns) {
            return None;
        }
        self.next += 1;
        self.all.get(self.next - 1)
    }

    /// The next allocation that a thread tells of.
    pub(super) fn next_of_thread(&self, space: u32, tid: u32) -> Option<&Allocation> {
        let all = self.of_thread.get(&(space, tid))?;
        let next = all.partition_point(|&at| (at as usize) < self.next);
        match self.all.get(*all.get(next)? as usize)? {
            Change::Allocation(allocation) => Some(allocation),
            _ => None,
        }
    }
}

fn forks(trace: &Trace) -> Result<Vec<Change>, TraceError> {
    let forked = pagewise_trace::forked(trace)?.into_iter();
    Ok(forked.map(|space| Change::Fork(Box::new(space))).collect())
}
