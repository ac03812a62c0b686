//! What a recording has of looks at accessed bits: at all pages, or at some that stand for all.

use pagewise_trace::Access;
use pagewise_trace::Glance;
use pagewise_trace::SpotGlance;
use pagewise_trace::SpotLook;
use pagewise_trace::Spots;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::history::page_bytes;
use crate::history::parts;
use crate::looks::bits;

/// Pages that a digit of a map tells of, and their size.
const PAGES_OF_DIGIT: u64 = 4;
const BASE_PAGE_BYTES: u64 = 4096;
/// Enough is one in so many of the pages that were in memory.
const ENOUGH: u64 = 4;

type Looks<'a, T> = Box<dyn Iterator<Item = Result<T, TraceError>> + 'a>;

/// Its looks and the glances before them.
pub(crate) struct Looked<'a> {
    trace: &'a Trace,
    /// The pages that were looked at all the time; `None`: all were.
    pub(crate) spots: Option<Spots>,
    /// Whether there is any look.
    pub(crate) is_any: bool,
}

impl<'a> Looked<'a> {
    pub(crate) fn read(trace: &'a Trace) -> Result<Self, TraceError> {
        let is_all = trace.accesses()?.next().is_some();
        let spots = match is_all {
            true => None,
            false => spots_that_stand_for_most(trace)?,
        };
        Ok(Self {
            trace,
            spots,
            is_any: is_all || spots.is_some(),
        })
    }

    /// Whether the page of this key was looked at whenever it was in memory.
    pub(crate) fn takes(&self, key: u64) -> bool {
        self.spots.is_none_or(|spots| spots.takes(parts(key).1))
    }

    /// Whether the page of this key was left alone, while others were looked at.
    pub(crate) fn leaves_alone(&self, key: u64) -> bool {
        !self.takes(key) && !Spots::is_beside(parts(key).1)
    }

    /// Whether only some pages were looked at, and others not.
    pub(crate) fn are_some(&self) -> bool {
        self.spots.is_some_and(|spots| spots.pages_each() > 1)
    }

    /// The looks in order of time, those beside the spots, too, which tell of what lies around.
    pub(crate) fn accesses(&self) -> Result<Looks<'a, Access>, TraceError> {
        Ok(match self.spots {
            Some(_) => Box::new(self.trace.spot_looks()?.map(|look| look.map(access))),
            None => Box::new(self.trace.accesses()?),
        })
    }

    /// The looks that tell of each page whether it was accessed.
    pub(crate) fn looks(&self) -> Result<Looks<'a, Access>, TraceError> {
        Ok(match self.spots {
            Some(_) => {
                let looks = self.trace.spot_looks()?;
                let of_spots = looks.filter(|look| look.as_ref().map_or(true, is_of_spots));
                Box::new(of_spots.map(|look| look.map(access)))
            }
            None => Box::new(self.trace.accesses()?),
        })
    }

    /// The glances before these, in order of time.
    pub(crate) fn glances(&self) -> Result<Looks<'a, Glance>, TraceError> {
        Ok(match self.spots {
            Some(_) => {
                let glances = self.trace.spot_glances()?;
                let is_of_spots =
                    |seen: &SpotGlance| !is_beside(seen.address, &seen.map).unwrap_or(false);
                let of_spots = glances.filter(move |seen| seen.as_ref().map_or(true, is_of_spots));
                Box::new(of_spots.map(|seen| seen.map(glance)))
            }
            None => Box::new(self.trace.glances()?),
        })
    }
}

/// The smallest share of the pages that was looked at, if they stand for enough of what was in memory: of shared memory and of huge pages there are none.
fn spots_that_stand_for_most(trace: &Trace) -> Result<Option<Spots>, TraceError> {
    let mut pages_each = 0;
    // Of one look, and of that which saw most.
    let (mut time_ns, mut pages, mut most) = (0, 0, 0);
    for look in trace.spot_looks()? {
        let look = look?;
        if !is_of_spots(&look) {
            continue;
        }
        if look.time_ns != time_ns {
            (time_ns, pages) = (look.time_ns, 0);
        }
        pages += u64::from(pages_in(&look.looked_map)) * u64::from(look.pages_each);
        most = pages.max(most);
        pages_each = look.pages_each.max(pages_each);
    }
    let resident = trace.meta().peak_rss_bytes.unwrap_or(0) / page_bytes(trace);
    let is_enough = most > 0 && most * ENOUGH >= resident;
    Ok(is_enough.then(|| Spots::one_in(pages_each.into())))
}

/// Whether it is a look at spots, not at pages beside them. Of no page it tells nothing.
fn is_of_spots(look: &SpotLook) -> bool {
    look.pages_each == 1 || is_beside(look.address, &look.looked_map) == Some(false)
}

/// Whether the pages of a region that a map names are beside the spots, which is so of all or of none. `None`: there are none.
pub(crate) fn is_beside(address: u64, map: &str) -> Option<bool> {
    let first = map.bytes().position(|digit| digit != b'0')?;
    Some(Spots::is_beside(
        address / BASE_PAGE_BYTES + first as u64 * PAGES_OF_DIGIT,
    ))
}

