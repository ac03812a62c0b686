//! The library's own memory that is zeros when it is loaded: tables of which a program uses a little here and a little there. Where
//! the kernel gives huge pages to whoever does not refuse (`transparent_hugepage/enabled` is `always`), each first touch would cost
//! 2 MiB of memory, and the time that it takes to clear them.

use crate::page;
use crate::system;

unsafe extern "C" {
    /// Where such memory begins and ends, by the linker.
    static __bss_start: u8;
    static _end: u8;
}

/// From now on it comes in small pages.
pub(crate) fn take_small_pages() {
    // The page of its begin is a file's, too.
    let begin = (&raw const __bss_start as usize).next_multiple_of(page::bytes());
    let end = (&raw const _end as usize).next_multiple_of(page::bytes());
    if begin < end {
        system::take_small_pages(begin, end - begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn tables_are_between_begin_and_end() {
        static TABLE: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];
        let table = std::hint::black_box(&TABLE).as_ptr_range();
        assert!((&raw const __bss_start as usize) <= table.start as usize);
        assert!(table.end as usize <= (&raw const _end as usize));
        take_small_pages();
    }
}
