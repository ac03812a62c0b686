//! From a recording to swap-ins and run time at each size of memory.

use pagewise_simulate::Cost;
use pagewise_trace::EventCount;
use pagewise_trace::Trace;

use crate::account::Account;
use crate::ages::Ages;
use crate::costs::Costs;
use crate::costs::Waited;
use crate::error::PredictError;
use crate::history;
use crate::history::History;
use crate::history::page_bytes;
use crate::looked::Looked;
use crate::looked_rounds::RoundsOfRegions;
use crate::looks;
use crate::looks::Hot;
use crate::objects::Objects;
use crate::pace::Pace;
use crate::pace::Use;
use crate::rates::Rates;
use crate::references::Counts;
use crate::references::References;
use crate::references::pace_as_recorded;
use crate::references::room_beside_hidden;
use crate::references::scaled;
use crate::stays;
use crate::stays::Told;
use crate::streams::Streams;
use crate::strings;
use crate::strings::Step;
use crate::sweeps;
use crate::treatment::Treated;
use crate::treatment::Treatment;
use crate::treatment::most_at_once;
use crate::treatment::uses_beside_locks;
use crate::uses;
use crate::uses::PageUses;

/// Evictions without which nothing is predicted.
const LEAST_EVICTIONS: u64 = 1000;
/// What is assumed of pages in memory: the share of evicted pages that left as early as pages do (percent), and whether
/// accesses that left no mark are made up. The first is the best guess, the others bound it.
const ASSUMPTIONS: [(usize, bool); 3] = [(10, true), (5, true), (40, false)];
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// Who waits for less of the time than this has [enough memory](Model::enough_bytes).
pub const ENOUGH_SHARE: f64 = 0.01;
/// How exactly that is looked for, as a share of the peak.
const ENOUGH_STEPS: u64 = 100;

/// What would happen with so much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Memory limit, in bytes.
    pub memory_bytes: u64,
    /// Swap-ins.
    pub swap_ins: u64,
    /// The fewest under other assumptions on what was not seen, and by how far the model errs at the recorded size.
    pub swap_ins_low: u64,
    /// The most, likewise. `None`: not known, as there is less memory than recorded, and nobody looked how often what stayed in it is
    /// used.
    pub swap_ins_high: Option<u64>,
    /// Time waited for them, in ns; `None` if no latency is known.
    pub stall_ns: Option<u64>,
    /// Time of direct reclaim outside of swap-in faults, in ns; `None`: it was not recorded, and is in the run time as it was.
    pub reclaim_ns: Option<u64>,
    /// Run time, in ns, both included; `None` if no latency is known.
    pub wall_ns: Option<u64>,
}

/// A recorded program, ready to be asked.
pub struct Model {
    strings: Vec<References>,
    /// The address space and page number of each page.
    keys: Vec<u64>,
    page_bytes: u64,
    /// Memory that the limit holds beside the program's anonymous pages: page tables, files, what is being reclaimed.
    overhead_pages: u64,
    /// Pages that are hot all the time: of the program's own, but never accessed in the model ([`room_beside_hidden`]).
    hidden_pages: u64,
    most_pages: u64,
    limit_bytes: Option<u64>,
    swap_ins: u64,
    /// Run time without waiting for swap-ins and reclaim, and without what being looked at took, ns.
    own_ns: Option<u64>,
    swap_in_ns: Option<f64>,
    reclaim_ns: Option<u64>,
    costs: Costs,
    simulated: u64,
    /// Accesses in memory were looked at, not only made up.
    was_looked_at: bool,
    /// At all pages, so that it swapped more than it does by itself.
    was_disturbed: bool,
    /// Evictions for first touches that the model has at the recorded size.
    simulated_reclaimed: u64,
    off: f64,
}

