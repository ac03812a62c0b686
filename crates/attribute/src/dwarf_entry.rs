//! Entries of the debug information, and the entries they refer to: in their unit, in others, in what dwz shares.

use crate::dwarf::{DebugInformation, FullUnit, Reader};
use gimli::{AttributeValue, DebugInfoOffset, Dwarf, UnitOffset, UnitSectionOffset};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Chains in sound files have a few links; more mean a loop.
const MAX_LINKS: usize = 16;
/// Units kept because others refer to them.
const MAX_UNITS: usize = 256;

/// One entry.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) unit: Rc<FullUnit>,
    pub(crate) offset: UnitOffset,
}

/// Units that entries of other units refer to. Those of one module only.
#[derive(Default)]
pub(crate) struct Units(RefCell<HashMap<*const Dwarf<Reader>, OfFile>>);

/// The units of one file.
struct OfFile {
    /// Where they begin, ascending.
    starts: Vec<usize>,
    parsed: HashMap<usize, Option<Rc<FullUnit>>>,
}

impl Units {
    fn holding(&self, dwarf: &Arc<Dwarf<Reader>>, offset: usize) -> Option<Rc<FullUnit>> {
        let mut files = self.0.borrow_mut();
        let file = files.entry(Arc::as_ptr(dwarf)).or_insert_with(|| OfFile {
            starts: starts(dwarf),
            parsed: HashMap::new(),
        });
        let next = file.starts.partition_point(|&start| start <= offset);
        let start = *file.starts.get(next.checked_sub(1)?)?;
        if file.parsed.len() >= MAX_UNITS {
            file.parsed.clear();
        }
        let parsed = file.parsed.entry(start);
        let parse = || FullUnit::of_other(dwarf, DebugInfoOffset(start)).map(Rc::new);
        parsed.or_insert_with(parse).clone()
    }
}

fn starts(dwarf: &Dwarf<Reader>) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let UnitSectionOffset(start) = header.offset();
        starts.push(start);
    }
    starts.sort_unstable();
    starts
}

impl Entry {
    /// What the entry is; `None` if it cannot be read.
    pub(crate) fn tag(&self) -> Option<gimli::DwTag> {
        Some(self.unit.unit.entry(self.offset).ok()?.tag())
    }

    /// An attribute of its own.
    pub(crate) fn own(&self, name: gimli::DwAt) -> Option<AttributeValue<Reader>> {
        self.unit.unit.entry(self.offset).ok()?.attr_value(name)
    }

    /// The entry that an attribute of this one refers to.
    pub(crate) fn referred(&self, name: gimli::DwAt, units: &Units) -> Option<Self> {
        let dwarf = self.unit.dwarf();
        let (unit, offset) = match self.own(name)? {
            AttributeValue::UnitRef(offset) => (Rc::clone(&self.unit), Some(offset)),
            AttributeValue::DebugInfoRef(place) => {
                let unit = units.holding(dwarf, place.0)?;
                let offset = place.to_unit_offset(&unit.unit.header);
                (unit, offset)
            }
            AttributeValue::DebugInfoRefSup(place) => {
                let unit = units.holding(dwarf.sup.as_ref()?, place.0)?;
                let offset = place.to_unit_offset(&unit.unit.header);
                (unit, offset)
            }
            _ => return None,
        };
        offset.map(|offset| Self { unit, offset })
    }

    /// Itself, or the declaration it completes (a class's static member) or repeats (a static of an inlined function), or
    /// that one's: whichever has the attribute.
    pub(crate) fn with(&self, name: gimli::DwAt, units: &Units) -> Option<Self> {
        let mut entry = self.clone();
        for _ in 0..MAX_LINKS {
            if entry.own(name).is_some() {
                return Some(entry);
            }
            let origin = entry.referred(gimli::DW_AT_specification, units);
            entry = origin.or_else(|| entry.referred(gimli::DW_AT_abstract_origin, units))?;
        }
        None
    }

    /// Its name, or that of its declaration.
    pub(crate) fn name(&self, units: &Units) -> Option<String> {
        let named = self.with(gimli::DW_AT_name, units)?;
        named.unit.string(named.own(gimli::DW_AT_name)?)
    }

    /// Its type, or that of its declaration.
    pub(crate) fn kind(&self, units: &Units) -> Option<Self> {
        let typed = self.with(gimli::DW_AT_type, units)?;
        typed.referred(gimli::DW_AT_type, units)
    }

    /// File and line of its declaration.
    pub(crate) fn declared_at(&self, units: &Units) -> (Option<String>, Option<u32>) {
        let file = self.with(gimli::DW_AT_decl_file, units);
        let file = file.and_then(|entry| {
            let index = match entry.own(gimli::DW_AT_decl_file)? {
                AttributeValue::FileIndex(index) => index,
                value => value.udata_value()?,
            };
            entry.unit.file_path(index)
        });
        let line = self.with(gimli::DW_AT_decl_line, units);
        let line = line.and_then(|entry| entry.own(gimli::DW_AT_decl_line)?.udata_value());
        let line = line.and_then(|line| u32::try_from(line).ok());
        (file, line.filter(|&line| line != 0))
    }

    /// The entries directly in this one.
    pub(crate) fn children(&self) -> Vec<Self> {
        let mut children = Vec::new();
        let Ok(mut tree) = self.unit.unit.entries_tree(Some(self.offset)) else {
            return children;
        };
        let Ok(root) = tree.root() else {
            return children;
        };
        let mut nodes = root.children();
        while let Ok(Some(node)) = nodes.next() {
            children.push(Self {
                unit: Rc::clone(&self.unit),
                offset: node.entry().offset(),
            });
        }
        children
    }
}

impl DebugInformation {
    /// The unit at a place in the main file, or the split one it stands for.
    pub(crate) fn full_unit_at(&self, offset: DebugInfoOffset) -> Option<FullUnit> {
        let header = self.dwarf.unit_header(offset).ok()?;
        self.full_unit(self.dwarf.unit(header).ok()?)
    }
}
