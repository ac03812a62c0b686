//! The model against hand counts, and against a TLB that is simulated lookup by lookup.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn base(pages: f64, lookups: f64) -> Lookups {
    Lookups {
        pages,
        lookups,
        huge: false,
    }
}

fn huge(pages: f64, lookups: f64) -> Lookups {
    Lookups {
        huge: true,
        ..base(pages, lookups)
    }
}

/// 4 and 2 entries, then 8; a walk is 10 or 5 cycles, a hit of the second level 1.
fn small() -> Tlb {
    "l1-4k=4,l1-2m=2,l2=8,walk=10,walk-2m=5,l2-hit=1"
        .parse()
        .expect("a geometry")
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-6 * expected.abs().max(1.0)
}

#[test]
fn pages_used_equally_often_are_found_by_their_share_of_the_entries() {
    // Of 16 pages the first level holds a quarter, both hold a half: 25 of 100 lookups end in the second, 50 walk.
    let cost = small().cost(&[base(16.0, 100.0)], 500.0);
    assert!(
        near(cost.walks, 500.0) && near(cost.second_level, 25.0),
        "{cost:?}"
    );
    assert!(near(cost.overhead(), 500.0 / 1025.0), "{cost:?}");
    assert!(near(cost.slow_down(), 1025.0 / 500.0), "{cost:?}");
}

#[test]
fn what_fits_costs_nothing() {
    let cost = small().cost(&[base(4.0, 100.0), huge(2.0, 50.0)], 500.0);
    assert_eq!((cost.walks, cost.second_level), (0.0, 0.0));
    assert_eq!((cost.overhead(), cost.slow_down()), (0.0, 1.0));
    // Eight fit into the second level, and half of them into the first.
    let cost = small().cost(&[base(8.0, 100.0)], 500.0);
    assert!(
        near(cost.second_level, 50.0) && cost.walks == 0.0,
        "{cost:?}"
    );
}

#[test]
fn huge_pages_walk_in_their_own_time_and_share_the_second_level() {
    let only = small().cost(&[huge(16.0, 100.0)], 0.0);
    assert!(near(only.walks, 250.0), "{only:?}");
    // Eight base and eight huge pages, used alike, have half of the second level each.
    let both = small().cost(&[base(8.0, 100.0), huge(8.0, 100.0)], 0.0);
    assert!(near(both.walks, 50.0 * 10.0 + 50.0 * 5.0), "{both:?}");
}

#[test]
fn without_entries_or_lookups_all_walk_or_none() {
    let none: Tlb = "l1-4k=0,l1-2m=0,l2=0".parse().expect("a geometry");
    assert!(near(none.cost(&[base(3.0, 10.0)], 1.0).walks, 360.0));
    assert_eq!(
        none.cost(&[base(3.0, 0.0), base(0.0, 5.0)], 0.0)
            .slow_down(),
        1.0
    );
}

#[test]
fn a_geometry_is_read_as_it_is_shown_and_slips_are_told() {
    let typed: Tlb = "l1-4k=32,walk=20".parse().expect("a geometry");
    assert_eq!(
        (typed.l1_4k, typed.l2, typed.walk, typed.walk_2m),
        (32, 1024, 20.0, 12.0)
    );
    assert_eq!(typed.to_string().parse(), Ok(typed));
    for (wrong, said) in [
        ("", "form key=number"),
        ("l1-4k", "form key=number"),
        ("l3=5", "no `l3`"),
        ("l2=-1", "number of entries"),
        ("l2=1.5", "number of entries"),
        ("walk=nan", "number of cycles"),
        ("walk=-3", "number of cycles"),
        ("work=0", "more than 0"),
    ] {
        let error = wrong.parse::<Tlb>().expect_err(wrong).to_string();
        assert!(
            error.contains(said) && error.contains("l1-4k=64"),
            "{error}"
        );
    }
}

/// Least recently used, one level: lookups that miss.
fn misses(pages: impl Iterator<Item = u64>, entries: usize) -> u64 {
    let mut held: VecDeque<u64> = VecDeque::new();
    let mut missed = 0;
    for page in pages {
        match held.iter().position(|&one| one == page) {
            Some(at) => drop(held.remove(at)),
            None => missed += 1,
        }
        held.push_front(page);
        held.truncate(entries);
    }
    missed
}

/// xorshift, so that the strings are the same each time.
fn random(mut state: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(state >> 11)
    })
}

#[test]
fn a_tlb_simulated_lookup_by_lookup_misses_as_often() {
    const LOOKUPS: usize = 200_000;
    // A tenth of 400 pages gets so many of ten lookups.
    for hot in [1_u64, 5, 9] {
        let pages = random(88_172_645_463_325_252 + hot)
            .zip(random(362_436_069))
            .take(LOOKUPS)
            .map(|(which, page)| match which % 10 < hot {
                true => page % 40,
                false => 40 + page % 360,
            });
        let tlb: Tlb = "l1-4k=0,l2=64,walk=1".parse().expect("a geometry");
        let share = hot as f64 / 10.0;
        let groups = [
            base(40.0, share * LOOKUPS as f64),
            base(360.0, (1.0 - share) * LOOKUPS as f64),
        ];
        let (found, simulated) = (tlb.cost(&groups, 1.0).walks, misses(pages, 64) as f64);
        assert!(
            (found / simulated - 1.0).abs() < 0.02,
            "{found} for {simulated}"
        );
    }
}

proptest! {
    #[test]
    fn more_entries_never_cost_more_and_no_lookup_walks_twice(
        groups in prop::collection::vec((1_u32..5000, 1_u32..100_000, any::<bool>()), 1..20),
        (l1, l2) in (0_u32..100, 0_u32..2000),
    ) {
        let groups: Vec<Lookups> = groups.into_iter()
            .map(|(pages, lookups, huge)| Lookups { pages: pages.into(), lookups: lookups.into(), huge })
            .collect();
        let tlb = Tlb { l1_4k: l1, l1_2m: l1, l2, ..Tlb::default() };
        let larger = Tlb { l2: l2 + 100, ..tlb };
        let (cost, less) = (tlb.cost(&groups, 1e6), larger.cost(&groups, 1e6));
        prop_assert!(less.walks <= cost.walks * (1.0 + 1e-9), "{less:?} {cost:?}");
        let most: f64 = groups.iter().map(|group| group.lookups).sum();
        prop_assert!(cost.walks <= most * tlb.walk * (1.0 + 1e-9));
        prop_assert!((0.0..1.0).contains(&cost.overhead()) && cost.slow_down() >= 1.0);
    }
}
