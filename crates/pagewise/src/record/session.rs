//! The recording itself: from the program's start to its end.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use pagewise_abi as abi;
use pagewise_host::Exit;
use pagewise_host::Launched;
use pagewise_host::OomRelief;
use pagewise_host::Program;
use pagewise_host::counters;
use pagewise_host::page_bytes;
use pagewise_host::process;
use pagewise_trace as trace;
use pagewise_trace::Overwrite;
use pagewise_trace::TraceWriter;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::process::Signal;

use super::facts;
use super::facts::Clocks;
use super::sensors::Sensors;
use super::setting::Setting;
use super::signals::Signals;
use super::translate::Translator;
use super::why_killed::FreeSwap;
use super::why_killed::why_killed;
use crate::cli::RecordArguments;
use crate::failure::Failure;
use crate::output::tell;

/// How long records may wait in the rings: a tenth of what fits there in the worst storm.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// After a signal to us, how long the program may take to end.
const GRACE: Duration = Duration::from_secs(3);

/// A recording whose program has ended or been left alone, not yet closed.
pub(super) struct Recorded {
    pub(super) writer: TraceWriter,
    /// What to exit with: the program's own code.
    pub(super) code: u8,
}

pub(super) fn record(
    arguments: &RecordArguments,
    folder: &Path,
    overwrite: Overwrite,
    setting: &mut Setting,
) -> Result<Recorded, Failure> {
    let signals = Signals::catch()?;
    let start = Clocks::now();
    let mut sensors = Sensors::start(arguments, &start)?;
    let mut program = Program::new(&arguments.program).as_root(arguments.as_root);
    if let Some((server, library)) = &sensors.allocations {
        program = program
            .preload(library)
            .env(abi::SOCKET_VARIABLE, server.socket());
    }
    let mut launched = program.start()?;
    let mut writer = TraceWriter::create(
        folder,
        facts::meta(arguments, setting, &sensors, &start),
        overwrite,
    )?;
    if let Some(owner) = facts::sudo_caller() {
        writer.set_owner(owner)?;
    }
    if let Some(cgroup) = &setting.cgroup {
        cgroup.add(launched.pid())?;
    }
    let before = counters::vmstat().unwrap_or_default();
    if let Some(faults) = &sensors.faults {
        faults.watch(launched.pid())?;
    }
    let began = Instant::now();
    if let Err(error) = launched.release() {
        drop(writer);
        // Nothing was recorded: what was there before comes back.
        let _ = std::fs::remove_dir_all(folder);
        if overwrite == Overwrite::KeepOld {
            let _ = std::fs::rename(folder.with_extension("data.old"), folder);
        }
        return Err(error.into());
    }
    // Only now: nobody looks after a program that is stuck in its exec, so there the killer has to.
    let relief = setting.cgroup.as_ref().zip(setting.limit.bytes);
    let mut relief = relief.and_then(|(cgroup, limit)| OomRelief::hold(cgroup, limit));
    let mut translator = Translator::new(page_bytes(), sensors.faults.is_some());
    let mut run = Run {
        launched: &mut launched,
        began,
        setting,
        relief: relief.as_mut(),
        peak_bytes: 0,
        free_swap: FreeSwap::now(),
    };
    let end = run.follow(&mut sensors, &mut translator, &mut writer, &signals);
    let (peak_bytes, seen_free) = (run.peak_bytes, run.free_swap);
    // On any failure to write, the program goes on; so do its limit and swap, until it ends.
    let end = match end {
        Ok(end) => end,
        Err(failure) => {
            drop(sensors);
            // Nobody looks after a program that is stuck any more: the killer has to.
            drop(relief);
            launched.wait()?;
            return Err(failure);
        }
    };
    let after = counters::vmstat().unwrap_or_default();
    let totals = sensors.totals()?;
    let at_the_kill = relief.as_ref().and_then(OomRelief::free_swap_at_the_end);
    let free_swap = at_the_kill.map_or(seen_free, FreeSwap::AtTheKill);
    let reason = why_killed(end.exit.map(|exit| exit.how), setting, free_swap);
    let losses = sensors.losses(&totals, &translator);
    let finish = Clocks::now();
    writer.update_meta(|meta| {
        meta.end_monotonic_ns = Some(finish.monotonic_ns);
        meta.wall_ns = Some(end.wall_ns);
        meta.exit = trace::Exit {
            code: end.exit.map(|exit| exit.how).and_then(code_of),
            signal: end.exit.map(|exit| exit.how).and_then(signal_of),
            reason,
        };
        let exact = end.exit.and_then(|exit| exit.peak_resident_bytes);
        meta.peak_rss_bytes = exact.max(Some(peak_bytes)).filter(|&bytes| bytes > 0);
        meta.losses = losses;
        meta.counters = facts::both(&before, &after);
        meta.totals = facts::kept_counts(totals, &translator, sensors.swap_is_slow);
        meta.cost = facts::cost(&start, relief.as_ref());
    })?;
    Ok(Recorded {
        writer,
        code: end.code(),
    })
}

/// How the run ended.
struct End {
    /// `None`: we were told to stop, and the program goes on.
    exit: Option<Exit>,
    stopped_by: Option<Signal>,
    wall_ns: u64,
}

