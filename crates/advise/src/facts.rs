//! What advice goes by, of one object or of several that one rule is about.

use pagewise_analyze::Counts;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectKind;
use pagewise_analyze::Pattern;
use pagewise_analyze::PatternFacts;
use pagewise_analyze::Phase;
use pagewise_analyze::heap_bytes_of_block;
use pagewise_report::bytes as bytes_text;

use crate::heat::Heat;
use crate::heat::SWAP_INS_OF_CELL;
use crate::subjects::Subject;

/// A block below this is not looked at by the preloaded library: the allocators keep such ones on shared pages.
pub(crate) const SMALLEST_BLOCK: u64 = 64 << 10;
/// Objects below this are not worth a rule.
const SMALLEST_OBJECT: u64 = 1 << 20;

/// To the preloaded library, blocks of a rule that lie side by side are one piece, but for those of this size and above.
const LEAST_ALONE: u64 = 16 << 20;
/// It follows sweeps in so many pieces at once,
const MOST_FOLLOWED: u64 = 64;
/// of at least this size,
const LEAST_FOLLOWED: u64 = 1 << 20;
/// and keeps account of so many pieces with locks.
const MOST_OBJECTS: u64 = 512;
/// Of a sweep in wider steps, pages, too little is used of what is read ahead.
const MOST_STRIDE: u64 = 4;
/// Whether sweeps begin ever later shows in so small a part of an object.
const FIRST_PART: u64 = 8;
/// What comes back less than so many times as often as all of an object comes back seldom.
const SELDOM: f64 = 0.75;
/// Sweeps that go on for less than so many times of what is read ahead of them,
const RUN_OF_AHEAD: u64 = 2;
/// and of so many parts of what they are over, are somewhere else before that is of much use.
const RUNS_OF_PIECE: u64 = 4;
/// Bytes that a swap-in brings at least.
pub(crate) const PAGE: u64 = 4096;
/// What left once comes back no more often than so many times a page, and so many times what came back or stayed away has left.
const ABOUT_ONCE: f64 = 1.15;
/// Surely, where so small a part does less than so many times as often,
const BEGINNING: u64 = 32;
const HARDLY_EVER: f64 = 0.4;
/// and its first part less than so many.
const MORE_SELDOM: f64 = 0.6;
/// and its last part more than so many.
const MORE_OFTEN: f64 = 1.05;
/// A phase counts if it has this share of an object's swap-ins.
const LEAST_PHASE: f64 = 0.1;
/// Of what is in use, at most so large a part has left memory now and then.
const HARDLY_ANY: f64 = 0.15;
/// Of what is gone less than one byte in so many was there, on average of all swap-ins, and less than one of so many pages came back.
const GONE: u64 = 16;

