//! When pages of shared memory left memory. No recording tells of that, as the kernel has forgotten whose a page was by the time it
//! says that it goes; but a page that comes back had left, and scans see which are there.
//!
//! Time is counted in pages that came, each of which drives one out where memory is full. Pages are taken to stay equally long each time,
//! for so long that they are in memory for that share of the time in which scans saw them there. Regions that scans saw there more often
//! or less than others, by more than chance, have a time of their own: what is used often stays for long, whatever time passes until it
//! comes back again.

use std::collections::BTreeSet;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use pagewise_trace::SharedMemory;

use crate::history::Known;
use crate::history::What;
use crate::history::parts;
use crate::looks::REGION_SHIFT;

const REGION_WORDS: usize = 1 << (REGION_SHIFT - 6);
/// A region that differs from others by so many standard deviations differs not by chance.
const BY_CHANCE: f64 = 2.0;
/// Pages of a region come and go together where between scans it varies by so much of what it would if all did at a time.
const TOGETHER: f64 = 0.5;
/// A page that came back was away for this part of the time since it last came at least.
const LEAST_AWAY: u64 = 20;

/// A page was there when a scan began, and gone when the next one saw its place.
#[derive(Clone, Copy, Debug)]
struct Absence {
    since: u64,
    seen: u64,
}

fn is_arrival(what: What) -> bool {
    matches!(what, What::Touched | What::Faulted)
}

/// When pages came, in ns, ascending.
struct Arrivals(Vec<u64>);

impl Arrivals {
    fn of(known: &Known) -> Arrivals {
        let came = |&&(_, what): &&(u64, What)| is_arrival(what);
        let all = known
            .values()
            .flat_map(|moments| moments.iter().filter(came));
        let mut times: Vec<u64> = all.map(|&(at, _)| at).collect();
        times.sort_unstable();
        Arrivals(times)
    }

    /// How many had come by then.
    fn before(&self, at: u64) -> u64 {
        self.0.partition_point(|&came| came < at) as u64
    }

    /// When so many had come.
    fn time(&self, number: u64) -> u64 {
        let last = number.checked_sub(1).map(|last| self.0.get(last as usize));
        last.map_or(0, |last| last.copied().unwrap_or(u64::MAX))
    }
}

/// A page came, and left after so many others had come, as far as that is known.
#[derive(Clone, Copy, Debug)]
struct Stay {
    /// Where that it left is to stand among what is known of the page; `None`: it did not.
    place: Option<usize>,
    /// How many came before it.
    came: u64,
    /// Between these times it left, in ns.
    bounds: (u64, u64),
    least: u64,
    most: u64,
    /// Until it came back, or until the end.
    until: u64,
}

impl Stay {
    /// How long it is, if pages stay so long.
    fn clamp(&self, length: u64) -> u64 {
        if self.place.is_none() {
            return self.until;
        }
        let most = self.most - self.most / LEAST_AWAY;
        length.min(most).clamp(self.least, self.most)
    }

    /// When it ended, in ns, if pages stay so long.
    fn end(&self, length: u64, arrivals: &Arrivals) -> u64 {
        let (from, to) = self.bounds;
        arrivals
            .time(self.came + self.clamp(length))
            .clamp(from, to)
    }
}

/// A bit for each page of a region.
type Bits = [u64; REGION_WORDS];

/// What scans saw of a region.
#[derive(Clone, Default)]
struct Presence {
    /// Which pages are there, in the page tables of each address space that has some.
    here: Vec<(u32, Bits)>,
    /// Which ever were in any.
    ever: Bits,
    /// Of how many pages that had been touched scans saw how many, all added up.
    seen: u64,
    looked_for: u64,
    /// Scans since one saw a page of it.
    scans: u64,
    /// The squares of what share of its pages each of them saw, added up.
    squares: f64,
}

impl Presence {
    fn set(&mut self, space: u32, page: u64, is_here: bool) {
        let (word, bit) = place(page);
        let of_space = self.here.iter().position(|&(other, _)| other == space);
        let of_space = of_space.unwrap_or_else(|| {
            self.here.push((space, [0; REGION_WORDS]));
            self.here.len() - 1
        });
        let here = &mut self.here[of_space].1;
        here[word] &= !bit;
        if is_here {
            here[word] |= bit;
            self.ever[word] |= bit;
        }
    }

