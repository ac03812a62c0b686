//! Names that a program gave to its allocations itself.
//!
//! A name comes just after its allocation, and counts from the allocation's beginning.

use std::collections::BTreeMap;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::GivenName;
use pagewise_trace::Move;
use pagewise_trace::Release;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// Names by number of the allocation.
#[derive(Default)]
pub(crate) struct GivenNames(HashMap<u64, Given, RandomState>);

/// What an allocation is called by its program.
pub(crate) struct Given {
    pub(crate) name: String,
    /// The call path that made it.
    pub(crate) stack: Option<u32>,
}

/// Allocations of one space by their first byte.
type Ranges = BTreeMap<u64, Range>;

struct Range {
    /// Behind the last byte that a name may point to: mappings may hold an allocator's blocks, so only their first byte
    /// names them.
    end: u64,
    allocation: u64,
    stack: Option<u32>,
}

enum Change {
    Allocation(Allocation),
    Release(Release),
    Move(Move),
    Name(GivenName),
}

impl Change {
    fn time_ns(&self) -> u64 {
        match self {
            Self::Allocation(row) => row.time_ns,
            Self::Release(row) => row.time_ns,
            Self::Move(row) => row.time_ns,
            Self::Name(row) => row.time_ns,
        }
    }
}

impl GivenNames {
    pub(crate) fn read(trace: &Trace) -> Result<Self, TraceError> {
        let names = trace.given_names()?.collect::<Result<Vec<_>, _>>()?;
        if names.is_empty() {
            return Ok(Self::default());
        }
        let mut changes = Vec::new();
        for allocation in trace.allocations()? {
            changes.push(Change::Allocation(allocation?));
        }
        for release in trace.releases()? {
            changes.push(Change::Release(release?));
        }
        changes.extend(trace.moves()?.into_iter().map(Change::Move));
        changes.extend(names.into_iter().map(Change::Name));
        // Stable: of one moment, in the order above.
        changes.sort_by_key(Change::time_ns);
        let mut result = Self::default();
        let mut spaces: HashMap<u32, Ranges> = HashMap::new();
        for change in changes {
            result.apply(&mut spaces, change);
        }
        Ok(result)
    }

    /// All of them, with the numbers of their allocations.
    pub(crate) fn into_all(self) -> impl Iterator<Item = (u64, Given)> {
        self.0.into_iter()
    }

    fn apply(&mut self, spaces: &mut HashMap<u32, Ranges>, change: Change) {
        match change {
            Change::Allocation(row) => {
                let is_mapping = matches!(row.kind, AllocationKind::Mmap | AllocationKind::Brk);
                let bytes = if is_mapping { 1 } else { row.bytes };
                let range = Range {
                    end: row.address.saturating_add(bytes),
                    allocation: row.allocation,
                    stack: row.stack,
                };
                let ranges = spaces.entry(row.space).or_default();
                ranges.insert(row.address, range);
            }
            Change::Release(row) => {
                spaces.entry(row.space).or_default().remove(&row.address);
            }
            Change::Move(row) => {
                let ranges = spaces.entry(row.space).or_default();
                if let Some(range) = ranges.remove(&row.old_address) {
                    let end = row.new_address.saturating_add(1);
                    ranges.insert(row.new_address, Range { end, ..range });
                }
            }
            Change::Name(row) => {
                let ranges = spaces.entry(row.space).or_default();
                let below = ranges.range(..=row.address).next_back();
                if let Some((_, range)) = below
                    && row.address < range.end
                {
                    let (name, stack) = (row.name, range.stack);
                    self.0.insert(range.allocation, Given { name, stack });
                }
            }
        }
    }
}
