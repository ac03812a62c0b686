//! How the allocations too small to be recorded one by one are sampled.

use pagewise_abi as abi;
use pagewise_host::MemorySize;
use pagewise_host::Program;
use pagewise_trace as trace;

/// `--sample-bytes`: how often small allocations are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleBytes {
    /// As often as does not show.
    Auto,
    /// One for each so many bytes; 0: none.
    Each(u32),
}

impl SampleBytes {
    fn bytes(self) -> u32 {
        match self {
            Self::Auto => abi::DEFAULT_SAMPLE_BYTES,
            Self::Each(bytes) => bytes,
        }
    }
}

impl std::str::FromStr for SampleBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "off" => return Ok(Self::Each(0)),
            _ => {}
        }
        let largest = abi::LARGEST_SAMPLE_BYTES;
        match text.parse() {
            Ok(MemorySize::Bytes(bytes)) if (1..=u64::from(largest)).contains(&bytes) => {
                Ok(Self::Each(bytes as u32))
            }
            Ok(_) => Err(format!(
                "give 1 to {largest} bytes (64K, 1M, ...), auto, or off: one allocation in so many bytes is recorded"
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Tells the preloaded library. Its threshold and seed come from our own environment, if they are there.
pub(super) fn tell(program: Program, sample: SampleBytes) -> Program {
    let mut value = sample.bytes().to_string();
    if sample == SampleBytes::Auto {
        value.push(abi::OR_SPARSER);
    }
    program.env(abi::SAMPLE_VARIABLE, value)
}

/// Tells the preloaded library that nobody wants to hear of allocations.
pub(super) fn tell_nothing(program: Program) -> Program {
    program
        .env(abi::THRESHOLD_VARIABLE, usize::MAX.to_string())
        .env(abi::SAMPLE_VARIABLE, "0")
}

/// As the trace states it.
pub(super) fn stated(sample: SampleBytes) -> trace::Sampling {
    let threshold = std::env::var(abi::THRESHOLD_VARIABLE);
    let threshold = threshold.ok().and_then(|text| text.parse().ok());
    let threshold = threshold.filter(|&bytes| bytes > 0);
    trace::Sampling {
        threshold_bytes: Some(threshold.unwrap_or(abi::DEFAULT_THRESHOLD as u64)),
        sample_bytes: Some(sample.bytes().into()).filter(|&bytes| bytes > 0),
        sparsest_sample_bytes: None, // known at the end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_sizes_or_off() {
        assert_eq!("64K".parse(), Ok(SampleBytes::Each(65_536)));
        assert_eq!("1".parse(), Ok(SampleBytes::Each(1)));
        assert_eq!("off".parse(), Ok(SampleBytes::Each(0)));
        assert_eq!("auto".parse(), Ok(SampleBytes::Auto));
        for wrong in ["0", "2G", "50%", "3p", "", "none", "-1", "64 K B"] {
            let error = wrong.parse::<SampleBytes>().expect_err(wrong);
            assert!(!error.is_empty(), "{wrong}");
        }
    }
}
