//! What is known of a slot, in 16 bytes apart from its object, and the states it goes through.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use pagewise_abi::guard::Family;

/// Where a slot is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Behind a guard, nothing was ever in it.
    Fresh = 0,
    /// Holds an object of the program's.
    Live = 1,
    /// Is being given back: nobody else may.
    Leaving = 2,
    /// Behind a guard, and remembers what it held.
    Freed = 3,
}

/// What happens to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It is handed out.
    Made,
    /// It begins to be given back.
    Leaves,
    /// It has been, and its guard stands.
    Left,
}

impl State {
    /// The next state; `None`: that cannot happen in this one.
    pub(crate) fn after(self, event: Event) -> Option<Self> {
        match (self, event) {
            (Self::Fresh | Self::Freed, Event::Made) => Some(Self::Live),
            (Self::Live, Event::Leaves) => Some(Self::Leaving),
            (Self::Leaving, Event::Left) => Some(Self::Freed),
            _ => None,
        }
    }

    fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Fresh,
            1 => Self::Live,
            2 => Self::Leaving,
            _ => Self::Freed,
        }
    }
}

/// Of a slot's word: somebody opens its pages, which are full of zeros where they are missing.
const OPENING: u32 = 1 << 30;
/// Of a slot's word: its object's bytes are in the store.
const COMPACTED: u32 = 1 << 31;
const MOST_SMALL_BYTES: u32 = (1 << 21) - 1;

/// State, size, alignment and maker, as one word: 2 bits, 2, 5 for the alignment's logarithm, 21 for the size, and two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) state: State,
    pub(crate) family: Family,
    pub(crate) alignment: usize,
    /// Of large objects 0: theirs is in the next slot's words.
    pub(crate) bytes: usize,
    /// Its bytes are in the store, under the number that is the slot's link.
    pub(crate) is_compacted: bool,
}

impl Facts {
    fn pack(self) -> u32 {
        self.state as u32
            | (self.family as u32) << 2
            | self.alignment.trailing_zeros() << 4
            | (self.bytes as u32) << 9
            | if self.is_compacted { COMPACTED } else { 0 }
    }

    fn unpack(word: u32) -> Self {
        Self {
            state: State::from_bits(word),
            family: Family::from_wire((word >> 2 & 3) as u8).unwrap_or(Family::Malloc),
            alignment: 1 << (word >> 4 & 31),
            bytes: (word >> 9 & MOST_SMALL_BYTES) as usize,
            is_compacted: word & COMPACTED != 0,
        }
    }
}

/// A slot's words. All zeros: fresh.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Slot {
    facts: AtomicU32,
    /// Number of the call path that made the object.
    pub(crate) made: AtomicU32,
    /// Number of the one that gave it back; of one that is alive, after how many forks it was made.
    pub(crate) freed: AtomicU32,
    /// The next in a queue, guarded by the ledger's lock; of a compacted object its number in the store.
    pub(crate) link: AtomicU32,
}

/// Bytes of bookkeeping for each slot.
pub(crate) const SLOT_BYTES: usize = size_of::<Slot>();

impl Slot {
    pub(crate) fn facts(&self) -> Facts {
        Facts::unpack(self.facts.load(Ordering::Acquire))
    }

    /// Takes a step if this is the state; `None`: it was another.
    pub(crate) fn step(&self, event: Event) -> Option<Facts> {
        let mut word = self.facts.load(Ordering::Acquire);
        loop {
            let facts = Facts::unpack(word);
            let next = Facts {
                state: facts.state.after(event)?,
                ..facts
            };
            match self.facts.compare_exchange(
                word,
                next.pack(),
                Ordering::SeqCst,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(next),
                Err(now) => word = now,
            }
        }
    }

    /// Its pages are about to be accessible, and what is missing of them is zeros. Ends with the next step.
    pub(crate) fn announce(&self) {
        self.facts.fetch_or(OPENING, Ordering::SeqCst);
    }

    /// After [`Slot::announce`]: they are not.
    pub(crate) fn withdraw(&self) {
        self.facts.fetch_and(!OPENING, Ordering::SeqCst);
    }

    /// Whether its pages are about to be accessible, or are, though it holds no object yet.
    pub(crate) fn is_announced(&self) -> bool {
        self.facts.load(Ordering::SeqCst) & OPENING != 0
    }

    /// Whether missing pages of it are full of zeros: those of an object that is not in the store, or that is being made.
    pub(crate) fn may_be_zeros(&self) -> bool {
        let word = self.facts.load(Ordering::SeqCst);
        word & OPENING != 0 || State::from_bits(word) == State::Live && word & COMPACTED == 0
    }

