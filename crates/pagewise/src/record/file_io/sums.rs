//! Calls summed up by what they have in common: for long recordings, and where single calls are not wanted.

use std::collections::HashMap;

use pagewise_analyze::file_io::NEAR_CALLS;
use pagewise_trace::IoCall;
use pagewise_trace::IoDirection;
use pagewise_trace::IoSum;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

const FIRST_INTERVAL_NS: u64 = 1_000_000_000;
/// Places where calls have ended, to tell which go on there; beyond, some runs are cut.
const MOST_PLACES: usize = 1 << 16;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    stack: Option<u32>,
    file: Option<u32>,
    direction: IoDirection,
    direct: bool,
    latency_octave: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    tid: u32,
    stack: Option<u32>,
    file: Option<u32>,
    direction: IoDirection,
}

impl Place {
    fn end(self, offset: u64) -> End {
        End {
            file: self.file,
            direction: self.direction,
            offset,
        }
    }
}

/// Where a call has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct End {
    file: Option<u32>,
    direction: IoDirection,
    offset: u64,
}

/// Written each interval, which then doubles: rows grow with the logarithm of time.
pub(super) struct Sums {
    began_ns: Option<u64>,
    interval_ns: u64,
    last_ns: u64,
    sums: HashMap<Key, IoSum>,
    /// Of each place, where its last call has ended,
    last: HashMap<Place, u64>,
    /// and whose was the last that has ended there, and when, in calls.
    ends: HashMap<End, (Place, u64)>,
    /// Calls so far.
    clock: u64,
}

impl Default for Sums {
    fn default() -> Self {
        Self {
            began_ns: None,
            interval_ns: FIRST_INTERVAL_NS,
            last_ns: 0,
            sums: HashMap::new(),
            last: HashMap::new(),
            ends: HashMap::new(),
            clock: 0,
        }
    }
}

impl Sums {
    /// Takes a call; they come in order of time.
    pub(super) fn add(
        &mut self,
        call: &IoCall,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let began_ns = *self.began_ns.get_or_insert(call.time_ns);
        if call.time_ns >= began_ns.saturating_add(self.interval_ns) {
            self.write(writer)?;
            self.began_ns = Some(call.time_ns);
            self.interval_ns = self.interval_ns.saturating_mul(2);
        }
        self.last_ns = call.time_ns;
        let continued = self.continues(call);
        let key = Key {
            stack: call.stack,
            file: call.file,
            direction: call.direction,
            direct: call.direct,
            latency_octave: call.latency_ns.max(1).ilog2(),
        };
        let sum = self.sums.entry(key).or_insert_with(|| IoSum {
            time_ns: 0,
            interval_ns: 0,
            stack: key.stack,
            file: key.file,
            direction: key.direction,
            direct: key.direct,
            latency_octave: key.latency_octave,
            calls: 0,
            failed: 0,
            continued: 0,
            bytes: 0,
            latency_ns: 0,
            cached_bytes: Some(0),
            ahead_bytes: Some(0),
        });
        sum.calls += 1;
        sum.failed += u64::from(call.error.is_some());
        sum.continued += u64::from(continued);
        sum.bytes += call.bytes.unwrap_or(0);
        sum.latency_ns += call.latency_ns;
        sum.cached_bytes = both(sum.cached_bytes, call.cached_bytes);
        sum.ahead_bytes = both(sum.ahead_bytes, call.ahead_bytes);
        Ok(())
    }

    /// Whether it begins where the last one of this thread by the same path has ended, or the last one of any other: places of the code
    /// and threads may take turns.
    fn continues(&mut self, call: &IoCall) -> bool {
        let (Some(offset), Some(bytes)) = (call.offset, call.bytes) else {
            return false;
        };
        let place = Place {
            tid: call.tid,
            stack: call.stack,
            file: call.file,
            direction: call.direction,
        };
        if self.last.len() >= MOST_PLACES && !self.last.contains_key(&place) {
            self.last.clear();
            self.ends.clear();
        }
        let next = offset.saturating_add(bytes);
        let before = self.last.insert(place, next);
        if let Some(before) = before {
            self.forget(place, before);
        }
        self.clock += 1;
        let near = |(_, at): (Place, u64)| self.clock - at <= NEAR_CALLS;
        let of_any = self.ends.remove(&place.end(offset)).is_some_and(near);
        self.ends.insert(place.end(next), (place, self.clock));
        before == Some(offset) || of_any
    }

    /// That a call of this place has ended there.
    fn forget(&mut self, place: Place, offset: u64) {
        let end = place.end(offset);
        if self.ends.get(&end).is_some_and(|last| last.0 == place) {
            self.ends.remove(&end);
        }
    }

    /// Writes the sums so far.
    pub(super) fn write(&mut self, writer: &mut TraceWriter) -> Result<(), TraceError> {
        let Some(began_ns) = self.began_ns else {
            return Ok(());
        };
        let mut sums: Vec<IoSum> = self.sums.drain().map(|(_, sum)| sum).collect();
        sums.sort_by_key(|sum| (sum.stack, sum.file, sum.direction, sum.latency_octave));
        for sum in sums {
            writer.io_sums.push(IoSum {
                time_ns: began_ns,
                interval_ns: self.last_ns.saturating_sub(began_ns),
                ..sum
            })?;
        }
        Ok(())
    }
}

/// A sum of which a part is not known is not known.
fn both(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one? + other?)
}

#[cfg(test)]
mod tests {
    use pagewise_trace::IoCallKind;

    use super::*;

    /// Each call by its path, thread and offset; says how many go on where one has ended.
    fn continued(calls: &[(u32, u32, u64)]) -> usize {
        let mut sums = Sums::default();
        let goes_on = |&&(stack, tid, offset): &&(u32, u32, u64)| {
            sums.continues(&IoCall {
                time_ns: 0,
                space: 1,
                tid,
                call: IoCallKind::Read,
                direction: IoDirection::Read,
                file: Some(1),
                direct: false,
                offset: Some(offset),
                bytes: Some(10),
                error: None,
                latency_ns: 0,
                cached_bytes: Some(0),
                ahead_bytes: None,
                stack: Some(stack),
            })
        };
        calls.iter().filter(goes_on).count()
    }

    #[test]
    fn paths_and_threads_may_take_turns() {
        assert_eq!(continued(&[(1, 1, 0), (1, 1, 10), (1, 1, 20)]), 2);
        assert_eq!(continued(&[(1, 1, 0), (2, 1, 10), (1, 1, 20)]), 2);
        assert_eq!(continued(&[(1, 1, 0), (1, 2, 10), (1, 1, 20)]), 2);
        assert_eq!(continued(&[(1, 1, 0), (2, 1, 50), (1, 1, 90)]), 0);
        let abreast = [(1, 1, 0), (1, 2, 0), (1, 1, 10), (1, 2, 10)];
        assert_eq!(continued(&abreast), 2);
    }
}
