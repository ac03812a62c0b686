//! Descriptors whose open file others may mean, too: another descriptor, or a process. What is told of it must be taken back at once.
//!
//! A bit each, so that a server with many connections, which all are open when it forks, pays a few pages for them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// A million descriptors, as many as [`super::open_files`] knows.
const WORDS: usize = 1 << 14;

static SHARED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

fn word(descriptor: i32) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(descriptor).ok()?;
    Some((SHARED.get(number / 64)?, 1 << (number % 64)))
}

pub(super) fn set(descriptor: i32) {
    if let Some((word, bit)) = word(descriptor) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// It is closed: what is opened by its number later is nobody else's.
pub(super) fn clear(descriptor: i32) {
    if let Some((word, bit)) = word(descriptor)
        && word.load(Ordering::Relaxed) & bit != 0
    {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// The same of a range.
pub(super) fn clear_all(first: u32, last: u32) {
    let most = (WORDS * 64 - 1) as u32;
    for number in first / 64..=last.min(most) / 64 {
        if SHARED[number as usize].load(Ordering::Relaxed) != 0 {
            let bits = first.max(number * 64)..=last.min(number * 64 + 63);
            bits.for_each(|descriptor| clear(descriptor as i32));
        }
    }
}

pub(super) fn is(descriptor: i32) -> bool {
    word(descriptor).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_is_shared_no_more() {
        let all = [0, 63, 64, 1000, (WORDS * 64 - 1) as i32];
        all.into_iter().for_each(set);
        assert!(all.into_iter().all(is) && !is(1) && !is(-1) && !is(i32::MAX));
        clear(64);
        clear_all(63, 999);
        assert!(is(0) && is(1000) && !is(63) && !is(64));
        clear_all(0, u32::MAX);
        assert!(!all.into_iter().any(is));
        set(-1);
        set(i32::MAX);
        clear_all(u32::MAX - 1, u32::MAX);
    }
}
