//! Keeps our own work out of our own records.

use std::cell::Cell;

thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });

/// While this lives, the thread is inside one of our hooks: what it calls there is not recorded.
pub struct Entered(());

impl Entered {
    /// `None` if this thread is inside already, or is so far gone that it has no thread-local storage.
    pub fn enter() -> Option<Self> {
        INSIDE
            .try_with(|inside| {
                if inside.get() {
                    return None;
                }
                inside.set(true);
                Some(Self(()))
            })
            .ok()
            .flatten()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_enters_once_at_a_time() {
        let first = Entered::enter();
        assert!(first.is_some());
        assert!(Entered::enter().is_none());
        drop(first);
        assert!(Entered::enter().is_some());
    }
}
