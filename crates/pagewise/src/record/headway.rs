//! How far the program gets by its own work, against what it has waited for by then: what a run with a plan is held against.

use std::collections::HashMap;
use std::time::Duration;
use std::time::Instant;

use pagewise_host::process;
use pagewise_trace as trace;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

use super::facts::Clocks;
use super::rounds::processor_time;

/// The kernel tells user time in ticks of that length.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// After so many rounds, pauses are twice as long: a run of an hour has a few thousand rows a process.
const ROUNDS: u32 = 256;
/// One part in so many of the time may be spent.
const SHARE: u32 = 200;

/// When to look at how far processes have got, and what was seen last.
pub(super) struct Headway {
    next: Instant,
    pause: Duration,
    rounds: u32,
    /// Of each address space: user time, ns, and major faults.
    seen: HashMap<u32, (u64, u64)>,
}

impl Headway {
    pub(super) fn new() -> Self {
        Self {
            next: Instant::now(),
            pause: FIRST_PAUSE,
            rounds: 0,
            seen: HashMap::new(),
        }
    }

    /// Whether it is time to look again.
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Looks at these processes (process, address space).
    pub(super) fn look(
        &mut self,
        live: &[(u32, u32)],
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let spent = processor_time();
        for &(pid, space) in live {
            let Some(stat) = process::stat(pid) else {
                continue;
            };
            let now = (stat.user_ns, stat.major_faults);
            if self.seen.insert(space, now) != Some(now) {
                writer.headway.push(trace::Headway {
                    time_ns: Clocks::now().monotonic_ns,
                    space,
                    user_ns: stat.user_ns,
                    major_faults: stat.major_faults,
                })?;
            }
        }
        self.seen
            .retain(|space, _| live.iter().any(|(_, alive)| alive == space));
        self.note_round(processor_time().saturating_sub(spent));
        Ok(())
    }

    fn note_round(&mut self, cost: Duration) {
        self.rounds += 1;
        if self.rounds.is_multiple_of(ROUNDS) {
            self.pause *= 2;
        }
        self.next = Instant::now() + self.pause.max(SHARE * cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_trace::Meta;
    use pagewise_trace::Overwrite;
    use pagewise_trace::Trace;

    #[test]
    fn only_what_has_changed_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("trace");
        let mut writer =
            TraceWriter::create(&dir, Meta::default(), Overwrite::Refuse).expect("a trace");
        let mut headway = Headway::new();
        let own = std::process::id();
        let gone = u32::MAX / 2;
        assert!(headway.is_due());
        headway
            .look(&[(own, 1), (gone, 2)], &mut writer)
            .expect("written");
        assert!(!headway.is_due());
        // Another thread of the test may work meanwhile, so that what is seen last is set here.
        let user_ns = process::stat(own).expect("it lives").user_ns;
        headway.seen.insert(1, (user_ns + 1, 0));
        headway.look(&[(own, 1)], &mut writer).expect("written");
        headway.look(&[], &mut writer).expect("written");
        assert!(headway.seen.is_empty());
        writer.close().expect("closed");
        let trace = Trace::open(&dir).expect("opened");
        let rows: Vec<_> = trace.headway().expect("a table").collect();
        assert_eq!(rows.len(), 2);
        let first = rows[0].as_ref().expect("sound");
        assert!(first.space == 1 && first.user_ns <= user_ns);
    }

    #[test]
    fn it_looks_ever_more_seldom_and_as_seldom_as_its_cost_wants() {
        let mut headway = Headway::new();
        for _ in 0..ROUNDS {
            headway.note_round(Duration::ZERO);
        }
        assert_eq!(headway.pause, 2 * FIRST_PAUSE);
        headway.note_round(Duration::from_millis(10));
        let pause = headway.next - Instant::now();
        assert!(pause > Duration::from_millis(1900), "{pause:?}");
    }
}
