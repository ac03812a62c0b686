//! A program of many cases, each run under the guard by its name.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;
use tempfile::tempdir;

use crate::common::command::Ended;
use crate::common::command::run;
use crate::common::programs::compile_with;

pub(crate) struct Cases {
    program: &'static str,
    source: &'static str,
    folder: OnceLock<TempDir>,
}

impl Cases {
    pub(crate) const fn of(program: &'static str, source: &'static str) -> Self {
        Self {
            program,
            source,
            folder: OnceLock::new(),
        }
    }

    /// Where the program is, compiled.
    pub(crate) fn folder(&self) -> &Path {
        let compiled = || {
            let folder = tempdir().expect("a folder");
            let options = ["-O0", "-w", "-fno-builtin", "-pthread"];
            let source = format!("{}.c", self.program);
            compile_with(folder.path(), &source, self.program, &options);
            folder
        };
        self.folder.get_or_init(compiled).path()
    }

    pub(crate) fn source(&self) -> &str {
        self.source
    }

    /// The line that bears the mark of a case.
    pub(crate) fn line_of(&self, case: &str) -> usize {
        let mark = format!("BUG {case} */");
        let mut lines = self.source.lines();
        let found = lines.position(|line| line.ends_with(&mark));
        found.unwrap_or_else(|| panic!("no {mark}")) + 1
    }

    /// Runs a case and returns how it ended with its JSON.
    pub(crate) fn guard(&self, options: &str, case: &str) -> (Ended, Value) {
        let name = format!("of {options} {case}.json").replace([' ', '/'], "_");
        let program = format!("./{}", self.program);
        let mut arguments = vec!["guard", "--json", &name];
        arguments.extend(options.split_whitespace());
        arguments.extend(["--", &program, case]);
        let ended = run(self.folder(), &arguments);
        let told = fs::read_to_string(self.folder().join(&name));
        let text = told.unwrap_or_else(|_| panic!("{ended:#?}"));
        (ended, serde_json::from_str(&text).expect("JSON"))
    }
}