impl End {
    fn code(&self) -> u8 {
        match (self.exit, self.stopped_by) {
            (Some(exit), _) => exit.code(),
            (None, Some(signal)) => 128 + signal.as_raw() as u8,
            (None, None) => crate::failure::OWN_FAILURE,
        }
    }
}

struct Run<'run> {
    launched: &'run mut Launched,
    began: Instant,
    setting: &'run Setting,
    relief: Option<&'run mut OomRelief>,
    peak_bytes: u64,
    free_swap: FreeSwap,
}

impl Run<'_> {
    fn follow(
        &mut self,
        sensors: &mut Sensors,
        translator: &mut Translator,
        writer: &mut TraceWriter,
        signals: &Signals,
    ) -> Result<End, Failure> {
        let began = self.began;
        let mut flushed = began;
        self.sample(writer)?;
        let mut told: Option<(Signal, Instant)> = None;
        loop {
            let ended = self.wait_a_little(sensors);
            if !ended {
                self.look();
            }
            sensors.drain(translator, writer)?;
            if ended {
                let exit = self.launched.wait()?;
                let wall_ns = began.elapsed().as_nanos() as u64;
                // What its last moments and its end itself have left behind.
                sensors.drain(translator, writer)?;
                self.tell_of_the_rest();
                return Ok(End {
                    exit: Some(exit),
                    stopped_by: None,
                    wall_ns,
                });
            }
            sensors.look_for_pressure(translator.counts.evictions)?;
            if let Some(relief) = &mut self.relief {
                relief.tick();
            }
            if flushed.elapsed() >= FLUSH_EVERY {
                flushed = Instant::now();
                self.sample(writer)?;
                translator.read_mappings(writer)?;
                writer.flush()?;
            }
            told = told.or_else(|| self.pass_on(signals));
            if let Some((signal, _)) = told.filter(|(_, since)| since.elapsed() > GRACE) {
                tell!("pagewise: the program goes on, without limit; the recording ends here");
                let wall_ns = began.elapsed().as_nanos() as u64;
                return Ok(End {
                    exit: None,
                    stopped_by: Some(signal),
                    wall_ns,
                });
            }
        }
    }

    /// What it is too late to look for at the end.
    fn look(&mut self) {
        if self.setting.cgroup.is_some() {
            self.free_swap = FreeSwap::now();
        }
        let memory = process::memory(self.launched.pid()).unwrap_or_default();
        let peak_bytes = memory.peak_resident_bytes.unwrap_or(0);
        self.peak_bytes = self.peak_bytes.max(peak_bytes);
    }

    /// Sleeps until the program ends, a process asks for a ring, or it is time to look again. True: it has ended.
    fn wait_a_little(&self, sensors: &Sensors) -> bool {
        let pidfd = self.launched.pidfd();
        let mut wanted = vec![PollFd::new(&pidfd, PollFlags::IN)];
        let listener = sensors
            .allocations
            .as_ref()
            .map(|(server, _)| server.listener());
        wanted.extend(
            listener
                .as_ref()
                .map(|listener| PollFd::new(listener, PollFlags::IN)),
        );
        // Interrupted by a signal: the loop looks at those anyway.
        let _ = rustix::event::poll(&mut wanted, Some(&PATIENCE));
        wanted[0].revents().contains(PollFlags::IN)
    }

    /// A signal to us is for the program too. From the terminal it has had its own; a second does no harm.
    fn pass_on(&self, signals: &Signals) -> Option<(Signal, Instant)> {
        let signal = if signals.terminate.load(Ordering::Relaxed) {
            Signal::TERM
        } else if signals.interrupt.load(Ordering::Relaxed) {
            Signal::INT
        } else {
            return None;
        };
        if signal == Signal::TERM {
            let _ = self.launched.signal(signal);
        }
        Some((signal, Instant::now()))
    }

    fn sample(&mut self, writer: &mut TraceWriter) -> Result<(), Failure> {
        let (mut resident, mut swapped) = (0, 0);
        for pid in
            std::iter::once(self.launched.pid()).chain(process::descendants(self.launched.pid()))
        {
            if let Some(memory) = process::memory(pid) {
                resident += memory.resident_bytes.unwrap_or(0);
                swapped += memory.swapped_bytes.unwrap_or(0);
            }
        }
        self.peak_bytes = self.peak_bytes.max(resident);
        writer.samples.push(trace::Sample {
            time_ns: Clocks::now().monotonic_ns,
            rss_bytes: Some(resident).filter(|&bytes| bytes > 0),
            swap_bytes: Some(swapped),
            limit_bytes: self.setting.limit.bytes,
        })?;
        Ok(())
    }

    fn tell_of_the_rest(&self) {
        let rest = self.launched.remaining().len();
        if rest > 0 {
            tell!("pagewise: {rest} processes of the program go on, without limit and unrecorded");
        }
    }
}

fn code_of(how: pagewise_host::launch::HowEnded) -> Option<i32> {
    match how {
        pagewise_host::launch::HowEnded::Code(code) => Some(code.into()),
        pagewise_host::launch::HowEnded::Signal(_) => None,
    }
}

fn signal_of(how: pagewise_host::launch::HowEnded) -> Option<i32> {
    match how {
        pagewise_host::launch::HowEnded::Code(_) => None,
        pagewise_host::launch::HowEnded::Signal(signal) => Some(signal.into()),
    }
}
