//! Whether what was written is sent to the disk at once, so that it is soon clean and can be dropped. Who asks for that waits where the disk's queue is
//! full, or where its cgroup has a share of the disk only (blkio of cgroup v1 counts no other writing): then a writer whose pages have room in
//! memory would be as slow as the disk. So it goes on only as long as it takes no longer than the writing itself; else the kernel
//! sends it when it finds right, and it is dropped later. Arithmetic only.

/// So many are sent one at a time: a disk that takes nothing holds up one thread only.
const PROVEN: u32 = 4;
/// After so many, the sums are halved: what comes counts more than what was.
const REMEMBERED: u32 = 64;
/// Chunks that are left to the kernel once it took too long; twice as many each next time.
const REST: u64 = 64;

#[derive(Clone, Copy)]
struct Cost {
    bytes: u64,
    ns: u64,
}

impl Cost {
    const NONE: Self = Self { bytes: 0, ns: 0 };

    fn add(&mut self, bytes: u64, ns: u64) {
        self.bytes += bytes;
        self.ns += ns;
    }

    fn halve(&mut self) {
        self.bytes /= 2;
        self.ns /= 2;
    }
}

/// Of the calls of one rule.
pub(super) struct Sending {
    written: Cost,
    sent: Cost,
    sends: u32,
    is_under_way: bool,
    /// Chunks still to be left to the kernel.
    rest: u64,
    next_rest: u64,
}

/// What becomes of chunks that could be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// They are sent; [`Sending::sent`] is to follow.
    Send,
    /// They may be sent later.
    Wait,
    /// The kernel sends them.
    Leave,
}

impl Sending {
    pub(super) const NONE: Self = Self {
        written: Cost::NONE,
        sent: Cost::NONE,
        sends: 0,
        is_under_way: false,
        rest: 0,
        next_rest: REST,
    };

    /// A call of the program's has written so many bytes.
    pub(super) fn wrote(&mut self, bytes: u64, ns: u64) {
        self.written.add(bytes, ns);
    }

    pub(super) fn turn(&mut self, chunks: u64) -> Turn {
        if self.rest > 0 {
            self.rest = self.rest.saturating_sub(chunks);
            return Turn::Leave;
        }
        if self.sends < PROVEN && self.is_under_way {
            return Turn::Wait;
        }
        self.is_under_way = true;
        Turn::Send
    }

    /// So many bytes were sent.
    pub(super) fn sent(&mut self, bytes: u64, ns: u64) {
        self.is_under_way = false;
        self.sent.add(bytes, ns);
        self.sends += 1;
        let times = |one: Cost, other: Cost| u128::from(one.ns) * u128::from(other.bytes);
        let is_slow = times(self.sent, self.written) > times(self.written, self.sent);
        if self.written.bytes > 0 && is_slow {
            *self = Self {
                rest: self.next_rest,
                next_rest: self.next_rest.saturating_mul(2),
                ..Self::NONE
            };
        } else if self.sends >= REMEMBERED {
            self.sends /= 2;
            self.written.halve();
            self.sent.halve();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// How many of so many chunks are sent, where writing one takes 700 us and sending it so long.
    fn sent_of(sending: &mut Sending, chunks: u64, us: u64) -> u64 {
        let mut count = 0;
        for _ in 0..chunks {
            sending.wrote(2 * MIB, 700_000);
            if sending.turn(1) == Turn::Send {
                sending.sent(2 * MIB, us * 1000);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn a_disk_that_takes_it_gets_all_and_one_that_does_not_hardly_any() {
        assert_eq!(sent_of(&mut Sending::NONE, 1000, 110), 1000);
        // After 1, 66, 195, 452 and 965 chunks.
        assert_eq!(sent_of(&mut Sending::NONE, 1000, 20_000), 5);
    }

    #[test]
    fn a_disk_that_gets_slow_is_noticed_soon_and_one_that_recovers_in_time() {
        let mut sending = Sending::NONE;
        sent_of(&mut sending, 1000, 110);
        assert!(sent_of(&mut sending, 60, 20_000) <= 2);
        let sent = sent_of(&mut sending, 1000, 110);
        assert!(sent > 900, "{sent}");
    }

    #[test]
    fn at_first_one_thread_alone_waits_for_the_disk() {
        let mut sending = Sending::NONE;
        sending.wrote(2 * MIB, 700_000);
        assert_eq!(sending.turn(1), Turn::Send);
        assert_eq!(sending.turn(1), Turn::Wait);
        sending.sent(2 * MIB, 20_000_000);
        assert_eq!(sending.turn(1), Turn::Leave);
        let mut fast = Sending::NONE;
        sent_of(&mut fast, u64::from(PROVEN), 110);
        assert_eq!([fast.turn(1), fast.turn(1)], [Turn::Send; 2]);
    }
}
