//! What became of the plan, for the launcher to tell.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::MOST_RULES;
use pagewise_abi::status::FIRST_PROCESS_WORD;
use pagewise_abi::status::OfIo;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::PROCESSES;
use pagewise_abi::status::STATUS_BYTES;
use pagewise_abi::status::Total;
use pagewise_abi::status::io_word;
use pagewise_abi::status::rule_word;

/// Words shared by all processes of the program.
pub(super) struct Status(&'static [AtomicU64]);

impl Status {
    /// # Safety
    /// `start` must have [`STATUS_BYTES`] bytes of memory for life, used as atomic words only.
    pub(super) unsafe fn at(start: *mut u8) -> Option<Self> {
        let start = start.cast::<AtomicU64>();
        // SAFETY: our caller's promise; aligned as checked.
        start
            .is_aligned()
            .then(|| Self(unsafe { std::slice::from_raw_parts(start, STATUS_BYTES / 8) }))
    }

    pub(super) fn add(&self, word: Total, more: u64) {
        self.0[word as usize].fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn set(&self, word: Total, value: u64) {
        self.0[word as usize].store(value, Ordering::Relaxed);
    }

    /// A total that is the most there ever was.
    pub(super) fn at_least(&self, word: Total, value: u64) {
        self.0[word as usize].fetch_max(value, Ordering::Relaxed);
    }

    pub(super) fn total(&self, word: Total) -> u64 {
        self.0[word as usize].load(Ordering::Relaxed)
    }

    /// Takes so much off a total; false: there is less.
    pub(super) fn take(&self, word: Total, less: u64) -> bool {
        let relaxed = Ordering::Relaxed;
        let taken = |value: u64| value.checked_sub(less);
        self.0[word as usize]
            .fetch_update(relaxed, relaxed, taken)
            .is_ok()
    }

    pub(super) fn set_bit(&self, word: Total, bit: usize) {
        self.0[word as usize].fetch_or(1 << bit, Ordering::Relaxed);
    }

    pub(super) fn add_to_rule(&self, rule: usize, word: OfRule, more: u64) {
        self.0[rule_word(rule, word)].fetch_add(more, Ordering::Relaxed);
    }

    /// A word that is the most there ever was.
    pub(super) fn at_least_of_rule(&self, rule: usize, word: OfRule, value: u64) {
        self.0[rule_word(rule, word)].fetch_max(value, Ordering::Relaxed);
    }

    pub(super) fn set_of_rule(&self, rule: usize, word: OfRule, value: u64) {
        self.0[rule_word(rule, word)].store(value, Ordering::Relaxed);
    }

    pub(super) fn add_to_io(&self, rule: usize, word: OfIo, more: u64) {
        self.0[io_word(rule, word)].fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn set_of_io(&self, rule: usize, word: OfIo, value: u64) {
        self.0[io_word(rule, word)].store(value, Ordering::Relaxed);
    }

    pub(super) fn of_io(&self, rule: usize, word: OfIo) -> u64 {
        self.0[io_word(rule, word)].load(Ordering::Relaxed)
    }

    /// The kernel refused a hint.
    pub(super) fn refused_io(&self, rule: usize, errno: i32) {
        self.add_to_io(rule, OfIo::Refusals, 1);
        self.set_of_io(rule, OfIo::Errno, errno.unsigned_abs().into());
    }

    /// The kernel refused something.
    pub(super) fn refused(&self, rule: usize, errno: i32) {
        self.add_to_rule(rule, OfRule::Refusals, 1);
        self.set_of_rule(rule, OfRule::Errno, errno.unsigned_abs().into());
    }

    /// So much more of a rule is locked; `most`: what is locked by all rules. Processes that were killed, or have become another
    /// program, have not said that theirs is no more.
    pub(super) fn locked(&self, rule: usize, bytes: u64, most: u64) {
        let now = &self.0[rule_word(rule, OfRule::LockedNow)];
        let now = now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.0[rule_word(rule, OfRule::Locked)].fetch_max(now.min(most), Ordering::Relaxed);
    }

    /// So much less of a rule is locked.
    pub(super) fn unlocked(&self, rule: usize, bytes: u64) {
        let relaxed = Ordering::Relaxed;
        let less = |now: u64| Some(now.saturating_sub(bytes));
        let _ = self.0[rule_word(rule, OfRule::LockedNow)].fetch_update(relaxed, relaxed, less);
    }

    /// No process that lives has locked anything.
    pub(super) fn nothing_locked(&self) {
        for rule in 0..MOST_RULES {
            self.set_of_rule(rule, OfRule::LockedNow, 0);
        }
    }

    /// The places where processes state what they have locked: number and bytes.
    pub(super) fn processes(&self) -> impl Iterator<Item = (&AtomicU64, &AtomicU64)> {
        let words = &self.0[FIRST_PROCESS_WORD..][..2 * PROCESSES];
        words.chunks_exact(2).map(|pair| (&pair[0], &pair[1]))
    }
}
