//! Declarations of static storage, found by address.
//!
//! A program's debug information may be gigabytes while only a few dozen variables are asked for.
//! A variable's location is its address (`DW_OP_addr` and eight bytes, or an index into
//! `.debug_addr`), so the raw bytes are searched for the wanted addresses first, and only units
//! with a hit are parsed.

use crate::dwarf::{DebugInformation, FullUnit, Reader};
use crate::dwarf_entry::{Entry, Units};
use crate::type_name::type_of;
use gimli::{AttributeValue, Operation, Reader as _, Section as _, UnitOffset, UnitSectionOffset};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

/// What the debug information says about a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredGlobal {
    /// Name with its namespaces, classes or function.
    pub(crate) name: String,
    pub(crate) type_name: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

/// The declarations of the variables at the wanted addresses (SVMAs); missing or broken debug
/// information yields fewer.
pub(crate) fn declared_globals(path: &Path, wanted: &HashSet<u64>) -> HashMap<u64, DeclaredGlobal> {
    let mut found = HashMap::new();
    if wanted.is_empty() {
        return found;
    }
    let Ok(information) = DebugInformation::load(path) else {
        return found;
    };
    let hits = direct_hits(&information, wanted);
    let units = Units::default();
    let mut headers = information.dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let UnitSectionOffset(start) = header.offset();
        let range = start..start.saturating_add(header.length_including_self());
        let direct = {
            let first = hits.partition_point(|&hit| hit < range.start);
            hits.get(first).is_some_and(|&hit| hit < range.end)
        };
        // Addresses by index exist from DWARF 5 on, and before it in split units.
        let by_index = !information.dwarf.debug_addr.reader().is_empty();
        if !direct && !by_index {
            continue;
        }
        let Ok(unit) = information.dwarf.unit(header) else {
            continue;
        };
        if !direct && !address_table_has(&information, &unit, wanted) {
            continue;
        }
        if let Some(full) = information.full_unit(unit) {
            collect_unit(&Rc::new(full), wanted, &units, &mut found);
        }
        if found.len() == wanted.len() {
            break;
        }
    }
    found
}

/// Offsets in `.debug_info` of `DW_OP_addr` with a wanted address, ascending. Chance hits cost
/// the parsing of a unit, nothing more.
fn direct_hits(information: &DebugInformation, wanted: &HashSet<u64>) -> Vec<usize> {
    const DW_OP_ADDR: u8 = 0x03;
    let Ok(bytes) = information.dwarf.debug_info.reader().to_slice() else {
        return Vec::new();
    };
    let (low, high) = bounds(wanted);
    let is_hit = |window: &[u8]| {
        let (operation, address) = (window[0], &window[1..]);
        operation == DW_OP_ADDR && {
            let address = address.try_into().map_or(0, u64::from_le_bytes);
            (low..=high).contains(&address) && wanted.contains(&address)
        }
    };
    bytes
        .windows(9)
        .enumerate()
        .filter(|(_, window)| is_hit(window))
        .map(|(at, _)| at)
        .collect()
}

fn bounds(wanted: &HashSet<u64>) -> (u64, u64) {
    let low = wanted.iter().copied().min().unwrap_or(u64::MAX);
    (low, wanted.iter().copied().max().unwrap_or(0))
}

/// Whether the unit's part of `.debug_addr` holds a wanted address.
fn address_table_has(
    information: &DebugInformation,
    unit: &gimli::Unit<Reader>,
    wanted: &HashSet<u64>,
) -> bool {
    let (low, high) = bounds(wanted);
    (0..address_table_entries(information, unit)).any(|index| {
        let address = information
            .dwarf
            .address(unit, gimli::DebugAddrIndex(index))
            .unwrap_or(0);
        (low..=high).contains(&address) && wanted.contains(&address)
    })
}

