//! Doubly linked lists of pages whose links lie in one array indexed by page: a page is in at most one list of an array.

/// No page.
pub(crate) const NONE: u32 = u32::MAX;

/// The links of all pages: eight bytes a page.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: Vec<Link>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
}

/// One list: its ends and its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    newest: u32,
    oldest: u32,
    len: u32,
}

impl Links {
    /// Makes room for pages numbered below `pages`.
    pub(crate) fn grow(&mut self, pages: usize) {
        let unlinked = Link {
            newer: NONE,
            older: NONE,
        };
        self.links.resize(pages, unlinked);
    }

    /// The page that was put in next after this one.
    #[inline]
    pub(crate) fn newer(&self, page: u32) -> u32 {
        self.links[page as usize].newer
    }
}

impl List {
    pub(crate) fn new() -> List {
        List {
            newest: NONE,
            oldest: NONE,
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The page at the old end, or [`NONE`].
    #[inline]
    pub(crate) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// Puts a page that is in no list in at the new end.
    #[inline]
    pub(crate) fn push(&mut self, page: u32, links: &mut Links) {
        links.links[page as usize] = Link {
            newer: NONE,
            older: self.newest,
        };
        match self.newest {
            NONE => self.oldest = page,
            newest => links.links[newest as usize].newer = page,
        }
        self.newest = page;
        self.len += 1;
    }

    /// Puts a page that is in no list in at the old end.
    #[inline]
    pub(crate) fn push_oldest(&mut self, page: u32, links: &mut Links) {
        links.links[page as usize] = Link {
            newer: self.oldest,
            older: NONE,
        };
        match self.oldest {
            NONE => self.newest = page,
            oldest => links.links[oldest as usize].older = page,
        }
        self.oldest = page;
        self.len += 1;
    }

    /// Takes a page of this list out.
    #[inline]
    pub(crate) fn remove(&mut self, page: u32, links: &mut Links) {
        let Link { newer, older } = links.links[page as usize];
        match newer {
            NONE => self.newest = older,
            newer => links.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => links.links[older as usize].newer = newer,
        }
        self.len -= 1;
    }

    /// Takes the page at the old end out; the list must not be empty.
    #[inline]
    pub(crate) fn pop(&mut self, links: &mut Links) -> u32 {
        debug_assert!(!self.is_empty());
        let page = self.oldest;
        self.remove(page, links);
        page
    }

    /// Moves a page of this list to the new end.
    #[inline]
    pub(crate) fn renew(&mut self, page: u32, links: &mut Links) {
        if self.newest != page {
            self.remove(page, links);
            self.push(page, links);
        }
    }
}
