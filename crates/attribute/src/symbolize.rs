//! From an address in a module to the functions and source lines it belongs to.

use crate::debug_file::DebugFiles;
use crate::demangle::demangle;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::jit::{JitNames, is_names_file};
use crate::roots::reachable;
use addr2line::Loader;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Addresses remembered; beyond this the memory starts anew.
const MAX_ADDRESSES: usize = 200_000;

/// Symbolizes addresses, reading each module once and only when it is asked for.
///
/// Files are not read again when they change: a symbolizer lives for one recording or report.
#[derive(Default)]
pub struct Symbolizer {
    modules: HashMap<Arc<str>, Result<Loader>>,
    jit: HashMap<Arc<str>, Option<JitNames>>,
    addresses: HashMap<(Arc<str>, u64), Arc<[Frame]>>,
}

impl std::fmt::Debug for Symbolizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Symbolizer")
            .field("modules", &self.modules.keys())
            .field("addresses", &self.addresses.len())
            .finish()
    }
}

impl Symbolizer {
    /// A symbolizer that has read nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The frames at an address stated in a module (SVMA), innermost inlined function first.
    ///
    /// For a caller pass the return address less one ([`crate::lookup_address`]). Always at least
    /// one frame: without debug information it has the ELF symbol's function and no file; without
    /// a readable module only module and offset are known ([`Symbolizer::problem`] says why).
    pub fn frames(&mut self, module: &str, svma: u64) -> Arc<[Frame]> {
        let key = (self.module_key(module), svma);
        if let Some(frames) = self.addresses.get(&key) {
            return Arc::clone(frames);
        }
        let frames: Arc<[Frame]> = self.look_up(&key.0, svma).into();
        if self.addresses.len() >= MAX_ADDRESSES {
            self.addresses.clear();
        }
        self.addresses.insert(key, Arc::clone(&frames));
        frames
    }

    /// The ELF symbol that holds an address: demangled name, and the distance from its start in
    /// bytes.
    pub fn symbol(&mut self, module: &str, svma: u64) -> Option<(String, u64)> {
        let key = self.module_key(module);
        let symbol = self.loader(&key)?.find_symbol_info(svma)?;
        Some((
            demangle(symbol.name()),
            svma.saturating_sub(symbol.address()),
        ))
    }

    /// Why a module that was asked for could not be read, if it could not.
    #[must_use]
    pub fn problem(&self, module: &str) -> Option<&Error> {
        self.modules.get(module)?.as_ref().err()
    }

    fn look_up(&mut self, module: &Arc<str>, svma: u64) -> Vec<Frame> {
        let here = Frame {
            module: Some(module.to_string()),
            module_offset: Some(svma),
            ..Frame::default()
        };
        if is_names_file(Path::new(&**module)) {
            let path = Arc::clone(module);
            let names = self
                .jit
                .entry(path)
                .or_insert_with(|| JitNames::load(Path::new(&**module)));
            // Without such a file, it was a guess that there would be one.
            let Some(names) = names else {
                return vec![Frame::default()];
            };
            let found = names.frame(svma).unwrap_or_default();
            return vec![Frame {
                module: here.module,
                module_offset: here.module_offset,
                ..found
            }];
        }
        let Some(loader) = self.loader(module) else {
            return vec![here];
        };
        let mut frames = described_frames(loader, svma, &here);
        if frames.is_empty() {
            frames.push(here);
        }
        mark_inlined(&mut frames);
        // Code without debug information, or with lines only (assembly).
        if let Some(outermost) = frames.last_mut()
            && outermost.function.is_none()
        {
            outermost.function = loader.find_symbol(svma).map(demangle);
        }
        frames
    }

    fn module_key(&mut self, module: &str) -> Arc<str> {
        match self.modules.get_key_value(module) {
            Some((key, _)) => Arc::clone(key),
            None => {
                let key: Arc<str> = module.into();
                self.modules
                    .insert(Arc::clone(&key), load(Path::new(module)));
                key
            }
        }
    }

    fn loader(&self, module: &Arc<str>) -> Option<&Loader> {
        self.modules.get(module)?.as_ref().ok()
    }
}

fn load(path: &Path) -> Result<Loader> {
    // Opened first for an error that tells a missing file from a broken one.
    crate::elf::parse(path, &crate::elf::open(path)?)?;
    let files = DebugFiles::locate(path);
    let load = |main: &Path, supplementary: Option<&Path>| {
        let supplementary = supplementary.map(reachable);
        Loader::new_with_sup(reachable(main), supplementary).map_err(|source| {
            Error::DebugInformation {
                path: main.to_owned(),
                source: source.to_string().into(),
            }
        })
    };
    match load(&files.main, files.supplementary.as_deref()) {
        Err(_) if files.main != path => load(path, None),
        result => result,
    }
}

/// The frames the debug information knows at an address; a broken entry ends the list early.
fn described_frames(loader: &Loader, svma: u64, here: &Frame) -> Vec<Frame> {
    let mut frames = Vec::new();
    let Ok(mut found) = loader.find_frames(svma) else {
        return frames;
    };
    while let Ok(Some(frame)) = found.next() {
        let name = frame
            .function
            .as_ref()
            .and_then(|name| name.raw_name().ok());
        let location = frame.location.as_ref();
        frames.push(Frame {
            function: name
                .map(|name| demangle(&name))
                .filter(|name| !name.is_empty()),
            file: location.and_then(|at| at.file).map(str::to_owned),
            // Line 0 is DWARF's "no line"; column 0 its "left edge", which tells nothing.
            line: location.and_then(|at| at.line).filter(|&line| line != 0),
            column: location
                .and_then(|at| at.column)
                .filter(|&column| column != 0),
            ..here.clone()
        });
    }
    frames
}

fn mark_inlined(frames: &mut [Frame]) {
    if let Some((_, inner)) = frames.split_last_mut() {
        for frame in inner {
            frame.inlined = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_module_leaves_one_bare_frame_and_says_why() {
        let mut symbolizer = Symbolizer::new();
        let frames = symbolizer.frames("/nonexistent/lib.so", 0x10);
        assert_eq!(frames.len(), 1);
        assert_eq!((&frames[0].function, &frames[0].file), (&None, &None));
        assert_eq!(frames[0].module_offset, Some(0x10));
        let problem = symbolizer
            .problem("/nonexistent/lib.so")
            .unwrap()
            .to_string();
        assert!(problem.contains("/nonexistent/lib.so"), "{problem}");
    }
}
