use super::*;
use crate::placement;
use crate::slot::Event;
use crate::slot::Slot;
use crate::slot::State;
use pagewise_abi::guard::Family;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU8;

/// Addresses without memory: only numbers are looked at.
fn ledger(chunks: usize) -> Ledger {
    let kinds: &'static [AtomicU8] = Vec::leak((0..chunks).map(|_| AtomicU8::new(0)).collect());
    let slots: &'static [Slot] = Vec::leak((0..chunks * SLOTS).map(|_| Slot::default()).collect());
    let mut ledger = Ledger::new(Arena {
        base: 1 << 40,
        chunks,
        slots: slots.as_ptr(),
        kinds,
        side: placement::Side::End,
    });
    ledger.bounds = Bounds {
        objects: 5,
        bytes: 100_000,
    };
    ledger.large_bounds = Bounds {
        objects: 2,
        bytes: 8 << 20,
    };
    ledger
}

fn make(ledger: &mut Ledger, bytes: usize) -> Option<(Number, placement::Placed)> {
    let alignment = placement::Alignment::Auto.of(bytes);
    let pages = placement::pages(bytes, alignment, crate::arena::LARGE_PAGES)?;
    let number = ledger.take(pages, &mut |_, _, _| true)?.number;
    let arena = ledger.arena();
    let slot = arena.slot(number);
    if arena.is_large(number) {
        arena.set_large_bytes(number, bytes);
        assert!(slot.hold(Family::Malloc, alignment, 0, 1, 0));
    } else {
        assert!(slot.hold(Family::Malloc, alignment, bytes, 1, 0));
    }
    Some((number, arena.object(number, slot.facts())))
}

