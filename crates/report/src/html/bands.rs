//! The vertical axis: a band for each object, and in it a row for each page that something happened to.
//!
//! Address ranges without events are left out. A small object's rows are stretched, so that it can be seen beside large
//! ones; the band of all the further objects is compressed.

use std::collections::BTreeSet;
use std::collections::HashMap;

use pagewise_analyze::Findings;

use super::events::NO_OBJECT;
use super::events::Point;

/// Objects with a band of their own.
pub(super) const MOST_BANDS: usize = 24;
/// Pages that are shown together if something happens to one of them.
const GRANULE_BITS: u32 = 4;
const GRANULE: u64 = 1 << GRANULE_BITS;
/// No band is lower than one in so many of all rows, before stretching.
const LEAST_SHARE: u64 = 48;

/// The rows of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Band {
    /// Index into the objects of the findings; `None`: all further objects.
    pub(super) object: Option<usize>,
    /// Its first row on the axis, from 0 at the top.
    pub(super) start: u64,
    /// Rows it takes on the axis.
    pub(super) height: u64,
    /// Pages it has, those cropped left out.
    pub(super) pages: u64,
    /// Rows of the axis to a page.
    pub(super) scale: u64,
    /// Pages to a row, as a power of two.
    pub(super) shift: u32,
    /// Its address ranges: the first of its pages there, and where that is.
    pub(super) segments: Vec<Segment>,
}

/// Pages of a band that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Pages of the band before it.
    pub(super) offset: u64,
    /// The address space, as points name it.
    pub(super) space: u16,
    /// The address of its first page, in pages.
    pub(super) page: u64,
}

/// Where everything is on the vertical axis.
#[derive(Debug, Default)]
pub(super) struct Bands {
    pub(super) bands: Vec<Band>,
    /// Rows of the whole axis.
    pub(super) rows: u64,
    band_of: HashMap<u32, usize>,
    /// Of each granule, the pages of its band before it.
    offsets: Vec<HashMap<(u16, u64), u64>>,
}

impl Bands {
    pub(super) fn of(points: &[Point], findings: &Findings) -> Self {
        let mut result = Self::choose(points, findings);
        let mut granules = vec![BTreeSet::new(); result.bands.len()];
        let mut last = None;
        for point in points {
            let at = (
                result.band(point.object),
                point.space,
                point.page >> GRANULE_BITS,
            );
            if last.replace(at) != Some(at) {
                granules[at.0].insert((at.1, at.2));
            }
        }
        for (band, granules) in result.bands.iter_mut().zip(granules) {
            result.offsets.push(crop(band, granules));
        }
        result.arrange();
        result
    }

    /// Bands for the objects with most stall that have points, and one for the rest.
    fn choose(points: &[Point], findings: &Findings) -> Self {
        let mut seen = vec![false; findings.objects.len()];
        let mut rest = false;
        for point in points {
            match seen.get_mut(point.object as usize) {
                Some(seen) => *seen = true,
                None => rest = true,
            }
        }
        let with_points = (0..seen.len()).filter(|&object| seen[object]);
        let chosen: Vec<usize> = with_points.clone().take(MOST_BANDS).collect();
        rest |= with_points.count() > chosen.len();
        let band = |object| Band {
            object,
            ..Band::default()
        };
        let mut bands: Vec<Band> = chosen.iter().map(|&object| band(Some(object))).collect();
        if rest {
            bands.push(band(None));
        }
        let numbers = chosen.iter().enumerate();
        Self {
            bands,
            band_of: numbers
                .map(|(number, &object)| (object as u32, number))
                .collect(),
            ..Self::default()
        }
    }

    /// The band of an object, by its index in the findings.
    pub(super) fn band(&self, object: u32) -> usize {
        let known = (object != NO_OBJECT).then(|| self.band_of.get(&object));
        known
            .flatten()
            .copied()
            .unwrap_or_else(|| self.bands.len().saturating_sub(1))
    }

    /// The band of a point, and its row there, before stretching.
    pub(super) fn place(&self, point: &Point) -> (usize, u64) {
        let band = self.band(point.object);
        let granule = (point.space, point.page >> GRANULE_BITS);
        let offset = self.offsets[band].get(&granule).copied().unwrap_or(0);
        let page = offset + (point.page & (GRANULE - 1));
        (band, page >> self.bands[band].shift)
    }

    fn arrange(&mut self) {
        let named = self.bands.iter().filter(|band| band.object.is_some());
        let named: u64 = named.map(|band| band.pages).sum();
        let most_of_rest = (named / 3).max(512);
        let mut all = named;
        for band in self.bands.iter_mut().filter(|band| band.object.is_none()) {
            while band.pages >> band.shift > most_of_rest {
                band.shift += 1;
            }
            all += band.pages >> band.shift;
        }
        let least = (all / LEAST_SHARE).max(1);
        let gap = (all / 400).max(1);
        let mut start = 0;
        for band in &mut self.bands {
            let rows = (band.pages >> band.shift).max(1);
            band.scale = least.div_ceil(rows).max(1);
            band.start = start;
            band.height = rows * band.scale;
            start += band.height + gap;
        }
        self.rows = start.saturating_sub(gap);
    }
}

/// Joins granules side by side to segments; returns where each of them begins.
fn crop(band: &mut Band, granules: BTreeSet<(u16, u64)>) -> HashMap<(u16, u64), u64> {
    let mut offsets = HashMap::with_capacity(granules.len());
    let mut before = None;
    for (space, granule) in granules {
        if before.replace((space, granule)) != Some((space, granule.wrapping_sub(1))) {
            band.segments.push(Segment {
                offset: band.pages,
                space,
                page: granule << GRANULE_BITS,
            });
        }
        offsets.insert((space, granule), band.pages);
        band.pages += GRANULE;
    }
    offsets
}
