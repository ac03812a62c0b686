//! Findings made by hand.

#![allow(dead_code)] // each test takes what it needs

use std::collections::HashMap;
use std::sync::Arc;

use pagewise_analyze::Counts;
use pagewise_analyze::FaultPath;
use pagewise_analyze::Findings;
use pagewise_analyze::Histogram;
use pagewise_analyze::Identity;
use pagewise_analyze::MemoryNeed;
use pagewise_analyze::NeedPoint;
use pagewise_analyze::Object;
use pagewise_analyze::ObjectFrame;
use pagewise_analyze::ObjectKind;
use pagewise_analyze::Pattern;
use pagewise_analyze::PatternFacts;
use pagewise_analyze::SwapInSample;
use pagewise_analyze::Waits;
use pagewise_analyze::WorstPath;
use pagewise_report::text::Style;
use pagewise_trace::Meta;

pub(crate) fn object(name: Option<&str>, line: Option<u32>, stall_ns: u64) -> Object {
    Object {
        identity: Identity {
            kind: ObjectKind::Allocation,
            name: name.map(Into::into),
            file: line.map(|_| "/home/me/src/solver.cpp".into()),
            line,
            function: Some("solve(int)".into()),
            stack: None,
            code: None,
        },
        type_name: Some("double *".into()),
        bytes: Some(190 << 20),
        mean_bytes: None,
        allocations: 1,
        most_alive: 1,
        stretches: 1,
        sampled: false,
        counts: Counts {
            swap_ins: stall_ns / 1000,
            swap_cache_hits: 0,
            evictions: 48_640,
            pages_written: 48_640,
            zero_filled: 0,
            write_looks: 0,
            found_written: 0,
            stall_ns,
        },
        distinct_pages: 48_640,
        accessed_share: None,
        resident_share: Some(0.625),
        most_resident_share: Some(0.75),
        pattern: Some(Pattern::Loop),
        pattern_facts: Some(Box::new(facts())),
        phases: Vec::new(),
        extra_bytes: Some(64 << 20),
        worst_path: None,
        site: Vec::new(),
    }
}

pub(crate) fn facts() -> PatternFacts {
    PatternFacts {
        pattern: Pattern::Loop,
        stride_pages: None,
        reuse_pages: Some(48_640),
        reuse_ns: Some(1_200_000_000),
        agreement: 0.97,
        steps: 145_919,
        is_coarse: false,
        run_pages: 8000,
        in_turn: true,
    }
}

pub(crate) fn findings() -> Findings {
    let mut latency = Histogram::default();
    for ns in 2_000..3_000 {
        latency.add(ns);
    }
    let mut meta = Meta {
        wall_ns: Some(10_000_000_000),
        end_monotonic_ns: Some(1),
        ..Meta::default()
    };
    meta.limit.bytes = Some(256 << 20);
    meta.sensors.insert("faults".to_owned(), "on".to_owned());
    let mut objects = vec![
        object(Some("cost"), Some(41), 3_000_000_000),
        object(None, None, 1_000_000_000),
    ];
    objects[0].worst_path = Some(WorstPath {
        fault_path: 0,
        stall_ns: 3_000_000_000,
    });
    Findings {
        counted_events: 0,
        waited_ns: 4_000_000_000,
        meta,
        dropped_without_write: None,
        shared_pages_gone: None,
        estimated_swap_ins: 0,
        unattributed_swap_ins: 0,
        totals: Counts {
            swap_ins: 400_000,
            swap_cache_hits: 0,
            evictions: 97_280,
            pages_written: 97_280,
            zero_filled: 0,
            write_looks: 0,
            found_written: 0,
            stall_ns: 4_000_000_000,
        },
        objects,
        latency,
        fault_paths: vec![
            fault_path(
                &[("reprice", 107), ("solve(int)", 138), ("main", 20)],
                3_000_000_000,
            ),
            fault_path(&[], 1_000_000_000),
        ],
        fault_path_of_stack: HashMap::new(),
        write_latency: Histogram::default(),
        waits: Waits::default(),
        working_set: Vec::new(),
        coverage: Vec::new(),
        memory_need: MemoryNeed {
            extra_bytes: Some(92 << 20),
            limit_bytes: Some(348 << 20),
            known_swap_ins: 400_000,
            unknown_swap_ins: 0,
            curve: vec![NeedPoint {
                extra_bytes: 92 << 20,
                swap_ins: 100,
                stall_ns: 1000,
            }],
        },
        sample: SwapInSample::default(),
    }
}

pub(crate) fn fault_path(frames: &[(&str, u32)], stall_ns: u64) -> FaultPath {
    let frame = |&(function, line): &(&str, u32)| ObjectFrame {
        function: Some(function.to_owned()),
        file: Some("/home/me/src/solver.cpp".to_owned()),
        line: Some(line),
        module: None,
        module_offset: None,
        inlined: false,
    };
    FaultPath {
        frames: frames.iter().map(frame).map(Arc::new).collect(),
        swap_ins: stall_ns / 1000,
        stall_ns,
    }
}

pub(crate) fn style(width: usize) -> Style {
    Style {
        width,
        color: false,
        unicode: true,
        objects: 20,
        library_frames: false,
        whole_paths: false,
    }
}
