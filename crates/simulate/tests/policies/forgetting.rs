//! What a program gives back.

use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Simulation;
use proptest::prelude::*;

use crate::models::Linux;
use crate::models::Model;
use crate::simulation;
use crate::traces::frames;
use crate::traces::traces;
use crate::traces::wide_frames;
use crate::traces::wide_traces;

fn written(page: u32) -> Reference {
    Reference::new(page, true, false).expect("few pages")
}

/// `linux`, and its model, on a trace after each `period` references of which the page of one before is given back.
fn agree(trace: &[Reference], frames: u32, period: usize) {
    let simulation = simulation(PolicyKind::Linux, frames, &[]);
    agree_with(
        trace,
        simulation,
        Linux::new(frames),
        |position, simulation, model| {
            if position % period == 0 {
                let page = trace[position / 2].page();
                model.forget(page);
                assert!(simulation.forget(page));
            }
        },
    );
}

/// `linux`, and its model, on a trace, after each reference of which something is done to both.
pub(crate) fn agree_with(
    trace: &[Reference],
    mut simulation: Simulation,
    mut model: Linux,
    mut then: impl FnMut(usize, &mut Simulation, &mut Linux),
) {
    let mut misses = 0;
    for (position, &reference) in trace.iter().enumerate() {
        misses += u64::from(!model.resident().contains(&reference.page()));
        model.access(reference);
        simulation.feed(&[reference]);
        assert_eq!(simulation.outcome().misses(), misses, "at {position}");
        then(position, &mut simulation, &mut model);
        assert_eq!(simulation.resident() as usize, model.resident().len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn linux_forgets_as_its_model_does(
        narrow in traces(), few in frames(), wide in wide_traces(), many in wide_frames(), period in 1usize..20,
    ) {
        agree(&narrow, few, period);
        agree(&wide, many, period);
    }
}

#[test]
fn what_is_given_back_frees_its_frame_is_not_written_and_is_new_when_it_returns() {
    let fed = |forgets: bool| {
        let mut simulation = simulation(PolicyKind::Linux, 40, &[]);
        let pages: Vec<Reference> = (0..40).map(written).collect();
        simulation.feed(&pages);
        if forgets {
            assert!((0..40).all(|page| simulation.forget(page)));
            assert_eq!(simulation.resident(), 0);
        }
        let others: Vec<Reference> = (40..80).map(written).collect();
        simulation.feed(&others);
        simulation.feed(&pages[..1]);
        simulation
    };
    let kept = fed(false).outcome();
    assert!(kept.swap_writes >= 40 && kept.swap_reads == 1);
    let forgotten = fed(true);
    let outcome = forgotten.outcome();
    assert_eq!((outcome.swap_reads, outcome.first_touches), (0, 81));
    // 40 pages and a last one in 40 frames: one cluster went, of the other 40.
    assert_eq!(outcome.swap_writes, outcome.evictions);
    assert!(outcome.evictions < kept.evictions);
}

#[test]
fn a_page_never_seen_can_be_given_back() {
    let mut simulation = simulation(PolicyKind::Linux, 4, &[]);
    assert!(simulation.forget(1000));
    simulation.feed(&[written(0)]);
    assert!(simulation.forget(1));
    assert_eq!(simulation.resident(), 1);
}

#[test]
fn policies_that_cannot_forget_say_so_and_keep_the_page() {
    let others = |policy: &PolicyKind| *policy != PolicyKind::Linux;
    for policy in PolicyKind::ALL.iter().copied().filter(others) {
        let trace = [written(0), written(0)];
        let mut simulation: Simulation = simulation(policy, 4, &trace);
        simulation.feed(&trace[..1]);
        assert!(!simulation.forget(0), "{policy}");
        simulation.feed(&trace[1..]);
        assert_eq!(
            (simulation.resident(), simulation.outcome().misses()),
            (1, 1),
            "{policy}"
        );
    }
}
