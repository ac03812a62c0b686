//! Another program beside the one that is compared, in the same cgroup: what it suffers.

use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::channel;
use std::time::Duration;

use pagewise_host::Launched;
use pagewise_host::Program;
use rustix::pipe::PipeFlags;
use rustix::pipe::pipe_with;
use rustix::process::Signal;

use crate::failure::Failure;
use crate::record::setting::Setting;

/// It is ready with its first line; who writes none is taken to be ready after so long.
const WARM_UP: Duration = Duration::from_secs(20);
/// After SIGTERM, how long it may take to tell its latencies.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Lines kept, and letters of each.
const MOST_LINES: usize = 10_000;
const MOST_LETTERS: usize = 4096;

/// How long single operations of the victim took, ns; `None`: it did not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Suffered {
    pub(super) half_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) p999_ns: Option<u64>,
}

/// The victim, running.
pub(super) struct Victim<'text> {
    command: &'text str,
    launched: Launched,
    lines: Arc<Mutex<Vec<String>>>,
    ended: std::sync::mpsc::Receiver<()>,
}

impl<'text> Victim<'text> {
    /// Starts it by the shell, in the program's cgroup, and waits until it is ready.
    pub(super) fn start(
        command: &'text str,
        as_root: bool,
        setting: &Setting,
    ) -> Result<Self, Failure> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)
            .map_err(|error| Failure::new(format!("cannot make a pipe: {error}")))?;
        let program = Program::new(["sh", "-c", &format!("exec {command}")])
            .as_root(as_root)
            .env_remove(pagewise_host::cgroup::DELEGATED)
            .output(writer);
        let mut launched = program.start()?;
        if let Some(cgroup) = &setting.cgroup {
            cgroup.add(launched.pid())?;
        }
        launched.release()?;
        // Ours is the last end of the pipe.
        drop(program);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&lines);
        let (said, ready) = channel();
        let (end, ended) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(File::from(reader)).lines() {
                let Ok(mut line) = line else {
                    break;
                };
                line = line.chars().take(MOST_LETTERS).collect();
                let mut lines = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if lines.len() < MOST_LINES {
                    lines.push(line);
                }
                let _ = said.send(());
            }
            let _ = end.send(());
        });
        let victim = Self {
            command,
            launched,
            lines,
            ended,
        };
        match ready.recv_timeout(WARM_UP) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => Ok(victim),
            Err(RecvTimeoutError::Disconnected) => {
                Err(victim.failed("it ended before the program began"))
            }
        }
    }

    /// Ends it, and reads what it says of its latencies.
    pub(super) fn end(mut self) -> Result<Suffered, Failure> {
        self.launched.signal(Signal::TERM)?;
        if self.launched.wait_timeout(LAST_WORDS)?.is_none() {
            self.launched.signal(Signal::KILL)?;
            self.launched.wait()?;
            return Err(self.failed("it did not end when it was told to (SIGTERM)"));
        }
        let _ = self.ended.recv_timeout(LAST_WORDS);
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let suffered = latencies(&lines);
        drop(lines);
        if suffered == Suffered::default() {
            return Err(self.failed("it told no latencies: it must write a line with p99_us=NUMBER (or _ns, _ms) when it ends"));
        }
        Ok(suffered)
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::new(format!(
            "nothing is known of the victim {}: {why}",
            self.command
        ))
    }
}

impl Drop for Victim<'_> {
    /// Whatever went wrong, it is not left behind.
    fn drop(&mut self) {
        if !matches!(self.launched.wait_timeout(Duration::ZERO), Ok(Some(_))) {
            let _ = self.launched.signal(Signal::KILL);
            let _ = self.launched.wait();
        }
    }
}

/// From words such as `p99_us=12.5`; of several lines the last counts.
fn latencies(lines: &[String]) -> Suffered {
    let mut suffered = Suffered::default();
    for word in lines.iter().flat_map(|line| line.split_whitespace()) {
        let Some((key, value)) = word.split_once('=') else {
            continue;
        };
        let Some((share, unit)) = key.rsplit_once('_') else {
            continue;
        };
        let unit_ns = match unit {
            "ns" => 1.0,
            "us" => 1e3,
            "ms" => 1e6,
            _ => continue,
        };
        let value: Option<f64> = value.parse().ok();
        let ns = value
            .filter(|value| value.is_finite() && *value >= 0.0)
            .map(|value| (value * unit_ns) as u64);
        match share {
            "p50" => suffered.half_ns = ns,
            "p99" => suffered.p99_ns = ns,
            "p999" => suffered.p999_ns = ns,
            _ => {}
        }
    }
    suffered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_read_in_their_units_and_others_words_passed_over() {
        let said = |lines: &[&str]| {
            latencies(
                &lines
                    .iter()
                    .map(|line| (*line).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            said(&[
                "ready",
                "reads=10 p50_us=1.5 p99_ns=900",
                "p999_ms=2 p99_us=3"
            ]),
            Suffered {
                half_ns: Some(1500),
                p99_ns: Some(3000),
                p999_ns: Some(2_000_000),
            }
        );
        for nothing in [
            "",
            "p99=3",
            "p99_s=3",
            "p99_us=-1",
            "p99_us=nan",
            "=",
            "_us=3",
        ] {
            assert_eq!(said(&[nothing]), Suffered::default(), "{nothing}");
        }
    }
}
