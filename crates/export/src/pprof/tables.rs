//! The numbered parts of a profile: texts, functions, locations, mappings, each once.

use std::collections::HashMap;

use pagewise_analyze::Identity;

use super::proto::Function;
use super::proto::Line;
use super::proto::Location;
use super::proto::Mapping;
use crate::call_paths::Level;

#[derive(Default)]
pub(crate) struct Tables {
    texts: HashMap<String, i64>,
    functions: HashMap<(i64, i64), u64>,
    locations: HashMap<Location, u64>,
    mappings: HashMap<String, u64>,
    pub(crate) string_table: Vec<String>,
    pub(crate) function: Vec<Function>,
    pub(crate) location: Vec<Location>,
    pub(crate) mapping: Vec<Mapping>,
}

impl Tables {
    pub(crate) fn new() -> Self {
        let mut tables = Self::default();
        // The first text must be empty.
        tables.text("");
        tables
    }

    pub(crate) fn text(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.texts.get(text) {
            return number;
        }
        let number = self.string_table.len() as i64;
        self.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), number);
        number
    }

    /// The place of one address of a call path.
    pub(crate) fn level(&mut self, level: &Level) -> u64 {
        let mapping_id = level.module.as_deref().map_or(0, |path| self.mapping(path));
        let functions = level.functions.iter();
        let line = functions.map(|function| Line {
            function_id: self.function(&level.name_of(function), function.file.as_deref()),
            line: function.line.map_or(0, i64::from),
        });
        let line = line.collect();
        self.location(Location {
            id: 0,
            mapping_id,
            address: level.address.unwrap_or(0),
            line,
        })
    }

    /// A place for what has no call path: the object itself.
    pub(crate) fn object(&mut self, identity: &Identity) -> u64 {
        let line = Line {
            function_id: self.function(&identity.to_string(), identity.file.as_deref()),
            line: identity.line.map_or(0, i64::from),
        };
        self.location(Location {
            line: vec![line],
            ..Location::default()
        })
    }

    /// A place that only has a name.
    pub(crate) fn named(&mut self, name: &str) -> u64 {
        let line = Line {
            function_id: self.function(name, None),
            line: 0,
        };
        self.location(Location {
            line: vec![line],
            ..Location::default()
        })
    }

    /// A module. The first one is taken for the program.
    pub(crate) fn mapping(&mut self, path: &str) -> u64 {
        if let Some(&id) = self.mappings.get(path) {
            return id;
        }
        let id = self.mapping.len() as u64 + 1;
        let filename = self.text(path);
        // All that can be known is in the profile: no reader need look for the file.
        self.mapping.push(Mapping {
            id,
            filename,
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        });
        self.mappings.insert(path.to_owned(), id);
        id
    }

    fn function(&mut self, name: &str, file: Option<&str>) -> u64 {
        let (name, filename) = (self.text(name), self.text(file.unwrap_or_default()));
        let next = self.function.len() as u64 + 1;
        *self.functions.entry((name, filename)).or_insert_with(|| {
            self.function.push(Function {
                id: next,
                name,
                system_name: name,
                filename,
            });
            next
        })
    }

    fn location(&mut self, unnumbered: Location) -> u64 {
        if let Some(&id) = self.locations.get(&unnumbered) {
            return id;
        }
        let id = self.location.len() as u64 + 1;
        self.location.push(Location {
            id,
            ..unnumbered.clone()
        });
        self.locations.insert(unnumbered, id);
        id
    }
}
