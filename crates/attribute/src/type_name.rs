//! Types as declarations have them: `double *`, `struct site [16]`, `vector<double>`, `real(kind=8)(:,:)`.

use crate::dwarf::FullUnit;
use crate::dwarf_entry::{Entry, Units};
use gimli::AttributeValue;

/// Types of types: more mean a loop, or a name that nobody reads.
const MAX_DEPTH: u32 = 24;
/// So long a name is cut: templates of templates.
const MAX_CHARACTERS: usize = 200;

/// In which way types are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Fortran,
    /// All others: as their debug information names types.
    Other,
}

impl Language {
    /// Of the unit that uses the type: what dwz moved to units of their own says of no language.
    pub(crate) fn of(unit: &FullUnit) -> Self {
        let root = unit.unit.entry(unit.unit.header.root_offset()).ok();
        match root.and_then(|root| root.attr_value(gimli::DW_AT_language)) {
            Some(AttributeValue::Language(
                gimli::DW_LANG_C | gimli::DW_LANG_C89 | gimli::DW_LANG_C99 | gimli::DW_LANG_C11,
            )) => Self::C,
            Some(AttributeValue::Language(
                gimli::DW_LANG_Fortran77
                | gimli::DW_LANG_Fortran90
                | gimli::DW_LANG_Fortran95
                | gimli::DW_LANG_Fortran03
                | gimli::DW_LANG_Fortran08,
            )) => Self::Fortran,
            _ => Self::Other,
        }
    }
}

/// The type of a variable or member; `None` if the debug information does not tell.
pub(crate) fn type_of(declared: &Entry, units: &Units) -> Option<String> {
    name_of(&declared.kind(units)?, Language::of(&declared.unit), units)
}

/// What a type is called.
pub(crate) fn name_of(kind: &Entry, language: Language, units: &Units) -> Option<String> {
    let name = written(kind, language, units, 0)?;
    let short = name.chars().count() <= MAX_CHARACTERS;
    Some(match short {
        true => name,
        false => name.chars().take(MAX_CHARACTERS).chain(['.'; 3]).collect(),
    })
}

fn written(kind: &Entry, language: Language, units: &Units, depth: u32) -> Option<String> {
    if depth > MAX_DEPTH {
        return None;
    }
    let inner = || match kind.kind(units) {
        Some(inner) => written(&inner, language, units, depth + 1),
        // `void *` is a pointer to no type.
        None => Some("void".to_owned()),
    };
    match kind.tag()? {
        gimli::DW_TAG_pointer_type => Some(pointing(&inner()?, "*")),
        gimli::DW_TAG_reference_type => Some(pointing(&inner()?, "&")),
        gimli::DW_TAG_rvalue_reference_type => Some(pointing(&inner()?, "&&")),
        // On what is pointed to it is part of how the type is read; on the pointer itself it says nothing here.
        gimli::DW_TAG_const_type => Some(format!("const {}", inner()?)),
        gimli::DW_TAG_volatile_type | gimli::DW_TAG_restrict_type | gimli::DW_TAG_atomic_type => {
            inner()
        }
        gimli::DW_TAG_array_type => Some(array(kind, language, &inner()?)),
        gimli::DW_TAG_subroutine_type => Some("function".to_owned()),
        tag => {
            let named = kind.name(units).map(|name| without_defaults(&name));
            let keyword = keyword(kind, language, tag);
            match (named, keyword) {
                (Some(name), Some(keyword)) => Some(format!("{keyword} {name}")),
                (Some(name), None) => Some(name),
                (None, Some(keyword)) => Some(format!("{keyword} {{...}}")),
                (None, None) => None,
            }
        }
    }
}

/// `char **` of `char *`.
fn pointing(to: &str, mark: &str) -> String {
    let space = if to.ends_with(['*', '&']) { "" } else { " " };
    format!("{to}{space}{mark}")
}