impl Model {
    /// Reads a recording.
    ///
    /// # Errors
    /// [`PredictError`]: the recording cannot be read, or has not what a prediction needs.
    pub fn read(trace: &Trace) -> Result<Model, PredictError> {
        check(trace)?;
        let history = History::read(trace)?;
        let account = Account::new(&history);
        if account.evictions < LEAST_EVICTIONS {
            return Err(PredictError::NoPressure);
        }
        let objects = Objects::read(trace, &history)?;
        let found = sweeps::find(&history, |page| objects.around(page));
        let known = strings::known(&history, &found);
        let looked = Looked::read(trace)?;
        let rates = Rates::new(&history, &found, &known, looked.accesses()?)?;
        let read_looks = || -> Result<_, PredictError> {
            let (looks, glances) = (looked.looks()?, looked.glances()?);
            Ok(looks::read(looks, glances, &history))
        };
        let rounds = RoundsOfRegions::find(read_looks)?;
        let hot = Hot::sum(read_looks()?, &rounds)?;
        let sampling = stays::sampling(&history, &rates, hot, looked.spots);
        // How many there are for each that was chosen, not how many there should be.
        let sampled = history.keys.iter().filter(|&&key| sampling.takes(key));
        let pages_each = history.keys.len() as f64 / sampled.count().max(1) as f64;
        let waited = Waited::read(trace)?;
        let pace = Pace::of(trace.meta(), waited.swap_in_ns());
        let build = |(share, unnoticed)| -> Result<References, PredictError> {
            let told = Told {
                rates: &rates,
                ages: &Ages::new(&history, share, |key| {
                    !looked.are_some() || looked.leaves_alone(key)
                }),
                rounds: &rounds,
                hot,
            };
            let looks = read_looks()?;
            let is_sampled = |step: &&Step| sampling.takes(history.keys[step.page as usize]);
            let mut steps = known.iter().filter(is_sampled).copied().collect();
            stays::add(
                &history, looks, &told, sampling, unnoticed, SEED, &mut steps,
            )?;
            steps.sort_unstable();
            Ok(References {
                steps,
                pages_each,
                pace,
            })
        };
        let mut strings: Vec<References> = ASSUMPTIONS
            .into_iter()
            .map(build)
            .collect::<Result<_, _>>()?;
        let page_bytes = page_bytes(trace);
        let limit_bytes = trace.meta().limit.bytes;
        let limit_pages = limit_bytes.map_or(account.fit, |limit| limit / page_bytes);
        // When shared memory left is known about only.
        let fit = account.fit.min(limit_pages);
        let overhead_pages = limit_pages - fit;
        let pace = pace_as_recorded(pace, history.swap_ins, |pace| {
            let uses = strings[0].steps.iter().map(Use::Free);
            strings[0].simulate_some(uses, fit, pace).swap_ins
        });
        strings.iter_mut().for_each(|string| string.pace = pace);
        let room = room_beside_hidden(&strings[0], fit, history.swap_ins);
        let wall_ns = trace.meta().wall_ns;
        let mut model = Model {
            strings,
            page_bytes,
            overhead_pages,
            hidden_pages: fit - room,
            most_pages: account.most,
            limit_bytes,
            swap_ins: history.swap_ins,
            own_ns: wall_ns.map(|wall| wall.saturating_sub(waited.all_ns() + history.clock.lost())),
            swap_in_ns: waited.swap_in_ns(),
            reclaim_ns: waited.reclaim_ns,
            costs: waited.costs(),
            simulated: 0,
            was_looked_at: looked.is_any,
            was_disturbed: looked.is_any && looked.spots.is_none(),
            simulated_reclaimed: 0,
            off: 0.0,
            keys: history.keys,
        };
        let outcome = model.strings[0].simulate(room);
        model.simulated = outcome.swap_ins;
        model.simulated_reclaimed = outcome.reclaimed();
        model.off = (model.swap_ins as f64 / model.simulated.max(1) as f64 - 1.0).abs();
        Ok(model)
    }

    /// The least memory in which nothing is swapped, in bytes: all that the program ever had at once.
    pub fn peak_bytes(&self) -> u64 {
        (self.most_pages + self.overhead_pages) * self.page_bytes
    }

    /// The limit it was recorded with.
    pub fn recorded_bytes(&self) -> Option<u64> {
        self.limit_bytes
    }

