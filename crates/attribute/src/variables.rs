//! The types of variables, found by their name and the code that uses them.

use crate::declared::unit_ranges;
use crate::dwarf::{DebugInformation, FullUnit, Reader};
use crate::dwarf_entry::{Entry, Units};
use crate::type_name::{Language, name_of};
use crate::type_parts::{element, member_of};
use crate::variable_path::{Step, VariablePath};
use gimli::{DebugInfoOffset, UnitOffset};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// Modules whose debug information is kept in memory at once.
const MAX_MODULES: usize = 4;
/// Units whose scopes are kept in memory at once, for each module.
const MAX_UNITS: usize = 64;
/// Of one module, so many bytes of units are gone through: some seconds. What is asked for after that has no type.
const MOST_BYTES: usize = 256 << 20;

/// Finds the types of variables, reading a module's debug information when first asked about it.
#[derive(Default)]
pub(crate) struct Variables {
    modules: HashMap<String, Option<ModuleScopes>>,
}

impl Variables {
    /// The type of what the code at a line and address (SVMA) calls `name`, as names of allocations are written: `x`,
    /// `s->rows[]`, `*out`. `None` if the debug information does not tell.
    pub(crate) fn type_of(&mut self, module: &str, at: Place, name: &str) -> Option<String> {
        if self.modules.len() >= MAX_MODULES && !self.modules.contains_key(module) {
            self.modules.clear();
        }
        let scopes = self
            .modules
            .entry(module.to_owned())
            .or_insert_with(|| ModuleScopes::load(Path::new(module)));
        scopes.as_mut()?.type_of(at, name)
    }
}

/// Where a name is used: address (SVMA), and source line if that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) svma: u64,
    pub(crate) line: Option<u32>,
}

struct ModuleScopes {
    information: DebugInformation,
    /// Code ranges of the units: begin, end and the unit's place in `.debug_info`.
    ranges: Vec<(u64, u64, DebugInfoOffset)>,
    parsed: HashMap<DebugInfoOffset, Option<UnitScopes>>,
    bytes_left: usize,
    units: Units,
}

/// A unit's variables by where they are seen.
struct UnitScopes {
    unit: Rc<FullUnit>,
    /// Functions and blocks, outer ones first.
    scopes: Vec<Scope>,
}

struct Scope {
    /// Begin and end of its code; empty: seen everywhere in the unit.
    code: Vec<(u64, u64)>,
    /// How deep in the tree of entries.
    depth: isize,
    is_function: bool,
    variables: Vec<UnitOffset>,
}

impl Scope {
    fn covers(&self, svma: u64) -> bool {
        let mut code = self.code.iter();
        code.any(|(begin, end)| (*begin..*end).contains(&svma))
    }
}

impl ModuleScopes {
    fn load(path: &Path) -> Option<Self> {
        let information = DebugInformation::load(path).ok()?;
        let ranges = unit_ranges(&information);
        Some(Self {
            information,
            ranges,
            parsed: HashMap::new(),
            bytes_left: MOST_BYTES,
            units: Units::default(),
        })
    }

    fn type_of(&mut self, at: Place, name: &str) -> Option<String> {
        let covers = |&&(begin, end, _): &&(u64, u64, _)| (begin..end).contains(&at.svma);
        let &(_, _, offset) = self.ranges.iter().find(covers)?;
        if self.parsed.len() >= MAX_UNITS && !self.parsed.contains_key(&offset) {
            self.parsed.clear();
        }
        let information = &self.information;
        if !self.parsed.contains_key(&offset) {
            let header = information.dwarf.unit_header(offset).ok()?;
            self.bytes_left = self
                .bytes_left
                .checked_sub(header.length_including_self())?;
        }
        let parse = || Some(UnitScopes::read(information.full_unit_at(offset)?));
        let unit = self.parsed.entry(offset).or_insert_with(parse).as_ref()?;
        // `a|b`: one of these, which may be of one type.
        let mut types = name
            .split('|')
            .map(|name| unit.type_of(at, name, &self.units));
        let first = types.next()??;
        types
            .all(|other| other.as_ref() == Some(&first))
            .then_some(first)
    }
}

