//! All interleavings of those who meet at a slot: who gives its object back (twice, by mistake), who takes the slot for a new one,
//! who touches it, who forks, and the compactor, which takes its bytes to the store and brings them back. Each step is one thing
//! that others can see; the slot's are [`Slot`]'s own functions, which change one word each by compare and exchange. What the
//! kernel does with the page is as the rest of the crate relies on it: a copy by userfaultfd overwrites guards.
//!
//! The model is sequentially consistent: of weaker orders of memory it says nothing. That it finds what it is there for is
//! tested by protocols that lack a part of ours.

use std::collections::HashSet;

use super::Ordering;
use crate::slot::Event;
use crate::slot::Slot;
use crate::slot::State;
use pagewise_abi::guard::Family;

/// What was written to the slot's object last: a number that differs each time.
type Contents = u8;
/// Of writes to an object that is there already; a new object is told by the last digit.
const STEP: Contents = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Page {
    Guard,
    /// No guard and no memory: a touch waits for the compactor.
    Missing,
    Zeros,
    Holds(Contents),
}

/// What is left out of the protocol, to see that it is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Without {
    Nothing,
    /// Who gives an object back does not wait until the compactor is elsewhere.
    Waiting,
    /// The compactor gives pages up before it says that their bytes are in the store.
    Mark,
    /// It does not look whether missing pages are zeros.
    Announcement,
    /// Writers do not wait while bytes are copied.
    Protection,
    /// It does not look whether somebody forks.
    Holding,
    /// The slot is free for others before its guard stands.
    GuardFirst,
}

