//! Carries out an action on a process, and looks what has become of it.

use std::time::Duration;

use pagewise_host::huge_pages;
use pagewise_host::huge_pages::Refusal;
use pagewise_simulate::hugepages::Process;
use pagewise_simulate::hugepages::REGION_PAGES;

use super::sensor::Sensor;
use super::target::Target;
use super::target::seen_of;
use crate::failure::Failure;

const GIVEN_BACK: &str = "given back since";

/// For how long a region is left alone, the first time.
const BUSY: Duration = Duration::from_secs(5);
const NO_HUGE_PAGE: Duration = Duration::from_secs(30);
const UNSUITABLE: Duration = Duration::from_secs(600);
/// Until a child of a fork has ended or run another program.
const SHARED: Duration = Duration::from_secs(60);

/// What has come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Refused,
    /// The kernel has no huge page to give now: asking for others is in vain.
    NoHugePage,
    Ended,
    NotPermitted,
}

/// Makes the region a huge page.
pub(super) fn promote(
    target: &mut Target,
    sensor: &mut Sensor,
    known: &mut Process,
    address: u64,
    now: Duration,
) -> Result<Outcome, Failure> {
    let expected = known
        .regions()
        .get(&address)
        .map_or(0, |region| region.seen.resident);
    // It may have been given back since it was looked at: a huge page there would only be bloat.
    let before = sensor
        .region_at(&target.pages, address)?
        .map(|region| seen_of(&region));
    match before {
        Some(before) if before.huge => {
            known.promoted(address);
            return Ok(Outcome::Done);
        }
        Some(before) if before.resident * 2 >= expected => {
            if let Some((why, pause)) = why_not(target, address, before.resident) {
                return Ok(refuse(target, known, address, now, why, pause));
            }
        }
        _ => {
            return Ok(refuse(target, known, address, now, GIVEN_BACK, BUSY));
        }
    }
    match huge_pages::collapse(target.pidfd(), address) {
        Ok(()) => {}
        // The same error number as for want of huge pages.
        Err(Refusal::NoHugePage) if !target.maps(address) => {
            return Ok(refuse(target, known, address, now, GIVEN_BACK, BUSY));
        }
        Err(refusal) => return Ok(refused(target, known, address, now, refusal)),
    }
    let after = sensor.region_at(&target.pages, address)?;
    if !after.is_some_and(|region| region.huge) {
        return Ok(refuse(
            target,
            known,
            address,
            now,
            "split again at once",
            UNSUITABLE,
        ));
    }
    known.promoted(address);
    target.done.promoted += 1;
    Ok(Outcome::Done)
}

/// Of a region with more pages that others map, too, none is made a huge page: each would be copied. khugepaged's default
/// (`max_ptes_shared`, mm/khugepaged.c, 6.12), which the kernel does not heed when it is asked from outside.
const MOST_SHARED: u16 = 256;

/// Why the region is none to make a huge page of, and for how long it is left alone. `resident`: its pages without the page of zeros.
fn why_not(target: &Target, address: u64, resident: u16) -> Option<(&'static str, Duration)> {
    let owned = target.pages.owned(address).ok()?;
    let zeros = owned.present.saturating_sub(resident);
    if owned.of_file > 0 {
        Some(("no anonymous memory any more", UNSUITABLE))
    } else if owned.shared.saturating_sub(zeros) > MOST_SHARED {
        Some(("shared with another process", SHARED))
    } else {
        None
    }
}

/// Counts the zeros in a huge page.
pub(super) fn count_zeros(
    target: &Target,
    sensor: &mut Sensor,
    known: &mut Process,
    address: u64,
    now: Duration,
) -> Result<Outcome, Failure> {
    let locked = target.area_of(address).is_none_or(|area| area.locked);
    let zeros = match locked {
        true => None,
        false => zeros_in(target, sensor, address)?,
    };
    // Not to be split, or none any more: nothing to gain there.
    known.counted(address, zeros.unwrap_or(0), now);
    Ok(Outcome::Done)
}

/// Base pages of zeros in the huge page at this address. `None`: there is none of anonymous memory, or it cannot be told.
pub(super) fn zeros_in(
    target: &Target,
    sensor: &mut Sensor,
    address: u64,
) -> Result<Option<u16>, Failure> {
    match target.pages.is_anonymous(address) {
        true => Ok(sensor.count_zeros(target.pid(), &target.pages, address)?),
        false => Ok(None),
    }
}

