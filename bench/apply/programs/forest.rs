//! A least spanning forest by Boruvka's rounds. In each of them the edges are gone through once and looked up at random, and labels and the best edge of
//! each component are looked up for every edge: which is used most differs from round to round.

const VERTICES: u32 = 3_000_000;
const EDGES: usize = 13_000_000;

#[derive(Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
    weight: u32,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }
}

/// Like a road network: one edge in eight leads far away.
fn generate() -> Vec<Edge> {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut edges = Vec::with_capacity(EDGES);
    while edges.len() < EDGES {
        let from = random.next() % VERTICES;
        let to = match random.next() % 8 {
            0 => random.next() % VERTICES,
            _ => (from + 1 + random.next() % 20_000) % VERTICES,
        };
        let weight = random.next() >> 2;
        if from != to {
            edges.push(Edge { from, to, weight });
        }
    }
    edges
}

/// The cheapest edge that leaves each component, by weight and then by place.
fn find_best(edges: &[Edge], component: &[u32], best: &mut [u64]) {
    best.fill(u64::MAX);
    for (at, edge) in edges.iter().enumerate() {
        let (from, to) = (component[edge.from as usize], component[edge.to as usize]);
        if from != to {
            let key = u64::from(edge.weight) << 32 | at as u64;
            for end in [from, to] {
                best[end as usize] = best[end as usize].min(key);
            }
        }
    }
}

/// Joins components by their best edges. Their new labels, how many were joined, and the weight of the edges.
fn join(edges: &[Edge], component: &[u32], best: &[u64]) -> (Vec<u32>, u32, u64) {
    let mut parent: Vec<u32> = (0..VERTICES).collect();
    let (mut joined, mut weight) = (0, 0);
    for label in 0..VERTICES {
        let key = best[label as usize];
        if key == u64::MAX {
            continue;
        }
        let edge = edges[(key & 0xffff_ffff) as usize];
        let (from, to) = (component[edge.from as usize], component[edge.to as usize]);
        let other = if from == label { to } else { from };
        // The other side takes this edge.
        if best[other as usize] == key && other < label {
            continue;
        }
        parent[label as usize] = other;
        weight += u64::from(edge.weight);
        joined += 1;
    }
    (parent, joined, weight)
}

fn shorten(component: &mut [u32], parent: &mut [u32]) {
    for label in component {
        while parent[*label as usize] != *label {
            let next = parent[parent[*label as usize] as usize];
            parent[*label as usize] = next;
            *label = next;
        }
    }
}

fn main() {
    let mut edges = generate();
    let mut component: Vec<u32> = (0..VERTICES).collect();
    let mut best = vec![u64::MAX; VERTICES as usize];
    let (mut rounds, mut taken, mut weight) = (0, 0, 0);
    while !edges.is_empty() {
        find_best(&edges, &component, &mut best);
        let (mut parent, joined, of_round) = join(&edges, &component, &best);
        rounds += 1;
        taken += joined;
        weight += of_round;
        if joined == 0 {
            break;
        }
        shorten(&mut component, &mut parent);
        edges.retain(|edge| component[edge.from as usize] != component[edge.to as usize]);
    }
    println!("{rounds} {taken} {weight}");
}
