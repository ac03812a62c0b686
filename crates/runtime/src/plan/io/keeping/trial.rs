//! Whether keeping helps a rule: what reads again cost where pieces are kept, against what they cost where none is.

use crate::plan::io::hints::Cost;

/// Calls of either kind that a comparison takes,
pub(super) const COMPARED: u64 = 64;

/// What calls cost.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    pub(super) calls: u64,
    pub(super) bytes: u64,
    pub(super) ns: u64,
    pub(super) device_bytes: u64,
}

/// A rule's.
#[derive(Clone, Copy)]
pub(super) struct Trial {
    /// Of reads again, where pieces are kept,
    pub(super) kept: Sum,
    /// and where none is.
    pub(super) left: Sum,
    pub(super) in_vain: u32,
    /// Read in this round.
    pub(super) round_bytes: u64,
}

impl Sum {
    pub(super) const NONE: Self = Self {
        calls: 0,
        bytes: 0,
        ns: 0,
        device_bytes: 0,
    };

    pub(super) fn add(&mut self, cost: Cost, bytes: u64) {
        self.calls += 1;
        self.bytes += bytes;
        self.ns += cost.ns;
        self.device_bytes += cost.device_bytes;
    }

    pub(super) fn ns_a_byte(&self) -> f64 {
        self.ns as f64 / self.bytes.max(1) as f64
    }

    /// Of what it read, how much came from a device.
    pub(super) fn missed(&self) -> f64 {
        self.device_bytes as f64 / self.bytes.max(1) as f64
    }
}

/// What a comparison says.
pub(super) struct Comparison {
    /// Time of a byte that is kept by that of one that is not.
    pub(super) ratio: f64,
    /// How much came from a device of what was read again, where it is kept and where it is not.
    pub(super) missed: (f64, f64),
    pub(super) is_in_vain: bool,
}

impl Trial {
    pub(super) const NONE: Self = Self {
        kept: Sum::NONE,
        left: Sum::NONE,
        in_vain: 0,
        round_bytes: 0,
    };

    /// `None`: too little is known, or all that is read again is cached anyway, so that there is nothing to tell.
    pub(super) fn compare(&mut self) -> Option<Comparison> {
        if self.kept.calls.min(self.left.calls) < COMPARED {
            return None;
        }
        let (kept, left) = (self.kept, self.left);
        (self.kept, self.left) = (Sum::NONE, Sum::NONE);
        if left.missed() < 0.01 {
            return None;
        }
        let ratio = kept.ns_a_byte() / left.ns_a_byte().max(f64::MIN_POSITIVE);
        let is_in_vain = ratio > 0.97 && kept.missed() > 0.9 * left.missed();
        self.in_vain = if is_in_vain { self.in_vain + 1 } else { 0 };
        Some(Comparison {
            ratio,
            missed: (kept.missed(), left.missed()),
            is_in_vain,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeping_is_in_vain_only_where_it_could_help_and_does_not() {
        let sum = |ns, device_bytes| Sum {
            calls: COMPARED,
            bytes: 1 << 20,
            ns,
            device_bytes,
        };
        let compare = |kept, left| {
            let mut trial = Trial {
                kept,
                left,
                ..Trial::NONE
            };
            trial.compare().map(|comparison| comparison.is_in_vain)
        };
        let cached = sum(1000, 0);
        let missed = sum(100_000, 1 << 19);
        assert_eq!(compare(cached, missed), Some(false));
        assert_eq!(compare(missed, missed), Some(true));
        assert_eq!(compare(sum(100_000, 1 << 17), missed), Some(false));
        assert_eq!(compare(cached, cached), None, "nothing leaves");
    }
}
