//! Objects are named as their makers know them: across languages, processes and threads.

use std::fs;
use std::path::Path;

use crate::common::command::record;
use crate::common::command::report;
use crate::common::machine::Machine;
use crate::common::programs::compile;
use serde_json::Value;
use tempfile::tempdir;

/// Compiles and records the program; `None`: needs root.
fn objects_of(source: &str, memory: &str) -> Option<Objects> {
    let machine = Machine::reserve()?;
    let folder = tempdir().expect("a folder");
    compile(folder.path(), source);
    let (program, _) = source.split_once('.').expect("a name with an ending");
    let options = format!("--memory {memory} --swap zram --swap-size 512M");
    record(folder.path(), &options, &format!("./{program}")).expect_code(0);
    machine.assert_restored();
    let report = report(folder.path());
    Some(Objects {
        all: report["summary"]["swap_ins"].as_u64().expect("a count"),
        objects: report["objects"].as_array().expect("objects").clone(),
    })
}

struct Objects {
    objects: Vec<Value>,
    /// Swap-ins of the whole recording.
    all: u64,
}

impl Objects {
    /// The one object of that name that swapped.
    fn named(&self, name: &str) -> &Value {
        let swapped = |object: &&Value| object["swap_ins"].as_u64() > Some(0);
        let mut found = self
            .objects
            .iter()
            .filter(|object| object["name"] == name)
            .filter(swapped);
        let object = found
            .next()
            .unwrap_or_else(|| panic!("no {name} in {:#?}", self.brief()));
        assert!(
            found.next().is_none(),
            "two of {name} in {:#?}",
            self.brief()
        );
        object
    }

    fn swap_ins(&self, name: &str) -> u64 {
        self.named(name)["swap_ins"].as_u64().expect("a count")
    }

    fn brief(&self) -> Vec<String> {
        let line = |object: &Value| {
            let word = |key: &str| object[key].to_string();
            ["name", "file", "line", "function", "bytes", "swap_ins"]
                .map(word)
                .join(" ")
        };
        self.objects.iter().map(line).collect()
    }
}

/// The line of a source file that ends in this comment.
fn line_of(source: &str, comment: &str) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    let text = fs::read_to_string(path).expect("a source");
    let comment = format!("// {comment}");
    let at = text.lines().position(|line| line.ends_with(&comment));
    at.expect("a line") as u64 + 1
}

#[test]
fn cpp_objects_have_the_names_of_their_variables() {
    let Some(objects) = objects_of("containers.cpp", "40M") else {
        return;
    };
    let mut named = 0;
    for name in ["x", "raw", "owned"] {
        let object = objects.named(name);
        let line = line_of("containers.cpp", &format!("line of {name}"));
        assert_eq!(object["line"], line, "{name} in {:#?}", objects.brief());
        assert_eq!(object["function"], "main", "{object}");
        named += objects.swap_ins(name);
    }
    let grown = objects.named("grown");
    let lines =
        ["line of grown", "last line of grown"].map(|comment| line_of("containers.cpp", comment));
    assert!(
        lines.iter().any(|line| grown["line"] == *line),
        "{:#?}",
        objects.brief()
    );
    named += objects.swap_ins("grown");
    assert!(
        named * 100 >= objects.all * 99,
        "{named} of {}: {:#?}",
        objects.all,
        objects.brief()
    );
}

#[test]
fn what_a_child_does_to_inherited_memory_has_the_parents_names() {
    let Some(objects) = objects_of("fork.c", "32M") else {
        return;
    };
    let inherited = objects.swap_ins("inherited");
    assert!(inherited > 2 * (48 << 8), "{:#?}", objects.brief());
    assert!(
        inherited * 100 >= objects.all * 99,
        "{:#?}",
        objects.brief()
    );
}

#[test]
fn threads_share_one_object() {
    let Some(objects) = objects_of("threads.c", "32M") else {
        return;
    };
    let shared = objects.swap_ins("shared");
    // How many of its 16,384 pages are read anew in each round depends on how close the threads are to each other.
    assert!(shared > 64 << 8, "{:#?}", objects.brief());
    assert!(shared * 100 >= objects.all * 99, "{:#?}", objects.brief());
}

#[test]
fn memory_by_sbrk_has_the_names_of_its_variables() {
    let Some(objects) = objects_of("heap_end.c", "16M") else {
        return;
    };
    let pages = (32 << 20) / 4096;
    // Swept three times each, `kept` six: the first finds fresh memory.
    for (name, sweeps) in [("kept", 5), ("given_back", 2), ("reborn", 2)] {
        let object = objects.named(name);
        let line = line_of("heap_end.c", &format!("line of {name}"));
        assert_eq!(object["line"], line, "{name} in {:#?}", objects.brief());
        let off = objects.swap_ins(name).abs_diff(sweeps * pages);
        assert!(off * 100 < sweeps * pages, "{:#?}", objects.brief());
    }
}
