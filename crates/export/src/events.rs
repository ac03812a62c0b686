//! The events of a recording, each with its object: what all formats are made of.

use std::collections::HashMap;

use pagewise_analyze::Attribution;
use pagewise_analyze::Counts;
use pagewise_analyze::Identity;
use pagewise_analyze::Located;
use pagewise_trace::Event;
use pagewise_trace::Rows;
use pagewise_trace::Space;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// One event, and all that is known about it by its number.
pub(crate) struct LocatedEvent {
    pub(crate) event: Event,
    pub(crate) place: Located,
}

pub(crate) struct Events {
    rows: Rows<Event>,
    attribution: Attribution,
    spaces: HashMap<u32, Space>,
}

impl Events {
    pub(crate) fn open(trace: &Trace) -> Result<Self, TraceError> {
        let spaces = trace.spaces()?.into_iter();
        Ok(Self {
            rows: trace.events()?,
            attribution: Attribution::read(trace)?,
            spaces: spaces.map(|space| (space.space, space)).collect(),
        })
    }

    /// The next event, in the order of the table.
    pub(crate) fn next(&mut self) -> Result<Option<LocatedEvent>, TraceError> {
        let Some(event) = self.rows.next().transpose()? else {
            return Ok(None);
        };
        Ok(Some(LocatedEvent {
            place: self.attribution.locate(&event),
            event,
        }))
    }

    /// What was counted by region and not listed, by object. After the last event.
    pub(crate) fn share_counted(
        &mut self,
        trace: &Trace,
        take: impl FnMut(usize, Counts),
    ) -> Result<u64, TraceError> {
        self.attribution.share_counted(trace, take)
    }

    /// What an object is called that an event named.
    pub(crate) fn identity(&self, object: usize) -> &Identity {
        self.attribution.identity(object)
    }

    /// How many objects there are so far.
    pub(crate) fn objects(&self) -> usize {
        self.attribution.objects()
    }

    /// The process behind an address space.
    pub(crate) fn pid(&self, space: u32) -> Option<u32> {
        self.spaces.get(&space).map(|space| space.pid)
    }

    pub(crate) fn spaces(&self) -> &HashMap<u32, Space> {
        &self.spaces
    }

    pub(crate) fn page_bytes(&self) -> u64 {
        self.attribution.page_bytes()
    }
}
