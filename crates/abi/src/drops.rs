//! Whether dropping memory behind a sweep does harm: pages are wanted again so soon that the kernel would have kept them. Arithmetic only, the
//! same in the preloaded library, which finds it out, and in plans, which foresee it.
//!
//! Distances are counted in pages that came into memory. Where the kernel evicts what was used longest ago, a page that is not used stays
//! until as many others have come as there is room for: the reuse distance of Mattson et al. (1970), as the kernel reckons it of refaults
//! (`mm/workingset.c`, 6.1).

/// Of the pages that were dropped, one in so many may come back too soon,
const MOST_MISSED: u64 = 2;
/// within so many quarters of what there is room for: the kernel's order is not exact, and pages that were used without having to come are
/// not counted,
const SOON: u64 = 3;
/// as soon as so many were dropped.
pub const LEAST_DROPPED: u64 = 2048;

/// Whether a page is wanted too soon that was dropped so many pages ago, of which `room` fit into memory.
pub fn is_soon(distance: u64, room: u64) -> bool {
    distance < room / 4 * SOON
}

/// Whether too much of what was dropped was wanted too soon.
pub fn is_harm(dropped: u64, missed: u64) -> bool {
    dropped >= LEAST_DROPPED && missed * MOST_MISSED > dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_have_stayed_is_wanted_too_soon() {
        assert!(is_soon(7499, 10_000));
        assert!(!is_soon(7500, 10_000));
    }

    #[test]
    fn it_is_harm_if_it_is_so_of_most() {
        assert!(is_harm(LEAST_DROPPED, LEAST_DROPPED / 2 + 1));
        assert!(!is_harm(LEAST_DROPPED, LEAST_DROPPED / 2));
        assert!(
            !is_harm(LEAST_DROPPED - 1, LEAST_DROPPED - 1),
            "too few to tell"
        );
    }
}
