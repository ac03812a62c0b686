//! ARC, S3-FIFO, LIRS and the optimum.

use std::collections::HashMap;

use pagewise_simulate::Reference;

use super::Model;
use super::take;

/// The pseudocode of the paper's Fig. 4.
pub(crate) struct Arc {
    c: usize,
    p: f64,
    t1: Vec<u32>,
    t2: Vec<u32>,
    b1: Vec<u32>,
    b2: Vec<u32>,
}

impl Arc {
    pub(crate) fn new(frames: u32) -> Arc {
        Arc {
            c: frames as usize,
            p: 0.0,
            t1: Vec::new(),
            t2: Vec::new(),
            b1: Vec::new(),
            b2: Vec::new(),
        }
    }

    fn replace(&mut self, in_b2: bool) {
        let t1 = self.t1.len() as f64;
        let first = !self.t1.is_empty() && (t1 > self.p || in_b2 && t1 == self.p);
        if first || self.t2.is_empty() {
            self.b1.push(self.t1.remove(0));
        } else {
            self.b2.push(self.t2.remove(0));
        }
    }
}

impl Model for Arc {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if take(&mut self.t1, page) || take(&mut self.t2, page) {
            self.t2.push(page);
        } else if self.b1.contains(&page) {
            self.p = (self.p + (b2 / b1).max(1.0)).min(self.c as f64);
            take(&mut self.b1, page);
            self.replace(false);
            self.t2.push(page);
        } else if self.b2.contains(&page) {
            self.p = (self.p - (b1 / b2).max(1.0)).max(0.0);
            take(&mut self.b2, page);
            self.replace(true);
            self.t2.push(page);
        } else {
            let all = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
            if self.t1.len() + self.b1.len() == self.c {
                if self.t1.len() < self.c {
                    self.b1.remove(0);
                    self.replace(false);
                } else {
                    self.t1.remove(0);
                }
            } else if all >= self.c {
                if all == 2 * self.c {
                    self.b2.remove(0);
                }
                self.replace(false);
            }
            self.t1.push(page);
        }
    }
    fn resident(&self) -> Vec<u32> {
        [self.t1.clone(), self.t2.clone()].concat()
    }
}

/// Pages with their hits.
pub(crate) struct S3Fifo {
    frames: usize,
    small_frames: usize,
    ghost_frames: usize,
    small: Vec<(u32, u32)>,
    main: Vec<(u32, u32)>,
    ghost: Vec<u32>,
}

impl S3Fifo {
    pub(crate) fn new(frames: u32) -> S3Fifo {
        S3Fifo {
            frames: frames as usize,
            small_frames: (frames as usize / 10).max(1),
            ghost_frames: frames as usize * 9 / 10,
            small: Vec::new(),
            main: Vec::new(),
            ghost: Vec::new(),
        }
    }

    fn evict_from_small(&mut self) {
        while !self.small.is_empty() {
            let (page, hits) = self.small.remove(0);
            if hits >= 2 {
                self.main.push((page, 0));
                continue;
            }
            self.ghost.push(page);
            if self.ghost.len() > self.ghost_frames {
                self.ghost.remove(0);
            }
            return;
        }
    }

    fn evict_from_main(&mut self) {
        loop {
            let (page, hits) = self.main.remove(0);
            if hits == 0 {
                return;
            }
            self.main.push((page, hits.min(3) - 1));
        }
    }
}

impl Model for S3Fifo {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        let mut everywhere = self.small.iter_mut().chain(&mut self.main);
        if let Some(entry) = everywhere.find(|entry| entry.0 == page) {
            entry.1 += 1;
            return;
        }
        let remembered = take(&mut self.ghost, page);
        while self.small.len() + self.main.len() == self.frames {
            if self.main.len() > self.frames - self.small_frames || self.small.is_empty() {
                self.evict_from_main();
            } else {
                self.evict_from_small();
            }
        }
        let queue = if remembered {
            &mut self.main
        } else {
            &mut self.small
        };
        queue.push((page, 0));
    }
    fn resident(&self) -> Vec<u32> {
        self.small
            .iter()
            .chain(&self.main)
            .map(|entry| entry.0)
            .collect()
    }
}