/// The places of an entry in the store: as many as can be taken at once here, but for leaks.
const ENTRIES: usize = 4;
/// How often the compactor takes the chunk's objects to the store.
const EVICTIONS: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Actor {
    Compactor(Compactor),
    Freer(Freer),
    Maker(Maker),
    Writer(Toucher),
    Reader(Toucher),
    Forker(Forker),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Compactor {
    /// Evictions that are left.
    Idle(u8),
    Entered(u8, Work),
    Looks(u8, Work),
    // Brings bytes back.
    Gives(u8, Page, bool),
    CameBack(u8),
    // Takes them away.
    Protected(u8),
    Keeps(u8),
    Links(u8, u32),
    Marks(u8, u32),
    Drops(u8),
    Unprotects(u8),
    Leaves(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    Serve,
    Evict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Freer {
    Begins,
    /// Whether its bytes were in the store.
    Waits(bool),
    LooksAround(bool),
    Closes,
    Leaves,
    Won,
    /// It is told of a double free.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Maker {
    Waits,
    Announces,
    Opens,
    Fills,
    Holds,
    Writes,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Toucher {
    Touches,
    /// Its fault is with the compactor.
    Faulted,
    Touched,
    /// It is told of a use after free.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Forker {
    Begins,
    Waits,
    Forks,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    /// The slot's words.
    slot: [u32; 2],
    page: Page,
    is_protected: bool,
    /// The compactor is at the chunk.
    is_at: bool,
    /// A fork is under way.
    is_held: bool,
    store: [Option<Page>; ENTRIES],
    /// What the object that is alive, or was last, should hold.
    contents: Contents,
    /// The program has written to it.
    is_written: bool,
    /// The slot waits to be handed out.
    is_queued: bool,
    actors: [Option<Actor>; 4],
}

type Wrong = String;

fn expect(is_so: bool, what: &str) -> Result<(), Wrong> {
    is_so.then_some(()).ok_or_else(|| what.to_owned())
}

impl World {
    /// An object that is alive and written to, on its page.
    fn with(actors: &[Actor]) -> Self {
        let slot = Slot::default();
        assert!(slot.hold(Family::Malloc, 8, 24, 1, 0));
        let mut all = [None; 4];
        for (place, &actor) in all.iter_mut().zip(actors) {
            *place = Some(actor);
        }
        Self {
            slot: slot.words(),
            page: Page::Holds(0),
            is_protected: false,
            is_at: false,
            is_held: false,
            store: [None; ENTRIES],
            contents: 0,
            is_written: true,
            is_queued: false,
            actors: all,
        }
    }

    /// Does something with the slot.
    fn slot<T>(&mut self, act: impl FnOnce(&Slot) -> T) -> T {
        let slot = Slot::of_words(self.slot);
        let done = act(&slot);
        self.slot = slot.words();
        done
    }

    fn link(&self) -> u32 {
        self.slot[1]
    }

    fn keep(&mut self) -> Result<u32, Wrong> {
        let free = self.store.iter().position(Option::is_none);
        let entry = free.ok_or("entries of the store are lost")?;
        self.store[entry] = Some(self.page);
        Ok(entry as u32)
    }

    /// What the object is to be read as.
    fn wanted(&self) -> Page {
        match self.is_written {
            true => Page::Holds(self.contents),
            false => Page::Zeros,
        }
    }

    fn give_back(&mut self, entry: u32) -> Result<(), Wrong> {
        let was = self.store[entry as usize].take();
        expect(was.is_some(), "an entry of the store is given back twice")
    }

    /// A copy by userfaultfd: over a guard, too.
    fn give_page(&mut self, contents: Page) {
        if matches!(self.page, Page::Guard | Page::Missing) {
            self.page = contents;
        }
    }

    /// What holds whatever happens next.
    fn check(&self) -> Result<(), Wrong> {
        let slot = Slot::of_words(self.slot);
        let facts = slot.facts();
        match facts.state {
            State::Freed if !slot.is_announced() => {
                expect(self.page == Page::Guard, "a freed slot has no guard")
            }
            // What came back is on its page before the slot says so.
            State::Live if facts.is_compacted && self.page == Page::Missing => expect(
                self.store[self.link() as usize] == Some(self.wanted()),
                "bytes in the store are not the object's",
            ),
            State::Live => expect(self.page == self.wanted(), "an object's bytes are lost"),
            _ => Ok(()),
        }
    }

    /// What holds when nobody has anything to do.
    fn check_end(&self) -> Result<(), Wrong> {
        let is_done = |actor: &Actor| {
            matches!(
                actor,
                Actor::Compactor(Compactor::Idle(_))
                    | Actor::Freer(Freer::Won | Freer::Lost)
                    | Actor::Maker(Maker::Done)
                    | Actor::Writer(Toucher::Touched | Toucher::Stopped)
                    | Actor::Reader(Toucher::Touched | Toucher::Stopped)
                    | Actor::Forker(Forker::Done)
            )
        };
        let mut actors = self.actors.iter().flatten();
        expect(actors.all(is_done), "somebody waits for ever")?;
        let is_compacted = Slot::of_words(self.slot).facts().is_compacted;
        let is_alive = Slot::of_words(self.slot).facts().state == State::Live;
        let taken = self.store.iter().flatten().count();
        let wanted = usize::from(is_alive && is_compacted);
        expect(taken == wanted, "entries of the store are lost")?;
        let count = |state| {
            let is_it = |actor: &&Option<Actor>| **actor == Some(Actor::Freer(state));
            self.actors.iter().filter(is_it).count()
        };
        let is_right = count(Freer::Won) == 1 || count(Freer::Lost) == 0;
        expect(is_right, "not one of those who give it back wins")
    }

    /// The worlds after one step of an actor; none: it waits, or is done.
    fn after(&self, index: usize, without: Without) -> Result<Vec<World>, Wrong> {
        let mut next = *self;
        let actors = match self.actors[index] {
            None => return Ok(Vec::new()),
            Some(Actor::Compactor(compactor)) => next
                .compact(compactor, without)?
                .into_iter()
                .map(Actor::Compactor)
                .collect(),
            Some(Actor::Freer(freer)) => one(next.free(freer, without)?.map(Actor::Freer)),
            Some(Actor::Maker(maker)) => one(next.make(maker)?.map(Actor::Maker)),
            Some(Actor::Writer(writer)) => one(next.touch(writer, true).map(Actor::Writer)),
            Some(Actor::Reader(reader)) => {
                let then = next.touch(reader, false);
                let has_read = then == Some(Toucher::Touched);
                let is_remade = !self.contents.is_multiple_of(STEP);
                let is_of_one = matches!(self.page, Page::Holds(_))
                    || is_remade
                    || Slot::of_words(self.slot).is_announced();
                expect(!has_read || is_of_one, "what is read is no object's")?;
                one(then.map(Actor::Reader))
            }
            Some(Actor::Forker(forker)) => one(next.fork(forker)?.map(Actor::Forker)),
        };
        let with = |actor| {
            let mut world = next;
            world.actors[index] = Some(actor);
            world
        };
        // What the compactor may choose between changes nothing else.
        Ok(actors.into_iter().map(with).collect())
    }

    fn has_fault(&self) -> bool {
        let faulted = [
            Some(Actor::Writer(Toucher::Faulted)),
            Some(Actor::Reader(Toucher::Faulted)),
        ];
        self.actors.iter().any(|actor| faulted.contains(actor)) || self.is_filling_missing()
    }

    /// The maker touches a missing page.
    fn is_filling_missing(&self) -> bool {
        let touches = [Maker::Fills, Maker::Writes].map(|maker| Some(Actor::Maker(maker)));
        self.page == Page::Missing && self.actors.iter().any(|actor| touches.contains(actor))
    }

    /// Who waits for a page looks again.
    fn wake(&mut self) {
        for actor in self.actors.iter_mut().flatten() {
            if let Actor::Writer(toucher) | Actor::Reader(toucher) = actor
                && *toucher == Toucher::Faulted
            {
                *toucher = Toucher::Touches;
            }
        }
    }

    /// `Compactor::serve`, `chunk::give` and `chunk::evict`.
    fn compact(&mut self, at: Compactor, without: Without) -> Result<Vec<Compactor>, Wrong> {
        let facts = Slot::of_words(self.slot).facts();
        let is_alive = facts.state == State::Live;
        let next = match at {
            Compactor::Idle(left) => {
                let mut choices = Vec::new();
                if self.has_fault() {
                    choices.push(Compactor::Entered(left, Work::Serve));
                }
                if left > 0 {
                    choices.push(Compactor::Entered(left - 1, Work::Evict));
                }
                self.is_at |= !choices.is_empty();
                return Ok(choices);
            }
            Compactor::Entered(left, _) if self.is_held && without != Without::Holding => {
                Compactor::Leaves(left)
            }
            Compactor::Entered(left, work) => Compactor::Looks(left, work),
            Compactor::Looks(left, Work::Serve) => {
                let may_be_zeros = Slot::of_words(self.slot).may_be_zeros();
                if is_alive && facts.is_compacted {
                    let bytes = self.store[self.link() as usize];
                    let bytes = bytes.ok_or("what is brought back is nowhere")?;
                    Compactor::Gives(left, bytes, true)
                } else if may_be_zeros || without == Without::Announcement {
                    Compactor::Gives(left, Page::Zeros, false)
                } else {
                    self.wake();
                    Compactor::Leaves(left)
                }
            }
            Compactor::Gives(left, contents, is_of_store) => {
                self.give_page(contents);
                self.wake();
                match is_of_store {
                    true => Compactor::CameBack(left),
                    false => Compactor::Leaves(left),
                }
            }
            Compactor::CameBack(left) => {
                let entry = self.link();
                if self.slot(|slot| slot.set_compacted(false)) {
                    self.give_back(entry)?;
                }
                Compactor::Leaves(left)
            }
            Compactor::Looks(left, Work::Evict) => {
                self.is_protected = without != Without::Protection;
                Compactor::Protected(left)
            }
            Compactor::Protected(left) => {
                let is_there = matches!(self.page, Page::Holds(_) | Page::Zeros);
                match is_alive && !facts.is_compacted && is_there {
                    true => Compactor::Keeps(left),
                    false => Compactor::Unprotects(left),
                }
            }
            Compactor::Keeps(left) => {
                let is_there = matches!(self.page, Page::Holds(_) | Page::Zeros);
                expect(is_there, "a page goes while the compactor reads it")?;
                Compactor::Links(left, self.keep()?)
            }
            Compactor::Links(left, entry) => {
                self.slot(|slot| slot.link.store(entry, Ordering::Relaxed));
                if without == Without::Mark {
                    self.page = Page::Missing;
                }
                Compactor::Marks(left, entry)
            }
            Compactor::Marks(left, entry) => {
                if self.slot(|slot| slot.set_compacted(true)) {
                    Compactor::Drops(left)
                } else {
                    self.give_back(entry)?;
                    Compactor::Unprotects(left)
                }
            }
            Compactor::Drops(left) => {
                // `MADV_DONTNEED` leaves guards.
                if self.page != Page::Guard {
                    self.page = Page::Missing;
                }
                Compactor::Unprotects(left)
            }
            Compactor::Unprotects(left) => {
                self.is_protected = false;
                Compactor::Leaves(left)
            }
            Compactor::Leaves(left) => {
                self.is_at = false;
                Compactor::Idle(left)
            }
        };
        Ok(vec![next])
    }

    /// `release::leave`.
    fn free(&mut self, at: Freer, without: Without) -> Result<Option<Freer>, Wrong> {
        Ok(Some(match at {
            Freer::Begins => match self.slot(|slot| slot.step(Event::Leaves)) {
                Some(facts) => Freer::Waits(facts.is_compacted),
                None => Freer::Lost,
            },
            Freer::Waits(_) if self.is_at && without != Without::Waiting => return Ok(None),
            Freer::Waits(is_compacted) => Freer::LooksAround(is_compacted),
            Freer::LooksAround(true) => {
                self.give_back(self.link())?;
                Freer::Closes
            }
            Freer::LooksAround(false) => {
                let is_there = matches!(self.page, Page::Holds(_) | Page::Zeros);
                expect(is_there, "the padding is looked at where no page is")?;
                match without {
                    Without::GuardFirst => Freer::Leaves,
                    _ => Freer::Closes,
                }
            }
            Freer::Closes => {
                self.page = Page::Guard;
                Freer::Leaves
            }
            Freer::Leaves => {
                let has_left = self.slot(|slot| slot.step(Event::Left)).is_some();
                expect(has_left, "somebody else gave it back meanwhile")?;
                self.is_queued = true;
                Freer::Won
            }
            Freer::Won | Freer::Lost => return Ok(None),
        }))
    }

    /// `heap::guarded`, and the program's first write.
    fn make(&mut self, at: Maker) -> Result<Option<Maker>, Wrong> {
        Ok(Some(match at {
            Maker::Waits if !self.is_queued => return Ok(None),
            Maker::Waits => {
                self.is_queued = false;
                Maker::Announces
            }
            Maker::Announces => {
                self.slot(Slot::announce);
                Maker::Opens
            }
            Maker::Opens => {
                // A fault that was left over may have been served since it was announced.
                let was_closed = matches!(self.page, Page::Guard | Page::Zeros);
                expect(was_closed, "what is opened had no guard")?;
                if self.page == Page::Guard {
                    self.page = Page::Missing;
                }
                Maker::Fills
            }
            Maker::Fills if self.page == Page::Missing => return Ok(None),
            Maker::Fills => Maker::Holds,
            Maker::Holds => {
                self.contents = self.contents / STEP * STEP + 1;
                self.is_written = false;
                let is_held = self.slot(|slot| slot.hold(Family::Malloc, 8, 24, 1, 0));
                expect(is_held, "the slot was not free")?;
                Maker::Writes
            }
            Maker::Writes if self.page == Page::Missing || self.is_protected => return Ok(None),
            Maker::Writes => {
                expect(self.page != Page::Guard, "a live object has a guard")?;
                self.page = Page::Holds(self.contents);
                self.is_written = true;
                Maker::Done
            }
            Maker::Done => return Ok(None),
        }))
    }

    /// The program's access.
    fn touch(&mut self, at: Toucher, writes: bool) -> Option<Toucher> {
        match at {
            Toucher::Touches => match self.page {
                Page::Guard => Some(Toucher::Stopped),
                Page::Missing => Some(Toucher::Faulted),
                _ if writes && self.is_protected => None,
                _ => {
                    let is_alive = Slot::of_words(self.slot).facts().state == State::Live;
                    if writes && is_alive && self.is_written {
                        self.contents += STEP;
                        self.page = Page::Holds(self.contents);
                    }
                    Some(Toucher::Touched)
                }
            },
            Toucher::Faulted | Toucher::Touched | Toucher::Stopped => None,
        }
    }

    /// `hold_still` and `go_on`, and what the child then has.
    fn fork(&mut self, at: Forker) -> Result<Option<Forker>, Wrong> {
        Ok(Some(match at {
            Forker::Begins => {
                self.is_held = true;
                Forker::Waits
            }
            Forker::Waits if self.is_at => return Ok(None),
            Forker::Waits => Forker::Forks,
            Forker::Forks => {
                let is_idle = |actor: &Actor| {
                    matches!(
                        actor,
                        Actor::Compactor(
                            Compactor::Idle(_) | Compactor::Entered(..) | Compactor::Leaves(_)
                        )
                    ) || !matches!(actor, Actor::Compactor(_))
                };
                let mut actors = self.actors.iter().flatten();
                expect(actors.all(is_idle), "the child has what is half-done")?;
                self.is_held = false;
                Forker::Done
            }
            Forker::Done => return Ok(None),
        }))
    }
}

fn one<T>(next: Option<T>) -> Vec<T> {
    next.into_iter().collect()
}

/// Looks at all that may happen. Returns how many worlds there are, or what went wrong in one.
fn explore(actors: &[Actor], without: Without) -> Result<usize, Wrong> {
    let first = World::with(actors);
    let mut seen = HashSet::from([first]);
    let mut waiting = vec![first];
    while let Some(world) = waiting.pop() {
        let wrong = |wrong| format!("{wrong}: {world:?}");
        world.check().map_err(wrong)?;
        let mut is_end = true;
        for index in 0..world.actors.len() {
            for next in world.after(index, without).map_err(wrong)? {
                is_end = false;
                if seen.insert(next) {
                    waiting.push(next);
                }
            }
        }
        if is_end {
            world.check_end().map_err(wrong)?;
        }
    }
    Ok(seen.len())
}

const COMPACTOR: Actor = Actor::Compactor(Compactor::Idle(EVICTIONS));
const FREER: Actor = Actor::Freer(Freer::Begins);
const MAKER: Actor = Actor::Maker(Maker::Waits);
const WRITER: Actor = Actor::Writer(Toucher::Touches);
const READER: Actor = Actor::Reader(Toucher::Touches);
const FORKER: Actor = Actor::Forker(Forker::Begins);

#[test]
fn whoever_meets_at_a_slot_no_bytes_are_lost_and_no_guard_is() {
    for actors in [
        [COMPACTOR, FREER, FREER, READER],
        [COMPACTOR, FREER, FREER, WRITER],
        [COMPACTOR, FREER, MAKER, READER],
        [COMPACTOR, FREER, MAKER, WRITER],
        [COMPACTOR, READER, WRITER, FORKER],
        [COMPACTOR, FREER, READER, FORKER],
        [COMPACTOR, FREER, MAKER, FORKER],
    ] {
        match explore(&actors, Without::Nothing) {
            Ok(worlds) => assert!(worlds > 500, "{actors:?}: {worlds}"),
            Err(wrong) => panic!("{wrong}"),
        }
    }
}

#[test]
fn what_the_protocol_lacks_is_found() {
    for (without, actors, told) in [
        (Without::Waiting, [COMPACTOR, FREER, READER, READER], ""),
        (Without::Mark, [COMPACTOR, READER, READER, FORKER], "lost"),
        (
            Without::Announcement,
            [COMPACTOR, FREER, READER, READER],
            "freed slot has no guard",
        ),
        (
            Without::Protection,
            [COMPACTOR, WRITER, READER, FORKER],
            "not the object's",
        ),
        (
            Without::Holding,
            [COMPACTOR, READER, WRITER, FORKER],
            "half-done",
        ),
        (
            Without::GuardFirst,
            [COMPACTOR, FREER, READER, READER],
            "freed slot has no guard",
        ),
    ] {
        let wrong = explore(&actors, without).expect_err("something goes wrong");
        assert!(wrong.contains(told), "{without:?}: {wrong}");
    }
}
