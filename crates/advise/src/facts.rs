//! The numbers that advice goes by.

use pagewise_analyze::Findings;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectKind;
use pagewise_analyze::Pattern;

use crate::heat::Heat;
use crate::heat::SWAP_INS_OF_CELL;

/// A block below this is not looked at by the preloaded library: the allocators keep such ones on shared pages.
const SMALLEST_BLOCK: u64 = 64 << 10;
/// Objects below this are not worth a rule.
const SMALLEST_OBJECT: u64 = 1 << 20;

/// Who waits all the time does something now and then all the same.
const MOST_STALLED: f64 = 0.99;

/// Of one object.
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
    /// How long it takes until a page is wanted again, ns, as far as that is known.
    pub(crate) reuse_ns: Option<u64>,
    /// Mean share in memory, 0 to 1.
    pub(crate) resident_share: Option<f64>,
    /// Whether a rule can be made for it at all.
    pub(crate) can_have_rule: bool,
    /// Whether it is one block, so that a part of it is the same part all the time.
    pub(crate) is_one_block: bool,
    /// Which parts of it are accessed most; `None`: that was not looked at.
    pub(crate) heat: Option<Heat>,
}

impl ObjectFacts {
    pub(crate) fn of(object: &Object) -> Self {
        let bytes = object.bytes.unwrap_or(0);
        let block = bytes / object.allocations.max(1);
        let is_named = matches!(
            object.identity.kind,
            ObjectKind::Allocation | ObjectKind::Global
        );
        Self {
            name: object.identity.to_string(),
            bytes,
            swap_ins: object.counts.swap_ins,
            stall_ns: object.counts.stall_ns,
            returns: object.counts.swap_ins as f64 / object.distinct_pages.max(1) as f64,
            pattern: object.pattern,
            reuse_ns: object
                .pattern_facts
                .as_ref()
                .and_then(|facts| facts.reuse_ns),
            resident_share: object.resident_share,
            // Of what grows, the first blocks are small, and sampled: what counts is how large one is on average.
            can_have_rule: is_named
                && bytes >= SMALLEST_OBJECT
                && (block >= SMALLEST_BLOCK || object.identity.kind == ObjectKind::Global),
            is_one_block: object.allocations <= 1,
            heat: None,
        }
    }

    /// Whether a part of it may be used again and again while the rest is not, in no order, and could be told from it.
    pub(crate) fn may_have_hot_part(&self) -> bool {
        let can_be_told = self.swap_ins >= 2 * SWAP_INS_OF_CELL;
        self.can_have_rule && self.is_one_block && can_be_told && !self.is_swept()
    }

    /// Whether it is passed over in the order of its pages: a page's turn can be foreseen.
    pub(crate) fn is_swept(&self) -> bool {
        matches!(
            self.pattern,
            Some(Pattern::Loop | Pattern::Sequential | Pattern::Strided)
        )
    }

    /// How often it is swept in a run of so long, ns: at least as often as its pages came back.
    pub(crate) fn rounds(&self, run_ns: u64) -> f64 {
        let by_reuse = self.reuse_ns.filter(|&reuse| reuse > 0);
        let rounds = by_reuse.map_or(0.0, |reuse| run_ns as f64 / reuse as f64);
        rounds.max(self.returns)
    }

    /// Bytes of it that are in memory on average; of an object that was never looked at, none.
    pub(crate) fn resident_bytes(&self) -> u64 {
        (self.resident_share.unwrap_or(0.0) * self.bytes as f64) as u64
    }
}

/// Of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunFacts {
    pub(crate) wall_ns: u64,
    /// Waiting for swap-ins, over all threads.
    pub(crate) stall_ns: u64,
    /// So many times as much is waited in the memory that the plan is for: 1 in as much as was recorded.
    pub(crate) stall_scale: f64,
    /// What the user may lock; `None`: as much as there is.
    pub(crate) lockable_bytes: Option<u64>,
    pub(crate) page_bytes: u64,
    /// Processors: reading ahead needs another one.
    pub(crate) cpus: u64,
    /// Whether swap is memory: reading a page back is then work, not waiting.
    pub(crate) swap_is_memory: bool,
}

impl RunFacts {
    pub(crate) fn of(findings: &Findings) -> Self {
        let meta = &findings.meta;
        Self {
            wall_ns: meta.wall_ns.unwrap_or(0),
            stall_ns: findings.totals.stall_ns,
            stall_scale: 1.0,
            lockable_bytes: None,
            page_bytes: findings.page_bytes(),
            cpus: meta.host.cpus.unwrap_or(1),
            swap_is_memory: meta.swap.kind.as_deref() == Some("zram"),
        }
    }

    /// The part of the run that is waiting for swap-ins, 0 to 1: of several threads, as if they waited at the same time.
    pub(crate) fn stalled_share(&self) -> f64 {
        if self.wall_ns == 0 {
            return 0.0;
        }
        let recorded = (self.stall_ns as f64 / self.wall_ns as f64).min(MOST_STALLED);
        // What is not waiting takes as long in any memory.
        let scaled = recorded * self.stall_scale;
        (scaled / (1.0 - recorded + scaled)).min(MOST_STALLED)
    }
}

#[cfg(test)]
mod tests {
    use pagewise_analyze::Counts;
    use pagewise_analyze::Identity;

    use super::*;

    /// Blocks of one place in the program, of which the small ones were sampled.
    fn sampled(bytes: u64, allocations: u64) -> Object {
        Object {
            identity: Identity {
                kind: ObjectKind::Allocation,
                name: Some("table".into()),
                file: None,
                line: None,
                function: None,
                stack: None,
                code: None,
            },
            type_name: None,
            bytes: Some(bytes),
            allocations,
            sampled: true,
            counts: Counts::default(),
            distinct_pages: 0,
            accessed_share: None,
            resident_share: None,
            most_resident_share: None,
            pattern: None,
            pattern_facts: None,
            phases: Vec::new(),
            extra_bytes: None,
            worst_path: None,
            site: Vec::new(),
        }
    }

    #[test]
    fn in_other_memory_only_the_waiting_is_another() {
        let mut run = RunFacts {
            wall_ns: 1000,
            stall_ns: 500,
            stall_scale: 1.0,
            lockable_bytes: None,
            page_bytes: 4096,
            cpus: 2,
            swap_is_memory: false,
        };
        let mut share = |stall_scale| {
            run.stall_scale = stall_scale;
            run.stalled_share()
        };
        assert_eq!(share(1.0), 0.5);
        assert_eq!(share(0.0), 0.0);
        assert_eq!(share(3.0), 0.75);
        assert_eq!(share(1e9), MOST_STALLED);
    }

    #[test]
    fn what_grew_from_small_blocks_can_have_a_rule_and_many_small_blocks_cannot() {
        assert!(ObjectFacts::of(&sampled(1 << 30, 26)).can_have_rule);
        assert!(!ObjectFacts::of(&sampled(1 << 30, 1 << 20)).can_have_rule);
    }
}
