//! One run of the program in one arm.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::channel;
use std::time::Duration;

use pagewise_host::Program;
use pagewise_host::counters;
use pagewise_host::counters::Counters;
use pagewise_host::page_bytes;
use pagewise_plan::Plan;
use pagewise_plan::Rule;
use pagewise_plan::Target;
use rustix::pipe::PipeFlags;
use rustix::pipe::pipe_with;
use sha2::Digest;
use sha2::Sha256;

use super::CompareArguments;
use super::cold;
use super::comparison::ArmKind;
use super::comparison::OfPlan;
use super::comparison::Run;
use super::in_place_of;
use super::victim::Victim;
use crate::apply::InForce;
use crate::apply::execute;
use crate::failure::Failure;
use crate::input::Input;
use crate::record;
use crate::record::setting::ROOMY_SWAP_MARGIN;
use crate::record::setting::Setting;
use crate::record::setting::Surroundings;
use crate::record::setting::swap_bytes;
use crate::record::signals::Signals;

/// How long the output may stay open after the program's end: what it left running may hold it.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(1);

/// What all runs have in common.
pub(super) struct Runner<'run> {
    pub(super) arguments: &'run CompareArguments,
    pub(super) plan: &'run Plan,
    pub(super) library: &'run Path,
    pub(super) peak_bytes: Option<u64>,
    pub(super) signals: &'run Signals,
    pub(super) input: Input,
}

/// How a run ended.
pub(super) enum Ran {
    Done(Run),
    /// By the limit, in words.
    Killed(String),
}

impl Runner<'_> {
    /// What is in force in an arm.
    pub(super) fn plan_of(&self, kind: ArmKind) -> Option<Cow<'_, Plan>> {
        match kind {
            ArmKind::Plan => Some(Cow::Borrowed(self.plan)),
            ArmKind::Mlock => Some(Cow::Owned(in_place_of::mlock(self.plan))),
            ArmKind::Madvise => Some(Cow::Owned(in_place_of::madvise(self.plan))),
            ArmKind::Baseline | ArmKind::Unlimited => None,
        }
    }

    /// Which arm another one comes to with this plan: what differs between them is chance.
    pub(super) fn same_as(&self, kind: ArmKind) -> Option<ArmKind> {
        if kind == ArmKind::Plan {
            return None;
        }
        let plan = self.plan_of(kind)?;
        if *plan == *self.plan {
            Some(ArmKind::Plan)
        } else if plan.does_something() {
            None
        } else {
            Some(ArmKind::Baseline)
        }
    }

    /// Whether the files that the plan names are taken out of the page cache before each run: whatever a plan about memory alone
    /// reads at its start would only be noise.
    pub(super) fn is_cold(&self) -> bool {
        let is_io = |rule: &Rule| matches!(rule.target, Target::Io { .. });
        let is_about_io = self.plan.rules.iter().any(is_io);
        !self.arguments.warm && !self.plan.files.is_empty() && is_about_io
    }

    fn surroundings(&self, memory_bytes: u64) -> Surroundings {
        Surroundings {
            memory: Some(pagewise_host::MemorySize::Bytes(memory_bytes)),
            swap: self.arguments.swap.clone(),
            swap_size: self.arguments.swap_size,
            swap_margin: ROOMY_SWAP_MARGIN,
        }
    }

    /// The size of the swap that limited runs get.
    pub(super) fn swap_bytes(&self, memory_bytes: u64) -> Result<u64, Failure> {
        swap_bytes(&self.surroundings(memory_bytes), self.peak_bytes)
    }

    /// Sets all up, runs the program to its end, and puts everything back.
    pub(super) fn run(&self, kind: ArmKind, memory_bytes: u64) -> Result<Ran, Failure> {
        let limited = kind != ArmKind::Unlimited;
        let mut surroundings = self.surroundings(memory_bytes);
        if !limited {
            (surroundings.memory, surroundings.swap) = (None, None);
        }
        let mut setting = Setting::prepare(&surroundings, self.peak_bytes)?;
        let ran = self.run_in(kind, &setting);
        record::restore(&mut setting);
        ran
    }

    fn run_in(&self, kind: ArmKind, setting: &Setting) -> Result<Ran, Failure> {
        let (output, digest) = hashed_output()?;
        let mut program = Program::new(&self.arguments.program)
            .as_root(self.arguments.as_root)
            .env_remove(pagewise_host::cgroup::DELEGATED)
            .output(output);
        let plan = self.plan_of(kind);
        let in_force = plan
            .as_deref()
            .map(|plan| InForce::new(plan, &program, setting))
            .transpose()?;
        if let Some(in_force) = &in_force {
            program = in_force.given_to(program, self.library);
        }
        // Before the victim begins: what it has read is its own.
        if self.is_cold() {
            cold::evict(&self.plan.files);
        }
        let victim = self.arguments.victim.as_deref();
        let victim = victim
            .map(|command| Victim::start(command, self.arguments.as_root, setting))
            .transpose()?;
        self.input.rewind();
        // The victim may have had to wait for its own files.
        let before = counters::vmstat().unwrap_or_default();
        let ended = execute(&program, setting, self.signals)?;
        let after = counters::vmstat().unwrap_or_default();
        if self.signals.told().is_some() {
            return Err(Failure::new("interrupted"));
        }
        if let Some(why) = ended.killed {
            return Ok(Ran::Killed(why));
        }
        let victim = victim.map(Victim::end).transpose()?;
        let (wall_ns, read_bytes, exit_code) = (ended.wall_ns, ended.read_bytes, ended.exit_code);
        // Before the server goes with what the processes told it.
        let of_plan = in_force.map(|in_force| OfPlan::of(&in_force.outcome(ended)));
        // Ours is the last end of the pipe.
        drop(program);
        let moved = counters::increase(&before, &after);
        Ok(Ran::Done(Run {
            wall_ns,
            swap_ins: sum(&moved, "pswpin", "swpin_zero"),
            evictions: sum(&moved, "pswpout", "swpout_zero"),
            // mm/vmscan.c, shrink_inactive_list: also of a cgroup's own reclaim.
            reclaimed: moved.get("pgsteal_anon").copied(),
            written_bytes: moved.get("pswpout").map(|pages| pages * page_bytes()),
            read_bytes,
            memory_bytes: held_bytes(setting),
            exit_code,
            output: digest.finish(),
            victim,
            of_plan,
        }))
    }
}

