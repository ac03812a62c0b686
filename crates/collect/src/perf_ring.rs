//! Rings of perf events, and what their records have in common. The formats are those of perf_event_open(2).

use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// Words of the first page of a ring (`struct perf_event_mmap_page`, include/uapi/linux/perf_event.h).
const DATA_HEAD: usize = 1024 / 8;
const DATA_TAIL: usize = 1032 / 8;

/// One processor's ring of an event, mapped here too; read without waking anyone.
#[derive(Debug)]
pub(crate) struct PerfRing {
    start: NonNull<AtomicU64>,
    words: usize,
    page_words: usize,
    body: Vec<u8>,
    _event: OwnedFd,
}

impl PerfRing {
    /// Opens an event on each processor that is on, and maps its ring.
    ///
    /// # Errors
    /// What `open` says; `NotFound` if there is no processor that it opens an event on.
    pub(crate) fn on_each_processor(
        pages: usize,
        open: impl Fn(u32) -> io::Result<OwnedFd>,
    ) -> io::Result<Vec<Self>> {
        let processors =
            libbpf_rs::num_possible_cpus().map_err(|error| io::Error::other(error.to_string()))?;
        let mut rings = Vec::new();
        for processor in 0..processors as u32 {
            match open(processor) {
                Ok(event) => rings.push(Self::map(event, pages)?),
                // It is off.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        if rings.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(rings)
    }

    /// Maps an event's ring of that many pages, a power of two.
    pub(crate) fn map(event: OwnedFd, pages: usize) -> io::Result<Self> {
        let page_words = rustix::param::page_size() / 8;
        let words = (1 + pages) * page_words;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                words * 8,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("mmap never returns null without MAP_FIXED");
        Ok(Self {
            start,
            words,
            page_words,
            body: Vec::new(),
            _event: event,
        })
    }

    fn atomics(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is that long and lives as long as self; the kernel writes whole aligned words there, which
        // are read as atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Hands each record, as its type, its `misc` and its body, to `take`.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(u32, u16, &[u8])) {
        let data_words = self.words - self.page_words;
        let mut tail = self.atomics()[DATA_TAIL].load(Ordering::Relaxed);
        // Pairs with the kernel's store of the head after the record.
        let head = self.atomics()[DATA_HEAD].load(Ordering::Acquire);
        let mut body = std::mem::take(&mut self.body);
        while tail < head {
            let word = |offset: u64| {
                let index = ((tail + offset) / 8) as usize & (data_words - 1);
                self.atomics()[self.page_words + index].load(Ordering::Relaxed)
            };
            // struct perf_event_header: type, misc, size.
            let header = word(0);
            let (kind, misc, size) = (header as u32, (header >> 32) as u16, header >> 48);
            if size < 8 || !size.is_multiple_of(8) || size > head - tail {
                break; // nonsense: what is left is skipped
            }
            body.clear();
            for offset in (8..size).step_by(8) {
                body.extend(word(offset).to_ne_bytes());
            }
            take(kind, misc, &body);
            tail += size;
        }
        self.body = body;
        self.atomics()[DATA_TAIL].store(head, Ordering::Release);
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `map`; no reference outlives self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}

pub(crate) fn u32_at(body: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(body.get(at..at + 8)?.try_into().ok()?))
}

/// A text that is filled up with zeros.
pub(crate) fn padded_text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..length.unwrap_or(bytes.len())]).into_owned()
}
