//! Points as columns that compress well: sorted by time, differences instead of values, bytes of equal meaning together.
//!
//! | column | holds | for each |
//! |---|---|---|
//! | `time` | ticks since the point before, as a varint | point |
//! | `what` | `3 * band + kind` | point |
//! | `row` | row in the band, less that of the band's point of the same sort before, zigzag varint | point |
//! | `space` | process, index | point |
//! | `latency` | code of two bytes ([`latency_code`]); first all low bytes, then all high bytes | swap-in |
//! | `path` | call path, in the same form | swap-in |
//!
//! Sorts: swap-ins of either kind, and evictions. Varints are LEB128.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::bands::Bands;
use super::events::KINDS;
use super::events::Kind;
use super::events::Point;
use super::events::is_kept;

/// The columns in the order of [`Packed::columns`].
pub(super) const COLUMNS: [&str; 6] = ["time", "what", "row", "space", "latency", "path"];
/// Codes to an octave: a latency is right to 2.2 %.
pub(super) const LATENCY_STEPS: f64 = 16.0;
/// Ticks that the whole recording has at most, so that differences stay small.
const MOST_TICKS: u64 = 1 << 25;
/// A tick is not shorter, ns.
const SHORTEST_TICK_NS: u64 = 1_000;
/// Of deflate: 6 makes the file of five million events 3 % smaller, and takes 1.8 s longer for it.
const LEVEL: u32 = 4;
/// What the columns may take in the file, in bytes; more is thinned out.
const MOST_BYTES: usize = 27 << 20;

/// What is drawn, from when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// ns of CLOCK_MONOTONIC.
    pub(super) start_ns: u64,
    /// How long it is, ns; at least 1.
    pub(super) length_ns: u64,
}

impl Window {
    /// Length of the unit of time of the columns, ns.
    pub(super) fn tick_ns(self) -> u64 {
        self.length_ns.div_ceil(MOST_TICKS).max(SHORTEST_TICK_NS)
    }
}

/// Points as they stand in the file.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// Compressed (raw deflate) and in Base64.
    pub(super) columns: Vec<String>,
    /// How many points there are.
    pub(super) points: u64,
}

/// 0: unknown; else 1 more than 16 times the binary logarithm of the latency in ns.
pub(super) fn latency_code(latency_ns: Option<u32>) -> u16 {
    let Some(ns) = latency_ns else { return 0 };
    1 + (f64::from(ns.max(1)).log2() * LATENCY_STEPS).round() as u16
}

/// Packs all points, or as many of them as keep the file below its size.
pub(super) fn pack(points: &[Point], bands: &Bands, window: Window) -> std::io::Result<Packed> {
    let mut every = 1;
    loop {
        let (number, columns) = columns(points, bands, window, every);
        let columns = compress_all(&columns)?;
        let bytes: usize = columns.iter().map(String::len).sum();
        if bytes <= MOST_BYTES {
            return Ok(Packed {
                columns,
                points: number,
            });
        }
        every = (every + 1).max(every * (bytes.div_ceil(MOST_BYTES) as u64));
    }
}

fn columns(
    points: &[Point],
    bands: &Bands,
    window: Window,
    every: u64,
) -> (u64, [Vec<u8>; COLUMNS.len()]) {
    let mut columns: [Vec<u8>; COLUMNS.len()] = Default::default();
    let [time, what, rows, spaces, latencies, paths] = &mut columns;
    let tick_ns = window.tick_ns();
    let mut last_tick = 0;
    let mut last_row = vec![[0i64; 2]; bands.bands.len()];
    let (mut latency, mut path) = (Planes::default(), Planes::default());
    for (number, point) in (1..).zip(points) {
        if !is_kept(number, every) {
            continue;
        }
        let tick = point.time_ns.saturating_sub(window.start_ns) / tick_ns;
        push_varint(time, tick - last_tick);
        last_tick = tick;
        let (band, row) = bands.place(point);
        what.push((band * KINDS) as u8 + point.kind as u8);
        let last = &mut last_row[band][usize::from(point.kind == Kind::Eviction)];
        push_varint(rows, zigzag(row as i64 - *last));
        *last = row as i64;
        spaces.push(point.space as u8);
        if point.kind != Kind::Eviction {
            latency.push(latency_code(point.latency_ns));
            path.push(point.path);
        }
    }
    *latencies = latency.join();
    *paths = path.join();
    (what.len() as u64, columns)
}

/// The bytes of numbers, by place: the high ones hardly differ.
#[derive(Default)]
struct Planes {
    low: Vec<u8>,
    high: Vec<u8>,
}

impl Planes {
    fn push(&mut self, number: u16) {
        let [low, high] = number.to_le_bytes();
        self.low.push(low);
        self.high.push(high);
    }

    fn join(mut self) -> Vec<u8> {
        self.low.append(&mut self.high);
        self.low
    }
}

pub(super) fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Small numbers of either sign as small numbers.
pub(super) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn compress_all(columns: &[Vec<u8>]) -> std::io::Result<Vec<String>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = columns
            .iter()
            .map(|column| scope.spawn(move || compress(column)))
            .collect();
        let done = threads.into_iter().map(|thread| {
            let failed = |_| std::io::Error::other("a thread that compresses has panicked");
            thread.join().map_err(failed)?
        });
        done.collect()
    })
}

/// Raw deflate, then Base64.
pub(super) fn compress(bytes: &[u8]) -> std::io::Result<String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(LEVEL));
    encoder.write_all(bytes)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_small_where_they_can_be() {
        let mut bytes = Vec::new();
        for number in [0, 127, 128, 300] {
            push_varint(&mut bytes, number);
        }
        assert_eq!(bytes, [0, 127, 0x80, 1, 0xac, 2]);
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
    }

    #[test]
    fn a_latency_comes_back_to_two_percent() {
        assert_eq!(latency_code(None), 0);
        for ns in [1, 2, 999, 5_800, 237_000, 20_000_000, u32::MAX] {
            let code = f64::from(latency_code(Some(ns)) - 1);
            let back = (code / LATENCY_STEPS).exp2();
            assert!((back / f64::from(ns) - 1.0).abs() < 0.0221, "{ns}: {back}");
        }
        assert!(latency_code(Some(0)) > 0);
    }

    #[test]
    fn a_long_recording_has_longer_ticks() {
        let window = |length_ns| Window {
            start_ns: 0,
            length_ns,
        };
        assert_eq!(window(1_000_000).tick_ns(), 1_000);
        assert!(window(3_600_000_000_000).tick_ns() <= 110_000);
    }
}
