//! Whether huge pages are worth it, as a function of numbers.
//!
//! Accessed bits tell how many translations a program wants in an interval, not how often. So what page walks cost is modelled
//! as if each accessed page was accessed at random, with some work beside; the least and most that are promised are those of
//! pages that are accessed once in the interval, and of hardly any work beside. Where more is known, [`Measured`] says it better.

use pagewise_plan::Prediction;
use pagewise_report::bytes;
use pagewise_simulate::hugepages::Cycles;
use pagewise_simulate::hugepages::Lookups;
use pagewise_simulate::hugepages::Tlb;

use super::measured::Measured;

/// What the TLB of usual processors reaches several times over with base pages is not worth a rule.
pub(super) const LEAST_BYTES: u64 = 32 << 20;
/// A smaller block may hold no whole region of 2 MiB, or little else.
pub(super) const LEAST_BLOCK: u64 = 4 << 20;
/// Of an object of which less is in memory, huge pages would bring in much that nobody has touched.
const LEAST_RESIDENT: f64 = 0.85;
/// Of an object of which less is accessed in an interval, huge pages would serve few accesses.
const LEAST_ACCESSED: f64 = 0.5;
/// Huge pages only where the program's peak is a smaller part of memory: where the manager's recovery would end.
const MOST_USED: f64 = 0.7;
/// A program that waits for swap for more of its time is short of memory.
const MOST_STALLED: f64 = 0.02;
/// Where more was in huge pages while it was recorded, coverage is not known.
const MOST_HUGE: f64 = 0.1;
/// What a rule has to promise, and all of them together: less is not told from noise.
const LEAST_SPEEDUP: f64 = 1.05;
/// For the most that is promised: cycles of work beside an access, as of one that a cache has.
pub(super) const LEAST_WORK: f64 = 50.0;
/// For the least: cycles in a ns.
const CYCLES_OF_NS: f64 = 3.0;
const PAGE_BYTES: f64 = 4096.0;
const REGION_PAGES: f64 = 512.0;

/// An object that may get a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    /// Its index.
    pub(super) object: usize,
    pub(super) bytes: u64,
    /// Of one allocation.
    pub(super) block_bytes: u64,
    /// Mean share in memory; `None`: not known.
    pub(super) resident_share: Option<f64>,
    /// The most of it that was in memory at once.
    pub(super) most_resident_share: Option<f64>,
    /// Of that, the share accessed in an interval.
    pub(super) accessed_share: f64,
    /// How often such a block was allocated.
    pub(super) allocations: f64,
    /// The share of the run in which it is accessed, at most.
    pub(super) accessed_time: f64,
}

/// The program, and the memory that the plan is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// Base pages accessed in an interval on average.
    pub(super) accessed_pages: f64,
    pub(super) interval_ns: f64,
    /// Of its memory, what was in huge pages while it was recorded.
    pub(super) huge_share: f64,
    /// Of its time, what it waited for swap.
    pub(super) stalled_share: f64,
    pub(super) memory_bytes: u64,
    pub(super) peak_bytes: Option<u64>,
    /// `None`: only coverage is known.
    pub(super) measured: Option<Measured>,
}

/// What is to be done about an object.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) candidate: Candidate,
    pub(super) is_huge: bool,
    pub(super) why: String,
    pub(super) predicted: Prediction,
}

/// All of them, and why none of them acts, if none does.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) choices: Vec<Choice>,
    pub(super) words: String,
}

pub(super) fn choose(candidates: &[Candidate], whole: &Whole, tlb: &Tlb) -> Chosen {
    let large: Vec<Candidate> = candidates
        .iter()
        .copied()
        .filter(|one| one.bytes >= LEAST_BYTES && one.block_bytes >= LEAST_BLOCK)
        .collect();
    if large.is_empty() {
        return Chosen {
            choices: Vec::new(),
            words: format!(
                "do nothing about huge pages: no object of {} or more in blocks of {} or more can have a rule",
                bytes(LEAST_BYTES),
                bytes(LEAST_BLOCK)
            ),
        };
    }
    let of_program = against(whole);
    let choices: Vec<Choice> = large
        .into_iter()
        .map(|candidate| {
            let predicted = predict(&[candidate], whole, tlb);
            let reason = of_program
                .clone()
                .or_else(|| of_object(&candidate, whole))
                .or_else(|| not_surely(&candidate, whole, tlb, &predicted))
                .or_else(|| too_little(&predicted));
            match reason {
                Some(why) => Choice {
                    candidate,
                    is_huge: false,
                    why,
                    predicted: NOTHING,
                },
                None => Choice {
                    candidate,
                    is_huge: true,
                    why: why(&candidate, whole, tlb),
                    predicted,
                },
            }
        })
        .collect();
    let words = of_program.unwrap_or_else(|| "no object would gain by them".to_owned());
    Chosen {
        choices,
        words: format!("do nothing about huge pages: {words}"),
    }
}

pub(super) const NOTHING: Prediction = Prediction {
    speedup: 1.0,
    low: 1.0,
    high: 1.0,
};

/// What speaks against any huge page in this program.
fn against(whole: &Whole) -> Option<String> {
    if whole.stalled_share >= MOST_STALLED {
        return Some(format!(
            "memory is short: the program waited for swap for {} of its time, and huge pages would take more",
            percent(whole.stalled_share)
        ));
    }
    match whole.peak_bytes {
        None => return Some("how much memory the program needs at most is not known".to_owned()),
        Some(peak) if peak as f64 > MOST_USED * whole.memory_bytes as f64 => {
            return Some(format!(
                "memory would be short: the program needs {} of {} at most, and huge pages are for where that is less than {}",
                bytes(peak),
                bytes(whole.memory_bytes),
                percent(MOST_USED)
            ));
        }
        Some(_) => {}
    }
    (whole.huge_share > MOST_HUGE).then(|| {
        format!(
            "{} of its memory was in huge pages while it was recorded, of whose base pages nothing is known; record it with \
             huge pages off (/sys/kernel/mm/transparent_hugepage/enabled)",
            percent(whole.huge_share)
        )
    })
}

