//! What looking at accessed bits costs the program. After they were cleared, the processor sets the bit of each page again that is accessed,
//! which it does not do on the way: a guest of a virtual machine waits for it for some 400 ns (Intel SDM, volume 3, "Accessed and Dirty Flags", and those for EPT).
//! A sweep through all of memory is slowed to less than half of its speed. Counted as the program's own time, pages would seem to be accessed
//! late, and so less often than they are, and rounds to take longer than others do.

use std::collections::BTreeMap;

use pagewise_trace::Access;
use pagewise_trace::Glance;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::clock::Clock;

/// The pace at which bits were set is told by times in which so many were at least, if there are so many such times,
const MANY_BITS: u64 = 500;
const LEAST_TIMES: usize = 8;
/// the fastest of these but for so many hundredths, which come by chance, as clearing takes time, too;
const BY_CHANCE: usize = 10;
/// and of that setting took so much at most: the rest is the access itself.
const MOST_OF_PACE: f64 = 0.75;

/// The program lost so much of this time, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) ns: u64,
}

/// In order of time; none where it was not measured what a bit costs. `faults`: when pages came back, in order: they come accessed; `clock`:
/// without what they waited.
pub(crate) fn find(trace: &Trace, faults: &[u64], clock: &Clock) -> Result<Vec<Loss>, TraceError> {
    let Some(each_ns) = trace.meta().set_accessed_ns else {
        return Ok(Vec::new());
    };
    // Threads that run at a time wait at the same time.
    let threads = trace.meta().running_threads.unwrap_or(1.0).max(1.0);
    let came = |time: u64| faults.partition_point(|&fault| fault <= time) as u64;
    let mut set = set_bits(trace.accesses()?, trace.glances()?)?;
    for (from, to, bits) in &mut set {
        *bits = bits.saturating_sub(came(*to) - came(*from));
    }
    let running = |&(from, to, bits): &(u64, u64, u64)| (clock.own(to) - clock.own(from), bits);
    let each_ns = as_seen(each_ns / threads, set.iter().map(running));
    let losses = set.into_iter().map(|(from, to, bits)| Loss {
        from,
        to,
        ns: (bits as f64 * each_ns) as u64,
    });
    Ok(losses.collect())
}

/// What a bit costs, ns, if that is not more than it can by how fast they were set: `times` has how long, ns, and how many. Measured was a
/// program that does nothing else; where an access waits for memory anyway, setting its bit goes on meanwhile.
fn as_seen(each_ns: f64, times: impl Iterator<Item = (u64, u64)>) -> f64 {
    let mut paces: Vec<f64> = times
        .filter(|&(_, bits)| bits >= MANY_BITS)
        .map(|(ns, bits)| ns as f64 / bits as f64)
        .collect();
    if paces.len() < LEAST_TIMES {
        return each_ns;
    }
    let place = paces.len() * BY_CHANCE / 100;
    let (_, fastest, _) = paces.select_nth_unstable_by(place, f64::total_cmp);
    each_ns.min(*fastest * MOST_OF_PACE)
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
    fn a_bit_costs_no_more_than_its_page_was_seen_to_take() {
        let times = |ns: u64, count: usize| (0..count).map(move |_| (1000 * ns, 1000));
        assert_eq!(as_seen(400.0, times(1200, 20)), 400.0);
        assert_eq!(as_seen(400.0, times(300, 20)), 225.0);
        // Few times tell nothing, nor do few bits, nor one time of twenty.
        assert_eq!(as_seen(400.0, times(300, 7)), 400.0);
        assert_eq!(as_seen(400.0, (0..20).map(|_| (3000, 10))), 400.0);
        assert_eq!(as_seen(400.0, times(10, 1).chain(times(1200, 19))), 400.0);
    }

    #[test]
    fn glances_of_a_round_that_was_not_looked_at_count_for_none() {
        let looks = [look(500, 100, 8)];
        let glances = [glance(200, 100), glance(450, 4)];
        let set = set_bits(looks.into_iter(), glances.into_iter()).expect("nothing is read");
        assert_eq!(set, [(400, 450, 4), (450, 500, 4)]);
    }
}