/// Of one object, or of several that one rule is about.
#[derive(Clone, Debug)]
pub(crate) struct ObjectFacts {
    /// For people.
    pub(crate) name: String,
    /// Most bytes alive at once; 0: unknown.
    pub(crate) bytes: u64,
    pub(crate) swap_ins: u64,
    pub(crate) stall_ns: u64,
    /// How often its pages came back on average, of those that did.
    pub(crate) returns: f64,
    pub(crate) pattern: Option<Pattern>,
    /// How many pages on it goes at a time, where that is more than one.
    pub(crate) stride_pages: Option<u64>,
    /// How often it was passed over while it was swept, by how long its pages stayed away; 0: not known.
    pub(crate) swept_rounds: f64,
    /// How often a page of it is wanted, for each ns that it is out of memory; `None`: not known.
    pub(crate) wanted_rate: Option<f64>,
    /// Mean share in memory, 0 to 1.
    pub(crate) resident_share: Option<f64>,
    /// It was freed before most of what came back did, so that it takes no memory from anybody.
    pub(crate) is_gone: bool,
    /// What of it left once, came back once, and was in memory then; 0: it left again, or that is not known.
    pub(crate) stays_once_back_bytes: u64,
    /// Of small blocks, whose places are not known: how much they had on average while the program swapped, if hardly any of it left; else 0.
    pub(crate) never_left_bytes: u64,
    /// How much of it ever left memory and came back, or was alive at once if that is more: of small blocks, only some are recorded.
    pub(crate) touched_bytes: u64,
    /// How large a block is on average.
    pub(crate) block_bytes: u64,
    /// In how many pieces its blocks lie, as the preloaded library sees it.
    pub(crate) pieces: u64,
    /// Whether a rule can be made for it at all.
    pub(crate) can_have_rule: bool,
    /// Whether it is gone through in wide steps or in no order in a part of the run that counts.
    pub(crate) has_other_phases: bool,
    /// It is gone through in wide steps, by pages of its own each time.
    pub(crate) has_no_turns: bool,
    /// How far a sweep goes on before it is elsewhere, bytes; `None`: not known.
    pub(crate) run_bytes: Option<u64>,
    /// What is touched of it in one pass in wide steps, bytes; 0: there are none.
    pub(crate) pass_bytes: u64,
    /// Whether it is one block, so that a part of it is the same part all the time.
    pub(crate) is_one_block: bool,
    /// Whether it is several blocks of which a part is the same part in another run ([`crate::layouts`]).
    pub(crate) is_laid_out: bool,
    /// The share of its pages that were written while they were in memory, as looks at them tell; `None`: nobody looked, or at too few.
    pub(crate) seen_written: Option<f64>,
    /// It came back though nobody saw it leave, as shared memory does.
    pub(crate) left_unseen: bool,
    /// Which parts of it are accessed most; `None`: that was not looked at.
    pub(crate) heat: Option<Heat>,
}

impl ObjectFacts {
    pub(crate) fn of(subject: &Subject<'_>) -> Self {
        let first = subject.first();
        let kind = first.identity.kind;
        let bytes = subject.sum(|object| object.bytes.unwrap_or(0));
        let swap_ins = subject.sum(|object| object.counts.swap_ins);
        let distinct_pages = subject.sum(|object| object.distinct_pages);
        let most_alive = subject.sum(|object| object.most_alive);
        // What is made again and again is no smaller for that.
        let block_bytes = bytes / most_alive.max(1);
        let is_heap = subject.is_heap();
        let pieces = match is_heap || block_bytes < LEAST_ALONE {
            true => subject.sum(|object| object.stretches.min(object.most_alive)),
            false => most_alive,
        };
        let is_named = matches!(kind, ObjectKind::Allocation | ObjectKind::Global) || is_heap;
        Self {
            name: subject.name(),
            bytes,
            swap_ins,
            stall_ns: subject.sum(|object| object.counts.stall_ns),
            returns: swap_ins as f64 / distinct_pages.max(1) as f64,
            pattern: first.pattern,
            stride_pages: first
                .pattern_facts
                .as_ref()
                .and_then(|facts| facts.stride_pages),
            swept_rounds: swept_rounds(first),
            wanted_rate: None,
            resident_share: subject.mean(|object| object.resident_share),
            is_gone: subject.objects.iter().all(|object| is_gone(object)),
            stays_once_back_bytes: stays_once_back_bytes(&subject.objects, bytes, distinct_pages),
            never_left_bytes: subject.sum(never_left_bytes),
            touched_bytes: bytes.max(distinct_pages * PAGE),
            block_bytes,
            pieces: pieces.max(1),
            // Of what grows, the first blocks are small, and sampled: what counts is how large one is on average.
            can_have_rule: is_named
                && bytes >= SMALLEST_OBJECT
                && (block_bytes >= SMALLEST_BLOCK || kind == ObjectKind::Global || is_heap),
            has_other_phases: subject
                .objects
                .iter()
                .any(|object| has_other_phases(object)),
            has_no_turns: has_no_turns(first),
            run_bytes: first
                .pattern_facts
                .as_ref()
                .map(|facts| facts.run_pages * PAGE),
            pass_bytes: subject
                .objects
                .iter()
                .map(|object| (share_of_pass(object) * block_bytes as f64) as u64)
                .sum(),
            // What lies where in the heap is another thing in another run.
            is_one_block: subject.objects.len() == 1 && most_alive <= 1 && !is_heap,
            is_laid_out: false,
            seen_written: subject.counts().write_share(true),
            left_unseen: subject.counts().known_evictions().is_none(),
            heat: None,
        }
    }

