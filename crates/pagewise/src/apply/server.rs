//! Hands the plan to each preloaded process: a memory file, by an abstract socket, so that neither a closed descriptor nor
//! another user, folder or program in between is in the way.

use std::fs::File;
use std::io::IoSlice;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use pagewise_abi as abi;
use pagewise_abi::status::OfIo;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::STATUS_BYTES;
use pagewise_abi::status::Total;
use pagewise_abi::status::io_word;
use pagewise_abi::status::rule_word;
use rustix::fs::MemfdFlags;
use rustix::fs::SealFlags;
use rustix::net::AddressFamily;
use rustix::net::SendAncillaryBuffer;
use rustix::net::SendAncillaryMessage;
use rustix::net::Shutdown;
use rustix::net::SocketAddrUnix;
use rustix::net::SocketFlags;
use rustix::net::SocketType;
use rustix::process::Pid;

use crate::failure::Failure;

const BACKLOG: i32 = 1024;
/// A library that has connected says hello at once; who does not is dropped.
const HELLO_PATIENCE: Duration = Duration::from_millis(200);
const PAGE: usize = 4096;
/// The niceness of threads that read ahead. They sleep once they are as far ahead as they shall be.
const PRECEDENCE: i32 = -15;

/// Serves until it is dropped.
pub(super) struct PlanServer {
    socket: String,
    listener: Arc<OwnedFd>,
    serving: Option<JoinHandle<()>>,
    file: Arc<File>,
    plan_bytes: u64,
}

/// Where the launcher itself says something to the program's processes.
pub(super) struct Writer {
    file: Arc<File>,
    plan_bytes: u64,
}

impl Writer {
    /// A file of this length takes it.
    pub(super) fn set(&self, word: Total, value: u64) {
        let at = self.plan_bytes + 8 * word as u64;
        let _ = self.file.write_all_at(&value.to_le_bytes(), at);
    }
}

/// The words that the program's processes wrote.
pub(super) struct Words(Vec<u64>);

impl Words {
    /// Nothing has become of it yet.
    pub(super) fn none() -> Self {
        Self(vec![0; STATUS_BYTES / 8])
    }

    pub(super) fn set_total(&mut self, word: Total, value: u64) {
        self.0[word as usize] = value;
    }

    pub(super) fn add_to_io(&mut self, rule: usize, word: OfIo, more: u64) {
        self.0[io_word(rule, word)] += more;
    }

    pub(super) fn set_of_io(&mut self, rule: usize, word: OfIo, value: u64) {
        self.0[io_word(rule, word)] = value;
    }

    /// The kernel did not want it.
    pub(super) fn refused_io(&mut self, rule: usize, errno: i32) {
        self.add_to_io(rule, OfIo::Refusals, 1);
        self.set_of_io(rule, OfIo::Errno, u64::from(errno.unsigned_abs()));
    }

    pub(super) fn total(&self, word: Total) -> u64 {
        self.0.get(word as usize).copied().unwrap_or(0)
    }

    pub(super) fn of_rule(&self, rule: usize, word: OfRule) -> u64 {
        self.0.get(rule_word(rule, word)).copied().unwrap_or(0)
    }

    pub(super) fn of_io(&self, rule: usize, word: OfIo) -> u64 {
        self.0.get(io_word(rule, word)).copied().unwrap_or(0)
    }
}

impl PlanServer {
    pub(super) fn start(plan: &[u8]) -> Result<Self, Failure> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| Failure::new(format!("cannot {what}: {error}"))
        };
        let plan_bytes = plan.len().next_multiple_of(PAGE);
        let file = memory_file(plan, plan_bytes).map_err(failed("make a memory file"))?;
        let (socket, listener) = listen().map_err(failed("listen for preloaded programs"))?;
        let file = Arc::new(file);
        let listener = Arc::new(listener);
        let (served, heard) = (Arc::clone(&file), Arc::clone(&listener));
        let serving = std::thread::Builder::new()
            .name("plan".to_owned())
            .spawn(move || {
                while let Ok(connection) = rustix::net::accept_with(&heard, SocketFlags::CLOEXEC) {
                    // Who does not want it gets none.
                    let _ = answer(&connection, &served);
                }
            })
            .map_err(failed("start a thread"))?;
        Ok(Self {
            socket,
            listener,
            serving: Some(serving),
            file,
            plan_bytes: plan_bytes as u64,
        })
    }

    /// What the program's environment must say in [`abi::plan::PLAN_VARIABLE`].
    pub(super) fn socket(&self) -> &str {
        &self.socket
    }

    /// For the launcher's own words.
    pub(super) fn writer(&self) -> Writer {
        Writer {
            file: Arc::clone(&self.file),
            plan_bytes: self.plan_bytes,
        }
    }

    /// What became of the plan so far.
    pub(super) fn words(&self) -> Words {
        let mut bytes = vec![0; STATUS_BYTES];
        // Of a memory file of this length.
        if self
            .file
            .read_exact_at(&mut bytes, self.plan_bytes)
            .is_err()
        {
            bytes.fill(0);
        }
        let words = bytes.chunks_exact(8);
        let words = words.map(|word| {
            word.iter()
                .rev()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        });
        Words(words.collect())
    }
}

