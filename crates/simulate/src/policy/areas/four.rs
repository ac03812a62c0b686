//! Four areas: file-read, file-write, anonymous-read, anonymous-write.
//! H. Bahn, Memory allocation and reclamation policies for fast swap support in mobile systems, Journal of the Institute
//! of Internet, Broadcasting and Communication 24(4), 2024; H. Yoon, K. Cho, H. Bahn, Storage type and hot partition
//! aware page reclamation for NVM swap in smartphones, Electronics 11(3):386, 2022.

use super::Areas;
use super::Division;
use crate::reference::Reference;
use crate::storage::Storage;

/// Areas by [`Reference::class`]. The reference bit decides in read areas, the dirty bit in write areas: both are the
/// `USED` bit here, as an area sees accesses of its own kind only.
pub(crate) struct ByClass;

impl Division for ByClass {
    #[inline]
    fn area(&self, reference: Reference) -> usize {
        reference.class()
    }

    fn patience(&self, _area: usize) -> u8 {
        0
    }
}

/// The policy of the paper: 36 bytes a page.
pub(crate) fn four_areas(frames: u32, storage: &Storage) -> Areas<ByClass, 4> {
    let costs = [
        storage.swap.read_ns,
        storage.swap.write_ns,
        storage.file.read_ns,
        storage.file.write_ns,
    ];
    Areas::new(ByClass, frames, costs)
}
