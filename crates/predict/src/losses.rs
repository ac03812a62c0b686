//! What looking at accessed bits costs the program. After they were cleared, the processor sets the bit of each page again that is accessed,
//! which it does not do on the way: a guest of a virtual machine waits for it for some 400 ns (Intel SDM, volume 3, "Accessed and Dirty Flags", and those for EPT).
//! A sweep through all of memory is slowed to less than half of its speed. Counted as the program's own time, pages would seem to be accessed
//! late, and so less often than they are, and rounds to take longer than others do.

use std::collections::BTreeMap;

use pagewise_trace::Access;
use pagewise_trace::Glance;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

/// The program lost so much of this time, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) ns: u64,
}

/// In order of time; none where it was not measured what a bit costs. `faults`: when pages came back, in order: they come accessed.
pub(crate) fn find(trace: &Trace, faults: &[u64]) -> Result<Vec<Loss>, TraceError> {
    let Some(each_ns) = trace.meta().set_accessed_ns else {
        return Ok(Vec::new());
    };
    // Threads that run at a time wait at the same time.
    let threads = trace.meta().running_threads.unwrap_or(1.0).max(1.0);
    let came = |time: u64| faults.partition_point(|&fault| fault <= time) as u64;
    let set = set_bits(trace.accesses()?, trace.glances()?)?.into_iter();
    let losses = set.map(|(from, to, bits)| {
        let bits = bits.saturating_sub(came(to) - came(from));
        let ns = (bits as f64 * each_ns / threads) as u64;
        Loss { from, to, ns }
    });
    Ok(losses.collect())
}

/// What one look tells.
#[derive(Default)]
struct Round {
    /// When the first bits were cleared.
    cleared: Option<u64>,
    bits: u64,
}

/// Between two times, from the clearing to each glance and the look, how many bits were set.
fn set_bits(
    looks: impl Iterator<Item = Result<Access, TraceError>>,
    glances: impl Iterator<Item = Result<Glance, TraceError>>,
) -> Result<Vec<(u64, u64, u64)>, TraceError> {
    let mut rounds: BTreeMap<u64, Round> = BTreeMap::new();
    for look in looks {
        let look = look?;
        let round = rounds.entry(look.time_ns).or_default();
        let cleared = look.time_ns.saturating_sub(look.interval_ns);
        round.cleared = Some(round.cleared.map_or(cleared, |first| first.min(cleared)));
        // A huge page has one.
        round.bits += if look.huge {
            1
        } else {
            u64::from(look.accessed_pages)
        };
    }
    let mut glances = glances.peekable();
    let mut set = Vec::new();
    for (looked, round) in rounds {
        let cleared = round.cleared.unwrap_or(looked);
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        let is_before = |glance: &Result<Glance, TraceError>| {
            glance
                .as_ref()
                .map_or(true, |glance| glance.time_ns < looked)
        };
        while let Some(glance) = glances.next_if(is_before) {
            let glance = glance?;
            *seen.entry(glance.time_ns).or_default() += u64::from(glance.pages);
        }
        let (mut from, mut left) = (cleared, round.bits);
        for (to, bits) in seen.split_off(&(cleared + 1)) {
            // What has left memory since is in no look.
            left = left.saturating_sub(bits);
            set.push((from, to, bits));
            from = to;
        }
        set.push((from, looked, left));
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(time_ns: u64, interval_ns: u64, accessed_pages: u16) -> Result<Access, TraceError> {
        Ok(Access {
            time_ns,
            interval_ns,
            space: 0,
            address: 0,
            resident_pages: 512,
            accessed_pages,
            dirty_pages: 0,
            huge: false,
            swapped_pages: 0,
            resident_map: None,
            accessed_map: None,
        })
    }

    fn glance(time_ns: u64, pages: u16) -> Result<Glance, TraceError> {
        Ok(Glance {
            time_ns,
            interval_ns: 0,
            space: 0,
            address: 0,
            pages,
            map: None,
        })
    }

    #[test]
    fn bits_are_set_from_the_first_clearing_to_each_glance_and_the_look() {
        // Two regions, of which the first was cleared earlier; then a look of nothing, and one whose pages have left.
        let looks = [
            look(500, 400, 300),
            look(500, 380, 100),
            look(900, 200, 0),
            look(2000, 100, 10),
        ];
        let glances = [
            glance(150, 120),
            glance(150, 30),
            glance(300, 50),
            glance(1950, 30),
        ];
        let set = set_bits(looks.into_iter(), glances.into_iter()).expect("nothing is read");
        let expected = [
            (100, 150, 150),
            (150, 300, 50),
            (300, 500, 200),
            (700, 900, 0),
            (1900, 1950, 30),
            (1950, 2000, 0),
        ];
        assert_eq!(set, expected);
    }

    #[test]
    fn glances_of_a_round_that_was_not_looked_at_count_for_none() {
        let looks = [look(500, 100, 8)];
        let glances = [glance(200, 100), glance(450, 4)];
        let set = set_bits(looks.into_iter(), glances.into_iter()).expect("nothing is read");
        assert_eq!(set, [(400, 450, 4), (450, 500, 4)]);
    }
}