/// Entries of the unit's part of `.debug_addr`: DWARF 5 writes their length before them (7.27,
/// 32-bit form). Without that header the part's end is unknown and all that follows counts: more
/// chance hits.
fn address_table_entries(information: &DebugInformation, unit: &gimli::Unit<Reader>) -> usize {
    const HEADER: usize = 8;
    const HEADER_AFTER_LENGTH: usize = 4;
    let size = usize::from(unit.encoding().address_size).max(1);
    let base = unit.addr_base.0;
    let Ok(bytes) = information.dwarf.debug_addr.reader().to_slice() else {
        return 0;
    };
    let rest = bytes.len().saturating_sub(base) / size;
    let header = base
        .checked_sub(HEADER)
        .and_then(|start| bytes.get(start..start + 4));
    match header.and_then(|length| <[u8; 4]>::try_from(length).ok()) {
        Some(length) if unit.encoding().version >= 5 => {
            let length = u32::from_le_bytes(length) as usize;
            (length.saturating_sub(HEADER_AFTER_LENGTH) / size).min(rest)
        }
        _ => rest,
    }
}

/// A scope the walk is inside of, and its depth in the tree.
struct Scope {
    depth: isize,
    entry: UnitOffset,
    tag: gimli::DwTag,
}

fn collect_unit(
    full: &Rc<FullUnit>,
    wanted: &HashSet<u64>,
    units: &Units,
    found: &mut HashMap<u64, DeclaredGlobal>,
) {
    let mut scopes: Vec<Scope> = Vec::new();
    let mut entries = full.unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        let depth = entry.depth();
        while scopes.last().is_some_and(|scope| scope.depth >= depth) {
            scopes.pop();
        }
        match entry.tag() {
            gimli::DW_TAG_namespace
            | gimli::DW_TAG_module
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_common_block
            | gimli::DW_TAG_subprogram => {
                scopes.push(Scope {
                    depth,
                    entry: entry.offset(),
                    tag: entry.tag(),
                });
            }
            gimli::DW_TAG_variable => {
                let Some(address) = static_address(full, entry) else {
                    continue;
                };
                let variable = Entry {
                    unit: Rc::clone(full),
                    offset: entry.offset(),
                };
                if wanted.contains(&address)
                    && let Some(global) = declared(&variable, &scopes, units)
                {
                    found.entry(address).or_insert(global);
                }
            }
            _ => {}
        }
    }
}

/// The address of a variable that has one for its whole life.
fn static_address(
    full: &FullUnit,
    entry: &gimli::DebuggingInformationEntry<Reader>,
) -> Option<u64> {
    let AttributeValue::Exprloc(expression) = entry.attr_value(gimli::DW_AT_location)? else {
        return None;
    };
    let mut operations = expression.operations(full.unit.encoding());
    let address = match operations.next().ok()?? {
        Operation::Address { address } => address,
        Operation::AddressIndex { index } => full.dwarf().address(&full.unit, index).ok()?,
        _ => return None,
    };
    // Anything after the address would change it (thread-local storage does).
    operations.next().ok()?.is_none().then_some(address)
}

fn declared(variable: &Entry, scopes: &[Scope], units: &Units) -> Option<DeclaredGlobal> {
    let at = |offset| Entry {
        unit: Rc::clone(&variable.unit),
        offset,
    };
    let block = scopes
        .last()
        .filter(|scope| scope.tag == gimli::DW_TAG_common_block);
    // Storage that Fortran's program units share: the block's, as each may call what is in it differently.
    let declared = block.map_or_else(|| variable.clone(), |block| at(block.entry));
    let name = declared.name(units)?;
    let qualified = if block.is_some() {
        format!("/{name}/")
    } else {
        let scopes = scopes
            .iter()
            .filter_map(|scope| at(scope.entry).name(units));
        scopes.chain([name]).collect::<Vec<_>>().join("::")
    };
    let (file, line) = declared.declared_at(units);
    Some(DeclaredGlobal {
        name: qualified,
        type_name: type_of(&declared, units),
        file,
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_wanted_or_readable_finds_nothing() {
        let own = std::env::current_exe().unwrap();
        assert!(declared_globals(&own, &HashSet::new()).is_empty());
        assert!(declared_globals(Path::new("/nonexistent"), &HashSet::from([16])).is_empty());
    }
}
