//! The first page of a swap area, as mkswap(8) writes it (`union swap_header`, include/linux/swap.h,
//! unchanged since 2.1): all numbers in the machine's byte order.
//!
//! ```text
//!   0     1024       1028          1032         1036      1052       1068 ...      page - 10
//!   boot  version=1  last page     bad pages=0  uuid(16)  label(16)  0             "SWAPSPACE2"
//! ```

use crate::error::Error;
use crate::error::Result;

const MAGIC: &[u8; 10] = b"SWAPSPACE2";
const LABEL: &[u8; 8] = b"pagewise";
/// Fewest pages that mkswap accepts.
const LEAST_PAGES: u64 = 10;

/// Size of a swap area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    page_bytes: u64,
    last_page: u32,
}

impl Layout {
    /// With room for `bytes` beside the header.
    pub(super) fn for_bytes(bytes: u64, page_bytes: u64) -> Result<Self> {
        let pages = bytes.div_ceil(page_bytes);
        let least = (LEAST_PAGES - 1) * page_bytes;
        let last_page = u32::try_from(pages).ok().filter(|last| *last < u32::MAX);
        match last_page {
            Some(last_page) if u64::from(last_page) + 1 >= LEAST_PAGES => Ok(Layout {
                page_bytes,
                last_page,
            }),
            Some(_) => Err(Error::SwapTooSmall { bytes, least }),
            None => Err(Error::Size {
                text: bytes.to_string(),
                why: "swap cannot be that large",
            }),
        }
    }

    /// Bytes of the whole area, header included.
    pub(super) fn total_bytes(&self) -> u64 {
        (u64::from(self.last_page) + 1) * self.page_bytes
    }

    /// The first page.
    pub(super) fn header(&self, uuid: [u8; 16]) -> Vec<u8> {
        let page = usize::try_from(self.page_bytes).unwrap_or(4096);
        let mut header = vec![0; page];
        header[1024..1028].copy_from_slice(&1_u32.to_ne_bytes());
        header[1028..1032].copy_from_slice(&self.last_page.to_ne_bytes());
        header[1036..1052].copy_from_slice(&uuid);
        header[1052..1060].copy_from_slice(LABEL);
        header[page - MAGIC.len()..].copy_from_slice(MAGIC);
        header
    }
}

/// A random UUID (RFC 9562, version 4).
pub(super) fn random_uuid() -> Result<[u8; 16]> {
    let mut uuid = [0; 16];
    rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::system("get random numbers", e))?;
    uuid[6] = (uuid[6] & 0x0f) | 0x40;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    Ok(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_one_page_that_ends_with_the_magic() {
        for page in [4096, 16384, 65536] {
            let layout = Layout::for_bytes(1 << 20, page).expect("large enough");
            let header = layout.header([7; 16]);
            assert_eq!(header.len() as u64, page);
            assert!(header.ends_with(b"SWAPSPACE2"));
            assert_eq!(header[1024..1028], 1_u32.to_ne_bytes());
            let last = u32::from_ne_bytes(header[1028..1032].try_into().expect("4 bytes"));
            assert_eq!((u64::from(last) + 1) * page, layout.total_bytes());
            assert_eq!(layout.total_bytes(), (1 << 20) + page);
        }
    }

    #[test]
    fn too_small_and_too_large_are_refused() {
        assert!(Layout::for_bytes(8 * 4096, 4096).is_err());
        assert!(Layout::for_bytes(9 * 4096, 4096).is_ok());
        assert!(Layout::for_bytes(u64::MAX, 4096).is_err());
    }

    #[test]
    fn identifiers_differ_and_say_their_version() {
        let (one, other) = (
            random_uuid().expect("random"),
            random_uuid().expect("random"),
        );
        assert_ne!(one, other);
        assert_eq!(one[6] >> 4, 4);
    }
}
