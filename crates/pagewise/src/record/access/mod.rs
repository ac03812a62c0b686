//! Clears accessed bits, waits, and looks which are set again, as often as it may cost: all of them (`record --access`) or those of some pages, which stand
//! for all ([`spots`]).
//!
//! Clearing holds up the program's faults, so the time spent on both is kept below a share of the run: the interval
//! grows with what the last round cost, and a round begins only when its expected cost fits into what may be spent by
//! then. Clearing first waits for faults under way, which may take as long as a slow swap device; so each round is gone by a
//! thread of its own, draining goes on, and not the time but the processor time counts.

mod clearing;
mod round;
mod spots;
mod turnover;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::CollectError;
use pagewise_collect::access::PageSet;
use pagewise_collect::access::Region;
use pagewise_collect::access::Walked;
use pagewise_collect::access::pages_in;
use pagewise_host::process;
use pagewise_trace as trace;
use pagewise_trace::Spots;
use pagewise_trace::TraceWriter;

use clearing::Cleared;
use clearing::Watched;
use round::Never;
use round::Round;
use round::Scope;
use round::Seen;
use round::Terms;
pub(in crate::record) use round::Walker;
use round::go_round;
use spots::spots_beside;
use spots::spots_of;
pub(in crate::record) use turnover::Exchanged;
use turnover::Turnover;

use super::page_walks::WalkShares;
use crate::failure::Failure;
use crate::output::tell;

/// Of looks at spots: how soon one may follow another,
const SHORTEST_OF_SPOTS: Duration = Duration::from_millis(100);
/// and how much of the run's time they may take, the program's own for setting bits included,
const SHARE_OF_SPOTS: f64 = 0.01;
/// beyond what they may at once: a program is used otherwise while it fills its memory, and some run for no longer than that.
const HEAD_START_OF_SPOTS: Duration = Duration::from_millis(20);
/// What a round costs before one was measured: for each process, and for each of its resident base pages.
const FIRST_COST_OF_PROCESS: Duration = Duration::from_millis(1);
const FIRST_COST_OF_PAGE_NS: u64 = 25;
/// What it takes the processor to set a bit again, in a guest of a virtual machine, where that takes longest: of spots it is reckoned with as cost.
const SET_NS: u64 = 400;
/// Each takes a descriptor. Of more processes, the first ones are looked at.
const MOST_PROCESSES: usize = 256;

enum Phase {
    Resting,
    /// It ends early once the sender is gone.
    Going(JoinHandle<Round>, Sender<Never>),
    /// It was refused.
    Stopped,
}

pub(super) struct Accesses {
    /// `None` while a round has it.
    walker: Option<Walker>,
    scope: Scope,
    /// Of the round under way, or the last.
    looked_at: Scope,
    shortest: Duration,
    /// So much of the run's time may be spent on clearing and looking, and as much on glances.
    share: f64,
    /// Intervals are so many times as long.
    pace: u32,
    page_bytes: u64,
    began: Instant,
    phase: Phase,
    clear: Duration,
    /// Of the round that is gone, processor time of its clearing, ns.
    clearing_ns: Arc<AtomicU64>,
    clear_took: Duration,
    walk: Duration,
    glances: Duration,
    /// Of the program, setting bits again.
    set: Duration,
    looks: u64,
    turnover: Turnover,
    /// Cost of the last round, and the resident bytes at its begin.
    last: Option<(Duration, u64)>,
    resident_bytes: u64,
    spent_before_round: Duration,
    changed_regions: u64,
    /// Too many, or not to be looked into; counted at each look.
    skipped_processes: u64,
    walk_shares: Option<WalkShares>,
    /// Between clearing and looking, what the processes ran, and for how long that was, ns.
    ran: (u64, u64),
    watched: Watched,
}

impl Accesses {
    /// Looks at all pages.
    pub(super) fn of_all(
        walker: Walker,
        shortest: Duration,
        share: f64,
        page_bytes: u64,
        walk_shares: WalkShares,
    ) -> Self {
        Self {
            walk_shares: Some(walk_shares),
            ..Self::new(walker, Scope::All, shortest, share, page_bytes)
        }
    }