    /// Whether a page is in the tables of any address space.
    fn has(&self, page: u64) -> bool {
        let (word, bit) = place(page);
        self.here.iter().any(|(_, here)| here[word] & bit != 0)
    }

    fn end_scan(&mut self) {
        let ever = count(&self.ever);
        let here = |word: usize| {
            self.here
                .iter()
                .fold(0, |here, (_, of_space)| here | of_space[word])
        };
        let seen = count(&std::array::from_fn(here));
        self.seen += seen;
        self.looked_for += ever;
        self.scans += u64::from(ever > 0);
        self.squares += (seen as f64 / ever.max(1) as f64).powi(2);
    }

    /// Whether scans saw it there more often than such a share of times, or less, by more than chance. Where its pages, which came so
    /// often in all, come and go together, as a sweep has it, all scans of a stay are one.
    fn differs_from(&self, share: f64, arrivals: u64) -> bool {
        let Some(own) = share_of([self]) else {
            return false;
        };
        let scans = self.scans as f64;
        let variance = self.squares / scans - own * own;
        let stays = match variance > TOGETHER * own * (1.0 - own) {
            true => (arrivals as f64 / count(&self.ever).max(1) as f64).min(scans),
            false => scans,
        };
        let deviation = (share * (1.0 - share) / stays.max(1.0)).sqrt();
        (own - share).abs() > BY_CHANCE * deviation
    }
}

fn count(bits: &Bits) -> u64 {
    bits.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// The word and the bit of a page in its region.
fn place(page: u64) -> (usize, u64) {
    let place = page as usize & ((1 << REGION_SHIFT) - 1);
    (place / 64, 1 << (place % 64))
}

/// Of the time, that pages of these regions were there; `None`: no scan tells.
fn share_of<'a>(regions: impl IntoIterator<Item = &'a Presence>) -> Option<f64> {
    let all = regions
        .into_iter()
        .fold((0, 0), |(seen, looked_for), region| {
            (seen + region.seen, looked_for + region.looked_for)
        });
    (all.1 > 0).then(|| all.0 as f64 / all.1 as f64)
}

/// How long pages of shared memory stay, in pages that come meanwhile.
#[derive(Debug, Default)]
pub(crate) struct UsualStays {
    /// By region, of those that differ from the others; `None`: of these.
    of_groups: HashMap<Option<u64>, u64, RandomState>,
}

impl UsualStays {
    /// Of the page of a key that left; `None`: none did.
    pub(crate) fn of(&self, key: u64) -> Option<u64> {
        let own = self.of_groups.get(&Some(key >> REGION_SHIFT));
        own.or(self.of_groups.get(&None)).copied()
    }
}

pub(crate) struct Departures<'m> {
    memory: &'m SharedMemory,
    shift: u32,
    absences: HashMap<u64, Vec<Absence>, RandomState>,
    /// By number.
    regions: HashMap<u64, Presence, RandomState>,
    /// Pages that came back before any scan had seen them, and when, by address.
    unseen: Vec<(u64, u64)>,
}

impl<'m> Departures<'m> {
    /// `known`: by events only.
    pub(crate) fn new(memory: &'m SharedMemory, shift: u32, known: &Known) -> Self {
        let mut departures = Self {
            memory,
            shift,
            absences: HashMap::default(),
            regions: HashMap::default(),
            unseen: Vec::new(),
        };
        let first = known.iter().filter_map(|(&key, moments)| {
            let &(at, what) = moments.first()?;
            (what == What::Faulted && departures.is_shared(key)).then_some((key, at))
        });
        departures.unseen = first.collect();
        departures.unseen.sort_unstable();
        departures
    }

    pub(crate) fn is_shared(&self, key: u64) -> bool {
        let (space, page) = parts(key);
        self.memory.has(space, page << self.shift)
    }

