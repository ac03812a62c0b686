//! The recording itself: from its start to its end.

use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use pagewise_host::MemoryCgroup;
use pagewise_host::OomRelief;
use pagewise_host::counters;
use pagewise_host::page_bytes;
use pagewise_trace as trace;
use pagewise_trace::Overwrite;
use pagewise_trace::TraceWriter;
use rustix::event::Timespec;

use super::facts;
use super::facts::Clocks;
use super::footprint::Footprint;
use super::footprint::Held;
use super::headway::Headway;
use super::outcome::End;
use super::outcome::Recorded;
use super::outcome::Rest;
use super::outcome::Stopped;
use super::sensors::Sensors;
use super::setting::Setting;
use super::signals::Signals;
use super::snapshots::Snapshots;
use super::snapshots::max_bytes;
use super::subject::Subject;
use super::translate::Translator;
use super::why_killed::FreeSwap;
use super::why_killed::why_killed;
use super::window::Window;
use crate::cli::IoDetail;
use crate::cli::RecordArguments;
use crate::failure::Failure;
use crate::output::tell;

/// How long records may wait in the rings: a tenth of what fits there in the worst storm.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// The first looks at the program's memory come sooner, each after twice the time of the last: it may end within a second.
const FIRST_SAMPLE: Duration = Duration::from_millis(10);
/// After a signal to us, how long the program may take to end.
pub(super) const GRACE: Duration = Duration::from_secs(3);

pub(super) fn record(
    arguments: &RecordArguments,
    folder: &Path,
    overwrite: Overwrite,
    setting: &mut Setting,
) -> Result<Recorded, Box<Stopped>> {
    let signals = Signals::catch()?;
    // Of each process, page tables and more are held open.
    pagewise_host::open_files::allow_most();
    let start = Clocks::now();
    let mut sensors = Sensors::start(arguments, setting, &start)?;
    let mut subject = Subject::start(arguments, &sensors)?;
    setting.look_around(&subject);
    let meta = facts::meta(arguments, setting, &sensors, &subject, &start);
    let mut snapshots = Snapshots::new(arguments, folder, overwrite)?;
    let mut writer = if snapshots.is_some() {
        TraceWriter::in_memory(meta)?
    } else {
        TraceWriter::prepare(folder, meta, overwrite)?
    };
    if let Some(owner) = facts::sudo_caller() {
        writer.set_owner(owner)?;
    }
    if let Some(accesses) = &mut sensors.accesses {
        accesses.begin();
    }
    let cgroup = setting.cgroup.as_ref().map(|cgroup| cgroup.path().into());
    let mut window = Window::new(&arguments.window, cgroup);
    window.open_or_wait(&mut sensors)?;
    if let Err(failure) = subject.begin(setting, &mut sensors) {
        // Nothing was recorded: what was there before stays.
        writer.abandon()?;
        return Err(failure.into());
    }
    writer.settle()?;
    // Only now: nobody looks after a program that is stuck in its exec, so there the killer has to.
    let relief = setting.cgroup.as_ref().zip(setting.limit.bytes);
    let relief = relief.and_then(|(cgroup, limit)| OomRelief::hold(cgroup, limit));
    let mut translator = Translator::new(page_bytes(), sensors.announce_processes())
        .hearing_of_code(sensors.code.take())
        .with_io_sums(arguments.io == Some(IoDetail::Sums))
        .with_anonymous_mappings(arguments.running.is_meant())
        .within(max_bytes(arguments)?.filter(|_| snapshots.is_none()));
    if sensors.allocations.is_some()
        && let Some(path) = subject.executable()
    {
        translator.note_executable(path);
    }
    let mut run = Run {
        subject: &mut subject,
        window: &mut window,
        snapshots: snapshots.as_mut(),
        limit_bytes: setting.limit.bytes,
        cgroup: setting.cgroup.as_ref(),
        footprint: Footprint::new(),
        headway: Headway::new(),
        peak_bytes: 0,
        free_swap: FreeSwap::now(setting.cgroup.as_ref()),
        told_of_counting: false,
    };
    let end = run.follow(&mut sensors, &mut translator, &mut writer, &signals);
    let (peak_bytes, seen_free) = (run.peak_bytes, run.free_swap);
    // On any failure to write, the program goes on; so do its limit and swap, until it ends.
    let end = match end {
        Ok(end) => end,
        Err(failure) => {
            // With a full disk, this too may fail: then what was flushed is left.
            let _ = writer.salvage();
            let rest = Rest::of(subject, relief, signals);
            return Err(Box::new(Stopped { failure, rest }));
        }
    };
    let after = counters::vmstat().unwrap_or_default();
    // The kernel's count before our last look: what is still going on is not mistaken for unseen.
    let totals = window.of_totals(sensors.totals()?);
    let delays = window
        .waits()
        .and_then(|waits| waits.delays(sensors.delays()));
    sensors.drain(&mut translator, &mut writer)?;
    sensors.finish_looks(&mut writer)?;
    translator.write_rest(&mut writer)?;
    translator.finish(&mut writer)?;
    let forgotten_until_ns = writer.forgotten_until_ns();
    if let Some(snapshots) = snapshots {
        writer = snapshots.finish(&mut writer)?;
    }
    let at_the_kill = relief.as_ref().and_then(OomRelief::free_swap_at_the_end);
    let free_swap = at_the_kill.map_or(seen_free, FreeSwap::AtTheKill);
    let reason = why_killed(
        end.exit.map(|exit| exit.how),
        setting,
        free_swap,
        relief.as_ref().map_or(0, OomRelief::nudges),
    );
    let losses = sensors.losses(&totals, &translator);
    let finish = Clocks::now();
    writer.update_meta(|meta| {
        meta.end_monotonic_ns = Some(finish.monotonic_ns);
        meta.wall_ns = window.length_ns(forgotten_until_ns);
        meta.exit = end.facts(reason);
        let exact = end.exit.and_then(|exit| exit.peak_resident_bytes);
        meta.peak_rss_bytes = exact.max(Some(peak_bytes)).filter(|&bytes| bytes > 0);
        meta.losses = losses;
        // Counts of all the time would not fit what is left of it.
        if forgotten_until_ns.is_none() {
            meta.counters = facts::both(window.counters_before(), &after);
            meta.totals = facts::kept_counts(totals, &translator, sensors.swap_is_slow);
            if arguments.io.is_some() && !arguments.sensors.faults {
                facts::leave_out_unseen_faults(&mut meta.totals);
            }
            meta.totals
                .extend(sensors.counted_instead(end.exit.as_ref(), &translator));
            let reclaims = delays.map(|delays| delays.freepages_count);
            meta.totals
                .extend(reclaims.map(|count| ("kernel_reclaims".to_owned(), count)));
        }
        meta.cost = facts::cost(&start, relief.as_ref());
        meta.cost.extend(sensors.cost());
        if let Some(accesses) = &sensors.accesses {
            let wall = Duration::from_nanos(window.length_ns(None).unwrap_or(0));
            meta.cost.extend(accesses.cost(wall));
            meta.page_walks = accesses.page_walks();
            meta.running_threads = accesses.running_threads();
        }
        meta.sampling.sparsest_sample_bytes = translator.counts.sparsest_sample_bytes();
        meta.sensors = sensors.states.clone();
        if let Some(state) = sensors.allocations_state(&translator) {
            meta.sensors.insert("allocations".to_owned(), state);
        }
        if let Some(state) = sensors.io_state(&translator) {
            meta.sensors.insert("io".to_owned(), state);
        }
        window.tell_sensors(&mut meta.sensors);
    })?;
    let code = end.code();
    drop(sensors);
    let rest = if end.goes_on {
        Rest::of(subject, relief, signals)
    } else {
        None
    };
    Ok(Recorded { writer, code, rest })
}

