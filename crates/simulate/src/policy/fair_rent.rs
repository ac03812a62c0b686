//! Fair rent, Pagewise's own: each page stays for a time in proportion to what its loss would cost.
//!
//! A page buys credit when it is used: what reading it back costs on its device, and writing it if it is dirty in swap.
//! Who has the least credit leaves, and the others have paid as much rent: the Landlord scheme (N. E. Young, On-line file
//! caching, SODA 1998), whose cost no algorithm without knowledge of the future bounds better. What is new is how pages
//! arrive: a page that came in has to be used again to buy full credit, until then a quarter, so that scans of expensive
//! pages do not push out what is used. Within a kind of page all credit is bought at the same price: a list for each kind,
//! least credit first, replaces Landlord's heap.

use crate::lists::Links;
use crate::lists::List;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;
use crate::storage::Storage;

/// What a page that came in buys of the credit of one used again: 1/4.
const TRIAL_DIVISOR: u64 = 4;

/// Kinds of pages: anonymous, anonymous and dirty, file; each on trial or used again.
const ANONYMOUS: usize = 0;
const DIRTY: usize = 1;
const FILE: usize = 2;
const KINDS: usize = 3;

/// 16 bytes a page; the list is in the memory's bits.
pub(crate) struct FairRent {
    links: Links,
    /// By kind, those on trial behind the others.
    lists: [List; 2 * KINDS],
    /// What a page buys when it comes onto the list (ns).
    prices: [u64; 2 * KINDS],
    /// What everyone has paid so far (ns).
    rent: u64,
    /// Rent at which the page's credit is used up (ns).
    paid_up_to: Vec<u64>,
}

impl FairRent {
    pub(crate) fn new(storage: &Storage) -> FairRent {
        let read = storage.swap.read_ns;
        let full = [read, read + storage.swap.write_ns, storage.file.read_ns];
        FairRent {
            links: Links::default(),
            lists: [List::new(); 2 * KINDS],
            prices: std::array::from_fn(|list| match list {
                list if list < KINDS => full[list],
                list => full[list - KINDS] / TRIAL_DIVISOR,
            }),
            rent: 0,
            paid_up_to: Vec::new(),
        }
    }

    fn put(&mut self, reference: Reference, trial: usize, memory: &mut Memory) {
        let page = reference.page();
        let kind = match reference.is_file() {
            true => FILE,
            false if reference.is_write() || memory.is_dirty(page) => DIRTY,
            false => ANONYMOUS,
        };
        let list = trial * KINDS + kind;
        self.lists[list].push(page, &mut self.links);
        self.paid_up_to[page as usize] = self.rent + self.prices[list];
        memory.set_bits(page, list as u8);
    }

    fn evict(&mut self, memory: &mut Memory) {
        let first = |list: &&mut List| self.paid_up_to[list.oldest() as usize];
        let occupied = self.lists.iter_mut().filter(|list| !list.is_empty());
        let poorest = occupied.min_by_key(first).expect("a full memory has pages");
        let page = poorest.pop(&mut self.links);
        self.rent = self.rent.max(self.paid_up_to[page as usize]);
        memory.evict(page);
    }
}

impl Policy for FairRent {
    fn grow(&mut self, pages: usize) {
        self.links.grow(pages);
        self.paid_up_to.resize(pages, 0);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        let list = usize::from(memory.bits(reference.page()));
        self.lists[list].remove(reference.page(), &mut self.links);
        self.put(reference, 0, memory);
    }

    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        if memory.is_full() {
            self.evict(memory);
        }
        memory.admit(reference.page());
        self.put(reference, 1, memory);
    }
}