    /// Swap-ins that were recorded.
    pub fn recorded_swap_ins(&self) -> u64 {
        self.swap_ins
    }

    /// Swap-ins that the model has at the recorded size: how far off it is there.
    pub fn simulated_swap_ins(&self) -> u64 {
        self.simulated
    }

    /// What a page costs, as it was measured in the recording: what [`Model::at`] reckons with.
    pub fn costs(&self) -> Costs {
        self.costs
    }

    /// With this much memory; on another `device` if given, else swap-ins take as long as they did.
    pub fn at(&self, memory_bytes: u64, device: Option<&Device>) -> Point {
        let pages = self.pages_in(memory_bytes);
        let outcomes: Vec<Counts> = self
            .strings
            .iter()
            .map(|references| self.simulate_on(references, pages, device))
            .collect();
        let counts = outcomes
            .iter()
            .map(|outcome| self.corrected(memory_bytes, outcome.swap_ins));
        let best = self.timed(memory_bytes, &outcomes[0], device);
        let low = counts.clone().min().unwrap_or(best.swap_ins) as f64 * (1.0 - self.off);
        let high = counts.max().unwrap_or(best.swap_ins) as f64 * (1.0 + self.off);
        Point {
            swap_ins_low: low.max(0.0) as u64,
            swap_ins_high: self.knows_most(memory_bytes).then_some(high as u64),
            ..best
        }
    }

    /// Whether it is known of all pages that may leave so much memory how often they are accessed: those that left the recorded memory
    /// told it when they came back.
    fn knows_most(&self, memory_bytes: u64) -> bool {
        let is_less = self
            .limit_bytes
            .is_some_and(|recorded| memory_bytes < recorded);
        self.was_looked_at || !is_less
    }

    /// With all that it ever had nothing is swapped, whatever share of its pages stands for the others.
    fn simulate(&self, references: &References, pages: u64) -> Counts {
        self.simulate_on(references, pages, None)
    }

    /// The same with swap on another device, if one is given: how long swap-ins take is how old statistics get between them.
    fn simulate_on(&self, references: &References, pages: u64, device: Option<&Device>) -> Counts {
        if pages >= self.most_pages {
            return Counts::NONE;
        }
        let pace = match device {
            Some(device) => references.pace.with_swap_ins_of(device.swap_in_ns as f64),
            None => references.pace,
        };
        let uses = references.steps.iter().map(Use::Free);
        references.simulate_some(uses, self.beside_hidden(pages), pace)
    }

    /// What of so many pages of memory is left beside those that are hot all the time.
    fn beside_hidden(&self, pages: u64) -> u64 {
        pages.saturating_sub(self.hidden_pages).max(1)
    }

    /// How long it takes, by what is the best guess alone.
    fn timed(&self, memory_bytes: u64, outcome: &Counts, device: Option<&Device>) -> Point {
        let swap_ins = self.corrected(memory_bytes, outcome.swap_ins);
        let of_device = device.map(|device| device.swap_in_ns as f64);
        let each = of_device.or(self.swap_in_ns);
        let stall_ns = each.map(|each| (each * swap_ins as f64) as u64);
        let reclaim_ns = self.reclaim_ns.map(|recorded| {
            (recorded as f64 * self.reclaim_ratio(outcome.reclaimed(), swap_ins)) as u64
        });
        let waited = stall_ns.map(|stall| stall.saturating_add(reclaim_ns.unwrap_or(0)));
        Point {
            memory_bytes,
            swap_ins,
            swap_ins_low: swap_ins,
            swap_ins_high: Some(swap_ins),
            stall_ns,
            reclaim_ns,
            wall_ns: self
                .own_ns
                .zip(waited)
                .map(|(own, waited)| own.saturating_add(waited)),
        }
    }

    /// So many times as long as in the recording memory is reclaimed outside of swap-in faults. A page that comes back makes room
    /// for itself inside of its fault; what is evicted beyond that is evicted for first touches. Where the model has none at the
    /// recorded size, it goes with the swap-ins.
    fn reclaim_ratio(&self, reclaimed: u64, swap_ins: u64) -> f64 {
        match self.simulated_reclaimed {
            0 => swap_ins as f64 / self.swap_ins.max(1) as f64,
            recorded => reclaimed as f64 / recorded as f64,
        }
    }