    /// Looks at some pages, which stand for all.
    pub(super) fn of_spots(walker: Walker, page_bytes: u64) -> Self {
        let scope = Scope::Spots(Spots::one_in(1));
        Self::new(walker, scope, SHORTEST_OF_SPOTS, SHARE_OF_SPOTS, page_bytes)
    }

    fn new(walker: Walker, scope: Scope, shortest: Duration, share: f64, page_bytes: u64) -> Self {
        Self {
            walker: Some(walker),
            scope,
            looked_at: scope,
            shortest,
            share,
            pace: 1,
            page_bytes,
            began: Instant::now(),
            phase: Phase::Resting,
            clear: Duration::ZERO,
            clearing_ns: Arc::default(),
            clear_took: Duration::ZERO,
            walk: Duration::ZERO,
            glances: Duration::ZERO,
            set: Duration::ZERO,
            looks: 0,
            turnover: Turnover::new(),
            last: None,
            resident_bytes: 0,
            spent_before_round: Duration::ZERO,
            changed_regions: 0,
            skipped_processes: 0,
            walk_shares: None,
            ran: (0, 0),
            watched: Watched::default(),
        }
    }

    /// The program starts now: what may be spent grows from here.
    pub(super) fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Does what is due. `processes`: those with an address space of their own; `exchanged`: so far. Returns why it has stopped for good, if
    /// it has just done so.
    pub(super) fn tick(
        &mut self,
        processes: impl FnOnce() -> Vec<u32>,
        exchanged: Exchanged,
        writer: &mut TraceWriter,
    ) -> Result<Option<String>, Failure> {
        let mut refused = None;
        let pages = self.resident_bytes / self.page_bytes;
        self.turnover.count(exchanged, pages, Instant::now());
        self.phase = match std::mem::replace(&mut self.phase, Phase::Stopped) {
            Phase::Going(thread, _) if thread.is_finished() => match thread.join() {
                Ok(round) => match self.take(round, writer)? {
                    None => Phase::Resting,
                    why => {
                        refused = why;
                        Phase::Stopped
                    }
                },
                Err(_) => {
                    refused = Some("the thread that looks has failed".to_owned());
                    Phase::Stopped
                }
            },
            phase => phase,
        };
        if matches!(self.phase, Phase::Resting)
            && self.may_be_due()
            && let Err(error) = self.start_round(processes())
        {
            self.phase = Phase::Stopped;
            refused = Some(format!(
                "no thread can be started to clear accessed bits: {error}"
            ));
        }
        // Nobody has asked for spots by name.
        if let Some(why) = refused.as_ref().filter(|_| !self.are_of_spots()) {
            tell!("pagewise: accesses are no longer recorded: {why}");
        }
        Ok(refused)
    }

    /// The programs have ended: writes what a round under way has seen by now.
    pub(super) fn finish(&mut self, writer: &mut TraceWriter) -> Result<(), Failure> {
        if let Phase::Going(thread, until) = std::mem::replace(&mut self.phase, Phase::Stopped) {
            drop(until);
            if let Ok(round) = thread.join() {
                self.take(round, writer)?;
            }
        }
        Ok(())
    }

    /// Writes what a round has seen. Returns why there can be no other.
    fn take(&mut self, round: Round, writer: &mut TraceWriter) -> Result<Option<String>, Failure> {
        match round.failed {
            // A recording without is better than none.
            Some(error) if self.are_of_spots() => return Ok(Some(error.to_string())),
            Some(error) => return Err(error.into()),
            None => {}
        }
        let clearing = &round.clearing;
        self.clear += clearing.cost;
        self.clearing_ns.store(0, Ordering::Relaxed);
        self.clear_took += clearing.took;
        self.skipped_processes += clearing.refusals;
        if clearing.cleared.is_empty() {
            self.walker = Some(round.walker);
            if !self.are_of_spots() {
                self.watched.is_so(clearing.watched);
            }
            // One of several may be another user's.
            return Ok(clearing.refused.as_ref().map(CollectError::to_string));
        }
        self.watched.is_over();
        self.glances += round.glanced;
        self.walk += round.looked;
        if self.was_spoiled(&round) {
            self.walker = Some(round.walker);
            return Ok(None);
        }
        for seen in &round.glances {
            self.write_glance(seen, writer)?;
        }
        self.count_running(&round.looks);
        let mut saw_any = false;
        for seen in &round.looks {
            saw_any |= self.write_look(seen, writer)?;
        }
        // Processes that ended in the meantime were not looked at.
        self.looks += u64::from(saw_any);
        let cost = self.spent() - self.spent_before_round;
        self.last = Some((cost, self.resident_bytes));
        self.walker = Some(round.walker);
        Ok(None)
    }

