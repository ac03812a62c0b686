//! Objects whose gain can be counted by hand.

use pagewise_plan::Prediction;
use pagewise_simulate::hugepages::Tlb;

use super::choose::*;

const GIB: u64 = 1 << 30;

/// A GiB, all of it in memory and accessed.
fn dense() -> Candidate {
    Candidate {
        object: 0,
        bytes: GIB,
        block_bytes: GIB,
        resident_share: Some(1.0),
        most_resident_share: Some(1.0),
        accessed_share: 1.0,
    }
}

fn whole() -> Whole {
    Whole {
        accessed_pages: (GIB / 4096) as f64,
        interval_ns: 1e9,
        huge_share: 0.0,
        stalled_share: 0.0,
        memory_bytes: 8 * GIB,
        peak_bytes: Some(GIB),
    }
}

fn only(candidate: Candidate, whole: &Whole) -> Choice {
    let mut chosen = choose(&[candidate], whole, &Tlb::default());
    assert_eq!(chosen.choices.len(), 1);
    chosen.choices.remove(0)
}

#[test]
fn what_is_large_dense_and_busy_is_promised_what_its_walks_cost() {
    let choice = only(dense(), &whole());
    assert!(choice.is_huge, "{choice:?}");
    // 262,144 base pages, of which the TLB has 1024: 36 cycles of walks (and 8 of the second level, seldom) beside 200. The
    // 512 huge pages fit: the first level has 8 of them.
    let before = 200.0 + 36.0 * (1.0 - 1024.0 / 262_144.0) + 8.0 * 960.0 / 262_144.0;
    let after = 200.0 + 8.0 * (1.0 - 8.0 / 512.0);
    let Prediction { speedup, low, high } = choice.predicted;
    assert!((speedup - before / after).abs() < 1e-6, "{speedup}");
    assert!(1.0 < low && low < speedup && speedup < high, "{low} {high}");
    for said in ["l1-4k=64", "1.0 s", "100 % of it", "15 %", "to 0 %"] {
        assert!(choice.why.contains(said), "{said}: {}", choice.why);
    }
}

#[test]
fn never_where_memory_is_short_or_would_be() {
    for (whole, said) in [
        (
            Whole {
                stalled_share: 0.3,
                ..whole()
            },
            "memory is short",
        ),
        (
            Whole {
                memory_bytes: GIB * 14 / 10,
                ..whole()
            },
            "would be short",
        ),
        (
            Whole {
                peak_bytes: None,
                ..whole()
            },
            "not known",
        ),
        (
            Whole {
                huge_share: 0.5,
                ..whole()
            },
            "50 % of its memory was in huge pages",
        ),
    ] {
        let choice = only(dense(), &whole);
        assert!(!choice.is_huge && choice.why.contains(said), "{choice:?}");
        assert_eq!(choice.predicted, NOTHING);
    }
    let just = Whole {
        memory_bytes: GIB * 15 / 10,
        ..whole()
    };
    assert!(only(dense(), &just).is_huge);
}

#[test]
fn sparse_idle_and_small_objects_get_nothing() {
    for (candidate, said) in [
        (
            Candidate {
                most_resident_share: Some(0.5),
                ..dense()
            },
            "50 % of it is in memory",
        ),
        (
            Candidate {
                most_resident_share: None,
                ..dense()
            },
            "not known",
        ),
        (
            Candidate {
                accessed_share: 0.1,
                ..dense()
            },
            "10 % of it is accessed",
        ),
    ] {
        let choice = only(candidate, &whole());
        assert!(!choice.is_huge && choice.why.contains(said), "{choice:?}");
    }
    for small in [
        Candidate {
            bytes: LEAST_BYTES - 1,
            ..dense()
        },
        Candidate {
            block_bytes: LEAST_BLOCK - 1,
            ..dense()
        },
    ] {
        let chosen = choose(&[small], &whole(), &Tlb::default());
        assert!(chosen.choices.is_empty() && chosen.words.contains("32 MiB"));
    }
}

#[test]
fn what_is_filled_bit_by_bit_is_not_sparse() {
    let grows = Candidate {
        resident_share: Some(0.6),
        ..dense()
    };
    assert!(only(grows, &whole()).is_huge);
}

#[test]
fn a_small_part_of_what_is_accessed_is_noise() {
    // An eighth of all accesses: 28 of 236 cycles are saved for each.
    let others = Whole {
        accessed_pages: 8.0 * (GIB / 4096) as f64,
        memory_bytes: 100 * GIB,
        ..whole()
    };
    let choice = only(dense(), &others);
    assert!(
        !choice.is_huge && choice.why.contains("noise"),
        "{choice:?}"
    );
    // What fits into the TLB anyway.
    let large: Tlb = "l1-4k=1000000".parse().expect("a geometry");
    let chosen = choose(&[dense()], &whole(), &large);
    assert!(!chosen.choices[0].is_huge);
}