    /// Notes that its object's bytes went to the store, or came back. False: it is not alive any more, or was there.
    pub(crate) fn set_compacted(&self, is_compacted: bool) -> bool {
        let mark = if is_compacted { COMPACTED } else { 0 };
        let mut word = self.facts.load(Ordering::SeqCst);
        while State::from_bits(word) == State::Live && word & COMPACTED != mark {
            match self.facts.compare_exchange(
                word,
                word & !COMPACTED | mark,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// The facts' word as a number, of slots that hold no object (see `arena`).
    pub(crate) fn set_extra(&self, value: u32) {
        self.facts.store(value, Ordering::Relaxed);
    }

    /// See [`Slot::set_extra`].
    pub(crate) fn extra(&self) -> u32 {
        self.facts.load(Ordering::Relaxed)
    }

    /// It is as if nothing was ever in it.
    pub(crate) fn clear(&self) {
        for word in [&self.facts, &self.made, &self.freed, &self.link] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// It was taken from the ledger and holds an object now. False: it is no slot to be handed out, as somebody wrote over
    /// its words.
    pub(crate) fn hold(
        &self,
        family: Family,
        alignment: usize,
        bytes: usize,
        path: u32,
        forks: u32,
    ) -> bool {
        let Some(state) = self.facts().state.after(Event::Made) else {
            return false;
        };
        self.made.store(path, Ordering::Relaxed);
        self.freed.store(forks, Ordering::Relaxed);
        let facts = Facts {
            state,
            family,
            alignment,
            bytes,
            is_compacted: false,
        };
        self.facts.store(facts.pack(), Ordering::Release);
        true
    }
}

/// For models, whose states are compared: what of a slot changes while others look on.
#[cfg(test)]
impl Slot {
    pub(crate) fn of_words(words: [u32; 2]) -> Self {
        let slot = Self::default();
        slot.facts.store(words[0], Ordering::Relaxed);
        slot.link.store(words[1], Ordering::Relaxed);
        slot
    }

    pub(crate) fn words(&self) -> [u32; 2] {
        [&self.facts, &self.link].map(|word| word.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_their_word() {
        for family in [Family::Malloc, Family::New, Family::NewArray] {
            for (alignment, bytes) in [(1, 0), (16, 24), (4096, 65536), (2 << 20, (1 << 21) - 1)] {
                for is_compacted in [false, true] {
                    let facts = Facts {
                        state: State::Leaving,
                        family,
                        alignment,
                        bytes,
                        is_compacted,
                    };
                    assert_eq!(Facts::unpack(facts.pack()), facts);
                    assert_eq!(Facts::unpack(facts.pack() | OPENING), facts);
                }
            }
        }
    }

    #[test]
    fn a_slot_is_given_back_once() {
        let slot = Slot::default();
        assert_eq!(slot.facts().state, State::Fresh);
        assert_eq!(slot.step(Event::Leaves), None);
        assert!(slot.hold(Family::New, 8, 24, 7, 0));
        assert!(!slot.hold(Family::New, 8, 24, 7, 0), "it is alive");
        assert_eq!(slot.step(Event::Left), None);
        assert!(slot.step(Event::Leaves).is_some());
        assert_eq!(slot.step(Event::Leaves), None, "somebody else is at it");
        let freed = slot.step(Event::Left).expect("it was leaving");
        assert_eq!((freed.bytes, freed.family), (24, Family::New));
        assert_eq!(slot.step(Event::Leaves), None, "it has left");
        assert_eq!(
            slot.step(Event::Made).map(|facts| facts.state),
            Some(State::Live)
        );
    }

    #[test]
    fn only_what_is_alive_is_compacted_and_what_leaves_stays_so() {
        let slot = Slot::default();
        assert!(!slot.set_compacted(true), "fresh");
        assert!(!slot.may_be_zeros());
        slot.announce();
        assert!(slot.may_be_zeros());
        assert!(slot.hold(Family::Malloc, 8, 12, 1, 0));
        assert!(!slot.set_compacted(false), "it is not");
        assert!(slot.set_compacted(true) && !slot.set_compacted(true));
        assert!(!slot.may_be_zeros(), "its bytes are in the store");
        assert!(slot.set_compacted(false) && slot.set_compacted(true));
        let leaves = slot.step(Event::Leaves).expect("it is alive");
        assert_eq!((leaves.bytes, leaves.is_compacted), (12, true));
        assert!(!slot.set_compacted(false), "who gives it back sees to that");
        assert!(!slot.may_be_zeros());
    }

    #[test]
    fn of_many_threads_one_gives_it_back() {
        let slot = Slot::default();
        for _ in 0..1000 {
            assert!(slot.hold(Family::Malloc, 8, 8, 1, 0));
            let winners = std::thread::scope(|scope| {
                let threads = [(); 2].map(|()| scope.spawn(|| slot.step(Event::Leaves).is_some()));
                threads.map(|thread| usize::from(thread.join().expect("joined")))
            });
            assert_eq!(winners.iter().sum::<usize>(), 1);
            assert!(slot.step(Event::Left).is_some());
        }
    }
}
