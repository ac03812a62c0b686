//! Everything is put back, however a run ends. This executable is the test, the keeper it starts, and
//! the victim that is killed: so it has a `main` of its own.

mod common;

use common::cgroup_host;
use common::folder;
use common::is_swap;
use common::kill;
use common::root_or_skip;
use common::soon;
use common::unique;
use pagewise_host::Keeper;
use pagewise_host::MemoryCgroup;
use pagewise_host::Program;
use pagewise_host::Restorer;
use pagewise_host::SwapRequest;
use pagewise_host::TemporarySwap;
use pagewise_host::UndoAction;
use pagewise_host::keeper;
use pagewise_host::process;
use pagewise_host::undo_log;
use rustix::process::Pid;
use rustix::process::Signal;
use std::env;
use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::ChildStdout;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const VICTIM: &str = "victim";
const SETTING: &str = "setting";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(keeper::ARGUMENT) => return keeper::main(),
        Some(VICTIM) => {
            victim(Path::new(&arguments[2]), &arguments[3], &arguments[4]);
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let tests: [(&str, fn()); 10] = [
        ("a_killed_recorder_leaves_nothing", || {
            everything_is_put_back("run", &kill_with(Signal::KILL))
        }),
        ("a_terminated_recorder_leaves_nothing", || {
            everything_is_put_back("run", &kill_with(Signal::TERM))
        }),
        ("an_interrupted_group_leaves_nothing", || {
            everything_is_put_back("run", &interrupt_group)
        }),
        ("a_recorder_that_ends_leaves_nothing", || {
            everything_is_put_back("run", &let_end)
        }),
        ("a_recorder_that_panics_leaves_nothing", || {
            everything_is_put_back("panic", &let_end)
        }),
        ("the_next_run_undoes_for_one_killed_with_its_keeper", || {
            everything_is_put_back("run", &kill_with_its_keeper)
        }),
        ("a_held_program_ends_with_the_recorder", || {
            everything_is_put_back("held", &kill_with(Signal::KILL))
        }),
        (
            "settings_are_put_back_without_root_too",
            settings_are_put_back,
        ),
        (
            "what_cannot_be_put_back_is_said",
            what_cannot_be_put_back_is_said,
        ),
        (
            "without_its_keeper_nothing_is_changed",
            without_keeper_nothing_changes,
        ),
    ];
    let wanted = arguments
        .iter()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    for (name, test) in tests {
        if wanted.is_none_or(|wanted| name.contains(wanted.as_str())) {
            // A failure panics, and so ends with a code of its own.
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

// ---- the victim -------------------------------------------------------------------------------

/// Changes everything that can be changed, says "ready" with the ids, and waits for its end.
fn victim(folder: &Path, how: &str, cgroup_name: &str) {
    let exe = env::current_exe().expect("our path");
    let keeper = Keeper::start(&exe).expect("a keeper");
    let keeper_pid = keeper.pid();
    let mut restorer = Restorer::new(keeper);
    restorer
        .change_setting(&folder.join(SETTING), "changed")
        .expect("changed");
    let mut launched = None;
    if how != "settings" {
        let request = SwapRequest::File {
            path: Some(folder.join("swap")),
        };
        TemporarySwap::set_up(&request, 1 << 20, &mut restorer).expect("swap");
        let host = cgroup_host(VICTIM).expect("a hierarchy");
        let cgroup = MemoryCgroup::create_in(&host, cgroup_name, &mut restorer).expect("made");
        cgroup
            .set_limit(64 << 20, pagewise_host::LimitKind::High)
            .expect("set");
        let quiet = "exec sleep 300 </dev/null >/dev/null 2>&1";
        let mut program = Program::new(["sh", "-c", quiet]).start().expect("started");
        cgroup.add(program.pid()).expect("added");
        if how != "held" {
            program.release().expect("released");
        }
        launched = Some(program);
    }
    let program = launched.as_ref().map_or(0, |launched| launched.pid());
    println!("ready {keeper_pid} {program}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("read");
    assert!(how != "panic", "as asked");
    // What Ctrl-C does to us is not the program's affair here.
    drop(launched);
}

// ---- the tests --------------------------------------------------------------------------------

struct Victim {
    child: Child,
    stdout: BufReader<ChildStdout>,
    keeper: u32,
    program: u32,
}

impl Victim {
    fn start(folder: &Path, how: &str, cgroup: &str) -> Self {
        Self::start_with_stderr(folder, how, cgroup, Stdio::piped())
    }

    fn start_with_stderr(folder: &Path, how: &str, cgroup: &str, stderr: Stdio) -> Self {
        use std::os::unix::process::CommandExt;
        fs::write(folder.join(SETTING), "before").expect("a file");
        let mut command = Command::new(env::current_exe().expect("our path"));
        command
            .arg(VICTIM)
            .arg(folder)
            .args([how, cgroup])
            .process_group(0);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr);
        let mut child = command.spawn().expect("a victim");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let mut words = line.split_whitespace();
        if words.next() != Some("ready") {
            let mut why = String::new();
            child
                .stderr
                .take()
                .expect("a pipe")
                .read_to_string(&mut why)
                .expect("text");
            panic!("the victim failed: {line}{why}");
        }
        let mut pid = || {
            words
                .next()
                .and_then(|word| word.parse().ok())
                .expect("a process id")
        };
        let (keeper, program) = (pid(), pid());
        Victim {
            child,
            stdout,
            keeper,
            program,
        }
    }

    /// Nobody may hold the pipes of a dead recorder open.
    fn pipes_end(&mut self) -> bool {
        let (send, receive) = mpsc::channel();
        let mut stderr = self.child.stderr.take().expect("a pipe");
        thread::spawn(move || send.send(stderr.read_to_end(&mut Vec::new())));
        let stderr_ended = receive.recv_timeout(Duration::from_secs(10)).is_ok();
        stderr_ended && self.stdout.read_to_end(&mut Vec::new()).is_ok()
    }
}

type End = dyn Fn(&mut Victim);

fn kill_with(signal: Signal) -> impl Fn(&mut Victim) {
    move |victim| kill(victim.child.id(), signal)
}

/// Ctrl-C reaches the whole group; what a victim does not die of ends with its input.
fn interrupt_group(victim: &mut Victim) {
    let group = i32::try_from(victim.child.id())
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    rustix::process::kill_process_group(group, Signal::INT).expect("sent");
    thread::sleep(Duration::from_millis(50));
    let_end(victim);
}

/// As the end of a container, a unit or a session does it: nobody is left to undo anything.
fn kill_with_its_keeper(victim: &mut Victim) {
    // It stands still meanwhile, so that it cannot be quicker.
    kill(victim.keeper, Signal::STOP);
    kill(victim.child.id(), Signal::KILL);
    victim.child.wait().expect("waited");
    kill(victim.keeper, Signal::KILL);
    assert!(soon(|| !process::is_alive(victim.keeper)));
    undo_log::take_up();
}

fn let_end(victim: &mut Victim) {
    drop(victim.child.stdin.take());
}

fn everything_is_put_back(how: &str, end: &End) {
    let test = "everything_is_put_back";
    if !root_or_skip(test) {
        return;
    }
    let Some(host) = cgroup_host(test) else {
        return;
    };
    let (_dir, folder) = folder();
    let swap = folder.join("swap");
    let name = unique(how);
    let mut victim = Victim::start(&folder, how, &name);
    let cgroup = find_cgroup(&host.mount, &name);
    assert!(is_swap(&swap) && cgroup.is_dir());
    assert_eq!(read(&folder.join(SETTING)), "changed");
    assert!(members(&cgroup).contains(&victim.program));
    assert!(
        !members(&cgroup).contains(&victim.keeper),
        "the keeper must not be limited"
    );
    // It must outlive what ends the recorder.
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        kill(victim.keeper, signal);
    }
    thread::sleep(Duration::from_millis(20));
    assert!(process::is_alive(victim.keeper));

    end(&mut victim);
    victim.child.wait().expect("waited");
    assert!(victim.pipes_end(), "{how}: someone holds the pipes");
    assert!(soon(|| !is_swap(&swap)), "{how}: swap is left");
    assert!(soon(|| !swap.exists()), "{how}: the file is left");
    assert!(soon(|| !cgroup.exists()), "{how}: the cgroup is left");
    assert!(
        soon(|| read(&folder.join(SETTING)) == "before"),
        "{how}: the setting is left"
    );
    assert!(
        soon(|| !process::is_alive(victim.keeper)),
        "{how}: the keeper is left"
    );
    program_goes_on(&victim, how, &host.own);
}

/// A program is the user's: only Ctrl-C, which it gets itself, and a recorder's death before the
/// release end it.
fn program_goes_on(victim: &Victim, how: &str, home: &Path) {
    if how == "held" {
        assert!(
            soon(|| !process::is_alive(victim.program)),
            "it was never released"
        );
    } else if process::is_alive(victim.program) {
        assert!(members(home).contains(&victim.program), "it was moved out");
        kill(victim.program, Signal::KILL);
    }
}

fn settings_are_put_back() {
    let (_dir, folder) = folder();
    let mut victim = Victim::start(&folder, "settings", "-");
    assert_eq!(read(&folder.join(SETTING)), "changed");
    kill(victim.child.id(), Signal::KILL);
    victim.child.wait().expect("waited");
    assert!(soon(|| read(&folder.join(SETTING)) == "before"));
    assert!(soon(|| !process::is_alive(victim.keeper)));
}

fn what_cannot_be_put_back_is_said() {
    let (_dir, folder) = folder();
    let (setting, log) = (folder.join(SETTING), folder.join("log"));
    let stderr = Stdio::from(fs::File::create(&log).expect("a file"));
    let mut victim = Victim::start_with_stderr(&folder, "settings", "-", stderr);
    // A folder cannot be written to.
    fs::remove_file(&setting).expect("removed");
    fs::create_dir(&setting).expect("a folder");
    kill(victim.child.id(), Signal::KILL);
    victim.child.wait().expect("waited");
    assert!(soon(|| !process::is_alive(victim.keeper)));
    let text = read(&log);
    let todo = format!("; type: echo before > {}\n", setting.display());
    assert!(
        text.starts_with("pagewise: not restored: cannot write ") && text.ends_with(&todo),
        "{text}"
    );
}

fn without_keeper_nothing_changes() {
    let (_dir, folder) = folder();
    let setting = folder.join(SETTING);
    fs::write(&setting, "before").expect("a file");
    let keeper = Keeper::start(&env::current_exe().expect("our path")).expect("a keeper");
    let pid = keeper.pid();
    let mut restorer = Restorer::new(keeper);
    kill(pid, Signal::KILL);
    assert!(soon(|| !process::is_alive(pid)));
    let error = restorer
        .change_setting(&setting, "changed")
        .expect_err("no keeper");
    assert!(
        matches!(error, pagewise_host::Error::KeeperGone { .. }),
        "{error:?}"
    );
    assert_eq!(read(&setting), "before");
    let action = UndoAction::SwapOff { path: setting };
    assert!(restorer.push(action).is_err() && restorer.is_empty());
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("text")
}

fn members(cgroup: &Path) -> Vec<u32> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Where the victim made it: at the root (v1), or beside one of our own ancestors (v2).
fn find_cgroup(mount: &Path, name: &str) -> PathBuf {
    let mut next = vec![mount.to_owned()];
    while let Some(folder) = next.pop() {
        let path = folder.join(name);
        if path.is_dir() {
            return path;
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        next.extend(folders.map(|entry| entry.path()));
    }
    panic!("no cgroup {name} below {}", mount.display());
}
