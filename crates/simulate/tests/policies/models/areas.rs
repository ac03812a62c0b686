//! The two-area and the four-area policy: CLOCKs side by side, each with a list of what it lately let go.

use pagewise_simulate::Reference;
use pagewise_simulate::Storage;

use super::Model;
use super::take;

#[derive(Clone)]
struct Header {
    page: u32,
    used: bool,
    /// Rounds it may stay unused, earned by being used.
    rounds: u32,
}

#[derive(Clone)]
struct Area {
    /// From the hand on.
    ring: Vec<Header>,
    /// Oldest first, no contents.
    shadow: Vec<u32>,
    target: f64,
    /// What a shadow hit adds to the target.
    weight: f64,
    most_rounds: u32,
}

impl Area {
    fn header(&mut self, page: u32) -> Option<&mut Header> {
        self.ring.iter_mut().find(|header| header.page == page)
    }

    /// Turns the hand until a header may go.
    fn release(&mut self, frames: usize) {
        loop {
            let mut header = self.ring.remove(0);
            if header.used {
                header.rounds = (header.rounds + 1).min(self.most_rounds);
            } else if header.rounds > 0 {
                header.rounds -= 1;
            } else {
                self.shadow.push(header.page);
                while self.shadow.len() > 1 && self.ring.len() + self.shadow.len() > frames {
                    self.shadow.remove(0);
                }
                return;
            }
            header.used = false;
            self.ring.push(header);
        }
    }
}

pub(crate) struct Areas {
    frames: usize,
    areas: Vec<Area>,
    /// Which area an access belongs to.
    area_of: fn(Reference) -> usize,
}

impl Areas {
    pub(crate) fn two(frames: u32, storage: &Storage) -> Areas {
        let costs = [storage.swap.read_ns, storage.swap.write_ns];
        let mut two = Areas::new(frames, &costs, |access| usize::from(access.is_write()));
        two.areas[1].most_rounds = 3;
        two
    }

    pub(crate) fn four(frames: u32, storage: &Storage) -> Areas {
        let (swap, file) = (storage.swap, storage.file);
        let costs = [swap.read_ns, swap.write_ns, file.read_ns, file.write_ns];
        Areas::new(frames, &costs, |access| {
            match (access.is_file(), access.is_write()) {
                (false, false) => 0,
                (false, true) => 1,
                (true, false) => 2,
                (true, true) => 3,
            }
        })
    }

    fn new(frames: u32, costs: &[u64], area_of: fn(Reference) -> usize) -> Areas {
        let mean = costs.iter().sum::<u64>() as f64 / costs.len() as f64;
        let area = |&cost: &u64| Area {
            ring: Vec::new(),
            shadow: Vec::new(),
            target: f64::from(frames) / costs.len() as f64,
            weight: cost as f64 / mean,
            most_rounds: 0,
        };
        Areas {
            frames: frames as usize,
            areas: costs.iter().map(area).collect(),
            area_of,
        }
    }

    /// The area that exceeds its target most lets a header go; of equals the last.
    fn shrink(&mut self) {
        let occupied = self.areas.iter_mut().filter(|area| !area.ring.is_empty());
        let excess = |area: &Area| area.ring.len() as f64 / area.target.max(1e-9);
        let fullest = occupied.max_by(|a, b| excess(a).total_cmp(&excess(b)));
        fullest.expect("pages in memory").release(self.frames);
    }

    /// One area grows, and all are scaled so that their targets are memory's size again.
    fn grow(&mut self, grown: usize) {
        let before: f64 = self.areas.iter().map(|area| area.target).sum();
        let weight = self.areas[grown].weight;
        self.areas[grown].target += weight;
        let scale = self.frames as f64 / (before + weight);
        self.areas.iter_mut().for_each(|area| area.target *= scale);
    }
}

impl Model for Areas {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        let resident = self.resident();
        if !resident.contains(&page) && resident.len() == self.frames {
            while self.resident().len() == self.frames {
                self.shrink();
            }
        }
        let number = (self.area_of)(reference);
        let area = &mut self.areas[number];
        if let Some(header) = area.header(page) {
            header.used = true;
            return;
        }
        let remembered = take(&mut area.shadow, page);
        area.ring.push(Header {
            page,
            used: false,
            rounds: 0,
        });
        if remembered {
            self.grow(number);
        }
    }
    fn resident(&self) -> Vec<u32> {
        let headers = self.areas.iter().flat_map(|area| &area.ring);
        let mut pages: Vec<u32> = headers.map(|header| header.page).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }
}
