//! What kind of user of the page cache a context is, and what could be said to the kernel for it. All thresholds are here.

use pagewise_trace::Meta;

use super::context::Reuse;
use super::runs::Runs;

/// From where on a context counts as what.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// Fewer calls have no class, unless they read or write whole files.
    pub fewest_calls: u64,
    /// Sequential: a run has at least so many calls on average (the thesis's default),
    pub sequential_calls: f64,
    /// and at least this share of the bytes is in long runs or whole files; below `1 - long_share` short runs prevail, and
    /// between it is mixed.
    pub long_share: f64,
    /// Random: a run has fewer calls than that on average.
    pub random_calls: f64,
    /// Bursts: at least so many runs, not of whole files,
    pub burst_runs: u64,
    /// of which nine in ten are at most so long, bytes.
    pub burst_bytes: u64,
    /// Needed again: at least this share of what was read is read again by somebody.
    pub will_need_share: f64,
    /// Of these, kept in the page cache by force where at least this share of what was read was read again after it had left.
    pub lost_share: f64,
    /// Not needed again: at most this share. What is dropped and wanted after all is read in single pages, each of which takes as long as
    /// many in order.
    pub dont_need_share: f64,
    /// The same of what was written.
    pub write_once_share: f64,
    /// What was used again only after it had left the page cache does not count for these two, if the memory that is asked about is no
    /// more than what was recorded: it would have to be read again anyhow. `None`: the memory that was recorded.
    pub memory_bytes: Option<u64>,
    /// In order and in large calls, what at most this share was used again of while it was still cached is dropped too, if what other
    /// contexts no longer read ahead pays for it.
    pub paid_for_share: f64,
    /// Reading ahead is told to stop only where at least this share of what was read ahead was in vain.
    pub wasted_ahead_share: f64,
    /// What is read in order is not kept by force where calls are of less than so many bytes on average: to follow them all costs what
    /// the part that has room spares (the scans of a database took 1.1 times as long).
    pub small_call_bytes: u64,
    /// Calls of at least so many bytes on average read from the disk as well without reading ahead; to drop what shorter runs at places
    /// that do not follow each other have read costs more system calls than it spares,
    pub large_call_bytes: u64,
    /// and do without it where at least this share of what was read ahead was in vain: the rest is read while the program computes.
    pub no_ahead_share: f64,
    /// Reading ahead further is advised only where the kernel's own falls short: at least this share of what was read in order was not there,
    /// nor on its way, when it was asked for. Elsewhere the disk is as busy as it can be, and a longer window only adds to what is evicted early,
    pub short_ahead_share: f64,
    /// and calls took at least so long for each byte, ns: to copy from the page cache takes a fifth of that, so that most of it is waiting.
    pub waiting_ns_a_byte: f64,
    /// A context of fewer bytes gets no advice (the thesis's default).
    pub advise_bytes: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            fewest_calls: 8,
            sequential_calls: 4.0,
            long_share: 0.8,
            random_calls: 1.5,
            burst_runs: 16,
            burst_bytes: 1 << 20,
            will_need_share: 0.5,
            lost_share: 0.2,
            dont_need_share: 0.01,
            write_once_share: 0.05,
            memory_bytes: None,
            wasted_ahead_share: 0.1,
            small_call_bytes: 16 << 10,
            large_call_bytes: 128 << 10,
            no_ahead_share: 0.5,
            paid_for_share: 0.1,
            short_ahead_share: 0.1,
            waiting_ns_a_byte: 0.5,
            advise_bytes: 100 << 20,
        }
    }
}

/// One property of a context; it may have one of place and one of reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Each call mostly begins where the last one has ended.
    Sequential,
    /// Each call is elsewhere.
    Random,
    /// Short runs at places that do not follow each other.
    Burst,
    /// Some of it is sequential, some is not.
    Mixed,
    /// Much of it is read again.
    WillNeed,
    /// It is not read again.
    DontNeed,
    /// Written, and neither changed nor read again: a log, a copy.
    WriteOnce,
}

impl Class {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequential => "SEQUENTIAL",
            Self::Random => "RANDOM",
            Self::Burst => "BURST",
            Self::Mixed => "MIXED",
            Self::WillNeed => "WILLNEED",
            Self::DontNeed => "DONTNEED",
            Self::WriteOnce => "WRITE-ONCE",
        }
    }
}