    /// Where shared memory is.
    pub(crate) fn memory(&self) -> &'m SharedMemory {
        self.memory
    }

    /// A scan of an address space saw the place of a page without it, though its mapping is still there; both times are the program's own.
    /// As long as others have it, it is there.
    pub(crate) fn note_absent(&mut self, space: u32, key: u64, since: u64, seen: u64) {
        let presence = self.presence_of(key);
        presence.set(space, key, false);
        if !presence.has(key) {
            let of_page = self.absences.entry(key).or_default();
            of_page.push(Absence { since, seen });
        }
    }

    /// A scan of an address space saw a page of shared memory.
    pub(crate) fn note_here(&mut self, space: u32, key: u64) {
        self.presence_of(key).set(space, key, true);
    }

    /// An address space is no more.
    pub(crate) fn note_end(&mut self, space: u32) {
        for presence in self.regions.values_mut() {
            presence.here.retain(|&(other, _)| other != space);
        }
    }

    fn presence_of(&mut self, key: u64) -> &mut Presence {
        self.regions.entry(key >> REGION_SHIFT).or_default()
    }

    /// All that a scan saw has been noted.
    pub(crate) fn end_scan(&mut self) {
        self.regions.values_mut().for_each(Presence::end_scan);
    }

    /// Pages that must have been touched with those that a scan found new, in order of address: they lie between them, and came back
    /// later than this without having been seen.
    pub(crate) fn unseen_among(&mut self, new: &[u64], since: u64) -> Vec<u64> {
        let shared = |key: &&u64| self.is_shared(**key);
        let (Some(&first), Some(&last)) = (new.iter().find(shared), new.iter().rev().find(shared))
        else {
            return Vec::new();
        };
        let from = self.unseen.partition_point(|&(key, _)| key < first);
        let to = self.unseen.partition_point(|&(key, _)| key <= last);
        let found = self.unseen[from..to].iter();
        let found: Vec<u64> = found
            .filter(|&&(_, at)| at > since)
            .map(|&(key, _)| key)
            .collect();
        self.unseen
            .retain(|(key, _)| found.binary_search(key).is_err());
        found
    }

    /// Adds when they left to what is `known` of pages. `share`: of the time, that a page of which no scan tells is there; `scans`: when
    /// those of an address space began, ascending. Returns how long they stayed.
    pub(crate) fn add(
        mut self,
        share: f64,
        scans: impl Fn(u32) -> Vec<u64>,
        known: &mut Known,
    ) -> UsualStays {
        if !known.keys().any(|&key| self.is_shared(key)) {
            return UsualStays::default();
        }
        self.touch_unseen(known);
        let arrivals = Arrivals::of(known);
        let shared = |(key, _): &(&u64, _)| self.is_shared(**key);
        let spaces: BTreeSet<u32> = known.keys().map(|&key| parts(key).0).collect();
        let scans: HashMap<u32, Vec<u64>> = spaces
            .into_iter()
            .map(|space| (space, scans(space)))
            .collect();
        let (share, own_shares) = self.shares(share, known);
        // Regions that do not differ from others have one time together.
        let group =
            |key: u64| Some(key >> REGION_SHIFT).filter(|region| own_shares.contains_key(region));
        let mut stays: HashMap<Option<u64>, Vec<Stay>, RandomState> = HashMap::default();
        for (&key, moments) in known.iter().filter(shared) {
            let of_group = stays.entry(group(key)).or_default();
            of_group.extend(self.stays(key, moments, &scans, &arrivals));
        }
        let length = |(&group, stays): (&Option<u64>, &Vec<Stay>)| {
            let own = group.and_then(|region| own_shares.get(&region));
            (group, length_of(*own.unwrap_or(&share), stays))
        };
        let lengths: HashMap<Option<u64>, u64, RandomState> = stays.iter().map(length).collect();
        let of_groups = stays
            .iter()
            .filter_map(|(&group, stays)| Some((group, mean_of_ended(lengths[&group], stays)?)));
        let usual: HashMap<Option<u64>, u64, RandomState> = of_groups.collect();
        for (&key, moments) in known.iter_mut().filter(|(key, _)| self.is_shared(**key)) {
            let length = lengths.get(&group(key)).copied().unwrap_or(0);
            let stays: Vec<Stay> = self.stays(key, moments, &scans, &arrivals).collect();
            for stay in stays.into_iter().rev() {
                if let Some(place) = stay.place {
                    moments.insert(place, (stay.end(length, &arrivals), What::Evicted));
                }
            }
        }
        UsualStays { of_groups: usual }
    }

    /// Of the time, that a page is there, and that one is of a region that differs from the others; `otherwise`: where no scan tells.
    fn shares(&self, otherwise: f64, known: &Known) -> (f64, HashMap<u64, f64, RandomState>) {
        let all = share_of(self.regions.values()).unwrap_or(otherwise);
        let arrivals = arrivals_of_regions(known);
        let differs = |number: &u64, region: &Presence| {
            let arrivals = arrivals.get(number).copied().unwrap_or(0);
            region.differs_from(all, arrivals)
        };
        let (different, alike): (Vec<_>, Vec<_>) = self
            .regions
            .iter()
            .partition(|(number, region)| differs(number, region));
        let own = different
            .into_iter()
            .filter_map(|(&number, region)| Some((number, share_of([region])?)));
        let alike = share_of(alike.into_iter().map(|(_, region)| region));
        (alike.unwrap_or(all), own.collect())
    }

    /// All stays of a page.
    fn stays<'a>(
        &'a self,
        key: u64,
        moments: &'a [(u64, What)],
        scans: &'a HashMap<u32, Vec<u64>>,
        arrivals: &'a Arrivals,
    ) -> impl Iterator<Item = Stay> + 'a {
        let scans = scans.get(&parts(key).0).map_or(&[][..], Vec::as_slice);
        let absences = self.absences.get(&key).map_or(&[][..], Vec::as_slice);
        let nothing = (u64::MAX, What::Gone);
        let nexts = moments.iter().skip(1).copied().chain([nothing]);
        let pairs = moments.iter().zip(nexts).enumerate();
        pairs.filter_map(move |(place, (&(came, what), (next, then)))| {
            if what == What::Gone {
                return None;
            }
            let known = bounds(came, next, then, absences, scans);
            let came = arrivals.before(came);
            let until = |at: u64| arrivals.before(at) - came;
            let bounds = known.unwrap_or((next, next));
            Some(Stay {
                place: known.map(|_| place + 1),
                came,
                bounds,
                least: until(bounds.0),
                most: until(bounds.1),
                until: until(next),
            })
        })
    }

    /// What no scan saw at all came first when nothing had come back yet.
    fn touch_unseen(&mut self, known: &mut Known) {
        let Some(first) = self.unseen.iter().map(|&(_, at)| at).min() else {
            return;
        };
        for (key, _) in self.unseen.drain(..) {
            known
                .entry(key)
                .or_default()
                .insert(0, (first, What::Touched));
        }
    }
}

