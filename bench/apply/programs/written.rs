//! A vector that each pass writes, with contents that cannot be compressed, beside a map that is used all the time.
use std::collections::HashMap;

const BYTES: usize = 128 << 20;
const KEYS: u64 = 1_000_000;

fn main() {
    let mut vector: Vec<u64> = (0..(BYTES / 8) as u64)
        .map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let mut counts: HashMap<u64, u64> = (0..KEYS).map(|key| (key, key)).collect();
    let mut sum = 0u64;
    for _ in 0..10 {
        for page in vector.chunks_mut(512) {
            for word in page.iter_mut() {
                sum = sum.wrapping_add(*word);
                *word ^= sum;
            }
            for shift in 0..4 {
                *counts.entry((sum >> shift) % KEYS).or_insert(0) += 1;
            }
        }
    }
    println!("{sum} {}", counts.len());
}
