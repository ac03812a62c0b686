//! Sampling favours no site: over many seeds the estimated shares are, on average, the true ones.

use std::collections::HashMap;

use pagewise_analyze::analyze;
use pagewise_interpose::Sampler;
use pagewise_trace::Allocation;
use pagewise_trace::AllocationKind;
use pagewise_trace::Event;
use pagewise_trace::EventKind;
use pagewise_trace::Mapping;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Release;
use pagewise_trace::Sampling;
use pagewise_trace::Site;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;
use pagewise_trace::estimated_bytes;

const SEEDS: u64 = 100;
/// Of a share.
const MOST_BIAS: f64 = 0.01;
const MEAN: u32 = 32 << 10;
const HEAP: u64 = 0x5555_0000_0000;
const PAGE: u64 = 4096;
/// Sizes that the sites ask for, in bytes: from many to a page up to many pages.
const SIZES: [u64; 4] = [24, 200, 3000, 40_000];
/// How often each site allocates, in turn, so that each has some megabytes.
const TURNS: [usize; 4] = [400, 60, 2, 1];

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// A heap: blocks one behind the other in chance order, a third released again and their room used anew by others.
fn heap() -> Vec<(Allocation, Option<u64>)> {
    let mut random = Random(1);
    let mut made: Vec<(Allocation, Option<u64>)> = Vec::new();
    let mut top = HEAP;
    let lots: Vec<u32> = (0..4u32)
        .flat_map(|site| std::iter::repeat_n(site, TURNS[site as usize]))
        .collect();
    let mut free: HashMap<u64, Vec<u64>> = HashMap::new();
    for time_ns in 1..50_000u64 {
        let site = lots[random.below(lots.len() as u64) as usize];
        let bytes = SIZES[site as usize];
        let address = free.get_mut(&bytes).and_then(Vec::pop).unwrap_or_else(|| {
            let address = top;
            top += (bytes + 8).next_multiple_of(16);
            address
        });
        let allocation = Allocation {
            allocation: time_ns,
            space: 1,
            tid: 1,
            time_ns,
            address,
            bytes,
            kind: AllocationKind::Malloc,
            stack: Some(site),
            estimated_bytes: None,
        };
        made.push((allocation, None));
        if random.below(3) == 0 {
            let (victim, end) = &mut made[random.below(time_ns) as usize];
            if end.is_none() {
                *end = Some(time_ns);
                free.entry(victim.bytes).or_default().push(victim.address);
            }
        }
    }
    made
}

/// The sites' shares of swap-ins on pages all over the heap, of the blocks that are chosen.
fn shares(
    heap: &[(Allocation, Option<u64>)],
    mut choose: impl FnMut(&Allocation) -> Option<Option<u64>>,
) -> [f64; 4] {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("trace");
    let meta = Meta {
        sampling: Sampling {
            threshold_bytes: Some(64 << 10),
            sample_bytes: Some(MEAN.into()),
            sparsest_sample_bytes: Some(MEAN.into()),
        },
        ..Meta::default()
    };
    let mut writer = TraceWriter::create(&dir, meta, Overwrite::Refuse).expect("created");
    for stack in 0..4 {
        let site = Site {
            stack,
            name: None,
            file: Some("heap.c".to_owned()),
            line: Some(stack + 1),
            function: None,
            type_name: None,
        };
        writer.sites.push(site).expect("pushed");
    }
    let end = heap.iter().map(|(made, _)| made.address + made.bytes).max();
    let end = end.expect("blocks");
    let mapping = Mapping {
        space: 1,
        time_ns: 0,
        start: HEAP,
        end,
        permissions: "rw-p".to_owned(),
        offset: 0,
        path: "[heap]".to_owned(),
    };
    writer.mappings.push(mapping).expect("pushed");
    for (made, released) in heap {
        if let Some(estimated_bytes) = choose(made) {
            let made_at = made.address;
            let made = Allocation {
                estimated_bytes,
                ..made.clone()
            };
            writer.allocations.push(made).expect("pushed");
            if let &Some(time_ns) = released {
                let release = Release {
                    space: 1,
                    time_ns,
                    address: made_at,
                    bytes: None,
                };
                writer.releases.push(release).expect("pushed");
            }
        }
    }
    let mut random = Random(2);
    for event in 0..3000 {
        let event = Event {
            time_ns: 100_000 + event,
            space: 1,
            tid: Some(1),
            kind: EventKind::SwapIn,
            address: HEAP + random.below((end - HEAP) / PAGE) * PAGE,
            latency_ns: Some(1000),
            stack: None,
        };
        writer.events.push(event).expect("pushed");
    }
    writer.close().expect("closed");
    let findings = analyze(&Trace::open(&dir).expect("opened")).expect("analyzed");
    assert_eq!(findings.totals.swap_ins, 3000);
    let mut shares = [0.0; 4];
    for object in &findings.objects {
        if let Some(line) = object.identity.line {
            shares[line as usize - 1] = object.counts.swap_ins as f64 / 3000.0;
        }
    }
    shares
}

#[test]
fn the_mean_of_many_samples_is_the_truth() {
    let heap = heap();
    let truth = shares(&heap, |_| Some(None));
    assert!(truth.iter().all(|&share| share > 0.05), "{truth:?}");
    let mut sum = [0.0; 4];
    let mut squares = [0.0; 4];
    let mut farthest: f64 = 0.0;
    for seed in 0..SEEDS {
        let sampler = Sampler::new();
        let estimate = shares(&heap, |made| {
            let bytes = made.bytes as usize;
            if sampler.pass(bytes) && !sampler.is_seeded() {
                sampler.seed(seed, MEAN, bytes);
            }
            let chosen = sampler.choose(MEAN);
            chosen.map(|_| Some(estimated_bytes(made.bytes, MEAN)))
        });
        for site in 0..4 {
            let error = estimate[site] - truth[site];
            sum[site] += error;
            squares[site] += error * error;
            farthest = farthest.max(error.abs());
        }
    }
    let count = SEEDS as f64;
    for site in 0..4 {
        let bias = sum[site] / count;
        let deviation = (squares[site] / count).sqrt();
        println!(
            "{} bytes: truth {:.3}, bias {bias:+.4}, deviation {deviation:.4}",
            SIZES[site], truth[site]
        );
        assert!(bias.abs() < MOST_BIAS, "{bias} at {} bytes", SIZES[site]);
    }
    println!("farthest {farthest:.4}");
}
