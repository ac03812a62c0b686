//! Without root, a cgroup that may be divided is the user's systemd's to give: who sets a limit starts itself anew in one.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::process::Stdio;

use pagewise_host::CgroupHost;
use pagewise_host::cgroup::DELEGATED;
use pagewise_host::cgroup::delegation_command;

/// `is_needed`: a limit will be set. Returns if it is not, or cannot be had: then the refusal that follows says what to type.
pub(crate) fn seek(is_needed: bool) {
    if !is_needed || CgroupHost::detect().is_ok_and(|host| host.check_create().is_ok()) {
        return;
    }
    let Some(words) = delegation_command() else {
        return;
    };
    let Ok(executable) = std::env::current_exe() else {
        return;
    };
    if !works(&words) {
        return;
    }
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .arg(executable)
        .args(std::env::args_os().skip(1))
        .env(DELEGATED, "1");
    // Returns only if it fails.
    let _ = command.exec();
}

/// Before the point of no return: is there a session bus that answers?
fn works(words: &[String]) -> bool {
    Command::new(&words[0])
        .args(&words[1..])
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
