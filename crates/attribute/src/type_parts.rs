//! From a type to what it is made of: what it points to or holds, and its members.

use crate::dwarf_entry::{Entry, Units};

/// Names of types for types, and classes that inherit: more mean a loop.
const MAX_LINKS: usize = 16;

/// A type without the names and qualifiers that it has.
fn bare(kind: &Entry, units: &Units) -> Option<Entry> {
    let mut kind = kind.clone();
    for _ in 0..MAX_LINKS {
        match kind.tag()? {
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => kind = kind.kind(units)?,
            _ => return Some(kind),
        }
    }
    None
}

/// What a pointer points to, what an array holds, or a container.
pub(crate) fn element(kind: &Entry, units: &Units) -> Option<Entry> {
    let kind = bare(kind, units)?;
    match kind.tag()? {
        gimli::DW_TAG_pointer_type | gimli::DW_TAG_array_type => kind.kind(units),
        _ => {
            let mut children = kind.children().into_iter();
            let first =
                children.find(|child| child.tag() == Some(gimli::DW_TAG_template_type_parameter));
            first?.kind(units)
        }
    }
}

/// The type of a member of a structure, or of what points to one.
pub(crate) fn member_of(kind: &Entry, name: &str, units: &Units) -> Option<Entry> {
    let mut kind = bare(kind, units)?;
    for _ in 0..MAX_LINKS {
        if !matches!(
            kind.tag()?,
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_array_type
        ) {
            return member_in(&kind, name, units, 0);
        }
        kind = bare(&kind.kind(units)?, units)?;
    }
    None
}

fn member_in(class: &Entry, name: &str, units: &Units, depth: usize) -> Option<Entry> {
    if depth > MAX_LINKS {
        return None;
    }
    for child in class.children() {
        let tag = child.tag()?;
        if !matches!(
            tag,
            gimli::DW_TAG_member | gimli::DW_TAG_variable | gimli::DW_TAG_inheritance
        ) {
            continue;
        }
        match child.name(units) {
            Some(member) if member == name => return child.kind(units),
            Some(_) => {}
            // A base class, or a structure or union without a name.
            None => {
                let inner = child.kind(units).and_then(|inner| bare(&inner, units));
                let found = inner.and_then(|inner| member_in(&inner, name, units, depth + 1));
                if found.is_some() {
                    return found;
                }
            }
        }
    }
    None
}