    /// Time of direct reclaim outside of swap-in faults with this much memory by that of the recording.
    pub fn reclaim_scale(&self, memory_bytes: u64) -> f64 {
        let outcome = self.simulate(&self.strings[0], self.pages_in(memory_bytes));
        let swap_ins = self.corrected(memory_bytes, outcome.swap_ins);
        self.reclaim_ratio(outcome.reclaimed(), swap_ins)
    }

    /// The share of the time that is waiting, for swap-ins and in reclaim, with this much memory; `None`: no latency is known.
    fn waiting_share(&self, memory_bytes: u64) -> Option<f64> {
        let outcome = self.simulate(&self.strings[0], self.pages_in(memory_bytes));
        let point = self.timed(memory_bytes, &outcome, None);
        let waited = point.stall_ns? + point.reclaim_ns.unwrap_or(0);
        Some(waited as f64 / point.wall_ns?.max(1) as f64)
    }

    /// The least memory, from this much on, with which less than [`ENOUGH_SHARE`] of the time is waiting, in bytes and to a hundredth
    /// of the peak; `None`: no latency is known.
    pub fn enough_bytes(&self, memory_bytes: u64) -> Option<u64> {
        let most = self.peak_bytes().max(memory_bytes);
        let step = most.div_ceil(ENOUGH_STEPS).max(1);
        let is_enough = |bytes| self.waiting_share(bytes).map(|share| share < ENOUGH_SHARE);
        if is_enough(memory_bytes)? {
            return Some(memory_bytes);
        }
        // With more memory less is waited, so that halving finds the first; with the peak nothing is.
        let (mut less, mut enough) = (0, (most - memory_bytes).div_ceil(step));
        while enough - less > 1 {
            let between = less.midpoint(enough);
            match is_enough(memory_bytes + between * step)? {
                true => enough = between,
                false => less = between,
            }
        }
        Some((memory_bytes + enough * step).min(most))
    }

    /// Pages of its own that the program has in so much memory. What the limit held besides is no smaller with less memory, but files give
    /// way before there is no room for the program at all: at least half of its share in the recorded limit stays its own.
    fn pages_in(&self, memory_bytes: u64) -> u64 {
        let all = memory_bytes / self.page_bytes;
        let recorded = self.limit_bytes.map_or(0, |limit| limit / self.page_bytes);
        let own = recorded.saturating_sub(self.overhead_pages);
        let least = all.min(recorded) * own / recorded.max(1) / 2;
        all.saturating_sub(self.overhead_pages).max(least).max(1)
    }

    /// Swap-ins of the model with this much memory, in the light of those that were recorded. Those that it has too many at the recorded
    /// size it has with less memory, too; with more, as many in proportion. Those that it misses are of accesses that left no mark, and come
    /// with less memory, too; where all pages were looked at there are none, and the recording has more than there are without looks: a bit
    /// that was cleared tells the kernel that the page is not used.
    fn corrected(&self, memory_bytes: u64, modelled: u64) -> u64 {
        let is_more = match self.limit_bytes {
            None => return modelled,
            Some(recorded) => memory_bytes >= recorded,
        };
        match (is_more, self.simulated > self.swap_ins) {
            (true, true) if self.was_looked_at => {
                let share = self.swap_ins as f64 / self.simulated as f64;
                scaled(modelled, share).min(self.swap_ins)
            }
            (true, _) => modelled.min(self.swap_ins),
            (false, false) if self.was_disturbed => modelled,
            (false, _) => (modelled + self.swap_ins)
                .saturating_sub(self.simulated)
                .max(self.swap_ins),
        }
    }

