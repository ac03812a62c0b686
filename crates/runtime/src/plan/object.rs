//! Memory that a rule is about: one allocation, several side by side, or a piece of one.

use std::ops::Range;

pub(super) const PAGE: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    pub(super) start: usize,
    pub(super) bytes: usize,
    /// Where the allocation starts that it is a piece of: by that it is released.
    pub(super) owner: usize,
    pub(super) rule: usize,
    /// Bytes that count against the budget.
    pub(super) locked: u64,
    /// Bytes that would be locked if the budget held them.
    pub(super) beyond: u64,
    /// Tells it from an earlier one at the same place.
    pub(super) number: usize,
    /// The program says that it is swept, whatever the rule does.
    pub(super) streamed: bool,
    /// What the program says is to be kept of it, bytes.
    pub(super) keep: usize,
    /// The helper has nothing more to do to it.
    pub(super) is_done: bool,
    /// When it is to be locked, ns, if that is still to be done; 0: it is not.
    pub(super) due_ns: u64,
    /// Whether it may become one with those beside it.
    pub(super) may_be_joined: bool,
    /// Its locks rest: what counts as locked may leave memory.
    pub(super) lock_rests: bool,
    /// Of one that is joined of blocks, how large the largest of them was, bytes; 0: it is one allocation, or a piece of one.
    pub(super) grain: usize,
    /// In a forked child, how much before it the parent keeps in memory by its locks, bytes.
    pub(super) kept_by_parent: usize,
    /// Of a rule whose ranges are of all its objects together: how much of them was made before it, bytes; else, and of joined ones, without
    /// meaning. The most there can be: it is not known.
    pub(super) before: u64,
    /// It is a piece of the heap: its blocks come and go without that mattering.
    pub(super) of_heap: bool,
    /// Others may have it, too: a page that this process's table does not have may have been touched all the same, and be in swap.
    pub(super) is_shared: bool,
}

impl Object {
    pub(super) fn new(start: usize, bytes: usize, rule: usize) -> Self {
        Self {
            start,
            bytes,
            owner: start,
            rule,
            locked: 0,
            beyond: 0,
            number: 0,
            streamed: false,
            keep: 0,
            is_done: false,
            due_ns: 0,
            may_be_joined: false,
            lock_rests: false,
            grain: 0,
            kept_by_parent: 0,
            before: 0,
            of_heap: false,
            is_shared: false,
        }
    }

    pub(super) fn is_joined(&self) -> bool {
        self.grain > 0
    }

    /// Whether what is no longer its is cut out of it, and the rest lives on.
    pub(super) fn is_cut(&self) -> bool {
        self.is_joined() || self.of_heap
    }

    pub(super) fn end(&self) -> usize {
        self.start.saturating_add(self.bytes)
    }

    pub(super) fn contains(&self, address: usize) -> bool {
        (self.start..self.end()).contains(&address)
    }

    fn is_locked_whole(&self) -> bool {
        self.locked > 0 && self.locked as usize == self.pages().len()
    }

    /// Whether it may be one with another: right beside it, so that no page lies between them that has nothing of either, and
    /// locked like it, as a whole or not at all.
    pub(super) fn is_like(&self, other: &Object) -> bool {
        let (lower, upper) = match self.start < other.start {
            true => (self, other),
            false => (other, self),
        };
        let is_beside = lower.end() <= upper.start
            && (upper.start / PAGE).saturating_sub((lower.end() - 1) / PAGE) <= 1;
        let is_locked_alike = self.locked == 0 && other.locked == 0
            || self.is_locked_whole() && other.is_locked_whole();
        let is_free = |object: &Object| object.may_be_joined && object.due_ns == 0;
        is_beside && self.rule == other.rule && is_locked_alike && is_free(self) && is_free(other)
    }