    /// Whether another one has cleared bits meanwhile: it claims them while it waits to look at them. Who looks at all pages has the claim itself.
    fn was_spoiled(&self, round: &Round) -> bool {
        let is_claimed = |memory: &Cleared| {
            let is_free = memory.pages.claim();
            memory.pages.give_up_claim();
            !is_free
        };
        matches!(self.scope, Scope::Spots(_)) && round.clearing.cleared.iter().any(is_claimed)
    }

    fn spent(&self) -> Duration {
        self.clear + self.walk + self.set
    }

    /// What clearing and looking may have taken by now.
    fn allowed(&self) -> Duration {
        let head_start = match self.scope {
            Scope::All => Duration::ZERO,
            Scope::Spots(_) => HEAD_START_OF_SPOTS,
        };
        head_start + self.began.elapsed().mul_f64(self.share)
    }

    /// Whether it is worth to ask how much memory the processes have: by what it was when spots were looked at last. Asked in each round of draining, also while
    /// the program waits for swap-ins all the time. The interval of a round at spots earns what it costs, so that one follows the other: what is seldom used
    /// is seen in long ones.
    fn may_be_due(&self) -> bool {
        let pages = self.resident_bytes / self.page_bytes;
        match self.scope {
            Scope::All => true,
            Scope::Spots(_) => {
                self.spent() <= self.allowed()
                    && self.turnover.is_long_ago(self.shortest)
                    && (self.turnover.allows_look(pages) || self.turnover.allows_look_beside(pages))
            }
        }
    }

    /// Fails where a limit of processes refuses a thread.
    fn start_round(&mut self, mut processes: Vec<u32>) -> io::Result<()> {
        if processes.is_empty() {
            return Ok(());
        }
        let most = MOST_PROCESSES.min(pagewise_host::open_files::allowed() / 4);
        let skipped = processes.len().saturating_sub(most);
        processes.truncate(most);
        if let Some(walk_shares) = &mut self.walk_shares {
            walk_shares.follow(&processes);
        }
        let memory = processes.iter().filter_map(|pid| process::memory(*pid));
        let resident_bytes = memory.filter_map(|memory| memory.resident_bytes).sum();
        let pages = resident_bytes / self.page_bytes;
        let scope = match self.scope {
            Scope::All => {
                let expected =
                    expected_cost(self.last, resident_bytes, pages, processes.len() as u32);
                (self.spent() + expected <= self.allowed()).then_some(Scope::All)
            }
            Scope::Spots(before) => {
                self.resident_bytes = resident_bytes;
                self.spots_for(before, pages).map(Scope::Spots)
            }
        };
        let Some(scope) = scope else {
            return Ok(());
        };
        self.looked_at = scope;
        self.skipped_processes += skipped as u64;
        self.resident_bytes = resident_bytes;
        self.spent_before_round = self.spent();
        let Some(walker) = self.walker.take() else {
            return Ok(());
        };
        let terms = Terms {
            shortest: self.shortest,
            share: self.share,
            last: self.last.map(|(cost, _)| cost),
            saved: match scope {
                Scope::All => Duration::ZERO,
                Scope::Spots(_) => self.allowed().saturating_sub(self.spent()),
            },
            pace: self.pace,
            glances: self.allowed().saturating_sub(self.glances),
        };
        let clearing_ns = Arc::clone(&self.clearing_ns);
        let (sender, until) = std::sync::mpsc::channel();
        let going = move || go_round(walker, &processes, scope, terms, &clearing_ns, &until);
        self.phase = Phase::Going(std::thread::Builder::new().spawn(going)?, sender);
        Ok(())
    }

    /// Those that may be looked at now, of so many pages in memory.
    fn spots_for(&mut self, before: Spots, pages: u64) -> Option<Spots> {
        if self.turnover.allows_look(pages) {
            self.turnover.looked();
            let spots = spots_of(pages, before);
            self.scope = Scope::Spots(spots);
            return Some(spots);
        }
        self.turnover.allows_look_beside(pages).then(|| {
            self.turnover.looked_beside();
            spots_beside(before)
        })
    }

