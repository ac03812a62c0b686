//! Arbitrary plans.

use std::ops::Range;

use pagewise_plan::Action;
use pagewise_plan::CurvePoint;
use pagewise_plan::Frame;
use pagewise_plan::Fresh;
use pagewise_plan::HeadwayPoint;
use pagewise_plan::IoAction;
use pagewise_plan::LEAST_PREZERO_RATE;
use pagewise_plan::Memory;
use pagewise_plan::Plan;
use pagewise_plan::Prediction;
use pagewise_plan::Program;
use pagewise_plan::ReadAhead;
use pagewise_plan::Readahead;
use pagewise_plan::Rule;
use pagewise_plan::SourcePlace;
use pagewise_plan::Target;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

const MOST: u64 = i64::MAX as u64;

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![1..=MOST, 1u64..100, Just(MOST)]
}

/// Any text, with what is special in TOML.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,12}",
        "[\"'\\\\#\\n\\r\\t\u{0}\u{7f}\u{85}=\\[\\]]{0,8}"
    ]
}

fn name() -> impl Strategy<Value = String> {
    text().prop_map(|text| {
        let text: String = text
            .chars()
            .filter(|&letter| letter != '\0' && letter != '/')
            .collect();
        if text.is_empty() {
            "x".to_owned()
        } else {
            text
        }
    })
}

fn headway() -> impl Strategy<Value = Vec<HeadwayPoint>> {
    let steps = vec((0..1_000_000_u64, 0..1_000_000_u64), 0..5);
    steps.prop_map(|steps| {
        let (mut user_ms, mut major_faults) = (0, 0);
        let points = steps.into_iter().map(|(time, faults)| {
            (user_ms, major_faults) = (user_ms + time, major_faults + faults);
            HeadwayPoint {
                user_ms,
                major_faults,
            }
        });
        points.collect()
    })
}

fn build_id() -> impl Strategy<Value = String> {
    "([0-9a-f]{2}){1,20}"
}

fn frame() -> impl Strategy<Value = Frame> {
    (
        name(),
        option::of(build_id()),
        option::of((name(), 0..=MOST)),
        0..=MOST,
    )
        .prop_map(|(module, build_id, function, module_offset)| Frame {
            module,
            build_id: build_id.or_else(|| function.is_none().then(|| "00".to_owned())),
            function,
            module_offset,
        })
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        (vec(frame(), 1..4), vec(vec(frame(), 1..4), 0..3))
            .prop_map(|(path, others)| Target::Allocation { path, others }),
        (name(), name(), option::of(size()), option::of(0..=MOST)).prop_map(
            |(module, symbol, bytes, module_offset)| Target::Global {
                module,
                symbol,
                bytes,
                module_offset,
            }
        ),
    ]
}

fn ahead() -> impl Strategy<Value = ReadAhead> {
    (option::of(size()), option::of(size())).prop_map(|(chunk_bytes, lead_bytes)| ReadAhead {
        chunk_bytes,
        lead_bytes,
    })
}

fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
    vec((0u64..1 << 40, 1u64..1 << 40), 0..4).prop_map(|steps| {
        let mut end = 0;
        let next = |(gap, length): (u64, u64)| {
            let start = end + gap;
            end = start + length;
            start..end
        };
        steps.into_iter().map(next).collect()
    })
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (option::of(size()), proptest::bool::ANY, ranges()).prop_map(
            |(keep_bytes, flag, ranges)| Action::Lock {
                together: flag && !ranges.is_empty(),
                keep_bytes,
                keep_more: flag && keep_bytes.is_some() && ranges.is_empty(),
                ranges,
            }
        ),
        (option::of(size()), proptest::bool::ANY, ahead()).prop_map(
            |(keep_bytes, keep_more, ahead)| Action::Stream {
                keep_bytes,
                keep_more: keep_more && keep_bytes.is_some(),
                ahead,
            }
        ),
        ahead().prop_map(Action::Prefetch),
        Just(Action::Cold),
        Just(Action::Huge),
        Just(Action::Prezero),
        Just(Action::Sequential),
        Just(Action::Nothing),
    ]
}

