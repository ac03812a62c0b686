//! Another program beside the one that is compared, in the same cgroup: what it suffers.

mod latencies;

use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::time::Instant;

use pagewise_host::Launched;
use pagewise_host::Program;
use pagewise_host::process;
use rustix::pipe::PipeFlags;
use rustix::pipe::pipe_with;
use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::WaitOptions;

use self::latencies::Latencies;
pub(super) use self::latencies::Suffered;
use crate::failure::Failure;
use crate::record::setting::Setting;

/// It is ready with its first line; who writes none is taken to be ready after so long.
const WARM_UP: Duration = Duration::from_secs(20);
/// After SIGTERM, how long it may take to tell its latencies.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How long those who read from its pipes may take to see that it has ended.
const PIPELINE: Duration = Duration::from_secs(2);
/// Bytes of a line that are looked at.
const MOST_LETTERS: usize = 64 << 10;

/// The victim, running.
pub(super) struct Victim<'text> {
    command: &'text str,
    launched: Launched,
    told: Arc<Mutex<Latencies>>,
    ended: Receiver<()>,
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
        // The input is the program's; and who is in the background may not read from a terminal.
        let program = Program::new(["sh", "-c", &format!("exec </dev/null\n{command}")])
            .as_root(as_root)
            .env_remove(pagewise_host::cgroup::DELEGATED)
            .own_group(true)
            .output(writer);
        let mut launched = program.start()?;
        if let Some(cgroup) = &setting.cgroup {
            cgroup.add(launched.pid())?;
        }
        launched.release()?;
        // Ours is the last end of the pipe.
        drop(program);
        let told = Arc::new(Mutex::new(Latencies::default()));
        let shared = Arc::clone(&told);
        let (said, ready) = channel();
        let (end, ended) = channel();
        std::thread::spawn(move || {
            listen(reader, &shared, said);
            let _ = end.send(());
        });
        let victim = Self {
            command,
            launched,
            told,
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
        // Who only passes on what another one says ends with that one: `probe | tee log`.
        self.signal(Signal::TERM, |pid| !reads_from_pipe(pid));
        if !self.is_over(PIPELINE)? {
            self.signal(Signal::TERM, reads_from_pipe);
            self.is_over(LAST_WORDS)?;
        }
        if self.launched.wait_timeout(Duration::ZERO)?.is_none() {
            return Err(self.failed("it did not end when it was told to (SIGTERM)"));
        }
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let suffered = told.suffered;
        drop(told);
        if suffered == Suffered::default() {
            return Err(self.failed("it told no latencies: it must write a line with p99_us=NUMBER (or _ns, _ms) when it ends, or what redis-benchmark, wrk --latency or fio do"));
        }
        Ok(suffered)
    }

    /// Whether it has said all and ended, within that time.
    fn is_over(&mut self, patience: Duration) -> Result<bool, Failure> {
        let began = Instant::now();
        let is_silent = self.ended.recv_timeout(patience) != Err(RecvTimeoutError::Timeout);
        let left = patience.saturating_sub(began.elapsed());
        Ok(self.launched.wait_timeout(left)?.is_some() && is_silent)
    }

    /// To those of its processes that are meant.
    fn signal(&self, signal: Signal, is_meant: impl Fn(u32) -> bool) {
        let members = process::of_group(self.launched.pid());
        for pid in members.into_iter().filter(|&pid| is_meant(pid)) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // One that has ended meanwhile needs none.
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::new(format!(
            "nothing is known of the victim {}: {why}",
            self.command
        ))
    }
}

/// Reads all that it says. `first` is told of its first line.
fn listen(output: OwnedFd, told: &Mutex<Latencies>, first: Sender<()>) {
    let mut output = BufReader::new(File::from(output));
    let mut first = Some(first);
    let mut line = Vec::new();
    loop {
        let piece = match output.fill_buf() {
            Ok([]) => break,
            Ok(piece) => piece,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        // Programs that tell how far they are end such lines without going on to the next one.
        let end = piece.iter().position(|byte| b"\n\r".contains(byte));
        let text = &piece[..end.unwrap_or(piece.len())];
        line.extend(text.iter().take(MOST_LETTERS - line.len()));
        let read = text.len() + usize::from(end.is_some());
        output.consume(read);
        if end.is_some() {
            take_line(&mut line, told);
            if let Some(first) = first.take() {
                let _ = first.send(());
            }
        }
    }
    take_line(&mut line, told);
}

fn take_line(line: &mut Vec<u8>, told: &Mutex<Latencies>) {
    if line.len() == MOST_LETTERS {
        // Its last word may be a part of one.
        let words = line.iter().rposition(u8::is_ascii_whitespace);
        line.truncate(words.unwrap_or(0));
    }
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    told.line(&String::from_utf8_lossy(line));
    line.clear();
}

/// Whether it comes behind another one in a pipeline: the shell's own input is none.
fn reads_from_pipe(pid: u32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/fd/0"))
        .is_ok_and(|input| input.to_string_lossy().starts_with("pipe:"))
}

impl Drop for Victim<'_> {
    /// Whatever came of it, nothing of it is left behind.
    fn drop(&mut self) {
        self.signal(Signal::KILL, |_| true);
        let _ = self.launched.wait();
        let group = i32::try_from(self.launched.pid())
            .ok()
            .and_then(Pid::from_raw);
        // Those whose parents have ended are ours.
        while group.is_some_and(|group| {
            matches!(
                rustix::process::waitpgid(group, WaitOptions::NOHANG),
                Ok(Some(_))
            )
        }) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// What is known after all of this was said.
    fn heard(words: impl FnOnce(&mut File) + Send + 'static) -> Suffered {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let speaker = std::thread::spawn(move || words(&mut File::from(writer)));
        let told = Mutex::new(Latencies::default());
        let (first, ready) = channel();
        listen(reader, &told, first);
        speaker.join().expect("spoken");
        assert_eq!(ready.try_iter().count(), 1, "ready once");
        told.into_inner().expect("whole").suffered
    }

    #[test]
    fn the_last_of_many_lines_counts_whatever_is_between() {
        let suffered = heard(|output| {
            output
                .write_all(b"p99_us=1\n\xff\xfe no text\n")
                .expect("heard");
            for _ in 0..20_000 {
                output.write_all(b"chatter\n").expect("heard");
            }
            output.write_all(b"0 %\r100 %\rp99_us=7").expect("heard");
        });
        assert_eq!(suffered.p99_ns, Some(7000));
    }

    #[test]
    fn a_line_without_end_is_read_to_a_whole_word() {
        let suffered = heard(|output| {
            let mut line = b"p50_us=2 ".to_vec();
            line.resize(MOST_LETTERS - 9, b'x');
            line.extend(b" p99_us=12345");
            line.resize(1 << 20, b'6');
            output.write_all(&line).expect("heard");
            output.write_all(b"\n").expect("heard");
        });
        assert_eq!((suffered.half_ns, suffered.p99_ns), (Some(2000), None));
    }
}
