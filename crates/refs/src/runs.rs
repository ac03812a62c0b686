//! What decoders hand to the interner.

/// Accesses to consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first page's key: unique in the trace, and consecutive for consecutive pages.
    pub(crate) key: u64,
    /// How many pages.
    pub(crate) pages: u32,
    /// How all of them are accessed.
    pub(crate) access: Access,
}

/// How a page is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) write: bool,
    pub(crate) file: bool,
}

pub(crate) const FILE_READ: Access = Access {
    write: false,
    file: true,
};
pub(crate) const FILE_WRITE: Access = Access {
    write: true,
    file: true,
};
pub(crate) const ANONYMOUS_READ: Access = Access {
    write: false,
    file: false,
};
pub(crate) const ANONYMOUS_WRITE: Access = Access {
    write: true,
    file: false,
};

impl Run {
    #[inline]
    pub(crate) fn one(key: u64, access: Access) -> Self {
        Self {
            key,
            pages: 1,
            access,
        }
    }

    /// The pages of `bytes` from `address` on; at least one, and none beyond the last address there is. `None` if they
    /// are more than 2^32.
    #[inline]
    pub(crate) fn covering(
        address: u64,
        bytes: u64,
        page_shift: u32,
        access: Access,
    ) -> Option<Self> {
        let first = address >> page_shift;
        let last = address.saturating_add(bytes.saturating_sub(1)) >> page_shift;
        let pages = u32::try_from(last - first).ok()?.checked_add(1)?;
        Some(Self {
            key: first,
            pages,
            access,
        })
    }
}