    /// Why no rule can be made for it, of what is an allocation or a variable.
    pub(crate) fn why_no_rule(&self) -> String {
        if self.bytes < SMALLEST_OBJECT {
            return format!(
                "it is {}: what is smaller than {} is not worth a rule",
                bytes_text(self.bytes),
                bytes_text(SMALLEST_OBJECT)
            );
        }
        format!(
            "its blocks are {} each on average: those below {} share their pages with others, and are not looked at",
            bytes_text(self.block_bytes),
            bytes_text(SMALLEST_BLOCK)
        )
    }

    /// Whether a part of it may be used again and again while the rest is not, in no order, and could be told from it. Of passes by pages of their
    /// own it cannot: where these cross, a few pages are always in use and in memory, which swap-ins do not tell of (paths back through a table
    /// of dynamic programming, where a lock of what came back most made it 0.7 times as fast).
    pub(crate) fn may_have_hot_part(&self) -> bool {
        self.shows_heat() && !self.is_swept() && !self.has_no_turns
    }

    /// Whether it may be used at random although its pages come back after times that are alike: where most of what is used seldom is in memory, it
    /// is what the kernel takes to come by it that is alike.
    pub(crate) fn may_be_random(&self) -> bool {
        self.pattern == Some(Pattern::UnorderedLoop) && !self.has_no_turns
    }

    /// The same, taken to be used at random.
    pub(crate) fn at_random(&self) -> Self {
        Self {
            pattern: Some(Pattern::Random),
            wanted_rate: self.heat.as_ref().and_then(Heat::rate).or(self.wanted_rate),
            ..self.clone()
        }
    }

    /// Whether what is seen of it tells how often its pages are used: not of passes that cross, nor in wide steps, of which each takes but little of
    /// a page.
    pub(crate) fn tells_uses(&self) -> bool {
        !self.has_no_turns && self.pass_bytes == 0
    }

    /// Whether enough came back to tell its parts apart, and a rule may. Of several blocks each may be swept by itself, so that where a sweep
    /// begins says nothing.
    pub(crate) fn shows_heat(&self) -> bool {
        let has_parts = self.is_one_block || self.is_laid_out && !self.is_swept();
        self.can_have_rule && has_parts && self.swap_ins >= 2 * SWAP_INS_OF_CELL
    }

    /// Whether a part of it is known again in another run.
    pub(crate) fn has_parts(&self) -> bool {
        self.is_one_block || self.is_laid_out
    }

    /// Whether it is passed over in an order that is the same each time, so that a page's turn can be foreseen: least-recently-used
    /// order then keeps those that come last.
    pub(crate) fn is_swept(&self) -> bool {
        self.pattern.is_some_and(is_sweep) && !self.has_no_turns
    }

    /// Whether its first so many bytes came back more seldom than the rest.
    pub(crate) fn starts_seldom(&self, bytes: u64) -> bool {
        self.returns_at_start(bytes)
            .is_some_and(|returns| returns < SELDOM)
    }

    /// Whether its sweeps begin ever later.
    pub(crate) fn begins_ever_later(&self) -> bool {
        self.starts_seldom(self.bytes / FIRST_PART)
    }

    /// The same, and that it is no chance: the beginning, which the kernel may have kept for a while, or which may be hot, comes back more seldom
    /// than what follows, that more seldom than the rest, and the end, which is in all sweeps, more often.
    pub(crate) fn surely_begins_ever_later(&self) -> bool {
        let returns = |part| self.returns_at_start(self.bytes / part);
        let graded = returns(BEGINNING).zip(returns(FIRST_PART));
        let begins = graded.is_some_and(|(beginning, first)| {
            beginning < HARDLY_EVER && beginning < first && first < MORE_SELDOM
        });
        begins
            && self
                .returns_at_end(FIRST_PART)
                .is_some_and(|end| end > MORE_OFTEN)
    }

