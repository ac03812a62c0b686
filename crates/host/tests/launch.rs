//! Launching real programs. One at a time: what they leave running is told by who is our child.

mod common;

use common::cgroup_host;
use common::root_or_skip;
use common::soon;
use common::unique;
use pagewise_host::Launched;
use pagewise_host::MemoryCgroup;
use pagewise_host::Program;
use pagewise_host::Restorer;
use pagewise_host::launch::HowEnded;
use pagewise_host::process;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;
use std::time::Instant;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // A test that failed with the lock has said so.
    ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn shell(script: &str) -> Program {
    Program::new(["sh", "-c", script])
}

fn start(program: &Program) -> Launched {
    program
        .start()
        .unwrap_or_else(|error| panic!("{}", error.chain()))
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

/// Our exit code for a program that cannot be run, and the message.
fn failure(program: &Program) -> (u8, String) {
    let error = match program.start() {
        Err(error) => error,
        Ok(mut launched) => launched.release().expect_err("it runs"),
    };
    (error.exit_code(), error.chain())
}

#[test]
fn codes_and_signals_are_told() {
    let _alone = alone();
    let mut launched = start(&shell("exit 42"));
    let exit = launched.wait().expect("waited");
    assert_eq!((exit.how, exit.code()), (HowEnded::Code(42), 42));
    assert!(exit.minor_faults > 0);
    assert_eq!(launched.wait().expect("again"), exit);

    let exit = start(&shell("kill -TERM $$")).wait().expect("waited");
    assert_eq!((exit.how, exit.code()), (HowEnded::Signal(15), 143));
}

#[test]
fn the_peak_is_the_programs_and_not_our_own() {
    let _alone = alone();
    // Ours counts as the program's until its exec.
    let ours = vec![1_u8; 64 << 20];
    let small = start(&shell("exit 0")).wait().expect("waited");
    assert_eq!(small.peak_resident_bytes, None, "of {} bytes", ours.len());
    let large = start(&shell("a=$(head -c 100000000 /dev/zero | tr '\\0' x)")).wait();
    let peak = large.expect("waited").peak_resident_bytes;
    assert!(peak > Some(100_000_000), "{peak:?}");
}

#[test]
fn what_cannot_run_is_126_or_127() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    assert_eq!(failure(&Program::new(["pagewise-no-such-program"])).0, 127);
    assert_eq!(failure(&Program::new([at("missing")])).0, 127);
    assert_eq!(failure(&Program::new([dir.path()])).0, 126);
    assert_eq!(failure(&Program::new(Vec::<String>::new())).0, 125);
    fs::write(at("plain"), "text").expect("a file");
    assert_eq!(failure(&Program::new([at("plain")])).0, 126);

    script(&at("no-line"), "echo hello\n");
    let (code, message) = failure(&Program::new([at("no-line")]));
    assert_eq!(code, 126);
    assert!(message.contains("#! line"), "{message}");
    script(&at("no-interpreter"), "#!/nonexistent/interpreter\n");
    let (code, message) = failure(&Program::new([at("no-interpreter")]));
    assert_eq!(code, 127);
    assert!(message.contains("interpreter is missing"), "{message}");
}

#[test]
fn nothing_runs_before_the_release() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let proof = dir.path().join("ran");
    let mut launched = start(
        &shell("echo \"$PROOF\" > \"$FILE\"")
            .env("PROOF", "yes")
            .env("FILE", &proof),
    );
    let held = launched.pid();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(
        process::exe(held),
        std::env::current_exe().ok(),
        "not executed yet"
    );
    assert!(!proof.exists());
    launched.release().expect("released");
    assert_ne!(process::exe(held), std::env::current_exe().ok());
    assert_eq!(launched.pid(), held);
    assert_eq!(launched.wait().expect("waited").code(), 0);
    assert_eq!(fs::read_to_string(&proof).expect("text"), "yes\n");
}

#[test]
fn without_a_release_it_never_runs_and_leaves_no_zombie() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let proof = dir.path().join("ran");
    let launched = start(&shell("touch \"$FILE\"").env("FILE", &proof));
    let pid = launched.pid();
    drop(launched);
    assert_eq!(process::stat(pid), None);
    assert!(!proof.exists());

    let mut killed = start(&shell("touch \"$FILE\"").env("FILE", &proof));
    killed
        .signal(rustix::process::Signal::KILL)
        .expect("killed");
    assert!(soon(|| !process::is_alive(killed.pid())));
    assert!(killed.release().is_err());
    assert!(!proof.exists());
}

