//! The picture as a whole, small enough to be drawn before the points are unpacked, and the curves of rates.

use serde::Serialize;

use super::bands::Bands;
use super::events::Kind;
use super::events::Point;
use super::pack::Window;
use super::pack::compress;

/// Columns of the small picture, and steps of the curves.
pub(super) const COLUMNS: usize = 400;
/// Rows of the small picture.
pub(super) const ROWS: usize = 200;

/// How often and how long, by time: each number is of one of [`COLUMNS`] equal parts of the recording.
#[derive(Debug, Serialize)]
pub(super) struct Overview {
    columns: usize,
    rows: usize,
    /// First swap-ins, then evictions, row by row: a byte each, the number of points up to 255.
    cells: String,
    swap_ins: Vec<u64>,
    evictions: Vec<u64>,
    stall_ns: Vec<u64>,
}

impl Overview {
    /// `every`: a point stands for so many events.
    pub(super) fn of(
        points: &[Point],
        bands: &Bands,
        window: Window,
        every: u64,
    ) -> std::io::Result<Self> {
        let mut cells = vec![0u8; 2 * COLUMNS * ROWS];
        let mut swap_ins = vec![0; COLUMNS];
        let mut evictions = vec![0; COLUMNS];
        let mut stall_ns = vec![0; COLUMNS];
        for point in points {
            let column = part(
                point.time_ns.saturating_sub(window.start_ns),
                window.length_ns,
                COLUMNS,
            );
            let (band, row) = bands.place(point);
            let band = &bands.bands[band];
            let row = part(band.start + row * band.scale, bands.rows, ROWS);
            let plane = usize::from(point.kind == Kind::Eviction);
            let cell = &mut cells[(plane * ROWS + row) * COLUMNS + column];
            *cell = cell.saturating_add(1);
            if point.kind == Kind::Eviction {
                evictions[column] += every;
            } else {
                swap_ins[column] += every;
                stall_ns[column] += every * u64::from(point.latency_ns.unwrap_or(0));
            }
        }
        Ok(Self {
            columns: COLUMNS,
            rows: ROWS,
            cells: compress(&cells)?,
            swap_ins,
            evictions,
            stall_ns,
        })
    }
}

/// In which of so many equal parts of a whole this is.
fn part(at: u64, whole: u64, parts: usize) -> usize {
    let part = u128::from(at) * parts as u128 / u128::from(whole.max(1));
    usize::try_from(part).map_or(parts - 1, |part| part.min(parts - 1))
}
