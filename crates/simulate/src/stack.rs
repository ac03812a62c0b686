//! Stack distances: how many distinct pages were used since a page was used last, itself included. LRU holds a page
//! exactly if its distance is at most the size of memory.
//! R. L. Mattson et al., IBM Systems Journal 9(2), 1970; counted in a Fenwick tree over the times of last uses, after
//! B. T. Bennett, V. J. Kruskal, LRU stack processing, IBM Journal of Research and Development 19(4), 1975.

use crate::lists::NONE;

/// Times are slots, renumbered when they run out: at most eight bytes for each page used and four for each numbered.
pub(crate) struct Stack {
    /// Fenwick tree: how many slots hold a page's last use.
    tree: Vec<u32>,
    page_at: Vec<u32>,
    slot_of: Vec<u32>,
    next: usize,
    pages: u32,
}

impl Stack {
    pub(crate) fn new() -> Stack {
        Stack {
            tree: vec![0; 1025],
            page_at: vec![NONE; 1024],
            slot_of: Vec::new(),
            next: 0,
            pages: 0,
        }
    }

    /// Uses a page; its distance, or `None` at its first use.
    pub(crate) fn touch(&mut self, page: u32) -> Option<u32> {
        if page as usize >= self.slot_of.len() {
            let pages = (page as usize + 1).max(self.slot_of.len() * 3 / 2);
            self.slot_of.resize(pages, NONE);
        }
        let distance = self.distance(page);
        match self.slot_of[page as usize] {
            NONE => self.pages += 1,
            slot => {
                self.page_at[slot as usize] = NONE;
                self.add(slot as usize, u32::MAX);
            }
        }
        if self.next == self.page_at.len() {
            self.renumber();
        }
        self.page_at[self.next] = page;
        self.slot_of[page as usize] = self.next as u32;
        self.add(self.next, 1);
        self.next += 1;
        distance
    }

    /// Pages used so far.
    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    /// The distance that the page would have if it were used now.
    pub(crate) fn distance(&self, page: u32) -> Option<u32> {
        match self.slot_of.get(page as usize) {
            None | Some(&NONE) => None,
            Some(&slot) => Some(self.pages - self.before(slot as usize)),
        }
    }

    /// Adds to a slot; `u32::MAX` is -1.
    fn add(&mut self, slot: usize, amount: u32) {
        let mut index = slot + 1;
        while index < self.tree.len() {
            self.tree[index] = self.tree[index].wrapping_add(amount);
            index += index & index.wrapping_neg();
        }
    }

    /// Pages last used before this slot.
    fn before(&self, slot: usize) -> u32 {
        let mut index = slot;
        let mut sum = 0u32;
        while index > 0 {
            sum = sum.wrapping_add(self.tree[index]);
            index &= index - 1;
        }
        sum
    }

    /// Closes the gaps, and leaves as much room again.
    fn renumber(&mut self) {
        let mut used: Vec<u32> = std::mem::take(&mut self.page_at);
        used.retain(|&page| page != NONE);
        for (slot, &page) in used.iter().enumerate() {
            self.slot_of[page as usize] = slot as u32;
        }
        self.next = used.len();
        used.resize((used.len() * 2).max(1024), NONE);
        self.page_at = used;
        self.tree = vec![0; self.page_at.len() + 1];
        for index in 1..self.tree.len() {
            self.tree[index] += u32::from(index <= self.next);
            let parent = index + (index & index.wrapping_neg());
            if parent < self.tree.len() {
                self.tree[parent] += self.tree[index];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_counted_by_hand_also_after_renumbering() {
        let mut stack = Stack::new();
        let mut order: Vec<u32> = Vec::new();
        for step in 0..20_000u32 {
            let page = crate::sampling::hash(step) % (1 + step % 700);
            let position = order.iter().rev().position(|&other| other == page);
            assert_eq!(
                stack.touch(page),
                position.map(|position| position as u32 + 1)
            );
            order.retain(|&other| other != page);
            order.push(page);
        }
    }
}