    /// How often a page of the last of so many parts came back, in terms of one of the whole.
    fn returns_at_end(&self, parts: u64) -> Option<f64> {
        let before = self.returns_at_start(self.bytes - self.bytes / parts)?;
        let parts = parts as f64;
        Some(parts - (parts - 1.0) * before)
    }

    fn returns_at_start(&self, bytes: u64) -> Option<f64> {
        self.heat.as_ref()?.returns_at_start(bytes)
    }

    /// How far its sweeps go on, if that is so little that much of what is read ahead of them, so many bytes, is in vain. The end of a piece is known.
    pub(crate) fn short_runs(&self, ahead: u64) -> Option<u64> {
        let is_short =
            |run: &u64| *run < RUN_OF_AHEAD * ahead && *run < self.piece_bytes() / RUNS_OF_PIECE;
        self.run_bytes.filter(is_short)
    }

    /// Why a sweep over it cannot be read ahead of; `None`: it can.
    pub(crate) fn why_not_ahead(&self) -> Option<String> {
        if self.pattern == Some(Pattern::UnorderedLoop) {
            return Some("its pages come in no order of their addresses".to_owned());
        }
        if let Some(pages) = self.stride_pages.filter(|&pages| pages > MOST_STRIDE) {
            // Of what is read, most would be in vain.
            return Some(format!(
                "its steps are of {pages} pages, and reading ahead goes page by page"
            ));
        }
        if self.has_other_phases {
            return Some(
                "in another part of the run it is gone through in wide steps or in no order"
                    .to_owned(),
            );
        }
        if self.pieces > MOST_FOLLOWED {
            return Some(format!(
                "it is in {} pieces, and sweeps are followed in {MOST_FOLLOWED} at once",
                self.pieces
            ));
        }
        let piece_bytes = self.piece_bytes();
        (self.pieces > 1 && piece_bytes < LEAST_FOLLOWED).then(|| {
            format!(
                "it is in pieces of {}, in which a sweep is over before it is seen",
                bytes_text(piece_bytes)
            )
        })
    }

    /// How large a piece is on average.
    fn piece_bytes(&self) -> u64 {
        self.bytes / self.pieces.max(1)
    }

    /// What can be locked of it: of so many pieces account is kept.
    pub(crate) fn lockable_bytes(&self) -> u64 {
        match self.pieces > MOST_OBJECTS {
            true => self.bytes.min(MOST_OBJECTS * self.piece_bytes()),
            false => self.bytes,
        }
    }

    /// How often it is swept: at least as often as its pages came back.
    pub(crate) fn rounds(&self) -> f64 {
        self.swept_rounds.max(self.returns)
    }

    /// How often a page of it is wanted, for each ns that it is out, by how much of it was out on average in a run of so many ns.
    pub(crate) fn mean_wanted_rate(&self, wall_ns: u64, page_bytes: u64) -> Option<f64> {
        let out = 1.0 - self.resident_share?;
        let out_ns = out * (self.bytes / page_bytes) as f64 * wall_ns as f64;
        (out_ns > 0.0).then(|| self.swap_ins as f64 / out_ns)
    }

    /// Bytes of it that are in memory on average; of an object that was never looked at, or is gone, none.
    pub(crate) fn resident_bytes(&self) -> u64 {
        match self.is_gone {
            true => 0,
            false => (self.resident_share.unwrap_or(0.0) * self.bytes as f64) as u64,
        }
    }
}

/// Whether an allocation hardly was there any more when pages came back, and hardly any of its own did. (What came back to a child of who
/// allocated it may outlive that; how long variables are there is not counted.)
fn is_gone(object: &Object) -> bool {
    let bytes = object.bytes.unwrap_or(0);
    object.identity.kind == ObjectKind::Allocation
        && object.counts.swap_ins * PAGE * GONE < bytes
        && object.mean_bytes.is_some_and(|mean| mean * GONE < bytes)
}