/// What speaks against them in this object.
fn of_object(candidate: &Candidate, whole: &Whole) -> Option<String> {
    let Some(resident) = candidate.most_resident_share else {
        return Some("how much of it is in memory is not known".to_owned());
    };
    if resident < LEAST_RESIDENT {
        return Some(format!(
            "{} of it is in memory at most: huge pages would fill the rest with zeros",
            percent(resident)
        ));
    }
    (candidate.accessed_share < LEAST_ACCESSED).then(|| {
        format!(
            "{} of it is accessed within {:.1} s: too little to want huge pages",
            percent(candidate.accessed_share),
            whole.interval_ns / 1e9
        )
    })
}

fn too_little(predicted: &Prediction) -> Option<String> {
    (predicted.speedup < LEAST_SPEEDUP).then(|| {
        format!(
            "huge pages would make the run {:.2} times as fast: too little to tell from noise",
            predicted.speedup
        )
    })
}

/// What is measured speaks for itself: a plan that may make it slower is none.
fn not_surely(
    candidate: &Candidate,
    whole: &Whole,
    tlb: &Tlb,
    predicted: &Prediction,
) -> Option<String> {
    let measured = whole.measured.filter(|_| predicted.low <= 1.0)?;
    Some(format!(
        "with huge pages the run would be {:.2} times as fast ({:.2} to {:.2}): not surely faster{}",
        predicted.speedup,
        predicted.low,
        predicted.high,
        measured.words(&[*candidate], &per_lookup(&[*candidate], whole, tlb))
    ))
}

/// The basis of what is promised.
fn why(candidate: &Candidate, whole: &Whole, tlb: &Tlb) -> String {
    let per_lookup = per_lookup(&[*candidate], whole, tlb);
    let of_touches = whole
        .measured
        .map(|measured| measured.words(&[*candidate], &per_lookup));
    let work = whole
        .measured
        .and_then(|measured| measured.work(&per_lookup));
    let [before, after] = costs(&[*candidate], whole, tlb, work.unwrap_or(tlb.work));
    let basis = format!(
        "{} of it in memory, {} of that accessed within {:.1} s: by a model of the TLB ({tlb}), with accesses at random, page \
         walks go from {} to {} of all cycles",
        percent(candidate.resident_share.unwrap_or(0.0)),
        percent(candidate.accessed_share),
        whole.interval_ns / 1e9,
        percent(before.overhead()),
        percent(after.overhead())
    );
    basis + &of_touches.unwrap_or_default()
}

/// What huge pages for these objects promise.
pub(super) fn predict(huge: &[Candidate], whole: &Whole, tlb: &Tlb) -> Prediction {
    if let Some(measured) = &whole.measured {
        return measured.predict(huge, &per_lookup(huge, whole, tlb));
    }
    let once = whole.interval_ns * CYCLES_OF_NS / whole.accessed_pages.max(1.0);
    let speedup = |work: f64| {
        let [before, after] = costs(huge, whole, tlb, work);
        before.total() / after.total()
    };
    let likely = speedup(tlb.work);
    Prediction {
        speedup: likely,
        low: speedup(once.max(tlb.work)).min(likely),
        high: speedup(tlb.work.min(LEAST_WORK)).max(likely),
    }
}

/// Cycles of translation for each lookup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PerLookup {
    /// On base pages.
    pub(super) before: f64,
    /// Of these, of page walks.
    pub(super) walks: f64,
    /// With huge pages for some objects.
    pub(super) after: f64,
    /// Of other work, where no rate of accesses is known.
    pub(super) work: f64,
}

fn per_lookup(huge: &[Candidate], whole: &Whole, tlb: &Tlb) -> PerLookup {
    let [before, after] = costs(huge, whole, tlb, 0.0);
    let of_huge: f64 = huge.iter().map(accessed_pages).sum();
    let all = whole.accessed_pages.max(of_huge).max(1.0);
    PerLookup {
        before: before.total() / all,
        walks: before.walks / all,
        after: after.total() / all,
        work: tlb.work,
    }
}

/// Of an object, in an interval.
pub(super) fn accessed_pages(one: &Candidate) -> f64 {
    one.bytes as f64 / PAGE_BYTES * one.resident_share.unwrap_or(0.0) * one.accessed_share
}

/// Without, and with huge pages for these objects, with so many cycles of work beside each access.
fn costs(huge: &[Candidate], whole: &Whole, tlb: &Tlb, work: f64) -> [Cycles; 2] {
    let of_huge: f64 = huge.iter().map(accessed_pages).sum();
    let all = whole.accessed_pages.max(of_huge);
    let base = |pages: f64| Lookups {
        pages,
        lookups: pages,
        huge: false,
    };
    let mut with = vec![base(all - of_huge)];
    with.extend(huge.iter().map(|one| Lookups {
        pages: one.bytes as f64 / PAGE_BYTES / REGION_PAGES,
        lookups: accessed_pages(one),
        huge: true,
    }));
    [
        tlb.cost(&[base(all)], work * all),
        tlb.cost(&with, work * all),
    ]
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
