//! The time in which is observed: from `--delay` on, for `--duration`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::Totals;
use pagewise_host::counters;
use pagewise_host::counters::Counters;

use super::facts::Clocks;
use super::sensors::Sensors;
use super::waits::Waits;
use crate::failure::Failure;
use crate::observe;

/// All by `Instant`, which is CLOCK_MONOTONIC: setting the wall clock changes nothing.
pub(super) struct Window {
    created: Instant,
    delay: Option<Duration>,
    duration: Option<Duration>,
    opened: Option<Opened>,
    closed: Option<Instant>,
    /// The program's own, whose pressure is told.
    cgroup: Option<PathBuf>,
}

struct Opened {
    at: Instant,
    monotonic_ns: u64,
    counters: Counters,
    major_faults: u64,
    waits: Waits,
}

impl Window {
    pub(super) fn new(arguments: &observe::Window, cgroup: Option<PathBuf>) -> Self {
        Self {
            created: Instant::now(),
            delay: arguments.delay.map(|span| span.0),
            duration: arguments.duration.map(|span| span.0),
            opened: None,
            closed: None,
            cgroup,
        }
    }

    /// Before the program starts: observe from there on, or only follow its processes until the delay is over.
    pub(super) fn open_or_wait(&mut self, sensors: &mut Sensors) -> Result<(), Failure> {
        self.created = Instant::now();
        if self.delay.is_some() {
            sensors.hold();
            return Ok(());
        }
        self.open(sensors)
    }

    /// Opens it when its time has come.
    pub(super) fn look(&mut self, sensors: &mut Sensors) -> Result<(), Failure> {
        let delay = self.delay.unwrap_or_default();
        if self.opened.is_none() && self.created.elapsed() >= delay {
            sensors.observe()?;
            self.open(sensors)?;
        }
        Ok(())
    }

    fn open(&mut self, sensors: &Sensors) -> Result<(), Failure> {
        let totals = sensors.totals()?;
        self.opened = Some(Opened {
            counters: counters::vmstat().unwrap_or_default(),
            major_faults: totals.map_or(0, |totals| totals.major_faults),
            waits: Waits::begin(self.cgroup.as_deref(), sensors.delays()),
            monotonic_ns: Clocks::now().monotonic_ns,
            at: Instant::now(),
        });
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        let since = self.opened.as_ref().map(|opened| opened.at);
        since
            .zip(self.duration)
            .is_some_and(|(since, duration)| since.elapsed() >= duration)
    }

    pub(super) fn close(&mut self) {
        self.closed.get_or_insert_with(Instant::now);
    }

    /// How long was observed, after what was forgotten; `None`: the program ended before the delay did.
    pub(super) fn length_ns(&self, forgotten_until_ns: Option<u64>) -> Option<u64> {
        let opened = self.opened.as_ref()?;
        let closed = self.closed.unwrap_or_else(Instant::now);
        let length = closed.duration_since(opened.at).as_nanos() as u64;
        let forgotten = forgotten_until_ns.map_or(0, |ns| ns.saturating_sub(opened.monotonic_ns));
        Some(length.saturating_sub(forgotten))
    }

    /// The kernel's counters when it was opened.
    pub(super) fn counters_before(&self) -> &Counters {
        static NONE: Counters = Counters::new();
        self.opened
            .as_ref()
            .map_or(&NONE, |opened| &opened.counters)
    }

    /// What the kernel says was waited since then; `None`: it was never opened.
    pub(super) fn waits(&self) -> Option<&Waits> {
        self.opened.as_ref().map(|opened| &opened.waits)
    }

    /// What of the sensors' counts is the window's: they go on while it is not open.
    pub(super) fn of_totals(&self, totals: Option<Totals>) -> Option<Totals> {
        let before = self.opened.as_ref()?.major_faults;
        totals.map(|totals| Totals {
            major_faults: totals.major_faults.wrapping_sub(before),
            ..totals
        })
    }

    /// What was never begun must not read as "nothing happened".
    pub(super) fn tell_sensors(&self, states: &mut BTreeMap<String, String>) {
        if self.opened.is_none()
            && let Some(state) = states.get_mut("faults").filter(|state| *state == "on")
        {
            *state = "the program ended before the time of --delay".to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(delay: Option<u64>, duration: Option<u64>) -> Window {
        Window {
            created: Instant::now(),
            delay: delay.map(Duration::from_millis),
            duration: duration.map(Duration::from_millis),
            opened: None,
            closed: None,
            cgroup: None,
        }
    }

    fn opened(major_faults: u64) -> Option<Opened> {
        Some(Opened {
            at: Instant::now(),
            monotonic_ns: 1000,
            counters: Counters::new(),
            major_faults,
            waits: Waits::begin(None, None),
        })
    }

    #[test]
    fn the_duration_counts_from_the_end_of_the_delay() {
        let mut window = window(Some(60_000), Some(1));
        std::thread::sleep(Duration::from_millis(2));
        assert!(!window.is_over(), "not open yet");
        window.opened = opened(0);
        std::thread::sleep(Duration::from_millis(2));
        assert!(window.is_over());
        let unlimited = Window {
            opened: opened(0),
            ..self::window(None, None)
        };
        assert!(!unlimited.is_over());
    }

    /// Somebody may set the clock during a recording.
    #[test]
    fn no_length_of_time_comes_from_the_wall_clock() {
        for source in [
            include_str!("window.rs"),
            include_str!("session.rs"),
            include_str!("outcome.rs"),
            include_str!("running.rs"),
            include_str!("condenser.rs"),
            include_str!("sensors.rs"),
        ] {
            let code = source.split("#[cfg(test)]").next().unwrap_or(source);
            for clock in ["SystemTime", "realtime_ns", "Realtime"] {
                assert!(!code.contains(clock), "{clock}");
            }
        }
    }

    #[test]
    fn what_was_before_is_not_counted() {
        let mut window = window(Some(1), None);
        let totals = Totals {
            major_faults: 12,
            ..Totals::default()
        };
        assert_eq!(window.of_totals(Some(totals)), None);
        assert_eq!(window.length_ns(None), None);
        window.opened = opened(10);
        let counted = window
            .of_totals(Some(totals))
            .map(|totals| totals.major_faults);
        assert_eq!(counted, Some(2));
        window.close();
        let length = window.length_ns(None);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(window.length_ns(None), length, "closed is closed");
        assert_eq!(window.length_ns(Some(1500)), length.map(|ns| ns - 500));
        assert_eq!(window.length_ns(Some(500)), length, "before it was opened");
    }

    #[test]
    fn a_window_that_never_opened_says_so() {
        let on = || BTreeMap::from([("faults".to_owned(), "on".to_owned())]);
        let mut states = on();
        let mut window = window(Some(1), None);
        window.tell_sensors(&mut states);
        assert!(states["faults"].contains("--delay"));
        window.opened = opened(0);
        let mut states = on();
        window.tell_sensors(&mut states);
        assert_eq!(states, on());
    }
}