/// What C writes before a tag. Other languages do not, but a type without a name needs a word.
fn keyword(kind: &Entry, language: Language, tag: gimli::DwTag) -> Option<&'static str> {
    let word = match tag {
        gimli::DW_TAG_structure_type => "struct",
        gimli::DW_TAG_class_type => "class",
        gimli::DW_TAG_union_type => "union",
        gimli::DW_TAG_enumeration_type => "enum",
        _ => return None,
    };
    let nameless = kind.own(gimli::DW_AT_name).is_none();
    (nameless || language == Language::C).then_some(word)
}

/// `double [16][4]`; Fortran's `real(kind=8)(:,4)`.
fn array(kind: &Entry, language: Language, of: &str) -> String {
    let dimensions = kind.children().into_iter();
    let dimensions = dimensions.filter(|child| child.tag() == Some(gimli::DW_TAG_subrange_type));
    let dimensions: Vec<Option<u64>> = dimensions
        .map(|dimension| elements(&dimension, language))
        .collect();
    let written = |unknown: &str| -> Vec<String> {
        let dimensions = dimensions.iter();
        let number = |known: &Option<u64>| known.map_or(unknown.to_owned(), |n| n.to_string());
        dimensions.map(number).collect()
    };
    if language == Language::Fortran {
        return format!("{of}({})", written(":").join(","));
    }
    let space = if of.ends_with('*') { "" } else { " " };
    format!("{of}{space}[{}]", written("").join("]["))
}

/// How many elements an array has in one dimension; `None`: that is known when the program runs.
fn elements(dimension: &Entry, language: Language) -> Option<u64> {
    let number = |name| match dimension.own(name)? {
        AttributeValue::Sdata(value) => Some(value),
        value => value
            .udata_value()
            .and_then(|value| i64::try_from(value).ok()),
    };
    if let Some(count) = number(gimli::DW_AT_count) {
        return u64::try_from(count).ok();
    }
    let lower =
        number(gimli::DW_AT_lower_bound).unwrap_or(i64::from(language == Language::Fortran));
    let upper = number(gimli::DW_AT_upper_bound)?;
    u64::try_from(upper.checked_sub(lower)?.checked_add(1)?).ok()
}

/// Without the template arguments that nobody writes: `vector<double>` of `vector<double, std::allocator<double> >`.
fn without_defaults(name: &str) -> String {
    const DEFAULTS: [&str; 8] = [
        "std::allocator<",
        "std::default_delete<",
        "std::char_traits<",
        "std::less<",
        "std::hash<",
        "std::equal_to<",
        "alloc::alloc::Global",
        "std::alloc::System",
    ];
    let mut short = name.to_owned();
    while let Some((from, to)) = DEFAULTS
        .iter()
        .find_map(|default| argument(&short, default))
    {
        short.replace_range(from..to, "");
    }
    short.replace(" >", ">")
}

/// Where an argument that is not the first begins, with its comma, and ends.
fn argument(name: &str, begin: &str) -> Option<(usize, usize)> {
    let from = name.find(&format!(", {begin}"))?;
    let mut depth = 0_i32;
    for (at, character) in name[from + 1..].char_indices() {
        match character {
            '<' => depth += 1,
            '>' | ',' if depth == 0 => return Some((from, from + 1 + at)),
            '>' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_nobody_writes_are_left_out() {
        for (name, short) in [
            ("vector<double, std::allocator<double> >", "vector<double>"),
            (
                "map<int, vector<int, std::allocator<int> >, std::less<int>, std::allocator<std::pair<const int, int> > >",
                "map<int, vector<int>>",
            ),
            ("Vec<f64, alloc::alloc::Global>", "Vec<f64>"),
            ("my<a, b>", "my<a, b>"),
            ("broken<, std::allocator<", "broken<, std::allocator<"),
        ] {
            assert_eq!(without_defaults(name), short);
        }
    }
}
