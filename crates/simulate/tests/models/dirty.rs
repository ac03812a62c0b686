//! Models of policies that go by whether a page was written: plain vectors, oldest first.

use pagewise_simulate::Reference;

#[derive(Clone, Copy)]
struct Page {
    number: u32,
    dirty: bool,
    cold: bool,
}

/// A page new to the list, or again at its end.
fn renewed(list: &mut Vec<Page>, number: u32) -> Option<Page> {
    let position = list.iter().position(|page| page.number == number)?;
    Some(list.remove(position))
}

/// Which page leaves.
type Choose = fn(&mut Vec<Page>, usize) -> usize;

pub(crate) struct Written {
    frames: usize,
    list: Vec<Page>,
    choose: Choose,
}

impl Written {
    /// LRU-WSR: the oldest page, but one that is dirty and not cold goes to the end as a cold one first.
    pub(crate) fn lru_wsr(frames: u32) -> Written {
        Written::new(frames, |list, _| {
            while list[0].dirty && !list[0].cold {
                let page = list.remove(0);
                list.push(Page { cold: true, ..page });
            }
            0
        })
    }

    /// CFLRU: the oldest clean page of the older half, or if all of that is dirty the oldest.
    pub(crate) fn cflru(frames: u32) -> Written {
        Written::new(frames, |list, frames| {
            let window = &list[..frames.div_ceil(2)];
            window.iter().position(|page| !page.dirty).unwrap_or(0)
        })
    }

    fn new(frames: u32, choose: Choose) -> Written {
        let frames = frames as usize;
        Written {
            frames,
            list: Vec::new(),
            choose,
        }
    }

    /// Whether it was a hit.
    pub(crate) fn access(&mut self, reference: Reference) -> bool {
        let known = renewed(&mut self.list, reference.page());
        if known.is_none() && self.list.len() == self.frames {
            let victim = (self.choose)(&mut self.list, self.frames);
            self.list.remove(victim);
        }
        let dirty = known.is_some_and(|page| page.dirty) || reference.is_write();
        self.list.push(Page {
            number: reference.page(),
            dirty,
            cold: false,
        });
        known.is_some()
    }
}
