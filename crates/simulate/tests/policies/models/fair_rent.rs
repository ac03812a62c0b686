//! Fair rent: every page holds credit, all pay the same rent, who cannot pay leaves.

use pagewise_simulate::Reference;
use pagewise_simulate::Storage;

use super::Model;

struct Page {
    number: u32,
    dirty: bool,
    credit: u64,
    /// In which order equals leave: used again before on trial; anonymous, dirty, file; who bought first.
    order: (bool, u8, usize),
}

pub(crate) struct FairRent {
    frames: usize,
    storage: Storage,
    pages: Vec<Page>,
    bought: usize,
}

impl FairRent {
    pub(crate) fn new(frames: u32, storage: Storage) -> FairRent {
        FairRent {
            frames: frames as usize,
            storage,
            pages: Vec::new(),
            bought: 0,
        }
    }

    /// A page with the credit that losing it now would cost, or a quarter of that.
    fn buy(&mut self, reference: Reference, was_dirty: bool, trial: bool) -> Page {
        let dirty = was_dirty || reference.is_write();
        let swap = self.storage.swap;
        let (kind, price) = match (reference.is_file(), dirty) {
            (true, _) => (2, self.storage.file.read_ns),
            (false, true) => (1, swap.read_ns + swap.write_ns),
            (false, false) => (0, swap.read_ns),
        };
        self.bought += 1;
        Page {
            number: reference.page(),
            dirty,
            credit: if trial { price / 4 } else { price },
            order: (trial, kind, self.bought),
        }
    }

    /// Everyone pays what the poorest has, and the poorest leaves.
    fn collect_rent(&mut self) {
        let by_wealth = |&position: &usize| {
            let page: &Page = &self.pages[position];
            (page.credit, page.order)
        };
        let poorest = (0..self.pages.len()).min_by_key(by_wealth).expect("pages");
        let rent = self.pages.remove(poorest).credit;
        self.pages.iter_mut().for_each(|page| page.credit -= rent);
    }
}

impl Model for FairRent {
    fn access(&mut self, reference: Reference) {
        let position = (self.pages.iter()).position(|page| page.number == reference.page());
        let page = match position {
            Some(position) => {
                let was_dirty = self.pages.remove(position).dirty;
                self.buy(reference, was_dirty, false)
            }
            None => {
                if self.pages.len() == self.frames {
                    self.collect_rent();
                }
                self.buy(reference, false, true)
            }
        };
        self.pages.push(page);
    }
    fn resident(&self) -> Vec<u32> {
        self.pages.iter().map(|page| page.number).collect()
    }
}
