//! Variables by where they are declared: what names an allocation when its source cannot be read.

use crate::dwarf::{DebugInformation, FullUnit, Reader};
use crate::frame::display_file;
use gimli::{AttributeValue, DebugInfoOffset, UnitSectionOffset};
use std::collections::HashMap;
use std::path::Path;

/// Modules whose debug information is kept in memory at once.
const MAX_MODULES: usize = 4;
/// Units whose declarations are kept in memory at once, for each module.
const MAX_UNITS: usize = 64;

/// Finds variables and members by the line that declares them, reading a module's debug
/// information when first asked about it.
#[derive(Default)]
pub(crate) struct Declarations {
    modules: HashMap<String, Option<ModuleDeclarations>>,
}

impl Declarations {
    /// The variables or members declared exactly at a line, in the compilation unit whose code
    /// holds an address (SVMA): their names joined with `|` when there are several.
    pub(crate) fn at(&mut self, module: &str, svma: u64, file: &str, line: u32) -> Option<String> {
        if self.modules.len() >= MAX_MODULES && !self.modules.contains_key(module) {
            self.modules.clear();
        }
        let declarations = self
            .modules
            .entry(module.to_owned())
            .or_insert_with(|| ModuleDeclarations::load(Path::new(module)));
        let names = declarations.as_mut()?.at(svma, file, line)?;
        (!names.is_empty()).then(|| names.join("|"))
    }
}

/// Names declared on a line of a file, given by its last component.
type UnitDeclarations = HashMap<(String, u32), Vec<String>>;

struct ModuleDeclarations {
    information: DebugInformation,
    /// Code ranges of the units: begin, end and the unit's place in `.debug_info`.
    ranges: Vec<(u64, u64, DebugInfoOffset)>,
    units: HashMap<DebugInfoOffset, UnitDeclarations>,
}

impl ModuleDeclarations {
    fn load(path: &Path) -> Option<Self> {
        let information = DebugInformation::load(path).ok()?;
        let ranges = unit_ranges(&information);
        Some(Self {
            information,
            ranges,
            units: HashMap::new(),
        })
    }

    fn at(&mut self, svma: u64, file: &str, line: u32) -> Option<&[String]> {
        let covers = |&&(begin, end, _): &&(u64, u64, _)| (begin..end).contains(&svma);
        let &(_, _, offset) = self.ranges.iter().find(covers)?;
        if self.units.len() >= MAX_UNITS && !self.units.contains_key(&offset) {
            self.units.clear();
        }
        let declarations = self
            .units
            .entry(offset)
            .or_insert_with(|| unit_declarations(&self.information, offset).unwrap_or_default());
        let key = (display_file(file).to_owned(), line);
        declarations.get(&key).map(Vec::as_slice)
    }
}

/// Code ranges of the units: begin, end and the unit's place in `.debug_info`.
pub(crate) fn unit_ranges(information: &DebugInformation) -> Vec<(u64, u64, DebugInfoOffset)> {
    let mut found = Vec::new();
    let mut headers = information.dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let UnitSectionOffset(offset) = header.offset();
        let Ok(unit) = information.dwarf.unit(header) else {
            continue;
        };
        let Ok(mut ranges) = information.dwarf.unit_ranges(&unit) else {
            continue;
        };
        while let Ok(Some(range)) = ranges.next() {
            found.push((range.begin, range.end, DebugInfoOffset(offset)));
        }
    }
    found
}

fn unit_declarations(
    information: &DebugInformation,
    offset: DebugInfoOffset,
) -> Option<UnitDeclarations> {
    let full = information.full_unit_at(offset)?;
    let mut declarations = UnitDeclarations::new();
    let mut files = HashMap::new();
    let mut entries = full.unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if !matches!(entry.tag(), gimli::DW_TAG_variable | gimli::DW_TAG_member) {
            continue;
        }
        let Some((name, file, line)) = declaration(&full, entry) else {
            continue;
        };
        if !may_hold_memory(&full, entry) {
            continue;
        }
        let file = files.entry(file).or_insert_with(|| {
            full.file_path(file)
                .map(|path| display_file(&path).to_owned())
        });
        if let Some(file) = file {
            let names = declarations.entry((file.clone(), line)).or_default();
            // Every instance of a template repeats its variables.
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Some(declarations)
}

/// Whether the declared variable may hold memory: a plain number may not.
fn may_hold_memory(full: &FullUnit, entry: &gimli::DebuggingInformationEntry<Reader>) -> bool {
    // Names of types for types; more links than any sound file has mean a loop.
    const MAX_LINKS: usize = 16;
    let mut kind = entry.attr_value(gimli::DW_AT_type);
    for _ in 0..MAX_LINKS {
        let Some(AttributeValue::UnitRef(offset)) = kind else {
            return true;
        };
        let Ok(entry) = full.unit.entry(offset) else {
            return true;
        };
        match entry.tag() {
            gimli::DW_TAG_base_type | gimli::DW_TAG_enumeration_type => return false,
            gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type => {
                kind = entry.attr_value(gimli::DW_AT_type);
            }
            _ => return true,
        }
    }
    true
}

/// A declaration's name, file (an index into the unit's line table) and line.
fn declaration(
    full: &FullUnit,
    entry: &gimli::DebuggingInformationEntry<Reader>,
) -> Option<(String, u64, u32)> {
    let name = full.string(entry.attr_value(gimli::DW_AT_name)?)?;
    let file = match entry.attr_value(gimli::DW_AT_decl_file)? {
        AttributeValue::FileIndex(index) => index,
        value => value.udata_value()?,
    };
    let line = entry.attr_value(gimli::DW_AT_decl_line)?.udata_value()?;
    Some((name, file, u32::try_from(line).ok()?))
}
