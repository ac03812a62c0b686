//! How many pages there were and how many of them in memory, by what is known of each.

use crate::history::History;
use crate::history::What;

/// Pages of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Most that there were at once, in memory or not.
    pub(crate) most: u64,
    /// In memory at the evictions, but for the tenth with the most: as many as the limit leaves room for. Others had more of it free,
    /// as reclaim goes by batches and some of what came between two scans is put in order.
    pub(crate) fit: u64,
    pub(crate) evictions: u64,
}

impl Account {
    pub(crate) fn new(history: &History) -> Account {
        let mut state = vec![(false, false); history.keys.len()];
        let (mut existing, mut resident, mut most) = (0u64, 0u64, 0);
        let mut at_evictions = Vec::new();
        for moment in &history.moments {
            let state = &mut state[moment.page as usize];
            let next = match moment.what {
                What::Touched | What::Faulted => (true, true),
                What::Evicted => (true, false),
                What::Gone => (false, false),
            };
            existing = existing + u64::from(next.0) - u64::from(state.0);
            resident = resident + u64::from(next.1) - u64::from(state.1);
            *state = next;
            most = most.max(existing);
            if moment.what == What::Evicted {
                at_evictions.push(resident);
            }
        }
        let evictions = at_evictions.len();
        let fit = match evictions {
            0 => most,
            _ => *at_evictions.select_nth_unstable(evictions * 9 / 10).1,
        };
        Account {
            most,
            fit,
            evictions: evictions as u64,
        }
    }
}
