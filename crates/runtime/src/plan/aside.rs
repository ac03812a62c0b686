//! Where the threads that read ahead run while there is nothing for them to do: where the program does.
//!
//! For each page that was written the kernel interrupts, before it writes it out, all processors that may hold its translation
//! (`try_to_unmap_flush_dirty`, mm/vmscan.c, 6.18). On x86 that is each on which any thread of the process ran, until a flush that names the
//! address space finds another one loaded there, which is looked for once a second (`should_flush_tlb`, `should_trim_cpumask`,
//! arch/x86/mm/tlb.c, 6.18): idle ones are interrupted, too. That made a program 1.3 times as slow whose sweeps were left alone.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_interpose::Fault;
use pagewise_interpose::processors;
use pagewise_interpose::processors::Processors;
use pagewise_interpose::processors::Whereabouts;
use pagewise_interpose::system;

use super::hand;
use super::objects::PAGE;

/// How often what other processors hold is flushed.
const FLUSH_EVERY_NS: u64 = 100_000_000;
/// A program that faults on several processors at once is looked at again after so long.
const SPREAD_FOR_NS: u64 = 1_000_000_000;

/// Which thread made the newest object, a [`Whereabouts`]: until faults are told of, it is taken for the one that the program waits for.
static MAKER: AtomicUsize = AtomicUsize::new(0);

/// The calling thread makes an object.
pub(super) fn note_maker() {
    if let Some(whereabouts) = Whereabouts::of_caller() {
        MAKER.store(whereabouts.to_word(), Ordering::Relaxed);
    }
}

pub(super) struct Aside {
    /// Where the threads run else; `None`: there is only one, or the kernel does not say.
    anywhere: Option<Processors>,
    /// To be flushed.
    page: Option<usize>,
    /// Where they run now; `None`: anywhere.
    on: Option<u32>,
    flush_due_ns: u64,
    /// The program's newest fault: by which thread, and where.
    newest: Option<(u32, u32)>,
    /// Others of its threads had faults meanwhile.
    is_spread: bool,
    spread_until_ns: u64,
}

impl Aside {
    /// Of a program that may run on these. The calling thread is where it began, beside the thread that began it
    /// ([`pagewise_interpose::spawn_here`]).
    pub(super) fn new(anywhere: Option<Processors>) -> Self {
        let anywhere = anywhere.filter(|all| all.count() > 1);
        Self {
            anywhere,
            page: None,
            on: anywhere.and_then(|_| processors::here()),
            flush_due_ns: 0,
            newest: None,
            is_spread: false,
            spread_until_ns: 0,
        }
    }

    /// A fault.
    pub(super) fn note(&mut self, fault: Fault) {
        let Some(processor) = fault.processor else {
            return;
        };
        // Of the threads that are to go aside, where they are is no matter.
        if hand::thread() == Some(fault.thread) {
            return;
        }
        let is_others = |(thread, _)| thread != fault.thread;
        self.is_spread |= self.newest.is_some_and(is_others);
        self.newest = Some((fault.thread, processor));
    }

    /// There is nothing to do for the helper's threads.
    pub(super) fn step(&mut self, now_ns: u64) {
        if std::mem::take(&mut self.is_spread) {
            self.spread_until_ns = now_ns + SPREAD_FOR_NS;
        }
        if now_ns < self.spread_until_ns {
            self.come_back();
            return;
        }
        if let Some((_, processor)) = self.newest {
            self.go_to(processor, now_ns);
        }
    }

    /// The same, where nobody tells of faults: while memory is filled, say.
    pub(super) fn step_unheard(&mut self, now_ns: u64) {
        if let Some(processor) = processor_of_maker() {
            self.go_to(processor, now_ns);
        }
    }

    fn go_to(&mut self, processor: u32, now_ns: u64) {
        if !self.anywhere.is_some_and(|all| all.has(processor)) {
            return;
        }
        if self.on != Some(processor) {
            let Some(there) = Processors::one(processor) else {
                return;
            };
            move_to(&there);
            self.on = Some(processor);
            self.flush_due_ns = now_ns;
        }
        if now_ns >= self.flush_due_ns {
            self.flush_due_ns = now_ns + FLUSH_EVERY_NS;
            self.flush();
        }
    }

    /// There is something to do.
    pub(super) fn come_back(&mut self) {
        if self.on.take().is_some()
            && let Some(anywhere) = &self.anywhere
        {
            move_to(anywhere);
        }
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

/// The helper, and its hand.
fn move_to(processors: &Processors) {
    processors.hold(0);
    if let Some(thread) = hand::thread() {
        processors.hold(thread);
    }
}
