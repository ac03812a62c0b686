//! Models written for the eye, from the papers' and the kernel's words: plain vectors, oldest first, searched from end to
//! end. They share nothing with the policies they check.

mod adaptive;
mod areas;
mod classic;
mod clock_pro;
mod fair_rent;
mod linux;
mod mglru;
mod w_tinylfu;
mod writes;

pub(crate) use adaptive::Arc;
pub(crate) use adaptive::Belady;
pub(crate) use adaptive::Lirs;
pub(crate) use adaptive::S3Fifo;
pub(crate) use areas::Areas;
pub(crate) use classic::Clock;
pub(crate) use classic::Fifo;
pub(crate) use classic::Lru;
pub(crate) use classic::Sieve;
pub(crate) use classic::TwoQ;
pub(crate) use clock_pro::ClockPro;
pub(crate) use fair_rent::FairRent;
pub(crate) use linux::Linux;
pub(crate) use mglru::Mglru;
use pagewise_simulate::Reference;
pub(crate) use w_tinylfu::WTinyLfu;
pub(crate) use writes::CfLru;
pub(crate) use writes::LruWsr;

pub(crate) trait Model {
    fn access(&mut self, reference: Reference);
    fn resident(&self) -> Vec<u32>;
}

/// Takes a page out of a queue; whether it was there.
fn take(queue: &mut Vec<u32>, page: u32) -> bool {
    let position = queue.iter().position(|&other| other == page);
    position.map(|position| queue.remove(position)).is_some()
}
