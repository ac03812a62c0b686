//! Plans that were damaged on the wire: refused, or harmless. The decoder runs inside of strangers' programs.

use pagewise_abi::plan::MODULE_NAME_BYTES;
use pagewise_abi::plan::MOST_FRAMES;
use pagewise_abi::plan::PATTERN_BYTES;
use pagewise_abi::plan::PlanFrame;
use pagewise_abi::plan::PlanModule;
use pagewise_abi::plan::PlanParts;
use pagewise_abi::plan::PlanRule;
use pagewise_abi::plan::PlanSizes;
use pagewise_abi::plan::PlanView;
use proptest::collection::vec;
use proptest::prelude::*;

const HEADER: usize = 64;

fn encoded(parts: PlanParts<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    parts.encode(|piece| bytes.extend_from_slice(piece));
    bytes
}

/// A sound plan of any shape.
fn plans() -> impl Strategy<Value = Vec<u8>> {
    let names = vec(vec(any::<u8>(), 0..200), 1..5);
    let frames = vec(any::<u64>(), 1..20);
    let ranges = vec(any::<(u64, u64)>(), 0..5);
    let rules = vec((1u32..=13, any::<[u64; 5]>()), 0..8);
    (names, frames, ranges, rules).prop_map(|(names, addresses, ranges, rules)| {
        let modules: Vec<PlanModule<'_>> = names
            .iter()
            .map(|name| PlanModule {
                name,
                build_id: name,
            })
            .collect();
        let frames: Vec<PlanFrame> = addresses
            .iter()
            .map(|&address| PlanFrame {
                module: (address % modules.len() as u64) as u32,
                address,
            })
            .collect();
        let rules: Vec<PlanRule> = rules
            .iter()
            .map(
                |&(action, [keep_bytes, chunk_bytes, lead_bytes, address, bytes])| PlanRule {
                    action,
                    first_frame: 0,
                    // Rules of I/O have a path.
                    frames: ((address % (frames.len() as u64 + 1)) as u32)
                        .max(u32::from(action >= 8)),
                    first_range: 0,
                    ranges: ranges.len() as u32,
                    module: (bytes % modules.len() as u64) as u32,
                    pattern: (bytes % 2) as u32,
                    readahead: (bytes % 4) as u32,
                    keeps_more: (bytes % 3) as u32,
                    again_percent: (bytes % 101) as u32,
                    keep_bytes,
                    chunk_bytes,
                    lead_bytes,
                    address,
                    bytes,
                    same_as: 0,
                    together: (keep_bytes % 2) as u32,
                },
            )
            .collect();
        encoded(PlanParts {
            sizes: PlanSizes::default(),
            modules: &modules,
            frames: &frames,
            ranges: &ranges,
            rules: &rules,
            patterns: &[b"*.sst"],
            headway: &[],
        })
    })
}

/// Looks at everything that the library looks at.
fn walk(view: &PlanView<'_>) {
    for index in 0..view.rules() {
        let rule = view.rule(index);
        view.action(&rule);
        let frames: Vec<PlanFrame> = view.frames(&rule).collect();
        assert!(frames.len() <= MOST_FRAMES);
        let of_module = |frame: &PlanFrame| (frame.module as usize) < view.modules();
        assert!(frames.iter().all(of_module));
        assert!(!frames.is_empty() || (rule.module as usize) < view.modules());
        assert_eq!(view.ranges(&rule).count(), rule.ranges as usize);
        assert!(
            view.pattern(&rule)
                .is_none_or(|text| text.len() <= PATTERN_BYTES)
        );
        view.readahead(&rule);
        assert!(rule.counts_as(index) <= index);
    }
    for index in 0..view.modules() {
        assert!(view.module(index).name.len() <= MODULE_NAME_BYTES);
    }
}

proptest! {
    #[test]
    fn sound_plans_are_taken(bytes in plans()) {
        let view = PlanView::decode(&bytes);
        prop_assert!(view.is_some());
        view.iter().for_each(walk);
    }

    /// Counts and places are where damage is worst, and most of them lie in the header.
    #[test]
    fn what_is_taken_of_damaged_ones_can_be_walked(
        mut bytes in plans(),
        damages in vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..12),
        length in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        for (at, value, in_header) in damages {
            let within = if in_header { HEADER } else { bytes.len() };
            bytes[at.index(within)] = value;
        }
        if is_cut {
            bytes.truncate(length.index(bytes.len()));
        }
        PlanView::decode(&bytes).iter().for_each(walk);
    }

    #[test]
    fn anything_at_all_is_refused_or_can_be_walked(bytes in vec(any::<u8>(), 0..2000)) {
        PlanView::decode(&bytes).iter().for_each(walk);
    }
}
