//! What objects, functions and places in the source are called in a line of text.

use std::sync::Arc;

use pagewise_analyze::Object;
use pagewise_analyze::ObjectFrame;

use super::Style;

impl Style {
    /// What an object is called.
    pub(crate) fn name_of(self, object: &Object) -> String {
        self.clean(&object.identity.name_with(|file| self.file(file)))
    }

    /// A source file.
    pub(crate) fn file(self, file: &str) -> &str {
        match self.whole_paths {
            true => file,
            false => last_part(file),
        }
    }

    /// Where a frame is: `solver.cpp:107`, without debug information `solver+0x4f10`.
    pub(crate) fn place_of(self, frame: &ObjectFrame) -> Option<String> {
        match (frame.file.as_deref(), frame.line) {
            (Some(file), Some(line)) => Some(format!("{}:{line}", self.file(file))),
            _ => place_in_module(frame),
        }
    }

    /// A frame's function and place: `reprice (solver.cpp:107)`.
    pub(crate) fn frame(self, frame: &ObjectFrame) -> String {
        let function = frame.function.as_deref().map(short_name);
        let text = match (function, self.place_of(frame)) {
            (Some(function), Some(place)) => format!("{function} ({place})"),
            (Some(name), None) | (None, Some(name)) => name,
            (None, None) => module_of(frame),
        };
        self.clean(&text)
    }

    /// A frame's function: of callers that is enough.
    pub(crate) fn function(self, frame: &ObjectFrame) -> String {
        let function = frame.function.as_deref().map(short_name);
        let name = function.or_else(|| place_in_module(frame));
        self.clean(&name.unwrap_or_else(|| module_of(frame)))
    }

    /// The frames of a call path to show: all, or the program's own; all too if it has none.
    pub(crate) fn frames_of(self, path: &[Arc<ObjectFrame>]) -> impl Iterator<Item = &ObjectFrame> {
        let all = self.library_frames || own_frames(path).next().is_none();
        let frames = path.iter().map(AsRef::as_ref);
        frames.filter(move |frame: &&ObjectFrame| all || !frame.is_library())
    }
}

/// The frames that are not a library's.
pub(crate) fn own_frames(path: &[Arc<ObjectFrame>]) -> impl Iterator<Item = &ObjectFrame> {
    let frames = path.iter().map(AsRef::as_ref);
    frames.filter(|frame: &&ObjectFrame| !frame.is_library())
}

pub(crate) fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn place_in_module(frame: &ObjectFrame) -> Option<String> {
    let module = last_part(frame.module.as_deref()?);
    Some(format!("{module}+{:#x}", frame.module_offset?))
}

fn module_of(frame: &ObjectFrame) -> String {
    let module = frame.module.as_deref().map(last_part);
    module.unwrap_or("?").to_owned()
}

/// A function's name as people say it: without template arguments and parameters, and with the last part of its scope.
pub(crate) fn short_name(function: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0;
    for character in function.replace("(anonymous namespace)::", "").chars() {
        match character {
            '<' if !plain.ends_with("operator") => depth += 1,
            '>' if depth > 0 => depth -= 1,
            '(' if depth == 0 && !plain.ends_with("operator") => break,
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    // What a demangler puts before a template function is its result.
    let name = match plain.contains("operator") {
        true => plain.as_str(),
        false => plain.rsplit(' ').next().unwrap_or(&plain),
    };
    let parts: Vec<&str> = name.split("::").collect();
    let kept = parts[parts.len().saturating_sub(2)..].join("::");
    if kept.is_empty() {
        function.to_owned()
    } else {
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_people_say_them() {
        for (function, short) in [
            ("reprice", "reprice"),
            ("solve(int)", "solve"),
            (
                "lemon::NetworkSimplex<lemon::StaticDigraph, int, long>::init()",
                "NetworkSimplex::init",
            ),
            (
                "costMap<(anonymous namespace)::VectorMap<lemon::StaticDigraphBase::Arc> >",
                "costMap",
            ),
            (
                "void Table::iterate<Klass, narrowOop>(Closure*)",
                "Table::iterate",
            ),
            (
                "lemon::Map::operator[](lemon::Node const&)",
                "Map::operator[]",
            ),
            ("tree::main", "tree::main"),
            ("<closure>", "<closure>"),
        ] {
            let found = short_name(function);
            assert_eq!(found, short, "{function}");
        }
    }
}
