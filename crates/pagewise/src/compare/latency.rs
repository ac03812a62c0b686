//! How long swap-ins take in an arm: by a run that is recorded, apart from those that are timed, as recording costs time.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use pagewise_analyze::analyze;
use pagewise_plan::Plan;
use pagewise_trace::Trace;

use super::arm::Runner;
use super::comparison::ArmKind;
use crate::failure::Failure;
use crate::output::tell;

/// Of the swap-ins of one run that were waited for, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Latency {
    /// How many there were; hits in the swap cache are none.
    pub(super) swap_ins: u64,
    pub(super) half_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
}

/// Records a run of an arm. `None`, and told why: it cannot be recorded here, or it ended otherwise than it should.
pub(super) fn measure(
    runner: &Runner<'_>,
    kind: ArmKind,
    memory_bytes: u64,
) -> Result<Option<Latency>, Failure> {
    let folder = Folder::make()?;
    let plan = runner.plan_of(kind);
    let measured = record(runner, plan.as_deref(), memory_bytes, &folder.0)?;
    Ok(measured.unwrap_or_else(|why| {
        tell!("pagewise: latencies of {} are unknown: {why}", kind.name());
        None
    }))
}

/// A folder for the recording, removed when this goes.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("pagewise-compare-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| {
            Failure::new(format!(
                "cannot make {}: {error}; name a place with TMPDIR",
                path.display()
            ))
        })?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(
    runner: &Runner<'_>,
    plan: Option<&Plan>,
    memory_bytes: u64,
    folder: &Path,
) -> Result<Result<Option<Latency>, String>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("cannot record: {error}"));
    let own = std::env::current_exe().map_err(|error| failed(&error))?;
    let trace = folder.join("run.data");
    let mut command = Command::new(&own);
    command.args(["record", "--sensors", "faults", "--memory"]);
    command.arg(memory_bytes.to_string()).arg("-o").arg(&trace);
    if let Some(swap) = &runner.arguments.swap {
        command.args(["--swap", &swap.to_string()]);
    }
    let swap_bytes = runner.swap_bytes(memory_bytes)?;
    command.args(["--swap-size", &swap_bytes.to_string()]);
    if runner.arguments.as_root {
        command.arg("--as-root");
    }
    command.arg("--");
    if let Some(plan) = plan {
        let path = folder.join("plan.toml");
        let text = plan.to_toml().map_err(|error| failed(&error))?;
        fs::write(&path, text).map_err(|error| failed(&error))?;
        command.arg(&own).arg("apply").arg(path).arg("--");
    }
    command.args(&runner.arguments.program);
    runner.input.rewind();
    let ended = command
        .stdin(Stdio::inherit())
        .stdout(Stdio::null())
        .output()
        .map_err(|error| failed(&error))?;
    if ended.status.code().is_none_or(|code| code > 128) {
        return Ok(Err("the run that was recorded was killed".to_owned()));
    }
    if !trace.join("meta.json").exists() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Ok(Err(said
            .lines()
            .last()
            .unwrap_or("no recording")
            .to_owned()));
    }
    let findings = Trace::open(&trace).and_then(|trace| analyze(&trace));
    let findings = findings.map_err(Failure::from)?;
    if !findings.faults_observed() {
        return Ok(Err(
            "swap-ins cannot be timed here; type: pagewise check".to_owned()
        ));
    }
    let latency = &findings.latency;
    let at = |share| latency.quantile(share);
    let found = at(0.5).zip(at(0.99)).zip(at(0.999));
    Ok(Ok(found.map(|((half_ns, p99_ns), p999_ns)| Latency {
        swap_ins: latency.count(),
        half_ns,
        p99_ns,
        p999_ns,
    })))
}
