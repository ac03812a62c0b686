//! W-TinyLFU: a window, a segmented LRU list, and the more frequent of two candidates stays.

use std::collections::HashMap;

use pagewise_simulate::Reference;

use super::Model;
use super::take;

pub(crate) struct WTinyLfu {
    window_frames: usize,
    main_frames: usize,
    protected_frames: usize,
    window: Vec<u32>,
    probation: Vec<u32>,
    protected: Vec<u32>,
    frequency: HashMap<u32, u32>,
    counted: u32,
    sample: u32,
}

impl WTinyLfu {
    pub(crate) fn new(frames: u32) -> WTinyLfu {
        let window = (frames / 100).max(1);
        let main = frames - window;
        WTinyLfu {
            window_frames: window as usize,
            main_frames: main as usize,
            protected_frames: main as usize * 80 / 100,
            window: Vec::new(),
            probation: Vec::new(),
            protected: Vec::new(),
            frequency: HashMap::new(),
            counted: 0,
            sample: 10 * frames,
        }
    }

    /// "Once this counter reaches the sample size, we divide this counter and all other counters by 2."
    fn count(&mut self, page: u32) {
        let frequency = self.frequency.entry(page).or_default();
        *frequency = (*frequency + 1).min(15);
        self.counted += 1;
        if self.counted == self.sample {
            self.counted /= 2;
            self.frequency.values_mut().for_each(|count| *count /= 2);
        }
    }

    /// Whether the page was in the main part. A second use there leads to the protected segment, whose oldest goes back.
    fn use_in_main(&mut self, page: u32) -> bool {
        if !take(&mut self.protected, page) && !take(&mut self.probation, page) {
            return false;
        }
        self.protected.push(page);
        if self.protected.len() > self.protected_frames {
            let oldest = self.protected.remove(0);
            self.probation.push(oldest);
        }
        true
    }

    /// What leaves the window asks for a place in the main part.
    fn admit(&mut self, candidate: u32) {
        if self.probation.len() + self.protected.len() < self.main_frames {
            return self.probation.push(candidate);
        }
        let segment = if self.probation.is_empty() {
            &mut self.protected
        } else {
            &mut self.probation
        };
        let Some(&victim) = segment.first() else {
            return;
        };
        if self.frequency[&candidate] > self.frequency[&victim] {
            segment.remove(0);
            self.probation.push(candidate);
        }
    }
}

impl Model for WTinyLfu {
    fn access(&mut self, reference: Reference) {
        let page = reference.page();
        self.count(page);
        if take(&mut self.window, page) {
            self.window.push(page);
        } else if !self.use_in_main(page) {
            self.window.push(page);
            if self.window.len() > self.window_frames {
                let candidate = self.window.remove(0);
                self.admit(candidate);
            }
        }
    }
    fn resident(&self) -> Vec<u32> {
        [&self.window[..], &self.probation, &self.protected].concat()
    }
}
