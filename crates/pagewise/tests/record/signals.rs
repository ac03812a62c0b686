//! Signals: what the program inherits, and what is passed on to it.

use std::process::Command;
use std::time::Duration;

use crate::common::command::Ended;
use crate::common::command::Running;
use crate::common::command::start;
use crate::common::install::pagewise;
use crate::common::within;
use rustix::process::Signal;
use tempfile::TempDir;
use tempfile::tempdir;

/// As `nohup` and a shell's job in the background begin their commands, and systemd its services.
const IGNORE_MANY: &str = "trap '' HUP INT QUIT USR1 PIPE XFSZ";
const RECORD: &str = "exec \"$0\" record --sensors none -- ";

/// A shell in a folder of its own, whose `$0` is the command.
fn shell(folder: &TempDir, script: &str) -> Running {
    let mut shell = Command::new("sh");
    let shell_of = shell.args(["-c", script]).arg(pagewise());
    shell_of.current_dir(folder.path());
    start(shell)
}

fn ended(script: &str) -> Ended {
    let folder = tempdir().expect("a folder");
    shell(&folder, script).end().expect_code(0)
}

#[test]
fn what_is_ignored_is_ignored_in_the_program_too() {
    const PRINT: &str = "grep SigIgn /proc/self/status";
    for ignore in [":", IGNORE_MANY] {
        let alone = ended(&format!("{ignore}; exec {PRINT}")).stdout;
        for launch in [RECORD, "exec \"$0\" guard -- "] {
            let under = ended(&format!("{ignore}; {launch}{PRINT}")).stdout;
            assert_eq!(under, alone, "{ignore}; {launch}");
        }
    }
}

/// With nohup, a recording outlives its terminal: the hang-up ends neither it nor the program.
#[test]
fn an_ignored_hang_up_stops_nothing() {
    let folder = tempdir().expect("a folder");
    let program = "sh -c 'echo > begun; while ! [ -e end ]; do sleep 0.05; done; exit 7'";
    let run = shell(&folder, &format!("trap '' HUP; {RECORD}{program}"));
    let wait_for = Duration::from_secs(20);
    assert!(within(wait_for, || folder.path().join("begun").exists()));
    run.signal_group(Signal::HUP);
    // A signal to the recorder is seen within 10 ms.
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(folder.path().join("end"), "").expect("written");
    run.end().expect_code(7);
}

/// A second one may mean something else to it, such as to end at once.
#[test]
fn the_program_is_told_to_end_once() {
    const COUNTS: &str = "trap 'echo >> terms' TERM; echo > begun\n\
        for look in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.05; done; exit 7";
    // While it is recorded, and after that.
    for window in ["", "--duration 0.1"] {
        let folder = tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("counts"), COUNTS).expect("written");
        let record = format!("exec \"$0\" record {window} --sensors none -- sh ./counts");
        let run = shell(&folder, &record);
        assert!(within(Duration::from_secs(20), || file("begun").exists()));
        std::thread::sleep(Duration::from_millis(300));
        run.signal(Signal::TERM);
        run.end().expect_code(7);
        let terms = std::fs::read_to_string(file("terms")).expect("it was told");
        assert_eq!(terms.lines().count(), 1, "{window}");
    }
}