impl UnitScopes {
    fn read(unit: FullUnit) -> Self {
        let everywhere = Scope {
            code: Vec::new(),
            depth: 0,
            is_function: false,
            variables: Vec::new(),
        };
        let mut scopes = vec![everywhere];
        // Depth in the tree and number of each scope around.
        let mut around: Vec<(isize, usize)> = Vec::new();
        let mut entries = unit.unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            let depth = entry.depth();
            while around.last().is_some_and(|(outer, _)| *outer >= depth) {
                around.pop();
            }
            match entry.tag() {
                gimli::DW_TAG_subprogram
                | gimli::DW_TAG_inlined_subroutine
                | gimli::DW_TAG_lexical_block => {
                    let code = code_of(&unit, entry);
                    // What is declared in a function that has no code of its own is seen nowhere.
                    around.push((depth, scopes.len()));
                    scopes.push(Scope {
                        code: if code.is_empty() { vec![(0, 0)] } else { code },
                        depth,
                        is_function: entry.tag() == gimli::DW_TAG_subprogram,
                        variables: Vec::new(),
                    });
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    let scope = around.last().map_or(0, |(_, scope)| *scope);
                    scopes[scope].variables.push(entry.offset());
                }
                _ => {}
            }
        }
        Self {
            unit: Rc::new(unit),
            scopes,
        }
    }

    fn entry(&self, offset: UnitOffset) -> Entry {
        Entry {
            unit: Rc::clone(&self.unit),
            offset,
        }
    }

    fn type_of(&self, at: Place, name: &str, units: &Units) -> Option<String> {
        let path = VariablePath::parse(name)?;
        let here = self.declared_here(at, &path.variable, units);
        let kind = match here {
            Some(variable) => variable.kind(units)?,
            None => self.seen_from(at.svma, &path.variable, units)?,
        };
        let kind = path.steps.iter().try_fold(kind, |kind, step| match step {
            Step::Element => element(&kind, units),
            Step::Member(member) => member_of(&kind, member, units),
        })?;
        name_of(&kind, Language::of(&self.unit), units)
    }

    /// The variable of this name that is declared on the line: Rust's are in scope only after it, and another one of that
    /// name may be before.
    fn declared_here(&self, at: Place, name: &str, units: &Units) -> Option<Entry> {
        let line = at.line?;
        let is_around = |scope: &Scope| scope.is_function && scope.covers(at.svma);
        let first = self.scopes.iter().rposition(is_around)?;
        let depth = self.scopes[first].depth;
        let inside = self.scopes[first + 1..]
            .iter()
            .take_while(|scope| scope.depth > depth);
        let scopes = std::iter::once(&self.scopes[first]).chain(inside);
        let mut variables = scopes
            .flat_map(|scope| &scope.variables)
            .map(|&offset| self.entry(offset));
        variables.find(|variable| {
            variable.name(units).as_deref() == Some(name)
                && variable.declared_at(units).1 == Some(line)
        })
    }

    /// The type of the variable that code calls so: the innermost, or a member of the object whose method it is.
    fn seen_from(&self, svma: u64, name: &str, units: &Units) -> Option<Entry> {
        let last = name.rsplit("::").next()?;
        let named = |scope: &Scope, name: &str| {
            let variables = scope.variables.iter().map(|&offset| self.entry(offset));
            variables
                .into_iter()
                .find(|variable| variable.name(units).as_deref() == Some(name))
        };
        let sees = |scope: &&Scope| scope.code.is_empty() || scope.covers(svma);
        let seen: Vec<&Scope> = self.scopes.iter().filter(sees).collect();
        for scope in seen.iter().rev() {
            if let Some(variable) = named(scope, last) {
                return variable.kind(units);
            }
            for object in ["this", "self"] {
                let object = named(scope, object).and_then(|object| object.kind(units));
                if let Some(member) = object.and_then(|object| member_of(&object, last, units)) {
                    return Some(member);
                }
            }
        }
        None
    }
}

fn code_of(unit: &FullUnit, entry: &gimli::DebuggingInformationEntry<Reader>) -> Vec<(u64, u64)> {
    let mut code = Vec::new();
    if let Ok(mut ranges) = unit.dwarf().die_ranges(&unit.unit, entry) {
        while let Ok(Some(range)) = ranges.next() {
            code.push((range.begin, range.end));
        }
    }
    code
}
