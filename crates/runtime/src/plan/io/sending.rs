//! How much of what was written is sent to the disk at once, so that it is soon clean and can be dropped. What is on its way stays in memory, and
//! whoever needs room waits for it: where the disk is slow, or the program's cgroup has a share of the disk only (blkio of cgroup v1, which
//! holds up nothing that the kernel writes by itself), much of it makes a writer as slow as the disk. So a run sends nothing until
//! what it sent before is clean; and unless the disk was found to keep up, one run of a rule does at a time. Arithmetic only.

/// The disk keeps up once so many chunks in a row were clean in time.
const PROVEN: u32 = 4;
/// Who has sent, and was not heard of since, is not waited for longer, ns.
const LONGEST: u64 = 10_000_000_000;

/// Of the calls of one rule.
pub(super) struct Sending {
    /// Chunks in a row that were clean in time.
    in_time: u32,
    /// When the one run that may send began to; 0: none does.
    since_ns: u64,
}

impl Sending {
    pub(super) const NONE: Self = Self {
        in_time: 0,
        since_ns: 0,
    };

    pub(super) fn is_proven(&self) -> bool {
        self.in_time >= PROVEN
    }

    /// Whether a run may send; then [`Self::clean`] or [`Self::given_up`] is to follow.
    pub(super) fn begins(&mut self, now_ns: u64) -> bool {
        if self.is_proven() {
            return true;
        }
        let is_waited_for = self.since_ns > 0 && now_ns.saturating_sub(self.since_ns) < LONGEST;
        if !is_waited_for {
            self.since_ns = now_ns.max(1);
        }
        !is_waited_for
    }

    /// What was sent is on the disk, in time or not.
    pub(super) fn clean(&mut self, in_time: bool) {
        self.since_ns = 0;
        self.in_time = match in_time {
            true => self.in_time.saturating_add(1),
            false => 0,
        };
    }

    /// What was sent is not there yet, though much has been written since.
    pub(super) fn late(&mut self) {
        self.in_time = 0;
    }

    /// Nobody will look whether it gets there.
    pub(super) fn given_up(&mut self) {
        self.since_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sends_at_a_time_until_the_disk_was_found_to_keep_up() {
        let mut sending = Sending::NONE;
        for now_ns in 0..u64::from(PROVEN) {
            assert!(sending.begins(now_ns));
            assert!(!sending.begins(now_ns), "another one waits");
            sending.clean(true);
        }
        assert!(sending.begins(10) && sending.begins(10));
        sending.late();
        assert!(!sending.is_proven());
        assert!(sending.begins(11) && !sending.begins(12));
        sending.clean(false);
        assert!(sending.begins(13), "but never nobody");
    }

    #[test]
    fn who_is_not_heard_of_again_is_not_waited_for_for_ever() {
        let mut sending = Sending::NONE;
        assert!(sending.begins(5));
        sending.given_up();
        assert!(sending.begins(6) && !sending.begins(LONGEST));
        assert!(sending.begins(7 + LONGEST));
    }
}