/// Of many runs one after the other, none leaves a thread or a descriptor behind.
impl Drop for PlanServer {
    fn drop(&mut self) {
        // Who waits for a connection is woken, and gets none any more (unix_shutdown of net/unix/af_unix.c).
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

/// The plan, up to the next page, and zeros for what became of it. Its length can no longer change: mapped, it is safe to
/// read.
fn memory_file(plan: &[u8], plan_bytes: usize) -> std::io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create("pagewise-plan", flags)?);
    file.write_all(plan)?;
    file.set_len((plan_bytes + STATUS_BYTES) as u64)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

fn listen() -> std::io::Result<(String, OwnedFd)> {
    let mut random = [0u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let number = u64::from_ne_bytes(random);
    let socket = format!("pagewise-plan-{}-{number:x}", std::process::id());
    let listener = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let address = SocketAddrUnix::new_abstract_name(socket.as_bytes())?;
    rustix::net::bind(&listener, &address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok((socket, listener))
}

fn answer(connection: &OwnedFd, file: &File) -> Option<()> {
    use rustix::net::sockopt;
    let timeout = Some(HELLO_PATIENCE);
    sockopt::set_socket_timeout(connection, sockopt::Timeout::Recv, timeout).ok()?;
    let mut hello = [0u8; abi::Hello::BYTES];
    let none = rustix::net::RecvFlags::empty();
    let (_, bytes) = rustix::net::recv(connection, &mut hello, none).ok()?;
    let message = hello.get(..bytes)?;
    if abi::Precedence::decode(message).is_some() {
        let sender = sockopt::socket_peercred(connection).ok()?;
        return give_precedence(sender.pid);
    }
    abi::Hello::decode(message)?;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    let flags = rustix::net::SendFlags::NOSIGNAL;
    rustix::net::sendmsg(connection, &[IoSlice::new(&[1])], &mut control, flags).ok()?;
    Some(())
}

/// Lets the threads of a process that read ahead of it run before its others, if we may (CAP_SYS_NICE).
fn give_precedence(process: Pid) -> Option<()> {
    let threads = format!("/proc/{}/task", process.as_raw_nonzero());
    for thread in std::fs::read_dir(threads).ok()?.flatten() {
        let Ok(name) = std::fs::read_to_string(thread.path().join("comm")) else {
            continue;
        };
        if name.trim_end() == abi::READING_AHEAD
            && let Some(number) = thread.file_name().to_str()
            && let Some(thread) = number.parse().ok().and_then(Pid::from_raw)
        {
            let _ = rustix::process::setpriority_process(Some(thread), PRECEDENCE);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::room;

    fn connect(socket: &str) -> rustix::io::Result<()> {
        let client = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let address = SocketAddrUnix::new_abstract_name(socket.as_bytes())?;
        rustix::net::connect(&client, &address)
    }

    #[test]
    fn a_run_that_is_over_leaves_nothing_behind() {
        let server = PlanServer::start(b"a plan").expect("started");
        let watch = room::watch(server.writer(), None, None).expect("started");
        let (socket, file) = (server.socket().to_owned(), Arc::downgrade(&server.file));
        assert!(connect(&socket).is_ok() && file.upgrade().is_some());
        drop(watch);
        drop(server);
        assert!(connect(&socket).is_err());
        assert!(file.upgrade().is_none(), "a thread holds it");
    }

    #[test]
    fn who_reads_ahead_runs_first_and_nobody_else() {
        let (told, heard) = std::sync::mpsc::channel();
        let begin = |name: &str| {
            let told = told.clone();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let body = move || {
                told.send(rustix::thread::gettid()).unwrap();
                let _ = ended.recv();
            };
            let named = std::thread::Builder::new().name(name.to_owned());
            let thread = named.spawn(body).unwrap();
            (heard.recv().unwrap(), end, thread)
        };
        let ahead = begin(abi::READING_AHEAD);
        let other = begin("other");
        let niceness = |thread| rustix::process::getpriority_process(Some(thread)).unwrap();
        let before = niceness(other.0);
        assert_eq!(give_precedence(rustix::process::getpid()), Some(()));
        assert_eq!(niceness(other.0), before);
        // Without the right to it nothing changes.
        let may = rustix::process::geteuid().is_root();
        let expected = if may { PRECEDENCE } else { before };
        assert_eq!(niceness(ahead.0), expected);
        for (_, end, thread) in [ahead, other] {
            drop(end);
            thread.join().unwrap();
        }
    }
}
