//! How the manager looks at regions: by BPF, or by what the kernel tells without it.

use pagewise_collect::AccessSensor;
use pagewise_collect::CollectError;
use pagewise_collect::PageRegions;
use pagewise_collect::access::Pages;
use pagewise_collect::access::Region;
use pagewise_collect::access::Walked;
use pagewise_collect::zeros_of;
use pagewise_simulate::hugepages::HugePolicy;

use crate::failure::Failure;
use crate::output::tell;

pub(super) enum Sensor {
    /// Tells what was accessed.
    Walk(AccessSensor),
    /// Tells what is in memory, and in huge pages (Linux 6.7).
    PageMap(PageRegions),
}

impl Sensor {
    /// The first that works, and if it is the second, why. That one is enough for policies that do not go by accesses.
    pub(super) fn find(policy: HugePolicy) -> Result<Self, Failure> {
        let (sensor, lacking) = Self::first_that_works()?;
        let Some(error) = lacking else {
            return Ok(sensor);
        };
        if policy.needs_accesses() && policy != HugePolicy::Nothing {
            return Err(Failure::new(format!(
                "{error}; --policy {policy} goes by what is accessed, which is not told without that: there are --policy linux, freebsd and none"
            )));
        }
        tell_unknown(&error);
        Ok(sensor)
    }

    /// The first that works, for who takes what is told.
    pub(super) fn find_any() -> Result<Self, Failure> {
        let (sensor, lacking) = Self::first_that_works()?;
        lacking.iter().for_each(tell_unknown);
        Ok(sensor)
    }

    fn first_that_works() -> Result<(Self, Option<CollectError>), Failure> {
        let loaded = pagewise_collect::calibrate().and_then(AccessSensor::with_zeros);
        let error = match loaded {
            Ok(walk) => return Ok((Sensor::Walk(walk), None)),
            Err(error) => error,
        };
        match PageRegions::find() {
            Ok(pages) => Ok((Sensor::PageMap(pages), Some(error))),
            Err(_) => Err(Failure::new(format!(
                "{error}; in its place there is PAGEMAP_SCAN, since Linux 6.7"
            ))),
        }
    }

    /// Whether it tells what was accessed since the accessed bits were cleared.
    pub(super) fn tells_accesses(&self) -> bool {
        matches!(self, Sensor::Walk(_))
    }

    /// From now on the kernel's one page of zeros does not count. False: it cannot be told.
    pub(super) fn leave_out_zero_page(&mut self) -> bool {
        match self {
            Sensor::Walk(walk) => walk.leave_out_zero_page(),
            Sensor::PageMap(_) => true,
        }
    }

    /// Hands each region that has pages to `sink`, by address.
    pub(super) fn walk(
        &mut self,
        pages: &Pages,
        sink: impl FnMut(Region),
    ) -> Result<Walked, CollectError> {
        match self {
            Sensor::Walk(walk) => walk.walk(pages, sink).map(|(walked, _)| walked),
            Sensor::PageMap(regions) => regions.walk(pages, sink),
        }
    }

    /// The region at this address, as it is now. `None`: it has no pages, or the address space has ended.
    pub(super) fn region_at(
        &mut self,
        pages: &Pages,
        address: u64,
    ) -> Result<Option<Region>, CollectError> {
        match self {
            Sensor::Walk(walk) => walk.region_at(pages, address),
            Sensor::PageMap(regions) => regions.region_at(pages, address),
        }
    }

    /// Base pages of zeros in the huge page at this address. `None`: there is none, or it cannot be told.
    pub(super) fn count_zeros(
        &mut self,
        pid: u32,
        pages: &Pages,
        address: u64,
    ) -> Result<Option<u16>, CollectError> {
        match self {
            Sensor::Walk(walk) => walk.count_zeros(pages, address),
            Sensor::PageMap(regions) => {
                let region = regions.region_at(pages, address)?;
                let is_huge = region.is_some_and(|region| region.huge);
                Ok(is_huge.then(|| zeros_of(pid, address)).flatten())
            }
        }
    }
}

fn tell_unknown(error: &CollectError) {
    tell!("pagewise: what is accessed is not known: {error}");
}
