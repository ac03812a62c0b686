//! Each thread's last step in an object.

/// Threads that are told apart in one object; of more, the one that was here longest ago is forgotten.
const MOST_THREADS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Last {
    thread: u32,
    page: u64,
    distance: i64,
}

/// From one page to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) distance: i64,
    /// Of the step before, 0 if there was none.
    pub(super) before: i64,
}

/// The thread seen last is the last.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads(Vec<Last>);

impl Threads {
    /// `None`: the thread's first page, or the same again (evicted in between).
    pub(super) fn step(&mut self, thread: u32, page: u64) -> Option<Step> {
        let Some(at) = self.0.iter().rposition(|last| last.thread == thread) else {
            if self.0.len() == MOST_THREADS {
                self.0.remove(0);
            }
            if self.0.is_empty() {
                self.0.reserve_exact(1); // mostly there is one
            }
            self.0.push(Last {
                thread,
                page,
                distance: 0,
            });
            return None;
        };
        self.0[at..].rotate_left(1);
        let last = self.0.last_mut()?;
        let distance = page.wrapping_sub(last.page) as i64;
        if distance == 0 {
            return None;
        }
        let step = Step {
            distance,
            before: last.distance,
        };
        (last.page, last.distance) = (page, distance);
        Some(step)
    }
}