/// How often pages of each region came.
fn arrivals_of_regions(known: &Known) -> HashMap<u64, u64, RandomState> {
    let mut arrivals: HashMap<u64, u64, RandomState> = HashMap::default();
    for (key, moments) in known {
        let came = moments.iter().filter(|&&(_, what)| is_arrival(what));
        *arrivals.entry(key >> REGION_SHIFT).or_default() += came.count() as u64;
    }
    arrivals
}

/// How long those stays are that ended, if pages stay so long; `None`: none did.
fn mean_of_ended(length: u64, stays: &[Stay]) -> Option<u64> {
    let ended = stays.iter().filter(|stay| stay.place.is_some());
    let (count, sum) = ended.fold((0, 0), |(count, sum), stay| {
        (count + 1, sum + stay.clamp(length))
    });
    (count > 0).then(|| sum / count)
}

/// How long pages stay, so that they are there for such a share of the time in which they could have been.
fn length_of(share: f64, stays: &[Stay]) -> u64 {
    let all: u64 = stays.iter().map(|stay| stay.until).sum();
    let wanted = (all as f64 * share) as u64;
    let (mut short, mut long) = (0, stays.iter().map(|stay| stay.most).max().unwrap_or(0));
    while short < long {
        let between = short.midpoint(long);
        match stays.iter().map(|stay| stay.clamp(between)).sum::<u64>() < wanted {
            true => short = between + 1,
            false => long = between,
        }
    }
    short
}