/// Stack and queue, oldest first. A page is LIR if it is in `lir`; resident if it is LIR or in the queue.
pub(crate) struct Lirs {
    frames: usize,
    lir_frames: usize,
    stack: Vec<u32>,
    queue: Vec<u32>,
    lir: Vec<u32>,
    gone: Vec<u32>,
}

impl Lirs {
    pub(crate) fn new(frames: u32) -> Lirs {
        let frames = frames as usize;
        Lirs {
            frames,
            lir_frames: frames - (frames / 100).max(1),
            stack: Vec::new(),
            queue: Vec::new(),
            lir: Vec::new(),
            gone: Vec::new(),
        }
    }

    fn prune(&mut self) {
        while let Some(&bottom) = self.stack.first()
            && !self.lir.contains(&bottom)
        {
            self.stack.remove(0);
            take(&mut self.gone, bottom);
        }
    }

    fn make_lir(&mut self, page: u32) {
        self.lir.push(page);
        if self.lir.len() > self.lir_frames.max(1) {
            self.prune();
            let bottom = self.stack.remove(0);
            take(&mut self.lir, bottom);
            self.queue.push(bottom);
        }
        self.prune();
    }

    fn evict(&mut self) {
        if self.queue.is_empty() {
            // Only where one frame is all there is.
            let bottom = self.stack.remove(0);
            take(&mut self.lir, bottom);
            self.queue.push(bottom);
        }
        let page = self.queue.remove(0);
        if self.stack.contains(&page) {
            self.gone.push(page);
        }
    }
}

impl Model for Lirs {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        let in_stack = self.stack.contains(&page);
        let hit = self.resident().contains(&page);
        let was_gone = take(&mut self.gone, page);
        if !hit && self.lir.len() + self.queue.len() == self.frames {
            self.evict();
        }
        take(&mut self.stack, page);
        self.stack.push(page);
        if self.lir.contains(&page) {
            self.prune();
        } else if hit && in_stack || was_gone || !hit && self.lir.len() < self.lir_frames {
            take(&mut self.queue, page);
            self.make_lir(page);
        } else {
            take(&mut self.queue, page);
            self.queue.push(page);
        }
        while self.stack.len() > 2 * self.frames && !self.gone.is_empty() {
            let oldest = self.gone.remove(0);
            take(&mut self.stack, oldest);
        }
    }
    fn resident(&self) -> Vec<u32> {
        [self.lir.clone(), self.queue.clone()].concat()
    }
}

pub(crate) struct Belady {
    frames: usize,
    uses: HashMap<u32, Vec<usize>>,
    now: usize,
    pages: Vec<u32>,
}

impl Belady {
    pub(crate) fn new(frames: u32, trace: &[Reference]) -> Belady {
        let mut uses = HashMap::<u32, Vec<usize>>::new();
        for (position, reference) in trace.iter().enumerate() {
            uses.entry(reference.page()).or_default().push(position);
        }
        Belady {
            frames: frames as usize,
            uses,
            now: 0,
            pages: Vec::new(),
        }
    }

    fn next_use(&self, page: u32) -> usize {
        let mut uses = self.uses[&page].iter().copied();
        uses.find(|&position| position > self.now)
            .unwrap_or(usize::MAX)
    }
}

impl Model for Belady {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        if !self.pages.contains(&page) {
            if self.pages.len() == self.frames {
                let farthest = *self
                    .pages
                    .iter()
                    .max_by_key(|&&page| self.next_use(page))
                    .expect("full");
                take(&mut self.pages, farthest);
            }
            self.pages.push(page);
        }
        self.now += 1;
    }
    fn resident(&self) -> Vec<u32> {
        self.pages.clone()
    }
}
