//! How far each thread has come in an object, seen from afar: a sweep in no order within a short distance, as a breadth-first search that takes the
//! nodes of each layer as they come, or the corners of a mesh whose nodes are numbered nearly in order.
//!
//! ```text
//!     done |<-- behind -->| front |<-- ahead -->| still to come
//! ```

/// What lies at most so far from the front belongs to the sweep, pages (1 MiB),
const WIDEST: u64 = 256;
/// and at most this share of the pages between the first and the last that were seen, so that few are near by chance.
const SHARE: u64 = 16;
/// Of less nothing is told.
const NARROWEST: u64 = 64;
/// Threads that are told apart in one object; of more, the one that was seen first is forgotten.
const MOST_THREADS: usize = 64;

/// Where a thread is.
#[derive(Clone, Copy, Debug)]
struct Front {
    thread: u32,
    page: u64,
    is_down: bool,
    /// It got on since it was elsewhere.
    got_on: bool,
    /// Where the thread was last, if that was not near. To go on from there is to sweep there.
    elsewhere: Option<u64>,
}

/// What a page is to its thread's front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Near it: it gets on by so many pages.
    Near(u64),
    /// The second one in a row that is elsewhere, there: that is where the front is from here on.
    Begins,
    Elsewhere,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Fronts(Vec<Front>);

impl Fronts {
    /// A thread comes to a page of an object, of which so many pages lie between the first and the last that were seen. `None`: too few to tell.
    pub(super) fn advance(&mut self, thread: u32, page: u64, span: u64) -> Option<Seen> {
        let width = WIDEST.min(span / SHARE);
        if width < NARROWEST {
            return None;
        }
        let Some(front) = self.0.iter_mut().find(|front| front.thread == thread) else {
            self.begin(thread, page);
            return Some(Seen::Elsewhere);
        };
        let pages = page.abs_diff(front.page);
        if pages <= width {
            front.elsewhere = None;
            if (page < front.page) != front.is_down {
                return Some(Seen::Near(0));
            }
            front.page = page;
            front.got_on |= pages > 0;
            return Some(Seen::Near(pages));
        }
        let before = front.elsewhere.replace(page);
        if before.is_none_or(|before| page.abs_diff(before) > width) {
            return Some(Seen::Elsewhere);
        }
        // Sweeps mostly go one way. From one that went the other way it was left.
        front.is_down ^= !front.got_on;
        (front.page, front.got_on, front.elsewhere) = (page, false, None);
        Some(Seen::Begins)
    }

    fn begin(&mut self, thread: u32, page: u64) {
        if self.0.len() == MOST_THREADS {
            self.0.remove(0);
        }
        self.0.reserve_exact(1); // mostly there is one
        self.0.push(Front {
            thread,
            page,
            is_down: false,
            got_on: false,
            elsewhere: None,
        });
    }
}
