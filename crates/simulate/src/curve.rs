//! The whole curve of LRU in one pass: misses and transfers at every size of memory at once, exact or sampled.

use crate::histogram::Histogram;
use crate::outcome::Outcome;
use crate::reference::Reference;
use crate::sampling::Sampler;
use crate::sampling::hash;
use crate::stack::Stack;

/// Groups of sampled pages whose differences tell the error.
const GROUPS: usize = 8;

/// Builds a [`Curve`] from references fed in chunks.
///
/// Write-backs are found as misses are: a page written is written back between two writes in every memory smaller than
/// the greatest distance in between (J. G. Thompson, A. J. Smith, Efficient (stack) algorithms for analysis of write-back
/// and sector memories, ACM TOCS 7(1), 1989).
pub struct CurveBuilder {
    sampler: Sampler,
    warmup: u64,
    flush_period: Option<u64>,
    position: u64,
    stack: Stack,
    /// Greatest distance since the page was written and not yet written back for certain; `CLEAN` if it was not.
    depth: Vec<u32>,
    /// File pages with a depth.
    unflushed: Vec<u32>,
    /// Whether a dirty page is a file's.
    kinds: Vec<bool>,
    counted: Counted,
    /// Pages seen in the warm-up.
    pages_before: u32,
}

/// Histograms by distance; what always happens is apart.
#[derive(Default)]
struct Counted {
    references: u64,
    file: Histogram,
    anonymous: Histogram,
    file_writes: Histogram,
    swap_writes: Histogram,
    first_file: u64,
    first_anonymous: u64,
    /// Misses of each group.
    groups: Vec<Histogram>,
}

const CLEAN: u32 = u32::MAX;

impl CurveBuilder {
    /// A curve from this share of the pages (1.0: exact), counted after `warmup` references, with dirty file pages
    /// flushed every `flush_period` references.
    pub fn new(rate: f64, warmup: u64, flush_period: Option<u64>) -> CurveBuilder {
        CurveBuilder {
            sampler: Sampler::new(rate),
            warmup,
            flush_period: flush_period.filter(|&period| period > 0),
            position: 0,
            stack: Stack::new(),
            depth: Vec::new(),
            unflushed: Vec::new(),
            kinds: Vec::new(),
            counted: Counted::empty(),
            pages_before: 0,
        }
    }

    /// Consumes the next references, in any number.
    pub fn feed(&mut self, mut references: &[Reference]) {
        while !references.is_empty() {
            let mut length = references.len() as u64;
            if self.position < self.warmup {
                length = length.min(self.warmup - self.position);
            }
            if let Some(period) = self.flush_period {
                length = length.min(period - self.position % period);
            }
            let (now, later) = references.split_at(length as usize);
            for &reference in now {
                if self.sampler.chooses(reference.page()) {
                    self.note(reference);
                }
            }
            self.position += length;
            self.counted.references += length;
            if self.position == self.warmup {
                self.counted = Counted::empty();
                self.pages_before = self.stack.pages();
            }
            if self
                .flush_period
                .is_some_and(|period| self.position.is_multiple_of(period))
            {
                self.flush();
            }
            references = later;
        }
    }

    fn note(&mut self, reference: Reference) {
        let page = reference.page();
        let distance = self.stack.touch(page);
        let index = page as usize;
        if index >= self.depth.len() {
            let pages = (index + 1).max(self.depth.len() * 3 / 2);
            self.depth.resize(pages, CLEAN);
            self.kinds.resize(pages, false);
        }
        self.counted.miss(reference, distance);
        let depth = &mut self.depth[index];
        if *depth != CLEAN {
            *depth = (*depth).max(distance.unwrap_or(0));
        }
        if !reference.is_write() {
            return;
        }
        let was_file = self.kinds[index];
        match *depth {
            CLEAN => {}
            depth if was_file => self.counted.file_writes.add(depth),
            depth => self.counted.swap_writes.add(depth),
        }
        let awaits_flush = *depth != CLEAN && was_file;
        if reference.is_file() && self.flush_period.is_some() && !awaits_flush {
            self.unflushed.push(page);
        }
        *depth = 0;
        self.kinds[index] = reference.is_file();
    }

    /// Dirty file pages are written now, if they were not when they left memory: once in a memory of any size.
    fn flush(&mut self) {
        for page in self.unflushed.drain(..) {
            let depth = &mut self.depth[page as usize];
            if *depth != CLEAN && self.kinds[page as usize] {
                self.counted.file_writes.always += 1;
                *depth = CLEAN;
            }
        }
    }

