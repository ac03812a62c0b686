//! The program, from its start to its end, with the guard's records read as they come.

use std::collections::BTreeMap;
use std::time::Duration;

use pagewise_abi as abi;
use pagewise_abi::guard::GuardRecord;
use pagewise_abi::guard::Summary;
use pagewise_collect::AllocationServer;
use pagewise_host::Launched;
use pagewise_host::Program;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;

use super::findings::Finding;
use super::findings::Namer;
use super::suppress::Suppressions;
use super::text;
use crate::failure::Failure;
use crate::output::tell;
use crate::record::signals::Signals;

const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
/// After a signal to us, how long the program may take to end.
const GRACE: Duration = Duration::from_secs(3);

/// Which end of objects touches a guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Side {
    #[default]
    End,
    Begin,
}

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Begin => "begin",
        }
    }
}

/// What came of a run, or of two.
pub(super) struct Ran {
    pub(super) exit_code: u8,
    pub(super) findings: Vec<Finding>,
    /// What each process told at its end, by its number.
    pub(super) summaries: BTreeMap<u32, Summary>,
    /// Programs that asked for a ring: those in which the guard was at work.
    pub(super) guarded: u64,
    /// Those that asked and got none, as there were too many: their errors are not told.
    pub(super) unserved: u64,
    /// Records that found no room.
    pub(super) lost: u64,
    /// Errors that were not to be told of.
    pub(super) suppressed: u64,
    /// What the processes of a second run told.
    pub(super) second: Option<BTreeMap<u32, Summary>>,
}

impl Ran {
    /// Adds a second run, with objects that begin at a guard. What it knows better replaces what the first said.
    pub(super) fn add(&mut self, second: Self) {
        self.findings
            .retain(|finding| !second.findings.iter().any(|better| better.covers(finding)));
        self.findings.extend(second.findings);
        self.second = Some(second.summaries);
        self.guarded += second.guarded;
        self.unserved += second.unserved;
        self.lost += second.lost;
        self.suppressed += second.suppressed;
    }
}

/// What was told so far.
struct Heard<'known> {
    side: Side,
    suppressions: &'known Suppressions,
    /// What an earlier run found.
    earlier: &'known [Finding],
    suppressed: u64,
    /// Threads that may wait to hear whether to go on, with the process whose ring they wrote into.
    judged: Vec<(u32, u32, bool)>,
    namer: Namer,
    findings: Vec<Finding>,
    summaries: BTreeMap<u32, Summary>,
}

impl Heard<'_> {
    fn take(&mut self, pid: u32, record: &abi::Record<'_>) {
        match record {
            abi::Record::Maps(maps) => self.namer.maps_piece(pid, maps),
            abi::Record::Guard(GuardRecord::Fault(record)) => {
                let finding = self.namer.finding(pid, self.side, record);
                let is_suppressed = self.suppressions.cover(&finding);
                self.judged.push((pid, finding.fault.tid, is_suppressed));
                if is_suppressed {
                    self.suppressed += 1;
                    return;
                }
                let is_known = self.earlier.iter().any(|earlier| earlier.covers(&finding))
                    || self
                        .findings
                        .iter()
                        .any(|known| known.is_inherited(&finding));
                if is_known {
                    return;
                }
                tell!("{}", text::finding(&finding));
                self.findings.push(finding);
            }
            abi::Record::Guard(GuardRecord::Summary(summary)) => {
                self.summaries.insert(summary.pid, *summary);
            }
            _ => {}
        }
    }
}

/// Runs a program to its end. `earlier`: what another run found, which is not told again.
pub(super) fn run(
    program: Program,
    side: Side,
    signals: &Signals,
    suppressions: &Suppressions,
    earlier: &[Finding],
) -> Result<Ran, Failure> {
    let mut server = AllocationServer::start_for_few()?;
    let program = program.env(abi::guard::SOCKET_VARIABLE, server.socket());
    let mut launched = program.start()?;
    let mut heard = Heard {
        side,
        suppressions,
        earlier,
        suppressed: 0,
        judged: Vec::new(),
        namer: Namer::default(),
        findings: Vec::new(),
        summaries: BTreeMap::new(),
    };
    // The library asks for its ring before the program's first instruction, while its exec is waited for.
    launched.release()?;
    let exit_code = wait(&mut launched, &mut server, &mut heard, signals)?;
    server.drain(|pid, record| heard.take(pid, &record));
    Ok(Ran {
        exit_code,
        findings: heard.findings,
        summaries: heard.summaries,
        guarded: server.served(),
        unserved: server.unserved(),
        lost: server.lost(),
        suppressed: heard.suppressed,
        second: None,
    })
}

fn wait(
    launched: &mut Launched,
    server: &mut AllocationServer,
    heard: &mut Heard<'_>,
    signals: &Signals,
) -> Result<u8, Failure> {
    loop {
        if let Some(exit) = launched.wait_timeout(Duration::ZERO)? {
            return Ok(exit.code());
        }
        let pidfd = launched.pidfd();
        let listener = server.listener();
        let mut files = [
            PollFd::new(&pidfd, PollFlags::IN),
            PollFd::new(&listener, PollFlags::IN),
        ];
        // A signal ends the wait; it is looked at below.
        let _ = rustix::event::poll(&mut files, Some(&LOOK_EVERY));
        server.drain(|pid, record| heard.take(pid, &record));
        for (pid, thread, goes_on) in heard.judged.drain(..) {
            server.judge(pid, thread, goes_on);
        }
        let Some((signal, since)) = signals.told() else {
            continue;
        };
        if let Some(signal) = signals.take_for_program() {
            launched.signal(signal)?;
        }
        if since.elapsed() > GRACE {
            tell!("pagewise: the program goes on, and nobody listens to its guard any more");
            return Ok(128 + signal.as_raw() as u8);
        }
    }
}