/// Splits the huge page, so that the kernel frees its zeros.
pub(super) fn demote(
    target: &mut Target,
    sensor: &mut Sensor,
    known: &mut Process,
    address: u64,
    now: Duration,
) -> Result<Outcome, Failure> {
    // The program may have split or freed it since its zeros were counted: what is there now is not to be touched.
    let before = sensor.region_at(&target.pages, address)?;
    if !before.is_some_and(|region| region.huge) {
        return Ok(refuse(target, known, address, now, "split since", BUSY));
    }
    if let Err(refusal) = huge_pages::split(target.pidfd(), address) {
        return Ok(refused(target, known, address, now, refusal));
    }
    let after = sensor
        .region_at(&target.pages, address)?
        .map(|region| seen_of(&region));
    if after.is_some_and(|region| region.huge) {
        known.not_demoted(address, now, UNSUITABLE);
        note(target, "not split (shared or pinned)");
        return Ok(Outcome::Refused);
    }
    let gone = REGION_PAGES - after.map_or(0, |region| region.resident.min(REGION_PAGES));
    // What the program itself gave back meanwhile is not ours.
    let zeros = known.regions().get(&address).and_then(|region| region.zero);
    let freed = gone.min(zeros.unwrap_or(gone));
    Ok(split(target, known, address, now, freed))
}

fn split(
    target: &mut Target,
    known: &mut Process,
    address: u64,
    now: Duration,
    freed: u16,
) -> Outcome {
    known.demoted(address, freed, now);
    target.done.demoted += 1;
    target.done.freed += u64::from(freed);
    Outcome::Done
}

fn refused(
    target: &mut Target,
    known: &mut Process,
    address: u64,
    now: Duration,
    refusal: Refusal,
) -> Outcome {
    let (outcome, waits) = consequence(refusal);
    match waits {
        Waits::Not => {}
        Waits::Longer(pause) => {
            refuse(target, known, address, now, &refusal.to_string(), pause);
        }
        Waits::ForMemory => {
            known.put_off(address, now, NO_HUGE_PAGE);
            note(target, &refusal.to_string());
        }
    }
    outcome
}

/// How long a region waits that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Not,
    /// At first so long, longer each time.
    Longer(Duration),
    /// It is not the region's fault: it waits no longer the next time.
    ForMemory,
}

fn consequence(refusal: Refusal) -> (Outcome, Waits) {
    match refusal {
        Refusal::Gone => (Outcome::Ended, Waits::Not),
        Refusal::NotPermitted => (Outcome::NotPermitted, Waits::Longer(UNSUITABLE)),
        Refusal::NoHugePage => (Outcome::NoHugePage, Waits::ForMemory),
        // Others may have room below their limits.
        Refusal::LimitReached => (Outcome::Refused, Waits::ForMemory),
        Refusal::Busy | Refusal::Unmapped => (Outcome::Refused, Waits::Longer(BUSY)),
        Refusal::Unsuitable | Refusal::Other(_) => (Outcome::Refused, Waits::Longer(UNSUITABLE)),
    }
}

fn refuse(
    target: &mut Target,
    known: &mut Process,
    address: u64,
    now: Duration,
    why: &str,
    pause: Duration,
) -> Outcome {
    let was_huge = known
        .regions()
        .get(&address)
        .is_some_and(|region| region.seen.huge);
    if was_huge {
        known.not_demoted(address, now, pause);
    } else {
        known.refused(address, now, pause);
    }
    note(target, why);
    Outcome::Refused
}

fn note(target: &mut Target, why: &str) {
    *target.done.refused.entry(why.to_owned()).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_for_want_of_memory_is_not_held_against_the_region() {
        for (refusal, outcome, waits) in [
            (Refusal::NoHugePage, Outcome::NoHugePage, Waits::ForMemory),
            (Refusal::LimitReached, Outcome::Refused, Waits::ForMemory),
            (Refusal::Gone, Outcome::Ended, Waits::Not),
            (Refusal::Busy, Outcome::Refused, Waits::Longer(BUSY)),
            (Refusal::Unmapped, Outcome::Refused, Waits::Longer(BUSY)),
            (
                Refusal::Unsuitable,
                Outcome::Refused,
                Waits::Longer(UNSUITABLE),
            ),
        ] {
            assert_eq!(consequence(refusal), (outcome, waits), "{refusal}");
        }
    }
}