    /// The curve of what was fed.
    pub fn finish(mut self) -> Curve {
        for (page, &depth) in self.depth.iter().enumerate() {
            if depth == CLEAN {
                continue;
            }
            // It has left memory by now if it lies deeper than memory is large.
            let deepest = depth.max(self.stack.distance(page as u32).unwrap_or(0));
            match self.kinds[page] {
                true => self.counted.file_writes.add(deepest),
                false => self.counted.swap_writes.add(deepest),
            }
        }
        let pages = self.stack.pages();
        self.counted.accumulate();
        Curve {
            sampler: self.sampler,
            counted: self.counted,
            pages_before: self.pages_before,
            pages,
        }
    }
}

/// Misses and transfers of LRU by size of memory. Swap is taken to keep its copies
/// ([`Storage::swap_keeps_copy`](crate::Storage::swap_keeps_copy)).
pub struct Curve {
    sampler: Sampler,
    counted: Counted,
    /// Pages seen in the warm-up, and in all.
    pages_before: u32,
    pages: u32,
}

impl Curve {
    /// The footprint (pages); an estimate if the curve is sampled. From here on the curve is flat.
    pub fn footprint(&self) -> u32 {
        (f64::from(self.pages) / self.sampler.rate()).round() as u32
    }

    /// Distinct pages it was made from.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// What a simulation of LRU with so many frames counts, or an estimate of it if the curve is sampled.
    pub fn outcome(&self, frames: u32) -> Outcome {
        let small = if self.is_exact() {
            frames
        } else {
            self.sampler.frames(frames)
        };
        let counted = &self.counted;
        let (file, anonymous) = (counted.file.at(small), counted.anonymous.at(small));
        let misses = file + anonymous + counted.first_file + counted.first_anonymous;
        let more_resident = small.min(self.pages) - small.min(self.pages_before);
        let sampled = Outcome {
            references: counted.references,
            file_misses: file + counted.first_file,
            anonymous_misses: anonymous + counted.first_anonymous,
            first_touches: counted.first_file + counted.first_anonymous,
            evictions: misses - u64::from(more_resident).min(misses),
            file_reads: file + counted.first_file,
            file_writes: counted.file_writes.at(small),
            swap_reads: anonymous,
            swap_writes: counted.swap_writes.at(small),
        };
        self.sampler.scale(&sampled, counted.references)
    }

    /// The standard error of the miss ratio at so many frames: the spread of eight groups of the sampled pages. 0 if the
    /// curve is exact; `None` if nothing was counted.
    pub fn standard_error(&self, frames: u32) -> Option<f64> {
        if self.counted.references == 0 {
            return None;
        }
        if self.is_exact() {
            return Some(0.0);
        }
        let expected = self.counted.references as f64 * self.sampler.rate() / GROUPS as f64;
        let small = self.sampler.frames(frames);
        let ratios = self
            .counted
            .groups
            .iter()
            .map(|group| group.at(small) as f64 / expected);
        let ratios: Vec<f64> = ratios.collect();
        let mean = ratios.iter().sum::<f64>() / GROUPS as f64;
        let squares = ratios
            .iter()
            .map(|ratio| (ratio - mean).powi(2))
            .sum::<f64>();
        Some((squares / (GROUPS * (GROUPS - 1)) as f64).sqrt())
    }

    fn is_exact(&self) -> bool {
        self.sampler.rate() >= 1.0
    }
}

impl Counted {
    fn empty() -> Counted {
        Counted {
            groups: vec![Histogram::default(); GROUPS],
            ..Counted::default()
        }
    }

    fn miss(&mut self, reference: Reference, distance: Option<u32>) {
        // Other bits of the hash than those that choose.
        let group = &mut self.groups[hash(!reference.page()) as usize % GROUPS];
        let (histogram, first) = match reference.is_file() {
            true => (&mut self.file, &mut self.first_file),
            false => (&mut self.anonymous, &mut self.first_anonymous),
        };
        match distance {
            Some(distance) => {
                histogram.add(distance);
                group.add(distance);
            }
            None => {
                *first += 1;
                group.always += 1;
            }
        }
    }

    fn accumulate(&mut self) {
        let histograms = [
            &mut self.file,
            &mut self.anonymous,
            &mut self.file_writes,
            &mut self.swap_writes,
        ];
        let groups = self.groups.iter_mut();
        histograms
            .into_iter()
            .chain(groups)
            .for_each(Histogram::accumulate);
    }
}
