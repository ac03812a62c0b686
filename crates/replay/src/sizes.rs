//! Memory sizes in pages.

use pagewise_host::MemorySize;
use pagewise_simulate::MAX_PAGES;

use crate::error::ReplayError;

/// The pages that fit; percentages are of the footprint, rounded down.
pub(crate) fn frames(
    size: MemorySize,
    page_bytes: u64,
    footprint: Option<u32>,
) -> Result<u32, ReplayError> {
    let pages = match size {
        MemorySize::Pages(pages) => pages,
        MemorySize::Bytes(bytes) => bytes / page_bytes,
        MemorySize::Percent(percent) => {
            let footprint =
                footprint.ok_or_else(|| ReplayError::asked("the footprint is unknown"))?;
            // In thousandths of a percent, so that 10 % of 1000 pages is 100 whatever a float's last digit.
            let thousandths = (percent * 1e3).round() as u64;
            (u128::from(footprint) * u128::from(thousandths) / 100_000) as u64
        }
    };
    let of = match footprint {
        Some(footprint) => format!(
            " (the footprint is {})",
            pagewise_report::count(footprint.into())
        ),
        None => String::new(),
    };
    if pages == 0 {
        return Err(ReplayError::asked(format!(
            "--memory {size}: less than one page{of}; give more"
        )));
    }
    u32::try_from(pages)
        .ok()
        .filter(|pages| *pages <= MAX_PAGES)
        .ok_or_else(|| {
            ReplayError::asked(format!(
                "--memory {size}: more than the {MAX_PAGES} pages that can be simulated{of}; give less"
            ))
        })
}

/// Whether the footprint must be known first.
pub(crate) fn needs_footprint(sizes: &[MemorySize]) -> bool {
    sizes
        .iter()
        .any(|size| matches!(size, MemorySize::Percent(_)))
}
