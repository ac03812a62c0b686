//! Where the threads that read ahead run.
//!
//! While there is nothing for them to do: where the program does. For each page that was written the kernel interrupts, before it writes it out, all processors that may hold its translation
//! (`try_to_unmap_flush_dirty`, mm/vmscan.c, 6.18). On x86 that is each on which any thread of the process ran, until a flush that names the
//! address space finds another one loaded there, which is looked for once a second (`should_flush_tlb`, `should_trim_cpumask`,
//! arch/x86/mm/tlb.c, 6.18): idle ones are interrupted, too. That made a program 1.3 times as slow whose sweeps were left alone.
//!
//! While they read: the hands elsewhere, and the helper where the program does, which it makes wait by that when the hands do not keep up. Left
//! to the kernel both were often on one processor: the program on the other one then caught up with them.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_interpose::Fault;
use pagewise_interpose::processors;
use pagewise_interpose::processors::Processors;
use pagewise_interpose::processors::Whereabouts;
use pagewise_interpose::system;

use super::hand;
use super::object::PAGE;

/// How often what other processors hold is flushed.
const FLUSH_EVERY_NS: u64 = 100_000_000;
/// A program that faults on several processors at once is looked at again after so long.
const SPREAD_FOR_NS: u64 = 1_000_000_000;
/// That is told from so many faults,
const SEEN_AT_ONCE: u32 = 1024;
/// of which more than one in so many are of other threads than the one that has most.
const SPREAD_SHARE: u32 = 16;
/// The program waits for another thread once that has had so many faults more.
const MOST_AHEAD: u32 = 16;

/// Which thread made the newest object, a [`Whereabouts`]: until faults are told of, it is taken for the one that the program waits for.
static MAKER: AtomicUsize = AtomicUsize::new(0);

/// The calling thread makes an object.
pub(super) fn note_maker() {
    if let Some(whereabouts) = Whereabouts::of_caller() {
        MAKER.store(whereabouts.to_word(), Ordering::Relaxed);
    }
}

/// Which of the program's threads have faults.
#[derive(Clone, Copy, Debug, Default)]
struct ByThread {
    /// The one that has most of them, and the processor of its newest.
    thread: u32,
    processor: Option<u32>,
    /// How many more it has than others; a few are remembered.
    ahead: u32,
    /// Of the last faults, its own and others'.
    own: u32,
    others: u32,
}

impl ByThread {
    fn note(&mut self, thread: u32, processor: u32) {
        if thread != self.thread {
            self.others += 1;
            if self.ahead > 0 {
                self.ahead -= 1;
                return;
            }
            self.thread = thread;
        } else {
            self.own += 1;
        }
        self.ahead = (self.ahead + 1).min(MOST_AHEAD);
        self.processor = Some(processor);
    }

    /// Whether several threads have many; told once in a while.
    fn are_spread(&mut self) -> bool {
        if self.own + self.others < SEEN_AT_ONCE {
            return false;
        }
        let are_many = self.others * SPREAD_SHARE > self.own + self.others;
        (self.own, self.others) = (0, 0);
        are_many
    }
}

/// Where the helper and its hands are held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stance {
    Anywhere,
    /// Both to the processor of the program's newest fault.
    Beside(u32),
    /// The helper to that one, its hands to all others; how many these are: they may come later.
    Around(u32, usize),
}

pub(super) struct Aside {
    /// Where the program may run; `None`: there is only one, or the kernel does not say.
    anywhere: Option<Processors>,
    /// To be flushed.
    page: Option<usize>,
    stance: Stance,
    flush_due_ns: u64,
    faults: ByThread,
    spread_until_ns: u64,
}

impl Aside {
    /// Of a program that may run on these. The calling thread is where it began, beside the thread that began it
    /// ([`pagewise_interpose::spawn_here`]).
    pub(super) fn new(anywhere: Option<Processors>) -> Self {
        let anywhere = anywhere.filter(|all| all.count() > 1);
        let begun = anywhere.and_then(|_| processors::here());
        Self {
            anywhere,
            page: None,
            stance: begun.map_or(Stance::Anywhere, Stance::Beside),
            flush_due_ns: 0,
            faults: ByThread::default(),
            spread_until_ns: 0,
        }
    }