/// Between what times a page left that came then, and what happened to it next; `None`: nothing says that it left.
fn bounds(
    came: u64,
    next: u64,
    what: What,
    absences: &[Absence],
    scans: &[u64],
) -> Option<(u64, u64)> {
    let first = absences.partition_point(|absence| absence.seen <= came);
    let absence = absences[first..]
        .first()
        .filter(|absence| absence.seen < next);
    if let Some(absence) = absence {
        return Some((absence.since.max(came).min(absence.seen), absence.seen));
    }
    // Each scan until then saw it.
    let before = scans.partition_point(|&begin| begin < next);
    let last = before.checked_sub(1).map_or(came, |last| scans[last]);
    (what == What::Faulted).then_some((last.clamp(came, next), next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::key;

    const SHIFT: u32 = 12;

    fn shared(pages: u64) -> SharedMemory {
        SharedMemory::of(1, &[(0, pages << SHIFT)])
    }

    fn known(pages: impl IntoIterator<Item = (u64, Vec<(u64, What)>)>) -> Known {
        pages
            .into_iter()
            .map(|(page, moments)| (key(1, page), moments))
            .collect()
    }

    #[test]
    fn without_scans_a_page_stays_for_the_share_of_all_memory() {
        // Six pages in a loop through memory for three.
        let pages = (0..6).map(|page| {
            let came = [10 + page, 20 + page, 30 + page];
            let what = [What::Touched, What::Faulted, What::Faulted];
            (page, came.into_iter().zip(what).collect())
        });
        let mut known = known(pages);
        let memory = shared(6);
        let departures = Departures::new(&memory, SHIFT, &known);
        departures.add(0.5, |_| Vec::new(), &mut known);
        let left = |page| -> Vec<u64> {
            let moments = known[&key(1, page)].iter();
            let left = moments.filter(|(_, what)| *what == What::Evicted);
            left.map(|&(at, _)| at).collect()
        };
        assert_eq!(left(0), [12, 22]);
        assert_eq!(left(3), [15, 25]);
    }

    #[test]
    fn scans_bound_when_it_left() {
        let page = |moments: &[(u64, What)]| known([(0, moments.to_vec())]);
        let came = [(10, What::Touched), (90, What::Faulted)];
        let memory = shared(1);
        let left = |departures: Departures, mut known: Known| {
            departures.add(0.0, |_| vec![5, 30, 60], &mut known);
            let moments = known.remove(&key(1, 0)).expect("it is known");
            let left = moments
                .into_iter()
                .filter(|(_, what)| *what == What::Evicted);
            left.map(|(at, _)| at).collect::<Vec<u64>>()
        };
        // The last scan still saw it.
        let seen = page(&came);
        assert_eq!(left(Departures::new(&memory, SHIFT, &seen), seen), [60]);
        // A scan between 30 and 60 did not; after its return it is gone again.
        let gone = page(&came);
        let mut departures = Departures::new(&memory, SHIFT, &gone);
        departures.note_absent(1, key(1, 0), 30, 62);
        departures.note_absent(1, key(1, 0), 80, 120);
        assert_eq!(left(departures, gone), [30, 90]);
    }

    #[test]
    fn a_page_is_there_as_long_as_one_process_has_it() {
        let memory = shared(9).with_children(&[(2, 1)]);
        let mut departures = Departures::new(&memory, SHIFT, &known([]));
        let page = key(departures.memory().home(2, 7 << SHIFT), 7);
        assert_eq!(page, key(1, 7));
        departures.note_here(1, page);
        departures.note_here(2, page);
        departures.end_scan();
        departures.note_absent(1, page, 10, 20);
        departures.end_scan();
        assert!(departures.absences.is_empty());
        departures.note_absent(2, page, 20, 30);
        departures.end_scan();
        assert_eq!(departures.absences[&page].len(), 1);
        let region = &departures.regions[&(page >> REGION_SHIFT)];
        assert_eq!((region.seen, region.looked_for), (2, 3));
        // A child that has ended has nothing.
        departures.note_here(2, page);
        departures.note_end(2);
        assert!(!departures.regions[&(page >> REGION_SHIFT)].has(page));
    }

    #[test]
    fn what_scans_mostly_see_stays_for_long() {
        let loops = |page: u64, round: u64| {
            let later = (1..9).map(move |number| (page + number * round, What::Faulted));
            (
                page,
                [(page, What::Touched)]
                    .into_iter()
                    .chain(later)
                    .collect::<Vec<_>>(),
            )
        };
        // One region is seen in nine scans of ten, the other in one. A private page comes at each time, so that times are counts.
        let private = (0..850).map(|at| (at, What::Faulted)).collect();
        let mut known = known([loops(0, 100), loops(600, 100), (5000, private)]);
        let memory = shared(1024);
        let mut departures = Departures::new(&memory, SHIFT, &known);
        for scan in 0..10 {
            departures.presence_of(key(1, 0)).set(1, 0, scan != 0);
            departures.presence_of(key(1, 600)).set(1, 600, scan == 0);
            departures.end_scan();
        }
        departures.add(0.0, |_| Vec::new(), &mut known);
        let left = |page, from: u64| {
            let mut moments = known[&key(1, page)].iter();
            let (left, what) = *moments.find(|(at, _)| *at > from).expect("it goes on");
            assert_eq!(what, What::Evicted);
            left - from
        };
        assert!((85..=95).contains(&left(0, 200)), "{}", left(0, 200));
        assert!((3..=15).contains(&left(600, 800)), "{}", left(600, 800));
    }

    #[test]
    fn regions_of_a_sweep_do_not_differ_by_when_scans_came() {
        const PAGES: u64 = 1 << REGION_SHIFT;
        // All its pages are seen by one scan in five, or a fifth of its pages by each.
        let seen = |together: bool| {
            let mut presence = Presence::default();
            for page in 0..PAGES {
                presence.set(1, page, true);
            }
            for scan in 0..25 {
                for page in 0..PAGES {
                    let turn = if together { scan } else { scan + page };
                    presence.set(1, page, turn % 5 == 0);
                }
                presence.end_scan();
            }
            presence
        };
        assert!(!seen(true).differs_from(0.55, 6 * PAGES));
        assert!(seen(true).differs_from(0.55, 25 * PAGES));
        assert!(seen(false).differs_from(0.55, 6 * PAGES));
        assert!(!seen(false).differs_from(0.25, 6 * PAGES));
    }

    #[test]
    fn stays_are_as_long_as_usual_whatever_scans_saw_of_each() {
        let come = |page: u64| {
            let came = (0..8).map(move |round| (page + 600 * round, What::Faulted));
            (page, came.collect::<Vec<_>>())
        };
        let mut known = known((0..600).map(come));
        let memory = shared(600);
        let departures = Departures::new(&memory, SHIFT, &known);
        let scans = |_| (0..8).map(|scan| 450 * scan).collect();
        let stays = departures.add(0.5, scans, &mut known);
        let usual = stays.of(key(1, 3)).expect("it is shared");
        assert!((290..=310).contains(&usual), "{usual}");
        // Each left before each of its returns: also before the first, as no scan saw it come.
        let left = known.values().flatten();
        let left = left.filter(|(_, what)| *what == What::Evicted);
        assert_eq!(left.count(), 600 * 8);
        assert_eq!(UsualStays::default().of(key(1, 3)), None);
    }

    #[test]
    fn short_times_until_a_page_comes_back_count_as_they_are() {
        let stays = |most: &[u64]| -> Vec<Stay> {
            let stay = |&most: &u64| Stay {
                place: Some(1),
                came: 0,
                bounds: (0, most),
                least: 0,
                most,
                until: most,
            };
            most.iter().map(stay).collect()
        };
        assert_eq!(length_of(0.5, &stays(&[100, 10, 100, 100])), 49);
        assert_eq!(length_of(1.0, &stays(&[100, 10])), 95 + 5);
        assert_eq!(length_of(0.5, &[]), 0);
    }

    #[test]
    fn private_pages_are_left_alone() {
        let mut known = known([(7, vec![(10, What::Touched), (20, What::Faulted)])]);
        let before = known.clone();
        Departures::new(&shared(7), SHIFT, &known).add(0.0, |_| Vec::new(), &mut known);
        assert_eq!(known, before);
    }

    #[test]
    fn what_left_between_two_scans_was_touched_with_its_neighbours() {
        let known = known((0..5).map(|page| (page, vec![(50 + page, What::Faulted)])));
        let memory = shared(9);
        let mut departures = Departures::new(&memory, SHIFT, &known);
        let new = [key(1, 0), key(1, 2), key(1, 8)];
        assert_eq!(
            departures.unseen_among(&new, 51),
            [2, 3, 4].map(|page| key(1, page))
        );
        assert_eq!(departures.unseen_among(&new, 51), [0; 0], "once");
        let mut known = known;
        departures.add(0.0, |_| Vec::new(), &mut known);
        assert_eq!(known[&key(1, 1)][0], (50, What::Touched));
    }
}
