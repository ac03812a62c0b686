//! CLOCK-Pro: LIRS' distinction of hot and cold pages on one clock with three hands.
//! S. Jiang, F. Chen, X. Zhang, CLOCK-Pro: an effective improvement of the CLOCK replacement, USENIX ATC 2005.
//! A page comes in cold and in its test period, also while memory fills; non-resident pages are at most as many as frames.

use crate::lists::NONE;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::reference::Reference;

/// The memory's bits: what a page is, whether its test period runs, whether it was used since a hand came by.
const KIND: u8 = 3;
const HOT: u8 = 1;
const COLD: u8 = 2;
/// Cold, not resident, in its test period.
const GONE: u8 = 3;
const TESTED: u8 = 4;
const USED: u8 = 8;

/// Eight bytes a page.
pub(crate) struct ClockPro {
    ring: Ring,
    hot: u32,
    cold: u32,
    gone: u32,
    /// Frames that cold pages should have.
    cold_target: u32,
}

/// The clock: links of each page, and the hands.
struct Ring {
    links: Vec<[u32; 2]>,
    hands: [u32; 3],
}

const HAND_HOT: usize = 0;
const HAND_COLD: usize = 1;
const HAND_TEST: usize = 2;

impl Ring {
    /// Puts a page in at the list's head, which is behind the hot hand.
    fn insert(&mut self, page: u32) {
        let next = self.hands[HAND_HOT];
        if next == NONE {
            self.links[page as usize] = [page, page];
            self.hands = [page; 3];
            return;
        }
        let [previous, _] = self.links[next as usize];
        self.links[page as usize] = [previous, next];
        self.links[previous as usize][1] = page;
        self.links[next as usize][0] = page;
    }

    fn remove(&mut self, page: u32) {
        let [previous, next] = self.links[page as usize];
        self.links[previous as usize][1] = next;
        self.links[next as usize][0] = previous;
        for hand in &mut self.hands {
            if *hand == page {
                *hand = if next == page { NONE } else { next };
            }
        }
    }

    /// The page under the hand, which moves on.
    fn step(&mut self, hand: usize) -> u32 {
        let page = self.hands[hand];
        self.hands[hand] = self.links[page as usize][1];
        page
    }
}

impl ClockPro {
    pub(crate) fn new() -> ClockPro {
        ClockPro {
            ring: Ring {
                links: Vec::new(),
                hands: [NONE; 3],
            },
            hot: 0,
            cold: 0,
            gone: 0,
            cold_target: 1,
        }
    }

    /// A test period ended without an access: cold pages need less room.
    fn end_test(&mut self, page: u32, memory: &mut Memory) {
        let bits = memory.bits(page);
        if bits & TESTED == 0 {
            return;
        }
        self.cold_target = (self.cold_target - 1).max(1);
        if bits & KIND == GONE {
            self.ring.remove(page);
            self.gone -= 1;
            memory.set_bits(page, 0);
        } else {
            memory.set_bits(page, bits & !TESTED);
        }
    }

    /// Demotes the next hot page not used, and stops at the hot page behind it.
    fn run_hot(&mut self, memory: &mut Memory) {
        let before = self.hot;
        while self.hot == before || self.hot > 0 && !self.at_hot(memory) {
            self.pass_hot(memory);
        }
    }

    fn at_hot(&self, memory: &Memory) -> bool {
        memory.bits(self.ring.hands[HAND_HOT]) & KIND == HOT
    }

    /// The hot hand leaves a page behind, at the list's head: a hot page demoted if it was not used, a cold page without
    /// its test period, as the test hand would.
    fn pass_hot(&mut self, memory: &mut Memory) {
        self.settle(memory);
        let page = self.ring.step(HAND_HOT);
        let bits = memory.bits(page);
        if self.ring.hands[HAND_TEST] == page {
            self.ring.step(HAND_TEST);
        }
        if bits & KIND != HOT {
            self.end_test(page, memory);
        } else if bits & USED != 0 {
            memory.set_bits(page, HOT);
        } else {
            self.meet_first(page);
            memory.set_bits(page, COLD);
            self.hot -= 1;
            self.cold += 1;
        }
    }

