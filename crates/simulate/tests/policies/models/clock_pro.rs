//! CLOCK-Pro, after the section "CLOCK-Pro" of the paper.

use pagewise_simulate::Reference;

use super::Model;

#[derive(Clone)]
struct Page {
    number: u32,
    hot: bool,
    resident: bool,
    in_test: bool,
    referenced: bool,
}

impl Page {
    fn is_resident_cold(&self) -> bool {
        self.resident && !self.hot
    }
}

pub(crate) struct ClockPro {
    m: usize,
    m_c: usize,
    /// From HAND_hot, the list's tail, to the list's head: what HAND_hot leaves behind is at the head.
    clock: Vec<Page>,
    /// A resident cold page, if there is any.
    hand_cold: Option<u32>,
    /// A cold page, if there is any.
    hand_test: Option<u32>,
}

impl ClockPro {
    pub(crate) fn new(frames: u32) -> ClockPro {
        ClockPro {
            m: frames as usize,
            m_c: 1,
            clock: Vec::new(),
            hand_cold: None,
            hand_test: None,
        }
    }

    fn count(&self, wanted: impl Fn(&Page) -> bool) -> usize {
        self.clock.iter().filter(|page| wanted(page)).count()
    }

    fn position(&self, number: u32) -> Option<usize> {
        self.clock.iter().position(|page| page.number == number)
    }

    /// The next page of this kind behind the given one, all around the clock.
    fn next(&self, position: usize, wanted: impl Fn(&Page) -> bool) -> Option<u32> {
        let (before, after) = self.clock.split_at(position + 1);
        let found = after.iter().chain(before).find(|page| wanted(page));
        found.map(|page| page.number)
    }

    /// Takes a page out of the clock; hands that point to it move on.
    fn remove(&mut self, number: u32) -> Page {
        let position = self.position(number).expect("in the clock");
        let others = |page: &Page| page.number != number;
        if self.hand_cold == Some(number) {
            self.hand_cold = self.next(position, |page| others(page) && page.is_resident_cold());
        }
        if self.hand_test == Some(number) {
            self.hand_test = self.next(position, |page| others(page) && !page.hot);
        }
        self.clock.remove(position)
    }

    fn put_at_head(&mut self, page: Page) {
        if page.is_resident_cold() {
            self.hand_cold = self.hand_cold.or(Some(page.number));
        }
        if !page.hot {
            self.hand_test = self.hand_test.or(Some(page.number));
        }
        self.clock.push(page);
    }

    /// "We terminate the test period of the cold page, and remove it from the clock if it is a non-resident page."
    fn terminate_test(&mut self, number: u32) {
        let position = self.position(number).expect("in the clock");
        let page = &mut self.clock[position];
        if !page.in_test {
            return;
        }
        page.in_test = false;
        let gone = !page.resident;
        self.m_c = (self.m_c - 1).max(1);
        if gone {
            self.remove(number);
        }
    }

    /// HAND_hot passes the page it points to; on a cold page it does HAND_test's work.
    fn hand_hot_passes(&mut self) {
        let number = self.clock[0].number;
        if !self.clock[0].hot {
            if self.hand_test == Some(number) {
                self.hand_test = self.next(0, |page| !page.hot);
            }
            self.terminate_test(number);
        }
        if self.position(number) == Some(0) {
            self.clock.rotate_left(1);
        }
    }

    /// Turns the next hot page that was not referenced cold, and "finally stops at a hot page".
    fn run_hand_hot(&mut self) {
        while !self.clock[0].hot || self.clock[0].referenced {
            if self.clock[0].hot {
                self.clock[0].referenced = false;
            }
            self.hand_hot_passes();
        }
        let mut demoted = self.clock.remove(0);
        demoted.hot = false;
        self.put_at_head(demoted);
        while self.count(|page| page.hot) > 0 && !self.clock[0].hot {
            self.hand_hot_passes();
        }
    }

    /// Called when there are more than `m` non-resident pages.
    fn run_hand_test(&mut self) {
        let gone = self.count(|page| !page.resident);
        while self.count(|page| !page.resident) == gone {
            let number = self.hand_test.expect("non-resident pages are cold");
            let position = self.position(number).expect("in the clock");
            self.hand_test = self.next(position, |page| !page.hot);
            self.terminate_test(number);
        }
    }

    /// Looks at one resident cold page, and replaces it if it was not referenced.
    fn run_hand_cold(&mut self) {
        let number = self.hand_cold.expect("a resident cold page");
        let position = self.position(number).expect("in the clock");
        if self.clock[position].referenced {
            let mut page = self.remove(number);
            page.referenced = false;
            if page.in_test {
                return self.make_hot(page);
            }
            page.in_test = true;
            return self.put_at_head(page);
        }
        if !self.clock[position].in_test {
            self.remove(number);
            return;
        }
        self.clock[position].resident = false;
        self.hand_cold = self.next(position, Page::is_resident_cold);
        if self.count(|page| !page.resident) > self.m {
            self.run_hand_test();
        }
    }

    fn make_hot(&mut self, mut page: Page) {
        page.hot = true;
        page.in_test = false;
        self.put_at_head(page);
        self.m_c = (self.m_c + 1).min((self.m - 1).max(1));
        while self.count(|page| page.hot) > self.m - self.m_c {
            self.run_hand_hot();
        }
    }
}

impl Model for ClockPro {
    fn access(&mut self, reference: Reference) {
        let number = reference.page();
        let known = self.position(number);
        if let Some(position) = known
            && self.clock[position].resident
        {
            self.clock[position].referenced = true;
            return;
        }
        if known.is_some() {
            self.remove(number);
        }
        while self.count(|page| page.resident) == self.m {
            if self.hand_cold.is_none() {
                self.run_hand_hot();
            }
            self.run_hand_cold();
        }
        let page = Page {
            number,
            hot: false,
            resident: true,
            in_test: true,
            referenced: false,
        };
        if known.is_some() {
            self.make_hot(page);
        } else {
            self.put_at_head(page);
        }
    }
    fn resident(&self) -> Vec<u32> {
        let resident = self.clock.iter().filter(|page| page.resident);
        resident.map(|page| page.number).collect()
    }
}
