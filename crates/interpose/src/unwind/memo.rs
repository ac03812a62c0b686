//! The last path of a thread, of which the next one mostly shares all but a few calls: where both meet, what is left is to see
//! that the words on the stack are still the same, which needs no look at a rule and waits for none.

use super::Above;
use super::GENERATION;
use super::Place;
use super::Walked;
use super::above;
use super::own_stack;
use super::walk;
use super::word_of;
use crate::Registers;
use std::sync::atomic::Ordering;

/// Frames that are kept, the first one included.
pub const MOST: usize = 33;

/// A frame, and where on the stack the next one's instruction and frame pointer were found.
#[derive(Clone, Copy)]
struct Step {
    place: Place,
    /// 0: they were found in another way.
    return_slot: usize,
    /// 0: it is this one's.
    frame_slot: usize,
    /// Where these are depends on this one's frame pointer: else that register may hold anything, as it does where code is compiled
    /// without frame pointers, and differ from call to call.
    by_frame: bool,
    /// Where the word is that says where the next one begins; 0: that is reckoned.
    base_slot: usize,
}

const NONE: Step = Step {
    place: Place {
        instruction: 0,
        pointer: 0,
        frame: 0,
        before: 0,
    },
    return_slot: 0,
    frame_slot: 0,
    by_frame: false,
    base_slot: 0,
};

/// Steps of a path, innermost first.
struct Steps {
    all: [Step; MOST],
    count: usize,
}

impl Steps {
    const fn new() -> Self {
        Self {
            all: [NONE; MOST],
            count: 0,
        }
    }

    fn as_slice(&self) -> &[Step] {
        &self.all[..self.count]
    }

    fn push(&mut self, place: Place) {
        if let Some(step) = self.all.get_mut(self.count) {
            step.place = place;
            self.count += 1;
        }
    }

    /// The frame above the last step, which notes where it was found. `Err`: there is none, or no room for it; true: the path
    /// ends.
    #[inline(always)]
    fn step_up(
        &mut self,
        most: usize,
        word: &impl Fn(usize) -> Option<usize>,
    ) -> Result<Place, bool> {
        if self.count >= most {
            return Err(false);
        }
        let last = &mut self.all[self.count - 1];
        match above(last.place, word) {
            Some(Above::End) => Err(true),
            Some(Above::Caller {
                place,
                return_slot,
                frame_slot,
                by_frame,
                base_slot,
            }) => {
                (last.return_slot, last.frame_slot) = (return_slot, frame_slot);
                (last.by_frame, last.base_slot) = (by_frame, base_slot);
                Ok(place)
            }
            None => Err(false),
        }
    }

    /// Walks on from the last step. Returns whether the path ended.
    fn go_on(&mut self, most: usize, word: &impl Fn(usize) -> Option<usize>) -> bool {
        loop {
            match self.step_up(most, word) {
                Ok(next) => self.push(next),
                Err(is_end) => return is_end,
            }
        }
    }

    /// Of steps from `from` on, which hold if the first does, how many hold. The first has this frame pointer now; the others get
    /// what theirs are now.
    fn still_hold(
        &mut self,
        from: usize,
        mut frame: usize,
        word: &impl Fn(usize) -> Option<usize>,
    ) -> usize {
        let steps = &mut self.all[from..self.count];
        for at in 0..steps.len() {
            let next = steps.get(at + 1).map(|next| next.place);
            let instruction = next.map(|next| next.instruction);
            let step = &mut steps[at];
            let before = std::mem::replace(&mut step.place.frame, frame);
            let begins = next.map(|next| next.pointer);
            let is_where_it_was = step.return_slot != 0
                && (before == frame || !step.by_frame)
                && (step.base_slot == 0 || word(step.base_slot) == begins);
            if !is_where_it_was || instruction.is_none() || word(step.return_slot) != instruction {
                return at + 1;
            }
            if step.frame_slot != 0 {
                match word(step.frame_slot) {
                    Some(now) => frame = now,
                    None => return at + 1,
                }
            }
        }
        steps.len()
    }

    /// Puts new steps in front of those from `old` on, of which so many are kept.
    fn join(&mut self, new: &[Step], old: usize, kept: usize) {
        let kept = kept.min(MOST - new.len());
        if old != new.len() {
            self.all.copy_within(old..old + kept, new.len());
        }
        self.all[..new.len()].copy_from_slice(new);
        self.count = new.len() + kept;
    }
}

/// A thread's last path.
pub struct Memo {
    last: Steps,
    /// It ended there; else it was cut.
    is_end: bool,
    generation: u32,
    /// The next one, up to where it meets the last.
    new: Steps,
}

impl Memo {
    /// Of no path.
    pub const fn new() -> Self {
        Self {
            last: Steps::new(),
            is_end: false,
            generation: 0,
            new: Steps::new(),
        }
    }

    /// Walks until a frame of the last path is met: `Ok`, its index, and its frame pointer now. Else whether the path ended.
    fn walk_to_meeting(
        &mut self,
        from: Place,
        most: usize,
        word: &impl Fn(usize) -> Option<usize>,
    ) -> Result<(usize, usize), bool> {
        self.new.count = 0;
        let last = self.last.as_slice();
        let mut old = 0;
        let mut place = from;
        loop {
            while last
                .get(old)
                .is_some_and(|step| step.place.pointer < place.pointer)
            {
                old += 1;
            }
            if last.get(old).is_some_and(|step| step.place.meets(&place)) {
                return Ok((old, place.frame));
            }
            self.new.push(place);
            place = self.new.step_up(most, word)?;
        }
    }
}

impl Default for Memo {
    fn default() -> Self {
        Self::new()
    }
}