/// What is short drives out what is not used: of blocks that were sampled, so that nobody looked where they are, those are in use that stayed.
fn never_left_bytes(object: &Object) -> u64 {
    if !object.sampled || object.resident_share.is_some() {
        return 0;
    }
    let block_bytes = (object.bytes.unwrap_or(0) / object.most_alive.max(1)).max(1);
    let blocks = object.mean_bytes.unwrap_or(0) as f64 / block_bytes as f64;
    let bytes = (blocks * heap_bytes_of_block(block_bytes) as f64) as u64;
    let left = object.counts.evictions.max(object.counts.swap_ins) * PAGE;
    match left as f64 <= bytes as f64 * HARDLY_ANY {
        true => bytes - left,
        false => 0,
    }
}

fn is_sweep(pattern: Pattern) -> bool {
    matches!(
        pattern,
        Pattern::Loop | Pattern::UnorderedLoop | Pattern::Sequential | Pattern::Strided
    )
}

/// Whether an object cannot be read ahead of in a part of the run that has its share of the swap-ins, whatever it is in others.
fn has_other_phases(object: &Object) -> bool {
    phases_that_count(object).any(|facts| !goes_page_by_page(&facts))
}

/// Whether most of its swap-ins are of passes in wide steps, or of parts of the run with some, by pages that differ from pass to pass: one of
/// which a part is kept misses as often as before.
fn has_no_turns(object: &Object) -> bool {
    let is_wide =
        phases_that_count(object).any(|facts| wide_step(&facts).is_some() && !facts.in_turn);
    let returns = |phase: &&Phase| phase.facts.is_some_and(|facts| facts.reuse_pages.is_some());
    let (mut all, mut by_turns) = (0, 0);
    for phase in object.phases.iter().filter(returns) {
        all += phase.swap_ins;
        by_turns += match phase.facts {
            Some(facts) if facts.in_turn => phase.swap_ins,
            _ => 0,
        };
    }
    is_wide && 2 * by_turns < all
}

fn phases_that_count(object: &Object) -> impl Iterator<Item = PatternFacts> {
    let swap_ins: u64 = object.phases.iter().map(|phase| phase.swap_ins).sum();
    let counts = move |phase: &&Phase| phase.swap_ins as f64 >= LEAST_PHASE * swap_ins as f64;
    let counting = object.phases.iter().filter(counts);
    counting.filter_map(|phase| phase.facts)
}

fn goes_page_by_page(facts: &PatternFacts) -> bool {
    is_sweep(facts.pattern) && facts.pattern != Pattern::UnorderedLoop && wide_step(facts).is_none()
}

/// How many pages on it goes at a time, where that is too many to read ahead.
fn wide_step(facts: &PatternFacts) -> Option<u64> {
    facts.stride_pages.filter(|&stride| stride > MOST_STRIDE)
}

/// Which share of its pages one pass in wide steps touches, the largest of all parts of the run that count.
fn share_of_pass(object: &Object) -> f64 {
    let steps = phases_that_count(object).filter_map(|facts| wide_step(&facts));
    steps.min().map_or(0.0, |pages| 1.0 / pages as f64)
}

/// What of these left once, as memory was filled, came back once, as it was wanted, and hardly left again, though others did; else 0. They have
/// so many bytes, and so many of their pages came back.
fn stays_once_back_bytes(objects: &[&Object], bytes: u64, distinct_pages: u64) -> u64 {
    let counts: Counts = objects.iter().map(|object| &object.counts).sum();
    let never_back = (bytes / PAGE).saturating_sub(distinct_pages);
    let about = |many: u64, few: u64| many as f64 <= ABOUT_ONCE * few as f64;
    let stays = counts.evictions > 0
        && about(counts.swap_ins, distinct_pages)
        && about(counts.evictions, counts.swap_ins + never_back);
    match stays {
        true => distinct_pages * PAGE,
        false => 0,
    }
}

