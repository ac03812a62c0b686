// A map of strings, read at random: pointers in nodes, no frame pointers.
use std::collections::BTreeMap;

fn main() {
    let mut map = BTreeMap::new();
    let mut number = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..600_000 {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        map.insert(number, format!("{number:064x}"));
    }
    let keys: Vec<u64> = map.keys().copied().step_by(7).collect();
    let mut sum = 0;
    for pass in 0..3 {
        sum += keys.iter().map(|key| map[&(key ^ (pass & 0))].len()).sum::<usize>();
    }
    println!("{sum}");
}