/// As [`walk`], with what is remembered of the last path of this thread. Also whether all callers are those of the last path.
pub fn walk_again(from: Registers, path: &mut [usize], memo: &mut Memo) -> (Walked, bool) {
    let most = path.len();
    let Some(stack) = own_stack(from).filter(|_| most <= MOST) else {
        return (walk(from, path), false);
    };
    let word = word_of(from.stack, stack);
    let generation = GENERATION.load(Ordering::Relaxed);
    if memo.generation != generation {
        memo.generation = generation;
        memo.last.count = 0;
    }
    let meeting = memo.walk_to_meeting(Place::of(from), most, &word);
    let (last, new) = (&mut memo.last, memo.new.as_slice());
    let (was_end, before) = (memo.is_end, last.count);
    let mut is_same = false;
    memo.is_end = match meeting {
        Err(is_end) => {
            last.join(new, 0, 0);
            is_end
        }
        Ok((old, frame)) => {
            let kept = last.still_hold(old, frame, &word);
            let all_hold = old + kept == before;
            let is_whole = all_hold && was_end && new.len() + kept <= most;
            let mut pairs = new.iter().zip(&last.all).skip(1);
            is_same = all_hold
                && (was_end || before >= most)
                && new.len() == old
                && pairs.all(|(new, old)| new.place.instruction == old.place.instruction);
            last.join(new, old, kept);
            is_whole || last.go_on(most, &word)
        }
    };
    let frames = last.count.min(most);
    for (place, step) in path.iter_mut().zip(last.as_slice()) {
        *place = step.place.instruction;
    }
    let is_whole = memo.is_end || frames == most;
    (Walked { frames, is_whole }, is_same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture;
    use crate::unwind::test_calls::deeper;
    use crate::unwind::test_calls::other;
    use std::cell::RefCell;
    use std::hint::black_box;

    thread_local!(static LAST: RefCell<Memo> = const { RefCell::new(Memo::new()) });

    /// Both ways from the same place, with so much room for the path.
    #[inline(never)]
    fn compare(room: usize) -> (usize, bool) {
        let registers = capture();
        let (mut plain, mut again) = ([0; MOST], [0; MOST]);
        let expected = walk(registers, &mut plain[..room]);
        let (walked, is_same) =
            LAST.with_borrow_mut(|memo| walk_again(registers, &mut again[..room], memo));
        assert_eq!(walked, expected);
        assert_eq!(plain, again);
        (walked.frames, is_same)
    }

    #[test]
    fn paths_are_those_of_a_plain_walk_whatever_came_before() {
        let mut state = 1u32;
        for _ in 0..2000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (calls, room) = ((state >> 8) as usize % 40, (state >> 16) as usize % 32 + 2);
            let mut inner = || {
                for _ in 0..2 {
                    compare(if state & 1 << 30 == 0 { MOST } else { room });
                }
                deeper(calls % 5, &mut || {
                    compare(MOST);
                });
            };
            match state >> 31 {
                0 => deeper(calls, &mut inner),
                _ => other(calls, &mut inner),
            };
        }
    }

    #[test]
    fn the_same_path_is_told_and_another_is_not() {
        let mut told = Vec::new();
        type Calls = fn(usize, &mut dyn FnMut()) -> usize;
        let all: [(Calls, usize); 6] = [
            (deeper, 3),
            (deeper, 3),
            (deeper, 3),
            (deeper, 4),
            (other, 3),
            (deeper, 3),
        ];
        for (calls, count) in black_box(all) {
            calls(count, &mut || told.push(compare(MOST).1));
        }
        assert_eq!(told[1..3], [true; 2]);
        assert_eq!(told[3..], [false; 3]);
    }

    /// Of three frames, the second saved by the first and found by its own frame pointer, or not.
    fn three(by_frame: bool) -> Steps {
        let step = |at: usize, frame, frame_slot, by_frame| Step {
            place: Place {
                instruction: 100 + at,
                pointer: 1000 + 10 * at,
                frame,
                before: usize::from(at > 0),
            },
            return_slot: 1008 + 10 * at,
            frame_slot,
            by_frame,
            base_slot: 0,
        };
        let mut steps = Steps::new();
        steps.all[..3].copy_from_slice(&[
            step(0, 7, 1000, false),
            step(1, 8, 0, by_frame),
            step(2, 8, 0, false),
        ]);
        steps.count = 3;
        steps
    }

    #[test]
    fn a_frame_pointer_counts_where_something_is_found_by_it_and_is_kept_up() {
        let word = |saved: usize, above: usize| {
            move |address| match address {
                1000 => Some(saved),
                1008 => Some(101),
                1018 => Some(above),
                _ => None,
            }
        };
        let frames = |steps: &Steps| steps.all.map(|step| step.place.frame)[..3].to_vec();
        let mut steps = three(false);
        assert_eq!(steps.still_hold(0, 7, &word(8, 102)), 3);
        assert_eq!(steps.still_hold(0, 70, &word(80, 102)), 3);
        assert_eq!(frames(&steps), [70, 80, 80], "it is handed on as it is now");
        assert_eq!(steps.still_hold(1, 81, &word(0, 102)), 2);
        assert_eq!(frames(&steps), [70, 81, 81]);
        let mut steps = three(true);
        assert_eq!(steps.still_hold(0, 70, &word(8, 102)), 3);
        assert_eq!(
            steps.still_hold(0, 70, &word(80, 102)),
            2,
            "its caller is elsewhere"
        );
        assert_eq!(frames(&steps)[..2], [70, 80]);
        assert_eq!(three(true).still_hold(0, 7, &word(8, 103)), 2);
    }
}
