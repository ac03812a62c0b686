//! cgroup v1 kills a program at its limit while swap is almost empty: when all anonymous pages are on the active list,
//! its reclaim gives up after too few rounds (seen on 6.18: 3 of 13 runs of a solver at 60 % of its peak). Whether pages
//! shall leave that list it decides by counters that are up to some seconds old (`mem_cgroup_flush_stats_ratelimited`,
//! mm/vmscan.c): so have them brought up to date while the program is at its limit. And hold the killer, and when the
//! program is stuck all the same, reclaim a little for it; where even that fails, raise the limit by a little until
//! reclaim has caught up.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use super::CgroupVersion;
use super::MemoryCgroup;
use super::memory::free_swap;
use crate::files;

const STEP: u64 = 1 << 20;
/// Beyond this the limit is too low for what cannot be swapped: then the killer is right.
const MOST_SHARE: u64 = 8;
const MOST_AT_LEAST: u64 = 8 << 20;
/// How long a program may be stuck beyond that, before the killer is let go.
const PATIENCE: Duration = Duration::from_secs(1);
/// Attempts to reclaim a step.
const SQUEEZES: usize = 16;
/// Less free swap than this is none.
const SWAP_LEFT: u64 = 1 << 20;
/// How long a program that is stuck may wait for help; a look is one file read.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// One in so many looks brings the counters up to date: 100 us.
const LOOKS_A_FLUSH: u32 = 4;
/// With less than this share of the limit left, the program is at its limit.
const AT_LIMIT_SHARE: u64 = 8;

/// Holds the killer of a v1 cgroup, and looks after its program until it is dropped. In a thread of its own: who
/// records has other work just when the program is stuck, and a program that waits for it is not reclaimed from.
#[derive(Debug)]
pub struct OomRelief {
    seen: Arc<Seen>,
    /// Closed to end the thread.
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread tells.
#[derive(Debug, Default)]
struct Seen {
    nudges: AtomicU64,
    free_swap_at_the_end: OnceLock<u64>,
}

impl OomRelief {
    /// `None` on v2, which reclaims until swap is full, and where the kernel does not let the killer be held.
    pub fn hold(cgroup: &MemoryCgroup, limit: u64) -> Option<Self> {
        let control = cgroup.path().join("memory.oom_control");
        if cgroup.version() != CgroupVersion::V1 || files::write(&control, "1").is_err() {
            return None;
        }
        let limit_file = cgroup.path().join("memory.limit_in_bytes");
        let seen = Arc::<Seen>::default();
        let mut helper = Helper::new(control, limit_file, limit, seen.clone());
        let (end, ended) = mpsc::channel::<()>();
        let look_after = move || {
            while ended.recv_timeout(LOOK_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                helper.look();
            }
        };
        let name = "oom-relief".to_owned();
        // Where no thread can be had, the killer is let go again with what was to look after the program.
        let thread = std::thread::Builder::new().name(name).spawn(look_after);
        Some(Self {
            seen,
            end: Some(end),
            thread: Some(thread.ok()?),
        })
    }

    /// Bytes of swap that were free when nothing helped any more and the killer was let go; `None`: it was not. After
    /// the kill it is too late to look: what the program had swapped is free again.
    pub fn free_swap_at_the_end(&self) -> Option<u64> {
        self.seen.free_swap_at_the_end.get().copied()
    }

    /// How often the program was helped on: by reclaiming 1 MiB for it, or by raising the limit by as much for a moment.
    pub fn nudges(&self) -> u64 {
        self.seen.nudges.load(Ordering::Relaxed)
    }
}

/// Who holds the killer must look after the program: whoever leaves, also by an error, lets go of it first.
impl Drop for OomRelief {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's part.
#[derive(Debug)]
struct Helper {
    control: PathBuf,
    limit_file: PathBuf,
    usage_file: PathBuf,
    counters: PathBuf,
    looks: u32,
    limit: u64,
    raised_by: u64,
    /// Since when nothing could be done for it.
    helpless_since: Option<Instant>,
    held: bool,
    seen: Arc<Seen>,
}

impl Helper {
    fn new(control: PathBuf, limit_file: PathBuf, limit: u64, seen: Arc<Seen>) -> Self {
        Self {
            usage_file: limit_file.with_file_name("memory.usage_in_bytes"),
            counters: limit_file.with_file_name("memory.stat"),
            looks: 0,
            control,
            limit_file,
            limit,
            raised_by: 0,
            helpless_since: None,
            held: true,
            seen,
        }
    }