fn access(look: SpotLook) -> Access {
    let accessed_pages = pages_in(look.accessed_map.as_deref().unwrap_or_default());
    Access {
        time_ns: look.time_ns,
        interval_ns: look.interval_ns,
        space: look.space,
        address: look.address,
        resident_pages: pages_in(&look.looked_map),
        accessed_pages,
        dirty_pages: 0,
        huge: false,
        swapped_pages: 0,
        resident_map: Some(look.looked_map),
        accessed_map: look.accessed_map,
    }
}

fn glance(seen: SpotGlance) -> Glance {
    Glance {
        time_ns: seen.time_ns,
        interval_ns: seen.interval_ns,
        space: seen.space,
        address: seen.address,
        pages: pages_in(&seen.map),
        map: Some(seen.map),
    }
}

/// Pages of a map.
fn pages_in(map: &str) -> u16 {
    let words = bits(Some(map)).unwrap_or_default();
    words.iter().map(|word| word.count_ones() as u16).sum()
}

#[cfg(test)]
mod tests {
    use pagewise_trace::Meta;
    use pagewise_trace::Overwrite;
    use pagewise_trace::TraceWriter;

    use super::*;

    /// Of the two spots that begin a region, the one that is beside spots, or the other one.
    fn map_of(region: u64, is_beside: bool) -> String {
        match Spots::is_beside(region / 4096) == is_beside {
            true => format!("ffff{}", "0".repeat(124)),
            false => format!("0000ffff{}", "0".repeat(120)),
        }
    }

    #[test]
    fn looks_beside_the_spots_tell_of_what_lies_around_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("trace");
        let meta = Meta {
            peak_rss_bytes: Some(256 * 4096),
            ..Meta::default()
        };
        let mut writer = TraceWriter::create(&dir, meta, Overwrite::Refuse).expect("created");
        for (time_ns, pages_each, is_beside) in [(5, 8, false), (9, 32, true)] {
            for address in [0, 2 << 20] {
                let map = map_of(address, is_beside);
                let look = SpotLook {
                    time_ns,
                    interval_ns: 4,
                    listed_ns: None,
                    space: 1,
                    address,
                    pages_each,
                    looked_map: map.clone(),
                    accessed_map: Some(map.clone()),
                };
                writer.spot_looks.push(look).expect("written");
                let glance = SpotGlance {
                    time_ns: time_ns - 1,
                    interval_ns: 3,
                    space: 1,
                    address,
                    map,
                };
                writer.spot_glances.push(glance).expect("written");
            }
        }
        writer.close().expect("closed");
        let trace = Trace::open(&dir).expect("opened");
        let looked = Looked::read(&trace).expect("read");
        assert_eq!(looked.spots, Some(Spots::one_in(8)));
        assert_eq!(looked.accesses().expect("read").count(), 4);
        assert_eq!(looked.looks().expect("read").count(), 2);
        assert_eq!(looked.glances().expect("read").count(), 2);
        for page in 0..2048 {
            let is_left = looked.leaves_alone(page);
            assert_eq!(
                is_left,
                !looked.takes(page) && !Spots::is_beside(page),
                "{page}"
            );
        }
    }

    #[test]
    fn spots_of_a_small_part_of_memory_stand_for_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let spots = |name: &str, peak_pages: u64| {
            let meta = Meta {
                peak_rss_bytes: Some(peak_pages * 4096),
                ..Meta::default()
            };
            let dir = folder.path().join(name);
            let mut writer = TraceWriter::create(&dir, meta, Overwrite::Refuse).expect("created");
            for (time_ns, address) in [(5, 0), (9, 0), (9, 2 << 20)] {
                writer
                    .spot_looks
                    .push(SpotLook {
                        time_ns,
                        interval_ns: 4,
                        listed_ns: None,
                        space: 1,
                        address,
                        pages_each: 8,
                        looked_map: map_of(address, false),
                        accessed_map: None,
                    })
                    .expect("written");
            }
            writer.close().expect("closed");
            let trace = Trace::open(&dir).expect("opened");
            let looked = Looked::read(&trace).expect("read");
            (looked.spots, looked.is_any)
        };
        // 32 pages stand for 256.
        let eighth = Some(Spots::one_in(8));
        assert_eq!(spots("all", 256), (eighth, true));
        assert_eq!(spots("a quarter", 1024), (eighth, true));
        assert_eq!(spots("less", 1025), (None, false));
    }

    #[test]
    fn spots_are_told_as_all_pages_are() {
        let look = SpotLook {
            time_ns: 9,
            interval_ns: 5,
            listed_ns: None,
            space: 1,
            address: 2 << 20,
            pages_each: 8,
            looked_map: format!("f0f{}", "0".repeat(125)),
            accessed_map: Some(format!("30f{}", "0".repeat(125))),
        };
        let row = access(look.clone());
        assert_eq!((row.resident_pages, row.accessed_pages), (8, 6));
        assert_eq!(row.accessed_map, look.accessed_map);
        let none = access(SpotLook {
            accessed_map: None,
            ..look
        });
        assert_eq!((none.resident_pages, none.accessed_pages), (8, 0));
    }
}