fn give_back(ledger: &mut Ledger, number: Number, bytes: usize) {
    let slot = ledger.arena().slot(number);
    assert!(slot.step(Event::Leaves).is_some());
    assert!(slot.step(Event::Left).is_some());
    ledger.put(number, bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Against a map of what is alive: no two objects share a byte or a guard, each address is found again, and what
    /// was given back stays away for at least as many objects as the bound says.
    #[test]
    fn a_random_sequence_is_as_in_the_model(
        steps in prop::collection::vec((0usize..3, 0usize..400_000, any::<prop::sample::Index>()), 1..400)
    ) {
        let mut ledger = ledger(65);
        let arena = ledger.arena();
        let mut alive: BTreeMap<usize, (usize, Number)> = BTreeMap::new();
        let mut latest: Vec<Number> = Vec::new();
        for (what, size, which) in steps {
            if what < 2 {
                // Mostly small ones.
                let bytes = if size % 3 > 0 { size % 5000 } else { size };
                let Some((number, placed)) = make(&mut ledger, bytes) else {
                    prop_assert!(alive.len() > 4, "full with {} objects", alive.len());
                    continue;
                };
                prop_assert!(!latest.contains(&number), "handed out again too soon");
                let extent = arena.extent(number);
                prop_assert_eq!(placed.guard, extent.guard);
                prop_assert!(placed.first_page() >= extent.begin && placed.end() <= extent.guard);
                prop_assert!(extent.guard < extent.end);
                for address in [placed.first_page(), extent.guard, extent.end - 1] {
                    prop_assert_eq!(arena.find(address), Some(number));
                }
                let before = alive.range(..=extent.begin).next_back();
                if let Some((_, &(end, _))) = before {
                    prop_assert!(end <= extent.begin, "two slots overlap");
                }
                prop_assert!(alive.range(extent.begin..extent.end).next().is_none());
                alive.insert(extent.begin, (extent.end, number));
            } else if !alive.is_empty() {
                let begin = *which.get(&alive.keys().copied().collect::<Vec<_>>());
                let (_, number) = alive.remove(&begin).expect("alive");
                let facts = arena.slot(number).facts();
                prop_assert_eq!(facts.state, State::Live);
                let bytes = arena.object(number, facts).bytes;
                let is_large = arena.is_large(number);
                give_back(&mut ledger, number, bytes);
                if !is_large && bytes < 5000 {
                    latest.push(number);
                    if latest.len() > 5 {
                        latest.remove(0);
                    }
                }
            }
        }
        let mut live = 0;
        arena.visit(ledger.chunks_used(), &mut |number| {
            live += usize::from(arena.slot(number).facts().state == State::Live);
        });
        prop_assert_eq!(live, alive.len());
    }
}

#[test]
fn the_oldest_is_handed_out_again_first() {
    let mut ledger = ledger(5);
    let made: Vec<Number> = (0..8 + MOST_AHEAD)
        .filter_map(|_| Some(make(&mut ledger, 24)?.0))
        .collect();
    for &number in &made {
        give_back(&mut ledger, number, 24);
    }
    let again: Vec<Number> = (0..4)
        .filter_map(|_| Some(make(&mut ledger, 24)?.0))
        .collect();
    assert_eq!(again[..3], made[..3], "three are more than the queue keeps");
    assert!(again[3] > *made.last().expect("some"), "a fresh one");
}

#[test]
fn where_no_chunk_is_left_the_queue_serves_and_then_nothing() {
    let mut ledger = ledger(2);
    let all: Vec<Number> = (0..SLOTS)
        .filter_map(|_| Some(make(&mut ledger, 1)?.0))
        .collect();
    assert_eq!(all.len(), Arena::slots_of_class(0));
    assert!(make(&mut ledger, 1).is_none());
    assert!(make(&mut ledger, 100_000).is_none());
    give_back(&mut ledger, all[7], 1);
    assert_eq!(make(&mut ledger, 1).map(|(number, _)| number), Some(all[7]));
}

#[test]
fn slots_are_opened_ahead_once_there_were_many_and_each_serves_once() {
    let mut ledger = ledger(10);
    let mut opened: Vec<Number> = Vec::new();
    let mut without = 0;
    for _ in 0..1000 {
        let taken = ledger.take(1, &mut |_, _, _| true).expect("there is room");
        let is_open = ledger.is_open(taken, &mut |slots| {
            opened.extend(slots);
            true
        });
        assert_eq!(is_open, opened.contains(&taken.number), "{taken:?}");
        without += u32::from(!is_open);
        assert!(
            opened
                .iter()
                .filter(|&&number| number > taken.number)
                .count()
                < MOST_AHEAD
        );
    }
    assert_eq!(u64::from(without), TAKEN_FOR_EACH_AHEAD - 1);
}

/// A ledger in which so many objects were made and given back, and the numbers of their slots in that order.
fn with_waiting(objects: usize) -> (Ledger, Vec<Number>) {
    let mut ledger = ledger(10);
    let made: Vec<Number> = (0..objects)
        .filter_map(|_| Some(make(&mut ledger, 24)?.0))
        .collect();
    for &number in &made {
        give_back(&mut ledger, number, 24);
    }
    (ledger, made)
}

#[test]
fn slots_that_waited_long_enough_are_opened_together_and_no_others() {
    let waiting = 2100;
    let (mut ledger, made) = with_waiting(waiting);
    ledger.bounds.objects = (waiting - MOST_AHEAD - 1) as u64;
    let mut opened: Vec<Number> = Vec::new();
    let mut served: Vec<Number> = Vec::new();
    for _ in 0..MOST_AHEAD {
        let taken = ledger.take(1, &mut |_, _, _| true).expect("there is room");
        assert!(ledger.is_open(taken, &mut |slots| {
            opened.extend(slots);
            true
        }));
        served.push(taken.number);
    }
    opened.sort_unstable();
    served.sort_unstable();
    assert_eq!(opened, made[..MOST_AHEAD], "the oldest, once");
    assert_eq!(served, opened, "each serves once");
    let next = ledger.take(1, &mut |_, _, _| true).expect("there is room");
    assert!(next.number > made[waiting - 1], "the others go on waiting");
}

#[test]
fn slots_that_could_not_be_opened_wait_on() {
    let waiting = 2100;
    let (mut ledger, made) = with_waiting(waiting);
    ledger.bounds.objects = (waiting - MOST_AHEAD - 1) as u64;
    let first = ledger.take(1, &mut |_, _, _| true).expect("there is room");
    assert_eq!(first.number, made[0]);
    assert!(!ledger.is_open(first, &mut |_| false));
    let second = ledger.take(1, &mut |_, _, _| true).expect("there is room");
    assert!(second.number > made[waiting - 1], "one fewer waits");
    let arena = ledger.arena();
    let rest: Vec<Number> = std::iter::from_fn(|| ledger.classes[0].queue.pop(&arena)).collect();
    let others = made[MOST_AHEAD..].iter().chain(&made[1..MOST_AHEAD]);
    let expected: Vec<Number> = others.copied().collect();
    assert!(rest == expected, "none is lost");
}

#[test]
fn a_refused_chunk_is_no_chunk() {
    let mut ledger = ledger(5);
    assert!(ledger.take(1, &mut |_, _, _| false).is_none());
    assert!(ledger.take(1000, &mut |_, _, _| false).is_none());
    assert_eq!(ledger.arena().find(ledger.arena().base + CHUNK), None);
    assert!(make(&mut ledger, 1).is_some());
}

#[test]
fn chunks_of_large_objects_serve_others_later() {
    let mut ledger = ledger(5);
    let large = 5 << 20;
    for _ in 0..20 {
        let (number, placed) = make(&mut ledger, large).expect("there is room");
        assert_eq!(placed.bytes, large);
        give_back(&mut ledger, number, large);
    }
    assert!(make(&mut ledger, 24).is_some());
}

#[test]
fn what_waits_is_not_forgotten_for_an_object_that_finds_no_room_all_the_same() {
    let mut ledger = ledger(8);
    let large = 5 << 20;
    let (first, _) = make(&mut ledger, large).expect("there is room");
    let (second, _) = make(&mut ledger, large).expect("there is room");
    give_back(&mut ledger, first, large);
    for hopeless in [10 << 20, 100 << 20, 1 << 40] {
        assert!(make(&mut ledger, hopeless).is_none());
    }
    assert_eq!(ledger.counts.reused_early, 0);
    let state = ledger.arena().slot(first).facts().state;
    assert_eq!(state, State::Freed, "it waits on");
    give_back(&mut ledger, second, large);
    assert!(make(&mut ledger, 10 << 20).is_some(), "now there is room");
}

#[test]
fn what_was_written_over_is_not_handed_out() {
    for wrong in [3, 1 << 30] {
        let (mut ledger, made) = with_waiting(100);
        let arena = ledger.arena();
        let link = &arena.slot(made[1]).link;
        link.store(wrong, std::sync::atomic::Ordering::Relaxed);
        let queue = &mut ledger.classes[0].queue;
        let served: Vec<Number> = std::iter::from_fn(|| queue.pop(&arena)).collect();
        assert_eq!(served, made[..2], "{wrong}");
        assert!(make(&mut ledger, 24).is_some(), "there are others");
    }
}
