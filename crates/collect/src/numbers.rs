//! Which address space a record means: it has room for the low bits of its number only (see `bpf/processes.h`).

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use crate::CollectError;
use crate::Observation;
use crate::record::NUMBERS;
use crate::ring::MappedArray;

/// `numbers` of `bpf/processes.h`: a number, and in the upper half how many use it.
pub(crate) struct Numbers(MappedArray);

impl Numbers {
    pub(crate) fn map(numbers: BorrowedFd<'_>) -> Result<Self, CollectError> {
        Ok(Self(MappedArray::new(numbers, NUMBERS)?))
    }

    /// Gives what a record told of the whole number of its address space. Low bits are given out again only after 65,535
    /// other numbers: by then the records of the last one have long been read.
    pub(crate) fn complete(&self, observation: &mut Observation) {
        if let Some(space) = observation.space_of_record() {
            let low = *space as usize & (NUMBERS - 1);
            *space = self.0.atomics()[low].load(Ordering::Relaxed) as u32;
        }
    }
}