    /// A fault.
    pub(super) fn note(&mut self, fault: Fault) {
        let Some(processor) = fault.processor else {
            return;
        };
        // Of the threads that are to go aside, where they are is no matter.
        if hand::threads().any(|hand| hand == fault.thread) {
            return;
        }
        self.faults.note(fault.thread, processor);
    }

    /// There is nothing to do for the helper's threads.
    pub(super) fn step(&mut self, now_ns: u64) {
        match self.processor_of_program(now_ns) {
            Some(processor) => self.stand_beside(processor, now_ns),
            None => self.come_back(),
        }
    }

    /// The same, where nobody tells of faults: while memory is filled, say.
    pub(super) fn step_unheard(&mut self, now_ns: u64) {
        if let Some(processor) = processor_of_maker() {
            self.stand_beside(processor, now_ns);
        }
    }

    /// They read ahead.
    pub(super) fn stand_around(&mut self, now_ns: u64) {
        let stance = self
            .processor_of_program(now_ns)
            .map_or(Stance::Anywhere, |processor| {
                Stance::Around(processor, hand::threads().count())
            });
        self.take(stance);
    }

    /// Whether the helper takes the program's time when it works.
    pub(super) fn is_around(&self) -> bool {
        matches!(self.stance, Stance::Around(..))
    }

    /// There is something to do.
    pub(super) fn come_back(&mut self) {
        self.take(Stance::Anywhere);
    }

    /// `None`: its threads run on several at once, or nothing is known.
    fn processor_of_program(&mut self, now_ns: u64) -> Option<u32> {
        if self.faults.are_spread() {
            self.spread_until_ns = now_ns + SPREAD_FOR_NS;
        }
        self.faults
            .processor
            .filter(|_| now_ns >= self.spread_until_ns)
    }

    fn stand_beside(&mut self, processor: u32, now_ns: u64) {
        if self.take(Stance::Beside(processor)) {
            self.flush_due_ns = now_ns;
        }
        if self.stance == Stance::Beside(processor) && now_ns >= self.flush_due_ns {
            self.flush_due_ns = now_ns + FLUSH_EVERY_NS;
            self.flush();
        }
    }

    /// Whether that is another one than before.
    fn take(&mut self, stance: Stance) -> bool {
        let Some(anywhere) = self.anywhere.filter(|_| stance != self.stance) else {
            return false;
        };
        let (own, of_hands) = match stance {
            Stance::Anywhere => (anywhere, anywhere),
            Stance::Beside(processor) | Stance::Around(processor, _) => {
                let Some(there) = anywhere.only(processor) else {
                    return false;
                };
                match stance {
                    Stance::Around(..) => (there, anywhere.without(processor)),
                    _ => (there, there),
                }
            }
        };
        own.hold(0);
        hand::threads().for_each(|thread| of_hands.hold(thread));
        self.stance = stance;
        true
    }

    /// Takes a page away: whoever may hold its translation is told, and who has nothing else of this process is told no more.
    fn flush(&mut self) {
        let page = self.page.or_else(|| system::map(PAGE));
        self.page = page;
        if let Some(page) = page {
            system::touch_and_forget(page);
        }
    }
}

fn processor_of_maker() -> Option<u32> {
    Whereabouts::from_word(MAKER.load(Ordering::Relaxed))?.processor()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_another_thread_now_and_then_is_no_spread() {
        let mut faults = ByThread::default();
        for at in 0..1000 {
            faults.note(7, at % 2);
            if at % 40 == 0 {
                faults.note(8, 3);
            }
            assert!(!faults.are_spread());
            assert_eq!(faults.processor, Some(at % 2));
        }
        // It has ended, and another one goes on.
        (0..100).for_each(|_| faults.note(9, 1));
        assert_eq!((faults.thread, faults.processor), (9, Some(1)));
    }

    #[test]
    fn threads_that_have_as_many_faults_are_spread() {
        let mut faults = ByThread::default();
        for _ in 0..SEEN_AT_ONCE {
            faults.note(7, 0);
            faults.note(8, 1);
        }
        assert!(faults.are_spread());
    }
}