fn prediction() -> impl Strategy<Value = Prediction> {
    let ratio = || 1e-9..1e12;
    (ratio(), ratio(), ratio()).prop_map(|(a, b, c): (f64, f64, f64)| {
        let mut ratios = [a, b, c];
        ratios.sort_by(f64::total_cmp);
        Prediction {
            low: ratios[0],
            speedup: ratios[1],
            high: ratios[2],
        }
    })
}

fn files() -> impl Strategy<Value = Option<String>> {
    option::of(prop_oneof![Just("*.sst".to_owned()), name()])
}

fn readahead() -> impl Strategy<Value = Readahead> {
    prop::sample::select(Readahead::ALL.to_vec())
}

/// What is done fits to whom it is done.
fn target_and_action() -> impl Strategy<Value = (Target, Action)> {
    let io = prop_oneof![
        readahead().prop_map(IoAction::Readahead),
        size().prop_map(|burst_bytes| IoAction::WillNeed { burst_bytes }),
        (option::of(readahead()), 0..=100u8).prop_map(|(readahead, again_percent)| {
            IoAction::Drop {
                readahead,
                again_percent,
            }
        }),
        option::of(readahead()).prop_map(|readahead| IoAction::DontCache { readahead }),
        option::of(size()).prop_map(|keep_bytes| IoAction::Keep { keep_bytes }),
    ];
    let io = prop_oneof![io.prop_map(Action::Io), Just(Action::Nothing)];
    let calls = (vec(frame(), 1..4), files()).prop_map(|(path, files)| Target::Io { path, files });
    let heap = name().prop_map(|module| Target::Heap { module });
    let of_heap = action().prop_filter("what the heap may have", |action| match action {
        Action::Lock { ranges, .. } => ranges.is_empty(),
        action => !matches!(action, Action::Huge | Action::Prezero),
    });
    let of_target = (target(), action()).prop_filter("only blocks are made in an order", |both| {
        !(matches!(both.0, Target::Global { .. }) && both.1.is_together())
    });
    prop_oneof![of_target, (heap, of_heap), (calls, io)]
}

fn fresh() -> impl Strategy<Value = Option<Fresh>> {
    option::of(prop::sample::select(Fresh::ALL.to_vec()))
}

fn rule() -> impl Strategy<Value = Rule> {
    let place = (
        option::of(text()),
        option::of(text()),
        option::of(1..=u32::MAX),
    )
        .prop_map(|(function, file, line)| SourcePlace {
            function,
            file,
            line,
        });
    (
        text(),
        place,
        target_and_action(),
        text(),
        option::of(prediction()),
        option::of(1..=i64::MAX as u64),
    )
        .prop_map(
            |(name, place, (target, action), why, predicted, objects)| Rule {
                objects: match target {
                    Target::Allocation { .. } => objects,
                    _ => None,
                },
                name,
                place,
                target,
                action,
                why,
                predicted,
            },
        )
}

/// Any plan that may be read.
pub(crate) fn plan() -> impl Strategy<Value = Plan> {
    let program = (
        name(),
        option::of(build_id()),
        vec(text(), 0..3),
        vec(name(), 0..3),
    )
        .prop_map(|(executable, build_id, arguments, modules)| Program {
            executable,
            build_id,
            arguments,
            modules,
        });
    let rate = || option::of(LEAST_PREZERO_RATE..=MOST);
    let memory = (2..=MOST, option::of(size()), any::<bool>(), fresh(), rate()).prop_map(
        |(bytes, peak_bytes, locks, fresh, prezero_rate)| Memory {
            bytes,
            peak_bytes,
            lock_bytes: locks.then_some(bytes / 2),
            fresh,
            prezero_rate,
        },
    );
    let number = || option::of(0..=MOST);
    let point = (size(), 0..=MOST, number(), number(), number()).prop_map(
        |(memory_bytes, swap_ins, swap_ins_low, swap_ins_high, wall_ns)| CurvePoint {
            memory_bytes,
            swap_ins,
            swap_ins_low,
            swap_ins_high,
            wall_ns,
        },
    );
    let files = vec(name(), 0..3);
    let curve = vec(point, 0..3);
    (program, memory, vec(rule(), 0..4), curve, headway(), files).prop_map(
        |(program, memory, mut rules, curve, headway, files)| {
            let mut seen = std::collections::HashSet::new();
            rules.retain(|rule| seen.insert(rule.target.clone()));
            Plan {
                program,
                memory,
                rules,
                curve,
                headway,
                files,
            }
        },
    )
}
