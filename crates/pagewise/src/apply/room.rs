//! How much memory may be made ready ahead of the program, and whether memory is short: looked at beside it, as what it would have to read for that is many files.

use std::path::Path;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use pagewise_abi::status::Total;
use pagewise_host::CgroupHost;
use pagewise_host::CgroupRoom;
use pagewise_host::counters::machine_memory;
use pagewise_plan::Action;
use pagewise_plan::Plan;
use rustix::time::ClockId;

use super::server::Writer;
use crate::failure::Failure;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What is made ready in a second, unless the plan says less: more than memory can be zeroed.
const MOST_A_SECOND: u64 = 12_800 << 20;
/// This part of the machine's memory stays available: above its high watermark the manager of huge pages recovers, too.
const FREE_PERCENT: u64 = 15;
/// This part of each limit stays free,
const FREE_SHARE: u64 = 8;
/// and so many bytes at least.
const FREE_AT_LEAST: u64 = 8 << 20;

/// Whether anything of this plan depends on it.
pub(super) fn is_wanted(plan: &Plan) -> bool {
    let prezeroes = |action: &Action| *action == Action::Prezero;
    plan.memory.fresh.is_some() || plan.rules.iter().any(|rule| prezeroes(&rule.action))
}

/// A thread that looks until this is dropped.
pub(super) struct Watch {
    /// Nothing is ever sent: that it is gone ends the thread.
    going_on: Option<Sender<()>>,
    looking: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.going_on.take();
        if let Some(looking) = self.looking.take() {
            let _ = looking.join();
        }
    }
}

/// What may be made ready between two looks.
fn most_at_once(rate: Option<u64>) -> u64 {
    let rate = rate.unwrap_or(MOST_A_SECOND);
    let looks_a_second = (Duration::from_secs(1).as_millis() / LOOK_EVERY.as_millis()) as u64;
    rate / looks_a_second
}

/// Begins to look; the program takes what it was told half a second ago for nothing. `cgroup`: the program's; `None`: ours. `rate`: bytes a
/// second at most.
pub(super) fn watch(
    words: Writer,
    cgroup: Option<&Path>,
    rate: Option<u64>,
) -> Result<Watch, Failure> {
    let (going_on, ended) = channel();
    let own = || CgroupHost::detect().ok().map(|host| host.own);
    let cgroup = cgroup.map(PathBuf::from).or_else(own);
    let most = most_at_once(rate);
    let looking = move || {
        let mut is_short = false;
        loop {
            if let Some(now_ns) = now_ns() {
                let memory = Memory::now(cgroup.as_deref());
                is_short = memory
                    .as_ref()
                    .is_some_and(|memory| memory.is_short(is_short));
                let room = memory.map_or(0, |memory| memory.room().min(most));
                words.set(Total::Room, room);
                words.set(Total::Short, u64::from(is_short));
                words.set(Total::RoomSeen, now_ns);
            }
            if ended.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("room".to_owned())
        .spawn(looking)
        .map(|looking| Watch {
            going_on: Some(going_on),
            looking: Some(looking),
        })
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))
}

fn now_ns() -> Option<u64> {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).ok()
}

/// Of the machine, and of the limits around the program.
struct Memory {
    total_bytes: u64,
    available_bytes: u64,
    limits: Vec<CgroupRoom>,
}

impl Memory {
    /// `None`: not known.
    fn now(cgroup: Option<&Path>) -> Option<Self> {
        let memory = machine_memory();
        Some(Self {
            total_bytes: memory.total_bytes?,
            available_bytes: memory.available_bytes?,
            limits: cgroup.map_or_else(Vec::new, CgroupRoom::around),
        })
    }

    /// Half of what is left beyond the part that stays free, as the program needs memory meanwhile, too.
    fn room(&self) -> u64 {
        self.beyond(1) / 2
    }

    /// Once it is short, it is until twice as much is free: what is taken back then makes room, and would be given out again.
    fn is_short(&self, was_short: bool) -> bool {
        self.beyond(if was_short { 2 } else { 1 }) == 0
    }

    /// What is left beyond so many times the part that stays free.
    fn beyond(&self, times: u64) -> u64 {
        let of_machine = self
            .available_bytes
            .saturating_sub(self.total_bytes / 100 * FREE_PERCENT * times);
        let of_limit = |room: &CgroupRoom| {
            let free = (room.limit_bytes / FREE_SHARE).max(FREE_AT_LEAST) * times;
            room.limit_bytes
                .saturating_sub(room.used_bytes.saturating_add(free))
        };
        self.limits.iter().map(of_limit).fold(of_machine, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_made_ready_where_memory_is_short() {
        const GIB: u64 = 1 << 30;
        let spare = |total_bytes, available_bytes, limits: &[CgroupRoom]| {
            let limits = limits.to_vec();
            let memory = Memory {
                total_bytes,
                available_bytes,
                limits,
            };
            memory.room()
        };
        assert_eq!(spare(100 * GIB, 25 * GIB, &[]), 5 * GIB);
        assert_eq!(spare(100 * GIB, 15 * GIB, &[]), 0);
        assert_eq!(spare(0, 0, &[]), 0);
        let limit = |limit_bytes, used_bytes| CgroupRoom {
            limit_bytes,
            used_bytes,
        };
        let under = |room| spare(16 * GIB, 8 * GIB, &[limit(u64::MAX, GIB), room]);
        assert_eq!(under(limit(GIB, GIB / 2)), (GIB / 2 - GIB / 8) / 2);
        assert_eq!(under(limit(GIB, GIB / 8 * 7)), 0);
        assert_eq!(under(limit(GIB, 2 * GIB)), 0);
        assert_eq!(under(limit(4 << 20, 0)), 0);
    }

    #[test]
    fn short_memory_is_short_until_twice_as_much_is_free() {
        const MIB: u64 = 1 << 20;
        let with = |used_bytes| Memory {
            total_bytes: 1 << 40,
            available_bytes: 1 << 39,
            limits: vec![CgroupRoom {
                limit_bytes: 160 * MIB,
                used_bytes,
            }],
        };
        let mut is_short = false;
        let seen = [139, 140, 139, 121, 119, 130, 140].map(|used| {
            is_short = with(used * MIB).is_short(is_short);
            is_short
        });
        assert_eq!(seen, [false, true, true, true, false, false, true]);
    }
}
