//! What a call path of ten frames costs, walked by the remembered tables and by the compiler's unwinder, ns. Prints two numbers.

use std::hint::black_box;
use std::time::Instant;

use pagewise_interpose::backtrace;
use pagewise_interpose::capture;
use pagewise_interpose::unwind;

const FRAMES: usize = 10;
const WALKS: u32 = 100_000;

#[inline(never)]
fn deeper(calls: usize, then: &dyn Fn()) -> usize {
    if calls == 0 {
        then();
        return 0;
    }
    black_box(deeper(calls - 1, then)) + 1
}

fn per_walk(walk: impl Fn()) -> f64 {
    let began = Instant::now();
    for _ in 0..WALKS {
        walk();
    }
    began.elapsed().as_nanos() as f64 / f64::from(WALKS)
}

fn main() {
    deeper(FRAMES, &|| {
        let tables = per_walk(|| {
            let mut path = [0; FRAMES + 1];
            assert_eq!(unwind::walk(capture(), &mut path).frames, FRAMES + 1);
            black_box(path);
        });
        let compilers = per_walk(|| {
            let mut frames = 0;
            backtrace(&mut |_| {
                frames += 1;
                frames <= FRAMES
            });
            assert_eq!(frames, FRAMES + 1);
        });
        println!("{tables:.0} {compilers:.0}");
    });
}