    /// What is left with this much memory, if pages are treated as `treatment` says, by their address space's number
    /// and address. What is read ahead takes a quarter of what is not locked.
    pub fn treated(&self, memory_bytes: u64, treatment: impl Fn(u32, u64) -> Treatment) -> Treated {
        let of_pages: Vec<Treatment> = self
            .keys
            .iter()
            .map(|&key| {
                let (space, page) = history::parts(key);
                treatment(space, page * self.page_bytes)
            })
            .collect();
        let references = &self.strings[0];
        let uses = || uses_beside_locks(&references.steps, &of_pages);
        let pages = self.beside_hidden(self.pages_in(memory_bytes));
        let is_streamed = |of: &Treatment| matches!(of, Treatment::Streamed(_));
        let window = match of_pages.iter().any(is_streamed) {
            true => {
                let locked = most_at_once(uses());
                pages.saturating_sub(scaled(locked, references.pages_each)) / 4
            }
            false => 0,
        };
        let mut streams = Streams::new(&of_pages, scaled(window, 1.0 / references.pages_each));
        let counts = references.simulate_beside(
            uses(),
            (pages - window).max(1),
            references.pace,
            |step, memory| streams.pass(step, memory),
        );
        Treated {
            swap_ins: counts.swap_ins,
            left_alone: streams.left_alone(references.pages_each),
        }
    }

    /// How many pages of the program each page stands for that is simulated.
    pub fn pages_each(&self) -> f64 {
        self.strings[0].pages_each
    }

    /// How often pages are used by the best guess, as far as it matters with so much memory, bytes: of some pages that stand for
    /// all ([`Model::pages_each`]).
    pub fn uses(&self, memory_bytes: u64) -> Vec<PageUses> {
        let references = &self.strings[0];
        let memory = scaled(self.pages_in(memory_bytes), 1.0 / references.pages_each);
        let count = |counts: fn(&Step) -> bool| {
            uses::count(&references.steps, self.keys.len(), memory as usize, counts)
        };
        let (all, known) = (count(|_| true), count(|step| !step.is_made_up()));
        let of_pages = self.keys.iter().zip(all).zip(known);
        of_pages
            .filter_map(|((&key, uses), known)| {
                let (space, page) = history::parts(key);
                Some(PageUses {
                    space,
                    address: page * self.page_bytes,
                    uses: uses?,
                    known: known.unwrap_or(0),
                })
            })
            .collect()
    }

    /// The curve at 10, 20, ... 100 % of the [peak](Self::peak_bytes).
    pub fn curve(&self, device: Option<&Device>) -> Vec<Point> {
        (1..=10)
            .map(|tenths| self.at(self.peak_bytes() * tenths / 10, device))
            .collect()
    }
}

/// A swap device other than the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    swap_in_ns: u64,
}

impl Device {
    /// By its cost per page and the kernel's own work at each fault, from a storage model. Writes are taken to be done
    /// meanwhile, as the kernel does on all but memory.
    pub fn new(cost: Cost, fault_ns: u64) -> Device {
        Device {
            swap_in_ns: cost.read_ns + fault_ns,
        }
    }
}