#[test]
fn the_program_starts_inside_its_cgroup() {
    let _alone = alone();
    let test = "the_program_starts_inside_its_cgroup";
    if !root_or_skip(test) {
        return;
    }
    let Some(host) = cgroup_host(test) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let proof = dir.path().join("cgroup");
    let mut restorer = Restorer::without_keeper();
    let name = unique("launch");
    let cgroup = MemoryCgroup::create_in(&host, &name, &mut restorer).expect("made");
    // The first thing the new program does is to look where it is.
    let mut launched = start(&Program::new(["cp", "/proc/self/cgroup"]).env("X", "1"));
    drop(launched);
    let copy = Program::new([
        "cp".into(),
        "/proc/self/cgroup".into(),
        proof.clone().into_os_string(),
    ]);
    launched = start(&copy);
    cgroup.add(launched.pid()).expect("added");
    assert_eq!(cgroup.processes(), [launched.pid()]);
    assert_eq!(launched.wait().expect("waited").code(), 0);
    assert!(fs::read_to_string(&proof).expect("text").contains(&name));
    assert!(restorer.undo_all().is_empty());
}

#[test]
fn what_it_leaves_running_is_told_and_waited_for() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let other = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("another child");
    let background = "(sleep 1; touch \"$FILE\") </dev/null >/dev/null 2>&1 & exit 0";
    let done = dir.path().join("done");
    let mut launched = start(&shell(background).env("FILE", &done));
    assert_eq!(launched.wait().expect("waited").code(), 0);
    assert!(!launched.remaining().is_empty());
    assert!(
        !launched.remaining().contains(&other.id()),
        "was there before"
    );
    assert!(
        !launched
            .wait_remaining(Some(Duration::from_millis(50)))
            .is_empty()
    );
    assert!(
        launched
            .wait_remaining(Some(Duration::from_secs(10)))
            .is_empty()
    );
    assert!(done.exists());
    let mut other = other;
    other.kill().expect("killed");
    other.wait().expect("waited");
}

#[test]
fn waiting_can_be_bounded() {
    let _alone = alone();
    let mut launched = start(&Program::new(["sleep", "30"]));
    let begun = Instant::now();
    assert_eq!(
        launched
            .wait_timeout(Duration::from_millis(30))
            .expect("waited"),
        None
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
    launched
        .signal(rustix::process::Signal::KILL)
        .expect("killed");
    let exit = launched
        .wait_timeout(Duration::from_secs(10))
        .expect("waited")
        .expect("ended");
    assert_eq!(exit.code(), 137);
}

#[test]
fn signals_are_as_usual_in_the_program() {
    let _alone = alone();
    // SIGPIPE is ignored in us; a program must die of it, and not of Ctrl-C less than usual.
    let exit = start(&shell("kill -PIPE $$; exit 1"))
        .wait()
        .expect("waited");
    assert_eq!(exit.how, HowEnded::Signal(13));
    // Who starts the tests in the background of a script has them ignore it, and what they start. Asked before the
    // launch: while a program runs, this process ignores it in any case.
    let usual = if is_ignored(2) {
        HowEnded::Code(1)
    } else {
        HowEnded::Signal(2)
    };
    let mut launched = start(&shell("kill -INT $$; exit 1"));
    assert!(is_ignored(2));
    launched.release().expect("released");
    common::kill(std::process::id(), rustix::process::Signal::INT);
    assert_eq!(launched.wait().expect("waited").how, usual);
}

/// Whether this process ignores a signal, from /proc.
fn is_ignored(signal: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("read");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.expect("a mask") >> (signal - 1) & 1 == 1
}

#[test]
fn under_sudo_the_program_is_the_callers() {
    let _alone = alone();
    if !root_or_skip("under_sudo_the_program_is_the_callers") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    let file = dir.path().join("who");
    let who = shell("echo $(id -u) $(id -g) $(id -G) $USER $HOME > \"$FILE\"").env("FILE", &file);
    for (name, value) in [("SUDO_UID", "65534"), ("SUDO_GID", "65534")] {
        // SAFETY: all tests of this binary that look at the environment hold the lock.
        unsafe { std::env::set_var(name, value) };
    }
    let as_caller = start(&who).wait().map(|exit| exit.code());
    let text = fs::read_to_string(&file);
    let _ = fs::remove_file(&file);
    let as_root = start(&who.clone().as_root(true))
        .wait()
        .map(|exit| exit.code());
    let root_text = fs::read_to_string(&file);
    for name in ["SUDO_UID", "SUDO_GID"] {
        // SAFETY: as above.
        unsafe { std::env::remove_var(name) };
    }
    assert_eq!(as_caller.expect("ran"), 0);
    let text = text.expect("text");
    assert!(text.starts_with("65534 65534 65534"), "{text}");
    assert!(text.contains("nobody /nonexistent"), "{text}");
    assert_eq!(as_root.expect("ran"), 0);
    assert!(root_text.expect("text").starts_with("0 0 "));
}
