//! cgroup v1 kills a program at its limit while swap is almost empty: when all anonymous pages are on the active list,
//! its reclaim gives up after too few rounds (seen on 6.18: 3 of 13 runs of a solver at 60 % of its peak). So hold the
//! killer, and when the program is stuck, reclaim a little for it; where even that fails, raise the limit by a little
//! until reclaim has caught up.

use std::path::PathBuf;

use super::CgroupVersion;
use super::MemoryCgroup;
use crate::files;
use crate::swap::SwapArea;
use crate::swap::active_areas;

const STEP: u64 = 1 << 20;
/// Beyond this the limit is too low for what cannot be swapped: then the killer is right.
const MOST_SHARE: u64 = 8;
const MOST_AT_LEAST: u64 = 8 << 20;
/// Calls in a row that find the program stuck beyond that, before the killer is let go: about a second.
const PATIENCE: u32 = 100;
/// Attempts to reclaim a step.
const SQUEEZES: usize = 16;
/// Less free swap than this is none.
const SWAP_LEFT: u64 = 1 << 20;

/// Holds the killer of a v1 cgroup. Call [`OomRelief::tick`] often.
#[derive(Debug)]
pub struct OomRelief {
    control: PathBuf,
    limit_file: PathBuf,
    limit: u64,
    raised_by: u64,
    /// Calls in a row that could not help.
    helpless: u32,
    held: bool,
    nudges: u64,
    free_swap_at_the_end: Option<u64>,
}

impl OomRelief {
    /// `None` on v2, which reclaims until swap is full, and where the kernel does not let the killer be held.
    pub fn hold(cgroup: &MemoryCgroup, limit: u64) -> Option<Self> {
        let control = cgroup.path().join("memory.oom_control");
        if cgroup.version() != CgroupVersion::V1 || files::write(&control, "1").is_err() {
            return None;
        }
        let limit_file = cgroup.path().join("memory.limit_in_bytes");
        Some(Self {
            control,
            limit_file,
            limit,
            raised_by: 0,
            helpless: 0,
            held: true,
            nudges: 0,
            free_swap_at_the_end: None,
        })
    }

    /// Helps a stuck program on, or lets the killer have it when nothing helps. Lowers the limit again as soon as
    /// that is possible.
    pub fn tick(&mut self) {
        if !self.held {
            return;
        }
        if is_stuck(&files::read_optional(&self.control).unwrap_or_default()) {
            self.nudge();
        } else if self.raised_by > 0
            && files::write(&self.limit_file, &self.limit.to_string()).is_ok()
        {
            self.raised_by = 0;
        }
    }

    fn nudge(&mut self) {
        let most = (self.limit / MOST_SHARE).max(MOST_AT_LEAST);
        let free_swap = free_swap();
        if free_swap >= SWAP_LEFT && self.squeeze() {
            return;
        }
        if free_swap < SWAP_LEFT || self.raised_by + STEP > most {
            self.helpless += 1;
            if free_swap < SWAP_LEFT || self.helpless > PATIENCE {
                self.held = false;
                self.free_swap_at_the_end = Some(free_swap);
                let _ = files::write(&self.control, "0");
            }
            return;
        }
        self.helpless = 0;
        self.raised_by += STEP;
        self.nudges += 1;
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
        self.helpless = 0;
        self.nudges += 1;
        files::write(&self.limit_file, &self.limit.to_string()).is_ok()
    }

    /// Bytes of swap that were free when nothing helped any more and the killer was let go; `None`: it was not. After
    /// the kill it is too late to look: what the program had swapped is free again.
    pub fn free_swap_at_the_end(&self) -> Option<u64> {
        self.free_swap_at_the_end
    }

    /// How often the program was helped on: by reclaiming 1 MiB for it, or by raising the limit by as much for a moment.
    pub fn nudges(&self) -> u64 {
        self.nudges
    }
}

/// Who holds the killer must look after the program: whoever leaves, also by an error, lets go of it first.
impl Drop for OomRelief {
    fn drop(&mut self) {
        if self.held {
            let _ = files::write_if_present(&self.control, "0");
        }
    }
}

fn is_stuck(control: &str) -> bool {
    control.lines().any(|line| line.trim() == "under_oom 1")
}

fn free_swap() -> u64 {
    let areas = active_areas().unwrap_or_default();
    areas.iter().map(SwapArea::free_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relief(folder: &std::path::Path, limit: u64) -> OomRelief {
        OomRelief {
            control: folder.join("memory.oom_control"),
            limit_file: folder.join("memory.limit_in_bytes"),
            limit,
            raised_by: 0,
            helpless: 0,
            held: true,
            nudges: 0,
            free_swap_at_the_end: None,
        }
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
        let mut relief = relief(folder.path(), 64 << 20);
        relief.raised_by = STEP;
        relief.tick();
        assert_eq!(relief.raised_by, 0);
        let limit =
            std::fs::read_to_string(folder.path().join("memory.limit_in_bytes")).expect("written");
        assert_eq!(limit.trim(), (64u64 << 20).to_string());
    }

    #[test]
    fn what_cannot_be_helped_is_left_to_the_killer() {
        let folder = tempfile::tempdir().expect("a folder");
        let control = folder.path().join("memory.oom_control");
        std::fs::write(&control, "under_oom 1\n").expect("written");
        let mut relief = relief(folder.path(), 8 << 20);
        relief.raised_by = MOST_AT_LEAST;
        relief.tick();
        assert!(!relief.held);
        assert_eq!(
            std::fs::read_to_string(&control).expect("written").trim(),
            "0"
        );
    }
}