    /// From now on intervals are so many times as long.
    pub(super) fn slow_down(&mut self, pace: u32) {
        self.pace = pace;
    }

    /// What was all in memory at the look; whether that is anything.
    fn write_look(&mut self, seen: &Seen, writer: &mut TraceWriter) -> Result<bool, Failure> {
        let Walked::Whole { changed } = seen.walked else {
            return Ok(false); // it ended, or became another program
        };
        self.changed_regions += changed;
        let Some(space) = seen.space else {
            return Ok(false);
        };
        if let Some(walk_shares) = &mut self.walk_shares {
            walk_shares.count(seen.pid, space);
        }
        for (region, interval_ns) in seen.rows() {
            match self.looked_at {
                Scope::All => {
                    let row = row(region, seen.time_ns, interval_ns, space);
                    writer.accesses.push(row)?;
                }
                Scope::Spots(spots) => {
                    let accessed = u64::from(pages_in(&region.accessed));
                    self.set += Duration::from_nanos(accessed * SET_NS);
                    writer.spot_looks.push(trace::SpotLook {
                        time_ns: seen.time_ns,
                        interval_ns,
                        listed_ns: seen.listed_ns,
                        space,
                        address: region.address,
                        pages_each: spots.pages_each() as u32,
                        looked_map: digits(&region.resident),
                        accessed_map: (accessed > 0).then(|| digits(&region.accessed)),
                    })?;
                }
            }
        }
        Ok(!seen.regions.is_empty())
    }

    /// Writes what was first seen accessed at a glance.
    fn write_glance(&self, seen: &Seen, writer: &mut TraceWriter) -> Result<(), Failure> {
        let Some(space) = seen.space else {
            return Ok(());
        };
        let news = seen
            .rows()
            .filter(|(region, _)| pages_in(&region.accessed) > 0);
        for (region, interval_ns) in news {
            let (time_ns, address) = (seen.time_ns, region.address);
            match self.looked_at {
                Scope::All => {
                    let pages = pages_in(&region.accessed);
                    writer.glances.push(trace::Glance {
                        time_ns,
                        interval_ns,
                        space,
                        address,
                        pages,
                        map: (pages != 512).then(|| digits(&region.accessed)),
                    })?;
                }
                Scope::Spots(_) => writer.spot_glances.push(trace::SpotGlance {
                    time_ns,
                    interval_ns,
                    space,
                    address,
                    map: digits(&region.accessed),
                })?,
            }
        }
        Ok(())
    }

    /// Of those that have not ended meanwhile.
    fn count_running(&mut self, looks: &[Seen]) {
        let ran: Vec<(u64, u64)> = looks.iter().filter_map(|seen| seen.ran_ns).collect();
        self.ran.0 += ran.iter().map(|ran| ran.0).sum::<u64>();
        self.ran.1 += ran.iter().map(|ran| ran.1).max().unwrap_or(0);
    }

    /// How many threads ran at a time on average; `None`: nothing was looked at.
    pub(super) fn running_threads(&self) -> Option<f64> {
        let (ran, time) = self.ran;
        (time > 0).then(|| ran as f64 / time as f64)
    }

    /// Of each address space, the share of its cycles in page walks.
    pub(super) fn page_walks(&self) -> BTreeMap<u32, f64> {
        let shares = self.walk_shares.as_ref().map(WalkShares::shares);
        shares.unwrap_or_default()
    }

    /// Whether it looks at some pages only.
    pub(super) fn are_of_spots(&self) -> bool {
        matches!(self.scope, Scope::Spots(_))
    }