/// Of a program with phases, only those count in which the object is swept, each by how long a page was away in it.
fn swept_rounds(object: &Object) -> f64 {
    let rounds = object.phases.iter().filter_map(|phase| {
        let facts = phase.facts.filter(|facts| is_sweep(facts.pattern))?;
        let reuse_ns = facts.reuse_ns.filter(|&reuse_ns| reuse_ns > 0)?;
        let swept_ns = phase.end_ns.saturating_sub(phase.begin_ns);
        Some(swept_ns as f64 / reuse_ns as f64)
    });
    rounds.sum()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::subjects::tests::object;

    pub(crate) fn facts_of(objects: &[Object]) -> ObjectFacts {
        ObjectFacts::of(&Subject {
            objects: objects.iter().collect(),
            target: Err(String::new()),
            contents: None,
        })
    }

    #[test]
    fn what_was_freed_before_pages_came_back_takes_no_memory() {
        let of = |kind, mean_bytes, swap_ins| {
            let mut object = Object {
                resident_share: Some(0.5),
                mean_bytes,
                ..object("table", 80 << 20, 0)
            };
            object.identity.kind = kind;
            object.counts.swap_ins = swap_ins;
            facts_of(&[object]).resident_bytes() >> 20
        };
        let allocation = ObjectKind::Allocation;
        assert_eq!(of(allocation, Some(4 << 20), 0), 0);
        assert_eq!(of(allocation, Some(20 << 20), 0), 40, "a part of the run");
        assert_eq!(of(allocation, None, 0), 40, "not known");
        assert_eq!(of(allocation, Some(0), 20_000), 40, "a child's");
        assert_eq!(of(ObjectKind::Global, Some(0), 0), 40, "not counted");
    }

    /// Blocks of one place in the program, none beside another.
    fn blocks(bytes: u64, allocations: u64, most_alive: u64) -> Object {
        Object {
            allocations,
            most_alive,
            stretches: most_alive,
            ..object("table", bytes, 0)
        }
    }

    /// The first 100 ns of a run, page by page and each page in its turn.
    fn phase(swap_ins: u64, pattern: Pattern) -> Phase {
        Phase {
            begin_ns: 0,
            end_ns: 100,
            swap_ins,
            stall_ns: 100,
            distinct_pages: 0,
            others: Counts::default(),
            facts: Some(PatternFacts {
                pattern,
                stride_pages: None,
                reuse_pages: None,
                reuse_ns: None,
                agreement: 1.0,
                steps: swap_ins,
                is_coarse: false,
                run_pages: 8000,
                in_turn: true,
            }),
        }
    }

    /// The same in which that is another thing.
    fn with(phase: Phase, change: impl FnOnce(&mut PatternFacts)) -> Phase {
        let mut facts = phase.facts.expect("it has a pattern");
        change(&mut facts);
        Phase {
            facts: Some(facts),
            ..phase
        }
    }

    #[test]
    fn what_grew_from_small_blocks_can_have_a_rule_and_many_small_blocks_cannot() {
        assert!(facts_of(&[blocks(1 << 30, 26, 1)]).can_have_rule);
        let small = facts_of(&[blocks(1 << 30, 1 << 20, 1 << 20)]);
        assert!(!small.can_have_rule);
        assert!(small.why_no_rule().contains("1.0 KiB each"), "{small:?}");
        let little = facts_of(&[blocks(100 << 10, 1, 1)]);
        assert!(!little.can_have_rule);
        assert!(little.why_no_rule().contains("it is 100 KiB"), "{little:?}");
    }

    #[test]
    fn what_left_once_and_came_back_once_stays_but_not_what_left_again() {
        let stays = |evictions, swap_ins, distinct_pages| {
            let mut table = object("table", 1000 * PAGE, 1);
            table.counts.evictions = evictions;
            table.counts.swap_ins = swap_ins;
            table.distinct_pages = distinct_pages;
            facts_of(&[table]).stays_once_back_bytes / PAGE
        };
        assert_eq!(stays(1050, 1040, 990), 990);
        assert_eq!(
            stays(1900, 1000, 990),
            0,
            "it left again when it was done with"
        );
        assert_eq!(stays(4000, 4000, 990), 0, "again and again");
        assert_eq!(stays(1000, 300, 300), 300, "the rest was not wanted");
        assert_eq!(stays(0, 1000, 990), 0, "evictions are not known");
    }

    #[test]
    fn what_is_made_again_and_again_can_have_a_rule() {
        let again = facts_of(&[blocks(64 << 20, 2000, 1)]);
        assert!(again.can_have_rule && again.is_one_block);
        assert_eq!(again.block_bytes, 64 << 20);
        let of_requests = facts_of(&[blocks(64 << 20, 100_000, 64)]);
        assert!(of_requests.can_have_rule && !of_requests.is_one_block);
    }

    #[test]
    fn what_one_rule_is_about_adds_up() {
        let mut one = object("one", 600 << 10, 30);
        (one.counts.swap_ins, one.distinct_pages) = (300, 100);
        let mut other = object("other", 600 << 10, 10);
        (other.counts.swap_ins, other.distinct_pages) = (100, 100);
        let facts = facts_of(&[one, other]);
        assert!(facts.can_have_rule && !facts.is_one_block);
        assert_eq!((facts.bytes, facts.stall_ns), (1200 << 10, 40));
        assert_eq!((facts.returns, facts.block_bytes), (2.0, 600 << 10));
    }

    #[test]
    fn rounds_are_those_of_the_phases_in_which_it_is_swept() {
        let phase = |begin_ns, end_ns, pattern, reuse_ns| Phase {
            begin_ns,
            end_ns,
            ..with(phase(1000, pattern), |facts| {
                facts.reuse_ns = Some(reuse_ns)
            })
        };
        // A quarter of 400 ns is a sweep, of ten rounds.
        let mut swept = object("swept", 1 << 30, 0);
        swept.phases = vec![
            phase(0, 150, Pattern::Random, 3),
            phase(150, 250, Pattern::Loop, 10),
            phase(250, 400, Pattern::Hot, 2),
        ];
        assert_eq!(facts_of(&[swept.clone()]).rounds(), 10.0);
        swept.phases.push(phase(400, 500, Pattern::Sequential, 20));
        assert_eq!(facts_of(&[swept]).rounds(), 15.0);
    }

    #[test]
    fn wide_passes_without_turns_are_no_sweeps() {
        let facts = |swap_ins, stride_pages, in_turn| {
            with(phase(swap_ins, Pattern::Loop), |facts| {
                facts.stride_pages = stride_pages;
                facts.reuse_pages = Some(5000);
                facts.run_pages = 100;
                facts.in_turn = in_turn;
            })
        };
        let of = |phases: Vec<Phase>| {
            let mut swept = object("swept", 1 << 30, 0);
            swept.pattern = Some(Pattern::Loop);
            swept.pattern_facts = phases[0].facts.map(Box::new);
            swept.phases = phases;
            facts_of(&[swept])
        };
        let crossing = of(vec![facts(500, None, false), facts(400, Some(7), false)]);
        assert!(crossing.has_no_turns && !crossing.is_swept() && !crossing.may_have_hot_part());
        assert_eq!(crossing.run_bytes, Some(100 * PAGE));
        // By columns, each page once a round; page by page, however long the rounds are.
        assert!(of(vec![facts(900, Some(7), true)]).is_swept());
        assert!(of(vec![facts(900, None, false)]).is_swept());
        assert!(of(vec![facts(900, Some(7), true), facts(500, None, false)]).is_swept());
    }

    #[test]
    fn what_is_no_sweep_in_another_part_of_the_run_is_not_read_ahead_of() {
        let strided = |pages| {
            with(phase(900, Pattern::Strided), |facts| {
                facts.stride_pages = Some(pages);
            })
        };
        let why = |other| {
            let mut swept = object("swept", 1 << 30, 0);
            swept.phases = vec![phase(900, Pattern::Loop), other];
            facts_of(&[swept]).why_not_ahead()
        };
        assert!(why(strided(6)).is_some());
        assert!(why(phase(900, Pattern::Random)).is_some());
        assert!(why(strided(2)).is_none());
        assert!(why(phase(90, Pattern::Random)).is_none(), "too short");
    }

    #[test]
    fn what_was_out_for_half_of_the_time_is_wanted_as_often_as_it_came_back_in_that() {
        let mut half = object("half", 100 * 4096, 0);
        half.counts.swap_ins = 200;
        assert_eq!(facts_of(&[half.clone()]).mean_wanted_rate(1000, 4096), None);
        half.resident_share = Some(0.5);
        // Twice a page, in 500 ns.
        assert_eq!(
            facts_of(&[half.clone()]).mean_wanted_rate(1000, 4096),
            Some(0.004)
        );
        half.resident_share = Some(1.0);
        assert_eq!(facts_of(&[half]).mean_wanted_rate(1000, 4096), None);
    }

    #[test]
    fn many_blocks_are_followed_and_locked_only_in_part() {
        let rows = |rows, bytes| facts_of(&[blocks(rows * bytes, rows, rows)]);
        assert!(rows(64, 8 << 20).why_not_ahead().is_none());
        assert!(rows(65, 8 << 20).why_not_ahead().is_some());
        let small = rows(16, 512 << 10).why_not_ahead();
        assert!(small.is_some_and(|why| why.contains("pieces of 512 KiB")));
        assert_eq!(rows(500, 128 << 10).lockable_bytes(), 500 * (128 << 10));
        assert_eq!(rows(4000, 128 << 10).lockable_bytes(), 64 << 20);
    }

    #[test]
    fn small_blocks_that_stayed_while_others_swapped_are_in_use() {
        let nodes = |mean_bytes: u64, evictions| {
            let nodes = Object {
                sampled: true,
                mean_bytes: Some(mean_bytes),
                counts: Counts {
                    evictions,
                    swap_ins: 1,
                    ..Counts::default()
                },
                ..blocks(24 << 20, 2 << 20, 1 << 20)
            };
            facts_of(&[nodes]).never_left_bytes
        };
        // 24 bytes each take 32.
        assert_eq!(nodes(12 << 20, 0), (16 << 20) - PAGE);
        assert_eq!(nodes(12 << 20, 500), (16 << 20) - 500 * PAGE);
        assert_eq!(nodes(12 << 20, 700), 0, "more of it left");
        assert_eq!(nodes(0, 0), 0, "it was gone when the swapping began");
        let looked_at = Object {
            resident_share: Some(0.9),
            sampled: true,
            mean_bytes: Some(1 << 20),
            ..blocks(1 << 20, 1, 1)
        };
        assert_eq!(facts_of(&[looked_at]).never_left_bytes, 0);
    }

    #[test]
    fn blocks_side_by_side_are_one_piece_if_they_are_small() {
        let rows = |rows, bytes| {
            facts_of(&[Object {
                stretches: 2,
                ..blocks(rows * bytes, rows, rows)
            }])
        };
        let small = rows(4000, 128 << 10);
        assert_eq!(small.why_not_ahead(), None);
        assert_eq!(small.lockable_bytes(), small.bytes);
        assert!(rows(65, 16 << 20).why_not_ahead().is_some());
    }

    #[test]
    fn wide_steps_cannot_be_read_ahead_of() {
        let stride = |stride_pages| ObjectFacts {
            stride_pages,
            ..facts_of(&[object("matrix", 1 << 30, 0)])
        };
        assert_eq!(stride(None).why_not_ahead(), None);
        assert_eq!(stride(Some(2)).why_not_ahead(), None);
        let why = stride(Some(16)).why_not_ahead();
        assert!(why.is_some_and(|why| why.contains("16 pages")));
    }
}