/// Pages that moved; those of zeros are counted apart, by kernels that know them.
fn sum(moved: &Counters, all: &str, zeros: &str) -> Option<u64> {
    let zeros = moved.get(zeros).copied().unwrap_or(0);
    moved.get(all).map(|pages| pages + zeros)
}

/// The most that the cgroup held, and zram for it.
fn held_bytes(setting: &Setting) -> Option<u64> {
    let peak = setting.cgroup.as_ref()?.peak()?;
    Some(peak + zram_peak(setting).unwrap_or(0))
}

/// `mem_used_max`, the fifth number of `mm_stat` (Documentation/admin-guide/blockdev/zram.rst). A device that the machine had holds others' pages, too.
fn zram_peak(setting: &Setting) -> Option<u64> {
    if setting.swap.kind.as_deref() != Some("zram") {
        return None;
    }
    let device = setting.swap.path.as_deref()?.strip_prefix("/dev/")?;
    let text = std::fs::read_to_string(format!("/sys/block/{device}/mm_stat")).ok()?;
    text.split_whitespace().nth(4)?.parse().ok()
}

/// What has been read of an output so far.
struct OutputDigest {
    hash: Arc<Mutex<Sha256>>,
    ended: Receiver<()>,
}

/// A pipe's writing end, and who reads the other one.
fn hashed_output() -> Result<(OwnedFd, OutputDigest), Failure> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| Failure::new(format!("cannot make a pipe: {error}")))?;
    let hash = Arc::new(Mutex::new(Sha256::new()));
    let (end, ended) = channel();
    let shared = Arc::clone(&hash);
    std::thread::spawn(move || {
        let mut reader = File::from(reader);
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length) = reader.read(&mut buffer) {
            if length == 0 {
                break;
            }
            let mut hash = shared.lock().unwrap_or_else(PoisonError::into_inner);
            hash.update(&buffer[..length]);
        }
        let _ = end.send(());
    });
    Ok((writer, OutputDigest { hash, ended }))
}

impl OutputDigest {
    fn finish(self) -> [u8; 32] {
        let _ = self.ended.recv_timeout(OUTPUT_PATIENCE);
        let hash = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
        hash.clone().finalize().into()
    }
}