    /// Itself and another beside it; without what is locked between them.
    pub(super) fn with(&self, other: &Object) -> Object {
        let larger = match self.bytes < other.bytes {
            true => other,
            false => self,
        };
        let start = self.start.min(other.start);
        Object {
            start,
            owner: start,
            bytes: self.end().max(other.end()) - start,
            locked: self.locked + other.locked,
            beyond: self.beyond + other.beyond,
            lock_rests: self.lock_rests || other.lock_rests,
            grain: match self.of_heap {
                true => 0,
                false => self.block_bytes().max(other.block_bytes()),
            },
            ..*larger
        }
    }

    fn block_bytes(&self) -> usize {
        match self.grain {
            0 => self.bytes,
            grain => grain,
        }
    }

    /// A part of it, which is locked as far as the whole is.
    pub(super) fn part(&self, range: Range<usize>) -> Option<Object> {
        let mut part = Object {
            start: range.start,
            owner: range.start,
            bytes: range.len(),
            beyond: 0,
            ..*self
        };
        let pages = part.pages();
        part.locked = self.locked_in(&pages) as u64;
        (!pages.is_empty()).then_some(part)
    }

    /// In a forked child: what its parent does not keep in memory of it, without locks. `None`: less than a page.
    pub(super) fn in_child(&self) -> Option<Object> {
        let kept_by_parent = match self.lock_rests {
            true => 0,
            false => self.locked as usize,
        };
        let start = match kept_by_parent {
            0 => self.start,
            kept => (self.pages().start + kept).min(self.end()),
        };
        let rest = Object {
            start,
            bytes: self.end() - start,
            // Of a joined object that is where it begins.
            owner: if self.is_cut() { start } else { self.owner },
            locked: 0,
            beyond: 0,
            due_ns: 0,
            is_done: false,
            lock_rests: false,
            kept_by_parent: if self.is_cut() { 0 } else { start - self.start },
            may_be_joined: self.may_be_joined && start == self.start,
            ..*self
        };
        (!rest.pages().is_empty()).then_some(rest)
    }

    /// What its parent kept nobody keeps any more: it is a part of it again.
    pub(super) fn take_back(&mut self) {
        let kept = std::mem::take(&mut self.kept_by_parent);
        self.start -= kept;
        self.bytes += kept;
    }

    /// What its parent keeps right before a piece of it that begins there.
    pub(super) fn kept_before(&self, start: usize) -> usize {
        match start == self.start {
            true => self.kept_by_parent,
            false => 0,
        }
    }

    /// How much of a range is locked, bytes: its locks are at its start.
    pub(super) fn locked_in(&self, range: &Range<usize>) -> usize {
        let start = self.pages().start;
        let end = range.end.min(start + self.locked as usize);
        end.saturating_sub(range.start.max(start))
    }

    /// The whole pages in it: those at its ends may be others' too.
    pub(super) fn pages(&self) -> Range<usize> {
        let start = self.start.next_multiple_of(PAGE);
        start..(self.start.saturating_add(self.bytes) / PAGE * PAGE).max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_what_its_parent_does_not_keep_and_all_once_that_has_ended() {
        let whole = Object {
            locked: 3 * PAGE as u64,
            beyond: 5,
            due_ns: 7,
            number: 9,
            ..Object::new(0x7000_0000_0010, 10 * PAGE, 1)
        };
        let mut child = whole.in_child().expect("a rest");
        assert_eq!(child.start, whole.pages().start + 3 * PAGE);
        assert_eq!((child.end(), child.owner), (whole.end(), whole.owner));
        assert_eq!((child.locked, child.beyond, child.due_ns), (0, 0, 0));
        child.take_back();
        assert_eq!((child.start, child.bytes), (whole.start, whole.bytes));
        child.take_back();
        assert_eq!((child.start, child.kept_by_parent), (whole.start, 0));
        let child = whole.in_child().expect("a rest");
        assert_eq!(child.kept_before(child.start), child.start - whole.start);
        assert_eq!(child.kept_before(child.start + PAGE), 0);
        // What rests may leave memory in the parent, too.
        let rests = Object {
            lock_rests: true,
            ..whole
        };
        assert_eq!(rests.in_child().map(|child| child.start), Some(whole.start));
        let kept = Object {
            locked: whole.pages().len() as u64,
            ..whole
        };
        assert!(kept.in_child().is_none());
    }
}
