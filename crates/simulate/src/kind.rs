//! The policies by name.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Declares the policies with their names and sources.
macro_rules! policies {
    ($( $(#[$meta:meta])* $kind:ident = $name:literal, $source:literal; )*) => {
        /// A replacement policy or bound.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum PolicyKind { $( $(#[$meta])* $kind, )* }

        impl PolicyKind {
            /// All of them, in the order in which tables show them.
            pub const ALL: &'static [PolicyKind] = &[$( PolicyKind::$kind ),*];

            /// The name on the command line and in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $( PolicyKind::$kind => $name ),* }
            }

            /// Where the policy was published.
            pub fn source(self) -> &'static str {
                match self { $( PolicyKind::$kind => $source ),* }
            }
        }
    };
}

policies! {
    /// First in, first out.
    Fifo = "fifo", "Belady, IBM Systems Journal 5(2), 1966";
    /// Least recently used.
    Lru = "lru", "Mattson, Gecsei, Slutz, Traiger, IBM Systems Journal 9(2), 1970";
    /// CLOCK whose pages come in with the reference bit clear.
    Clock = "clock", "Corbató, MIT Project MAC, 1968";
    /// CLOCK whose pages come in with the reference bit set.
    ClockRef1 = "clock-ref1", "Corbató, MIT Project MAC, 1968";
    /// 2Q, full version.
    TwoQ = "2q", "Johnson, Shasha, VLDB 1994";
    /// Adaptive replacement cache.
    Arc = "arc", "Megiddo, Modha, FAST 2003";
    /// Low inter-reference recency set.
    Lirs = "lirs", "Jiang, Zhang, SIGMETRICS 2002";
    /// LIRS' idea on a clock.
    ClockPro = "clock-pro", "Jiang, Chen, Zhang, USENIX ATC 2005";
    /// Three FIFO queues.
    S3Fifo = "s3-fifo", "Yang, Zhang, Qiu, Yue, Rashmi, SOSP 2023";
    /// SIEVE.
    Sieve = "sieve", "Zhang, Yang, Yue, Vigfusson, Rashmi, NSDI 2024";
    /// A window, a segmented LRU and a frequency filter.
    WTinyLfu = "w-tinylfu", "Einziger, Friedman, Manes, ACM TOS 13(4), 2017";
    /// Linux' active and inactive lists with refault distance.
    Linux = "linux", "Linux 6.12: mm/vmscan.c, mm/swap.c, mm/workingset.c";
    /// A model of Linux' multi-generational LRU.
    Mglru = "mglru", "Linux 6.12: mm/vmscan.c, lru_gen";
    /// Clean-first LRU.
    CfLru = "cflru", "Park, Jung, Kang, Kim, Lee, CASES 2006";
    /// LRU with write sequence reordering.
    LruWsr = "lru-wsr", "Jung, Shim, Park, Kang, Cha, IEEE TCE 54(3), 2008";
    /// A read area and a write area.
    TwoArea = "two-area", "Lee, Bahn, Shin, JCSE 8(3), 2014";
    /// Areas for file and anonymous pages, read and written.
    FourArea = "four-area", "Bahn, JIIBC 24(4), 2024; Yoon, Cho, Bahn, Electronics 11(3), 2022";
    /// Pagewise's own: time in memory by what a loss would cost, and a trial for what comes in.
    FairRent = "fair-rent", "Pagewise; after Young, SODA 1998";
    /// The fewest misses possible.
    Belady = "belady", "Belady, IBM Systems Journal 5(2), 1966";
}

impl PolicyKind {
    /// Whether it must know the whole trace in advance: see [`Simulation::with_future`](crate::Simulation::with_future).
    pub fn needs_future(self) -> bool {
        matches!(self, PolicyKind::Belady)
    }

    /// Whether its choices depend on what transfers cost, so that each storage needs a simulation of its own.
    pub fn uses_costs(self) -> bool {
        matches!(
            self,
            PolicyKind::TwoArea | PolicyKind::FourArea | PolicyKind::FairRent
        )
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no policy is called `{name}`; did you mean `{nearest}`?")]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
    /// The name most like it.
    pub nearest: PolicyKind,
}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<PolicyKind, UnknownPolicy> {
        let lower = name.to_lowercase();
        let likeness = |kind: &PolicyKind| strsim::jaro_winkler(&lower, kind.as_str());
        PolicyKind::ALL
            .iter()
            .copied()
            .find(|kind| kind.as_str() == lower)
            .ok_or_else(|| UnknownPolicy {
                name: name.to_owned(),
                nearest: (PolicyKind::ALL.iter().copied())
                    .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
                    .expect("there are policies"),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_and_wrong_ones_to_the_nearest() {
        for &kind in PolicyKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        let nearest = |name: &str| name.parse::<PolicyKind>().expect_err("unknown").nearest;
        assert_eq!(nearest("s3fifo"), PolicyKind::S3Fifo);
        assert_eq!(nearest("clokc"), PolicyKind::Clock);
        assert_eq!(nearest("fourarea"), PolicyKind::FourArea);
        assert_eq!("LRU".parse(), Ok(PolicyKind::Lru));
    }
}