/// Whether the recording has what is needed.
fn check(trace: &Trace) -> Result<(), PredictError> {
    for sensor in ["faults", "residency"] {
        let state = trace.meta().sensors.get(sensor);
        if state.is_none_or(|state| state != "on") {
            return Err(PredictError::NotRecorded(sensor));
        }
    }
    match trace.rows::<EventCount>()?.next() {
        None => Ok(()),
        Some(Ok(_)) => Err(PredictError::OnlyCounted),
        Some(Err(error)) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages 0 to 39, used in turn; of one address space, from address 0 on.
    fn model() -> Model {
        model_of(40)
    }

    /// So many pages, used in turn a hundred times.
    fn model_of(pages: u64) -> Model {
        let steps = (0..100 * pages).map(|at| Step::access(at, (at % pages) as u32));
        Model {
            strings: vec![References {
                steps: steps.collect(),
                pages_each: 1.0,
                pace: Pace::FRESH,
            }],
            keys: (0..pages).map(|page| history::key(0, page)).collect(),
            page_bytes: 4096,
            overhead_pages: 0,
            hidden_pages: 0,
            most_pages: pages,
            limit_bytes: None,
            swap_ins: 0,
            own_ns: None,
            swap_in_ns: None,
            reclaim_ns: None,
            costs: Costs::default(),
            simulated: 0,
            was_looked_at: false,
            was_disturbed: false,
            simulated_reclaimed: 0,
            off: 0.0,
        }
    }

    /// 2,000 pages recorded in 1,500: 4000 ns of its own, 3 ns for each swap-in, and 50 ns of reclaim for the 500 first touches too
    /// many.
    fn timed() -> Model {
        let mut model = model_of(2000);
        let outcome = model.strings[0].simulate(1500);
        (model.limit_bytes, model.swap_ins) = (Some(1500 * 4096), outcome.swap_ins);
        (model.simulated, model.simulated_reclaimed) = (outcome.swap_ins, outcome.reclaimed());
        (model.own_ns, model.swap_in_ns) = (Some(4000), Some(3.0));
        model.reclaim_ns = Some(50);
        model
    }

    /// 30 pages in turn, a hundred times, and as often 20 others after that.
    #[test]
    fn what_is_locked_takes_memory_from_its_first_access_to_its_end() {
        let turns = |first: u32, pages: u32, from: u64| {
            let pages = u64::from(pages);
            (0..100 * pages).map(move |at| Step::access(from + at, first + (at % pages) as u32))
        };
        let mut model = model_of(50);
        let ends = (0..20).map(|page| Step::end(7000, 30 + page));
        let later = turns(0, 30, 8000);
        let steps = turns(0, 30, 0).chain(turns(30, 20, 4000)).chain(ends);
        model.strings[0].steps = steps.chain(later).collect();
        let swap_ins = |locked: std::ops::Range<u64>| {
            let treated = model.treated(40 * 4096, |_, address| {
                match locked.contains(&(address / 4096)) {
                    true => Treatment::Locked,
                    false => Treatment::Free,
                }
            });
            treated.swap_ins
        };
        // The first 30 fit while the others are not there; some left for these.
        assert!(swap_ins(0..0) < 60, "{}", swap_ins(0..0));
        assert!(swap_ins(30..50) < 60, "{}", swap_ins(30..50));
        // Locked in 40, the first leave 10 to the others.
        assert!(swap_ins(0..30) > 1000, "{}", swap_ins(0..30));
    }

    #[test]
    fn time_is_the_programs_own_and_the_waiting_at_each_size() {
        let mut model = timed();
        let wall = |model: &Model, pages: u64| model.at(pages * 4096, None).wall_ns;
        let recorded = model.swap_ins;
        assert_eq!(wall(&model, 1500), Some(4000 + 3 * recorded + 50));
        // Nothing is evicted with all memory, for swap-ins or for first touches.
        assert_eq!(wall(&model, 2000), Some(4000));
        let with_less = model.at(1000 * 4096, None);
        let reclaim = with_less.reclaim_ns.expect("it was recorded");
        assert!((90..=110).contains(&reclaim), "{with_less:?}");
        assert_eq!(
            with_less.wall_ns,
            Some(4000 + 3 * with_less.swap_ins + reclaim)
        );
        // What was not recorded stays in the program's own time.
        (model.reclaim_ns, model.own_ns) = (None, Some(4050));
        assert_eq!(wall(&model, 1500), Some(4050 + 3 * recorded));
        assert_eq!(model.at(1500 * 4096, None).reclaim_ns, None);
        model.swap_in_ns = None;
        assert_eq!(wall(&model, 1500), None);
    }

    #[test]
    fn enough_is_the_first_size_with_next_to_no_waiting() {
        let mut model = timed();
        let enough = model.enough_bytes(1500 * 4096).expect("times are known");
        // All pages in turn miss, until there are as many.
        assert!((1900 * 4096..=2000 * 4096).contains(&enough), "{enough}");
        let share = |bytes| model.waiting_share(bytes).expect("times are known");
        assert!(share(enough) < ENOUGH_SHARE);
        assert!(share(enough - 20 * 4096) >= ENOUGH_SHARE);
        assert_eq!(model.enough_bytes(2500 * 4096), Some(2500 * 4096));
        model.swap_in_ns = None;
        assert_eq!(model.enough_bytes(1500 * 4096), None);
    }

    #[test]
    fn what_is_locked_takes_room_and_swaps_no_more() {
        let model = model();
        let memory = 30 * 4096;
        let all_free = model.treated(memory, |_, _| Treatment::Free).swap_ins;
        assert_eq!(all_free, model.at(memory, None).swap_ins);
        let locked = |pages: u64| {
            let treated = model.treated(memory, |_, address| match address / 4096 < pages {
                true => Treatment::Locked,
                false => Treatment::Free,
            });
            treated.swap_ins
        };
        // In turn, all but the last few pages miss; of 20 locked, the other 20 do not fit in what is left.
        assert!(all_free > 3000, "{all_free}");
        let half = locked(20);
        assert!((1000..=2000).contains(&half), "{half}");
        // As many as fit beside what is locked.
        let most = locked(29);
        assert!(most > 500, "{most}");
        assert_eq!(locked(40), 0);
    }

    #[test]
    fn what_was_recorded_corrects_the_model() {
        let mut model = model();
        (model.limit_bytes, model.swap_ins, model.simulated) = (Some(1000), 500, 600);
        assert_eq!(model.corrected(1000, 600), 500);
        assert_eq!(model.corrected(500, 2600), 2500);
        assert_eq!(model.corrected(2000, 100), 100);
        // More memory never swaps more.
        assert_eq!(model.corrected(2000, 550), 500);
        assert_eq!(model.corrected(900, 550), 500);
        model.simulated = 400;
        assert_eq!(model.corrected(500, 2600), 2700);
        assert_eq!(model.corrected(2000, 100), 100);
    }

    #[test]
    fn where_accesses_were_looked_at_none_is_missing_and_what_is_too_much_is_so_in_proportion() {
        let mut model = model();
        (model.limit_bytes, model.swap_ins, model.simulated) = (Some(1000), 500, 400);
        model.was_looked_at = true;
        assert_eq!(model.corrected(500, 2600), 2700, "some pages stood for all");
        model.was_disturbed = true;
        assert_eq!(model.corrected(500, 2600), 2600);
        assert_eq!(model.corrected(900, 450), 450);
        assert_eq!(model.corrected(2000, 100), 100);
        model.simulated = 625;
        assert_eq!(model.corrected(500, 2600), 2475);
        assert_eq!(model.corrected(2000, 100), 80);
        assert_eq!(model.corrected(1000, 625), 500);
    }

    #[test]
    fn memory_that_other_things_took_is_given_up_before_there_is_no_room() {
        let mut model = model();
        (model.limit_bytes, model.overhead_pages) = (Some(100 * 4096), 60);
        let pages = [1000, 100, 90, 70, 50, 1, 0].map(|pages| model.pages_in(pages * 4096));
        assert_eq!(pages, [940, 40, 30, 14, 10, 1, 1]);
        model.limit_bytes = None;
        assert_eq!(model.pages_in(50 * 4096), 1);
    }

    #[test]
    fn what_is_streamed_leaves_room_to_the_others() {
        let model = model();
        let streamed = model.treated(30 * 4096, |_, address| match address / 4096 < 20 {
            true => Treatment::Streamed(0),
            false => Treatment::Free,
        });
        // 20 pages in three quarters of 30.
        assert_eq!(streamed.swap_ins, 0);
    }

    #[test]
    fn a_stream_is_left_alone_whose_pages_would_stay_until_they_are_wanted() {
        let model = model_of(3000);
        let left_alone = |memory: u64| {
            let treated = model.treated(memory * 4096, |_, address| match address / 4096 < 1000 {
                true => Treatment::Streamed(4),
                false => Treatment::Free,
            });
            treated.left_alone
        };
        // The other 2,000 fit, so that a round brings in no more than the stream.
        assert_eq!(left_alone(2900), [4]);
        // They do not, and each round brings in more than there is room for.
        assert!(left_alone(1500).is_empty());
    }
}
