//! FIFO, LRU, CLOCK, SIEVE and 2Q.

use pagewise_simulate::Reference;

use super::Model;
use super::take;

pub(crate) struct Fifo {
    frames: usize,
    queue: Vec<u32>,
}

impl Fifo {
    pub(crate) fn new(frames: u32) -> Fifo {
        Fifo {
            frames: frames as usize,
            queue: Vec::new(),
        }
    }
}

impl Model for Fifo {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        if !self.queue.contains(&page) {
            if self.queue.len() == self.frames {
                self.queue.remove(0);
            }
            self.queue.push(page);
        }
    }
    fn resident(&self) -> Vec<u32> {
        self.queue.clone()
    }
}

pub(crate) struct Lru(Fifo);

impl Lru {
    pub(crate) fn new(frames: u32) -> Lru {
        Lru(Fifo::new(frames))
    }
}

impl Model for Lru {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        take(&mut self.0.queue, page);
        self.0.access(reference);
    }
    fn resident(&self) -> Vec<u32> {
        self.0.resident()
    }
}

/// Pages at the hand first; a page passed over goes to the end.
pub(crate) struct Clock {
    frames: usize,
    initial: bool,
    ring: Vec<(u32, bool)>,
}

impl Clock {
    pub(crate) fn new(frames: u32, initial: bool) -> Clock {
        Clock {
            frames: frames as usize,
            initial,
            ring: Vec::new(),
        }
    }
}

impl Model for Clock {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        if let Some(entry) = self.ring.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = true;
            return;
        }
        if self.ring.len() == self.frames {
            while self.ring[0].1 {
                let (passed, _) = self.ring.remove(0);
                self.ring.push((passed, false));
            }
            self.ring.remove(0);
        }
        self.ring.push((page, self.initial));
    }
    fn resident(&self) -> Vec<u32> {
        self.ring.iter().map(|entry| entry.0).collect()
    }
}

pub(crate) struct Sieve {
    frames: usize,
    queue: Vec<(u32, bool)>,
    hand: usize,
}

impl Sieve {
    pub(crate) fn new(frames: u32) -> Sieve {
        Sieve {
            frames: frames as usize,
            queue: Vec::new(),
            hand: 0,
        }
    }
}

impl Model for Sieve {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        if let Some(entry) = self.queue.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = true;
            return;
        }
        if self.queue.len() == self.frames {
            while self.queue[self.hand].1 {
                self.queue[self.hand].1 = false;
                self.hand = (self.hand + 1) % self.queue.len();
            }
            self.queue.remove(self.hand);
            // Past the newest the hand begins anew, before the next page comes in.
            if self.hand == self.queue.len() {
                self.hand = 0;
            }
        }
        self.queue.push((page, false));
    }
    fn resident(&self) -> Vec<u32> {
        self.queue.iter().map(|entry| entry.0).collect()
    }
}

pub(crate) struct TwoQ {
    frames: usize,
    a1_in: Vec<u32>,
    a1_out: Vec<u32>,
    am: Vec<u32>,
}

impl TwoQ {
    pub(crate) fn new(frames: u32) -> TwoQ {
        TwoQ {
            frames: frames as usize,
            a1_in: Vec::new(),
            a1_out: Vec::new(),
            am: Vec::new(),
        }
    }
}

impl Model for TwoQ {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        if take(&mut self.am, page) {
            return self.am.push(page);
        }
        if self.a1_in.contains(&page) {
            return;
        }
        let remembered = take(&mut self.a1_out, page);
        if self.a1_in.len() + self.am.len() == self.frames {
            if self.a1_in.len() > self.frames / 4 {
                let leaving = self.a1_in.remove(0);
                self.a1_out.push(leaving);
                if self.a1_out.len() > self.frames / 2 {
                    self.a1_out.remove(0);
                }
            } else {
                self.am.remove(0);
            }
        }
        let queue = if remembered {
            &mut self.am
        } else {
            &mut self.a1_in
        };
        queue.push(page);
    }
    fn resident(&self) -> Vec<u32> {
        [self.a1_in.clone(), self.am.clone()].concat()
    }
}
