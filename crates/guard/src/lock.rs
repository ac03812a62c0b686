//! The heap's lock: for a few instructions, held across a fork by the thread that forks, which may allocate meanwhile.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::ops::DerefMut;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_interpose::let_others;
use pagewise_interpose::process_generation;

/// Looks without giving the processor away.
const SPINS: u32 = 64;
/// Looks after which it is asked whether the holder stayed behind in a parent.
const PATIENCE: u32 = 1024;

/// A value that one thread at a time may use. Not by a signal handler that interrupted its user: it is told so.
pub(crate) struct Lock<T> {
    /// The holder's thread pointer, the same in a forked child; 0: nobody.
    owner: AtomicUsize,
    /// The holder forks: what it calls meanwhile may come here, too.
    is_forking: AtomicBool,
    generation: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the holder only.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The thread pointer, for which nobody is asked.
pub(crate) fn this_thread() -> usize {
    // SAFETY: no preconditions. Not 0.
    unsafe { libc::pthread_self() as usize }
}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            owner: AtomicUsize::new(0),
            is_forking: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for it. `None`: this very thread holds it, interrupted.
    pub(crate) fn lock(&self) -> Option<Held<'_, T>> {
        let me = this_thread();
        let mut round = 0u32;
        loop {
            match self
                .owner
                .compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => {
                    return Some(Held {
                        lock: self,
                        is_first: true,
                    });
                }
                Err(owner) if owner == me => {
                    return self.is_forking.load(Ordering::Relaxed).then_some(Held {
                        lock: self,
                        is_first: false,
                    });
                }
                Err(_) => self.wait(&mut round),
            }
        }
    }

    /// Looks at the value where this very thread holds it, interrupted: nothing goes on there meanwhile, but what is half-done
    /// stays so. Only for numbers that are told.
    pub(crate) fn look_interrupted<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        let is_mine = self.owner.load(Ordering::Relaxed) == this_thread();
        // SAFETY: this thread holds it, and is here.
        is_mine.then(|| look(unsafe { &*self.value.get() }))
    }

    fn wait(&self, round: &mut u32) {
        *round += 1;
        if *round < SPINS {
            std::hint::spin_loop();
            return;
        }
        if (*round).is_multiple_of(PATIENCE) {
            // A process made by a bare `clone` has nobody else who could hold it.
            let now = process_generation();
            let before = self.generation.swap(now, Ordering::Relaxed);
            if before != 0 && before != now {
                self.owner.store(0, Ordering::Release);
            }
        }
        let_others();
    }

    /// Before others use it: whose a holder is that stays behind in a parent is known from now on.
    pub(crate) fn prepare(&self) {
        self.generation
            .store(process_generation(), Ordering::Relaxed);
    }

    /// Before a fork: from now on nobody else is inside.
    pub(crate) fn hold_for_fork(&self) {
        if let Some(held) = self.lock() {
            std::mem::forget(held);
            self.is_forking.store(true, Ordering::Relaxed);
        }
    }

    /// After it, on both sides.
    pub(crate) fn release_after_fork(&self) {
        // In the child, who holds it from now on is of the child.
        self.prepare();
        if self.is_forking.swap(false, Ordering::Relaxed) {
            self.owner.store(0, Ordering::Release);
        }
    }
}

/// The lock is held while this lives.
pub(crate) struct Held<'lock, T> {
    lock: &'lock Lock<T>,
    is_first: bool,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; a thread that forks is not inside while it comes here again.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if self.is_first {
            self.lock.owner.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_addition_is_lost() {
        static SUM: Lock<u64> = Lock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        *SUM.lock().expect("not held by this thread") += 1;
                    }
                });
            }
        });
        assert_eq!(*SUM.lock().expect("free"), 40_000);
    }

    #[test]
    fn who_holds_it_is_told_so_and_who_forks_comes_in() {
        static LOCK: Lock<u32> = Lock::new(1);
        let held = LOCK.lock();
        assert!(LOCK.lock().is_none());
        assert_eq!(LOCK.look_interrupted(|value| *value), Some(1));
        drop(held);
        assert_eq!(LOCK.look_interrupted(|value| *value), None);
        LOCK.hold_for_fork();
        *LOCK.lock().expect("it forks") += 1;
        let waits = std::thread::spawn(|| *LOCK.lock().expect("free in the end"));
        *LOCK.lock().expect("still") += 1;
        LOCK.release_after_fork();
        assert_eq!(waits.join().expect("joined"), 3);
    }

    /// Runs in a forked child, which ends with 0 if it returns true, and by a signal if it hangs.
    fn expect_in_child(act: impl FnOnce() -> bool) {
        // SAFETY: the child looks at locks and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no preconditions.
            unsafe {
                libc::alarm(20);
                libc::_exit(i32::from(!act()));
            }
        }
        let mut status = -1;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn a_holder_that_stayed_behind_in_a_parent_holds_nothing() {
        static LOCK: Lock<u32> = Lock::new(1);
        LOCK.prepare();
        std::thread::spawn(|| std::mem::forget(LOCK.lock()))
            .join()
            .expect("joined");
        // As after a bare `clone`: nobody was told of it.
        expect_in_child(|| LOCK.lock().is_some_and(|held| *held == 1));
    }

    #[test]
    fn in_a_child_who_holds_it_is_waited_for() {
        static LOCK: Lock<bool> = Lock::new(false);
        LOCK.prepare();
        LOCK.hold_for_fork();
        expect_in_child(|| {
            LOCK.release_after_fork();
            let (tell, told) = std::sync::mpsc::channel();
            let thread = std::thread::spawn(move || {
                let held = LOCK.lock();
                tell.send(()).expect("told");
                std::thread::sleep(std::time::Duration::from_millis(300));
                held.is_some_and(|mut held| std::mem::replace(&mut *held, true))
            });
            told.recv().expect("it has it");
            let was_done = LOCK.lock().is_some_and(|held| *held);
            was_done && thread.join().is_ok_and(|was_done| !was_done)
        });
        LOCK.release_after_fork();
    }
}
