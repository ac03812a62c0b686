//! Debug information from servers, if the user asked for it: through elfutils' `debuginfod-find`, which knows the protocol, the
//! servers (`DEBUGINFOD_URLS`) and the cache that other tools share (`~/.cache/debuginfod_client`).
//!
//! Asked for once in a process: names are given in one place and for one recording.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::OnceLock;
use std::sync::PoisonError;

const CLIENT: &str = "debuginfod-find";
const SERVERS: &str = "DEBUGINFOD_URLS";

/// What was asked so far, by build id: the file, or why there is none.
static ANSWERS: OnceLock<Mutex<HashMap<String, Result<PathBuf, String>>>> = OnceLock::new();

/// From now on, servers are asked for the debug information of modules that have none on this machine.
///
/// # Errors
/// What is missing for it, and what to type.
pub fn use_debuginfod() -> Result<(), String> {
    if std::env::var(SERVERS).is_ok_and(|servers| !servers.trim().is_empty()) {
        is_installed()?;
        ANSWERS.get_or_init(Mutex::default);
        return Ok(());
    }
    Err(format!(
        "no debuginfod server is named; type for example: export {SERVERS}=https://debuginfod.debian.net \
         (and sudo --preserve-env={SERVERS} to keep it)"
    ))
}

fn is_installed() -> Result<(), String> {
    match Command::new(CLIENT).arg("--version").output() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "cannot run {CLIENT}: {error}; install it (Debian: apt-get install debuginfod)"
        )),
    }
}

/// The servers' debug information for a build id, where they are to be asked.
pub(crate) fn find(build_id: &str) -> Option<PathBuf> {
    let mut answers = lock(ANSWERS.get()?);
    let answer = answers
        .entry(build_id.to_owned())
        .or_insert_with(|| ask(build_id));
    answer.clone().ok()
}

/// How many modules the servers had no debug information for, and what was said of one of them; `None` if they had all.
#[must_use]
pub fn debuginfod_failures() -> Option<(usize, String)> {
    let answers = lock(ANSWERS.get()?);
    let mut failures: Vec<&String> = answers
        .values()
        .filter_map(|answer| answer.as_ref().err())
        .collect();
    failures.sort();
    let first = failures.first()?;
    Some((failures.len(), (*first).clone()))
}

fn ask(build_id: &str) -> Result<PathBuf, String> {
    let output = Command::new(CLIENT)
        .args(["debuginfo", build_id])
        .output()
        .map_err(|error| format!("{CLIENT}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().unwrap_or("it failed and said nothing");
        return Err(format!("{CLIENT} debuginfo {build_id}: {said}"));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let path = PathBuf::from(said.trim());
    match path.is_file() {
        true => Ok(path),
        false => Err(format!(
            "{CLIENT} debuginfo {build_id}: {} is no file",
            path.display()
        )),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
