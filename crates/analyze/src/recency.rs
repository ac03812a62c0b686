//! Which of some things happened last, and how many happened after any one of them.

/// Words of 64 places each; a Fenwick tree sums their ones.
///
/// Places are given out in order and never again; when they run out, those that are taken move together.
#[derive(Debug, Default)]
pub(crate) struct Recency<T> {
    items: Vec<Option<T>>,
    ones: Vec<u64>,
    tree: Vec<u32>,
    taken: usize,
}

/// Places to begin with.
const FEWEST: usize = 1 << 12;

impl<T: Copy> Recency<T> {
    /// Gives the item the place after all others. `moved` is told of all items whose place changed before.
    pub(crate) fn push(&mut self, item: T, moved: impl FnMut(T, u32)) -> u32 {
        if self.items.len() == self.ones.len() * 64 {
            self.make_room(moved);
        }
        let place = self.items.len();
        self.items.push(Some(item));
        self.ones[place / 64] |= 1 << (place % 64);
        self.add(place / 64, 1);
        self.taken += 1;
        place as u32
    }

    /// Takes out what is at a place, and tells how many came after it.
    pub(crate) fn remove(&mut self, place: u32) -> usize {
        let at = place as usize;
        if self.items.get_mut(at).and_then(Option::take).is_none() {
            return 0;
        }
        let up_to_here = self.before(at / 64) + (self.ones[at / 64] << (63 - at % 64)).count_ones();
        self.ones[at / 64] &= !(1 << (at % 64));
        self.add(at / 64, -1);
        let after = self.taken - up_to_here as usize;
        self.taken -= 1;
        after
    }

    fn make_room(&mut self, mut moved: impl FnMut(T, u32)) {
        self.items.retain(Option::is_some);
        for (place, item) in self.items.iter().flatten().enumerate() {
            moved(*item, place as u32);
        }
        let words = (2 * self.items.len()).max(FEWEST).div_ceil(64);
        self.ones.clear();
        self.ones.resize(words, 0);
        for place in 0..self.items.len() {
            self.ones[place / 64] |= 1 << (place % 64);
        }
        self.tree.clear();
        self.tree.resize(words + 1, 0);
        for word in 0..words {
            self.add(word, self.ones[word].count_ones() as i32);
        }
    }

    fn add(&mut self, word: usize, change: i32) {
        let mut node = word + 1;
        while node < self.tree.len() {
            self.tree[node] = self.tree[node].wrapping_add_signed(change);
            node += node & node.wrapping_neg();
        }
    }

    /// Ones in the words before this one.
    fn before(&self, word: usize) -> u32 {
        let (mut node, mut sum) = (word, 0);
        while node > 0 {
            sum += self.tree[node];
            node &= node - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn how_many_came_after_is_what_a_list_says() {
        let (mut recency, mut list) = (Recency::default(), Vec::new());
        let mut places: HashMap<u64, u32> = HashMap::new();
        let mut state = 7u64;
        for item in 0..40_000u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            if list.len() > 500 || (state >> 60 < 7 && !list.is_empty()) {
                let at = (state >> 20) as usize % list.len();
                let gone = list.remove(at);
                let place = places.remove(&gone).expect("it has a place");
                assert_eq!(recency.remove(place), list.len() - at);
            }
            let place = recency.push(item, |item, place| {
                places.insert(item, place);
            });
            places.insert(item, place);
            list.push(item);
            assert_eq!(recency.taken, list.len());
        }
    }

    #[test]
    fn what_is_gone_is_gone() {
        let mut recency = Recency::default();
        let first = recency.push('a', |_, _| {});
        recency.push('b', |_, _| {});
        assert_eq!(recency.remove(first), 1);
        assert_eq!(recency.remove(first), 0);
        assert_eq!(recency.remove(77), 0);
        assert_eq!(recency.taken, 1);
    }
}
