//! How the preloaded library follows the sweeps through an object and how far it reads ahead of them. Shared with plans, which foresee what it will do.

/// A step of a sweep is at most so long, bytes.
pub const LONGEST_STEP: u64 = 1 << 20;
/// A place is left when the object has had so many faults elsewhere since.
pub const LEFT_FAULTS: u64 = 256;
/// More is of no use, bytes: it takes a while to make room for it.
const LONGEST_LEAD: u64 = 64 << 20;
/// Of what there is of memory, so large a part may be read ahead.
const LEAD_OF_LIMIT: u64 = 16;

/// Places in an object that are followed of one thread. One that goes anywhere would else soon be near one of them each time, as if it swept. In an
/// object of blocks a step may be of a whole block.
pub const fn places_of_thread(of_blocks: bool) -> usize {
    if of_blocks { 8 } else { 32 }
}

/// Forward steps before a place counts as a sweep. In an object of blocks, where a step down is one of a whole block, fewer do.
pub const fn least_steps(of_blocks: bool) -> u32 {
    if of_blocks { 8 } else { 32 }
}

/// Of a limit of so many bytes, how many may be read ahead at most.
pub fn longest_lead(limit_bytes: u64) -> u64 {
    (limit_bytes / LEAD_OF_LIMIT).min(LONGEST_LEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_ahead_is_a_part_of_memory_but_no_more_than_is_of_use() {
        assert_eq!(longest_lead(160 << 20), 10 << 20);
        assert_eq!(longest_lead(64 << 30), LONGEST_LEAD);
    }
}
