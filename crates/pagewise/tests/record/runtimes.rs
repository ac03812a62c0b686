//! Programs with runtimes of their own: what can be recorded of them is, what cannot is told.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::command::record;
use crate::common::command::report;
use crate::common::machine::Machine;
use crate::common::paths::assert_share_of_paths;
use crate::common::programs::compile_go;
use pagewise_trace::Frame;
use pagewise_trace::Trace;
use tempfile::tempdir;

/// Its stacks are its own, its memory comes from no allocator that could be preloaded.
#[test]
fn a_go_program_has_its_call_paths_and_no_allocations() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile_go(folder.path(), "sweep.go", "sweep");
    let options = "--memory 24M --swap zram --swap-size 256M";
    record(folder.path(), options, "./sweep").expect_code(0);
    let report = report(folder.path());
    let allocations = report["sensors"]["allocations"].as_str().expect("a state");
    assert!(allocations.contains("static program"), "{allocations}");
    assert_share_of_paths(&report, 0.8, |path| {
        let own = ["main.sweep", "main.main", "runtime.main"];
        path.windows(own.len()).any(|frames| frames == own)
    });
    machine.assert_restored();
}

/// The virtual machine itself is a C++ program like others; its generated code has names from when it ends.
#[test]
fn a_program_of_a_java_virtual_machine_has_the_names_it_leaves() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/Tree.java");
    fs::copy(source, folder.path().join("Tree.java")).expect("copied");
    let compiled = Command::new("javac")
        .arg("Tree.java")
        .current_dir(folder.path())
        .output()
        .unwrap_or_else(|error| panic!("javac is needed, see scripts/setup --tests: {error}"));
    assert!(compiled.status.success(), "{compiled:?}");
    let options = "--memory 64M --swap zram --swap-size 512M";
    let program = "java -Xmx200m -XX:+UseSerialGC -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions \
                   -XX:+DumpPerfMapAtExit -cp . Tree";
    record(folder.path(), options, program).expect_code(0);
    assert_eq!(
        report(folder.path())["sensors"]["allocations"],
        "on",
        "of the virtual machine itself"
    );
    // Nearly each fault in the tree has a path of its own: the report tells a part of them only.
    let trace = Trace::open(&folder.path().join("pagewise.data")).expect("a trace");
    let (mut in_tree, mut files) = (HashSet::new(), HashSet::new());
    for frame in trace.rows::<Frame>().expect("a table") {
        let frame = frame.expect("a row");
        if frame.function.is_some_and(|name| name.contains(" Tree.")) {
            in_tree.insert(frame.stack);
            files.extend(frame.module);
        }
    }
    for file in &files {
        fs::remove_file(file).expect("what the virtual machine has left");
    }
    let events = trace.events().expect("a table");
    let stacks: Vec<u32> = events
        .filter_map(|event| event.expect("a row").stack)
        .collect();
    let found = stacks
        .iter()
        .filter(|stack| in_tree.contains(stack))
        .count();
    let all = stacks.len();
    assert!(
        all > 500 && found as f64 > 0.3 * all as f64,
        "{found} of {all}"
    );
    assert_eq!(files.len(), 1, "{files:?}");
    machine.assert_restored();
}
