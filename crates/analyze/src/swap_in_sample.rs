//! Swap-ins to draw a picture of: all of them, or of many a sample.

use pagewise_trace::Event;

/// More dots than any terminal shows.
const MOST_POINTS: usize = 1 << 18;

/// One swap-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledSwapIn {
    /// When, ns of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The address space.
    pub space: u32,
    /// The page's virtual address, in bytes.
    pub address: u64,
    /// Index of its object in the findings.
    pub object: usize,
}

/// Swap-ins in the order of time.
#[derive(Clone, Debug, Default)]
pub struct SwapInSample {
    /// The swap-ins.
    pub points: Vec<SampledSwapIn>,
    /// One in so many is among them; 1: all are.
    pub one_in: u64,
}

/// Takes every swap-in, until there are too many; then as if by lot, so that no pattern is in step with it.
#[derive(Default)]
pub(crate) struct Sampler {
    points: Vec<SampledSwapIn>,
    shift: u32,
    seen: u64,
}

/// The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
fn lot(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Sampler {
    /// `object`: the number it has while events go by.
    pub(crate) fn swap_in(&mut self, event: &Event, object: usize) {
        self.seen += 1;
        if lot(self.seen).trailing_zeros() < self.shift {
            return;
        }
        if self.points.len() == MOST_POINTS {
            self.thin_out();
            if lot(self.seen).trailing_zeros() < self.shift {
                return;
            }
        }
        self.points.push(SampledSwapIn {
            time_ns: event.time_ns,
            space: event.space,
            address: event.address,
            object,
        });
    }

    /// Keeps one in two. Which, depends on nothing that is kept of them: so again by lot.
    fn thin_out(&mut self) {
        self.shift += 1;
        let mut number = 0;
        let shift = u64::from(self.shift) << 48;
        self.points.retain(|_| {
            number += 1;
            lot(shift | number) & 1 == 0
        });
    }

    /// `index_of`: each object's place in the findings, by the number it had.
    pub(crate) fn finish(mut self, index_of: &[usize]) -> SwapInSample {
        for point in &mut self.points {
            point.object = index_of[point.object];
        }
        SwapInSample {
            points: self.points,
            one_in: 1 << self.shift,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_trace::EventKind;

    fn sampled(events: u64) -> SwapInSample {
        let mut sampler = Sampler::default();
        for number in 0..events {
            let event = Event {
                time_ns: number,
                space: 1,
                tid: None,
                kind: EventKind::SwapIn,
                address: number % 2 * 4096,
                latency_ns: None,
                stack: None,
            };
            sampler.swap_in(&event, (number % 2) as usize);
        }
        sampler.finish(&[1, 0])
    }

    #[test]
    fn few_are_all_taken() {
        let sample = sampled(1000);
        assert_eq!((sample.points.len(), sample.one_in), (1000, 1));
        assert_eq!((sample.points[0].object, sample.points[1].object), (1, 0));
    }

    #[test]
    fn of_many_a_fair_part_is() {
        let events = 2_000_000;
        let sample = sampled(events);
        let expected = (events / sample.one_in) as f64;
        assert!(sample.one_in > 1 && sample.points.len() <= MOST_POINTS);
        assert!((sample.points.len() as f64 / expected - 1.0).abs() < 0.02);
        let even = sample
            .points
            .iter()
            .filter(|point| point.object == 1)
            .count();
        assert!((even as f64 / expected - 0.5).abs() < 0.01, "{even}");
        let late = sample
            .points
            .iter()
            .filter(|point| point.time_ns >= events / 2);
        assert!((late.count() as f64 / expected - 0.5).abs() < 0.01);
    }
}
