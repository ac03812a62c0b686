//! On which processors threads of this process may run, and where one does now.

use std::sync::atomic::AtomicIsize;
use std::sync::atomic::Ordering;

use crate::stack::thread_pointer;
use crate::system;

/// Processors that the program may run on; 1 if the kernel does not say.
pub fn count() -> usize {
    Processors::of_program().map_or(1, |processors| processors.count())
}

/// Where the caller is now; `None`: the kernel does not say.
pub fn here() -> Option<u32> {
    // SAFETY: no arguments.
    let processor = unsafe { libc::sched_getcpu() };
    u32::try_from(processor).ok()
}

/// A set of processors.
#[derive(Clone, Copy)]
pub struct Processors(libc::cpu_set_t);

impl Processors {
    /// Those that the first thread of this process may run on, or where that has ended, the caller; `None`: the kernel does not say.
    pub fn of_program() -> Option<Self> {
        Self::of(crate::process_id()).or_else(|| Self::of(0))
    }

    /// Of a thread; 0: the caller.
    pub(crate) fn of(thread: u32) -> Option<Self> {
        // SAFETY: all zeros is a valid set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: a valid place for the answer, and its size.
        let told = unsafe {
            libc::sched_getaffinity(
                thread as libc::pid_t,
                size_of::<libc::cpu_set_t>(),
                &raw mut set,
            )
        };
        (told == 0).then_some(Self(set))
    }

    /// A single one; `None`: sets do not hold such a number.
    pub fn one(processor: u32) -> Option<Self> {
        if processor >= libc::CPU_SETSIZE as u32 {
            return None;
        }
        // SAFETY: all zeros is a valid set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set holds the number.
        unsafe { libc::CPU_SET(processor as usize, &mut set) };
        Some(Self(set))
    }

    /// Whether this one is among them.
    pub fn has(&self, processor: u32) -> bool {
        // SAFETY: a valid set; the number is one that it holds.
        processor < libc::CPU_SETSIZE as u32
            && unsafe { libc::CPU_ISSET(processor as usize, &self.0) }
    }

    /// This one of them; `None`: it is not among them.
    pub fn only(&self, processor: u32) -> Option<Self> {
        Self::one(processor).filter(|_| self.has(processor))
    }

    /// All but this one.
    pub fn without(mut self, processor: u32) -> Self {
        if self.has(processor) {
            // SAFETY: the set holds the number.
            unsafe { libc::CPU_CLR(processor as usize, &mut self.0) };
        }
        self
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        // SAFETY: a valid set.
        unsafe { libc::CPU_COUNT(&self.0) as usize }
    }

    /// From here on a thread of this process runs on these only; 0: this one. Where the kernel refuses, it stays where it is.
    pub fn hold(&self, thread: u32) {
        // SAFETY: a valid set, and its size.
        unsafe {
            libc::sched_setaffinity(
                thread as libc::pid_t,
                size_of::<libc::cpu_set_t>(),
                &raw const self.0,
            )
        };
    }
}

/// Where a thread runs, for others to ask: the kernel writes it into memory of the thread's whenever it goes on in user space (`struct rseq`,
/// include/uapi/linux/rseq.h, Linux 4.18), where the C library has asked for that (glibc 2.35).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereabouts(usize);

/// Of `struct rseq` from a thread's pointer; 0: unknown, as there lies something else.
static RSEQ_OFFSET: AtomicIsize = AtomicIsize::new(0);

impl Whereabouts {
    /// To be called once, before any other, where the C library may allocate.
    pub fn prepare() {
        // SAFETY: the name is a C string.
        let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
        if !offset.is_null() {
            // SAFETY: a constant ptrdiff_t of the C library's (sys/rseq.h).
            let offset = unsafe { *offset.cast::<isize>() };
            RSEQ_OFFSET.store(offset, Ordering::Relaxed);
        }
    }

    /// Of the calling thread; `None`: the C library does not say.
    pub fn of_caller() -> Option<Self> {
        match RSEQ_OFFSET.load(Ordering::Relaxed) {
            0 => None,
            offset => Some(Self(thread_pointer().wrapping_add_signed(offset))),
        }
    }

    /// As a word, never 0.
    pub fn to_word(self) -> usize {
        self.0
    }

    /// From such a word.
    pub fn from_word(word: usize) -> Option<Self> {
        (word != 0).then_some(Self(word))
    }

    /// Of a thread that has ended, anything, or `None`.
    pub fn processor(self) -> Option<u32> {
        let mut words = [0];
        let from = libc::iovec {
            iov_base: self.0 as *mut libc::c_void,
            iov_len: size_of_val(&words),
        };
        if !system::read_own(&mut words, &[from]) {
            return None;
        }
        // cpu_id_start, cpu_id; no number of a processor: the kernel was not asked.
        let [word] = words.map(u64::to_ne_bytes);
        let number = u32::from_ne_bytes([word[4], word[5], word[6], word[7]]);
        (number < libc::CPU_SETSIZE as u32).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_where_it_is_held() {
        Whereabouts::prepare();
        let all = Processors::of_program().expect("the kernel says so");
        let thread = std::thread::spawn(move || {
            let own = Whereabouts::of_caller().expect("a C library that says so");
            let each = (0..1024).filter(|&processor| all.has(processor));
            for processor in each {
                Processors::one(processor)
                    .expect("a number that sets hold")
                    .hold(0);
                let word = own.to_word();
                let asked = std::thread::spawn(move || Whereabouts::from_word(word)?.processor());
                assert_eq!(asked.join().expect("it ends"), Some(processor));
            }
        });
        thread.join().expect("each is found");
    }
}
