//! The sensors of one recording, and where their records go.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::AllocationServer;
use pagewise_collect::SwapSensor;
use pagewise_collect::Totals;
use pagewise_host::counters;
use pagewise_trace::TraceWriter;

use super::facts::Clocks;
use super::pressure;
use super::runtime_library;
use super::setting::Setting;
use super::translate::Translator;
use crate::cli::RecordArguments;
use crate::failure::Failure;
use crate::output::tell;

/// Half of a machine's memory does not fill in less.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Sensors {
    pub(super) faults: Option<SwapSensor>,
    pub(super) allocations: Option<(AllocationServer, PathBuf)>,
    pub(super) swap_is_slow: bool,
    /// Since the last look: faults are not watched before memory gets short.
    waiting_since: Option<Instant>,
    pub(super) states: BTreeMap<String, String>,
}

impl Sensors {
    pub(super) fn start(arguments: &RecordArguments, start: &Clocks) -> Result<Self, Failure> {
        let mut sensors = Self {
            faults: None,
            allocations: None,
            swap_is_slow: Setting::swap_is_slow(),
            waiting_since: None,
            states: BTreeMap::new(),
        };
        if arguments.sensors.faults {
            let layout = pagewise_collect::calibrate()?;
            let zeros_are_noted =
                counters::vmstat().is_ok_and(|counts| counts.contains_key("swpout_zero"));
            // Without the array of page structs they count as written.
            let zeros = match (zeros_are_noted, layout.page_structs, sensors.swap_is_slow) {
                (false, ..) => "this kernel writes pages of zeros like others",
                (true, None, false) => {
                    "pages of zeros count as written: their contents cannot be found"
                }
                _ => "on",
            };
            sensors.state("zero_filled", zeros);
            sensors.faults = Some(SwapSensor::load(pagewise_collect::Options {
                layout,
                base_ns: start.monotonic_ns,
                swap_is_slow: sensors.swap_is_slow,
                zeros_are_noted,
            })?);
        }
        if let Some(faults) = sensors
            .faults
            .as_mut()
            .filter(|_| pressure::is_far(arguments.memory.is_some()))
        {
            faults.pause_faults();
            sensors.waiting_since = Some(Instant::now());
        }
        sensors.state(
            "faults",
            if arguments.sensors.faults {
                "on"
            } else {
                "off"
            },
        );
        if arguments.sensors.allocations {
            match runtime_library() {
                Ok(library) => {
                    sensors.allocations = Some((AllocationServer::start()?, library));
                    sensors.state("allocations", "on");
                }
                Err(why) => {
                    tell!("pagewise: objects stay without names: {why}; type: make build");
                    sensors.state("allocations", &why);
                }
            }
        } else {
            sensors.state("allocations", "off");
        }
        Ok(sensors)
    }

    fn state(&mut self, sensor: &str, state: &str) {
        self.states.insert(sensor.to_owned(), state.to_owned());
    }

    /// Watches faults from the moment that memory may get short.
    pub(super) fn look_for_pressure(&mut self, evictions: u64) -> Result<(), Failure> {
        let Some(since) = self.waiting_since else {
            return Ok(());
        };
        if evictions == 0 && since.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.waiting_since = Some(Instant::now());
        if evictions > 0 || !pressure::memory_is_plenty() {
            self.waiting_since = None;
            if let Some(faults) = &mut self.faults {
                faults.resume_faults()?;
            }
        }
        Ok(())
    }

    /// Moves all that was seen into the trace.
    pub(super) fn drain(
        &mut self,
        translator: &mut Translator,
        writer: &mut TraceWriter,
    ) -> Result<(), Failure> {
        // The first error counts; the sensors cannot be stopped half-way.
        let mut failed = None;
        if let Some(faults) = &mut self.faults {
            faults.drain(|observation| {
                if let Err(error) = translator.observe(observation, writer) {
                    failed.get_or_insert(error);
                }
            })?;
        }
        if let Some((server, _)) = &mut self.allocations {
            server.drain(|pid, record| {
                if let Err(error) = translator.allocation_record(pid, &record, writer) {
                    failed.get_or_insert(error);
                }
            });
            for pid in translator.take_ended() {
                server.forget(pid);
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(translator.write_events(writer)?),
        }
    }

    pub(super) fn totals(&self) -> Result<Option<Totals>, Failure> {
        Ok(self.faults.as_ref().map(SwapSensor::totals).transpose()?)
    }

    pub(super) fn losses(
        &self,
        totals: &Option<Totals>,
        translator: &Translator,
    ) -> BTreeMap<String, u64> {
        let mut losses = BTreeMap::new();
        if let Some(totals) = totals {
            losses.insert("events".to_owned(), totals.lost + totals.malformed);
            losses.insert("process_notices".to_owned(), totals.lost_notices);
        }
        if let Some((server, _)) = &self.allocations {
            losses.insert(
                "allocations".to_owned(),
                server.lost() + translator.counts.strangers,
            );
            losses.insert(
                "malformed_allocation_records".to_owned(),
                server.malformed(),
            );
        }
        losses
    }
}