    /// What it cost the program; `wall`: how long that ran.
    pub(super) fn cost(&self, wall: Duration) -> BTreeMap<String, f64> {
        let clear = self.clear + Duration::from_nanos(self.clearing_ns.load(Ordering::Relaxed));
        let spent = clear + self.walk;
        let sensor = if self.are_of_spots() {
            "spots"
        } else {
            "access"
        };
        let ns = |time: Duration| time.as_nanos() as f64;
        let mut cost = vec![
            ("clear_ns", ns(clear)),
            ("walk_ns", ns(self.walk)),
            ("glances_ns", ns(self.glances)),
            ("looks", self.looks as f64),
        ];
        if !self.are_of_spots() {
            let waits = self.clear_took.saturating_sub(self.clear);
            cost.push(("clear_waits_ns", ns(waits)));
        }
        if !wall.is_zero() {
            cost.push(("duty", spent.as_secs_f64() / wall.as_secs_f64()));
        }
        let named = |(name, value)| (format!("{sensor}_{name}"), value);
        cost.into_iter().map(named).collect()
    }

    pub(super) fn losses(&self) -> [(&'static str, u64); 2] {
        let (regions, processes) = match self.scope {
            Scope::All => ("access_regions", "access_processes"),
            Scope::Spots(_) => ("spots_regions", "spots_processes"),
        };
        [
            (regions, self.changed_regions),
            (processes, self.skipped_processes),
        ]
    }
}

/// `last`: cost and resident bytes of the round before. Memory that grew since costs more; none is taken for cheaper.
fn expected_cost(
    last: Option<(Duration, u64)>,
    resident_bytes: u64,
    resident_pages: u64,
    processes: u32,
) -> Duration {
    match last {
        Some((cost, before)) if before > 0 => {
            cost.mul_f64((resident_bytes as f64 / before as f64).max(1.0))
        }
        _ => {
            FIRST_COST_OF_PROCESS * processes
                + Duration::from_nanos(resident_pages * FIRST_COST_OF_PAGE_NS)
        }
    }
}

fn row(region: &Region, time_ns: u64, interval_ns: u64, space: u32) -> trace::Access {
    let resident_pages = pages_in(&region.resident);
    let accessed_pages = pages_in(&region.accessed);
    trace::Access {
        time_ns,
        interval_ns,
        space,
        address: region.address,
        resident_pages,
        accessed_pages,
        dirty_pages: pages_in(&region.dirty),
        huge: region.huge,
        swapped_pages: pages_in(&region.swapped),
        resident_map: (!resident_pages.is_multiple_of(512)).then(|| digits(&region.resident)),
        accessed_map: (accessed_pages != 0 && accessed_pages != resident_pages)
            .then(|| digits(&region.accessed)),
    }
}

/// 128 hexadecimal digits of four pages each, the lowest bit the first of them.
fn digits(set: &PageSet) -> String {
    let nibble = |number: usize| (set[number / 16] >> (number % 16 * 4) & 15) as u32;
    (0..set.len() * 16)
        .filter_map(|number| char::from_digit(nibble(number), 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_begin_with_the_first_page() {
        let set = [0b1_0010, 0, 0, 0, 0, 0, 0, 1 << 63];
        let text = digits(&set);
        assert_eq!(text.len(), 128);
        assert!(text.starts_with("210") && text.ends_with("08"), "{text}");
    }

    #[test]
    fn maps_are_left_out_where_counts_say_it_all() {
        let mut region = Region {
            address: 2 << 20,
            resident: [u64::MAX; 8],
            ..Region::default()
        };
        let maps = |region: &Region| {
            let row = row(region, 9, 5, 1);
            (row.resident_map.is_some(), row.accessed_map.is_some())
        };
        assert_eq!(maps(&region), (false, false), "none accessed");
        region.accessed[0] = 1;
        assert_eq!(maps(&region), (false, true));
        region.accessed = region.resident;
        assert_eq!(maps(&region), (false, false), "all accessed");
        region.resident[7] = 1;
        region.accessed = region.resident;
        assert_eq!(maps(&region), (true, false));
    }

    #[test]
    fn a_round_is_expected_to_cost_what_the_last_one_did_or_more() {
        let ms = Duration::from_millis;
        assert_eq!(expected_cost(Some((ms(4), 100)), 200, 0, 1), ms(8));
        assert_eq!(expected_cost(Some((ms(4), 100)), 50, 0, 1), ms(4));
        // Nothing was resident then: there is nothing to go by.
        let guess = expected_cost(Some((ms(4), 0)), 8 << 30, 2 << 20, 1);
        assert_eq!(guess, expected_cost(None, 8 << 30, 2 << 20, 1));
        assert!(guess > ms(42), "clearing 8 GiB takes that long");
    }
}
