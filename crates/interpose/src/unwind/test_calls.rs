//! Calls of several depths and shapes, for tests of walks.

use std::hint::black_box;

/// `then`, so many calls deeper.
#[inline(never)]
pub(super) fn deeper(calls: usize, then: &mut dyn FnMut()) -> usize {
    if calls == 0 {
        then();
        return 0;
    }
    black_box(deeper(calls - 1, then)) + 1
}

/// The same through a frame of another size.
#[inline(never)]
pub(super) fn other(calls: usize, then: &mut dyn FnMut()) -> usize {
    let room = black_box([calls; 9]);
    black_box(deeper(calls, then)) + room[3]
}
