//! What a sampled allocation stands for.

/// Bytes that were allocated for each sampled allocation of `bytes` bytes, itself included, if it was chosen with
/// probability `1 - exp(-bytes / sample_bytes)`: summed over the samples of any site, an unbiased estimate of the bytes
/// that site allocated. Divided by `bytes` it is the number of allocations. `sample_bytes` 0: the allocation was not
/// sampled and stands for itself.
pub fn estimated_bytes(bytes: u64, sample_bytes: u32) -> u64 {
    if sample_bytes == 0 || bytes == 0 {
        return bytes;
    }
    let missed = -(bytes as f64) / f64::from(sample_bytes);
    (bytes as f64 / -missed.exp_m1()).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_sample_stands_for_the_mean_distance_and_a_large_one_for_itself() {
        assert_eq!(estimated_bytes(1, 65_536), 65_537);
        assert_eq!(estimated_bytes(65_536, 65_536), 103_676);
        assert_eq!(estimated_bytes(10 << 20, 65_536), 10 << 20);
        assert_eq!(estimated_bytes(100, 0), 100);
        assert_eq!(estimated_bytes(0, 65_536), 0);
    }
}
