//! A lock for a few instructions or one system call, that a forked child may break open.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::ops::DerefMut;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use crate::let_others;

/// Looks without giving the processor away.
const SPINS: u32 = 64;
/// Looks in all: about a second. Who interrupted the holder (a signal handler) would wait for ever.
const PATIENCE: u32 = 1 << 20;

/// A value that one thread at a time may use.
pub struct Spin<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the holder of `taken` only.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    /// Free.
    pub const fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for it; `None`: in vain.
    pub fn lock(&self) -> Option<Held<'_, T>> {
        for round in 0..PATIENCE {
            if !self.taken.swap(true, Ordering::Acquire) {
                return Some(Held(self));
            }
            if round < SPINS {
                std::hint::spin_loop();
            } else {
                let_others();
            }
        }
        None
    }

    /// Without waiting; `None`: somebody holds it.
    pub fn try_lock(&self) -> Option<Held<'_, T>> {
        let is_free = !self.taken.swap(true, Ordering::Acquire);
        is_free.then(|| Held(self))
    }

    /// In a forked child, whose only thread does not hold it: another thread of the parent's may have.
    pub fn break_open(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// The lock is held while this lives.
pub struct Held<'spin, T>(&'spin Spin<T>);

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_addition_is_lost() {
        static SUM: Spin<u64> = Spin::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        *SUM.lock().expect("free soon") += 1;
                    }
                });
            }
        });
        assert_eq!(*SUM.lock().expect("free"), 40_000);
    }

    #[test]
    fn who_holds_it_already_waits_in_vain_until_it_is_broken_open() {
        let spin = Spin::new(());
        let held = spin.lock();
        assert!(held.is_some() && spin.try_lock().is_none() && spin.lock().is_none());
        spin.break_open();
        assert!(spin.lock().is_some());
    }
}