    /// The cold hand stops at a resident cold page and the test hand at a cold page, if there are any. That matters only
    /// when a page is about to come to the list's head or the hot hand to pass, so it is done then.
    fn settle(&mut self, memory: &Memory) {
        while self.cold > 0 && memory.bits(self.ring.hands[HAND_COLD]) & KIND != COLD {
            self.ring.step(HAND_COLD);
        }
        let cold_or_gone = self.cold + self.gone > 0;
        while cold_or_gone && memory.bits(self.ring.hands[HAND_TEST]) & KIND == HOT {
            self.ring.step(HAND_TEST);
        }
    }

    /// A page came to the list's head: a hand without a page of its kind points to it.
    fn meet_first(&mut self, page: u32) {
        if self.cold == 0 {
            self.ring.hands[HAND_COLD] = page;
        }
        if self.cold + self.gone == 0 {
            self.ring.hands[HAND_TEST] = page;
        }
    }

    /// Puts a page in that is not counted yet.
    fn insert(&mut self, page: u32, memory: &Memory) {
        self.settle(memory);
        self.ring.insert(page);
        self.meet_first(page);
    }

    /// Ends test periods until a non-resident page is forgotten.
    fn run_test(&mut self, memory: &mut Memory) {
        let before = self.gone;
        while self.gone == before {
            let page = self.ring.step(HAND_TEST);
            if memory.bits(page) & KIND != HOT {
                self.end_test(page, memory);
            }
        }
    }

    /// Evicts the next cold page not used; those used get a test period, or become hot at the end of one.
    fn run_cold(&mut self, memory: &mut Memory) {
        let page = self.ring.step(HAND_COLD);
        let bits = memory.bits(page);
        if bits & KIND != COLD {
            return;
        }
        if bits & USED == 0 {
            memory.evict(page);
            self.cold -= 1;
            if bits & TESTED == 0 {
                self.ring.remove(page);
                return memory.set_bits(page, 0);
            }
            memory.set_bits(page, GONE | TESTED);
            self.gone += 1;
            if self.gone > memory.frames() {
                self.run_test(memory);
            }
            return;
        }
        self.ring.remove(page);
        self.cold -= 1;
        self.insert(page, memory);
        if bits & TESTED != 0 {
            return self.make_hot(page, memory);
        }
        memory.set_bits(page, COLD | TESTED);
        self.cold += 1;
    }

    /// A page was used within its test period: it is hot, and cold pages get more room.
    fn make_hot(&mut self, page: u32, memory: &mut Memory) {
        let most = (memory.frames() - 1).max(1);
        self.cold_target = (self.cold_target + 1).min(most);
        memory.set_bits(page, HOT);
        self.hot += 1;
        while self.hot > memory.frames() - self.cold_target {
            self.run_hot(memory);
        }
    }
}

impl Policy for ClockPro {
    fn grow(&mut self, pages: usize) {
        self.ring.links.resize(pages, [NONE; 2]);
    }

    #[inline]
    fn hit(&mut self, reference: Reference, memory: &mut Memory) {
        let bits = memory.bits(reference.page());
        memory.set_bits(reference.page(), bits | USED);
    }

    fn miss(&mut self, reference: Reference, memory: &mut Memory) {
        let page = reference.page();
        let remembered = memory.bits(page) & KIND == GONE;
        if remembered {
            self.ring.remove(page);
            self.gone -= 1;
            memory.set_bits(page, 0);
        }
        while memory.is_full() {
            if self.cold == 0 {
                self.run_hot(memory);
            }
            self.run_cold(memory);
        }
        memory.admit(page);
        self.insert(page, memory);
        if remembered {
            self.make_hot(page, memory);
        } else {
            memory.set_bits(page, COLD | TESTED);
            self.cold += 1;
        }
    }
}
