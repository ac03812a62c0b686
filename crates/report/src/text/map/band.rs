//! An object's addresses as rows: gaps between its parts are left out.

use pagewise_analyze::SampledSwapIn;

/// Pages without a swap-in that are still drawn; a longer gap is no part of the object that matters.
const LONGEST_GAP: u64 = 512;
const MOST_ROWS: usize = 8;

/// One object in the map.
pub(super) struct Band {
    pub(super) points: Vec<SampledSwapIn>,
    /// Where each part begins, by space and page, and its distance from the top in pages.
    parts: Vec<(u32, u64, u64)>,
    pages: u64,
    page_bytes: u64,
}

impl Band {
    pub(super) fn new(points: Vec<SampledSwapIn>, page_bytes: u64) -> Self {
        let mut seen: Vec<(u32, u64)> = points
            .iter()
            .map(|point| (point.space, point.address / page_bytes))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        let mut parts: Vec<(u32, u64, u64)> = Vec::new();
        let (mut pages, mut last) = (0, None);
        for (space, page) in seen {
            let distance = last
                .filter(|(other, _)| *other == space)
                .map(|(_, before)| page - before)
                .filter(|&distance| distance <= LONGEST_GAP);
            match distance {
                Some(distance) => pages += distance,
                None => {
                    parts.push((space, page, pages));
                    pages += 1;
                }
            }
            last = Some((space, page));
        }
        Self {
            points,
            parts,
            pages,
            page_bytes,
        }
    }

    /// From the top of the band to the end, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.pages.saturating_mul(self.page_bytes)
    }

    pub(super) fn rows(&self) -> usize {
        // Twice the rows for each sixteen times the size.
        let octaves = self.pages.max(1).ilog2() as usize;
        (octaves / 2).clamp(2, MOST_ROWS)
    }

    pub(super) fn row_bytes(&self) -> u64 {
        self.bytes() / self.rows() as u64
    }

    /// 0 at the top to 1 at the end.
    pub(super) fn place(&self, point: &SampledSwapIn) -> f64 {
        let page = point.address / self.page_bytes;
        let after = self
            .parts
            .partition_point(|&(space, first, _)| (space, first) <= (point.space, page));
        let Some(&(_, first, top)) = after.checked_sub(1).and_then(|at| self.parts.get(at)) else {
            return 0.0;
        };
        (top + (page - first)) as f64 / self.pages.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(space: u32, page: u64) -> SampledSwapIn {
        SampledSwapIn {
            time_ns: 0,
            space,
            address: page * 4096,
            object: 0,
        }
    }

    #[test]
    fn gaps_are_left_out_and_order_is_kept() {
        let points = vec![
            point(1, 1000),
            point(1, 0),
            point(1, 100),
            point(2, 0),
            point(1, 5000),
        ];
        let band = Band::new(points, 4096);
        assert_eq!(band.parts.len(), 4);
        assert_eq!(band.bytes(), (1 + 100 + 1 + 1 + 1) * 4096);
        let places: Vec<f64> = [(1, 0), (1, 100), (1, 1000), (1, 5000), (2, 0)]
            .iter()
            .map(|&(space, page)| band.place(&point(space, page)))
            .collect();
        assert!(
            places.is_sorted() && places[0] == 0.0 && places[4] < 1.0,
            "{places:?}"
        );
    }

    #[test]
    fn one_page_is_a_band_too() {
        let band = Band::new(vec![point(1, 7)], 4096);
        assert_eq!(
            (band.bytes(), band.rows(), band.place(&point(1, 7))),
            (4096, 2, 0.0)
        );
        assert_eq!(Band::new(Vec::new(), 4096).place(&point(1, 7)), 0.0);
    }
}