/// What to tell the kernel in this context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Read ahead more, and drop behind.
    SequentialDropBehind,
    /// Do not read ahead, and drop behind.
    RandomDropBehind,
    /// Read ahead more.
    Sequential,
    /// Do not read ahead.
    Random,
    /// Do not read ahead, but ask for each burst as a whole: so many bytes.
    RandomWithBursts(u64),
    /// Drop each part once it was used.
    DropBehind,
    /// Write back early and drop behind.
    DropWritten,
    /// Nothing, as it stays in the page cache by itself, or once others leave room.
    Keep,
    /// Keep it in the page cache: it is read again, and has left by then.
    KeepResident,
    /// Nothing.
    Nothing(WhyNothing),
}

/// Why there is nothing to advise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNothing {
    /// It moves too few bytes to matter.
    FewBytes,
    /// It bypasses the page cache.
    Direct,
    /// Its files are in memory (tmpfs).
    InMemory,
    /// No hint fits what it does, or the kernel does well without.
    NoUse,
}

/// What a context's class is found from.
pub(crate) struct Evidence<'a> {
    pub(crate) calls: u64,
    pub(crate) runs: &'a Runs,
    pub(crate) reuse: Option<Reuse>,
    pub(crate) writes: bool,
}

/// What the advice for a context is found from, besides its classes.
pub(crate) struct Means {
    pub(crate) writes: bool,
    /// Moved through the page cache.
    pub(crate) buffered_bytes: u64,
    /// Of a call.
    pub(crate) call_bytes: u64,
    /// Of a run; `None`: there is none.
    pub(crate) burst_bytes: Option<u64>,
    /// Read ahead; `None`: not known.
    pub(crate) ahead_bytes: Option<u64>,
    /// Of these, never used; `None`: not known.
    pub(crate) unused_ahead_bytes: Option<u64>,
    /// Asked for and not there; `None`: not known.
    pub(crate) missed_bytes: Option<u64>,
    /// How long all calls took.
    pub(crate) latency_ns: u64,
    pub(crate) reuse: Option<Reuse>,
}

impl Means {
    fn wasted_ahead_share(&self) -> Option<f64> {
        let (unused, ahead) = self.unused_ahead_bytes.zip(self.ahead_bytes)?;
        (ahead > 0).then(|| unused as f64 / ahead as f64)
    }

    /// Whether what is read ahead in vain is more than what dropping behind would have to be read again.
    fn spares_more_than_it_costs(&self) -> bool {
        let again = self.reuse.and_then(|reuse| reuse.again_cached_bytes);
        let both = self.unused_ahead_bytes.zip(again);
        both.is_some_and(|(unused, again)| unused > again)
    }
}

impl Thresholds {
    /// With the memory that was recorded, if no other is asked about; none where more is asked about than was recorded: then what was still
    /// in the page cache says nothing.
    pub(crate) fn for_memory_of(&self, meta: &Meta) -> Self {
        let recorded = meta.limit.bytes.or(meta.host.memory_bytes);
        let fits = |&recorded: &u64| self.memory_bytes.is_none_or(|asked| asked <= recorded);
        Self {
            memory_bytes: recorded.filter(fits),
            ..self.clone()
        }
    }

    /// Whether much of what was read again had left the page cache in between; of other memory than was recorded there is no telling.
    fn is_lost(&self, reuse: Reuse) -> bool {
        let shares = reuse.again_share().zip(reuse.again_cached_share());
        self.memory_bytes.is_some()
            && shares.is_some_and(|(again, cached)| again - cached >= self.lost_share)
    }

    /// Whether a reader in order mostly waits for what reading ahead could have brought in before. Where what the page cache did is not known, there
    /// is no evidence of it.
    fn lacks_ahead(&self, means: &Means) -> bool {
        let bytes = means.buffered_bytes as f64;
        let missed = means.missed_bytes.unwrap_or(0) as f64;
        missed >= bytes * self.short_ahead_share
            && means.latency_ns as f64 >= bytes * self.waiting_ns_a_byte
    }

    /// The classes of a context, that of place first.
    pub(crate) fn classes(&self, evidence: &Evidence<'_>) -> Vec<Class> {
        let mut classes = Vec::new();
        classes.extend(self.place(evidence));
        classes.extend(evidence.reuse.and_then(|reuse| self.reuse(reuse, evidence)));
        classes
    }

