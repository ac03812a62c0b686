//! Who is recorded: a program that we start, or processes that run already.

use std::path::Path;

use pagewise_abi as abi;
use pagewise_collect::SwapSensor;
use pagewise_host::Exit;
use pagewise_host::Launched;
use pagewise_host::Program;
use pagewise_host::family;
use pagewise_host::process;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::process::Signal;

use super::running::Running;
use super::sampling;
use super::sensors::Sensors;
use super::setting::Setting;
use super::translate::Translator;
use crate::cli::RecordArguments;
use crate::failure::Failure;

pub(super) enum Subject {
    Program(Box<Launched>),
    Running(Running),
}

impl Subject {
    /// Starts the program, held back before its exec, or finds what runs.
    pub(super) fn start(arguments: &RecordArguments, sensors: &Sensors) -> Result<Self, Failure> {
        if arguments.running.is_meant() {
            return Ok(Self::Running(Running::find(&arguments.running)?));
        }
        let mut program = Program::new(&arguments.program)
            .as_root(arguments.as_root)
            .env_remove(pagewise_host::cgroup::DELEGATED);
        if let Some((server, library)) = &sensors.allocations {
            program = program
                .preload(library)
                .env(abi::SOCKET_VARIABLE, server.socket());
            program = if sensors.hears_allocations {
                sampling::tell(program, arguments.sample_bytes)
            } else {
                sampling::tell_nothing(program)
            };
        }
        if let Some(library) = &sensors.marks {
            // Without a socket it tells nobody of allocations.
            program = program.preload(library);
        }
        if sensors.calls_since.is_some() {
            program = program.env(abi::file_calls::VARIABLE, "1");
        } else if arguments.io.is_some()
            && (sensors.allocations.is_some() || sensors.marks.is_some())
        {
            program = program.env(abi::marks::VARIABLE, "1");
        }
        Ok(Self::Program(Box::new(program.start()?)))
    }

    /// The file that the program is run from.
    pub(super) fn executable(&self) -> Option<&Path> {
        match self {
            Self::Program(launched) => Some(launched.path()),
            Self::Running(_) => None,
        }
    }

    /// Puts the program into its cgroup and lets it go, or joins what runs. From here on it is recorded.
    pub(super) fn begin(
        &mut self,
        setting: &Setting,
        sensors: &mut Sensors,
    ) -> Result<(), Failure> {
        match self {
            Self::Program(launched) => {
                if let Some(cgroup) = &setting.cgroup {
                    cgroup.add(launched.pid())?;
                }
                sensors.attach(launched.pid())?;
                Ok(launched.release()?)
            }
            Self::Running(running) => running.join(sensors.faults.as_ref()),
        }
    }

    /// Sleeps until it ends, a process asks for a ring, a stack is to be unwound, or it is time to look again. True: it has ended.
    pub(super) fn wait_a_little(
        &mut self,
        sensors: &Sensors,
        translator: &Translator,
        patience: &Timespec,
    ) -> Result<bool, Failure> {
        match self {
            Self::Program(launched) => Ok(wait_for_program(launched, sensors, patience)),
            Self::Running(running) => {
                if running.wait_a_little(patience, &[]) {
                    running.look(sensors.faults.as_ref(), &translator.live_processes())?;
                }
                Ok(running.is_over())
            }
        }
    }

    /// Once a second: processes that have come or gone otherwise than by fork and exit.
    pub(super) fn look_again(
        &mut self,
        sensors: &Sensors,
        translator: &Translator,
    ) -> Result<(), Failure> {
        match self {
            Self::Program(_) => Ok(()),
            Self::Running(running) => {
                running.look(sensors.faults.as_ref(), &translator.live_processes())
            }
        }
    }

    /// How the program ended; `None`: there is no telling of others' processes.
    pub(super) fn end(&mut self) -> Result<Option<Exit>, Failure> {
        match self {
            Self::Program(launched) => Ok(Some(launched.wait()?)),
            Self::Running(_) => Ok(None),
        }
    }

    /// All processes of it that live.
    pub(super) fn processes(&self) -> Vec<u32> {
        match self {
            Self::Program(launched) => {
                let mut family = vec![launched.pid()];
                family.extend(family::descendants(launched.pid()));
                family
            }
            Self::Running(running) => running.processes(),
        }
    }

    /// The most resident memory that the kernel remembers of the program; of processes that ran before, it may remember
    /// what was before the recording.
    pub(super) fn peak_bytes(&self) -> u64 {
        match self {
            Self::Program(launched) => process::memory(launched.pid())
                .unwrap_or_default()
                .peak_resident_bytes
                .unwrap_or(0),
            Self::Running(_) => 0,
        }
    }

    /// What the program left running.
    pub(super) fn remaining(&self) -> usize {
        match self {
            Self::Program(launched) => launched.remaining().len(),
            Self::Running(_) => 0,
        }
    }

    /// Passes a signal on to the program. False: these processes are not ours to end.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        match self {
            Self::Program(launched) => {
                let _ = launched.signal(signal);
                true
            }
            Self::Running(_) => false,
        }
    }
}

fn wait_for_program(launched: &Launched, sensors: &Sensors, patience: &Timespec) -> bool {
    let pidfd = launched.pidfd();
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
    let copies = sensors.faults.as_ref().map(SwapSensor::copies_wait);
    wanted.extend(
        copies
            .as_ref()
            .map(|copies| PollFd::new(copies, PollFlags::IN)),
    );
    // Interrupted by a signal: the loop looks at those anyway.
    let _ = rustix::event::poll(&mut wanted, Some(patience));
    wanted[0].revents().contains(PollFlags::IN)
}
