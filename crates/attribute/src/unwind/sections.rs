//! The unwind information of modules, read once for all processes.

use crate::elf::{self, FileStamp, Segment};
use crate::error::Result;
use crate::modules::Module;
use crate::roots::reachable;
use framehop::ExplicitModuleSectionInfo;
use object::{Object, ObjectSection};
use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A section's bytes, shared by all processes that loaded the module.
pub(super) type SectionBytes = Arc<[u8]>;

/// Call frame information of one file.
#[derive(Debug)]
pub(super) struct UnwindSections {
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    eh_frame: Option<(Range<u64>, SectionBytes)>,
    eh_frame_hdr: Option<(Range<u64>, SectionBytes)>,
    debug_frame: Option<SectionBytes>,
}

/// Whether the code at an address of a file (SVMA) begins with these bytes.
pub(super) fn code_begins_with(module: &Module, svma: u64, code: &[u8]) -> bool {
    let holds =
        |s: &&Segment| s.executable && (s.svma..s.svma.saturating_add(s.file_size)).contains(&svma);
    let Some(segment) = module.image.segments.iter().find(holds) else {
        return false;
    };
    let mut found = vec![0; code.len()];
    let offset = segment.file_offset.saturating_add(svma - segment.svma);
    let file = std::fs::File::open(reachable(Path::new(&*module.path)));
    file.is_ok_and(|file| file.read_exact_at(&mut found, offset).is_ok()) && found == code
}

impl UnwindSections {
    fn read(path: &Path) -> Result<Self> {
        let cache = elf::open(path)?;
        let file = elf::parse(path, &cache)?;
        let range = |name| {
            let section = file.section_by_name(name)?;
            Some(section.address()..section.address().saturating_add(section.size()))
        };
        let bytes = |name| {
            let data = file.section_by_name(name)?.uncompressed_data().ok()?;
            (!data.is_empty()).then(|| SectionBytes::from(&*data))
        };
        Ok(Self {
            text: range(".text"),
            got: range(".got"),
            eh_frame: range(".eh_frame").zip(bytes(".eh_frame")),
            eh_frame_hdr: range(".eh_frame_hdr").zip(bytes(".eh_frame_hdr")),
            debug_frame: bytes(".debug_frame"),
        })
    }

    pub(super) fn has_information(&self) -> bool {
        self.eh_frame.is_some() || self.debug_frame.is_some()
    }

    /// The file as loaded in one process. Code bytes are not needed: compilers for ELF describe
    /// prologues and epilogues too.
    pub(super) fn at(&self, module: &Module) -> framehop::Module<SectionBytes> {
        let addresses = |section: &Option<(Range<u64>, SectionBytes)>| {
            section.as_ref().map(|(range, _)| range.clone())
        };
        let bytes = |section: &Option<(Range<u64>, SectionBytes)>| {
            section.as_ref().map(|(_, bytes)| Arc::clone(bytes))
        };
        // Files linked at a fixed address have bias 0 and wide addresses; the unwinder keeps
        // offsets from the base in 32 bits, so the base is the module's own start.
        let first = module.range.start;
        framehop::Module::new(
            module.path.to_string(),
            module.range.clone(),
            first,
            ExplicitModuleSectionInfo {
                base_svma: module.svma(first),
                text_svma: self.text.clone(),
                got_svma: self.got.clone(),
                eh_frame_svma: addresses(&self.eh_frame),
                eh_frame: bytes(&self.eh_frame),
                eh_frame_hdr_svma: addresses(&self.eh_frame_hdr),
                eh_frame_hdr: bytes(&self.eh_frame_hdr),
                debug_frame: self.debug_frame.clone(),
                ..Default::default()
            },
        )
    }
}

/// The unwind information of files, each read once while the file stays the same.
#[derive(Debug, Default)]
pub struct UnwindCache {
    files: HashMap<Arc<str>, (FileStamp, Option<Arc<UnwindSections>>)>,
}

impl UnwindCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The sections of the file at `path`; `None` if it is missing or unreadable.
    pub(super) fn sections(&mut self, path: &Arc<str>) -> Option<Arc<UnwindSections>> {
        let stamp = FileStamp::of(Path::new(&**path))?;
        if let Some((known, sections)) = self.files.get(path)
            && *known == stamp
        {
            return sections.clone();
        }
        let sections = UnwindSections::read(Path::new(&**path)).ok().map(Arc::new);
        self.files
            .insert(Arc::clone(path), (stamp, sections.clone()));
        sections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_executable_has_call_frame_information_and_is_read_once() {
        let path: Arc<str> = std::env::current_exe().unwrap().to_str().unwrap().into();
        let mut cache = UnwindCache::new();
        let first = cache.sections(&path).unwrap();
        assert!(first.has_information());
        assert!(Arc::ptr_eq(&first, &cache.sections(&path).unwrap()));
    }

    #[test]
    fn a_missing_file_has_none() {
        assert!(
            UnwindCache::new()
                .sections(&"/nonexistent".into())
                .is_none()
        );
    }
}
