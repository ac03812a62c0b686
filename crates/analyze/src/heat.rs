//! How often pages of a site's objects see events, learnt from the pages of its samples.
//!
//! Many allocators keep objects of one size on pages of their own. Then some sites' pages are swapped in again and
//! again and others' lie next to them and never: by what the samples around stand for alone, both would get a share of
//! the events on pages without a sample. So those count as often as pages like theirs were seen to see events.

/// Learns from a trace, gone through once before.
#[derive(Debug, Default)]
pub(crate) struct Heat {
    sites: Vec<Site>,
    /// Events so far.
    clock: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Site {
    /// Pages of its samples that are alive.
    pages: f64,
    /// Their number summed over the clock, up to `since`.
    exposure: f64,
    since: u64,
    /// Events on them.
    events: f64,
}

/// How often pages of each object (by index) see events, 1.0 being the mean.
#[derive(Debug, Default)]
pub(crate) struct Rates(Vec<f64>);

/// Of so many pages, from first to last, a site is taken to be like all others: few events tell little.
const PRIOR_PAGES: f64 = 2.0;

impl Heat {
    /// There are so many more pages with samples of this site, or fewer.
    pub(crate) fn change_pages(&mut self, object: usize, pages: f64) {
        let clock = self.clock;
        let site = self.site(object);
        site.catch_up(clock);
        site.pages = (site.pages + pages).max(0.0);
    }

    /// An event happened.
    pub(crate) fn tick(&mut self) {
        self.clock += 1;
    }

    /// The event of this tick fell on a page of one of this site's samples.
    pub(crate) fn see(&mut self, object: usize) {
        self.site(object).events += 1.0;
    }

    /// What was learnt.
    pub(crate) fn rates(mut self) -> Rates {
        for site in &mut self.sites {
            site.catch_up(self.clock);
        }
        let events: f64 = self.sites.iter().map(|site| site.events).sum();
        let exposure: f64 = self.sites.iter().map(|site| site.exposure).sum();
        if events <= 0.0 || exposure <= 0.0 {
            return Rates::default();
        }
        let mean = events / exposure;
        let prior = PRIOR_PAGES * self.clock as f64;
        let rate = |site: &Site| (site.events / mean + prior) / (site.exposure + prior);
        Rates(self.sites.iter().map(rate).collect())
    }

    fn site(&mut self, object: usize) -> &mut Site {
        if object >= self.sites.len() {
            self.sites.resize(object + 1, Site::default());
        }
        &mut self.sites[object]
    }
}

impl Site {
    fn catch_up(&mut self, clock: u64) {
        self.exposure += self.pages * (clock - self.since) as f64;
        self.since = clock;
    }
}

impl Rates {
    /// Of an object that nothing was learnt of: the mean.
    pub(crate) fn of(&self, object: usize) -> f64 {
        self.0.get(object).copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_whose_pages_see_nothing_is_cold() {
        let mut heat = Heat::default();
        heat.change_pages(1, 100.0);
        heat.change_pages(2, 100.0);
        for _ in 0..1000 {
            heat.tick();
            heat.see(1);
        }
        let rates = heat.rates();
        assert!(rates.of(1) > 1.9 && rates.of(2) < 0.05, "{rates:?}");
        assert_eq!(rates.of(77), 1.0);
    }

    #[test]
    fn a_site_counts_while_it_lives() {
        let mut heat = Heat::default();
        heat.change_pages(1, 100.0);
        for event in 0..1000 {
            heat.tick();
            if event == 499 {
                heat.change_pages(2, 100.0);
            }
            heat.see(if event >= 500 && event % 2 == 0 { 2 } else { 1 });
        }
        // Of the second half it had half, with half the pages.
        let rates = heat.rates();
        assert!((rates.of(1) / rates.of(2) - 1.5).abs() < 0.05, "{rates:?}");
    }

    #[test]
    fn without_events_all_are_alike() {
        let mut heat = Heat::default();
        heat.change_pages(1, 3.0);
        assert_eq!(heat.rates().of(1), 1.0);
    }
}
