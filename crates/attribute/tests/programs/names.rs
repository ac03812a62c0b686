// Allocations of a Rust program; "name:" comments say what each is called ("-" for no name).
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::LazyLock;

static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| vec![1; 80_000]); // name: TABLE

struct State {
    buf: Vec<u8>,
    names: Vec<u64>,
    text: String,
}

impl State {
    #[inline(never)]
    fn new(n: usize) -> Self {
        State {
            buf: vec![7; n], // name: buf
            names: Vec::with_capacity(n), // name: names
            text: String::new(),
        }
    }

    #[inline(never)]
    fn grow(&mut self, n: usize) {
        self.buf.resize(2 * n, 0); // name: buf
        self.text.reserve(n); // name: text
        self.names = vec![3; 2 * n]; // name: names
    }
}

#[inline(never)]
fn made(n: usize) -> Vec<u8> {
    vec![9; n]
}

#[inline(never)]
fn filled(n: usize) -> Result<Vec<usize>, String> {
    let mut list = Vec::new();
    list.resize(n, 1);
    Ok(list)
}

#[inline(never)]
fn vectors(n: usize) {
    let a = vec![1u8; n]; // name: a
    black_box(&a);
    let mut b: Vec<u64> = Vec::with_capacity(n); // name: b
    black_box(&mut b);
    let c: Vec<usize> = (0..n).map(|i| i * 2).collect(); // name: c
    black_box(&c);
    let d = c.clone(); // name: d
    black_box(&d);
    let mut e = Vec::new();
    for i in 0..n {
        e.push(i); // name: e
    }
    black_box(&e);
    let mut f: Vec<Vec<u8>> = Vec::new();
    f.push(vec![2; n]); // name: f[]
    black_box(&f);
    let g = made(n); // name: g
    black_box(&g);
    let h = filled(n).unwrap(); // name: h
    black_box(&h);
    let i = "text".repeat(n); // name: i
    black_box(&i);
    let mut j = Vec::new();
    j.extend_from_slice(&a); // name: j
    black_box(&j);
    let k = vec![5u16; n].into_boxed_slice(); // name: k
    black_box(&k);
    let mut m: HashMap<usize, usize> = HashMap::new();
    m.reserve(n); // name: m
    black_box(&m);
    let mut o = String::new();
    o += &i; // name: o
    black_box(&o);
    let p: Vec<Vec<u8>> = (0..2).map(|_| vec![4; n]).collect(); // name: p
    black_box(&p);
    let q = if n > 1 { vec![6u8; n] } else { Vec::new() }; // name: q
    black_box(&q);
    let r = // name: r
        Vec::<u32>::with_capacity(
            n,
        );
    black_box(&r);
}

fn main() {
    let n = black_box(80_000);
    let mut state = State::new(n);
    state.grow(n);
    black_box(&state.text);
    black_box(&TABLE[..]);
    vectors(n);
}
