//! Static storage of a module: its data symbols, with names and places of declaration.

use crate::debug_file::DebugFiles;
use crate::demangle::demangle;
use crate::elf;
use crate::error::Result;
use crate::frame::Frame;
use crate::globals_dwarf::{DeclaredGlobal, declared_globals};
use crate::naming::function_name::qualified_name_of_symbol;
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SectionIndex, SymbolKind};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// A variable of static storage: global, static in a file, class or function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Address as stated in the module (SVMA).
    pub svma: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Demangled and qualified name: `table`, `ns::Cache::entries`, `main::table` for a static
    /// inside a function.
    pub name: String,
    /// Its type, as a declaration has it: `double [512][512]`.
    pub type_name: Option<String>,
    /// File that declares it, joined with its compilation directory.
    pub file: Option<String>,
    /// Line of the declaration, from 1.
    pub line: Option<u32>,
}

impl Global {
    /// The global as the single frame of a call path, for reports that show either.
    #[must_use]
    pub fn frame(&self, module: &str) -> Frame {
        Frame {
            file: self.file.clone(),
            line: self.line,
            module: Some(module.to_owned()),
            module_offset: Some(self.svma),
            ..Frame::default()
        }
    }
}

/// Lists the writable data objects (`.data`, `.bss` and the like; thread-local storage and
/// constants excluded) of at least `minimum_bytes`, sorted by address. Of aliases one is kept.
///
/// Works without debug information (names only) and on stripped files (exported names only).
/// Of the debug information only those units are parsed that mention one of the addresses.
///
/// # Errors
/// [`crate::Error::Read`] or [`crate::Error::Elf`] if the module cannot be read. Broken debug
/// information only leaves files and lines unknown.
pub fn globals(path: &Path, minimum_bytes: u64) -> Result<Vec<Global>> {
    let mut symbols = data_symbols(path, minimum_bytes)?;
    if symbols.is_empty() {
        let files = DebugFiles::locate(path);
        if files.main != path {
            // A separate debug file keeps the symbols that stripping removed.
            symbols = data_symbols(&files.main, minimum_bytes).unwrap_or_default();
        }
    }
    let wanted: HashSet<u64> = symbols.keys().copied().collect();
    let mut declared = declared_globals(path, &wanted);
    let mut globals: Vec<Global> = symbols
        .into_iter()
        .map(|(svma, symbol)| named(svma, symbol, declared.remove(&svma)))
        .collect();
    globals.sort_by_key(|global| global.svma);
    Ok(globals)
}

struct DataSymbol {
    bytes: u64,
    name: String,
    exported: bool,
}

fn data_symbols(path: &Path, minimum_bytes: u64) -> Result<HashMap<u64, DataSymbol>> {
    let cache = elf::open(path)?;
    let file = elf::parse(path, &cache)?;
    let sections: HashSet<SectionIndex> = file
        .sections()
        .filter(|section| is_writable_data(section.flags()))
        .map(|section| section.index())
        .collect();
    let mut found: HashMap<u64, DataSymbol> = HashMap::new();
    // Stripped files keep the dynamic symbols; others repeat them, harmlessly.
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let in_data = symbol
            .section_index()
            .is_some_and(|index| sections.contains(&index));
        let wanted = symbol.kind() == SymbolKind::Data && symbol.size() >= minimum_bytes.max(1);
        let Ok(name) = symbol.name() else { continue };
        if !in_data || !wanted || name.is_empty() {
            continue;
        }
        let new = DataSymbol {
            bytes: symbol.size(),
            name: name.to_owned(),
            exported: symbol.is_global(),
        };
        match found.get(&symbol.address()) {
            // Of aliases the larger, then the exported one, then the first by name.
            Some(old) if rank(old) >= rank(&new) => {}
            _ => {
                found.insert(symbol.address(), new);
            }
        }
    }
    Ok(found)
}

fn rank(symbol: &DataSymbol) -> (u64, bool, std::cmp::Reverse<&str>) {
    (
        symbol.bytes,
        symbol.exported,
        std::cmp::Reverse(&symbol.name),
    )
}

fn is_writable_data(flags: SectionFlags) -> bool {
    let SectionFlags::Elf { sh_flags, .. } = flags else {
        return false;
    };
    let has = |flag: object::elf::SectionFlags| sh_flags.0 & flag.0 != 0;
    has(object::elf::SHF_ALLOC) && has(object::elf::SHF_WRITE) && !has(object::elf::SHF_TLS)
}

fn named(svma: u64, symbol: DataSymbol, declared: Option<DeclaredGlobal>) -> Global {
    let demangled = demangle(&symbol.name);
    let (qualified, type_name, file, line) = match declared {
        Some(of) => (Some(of.name), of.type_name, of.file, of.line),
        None => (None, None, None, None),
    };
    // Mangled names are qualified already; of others (C) only the debug information knows the
    // function a static belongs to, and the linker's name may carry a number (`table.0`).
    let name = if demangled == symbol.name {
        qualified.unwrap_or(demangled)
    } else {
        qualified_name_of_symbol(&demangled)
    };
    Global {
        svma,
        bytes: symbol.bytes,
        name,
        type_name,
        file,
        line,
    }
}
