//! How much memory may be made ready ahead of the program: looked at beside it, as what it would have to read for that is many files.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use pagewise_abi::status::Total;
use pagewise_host::CgroupHost;
use pagewise_host::CgroupRoom;
use pagewise_host::counters::machine_memory;
use pagewise_plan::Action;
use pagewise_plan::Fresh;
use pagewise_plan::Plan;
use rustix::time::ClockId;

use super::server::Writer;
use crate::failure::Failure;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Between two looks no more than this is made ready: 12.5 GiB a second.
const MOST: u64 = 256 << 20;
/// This part of the machine's memory stays available: above its high watermark the manager of huge pages recovers, too.
const FREE_PERCENT: u64 = 15;
/// This part of each limit stays free,
const FREE_SHARE: u64 = 8;
/// and so many bytes at least.
const FREE_AT_LEAST: u64 = 8 << 20;

/// Whether anything is made ready ahead by this plan.
pub(super) fn is_wanted(plan: &Plan) -> bool {
    let prezeroes = |action: &Action| *action == Action::Prezero;
    plan.memory.fresh == Some(Fresh::Prezero)
        || plan.rules.iter().any(|rule| prezeroes(&rule.action))
}

/// Looks until this process ends; the program takes what it was told half a second ago for nothing. `cgroup`: the
/// program's; `None`: ours.
pub(super) fn watch(words: Writer, cgroup: Option<&Path>) -> Result<(), Failure> {
    let own = || CgroupHost::detect().ok().map(|host| host.own);
    let cgroup = cgroup.map(PathBuf::from).or_else(own);
    let looking = move || {
        loop {
            if let Some(now_ns) = now_ns() {
                let room = room(cgroup.as_deref());
                words.set(Total::Room, room.unwrap_or(0));
                words.set(Total::Short, u64::from(room == Some(0)));
                words.set(Total::RoomSeen, now_ns);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    };
    std::thread::Builder::new()
        .name("room".to_owned())
        .spawn(looking)
        .map(drop)
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))
}

fn now_ns() -> Option<u64> {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).ok()
}

/// Bytes; `None`: not known.
fn room(cgroup: Option<&Path>) -> Option<u64> {
    let memory = machine_memory();
    let limits = cgroup.map_or_else(Vec::new, CgroupRoom::around);
    Some(spare(memory.total_bytes?, memory.available_bytes?, &limits))
}

/// Half of what is left beyond the part that stays free, as the program needs memory meanwhile, too.
fn spare(total_bytes: u64, available_bytes: u64, limits: &[CgroupRoom]) -> u64 {
    let of_machine = available_bytes.saturating_sub(total_bytes / 100 * FREE_PERCENT);
    let of_limit = |room: &CgroupRoom| {
        let free = (room.limit_bytes / FREE_SHARE).max(FREE_AT_LEAST);
        room.limit_bytes
            .saturating_sub(room.used_bytes.saturating_add(free))
    };
    let least = limits.iter().map(of_limit).fold(of_machine, u64::min);
    (least / 2).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_made_ready_where_memory_is_short() {
        const GIB: u64 = 1 << 30;
        assert_eq!(spare(16 * GIB, 8 * GIB, &[]), MOST);
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
}
