//! The string of page accesses of examples/hotcold.c, with the same random numbers, as lines of the format `address`.
//! usage: hotcold MIB HOT_MIB ACCESSES

use std::env;
use std::error::Error;
use std::io;
use std::io::BufWriter;
use std::io::Write;

const PAGE_BYTES: u64 = 4096;
const COLD_ONE_IN: u64 = 64;

/// xorshift64*, as in the program.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<u64> = env::args()
        .skip(1)
        .map(|argument| argument.parse())
        .collect::<Result<_, _>>()?;
    let [mib, hot_mib, accesses] = arguments[..] else {
        return Err("usage: hotcold MIB HOT_MIB ACCESSES".into());
    };
    let pages = (mib << 20) / PAGE_BYTES;
    let hot_pages = (hot_mib << 20) / PAGE_BYTES;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut random = Random(88_172_645_463_325_252);
    for page in 0..pages {
        writeln!(out, "s 0x{:x} 8", page * PAGE_BYTES)?;
        // Half of each page's words are random.
        for _ in 0..PAGE_BYTES / 8 / 2 {
            random.next();
        }
    }
    for _ in 0..accesses {
        let number = random.next();
        let range = match number % COLD_ONE_IN {
            0 => pages,
            _ => hot_pages,
        };
        writeln!(out, "s 0x{:x} 8", number / COLD_ONE_IN % range * PAGE_BYTES)?;
    }
    Ok(out.flush()?)
}