    /// Helps a stuck program on, or lets the killer have it when nothing helps. Lowers the limit again as soon as
    /// that is possible.
    fn look(&mut self) {
        if !self.held {
            return;
        }
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS_A_FLUSH) && self.is_at_limit() {
            self.flush();
        }
        if is_stuck(&files::read_optional(&self.control).unwrap_or_default()) {
            self.nudge();
        } else {
            self.helpless_since = None;
            if self.raised_by > 0 && files::write(&self.limit_file, &self.limit.to_string()).is_ok()
            {
                self.raised_by = 0;
            }
        }
    }

    fn free_swap(&self) -> u64 {
        self.limit_file.parent().map_or(0, free_swap)
    }

    fn is_at_limit(&self) -> bool {
        let usage = files::read_optional(&self.usage_file).unwrap_or_default();
        let usage = usage.trim().parse::<u64>();
        usage.is_ok_and(|usage| usage.saturating_add(self.limit / AT_LIMIT_SHARE) > self.limit)
    }

    /// Who reads the counters gets them as they are now, and so does reclaim afterwards.
    fn flush(&self) {
        let _ = files::read_optional(&self.counters);
    }

    fn nudge(&mut self) {
        self.flush();
        let most = (self.limit / MOST_SHARE).max(MOST_AT_LEAST);
        let free_swap = self.free_swap();
        if free_swap >= SWAP_LEFT && self.squeeze() {
            return;
        }
        if free_swap < SWAP_LEFT || self.raised_by + STEP > most {
            let since = *self.helpless_since.get_or_insert_with(Instant::now);
            if free_swap < SWAP_LEFT || since.elapsed() > PATIENCE {
                self.held = false;
                let _ = self.seen.free_swap_at_the_end.set(free_swap);
                let _ = files::write(&self.control, "0");
            }
            return;
        }
        self.helpless_since = None;
        self.raised_by += STEP;
        self.count();
        let _ = files::write(&self.limit_file, &(self.limit + self.raised_by).to_string());
    }

    /// Who lowers a v1 limit reclaims down to it (mm/memcontrol-v1.c, 6.12, mem_cgroup_resize_max); raising it again
    /// wakes those who are stuck. False: it could not be reclaimed so much either.
    fn squeeze(&mut self) -> bool {
        let lowered = self.limit.saturating_sub(STEP).to_string();
        let lower = || files::write(&self.limit_file, &lowered).is_ok();
        // Each attempt that finds nothing has aged the pages it looked at: a later one may find some.
        if !(0..SQUEEZES).any(|_| lower()) {
            return false;
        }
        self.raised_by = 0;
        self.helpless_since = None;
        self.count();
        files::write(&self.limit_file, &self.limit.to_string()).is_ok()
    }

    fn count(&self) {
        self.seen.nudges.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if self.held {
            let _ = files::write_if_present(&self.control, "0");
        }
    }
}

fn is_stuck(control: &str) -> bool {
    control.lines().any(|line| line.trim() == "under_oom 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper(folder: &std::path::Path, limit: u64) -> Helper {
        let control = folder.join("memory.oom_control");
        let limit_file = folder.join("memory.limit_in_bytes");
        Helper::new(control, limit_file, limit, Arc::default())
    }

    #[test]
    fn only_under_oom_is_stuck() {
        assert!(is_stuck("oom_kill_disable 1\nunder_oom 1\noom_kill 0\n"));
        assert!(!is_stuck("oom_kill_disable 1\nunder_oom 0\noom_kill 0\n"));
        assert!(!is_stuck(""));
    }

    #[test]
    fn the_limit_is_lowered_again_once_the_program_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("memory.oom_control"), "under_oom 0\n").expect("written");
        std::fs::write(folder.path().join("memory.limit_in_bytes"), "68157440\n").expect("written");
        let mut helper = helper(folder.path(), 64 << 20);
        helper.raised_by = STEP;
        helper.look();
        assert_eq!(helper.raised_by, 0);
        let limit =
            std::fs::read_to_string(folder.path().join("memory.limit_in_bytes")).expect("written");
        assert_eq!(limit.trim(), (64u64 << 20).to_string());
    }

    #[test]
    fn what_cannot_be_helped_is_left_to_the_killer() {
        let folder = tempfile::tempdir().expect("a folder");
        let control = folder.path().join("memory.oom_control");
        std::fs::write(&control, "under_oom 1\n").expect("written");
        // Whatever swap the machine has, its own is used up.
        for file in ["memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"] {
            std::fs::write(folder.path().join(file), "16777216\n").expect("written");
        }
        let mut helper = helper(folder.path(), 8 << 20);
        helper.raised_by = MOST_AT_LEAST;
        helper.look();
        assert!(!helper.held);
        assert_eq!(helper.seen.free_swap_at_the_end.get(), Some(&0));
        assert_eq!(
            std::fs::read_to_string(&control).expect("written").trim(),
            "0"
        );
    }
}
