//! The policies for flash memory that spare writes: CFLRU and LRU-WSR.

use pagewise_simulate::Reference;

use super::Model;

struct Page {
    number: u32,
    dirty: bool,
    /// LRU-WSR's cold flag.
    cold: bool,
}

impl Page {
    fn new(reference: Reference) -> Page {
        Page {
            number: reference.page(),
            dirty: reference.is_write(),
            cold: false,
        }
    }
}

/// Moves the page to the recently used end, with its write noted and its cold flag cleared; whether it was in the list.
fn use_again(list: &mut Vec<Page>, reference: Reference) -> bool {
    let position = (list.iter()).position(|page| page.number == reference.page());
    let Some(position) = position else {
        return false;
    };
    let mut page = list.remove(position);
    page.dirty |= reference.is_write();
    page.cold = false;
    list.push(page);
    true
}

fn numbers(list: &[Page]) -> Vec<u32> {
    list.iter().map(|page| page.number).collect()
}

/// Least recently used first. The window is the clean-first region.
pub(crate) struct CfLru {
    frames: usize,
    list: Vec<Page>,
}

impl CfLru {
    pub(crate) fn new(frames: u32) -> CfLru {
        CfLru {
            frames: frames as usize,
            list: Vec::new(),
        }
    }
}

impl Model for CfLru {
    fn access(&mut self, reference: Reference) {
        if use_again(&mut self.list, reference) {
            return;
        }
        if self.list.len() == self.frames {
            // Of an odd number of frames the odd one is the window's, so that one frame is a window.
            let window = &self.list[..self.frames.div_ceil(2)];
            let clean = window.iter().position(|page| !page.dirty);
            self.list.remove(clean.unwrap_or(0));
        }
        self.list.push(Page::new(reference));
    }
    fn resident(&self) -> Vec<u32> {
        numbers(&self.list)
    }
}

/// Least recently used first. A dirty page leaves only if its cold flag is set; otherwise it gets the flag and a second
/// chance.
pub(crate) struct LruWsr {
    frames: usize,
    list: Vec<Page>,
}

impl LruWsr {
    pub(crate) fn new(frames: u32) -> LruWsr {
        LruWsr {
            frames: frames as usize,
            list: Vec::new(),
        }
    }
}

impl Model for LruWsr {
    fn access(&mut self, reference: Reference) {
        if use_again(&mut self.list, reference) {
            return;
        }
        if self.list.len() == self.frames {
            loop {
                let mut page = self.list.remove(0);
                if !page.dirty || page.cold {
                    break;
                }
                page.cold = true;
                self.list.push(page);
            }
        }
        self.list.push(Page::new(reference));
    }
    fn resident(&self) -> Vec<u32> {
        numbers(&self.list)
    }
}
