//! Events with the objects they belong to, one after the other: for those that want each and not the sums.

use pagewise_trace::Event;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::counted;
use crate::counts::Counts;
use crate::identity::Identity;
use crate::identity::ObjectKind;
use crate::spaces::PAGE_BITS;
use crate::spaces::SmallBlocks;
use crate::spaces::Spaces;

/// Says which object each event of a trace belongs to.
///
/// Holds the objects' whole history, thus memory for each allocation, and none for events.
pub struct Attribution {
    spaces: Spaces,
    is_heap_one: bool,
}

impl std::fmt::Debug for Attribution {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Attribution")
            .field("objects", &self.spaces.catalogue.len())
            .finish_non_exhaustive()
    }
}

/// Where an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The object: a number for [`Attribution::identity`].
    pub object: usize,
    /// The page's number, counted from the start of the allocation, global or mapping that holds it; `None` if nothing
    /// recorded does. Of the heap it is told where that is one object ([`SmallBlocks::OneHeap`]).
    pub page: Option<u64>,
    /// The call path that made the allocation (`stacks`, `frames`, `sites`); `None` if it is none or none was taken.
    pub stack: Option<u32>,
}

impl Attribution {
    /// Reads all that says what lay where.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn read(trace: &Trace) -> Result<Self, TraceError> {
        Self::read_with(trace, SmallBlocks::BySite)
    }

    /// The same, with small blocks of the heap as is said.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn read_with(trace: &Trace, small_blocks: SmallBlocks) -> Result<Self, TraceError> {
        Ok(Self {
            is_heap_one: small_blocks == SmallBlocks::OneHeap,
            spaces: Spaces::read_and_learn(trace, small_blocks)?,
        })
    }

    /// Where an event happened. Events must come in the order of the table.
    pub fn locate(&mut self, event: &Event) -> Located {
        self.spaces.advance(event.time_ns);
        let place = self.spaces.place_of(event);
        let within = match self.identity(place.object).kind {
            ObjectKind::Unknown => None,
            ObjectKind::Heap if !self.is_heap_one => None,
            _ => Some(place.page & ((1 << PAGE_BITS) - 1)).filter(|_| place.within),
        };
        Located {
            object: place.object,
            page: within,
            stack: place.stack,
        }
    }

    /// The events that were counted by region and not listed (`event_counts`), given to the objects that lie there:
    /// `take` gets an object's number and what happened to it, several times for each. Returns how many events there
    /// were. To be called after [`locate`](Self::locate), as they come after those that are listed.
    ///
    /// # Errors
    /// If the table cannot be read.
    pub fn share_counted(
        &mut self,
        trace: &Trace,
        mut take: impl FnMut(usize, Counts),
    ) -> Result<u64, TraceError> {
        counted::share_out(trace, &mut self.spaces, |share| {
            let mut counts = Counts::default();
            counts.add_share(&share);
            take(share.object, counts);
        })
    }

    /// The size of a page in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.spaces.page_bytes
    }

    /// What the object of this number is called.
    ///
    /// # Panics
    /// For a number that [`locate`](Self::locate) did not give.
    pub fn identity(&self, object: usize) -> &Identity {
        self.spaces.catalogue.identity(object)
    }

    /// How many objects are known so far; their numbers are those below.
    pub fn objects(&self) -> usize {
        self.spaces.catalogue.len()
    }
}
