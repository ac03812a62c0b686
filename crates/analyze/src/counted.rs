//! Events that were counted by region and interval, not listed: given to the objects that lie there.

use std::iter::Peekable;
use std::vec::IntoIter;

use pagewise_trace::EventCount;
use pagewise_trace::EventKind;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::spaces::Spaces;

/// A share of a row that belongs to one object.
pub(crate) struct Share {
    pub(crate) object: usize,
    pub(crate) kind: EventKind,
    pub(crate) events: u64,
    pub(crate) latency_ns: u64,
}

/// Hands each row's events to its objects, in proportion to the pages they have in its region. What lay nowhere at an
/// interval's begin is looked for once more at its end: it was allocated meanwhile.
///
/// Returns how many events there were.
pub(crate) fn share_out(
    trace: &Trace,
    spaces: &mut Spaces,
    mut take: impl FnMut(Share),
) -> Result<u64, TraceError> {
    let page_bytes = trace.meta().host.page_bytes.unwrap_or(4096).max(1);
    let mut rows = trace.rows::<EventCount>()?.collect::<Result<Vec<_>, _>>()?;
    rows.sort_by_key(|row| row.time_ns);
    let mut rows = rows.into_iter().peekable();
    let mut events = 0;
    while let Some(interval) = next_interval(&mut rows) {
        let began_ns = interval[0].time_ns;
        spaces.advance(began_ns);
        let mut found: Vec<Pages> = interval
            .iter()
            .map(|row| Pages::of(row, page_bytes, spaces))
            .collect();
        spaces.advance(began_ns.saturating_add(interval[0].interval_ns));
        for (row, pages) in interval.iter().zip(&mut found) {
            pages.look_again(row, page_bytes, spaces);
            events += row.events;
            pages.share(row, &mut take);
        }
    }
    Ok(events)
}

/// The rows of one interval.
fn next_interval(rows: &mut Peekable<IntoIter<EventCount>>) -> Option<Vec<EventCount>> {
    let first = rows.next()?;
    let began_ns = first.time_ns;
    let mut interval = vec![first];
    while let Some(row) = rows.next_if(|row| row.time_ns == began_ns) {
        interval.push(row);
    }
    Some(interval)
}

/// The object of each page of a row's region.
struct Pages(Vec<usize>);

/// No region that is written has more; what a file by another hand says must not fill memory.
const MOST_PAGES: u64 = 4096;

impl Pages {
    fn of(row: &EventCount, page_bytes: u64, spaces: &mut Spaces) -> Self {
        let count = (row.bytes / page_bytes).clamp(1, MOST_PAGES);
        let address = |page: u64| row.address.saturating_add(page * page_bytes);
        let object = |page: u64| spaces.find(row.space, address(page), row.kind).object;
        Self((0..count).map(object).collect())
    }

    fn look_again(&mut self, row: &EventCount, page_bytes: u64, spaces: &mut Spaces) {
        for (page, object) in self.0.iter_mut().enumerate() {
            if *object == spaces.catalogue.unknown() {
                let address = row.address.saturating_add(page as u64 * page_bytes);
                *object = spaces.find(row.space, address, row.kind).object;
            }
        }
    }

    fn share(&mut self, row: &EventCount, take: &mut impl FnMut(Share)) {
        self.0.sort_unstable();
        let all = self.0.len() as u64;
        let (mut done, mut events_left, mut latency_left) = (0, row.events, row.latency_ns);
        for pages in self.0.chunk_by(|a, b| a == b) {
            // Of what is left, the part of the pages that are left: the parts add up exactly.
            let (part, of) = (pages.len() as u64, all - done);
            let fraction =
                |whole: u64| (u128::from(whole) * u128::from(part) / u128::from(of)) as u64;
            let events = fraction(events_left);
            let latency_ns = fraction(latency_left.unwrap_or(0));
            take(Share {
                object: pages[0],
                kind: row.kind,
                events,
                latency_ns,
            });
            done += part;
            events_left -= events;
            latency_left = latency_left.map(|ns| ns - latency_ns);
        }
    }
}
