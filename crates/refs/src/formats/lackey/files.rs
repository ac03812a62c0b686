//! Which descriptor is which file.

use std::collections::HashMap;

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// A file, by number.
    File(u64),
    /// Memory that has no file: it can only be swapped.
    Memory,
}

/// Open descriptors, and the files seen so far.
#[derive(Debug, Default)]
pub(super) struct Files {
    numbers: HashMap<String, u64>,
    open: HashMap<u64, Opened>,
    /// The last number given.
    last: u64,
}

impl Files {
    pub(super) fn open(&mut self, descriptor: u64, path: &str) {
        let in_memory = path.starts_with("/dev/shm/") || path == "/dev/zero";
        let opened = if in_memory {
            Opened::Memory
        } else if let Some(number) = self.numbers.get(path) {
            Opened::File(*number)
        } else {
            let number = self.next();
            self.numbers.insert(path.to_owned(), number);
            Opened::File(number)
        };
        self.open.insert(descriptor, opened);
    }

    pub(super) fn open_memory(&mut self, descriptor: u64) {
        self.open.insert(descriptor, Opened::Memory);
    }

    pub(super) fn duplicate(&mut self, descriptor: u64, copy: u64) {
        let opened = self.get(descriptor);
        self.open.insert(copy, opened);
    }

    pub(super) fn close(&mut self, descriptor: u64) {
        self.open.remove(&descriptor);
    }

    /// One whose opening was not seen is a file of its own.
    pub(super) fn get(&mut self, descriptor: u64) -> Opened {
        if let Some(opened) = self.open.get(&descriptor) {
            return *opened;
        }
        let opened = Opened::File(self.next());
        self.open.insert(descriptor, opened);
        opened
    }

    /// Numbers begin at 1: 0 is the program itself.
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}
