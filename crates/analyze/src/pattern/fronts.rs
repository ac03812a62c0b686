//! How far each thread has come in an object, seen from afar: a sweep in no order within a short distance, as a breadth-first search that takes the
//! nodes of each layer as they come, or the corners of a mesh whose nodes are numbered nearly in order.
//!
//! ```text
//!     done |<-- behind -->| front |<-- ahead -->| still to come
//! ```

/// What lies at most so far from the front belongs to the sweep, pages (1 MiB: the preloaded library follows sweeps as coarse as that),
const WIDEST: u64 = 256;
/// and at most this share of the pages between the first and the last that were seen, so that few are near by chance.
const SHARE: u64 = 16;
/// Threads that are told apart in one object.
const MOST_THREADS: usize = 64;

/// Where a thread is.
#[derive(Clone, Copy, Debug)]
struct Front {
    thread: u32,
    page: u64,
    is_down: bool,
    /// Where it was last when that was not near. To go on from there is to sweep there.
    elsewhere: u64,
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
    /// A thread comes to a page of an object of so many.
    pub(super) fn advance(&mut self, thread: u32, page: u64, span: u64) -> Seen {
        let width = WIDEST.min(span / SHARE);
        let Some(front) = self.0.iter_mut().find(|front| front.thread == thread) else {
            self.begin(thread, page);
            return Seen::Elsewhere;
        };
        let near = page.abs_diff(front.page) <= width;
        if near {
            let onwards = (page < front.page) == front.is_down;
            let pages = page.abs_diff(front.page);
            if onwards {
                front.page = page;
            }
            return Seen::Near(if onwards { pages } else { 0 });
        }
        let before = std::mem::replace(&mut front.elsewhere, page);
        if page.abs_diff(before) > width {
            return Seen::Elsewhere;
        }
        front.is_down = page < before;
        front.page = page;
        Seen::Begins
    }

    fn begin(&mut self, thread: u32, page: u64) {
        if self.0.len() == MOST_THREADS {
            return;
        }
        self.0.reserve_exact(1); // mostly there is one
        self.0.push(Front {
            thread,
            page,
            is_down: false,
            elsewhere: page,
        });
    }
}