    fn place(&self, evidence: &Evidence<'_>) -> Option<Class> {
        let runs = evidence.runs;
        let mean = runs.mean_calls()?;
        let whole = runs.whole_file_bytes as f64 >= runs.bytes as f64 * self.long_share;
        if runs.bytes > 0 && whole {
            return Some(Class::Sequential);
        }
        if evidence.calls < self.fewest_calls {
            return None;
        }
        let short_runs = || {
            if mean < self.random_calls {
                Class::Random
            } else {
                Class::Burst
            }
        };
        let Some(long) = runs.long_share() else {
            // Of sums, the mean is all that is known.
            return Some(if mean >= self.sequential_calls {
                Class::Sequential
            } else {
                short_runs()
            });
        };
        let are_bursts = runs.count >= self.burst_runs
            && mean >= self.random_calls
            && runs
                .sizes
                .quantile(0.9)
                .is_some_and(|size| size <= self.burst_bytes);
        Some(if long <= 1.0 - self.long_share {
            short_runs()
        } else if are_bursts {
            Class::Burst
        } else if long >= self.long_share && mean >= self.sequential_calls {
            Class::Sequential
        } else {
            Class::Mixed
        })
    }

    fn reuse(&self, reuse: Reuse, evidence: &Evidence<'_>) -> Option<Class> {
        let whole_files = evidence.runs.whole_file_bytes > 0;
        if evidence.calls < self.fewest_calls && !whole_files {
            return None;
        }
        let writes = evidence.writes;
        let again = reuse.again_share()?;
        let needed = match self.memory_bytes {
            Some(_) => reuse.again_cached_share().unwrap_or(again).min(again),
            None => again,
        };
        if writes && needed <= self.write_once_share {
            return Some(Class::WriteOnce);
        }
        if !writes && needed <= self.dont_need_share {
            return Some(Class::DontNeed);
        }
        (again >= self.will_need_share && !writes).then_some(Class::WillNeed)
    }

    /// What would help.
    pub(crate) fn advice(&self, classes: &[Class], means: &Means) -> Advice {
        if means.buffered_bytes < self.advise_bytes {
            return Advice::Nothing(WhyNothing::FewBytes);
        }
        let is = |class| classes.contains(&class);
        if means.writes {
            // How the kernel reads ahead means nothing to it.
            return match is(Class::WriteOnce) {
                true => Advice::DropWritten,
                false => Advice::Nothing(WhyNothing::NoUse),
            };
        }
        let wasted_share = means.wasted_ahead_share().unwrap_or(0.0);
        let wasted = wasted_share >= self.wasted_ahead_share;
        let is_large = means.call_bytes >= self.large_call_bytes;
        let has_short_runs = (is(Class::Random) || is(Class::Burst))
            && means
                .burst_bytes
                .is_none_or(|bytes| bytes < self.large_call_bytes);
        let needs_no_ahead = is_large && wasted_share >= self.no_ahead_share;
        let costs_nothing = is_large
            && is(Class::Sequential)
            && self.memory_bytes.is_some()
            && means.spares_more_than_it_costs();
        let is_cheap_to_follow =
            !is(Class::Sequential) || means.call_bytes >= self.small_call_bytes;
        if needs_no_ahead && (is(Class::DontNeed) || costs_nothing) {
            Advice::RandomDropBehind
        } else if is(Class::Sequential) && is(Class::DontNeed) {
            // A longer window where the kernel's is long enough takes memory from others.
            match self.lacks_ahead(means) {
                true => Advice::SequentialDropBehind,
                false => Advice::DropBehind,
            }
        } else if costs_nothing {
            // What is read ahead then stays until it is used.
            Advice::DropBehind
        } else if let (true, Some(bytes)) = (is(Class::Burst) && wasted, means.burst_bytes) {
            Advice::RandomWithBursts(bytes)
        } else if is(Class::Random) && wasted {
            // What is needed again stays all the same: only what nobody wants is not read.
            Advice::Random
        } else if is(Class::WillNeed) {
            let is_lost = means.reuse.is_some_and(|reuse| self.is_lost(reuse));
            match is_lost && is_cheap_to_follow {
                true => Advice::KeepResident,
                false => Advice::Keep,
            }
        } else if is(Class::DontNeed) && !wasted && !has_short_runs {
            Advice::DropBehind
        } else if is(Class::Sequential) && !wasted && self.lacks_ahead(means) {
            Advice::Sequential
        } else {
            Advice::Nothing(WhyNothing::NoUse)
        }
    }
}

#[cfg(test)]
mod tests;
