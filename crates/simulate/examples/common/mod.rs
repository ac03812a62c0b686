//! A small reader of oracleGeneral files, and the thread's processor time.

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use pagewise_simulate::Reference;
use rustix::time::ClockId;
use rustix::time::clock_gettime;

const RECORD: usize = 24;
const CHUNK: usize = 4096;

/// Numbers by first appearance: open addressing, at most half full.
struct Numbers {
    slots: Vec<(u64, u32)>,
    shift: u32,
    len: u32,
}

const FREE: u32 = u32::MAX;

impl Numbers {
    fn new() -> Numbers {
        Numbers {
            slots: vec![(0, FREE); 1 << 12],
            shift: 64 - 12,
            len: 0,
        }
    }

    fn slot(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    #[inline]
    fn number(&mut self, key: u64) -> u32 {
        let mut slot = self.slot(key);
        loop {
            match self.slots[slot] {
                (known, number) if known == key && number != FREE => return number,
                (_, FREE) => return self.insert(slot, key),
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    fn insert(&mut self, slot: usize, key: u64) -> u32 {
        let number = self.len;
        self.slots[slot] = (key, number);
        self.len += 1;
        if self.len as usize * 2 > self.slots.len() {
            self.double();
        }
        number
    }

    fn double(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![(0, FREE); old.len() * 2];
        self.shift -= 1;
        for (key, number) in old.into_iter().filter(|&(_, number)| number != FREE) {
            let mut slot = self.slot(key);
            while self.slots[slot].1 != FREE {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = (key, number);
        }
    }
}

/// Hands the references of a file to `consume`, in chunks.
pub(crate) fn read(
    path: &Path,
    mut consume: impl FnMut(&[Reference]),
) -> Result<(), Box<dyn Error>> {
    let mut file = File::open(path)?;
    let mut numbers = Numbers::new();
    let mut bytes = vec![0; RECORD * CHUNK];
    let mut references = Vec::with_capacity(CHUNK);
    loop {
        let filled = fill(&mut file, &mut bytes)?;
        if filled == 0 {
            return Ok(());
        }
        references.clear();
        for record in bytes[..filled].chunks_exact(RECORD) {
            let object = u64::from_le_bytes(record[4..12].try_into()?);
            let number = numbers.number(object);
            references.push(Reference::new(number, false, false).ok_or("too many pages")?);
        }
        consume(&references);
    }
}

fn fill(file: &mut File, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..])? {
            0 => break,
            more => filled += more,
        }
    }
    Ok(filled)
}

/// Processor time of this thread (ns).
pub(crate) fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
