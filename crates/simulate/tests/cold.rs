//! Why no plan pages out early what is not used again: even if that is known at the very moment of the last use, which only an
//! oracle knows, hardly less is swapped in than by the kernel's own order.

use pagewise_simulate::Level;
use pagewise_simulate::Models;
use pagewise_simulate::PolicyKind;
use pagewise_simulate::Reference;
use pagewise_simulate::Settings;
use pagewise_simulate::Simulation;

/// A run in two parts.
struct Run {
    /// Memory, pages.
    frames: u32,
    /// Pages 0 to that are used in the first part only, at random among the others.
    early: u32,
    /// Pages in the second part, as a share of memory: those others, and new ones.
    late_share: f64,
    /// How often a page is used in the second part, on average.
    rounds: u32,
}

impl Run {
    /// Others that are in use all the time: with the early ones, they just fit.
    fn others(&self) -> u32 {
        self.frames - self.early - self.frames / 64
    }

    fn first_part(&self, random: &mut Random) -> Vec<u32> {
        let all = self.early + self.others();
        let used = 0..4 * all;
        (0..all).chain(used.map(|_| random.below(all))).collect()
    }

    fn second_part(&self, random: &mut Random) -> Vec<u32> {
        let others = self.others();
        let late = (f64::from(self.frames) * self.late_share) as u32;
        let mut pages = Vec::new();
        for new in others..late.max(others) {
            pages.extend([new, random.below(others), random.below(others)]);
        }
        pages.extend((0..late * self.rounds).map(|_| random.below(late)));
        pages.into_iter().map(|page| self.early + page).collect()
    }

    /// Swap-ins, without or with an oracle that has the early pages go as soon as they are not used any more.
    fn swap_ins(&self, with_oracle: bool) -> u64 {
        let storage = Models::built_in()
            .storage("ufs3.1", "zram-lz4", Level::Typical)
            .expect("they are built in");
        let settings = Settings::new(PolicyKind::Linux, self.frames, storage);
        let mut simulation = Simulation::new(&settings).expect("some memory");
        let mut random = Random(1);
        simulation.feed(&references(self.first_part(&mut random)));
        if with_oracle {
            for page in 0..self.early {
                assert!(simulation.forget(page));
            }
        }
        simulation.feed(&references(self.second_part(&mut random)));
        simulation.outcome().swap_reads
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16;
        (bits % u64::from(most)) as u32
    }
}

fn references(pages: Vec<u32>) -> Vec<Reference> {
    let reference = |page| Reference::new(page, true, false).expect("few pages");
    pages.into_iter().map(reference).collect()
}

#[test]
fn what_is_not_used_again_leaves_as_well_by_itself() {
    for (frames, rounds) in [(1 << 14, 2), (1 << 14, 10), (1 << 18, 2)] {
        for early_share in [4, 2] {
            for late_share in [0.98, 1.1, 1.5] {
                let run = Run {
                    frames,
                    early: frames / early_share,
                    late_share,
                    rounds,
                };
                let (kernel, oracle) = (run.swap_ins(false), run.swap_ins(true));
                let told =
                    format!("{frames} 1/{early_share} {late_share} {rounds}: {kernel} {oracle}");
                // Where the late pages fit, none of them is swapped; where they do not, they are, with early ones or without.
                assert_eq!(kernel > 0, late_share > 1.0, "{told}");
                assert!(oracle as f64 >= 0.95 * kernel as f64, "{told}");
            }
        }
    }
}