struct Run<'run> {
    subject: &'run mut Subject,
    window: &'run mut Window,
    snapshots: Option<&'run mut Snapshots>,
    limit_bytes: Option<u64>,
    /// Ours, with the run's limit.
    cgroup: Option<&'run MemoryCgroup>,
    footprint: Footprint,
    headway: Headway,
    peak_bytes: u64,
    free_swap: FreeSwap,
    told_of_counting: bool,
}

impl Run<'_> {
    fn follow(
        &mut self,
        sensors: &mut Sensors,
        translator: &mut Translator,
        writer: &mut TraceWriter,
        signals: &Signals,
    ) -> Result<End, Failure> {
        let began = Instant::now();
        let (mut flushed, mut sampled, mut waited) = (began, began, began);
        let mut sample_after = FIRST_SAMPLE;
        self.sample(writer)?;
        loop {
            let ended = self.subject.wait_a_little(sensors, translator, &PATIENCE)?;
            if !ended {
                self.look();
            }
            sensors.drain(translator, writer)?;
            if ended {
                let exit = self.subject.end()?;
                self.window.close();
                // What its last moments and its end itself have left behind.
                sensors.drain(translator, writer)?;
                self.tell_if_counting(translator);
                write_waits(self.window, sensors, writer)?;
                self.tell_of_the_rest();
                return Ok(End::of(exit));
            }
            self.tell_if_counting(translator);
            self.window.look(sensors)?;
            if self.window.is_over() {
                self.window.close();
                write_waits(self.window, sensors, writer)?;
                return Ok(End::in_time());
            }
            sensors.look_for_pressure(translator.counts.evictions)?;
            if self.window.is_open() {
                sensors.look_at_processes(translator, writer)?;
                sensors.look_for_accesses(translator, writer)?;
                if self.limit_bytes.is_some() && self.headway.is_due() {
                    self.headway.look(&translator.live(), writer)?;
                }
            }
            if let Some(held) = self.footprint.finished() {
                self.write_sample(held, writer)?;
            }
            let seldom = FLUSH_EVERY.saturating_mul(translator.condenser.pace());
            if sampled.elapsed() >= sample_after {
                sampled = Instant::now();
                sample_after = seldom.min(sample_after.saturating_mul(2));
                self.sample(writer)?;
            }
            if flushed.elapsed() >= FLUSH_EVERY {
                flushed = Instant::now();
                self.subject.look_again(sensors, translator)?;
                translator.look_at_the_size(writer)?;
                sensors.slow_down(translator.condenser.pace());
                if waited.elapsed() >= seldom {
                    waited = Instant::now();
                    write_waits(self.window, sensors, writer)?;
                }
                translator.read_mappings(writer)?;
                writer.flush()?;
                if let Some(snapshots) = &self.snapshots {
                    snapshots.forget(writer)?;
                }
            }
            self.write_snapshot(sensors, translator, writer, signals)?;
            if let Some((signal, since)) = signals.told()
                && self.stops_now(signals, since)
            {
                self.window.close();
                write_waits(self.window, sensors, writer)?;
                return Ok(End::stopped_by(signal, self.is_ours()));
            }
        }
    }

    /// A signal to us is for the program too, which then has a while to end. Processes that ran before are not ours.
    fn stops_now(&self, signals: &Signals, since: Instant) -> bool {
        if !self.is_ours() {
            return true;
        }
        if since.elapsed() > GRACE {
            tell!("pagewise: the program goes on, without limit; the recording ends here");
            return true;
        }
        if let Some(signal) = signals.take_for_program() {
            self.subject.signal(signal);
        }
        false
    }

    fn is_ours(&self) -> bool {
        matches!(self.subject, Subject::Program(_))
    }

    fn write_snapshot(
        &mut self,
        sensors: &Sensors,
        translator: &Translator,
        writer: &mut TraceWriter,
        signals: &Signals,
    ) -> Result<(), Failure> {
        let Some(snapshots) = &mut self.snapshots else {
            if signals.take_snapshot() {
                tell!("pagewise: SIGUSR1 is for record --snapshot; nothing is written");
            }
            return Ok(());
        };
        if snapshots.is_busy() || !signals.take_snapshot() {
            return Ok(());
        }
        // Of the last moments too.
        write_waits(self.window, sensors, writer)?;
        let mut snapshot = writer.snapshot()?;
        let meta = &mut snapshot.meta;
        meta.end_monotonic_ns = Some(Clocks::now().monotonic_ns);
        meta.wall_ns = self.window.length_ns(writer.forgotten_until_ns());
        meta.peak_rss_bytes = Some(self.peak_bytes).filter(|&bytes| bytes > 0);
        meta.losses = sensors.losses(&sensors.totals()?, translator);
        snapshots.write(snapshot);
        Ok(())
    }

    fn tell_if_counting(&mut self, translator: &Translator) {
        if !self.told_of_counting && translator.condenser.is_counting() {
            self.told_of_counting = true;
            tell!(
                "pagewise: the recording has its size (--max-size): from here on events are counted by second and 2 MiB"
            );
        }
    }

    /// What it is too late to look for at the end.
    fn look(&mut self) {
        if self.cgroup.is_some() {
            self.free_swap = FreeSwap::now(self.cgroup);
        }
        self.peak_bytes = self.peak_bytes.max(self.subject.peak_bytes());
    }

    fn sample(&mut self, writer: &mut TraceWriter) -> Result<(), Failure> {
        match self.footprint.look(&self.subject.processes(), self.cgroup) {
            Some(held) => self.write_sample(held, writer),
            None => Ok(()),
        }
    }

    fn write_sample(&mut self, held: Held, writer: &mut TraceWriter) -> Result<(), Failure> {
        self.peak_bytes = self.peak_bytes.max(held.resident.unwrap_or(0));
        writer.samples.push(trace::Sample {
            time_ns: Clocks::now().monotonic_ns,
            rss_bytes: held.resident.filter(|&bytes| bytes > 0),
            swap_bytes: held.swapped,
            limit_bytes: self.limit_bytes,
        })?;
        Ok(())
    }

    fn tell_of_the_rest(&self) {
        let rest = self.subject.remaining();
        if rest > 0 {
            tell!("pagewise: {rest} processes of the program go on, without limit and unrecorded");
        }
    }
}

fn write_waits(
    window: &Window,
    sensors: &Sensors,
    writer: &mut TraceWriter,
) -> Result<(), Failure> {
    if let Some(waits) = window.waits() {
        writer.pressure.push(waits.now(sensors.delays()))?;
    }
    Ok(())
}
